"""What the sets of a block of rows hold: sizes, empty sets and misses, for every score, temperature, level and trial.

A walk with fast sums finds the open ranks, and each trial compares its own u and threshold with their scores. Where a
comparison is closer than the rounding error of the walk, the row is done again with the classifier's own shares, so
that sizes are exactly the classifier's. A label is in its set if its rank is at most the size: hits come with sizes,
and so does everything else that is asked as "is this rank inside?".
"""

from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel, part
from thermoset.core.exponentials import Counts, Floats, Ints
from thermoset.core.formulas import Cut, Formula, Formulas, formula_at, lets_in, rounding
from thermoset.core.masses import (
    RowMasses,
    Shares,
    WeightedRow,
    count_masked,
    fill_masses,
    masses_at,
    rank_gaps,
    row_masses,
    shares_at,
    weigh,
)
from thermoset.core.walk import FEW, FallingRow, Opening, Prefix, open_ranks, prefix_of

__all__ = [
    "AskedBlock",
    "AtTemperatures",
    "BlockCuts",
    "BlockDraws",
    "SortedCuts",
    "Tally",
    "count_block",
    "exact_size",
]


class AskedBlock(NamedTuple):
    """Ranked rows, the ranks that each is asked about, and where a rank that is outside is counted: (n_rows, Q)."""

    ranked: Floats
    cell: Ints
    rank: Ints


class AtTemperatures(NamedTuple):
    """Temperatures (T,), and each row's top share at them, (T, n_rows)."""

    temperature: Floats
    top: Floats


class BlockDraws(NamedTuple):
    """u of each row in each trial, and 1 where the trial evaluates the row, else 0: (n_rows, trials)."""

    u: Floats
    seen: Floats


class SortedCuts(NamedTuple):
    """Thresholds (scores, T, alphas, trials), and the order in which those of a level rise, as pairs."""

    value: Floats
    refine: Floats
    rising: Ints


class BlockCuts(NamedTuple):
    """What a block of rows is compared with."""

    draws: BlockDraws
    cuts: SortedCuts


class Cell(NamedTuple):
    """Numbers of a score, temperature, level and row."""

    m: int
    j: int
    a: int
    i: int


class Tally(NamedTuple):
    """Over evaluated rows: labels in all sets, empty sets (scores, T, alphas, trials), misses (..., cells, trials).

    The first two are whole numbers in float64, which the processor adds as it compares: without conversions.
    """

    size: Floats
    empty: Floats
    missed: Counts


class Line(NamedTuple):
    """One row at one score, temperature and level, over the trials: what to compare with, and where to count.

    u, seen: as in `BlockDraws`; cut, refine, rising: as in `SortedCuts`; size, empty, missed: as in `Tally`; cell and
    rank: as in `AskedBlock`, (Q,). close: the rounding error of the walk.
    """

    u: Floats
    seen: Floats
    cut: Floats
    refine: Floats
    rising: Ints
    size: Floats
    empty: Floats
    missed: Counts
    cell: Ints
    rank: Ints
    close: float


class Buffers(NamedTuple):
    """Room for one row: its logits from the top down, the walk along them, and the classifier's own sums."""

    falling: Floats
    prefix: Prefix
    gaps: Floats
    weight: Floats
    masses: RowMasses
    inside: Floats  # ranks that are inside in all trials: (scores, alphas, n_rows)


@part
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


@part
def _count_few(prefix: Prefix, opening: Opening, line: Line, sign: float) -> bool:
    """Count the open ranks that are inside, rank by rank, all trials at once; whether a comparison was close.

    A sign of -1 takes back what 1 has added.
    """
    u, seen, cut, size, close, near = line.u, line.seen, line.cut, line.size, line.close, False
    for r in range(opening.first, opening.stop):
        start, slope = prefix.start[r], prefix.end[r] - prefix.start[r]
        for t in range(u.shape[0]):
            distance = start + u[t] * slope - cut[t]
            near |= abs(distance) <= close
            size[t] += sign * seen[t] if distance < 0.0 else 0.0
    return near


