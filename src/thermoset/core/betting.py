"""Bets against a promise, row by row: what each bet has won so far, as a test and as a detector.

A bet multiplies its stake by a factor that has expectation one while the promise holds. There are two kinds of bets.

- Steady bets began at the first row. They win most where the promise never held.
- Fresh bets begin at every row. As a test, the stakes of all rows sum to one: row t gets the weight w_t, and
  F_t = (F_(t - 1) + w_t) L_t. As a detector, every row gets the stake one: R_t = (R_(t - 1) + 1) L_t, and R starts
  again from zero when it reaches the run length.

The value of the test is what all bets have won plus the stakes that later rows will get.

Values are kept within what a float can hold: a bet stops growing at `_MOST`, and a steady bet that has fallen below
2**-512 is kept as a multiple of a power of 2**-512, and counts as nothing until it has recovered. Both only make a
value smaller, so a test stays valid.
"""

import math
from typing import NamedTuple

from thermoset.core.compiling import leaf_kernel, part
from thermoset.core.exponentials import Bools, Floats, Ints

__all__ = [
    "LEAST",
    "START_ROWS",
    "CoverageBets",
    "Purse",
    "RankBets",
    "Track",
    "bet_on_hits",
    "bet_on_ranks",
    "left_to_start",
    "smoothed_rank",
]

START_ROWS = 1000.0
"""Rows after which the stakes left for later starts have fallen to 1/sqrt(2)."""

_MOST = 1e290  # of one bet; the sum over bets is still a float
_STEP = 2.0**512

LEAST = 1.0 / _STEP
"""A value below this may be given as nothing."""


class Purse(NamedTuple):
    """What bets hold; kernels write into it.

    steady, deep : value of each bet that began at the first row, times 2**(-512 deep);
    fresh : value of each bet that begins at every row, as a test; rising : the same as a detector;
    stake : what all fresh bets of the test get together, over all rows.
    """

    steady: Floats
    deep: Ints
    fresh: Floats
    rising: Floats
    stake: float


class CoverageBets(NamedTuple):
    """Bets on hits, against Beta(above, below): alternatives of steady bets are Beta(steady_above, steady_below).

    odds : what a fresh bet expects: odds of a hit that are so many times those promised for the row.
    """

    above: float
    below: float
    steady_above: Floats
    steady_below: Floats
    odds: Floats


class RankBets(NamedTuple):
    """Bets on p-values p: factors 1 + line (2p - 1) + bend (6p^2 - 6p + 1)."""

    line: Floats
    bend: Floats


class Track(NamedTuple):
    """What happens at each row: the value of the test after it, and whether the detector gave an alarm."""

    value: Floats
    alarm: Bools


@part
def left_to_start(rows: int) -> float:
    """Share of the stakes that rows after the first so many get."""
    return 1.0 / math.sqrt(1.0 + rows / START_ROWS)


@part
def _move_steady(purse: Purse, i: int, factor: float) -> None:
    value = purse.steady[i] * factor
    if value < LEAST:
        value *= _STEP
        purse.deep[i] += 1
    elif value >= 1.0 and purse.deep[i] > 0:
        value /= _STEP
        purse.deep[i] -= 1
    purse.steady[i] = min(value, _MOST)


@part
def _move_fresh(purse: Purse, i: int, factor: float, start: float) -> None:
    share = 1.0 / purse.fresh.shape[0]
    purse.fresh[i] = min((purse.fresh[i] + purse.stake * start * share) * factor, _MOST)
    purse.rising[i] = min((purse.rising[i] + share) * factor, _MOST)


@part
def _take_stock(purse: Purse, left: float, run_length: float, track: Track, at: int) -> None:
    """Values after a row, all bets together; the detector starts again after an alarm."""
    value, rising = purse.stake * left, 0.0
    for i in range(purse.steady.shape[0]):
        if purse.deep[i] == 0:
            value += purse.steady[i]
    for i in range(purse.fresh.shape[0]):
        value += purse.fresh[i]
        rising += purse.rising[i]
    track.value[at] = value
    track.alarm[at] = rising >= run_length
    if track.alarm[at]:
        purse.rising[:] = 0.0


@leaf_kernel
def bet_on_hits(hit: Bools, seen: Ints, bets: CoverageBets, purse: Purse, run_length: float, track: Track) -> None:
    """Bet on each row in turn; seen: rows and hits before the first of them, and after the last on return."""
    left = left_to_start(seen[0])
    for t in range(hit.shape[0]):
        rows, hits, yes = seen[0], seen[1], hit[t]
        p = (bets.above + hits) / (bets.above + bets.below + rows)
        promised = p if yes else (bets.below + (rows - hits)) / (bets.above + bets.below + rows)
        for i in range(purse.steady.shape[0]):
            above, below = bets.steady_above[i] + hits, bets.steady_below[i] + (rows - hits)
            _move_steady(purse, i, (above if yes else below) / ((above + below) * promised))
        start, left = left, left_to_start(rows + 1)
        start -= left
        for i in range(purse.fresh.shape[0]):
            # With odds r p / (1 - p) a hit is r / (1 - p + r p) times as likely, and a miss 1 / (1 - p + r p) times.
            _move_fresh(purse, i, (bets.odds[i] if yes else 1.0) / (1.0 - p + bets.odds[i] * p), start)
        seen[0], seen[1] = rows + 1, hits + yes
        _take_stock(purse, left, run_length, track, t)


@part
def smoothed_rank(counts: Ints, total: int, place: int, v: float) -> float:
    """Share of rows in higher bins than this one, and v of those in the same, the row itself among them."""
    above = 0
    for b in range(place + 1, counts.shape[1]):
        above += counts[0, b] + counts[1, b]
    return float((above + v * (1 + counts[0, place] + counts[1, place])) / (total + 1))


@leaf_kernel
def bet_on_ranks(
    bins: Ints, v: Floats, counts: Ints, bets: RankBets, purse: Purse, run_length: float, track: Track
) -> None:
    """Bet on the smoothed rank of each row among all rows before it; counts (2, bins): of the reference, and seen."""
    rows, total = 0, 0
    for b in range(counts.shape[1]):
        rows += counts[1, b]
        total += counts[0, b] + counts[1, b]
    left = left_to_start(rows)
    for t in range(bins.shape[0]):
        p = smoothed_rank(counts, total, bins[t], v[t])
        start, left = left, left_to_start(rows + 1)
        start -= left
        for i in range(purse.fresh.shape[0]):
            factor = 1.0 + bets.line[i] * (2.0 * p - 1.0) + bets.bend[i] * (6.0 * p * (p - 1.0) + 1.0)
            _move_fresh(purse, i, factor, start)
        counts[1, bins[t]] += 1
        rows, total = rows + 1, total + 1
        _take_stock(purse, left, run_length, track, t)
