"""What sets hold with u integrated out: expected hits, sizes and misses, and thresholds that reach given expectations.

Ranks tile the line of values, so at most one rank of a row is partly inside: an expectation is a crossing and one
division.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from thermoset import kernels
from thermoset.arrays import Block, Bools, Floats, Ints, as_floats, as_int64
from thermoset.rows import Progress, SortedRows, Sorter, map_rows, row_array, sum_rows
from thermoset.scores import Score
from thermoset.sweeping.engine import LabelParts, Trials

FIXED_POINT = 2.0**28
"""Expected counts are summed in 64-bit integers of this unit: their order cannot matter."""

_CHUNK = 4096  # rows whose expected hits are held for all trials at once


def expected_hits(
    labels: LabelParts, score: Score, j: int, thresholds: Floats, *, randomized: bool = True,
    lines: Floats | None = None,
) -> Floats:  # fmt: skip
    """Probability over u that each label is in its set at temperature j, under thresholds (2, K): (K, n).

    Over u a label's value is an interval, and the share of it below the threshold is that probability. A score without
    u is an interval of no width: the share is 0 or 1. `lines` are those of the labels, where they are known already.
    """
    lines = labels.lines(score, j) if lines is None else lines
    drawn, out = randomized and score.uses_u, np.empty((thresholds.shape[1], len(labels.ranks)))
    kernels.expected_hits(score.terms, drawn, *labels.terms(j), lines, np.ascontiguousarray(thresholds), out)
    return out


def solve_thresholds(labels: LabelParts, score: Score, j: int, targets: Floats, *, randomized: bool = True) -> Floats:
    """The thresholds, (2, K), that let in `targets` rows on average over u, at temperature j.

    The number of rows let in is piecewise linear in the threshold: one sort of the places where it bends brackets every
    level, and between two of them the equation is linear. Where values saturate, the same is done with tie-breaks.
    +inf where there are too few rows; -inf where those that are inside whatever the threshold are enough.
    """
    lines = labels.lines(score, j)
    low, own, steps, part = lines
    unit = score.terms.unit
    bound = kernels.SATURATED if score.terms.code in (kernels.APS, kernels.RAPS) else np.inf
    ranks = np.arange(len(low))
    drawn = randomized and score.uses_u
    if not drawn:
        at_one = np.sort(labels.scores(score, j, ranks, np.ones(len(low))))
        places = np.ceil(np.asarray(targets) - 1e-9).astype(np.int64) - 1
        reachable = np.count_nonzero(at_one.real < np.inf)
        thresholds = at_one[np.clip(places, 0, len(at_one) - 1)]
        thresholds[places >= reachable] = complex(np.inf, np.inf)
        thresholds[places < np.count_nonzero(np.isneginf(at_one.real))] = complex(-np.inf, -np.inf)
        return as_floats(thresholds)
    out = np.empty((2, len(targets)))
    start, slope = low + unit * steps, own + unit * part
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(own > 0, np.clip((bound - low) / own, 0.0, 1.0), 1.0)  # the share of u that is not saturated
    finite = np.isfinite(low)
    below[~np.isfinite(below)] = 1.0
    bends = np.unique(
        np.concatenate([start[finite], (start + slope * below)[finite], (1.0 + unit * steps)[finite & (below < 1)]])
    )
    sure, reachable = np.count_nonzero(np.isneginf(low)), np.count_nonzero(low < np.inf)

    @cache
    def rows_below(q: float) -> float:
        return float(expected_hits(labels, score, j, np.array([[q], [np.inf]]), lines=lines)[0].sum())

    about = _rows_below_about(start[finite], (start + slope * below)[finite], bends) + sure

    for k, target in enumerate(np.asarray(targets).tolist()):
        if target > reachable or target <= sure:
            out[:, k] = np.inf if target > reachable else -np.inf
            continue
        guess = min(int(np.searchsorted(about, target)), len(bends) - 1)
        place = _first_reaching(lambda i: rows_below(float(bends[i])), len(bends), target, guess)
        before = float(bends[place - 1] if place else bends[0] - 1.0)
        ramps = finite & (start <= before) & (start + slope * below >= bends[place]) & (slope > 0)
        steady = rows_below(before) - (
            np.clip((before - start[ramps]) / slope[ramps], 0.0, 1.0).sum() if ramps.any() else 0.0
        )
        rate = (1.0 / slope[ramps]).sum()
        q = (target - steady + (start[ramps] / slope[ramps]).sum()) / rate if rate > 0 else np.inf
        if before <= q < bends[place]:
            out[:, k] = q, np.inf
        else:
            out[:, k] = bends[place], _solve_tie(labels, score, j, float(bends[place]), target)
    return out


def _rows_below_about(start: Floats, end: Floats, bends: Floats) -> Floats:
    """About how many rows are let in at each bend, never falling: where a search for a threshold begins."""
    width = np.maximum(end - start, 1e-9)
    first, last = np.argsort(start), np.argsort(end)
    begun, done = np.searchsorted(start[first], bends, side="right"), np.searchsorted(end[last], bends, side="right")
    rate, offset = 1.0 / width, start / width

    def sums(values: Floats, order: Ints, count: Ints) -> Floats:
        return np.asarray(np.concatenate([[0.0], np.cumsum(values[order])])[count])

    inside = bends * (sums(rate, first, begun) - sums(rate, last, done))
    inside -= sums(offset, first, begun) - sums(offset, last, done)
    return np.asarray(np.maximum.accumulate(done + np.clip(inside, 0.0, begun - done)))


def _first_reaching(count: Callable[[int], float], n: int, target: float, guess: int) -> int:
    """The first of n places, in which counts grow, that reaches the target; the last if none does.

    From a guess on the search goes in steps that double, until the place is between two of them.
    """
    low = high = guess
    step = 1
    while low > 0 and count(low) >= target:
        low, high, step = max(low - step, 0), low, 2 * step
    while high < n - 1 and count(high) < target:
        low, high, step = high + 1, min(high + step, n - 1), 2 * step
    return bisect_left(range(n), target, low, high, key=count)


_HALVINGS = 64


def _solve_tie(labels: LabelParts, score: Score, j: int, q: float, target: float) -> float:
    """The tie-break with which a threshold at `q`, where values tie, lets in `target` rows: by bisection of its log."""
    ranks = np.arange(len(labels.ranks))
    ends = [labels.scores(score, j, ranks, np.full(len(ranks), u)) for u in (0.0, 1.0)]
    tied = (ends[0].real <= q) & (ends[1].real >= q)
    both = np.concatenate([end.imag[tied] for end in ends])
    both = both[np.isfinite(both)]
    if not len(both):
        return np.inf

    def reached(tie: float) -> bool:
        return float(expected_hits(labels, score, j, np.array([[q], [tie]]))[0].sum()) >= target

    low, high = float(both.min()) - 1.0, float(both.max())
    if not reached(high):
        return np.inf
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if reached(middle):
            high = middle
        else:
            low = middle
    return high


def expected_sizes(
    rows: SortedRows, labels: LabelParts, score: Score, thresholds: Floats, *, randomized: bool = True,
    n_jobs: int | None = None, progress: Progress | None = None,
) -> Floats:  # fmt: skip
    """Sizes of all rows averaged over u under thresholds (2, T, K): (T, K, n)."""
    sizes = row_array((*thresholds.shape[1:], rows.source.n_rows))
    map_rows(
        rows.source,
        _expected_block,
        [sizes],
        per_row=[range(rows.source.n_rows), labels.others.T],
        fixed=[rows.sorter, score, labels.temperatures, thresholds, randomized],
        n_jobs=n_jobs,
        progress=progress,
    )
    return sizes


def _expected_block(
    block: Block, numbers: range, others: Floats, sorter: Sorter, score: Score, temperatures: Floats,
    thresholds: Floats, randomized: bool,
) -> tuple[Floats]:  # fmt: skip
    out = np.empty((*thresholds.shape[1:], len(block)))
    kernels.expected_sizes(
        score.terms, randomized and score.uses_u, temperatures, sorter.gaps(numbers.start, block),
        np.ascontiguousarray(others.T), np.ascontiguousarray(thresholds), out,
    )  # fmt: skip
    return (out,)


def expected_misses(labels: LabelParts, score: Score, j: int, own: Ints, trials: Trials, thresholds: Floats) -> Floats:
    """Expected misses of each class in every trial at temperature j, (C, trials); thresholds are (2, trials)."""
    out = np.zeros((trials.counts.shape[1], trials.count), dtype=np.int64)
    for first in range(0, len(own), _CHUNK):
        rows = slice(first, first + _CHUNK)
        hits = expected_hits(labels.at(j).take(rows), score, 0, thresholds, randomized=trials.randomized)
        kernels.add_expected_misses(hits, as_int64(own[rows]), np.ascontiguousarray(trials.evaluation[rows]), out)
    return out / FIXED_POINT


def expected_totals(
    rows: SortedRows, labels: LabelParts, score: Score, thresholds: Floats, trials: Trials, *,
    n_jobs: int | None = None, progress: Progress | None = None,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Expected labels in all sets, and expected empty sets, of the evaluation rows, under (2, T, alphas, trials)."""
    shape = thresholds.shape[1:]
    flat = thresholds.reshape(2, shape[0], -1)
    totals = sum_rows(
        rows.source,
        _add_expected,
        partial(_zeros, flat.shape[1:]),
        per_row=[range(rows.source.n_rows), labels.others.T, trials.evaluation],
        fixed=[rows.sorter, score, labels.temperatures, flat],
        n_jobs=n_jobs,
        progress=progress,
    )
    size, empty = (fixed.reshape(shape) / FIXED_POINT for fixed in totals)
    return size, empty


def _zeros(shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    return np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)


def _add_expected(
    block: Block, sums: tuple[Ints, Ints], numbers: range, others: Floats, seen: Bools, sorter: Sorter, score: Score,
    temperatures: Floats, thresholds: Floats,
) -> None:  # fmt: skip
    (sizes,) = _expected_block(block, numbers, others, sorter, score, temperatures, thresholds, True)
    every = np.tile(seen.T, (sizes.shape[1] // seen.shape[1], 1))
    for total, mean in zip(sums, (sizes, np.maximum(1.0 - sizes, 0.0)), strict=True):
        fixed = (mean * FIXED_POINT + 0.5).astype(np.int64)
        np.add(total, np.where(every, fixed, 0).sum(axis=-1), out=total)
