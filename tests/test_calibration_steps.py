"""Class correction and confidence map: what they are, when they are taken, and that both branches follow them."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, logsumexp, softmax

import thermoset as ts
from engines import ENGINES
from thermoset.calibration import CalibratedSoftmax, ClassCorrection, ConfidenceMap, calibrate, top_odds
from thermoset.calibration.classes import Likelihood, Parameters, log_probabilities
from thermoset.conformal.scoring import scores as score_values
from thermoset.errors import CalibrationWarning, CoverageWarning, InputError
from thermoset.uniforms import draw_uniforms


def population(n, n_classes=12, seed=0, bias=0.0, noise=0.0):
    """Rows whose posterior is softmax(z), overconfident by 1.6; classes biased by `bias`, labels wrong by `noise`."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    logits = rng.normal(size=(n, n_classes)) * 1.3
    logits[np.arange(n), labels] += 2.5
    logits *= 2.5 / 1.3**2
    labels = np.where(rng.random(n) < noise, rng.integers(n_classes, size=n), labels)
    return ts.Logits(1.6 * (logits + bias * np.random.default_rng(99).normal(size=n_classes)), labels)


BIASED = population(6_000, bias=1.0)
NOISY = population(6_000, noise=0.3)
ROWS = {"corrected": BIASED, "mapped": NOISY}


@pytest.fixture(scope="module")
def corrected():
    return ts.TwoTemperaturePredictor("raps").fit(BIASED.take(slice(4_000)))


@pytest.fixture(scope="module")
def mapped():
    return ts.TwoTemperaturePredictor("raps").fit(NOISY.take(slice(4_000)))


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def test_correction_is_scale_log_softmax_plus_shift():
    rows = np.array([[1.0, 0.0, -np.inf], [0.5, 2.0, 3.0]])
    correction = ClassCorrection(temperature=2.0, shift=(0.1, -0.2, 0.3), scale=(1.0, 1.5, 0.5))
    expected = np.array(correction.scale) * log_softmax(rows / 2.0, axis=1) + np.array(correction.shift)
    np.testing.assert_allclose(correction.of_block(rows), expected, rtol=0, atol=1e-14)
    shifted = correction.of_block(rows + 7.0)
    np.testing.assert_allclose(shifted, expected, rtol=0, atol=1e-13)


def test_top_odds_do_not_saturate():
    rows = np.array([[0.0, -1.0, -2.0], [0.0, -900.0, -901.0], [3.0, -np.inf, -np.inf]])
    g, others = top_odds(ts.Logits(rows), 0.5)
    assert g[0] == pytest.approx(-np.log(np.exp(-2.0) + np.exp(-4.0)), rel=1e-14)
    assert g[1] == pytest.approx(1800.0 - np.log1p(np.exp(-2.0)), rel=1e-14)
    assert g[2] == np.inf
    np.testing.assert_allclose(others[:2], 1 + np.exp(-2.0), rtol=1e-14)


def test_mapped_probabilities_by_hand():
    p = np.array([[0.6, 0.3, 0.1]])
    confidence_map = ConfidenceMap(knots=(), intercept=0.2, slopes=(0.5,))
    found = CalibratedSoftmax(1.0, confidence_map).of_block(np.log(p))
    c = expit(0.2 + 0.5 * logit(0.6))  # the others share the rest as before: 3 to 1
    np.testing.assert_allclose(found, [[c, (1 - c) * 0.75, (1 - c) * 0.25]], rtol=1e-14)


def test_the_top_label_stays_on_top():
    p = np.array([[0.4, 0.39, 0.21]])
    down = ConfidenceMap(knots=(), intercept=-5.0, slopes=(1.0,))
    found = CalibratedSoftmax(1.0, down).of_block(np.log(p))[0]
    assert found[0] == pytest.approx(0.39 / (1 - 0.4 + 0.39), rel=1e-13)  # where the second would overtake it
    assert found[0] >= found[1]
    assert found.sum() == pytest.approx(1.0, abs=1e-15)


