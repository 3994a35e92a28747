"""Evidence against a promise that may be looked at after every row; the mathematics is in docs/evidence.md.

An *e-process* is the wealth of bets against the promise: while that holds, it ever reaches 1/delta with probability at
most delta. Its *detector* starts again after each alarm, and gives a false one at most once in `run_length` rows on
average. Evidence is the natural logarithm of wealth.
"""

import math
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp, xlogy

from thermoset.arrays import Bools, Floats, Ints
from thermoset.bounds import MOST_ROWS, real_number
from thermoset.errors import InputError
from thermoset.kernels import NO_WEALTH, CoverageBets, RankBets, Track, Wealth, bet_on_hits, bet_on_ranks
from thermoset.metrics import Interval, Intervals
from thermoset.metrics.counts import check_counts

SHARE_UNDER = 1 / 2
"""Of the delta of a monitor, for too few hits."""

SHARE_OVER = 1 / 8
"""Of delta, for too many hits, and as much for each other test of a monitor."""

SHARE_MIXTURE = 3 / 4
"""Of the stakes, for bets that start at every row; the rest is for those that start once, at the first."""

SIZES: Floats = np.array([0.03, 0.06, 0.12, 0.24, 0.48])
"""Departures that are bet on: of the log-odds of a hit, times the standard deviation of one row. At a coverage of 0.9
that is from 0.9 points to 26 points lower; at 0.99 from 0.3 to 55, and at 0.7 from 1.4 to 25."""

MOST_CHANGES = 1000
"""Alarms of a detector that a state keeps: the latest ones."""

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]
"""A number of rows in a state."""

LogWealth = Annotated[float, msgspec.Meta(ge=NO_WEALTH, le=1e15)]
"""A logarithm of wealth in a state."""

_FARTHEST = 20.0  # in log-odds: at levels such as 1e-9 all sizes are there, and nothing underflows
_MIXED = 4  # sizes with a bet at every row: the largest is for parts of few rows, which have no such bets
_TILTS = np.concatenate([0.1 * 2.0 ** np.arange(4), -0.1 * 2.0 ** np.arange(4)])
_RANK_BETS = RankBets(line=np.append(_TILTS, 0 * _TILTS), bend=np.append(0 * _TILTS, _TILTS))
_SLOPES = np.concatenate([4.0 * 2.0 ** -np.arange(14.0), -4.0 * 2.0 ** -np.arange(14.0)])
_HALVINGS = 60
_LARGEST = 600.0  # as a logarithm; sums of a million such values are still floats


# ---- e-processes and detectors ---------------------------------------------------------------------------------------


