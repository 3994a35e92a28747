"""Under the promise the chance of ever giving an alarm is at most delta, however often one looks."""

import math

import numpy as np
import pytest
from scipy.special import softmax

from monitored import kept, law_of, too_many
from thermoset.kernels import bet_on_hits
from thermoset.monitor.evidence import CoverageTest, EProcess, HitLaw, RankTest, mean_evidence

pytestmark = pytest.mark.long

STREAMS, ROWS = 2000, 5000
LEVELS = (0.5, 0.1, 0.01)
POOLS = (50, 500, 5000)


def assert_valid(peaks):
    """The largest value of each stream reaches 1 / level in a share of at most `level` of the streams."""
    for level in LEVELS:
        reached = int((np.array(peaks) >= -math.log(level)).sum())
        assert not too_many(reached, len(peaks), level), (level, reached)


@pytest.mark.parametrize("n", POOLS)
def test_streams_that_keep_the_promise(n):
    law = law_of(n)
    begun = CoverageTest.start(law, delta=0.2, run_length=None)
    found = [begun.after(hits) for hits in kept(law, STREAMS, ROWS, seed=n)]
    assert_valid([test.under.peak for test in found])
    assert_valid([test.over.peak for test in found])
    assert not too_many(sum(test.under.alarm for test in found), STREAMS, 0.1)
    assert not too_many(sum(test.over.alarm for test in found), STREAMS, 0.025)


def count_peak(hits, law, side):
    """Largest value of the evidence of counts alone."""
    begun = EProcess.start(delta=0.1, run_length=None, once=5, mixture=0, share=0.0)
    seen, bets = np.zeros(2, dtype=np.int64), law.bets(side)
    return begun.after(len(hits), lambda wealth, run, track: bet_on_hits(hits, seen, bets, wealth, run, track)).peak


@pytest.mark.parametrize("n", POOLS)
def test_evidence_of_counts_alone(n):
    law = law_of(n)
    streams = kept(law, STREAMS, ROWS, seed=n + 1)
    for side in (-1, 1):
        assert_valid([count_peak(hits, law, side) for hits in streams])


@pytest.mark.parametrize("n", [1, 9, 50])
def test_a_bet_that_takes_the_coverage_for_known_is_caught(n):
    """The tests above can fail: 1 - alpha in place of (k + h) / (n + 1 + m) alarms far too often with few rows."""
    law = law_of(n, "0.5" if n == 1 else "0.1")
    known = HitLaw(law.rank * 10**9, (law.pool + 1) * 10**9 - 1)
    begun = CoverageTest.start(known, delta=0.2, run_length=None)
    found = [begun.after(hits).under.alarm for hits in kept(law, 400, 2000, seed=n)]
    assert too_many(sum(found), 400, 0.1)


def test_more_hits_than_promised_where_that_is_allowed():
    """Some misses become hits, by a rule that looks at the past and likes long runs of misses."""
    law = law_of(500, exact=False)
    hits = kept(law, STREAMS, 2000, seed=3)
    hits[:, 1:] |= hits[:, :-1] & (np.random.default_rng(4).random(hits[:, 1:].shape) < 0.01)
    begun = CoverageTest.start(law, delta=0.2, run_length=1000)
    found = [begun.after(row) for row in hits]
    assert_valid([test.under.peak for test in found])
    assert all(test.over is None and test.under.run_length is None for test in found)


def test_scores_that_tie():
    """Scores with few values: the set takes all labels that tie with the threshold."""
    rng, law = np.random.default_rng(5), law_of(99, exact=False)
    conformal = np.sort(rng.integers(0, 15, (STREAMS, law.pool)), axis=1)
    hits = rng.integers(0, 15, (STREAMS, 2000)) <= conformal[:, [law.rank - 1]]
    begun = CoverageTest.start(law, delta=0.2, run_length=None)
    assert_valid([begun.after(row).under.peak for row in hits])


@pytest.mark.parametrize("n", [50, 5000])
def test_average_run_length_of_the_detector(n):
    """Alarms come at most once in `run_length` rows on average: until the first, and again after each restart."""
    law, run_length, streams, rows = law_of(n), 500, 300, 6000
    begun = CoverageTest.start(law, delta=0.01, run_length=run_length)
    found = [begun.after(hits) for hits in kept(law, streams, rows, seed=n + 2)]
    for changes in ([t.under.changes for t in found], [t.over.changes for t in found]):
        first = np.array([rows_of[0] if rows_of else rows for rows_of in changes])  # at most the row of the alarm
        assert first.mean() > run_length - 4 * first.std() / math.sqrt(streams)
        number = np.array(list(map(len, changes)))
        assert number.mean() < rows / run_length + 4 * number.std() / math.sqrt(streams)
        assert number.max() > 1


def test_ranks_of_rows_that_are_exchangeable():
    """Six bins, so that most rows tie; a reference of 40 rows."""
    rng, streams, rows = np.random.default_rng(6), 1000, 2000
    found = []
    for _ in range(streams):
        bins = rng.choice(6, 40 + rows, p=rng.dirichlet(np.ones(6)))
        begun = RankTest.start(np.bincount(bins[:40], minlength=6), share_of_delta=0.1, run_length=300)
        found.append(begun.after(bins[40:], rng.random(rows)).process)
    assert_valid([test.peak for test in found])
    number = np.array([len(test.changes) for test in found])
    assert number.mean() < rows / 300 + 4 * number.std() / math.sqrt(streams)


@pytest.mark.parametrize(
    "coverage",
    [
        lambda t: np.full(t.shape, 0.9),
        lambda t: np.full(t.shape, 0.99),
        lambda t: 0.9 - 0.3 * t / len(t),
        lambda t: np.where((t // 50) % 2 == 0, 1.0, 0.6),
    ],
    ids=["steady", "high", "falling", "jumping"],
)
def test_the_confidence_sequence_holds_the_running_mean_at_all_times(coverage):
    rows, streams = np.arange(1000), 300
    level = coverage(rows)
    hits = np.cumsum(np.random.default_rng(8).random((streams, len(rows))) < level, axis=1)
    mean = np.cumsum(level) / (rows + 1)
    largest = mean_evidence(hits, rows + 1, np.minimum(mean, 1.0)).max(axis=1)
    assert_valid(largest)


def sizes(n_conformal, n_fresh, rng):
    """Sizes of LAC sets of conformal rows and of fresh ones, at the threshold of the former."""
    n_rows, n_classes = n_conformal + n_fresh, 6
    labels = rng.integers(0, n_classes, n_rows)
    probs = softmax(1.5 * rng.normal(size=(n_rows, n_classes)) + 2.5 * np.eye(n_classes)[labels], axis=1)
    score = np.sort(1 - probs[np.arange(n_conformal), labels[:n_conformal]])
    found = np.count_nonzero(1 - probs <= score[math.ceil(0.9 * (n_conformal + 1)) - 1], axis=1)
    return found[:n_conformal], found[n_conformal:]


def test_the_threshold_of_the_reference_rows_costs_no_false_alarms():
    """Rows that set the threshold are not quite like later ones; the test keeps its level all the same."""
    rng, delta, streams, alarms = np.random.default_rng(0), 0.2, 400, 0
    for _ in range(streams):
        reference, fresh = sizes(60, 600, rng)
        test = RankTest.start(np.bincount(reference, minlength=7), share_of_delta=delta, run_length=None)
        alarms += test.after(fresh, rng.random(600)).process.alarm
    assert alarms <= streams * delta + 3 * math.sqrt(streams * delta * (1 - delta))
