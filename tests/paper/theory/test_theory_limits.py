"""Sets of APS and RAPS as T -> 0 and T -> infinity: the classifier gets there."""

import numpy as np
import pytest
from mpmath import mp

import oracle
from thermoset import APS, RAPS, ConformalClassifier, Logits, theory
from thermoset.paper.theory.sizes import limit_scores

METHODS = [
    APS(),
    RAPS(),
    RAPS(penalty=0.2, k_reg=1),
    RAPS(penalty=0.05, k_reg=0),
    RAPS(k_reg=2),
]


def rows(n_rows, n_classes, signal, seed=0):
    """Logits without ties, within rows and between their differences: T = 2^-40 is cold for them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    z = rng.uniform(-30, 30, size=(n_rows, n_classes))
    z[np.arange(n_rows), labels] += signal
    return Logits(z, labels)


@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("signal", [0.0, 25.0, 60.0], ids=["weak", "good", "accuracy above 1 - alpha"])
@pytest.mark.parametrize("score", METHODS, ids=repr)
def test_the_classifier_at_extreme_temperatures_has_the_sets_of_the_limits(score, signal, randomized):
    conformal, fresh = rows(700, 12, signal).split(300)
    for limit, t in (("cold", 2.0**-40), ("hot", 2.0**40)):
        model = ConformalClassifier(score, alpha=0.1, temperature=t, randomized=randomized).fit(conformal)
        found = theory.limit_sizes(conformal, fresh, limit, method=score, randomized=randomized)
        differ = np.flatnonzero(found != model.set_sizes(fresh))
        assert differ.size == 0, (limit, found[differ], model.set_sizes(fresh)[differ])


@pytest.mark.parametrize("u", [1.0, 0.25])
@pytest.mark.parametrize("score", ["aps", "raps"])
def test_limits_of_the_scores_themselves_in_long_arithmetic(score, u):
    z = [4.0, 4.0, 1.0, 0.5, 0.25, -2.0, -3.0]
    cold, hot = (limit_scores([z], end, method=score, u=u) for end in ("cold", "hot"))
    with mp.workdps(700):
        t = mp.mpf(1) / 100
        weights = [mp.exp((x - 4) / t) for x in z]
        exact = oracle.row_scores(score, z, weights, mp.mpf(u))
        for one, value, refine in zip(exact, cold.real[0].tolist(), cold.imag[0].tolist(), strict=True):
            assert abs(one.value - value) < 1e-15
            left = 1 - one.mass
            if refine > 0 and left > 0:  # -T log of what is left, up to T times the log of a number of classes
                assert abs(-t * mp.log(left) - refine) < 3 * t
            assert (left == 0) == (refine == np.inf), "nothing is left of the last rank, if u = 1"
    with mp.workdps(60):
        t = mp.mpf(10) ** 12
        exact = oracle.row_scores(score, z, [mp.exp(x / t) for x in z], mp.mpf(u))
        for one, value, refine in zip(exact, hot.real[0].tolist(), hot.imag[0].tolist(), strict=True):
            assert abs(one.value - value) < 1e-11
            # the score is value + refine / T + O(1 / T^2); value itself is a rounded number
            place = exact.index(one) + 1
            leading = mp.mpf(place - 1 + u) / 7 + mp.mpf(one.offset)
            assert abs((one.value - leading) * t - refine) < 1e-10


def test_cold_sets_by_hand():
    # four conformal rows, alpha = 0.4: k = ceil(5 x 0.6) = 3. Labels are 2, 0, 1 and 3 below the top.
    conformal = Logits([[5.0, 3, 0], [5, 3, 0], [5, 4, 0], [5, 2, 0]], labels=[1, 0, 1, 1])
    fresh = Logits([[9.0, 7.5, 6.0], [9, 6, 5], [9, 8, 7]])
    # u drawn: the row on top comes first, then falls 1, 2, 3: the threshold is the fall 2
    assert theory.limit_sizes(conformal, fresh, "cold", alpha=0.4).tolist() == [2, 1, 3]
    # u = 1: how far the class after the label is below the top, 5, 2, 5, 5: the threshold is 5
    sizes = theory.limit_sizes(
        conformal, Logits([[9.0, 5, 4], [9, 5, 3], [9, 3, 2]]), "cold", alpha=0.4, randomized=False
    )
    assert sizes.tolist() == [2, 1, 0]  # falls (4, 5, inf), (4, 6, inf), (6, 7, inf) against 5


def test_hot_sets_by_hand():
    # ranks 1, 1, 2, 3 of four classes, alpha = 0.4: k = 3, so rank 2 sets the threshold
    z = [[5.0, 3, 2, 0]] * 4
    conformal, fresh = Logits(z, labels=[0, 0, 1, 2]), Logits([[9.0, 8, 7, 6], [9, 1, 1, 1]])
    # u = 1: rank 1 is in, rank 3 out, rank 2 where the partial sum of z - mean is at most 2.5 + .5 = 3: 2 yes, 4 no
    assert theory.limit_sizes(conformal, fresh, "hot", alpha=0.4, randomized=False).tolist() == [2, 1]


def test_hot_sets_of_aps_and_raps_are_the_same_and_depend_on_u_alone():
    conformal, fresh = rows(500, 10, 25.0).split(250)
    aps, raps = (theory.limit_sizes(conformal, fresh, "hot", method=name) for name in ("aps", "raps"))
    assert np.array_equal(aps, raps)
    order = np.argsort(theory.row_u(fresh))
    assert np.all(np.diff(aps[order]) <= 0)
    assert aps.max() - aps.min() <= 1


@pytest.mark.parametrize(("signal", "same"), [(0.0, True), (60.0, False)])
def test_cold_randomised_aps_has_the_sets_of_lac_if_accuracy_is_below_1_minus_alpha(signal, same):
    conformal, fresh = rows(700, 12, signal).split(300)
    assert (np.mean(conformal.logits.argmax(axis=1) == conformal.labels) < 0.9) == same
    lac = ConformalClassifier("lac", temperature=2.0**-40).fit(conformal).set_sizes(fresh)
    found = theory.limit_sizes(conformal, fresh, "cold")
    assert np.array_equal(found, lac) == same
    if not same:  # then u alone decides between the top class and nothing
        assert set(found.tolist()) == {0, 1}
        order = np.argsort(theory.row_u(fresh))
        assert np.all(np.diff(found[order]) <= 0)


def test_ties_at_the_top_share_the_mass():
    cold = limit_scores([[3.0, 3.0, 1.0]], "cold", u=[0.5])
    assert cold.real.tolist() == [[0.25, 0.75, 1.0]]
    assert cold.imag.tolist() == [[0.0, 0.0, 2.0]]
    fixed = limit_scores([[3.0, 3.0, 1.0]], "cold")
    assert fixed.real.tolist() == [[0.5, 1.0, 1.0]]
    assert fixed.imag.tolist() == [[0.0, 2.0, np.inf]]
