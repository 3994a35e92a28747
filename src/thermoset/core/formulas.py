"""The formulas of the compiled scores: value and refinement of a label's score from the shares around it.

A score is a *pair* (value, refine) ordered lexicographically. `value` is the paper's number. Near 1 (and near
1 + penalty for RAPS) float64 cannot tell values apart any more, and ties there cost coverage at low temperatures;
`refine`, made of the log of the mass that is left, still can. Formulas are written in

    rank    L, 1 for the top class
    low     share of the row's mass on ranks 1 .. L-1
    own     share of the label itself
    tail    share of ranks L+1 .. C
    top     share of the top class; the others together have `rest`
    u       the row's uniform number; 1 makes the score deterministic

Where sets must not be empty (`Formula.keep_top`), the top label's pair is (-inf, -inf): below every other, in fit as in
prediction, and so inside whatever the threshold.
"""

import math
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import part
from thermoset.core.exponentials import Bools, Floats, Ints, log_add
from thermoset.core.masses import Shares

__all__ = [
    "CODES",
    "CODE_APS",
    "CODE_LAC",
    "CODE_PAS",
    "CODE_RAPS",
    "CODE_SAPS",
    "CODE_TOPK",
    "Cut",
    "Formula",
    "Formulas",
    "Law",
    "fill_values",
    "formula_at",
    "label_refine",
    "label_value",
    "lets_in",
    "rounding",
    "score_refine",
    "score_value",
]

CODES = range(6)
CODE_LAC, CODE_APS, CODE_RAPS, CODE_SAPS, CODE_TOPK, CODE_PAS = CODES


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
def _raps_penalty(rank: int, u: float, penalty: float, k_reg: float, drawn: float) -> float:
    """Penalty (L - k_reg)_+ that RAPS adds to APS; u multiplies the part `drawn` of its last step."""
    excess = max(rank - k_reg, 0.0)
    if excess > 0.0:
        excess -= drawn * (1.0 - u)
    return penalty * excess


@part
def _saps(rank: int, top: float, u: float, weight: float) -> float:
    """Score u p_(1) for the top class, else p_(1) + (L - 2 + u) weight (Huang et al. 2024)."""
    return u * top if rank == 1 else top + (rank - 2.0 + u) * weight


class Formula(NamedTuple):
    """A score as kernels know it: which branch, its parameters, and the most that a rank adds to the value by itself.

    The step bounds the rounding error of a value: it is not larger than that of C steps and a sum of C shares.
    keep_top: whether the top label is below everything.
    """

    code: int
    parameters: tuple[float, float, float]
    step: float
    keep_top: bool


class Law(NamedTuple):
    """A score, and whether u is drawn for it or is 1."""

    formula: Formula
    drawn: bool


class Formulas(NamedTuple):
    """Several scores: codes (m,), parameters (m, 3), steps (m,), whether each keeps the top label (m,)."""

    code: Ints
    parameters: Floats
    step: Floats
    keep_top: Bools


@part
def formula_at(formulas: Formulas, m: int) -> Formula:
    """One of several."""
    given = formulas.parameters[m]
    return Formula(formulas.code[m], (given[0], given[1], given[2]), formulas.step[m], formulas.keep_top[m])


@part
def rounding(formula: Formula, n_classes: int) -> float:
    """What bounds the rounding error of a value made of sums of `n_classes` shares and steps."""
    return 4e-16 * (n_classes + 64) * (1.0 + formula.step * n_classes)


@part
def _is_lowest(formula: Formula, rank: int) -> bool:
    """Whether the label at `rank` is below everything."""
    return formula.keep_top and rank == 1


@part
def score_value(formula: Formula, rank: int, shares: Shares, u: float) -> float:  # noqa: PLR0911 - one a formula
    """Value of the score of the label at `rank`. Of the logs only `log_own` is looked at, and only by PAS."""
    if _is_lowest(formula, rank):
        return -np.inf
    if formula.code == CODE_PAS:
        return -shares.log_own
    if formula.code == CODE_LAC:
        return _lac(shares.low, shares.own, shares.tail)
    if formula.code == CODE_SAPS:
        return _saps(rank, shares.top, u, formula.parameters[0])
    if formula.code == CODE_TOPK:
        return rank + u
    share = _aps(shares.low, shares.own, shares.tail, u)
    if formula.code == CODE_APS:
        return share
    penalty, k_reg, drawn = formula.parameters
    return share + _raps_penalty(rank, u, penalty, k_reg, drawn)


@part
def fill_values(formula: Formula, rank: int, shares: Shares, u: Floats, out: Floats) -> None:
    """`score_value` for many u. LLVM vectorises loops without a choice of formula in them: common ones have one."""
    low, own, tail = shares.low, shares.own, shares.tail
    if _is_lowest(formula, rank):
        out[:] = -np.inf
    elif formula.code == CODE_APS:
        for t in range(u.shape[0]):
            out[t] = _aps(low, own, tail, u[t])
    elif formula.code == CODE_RAPS:
        penalty, k_reg, drawn = formula.parameters
        for t in range(u.shape[0]):
            out[t] = _aps(low, own, tail, u[t]) + _raps_penalty(rank, u[t], penalty, k_reg, drawn)
    else:
        for t in range(u.shape[0]):
            out[t] = score_value(formula, rank, shares, u[t])


@part
def score_refine(formula: Formula, rank: int, shares: Shares, u: float) -> float:
    """What orders labels of equal value: rises with the score, and resolves shares that underflow."""
    if _is_lowest(formula, rank):
        return -np.inf
    if formula.code in (
        CODE_LAC,
        CODE_PAS,
    ):  # log-odds of the others' mass: values near 0 saturate too, where the others underflow
        return (math.log1p(-shares.own) if shares.own <= 0.5 else shares.log_tail) - shares.log_own
    if formula.code in (CODE_SAPS, CODE_TOPK):  # the same in all of a row: it tells rows apart that have the same u
        return -shares.log_rest
    return -log_add(shares.log_tail, shares.log_own + math.log1p(-u)) if u < 1.0 else -shares.log_tail


@part
def label_value(formula: Formula, rank: int, shares: Shares, u: float) -> float:
    """Value of a label that may be masked: a masked class is beyond every finite threshold."""
    return np.inf if shares.log_own == -np.inf else score_value(formula, rank, shares, u)


@part
def label_refine(formula: Formula, rank: int, shares: Shares, u: float) -> float:
    """Refinement of a label that may be masked."""
    return np.inf if shares.log_own == -np.inf else score_refine(formula, rank, shares, u)


class Cut(NamedTuple):
    """A threshold, as the pair that scores are compared with."""

    value: float
    refine: float


@part
def lets_in(cut: Cut, formula: Formula, rank: int, shares: Shares, u: float) -> bool:
    """Whether the label's score, as a pair, is at most the threshold; logarithms are taken only where values tie."""
    value = label_value(formula, rank, shares, u)
    if value == cut.value:
        return label_refine(formula, rank, shares, u) <= cut.refine
    return value < cut.value
