"""`check`: its laws by exact arithmetic and over many splits, its adjustment, its test of calibration, its words."""

import itertools
import json
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from law import generated
from thermoset import ConformalClassifier, metrics
from thermoset.conformal import groupings
from thermoset.errors import InputError
from thermoset.monitor import check as checking
from thermoset.monitor.check import RowFacts, calibration_check, check, holm
from thermoset.monitor.promise import NULL_GROUP, Promise
from thermoset.monitor.report import SIGNIFICANCE

ALPHA = "0.1"


def with_hits(hits, rows):
    """Sets, probabilities and labels of `rows[c]` rows of each class, `hits[c]` of them with a set that holds it."""
    labels = np.repeat(np.arange(len(rows)), rows)
    hit = np.concatenate([np.arange(m) < h for h, m in zip(hits, rows, strict=True)])
    sets = np.zeros((len(labels), len(rows)), dtype=bool)
    sets[np.arange(len(labels)), labels] = hit
    return sets, np.full(sets.shape, 1 / len(rows)), labels


def exact_mass(n, m, alpha=ALPHA):
    """Law of the hits in fractions: the share of interleavings of n old and m new scores with h below the k-th old."""
    k = math.ceil((n + 1) * (1 - Fraction(alpha)))
    if k > n:
        return [Fraction(0)] * m + [Fraction(1)]
    return [
        Fraction(math.comb(h + k - 1, h) * math.comb(m - h + n - k, m - h), math.comb(n + m, m)) for h in range(m + 1)
    ]


def convolved(masses):
    total = [Fraction(1)]
    for mass in masses:
        longer = [Fraction(0)] * (len(total) + len(mass) - 1)
        for (i, a), (j, b) in itertools.product(enumerate(total), enumerate(mass)):
            longer[i + j] += a * b
        total = longer
    return total


# --- Holm -----------------------------------------------------------------------------------------------------------


def test_holm_by_hand():
    # sorted .005 .01 .03 .04 times 4 3 2 1: .02 .03 .06 .04, and the last may not be below the one before
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02], rel=1e-12)
    assert holm([0.5, 0.9]).tolist() == [1.0, 1.0]
    assert holm([0.2]).tolist() == [0.2]
    assert holm([]).tolist() == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_is_bonferroni_closed_over_all_intersections(p):
    # The closure principle: a hypothesis falls when Bonferroni rejects every set of hypotheses that it belongs to.
    every = [s for r in range(1, len(p) + 1) for s in itertools.combinations(range(len(p)), r)]
    expected = [max(min(1.0, len(s) * min(p[j] for j in s)) for s in every if i in s) for i in range(len(p))]
    assert holm(p).tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [[0.5, np.nan], [-0.1], [1.5], [[0.5]], 0.5])
def test_holm_refuses_what_is_no_p_value(bad):
    with pytest.raises(InputError, match="p_values"):
        holm(bad)


# --- laws by exact arithmetic ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "m", "hits"), [(9, 30, 25), (200, 400, 350), (1000, 50, 50), (8, 20, 20), (8, 20, 19)])
def test_one_threshold_follows_the_law_of_the_metrics(n, m, hits):
    seen = check(*with_hits([hits], [m]), Promise(ALPHA, [n])).marginal
    assert (seen.rows, seen.hits, seen.coverage, seen.promised) == (m, hits, hits / m, 0.9)
    assert seen.p_value == pytest.approx(metrics.coverage_p_value(hits, m, n, ALPHA), rel=1e-12)
    assert seen.allowed == metrics.coverage_interval(n, m, ALPHA)


@pytest.mark.parametrize("hits", [(5, 2, 4), (6, 3, 5), (0, 0, 5), (3, 3, 5), (6, 1, 4)])
def test_mondrian_marginal_is_the_convolution_of_the_laws(hits):
    pools, rows = (9, 30, 5), (6, 3, 5)  # the third class has too few rows for a threshold: it is always covered
    mass = convolved([exact_mass(n, m) for n, m in zip(pools, rows, strict=True)])
    report = check(*with_hits(hits, rows), Promise(ALPHA, np.array(pools), "class"))
    tail = float(sum(mass[: sum(hits) + 1]))
    assert report.marginal.p_value == pytest.approx(max(tail, 1e-12), rel=1e-10)
    low, high = (round(end * sum(rows)) for end in report.marginal.allowed)
    assert sum(mass[:low]) < Fraction("0.025") <= sum(mass[: low + 1])
    assert sum(mass[high + 1 :]) < Fraction("0.025") <= sum(mass[high:])
    own = [float(sum(exact_mass(n, m)[: h + 1])) for n, m, h in zip(pools, rows, hits, strict=True)]
    assert report.classes.p_value.tolist() == pytest.approx(own, rel=1e-10)
    assert report.classes.law == "beta-binomial"


