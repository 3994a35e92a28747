"""Compiled loops over ranks: set sizes of every row for every score, temperature, alpha and trial.

For one threshold a set is a prefix of the ranking. A walk along the prefix, with fast sums, finds the ranks that are
inside for every trial and those that are open; an open rank's score is affine in u, and each trial compares its own.
Where a comparison is closer than the rounding error of the walk, the row is done again by the classifier's arithmetic,
so that sizes are exactly the classifier's.
"""

import numpy as np
from numpy.typing import NDArray

from thermoset.compiled import kernel
from thermoset.engine import score_pair
from thermoset.kernels import MOST_NEGATIVE, Floats, Row, all_masses, exp, rank_weights, shares
from thermoset.scores import score_value
from thermoset.sweeping.intervals import FIXED_POINT, Bools, Ints, Parameters, is_inside, share_inside

__all__ = ["count_sizes", "exact_means", "exact_sizes", "open_ranks"]

_FEW = 8  # open ranks that are quicker done for all trials at once than by a walk of the thresholds
_CHUNK = 16  # ranks whose exponentials are computed together


@kernel
def exact_sizes(
    ranked: Row,
    temperature: float,
    code: int,
    parameters: Parameters,
    u: Floats,
    q_value: Floats,
    q_refine: Floats,
    log_weight: Floats,
    weight: Floats,
    above: Floats,
    below: Floats,
    sizes: NDArray[np.int32],
) -> None:
    """Set sizes of one row for each trial, by the classifier's arithmetic."""
    n_classes = ranked.shape[0]
    masked = rank_weights(ranked, temperature, log_weight, weight)
    all_masses(weight, above, below)
    rest = below[n_classes - 1]
    for t in range(q_value.shape[0]):
        inside, outside = 0, n_classes - masked + 1
        step = 1
        while outside - inside > 1:
            # sets are small: gallop from the top, then bisect
            rank = min(inside + step, outside - 1) if step > 0 else (inside + outside) // 2
            p = n_classes - rank
            around = shares(log_weight, weight, masked, p, above[p], below[p], rest)
            value, refine = score_pair(code, parameters, rank, around, u[t])
            if is_inside(value, refine, q_value[t], q_refine[t]):
                inside, step = rank, 2 * step
            else:
                outside, step = rank, 0
        sizes[t] = n_classes if q_value[t] == np.inf else inside


@kernel
def exact_means(
    code: int,
    parameters: Parameters,
    q_value: Floats,
    q_refine: Floats,
    log_weight: Floats,
    weight: Floats,
    above: Floats,
    below: Floats,
    means: Ints,
) -> None:
    """Expected set sizes over u of the row whose masses `exact_sizes` left, in fixed point.

    Each rank counts with the share of u that lets it in, found by bisection: u* to 2**-40, no closed form needed
    where shares underflow.
    """
    n_classes, masked = weight.shape[0], 0
    while log_weight[masked] == -np.inf:
        masked += 1
    for t in range(q_value.shape[0]):
        means[t] = n_classes * np.int64(FIXED_POINT) if q_value[t] == np.inf else 0
        for rank in range(1, n_classes - masked + 1):
            if q_value[t] == np.inf:
                break
            p = n_classes - rank
            around = shares(log_weight, weight, masked, p, above[p], below[p], below[n_classes - 1])
            value, refine = score_pair(code, parameters, rank, around, 1.0)
            if is_inside(value, refine, q_value[t], q_refine[t]):
                means[t] += np.int64(FIXED_POINT)
                continue
            inside, outside = 0.0, 1.0
            for _ in range(40):
                middle = (inside + outside) / 2
                value, refine = score_pair(code, parameters, rank, around, middle)
                if is_inside(value, refine, q_value[t], q_refine[t]):
                    inside = middle
                else:
                    outside = middle
            means[t] += np.int64(inside * FIXED_POINT + 0.5)
            break  # at most one label depends on u


@kernel
def _extend(falling: Row, inverse: float, top: float, own: Floats, low: Floats, filled: int) -> int:
    """Compute shares of the next chunk of ranks and the sums above them; own[r] and low[r] belong to rank r + 1."""
    stop = int(min(filled + _CHUNK, falling.shape[0]))
    first = np.float64(falling[0])
    # Slices, because an index that the compiler cannot prove to be positive keeps it from vectorising the loop.
    logits, fresh = falling[filled:stop], own[filled:stop]
    for k in range(logits.shape[0]):
        fresh[k] = top * exp(max((np.float64(logits[k]) - first) * inverse, MOST_NEGATIVE))
    for r in range(filled, stop):
        low[r + 1] = low[r] + own[r]
    return stop


