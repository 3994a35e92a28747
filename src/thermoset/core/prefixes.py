"""Sets under one threshold for all classes: prefixes of the ranking.

A set's size is guessed by a walk from the top and confirmed at the two ranks around it, and the set is found by
comparing logits with the last one inside; no argsort is needed.
"""

import numpy as np
from numpy.typing import NDArray

from thermoset.core.compiling import kernel, part
from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.formulas import Cut, Formula, lets_in, score_value
from thermoset.core.masses import Masses, Shares, WeightedRow, mass_above, mass_below, rank_gaps, shares_at, weigh
from thermoset.core.pool import for_blocks
from thermoset.core.scores import Score
from thermoset.core.sources import Block, Source, ranked
from thermoset.core.thresholds import Cuts, ScorePairs
from thermoset.core.uniforms import Randomness

__all__ = ["prefix_sets", "prefix_sizes"]

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


@kernel
def _fill_sizes(rows: Floats, temperature: float, formula: Formula, u: Floats, cuts: Cuts, sizes: Ints) -> None:
    """How many ranks are inside, for each threshold and ranked row: sizes (n_thresholds, n_rows)."""
    n_classes = rows.shape[1]
    gaps, weight = np.empty(n_classes), np.empty(n_classes)
    for i in range(rows.shape[0]):
        row = WeightedRow(gaps, rank_gaps(rows[i], gaps), 1.0 / temperature, weight)
        weigh(gaps, temperature, weight)
        rest = mass_below(weight, n_classes - 1)
        for t in range(cuts.value.shape[0]):
            sizes[t, i] = _prefix_size(row, rest, formula, u[i], Cut(cuts.value[t], cuts.refine[t]))


def _sizes_of(rows: Floats, u: Floats, score: Score, temperature: float, thresholds: ScorePairs) -> Ints:
    sizes = np.empty((thresholds.value.size, len(rows)), dtype=np.int64)
    _fill_sizes(rows, temperature, score.formula, u, thresholds.cuts, sizes)
    return sizes


def prefix_sizes(
    source: Source, score: Score, temperature: float, randomness: Randomness, thresholds: ScorePairs
) -> Ints:
    """Set sizes under global thresholds, (n_thresholds, n_rows)."""
    sizes = np.empty((thresholds.value.size, source.n_rows), dtype=np.int64)

    def work(block: Block, place: slice) -> None:
        rows = ranked(block)
        sizes[:, place] = _sizes_of(rows, randomness.block(rows, place), score, temperature, thresholds)

    for_blocks(source, work)
    return sizes


def prefix_sets(
    source: Source, score: Score, temperature: float, randomness: Randomness, thresholds: ScorePairs
) -> Bools:
    """Sets under global thresholds, (n_thresholds, n_rows, C)."""
    sets = np.empty((thresholds.value.size, source.n_rows, source.n_classes), dtype=np.bool_)

    def work(block: Block, place: slice) -> None:
        rising = np.sort(block, axis=1)
        rows = rising.astype(np.float64)
        sizes = _sizes_of(rows, randomness.block(rows, place), score, temperature, thresholds)
        for t, size in enumerate(sizes):
            _mark_prefixes(block, rising, size, sets[t, place])

    for_blocks(source, work)
    return sets


def _mark_prefixes(block: Block, rising: Block, sizes: Ints, out: NDArray[np.bool_]) -> None:
    """Mark the `sizes[i]` top-ranked labels of each row."""
    n_classes = block.shape[1]
    row = np.arange(len(block))
    # An empty set has no last member: its cut is above every logit.
    cut = np.where(sizes > 0, rising[row, np.minimum(n_classes - sizes, n_classes - 1)], np.inf)
    np.greater_equal(block, cut[:, None].astype(block.dtype), out=out)
    # Where the next rank has the same logit, the comparison let in too many: the highest label indices leave.
    next_rank = rising[row, np.maximum(n_classes - sizes - 1, 0)]
    for i in np.flatnonzero((sizes > 0) & (sizes < n_classes) & (next_rank == cut)):
        surplus = np.count_nonzero(out[i]) - sizes[i]
        out[i, np.flatnonzero(block[i] == cut[i])[-surplus:]] = False
