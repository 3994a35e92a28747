"""How soon a loss of coverage is found, in rows of a simulated stream, compared with other methods.

Scores of conformal rows are uniform, and the threshold is the score at rank k. After the loss, scores are u**g, with g
such that a threshold of 0.9 covers three points less. Martingales of other libraries bet on conformal p-values, among
all conformal rows and all rows before: of hits, and of scores. Scores show more than hits do, since all of them move.
"""

import bisect
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import betabinom

from benchmarks.tables import Line, Settings, Table, Target

__all__ = ["drop", "slide"]

_ALPHA, _DELTA, _RUN_LENGTH, _WEEK = 0.1, 0.01, 10**6, 200
_AT, _DROP, _STREAMS = 2000, 0.03, 200
_PEER_STREAMS = 50  # the first of them: a row takes other libraries a hundred times as long
_ROWS = {500: 16_000, 5_000: 7_000, 50_000: 6_000}
_ODDS = np.exp(-np.linspace(0.06, 0.5, 23))
_WEEKS, _SLIDE, _POOL, _SIGNIFICANCE = 26, 0.1, 1000, 0.001
_NEVER = math.inf

Hits = NDArray[np.bool_]


class Stream(NamedTuple):
    """Sorted scores of conformal rows, scores of the rows of a stream, and whether these are below the threshold."""

    conformal: NDArray[np.float64]
    scores: NDArray[np.float64]
    hits: Hits


def drop(settings: Settings, n: int) -> Table:  # noqa: ARG001
    """Median delay after a drop of three points at row 2,000, with n conformal rows."""
    streams = [_stream(n, seed) for seed in range(_STREAMS)]
    hits = np.array([one.hits for one in streams])
    rank, begun = _rank(n), _begun(n)
    tests = [begun.after(row).under for row in hits]
    weeks = _ROWS[n] // _WEEK
    best, best_detector = _best(_single_tests(hits, rank, n)), _best(_single_detectors(hits, rank, n))
    crossed = _late([test.crossed or _NEVER for test in tests])
    level = _DELTA / 2
    lines = [
        Line(f"best single bet in hindsight, test at {level}", best, _STREAMS, note="started at row 1"),
        _line(f"thermoset, test at {level}", crossed, Target("<=", 1.5, "yardstick")),
        _line(f"weekly p-value < {level} / {weeks} weeks", _late(_weekly(hits, n, level / weeks))),
        *(_line(f"{name}, test at {level}", _late(alarms)) for name, alarms in _peers(streams, 1 / level)),
        Line(f"best single bet in hindsight, detector, run length {_RUN_LENGTH:,}", best_detector, _STREAMS),
        _line(
            f"thermoset, detector, run length {_RUN_LENGTH:,}",
            _late([_after_drop(test.changes) for test in tests]),
            Target("<=", 1.5 * best_detector, "value"),
            note="the target is 1.5 × the best single detector",
        ),
        _line(
            f"weekly p-value < {_WEEK / _RUN_LENGTH}, once in {_RUN_LENGTH:,} rows",
            _late(_weekly(hits, n, _WEEK / _RUN_LENGTH)),
        ),
    ]
    return Table(f"Rows from a drop of 3 points at row {_AT:,} to the alarm, {n:,} conformal rows", lines, unit="rows")