@kernel
def _skip_inside(
    falling: Row,
    inverse: float,
    top: float,
    code: int,
    parameters: Parameters,
    bound: float,
    own: Floats,
    low: Floats,
    filled: int,
) -> tuple[int, int]:
    """Whole chunks of ranks that are inside for every threshold and u need no look at their ranks."""
    inside, n_classes = 0, falling.shape[0]
    while inside + _CHUNK <= n_classes:
        if filled < inside + _CHUNK:
            filled = _extend(falling, inverse, top, own, low, filled)
        r = inside + _CHUNK - 1
        if not score_value(code, parameters, r + 1, low[r], own[r], max(1.0 - low[r + 1], 0.0), top, 1.0) < bound:
            break
        inside += _CHUNK
    return inside, filled


@kernel
def _score_chunk(
    code: int,
    parameters: Parameters,
    first: int,
    stop: int,
    own: Floats,
    low: Floats,
    top: float,
    starts: Floats,
    ends: Floats,
) -> None:
    """Scores at u = 0 and u = 1 of ranks first + 1 .. stop."""
    share, above, beyond = own[first:stop], low[first:stop], low[first + 1 : stop + 1]
    start, end = starts[first:stop], ends[first:stop]
    for k in range(share.shape[0]):
        rank, tail = first + k + 1, max(1.0 - beyond[k], 0.0)
        start[k] = score_value(code, parameters, rank, above[k], share[k], tail, top, 0.0)
        end[k] = score_value(code, parameters, rank, above[k], share[k], tail, top, 1.0)


@kernel
def open_ranks(
    falling: Row,
    inverse: float,
    top: float,
    code: int,
    parameters: Parameters,
    smallest: float,
    largest: float,
    own: Floats,
    low: Floats,
    filled: int,
    starts: Floats,
    ends: Floats,
) -> tuple[int, int, int]:
    """Walk a row's prefix: how many ranks are inside whatever the trial, where the open ones end, how much is filled.

    Of the open ranks, which come next, starts and ends hold the scores at u = 0 and u = 1.
    """
    n_classes = falling.shape[0]
    inside, filled = _skip_inside(falling, inverse, top, code, parameters, smallest, own, low, filled)
    scored, stop = inside, inside
    for r in range(inside, n_classes):
        if filled <= r:
            filled = _extend(falling, inverse, top, own, low, filled)
        if r - inside < _FEW:  # mostly that is all
            tail = max(1.0 - low[r + 1], 0.0)
            ends[r] = score_value(code, parameters, r + 1, low[r], own[r], tail, top, 1.0)
            if ends[r] < smallest:
                inside = stop = r + 1
                continue
            starts[r] = score_value(code, parameters, r + 1, low[r], own[r], tail, top, 0.0)
        elif r >= scored:
            scored = min(r + _CHUNK, n_classes)
            while filled < scored:
                filled = _extend(falling, inverse, top, own, low, filled)
            _score_chunk(code, parameters, r, scored, own, low, top, starts, ends)
        if starts[r] > largest:
            break
        stop = r + 1
    return inside, stop, filled


@kernel
def _sizes_of_few(
    starts: Floats, ends: Floats, first: int, stop: int, u: Floats, q: Floats, close: float, sizes: NDArray[np.int32]
) -> bool:
    """Set sizes for each trial: rank by rank, all trials at once. Returns whether a comparison was close."""
    near = False
    for t in range(q.shape[0]):
        sizes[t] = first
    for r in range(first, stop):
        start, slope = starts[r], ends[r] - starts[r]
        for t in range(q.shape[0]):
            distance = start + u[t] * slope - q[t]
            near |= abs(distance) <= close
            sizes[t] += distance < 0.0
    return near


@kernel
def _sizes_of_many(
    starts: Floats,
    ends: Floats,
    first: int,
    stop: int,
    u: Floats,
    q: Floats,
    rising: Ints,
    close: float,
    u_rising: Floats,
    sizes: NDArray[np.int32],
) -> bool:
    """The same when many ranks are open: thresholds in rising order walk along the ranks, and each meets one."""
    near, r = False, first
    starts[stop], ends[stop] = np.inf, np.inf
    for k in range(q.shape[0]):
        u_rising[k] = u[rising[k]]
    for k in range(q.shape[0]):
        threshold = q[rising[k]]
        while ends[r] < threshold - close:
            r += 1
        distance = starts[r] + u_rising[k] * (ends[r] - starts[r]) - threshold if r < stop else np.inf
        near |= (abs(distance) <= close) | (ends[r] <= threshold + close)
        sizes[rising[k]] = r + (distance < 0.0)
    return near


@kernel
def _matters(
    starts: Floats, ends: Floats, first: int, stop: int, u: Floats, seen: Bools, q: Floats, close: float
) -> bool:
    """Whether a close comparison belongs to a trial that evaluates this row; a threshold's own row never does."""
    for r in range(first, stop):
        slope = ends[r] - starts[r]
        for t in range(q.shape[0]):
            touch = abs(ends[r] - q[t]) <= close or abs(starts[r] + u[t] * slope - q[t]) <= close
            if touch and seen[t]:
                return True
    return False


