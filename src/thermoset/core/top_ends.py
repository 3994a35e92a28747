"""Scores of rows of which only the K largest logits are kept: the least and the most that each can be.

Every score depends on the classes that are not kept through their mass R alone, and in one direction: LAC rises with R,
APS, RAPS, SAPS and top-k fall; the margin rises for the top label and falls for the others. So each end of a kept
label's score is its formula at one end of R. Classes that are not kept share one lower end, that of the best placed
among them (rank K + 1, or the largest probability), and have no upper end: they may be masked.

What is compared with these ends was summed in another order. So the sums that go into a formula are pushed outwards by
`slack`, which bounds both rounding errors, before anything is subtracted from 1: the rounding of floats is monotone,
and ends stay on their side to the last bit, also where scores saturate.
"""

import math
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import leaf_kernel, part
from thermoset.core.exponentials import MOST_NEGATIVE, Floats, exp, log_add
from thermoset.core.formulas import CODE_LAC, Formula, score_refine, score_value
from thermoset.core.masses import Shares
from thermoset.core.plain import Beside, apart
from thermoset.core.rest import slack_of
from thermoset.core.scores import Margin, NeverEmpty, Score
from thermoset.core.thresholds import Cuts, ScorePairs
from thermoset.errors import InputError

__all__ = ["LOWER", "UPPER", "KeptRows", "middle_confidences", "require_ends", "score_ends"]

LOWER, UPPER = -1.0, 1.0
"""Which end: the sign that pushes outwards."""

_LINEAR = 1e-250  # sums above it lose nothing in linear scale


class KeptRows(NamedTuple):
    """Falling logits (n, K), logs of the least and the most that the other classes weigh (n,), how many classes; u."""

    logits: Floats
    log_low: Floats
    log_high: Floats
    n_classes: int
    u: Floats


class _KeptRow(NamedTuple):
    """One row at one temperature and with one mass of the classes that are not kept: places 0 .. K - 1.

    log_weight, weight: of each class; tail, log_tail: everything ranked below it.
    """

    log_weight: Floats
    weight: Floats
    tail: Floats
    log_tail: Floats


class _Push(NamedTuple):
    """How far, and to which side, sums are pushed."""

    side: float
    slack: float


@part
def _up(push: _Push, mass: float) -> float:
    """A mass that the score rises with."""
    return mass * (1.0 + push.side * push.slack)


@part
def _down(push: _Push, mass: float) -> float:
    """A mass that the score falls with."""
    return mass * (1.0 - push.side * push.slack)


@part
def _log_up(push: _Push, log_mass: float) -> float:
    """The log of a mass that the score rises with."""
    return log_mass if log_mass == -np.inf else log_mass + push.side * push.slack * (1.0 + abs(log_mass))


@part
def _log_down(push: _Push, log_mass: float) -> float:
    """The log of a mass that the score falls with."""
    return log_mass if log_mass == -np.inf else log_mass - push.side * push.slack * (1.0 + abs(log_mass))


@part
def _linear(log_mass: float) -> float:
    """A mass from its log, which may be above 0."""
    return exp(log_mass) if log_mass <= 0.0 else 1.0 / exp(-log_mass)


@part
def _weigh(logits: Floats, inverse: float, log_rest: float, row: _KeptRow) -> float:
    """Fill a row; return the mass of everything, of which the top class has 1."""
    top = logits[0]
    for r in range(logits.shape[0]):
        gap = logits[r] - top
        row.log_weight[r] = gap if gap == -np.inf else max(gap * inverse, MOST_NEGATIVE)
        row.weight[r] = exp(max(row.log_weight[r], MOST_NEGATIVE))
    below, log_below = _linear(log_rest), log_rest
    for r in range(logits.shape[0] - 1, -1, -1):
        row.tail[r], row.log_tail[r] = below, log_below
        below += row.weight[r]
        log_below = math.log(below) if below > _LINEAR else log_add(log_below, row.log_weight[r])
    return below


