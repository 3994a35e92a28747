"""Nonconformity scores: how badly a label fits a row of logits. Higher is worse.

To add a compiled score: write its value and its refinement in `core.formulas`, with a code and a branch in
`score_value` and `score_refine`, and its record here, with a line in `SCORES`; the contract tests
collect it. The record must state its `step`, the most that one rank adds to the value by itself: bounds of rounding
errors rest on it. Within a row the pair must not fall as the rank grows: sets are prefixes. For the sweep the value
must also be affine in u, and over all u a rank's values must not reach into the next rank's: at most one label of a row
depends on u.

A score may also treat classes differently, whatever the row (`Score.offsets`): PAS adds a number for each class. Its
sets are no prefixes any more (`by_rank` is False), and take the path of thresholds by class.

A plain score is NumPy on sorted rows, promises none of this, and takes the general path (`core.general`), which is
slower: derive from `PlainScore`, or give `method=` a function.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from thermoset.bounds import real_number
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.formulas import (
    CODE_APS,
    CODE_LAC,
    CODE_PAS,
    CODE_RAPS,
    CODE_SAPS,
    CODE_TOPK,
    Formula,
    Formulas,
)
from thermoset.core.plain import SortedRows, margin
from thermoset.core.priors import checked_prior, log_prior, smoothed_counts
from thermoset.core.score import Score
from thermoset.errors import InputError

__all__ = [
    "APS",
    "LAC",
    "PAS",
    "RAPS",
    "SAPS",
    "SCORES",
    "Margin",
    "NeverEmpty",
    "OwnScore",
    "PlainScore",
    "Score",
    "ScoreLike",
    "TopK",
    "formulas",
    "resolve",
]


def formulas(scores: Sequence[Score]) -> Formulas:
    """Several scores as one record of arrays."""
    found = [score.formula for score in scores]
    return Formulas(
        np.array([one.code for one in found]),
        np.array([one.parameters for one in found]),
        np.array([one.step for one in found]),
        np.array([one.keep_top for one in found]),
    )


@dataclass(frozen=True)
class LAC(Score):
    """Least ambiguous classifier (Sadinle et al. 2019): s = 1 - p_y. The smallest sets; no randomisation.

    >>> LAC()
    LAC()
    """

    name: ClassVar[str] = "lac"
    code: ClassVar[int] = CODE_LAC
    uses_u: ClassVar[bool] = False


@dataclass(frozen=True)
class APS(Score):
    """Adaptive prediction sets (Romano et al. 2020): the mass of the label and of all ranked above it.

    >>> APS()
    APS()
    """

    name: ClassVar[str] = "aps"
    code: ClassVar[int] = CODE_APS


_LARGEST = 1e9  # of a parameter: beyond every number of classes, and times that still far from where floats end


def _require_nonnegative(what: str, value: object, remedy: str) -> None:
    real_number(value, what, 0, _LARGEST, f"a finite number >= 0, up to {_LARGEST:g}", remedy)


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
    code: ClassVar[int] = CODE_RAPS
    penalty: float = 0.01
    k_reg: int = 5

    def __post_init__(self) -> None:
        _require_nonnegative("RAPS penalty", self.penalty, "Published: 0.01.")
        _require_nonnegative("RAPS k_reg", self.k_reg, "Published: 5.")

    @property
    def parameters(self) -> tuple[float, float, float]:
        """Penalty, k_reg, and the part of the label's own step that u multiplies: none."""
        return (float(self.penalty), float(self.k_reg), 0.0)

    @property
    def step(self) -> float:
        """The penalty of a rank."""
        return float(self.penalty)

    def largest(self, n_classes: int) -> float:
        """1 + penalty (C - k_reg)."""
        return 1.0 + self.penalty * max(n_classes - self.k_reg, 0)