@pytest.mark.parametrize("sigmas", [0, -2, -3.2, -6])
def test_long_convolutions_are_right_to_twelve_digits(sigmas):
    # many rows: the laws are multiplied as Fourier transforms; here they are convolved term by term
    pools, rows = [300, 45, 900, 120, 60], [2500, 3000, 1500, 2800, 2100]
    masses = [metrics.coverage_law(n, m, ALPHA).pmf(np.arange(m + 1)) for n, m in zip(pools, rows, strict=True)]
    mass = np.ones(1)
    for law in masses:
        mass = np.convolve(mass, law)
    mean = np.arange(len(mass)) @ mass
    spread = math.sqrt((np.arange(len(mass)) - mean) ** 2 @ mass)
    total = round(mean + sigmas * spread)
    hits = np.minimum(rows, total - np.cumsum([0, *rows[:-1]])).clip(0)  # any hits with that sum
    assert hits.sum() == total
    report = check(*with_hits(hits, rows), Promise(ALPHA, pools, "class"))
    assert report.marginal.p_value == pytest.approx(max(mass[: total + 1].sum(), 1e-12), abs=1e-13)


def test_classes_without_a_promise_are_measured_by_the_binomial():
    report = check(*with_hits([31, 45, 0, 20], [50, 50, 0, 20]), Promise(ALPHA, [400]))
    table = report.classes
    assert table.law == "binomial"
    for c, (hits, rows) in enumerate([(31, 50), (45, 50), (0, 0), (20, 20)]):
        if rows:
            peer = binomtest(hits, rows, 0.9, alternative="less")
            assert table.p_value[c] == pytest.approx(peer.pvalue, rel=1e-9)
            ends = binomtest(hits, rows).proportion_ci(0.95, method="exact")
            assert (table.low[c], table.high[c]) == pytest.approx((ends.low, ends.high), rel=1e-9)
    absent = (table.coverage, table.low, table.high, table.p_value, table.p_holm)
    assert np.isnan([column[2] for column in absent]).all()
    present = [0, 1, 3]
    np.testing.assert_array_equal(table.p_holm[present], holm(table.p_value[present]))
    assert (table.tested, table.under_covered.tolist()) == (3, [0])


# --- laws over many splits ------------------------------------------------------------------------------------------


def promise_of(model, exact=True):
    clusters = model.calibration_.group_of_class if model.grouping == "cluster" else None
    return Promise(model.alpha, model.calibration_.pool_sizes(), model.grouping, exact, clusters)


@pytest.fixture
def coverage_alone(monkeypatch):
    """Leave out what has its own tests and takes its time."""
    monkeypatch.setattr(checking, "calibration_check", lambda *_: None)
    monkeypatch.setattr(metrics, "noise_floor_of_counts", lambda *_: None)


@cache
def reports_over_splits(case):
    """Checks of 300 splits; two tests look at them, each in its own way."""
    (logits, labels), rng, reports = generated(4000, 6, seed=21), np.random.default_rng(0), []
    for _ in range(300):
        rows = rng.permutation(len(logits))[:800]
        conformal, fresh = rows[:500], rows[500:]
        model = ConformalClassifier(alpha=ALPHA, **CASES[case]).fit(logits[conformal], labels[conformal])
        sets = model.predict_set(logits[fresh])
        reports.append(check(sets, np.full(sets.shape, 1 / sets.shape[1]), labels[fresh], promise_of(model)))
    return reports


def assert_not_too_small(p_values):
    for level in (0.005, 0.01, 0.05, 0.1, 0.3, 0.5):
        assert np.count_nonzero(np.array(p_values) <= level) <= binom.isf(1e-6, len(p_values), level)


