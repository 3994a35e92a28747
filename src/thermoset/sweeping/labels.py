"""Compiled loops over labels: shares around each row's label, thresholds of the trials, misses by class.

A label's score is affine in u, so over u it is an interval, and only labels whose interval meets the range of the
trials' thresholds need a look at each trial. Shares are the classifier's own, to the bit, and what the affine step
cannot decide beyond its rounding error is decided by the score's formula: results are those of the classifier.
"""

import math

import numpy as np
from numpy.typing import NDArray

from thermoset.compiled import kernel
from thermoset.engine import rank_of
from thermoset.kernels import Floats, Row, gap_weights, masses_around, rank_gaps, shares
from thermoset.scores import score_refine, score_value
from thermoset.sweeping.intervals import FIXED_POINT, Bools, Ints, Parameters, is_inside, share_inside

__all__ = [
    "N_SHARES",
    "TOP_SHARE",
    "count_misses",
    "is_flat",
    "label_refine",
    "label_shares",
    "label_value",
    "select_thresholds",
    "share_by_pairs",
]

N_SHARES = 7  # numbers `kernels.shares` gives for a label
TOP_SHARE = 3  # place of the top class's share among them
_CLOSE = 1e-14  # rounding error of the affine step
_STEEP = 1e-6  # where the score rises by less over all u, its rounding would show in the share of u inside


@kernel
def label_shares(block: Row, ranked: Row, labels: Ints, temperatures: Floats, rank: Ints, out: Floats) -> None:
    """Fill out (n_temperatures, N_SHARES, n_rows) with the shares around each row's label, and its rank."""
    n_classes = ranked.shape[1]
    gaps, log_weight, weight = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    for i in range(ranked.shape[0]):
        rank[i] = rank_of(block[i], labels[i])
        p = n_classes - rank[i]
        masked = rank_gaps(ranked[i], gaps)
        for t in range(temperatures.shape[0]):
            gap_weights(gaps, masked, temperatures[t], log_weight, weight)
            above, below, rest = masses_around(weight, p)
            around = shares(log_weight, weight, masked, p, above, below, rest)
            for k in range(N_SHARES):
                out[t, k, i] = around[k]


@kernel
def label_value(code: int, parameters: Parameters, rank: int, around: Floats, i: int, u: float) -> float:
    """Value of the label of place i; `around` (N_SHARES, n) holds one temperature."""
    if around[4, i] == -np.inf:
        return np.inf
    return score_value(code, parameters, rank, around[0, i], around[1, i], around[2, i], around[3, i], u)


@kernel
def label_refine(code: int, around: Floats, i: int, u: float) -> float:
    """Refinement of the label of place i."""
    if around[4, i] == -np.inf:
        return np.inf
    return score_refine(code, around[1, i], around[4, i], around[5, i], around[6, i], u)


@kernel
def _select(values: Floats, n: int, k: int) -> float:
    """The k-th smallest of the first n values, counting from 1; reorders them (Hoare 1961).

    numpy.partition inside a kernel takes seven seconds to compile.
    """
    low, high, place = 0, n - 1, k - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return float(values[place])


@kernel
def _select_near(values: Floats, k: int, low: float, high: float, scratch: Floats) -> float:
    """The k-th smallest value, left in place; quick when it lies in [low, high]."""
    below, within = 0, 0
    for j in range(values.shape[0]):
        v = values[j]
        below += v < low
        scratch[within] = v
        within += low <= v <= high
    if below < k <= below + within:
        return _select(scratch, within, k - below)
    for j in range(values.shape[0]):
        scratch[j] = values[j]
    return _select(scratch, values.shape[0], k)


@kernel
def select_thresholds(
    code: int,
    parameters: Parameters,
    rank: Ints,
    around: Floats,
    conformal: NDArray[np.int32],
    u: Floats,
    ks: Ints,
    q_value: Floats,
    q_refine: Floats,
) -> None:
    """The order statistic of each k in every trial: q_value and q_refine (n_alphas, trials).

    `conformal` holds the places of each trial's rows and `u` their numbers, both (trials, n).
    """
    n = conformal.shape[1]
    values, scratch = np.empty(n), np.empty(n + 1)
    low, high = np.empty(ks.shape[0]), np.empty(ks.shape[0])
    for t in range(conformal.shape[0]):
        for j in range(n):
            i = conformal[t, j]
            values[j] = label_value(code, parameters, rank[i], around, i, u[t, j])
        for a in range(ks.shape[0]):
            k = ks[a]
            if k > n:
                q_value[a, t], q_refine[a, t] = np.inf, np.inf
                continue
            if t == 0:  # trials scatter by about sqrt(n) ranks: a window of a few times that catches the others
                reach = 4 * int(math.sqrt(n))
                low[a] = _select_near(values, max(k - reach, 1), np.inf, -np.inf, scratch)
                high[a] = _select_near(values, min(k + reach, n), np.inf, -np.inf, scratch)
            q = _select_near(values, k, low[a], high[a], scratch)
            below, ties = 0, 0
            for j in range(n):
                below += values[j] < q
                if values[j] == q:
                    i = conformal[t, j]
                    scratch[ties] = label_refine(code, around, i, u[t, j])
                    ties += 1
            q_value[a, t] = q
            q_refine[a, t] = _select(scratch, ties, k - below)


