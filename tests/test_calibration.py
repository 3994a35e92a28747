"""Temperature scaling: the optimum against scikit-learn, brute force and arithmetic; bounds; bad input."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from parts import since_sklearn
from thermoset import BoundWarning, InputError, Logits, TemperatureScaler, ZeroProbabilityWarning, metrics
from thermoset.calibration import T_MAX, T_MIN, confidence_at, fit_ece, fit_nll, probabilities
from thermoset.calibration.temperature import _LogOdds
from tiers import examples


def problem(n_rows=500, n_classes=7, scale=3.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    return scale * (rng.normal(size=(n_rows, n_classes)) + 1.5 * np.eye(n_classes)[labels]), labels


def mean_nll(logits, labels, temperature):
    return -log_softmax(logits / temperature, axis=1)[np.arange(len(labels)), labels].mean()


class Passthrough(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose decision function is its input: scikit-learn then calibrates our logits."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X

    def predict(self, X):
        return self.classes_[X.argmax(axis=1)]


def test_nll_temperature_by_hand():
    # Confidence 0.9 in every row, right in 8 of 10. The best T makes it 0.8: odds 9 ** (1/T) = 4, T = ln 9 / ln 4.
    logits = np.tile(np.log([0.9, 0.1]), (10, 1))
    fitted = TemperatureScaler().fit(logits, [0] * 8 + [1] * 2)
    assert fitted.temperature_ == pytest.approx(math.log(9) / math.log(4), rel=1e-14)
    # NLL there is the entropy of (0.8, 0.2).
    assert fitted.loss_ == pytest.approx(-0.8 * math.log(0.8) - 0.2 * math.log(0.2), rel=1e-14)
    assert fitted.predict_proba(logits)[0] == pytest.approx([0.8, 0.2], rel=1e-14)


@since_sklearn(1, 8)
def test_nll_temperature_agrees_with_scikit_learn():
    logits, labels = problem(2000)
    theirs = CalibratedClassifierCV(FrozenEstimator(Passthrough().fit(logits, labels)), method="temperature")
    theirs.fit(logits, labels)
    inverse = theirs.calibrated_classifiers_[0].calibrators[0].beta_
    ours = TemperatureScaler().fit(logits, labels)
    assert ours.temperature_ == pytest.approx(1 / inverse, rel=1e-4)  # theirs stops at about this precision
    assert mean_nll(logits, labels, ours.temperature_) <= mean_nll(logits, labels, 1 / inverse) + 1e-15


@settings(max_examples=examples(40))
@given(st.integers(2, 12), st.integers(5, 60), st.floats(0.01, 200), st.integers(0, 2**32))
def test_no_temperature_of_a_scan_has_a_lower_nll(n_classes, n_rows, scale, seed):
    logits, labels = problem(n_rows, n_classes, scale, seed)
    fit = fit_nll(Logits(logits, labels))
    scan = [mean_nll(logits, labels, t) for t in np.geomspace(T_MIN, T_MAX, 400)]
    assert T_MIN <= fit.temperature <= T_MAX
    assert mean_nll(logits, labels, fit.temperature) <= min(scan) + 1e-12
    assert fit.loss == pytest.approx(mean_nll(logits, labels, fit.temperature), rel=1e-12, abs=1e-15)


def test_nll_optimum_is_exact_to_machine_precision():
    logits, labels = problem(40, 5)
    fitted = fit_nll(Logits(logits, labels)).temperature
    with mpmath.workdps(50):

        def slope(inverse):
            total = mpmath.mpf(0)
            for row, label in zip(logits, labels, strict=True):
                z = [mpmath.mpf(float(v)) for v in row]
                w = [mpmath.exp(v * inverse) for v in z]
                total += sum(v * e for v, e in zip(z, w, strict=True)) / sum(w) - z[label]
            return total

        root = mpmath.findroot(slope, (1 / fitted * 0.9, 1 / fitted * 1.1), solver="anderson")
        assert abs(1 / root - mpmath.mpf(fitted)) < 8 * 2**-52 * fitted


def test_warm_start_does_not_change_the_answer():
    logits, labels = problem(20_000, 4)  # above the size at which Newton begins on a part of the rows
    fitted = fit_nll(Logits(logits, labels)).temperature
    shuffled = np.random.default_rng(0).permutation(len(labels))
    assert fit_nll(Logits(logits[shuffled], labels[shuffled])).temperature == pytest.approx(fitted, rel=1e-13)


@pytest.mark.parametrize("margin", [1e-3, 1.0, 1e3, 1e9])
def test_separable_rows_report_the_lower_bound(margin):
    logits = margin * np.eye(4)[[0, 1, 2, 3, 0]]
    with pytest.warns(BoundWarning, match=r"bound 0\.01.*every row is classified correctly"):
        fitted = TemperatureScaler().fit(logits, [0, 1, 2, 3, 0])
    assert (fitted.temperature_, fitted.at_bound_) == (T_MIN, True)


@pytest.mark.slow
def test_nearly_separable_rows_converge():
    # Odds 1 : 1e-6 wrong by one row among 5,000 right by 20: the slope dies out exponentially on the way.
    logits, labels = 20.0 * np.eye(10)[np.arange(5000) % 10], np.arange(5000) % 10
    logits[0] = 0.0
    logits[0, 1] = 1e-6
    fit = fit_nll(Logits(logits, labels))
    scan = min(mean_nll(logits, labels, t) for t in np.geomspace(T_MIN, T_MAX, 2000))
    assert not fit.at_bound
    assert mean_nll(logits, labels, fit.temperature) <= scan + 1e-15


def test_labels_against_the_logits_report_the_upper_bound():
    logits, labels = problem()
    with pytest.warns(BoundWarning, match=r"bound 100\.0.*chance"):
        fitted = TemperatureScaler().fit(-logits, labels)
    assert (fitted.temperature_, fitted.at_bound_) == (T_MAX, True)


def test_flat_logits_keep_the_temperature_at_one():
    assert TemperatureScaler().fit(np.zeros((6, 3)), [0, 1, 2, 0, 1, 2]).temperature_ == 1.0


def test_scaling_the_logits_scales_the_temperature():
    logits, labels = problem()
    one, two = (TemperatureScaler().fit(factor * logits, labels).temperature_ for factor in (1.0, 2.0))
    assert two == pytest.approx(2 * one, rel=1e-13)


def test_masked_classes_are_as_if_absent():
    logits, labels = problem(n_classes=4)
    masked = np.hstack([logits, np.full((len(logits), 2), -np.inf)])
    plain, with_mask = TemperatureScaler().fit(logits, labels), TemperatureScaler().fit(masked, labels)
    assert with_mask.temperature_ == pytest.approx(plain.temperature_, rel=1e-14)
    probs = with_mask.predict_proba(masked)
    assert np.all(probs[:, 4:] == 0)
    np.testing.assert_allclose(probs[:, :4], plain.predict_proba(logits), rtol=1e-13)


def with_zero_labels(every=10):
    logits, labels = problem(n_classes=4)
    zero = np.arange(len(labels)) % every == 0
    masked = logits.copy()
    masked[zero, labels[zero]] = -np.inf
    return masked, labels, zero


def test_nll_leaves_out_labels_of_probability_zero_and_says_how_many():
    logits, labels, zero = with_zero_labels()
    said = rf"labels of {zero.sum():,} of {len(labels):,} rows have probability zero"
    with pytest.warns(ZeroProbabilityWarning, match=said):
        found = TemperatureScaler().fit(logits, labels)
    others = TemperatureScaler().fit(logits[~zero], labels[~zero])
    assert (found.temperature_, found.loss_, found.zero_labels_) == (others.temperature_, others.loss_, zero.sum())
    assert others.zero_labels_ == 0


def test_a_floor_of_probabilities_gives_the_same_temperature():
    logits, labels, _ = with_zero_labels()
    rows = np.arange(len(labels))

    def nll(inverse, floor):
        return -np.log(np.maximum(softmax(logits * inverse, axis=1)[rows, labels], floor)).mean()

    with pytest.warns(ZeroProbabilityWarning):
        fitted = TemperatureScaler().fit(logits, labels).temperature_
    for floor in (1e-12, 1e-300):
        best = minimize_scalar(nll, bounds=(0.01, 10), args=(floor,), method="bounded", options={"xatol": 1e-10}).x
        assert 1 / best == pytest.approx(fitted, rel=1e-6)


def test_ece_counts_labels_of_probability_zero_as_wrong():
    logits, labels, zero = with_zero_labels(every=4)
    with pytest.warns(ZeroProbabilityWarning):
        found = TemperatureScaler("ece").fit(logits, labels)
    assert found.zero_labels_ == zero.sum()
    assert found.loss_ == pytest.approx(ece(logits, labels, found.temperature_, 15), rel=1e-12)


def test_labels_all_of_probability_zero_leave_temperature_one():
    with pytest.warns(ZeroProbabilityWarning, match="2 of 2 rows"):
        found = TemperatureScaler().fit([[3.0, -np.inf], [-np.inf, 1.0]], [1, 0])
    assert (found.temperature_, found.loss_, found.at_bound_) == (1.0, np.inf, False)


def ece(logits, labels, temperature, n_bins):
    return metrics.expected_calibration_error(softmax(logits / temperature, axis=1), labels, n_bins)


@pytest.mark.parametrize("n_bins", [10, 15])
def test_ece_temperature_beats_a_fine_scan(n_bins):
    logits, labels = problem(800)
    fitted = TemperatureScaler("ece", n_bins=n_bins).fit(logits, labels)
    scan = [ece(logits, labels, t, n_bins) for t in np.geomspace(0.5, 20, 600)]
    # ECE jumps where a row changes its bin, so a scan may sit on a lower edge somewhere; rows are worth 1/800 each.
    assert fitted.loss_ <= min(scan) + 1 / 800
    assert fitted.loss_ == pytest.approx(ece(logits, labels, fitted.temperature_, n_bins), abs=1e-12)


def test_ece_search_does_not_depend_on_row_order():
    logits, labels = problem(300)
    order = np.random.default_rng(1).permutation(300)
    one, two = fit_ece(Logits(logits, labels)), fit_ece(Logits(logits, labels))
    assert one == two
    assert fit_ece(Logits(logits[order], labels[order])).temperature == pytest.approx(one.temperature, rel=1e-3)


def test_ece_of_one_bin_is_where_confidence_meets_accuracy():
    # One bin: ECE = |mean confidence - accuracy|; confidence of (d, 0) at T is 1/(1 + e^(-d/T)), accuracy 3/4.
    logits = np.tile([2.0, 0.0], (4, 1))
    fitted = TemperatureScaler("ece", n_bins=1).fit(logits, [0, 0, 0, 1])
    assert fitted.temperature_ == pytest.approx(2 / math.log(3), rel=1e-4)


@settings(max_examples=examples(60))
@given(
    st.lists(st.lists(st.floats(-300, 300), min_size=3, max_size=3), min_size=1, max_size=6),
    st.floats(0.01, 100),
)
def test_probabilities_are_the_softmax(rows, temperature):
    logits = np.array(rows)
    want = softmax(logits / temperature, axis=1)
    np.testing.assert_allclose(probabilities(logits, temperature), want, rtol=1e-11, atol=1e-300)


@pytest.mark.slow
def test_threads_and_blocks_do_not_change_a_bit(monkeypatch):
    logits, labels = problem(3000, 11)
    seen = []
    for threads, block in (("1", 2**19), ("2", 2**12), ("3", 2**9)):
        monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
        monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", block)
        scaler = TemperatureScaler().fit(logits, labels)
        seen.append((scaler.temperature_, scaler.predict_proba(logits).tobytes()))
    assert seen[0] == seen[1] == seen[2]


def test_float32_and_float16_give_the_temperature_of_their_values():
    logits, labels = problem()
    for dtype in (np.float32, np.float16):
        narrow = logits.astype(dtype)
        wide = TemperatureScaler().fit(narrow.astype(np.float64), labels).temperature_
        assert TemperatureScaler().fit(narrow, labels).temperature_ == pytest.approx(wide, rel=1e-14)


def test_bad_objective_and_missing_labels():
    logits, labels = problem(20)
    with pytest.raises(InputError, match="objective must be 'nll' or 'ece'; got 'mse'"):
        TemperatureScaler("mse").fit(logits, labels)
    with pytest.raises(InputError, match=r"TemperatureScaler\.fit needs labels"):
        TemperatureScaler().fit(logits)
    with pytest.raises(InputError, match="n_bins"):
        TemperatureScaler("ece", n_bins=0).fit(logits, labels)
    with pytest.raises(InputError, match="X has 3 features, but TemperatureScaler is expecting 7"):
        TemperatureScaler().fit(logits, labels).predict_proba(logits[:, :3])
    with pytest.raises(InputError, match=r"temperature must be a finite number > 0, from 1e-300 to 1e[+]300; got 0"):
        probabilities(logits, 0)


WIDE = [[1e308, -1e308, 0.0], [0.0, 1.0, 2.0], [3.0, 1.0, 0.0]]


@pytest.mark.parametrize("objective", ["nll", "ece"])
def test_a_label_further_down_than_numbers_reach_is_refused(objective):
    """The loss was inf, and T* the 1 that the search begins with."""
    with pytest.raises(InputError, match=r"logits\[0\] has its label at -1e\+308 and its top at 1e\+308, more than 1e"):
        TemperatureScaler(objective).fit(WIDE, [1, 2, 1])


def test_wide_rows_are_fitted_where_labels_are_near_the_top():
    rows = np.array([[1e308, 1e308, -1e308], [1.0, 0.0, -1e308], [0.0, 1.0, -1e308]])
    fitted = TemperatureScaler().fit(np.concatenate([rows, rows, rows]), [0, 0, 1, 1, 0, 0, 0, 1, 1])
    # two of three right at odds of e: probability 2/3 at e**(1/T) = 2
    assert fitted.temperature_ == pytest.approx(1 / np.log(2))
    assert np.isfinite(fitted.loss_)


@pytest.mark.parametrize("n_classes", [2, 40, 2000])
def test_confidences_of_fine_scans_are_those_of_full_evaluations(n_classes):
    """The hardest rows: one class against all others, which are equal, at a confidence near one half."""
    ratio = (T_MAX / T_MIN) ** (1 / 48)
    for low in (T_MIN, 0.7, T_MAX / ratio):
        halves = np.log(n_classes - 1) * low * np.linspace(0.8, 1.3, 50) + np.linspace(0, low, 50)
        logits = np.zeros((50, n_classes))
        logits[:, 0] = halves
        data = Logits(np.concatenate([logits, np.random.default_rng(0).normal(size=(50, n_classes)) * 3 * low]))
        found = _LogOdds.between(data, low, low * ratio)
        for t in np.geomspace(low, low * ratio, 17):
            np.testing.assert_allclose(found.confidence(t), confidence_at(data, t), rtol=0, atol=1e-8)