CASES = {
    "one threshold": {"method": "aps"},
    "LAC": {"method": "lac", "temperature": 0.2},
    "class": {"method": "raps", "grouping": "class"},
    "cluster": {"method": "aps", "grouping": "cluster"},
    "deterministic": {"method": "aps", "randomized": False},
    "never empty": {"method": "raps", "allow_empty": False},
    "never empty mondrian": {"method": "lac", "allow_empty": False, "grouping": "class"},
}


@pytest.mark.long
@pytest.mark.usefixtures("coverage_alone")
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
@pytest.mark.filterwarnings("ignore::thermoset.errors.SuspiciousRowsWarning")  # no row of some splits is wrong
@pytest.mark.parametrize("case", CASES)
def test_p_values_of_a_kept_promise_are_uniform_or_larger(case):
    reports = reports_over_splits(case)
    assert_not_too_small([r.marginal.p_value for r in reports])
    questions = 1
    if case in ("class", "cluster"):
        tables = [r.clusters if case == "cluster" else r.classes for r in reports]
        assert_not_too_small([t.p_value[~np.isnan(t.p_value)][-1] for t in tables])  # of one class or cluster
        assert_not_too_small([np.nanmin(t.p_holm) for t in tables])  # of any of them
        questions = 2
    assert sum(not r.ok for r in reports) <= binom.isf(1e-6, len(reports), questions * SIGNIFICANCE)


@pytest.mark.slow
@pytest.mark.usefixtures("coverage_alone")
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
@pytest.mark.filterwarnings("ignore::thermoset.errors.SuspiciousRowsWarning")  # no row of some splits is wrong
@pytest.mark.parametrize("case", ["one threshold", "LAC", "class", "cluster"])
def test_p_values_of_exact_laws_are_not_larger_than_they_must_be(case):
    # Half the probability of the hits seen taken off, a p-value F(h) has mean exactly 1/2 and variance below 1/12.
    law = cache(lambda n, m: metrics.coverage_law(n, m, ALPHA).pmf(np.arange(m + 1)))
    middle = []
    for report in reports_over_splits(case):
        groups = report.promise.class_parts(6)
        rows = groups.total(report.classes.rows)
        mass = np.ones(1)
        for n, m in zip(groups.pools[groups.promised], rows[groups.promised], strict=True):
            mass = np.convolve(mass, law(int(n), int(m)))
        middle.append(report.marginal.p_value - mass[report.marginal.hits] / 2)
    assert abs(np.mean(middle) - 0.5) < 5 * math.sqrt(1 / 12 / len(middle))


@pytest.mark.usefixtures("coverage_alone")
def test_the_null_cluster_is_promised_nothing():
    # Rare classes share the threshold of all rows and are harder: their coverage is low, and nobody said otherwise.
    logits, labels = generated(18_000, 12, seed=5)
    keep = (labels < 10) | (np.arange(18_000) % 100 == 0)
    logits, labels = logits[keep], labels[keep]
    logits[labels >= 10] = np.roll(logits[labels >= 10], 1, axis=1)
    model = ConformalClassifier("aps", ALPHA, grouping="cluster").fit(logits[:4000], labels[:4000])
    assert (model.calibration_.group_of_class[10:] == NULL_GROUP).all(), "the case does not test what it says"
    sets = model.predict_set(logits[4000:])
    report = check(sets, np.full(sets.shape, 1 / sets.shape[1]), labels[4000:], promise_of(model))
    rare = int((labels[4000:] >= 10).sum())
    assert rare >= 20
    assert report.classes.coverage[10:].max() < 0.5
    assert report.marginal.rows == report.rows - rare
    assert np.isnan(report.clusters.p_value[0])
    assert report.ok


def test_the_null_cluster_alone_is_one_threshold():
    data = with_hits([180, 150], [200, 200])
    alone = check(*data, Promise(ALPHA, [500, 500], "cluster", group_of_class=[-1, -1]))
    one = check(*data, Promise(ALPHA, [500]))
    assert alone.marginal == one.marginal
    assert len(alone.broken) == len(one.broken) == 1
    assert NULL_GROUP == groupings.NULL_GROUP


