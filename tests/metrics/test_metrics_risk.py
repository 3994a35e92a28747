"""Selective prediction: hand arithmetic, plain double loops in fractions, ties, and the order of rows."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from thermoset import metrics
from thermoset.errors import InputError

ROWS = st.lists(st.tuples(st.integers(-3, 8), st.booleans()), min_size=1, max_size=40)  # with many ties
SHARES = st.sampled_from(["0.01", "0.1", "0.3", "1/3", "0.5", "0.7", "0.9", "1"])


def risk_from(level, rows):
    """Error among the rows with this score or a higher one."""
    answered = [right for score, right in rows if score >= level]
    return Fraction(answered.count(False), len(answered))


@given(ROWS)
def test_the_curve_and_its_area_are_double_loops(rows):
    score, right = zip(*rows, strict=True)
    levels = sorted(set(score), reverse=True)
    curve = metrics.risk_coverage_curve(score, right)
    assert curve.score.tolist() == levels
    for k, level in enumerate(levels):
        assert curve.rows[k] == sum(other >= level for other in score)
        assert curve.share[k] == curve.rows[k] / len(rows)
        assert curve.error[k] == float(risk_from(level, rows))
    area = sum(risk_from(level, rows) for level in score) / len(rows)
    assert metrics.area_under_risk_coverage(score, right) == pytest.approx(float(area), abs=1e-14)


@given(ROWS, SHARES)
def test_the_error_at_a_share_is_that_of_its_fewest_rows(rows, share):
    score, right = zip(*rows, strict=True)
    levels = sorted(set(score), reverse=True)
    level = next(one for one in levels if Fraction(sum(other >= one for other in score), len(rows)) >= Fraction(share))
    assert metrics.error_at_coverage(score, right, share) == float(risk_from(level, rows))


@given(ROWS, SHARES, st.randoms(use_true_random=False))
def test_no_answer_depends_on_the_order_of_rows(rows, share, random):
    mixed = list(rows)
    random.shuffle(mixed)
    one, other = (tuple(zip(*some, strict=True)) for some in (rows, mixed))
    for a, b in zip(metrics.risk_coverage_curve(*one), metrics.risk_coverage_curve(*other), strict=True):
        assert a.tobytes() == b.tobytes()
    assert metrics.area_under_risk_coverage(*one) == metrics.area_under_risk_coverage(*other)
    assert metrics.error_at_coverage(*one, share) == metrics.error_at_coverage(*other, share)


def test_by_hand():
    # From the surest on: right, wrong, right, right, wrong. Errors 0, 1/2, 1/3, 1/4, 2/5; their mean is 89/300.
    score, right = [0.2, 0.9, 0.5, 0.7, 0.6], [False, True, True, False, True]
    curve = metrics.risk_coverage_curve(score, right)
    assert curve.share.tolist() == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert curve.error.tolist() == [0, 1 / 2, 1 / 3, 1 / 4, 2 / 5]
    assert metrics.area_under_risk_coverage(score, right) == pytest.approx(89 / 300, abs=1e-15)
    assert [metrics.error_at_coverage(score, right, share) for share in (0.01, 0.2, 0.21, 0.6, 1)] == [
        0, 0, 1 / 2, 1 / 3, 2 / 5,
    ]  # fmt: skip


def test_ties_are_answered_together_by_hand():
    # One row at 2, right; three at 1, one of them right; one at -inf, wrong. Errors 0, 2/4 (three times), 3/5.
    score, right = [1.0, 2.0, 1.0, -math.inf, 1.0], [False, True, True, False, False]
    curve = metrics.risk_coverage_curve(score, right)
    assert (curve.share.tolist(), curve.error.tolist()) == ([0.2, 0.8, 1.0], [0, 0.5, 0.6])
    assert metrics.area_under_risk_coverage(score, right) == pytest.approx((0 + 3 * 0.5 + 0.6) / 5, abs=1e-15)
    assert metrics.error_at_coverage(score, right, 0.3) == 0.5  # two rows are wanted, and four tie
    everything = metrics.risk_coverage_curve(np.zeros(5), right)
    assert (everything.share.tolist(), everything.error.tolist()) == ([1.0], [0.6])
    assert metrics.area_under_risk_coverage(np.zeros(5), right) == 0.6


def test_the_share_is_read_as_typed():
    # 0.7 of 10 rows are 7; floats say 7.000000000000001 for 0.07 of 100 rows, and 8 rows would be answered
    score, right = -np.arange(100), np.arange(100) != 7
    assert 0.07 * 100 > 7
    assert metrics.error_at_coverage(score, right, 0.07) == 0
    assert metrics.error_at_coverage(score, right, 0.08) == 1 / 8


def test_the_best_and_the_worst_order_bound_the_area():
    """The area is smallest exactly where the wrong rows come last, and largest where they come first."""
    right = [True, False, True, True, False]
    areas = {order: metrics.area_under_risk_coverage(order, right) for order in itertools.permutations(range(5))}
    wrong = [order for order in areas if {order[1], order[4]} == {0, 1}]
    assert {order for order in areas if areas[order] == pytest.approx(min(areas.values()), abs=1e-12)} == set(wrong)
    assert min(areas.values()) == pytest.approx((1 / 4 + 2 / 5) / 5, abs=1e-15)
    assert max(areas.values()) == pytest.approx((1 + 1 + 2 / 3 + 2 / 4 + 2 / 5) / 5, abs=1e-15)


def test_the_whole_share_is_the_error_of_scikit_learn():
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(4), 300), rng.integers(0, 4, 300)
    confidence, predicted = probs.max(axis=1).astype(np.float32), probs.argmax(axis=1)
    want = 1 - accuracy_score(labels, predicted)
    assert metrics.error_at_coverage(confidence, predicted == labels, 1) == pytest.approx(want, abs=1e-15)


@pytest.mark.parametrize("function", [metrics.risk_coverage_curve, metrics.area_under_risk_coverage])
@pytest.mark.parametrize(
    ("score", "right", "word"),
    [
        ([], [], "score"),
        ([[0.5]], [True], "score"),
        (["high"], [True], "score"),
        ([0.5, math.nan], [True, True], r"score\[1\] is nan"),
        ([0.5], [True, False], r"right.*\(1,\)"),
        ([0.5], [1], "right.*booleans"),
    ],
)
def test_bad_scores_and_answers(function, score, right, word):
    with pytest.raises(InputError, match=word):
        function(score, right)


@pytest.mark.parametrize("share", [0, -0.5, 1.01, math.nan, "most", True, None])
def test_bad_share(share):
    with pytest.raises(InputError, match="share"):
        metrics.error_at_coverage([0.5], [True], share)