@part
def _shares_lac(own: float, others: float, log_own: float, log_others: float, push: _Push) -> Shares:
    """What LAC needs: the label's share and that of all others, pushed."""
    tail, log_tail = _up(push, others), _log_up(push, log_others)
    return Shares(0.0, _down(push, own), tail, 0.0, _log_down(push, log_own), log_tail, 0.0)


@part
def _shares_around(inside: float, outside: float, top: float, logs: tuple[float, float], push: _Push) -> Shares:
    """What the other scores need: what counts up to the label and what is left, u taken into account, pushed.

    The label has no share of its own any more, so that u finds nothing to divide.
    """
    log_outside, log_rest = logs
    tail, log_tail = _down(push, outside), _log_down(push, log_outside)
    return Shares(_up(push, inside), 0.0, tail, _up(push, top), -np.inf, log_tail, _log_down(push, log_rest))


@part
def _kept_shares(row: _KeptRow, r: int, above: float, total: float, code: int, u: float, push: _Push) -> Shares:
    """Shares of the kept label at place r."""
    own, log_own, log_total = row.weight[r], row.log_weight[r], math.log(total)
    if code == CODE_LAC:
        others = above + row.tail[r]
        log_others = row.log_tail[0] if r == 0 else math.log(others)
        return _shares_lac(own / total, others / total, log_own - log_total, log_others - log_total, push)
    outside = row.tail[r] + (1.0 - u) * own
    if outside > _LINEAR:
        log_outside = math.log(outside)
    else:
        log_outside = log_add(row.log_tail[r], log_own + math.log1p(-u)) if u < 1.0 else row.log_tail[r]
    logs = log_outside - log_total, row.log_tail[0] - log_total
    return _shares_around((above + u * own) / total, outside / total, 1.0 / total, logs, push)


@part
def _other_shares(row: _KeptRow, kept: KeptRows, i: int, total: float, code: int, push: _Push) -> Shares:
    """Shares of the best placed label that is not kept, at the mass that suits it most."""
    last = row.weight.shape[0] - 1
    if code == CODE_LAC:  # the largest there can be: no larger than the last that is kept, nor than all together
        log_own = min(row.log_weight[last], kept.log_high[i])
        own, within = _linear(log_own), total - row.tail[last]
        others = within + max(row.tail[last] - own, 0.0)
        everything = others + own
        log_all = math.log(everything)
        return _shares_lac(own / everything, others / everything, log_own - log_all, math.log(others) - log_all, push)
    # The first of n is at least the mean of them.
    rest, u, log_total = row.tail[last], kept.u[i] / (kept.n_classes - last - 1), math.log(total)
    inside, outside = total - rest + u * rest, (1.0 - u) * rest
    log_outside = row.log_tail[last] + math.log1p(-u) if u < 1.0 else -np.inf
    logs = log_outside - log_total, row.log_tail[0] - log_total
    return _shares_around(inside / total, outside / total, 1.0 / total, logs, push)


@leaf_kernel
def _fill_ends(kept: KeptRows, temperature: float, formula: Formula, push: _Push, scratch: Floats, out: Cuts) -> None:
    """One end of the scores of the kept labels, and in the last column of all others: out (n, K + 1)."""
    n_kept = kept.logits.shape[1]
    row = _KeptRow(scratch[0], scratch[1], scratch[2], scratch[3])
    rises = formula.code == CODE_LAC  # with the mass that is not kept
    for i in range(kept.logits.shape[0]):
        u, value, refine = kept.u[i], out.value[i], out.refine[i]
        log_rest = kept.log_low[i] if rises == (push.side < 0.0) else kept.log_high[i]
        total, above = _weigh(kept.logits[i], 1.0 / temperature, log_rest, row), 0.0
        for r in range(n_kept):
            if row.log_weight[r] == -np.inf:
                value[r] = refine[r] = np.inf
            else:
                shares = _kept_shares(row, r, above, total, formula.code, u, push)
                value[r], refine[r] = score_value(formula, r + 1, shares, u), score_refine(formula, r + 1, shares, u)
            above += row.weight[r]
        value[n_kept] = refine[n_kept] = np.inf
        if push.side < 0.0 and kept.log_high[i] > -np.inf:
            shares = _other_shares(row, kept, i, total, formula.code, push)
            value[n_kept] = score_value(formula, n_kept + 1, shares, u)
            refine[n_kept] = score_refine(formula, n_kept + 1, shares, u)


