"""Nonconformity scores: how badly a label fits a row of logits. Higher is worse.

A compiled score is a branch of `kernels.line` and `kernels.tie_break`; a plain one is NumPy on sorted rows: every label
of every row is scored, which is slower. docs/architecture.md says how to add one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from thermoset import kernels
from thermoset.arrays import Bools, Floats, Ints, Pairs, pairs
from thermoset.bounds import real_number
from thermoset.errors import InputError
from thermoset.kernels import Terms
from thermoset.plain_scores import SortedRows, distances_below_top, require_three_arguments
from thermoset.quoting import quoted


@dataclass(frozen=True)
class Score:
    """A nonconformity score, with what other parts of the library must know of it.

    Within a row the pair (value, tie-break) of a compiled score must not fall as the rank grows. Over u a rank's values
    are affine, and do not reach into those of the next rank: at most one label of a row depends on u.
    """

    name: ClassVar[str]  # the value for `method=`, and its name in tables
    code: ClassVar[int] = -1  # its branch in the kernels, if it is compiled
    uses_u: ClassVar[bool] = True  # whether the value depends on u
    compiled: ClassVar[bool] = True
    keep_top: ClassVar[bool] = False  # whether the top label is below everything; see `NeverEmpty`
    by_rank: ClassVar[bool] = True  # whether classes matter by their ranks alone, and not by themselves
    by_share: ClassVar[bool] = False  # whether values depend on a label's probability alone: rows need no sorting
    logarithmic: ClassVar[bool] = False  # whether the value is minus the log of what the published score is linear in
    # Whether the value rises, or falls, with the mass of classes ranked below the known ones: bounds for rows of
    # largest logits rest on it. None if neither is known.
    rises_with_rest: ClassVar[bool | None] = None
    look: ClassVar[int] = -1  # the place of its colour, mark and dash in `looks`; scores of one's own share a grey
    export_sorts: ClassVar[bool] = False  # whether engines such as ONNX and torch must sort rows
    export_values: ClassVar[bool] = True  # whether they compare values, or tie-breaks alone
    # How they compare tie-breaks: by the log-odds of the others ("odds"), the mass outside ("left"), the mass below the
    # top class ("rest"), or by `export_within` ("own"). Not inherited: a derived score may compute anything.
    export_tie: ClassVar[str]

    @property
    def prefixes(self) -> bool:
        """Whether sets under one threshold are prefixes of the ranking that kernels find: sweeps rest on it."""
        return self.compiled and self.by_rank

    @property
    def learns(self) -> bool:
        """Whether `fit` has something to estimate before the score is complete; see `learned`."""
        return False

    def learn(self, labels: Ints, n_classes: int) -> "Score":  # noqa: ARG002
        """The score with what it takes from the labels of rows that set no threshold."""
        return self

    def largest(self, n_classes: int) -> float:  # noqa: ARG002
        """The largest value that a label can have; infinite where there is none, or none is known."""
        return 1.0 if self.compiled else math.inf

    def offsets(self, n_classes: int) -> Floats:
        """What the score adds to the value of each class, (C,), whatever the row: nothing, for most."""
        return np.zeros(n_classes)

    @property
    def terms(self) -> Terms:
        """What kernels take."""
        if self.code < 0:
            raise InputError(f"this needs a compiled score, such as 'raps', but score {self.name!r} is not compiled.")
        return Terms(self.code)

    def pairs(self, rows: SortedRows) -> object:
        """Value, or (value, tie-break), of every rank of sorted rows, each (n, C): what plain scores define."""
        raise NotImplementedError(f"{type(self).__name__} has no pairs(rows): a plain score must define it.")

    @property
    def exportable(self) -> bool:
        """Whether its own class says how engines compute it."""
        return "export_tie" in vars(type(self))

    def export_arrays(self, n_classes: int) -> dict[str, Floats]:  # noqa: ARG002
        """What `export_value` looks up by rank: arrays (1, C) by their names."""
        return {}

    def export_ties(self, value: Floats, ties: Floats, offsets: Floats) -> Floats:  # noqa: ARG002
        """Tie-breaks of thresholds as engines compare with them, from the pairs and the offsets of classes."""
        return ties

    def export_value(self, ops: Any, rows: Any, arrays: Mapping[str, Any]) -> Any:
        """Value of each label."""
        raise NotImplementedError

    def export_within(self, ops: Any, rows: Any, weights: Any, bounds: Mapping[str, Any]) -> Any:
        """Whether the tie-break of each label is at most the threshold's, r: of labels, at a scale of weights.

        bounds : "floor" and "ceiling", e**-r and e**r at that scale.
        """
        raise NotImplementedError


def _log_odds(others: Floats) -> Floats:
    """Log-odds of the mass of the others; minus infinity where it would be below 0."""
    with np.errstate(all="ignore"):
        odds = np.log(np.maximum(others, 0.0)) - np.log1p(-others)
    return np.asarray(np.where(others < 1, odds, np.inf))


def _ranks(n_classes: int) -> Floats:
    return np.arange(1.0, n_classes + 1)[None]


_LARGEST = 1e9  # of a parameter: beyond every number of classes, and times that still far from where floats end


def _require_nonnegative(what: str, value: object, remedy: str) -> None:
    real_number(value, what, 0, _LARGEST, f"a finite number >= 0, up to {_LARGEST:g}", remedy)


@dataclass(frozen=True)
class LAC(Score):
    """Least ambiguous classifier (Sadinle et al. 2019): s = 1 - p_y. The smallest sets; no randomisation.

    >>> LAC()
    LAC()
    """

    name: ClassVar[str] = "lac"
    code: ClassVar[int] = kernels.LAC
    look: ClassVar[int] = 0
    uses_u: ClassVar[bool] = False
    by_share: ClassVar[bool] = True
    rises_with_rest: ClassVar[bool | None] = True
    export_values: ClassVar[bool] = False  # tie-breaks order labels as values do
    export_tie: ClassVar[str] = "odds"

    def export_ties(self, value: Floats, ties: Floats, offsets: Floats) -> Floats:  # noqa: ARG002
        """Log-odds that say the same as the value, where there is no tie-break."""
        return np.where(np.isposinf(ties), _log_odds(value), ties)


@dataclass(frozen=True)
class APS(Score):
    """Adaptive prediction sets (Romano et al. 2020): the mass of the label and of all ranked above it.

    >>> APS()
    APS()
    """

    name: ClassVar[str] = "aps"
    code: ClassVar[int] = kernels.APS
    look: ClassVar[int] = 1
    rises_with_rest: ClassVar[bool | None] = False
    export_sorts: ClassVar[bool] = True
    export_tie: ClassVar[str] = "left"

    def export_value(self, ops: Any, rows: Any, arrays: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """The mass of the label and of all ranked above it."""
        return rows.mass(ops)


@dataclass(frozen=True)
class RAPS(Score):
    """Regularised APS (Angelopoulos et al. 2021): APS + penalty (L - k_reg)_+.

    >>> RAPS()
    RAPS(penalty=0.01, k_reg=5)
    >>> RAPS(penalty=-1)
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: RAPS penalty must be a finite number >= 0, up to 1e+09; got -1. Published: 0.01.
    """

    name: ClassVar[str] = "raps"
    code: ClassVar[int] = kernels.RAPS
    look: ClassVar[int] = 2
    rises_with_rest: ClassVar[bool | None] = False
    export_sorts: ClassVar[bool] = True
    export_tie: ClassVar[str] = "left"
    penalty: float = 0.01
    k_reg: int = 5

    def __post_init__(self) -> None:
        _require_nonnegative("RAPS penalty", self.penalty, "Published: 0.01.")
        _require_nonnegative("RAPS k_reg", self.k_reg, "Published: 5.")

    @property
    def terms(self) -> Terms:
        """What kernels take."""
        return Terms(self.code, float(self.penalty), float(self.k_reg))

    def largest(self, n_classes: int) -> float:
        """1 + penalty (C - k_reg)."""
        return 1.0 + self.penalty * max(n_classes - self.k_reg, 0)

    def export_arrays(self, n_classes: int) -> dict[str, Floats]:
        """The penalty of each rank."""
        return {"penalty": self.penalty * np.maximum(_ranks(n_classes) - self.k_reg, 0.0)}

    def export_value(self, ops: Any, rows: Any, arrays: Mapping[str, Any]) -> Any:
        """That of APS, and the penalty."""
        return rows.mass(ops) + arrays["penalty"]


@dataclass(frozen=True)
class SAPS(Score):
    """Sorted adaptive prediction sets (Huang et al. 2024): keeps the top probability, replaces the rest by ranks.

    >>> SAPS()
    SAPS(weight=0.2)
    """

    name: ClassVar[str] = "saps"
    code: ClassVar[int] = kernels.SAPS
    look: ClassVar[int] = 3
    rises_with_rest: ClassVar[bool | None] = False
    export_sorts: ClassVar[bool] = True
    export_tie: ClassVar[str] = "rest"
    weight: float = 0.2

    def __post_init__(self) -> None:
        _require_nonnegative("SAPS weight", self.weight, "The default is 0.2.")

    @property
    def terms(self) -> Terms:
        """What kernels take."""
        return Terms(self.code, float(self.weight))

    def largest(self, n_classes: int) -> float:
        """1 + (C - 1) weight."""
        return 1.0 + (n_classes - 1) * self.weight

    def export_arrays(self, n_classes: int) -> dict[str, Floats]:
        """What is added at each rank, and how much of it u multiplies."""
        below = _ranks(n_classes) > 1
        added = np.where(below, (_ranks(n_classes) - 2.0) * self.weight, 0.0)
        return {"offset": added, "weight": below * float(self.weight)}

    def export_value(self, ops: Any, rows: Any, arrays: Mapping[str, Any]) -> Any:
        """Of the top label u p_(1); of others p_(1) and their steps."""
        top = 1.0 / rows.total
        return ops.where(rows.first, rows.u * top, top + arrays["offset"] + rows.u * arrays["weight"])


@dataclass(frozen=True)
class TopK(Score):
    """The rank of the label, made distinct by u: sets of k or k + 1 top labels; u decides which rows get one more.

    >>> TopK()
    TopK()
    """

    name: ClassVar[str] = "topk"
    code: ClassVar[int] = kernels.TOPK
    look: ClassVar[int] = 4
    rises_with_rest: ClassVar[bool | None] = False
    export_sorts: ClassVar[bool] = True
    export_tie: ClassVar[str] = "rest"

    @property
    def terms(self) -> Terms:
        """What kernels take."""
        return Terms(self.code, 1.0)

    def largest(self, n_classes: int) -> float:
        """The last rank, at u = 1."""
        return n_classes + 1.0

    def export_arrays(self, n_classes: int) -> dict[str, Floats]:
        """The ranks."""
        return {"rank": _ranks(n_classes)}

    def export_value(self, ops: Any, rows: Any, arrays: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """The rank, and u."""
        return arrays["rank"] + rows.u


_SHOWN = 10  # numbers of a prior that are written out
_SMOOTHING = 0.5  # of a row, added to every class: one that was not seen is rare, not impossible


@dataclass(frozen=True, repr=False)
class PAS(Score):
    """Prevalence-adjusted softmax (Ding et al. 2025): s = -p_y / prior_y. Rare classes need less probability to get in.

    Of all sets of a given average size, those of p_y / prior_y have the largest macro-coverage (the mean over classes
    of class coverage), where probabilities are right. `prior` holds one positive number per class, shares or counts,
    such as those of the training rows. By default, `fit` estimates it from rows that set no threshold: a
    `TwoTemperaturePredictor` from its calibration rows, a `ConformalClassifier` from a fifth of the rows it is given.

    The value is log prior_y - log p_y, which orders labels as s does and never saturates. Before `fit` has estimated
    the prior, it is -log p_y.

    >>> PAS([300, 50])
    PAS(prior=(300.0, 50.0))
    """

    name: ClassVar[str] = "pas"
    code: ClassVar[int] = kernels.PAS
    look: ClassVar[int] = 6
    uses_u: ClassVar[bool] = False
    by_rank: ClassVar[bool] = False
    by_share: ClassVar[bool] = True
    logarithmic: ClassVar[bool] = True
    export_tie: ClassVar[str] = "odds"
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.prior is not None:
            object.__setattr__(self, "prior", _checked_prior(self.prior))  # scores are frozen

    def __repr__(self) -> str:
        if self.prior is None:
            return "PAS()"
        return f"PAS(prior={self.prior if len(self.prior) <= _SHOWN else f'<{len(self.prior)} numbers>'})"

    @property
    def learns(self) -> bool:
        """Whether the prior is still to be estimated."""
        return self.prior is None

    def learn(self, labels: Ints, n_classes: int) -> "PAS":
        """The same with the counts of the labels, each class with half a row more, where no prior was given."""
        if self.prior is not None:
            return self
        return PAS(tuple((np.bincount(labels, minlength=n_classes) + _SMOOTHING).tolist()))

    def largest(self, n_classes: int) -> float:  # noqa: ARG002
        """Infinite: -p / prior is at most 0."""
        return math.inf

    def offsets(self, n_classes: int) -> Floats:
        """The log of the prior of each class, as shares that add up to 1."""
        if self.prior is None:
            return super().offsets(n_classes)
        if len(self.prior) != n_classes:
            raise InputError(f"PAS prior must be one number for each of {n_classes} classes; got {len(self.prior)}.")
        logs = np.log(np.array(self.prior))
        logs -= logs.max()  # or sums may overflow
        return np.asarray(logs - np.log(np.exp(logs).sum()))

    def export_ties(self, value: Floats, ties: Floats, offsets: Floats) -> Floats:
        """Log-odds that say the same as the value, where there is no tie-break."""
        return np.where(np.isposinf(ties), _log_odds(-np.expm1(offsets - value)), ties)

    def export_value(self, ops: Any, rows: Any, arrays: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """-log p; offsets are added by class."""
        return ops.log(rows.total) - rows.gaps


def _checked_prior(prior: Any) -> tuple[float, ...]:
    """Positive finite numbers, one for each class, as they were given: shares or counts."""
    try:
        shares = np.array(prior, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        shares = np.empty(0)
    if shares.ndim != 1 or len(shares) < 2:
        raise InputError(f"prior must be one positive number per class, or None; got {quoted(prior)}.")
    bad = np.flatnonzero(~(np.isfinite(shares) & (shares > 0)))
    if bad.size:
        raise InputError(
            f"prior must be finite and positive for every class; class {bad[0]} has {shares[bad[0]]:g}. With 0 it "
            "would be in every set: give a rare class a small share, or half a row if the others are counts."
        )
    return tuple(shares.tolist())


# ---- plain scores ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlainScore(Score):
    """Base class of a custom score in plain NumPy: define `name` and `pairs`.

    `pairs` receives `SortedRows`, which hold probabilities and their logarithms (which do not underflow), and returns
    the value, or (value, tie-break) with a second number that decides where values are equal. Higher is worse.

    >>> class Odds(PlainScore):
    ...     name, uses_u = "odds", False
    ...
    ...     def pairs(self, rows):
    ...         return -rows.gaps
    >>> Odds().compiled
    False
    """

    compiled: ClassVar[bool] = False


@dataclass(frozen=True)
class Margin(PlainScore):
    """The largest other probability minus the label's own: p_(2) - p_(1) for the top label, else p_(1) - p_y.

    >>> Margin()
    Margin()
    """

    name: ClassVar[str] = "margin"
    look: ClassVar[int] = 5
    uses_u: ClassVar[bool] = False
    export_tie: ClassVar[str] = "own"

    def largest(self, n_classes: int) -> float:  # noqa: ARG002
        """That of p_(1) - p_y."""
        return 1.0

    def pairs(self, rows: SortedRows) -> object:
        """The largest other probability minus the label's own.

        With r the mass of all classes but the top one, 1 + value of the top label is r + p_(2), and 1 - value of
        another is r + p_y: the logs of these resolve values that round to -1 and to 1.
        """
        top, gaps = rows.probs[:, :1], rows.gaps
        others = np.cumsum(rows.probs[:, 1:], axis=1)[:, -1:]
        log_others = np.logaddexp.reduce(gaps[:, 1:], axis=1, keepdims=True) + np.log(top)
        value, tie = distances_below_top((top, others, log_others), rows.probs, gaps)
        value[:, :1], tie[:, :1] = -value[:, 1:2], -tie[:, 1:2]
        return value, tie

    def export_value(self, ops: Any, rows: Any, arrays: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """The largest other probability minus the label's own."""
        second = ops.maximum(ops.where(rows.first, 0.0, rows.weights))
        return ops.where(rows.first, second - 1.0, 1.0 - rows.weights) / rows.total

    def export_within(self, ops: Any, rows: Any, weights: Any, bounds: Mapping[str, Any]) -> Any:
        """With r the mass of all but the top class: log(r + p_(2)) of the top label, and -log(r + p_y) of another."""
        rest, second = rows.rest(ops, weights), ops.maximum(ops.where(rows.first, 0.0, weights))
        first_within = rest + second <= rows.total * bounds["ceiling"]
        return ops.where(rows.first, first_within, rest + weights >= rows.total * bounds["floor"])


