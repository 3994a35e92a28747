"""Corollary 4.2 and proposition 4.3 on score sets and thresholds; the paper's L beside the library's sets."""

import functools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from law import generated
from oracle import order_statistic_index, rounding_bound
from paper.theory import exact
from thermoset import ConformalClassifier, InputError, Logits, theory
from thermoset.conformal import scores
from thermoset.kernels import SATURATED
from tiers import examples

EXACT = settings(max_examples=examples(200))
PENALTY, K_REG = 0.01, 5


def compared(one, other):
    """Sign of the difference of two scores, each (penalty, mass left): a larger mass left is a smaller score.

    Scores that agree in 45 of 60 digits count as equal: of a single row's score, theorem 4.1 is tested to the last one.
    """
    difference = other[1] - one[1] if one[0] == other[0] else (one[0] - other[0]) - (one[1] - other[1])
    return 0 if abs(difference) <= (one[1] + other[1]) * mp.mpf(10) ** -45 else int(mp.sign(difference))


def exact_threshold(rows, ranks, u, temperature, penalty, alpha):
    """The k-th smallest label score."""
    found = []
    for row, rank, part in zip(rows, ranks, u.tolist(), strict=True):
        weight = exact.weights(row, temperature)
        left = mp.fsum(weight[rank:]) + (1 - mp.mpf(part)) * weight[rank - 1]
        found.append((mp.mpf(penalty) * max(rank - K_REG, 0), left / mp.fsum(weight)))
    return sorted(found, key=functools.cmp_to_key(compared))[order_statistic_index(len(rows), Fraction(alpha)) - 1]


@st.composite
def score_sets(draw):
    """Rows of one width with labels: a CP set, in any mixture of kinds."""
    n_classes = draw(st.sampled_from([2, 2, 3, 3, 5, 5, 10, 10, 20, 30, 30, 100, 100, 1000]))
    kinds = list(exact.KINDS)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = draw(st.integers(9, 15))
    picked = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    rows = np.array([exact.KINDS[picked[i % len(picked)]](rng, n_classes) for i in range(n_rows)])
    return rows, rng.integers(0, n_classes, n_rows), rng.random(n_rows)


@settings(max_examples=examples(120))
@given(score_sets(), exact.two_temperatures, st.sampled_from(["0.1", "0.3", "0.5"]))
def test_corollary_4_2_thresholds_do_not_rise_with_temperature(case, pair, alpha):
    rows, labels, random_u = case
    sorted_rows = [exact.ranked(row) for row in rows]
    before = (rows > rows[np.arange(len(rows)), labels, None]).sum(axis=1)
    level = (rows == rows[np.arange(len(rows)), labels, None]) & (np.arange(rows.shape[1]) < labels[:, None])
    ranks = (1 + before + level.sum(axis=1)).tolist()
    with mp.workdps(60):
        for penalty in (0.0, PENALTY):
            for u in (np.ones(len(rows)), random_u):
                cool, hot = (exact_threshold(sorted_rows, ranks, u, t, penalty, alpha) for t in pair)
                assert compared(hot, cool) <= 0
    for method in ("aps", "raps"):
        for randomized in (False, True):
            check = theory.corollary_4_2(rows, labels, pair, method=method, alpha=alpha, randomized=randomized)
            assert check.premise.tolist() == [True]
            assert not len(check.violations)


def first_reaching(left, q):
    """L = min{l : s_l >= q}, or C + 1: 1 - s <= 1 - q."""
    return next((rank for rank, x in enumerate(left) if rank and x <= 1 - q), len(left))


@st.composite
def thresholds(draw, row, t, u):
    """q and q_T in the order of corollary 4.2: any, or where the statement turns: at scores, and at equal gaps."""
    z = np.array(exact.ranked(row))
    at_one, at_t = (scores("aps", [z], temperature=x, u=u)[0] for x in (1.0, t))
    rank = draw(st.integers(0, len(z) - 1))
    kind = draw(st.sampled_from(["any", "scores", "equal gaps", "equal"]))
    if kind == "any":
        pair = draw(st.tuples(st.floats(1e-3, 1.0), st.floats(1e-3, 1.0)))
    elif kind == "scores":
        other = draw(st.integers(0, len(z) - 1))
        pair = at_one[rank], at_t[other]
    elif kind == "equal gaps":
        q = draw(st.floats(1e-3, 1.0))
        moved = q - (at_one[rank] - at_t[rank])
        pair = q, draw(st.sampled_from([moved, np.nextafter(moved, 0), np.nextafter(moved, 1)]))
    else:
        pair = draw(st.floats(1e-3, 1.0).map(lambda q: (q, q)))
    low, high = sorted(min(max(float(q), 1e-300), 1.0) for q in pair)
    return (high, low) if t > 1 else (low, high)