@part
def _count_many(prefix: Prefix, opening: Opening, line: Line, sign: float) -> bool:
    """The same when many ranks are open: thresholds in rising order walk along the ranks, and each meets one."""
    start, end, close, stop, r, near = prefix.start, prefix.end, line.close, opening.stop, opening.first, False
    start[stop], end[stop] = np.inf, np.inf
    for k in range(line.u.shape[0]):
        t = line.rising[k]
        threshold = line.cut[t]
        while end[r] < threshold - close:
            r += 1
        distance = start[r] + line.u[t] * (end[r] - start[r]) - threshold if r < stop else np.inf
        near |= (abs(distance) <= close) | (end[r] <= threshold + close)
        line.size[t] += sign * line.seen[t] * (r - opening.first + (distance < 0.0))
    return near


@part
def _matters(prefix: Prefix, opening: Opening, line: Line) -> bool:
    """Whether a close comparison belongs to a trial that evaluates this row; a threshold's own row never does."""
    for r in range(opening.first, opening.stop):
        start, end = prefix.start[r], prefix.end[r]
        for t in range(line.u.shape[0]):
            distance = start + line.u[t] * (end - start) - line.cut[t]
            if line.seen[t] > 0.0 and (abs(end - line.cut[t]) <= line.close or abs(distance) <= line.close):
                return True
    return False


@part
def _affine(prefix: Prefix, r: int, stop: int) -> tuple[float, float]:
    """The score at place r, as start and slope in u; beyond the open ranks it is outside whatever u is."""
    return (prefix.start[r], prefix.end[r] - prefix.start[r]) if r < stop else (np.inf, 0.0)


@part
def _count_outside(prefix: Prefix, opening: Opening, line: Line) -> None:
    """Count empty sets, and the trials in which the ranks asked about are outside."""
    u, seen, cut = line.u, line.seen, line.cut
    if opening.first == 0:
        start, slope = _affine(prefix, opening.first, opening.stop)
        empty = line.empty
        for t in range(u.shape[0]):
            empty[t] += seen[t] if start + u[t] * slope - cut[t] >= 0.0 else 0.0
    for q in range(line.rank.shape[0]):
        if line.rank[q] > opening.first:
            start, slope = _affine(prefix, line.rank[q] - 1, opening.stop)
            missed = line.missed[line.cell[q]]
            for t in range(u.shape[0]):
                missed[t] += np.int32(seen[t] if start + u[t] * slope - cut[t] >= 0.0 else 0.0)


@part
def _count_walked(prefix: Prefix, opening: Opening, line: Line) -> bool:
    """Count a row by what the walk found, but for the ranks that are inside in all trials; whether that is sure."""
    few = opening.stop - opening.first <= FEW
    near = _count_few(prefix, opening, line, 1.0) if few else _count_many(prefix, opening, line, 1.0)
    if near and _matters(prefix, opening, line):
        if few:
            _count_few(prefix, opening, line, -1.0)
        else:
            _count_many(prefix, opening, line, -1.0)
        return False
    _count_outside(prefix, opening, line)
    return True


@part
def _shares_of_rank(row: WeightedRow, masses: RowMasses, rank: int) -> Shares:
    """Shares of the label at a rank; of the last one where there are fewer."""
    p = max(row.weight.shape[0] - rank, row.masked)
    return shares_at(row, p, masses_at(masses, p))


@part
def _count_exact(row: WeightedRow, masses: RowMasses, formula: Formula, line: Line) -> None:
    """Count a row by the classifier's arithmetic.

    At most one label depends on u: the first that is outside at u = 1. Thresholds are taken as they rise, so that the
    ranks inside at u = 1 only grow, and a rank's logarithms are taken once for all trials.
    """
    n_classes, first = row.weight.shape[0], line.rising[0]
    finite = n_classes - row.masked
    inside = min(exact_size(row, masses, formula, Cut(line.cut[first], line.refine[first]), 1.0), finite)
    shares = _shares_of_rank(row, masses, inside + 1)
    for k in range(line.u.shape[0]):
        t = line.rising[k]
        cut = Cut(line.cut[t], line.refine[t])
        while inside < finite and lets_in(cut, formula, inside + 1, shares, 1.0):
            inside += 1
            shares = _shares_of_rank(row, masses, inside + 1)
        if line.seen[t] > 0.0:
            size = inside + (inside < finite and lets_in(cut, formula, inside + 1, shares, line.u[t]))
            size = n_classes if cut.value == np.inf else size
            line.empty[t] += size == 0
            line.size[t] += size
            for q in range(line.rank.shape[0]):
                line.missed[line.cell[q], t] += size < line.rank[q]


