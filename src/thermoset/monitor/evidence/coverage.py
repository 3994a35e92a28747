"""Labelled rows: a sequential test of the exact law of hits, for too few and for too many of them."""

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats
from thermoset.bounds import MOST_ROWS
from thermoset.errors import InputError
from thermoset.kernels import CoverageBets, Purse, Track, bet_on_hits
from thermoset.monitor.evidence.sequential import Count, Sequential, checked_delta

__all__ = ["SHARE_FRESH", "SHARE_OVER", "SHARE_UNDER", "SIZES", "CoverageTest", "HitLaw", "lower_odds"]

SHARE_UNDER = 1 / 2
"""Of delta, for too few hits."""

SHARE_OVER = 1 / 8
"""Of delta, for too many hits. The rest is for other tests of the same monitor."""

SHARE_FRESH = 3 / 4
"""Of the stakes, for bets that begin at every row; the rest is for those that began at the first."""

SIZES: Floats = np.array([0.03, 0.06, 0.12, 0.24, 0.48])
"""Departures that are bet on: of the log-odds of a hit, times the standard deviation of one row. At a coverage of 0.9
that is from 0.9 points to 26 points lower; at 0.99 from 0.3 to 55, and at 0.7 from 1.4 to 25."""

_FARTHEST = 20.0  # in log-odds: at levels such as 1e-9 all sizes are there, and nothing underflows
_FRESH = 4  # sizes with a bet at every row: the largest is for parts of few rows, which have no such bets


def lower_odds(coverage: Floats) -> Floats:
    """What bets on too few hits expect: odds of a hit that are so many times those of this coverage; a new last axis.

    >>> lower_odds(np.array(0.5)).round(3).tolist()  # exp(-2 * 0.03), and its square, and so on
    [0.942, 0.887, 0.787, 0.619, 0.383]
    """
    found: Floats = np.exp(-np.minimum(SIZES / np.sqrt(coverage * (1 - coverage))[..., None], _FARTHEST))
    return found


class HitLaw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is promised of hits: the threshold is the score at place `rank` of those of `pool` conformal rows.

    The next row is a hit with probability (rank + hits) / (pool + 1 + rows), given the rows so far, if the law is
    `exact`; otherwise hits are at least those of such a rule. A rank above the pool is an infinite threshold:
    every row is a hit.
    """

    rank: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS + 1)]
    pool: Count
    exact: bool = True

    @property
    def finite(self) -> bool:
        """Whether there is anything to test: the threshold is finite."""
        return self.rank <= self.pool

    def bets(self, side: int) -> CoverageBets:
        """Bets on too few hits (side -1) or on too many (side 1)."""
        above, below = float(self.rank), float(self.pool + 1 - self.rank)
        odds = lower_odds(np.array(above / (above + below))) ** -side
        same = np.ones(len(odds))
        return CoverageBets(
            above,
            below,
            # Only one parameter differs, so that the ratio of densities is monotone in the coverage.
            steady_above=above * (odds if side < 0 else same),
            steady_below=below / (same if side < 0 else odds),
            odds=odds[:_FRESH],
        )


class CoverageTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The test of a law of hits: rows and hits so far, `under` for too few hits, `over` for too many.

    `over` is None where hits are only at least what the law says.

    >>> test = CoverageTest.start(HitLaw(rank=451, pool=500), delta=0.01, run_length=1_000_000)
    >>> kept = test.after(np.arange(1, 1001) % 10 > 0)  # 90 hits in 100 rows
    >>> kept.hits, kept.under.alarm, kept.over.alarm
    (900, False, False)
    >>> broken = kept.after(np.arange(1, 1001) % 10 > 2)  # 70 hits in 100 rows
    >>> broken.under.alarm, broken.over.alarm
    (True, False)
    """

    law: HitLaw
    rows: Count
    hits: Count
    under: Sequential
    over: Sequential | None

    def __post_init__(self) -> None:
        wanted = _bets_of(self.law)
        found = {(len(test.steady), len(test.fresh)) for test in (self.under, self.over) if test is not None}
        if self.hits > self.rows or found != {wanted} or (self.over is None) == self.law.exact:
            raise ValueError("a test of coverage must have the bets that belong to its law")

    @classmethod
    def start(cls, law: HitLaw, *, delta: float, run_length: int | None) -> "CoverageTest":
        """Before the first row; `delta` is the budget of the whole monitor, of which both tests take their shares."""
        steady, fresh = _bets_of(law)
        share, whole = SHARE_FRESH if fresh else 0.0, checked_delta(delta)

        def begin(part: float) -> Sequential:
            return Sequential.start(delta=whole * part, run_length=run_length, steady=steady, fresh=fresh, share=share)

        return cls(law, 0, 0, begin(SHARE_UNDER), begin(SHARE_OVER) if law.exact else None)

    def after(self, hit: ArrayLike) -> "CoverageTest":
        """Where it stands after more rows: whether the set of each holds its label, in the order of the rows."""
        hits: Bools = np.ascontiguousarray(hit)
        if hits.ndim != 1 or (hits.dtype != np.bool_ and len(hits)):
            raise InputError(
                f"hit must be true or false for each row, shape (rows,); got shape {hits.shape} of {hits.dtype}."
            )
        hits = hits.astype(np.bool_, copy=False)
        return CoverageTest(
            self.law,
            self.rows + len(hits),
            self.hits + int(hits.sum()),
            self._side(self.under, hits, -1),
            None if self.over is None else self._side(self.over, hits, 1),
        )

    def _side(self, test: Sequential, hits: Bools, side: int) -> Sequential:
        def bet(purse: Purse, run_length: float, track: Track) -> None:
            bet_on_hits(hits, np.array([self.rows, self.hits]), self.law.bets(side), purse, run_length, track)

        return test.after(len(hits), bet)


def _bets_of(law: HitLaw) -> tuple[int, int]:
    """Bets against a law: how many began at the first row, and how many begin at every row."""
    return (len(SIZES) if law.finite else 0), (_FRESH if law.finite and law.exact else 0)