class OwnScore(PlainScore):
    """A function (probs, rank, u) as a score; `method=function` creates one automatically.

    probs (n, C) are each row's probabilities in descending order, rank (C,) counts from 1, u is (n, 1). The function
    returns values (n, C), or a pair (value, tie-break) of such arrays, and must depend on nothing else. `uses_u=False`
    declares that it ignores u. `thermoset.testing.check_score` tests it. Two are equal if their functions and names are
    equal. The name must not be one of `SCORES`; a predictor with such a score cannot be saved.

    >>> OwnScore(lambda probs, rank, u: rank - u * probs, "ranks")
    OwnScore('ranks')
    """

    function: Callable[..., Any]

    def __init__(self, function: Any, name: str | None = None, *, uses_u: bool = True) -> None:
        if not callable(function) or isinstance(function, type):
            raise InputError(f"a custom score must be a function (probs, rank, u); got {function!r}.")
        require_three_arguments(function)
        own_name = getattr(function, "__name__", type(function).__name__) if name is None else name
        if own_name in SCORES:
            raise InputError(f"{own_name!r} is already a built-in score. Try OwnScore(function, 'my_{own_name}').")
        for field, value in (("function", function), ("name", own_name), ("uses_u", uses_u)):
            object.__setattr__(self, field, value)  # scores are frozen

    def __repr__(self) -> str:
        return f"OwnScore({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnScore) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.name)

    def pairs(self, rows: SortedRows) -> object:
        """What the function returns."""
        return self.function(rows.probs, rows.rank, rows.u)