def test_slopes_are_those_of_the_loss():
    rng = np.random.default_rng(0)
    logs, labels = log_softmax(rng.normal(size=(60, 5)), axis=1), rng.integers(5, size=60)
    at = Parameters(1.3, rng.normal(size=5) * 0.1, 1 + rng.normal(size=5) * 0.1)
    rows = np.arange(60)

    def loss(x):
        v = x[0] * (x[6:] * logs + x[1:6])
        return (logsumexp(v, axis=1) - v[rows, labels]).sum()

    x = np.concatenate([[at.factor], at.shift, at.scale])
    losses, sums = Likelihood(logs, labels).evaluate(rows, at)
    assert losses.sum() == pytest.approx(loss(x), rel=1e-13)
    numeric = np.array([(loss(x + step) - loss(x - step)) / 2e-6 for step in np.eye(11) * 1e-6])
    found = np.concatenate([sums[4, :1], at.factor * sums[0], at.factor * sums[1]])
    np.testing.assert_allclose(found, numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scales", [False, True])
def test_the_minimum_is_the_one_that_scipy_finds(scales):
    rows = BIASED.take(slice(600))
    logs, labels, sigma = log_probabilities(rows, 1.6), rows.labels, 0.6
    everyone, n = np.arange(600), logs.shape[1]
    start = Parameters(1.0, np.zeros(n), np.ones(n))
    found = Likelihood(logs, labels).minimise(everyone, start, sigma, scales, 1e-10)

    def loss(x):
        shift, scale = x[1 : n + 1], x[n + 1 :] if scales else np.ones(n)
        v = x[0] * (scale * logs + shift)
        own = (logsumexp(v, axis=1) - v[everyone, labels]).sum()
        return own + (shift**2).sum() / (2 * sigma**2) + ((scale - 1) ** 2).sum() / (2 * (sigma / 4) ** 2)

    start_x = np.concatenate([[1.0], np.zeros(n), np.ones(n) if scales else []])
    best = minimize(loss, start_x, method="BFGS", options={"gtol": 1e-6})
    mine = np.concatenate([[found.factor], found.shift, found.scale if scales else []])
    assert loss(mine) <= best.fun + 1e-6 * 600
    np.testing.assert_allclose(mine, best.x, atol=5e-3)


# ---- when it is taken ------------------------------------------------------------------------------------------------


def test_biased_classes_are_corrected_and_named(corrected):
    made = corrected.document_
    assert made.correction is not None
    fresh = BIASED.take(slice(4_000, None))
    plain = ts.TwoTemperaturePredictor("raps", calibration="temperature").fit(BIASED.take(slice(4_000)))
    losses = [ts.metrics.negative_log_likelihood(one.predict_proba(fresh), fresh.labels) for one in (corrected, plain)]
    assert losses[0] < 0.95 * losses[1]
    most = made.correction.largest(2)
    truth = np.random.default_rng(99).normal(size=12)
    assert {column for column, _ in most} <= set(np.argsort(-np.abs(truth - np.median(truth)))[:4].tolist())


def test_few_rows_and_largest_logits_keep_one_temperature():
    few = calibrate(BIASED.take(slice(499)), "auto", "nll", 0)
    assert few.correction is None
    assert few.confidence_map is None
    assert not any(step.taken for step in few.steps)
    top = calibrate(ts.compact(BIASED.take(slice(2_000)), top=4), "auto", "nll", 0)
    assert top.correction is None


def test_one_temperature_is_left_alone():
    taken = [calibrate(population(1_500, seed=seed), "auto", "nll", seed).correction for seed in range(20)]
    assert taken.count(None) >= 19


def test_noisy_labels_need_the_map(mapped):
    made = mapped.document_
    assert made.correction is None
    assert made.confidence_map is not None
    fresh = NOISY.take(slice(4_000, None))
    plain = ts.TwoTemperaturePredictor("raps", calibration="temperature").fit(NOISY.take(slice(4_000)))
    errors = [ts.metrics.expected_calibration_error(one.predict_proba(fresh), fresh.labels) for one in (mapped, plain)]
    assert errors[0] < 0.6 * errors[1]
    np.testing.assert_array_equal(mapped.predict(fresh), fresh.logits.argmax(axis=1))


def test_classes_without_rows_are_warned_of():
    rows = population(3_000, bias=1.0)
    kept = rows.take(rows.labels != 3)
    with pytest.warns(CoverageWarning), pytest.warns(CalibrationWarning):
        ts.TwoTemperaturePredictor("raps", prefer="even").fit(kept)


def test_sorted_rows_are_warned_of():
    rows = population(3_000, bias=1.0)
    first = (rows.labels < 6) == (np.arange(3_000) % 5 > 0)  # mostly of the first six classes
    with pytest.warns(CalibrationWarning):
        ts.TwoTemperaturePredictor("lac").fit_split(rows.take(first), rows.take(~first))


# ---- both branches follow --------------------------------------------------------------------------------------------


def test_sets_are_those_of_corrected_rows_with_u_of_raw_ones(corrected):
    made, fresh = corrected.document_, BIASED.take(slice(4_000, None))
    rows = made.correction.of_block(fresh.logits)
    u = draw_uniforms(fresh, made.recipe.random_state)
    scores = score_values("raps", rows, temperature=made.temperature_sets, u=u)
    near = np.abs(scores - corrected.threshold_) < 1e-12
    np.testing.assert_array_equal(corrected.predict_set(fresh)[~near], (scores <= corrected.threshold_)[~near])
    expected = softmax(rows / made.temperature, axis=1)
    if made.confidence_map is None:
        np.testing.assert_allclose(corrected.predict_proba(fresh), expected, atol=1e-12)
    np.testing.assert_array_equal(corrected.predict(fresh), expected.argmax(axis=1))


@pytest.mark.parametrize("which", ["corrected", "mapped"])
def test_a_row_alone_saved_and_p_values(which, request, tmp_path):
    predictor, fresh = request.getfixturevalue(which), ROWS[which].take(slice(4_000, 4_100))
    sets, probs = predictor.predict_set(fresh), predictor.predict_proba(fresh)
    predictor.save(tmp_path / "predictor.json")
    loaded = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    np.testing.assert_array_equal(loaded.predict_set(fresh), sets)
    np.testing.assert_array_equal(loaded.predict_proba(fresh), probs)
    for row in (0, 57):
        np.testing.assert_array_equal(predictor.predict_set(fresh.logits[row : row + 1])[0], sets[row])
        np.testing.assert_array_equal(predictor.predict_proba(fresh.logits[row : row + 1])[0], probs[row])
    np.testing.assert_array_equal(predictor.predict_p(fresh) > 0.1, sets)
    np.testing.assert_array_equal(predictor.set_sizes(fresh), sets.sum(axis=1))
    assert predictor.predict_p(fresh, smoothed=True).shape == sets.shape


@pytest.mark.parametrize("which", ["corrected", "mapped"])
@pytest.mark.parametrize("engine", ENGINES)
def test_exports_agree(which, engine, request):
    predictor, rows = request.getfixturevalue(which), ROWS[which].logits[3_500:4_500].copy()
    rows[3, 4] = -np.inf
    rows[5, 1:] = -np.inf
    found = ENGINES[engine](predictor, rows)
    np.testing.assert_array_equal(found["sets"], predictor.predict_set(rows))
    np.testing.assert_array_equal(found["label"], predictor.predict(rows))
    np.testing.assert_allclose(found["probabilities"], predictor.predict_proba(rows), rtol=0, atol=1e-12)


def test_rows_in_files_give_the_same_bits(corrected, tmp_path):
    fresh = BIASED.take(slice(4_000, None))
    ts.save(tmp_path / "fresh.npy.npz", fresh)
    stored = ts.open(tmp_path / "fresh.npy.npz")
    np.testing.assert_array_equal(corrected.predict_set(stored), corrected.predict_set(fresh))
    np.testing.assert_array_equal(corrected.predict_proba(stored), corrected.predict_proba(fresh))


def test_threads_change_no_bit(monkeypatch):
    rows = population(3_000, n_classes=40, bias=1.0)
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
        found.append(calibrate(rows, "auto", "nll", 0))
    assert found[0].correction is not None
    assert found[0].correction == found[1].correction
    assert found[0].confidence_map == found[1].confidence_map
    assert found[0].scaler.temperature_ == found[1].scaler.temperature_


def test_recalibrating_keeps_the_steps(corrected):
    fresh = BIASED.take(slice(4_000, None))
    before = corrected.document_
    other = ts.TwoTemperaturePredictor("raps").fit(BIASED.take(slice(4_000))).recalibrate(fresh)
    assert other.document_.correction == before.correction
    hits = other.predict_set(fresh)[np.arange(len(fresh)), fresh.labels]
    k = int(np.ceil((len(fresh) + 1) * 0.9))
    assert hits.sum() == k  # the k smallest of its own scores are within


def test_temperature_alone_is_the_papers():
    rows = BIASED.take(slice(2_000))
    predictor = ts.TwoTemperaturePredictor("raps", calibration="temperature").fit(rows)
    calibration, conformal = rows.split(0.5)
    scaler = ts.TemperatureScaler().fit(calibration)
    assert predictor.temperature_ == scaler.temperature_
    np.testing.assert_array_equal(predictor.predict_proba(conformal), scaler.predict_proba(conformal))
    sets = ts.ConformalClassifier("raps", temperature=predictor.temperature_sets_).fit(conformal)
    np.testing.assert_array_equal(predictor.predict_set(calibration), sets.predict_set(calibration))


# ---- a calibrator of one's own ---------------------------------------------------------------------------------------


class Shift:
    """A user's calibrator: a constant for each class."""

    def fit(self, logits, labels):
        share = np.bincount(labels, minlength=logits.shape[1]) / len(labels)
        self.shift_ = np.log(share) - np.log(softmax(logits, axis=1).mean(axis=0))
        return self

    def transform(self, logits):
        return logits + self.shift_


def test_an_own_calibrator_serves_both_branches_and_is_not_saved(tmp_path):
    rows, fresh = BIASED.take(slice(4_000)), BIASED.take(slice(4_000, None))
    predictor = ts.TwoTemperaturePredictor("lac", calibration=Shift()).fit(rows)
    calibration, _ = rows.split(predictor.document_.provenance.calibration_fraction)
    top = Shift().fit(calibration.logits, calibration.labels).transform(fresh.logits).argmax(axis=1)
    np.testing.assert_array_equal(predictor.predict(fresh), top)
    hits = predictor.predict_set(fresh)[np.arange(len(fresh)), fresh.labels]
    assert 0.87 < hits.mean() < 0.93
    with pytest.raises(InputError):
        predictor.save(tmp_path / "predictor.json")
    assert not (tmp_path / "predictor.json").exists()


@pytest.mark.parametrize("asked", ["platt", 3, None])
def test_unknown_calibrations_are_refused(asked):
    with pytest.raises(InputError, match="calibration"):
        ts.TwoTemperaturePredictor(calibration=asked).fit(BIASED.take(slice(400)))
