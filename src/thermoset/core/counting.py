"""The third stage: sizes and hits of the sets of every row, for every score, temperature, level and trial.

A walk with fast sums finds the open ranks, and each trial compares its own u and threshold with their scores. Where a
comparison is closer than the rounding error of the walk, the row is done again with the classifier's own shares, so
that sizes are exactly the classifier's. A label is in its set if its rank is at most the size: hits come with sizes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel
from thermoset.core.exponentials import Counts, Floats, Ints
from thermoset.core.labels import SharesByTemperature
from thermoset.core.masses import (
    RowMasses,
    WeightedRow,
    fill_masses,
    masses_at,
    rank_gaps,
    row_masses,
    shares_at,
    weigh,
)
from thermoset.core.pool import PerThread, for_blocks
from thermoset.core.scores import Cut, Formula, Formulas, Score, formula_at, formulas, lets_in, rounding
from thermoset.core.sources import Block, RankedRows
from thermoset.core.thresholds import Cuts
from thermoset.core.trials import Trials, drawn_block
from thermoset.core.walk import FEW, FallingRow, Opening, Prefix, open_ranks, prefix_of

__all__ = ["Counted", "Levels", "Part", "Tally", "count_sets", "exact_size", "total_of"]


class LabelledBlock(NamedTuple):
    """Ranked rows, where their misses are counted, and the ranks of their labels."""

    ranked: Floats
    group: Ints
    rank: Ints


class AtTemperatures(NamedTuple):
    """Temperatures (T,), each row's top share at them, (T, n_rows), and the fewest labels a set may have."""

    temperature: Floats
    top: Floats
    least: int


class BlockDraws(NamedTuple):
    """u of each row in each trial, and 1 where the trial evaluates the row, else 0: (n_rows, trials)."""

    u: Floats
    seen: Floats


class SortedCuts(NamedTuple):
    """Thresholds (scores, T, alphas, trials), and the order in which those of a level rise."""

    value: Floats
    refine: Floats
    rising: Ints


class Tally(NamedTuple):
    """Over evaluated rows: labels in all sets, empty sets (scores, T, alphas, trials), misses (..., groups, trials).

    The first two are whole numbers in float64, which the processor adds as it compares: without conversions.
    """

    size: Floats
    empty: Floats
    missed: Counts


class Line(NamedTuple):
    """One score, temperature and level, over the trials: what to compare with, and what was found for a row.

    u and seen: as in `BlockDraws`; cut, refine, rising: as in `SortedCuts`; size: of the sets of the row at hand; and
    the fields of `Tally`.
    """

    u: Floats
    seen: Floats
    cut: Floats
    refine: Floats
    rising: Ints
    size: Floats
    all_sizes: Floats
    empty: Floats
    missed: Counts


@kernel
def exact_size(row: WeightedRow, masses: RowMasses, formula: Formula, cut: Cut, u: float) -> int:
    """Set size by the classifier's arithmetic: sets are small, so gallop from the top, then bisect."""
    n_classes = int(row.weight.shape[0])
    if cut.value == np.inf:
        return n_classes
    inside, outside, step = 0, n_classes - row.masked + 1, 1
    while outside - inside > 1:
        rank = min(inside + step, outside - 1) if step > 0 else (inside + outside) // 2
        p = n_classes - rank
        if lets_in(cut, formula, rank, shares_at(row, p, masses_at(masses, p)), u):
            inside, step = rank, 2 * step
        else:
            outside, step = rank, 0
    return inside


@kernel
def _few_sizes(prefix: Prefix, opening: Opening, close: float, line: Line, i: int) -> bool:
    """Set sizes for each trial: rank by rank, all trials at once. Returns whether a comparison was close."""
    nearest, u, cut, size, starts, ends = np.inf, line.u[i], line.cut, line.size, prefix.start, prefix.end
    for t in range(cut.shape[0]):
        size[t] = opening.first
    for r in range(opening.first, opening.stop):
        start, slope = starts[r], ends[r] - starts[r]
        for t in range(cut.shape[0]):
            distance = start + u[t] * slope - cut[t]
            nearest = min(nearest, abs(distance))
            size[t] += 1.0 if distance < 0.0 else 0.0
    return nearest <= close