def test_rows_without_any_promise_break_none():
    data = with_hits([0, 0, 0], [0, 40, 0])
    report = check(*data, Promise(ALPHA, [200, 300, 200], "cluster", group_of_class=[0, -1, 0]))
    assert (report.marginal.rows, report.marginal.p_value, report.marginal.allowed) == (0, 1.0, (0.0, 1.0))
    assert report.ok
    assert report.to_json_dict()["marginal"]["coverage"] is None


# --- what is broken -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("coverage_alone")
@pytest.mark.parametrize("grouping", [None, "class", "cluster"])
def test_rows_from_elsewhere_break_the_promise(grouping):
    logits, labels = generated(4000, 5, signal=1.0, seed=9)
    model = ConformalClassifier("aps", ALPHA, grouping=grouping).fit(logits[:2000], labels[:2000])
    moved = logits[2000:] + np.random.default_rng(0).normal(size=(2000, 5)) * 5.0
    sets = model.predict_set(moved)
    report = check(sets, np.full(sets.shape, 1 / sets.shape[1]), labels[2000:], promise_of(model))
    assert not report.ok
    assert report.broken[0].startswith(
        f"Coverage is {report.marginal.coverage:.4f} on 2,000 rows, below the promised 0.9"
    )


def test_one_class_below_its_law_breaks_a_promise_by_class():
    data = with_hits([280, 285, 210, 290], [300] * 4)  # 0.7 in one class, 0.8875 in all
    by_class = check(*data, Promise(ALPHA, [400] * 4, "class"), class_names=["ant", "bee", "cat", "dog"])
    p = holm([metrics.coverage_p_value(h, 300, 400, ALPHA) for h in (280, 285, 210, 290)])[2]
    (sentence,) = by_class.broken
    assert sentence == (
        "Coverage is below the promised 0.9 in 1 of 4 classes (Holm-adjusted p-values): "
        f"'cat' (210 of 300 rows, p = {p:.1g})."
    )
    together = Promise(ALPHA, [1600])
    assert check(*data, together).ok
    p = holm(binom.cdf([280, 285, 210, 290], 300, 0.9))[2]
    (sentence,) = check(*data, together, fail_on="classes").broken
    assert sentence == (
        "Coverage is below 0.9 in 1 of 4 classes, for which it was not promised (Holm-adjusted p-values): "
        f"2 (210 of 300 rows, p = {p:.1g})."
    )
    clustered = check(*data, Promise(ALPHA, [800] * 4, "cluster", group_of_class=[0, 1, 1, 0]))
    assert clustered.clusters.hits.tolist() == [570, 495]
    assert clustered.broken[0].startswith("Coverage is below the promised 0.9 in 1 of 2 clusters")


def test_many_classes_are_counted_and_the_clearest_named():
    rows = [200] * 9
    report = check(*with_hits([100 - 5 * c for c in range(8)] + [190], rows), Promise(ALPHA, [300] * 9, "class"))
    assert report.classes.under_covered.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert "in 8 of 9 classes" in report.broken[1]
    assert report.broken[1].endswith(" and 3 more.")
    assert [f" {c} (" in report.broken[1] for c in range(8)] == [False] * 3 + [True] * 5


def test_the_rule_is_the_level_and_one_sided():
    # With 1,000 rows, find the hits on both sides of p = .001.
    p = metrics.coverage_law(500, 1000, ALPHA).cdf(np.arange(1001))
    last = int(np.flatnonzero(p < SIGNIFICANCE)[-1])
    promise = Promise(ALPHA, [500])
    assert not check(*with_hits([last], [1000]), promise).ok
    assert check(*with_hits([last + 1], [1000]), promise).ok
    assert check(*with_hits([1000], [1000]), promise).ok  # too much coverage is no breach


def test_coverage_above_the_promise_breaks_nothing():
    # 3 conformal rows of a class give coverage 3/4, where .7 is promised: .71 of 4,000 rows is between the two.
    promise = Promise("0.3", [3] * 400, "class")
    report = check(*with_hits([7] * 360 + [8] * 40, [10] * 400), promise)
    assert report.marginal.coverage == 0.71
    assert report.marginal.p_value < SIGNIFICANCE
    assert report.ok