@dataclass(frozen=True)
class SAPS(Score):
    """Sorted adaptive prediction sets (Huang et al. 2024): keeps the top probability, replaces the rest by ranks.

    >>> SAPS()
    SAPS(weight=0.2)
    """

    name: ClassVar[str] = "saps"
    code: ClassVar[int] = CODE_SAPS
    weight: float = 0.2

    def __post_init__(self) -> None:
        _require_nonnegative("SAPS weight", self.weight, "The default is 0.2.")

    @property
    def parameters(self) -> tuple[float, float, float]:
        """The weight of a rank."""
        return (float(self.weight), 0.0, 0.0)

    @property
    def step(self) -> float:
        """The weight of a rank."""
        return float(self.weight)

    def largest(self, n_classes: int) -> float:
        """1 + (C - 1) weight."""
        return 1.0 + (n_classes - 1) * self.weight


@dataclass(frozen=True)
class TopK(Score):
    """The rank of the label, made distinct by u: sets of k or k + 1 top labels; u decides which rows get one more.

    >>> TopK()
    TopK()
    """

    name: ClassVar[str] = "topk"
    code: ClassVar[int] = CODE_TOPK

    @property
    def step(self) -> float:
        """One rank."""
        return 1.0

    def largest(self, n_classes: int) -> float:
        """The last rank, at u = 1."""
        return n_classes + 1.0


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
    code: ClassVar[int] = CODE_PAS
    uses_u: ClassVar[bool] = False
    by_rank: ClassVar[bool] = False
    logarithmic: ClassVar[bool] = True
    prior: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.prior is not None:
            object.__setattr__(self, "prior", checked_prior(self.prior))  # scores are frozen

    def __repr__(self) -> str:
        if self.prior is None:
            return "PAS()"
        return f"PAS(prior={self.prior if len(self.prior) <= _SHOWN else f'<{len(self.prior)} numbers>'})"

    @property
    def learns(self) -> bool:
        """Whether the prior is still to be estimated."""
        return self.prior is None

    def learned(self, labels: Ints, n_classes: int) -> "PAS":
        """The same with the shares of the labels, each class with half a row more, where no prior was given."""
        return PAS(smoothed_counts(labels, n_classes)) if self.prior is None else self

    def largest(self, n_classes: int) -> float:  # noqa: ARG002
        """Infinite: -p / prior is at most 0."""
        return math.inf

    def offsets(self, n_classes: int) -> Floats:
        """The log of the prior of each class."""
        if self.prior is None:
            return super().offsets(n_classes)
        if len(self.prior) != n_classes:
            raise InputError(f"PAS prior must be one number for each of {n_classes} classes; got {len(self.prior)}.")
        return log_prior(self.prior)


_SHOWN = 10  # numbers of a prior that are written out


@dataclass(frozen=True)
class PlainScore(Score):
    """Base class of a custom score in plain NumPy: define `name` and `pairs`.

    `pairs` receives `SortedRows`, which hold probabilities and their logarithms (which do not underflow), and returns
    the value, or (value, refine) with a second number that decides where values are equal. Higher is worse.

    >>> class Odds(PlainScore):
    ...     name, uses_u = "odds", False
    ...
    ...     def pairs(self, rows):
    ...         return -rows.gaps
    >>> Odds().compiled
    False
    """

    compiled: ClassVar[bool] = False

    def largest(self, n_classes: int) -> float:  # noqa: ARG002
        """Not known."""
        return math.inf


@dataclass(frozen=True)
class Margin(PlainScore):
    """The largest other probability minus the label's own: p_(2) - p_(1) for the top label, else p_(1) - p_y.

    >>> Margin()
    Margin()
    """

    name: ClassVar[str] = "margin"
    uses_u: ClassVar[bool] = False

    def largest(self, n_classes: int) -> float:  # noqa: ARG002
        """That of p_(1) - p_y."""
        return 1.0

    def pairs(self, rows: SortedRows) -> object:
        """See `core.plain.margin`."""
        return margin(rows)