@EXACT
@given(
    exact.rows(classes=(2, 3, 4, 5, 7, 10, 10, 20, 30, 30, 50, 100, 100, 200, 1000)),
    exact.not_one,
    st.sampled_from([1.0, 0.3, 0.0]),
    st.data(),
)
def test_proposition_4_3_both_branches_with_thresholds_at_the_boundary(row, t, u, data):
    z = exact.ranked(row)
    q, q_t = data.draw(thresholds(row, t, u))
    with mp.workdps(exact.DIGITS[1]):
        at_one, at_t = (exact.masses_left(z, x, u) for x in (1.0, t))
        before, after = first_reaching(at_one, mp.mpf(q)), first_reaching(at_t, mp.mpf(q_t))
        m = (before if t > 1 else after) - 1
        moved = abs(at_t[m] - at_one[m])
        reached = moved >= abs(mp.mpf(q) - mp.mpf(q_t))
        if m >= 1 and reached:
            assert (after >= before) if t > 1 else (before >= after)
        # where float64 can tell, the library says the same, and it claims nothing that rounding alone could have shown
        error = 8 * rounding_bound(len(z), exact.widest(z, 1, t))
        # Values are sums, with an absolute error, but where they saturate and what is left out decides.
        sure = all(
            abs(x - (1 - mp.mpf(level))) > error * (x if level >= SATURATED else 1)
            for left, level in ((at_one, q), (at_t, q_t))
            for x in left[1:]
        )
        check = theory.proposition_4_3([row], t, q, q_t, u=u)
        if sure:
            assert theory.paper_sizes([row], 1.0, q, u=u).tolist() == [before]
            assert theory.paper_sizes([row], t, q_t, u=u).tolist() == [after]
            assert check.conclusion.tolist() == [(after >= before) if t > 1 else (before >= after)]
            if check.premise.all():
                assert m >= 1
                assert reached
            elif m >= 1:
                scale = at_one[m] + at_t[m] if min(q, q_t) >= SATURATED else 2
                assert moved - abs(mp.mpf(q) - mp.mpf(q_t)) <= error * scale
    assert not len(check.violations)


@settings(max_examples=examples(100))
@given(exact.rows(classes=(3, 7, 20)), exact.not_one, st.floats(0.0, 1.0), st.floats(1e-3, 1.2), st.floats(1e-3, 1.2))
def test_proposition_4_3_is_as_true_of_raps_whose_penalty_cancels(row, t, u, a, b):
    z, (low, high) = exact.ranked(row), sorted((a, b))
    q, q_t = (high, low) if t > 1 else (low, high)
    with mp.workdps(exact.DIGITS[1]):
        penalty = [mp.mpf(PENALTY) * max(rank - K_REG, 0) for rank in range(len(z) + 1)]
        found = [[x - p for x, p in zip(exact.masses_left(z, at, u), penalty, strict=True)] for at in (1.0, t)]
        before, after = first_reaching(found[0], mp.mpf(q)), first_reaching(found[1], mp.mpf(q_t))
        m = (before if t > 1 else after) - 1
        if m >= 1 and abs(found[1][m] - found[0][m]) >= abs(mp.mpf(q) - mp.mpf(q_t)):
            assert (after >= before) if t > 1 else (before >= after)


def test_proposition_4_3_by_hand():
    # p = (.64, .18, .18); at T = 2: roots (.8, .4243, .4243) / 1.6485 = (.4853, .2574, .2574)
    z = np.log([[0.64, 0.18, 0.18]])
    # q = .9: L = 3, g(2) = .82 - .7426 = .0774. q_T = .83: .07 is reached, and .7426 < .83, so L_T = 3
    assert theory.proposition_4_3(z, 2.0, 0.9, 0.83).explained.tolist() == [0]
    # q_T = .74: .16 is not reached, and .7426 >= .74, so L_T = 2
    check = theory.proposition_4_3(z, 2.0, 0.9, 0.74)
    assert (check.premise.tolist(), check.conclusion.tolist()) == ([False], [False])
    # T = 1/2: squares (.4096, .0324, .0324) / .4744 = (.8634, .0683, .0683); q_T = .95: L_T = 3, g(2) = .82 - .9317
    assert theory.proposition_4_3(z, 0.5, 0.85, 0.95).explained.tolist() == [0]  # -.1117 <= -.1; q = .85: L = 3
    assert theory.proposition_4_3(z, 0.5, 0.8, 0.95).silent.tolist() == [0]  # -.1117 > -.15; L = 2
    # L = 1: nothing to prove
    assert theory.proposition_4_3(z, 2.0, 0.5, 0.4).silent.tolist() == [0]


