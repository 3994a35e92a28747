"""Weights of rows: equal ones change nothing, others give the thresholds of the definition, bad ones are refused."""

import numpy as np
import pytest

from law import generated
from thermoset.conformal import ConformalClassifier
from thermoset.errors import CoverageWarning, InputError
from thermoset.scores import SCORES

LOGITS, LABELS = generated(500, 6, signal=0.8)
FRESH, _ = generated(120, 6, signal=0.8, seed=5)


@pytest.mark.parametrize("method", SCORES)
@pytest.mark.parametrize("options", [{}, {"allow_empty": False}, {"randomized": False}])
def test_equal_weights_are_as_good_as_none(method, options):
    for n, alpha, weight in ((149, 0.18, 0.1), (300, 0.1, 3.7), (220, 0.05, 1e-9)):
        model = ConformalClassifier(method, alpha, 0.8, **options)
        plain = ConformalClassifier(method, alpha, 0.8, **options).fit(LOGITS[:n], LABELS[:n])
        model.fit(LOGITS[:n], LABELS[:n], weights=np.full(n, weight))
        own = np.full(len(FRESH), weight)
        assert model.threshold_ == plain.threshold_
        assert model.thresholds_.tobytes() == plain.thresholds_.tobytes()
        np.testing.assert_array_equal(model.predict_set(FRESH, weights=own), plain.predict_set(FRESH))
        np.testing.assert_array_equal(model.set_sizes(FRESH, weights=own), plain.set_sizes(FRESH))
        np.testing.assert_array_equal(model.predict_p(FRESH, weights=own), plain.predict_p(FRESH))
        smoothed = model.predict_p(FRESH, smoothed=True, weights=own), plain.predict_p(FRESH, smoothed=True)
        np.testing.assert_allclose(*smoothed, rtol=1e-15)
        several = model.predict_sets(FRESH, [0.3, alpha], weights=own), plain.predict_sets(FRESH, [0.3, alpha])
        np.testing.assert_array_equal(*several)


@pytest.mark.parametrize("method", ["lac", "aps", "raps", "pas", "margin"])
def test_sets_are_those_of_the_definition(method):
    """A label is in if its weighted p-value exceeds alpha, at several levels and by `at`."""
    rng = np.random.default_rng(3)
    weights, own = rng.exponential(size=500), rng.exponential(size=120) * 3
    model = ConformalClassifier(method, 0.1, 1.3).fit(LOGITS, LABELS, weights=weights)
    p = model.predict_p(FRESH, weights=own)
    for alpha, sets in zip((0.02, 0.1, 0.4), model.predict_sets(FRESH, [0.02, 0.1, 0.4], weights=own), strict=True):
        np.testing.assert_array_equal(p > alpha, sets)
        np.testing.assert_array_equal(model.at(alpha).predict_set(FRESH, weights=own), sets)
        np.testing.assert_array_equal(model.at(alpha).set_sizes(FRESH, weights=own), sets.sum(axis=1))


def test_thresholds_by_hand():
    """1 - p is .1, .3, .6; with weights 1, 1, 2 and own weight w, q must carry .6 (4 + w): 2.4, 3.6."""
    rows = np.log([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]])
    model = ConformalClassifier("lac", alpha=0.4).fit(rows, [0, 0, 0], weights=[1, 1, 2])
    assert round(model.threshold_, 12) == 0.6
    light = ConformalClassifier("lac", alpha=0.6).fit(rows, [0, 0, 0], weights=[1, 1, 2])
    fresh = np.log([[0.65, 0.35]] * 3)  # scores .35 and .65; q carries .4 (4 + w) = 1.6, 2, 2.4: .3, .3, .6
    np.testing.assert_array_equal(
        light.predict_set(fresh, weights=[0, 1, 2]), [[False, False], [False, False], [True, False]]
    )
    np.testing.assert_allclose(light.predict_p(fresh, weights=[0, 1, 2]), [[2 / 4, 0], [3 / 5, 1 / 5], [4 / 6, 2 / 6]])