# ---- scores built from others ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NeverEmpty(Score):
    """A score with the top label below everything, in fit as in prediction: `allow_empty=False`.

    Rows whose label is their top label then count as (-inf, -inf) among the conformal scores, and the top label is in
    every set.

    >>> NeverEmpty(APS()).terms.keep_top, NeverEmpty(Margin()).compiled
    (True, False)
    """

    keep_top: ClassVar[bool] = True
    of: Score

    def __post_init__(self) -> None:
        for field in ("name", "uses_u", "compiled", "by_rank", "by_share", "logarithmic", "rises_with_rest"):
            object.__setattr__(self, field, getattr(self.of, field))  # scores are frozen

    @property
    def terms(self) -> Terms:
        """Those of the score, with the top label kept."""
        return self.of.terms._replace(keep_top=True)

    def largest(self, n_classes: int) -> float:
        """That of the score."""
        return self.of.largest(n_classes)

    def offsets(self, n_classes: int) -> Floats:
        """Those of the score."""
        return self.of.offsets(n_classes)

    def pairs(self, rows: SortedRows) -> object:
        """Those of the score; `plain_pairs` puts the top label below them."""
        return self.of.pairs(rows)


BEYOND = 1e300
"""The value of labels beyond their rank limit: above all others, and below that of masked classes."""