def test_a_lower_bound_allows_any_coverage_above():
    data = with_hits([100], [100])
    assert check(*data, Promise(ALPHA, [500], exact=False)).marginal.allowed.high == 1
    low = check(*data, Promise(ALPHA, [500])).marginal.allowed.low
    assert check(*data, Promise(ALPHA, [500], exact=False)).marginal.allowed.low == low


# --- calibration ----------------------------------------------------------------------------------------------------


def two_class(confidence, correct):
    confidence = np.asarray(confidence, dtype=float)
    return np.stack([confidence, 1 - confidence], axis=1), np.where(correct, 0, 1)


def calibrated(probs, labels):
    return calibration_check(RowFacts.of(probs > 0, probs, labels))


@pytest.mark.parametrize("right", [(1, 1, 1, 1, 0, 1, 0), (1,) * 7, (0,) * 7, (0, 1, 0, 1, 1, 1, 1)])
def test_chance_is_what_every_outcome_gives(right):
    confidence = [0.55, 0.6, 0.61, 0.75, 0.8, 0.93, 0.99]
    outcomes = []
    for outcome in itertools.product([0, 1], repeat=7):
        chance = math.prod(c if o else 1 - c for c, o in zip(confidence, outcome, strict=True))
        probs, labels = two_class(confidence, outcome)
        outcomes.append((chance, metrics.expected_calibration_error(probs, labels, n_bins=5)))
    probs, labels = two_class(confidence, right)
    seen = calibration_check(RowFacts.of(probs > 0, probs, labels), n_bins=5)
    assert seen.ece == metrics.expected_calibration_error(probs, labels, n_bins=5)
    mean = sum(c * e for c, e in outcomes)
    spread = math.sqrt(sum(c * (e - mean) ** 2 for c, e in outcomes))
    assert abs(seen.ece_mean - mean) < 5 * spread / math.sqrt(4999)
    p = sum(c for c, e in outcomes if e > seen.ece - 1e-9)  # equal counts are equal ECEs
    assert abs(seen.p_value - p) < 5 * math.sqrt(p * (1 - p) / 4999) + 1 / 5000
    above = sum(c for c, e in outcomes if e > seen.ece_95 + 1e-9)
    assert above <= 0.05 + 5 * math.sqrt(0.05 * 0.95 / 4999)


def test_many_rows_are_drawn_in_strata_like_one_by_one():
    rng = np.random.default_rng(3)
    confidence = np.sort(0.5 + 0.5 * rng.beta(4, 1, size=3000))
    seen = calibrated(*two_class(confidence, rng.random(3000) < confidence))
    plain = []
    for _ in range(1500):
        table = metrics.reliability_from_confidence(confidence, rng.random(3000) < confidence, 15)
        plain.append(table.ece)
    spread = np.std(plain)
    assert abs(np.mean(plain) - seen.ece_mean) < 5 * spread * math.sqrt(1 / 1500 + 1 / 4999)
    assert abs(np.mean(np.array(plain) > seen.ece_95) - 0.05) < 5 * math.sqrt(0.05 * 0.95 * (1 / 1500 + 1 / 4999))


@pytest.mark.long
@pytest.mark.parametrize("shape", [(4, 1), (400, 1)])  # confidences of all kinds; nearly all close to one
def test_calibrated_models_have_uniform_p_values_or_larger(shape):
    rng, p_values = np.random.default_rng(7), []
    for _ in range(200):
        confidence = 0.5 + 0.5 * rng.beta(*shape, size=60)
        p_values.append(calibrated(*two_class(confidence, rng.random(60) < confidence)).p_value)
    assert_not_too_small(p_values)


def test_two_errors_of_a_sure_model_are_no_news_to_an_exact_test():
    # 1,000 times .9999: two errors or more with probability .0047. Spiegelhalter's z is (2 - .1) / sqrt(.09999) = 6.
    correct = np.arange(1000) >= 2
    seen = calibrated(*two_class(np.full(1000, 0.9999), correct))
    p = float(binom.sf(1, 1000, 0.0001))
    assert abs(seen.p_value - p) < 5 * math.sqrt(p / 4999) + 1 / 5000
    assert seen.p_value > SIGNIFICANCE