class EProcess(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An e-process and its detector, after some rows; it alarms when `log_e` reaches `log_bar`, log(1 / delta).

    crossed : the row, from 1, of the alarm; changes : the rows at which the detector alarmed, of which the latest
    `MOST_CHANGES` are kept; run_length : None without a detector; stake, once, mixture, detector : as in
    `kernels.Wealth`.
    """

    log_bar: float
    run_length: Count | None = None
    rows: Count = 0
    log_e: LogWealth = 0.0
    peak: LogWealth = 0.0
    crossed: Count | None = None
    changes: tuple[Count, ...] = ()
    stake: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    once: tuple[LogWealth, ...] = ()
    mixture: tuple[LogWealth, ...] = ()
    detector: tuple[LogWealth, ...] = ()

    def __post_init__(self) -> None:
        if len(self.detector) != len(self.mixture):
            raise ValueError("an e-process must have a detector for each bet that starts at every row")

    @classmethod
    def start(cls, *, delta: float, run_length: int | None, once: int, mixture: int, share: float) -> "EProcess":
        """Begin at level delta with so many bets that start once and at every row; the latter get this share."""
        return cls(
            log_bar=-math.log(delta),
            run_length=run_length if mixture else None,
            stake=share if mixture else 0.0,
            once=(math.log((1.0 - share) / once),) * once if once else (),
            mixture=(NO_WEALTH,) * mixture,
            detector=(NO_WEALTH,) * mixture,
        )

    @property
    def alarm(self) -> bool:
        """Whether it ever reached the bar."""
        return self.crossed is not None

    def after(self, rows: int, bet: Callable[[Wealth, float, Track], None]) -> "EProcess":
        """Where it stands after so many rows more, on which `bet` acts."""
        if not rows or not (self.once or self.mixture):
            return msgspec.structs.replace(self, rows=self.rows + rows)
        wealth = Wealth(np.array(self.once), np.array(self.mixture), np.array(self.detector), self.stake)
        track = Track(np.empty(rows), np.empty(rows, dtype=np.bool_))
        bet(wealth, math.inf if self.run_length is None else math.log(self.run_length), track)
        above = np.flatnonzero(track.log_e >= self.log_bar)
        return msgspec.structs.replace(
            self,
            rows=self.rows + rows,
            log_e=float(track.log_e[-1]),
            peak=max(self.peak, float(track.log_e.max())),
            crossed=self.crossed or (self.rows + 1 + int(above[0]) if len(above) else None),
            changes=(self.changes + tuple((self.rows + 1 + np.flatnonzero(track.alarm)).tolist()))[-MOST_CHANGES:],
            once=tuple(wealth.once.tolist()),
            mixture=tuple(wealth.mixture.tolist()),
            detector=tuple(wealth.detector.tolist()),
        )


def lower_odds(coverage: Floats) -> Floats:
    """Odds of a hit that bets on too few hits expect, in multiples of those at this coverage; a new last axis."""
    odds: Floats = np.exp(-np.minimum(SIZES / np.sqrt(coverage * (1 - coverage))[..., None], _FARTHEST))
    return odds


class HitLaw(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The law of hits under a threshold at place `rank` of `pool` conformal scores; infinite if rank > pool.

    Given the rows so far, the next is a hit with probability (rank + hits) / (pool + 1 + rows) if the law is `exact`,
    and hits are at least those of such a rule if it is not.
    """

    rank: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS + 1)]
    pool: Count
    exact: bool = True

    @property
    def finite(self) -> bool:
        """Whether there is anything to test."""
        return self.rank <= self.pool

    @property
    def n_bets(self) -> tuple[int, int]:
        """Bets against it: how many start once, and how many start at every row."""
        return (len(SIZES) if self.finite else 0), (_MIXED if self.finite and self.exact else 0)

    def bets(self, side: int) -> CoverageBets:
        """Bets on too few hits (side -1) or on too many (side 1)."""
        above, below = float(self.rank), float(self.pool + 1 - self.rank)
        odds = lower_odds(np.array(above / (above + below))) ** -side
        same = np.ones(len(odds))
        # Only one parameter differs, so that the ratio of densities is monotone in the coverage.
        expected = (above * odds, below * same) if side < 0 else (above * same, below / odds)
        return CoverageBets(above, below, *expected, odds=odds[:_MIXED])


class CoverageTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The test of a law of hits: `under` for too few, and `over` for too many, None where the law is a lower bound."""

    law: HitLaw
    rows: Count
    hits: Count
    under: EProcess
    over: EProcess | None

    def __post_init__(self) -> None:
        n_bets = {(len(test.once), len(test.mixture)) for test in (self.under, self.over) if test is not None}
        if self.hits > self.rows or n_bets != {self.law.n_bets} or (self.over is None) == self.law.exact:
            raise ValueError("a test of coverage must have the bets that belong to its law")

    @classmethod
    def start(cls, law: HitLaw, *, delta: float, run_length: int | None) -> "CoverageTest":
        """Before the first row; `delta` is the budget of the whole monitor, of which both sides take their shares."""
        once, mixture = law.n_bets
        share = SHARE_MIXTURE if mixture else 0.0
        under, over = (
            EProcess.start(delta=delta * part, run_length=run_length, once=once, mixture=mixture, share=share)
            for part in (SHARE_UNDER, SHARE_OVER)
        )
        return cls(law, 0, 0, under, over if law.exact else None)

    def after(self, hit: ArrayLike) -> "CoverageTest":
        """Where it stands after more rows: whether the set of each holds its label, in the order of the rows."""
        hits: Bools = np.ascontiguousarray(hit)
        if hits.ndim != 1 or (hits.dtype != np.bool_ and len(hits)):
            raise InputError(
                f"hit must be true or false for each row, shape (rows,); got shape {hits.shape} of {hits.dtype}."
            )
        hits = hits.astype(np.bool_, copy=False)

        def advance(test: EProcess, side: int) -> EProcess:
            seen = np.array([self.rows, self.hits])  # counted on by the kernel
            return test.after(len(hits), lambda *state: bet_on_hits(hits, seen, self.law.bets(side), *state))

        over = None if self.over is None else advance(self.over, 1)
        return CoverageTest(self.law, self.rows + len(hits), self.hits + int(hits.sum()), advance(self.under, -1), over)


class RankTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether fresh rows are like the conformal rows, by their counts in bins: `reference`, and `seen` so far."""

    reference: tuple[Count, ...]
    seen: tuple[Count, ...]
    process: EProcess

    def __post_init__(self) -> None:
        n_bets = len(self.process.once), len(self.process.mixture)
        if len(self.seen) != len(self.reference) or n_bets != (0, len(_RANK_BETS.line)):
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
        n_bets = len(_RANK_BETS.line)
        begun = EProcess.start(delta=share_of_delta, run_length=run_length, once=0, mixture=n_bets, share=1.0)
        return cls(tuple(counts.tolist()), (0,) * len(counts), begun)

    def after(self, bins: ArrayLike, v: ArrayLike) -> "RankTest":
        """Where it stands after more rows: the bin of each, and a uniform number of its own that breaks ties."""
        places, uniform = np.asarray(bins), np.ascontiguousarray(v, dtype=np.float64)
        whole = places.ndim == 1 and (places.dtype.kind in "iu" or not len(places))
        if not whole or places.min(initial=0) < 0 or places.max(initial=0) >= len(self.reference):
            raise InputError(f"bins must be whole numbers from 0 to {len(self.reference) - 1}, one per row.")
        if uniform.shape != places.shape or not np.all((uniform >= 0) & (uniform <= 1)):
            raise InputError(f"v must be one number from 0 to 1 for each of the {len(places)} rows.")
        rows, counts = np.ascontiguousarray(places, dtype=np.int64), np.array([self.reference, self.seen])
        process = self.process.after(len(rows), lambda *state: bet_on_ranks(rows, uniform, counts, _RANK_BETS, *state))
        return RankTest(self.reference, tuple(counts[1].tolist()), process)


