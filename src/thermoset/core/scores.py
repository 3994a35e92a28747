"""Nonconformity scores: how badly a label fits a row of logits. Higher is worse.

A score is a *pair* (value, refine) ordered lexicographically. `value` is the paper's number. Near 1 (and near
1 + penalty for RAPS) float64 cannot tell values apart any more, and ties there cost coverage at low temperatures;
`refine`, made of the log of the mass that is left, still can. Formulas are written in

    rank    L, 1 for the top class
    low     share of the row's mass on ranks 1 .. L-1
    own     share of the label itself
    tail    share of ranks L+1 .. C
    top     share of the top class; the others together have `rest`
    u       the row's uniform number; 1 makes the score deterministic

To add a compiled score: write its value, its refinement and its record here, give it a code, a branch in
`score_value` and `score_refine` and a line in `SCORES`; the contract tests collect it. The record must state its
`step`, the most that one rank adds to the value by itself: bounds of rounding errors rest on it. Within a row the pair
must not fall as the rank grows: sets are prefixes. For the sweep the value must also be affine in u, and over all u a
rank's values must not reach into the next rank's: at most one label of a row depends on u.

A plain score is NumPy on sorted rows, promises none of this, and takes the general path (`core.general`), which is
slower: derive from `PlainScore`, or give `method=` a function.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from thermoset.bounds import real_number
from thermoset.core.compiling import part
from thermoset.core.exponentials import Floats, Ints, log_add
from thermoset.core.masses import Shares
from thermoset.core.plain import SortedRows, margin
from thermoset.errors import InputError

__all__ = [
    "APS",
    "LAC",
    "RAPS",
    "SAPS",
    "SCORES",
    "Cut",
    "Formula",
    "Formulas",
    "Margin",
    "OwnScore",
    "PlainScore",
    "Score",
    "ScoreLike",
    "TopK",
    "formula_at",
    "formulas",
    "label_refine",
    "label_value",
    "lets_in",
    "resolve",
    "rounding",
    "score_refine",
    "score_value",
]

_CODES = range(5)
_LAC, _APS, _RAPS, _SAPS, _TOPK = _CODES


@part
def _lac(low: float, own: float, tail: float) -> float:
    """Score 1 - p_y, never as one minus something near one."""
    return 1.0 - own if own <= 0.5 else low + tail


@part
def _aps(low: float, own: float, tail: float, u: float) -> float:
    """Score sum_{i<L} p_(i) + u p_(L) (paper, section 2.2; randomised as in Romano et al. 2020)."""
    inside, outside = low + u * own, tail + (1.0 - u) * own
    return inside if inside <= outside else 1.0 - outside


@part
def _raps_penalty(rank: int, u: float, penalty: float, k_reg: float, randomize: float) -> float:
    """Penalty (L - k_reg)_+ that RAPS adds to APS; the published code multiplies its last step by u."""
    excess = max(rank - k_reg, 0.0)
    if excess > 0.0:
        excess -= randomize * (1.0 - u)
    return penalty * excess


@part
def _saps(rank: int, top: float, u: float, weight: float) -> float:
    """Score u p_(1) for the top class, else p_(1) + (L - 2 + u) weight (Huang et al. 2024)."""
    return u * top if rank == 1 else top + (rank - 2.0 + u) * weight


class Formula(NamedTuple):
    """A score as kernels know it: which branch, its parameters, and the most that a rank adds to the value by itself.

    The step bounds the rounding error of a value: it is not larger than that of C steps and a sum of C shares.
    """

    code: int
    parameters: tuple[float, float, float]
    step: float


class Formulas(NamedTuple):
    """Several scores: codes (m,), parameters (m, 3), steps (m,)."""

    code: Ints
    parameters: Floats
    step: Floats


@part
def formula_at(formulas: Formulas, m: int) -> Formula:
    """One of several."""
    given = formulas.parameters[m]
    return Formula(formulas.code[m], (given[0], given[1], given[2]), formulas.step[m])


@part
def rounding(formula: Formula, n_classes: int) -> float:
    """What bounds the rounding error of a value made of sums of `n_classes` shares and steps."""
    return 4e-16 * (n_classes + 64) * (1.0 + formula.step * n_classes)


@part
def score_value(formula: Formula, rank: int, shares: Shares, u: float) -> float:
    """Value of the score of the label at `rank`; its logs are not looked at."""
    if formula.code == _LAC:
        return _lac(shares.low, shares.own, shares.tail)
    if formula.code == _SAPS:
        return _saps(rank, shares.top, u, formula.parameters[0])
    if formula.code == _TOPK:
        return rank + u
    share = _aps(shares.low, shares.own, shares.tail, u)
    if formula.code == _APS:
        return share
    penalty, k_reg, randomize = formula.parameters
    return share + _raps_penalty(rank, u, penalty, k_reg, randomize)


@part
def score_refine(formula: Formula, shares: Shares, u: float) -> float:
    """What orders labels of equal value: rises with the score, and resolves shares that underflow."""
    if formula.code == _LAC:  # log-odds of the others' mass: values near 0 saturate too, where the others underflow
        return (math.log1p(-shares.own) if shares.own <= 0.5 else shares.log_tail) - shares.log_own
    if formula.code in (_SAPS, _TOPK):  # the same in all of a row: it only tells rows apart that have the same u
        return -shares.log_rest
    return -log_add(shares.log_tail, shares.log_own + math.log1p(-u)) if u < 1.0 else -shares.log_tail


@part
def label_value(formula: Formula, rank: int, shares: Shares, u: float) -> float:
    """Value of a label that may be masked: a masked class is beyond every finite threshold."""
    return np.inf if shares.log_own == -np.inf else score_value(formula, rank, shares, u)


@part
def label_refine(formula: Formula, shares: Shares, u: float) -> float:
    """Refinement of a label that may be masked."""
    return np.inf if shares.log_own == -np.inf else score_refine(formula, shares, u)


class Cut(NamedTuple):
    """A threshold, as the pair that scores are compared with."""

    value: float
    refine: float


@part
def lets_in(cut: Cut, formula: Formula, rank: int, shares: Shares, u: float) -> bool:
    """Whether the label's score, as a pair, is at most the threshold; logarithms are taken only where values tie."""
    value = label_value(formula, rank, shares, u)
    if value == cut.value:
        return label_refine(formula, shares, u) <= cut.refine
    return value < cut.value


