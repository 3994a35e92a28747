"""Sets with thresholds by class (Mondrian, clustered), or by scores that treat classes differently.

They are not prefixes of the ranking, so every label is asked. But for what it does for each class, a score never falls
as the rank grows. So beyond the first rank whose score exceeds the largest finite threshold only
labels with an infinite one are inside, and few labels need more than a comparison of logits.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import leaf_kernel, part
from thermoset.core.exponentials import Bools, Floats
from thermoset.core.formulas import (
    CODE_PAS,
    Cut,
    Formula,
    label_refine,
    label_value,
    score_refine,
    score_value,
)
from thermoset.core.masses import (
    RowMasses,
    Shares,
    WeightedRow,
    fill_masses,
    log_weight,
    masses_at,
    rank_gaps,
    shares_at,
    weigh,
)
from thermoset.core.scores import Score
from thermoset.core.sources import Block, ranked, widened
from thermoset.core.thresholds import Cuts, ScorePairs
from thermoset.core.uniforms import FillSets, Randomness

__all__ = ["class_filler", "compiled_scores"]


class UnrankedBlock(NamedTuple):
    """Rows as they came and ranked, and each row's u."""

    rows: Floats
    ranked: Floats
    u: Floats


class CutsByClass(NamedTuple):
    """Thresholds by class, (n_levels, C), the largest value that each level lets in, and what the score adds by class.

    The largest value is that of the score before it treats classes differently, over classes with finite thresholds.
    """

    value: Floats
    refine: Floats
    largest: Floats
    offset: Floats


@part
def _position(ranked: Floats, row: Floats, label: int) -> int:
    """Where a label stands in its ranked row; of equal logits the lower label index ranks higher."""
    value, low, high = row[label], 0, ranked.shape[0]
    if value == -np.inf:
        return 0  # masked classes have no order
    while low < high:  # the first place beyond all logits that are not larger
        middle = (low + high) // 2
        if ranked[middle] <= value:
            low = middle + 1
        else:
            high = middle
    position = low - 1
    if position > 0 and ranked[position - 1] == value:  # ties: those with a lower index come first
        for j in range(label):
            position -= row[j] == value
    return position


@part
def _linear_shares(row: WeightedRow, masses: RowMasses, position: int, code: int) -> Shares:
    """Shares without their logs, which cost most, but for the one that PAS needs, as in `shares_at`."""
    rest = masses.below[masses.below.shape[0] - 1]
    total = 1.0 + rest
    low, tail = masses.above[position] / total, masses.below[position] / total
    log_own = log_weight(row, position) - math.log1p(rest) if code == CODE_PAS else 0.0
    return Shares(low, row.weight[position] / total, tail, 1.0 / total, log_own, 0.0, 0.0)


@part
def _reach(row: WeightedRow, masses: RowMasses, formula: Formula, u: float, largest: float) -> int:
    """How many ranks have a value of at most `largest`: gallop from the top, then bisect."""
    n_classes = row.weight.shape[0]
    inside, outside, step = 0, n_classes - row.masked + 1, 1
    while outside - inside > 1:
        rank = min(inside + step, outside - 1) if step > 0 else (inside + outside) // 2
        if score_value(formula, rank, _linear_shares(row, masses, n_classes - rank, formula.code), u) <= largest:
            inside, step = rank, 2 * step
        else:
            outside, step = rank, 0
    return inside


@leaf_kernel
def _fill_sets(
    block: UnrankedBlock, temperature: float, formula: Formula, cuts: CutsByClass, scratch: Floats, sets: Bools
) -> None:
    """Whether each label is inside, under each level: sets (n_levels, n_rows, C); scratch (4, C)."""
    n_classes = block.ranked.shape[1]
    gaps, weight, masses = scratch[0], scratch[1], RowMasses(scratch[2], scratch[3])
    for i in range(block.ranked.shape[0]):
        rising, given, u = block.ranked[i], block.rows[i], block.u[i]
        row = WeightedRow(gaps, rank_gaps(rising, gaps), 1.0 / temperature, weight)
        weigh(gaps, temperature, weight)
        fill_masses(row, masses)
        for t in range(cuts.value.shape[0]):
            reach, inside = _reach(row, masses, formula, u, cuts.largest[t]), sets[t, i]
            last = rising[n_classes - reach] if reach > 0 else np.inf
            for label in range(n_classes):
                inside[label] = cuts.value[t, label] == np.inf
            for label in range(n_classes):
                if given[label] >= last and not inside[label]:
                    p = _position(rising, given, label)
                    cut = Cut(cuts.value[t, label], cuts.refine[t, label])
                    inside[label] = _enters(row, masses, formula, p, u, cut, cuts.offset[label])