@kernel
def _many_sizes(prefix: Prefix, opening: Opening, close: float, line: Line, i: int) -> bool:
    """The same when many ranks are open: thresholds in rising order walk along the ranks, and each meets one."""
    near, r, stop, start, end = False, opening.first, opening.stop, prefix.start, prefix.end
    u, cut, rising, size = line.u[i], line.cut, line.rising, line.size
    start[stop], end[stop] = np.inf, np.inf
    for k in range(cut.shape[0]):
        t = rising[k]
        threshold = cut[t]
        while end[r] < threshold - close:
            r += 1
        distance = start[r] + u[t] * (end[r] - start[r]) - threshold if r < stop else np.inf
        near |= (abs(distance) <= close) | (end[r] <= threshold + close)
        size[t] = r + (distance < 0.0)
    return near


@kernel
def _matters(prefix: Prefix, opening: Opening, close: float, line: Line, i: int) -> bool:
    """Whether a close comparison belongs to a trial that evaluates this row; a threshold's own row never does."""
    for r in range(opening.first, opening.stop):
        start, end = prefix.start[r], prefix.end[r]
        for t in range(line.cut.shape[0]):
            distance = start + line.u[i, t] * (end - start) - line.cut[t]
            if line.seen[i, t] > 0.0 and (abs(end - line.cut[t]) <= close or abs(distance) <= close):
                return True
    return False


@kernel
def _exact_sizes(row: WeightedRow, masses: RowMasses, formula: Formula, line: Line, i: int) -> None:
    """Sizes in the trials that evaluate the row, by the classifier's arithmetic."""
    fill_masses(row, masses)
    for t in range(line.cut.shape[0]):
        if line.seen[i, t] > 0.0:
            line.size[t] = exact_size(row, masses, formula, Cut(line.cut[t], line.refine[t]), line.u[i, t])


@kernel
def _add(line: Line, i: int, first: int, group: int, rank: int) -> None:
    """Add the sizes of one row's sets; no set has fewer than `first` labels."""
    size, seen, total, empty = line.size, line.seen[i], line.all_sizes, line.empty
    for t in range(size.shape[0]):
        total[t] += size[t] * seen[t]
    if first == 0:
        for t in range(size.shape[0]):
            empty[t] += seen[t] if size[t] == 0.0 else 0.0
    if rank > first:
        missed = line.missed[group]
        for t in range(size.shape[0]):
            missed[t] += np.int32(seen[t] if size[t] < rank else 0.0)


class Walking(NamedTuple):
    """The rows of a block from the top down, and buffers for the walk and for the classifier's arithmetic."""

    falling: Floats
    prefix: Prefix
    gaps: Floats
    weight: Floats
    masses: RowMasses


@kernel
def _count_line(
    rows: LabelledBlock, at: AtTemperatures, j: int, formula: Formula, line: Line, walking: Walking
) -> None:
    """Add what the sets of these rows hold at one score, temperature and level."""
    n_classes, trials = rows.ranked.shape[1], line.cut.shape[0]
    prefix, close = walking.prefix, rounding(formula, n_classes)
    least, most = line.cut[line.rising[0]] - close, line.cut[line.rising[trials - 1]] + close
    for i in range(rows.ranked.shape[0]):
        sure, first = False, int(np.int64(0))
        if rows.ranked[i, 0] > -np.inf:  # the walk knows nothing of masked classes
            row = FallingRow(walking.falling[i], 1.0 / at.temperature[j], at.top[j, i])
            opening = open_ranks(row, formula, least, most, prefix, int(np.int64(0)))
            first = opening.first
            if opening.stop - first <= FEW:
                near = _few_sizes(prefix, opening, close, line, i)
            else:
                near = _many_sizes(prefix, opening, close, line, i)
            sure = not near or not _matters(prefix, opening, close, line, i)
        if not sure:
            masked = rank_gaps(rows.ranked[i], walking.gaps)
            exact = weigh(walking.gaps, masked, at.temperature[j], walking.weight)
            _exact_sizes(exact, walking.masses, formula, line, i)
            first = int(np.int64(0))
        if first < at.least:
            for t in range(trials):
                line.size[t] = max(line.size[t], at.least)
            first = at.least
        _add(line, i, first, rows.group[i], rows.rank[i])


