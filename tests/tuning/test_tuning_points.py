"""Many settings at once: the same numbers as one setting at a time, and as sets that are really made."""

import numpy as np
import pytest

import thermoset as ts
from law import generated
from on_arrays import in_closed_form
from thermoset.tuning.points import FIFTHS, Sample, lax_misses, levels_between, measure

GRID = np.array([0.5, 1.0, 2.0])
LEVELS = ("0.1", "0.05")


@pytest.fixture(scope="module")
def rows():
    logits, labels = generated(900, 8, signal=-0.5, seed=3)
    logits[np.arange(900), labels] += 0.6 * labels  # some classes are easier than others
    return ts.Logits(logits, labels)


@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize(("method", "randomized"), [("lac", True), ("aps", True), ("raps", False), ("saps", True)])
def test_they_are_the_estimates_of_the_closed_form(rows, method, randomized, allow_empty):
    recipe = ts.Recipe(method, 0.1, randomized, allow_empty)
    (points,) = measure(Sample(rows, 1.5), [recipe], GRID, LEVELS, loss=True)
    curves, _ = in_closed_form(rows, recipe, GRID, 900, lambda _: None)
    np.testing.assert_allclose(points.size[:, 0], curves.size, rtol=1e-10)
    np.testing.assert_allclose(points.loss, curves.loss, rtol=1e-9)
    np.testing.assert_allclose(1 - points.missed[:, 0] / points.sample.counts, curves.classes.mean, rtol=1e-9)
    np.testing.assert_allclose(points.noise[:, 0], curves.classes.variance, atol=1e-12)
    np.testing.assert_allclose(points.empty[:, 0].mean(axis=1), curves.empty_share, atol=1e-9)
    stricter = in_closed_form(rows, recipe.change(alpha=0.05), GRID, 900, lambda _: None)[0]
    np.testing.assert_allclose(points.size[:, 1], stricter.size, rtol=1e-10)


def test_several_kinds_do_not_disturb_each_other(rows):
    sample, kinds = Sample(rows, 1.5), [ts.Recipe("lac"), ts.Recipe("aps")]
    together, alone = measure(sample, kinds, GRID, LEVELS), measure(sample, kinds[1:], GRID, LEVELS)
    assert together[1].size.tolist() == alone[0].size.tolist()


def test_who_pays_is_what_sets_show(rows):
    """Correct top labels left out, and empty sets by confidence, as drawn sets show them on average."""
    recipe = ts.Recipe("raps", 0.1)
    (points,) = measure(Sample(rows, 1.5), [recipe], GRID, LEVELS)
    top = rows.logits.argmax(axis=1)
    confidence = ts.TemperatureScaler().fit(rows).predict_proba(rows).max(axis=1)
    order = np.argsort(np.argsort(confidence, kind="stable"), kind="stable") * FIFTHS // len(rows)
    draws, rng = 60, np.random.default_rng(0)
    left, empty = np.zeros(draws), np.zeros((draws, FIFTHS))
    for t in range(draws):
        u = rng.random(len(rows))
        sets = ts.ConformalClassifier("raps", 0.1, 2.0).fit(rows, u=u).predict_set(rows, u=u)
        left[t] = ((top == rows.labels) & ~sets[np.arange(len(rows)), top]).mean()
        empty[t] = [(~sets.any(axis=1))[order == k].mean() for k in range(FIFTHS)]
    error = left.std() / np.sqrt(draws)
    assert abs(left.mean() - points.left_out[2, 0]) < 5 * error + 2e-3
    np.testing.assert_allclose(empty.mean(axis=0), points.empty[2, 0], atol=0.02)
    assert points.empty[2, 0, -1] > points.empty[2, 0, 0]  # the surest rows get the empty sets


def test_levels_are_short_decimals():
    assert levels_between("0.1", (1.0, 0.94, 0.5)) == ("0.1", "0.094", "0.05")
    assert levels_between(0.05, (1.0,)) == ("0.05",)


def test_misses_at_the_laxer_level(rows):
    missed = lax_misses(Sample(rows, 1.5), ts.Recipe("lac", 0.1))
    assert missed.mean() == pytest.approx(0.3, abs=2 / 900)
    assert set(np.unique(missed)) <= {0.0, 1.0}


def test_threads_change_nothing(rows, monkeypatch):
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
        (points,) = measure(Sample(rows, 1.5), [ts.Recipe("raps")], GRID, LEVELS, loss=True)
        found.append((points.size.tolist(), points.missed.tolist(), points.loss.tolist(), points.empty.tolist()))
    assert found[0] == found[1]