@part
def _enters(
    row: WeightedRow, masses: RowMasses, formula: Formula, position: int, u: float, cut: Cut, offset: float
) -> bool:
    """Whether the label at a position is inside; values nearly always decide, without logarithms."""
    rank = row.weight.shape[0] - position
    if position < row.masked:
        return cut.value == np.inf
    value = score_value(formula, rank, _linear_shares(row, masses, position, formula.code), u) + offset
    if value == cut.value:
        return score_refine(formula, rank, shares_at(row, position, masses_at(masses, position)), u) <= cut.refine
    return value < cut.value


def _largest_values(values: Floats, offset: Floats) -> Floats:
    """The largest value, without its offset, that a finite threshold of each level lets in; -inf where there is none.

    Four units in the last place are more than what two roundings move.
    """
    with np.errstate(invalid="ignore"):
        bound = values - offset + 4 * np.spacing(np.abs(values) + np.abs(offset))
    return np.asarray(np.where(np.isfinite(values), bound, -np.inf).max(axis=1))


def class_filler(score: Score, temperature: float, thresholds: ScorePairs) -> FillSets:
    """What makes sets under thresholds (n_thresholds, C), one for each class, or (n_thresholds, 1), one for all."""
    formula = score.formula

    @lru_cache(maxsize=1)
    def cuts_of(n_classes: int) -> CutsByClass:
        offset, shape = score.offsets(n_classes), (len(thresholds.value), n_classes)
        each = ScorePairs(np.broadcast_to(thresholds.value, shape), np.broadcast_to(thresholds.refine, shape))
        return CutsByClass(*each.cuts, _largest_values(each.value, offset), offset)

    def fill(block: Block, randomness: Randomness, out: Bools) -> None:
        rows, cuts = ranked(block), cuts_of(block.shape[1])
        given = UnrankedBlock(widened(block), rows, randomness.block(rows))
        sets = np.empty(out.shape, dtype=np.bool_)  # contiguous: one type to compile for
        _fill_sets(given, temperature, formula, cuts, np.empty((4, rows.shape[1])), sets)
        out[:] = sets

    return fill


@leaf_kernel
def _fill_matrix(
    block: UnrankedBlock, temperature: float, formula: Formula, offset: Floats, scratch: Floats, out: Cuts
) -> None:
    """Scores of every label; scratch (4, C)."""
    n_classes = block.ranked.shape[1]
    gaps, weight, masses = scratch[0], scratch[1], RowMasses(scratch[2], scratch[3])
    for i in range(block.ranked.shape[0]):
        row = WeightedRow(gaps, rank_gaps(block.ranked[i], gaps), 1.0 / temperature, weight)
        weigh(gaps, temperature, weight)
        fill_masses(row, masses)
        for label in range(n_classes):
            p = _position(block.ranked[i], block.rows[i], label)
            shares = shares_at(row, p, masses_at(masses, p))
            out.value[i, label] = label_value(formula, n_classes - p, shares, block.u[i]) + offset[label]
            out.refine[i, label] = label_refine(formula, n_classes - p, shares, block.u[i])


def compiled_scores(block: Block, score: Score, temperature: float, randomness: Randomness) -> ScorePairs:
    """Score of every label of a block of rows, (n, C), in label order; the randomness must be that of these rows."""
    rows = ranked(block)
    pairs = Cuts(np.empty(rows.shape), np.empty(rows.shape))
    given = UnrankedBlock(widened(block), rows, randomness.block(rows))
    n_classes = rows.shape[1]
    _fill_matrix(given, temperature, score.formula, score.offsets(n_classes), np.empty((4, n_classes)), pairs)
    return ScorePairs(*pairs)