# ---- evidence from counts: classes, clusters and groups --------------------------------------------------------------


def part_evidence(hits: ArrayLike, rows: ArrayLike, rank: ArrayLike, pool: ArrayLike) -> Floats:
    """Evidence of too few hits in each part, against the law Beta-Binomial(rank, pool + 1 - rank).

    Arrays broadcast. A part without a finite threshold (rank above pool) has evidence 0, as has one without rows.
    """
    return _log_mean(_log_wealth(hits, rows, rank, pool))


def joint_evidence(hits: ArrayLike, rows: ArrayLike, rank: ArrayLike, pool: ArrayLike) -> float:
    """Evidence of too few hits in all parts together, where each follows the law of `part_evidence`.

    Given which part each row comes from, the laws are independent, and wealth of the same bet multiplies. So it sees
    a loss that is too small to be seen in any one part.
    """
    return float(_log_mean(_log_wealth(hits, rows, rank, pool).sum(axis=0)))


def fixed_evidence(hits: ArrayLike, rows: ArrayLike, level: ArrayLike) -> Floats:
    """Evidence of too few hits in each part, where every row is a hit with probability `level` or more."""
    h, m = _float_counts(hits, rows)
    p = np.asarray(level, dtype=np.float64)[..., None]
    if not np.all((p > 0) & (p < 1)):
        raise InputError("level must be between 0 and 1, exclusive, for every part. Try 0.9.")
    odds = lower_odds(p[..., 0])
    # With odds r p / (1 - p): a hit is r / (1 - p + r p) times as likely, and a miss 1 / (1 - p + r p) times.
    return _log_mean(h * np.log(odds) - m * np.log1p(p * (odds - 1)))


def closed_testing(log_e: ArrayLike) -> Floats:
    """Evidence of each part, adjusted for the number of parts: closed testing with averages."""
    evidence = np.asarray(log_e, dtype=np.float64)
    if not evidence.size:
        return evidence
    # Rounding down keeps evidence valid.
    values = np.exp(np.minimum(evidence, _LARGEST))
    ascending = np.sort(values)
    below = np.concatenate([[0.0], np.cumsum(ascending)])
    # The next value lowers the average of a set while it is below it: (j + 1) e_(j) - sum of the first j < e_i.
    reach = np.arange(1, len(ascending) + 1) * ascending - below[:-1]
    joined = np.minimum(np.searchsorted(reach, values), np.searchsorted(ascending, values))
    with np.errstate(divide="ignore"):
        adjusted: Floats = np.minimum(np.log((values + below[joined]) / (joined + 1)), evidence)
    return adjusted


def _log_wealth(hits: ArrayLike, rows: ArrayLike, rank: ArrayLike, pool: ArrayLike) -> Floats:
    """Log-wealth of each bet that starts once, in each part; bets are the last axis."""
    h, m = _float_counts(hits, rows)
    k, n = (np.asarray(part, dtype=np.float64)[..., None] for part in (rank, pool))
    if np.any(k < 1) or np.any(n < 0):
        raise InputError("rank must be at least 1, and pool at least 0, for every part.")
    finite = k <= n
    a, b = np.where(finite, k, 1.0), np.where(finite, n + 1 - k, 1.0)

    def log_mass(a: Floats) -> Floats:  # of B(a + hits, b + misses) / B(a, b), but for what does not depend on a
        mass: Floats = gammaln(a + h) - gammaln(a) - gammaln(a + b + m) + gammaln(a + b)
        return mass

    return np.where(finite, log_mass(a * lower_odds((a / (a + b))[..., 0])) - log_mass(a), 0.0)


