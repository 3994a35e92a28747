"""Nonconformity scores: how badly a label fits a row of logits. Higher is worse.

A score is a *pair* (value, refine) ordered lexicographically. `value` is the paper's number, for reading.
Near 1 (and near 1 + penalty for RAPS) float64 cannot tell values apart any more, and ties there cost coverage
at low temperatures; `refine`, the log-odds of the mass behind the value, still can. Both come from one formula
for each score, of

    rank    L, 1 for the top class
    own     log weight of the label, (z_(L) - z_(1)) / T
    above   log of the summed weights of ranks 1 .. L-1 (-inf for the top class)
    below   log of the summed weights of ranks L+1 .. C
    rest    log of the summed weights of ranks 2 .. C
    u       the row's uniform number; 1 makes the score deterministic

which needs no normaliser: in odds the softmax denominator cancels.

To add a score: write its formula and its record here, give it a branch in `score_at` and a line in `SCORES`,
and the contract tests collect it. Within a row the pair must not fall as the rank grows: sets are prefixes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from thermoset.errors import InputError
from thermoset.kernels import kernel, log_add

__all__ = ["APS", "LAC", "RAPS", "SAPS", "SCORES", "Score", "resolve", "score_at"]

_LAC, _APS, _RAPS, _SAPS = range(4)


@kernel
def _share(log_odds: float) -> float:
    """The share of mass with these log-odds, exact at both ends."""
    if log_odds > 0.0:
        return 1.0 - math.exp(-log_odds) / (1.0 + math.exp(-log_odds))
    return math.exp(log_odds) / (1.0 + math.exp(log_odds))


@kernel
def _lac(rank: int, own: float, rest: float) -> tuple[float, float]:
    """Score 1 - p_y. The mass of the others never comes from a sum that holds the label's own mass at half or more."""
    others = rest if rank == 1 and rest < 0.0 else math.log(1.0 + math.exp(rest) - math.exp(own))
    log_odds = others - own
    return _share(log_odds), log_odds


@kernel
def _aps(own: float, above: float, below: float, u: float) -> tuple[float, float]:
    """Score sum_{i<L} p_(i) + u p_(L) (paper, section 2.2; randomised as in Romano et al. 2020)."""
    inside = log_add(above, own + math.log(u)) if u > 0.0 else above
    outside = log_add(below, own + math.log1p(-u)) if u < 1.0 else below
    log_odds = inside - outside
    return _share(log_odds), log_odds


@kernel
def _raps(
    rank: int, own: float, above: float, below: float, u: float, penalty: float, k_reg: float, randomize: float
) -> tuple[float, float]:
    """APS + penalty (L - k_reg)_+; the published code also randomises the last step of the penalty."""
    share, log_odds = _aps(own, above, below, u)
    excess = max(rank - k_reg, 0.0)
    if excess > 0.0:
        excess -= randomize * (1.0 - u)
    return share + penalty * excess, log_odds


@kernel
def _saps(rank: int, rest: float, u: float, weight: float) -> tuple[float, float]:
    """Score u p_(1) for the top class, else p_(1) + (L - 2 + u) weight (Huang et al. 2024)."""
    share = _share(-rest)
    if rank == 1:
        return u * share, -rest
    return share + (rank - 2.0 + u) * weight, -rest


@kernel
def score_at(
    code: int,
    parameters: tuple[float, float, float],
    rank: int,
    own: float,
    above: float,
    below: float,
    rest: float,
    u: float,
) -> tuple[float, float]:
    """Pair (value, refine) of the label at `rank`; a masked class (own = -inf) is beyond every finite threshold."""
    if own == -np.inf:
        return np.inf, np.inf
    if code == _LAC:
        return _lac(rank, own, rest)
    if code == _APS:
        return _aps(own, above, below, u)
    if code == _RAPS:
        return _raps(rank, own, above, below, u, parameters[0], parameters[1], parameters[2])
    return _saps(rank, rest, u, parameters[0])


@dataclass(frozen=True)
class Score:
    """What a score is to the engine: a branch of `score_at`, its parameters, and whether u matters."""

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
