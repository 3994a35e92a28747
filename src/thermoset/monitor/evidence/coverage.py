"""Labelled rows: a sequential test of the exact law of hits, for too few and for too many of them."""

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from thermoset.core.betting import CoverageBets, Purse, Track, bet_on_hits
from thermoset.core.exponentials import Bools, Floats
from thermoset.monitor.evidence.sequential import Sequential

__all__ = ["ODDS", "SHARE_OVER", "SHARE_UNDER", "CoverageTest", "HitLaw"]

SHARE_UNDER, SHARE_OVER = 1 / 2, 1 / 8
"""Of delta, for too few hits and for too many. The rest is for other tests of the same monitor."""

ODDS: Floats = np.exp(-0.05 * 2.0 ** np.arange(7))
"""What a bet on too few hits expects: the odds of a hit, times this. From a loss of half a point at a coverage of 0.9
to one of 63 points."""


class HitLaw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is promised of hits: the threshold is the score at place `rank` of those of `pool` conformal rows.

    The next row is a hit with probability (rank + hits) / (pool + 1 + rows), given the rows so far, if the law is
    `exact`; otherwise hits are at least those of such a rule. A rank above the pool is an infinite threshold:
    every row is a hit.
    """

    rank: int
    pool: int
    exact: bool = True

    @property
    def finite(self) -> bool:
        """Whether there is anything to test: the threshold is finite."""
        return self.rank <= self.pool

    def bets(self, side: int) -> CoverageBets:
        """Bets on too few hits (side -1) or on too many (side 1)."""
        above, below = float(self.rank), float(self.pool + 1 - self.rank)
        odds = ODDS if side < 0 else 1 / ODDS
        same = np.ones(len(odds))
        return CoverageBets(
            above,
            below,
            # Only one parameter differs, so that the ratio of densities is monotone in the coverage.
            steady_above=above * (odds if side < 0 else same),
            steady_below=below / (same if side < 0 else odds),
            levels=above * odds / (above * odds + below),
            side=float(side),
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
    rows: int
    hits: int
    under: Sequential
    over: Sequential | None

    @classmethod
    def start(cls, law: HitLaw, *, delta: float, run_length: int | None) -> "CoverageTest":
        """Before the first row; `delta` is the budget of the whole monitor, of which both tests take their shares."""
        steady = len(ODDS) if law.finite else 0
        fresh = len(ODDS) if law.finite and law.exact else 0
        share = 0.5 if fresh else 0.0

        def begin(part: float) -> Sequential:
            return Sequential.start(delta=delta * part, run_length=run_length, steady=steady, fresh=fresh, share=share)

        return cls(law, 0, 0, begin(SHARE_UNDER), begin(SHARE_OVER) if law.exact else None)

    def after(self, hit: ArrayLike) -> "CoverageTest":
        """Where it stands after more rows: whether the set of each holds its label, in the order of the rows."""
        hits: Bools = np.ascontiguousarray(hit, dtype=np.bool_)
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