@kernel
def _add_drawn(
    code: int,
    parameters: Parameters,
    rank: int,
    around: Floats,
    i: int,
    start: float,
    slope: float,
    u: Floats,
    seen: Bools,
    q_value: Floats,
    q_refine: Floats,
    missed: NDArray[np.int32],
) -> None:
    """Add the misses of place i, whose score is start + u slope."""
    close, reach = False, _CLOSE * (1.0 + abs(start))
    for t in range(q_value.shape[0]):
        close |= (abs(start + u[t] * slope - q_value[t]) <= reach) & seen[t]
    if not close:
        for t in range(q_value.shape[0]):
            missed[t] += seen[t] & (start + u[t] * slope > q_value[t])
        return
    for t in range(q_value.shape[0]):
        value = label_value(code, parameters, rank, around, i, u[t])
        refine = label_refine(code, around, i, u[t]) if value == q_value[t] else 0.0
        missed[t] += seen[t] and not is_inside(value, refine, q_value[t], q_refine[t])


@kernel
def is_flat(start: float, slope: float, q: float) -> bool:
    """Whether a score start + u slope meets q where it is too flat for its values to tell the share of u inside."""
    return slope < _STEEP and start - _CLOSE <= q <= start + slope + _CLOSE


@kernel
def share_by_pairs(
    code: int, parameters: Parameters, rank: int, around: Floats, i: int, q_value: float, q_refine: float
) -> float:
    """Share of u that lets the label in, by bisection over the pairs: right where values are all alike."""
    value, refine = label_value(code, parameters, rank, around, i, 1.0), label_refine(code, around, i, 1.0)
    if is_inside(value, refine, q_value, q_refine):
        return 1.0
    value, refine = label_value(code, parameters, rank, around, i, 0.0), label_refine(code, around, i, 0.0)
    if not is_inside(value, refine, q_value, q_refine):
        return 0.0
    inside, outside = 0.0, 1.0
    for _ in range(40):
        middle = (inside + outside) / 2
        value, refine = label_value(code, parameters, rank, around, i, middle), label_refine(code, around, i, middle)
        if is_inside(value, refine, q_value, q_refine):
            inside = middle
        else:
            outside = middle
    return inside


@kernel
def _add_expected(
    code: int,
    parameters: Parameters,
    rank: int,
    around: Floats,
    i: int,
    start: float,
    slope: float,
    seen: Bools,
    q_value: Floats,
    q_refine: Floats,
    expected: Ints,
) -> None:
    for t in range(expected.shape[0]):
        if seen[t]:
            if is_flat(start, slope, q_value[t]):
                share = share_by_pairs(code, parameters, rank, around, i, q_value[t], q_refine[t])
            else:
                share = share_inside(start, slope, q_value[t])
            expected[t] += np.int64((1.0 - share) * FIXED_POINT + 0.5)


@kernel
def count_misses(
    code: int,
    parameters: Parameters,
    rank: Ints,
    around: Floats,
    u: Floats,
    evaluation: Bools,
    edges: Ints,
    q_value: Floats,
    q_refine: Floats,
    keep_top: bool,
    misses: NDArray[np.int32],
    expected: Ints,
) -> None:
    """Evaluation rows whose label is outside, by class and trial; places edges[c] .. edges[c + 1] hold class c.

    `expected` receives the same with u integrated out, in fixed point; give it no trials to leave that out.
    `keep_top` puts the top label into every set.
    """
    smallest, largest = q_value.min(), q_value.max()
    integrate = expected.shape[1] > 0
    for c in range(edges.shape[0] - 1):
        missed = misses[c]
        for i in range(edges[c], edges[c + 1]):
            if keep_top and rank[i] == 1:
                continue
            end = label_value(code, parameters, rank[i], around, i, 1.0)
            reach = _CLOSE * (1.0 + abs(end))
            if end < smallest - reach:
                continue
            start, seen = label_value(code, parameters, rank[i], around, i, 0.0), evaluation[i]
            slope = end - start if start < np.inf else 0.0
            if start > largest + reach:
                for t in range(q_value.shape[0]):
                    missed[t] += seen[t]
            else:
                _add_drawn(
                    code, parameters, rank[i], around, i, start, slope, u[i], seen, q_value, q_refine, missed
                )  # fmt: skip
            if integrate:
                _add_expected(code, parameters, rank[i], around, i, start, slope, seen, q_value, q_refine, expected[c])
