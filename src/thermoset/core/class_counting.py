"""The third stage with thresholds by class: sizes and hits of the sets of every row, trial by trial.

Over trials a class has a range of thresholds. A label whose score is below it for every u is inside in all trials, one
above it in none, and only the others are compared trial by trial.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel, part
from thermoset.core.counting import Counted, Levels, total_of
from thermoset.core.exponentials import Counts, Floats, Ints
from thermoset.core.formulas import Cut, Formula, Formulas, fill_values, formula_at, lets_in, score_value
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
from thermoset.core.pool import PerThread, for_blocks
from thermoset.core.scores import formulas
from thermoset.core.sources import Block, Source, ascending, numbered
from thermoset.core.tallies import Tally
from thermoset.core.trials import Trials, drawn_block

__all__ = ["count_class_sets"]


class TrialBlock(NamedTuple):
    """Ranked rows, the label at each place, rows' own labels, u in each trial, and 1 where one evaluates the row."""

    ranked: Floats
    order: Ints
    label: Ints
    u: Floats
    seen: Floats


class ClassCuts(NamedTuple):
    """Thresholds by class and trial, (scores, T, alphas, C, trials); NaN stands for +inf: no score is compared with it.

    infinite : how many classes have +inf, (scores, T, alphas, trials); least, most : the range of a class's other
    thresholds over trials, (scores, T, alphas, C), least being -inf where one is +inf; reach : the largest of all but
    +inf, (scores, T, alphas).
    """

    value: Floats
    refine: Floats
    infinite: Floats
    least: Floats
    most: Floats
    reach: Floats


class ClassLine(NamedTuple):
    """One row, score, temperature and level over the trials.

    u and seen of `TrialBlock`; thresholds value and refine (C, trials) with the range least, most (C,) and reach of
    `ClassCuts`. size: how many labels the sets hold; hit: 1 for each trial in which the row's own label is inside;
    scratch: room for the scores of a label.
    """

    u: Floats
    seen: Floats
    value: Floats
    refine: Floats
    least: Floats
    most: Floats
    reach: float
    size: Floats
    hit: Floats
    scratch: Floats


class RowShares(NamedTuple):
    """A weighted row, its masses, and the shares that scores take from them, by position."""

    row: WeightedRow
    masses: RowMasses
    low: Floats
    own: Floats
    tail: Floats


@part
def _share_row(at: RowShares, temperature: float) -> None:
    """Fill the weights, masses and shares of a row whose gaps are known."""
    weight, low, own, tail, above, below = at.row.weight, at.low, at.own, at.tail, at.masses.above, at.masses.below
    weigh(at.row.gaps, temperature, weight)
    fill_masses(at.row, at.masses)
    total = 1.0 + below[below.shape[0] - 1]
    for p in range(low.shape[0]):
        low[p] = above[p] / total
        own[p] = weight[p] / total
        tail[p] = below[p] / total


@part
def _shares_of(at: RowShares, position: int) -> Shares:
    """Shares without their logs."""
    return Shares(at.low[position], at.own[position], at.tail[position], at.own[at.own.shape[0] - 1], 0.0, 0.0, 0.0)


@part
def _add_label(at: RowShares, formula: Formula, position: int, label: int, line: ClassLine, out: Floats) -> None:
    """Add 1 to `out` in each trial in which the label at a position is inside under a finite threshold."""
    rank = at.low.shape[0] - position
    cut, u, value, tied = line.value[label], line.u, line.scratch, False
    fill_values(formula, rank, _shares_of(at, position), u, value)
    for t in range(u.shape[0]):
        out[t] += 1.0 if value[t] < cut[t] else 0.0
        tied |= value[t] == cut[t]
    if tied:
        _add_ties(at, formula, position, label, line, out)


@part
def _add_ties(at: RowShares, formula: Formula, position: int, label: int, line: ClassLine, out: Floats) -> None:
    """Add 1 where refinements let a label in; a threshold ties with the row that set it, which is not evaluated."""
    cut, refine, matters = line.value[label], line.refine[label], False
    for t in range(cut.shape[0]):
        matters |= (line.scratch[t] == cut[t]) & (line.seen[t] > 0.0)
    if matters:
        rank, shares = at.low.shape[0] - position, shares_at(at.row, position, masses_at(at.masses, position))
        for t in range(cut.shape[0]):
            if line.scratch[t] == cut[t]:
                out[t] += lets_in(Cut(cut[t], refine[t]), formula, rank, shares, line.u[t])


