"""Rows without labels: a conformal test martingale of any number that a row has."""

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Floats, Ints
from thermoset.errors import InputError
from thermoset.kernels import Purse, RankBets, Track, bet_on_ranks
from thermoset.monitor.evidence.sequential import Count, Sequential, checked_delta

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

    reference: tuple[Count, ...]
    seen: tuple[Count, ...]
    sequential: Sequential

    def __post_init__(self) -> None:
        bets = len(self.sequential.steady), len(self.sequential.fresh)
        if len(self.seen) != len(self.reference) or bets != (0, len(_BETS.line)):
            raise ValueError("a test of ranks must have as many bins seen as in its reference, and its own bets")

    @classmethod
    def start(cls, reference: ArrayLike, *, share_of_delta: float, run_length: int | None) -> "RankTest":
        """Before the first row; `share_of_delta` is the level of this test."""
        counts = np.asarray(reference)
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or not len(counts) or counts.min() < 0:
            raise InputError(
                "reference must be the number of conformal rows in each bin, shape (bins,); "
                f"got shape {counts.shape} of {counts.dtype}."
            )
        delta = checked_delta(share_of_delta, "share_of_delta")
        begun = Sequential.start(delta=delta, run_length=run_length, steady=0, fresh=len(_BETS.line), share=1.0)
        return cls(tuple(counts.tolist()), (0,) * len(counts), begun)

    def after(self, bins: ArrayLike, v: ArrayLike) -> "RankTest":
        """Where it stands after more rows: the bin of each, and a uniform number of its own that breaks ties."""
        places, uniform = self._checked(bins, v)
        counts = np.array([self.reference, self.seen], dtype=np.int64)

        def bet(purse: Purse, run_length: float, track: Track) -> None:
            bet_on_ranks(places, uniform, counts, _BETS, purse, run_length, track)

        moved = self.sequential.after(len(places), bet)
        return RankTest(self.reference, tuple(counts[1].tolist()), moved)

    def _checked(self, bins: ArrayLike, v: ArrayLike) -> tuple[Ints, Floats]:
        places, uniform = np.asarray(bins), np.ascontiguousarray(v, dtype=np.float64)
        whole = places.ndim == 1 and (places.dtype.kind in "iu" or not len(places))
        if not whole or places.min(initial=0) < 0 or places.max(initial=0) >= len(self.reference):
            raise InputError(f"bins must be whole numbers from 0 to {len(self.reference) - 1}, one per row.")
        if uniform.shape != places.shape or not np.all((uniform >= 0) & (uniform <= 1)):
            raise InputError(f"v must be one number from 0 to 1 for each of the {len(places)} rows.")
        return np.ascontiguousarray(places, dtype=np.int64), uniform
