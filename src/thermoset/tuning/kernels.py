"""Compiled loops for choosing a temperature: thresholds, hits and sizes with u integrated out, row by row.

Over u in [0, 1] a label's score is an interval, and the share of it below the threshold is the probability that the
label is in the set. Averages of such shares are what sets show on average over u, without the noise of drawing it.
A score without u (LAC, or randomized=False) is an interval of no width: shares are 0 or 1.
"""

import numpy as np

from thermoset.compiled import kernel
from thermoset.kernels import Floats, Row
from thermoset.sweeping.intervals import FIXED_POINT, Ints, Parameters, is_inside, share_inside
from thermoset.sweeping.labels import is_flat, label_refine, label_value, share_by_pairs
from thermoset.sweeping.sizes import exact_means, exact_sizes, open_ranks

__all__ = ["expected_hits", "expected_sizes", "solve_thresholds"]

_HALVINGS = 64  # of an interval of values: down to neighbouring floats


@kernel
def _inside(
    code: int,
    parameters: Parameters,
    rank: int,
    around: Floats,
    i: int,
    drawn: bool,
    start: float,
    slope: float,
    q_value: float,
    q_refine: float,
) -> float:
    """Share of u that lets the label of row i in."""
    if q_value == np.inf:
        return 1.0
    if not is_flat(start, slope, q_value):
        return share_inside(start, slope, q_value)
    if drawn:
        return share_by_pairs(code, parameters, rank, around, i, q_value, q_refine)
    value, refine = label_value(code, parameters, rank, around, i, 1.0), label_refine(code, around, i, 1.0)
    return 1.0 if is_inside(value, refine, q_value, q_refine) else 0.0


@kernel
def _intervals(
    code: int, parameters: Parameters, rank: Ints, around: Floats, drawn: bool, starts: Floats, slopes: Floats
) -> None:
    """Scores of the labels at u = 0, and how much they rise to u = 1."""
    for i in range(rank.shape[0]):
        end = label_value(code, parameters, rank[i], around, i, 1.0)
        starts[i] = label_value(code, parameters, rank[i], around, i, 0.0) if drawn else end
        slopes[i] = end - starts[i] if end < np.inf else 0.0