def test_a_row_of_weight_two_is_two_rows():
    weights = np.random.default_rng(1).integers(0, 4, 500)
    rows = np.repeat(np.arange(500), weights)
    ids = np.arange(500)
    weighted = ConformalClassifier("aps", 0.1).fit(LOGITS, LABELS, ids=ids, weights=weights)
    repeated = ConformalClassifier("aps", 0.1).fit(LOGITS[rows], LABELS[rows], ids=ids[rows])
    np.testing.assert_array_equal(weighted.predict_set(FRESH, weights=np.ones(120)), repeated.predict_set(FRESH))


def test_too_small_an_effective_sample_warns():
    weights = np.full(500, 1e-6)
    weights[:4] = 1.0  # count as four rows, and alpha = 0.1 needs nine
    with pytest.warns(
        CoverageWarning, match=r"needs at least 9 rows of equal weight .* 500 rows with these .* worth 4\.0"
    ):
        model = ConformalClassifier("lac").fit(LOGITS, LABELS, weights=weights)
    heaviest = model.calibration_.weights.heaviest(0.1)  # 4.000496 / 9
    assert heaviest == pytest.approx((4 + 496e-6) / 9, rel=1e-5)
    sizes = model.set_sizes(FRESH, weights=np.repeat([0.99, 1.01], 60) * heaviest)
    assert (sizes[60:] == 6).all()
    assert (sizes[:60] < 6).any()


HOSTILE = [
    ([1.0] * 499, r"weights must have shape \(500,\)"),
    ([[1.0]] * 500, r"weights must have shape \(500,\)"),
    (3.0, r"weights of type float cannot be read"),
    ([-1.0] + [1.0] * 499, r"weights\[0\] is -1\.0; a weight must be a finite number"),
    ([1.0] * 499 + [np.nan], r"weights\[499\] is nan"),
    ([np.inf] * 500, r"weights\[0\] is inf.* 500 such"),
    ([1.0] * 499 + [None], r"weights\[499\] is None"),
    (["many"] * 500, r"weights\[0\] is 'many'"),
    ([True] * 500, r"weights\[0\] is True"),
    ([1j] * 500, r"weights\[0\] is 1j"),
    ({"a": 1}, r"weights"),
]


@pytest.mark.parametrize(("weights", "message"), HOSTILE)
def test_weights_that_are_none(weights, message):
    with pytest.raises(InputError, match=message):
        ConformalClassifier("lac").fit(LOGITS, LABELS, weights=weights)
    fitted = ConformalClassifier("lac").fit(LOGITS, LABELS, weights=np.ones(500))
    for ask in (fitted.predict_set, fitted.set_sizes, fitted.predict_p, fitted.undecided):
        with pytest.raises(InputError, match=message):
            ask(LOGITS, weights=weights)


def test_rows_that_do_not_count():
    with pytest.raises(InputError, match="weights are all 0"):
        ConformalClassifier("lac").fit(LOGITS, LABELS, weights=np.zeros(500))
    fitted = ConformalClassifier("lac").fit(LOGITS, LABELS, weights=["0.5"] * 500)  # as csv files hold them
    lightest = fitted.predict_set(FRESH, weights=np.zeros(120))
    assert (lightest <= fitted.predict_set(FRESH, weights=np.full(120, 0.5))).all()


def test_weights_are_needed_only_where_the_fit_had_them():
    with_weights = ConformalClassifier("lac").fit(LOGITS, LABELS, weights=np.ones(500))
    without = ConformalClassifier("lac").fit(LOGITS, LABELS)
    for name in ("predict_set", "set_sizes", "predict_p", "undecided"):
        with pytest.raises(InputError, match="the conformal rows have weights"):
            getattr(with_weights, name)(FRESH)
        with pytest.raises(InputError, match="comes from rows without weights"):
            getattr(without, name)(FRESH, weights=np.ones(120))


@pytest.mark.parametrize("grouping", ["class", "cluster", "group", "rc3p", "interpolated"])
def test_one_threshold_for_all(grouping):
    with pytest.raises(InputError, match="weights need one threshold"):
        ConformalClassifier("lac", grouping=grouping).fit(
            LOGITS, LABELS, groups=np.arange(500) % 2, weights=np.ones(500)
        )
