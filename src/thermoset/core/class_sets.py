"""Sets with thresholds by class (Mondrian, clustered): not prefixes of the ranking, so every label is asked.

A score never falls as the rank grows. So beyond the first rank whose score exceeds the largest finite threshold only
labels with an infinite one are inside, and few labels need more than a comparison of logits.
"""

from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel, leaf_kernel, part
from thermoset.core.exponentials import Bools, Floats
from thermoset.core.formulas import Cut, Formula, label_refine, label_value, lets_in, score_value
from thermoset.core.masses import (
    RowMasses,
    Shares,
    WeightedRow,
    fill_masses,
    masses_at,
    rank_gaps,
    row_masses,
    shares_at,
    weigh,
)
from thermoset.core.pool import for_blocks
from thermoset.core.scores import Score
from thermoset.core.sources import Block, Source, ranked, widened
from thermoset.core.thresholds import Cuts, ScorePairs
from thermoset.core.uniforms import FillSets, Randomness

__all__ = ["class_filler", "score_matrix"]


class UnrankedBlock(NamedTuple):
    """Rows as they came and ranked, and each row's u."""

    rows: Floats
    ranked: Floats
    u: Floats


class CutsByClass(NamedTuple):
    """Thresholds by class, (n_levels, C), and the largest finite one of each level."""

    value: Floats
    refine: Floats
    largest: Floats


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
def _linear_shares(row: WeightedRow, masses: RowMasses, position: int) -> Shares:
    """Shares without their logs, which cost most."""
    total = 1.0 + masses.below[masses.below.shape[0] - 1]
    low, tail = masses.above[position] / total, masses.below[position] / total
    return Shares(low, row.weight[position] / total, tail, 1.0 / total, 0.0, 0.0, 0.0)


@part
def _reach(row: WeightedRow, masses: RowMasses, formula: Formula, u: float, largest: float) -> int:
    """How many ranks have a value of at most `largest`: gallop from the top, then bisect."""
    n_classes = row.weight.shape[0]
    inside, outside, step = 0, n_classes - row.masked + 1, 1
    while outside - inside > 1:
        rank = min(inside + step, outside - 1) if step > 0 else (inside + outside) // 2
        if score_value(formula, rank, _linear_shares(row, masses, n_classes - rank), u) <= largest:
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
                    inside[label] = _enters(row, masses, formula, p, u, cut)


@part
def _enters(row: WeightedRow, masses: RowMasses, formula: Formula, position: int, u: float, cut: Cut) -> bool:
    """Whether the label at a position is inside; values nearly always decide, without logarithms."""
    rank = row.weight.shape[0] - position
    if position < row.masked:
        return cut.value == np.inf
    value = score_value(formula, rank, _linear_shares(row, masses, position), u)
    if value == cut.value:
        return lets_in(cut, formula, rank, shares_at(row, position, masses_at(masses, position)), u)
    return value < cut.value


def _largest_finite(values: Floats) -> Floats:
    """The largest finite threshold of each level (the first axis); -inf where there is none."""
    finite = np.where(np.isfinite(values), values, -np.inf)
    largest: Floats = finite.reshape(len(values), -1).max(axis=1)
    return largest


def class_filler(score: Score, temperature: float, thresholds: ScorePairs) -> FillSets:
    """What makes sets under thresholds (n_thresholds, C), one for each class."""
    formula, cuts = score.formula, CutsByClass(*thresholds.cuts, _largest_finite(thresholds.value))

    def fill(block: Block, place: slice, randomness: Randomness, out: Bools) -> None:
        rows = ranked(block)
        given = UnrankedBlock(widened(block), rows, randomness.block(rows, place))
        sets = np.empty(out.shape, dtype=np.bool_)  # contiguous: one type to compile for
        _fill_sets(given, temperature, formula, cuts, np.empty((4, rows.shape[1])), sets)
        out[:] = sets

    return fill


@kernel
def _fill_matrix(block: UnrankedBlock, temperature: float, formula: Formula, out: Cuts) -> None:
    """Scores of every label."""
    n_classes = block.ranked.shape[1]
    gaps, weight, masses = np.empty(n_classes), np.empty(n_classes), row_masses(n_classes)
    for i in range(block.ranked.shape[0]):
        row = WeightedRow(gaps, rank_gaps(block.ranked[i], gaps), 1.0 / temperature, weight)
        weigh(gaps, temperature, weight)
        fill_masses(row, masses)
        for label in range(n_classes):
            p = _position(block.ranked[i], block.rows[i], label)
            shares = shares_at(row, p, masses_at(masses, p))
            out.value[i, label] = label_value(formula, n_classes - p, shares, block.u[i])
            out.refine[i, label] = label_refine(formula, n_classes - p, shares, block.u[i])


def score_matrix(source: Source, score: Score, temperature: float, randomness: Randomness) -> ScorePairs:
    """Score of every label of every row, (n_rows, C), in label order."""
    pairs = ScorePairs(np.empty((source.n_rows, source.n_classes)), np.empty((source.n_rows, source.n_classes)))

    def work(block: Block, place: slice) -> None:
        rows = ranked(block)
        given = UnrankedBlock(widened(block), rows, randomness.block(rows, place))
        _fill_matrix(given, temperature, score.formula, Cuts(pairs.value[place], pairs.refine[place]))

    for_blocks(source, work)
    return pairs