def test_fail_on_confidence():
    confidence = np.full(400, 0.9)
    probs, labels = two_class(confidence, np.arange(400) < 280)  # right in 70% of rows
    sets = np.ones(probs.shape, dtype=bool)
    promise = Promise(ALPHA, [500])
    assert check(sets, probs, labels, promise).ok
    report = check(sets, probs, labels, promise, fail_on=("classes", "confidence"))
    assert (round(report.calibration.ece, 12), report.calibration.accuracy) == (0.2, 0.7)
    assert report.calibration.p_value == 1 / 5000  # none of 4,999 is as far off, and it is one of 5,000
    assert report.broken == (report.calibration.sentence,)
    assert report.notes == ()
    calibrated = two_class(confidence, np.arange(400) < 355)
    assert check(sets, *calibrated, promise, fail_on=["confidence"]).ok


def test_confident_wrong_answers_are_described():
    """3,000 answers at .5 to .7 and 3,000 at .9 or more are calibrated; of 819 at .7 to .9, one in seven is right."""
    rng = np.random.default_rng(11)
    good = np.concatenate([rng.uniform(0.5, 0.7, 3000), rng.uniform(0.9, 1.0, 3000)])
    confidence = np.concatenate([good, rng.uniform(0.7, 0.9, 819)])
    correct = np.concatenate([rng.random(6000) < good, np.arange(819) % 7 == 0])
    probs, labels = two_class(confidence, correct)
    report = check(np.ones(probs.shape, dtype=bool), probs, labels, Promise(ALPHA, [500], exact=False))
    worst = report.calibration.worst
    assert (worst.low, worst.high, worst.rows, worst.right) == (0.7, 0.9, 819, 117)
    assert worst.confidence == pytest.approx(confidence[6000:].mean(), rel=1e-12)
    assert report.ok
    assert "of 819 answers given with 70 to 90% confidence (80% on average), 14% were right" in report.notes[0]
    assert "confidence" in report.verdict
    assert report.to_json_dict()["calibration"]["worst"]["right"] == 117


@given(st.lists(st.tuples(st.floats(0.5, 1.0), st.booleans()), min_size=1, max_size=40))
def test_the_worst_range_is_the_farthest_of_all(rows):
    confidence, correct = (np.array(column) for column in zip(*rows, strict=True))
    worst = calibrated(*two_class(confidence, correct)).worst

    def inside(low, high):
        return (confidence >= low) & ((confidence < high) | (high == 1))

    def distance(low, high):
        sure, right = confidence[inside(low, high)], correct[inside(low, high)]
        return abs(right.sum() - sure.sum()) / math.sqrt((sure * (1 - sure)).sum() + 1)

    best = max(distance(a, b) for a, b in itertools.combinations([k / 10 for k in range(11)], 2))
    assert distance(worst.low, worst.high) == pytest.approx(best, abs=1e-9)
    some = inside(worst.low, worst.high)
    assert (worst.rows, worst.right) == (some.sum(), correct[some].sum())


# --- the report -----------------------------------------------------------------------------------------------------


def small_report(**parameters):
    logits, labels = generated(600, 8, seed=2)
    logits, labels = logits[labels != 3] / 8, labels[labels != 3]
    model = ConformalClassifier("raps", ALPHA).fit(logits[:300], labels[:300])
    sets = model.predict_set(logits[300:])
    probs = np.exp(logits[300:]) / np.exp(logits[300:]).sum(axis=1, keepdims=True)
    return check(sets, probs, labels[300:], promise_of(model), **parameters), sets, probs, labels[300:]


def test_the_report_holds_the_metrics():
    report, sets, probs, labels = small_report()
    assert report.rows == len(labels)
    assert report.marginal.coverage == metrics.marginal_coverage(sets, labels)
    assert (report.avg_size, report.empty_share) == (metrics.avg_size(sets), metrics.empty_share(sets))
    assert report.top_gap == metrics.top_coverage_gap(sets, labels, ALPHA)
    assert report.avg_gap == metrics.avg_coverage_gap(sets, labels, ALPHA)
    assert report.floor == metrics.coverage_gap_noise_floor(labels, 8, ALPHA)
    seen = report.calibration
    assert (seen.ece, seen.nll, seen.brier, seen.accuracy) == (
        metrics.expected_calibration_error(probs, labels),
        metrics.negative_log_likelihood(probs, labels),
        metrics.brier_score(probs, labels),
        metrics.top_k_accuracy(probs, labels),
    )
    assert seen.confidence == pytest.approx(probs.max(axis=1).mean(), rel=1e-12)