@kernel
def _means_of(starts: Floats, ends: Floats, first: int, stop: int, q: Floats, means: Ints) -> None:
    """Set sizes with u integrated out, for each trial, in fixed point."""
    for t in range(q.shape[0]):
        means[t] = first * np.int64(FIXED_POINT)
    for r in range(first, stop):
        for t in range(q.shape[0]):
            means[t] += np.int64(share_inside(starts[r], ends[r] - starts[r], q[t]) * FIXED_POINT + 0.5)


@kernel
def _add(mine: NDArray[np.int32], seen: Bools, sizes: NDArray[np.int32], empty: NDArray[np.int32]) -> None:
    none = False
    for t in range(mine.shape[0]):
        sizes[t] += mine[t] if seen[t] else np.int32(0)
        none |= mine[t] == 0
    if none:
        for t in range(mine.shape[0]):
            empty[t] += np.int32(seen[t] & (mine[t] == 0))


@kernel
def _add_means(means: Ints, seen: Bools, sizes: Ints, empty: Ints) -> None:
    one = np.int64(FIXED_POINT)
    for t in range(means.shape[0]):
        sizes[t] += means[t] if seen[t] else np.int64(0)
        empty[t] += max(one - means[t], np.int64(0)) if seen[t] else np.int64(0)


@kernel
def count_sizes(  # noqa: C901 (calls with this many arrays cost more than the work they would name)
    ranked: Row,
    falling: Row,
    temperatures: Floats,
    tops: Floats,
    codes: Ints,
    parameters: Floats,
    u: Floats,
    evaluation: Bools,
    q_value: Floats,
    q_refine: Floats,
    rising: Ints,
    sizes: NDArray[np.int32],
    empty: NDArray[np.int32],
    expected_sizes: Ints,
    expected_empty: Ints,
) -> None:
    """Add the sizes of these rows' sets, and the number of empty ones, for each score, temperature, alpha and trial.

    `falling` holds the ranked rows from the top down: memory read forwards is what the processor can vectorise.
    Thresholds and sums are (scores, temperatures, alphas, trials), `rising` the order of thresholds over trials; the
    expected sums, with u integrated out, are in fixed point, and left out when they have no trials.
    """
    n_classes, trials = ranked.shape[1], q_value.shape[3]
    integrate = expected_sizes.shape[3] > 0
    own, low = np.empty(n_classes), np.zeros(n_classes + 1)
    starts, ends = np.empty(n_classes + 1), np.empty(n_classes + 1)
    log_weight, weight = np.empty(n_classes), np.empty(n_classes)
    above, below = np.empty(n_classes), np.empty(n_classes)
    mine, means = np.empty(trials, dtype=np.int32), np.empty(trials, dtype=np.int64)
    u_rising = np.empty(trials)
    for i in range(ranked.shape[0]):
        row, seen = ranked[i], evaluation[i]
        masked = row[0] == -np.inf  # the walk knows nothing of masked classes
        for j in range(temperatures.shape[0]):
            filled = int(np.int64(0))  # a plain 0 would be a type of its own, and compile everything below twice
            for m in range(codes.shape[0]):
                given = (parameters[m, 0], parameters[m, 1], parameters[m, 2])
                # bounds the rounding error of sums of n_classes shares, and of a penalty or weight for each rank
                close = 4e-16 * (n_classes + 64) * (1.0 + given[0] * n_classes)
                for a in range(q_value.shape[2]):
                    q, refine, order = q_value[m, j, a], q_refine[m, j, a], rising[m, j, a]
                    done = False
                    if not masked:
                        first, stop, filled = open_ranks(
                            falling[i], 1.0 / temperatures[j], tops[j, i], codes[m], given,
                            q[order[0]] - close, q[order[trials - 1]] + close, own, low, filled, starts, ends,
                        )  # fmt: skip
                        if stop - first <= _FEW:
                            near = _sizes_of_few(starts, ends, first, stop, u[i], q, close, mine)
                        else:
                            near = _sizes_of_many(
                                starts, ends, first, stop, u[i], q, order, close, u_rising, mine
                            )  # fmt: skip
                        done = not near or not _matters(starts, ends, first, stop, u[i], seen, q, close)
                        if integrate:
                            _means_of(starts, ends, first, stop, q, means)
                    if not done:
                        exact_sizes(
                            row, temperatures[j], codes[m], given, u[i], q, refine,
                            log_weight, weight, above, below, mine,
                        )  # fmt: skip
                        if integrate:
                            exact_means(codes[m], given, q, refine, log_weight, weight, above, below, means)
                    _add(mine, seen, sizes[m, j, a], empty[m, j, a])
                    if integrate:
                        _add_means(means, seen, expected_sizes[m, j, a], expected_empty[m, j, a])
