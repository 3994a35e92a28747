"""Bounds of the scores of rows of which only the K largest logits are kept: the least and the most each can be.

Every score depends on the classes that are not kept through their mass alone, in one direction
(`Score.rises_with_rest`), so a bound is its formula at one bound of that mass, rounded outwards. Calibration takes
upper bounds and prediction lower ones: sets hold at least what whole rows would put there.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from thermoset import kernels
from thermoset.arrays import Bools, Floats, Ints, Pairs, as_float64, pairs
from thermoset.data.tail_mass import slack_of, tail_bounds
from thermoset.data.top_k import LEAST_KEPT, TopRows
from thermoset.errors import InputError
from thermoset.plain_scores import distances_below_top
from thermoset.rows import block_rows, run_tasks
from thermoset.scores import Margin, NeverEmpty, Score
from thermoset.uniforms import Randomness

LOWER, UPPER = -1.0, 1.0
"""Which bound: the sign that pushes outwards."""

_UNDERFLOW = 1e-300  # where weights of whole rows may have underflowed to 0
_WORK = 8  # arrays of K numbers that a row needs while it is worked on


class _KeptRows(NamedTuple):
    """Rows at a temperature, with one bound of the mass that is not kept: weights relative to the top class, (n, K).

    tail, log_tail : everything ranked below a place; total (n, 1) : everything; rest (n, 1) : what is not kept.
    """

    log_weight: Floats
    weight: Floats
    above: Floats
    tail: Floats
    log_tail: Floats
    total: Floats
    rest: Floats


def _weigh(logits: Floats, temperature: float, log_rest: Floats) -> _KeptRows:
    with np.errstate(over="ignore", invalid="ignore"):
        log_weight = np.maximum((logits - logits[:, :1]) * (1.0 / temperature), kernels.FURTHEST)
        rest = np.exp(log_rest)[:, None]
    log_weight[np.isneginf(logits)] = -np.inf
    weight = np.exp(log_weight)
    above = np.cumsum(weight, axis=1) - weight
    from_below = np.concatenate([rest, weight[:, :0:-1]], axis=1)
    tail = np.cumsum(from_below, axis=1)[:, ::-1]
    log_from_below = np.concatenate([log_rest[:, None], log_weight[:, :0:-1]], axis=1)
    log_tail = np.logaddexp.accumulate(log_from_below, axis=1)[:, ::-1]
    return _KeptRows(log_weight, weight, above, tail, log_tail, tail[:, :1] + weight[:, :1], rest)


def _up(mass: Floats, slack: float) -> Floats:
    """A mass that the score rises with, rounded outwards; with minus the slack, one that it falls with."""
    return mass * (1.0 + slack)


def _log_up(log_mass: Floats, slack: float) -> Floats:
    """The log of such a mass; that of nothing stays."""
    return log_mass + np.where(np.isfinite(log_mass), slack * (1.0 + np.abs(log_mass)), 0.0)


def require_bounds(score: Score) -> None:
    """Refuse a score without proven bounds."""
    if not score.by_rank:
        raise InputError(
            f"score {score.name!r} treats classes differently here (by a prior or by rank limits), so it has no proven "
            "bounds for rows that hold only their largest logits. Use whole rows."
        )
    if score.rises_with_rest is None and not isinstance(score.of if isinstance(score, NeverEmpty) else score, Margin):
        raise InputError(
            f"score {score.name!r} has no proven bounds for rows that hold only their largest logits. Use whole rows "
            "or a built-in score."
        )


def score_bounds(score: Score, rows: TopRows, temperature: float, u: Floats, side: float) -> Pairs:
    """One bound of every score, (n, K + 1): of the kept labels by rank, and in the last column of all others."""
    require_bounds(score)
    logits = as_float64(rows.logits)
    rest = tail_bounds(rows.logits, rows.stated, rows.n_classes, temperature)
    slack = side * slack_of(rows.n_classes)  # outwards: its sign is the side
    if not score.compiled:
        value, tie = _margin_bounds(logits, rest.low, rest.high, temperature, slack)
    else:
        kept = _weigh(logits, temperature, rest.low if score.rises_with_rest == (side < 0) else rest.high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            value, tie = _bounds(score, kept, rows.n_tail, rest.high, u[:, None], slack)
    masked = np.column_stack([np.isneginf(logits), np.isneginf(rest.high) | (side > 0)])
    value[masked] = tie[masked] = np.inf
    if score.keep_top:
        value[:, 0] = tie[:, 0] = -np.inf
    return pairs(value, tie)


def _bounds(
    score: Score, kept: _KeptRows, n_tail: int, log_most: Floats, u: Floats, slack: float
) -> tuple[Floats, Floats]:
    """Value and tie-break of the kept labels, and of the best placed label that is not kept."""
    code, unit, k_reg, drawn, _ = score.terms
    log_total, n_kept = np.log(kept.total), kept.weight.shape[1]
    if code == kernels.LAC:
        others = kept.above + kept.tail
        log_others = np.where(np.arange(n_kept) == 0, kept.log_tail, np.log(others))
        first = _lac(kept.weight, others, kept.log_weight, log_others, kept.total, slack)
        # The largest there can be: no larger than the last that is kept, nor than all together.
        log_own = np.minimum(kept.log_weight[:, -1:], log_most[:, None])
        own, within = np.exp(log_own), kept.total - kept.rest
        others = within + np.maximum(kept.rest - own, 0.0)
        last = _lac(own, others, log_own, np.log(others), others + own, slack)
        return np.concatenate([first[0], last[0]], axis=1), np.concatenate([first[1], last[1]], axis=1)
    rank = np.arange(n_kept + 1.0)
    log_rest = _log_up(kept.log_tail[:, :1] - log_total, -slack)
    if code in (kernels.SAPS, kernels.TOPK):
        top = _up(1.0 / kept.total, slack)
        below = (top if code == kernels.SAPS else 0.0) + unit * (rank - (code == kernels.SAPS) * 2.0 + 1.0 + u)
        value = np.where(rank == 0, u * top, below) if code == kernels.SAPS else below
        return value, np.broadcast_to(-log_rest, value.shape).copy()
    share = u / max(n_tail, 1)  # the first of n is at least the mean of them
    inside = np.concatenate([kept.above + u * kept.weight, (kept.total - kept.rest) + share * kept.rest], axis=1)
    left = np.logaddexp(kept.log_tail, kept.log_weight + np.log1p(-u))
    log_outside = np.concatenate([left, kept.log_tail[:, -1:] + np.log1p(-share)], axis=1)
    mass, tie = _up(inside / kept.total, slack), -_log_up(log_outside - log_total, -slack)
    excess = np.maximum(rank + 1.0 - k_reg, 0.0) if code == kernels.RAPS else np.zeros(n_kept + 1)
    saturated = mass >= kernels.SATURATED
    value = np.where(saturated, 1.0, mass) + unit * (excess - (excess > 0) * drawn * (1.0 - u))
    return value, tie


def _lac(
    own: Floats, others: Floats, log_own: Floats, log_others: Floats, total: Floats, slack: float
) -> tuple[Floats, Floats]:
    share, rest, log_total = _up(own / total, -slack), _up(others / total, slack), np.log(total)
    value = np.where(share > 0.5, rest, 1.0 - share)
    if slack < 0:
        value = np.where(value < _UNDERFLOW, 0.0, value)
    log_rest = np.where(share > 0.5, _log_up(log_others - log_total, slack), np.log1p(-share))
    return value, log_rest - _log_up(log_own - log_total, -slack)


def _margin_bounds(
    logits: Floats, log_least: Floats, log_most: Floats, temperature: float, slack: float
) -> tuple[Floats, Floats]:
    """Those of the margin: other labels fall with the mass that is not kept, the top label rises."""

    def distances(slack: float) -> tuple[Floats, Floats]:
        """Bounds of p_(1) - p_y, for all labels but the top one and masked ones."""
        log_rest = log_most if slack < 0 else log_least
        kept = _weigh(logits, temperature, log_rest)
        last = np.minimum(kept.log_weight[:, -1:], log_rest[:, None])  # the largest of the others
        gaps = np.concatenate([kept.log_weight, last], axis=1)
        top = 1.0 / kept.total
        row = top, kept.tail[:, :1] * top, kept.log_tail[:, :1] + np.log(top)
        return distances_below_top(row, np.exp(gaps) * top, gaps, slack)

    with np.errstate(divide="ignore", invalid="ignore"):
        value, tie = distances(slack)
        second = distances(-slack)
    value[:, 0], tie[:, 0] = -second[0][:, 1], -second[1][:, 1]
    return value, tie


# ---- sets of such rows -----------------------------------------------------------------------------------------------


def uniforms_of(rows: TopRows, randomness: Randomness) -> Floats:
    """The u of each row: what whole rows have, because it is made of their largest logits, or of an id."""
    largest = as_float64(rows.logits[:, :LEAST_KEPT])
    return randomness.block(largest - largest[:, :1])


def for_parts(rows: TopRows, work: Callable[[TopRows, slice], None], width: int = 0) -> None:
    """Call `work` for blocks of rows, on several threads; `width` is how many numbers it gives a row, if many."""
    step = block_rows(max(_WORK * rows.logits.shape[1], width))

    def on_part(start: int) -> None:
        place = slice(start, min(start + step, rows.n_rows))
        work(rows.part(place), place)

    run_tasks(partial(on_part, start) for start in range(0, rows.n_rows, step))


def upper_label_scores(
    rows: TopRows, labels: Ints, score: Score, temperatures: Floats, randomness: Randomness
) -> Pairs:
    """The upper bound of the score of each row's own label, at every temperature: (T, n)."""
    require_bounds(score)
    scores = np.empty((len(temperatures), rows.n_rows), dtype=np.complex128)

    def work(some: TopRows, place: slice) -> None:
        hit = some.indices == labels[place, None]
        column = np.where(hit.any(axis=1), hit.argmax(axis=1), hit.shape[1])[:, None]
        u = uniforms_of(some, randomness[place])
        for j, temperature in enumerate(temperatures.tolist()):
            upper = score_bounds(score, some, temperature, u, UPPER)
            scores[j, place] = np.take_along_axis(upper, column, axis=1)[:, 0]

    for_parts(rows, work)
    return scores


