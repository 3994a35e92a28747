"""The walk down a ranked row: which ranks are inside whatever the threshold, and which are open.

For one threshold a set is a prefix of the ranking. The score of a rank is affine in u, so over u it is an interval, and
only ranks whose interval meets the range of the thresholds are open. The walk takes its shares from fast sums, right
but for a rounding error that `scores.rounding` bounds.
"""

from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import allocating_part, part
from thermoset.core.exponentials import MOST_NEGATIVE, Floats, exp
from thermoset.core.formulas import Formula, score_value
from thermoset.core.masses import Shares

__all__ = ["FEW", "FallingRow", "Opening", "Prefix", "fill_falling", "open_ranks", "prefix_of"]

FEW = 8  # open ranks that are quicker done for all thresholds at once than by a walk along them
_CHUNK = 16  # ranks whose exponentials are computed together


class FallingRow(NamedTuple):
    """A row from the top down (the processor vectorises memory read forwards), 1/T, and the top class's share."""

    logits: Floats
    inverse: float
    top: float


class Prefix(NamedTuple):
    """What a walk has found: place r belongs to rank r + 1.

    own: its share; low: the sum of those above; start, end: its score at u = 0 and u = 1, of open ranks.
    """

    own: Floats
    low: Floats
    start: Floats
    end: Floats


class Opening(NamedTuple):
    """Ranks 1 .. first are inside whatever the threshold, first + 1 .. stop are open; `filled` places are computed."""

    first: int
    stop: int
    filled: int


@allocating_part
def prefix_of(n_classes: int) -> Prefix:
    """Buffers for the walk along a row."""
    start, end = np.empty(n_classes + 1), np.empty(n_classes + 1)
    return Prefix(np.empty(n_classes), np.zeros(n_classes + 1), start, end)


@part
def fill_falling(ranked: Floats, falling: Floats) -> None:
    """The row from the top down."""
    n_classes = ranked.shape[0]
    for p in range(n_classes):
        falling[p] = ranked[n_classes - 1 - p]


@part
def _extend(row: FallingRow, prefix: Prefix, filled: int) -> int:
    """Compute shares of the next chunk of ranks and the sums above them."""
    logits, inverse, top = row
    stop = int(min(filled + _CHUNK, logits.shape[0]))
    first, low = logits[0], prefix.low
    # Slices, because an index that the compiler cannot prove to be positive keeps it from vectorising the loop.
    some, fresh = logits[filled:stop], prefix.own[filled:stop]
    for k in range(some.shape[0]):
        fresh[k] = top * exp(max((some[k] - first) * inverse, MOST_NEGATIVE))
    above = low[filled]
    for k in range(fresh.shape[0]):
        above += fresh[k]
        low[filled + k + 1] = above
    return stop


@part
def _shares(low: float, own: float, beyond: float, top: float) -> Shares:
    """Shares as a walk knows them: sums above and beyond a rank, no logs."""
    return Shares(low, own, max(1.0 - beyond, 0.0), top, 0.0, 0.0, 0.0)


@part
def _skip_inside(row: FallingRow, formula: Formula, bound: float, prefix: Prefix, filled: int) -> tuple[int, int]:
    """Whole chunks of ranks that are inside for every threshold and u need no look at their ranks."""
    inside, n_classes, top = 0, row.logits.shape[0], row.top
    own, low = prefix.own, prefix.low
    while inside + _CHUNK <= n_classes:
        if filled < inside + _CHUNK:
            filled = _extend(row, prefix, filled)
        r = inside + _CHUNK - 1
        if not score_value(formula, r + 1, _shares(low[r], own[r], low[r + 1], top), 1.0) < bound:
            break
        inside += _CHUNK
    return inside, filled


@part
def _score_chunk(row: FallingRow, formula: Formula, first: int, stop: int, prefix: Prefix) -> None:
    """Scores at u = 0 and u = 1 of ranks first + 1 .. stop."""
    share, above, beyond = prefix.own[first:stop], prefix.low[first:stop], prefix.low[first + 1 : stop + 1]
    start, end, top = prefix.start[first:stop], prefix.end[first:stop], row.top
    for k in range(share.shape[0]):
        shares = _shares(above[k], share[k], beyond[k], top)
        start[k] = score_value(formula, first + k + 1, shares, 0.0)
        end[k] = score_value(formula, first + k + 1, shares, 1.0)


@part
def open_ranks(row: FallingRow, formula: Formula, least: float, most: float, prefix: Prefix, filled: int) -> Opening:
    """Walk along a row for thresholds from `least` to `most`; `filled` places of the prefix are known already."""
    n_classes, top = row.logits.shape[0], row.top
    own, low, start, end = prefix  # a field read inside the loop would be counted as a reference each time
    inside, filled = _skip_inside(row, formula, least, prefix, filled)
    scored, stop = inside, inside
    for r in range(inside, n_classes):
        if filled <= r:
            filled = _extend(row, prefix, filled)
        if r - inside < FEW:  # mostly that is all
            shares = _shares(low[r], own[r], low[r + 1], top)
            end[r] = score_value(formula, r + 1, shares, 1.0)
            if end[r] < least or end[r] == -np.inf:  # below everything, where some threshold is -inf as well
                inside = stop = r + 1
                continue
            start[r] = score_value(formula, r + 1, shares, 0.0)
        elif r >= scored:
            scored = min(r + _CHUNK, n_classes)
            while filled < scored:
                filled = _extend(row, prefix, filled)
            _score_chunk(row, formula, r, scored, prefix)
        if start[r] > most:
            break
        stop = r + 1
    return Opening(inside, stop, filled)