@kernel
def _solve_value(starts: Floats, slopes: Floats, low: float, high: float, target: float, scratch: Floats) -> float:
    """The value between low and high that lets in `target` rows; `scratch` is (2, n)."""
    sure, n = 0.0, starts.shape[0]
    for i in range(n):
        scratch[0, i], scratch[1, i] = starts[i], slopes[i]
    for _ in range(_HALVINGS // 4):
        for _ in range(4):
            middle, total = (low + high) / 2, sure
            for i in range(n):
                total += share_inside(scratch[0, i], scratch[1, i], middle)
            if total < target:
                low = middle
            else:
                high = middle
        left = 0
        for i in range(n):  # only rows whose interval meets the bracket need another look
            start, slope = scratch[0, i], scratch[1, i]
            if start + slope < low:
                sure += 1.0
            elif start <= high:
                scratch[0, left], scratch[1, left] = start, slope
                left += 1
        n = left
    return high


@kernel
def _solve_refine(
    code: int,
    parameters: Parameters,
    rank: Ints,
    around: Floats,
    drawn: bool,
    starts: Floats,
    slopes: Floats,
    q: float,
    target: float,
    open_rows: Ints,
) -> float:
    """Where values are too close to tell apart, the threshold's second number that lets in `target` rows."""
    low, high, sure, n = np.inf, -np.inf, 0.0, 0
    for i in range(rank.shape[0]):
        if is_flat(starts[i], slopes[i], q):
            open_rows[n] = i
            n += 1
            low = min(low, label_refine(code, around, i, 0.0 if drawn else 1.0))
            high = max(high, label_refine(code, around, i, 1.0))
        else:
            sure += share_inside(starts[i], slopes[i], q)
    if not -np.inf < low < high < np.inf:
        return np.inf
    low -= 1.0
    for _ in range(_HALVINGS):
        middle, total = (low + high) / 2, sure
        for k in range(n):
            i = open_rows[k]
            total += _inside(code, parameters, rank[i], around, i, drawn, starts[i], slopes[i], q, middle)
        if total < target:
            low = middle
        else:
            high = middle
        left = 0
        for k in range(n):  # rows that both ends of the bracket let in, or keep out, need no other look
            i = open_rows[k]
            least = _inside(code, parameters, rank[i], around, i, drawn, starts[i], slopes[i], q, low)
            if least == 1.0:
                sure += 1.0
            elif _inside(code, parameters, rank[i], around, i, drawn, starts[i], slopes[i], q, high) > 0.0:
                open_rows[left] = i
                left += 1
        n = left
    return high


@kernel
def solve_thresholds(
    code: int,
    parameters: Parameters,
    rank: Ints,
    around: Floats,
    drawn: bool,
    targets: Floats,
    q_value: Floats,
    q_refine: Floats,
) -> None:
    """The thresholds that let in `targets` rows with u integrated out, by bisection; +inf where there are fewer.

    `around` (N_SHARES, n) holds one temperature.
    """
    n = rank.shape[0]
    starts, slopes, scratch = np.empty(n), np.empty(n), np.empty((2, n))
    open_rows = np.empty(n, dtype=np.int64)
    _intervals(code, parameters, rank, around, drawn, starts, slopes)
    bottom, top, finite = np.inf, -np.inf, 0
    for i in range(n):
        if starts[i] < np.inf:
            finite += 1
            bottom, top = min(bottom, starts[i]), max(top, starts[i] + slopes[i])
    for a in range(targets.shape[0]):
        if targets[a] > finite:
            q_value[a], q_refine[a] = np.inf, np.inf
            continue
        q = _solve_value(starts, slopes, bottom - 1.0, top, targets[a], scratch)
        q_value[a] = q
        q_refine[a] = _solve_refine(code, parameters, rank, around, drawn, starts, slopes, q, targets[a], open_rows)


@kernel
def expected_hits(
    code: int,
    parameters: Parameters,
    rank: Ints,
    around: Floats,
    drawn: bool,
    keep_top: bool,
    q_value: Floats,
    q_refine: Floats,
    hits: Floats,
) -> None:
    """Probability over u that each row's label is in its set, for each threshold: hits (n_thresholds, n)."""
    n = rank.shape[0]
    starts, slopes = np.empty(n), np.empty(n)
    _intervals(code, parameters, rank, around, drawn, starts, slopes)
    for a in range(q_value.shape[0]):
        for i in range(n):
            if keep_top and rank[i] == 1:
                hits[a, i] = 1.0
            else:
                hits[a, i] = _inside(
                    code, parameters, rank[i], around, i, drawn, starts[i], slopes[i], q_value[a], q_refine[a]
                )


@kernel
def _walk(starts: Floats, ends: Floats, first: int, stop: int, drawn: bool, q: Floats, out: Floats) -> bool:
    """Expected sizes from the scores of the open ranks; returns whether one is too flat to tell."""
    flat = False
    for k in range(q.shape[0]):
        out[k] = first
        for r in range(first, stop):
            start = starts[r] if drawn else ends[r]
            flat |= is_flat(start, ends[r] - start, q[k])
            out[k] += share_inside(start, ends[r] - start, q[k])
    return flat


@kernel
def expected_sizes(
    ranked: Row,
    falling: Row,
    temperatures: Floats,
    tops: Floats,
    code: int,
    parameters: Parameters,
    drawn: bool,
    q_value: Floats,
    q_refine: Floats,
    out: Floats,
) -> None:
    """Set sizes averaged over u: thresholds (temperatures, K), out (temperatures, K, n_rows).

    The walk of the sweep, and its exact fallback where scores are too flat for it.
    """
    n_classes, count = ranked.shape[1], q_value.shape[1]
    own, low = np.empty(n_classes), np.zeros(n_classes + 1)
    starts, ends = np.empty(n_classes + 1), np.empty(n_classes + 1)
    log_weight, weight = np.empty(n_classes), np.empty(n_classes)
    above, below = np.empty(n_classes), np.empty(n_classes)
    sizes, means, ones = np.empty(count, dtype=np.int32), np.empty(count, dtype=np.int64), np.ones(count)
    mine = np.empty(count)
    close = 4e-16 * (n_classes + 64) * (1.0 + parameters[0] * n_classes)
    for i in range(ranked.shape[0]):
        masked = ranked[i, 0] == -np.inf
        for j in range(temperatures.shape[0]):
            q, refine, filled = q_value[j], q_refine[j], int(np.int64(0))
            flat = masked or q.max() == np.inf
            if not flat:
                first, stop, filled = open_ranks(
                    falling[i], 1.0 / temperatures[j], tops[j, i], code, parameters,
                    q.min() - close, q.max() + close, own, low, filled, starts, ends,
                )  # fmt: skip
                flat = _walk(starts, ends, first, stop, drawn, q, mine)
            if flat:
                exact_sizes(
                    ranked[i], temperatures[j], code, parameters, ones, q, refine,
                    log_weight, weight, above, below, sizes,
                )  # fmt: skip
                if drawn:
                    exact_means(code, parameters, q, refine, log_weight, weight, above, below, means)
                for k in range(count):
                    mine[k] = means[k] / FIXED_POINT if drawn else sizes[k]
            for k in range(count):
                out[j, k, i] = mine[k]