class OwnScore(PlainScore):
    """A function (probs, rank, u) as a score; `method=function` creates one automatically.

    probs (n, C) are each row's probabilities in falling order, rank (C,) counts from 1, u is (n, 1). The function
    returns values (n, C), or a pair (value, refine) of such arrays, and must depend on nothing else. `uses_u=False`
    declares that it ignores u. `thermoset.testing.check_score` tests it. Two are equal if their functions and names are
    equal. The name must not be one of `SCORES`; a predictor with such a score cannot be saved.

    >>> OwnScore(lambda probs, rank, u: rank - u * probs, "ranks")
    OwnScore('ranks')
    """

    function: Callable[..., Any]

    def __init__(self, function: Any, name: str | None = None, *, uses_u: bool = True) -> None:
        if not callable(function) or isinstance(function, type):
            raise InputError(f"a custom score must be a function (probs, rank, u); got {function!r}.")
        given = getattr(function, "__name__", type(function).__name__) if name is None else name
        if given in SCORES:
            raise InputError(f"{given!r} is already a built-in score. Try OwnScore(function, 'my_{given}').")
        for field, value in (("function", function), ("name", given), ("uses_u", uses_u)):
            object.__setattr__(self, field, value)  # scores are frozen

    def __repr__(self) -> str:
        return f"OwnScore({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnScore) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def _parts(self) -> tuple[object, ...]:
        return self.function, self.name, self.uses_u

    def pairs(self, rows: SortedRows) -> object:
        """What the function says."""
        return self.function(rows.probs, rows.rank, rows.u)


@dataclass(frozen=True)
class NeverEmpty(Score):
    """A score with the top label below everything, in fit as in prediction: `allow_empty=False`.

    Rows whose label is their top label then count as (-inf, -inf) among the conformal scores, and the top label is in
    every set.

    >>> NeverEmpty(APS()).formula.keep_top, NeverEmpty(Margin()).compiled
    (True, False)
    """

    keep_top: ClassVar[bool] = True
    of: Score

    def __post_init__(self) -> None:
        for field in ("name", "uses_u", "compiled", "by_rank", "logarithmic"):
            object.__setattr__(self, field, getattr(self.of, field))  # scores are frozen

    @property
    def formula(self) -> Formula:
        """That of the score, with the top label kept."""
        return self.of.formula._replace(keep_top=True)

    def largest(self, n_classes: int) -> float:
        """That of the score."""
        return self.of.largest(n_classes)

    def offsets(self, n_classes: int) -> Floats:
        """Those of the score."""
        return self.of.offsets(n_classes)

    def pairs(self, rows: SortedRows) -> object:
        """Those of the score; the general path puts the top label below them."""
        return self.of.pairs(rows)


ScoreLike = str | Score | Callable[..., Any]
"""What `method=` takes: a name of `SCORES`, a score object, or a function (probs, rank, u)."""

SCORES: Mapping[str, Score] = MappingProxyType(
    {
        "lac": LAC(),
        "aps": APS(),
        "raps": RAPS(),
        "saps": SAPS(),
        "topk": TopK(),
        "margin": Margin(),
        "pas": PAS(),
    }
)
"""Every score by the name that `method=` takes."""


def resolve(method: ScoreLike) -> Score:
    """Turn a name, a score object or a function into the score.

    >>> resolve("saps")
    SAPS(weight=0.2)
    >>> resolve("apps")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: method must be a score object or one of 'lac', 'aps', 'raps', ...; got 'apps'. ...
    """
    if isinstance(method, Score):
        return method
    if isinstance(method, str) and method in SCORES:
        return SCORES[method]
    if callable(method) and not isinstance(method, type):
        return OwnScore(method)
    names = ", ".join(repr(name) for name in SCORES)
    remedy = "For a custom score, pass a function (probs, rank, u)."
    raise InputError(f"method must be a score object or one of {names}; got {method!r}. {remedy}")
