"""What calibration="auto" does to fresh rows, beside one temperature: generated rows whose fault is known, real files.

The limits were set before the rows were drawn: with 2,000 (500) calibration rows the ECE falls to .75 (.85) of that of
one temperature on average over populations, and rises in none; the log-loss of no draw is worse by more than half a
percent (one percent); every band of confidence is right within four points and chance in 95% (90%) of draws; and where
one temperature is right, classes are left alone. When a map of fewer than 1,000 rows may bend was settled on some of
these very draws, so for 500 rows they are no independent evidence.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.calibrators import POPULATIONS
from conftest import REAL, real_file
from law import law
from thermoset import SCORES, Logits, TemperatureScaler, TwoTemperaturePredictor
from thermoset.calibration import CalibratedSoftmax, ConfidenceMap, calibrate
from thermoset.rows import top_labels
from tiers import scaled

pytestmark = pytest.mark.scaled

DRAWS = scaled(4, 12, 40)
SPLITS = scaled(15, 200, 2_000)
FRESH = 8_000


class Limits(NamedTuple):
    """What must hold at a number of calibration rows."""

    mean_ratio: float
    worst_ratio: float
    worst_rise: float
    worst_nll: float
    bands: float


LIMITS = {2_000: Limits(0.75, 1.10, 0.002, 1.005, 0.95), 500: Limits(0.85, 1.15, 0.003, 1.01, 0.90)}


class Judged(NamedTuple):
    """Fresh rows after one temperature and after all steps: ECE and log-loss of both, bands, what was taken."""

    ece_plain: float
    ece: float
    nll_ratio: float
    bands: bool
    corrected: bool


def ece_of(confidence, right, n_bins=15):
    place = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    return np.abs(np.bincount(place, confidence - right, n_bins)).sum() / len(right)


def bands_hold(confidence, right):
    """Whether each band of a tenth with 200 rows or more is right within four points and two standard errors."""
    for tenth in range(10):
        some = (confidence >= tenth / 10) & (confidence < (tenth + 1) / 10)
        if some.sum() >= 200:
            mean = confidence[some].mean()
            if abs(right[some].mean() - mean) > 0.04 + 2 * math.sqrt(mean * (1 - mean) / some.sum()):
                return False
    return True


def judge(logits, labels, n, seed):
    rows = np.random.default_rng(seed).permutation(len(labels))
    known, fresh = (Logits(logits[some], labels[some]) for some in (rows[:n], rows[n : n + FRESH]))
    plain = CalibratedSoftmax(TemperatureScaler().learn(known).temperature_)
    learned = calibrate(known, "auto", "nll", seed)
    after, corrected = CalibratedSoftmax(learned.scaler.temperature_, learned.confidence_map), learned.correct(fresh)
    (c0, loss0), (c1, loss1) = plain.confidence_and_loss(fresh), after.confidence_and_loss(corrected)
    right0, right1 = top_labels(fresh) == fresh.labels, top_labels(corrected) == fresh.labels
    return Judged(
        ece_of(c0, right0),
        ece_of(c1, right1),
        loss1.mean() / loss0.mean(),
        bands_hold(c1, right1),
        learned.correction is not None,
    )


@cache
def judged(name, n):
    if name in POPULATIONS:
        logits, labels = POPULATIONS[name](np.random.default_rng(1), 5 * FRESH)
    else:
        with np.load(real_file(name), allow_pickle=False) as arrays:
            logits, labels = arrays["logits"].astype(np.float64), arrays["labels"].astype(np.int64)
    return [judge(logits, labels, n, seed) for seed in range(DRAWS)]


rows = pytest.mark.parametrize("n", [500, pytest.param(2_000, marks=pytest.mark.long)])


@rows
def test_no_draw_has_a_clearly_worse_log_loss(n):
    ratios = {name: max(one.nll_ratio for one in judged(name, n)) for name in POPULATIONS}
    assert max(ratios.values()) < LIMITS[n].worst_nll, ratios


@rows
def test_classes_are_corrected_only_where_they_are_biased(n):
    share = {name: np.mean([one.corrected for one in judged(name, n)]) for name in POPULATIONS}
    assert share["one temperature"] <= 0.05
    assert share["label noise"] <= 0.05
    assert share["class biases"] == share["class slopes"] == share["200 sparse classes"] == 1


@rows
def test_the_calibration_error_falls_on_average_and_rises_nowhere(n):
    limits = LIMITS[n]
    before, after = (
        np.array([np.mean([getattr(one, kind) for one in judged(name, n)]) for name in POPULATIONS])
        for kind in ("ece_plain", "ece")
    )
    assert (after / before).mean() < limits.mean_ratio
    assert np.all((after < limits.worst_ratio * before) | (after < before + limits.worst_rise))


MISSED = pytest.mark.xfail(reason="not reached with 500 rows: slopes of 50 classes need more", strict=False)


@pytest.mark.long
@pytest.mark.parametrize("n", [2_000, pytest.param(500, marks=MISSED)])
def test_every_band_of_confidence_is_right(n):
    assert np.mean([one.bands for name in POPULATIONS for one in judged(name, n)]) >= LIMITS[n].bands


def test_the_test_sees_what_one_temperature_cannot_mend():
    logits, labels = POPULATIONS["label noise"](np.random.default_rng(1), 10_000)
    plain, fresh = TemperatureScaler().fit(logits[:2_000], labels[:2_000]), slice(2_000, None)
    probs = plain.predict_proba(logits[fresh])
    right = probs.argmax(axis=1) == labels[fresh]
    assert not bands_hold(probs.max(axis=1), right)
    assert ece_of(probs.max(axis=1), right) > 0.1


def test_a_map_keeps_the_top_label_on_top():
    """Also where the second class would overtake it, as in most of these rows."""
    logits, _ = POPULATIONS["label noise"](np.random.default_rng(5), 2_000)
    low = ConfidenceMap(knots=(), intercept=-5.0, slopes=(0.5,))
    probs = CalibratedSoftmax(1.0, low).of_block(logits)
    np.testing.assert_array_equal(probs.argmax(axis=1), logits.argmax(axis=1))
    np.testing.assert_allclose(probs.sum(axis=1), 1, rtol=1e-14)


@pytest.mark.long
@pytest.mark.parametrize("n", LIMITS)
def test_real_files(n):
    """The same on the published files; on CIFAR one temperature is right."""
    limits, found = LIMITS[n], {name: judged(name, n) for name in REAL}
    assert max(one.nll_ratio for draws in found.values() for one in draws) < limits.worst_nll
    cifar = ("cifar10_resnet50", "cifar100_resnet50", "cifar100_densenet_bc100_overconfident")
    assert np.mean([one.corrected for name in cifar for one in found[name]]) <= 0.05
    for draws in found.values():
        before, after = (np.mean([getattr(one, kind) for one in draws]) for kind in ("ece_plain", "ece"))
        assert after < max(limits.worst_ratio * before, before + limits.worst_rise)
    assert np.mean([one.bands for draws in found.values() for one in draws]) >= limits.bands


@pytest.mark.parametrize("method", list(SCORES))
def test_sets_of_corrected_rows_follow_the_law(method):
    """The correction is one of calibration rows alone, so for all others it is a part of the score."""
    n, m, known = 300, 500, 1_500
    logits, labels = POPULATIONS["class biases"](np.random.default_rng(3), known + 2_000)
    calibration, data = Logits(logits[:known], labels[:known]), Logits(logits[known:], labels[known:])
    asked = TwoTemperaturePredictor(method, alpha=0.1, temperature_sets=1.5, calibration="auto")
    predictor = asked.fit_split(calibration, data.take(np.arange(n)))
    assert predictor.document_.correction is not None
    rng, hits = np.random.default_rng(0), 0
    for _ in range(SPLITS):
        drawn = rng.permutation(len(data))
        conformal, fresh = data.take(drawn[:n]), data.take(drawn[n : n + m])
        sets = predictor.recalibrate(conformal).predict_set(fresh)
        hits += int(sets[np.arange(m), fresh.labels].sum())
    mean, variance = law(n, m, "0.1")
    assert abs(hits - SPLITS * mean) < 5 * math.sqrt(SPLITS * variance)
