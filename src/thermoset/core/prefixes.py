"""Sets under one threshold for all classes, the same for all rows or that of a row's group: prefixes of the ranking.

A set's size is guessed by a walk from the top and confirmed at the two ranks around it, and the set is found by
comparing logits with the last one inside; no argsort is needed.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import leaf_kernel, part
from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.formulas import Cut, Formula, lets_in, score_value
from thermoset.core.masses import Masses, Shares, WeightedRow, mass_above, mass_below, rank_gaps, shares_at, weigh
from thermoset.core.memory import row_array
from thermoset.core.row_context import FillRows, RowContext
from thermoset.core.scores import Score
from thermoset.core.sources import Block, Source, ranked, widened
from thermoset.core.stages import fill_rows
from thermoset.core.thresholds import Cuts, ScorePairs
from thermoset.core.uniforms import FillSets, Randomness

__all__ = ["prefix_filler", "prefix_row_filler", "prefix_sizes"]

_GUESS_RANKS = 64  # sets are mostly smaller than this


@part
def _guess_last(row: WeightedRow, rest: float, formula: Formula, u: float, q: float) -> int:
    """The last rank inside as a quick walk from the top finds it, right but for rounding; 0 where it gives up."""
    n_classes, total, low = row.weight.shape[0], 1.0 + rest, 0.0
    for rank in range(1, min(n_classes - row.masked, _GUESS_RANKS) + 1):
        own = row.weight[n_classes - rank]
        tail = max(total - low - own, 0.0)
        shares = Shares(low / total, own / total, tail / total, 1.0 / total, 0.0, 0.0, 0.0)
        if score_value(formula, rank, shares, u) > q:
            return rank - 1
        low += own
    return 0


@part
def _prefix_size(row: WeightedRow, rest: float, formula: Formula, u: float, cut: Cut) -> int:
    """How many ranks are inside."""
    n_classes = int(row.weight.shape[0])
    if cut.value == np.inf:
        return n_classes
    inside, outside = 0, n_classes - row.masked + 1  # ranks known to be in, and out
    last = _guess_last(row, rest, formula, u, cut.value)
    while outside - inside > 1:
        # the two ranks around the guess, and where it was wrong, bisection
        rank = last if inside < last < outside else last + 1 if inside == last else (inside + outside) // 2
        p = n_classes - rank
        shares = shares_at(row, p, Masses(mass_above(row.weight, p), mass_below(row.weight, p), rest))
        if lets_in(cut, formula, rank, shares, u):
            inside = rank
        else:
            outside = rank
    return inside


class DrawnBlock(NamedTuple):
    """Ranked rows, each row's u, and which of several thresholds is its own."""

    ranked: Floats
    u: Floats
    codes: Ints


@leaf_kernel
def _fill_sizes(
    block: DrawnBlock, temperature: float, formula: Formula, cuts: Cuts, scratch: Floats, sizes: Ints
) -> None:
    """How many ranks are inside, for cuts (n_levels, G) and each row: sizes (n_levels, n_rows); scratch (2, C)."""
    gaps, weight = scratch[0], scratch[1]
    for i in range(block.ranked.shape[0]):
        row = WeightedRow(gaps, rank_gaps(block.ranked[i], gaps), 1.0 / temperature, weight)
        weigh(gaps, temperature, weight)
        rest = mass_below(weight, weight.shape[0] - 1)
        g = block.codes[i]
        for t in range(cuts.value.shape[0]):
            sizes[t, i] = _prefix_size(row, rest, formula, block.u[i], Cut(cuts.value[t, g], cuts.refine[t, g]))


@leaf_kernel
def _mark_prefixes(rows: Floats, ranked: Floats, sizes: Ints, sets: Bools) -> None:
    """Mark the `sizes[i]` top-ranked labels of each row: those whose logit is at least that of the last one inside."""
    n_classes = rows.shape[1]
    for i in range(rows.shape[0]):
        row, inside, size = rows[i], sets[i], sizes[i]
        last = ranked[i, n_classes - size] if size > 0 else np.inf
        for label in range(n_classes):
            inside[label] = row[label] >= last
        if 0 < size < n_classes and ranked[i, n_classes - size - 1] == last:
            _drop_ties(row, last, size, inside)


@part
def _drop_ties(row: Floats, last: float, size: int, inside: Bools) -> None:
    """Of labels with the logit of the last one inside, those with the highest indices leave until `size` are left."""
    surplus = -size
    for label in range(row.shape[0]):
        surplus += inside[label]
    label = row.shape[0] - 1
    while surplus > 0:
        if row[label] == last:
            inside[label] = False
            surplus -= 1
        label -= 1


def prefix_sizes(
    source: Source,
    score: Score,
    temperature: float,
    randomness: Randomness,
    thresholds: ScorePairs,
    codes: Ints | None = None,
) -> Ints:
    """Set sizes, (n_levels, n_rows), under thresholds (n_levels,), or (n_levels, G) of which a row's code names one."""
    context = RowContext(randomness, codes)
    sizes = row_array((len(thresholds.value), source.n_rows), np.int64)
    fill_rows(source, _CountLabels(score.formula, temperature, context, _by_group(thresholds)), [sizes])
    return sizes


def _by_group(thresholds: ScorePairs) -> Cuts:
    """Thresholds (n_levels,) or (n_levels, G) as the one shape that the kernel takes."""
    cuts = thresholds.cuts
    return cuts if cuts.value.ndim == 2 else Cuts(cuts.value[:, None], cuts.refine[:, None])


@dataclass(frozen=True, eq=False)
class _CountLabels:
    """The stage: set sizes, (n_levels, n)."""

    formula: Formula
    temperature: float
    context: RowContext
    cuts: Cuts

    def rows(self, place: slice) -> "_CountLabels":
        return replace(self, context=self.context.rows(place))

    def __call__(self, block: Block) -> tuple[Ints]:
        return (_sizes_of(ranked(block), self.context, self.temperature, self.formula, self.cuts),)


def _sizes_of(rows: Floats, context: RowContext, temperature: float, formula: Formula, cuts: Cuts) -> Ints:
    n_rows, n_classes = rows.shape
    sizes = np.empty((len(cuts.value), n_rows), dtype=np.int64)
    block = DrawnBlock(rows, context.randomness.block(rows), context.places(n_rows))
    _fill_sizes(block, temperature, formula, cuts, np.empty((2, n_classes)), sizes)
    return sizes


def prefix_filler(score: Score, temperature: float, thresholds: ScorePairs) -> FillSets:
    """What makes sets under thresholds (n_levels,), each for all rows and classes."""
    by_row = prefix_row_filler(score, temperature, thresholds)
    return lambda block, randomness, out: by_row(block, RowContext(randomness), out)


def prefix_row_filler(score: Score, temperature: float, thresholds: ScorePairs) -> FillRows:
    """What makes sets under thresholds (n_levels, G), of which each row's code names one."""
    formula, cuts = score.formula, _by_group(thresholds)

    def fill(block: Block, context: RowContext, out: Bools) -> None:
        given, rows = widened(block), ranked(block)
        for size, sets in zip(_sizes_of(rows, context, temperature, formula, cuts), out, strict=True):
            _mark_prefixes(given, rows, size, sets)

    return fill