def slide(settings: Settings) -> Table:  # noqa: ARG001
    """Week of the alarm while coverage slides from .90 to .80 in 26 weeks of 200 rows: medians."""
    rng, rank, begun = np.random.default_rng(0), _rank(_POOL), _begun(_POOL)
    start = rng.beta(rank, _POOL + 1 - rank, _STREAMS)
    level = start[:, None] - _SLIDE * np.arange(_WEEKS) / (_WEEKS - 1)
    hits = rng.random((_STREAMS, _WEEKS * _WEEK)) < np.repeat(level, _WEEK, axis=1)
    tests = [begun.after(row).under for row in hits]
    by_week = hits.reshape(_STREAMS, _WEEKS, _WEEK).sum(axis=2)
    weekly = _lower_tail(by_week, np.full(_WEEKS, _WEEK), _POOL) < _SIGNIFICANCE
    so_far = _lower_tail(np.cumsum(by_week, axis=1), _WEEK * np.arange(1, _WEEKS + 1), _POOL) < _SIGNIFICANCE
    lines = [
        _line(f"thermoset, test at {_DELTA / 2}", [_week(test.crossed or _NEVER) for test in tests]),
        _line(
            f"thermoset, detector, run length {_RUN_LENGTH:,}",
            [_week(test.changes[0] if test.changes else _NEVER) for test in tests],
        ),
        _line(f"weekly check, p < {_SIGNIFICANCE} each", _first(weekly), note="false alarms add up week by week"),
        _line(f"cumulative check, p < {_SIGNIFICANCE} each", _first(so_far), note="false alarms add up week by week"),
    ]
    title = f"Week of the alarm: coverage from .90 to .80 in {_WEEKS} weeks of {_WEEK} rows, {_POOL:,} conformal rows"
    return Table(title, lines, unit="week")


def _line(what: str, delays: Any, target: Target | None = None, note: str = "") -> Line:
    """The median; how many streams had no alarm is in the note."""
    values = np.asarray(delays, dtype=np.float64)
    never, middle = int(np.isinf(values).sum()), float(np.median(values))
    notes = [*([note] if note else []), *([f"no alarm in {never} of {len(values)} streams"] if never else [])]
    return Line(what, middle if math.isfinite(middle) else None, len(values), target, "; ".join(notes))


def _late(alarms: Any) -> NDArray[np.float64]:
    """Rows from the drop to the alarm; one before it is a false one, and counts as no delay."""
    return np.maximum(np.asarray(alarms, dtype=np.float64) - _AT, 0)


def _best(each: Any) -> float:
    """The smallest median delay."""
    return min(float(np.median(_late(alarms))) for alarms in each)


def _rank(n: int) -> int:
    from thermoset.levels import conformal_rank

    return conformal_rank(n, _ALPHA)


def _begun(n: int) -> Any:
    from thermoset.monitor.evidence import CoverageTest, HitLaw

    return CoverageTest.start(HitLaw(_rank(n), n), delta=_DELTA, run_length=_RUN_LENGTH)


def _stream(n: int, seed: int) -> Stream:
    rng = np.random.default_rng((n, seed))
    conformal = np.sort(rng.random(n))
    power = math.log(1 - _ALPHA) / math.log(1 - _ALPHA - _DROP)
    scores = rng.random(_ROWS[n]) ** np.where(np.arange(_ROWS[n]) < _AT, 1.0, power)
    return Stream(conformal, scores, scores <= conformal[_rank(n) - 1])


def _after_drop(rows: Any) -> float:
    return next((row for row in rows if row > _AT), _NEVER)