@part
def _fill_line(at: RowShares, formula: Formula, order: Ints, line: ClassLine) -> None:
    """Add the labels with finite thresholds to the sizes of one row's sets."""
    n_classes, everywhere, size = at.low.shape[0], 0.0, line.size
    for position in range(n_classes - 1, at.row.masked - 1, -1):
        rank, shares, label = n_classes - position, _shares_of(at, position), order[position]
        start = score_value(formula, rank, shares, 0.0)
        if start > line.reach:
            break  # and so do all that rank lower
        if start > line.most[label]:
            continue
        if score_value(formula, rank, shares, 1.0) < line.least[label]:
            everywhere += 1.0
        else:
            _add_label(at, formula, position, label, line, size)
    for t in range(size.shape[0]):
        size[t] += everywhere


@part
def _fill_hits(at: RowShares, formula: Formula, position: int, label: int, line: ClassLine) -> None:
    """Find whether a label is inside in each trial, also under an infinite threshold: `line.hit`."""
    cut, hit = line.value[label], line.hit
    for t in range(hit.shape[0]):
        hit[t] = 1.0 if np.isnan(cut[t]) else 0.0
    if position >= at.row.masked:
        _add_label(at, formula, position, label, line, hit)


@part
def _tally_line(line: ClassLine, size: Floats, empty: Floats, missed: Counts) -> None:
    """Count one row."""
    for t in range(line.size.shape[0]):
        size[t] += line.seen[t] * line.size[t]
        empty[t] += line.seen[t] * (1.0 if line.size[t] == 0.0 else 0.0)
    for t in range(line.size.shape[0]):
        missed[t] += np.int32(line.seen[t] * (1.0 - line.hit[t]))


@part
def _place_of(order: Ints, label: int) -> int:
    """Where a label stands."""
    position = 0
    while order[position] != label:
        position += 1
    return position


@kernel
def _count_block(block: TrialBlock, temperatures: Floats, scores: Formulas, cuts: ClassCuts, tally: Tally) -> None:
    """Add what the sets of these rows hold, for each score, temperature, level and trial.

    Temperatures come first: the thresholds of one stay in the cache for all rows.
    """
    n_rows, n_classes = block.ranked.shape
    trials = block.u.shape[1]
    gaps, weight, masses = np.empty(n_classes), np.empty(n_classes), row_masses(n_classes)
    low, own, tail = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    size, hit, scratch = np.empty(trials), np.empty(trials), np.empty(trials)
    for j in range(temperatures.shape[0]):
        for i in range(n_rows):
            row = WeightedRow(gaps, rank_gaps(block.ranked[i], gaps), 1.0 / temperatures[j], weight)
            at = RowShares(row, masses, low, own, tail)
            _share_row(at, temperatures[j])
            label, position = block.label[i], _place_of(block.order[i], block.label[i])
            for m in range(scores.code.shape[0]):
                formula = formula_at(scores, m)
                for a in range(cuts.reach.shape[2]):
                    line = ClassLine(
                        block.u[i], block.seen[i], cuts.value[m, j, a], cuts.refine[m, j, a], cuts.least[m, j, a],
                        cuts.most[m, j, a], cuts.reach[m, j, a], size, hit, scratch,
                    )  # fmt: skip
                    infinite = cuts.infinite[m, j, a]
                    for t in range(trials):
                        size[t] = infinite[t]
                    _fill_line(at, formula, block.order[i], line)
                    _fill_hits(at, formula, position, label, line)
                    counts = tally.size[m, j, a], tally.empty[m, j, a], tally.missed[m, j, a, label]
                    _tally_line(line, *counts)


def count_class_sets(
    source: Source,
    labels: Ints,
    levels: Levels,
    trials: Trials,
    *,
    n_jobs: int | None = None,
    progress: Callable[[], None] | None = None,
) -> Counted:
    """What the sets of the evaluation rows of every trial hold, under thresholds (scores, T, alphas, C, trials)."""
    unbounded = np.isposinf(levels.cuts.value)
    value, bounded = (np.where(unbounded, instead, levels.cuts.value) for instead in (np.nan, -np.inf))
    most = bounded.max(axis=4)
    infinite = np.count_nonzero(unbounded, axis=3).astype(np.float64)
    cuts = ClassCuts(value, levels.cuts.refine, infinite, bounded.min(axis=4), most, most.max(axis=3))
    given, own = formulas(levels.scores), numbered(labels)
    shape = infinite.shape

    def tally() -> Tally:
        return Tally(np.zeros(shape), np.zeros(shape), np.zeros(value.shape, dtype=np.int32))

    tallies = PerThread(tally)

    def work(block: Block, place: slice) -> None:
        u, seen = drawn_block(trials.draws, place), trials.evaluation[place].astype(np.float64)
        some = TrialBlock(*ascending(block), own[place], u, seen)
        _count_block(some, levels.temperatures, given, cuts, tallies.mine())

    for_blocks(source, work, n_jobs=n_jobs, progress=progress)
    return total_of(tallies.all())