@dataclass(frozen=True)
class RankLimited(Score):
    """A score under which label y comes after all labels within their limits where it ranks below `limits[y]`.

    >>> RankLimited(LAC(), (1, 2)).prefixes
    False
    """

    compiled: ClassVar[bool] = False
    by_rank: ClassVar[bool] = False
    of: Score
    limits: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in ("name", "uses_u", "keep_top", "logarithmic"):
            object.__setattr__(self, field, getattr(self.of, field))  # scores are frozen

    def largest(self, n_classes: int) -> float:
        """That of the score."""
        return self.of.largest(n_classes)


def move_beyond(scores: Pairs, beyond: Bools) -> Pairs:
    """The scores, those beyond a rank limit as (`BEYOND`, value); masked classes are further out already."""
    moved = beyond & (scores.real < np.inf)
    return pairs(np.where(moved, BEYOND, scores.real), np.where(moved, scores.real, scores.imag))


# ---- names -----------------------------------------------------------------------------------------------------------

ScoreLike = str | Score | Callable[..., Any]
"""What `method=` takes: a name of `SCORES`, a score object, or a function (probs, rank, u)."""

SCORES: Mapping[str, Score] = MappingProxyType(
    {score.name: score for score in (LAC(), APS(), RAPS(), SAPS(), TopK(), Margin(), PAS())}
)
"""Every score by the name that `method=` takes."""

