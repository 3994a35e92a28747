"""A drop of three points is found almost as soon as by the bet that would have been best, known only afterwards."""

import math

import numpy as np
import pytest

from monitored import dropped, law_of
from thermoset.kernels import NO_WEALTH, CoverageBets, Track, Wealth, bet_on_hits
from thermoset.monitor.evidence import SHARE_UNDER, CoverageTest

pytestmark = pytest.mark.long

AT, DROP, DELTA, RUN_LENGTH, STREAMS = 2000, 0.03, 0.01, 10**6, 200
ODDS = np.exp(-np.linspace(0.08, 0.48, 11))
NEVER = 10**9


def delay(alarms):
    """Median number of rows from the drop to an alarm; an alarm before it is a false one, and counts as no delay."""
    return float(np.median(np.maximum(np.array(alarms) - AT, 0)))


def fixed_tests(hits, law):
    """Delay of the martingale of each single bet that starts at the first row, at the level of our test."""
    before = np.cumsum(hits, axis=1) - hits
    p = (law.rank + before) / (law.pool + 1 + np.arange(hits.shape[1]))
    found = []
    for r in ODDS:
        above = np.cumsum(np.where(hits, np.log(r), 0.0) - np.log1p((r - 1) * p), axis=1) >= -math.log(
            DELTA * SHARE_UNDER
        )
        found.append(delay(np.where(above.any(axis=1), above.argmax(axis=1) + 1, NEVER)))
    return found


def fixed_detectors(hits, law):
    """Delay of the detector of each single bet, at our run length."""
    none, track = np.zeros(0), Track(np.empty(hits.shape[1]), np.empty(hits.shape[1], dtype=bool))
    found = []
    for r in ODDS:
        bets = CoverageBets(float(law.rank), float(law.pool + 1 - law.rank), none, none, np.array([r]))
        alarms = []
        for row in hits:
            wealth = Wealth(none, np.full(1, NO_WEALTH), np.full(1, NO_WEALTH), 0.0)
            bet_on_hits(row, np.zeros(2, dtype=np.int64), bets, wealth, math.log(RUN_LENGTH), track)
            alarms.append(first_after(np.flatnonzero(track.alarm) + 1))
        found.append(delay(alarms))
    return found


def first_after(rows):
    """The first alarm after the drop."""
    return next((row for row in rows if row > AT), NEVER)


@pytest.mark.parametrize(("n", "rows"), [(500, 16_000), (5000, 7000), (50_000, 6000)])
def test_delay_against_the_best_single_bet(n, rows):
    law = law_of(n)
    hits = dropped(law, STREAMS, rows, DROP, AT, seed=n)
    begun = CoverageTest.start(law, delta=DELTA, run_length=RUN_LENGTH)
    found = [begun.after(row).under for row in hits]
    ours = delay([test.crossed or NEVER for test in found]), delay([first_after(test.changes) for test in found])
    best = min(fixed_tests(hits, law)), min(fixed_detectors(hits, law))
    assert ours[0] <= 1.5 * best[0] < NEVER / 2
    assert ours[1] <= 1.5 * best[1] < NEVER / 2