@dataclass(frozen=True)
class Score:
    """What a score is to the core: a branch of its formulas, their parameters, and whether u matters.

    `compiled` says which path it takes: kernels, which need its formula, or the general one, which needs its pairs.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    uses_u: ClassVar[bool] = True
    compiled: ClassVar[bool] = True

    @property
    def parameters(self) -> tuple[float, float, float]:
        """The numbers the formula takes."""
        return (0.0, 0.0, 0.0)

    @property
    def step(self) -> float:
        """The most that one rank adds to the value by itself, beside the shares of the ranks above it."""
        return 0.0

    @property
    def formula(self) -> Formula:
        """The record that kernels take."""
        if not self.compiled:
            known = ", ".join(repr(name) for name, score in SCORES.items() if score.compiled)
            raise InputError(f"score {self.name!r} is not compiled, and this needs a score that is: {known}.")
        code = getattr(self, "code", -1)
        if code not in _CODES:
            raise InputError(
                f"{type(self).__name__} has the code {code!r}, which no formula has. Use a score of SCORES."
            )
        return Formula(code, self.parameters, self.step)

    def pairs(self, rows: SortedRows) -> object:
        """Value, or (value, refine), of every rank of sorted rows, each (n, C): what the general path takes."""
        raise NotImplementedError(f"{type(self).__name__} has no pairs(rows): a plain score must define it.")


def formulas(scores: Sequence[Score]) -> Formulas:
    """Several scores as one record of arrays."""
    found = [score.formula for score in scores]
    return Formulas(
        np.array([one.code for one in found]),
        np.array([one.parameters for one in found]),
        np.array([one.step for one in found]),
    )


@dataclass(frozen=True)
class LAC(Score):
    """Least ambiguous classifier (Sadinle et al. 2019): s = 1 - p_y. The smallest sets; no randomisation.

    >>> LAC()
    LAC()
    """

    name: ClassVar[str] = "lac"
    code: ClassVar[int] = _LAC
    uses_u: ClassVar[bool] = False


@dataclass(frozen=True)
class APS(Score):
    """Adaptive prediction sets (Romano et al. 2020): the mass of the label and of all ranked above it.

    >>> APS()
    APS()
    """

    name: ClassVar[str] = "aps"
    code: ClassVar[int] = _APS


_LARGEST = 1e9  # of a parameter: beyond every number of classes, and times that still far from where floats end


def _require_nonnegative(what: str, value: object, remedy: str) -> None:
    real_number(value, what, 0, _LARGEST, f"a finite number >= 0, up to {_LARGEST:g}", remedy)


@dataclass(frozen=True)
class RAPS(Score):
    """Regularised APS (Angelopoulos et al. 2021): APS + penalty (L - k_reg)_+.

    `randomize_penalty=True` multiplies the label's own step of the penalty by u too, as the published code
    does; `SCORES["raps_published"]` is that one.

    >>> RAPS()
    RAPS(penalty=0.01, k_reg=5, randomize_penalty=False)
    >>> RAPS(penalty=-1)
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: RAPS penalty must be a finite number >= 0, up to 1e+09; got -1. Published: 0.01.
    """

    name: ClassVar[str] = "raps"
    code: ClassVar[int] = _RAPS
    penalty: float = 0.01
    k_reg: int = 5
    randomize_penalty: bool = False

    def __post_init__(self) -> None:
        _require_nonnegative("RAPS penalty", self.penalty, "Published: 0.01.")
        _require_nonnegative("RAPS k_reg", self.k_reg, "Published: 5.")
        if not isinstance(self.randomize_penalty, bool):
            raise InputError(f"RAPS randomize_penalty must be True or False; got {self.randomize_penalty!r}.")

    @property
    def parameters(self) -> tuple[float, float, float]:
        """Penalty, k_reg, and 1 when the penalty is randomised too."""
        return (float(self.penalty), float(self.k_reg), float(self.randomize_penalty))

    @property
    def step(self) -> float:
        """The penalty of a rank."""
        return float(self.penalty)


@dataclass(frozen=True)
class SAPS(Score):
    """Sorted adaptive prediction sets (Huang et al. 2024): keeps the top probability, replaces the rest by ranks.

    >>> SAPS()
    SAPS(weight=0.2)
    """

    name: ClassVar[str] = "saps"
    code: ClassVar[int] = _SAPS
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


@dataclass(frozen=True)
class TopK(Score):
    """The rank of the label, made distinct by u: sets of k or k + 1 top labels, and u says which rows get one more.

    >>> TopK()
    TopK()
    """

    name: ClassVar[str] = "topk"
    code: ClassVar[int] = _TOPK

    @property
    def step(self) -> float:
        """One rank."""
        return 1.0


@dataclass(frozen=True)
class PlainScore(Score):
    """A score in plain NumPy, for those who write their own: define `name` and `pairs`.

    `pairs` is given `SortedRows`, which beside probabilities hold logarithms that do not underflow, and returns the
    value, or (value, refine) with a second number that decides where values are equal. Higher is worse.

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
    uses_u: ClassVar[bool] = False

    def pairs(self, rows: SortedRows) -> object:
        """See `core.plain.margin`."""
        return margin(rows)