class KeptSets(NamedTuple):
    """Which kept labels are inside, (levels, n, K), and others: (levels, n, 1), or (levels, n, C) by class."""

    kept: Bools
    others: Bools

    def sizes(self, indices: Ints, n_classes: int) -> Ints:
        """How many labels are inside, (levels, n)."""
        size = self.kept.sum(axis=2)
        if self.others.shape[2] == 1:
            return np.asarray(size + (n_classes - indices.shape[1]) * self.others[:, :, 0])
        among_kept = np.take_along_axis(self.others, np.broadcast_to(indices, self.kept.shape), axis=2)
        return np.asarray(size + self.others.sum(axis=2) - among_kept.sum(axis=2))

    def sets(self, indices: Ints, n_classes: int) -> Bools:
        """The sets themselves, (levels, n, C)."""
        out = np.empty((*self.kept.shape[:2], n_classes), dtype=np.bool_)
        out[:] = self.others
        np.put_along_axis(out, np.broadcast_to(indices, self.kept.shape), self.kept, axis=2)
        return out


def kept_sets(bounds: Pairs, indices: Ints, thresholds: Pairs, groups: Ints | None) -> KeptSets:
    """Labels whose bound is within thresholds (levels, G, 1 or C), of which a row's group names one."""
    mine = thresholds[:, :1] if groups is None else thresholds[:, groups]
    others = bounds[:, -1:] <= mine
    if mine.shape[2] > 1:
        mine = np.take_along_axis(np.broadcast_to(mine, others.shape), indices[None], axis=2)
    return KeptSets(bounds[:, :-1] <= mine, others)


def middle_confidences(rows: TopRows, temperature: float) -> Floats:
    """The middle of the bounds of each row's top probability, (n,)."""
    confidences = np.empty(rows.n_rows)

    def work(some: TopRows, place: slice) -> None:
        rest = tail_bounds(some.logits, some.stated, some.n_classes, temperature)
        logits = as_float64(some.logits)
        most, least = (1.0 / _weigh(logits, temperature, one).total[:, 0] for one in (rest.low, rest.high))
        confidences[place] = 0.5 * (most + least)

    for_parts(rows, work)
    return confidences