def test_thresholds_too_close_to_1_to_tell_apart_are_told_apart():
    # At T = 0.05 both thresholds round to 1; what is left of them does not.
    z, labels = generated(400, 20, signal=1.0)
    data = Logits(10 * z, labels)
    rows, fresh = data.split(0.5)
    found = theory.routes(rows, fresh, 0.05)
    assert found.thresholds.tolist()[1] == 1.0
    assert len(found.proposition.explained) > 0
    assert not len(found.proposition.violations)
    assert found.claimed[found.by_proposition].all()


@pytest.mark.parametrize("randomized", [False, True])
@pytest.mark.parametrize("t", [0.5, 1.6])
def test_the_papers_l_is_one_more_than_the_set_without_ties(randomized, t):
    z, labels = generated(600, 12, signal=0.5)
    rows, fresh = Logits(z, labels).split(0.5)
    found = theory.routes(rows, fresh, t, randomized=randomized)
    # no fresh row meets the threshold, which is the score of a row of the other half
    assert np.array_equal(found.before, found.sizes_before + 1)
    assert np.array_equal(found.after, found.sizes_after + 1)
    for temperature, sizes, q in ((1.0, found.sizes_before, 0), (t, found.sizes_after, 1)):
        model = ConformalClassifier("aps", temperature=temperature, randomized=randomized).fit(rows)
        assert np.array_equal(model.predict_set(fresh).sum(axis=1), sizes)
        assert model.threshold_ == found.thresholds[q]
    # the row of the threshold meets it: its L is the rank of its label
    sample = theory.quantile_samples(rows, temperatures=[t])
    model = ConformalClassifier("aps", temperature=t, randomized=False).fit(rows)
    own = rows.take(sample.row)
    assert theory.paper_sizes(own, t, model.thresholds_).tolist() == sample.rank.tolist()
    assert model.set_sizes(own).tolist() == sample.rank.tolist()


def test_routes_agree_with_their_parts():
    z, labels = generated(800, 10, signal=0.5)
    rows, fresh = Logits(z, labels).split(0.5)
    for t in (0.6, 1.4):
        found = theory.routes(rows, fresh, t)
        assert np.array_equal(found.by_bound, theory.margins(fresh) > theory.bound(t, 10))
        step = np.sign(found.after - found.before) * (1 if t > 1 else -1)
        assert np.array_equal(found.claimed, step >= 0)
        assert found.claimed[found.by_proposition | found.trivial].all()
        assert not np.any(found.by_proposition & found.trivial)
        # counting decides: L_T >= L says that the score of rank L - 1 at T is below q_T
        first, at = (found.before, t) if t > 1 else (found.after, 1.0)
        ranked = -np.sort(-fresh.logits, axis=1)
        score = np.hstack([np.zeros((len(fresh), 1)), scores("aps", ranked, temperature=at)])
        below = score[np.arange(len(fresh)), first - 1] < found.thresholds[1 if t > 1 else 0]
        assert np.array_equal(found.claimed, below)


@pytest.mark.parametrize("t", [0.5, 2.0])
def test_thresholds_that_rounding_puts_in_the_wrong_order_count_as_equal(t):
    z = np.random.default_rng(3).normal(size=(40, 6))
    for q in (0.3, 0.9, 1 - 2.0**-30):
        other = float(np.nextafter(q, 1.0 if t > 1 else 0.0))  # the threshold at T should not be above that at 1
        found, equal = theory.proposition_4_3(z, t, q, other), theory.proposition_4_3(z, t, q, q)
        np.testing.assert_array_equal(found.premise, equal.premise)
        assert not len(found.violations)
        with pytest.raises(InputError, match="fall"):
            theory.proposition_4_3(z, t, q, q + (1e-10 if t > 1 else -1e-10))