def _first(above: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The first place, counted from 1, of each row."""
    return np.where(above.any(axis=1), above.argmax(axis=1) + 1.0, _NEVER)


def _week(row: float) -> float:
    return math.ceil(row / _WEEK) if math.isfinite(row) else _NEVER


def _single_tests(hits: Hits, rank: int, n: int) -> Iterator[NDArray[np.float64]]:
    p = (rank + np.cumsum(hits, axis=1) - hits) / (n + 1 + np.arange(hits.shape[1]))
    for r in _ODDS:
        wealth = np.cumsum(np.where(hits, np.log(r), 0.0) - np.log1p((r - 1) * p), axis=1)
        yield _first(wealth >= math.log(2 / _DELTA))


def _single_detectors(hits: Hits, rank: int, n: int) -> Iterator[list[float]]:
    from thermoset.kernels import NO_WEALTH, CoverageBets, Track, Wealth, bet_on_hits

    none, track = np.zeros(0), Track(np.empty(hits.shape[1]), np.empty(hits.shape[1], dtype=bool))
    for r in _ODDS:
        bets = CoverageBets(float(rank), float(n + 1 - rank), none, none, np.array([r]))
        alarms = []
        for row in hits:
            wealth = Wealth(none, np.full(1, NO_WEALTH), np.full(1, NO_WEALTH), 0.0)
            bet_on_hits(row, np.zeros(2, dtype=np.int64), bets, wealth, math.log(_RUN_LENGTH), track)
            alarms.append(_after_drop(np.flatnonzero(track.alarm) + 1))
        yield alarms


def _weekly(hits: Hits, n: int, level: float) -> NDArray[np.float64]:
    """Rows until a week after the drop whose exact p-value is below the level; weeks end where the drop begins."""
    by_week = hits.reshape(len(hits), -1, _WEEK).sum(axis=2)
    low = _lower_tail(by_week, np.full(by_week.shape[1], _WEEK), n) < level
    low[:, : _AT // _WEEK] = False
    return _first(low) * _WEEK


def _lower_tail(hits: NDArray[np.int64], rows: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """P(so few hits or fewer) of each week by the law of n conformal rows."""
    rank, tails = _rank(n), np.empty(hits.shape)
    for week, m in enumerate(rows.tolist()):
        tail = np.cumsum(betabinom(m, rank, n + 1 - rank).pmf(np.arange(m + 1)))
        tails[:, week] = tail[hits[:, week]]
    return tails


def _peers(streams: list[Stream], bar: float) -> Iterator[tuple[str, list[float]]]:
    """Martingales on p-values, which are small for misses and for large scores."""
    rng = np.random.default_rng(0)
    drawn = [(one, rng.random(len(one.scores))) for one in streams]
    yield "thermoset RankTest of scores in 64 bins", [_ranked(one, v, 1 / bar) for one, v in drawn]
    for what, p_value in (("hits", _hit_p_values), ("scores", _score_p_values)):
        p_values = [p_value(one, v) for one, v in drawn[:_PEER_STREAMS]]
        for name, first_crossing in {**_crepes(), **_mapie()}.items():
            yield f"{name} of {what}", [first_crossing(p, bar) for p in p_values]


def _ranked(stream: Stream, v: NDArray[np.float64], level: float) -> float:
    from thermoset.monitor.evidence import RankTest

    cuts = (
        np.arange(1, 64) / 64
    )  # known before any row: bins from conformal rows would not be exchangeable with fresh ones
    reference = np.bincount(np.searchsorted(cuts, stream.conformal), minlength=64)
    begun = RankTest.start(reference, share_of_delta=level, run_length=None)
    return begun.after(np.searchsorted(cuts, stream.scores), v).process.crossed or _NEVER


def _hit_p_values(stream: Stream, v: NDArray[np.float64]) -> NDArray[np.float64]:
    """A miss is larger than a hit; all others tie."""
    known, n = np.arange(len(v)), len(stream.conformal)
    hits = _rank(n) + np.cumsum(stream.hits) - stream.hits
    misses = n + known - hits
    return np.where(stream.hits, misses + v * (1 + hits), v * (1 + misses)) / (n + known + 1)


def _score_p_values(stream: Stream, v: NDArray[np.float64]) -> NDArray[np.float64]:
    known, p_values = stream.conformal.tolist(), np.empty(len(v))
    for t, score in enumerate(stream.scores.tolist()):
        place = bisect.bisect(known, score)
        p_values[t] = (len(known) - place + v[t]) / (len(known) + 1)
        known.insert(place, score)
    return p_values


_Crossing = Callable[[NDArray[np.float64], float], float]


def _crepes() -> dict[str, _Crossing]:
    try:
        from crepes import martingales
    except ImportError:
        return {}

    def crossing(martingale: Any, p: NDArray[np.float64], bar: float) -> float:
        step = martingale.apply(p, c=bar)
        return step + 1 if step < len(p) else _NEVER

    kinds = ("SimpleJumper", "SleeperStayer")
    return {f"crepes {kind}": partial(crossing, getattr(martingales, kind)()) for kind in kinds}


def _mapie() -> dict[str, _Crossing]:
    try:
        from mapie.exchangeability_testing import OnlineMartingaleTest
    except ImportError:
        return {}

    def crossing(p: NDArray[np.float64], bar: float) -> float:
        test = OnlineMartingaleTest(warn=False, random_state=0)
        steps = (row for row, one in enumerate(p.tolist(), 1) if test.update_simple_jumper_martingale(one) >= bar)
        return next(steps, _NEVER)

    return {"MAPIE jumper": crossing}
