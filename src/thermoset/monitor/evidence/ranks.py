"""Rows without labels: a conformal test martingale of any number that a row has."""

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from thermoset.core.betting import Purse, RankBets, Track, bet_on_ranks
from thermoset.monitor.evidence.sequential import Sequential

__all__ = ["RankTest"]

_SIZES = 0.1 * 2.0 ** np.arange(4)
_SIGNED = np.concatenate([_SIZES, -_SIZES])
_NONE = np.zeros(len(_SIGNED))
_BETS = RankBets(line=np.concatenate([_SIGNED, _NONE]), bend=np.concatenate([_NONE, _SIGNED]))


class RankTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether fresh rows are exchangeable with the conformal rows, by a number that was cut into bins.

    `reference` has the conformal rows by bin, `seen` the fresh ones so far.

    >>> test = RankTest.start([50, 50], share_of_delta=0.01, run_length=None)
    >>> rng = np.random.default_rng(0)
    >>> alike = test.after(rng.integers(0, 2, 500), rng.random(500))
    >>> sum(alike.seen), alike.sequential.alarm
    (500, False)
    >>> alike.after(np.ones(500, dtype=int), rng.random(500)).sequential.alarm
    True
    """

    reference: tuple[int, ...]
    seen: tuple[int, ...]
    sequential: Sequential

    @classmethod
    def start(cls, reference: ArrayLike, *, share_of_delta: float, run_length: int | None) -> "RankTest":
        """Before the first row; `share_of_delta` is the level of this test."""
        counts = tuple(np.asarray(reference, dtype=np.int64).tolist())
        begun = Sequential.start(
            delta=share_of_delta, run_length=run_length, steady=0, fresh=len(_BETS.line), share=1.0
        )
        return cls(counts, (0,) * len(counts), begun)

    def after(self, bins: ArrayLike, v: ArrayLike) -> "RankTest":
        """Where it stands after more rows: the bin of each, and a uniform number of its own that breaks ties."""
        places = np.ascontiguousarray(bins, dtype=np.int64)
        uniform = np.ascontiguousarray(v, dtype=np.float64)
        counts = np.array([self.reference, self.seen], dtype=np.int64)

        def bet(purse: Purse, run_length: float, track: Track) -> None:
            bet_on_ranks(places, uniform, counts, _BETS, purse, run_length, track)

        moved = self.sequential.after(len(places), bet)
        return RankTest(self.reference, tuple(counts[1].tolist()), moved)