@part
def _add_inside(inside: Floats, seen: Floats, j: int, size: Floats) -> None:
    """Add the ranks that are inside in all trials, (scores, alphas, n_rows), for those that evaluate the row."""
    for m in range(inside.shape[0]):
        for a in range(inside.shape[1]):
            total = size[m, j, a]
            for i in range(seen.shape[0]):
                ranks, of_row = inside[m, a, i], seen[i]
                for t in range(total.shape[0]):
                    total[t] += ranks * of_row[t]


@part
def _line_of(rows: AskedBlock, draws: BlockDraws, cuts: SortedCuts, tally: Tally, at: Cell, close: float) -> Line:
    m, j, a, i = at.m, at.j, at.a, at.i
    return Line(
        draws.u[i], draws.seen[i], cuts.value[m, j, a], cuts.refine[m, j, a], cuts.rising[m, j, a], tally.size[m, j, a],
        tally.empty[m, j, a], tally.missed[m, j, a], rows.cell[i], rows.rank[i], close,
    )  # fmt: skip


@part
def _count_rows(
    rows: AskedBlock, at: AtTemperatures, scores: Formulas, block: BlockCuts, tally: Tally, room: Buffers
) -> None:
    """Add what the sets of these rows hold, for each score, temperature, level and trial."""
    n_rows, n_classes = rows.ranked.shape
    draws, cuts, prefix, masses, weight = block.draws, block.cuts, room.prefix, room.masses, room.weight
    for j in range(at.temperature.shape[0]):
        inverse = 1.0 / at.temperature[j]
        for i in range(n_rows):
            row = FallingRow(room.falling[i], inverse, at.top[j, i])
            filled, weighed, masked = int(np.int64(0)), False, int(count_masked(rows.ranked[i]))
            for m in range(scores.code.shape[0]):
                formula = formula_at(scores, m)
                close = rounding(formula, n_classes)
                for a in range(cuts.value.shape[2]):
                    line = _line_of(rows, draws, cuts, tally, Cell(m, j, a, i), close)
                    sure, room.inside[m, a, i] = False, 0.0
                    if masked == 0:  # the walk knows nothing of masked classes
                        least, most = line.cut[line.rising[0]], line.cut[line.rising[line.cut.shape[0] - 1]]
                        opening = open_ranks(row, formula, least - close, most + close, prefix, filled)
                        filled = opening.filled
                        sure = _count_walked(prefix, opening, line)
                        room.inside[m, a, i] = opening.first if sure else 0.0
                    if not sure:
                        exact = WeightedRow(room.gaps, masked, inverse, weight)
                        if not weighed:
                            rank_gaps(rows.ranked[i], room.gaps)
                            weigh(room.gaps, at.temperature[j], weight)
                            fill_masses(exact, masses)
                            weighed = True
                        _count_exact(exact, masses, formula, line)
        _add_inside(room.inside, draws.seen, j, tally.size)


@kernel
def count_block(rows: AskedBlock, at: AtTemperatures, scores: Formulas, block: BlockCuts, tally: Tally) -> None:
    """Make room, and count."""
    n_rows, n_classes = rows.ranked.shape
    room = Buffers(
        np.ascontiguousarray(rows.ranked[:, ::-1]),
        prefix_of(n_classes),
        np.empty(n_classes),
        np.empty(n_classes),
        row_masses(n_classes),
        np.empty((scores.code.shape[0], block.cuts.value.shape[2], n_rows)),
    )
    _count_rows(rows, at, scores, block, tally, room)
