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

To add a score: write its value, its refinement and its record here, give it a branch in `score_value` and
`score_refine` and a line in `SCORES`; the contract tests collect it. Within a row the pair must not fall as the
rank grows: sets are prefixes. For the sweep the value must also be affine in u, and over all u a rank's values must
not reach into the next rank's: at most one label of a row depends on u.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from thermoset.compiled import kernel
from thermoset.errors import InputError
from thermoset.kernels import log_add

__all__ = ["APS", "LAC", "RAPS", "SAPS", "SCORES", "Score", "resolve", "score_refine", "score_value"]

_LAC, _APS, _RAPS, _SAPS = range(4)


@kernel
def _lac(low: float, own: float, tail: float) -> float:
    """Score 1 - p_y, never as one minus something near one."""
    return 1.0 - own if own <= 0.5 else low + tail


@kernel
def _aps(low: float, own: float, tail: float, u: float) -> float:
    """Score sum_{i<L} p_(i) + u p_(L) (paper, section 2.2; randomised as in Romano et al. 2020)."""
    inside, outside = low + u * own, tail + (1.0 - u) * own
    return inside if inside <= outside else 1.0 - outside


@kernel
def _raps_penalty(rank: int, u: float, penalty: float, k_reg: float, randomize: float) -> float:
    """Penalty (L - k_reg)_+ that RAPS adds to APS; the published code multiplies its last step by u."""
    excess = max(rank - k_reg, 0.0)
    if excess > 0.0:
        excess -= randomize * (1.0 - u)
    return penalty * excess


@kernel
def _saps(rank: int, top: float, u: float, weight: float) -> float:
    """Score u p_(1) for the top class, else p_(1) + (L - 2 + u) weight (Huang et al. 2024)."""
    return u * top if rank == 1 else top + (rank - 2.0 + u) * weight


@kernel
def score_value(
    code: int,
    parameters: tuple[float, float, float],
    rank: int,
    low: float,
    own: float,
    tail: float,
    top: float,
    u: float,
) -> float:
    """Value of the score of the label at `rank`."""
    if code == _LAC:
        return _lac(low, own, tail)
    if code == _SAPS:
        return _saps(rank, top, u, parameters[0])
    share = _aps(low, own, tail, u)
    if code == _APS:
        return share
    return share + _raps_penalty(rank, u, parameters[0], parameters[1], parameters[2])


@kernel
def score_refine(code: int, own: float, log_own: float, log_tail: float, log_rest: float, u: float) -> float:
    """What orders labels of equal value: rises with the score, and resolves shares that underflow."""
    if code == _LAC:  # log-odds of the others' mass: values near 0 saturate as well, where the others underflow
        return (math.log1p(-own) if own <= 0.5 else log_tail) - log_own
    if code == _SAPS:
        return -log_rest
    return -log_add(log_tail, log_own + math.log1p(-u)) if u < 1.0 else -log_tail


@dataclass(frozen=True)
class Score:
    """What a score is to the engine: a branch of its formulas, their parameters, and whether u matters."""

    name: ClassVar[str]
    code: ClassVar[int]
    uses_u: ClassVar[bool] = True

    @property
    def parameters(self) -> tuple[float, float, float]:
        """The numbers the formula takes."""
        return (0.0, 0.0, 0.0)


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


def _require_nonnegative(what: str, value: object, remedy: str) -> None:
    if not (isinstance(value, int | float | np.number) and math.isfinite(value) and value >= 0):
        raise InputError(f"{what} must be a finite number >= 0; got {value!r}. {remedy}")


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
    thermoset.errors.InputError: RAPS penalty must be a finite number >= 0; got -1. The published code uses 0.01.
    """

    name: ClassVar[str] = "raps"
    code: ClassVar[int] = _RAPS
    penalty: float = 0.01
    k_reg: int = 5
    randomize_penalty: bool = False

    def __post_init__(self) -> None:
        _require_nonnegative("RAPS penalty", self.penalty, "The published code uses 0.01.")
        _require_nonnegative("RAPS k_reg", self.k_reg, "The published code uses 5.")
        if not isinstance(self.randomize_penalty, bool):
            raise InputError(f"RAPS randomize_penalty must be True or False; got {self.randomize_penalty!r}.")

    @property
    def parameters(self) -> tuple[float, float, float]:
        """Penalty, k_reg, and 1 when the penalty is randomised too."""
        return (float(self.penalty), float(self.k_reg), float(self.randomize_penalty))


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


SCORES: Mapping[str, Score] = MappingProxyType(
    {
        "lac": LAC(),
        "aps": APS(),
        "raps": RAPS(),
        "raps_published": RAPS(randomize_penalty=True),
        "saps": SAPS(),
    }
)
"""Every score by the name that `method=` takes."""


def resolve(method: str | Score) -> Score:
    """Turn a name or a score object into the score.

    >>> resolve("saps")
    SAPS(weight=0.2)
    >>> resolve("apps")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: method must be a score object or one of 'lac', 'aps', 'raps', ...; got 'apps'.
    """
    if isinstance(method, Score):
        return method
    if method in SCORES:
        return SCORES[method]
    names = ", ".join(repr(name) for name in SCORES)
    raise InputError(f"method must be a score object or one of {names}; got {method!r}.")