def test_json_is_finite_and_says_null_for_absent_classes():
    report, *_ = small_report(class_names=list("abcdefgh"), fail_on=("confidence",))
    record = report.to_json_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["ok"], record["broken"], record["alpha"], record["clusters"]) == (
        report.ok,
        list(report.broken),
        0.1,
        None,
    )
    assert record["class_names"] == list("abcdefgh")
    absent = {"index": 3, "rows": 0, "hits": 0}
    nothing = dict.fromkeys(("coverage", "low", "high", "p_value", "p_holm"))
    assert record["classes"][3] == absent | nothing
    assert record["classes"][0]["coverage"] == report.classes.coverage[0]
    assert record["marginal"]["allowed"] == list(report.marginal.allowed)
    assert record["top_coverage_gap"] == {
        "value": report.top_gap,
        "floor_mean": report.floor.top_mean,
        "floor_95": report.floor.top_95,
    }


def test_parts_by_size_and_confidence_are_those_of_the_metrics():
    report, sets, probs, labels = small_report()
    by_size = metrics.size_stratified_coverage(sets, labels)
    by_confidence = metrics.confidence_stratified_coverage(sets, labels, probs.max(axis=1))
    rows, hits = (
        np.concatenate([getattr(table, name)[table.count > 0] for table in (by_size, by_confidence)])
        for name in ("count", "hits")
    )
    table = report.parts.table
    assert (table.rows.tolist(), table.hits.tolist()) == (rows.tolist(), hits.tolist())
    assert table.p_value == pytest.approx(binom.cdf(hits, rows, 0.9))
    assert np.array_equal(table.p_holm, holm(table.p_value))
    gaps = {of.by: of.gap for of in report.parts.gaps}
    assert gaps["size"] == metrics.size_stratified_coverage_violation(sets, labels, ALPHA)
    assert gaps["confidence"] == metrics.confidence_coverage_gap(sets, labels, probs.max(axis=1), ALPHA)
    record = report.to_json_dict()
    assert [(part["by"], part["rows"]) for part in record["parts"]] == list(zip(report.parts.by, rows, strict=True))
    assert [part["value"] for part in record["part_gaps"]] == list(gaps.values())
    classwise = metrics.classwise_calibration(probs, labels)
    assert record["classwise_calibration"] == {
        "ece": classwise.ece,
        "chance": classwise.ece_chance,
        "worst_class": int(classwise.error.argmax()),
        "worst_error": classwise.error.max(),
    }


def test_a_part_with_low_coverage_is_noted_and_breaks_nothing():
    """400 rows with sets of one label are right half of the time, 3,600 with two labels always: 0.95 in all."""
    small = np.arange(4000) < 400
    sets = np.zeros((4000, 3), dtype=bool)
    sets[:, 0], sets[~small, 1] = True, True
    labels = np.where(small & (np.arange(4000) % 2 == 0), 2, 0)
    probs = np.where(small[:, None], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0])
    report = check(sets, probs, labels, Promise(ALPHA, [100_000]))
    assert report.marginal.coverage == 0.95
    assert report.ok
    (note,) = report.notes
    assert "sets of 0 to 1 labels (200 of 400 rows" in note
    assert "confidence 0.500 to 0.500 (200 of 400 rows" in note
    assert "Coverage is below 0.9 in 2 of" in note
    assert report.to_json_dict()["notes"] == [note]


def test_nothing_is_noted_of_sets_that_cover_every_part_alike():
    rng, rows = np.random.default_rng(5), np.arange(3000)
    sets, probs = np.zeros((3000, 4), dtype=bool), rng.dirichlet(np.ones(4), 3000)
    labels = np.count_nonzero(np.cumsum(probs, axis=1)[:, :3] < rng.random((3000, 1)), axis=1)  # as often as they say
    sets[rows, np.where(rng.random(3000) < 0.9, labels, (labels + 1) % 4)] = True
    sets[rows, (labels + 2) % 4] = True  # two labels each
    assert check(sets, probs, labels, Promise(ALPHA, [10_000])).notes == ()