class OwnScore(PlainScore):
    """A function (probs, rank, u) as a score; `method=function` makes it by itself.

    probs (n, C) are each row's probabilities in falling order, rank (C,) counts from 1, u is (n, 1). The function
    returns values (n, C), or a pair (value, refine) of such arrays, and must depend on nothing else. `uses_u=False`
    says that it does not look at u. `thermoset.testing.check_score` tries it out. Two are equal if their functions and
    names are. The name must not be one of `SCORES`; a predictor with such a score cannot be saved.

    >>> OwnScore(lambda probs, rank, u: rank - u * probs, "ranks")
    OwnScore('ranks')
    """

    function: Callable[..., Any]

    def __init__(self, function: Any, name: str | None = None, *, uses_u: bool = True) -> None:
        if not callable(function) or isinstance(function, type):
            raise InputError(f"a score of your own must be a function (probs, rank, u); got {function!r}.")
        given = getattr(function, "__name__", type(function).__name__) if name is None else name
        if given in SCORES:
            raise InputError(f"{given!r} is a score of thermoset already. Try OwnScore(function, 'my_{given}').")
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


ScoreLike = str | Score | Callable[..., Any]
"""What `method=` takes: a name of `SCORES`, a score object, or a function (probs, rank, u)."""

SCORES: Mapping[str, Score] = MappingProxyType(
    {
        "lac": LAC(),
        "aps": APS(),
        "raps": RAPS(),
        "raps_published": RAPS(randomize_penalty=True),
        "saps": SAPS(),
        "topk": TopK(),
        "margin": Margin(),
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
    remedy = "A function (probs, rank, u) makes a score of your own."
    raise InputError(f"method must be a score object or one of {names}; got {method!r}. {remedy}")