@kernel
def _count_block(
    rows: LabelledBlock, at: AtTemperatures, scores: Formulas, draws: BlockDraws, cuts: SortedCuts, tally: Tally
) -> None:
    """Add what the sets of these rows hold, for each score, temperature, level and trial."""
    n_classes, size = rows.ranked.shape[1], np.zeros(cuts.value.shape[3])
    falling = np.ascontiguousarray(rows.ranked[:, ::-1])
    walking = Walking(falling, prefix_of(n_classes), np.empty(n_classes), np.empty(n_classes), row_masses(n_classes))
    for j in range(at.temperature.shape[0]):
        for m in range(scores.code.shape[0]):
            for a in range(cuts.value.shape[2]):
                line = Line(
                    draws.u, draws.seen, cuts.value[m, j, a], cuts.refine[m, j, a], cuts.rising[m, j, a], size,
                    tally.size[m, j, a], tally.empty[m, j, a], tally.missed[m, j, a],
                )  # fmt: skip
                _count_line(rows, at, j, formula_at(scores, m), line, walking)


@dataclass(frozen=True, eq=False)
class Counted:
    """What the sets of the evaluation rows of each trial hold.

    size, empty : (scores, T, alphas, trials), labels in all sets, and sets without a label; missed : (scores, T,
    alphas, groups, trials), rows of each group (class) whose set lacks their label.
    """

    size: Floats
    empty: Floats
    missed: Counts

    def at(self, m: int, j: int, a: int) -> "Counted":
        """One score, temperature and level: arrays (trials,), (trials,) and (groups, trials)."""
        return Counted(self.size[m, j, a], self.empty[m, j, a], self.missed[m, j, a])


@dataclass(frozen=True)
class Levels:
    """What is counted: scores, temperatures, and the thresholds to compare with.

    One for all classes: (scores, T, alphas, trials); by class: (scores, T, alphas, C, trials).
    """

    scores: tuple[Score, ...]
    temperatures: Floats
    cuts: Cuts
    least: int  # labels that a set holds at least


@dataclass(frozen=True, eq=False)
class Part:
    """Trials that are counted at the same temperatures, and the label shares at these."""

    shares: SharesByTemperature
    levels: Levels
    trials: Trials


def count_sets(
    rows: RankedRows,
    groups: Ints,
    parts: Sequence[Part],
    *,
    n_jobs: int | None = None,
    progress: Callable[[], None] | None = None,
) -> list[Counted]:
    """Sizes, empty sets and misses of the evaluation rows of every trial, for each part, in one pass over the rows.

    `groups` (n,) says where each row's miss is counted: its class, as the columns of `Trials.counts` number them.
    """
    counters = [_Counter(part) for part in parts]

    def work(block: Block, place: slice) -> None:
        some = LabelledBlock(rows.rank(place, block), groups[place], parts[0].shares.all.rank[place])
        for counter in counters:
            counter.count(some, place)

    for_blocks(rows.source, work, n_jobs=n_jobs, progress=progress)
    return [total_of(counter.tallies.all()) for counter in counters]


class _Counter:
    """The tallies of one part."""

    def __init__(self, part: Part) -> None:
        self._part, cuts = part, part.levels.cuts
        self._cuts = SortedCuts(*cuts, np.argsort(cuts.value, axis=-1, kind="stable"))
        self._formulas = formulas(part.levels.scores)
        self.tallies = PerThread(self._tally)

    def _tally(self) -> Tally:
        shape, n_groups = self._cuts.value.shape, self._part.trials.counts.shape[1]
        missed = np.zeros((*shape[:3], n_groups, shape[3]), dtype=np.int32)
        return Tally(np.zeros(shape), np.zeros(shape), missed)

    def count(self, rows: LabelledBlock, place: slice) -> None:
        """Add what the sets of a block hold."""
        part = self._part
        at = AtTemperatures(part.levels.temperatures, part.shares.top_of(place), part.levels.least)
        seen = part.trials.evaluation[place].astype(np.float64)
        draws = BlockDraws(drawn_block(part.trials.draws, place), seen)
        _count_block(rows, at, self._formulas, draws, self._cuts, self.tallies.mine())


def total_of(tallies: Sequence[Tally]) -> Counted:
    """The sum over threads: integers, so neither the order of blocks nor the number of threads matters."""
    first, *others = tallies
    for other in others:
        first.size[...] += other.size
        first.empty[...] += other.empty
        first.missed[...] += other.missed
    return Counted(*first)
