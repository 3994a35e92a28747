"""What interpolated thresholds promise: the union bound of two laws, simulated."""

from itertools import pairwise

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.metrics import coverage_law
from thermoset.monitor.promise import Promise, part_laws, union_coverage


def p_value(pools, rows, hits, alpha=0.2):
    promise = Promise(alpha, pools, "interpolated", exact=False, group_of_class=np.arange(len(pools)))
    laws = part_laws(promise.class_parts(len(pools)), np.array(rows), promise)
    return union_coverage(laws, np.array(rows), np.array(hits), promise)


def test_the_bound_is_the_least_over_all_splits():
    """By hand: every pair of counts, one of which must be reached."""
    pools, rows, misses = [30, 20], [6, 4], 5
    whole = coverage_law(50, 10, 0.2).pmf(np.arange(11))[::-1]  # of misses
    classes = np.convolve(
        *(coverage_law(n, m, 0.2).pmf(np.arange(m + 1))[::-1] for n, m in zip(pools, rows, strict=True))
    )
    want = min(whole[a:].sum() + classes[misses + 1 - a :].sum() for a in range(misses + 2))
    assert p_value(pools, rows, [4, 1]).p_value == pytest.approx(min(want, 1.0), rel=1e-9)
    assert p_value(pools, rows, [4, 1]).promised == pytest.approx(0.6)


def test_the_interval_begins_where_the_bound_does():
    found = [p_value([200, 100], [300, 100], [h, 100]).p_value for h in range(300, 0, -10)]
    assert all(a >= b for a, b in pairwise(found))
    seen = p_value([200, 100], [300, 100], [300, 100])
    least = round(seen.allowed.low * 400)
    assert p_value([200, 100], [300, 100], [least - 100, 100]).p_value >= 0.025
    assert p_value([200, 100], [300, 100], [least - 101, 100]).p_value < 0.025


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0])
def test_p_values_are_valid(tau):
    """Of 300 predictors that keep their promise, p-values below a level are not more frequent than the level says."""
    logits, labels = generated(90_000, 5, signal=-0.5)
    found = []
    for start in range(0, 90_000, 300):
        known, fresh = slice(start, start + 150), slice(start + 150, start + 300)
        model = ts.ConformalClassifier("lac", 0.2, grouping=ts.Interpolated(tau)).fit(logits[known], labels[known])
        sets, of = model.predict_set(logits[fresh]), labels[fresh]
        rows, hits = np.bincount(of, minlength=5), np.bincount(of[sets[np.arange(150), of]], minlength=5)
        found.append(p_value(model.calibration_.pool_sizes(), rows, hits).p_value)
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(found) <= level) <= level + 5 * np.sqrt(level * (1 - level) / len(found))


@pytest.mark.slow
def test_broken_sets_are_seen():
    logits, labels = generated(6000, 5, signal=0.0)
    predictor = ts.TwoTemperaturePredictor("lac", 0.1, "small", grouping="interpolated").fit(
        logits[:3000], labels[:3000]
    )
    assert predictor.check(logits[3000:], labels[3000:]).ok
    report = predictor.check(logits[3000:], (labels[3000:] + (np.arange(3000) % 2)) % 5)
    assert not report.ok
    assert "below the promised 0.8" in report.broken[0]
    assert report.to_json_dict()["exact"] is False