@leaf_kernel
def _fill_confidences(kept: KeptRows, temperature: float, scratch: Floats, out: Floats) -> None:
    row = _KeptRow(scratch[0], scratch[1], scratch[2], scratch[3])
    for i in range(kept.logits.shape[0]):
        most = 1.0 / _weigh(kept.logits[i], 1.0 / temperature, kept.log_low[i], row)
        out[i] = 0.5 * (most + 1.0 / _weigh(kept.logits[i], 1.0 / temperature, kept.log_high[i], row))


def middle_confidences(kept: KeptRows, temperature: float) -> Floats:
    """The middle of the bounds of the top probability, (n,)."""
    out = np.empty(len(kept.logits))
    _fill_confidences(kept, temperature, np.empty((4, kept.logits.shape[1])), out)
    return out


def require_ends(score: Score) -> None:
    """Refuse a score whose ends nobody knows."""
    if not score.by_rank:
        raise InputError(
            f"score {score.name!r} treats classes differently here (by a prior or by rank limits), so it has no proven "
            "bounds for rows that hold only their largest logits. Use whole rows."
        )
    own = score.of if isinstance(score, NeverEmpty) else score
    if not (own.compiled or isinstance(own, Margin)):
        raise InputError(
            f"score {score.name!r} has no proven bounds for rows that hold only their largest logits. Use whole rows "
            "or a built-in score."
        )


def score_ends(score: Score, kept: KeptRows, temperature: float, side: float) -> ScorePairs:
    """One end of every score, (n, K + 1): of the kept labels by rank, and in the last column of all others."""
    require_ends(score)
    if not score.compiled:
        return _margin_ends(kept, temperature, side, keep_top=score.keep_top)
    shape = len(kept.logits), kept.logits.shape[1] + 1
    out, push = Cuts(np.empty(shape), np.empty(shape)), _Push(side, slack_of(kept.n_classes))
    _fill_ends(kept, temperature, score.formula, push, np.empty((4, kept.logits.shape[1])), out)
    return ScorePairs(*out)


def _margin_ends(kept: KeptRows, temperature: float, side: float, *, keep_top: bool) -> ScorePairs:
    """Those of the margin: other labels fall with the mass that is not kept, the top label rises."""
    value, refine = _distances(kept, temperature, side)
    second_value, second_refine = (part[:, 1] for part in _distances(kept, temperature, -side))
    masked = np.isneginf(np.column_stack([kept.logits, kept.log_high])) | ([False] * kept.logits.shape[1] + [side > 0])
    value[masked] = refine[masked] = np.inf
    value[:, 0], refine[:, 0] = -second_value, -second_refine
    if keep_top:
        value[:, 0] = refine[:, 0] = -np.inf
    return ScorePairs(value, refine)


def _distances(kept: KeptRows, temperature: float, side: float) -> tuple[Floats, Floats]:
    """Ends of p_(1) - p_y, for all labels but the top one and masked ones."""
    log_rest = (kept.log_high if side < 0 else kept.log_low)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = np.maximum((kept.logits - kept.logits[:, :1]) * (1.0 / temperature), MOST_NEGATIVE)
    gaps[np.isneginf(kept.logits)] = -np.inf
    gaps = np.concatenate([gaps, np.minimum(gaps[:, -1:], log_rest)], axis=1)  # the largest of the others
    weight, rest = np.exp(gaps), np.exp(log_rest)
    beside = weight[:, 1:-1].sum(axis=1, keepdims=True) + rest
    top = 1.0 / (1.0 + beside)
    log_beside = np.logaddexp(np.logaddexp.reduce(gaps[:, 1:-1], axis=1, keepdims=True), log_rest)
    row = Beside(top, beside * top, log_beside + np.log(top))
    return apart(row, weight * top, gaps, side * slack_of(kept.n_classes))