def _float_counts(hits: ArrayLike, rows: ArrayLike) -> tuple[Floats, Floats]:
    """Hits and rows with a new last axis, for the bets."""
    h, m = check_counts(hits, rows, names=("hits", "rows"))
    return h[..., None].astype(np.float64), m[..., None].astype(np.float64)


def _log_mean(log_each: Floats) -> Floats:
    """Of the wealth of all bets, the last axis."""
    mean: Floats = logsumexp(log_each, axis=-1) - np.log(log_each.shape[-1])
    return mean


# ---- how large coverage is, and since when it is different -----------------------------------------------------------


def confidence_sequence(hits: ArrayLike, rows: ArrayLike, delta: float) -> Intervals:
    """Intervals that contain the mean coverage of the rows so far, at all times at once, with probability 1 - delta.

    They are valid however coverage drifts. Arrays broadcast; without rows the interval is [0, 1].

    >>> seen = confidence_sequence([90, 9000], [100, 10000], delta=0.05)
    >>> bool(np.all((seen.low < 0.9) & (0.9 < seen.high)))
    True
    >>> bool((seen.high - seen.low)[1] < 0.03)
    True
    """
    h, m = np.broadcast_arrays(*check_counts(hits, rows, names=("hits", "rows")))
    centre: Floats = np.divide(h, m, out=np.full(h.shape, 0.5), where=m > 0)
    bar = -np.log(real_number(delta, "delta", 1e-100, 0.5, "a number from 1e-100 to 0.5", "Try 0.01."))

    def end(edge: float) -> Floats:
        inside, outside = centre.copy(), np.full(centre.shape, edge)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            kept = mean_evidence(h, m, middle) < bar
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        # The edge itself may be inside, and the outer side of the last step is.
        return np.where(mean_evidence(h, m, np.full(centre.shape, edge)) < bar, edge, outside)

    return Intervals(end(0.0), end(1.0))


def mean_evidence(hits: ArrayLike, rows: ArrayLike, mean: ArrayLike) -> Floats:
    """Evidence that the mean coverage of the rows so far was not `mean`.

    The mean over slopes l of exp(l hits - rows log(1 - mean + mean e^l)).
    """
    h, m, q = (np.asarray(part, dtype=np.float64)[..., None] for part in (hits, rows, mean))
    each = _SLOPES * h - m * np.log1p(q * np.expm1(_SLOPES))
    largest = each.max(axis=-1)
    evidence: Floats = largest + np.log(np.mean(np.exp(each - largest[..., None]), axis=-1))
    return evidence


class Change(NamedTuple):
    """Where coverage changed: the first batch after the change, and the coverage before it and from it on."""

    batch: int
    before: float
    after: float


def change_point(rows: ArrayLike, hits: ArrayLike, *, direction: Literal["lower", "higher"] = "lower") -> Change | None:
    """The most likely batch from which coverage was lower (or higher); None if there is none."""
    h, m = check_counts(hits, rows, names=("hits", "rows"))
    if h.ndim != 1 or h.shape != m.shape:
        raise InputError(f"rows and hits must be one number per batch; got shapes {m.shape} and {h.shape}.")
    m0, h0 = np.cumsum(m)[:-1], np.cumsum(h)[:-1]
    m1, h1 = m.sum() - m0, h.sum() - h0
    with np.errstate(invalid="ignore", divide="ignore"):
        before, after = h0 / m0, h1 / m1
        possible = (after < before) if direction == "lower" else (after > before)
    if not possible.any():
        return None

    def log_likelihood(hits: Ints, rows: Ints) -> Floats:
        share = np.divide(hits, rows, out=np.zeros(hits.shape), where=rows > 0)
        return np.asarray(xlogy(hits, share) + xlogy(rows - hits, 1 - share), dtype=np.float64)

    at = int(np.where(possible, log_likelihood(h0, m0) + log_likelihood(h1, m1), -np.inf).argmax())
    return Change(at + 1, float(before[at]), float(after[at]))


def coverage_since(rows: ArrayLike, hits: ArrayLike, batch: int, delta: float) -> Interval:
    """Interval of the mean coverage from a batch on, whichever batch was chosen, at all times at once.

    The interval of batch b, counted from 0, has the level delta / ((b + 1)(b + 2)), and these sum to delta.
    """
    m, h = np.asarray(rows)[batch:].sum(), np.asarray(hits)[batch:].sum()
    seen = confidence_sequence(h, m, delta / ((batch + 1) * (batch + 2)))
    return Interval(float(seen.low), float(seen.high))