def test_an_infinite_nll_is_null():
    sets, _, labels = with_hits([5, 5], [5, 5])
    report = check(sets, np.tile([1.0, 0.0], (10, 1)), labels, Promise(ALPHA, [100]))
    assert math.isinf(report.calibration.nll)
    assert report.to_json_dict()["calibration"]["nll"] is None


def test_half_precision_and_read_only_arrays_are_taken():
    report, sets, probs, labels = small_report()
    for array in (sets, probs, labels):
        array.flags.writeable = False
    half = check(sets, probs.astype(np.float16), labels, report.promise)
    assert half.marginal == report.marginal
    assert half.calibration.ece == pytest.approx(report.calibration.ece, abs=1e-2)


def test_the_same_rows_give_the_same_report():
    one, two = small_report()[0], small_report()[0]
    assert one.to_json_dict() == two.to_json_dict()


# --- bad input ------------------------------------------------------------------------------------------------------

GOOD = with_hits([3, 4], [4, 4])


@pytest.mark.parametrize(
    ("data", "promise", "options", "message"),
    [
        (GOOD, Promise(ALPHA, [9]), {"fail_on": ["size"]}, "got 'size'"),
        (GOOD, Promise(ALPHA, [9]), {"fail_on": "marginal"}, "got 'marginal'"),
        (GOOD, Promise(ALPHA, [9]), {"n_bins": 0}, "n_bins"),
        (GOOD, Promise(ALPHA, [9]), {"class_names": ["a"]}, "class_names"),
        (GOOD, Promise(1.5, [9]), {}, "alpha"),
        (GOOD, Promise(ALPHA, [9, 9]), {}, r"pool_sizes .*shape"),
        (GOOD, Promise(ALPHA, [9.5]), {}, "pool_sizes .*float64"),
        (GOOD, Promise(ALPHA, [-9]), {}, "pool_sizes .*-9"),
        (GOOD, Promise(ALPHA, [9], "class"), {}, "pool_sizes"),
        (GOOD, Promise(ALPHA, [9], "by row"), {}, "grouping"),
        (GOOD, Promise(ALPHA, [9, 9], "cluster"), {}, "group_of_class"),
        (GOOD, Promise(ALPHA, [9, 8], "cluster", True, [0, 0]), {}, "equal"),
        ((GOOD[0][:0], GOOD[1][:0], GOOD[2][:0]), Promise(ALPHA, [9]), {}, "at least one row"),
        ((GOOD[0], GOOD[1][:, :1] * 2, GOOD[2] * 0), Promise(ALPHA, [9]), {}, "same shape"),
        ((GOOD[0], GOOD[1] * 3, GOOD[2]), Promise(ALPHA, [9]), {}, "probs"),
        ((GOOD[0] * 1.0, GOOD[1], GOOD[2]), Promise(ALPHA, [9]), {}, "boolean"),
        ((GOOD[0], GOOD[1], GOOD[2] + 1), Promise(ALPHA, [9]), {}, "Labels"),
        ((GOOD[0], [[0.5, 0.5], [1.0]], GOOD[2]), Promise(ALPHA, [9]), {}, "rectangular"),
    ],
)
def test_bad_input_is_refused_in_one_line(data, promise, options, message):
    with pytest.raises(InputError, match=message) as caught:
        check(*data, promise, **options)
    assert "\n" not in str(caught.value)


def test_low_groups_without_a_promise_are_noted():
    labels = np.zeros(400, dtype=int)
    sets = np.zeros((400, 2), dtype=bool)
    sets[:, 0] = np.arange(400) % 20 != 0  # 95% of every group
    sites, probs = np.arange(400) // 200, np.tile([0.9, 0.1], (400, 1))
    even = check(sets, probs, labels, Promise(0.1, [999]), groups=sites)
    assert not any("groups" in note for note in even.notes)
    sets[200:240, 0] = False  # the second group is covered in 152 of 200 rows
    low = check(sets, probs, labels, Promise(0.1, [999]), groups=sites)
    (note,) = (note for note in low.notes if "groups" in note)
    assert note.startswith("Coverage is below 0.9 in 1 of 2 groups, for which it was not promised")
    assert "'1' (152 of 200 rows" in note
    failed = check(sets, probs, labels, Promise(0.1, [999]), groups=sites, fail_on="groups")
    assert note in failed.broken
    assert note not in failed.notes