_ALIASES = {"thr": "lac", "threshold": "lac", "top_k": "topk", "top-k": "topk"}
"""What other libraries and papers call scores."""


def resolve(method: ScoreLike) -> Score:
    """Turn a name, a score object or a function into the score.

    >>> resolve("saps"), resolve("THR")
    (SAPS(weight=0.2), LAC())
    >>> resolve("apps")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: method must be a score object or one of 'lac', 'aps', 'raps', ...; got 'apps'. ...
    """
    if isinstance(method, Score):
        return method
    if isinstance(method, str) and (score := SCORES.get(_ALIASES.get(method.lower(), method.lower()))) is not None:
        return score
    if callable(method) and not isinstance(method, type):
        return OwnScore(method)
    names = ", ".join(repr(name) for name in SCORES)
    remedy = "A predictor also takes 'auto'. For a custom score, pass a function (probs, rank, u)."
    raise InputError(f"method must be a score object or one of {names}; got {method!r}. {remedy}")


def stack_terms(scores: Sequence[Score]) -> tuple[Ints, Floats, Bools]:
    """Several compiled scores as kernels take them: codes (M,), parameters (M, 3), and which keep the top (M,)."""
    terms = [score.terms for score in scores]
    parameters = np.array([one[1:4] for one in terms], dtype=np.float64)
    return np.array([one.code for one in terms]), parameters, np.array([one.keep_top for one in terms])
