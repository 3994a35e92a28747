"""Trials with sets of their own: what a sweep with those temperatures shows, and what classifiers do."""

import itertools

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.conformal.scoring import block_scores
from thermoset.paper.study.measure import PublishedRAPS, Way, measure_trials, measure_ways
from thermoset.scores import APS, LAC, RAPS, TopK
from thermoset.sweeping import Protocol, draw_trial, sweep
from thermoset.uniforms import Randomness

METHODS, ALPHAS = ("lac", "aps", PublishedRAPS()), (0.1, 0.2)


@pytest.mark.parametrize("temperatures", [[0.7, 1.3, 2.0, 0.9], [1.0, 2.0, 1.0, 2.0], [1.5] * 4])
def test_a_trial_shows_what_a_sweep_shows_at_its_temperature(temperatures):
    data = ts.Logits(*generated(600, 7, signal=0.4))
    found = measure_trials(data, temperatures, METHODS, ALPHAS, Protocol(0.1, 0.2, 3))
    grid = sorted(set(temperatures))
    want = sweep(data, None, grid, METHODS, ALPHAS, 4, 0.1, 0.2, 3)
    averaged = sweep(data, None, grid, METHODS, ALPHAS, 4, 0.1, 0.2, 3, evaluation="integrated")
    names = [name for name in averaged.metrics if name not in want.metrics]
    assert found.metrics == (*want.metrics, "left_out_share", *names)  # a sweep does not ask for the ranks of labels
    for t, temperature in enumerate(temperatures):
        j = grid.index(temperature)
        np.testing.assert_array_equal(found.values[:, :, : len(want.metrics), t], want.trial_values[:, j, :, :, t])
        averages = averaged.trial_values[:, j, :, len(want.metrics) :, t]
        np.testing.assert_array_equal(found.values[:, :, len(want.metrics) + 1 :, t], averages)


@pytest.mark.parametrize("tied", [False, True])
def test_a_trial_with_a_way_of_its_own_is_a_classifier_fitted_and_applied(tied):
    logits, labels = generated(600, 7, signal=0.4)
    data = ts.Logits(np.round(logits) if tied else logits, labels)
    ways = [
        Way(1.0, (RAPS(0.1, 2),), (0.1,)),
        Way(2.0, (LAC(),), ("0.06",)),
        Way(1.0, (RAPS(0.1, 2),), (0.1,)),
        Way(2.0, (APS(),), (0.15,)),
        Way(1.0, (RAPS(0.5, 1),), (0.1,)),
        Way(0.5, (APS(),), (0.1,)),
        Way(2.0, (PublishedRAPS(0.1, 1),), (0.1,)),
    ]
    protocol = Protocol(0.1, 0.2, 5)
    found = measure_ways(data, ways, (0.1,), protocol)
    top = data.logits.argmax(axis=1)
    for t, way in enumerate(ways):
        drawn = draw_trial(len(data), t, protocol)
        model = ts.ConformalClassifier(way.scores[0], way.levels[0], way.temperature)
        model.fit(data.take(drawn.conformal), u=drawn.u[drawn.conformal])
        part = data.take(drawn.evaluation)
        sets = model.predict_set(part, u=drawn.u[drawn.evaluation])
        for name in ("avg_size", "empty_share", "worst_tenth_coverage", "marginal_coverage_gap", "top_coverage_gap"):
            assert found.of(name)[0, 0, t] == ts.metrics.METRICS[name](sets, part.labels, 0.1), (
                name
            )  # of what is promised
        right = top[drawn.evaluation] == part.labels
        missed = right & ~sets[np.arange(len(part)), part.labels]
        assert found.of("left_out_share")[0, 0, t] == missed.mean()
    assert found.of("left_out_share").max() > 0


def test_hits_of_classes_add_up_to_the_coverage():
    data = ts.Logits(*generated(600, 7, signal=0.4))
    found = measure_trials(data, [1.0, 1.4, 1.4], METHODS, ALPHAS, Protocol())
    coverage = found.of("marginal_coverage")
    np.testing.assert_array_equal(found.hits.sum(axis=-1) / found.counts.sum(axis=-1), coverage)


@pytest.mark.parametrize("kind", ["plain", "tied", "masked"])
def test_the_patch_adds_the_top_label_to_sets_under_thresholds_that_do_not_know_of_it(kind):
    logits, labels = generated(400, 6, signal=1.0)
    if kind == "tied":
        logits = np.round(logits)
    if kind == "masked":
        logits[labels != 5, 5] = -np.inf
    data, protocol, alphas = ts.Logits(logits, labels), Protocol(0.1, 0.2, 6), (0.1, 0.5)
    methods, temperatures = (LAC(), APS(), RAPS(), PublishedRAPS(), TopK()), [0.5, 5.0, 5.0]
    plain, patched = (measure_trials(data, temperatures, methods, alphas, protocol, patched=on) for on in (False, True))
    np.testing.assert_array_equal(patched.of("threshold"), plain.of("threshold"))
    assert plain.of("empty_share").any()
    assert not patched.of("empty_share").any()
    assert not patched.of("left_out_share").any()
    added = plain.of("avg_size") + plain.of("empty_share")  # sets are prefixes: only empty ones lack their top label
    np.testing.assert_allclose(patched.of("avg_size"), added, rtol=0, atol=1e-12)
    covered = plain.of("marginal_coverage") + plain.of("left_out_share")
    np.testing.assert_allclose(patched.of("marginal_coverage"), covered, rtol=0, atol=1e-12)
    for (m, method), (a, alpha), (t, at) in itertools.product(*map(enumerate, (methods, alphas, temperatures))):
        drawn = draw_trial(len(data), t, protocol)
        model = ts.ConformalClassifier(method, alpha, at).fit(data.take(drawn.conformal), u=drawn.u[drawn.conformal])
        part = data.take(drawn.evaluation)
        sets = model.predict_set(part, u=drawn.u[drawn.evaluation])
        sets[np.arange(len(sets)), part.logits.argmax(axis=1)] = True
        for name in ("avg_size", "top_coverage_gap", "worst_tenth_coverage"):
            assert patched.of(name)[m, a, t] == ts.metrics.METRICS[name](sets, part.labels, alpha), (name, method, at)


def test_a_metric_that_a_stranger_adds_is_measured_here_too(monkeypatch):
    doubled = ts.metrics.Metric("doubled", "Doubled", "twice the labels", "labels", lambda counts: 2 * counts.members)
    monkeypatch.setitem(ts.metrics.METRICS, "doubled", doubled)
    found = measure_trials(ts.Logits(*generated(400, 10)), [1.0, 2.0], ["aps"], [0.1], Protocol())
    rows = 320  # of 400, 10% and 10% are set aside
    assert np.array_equal(found.of("doubled"), 2 * rows * found.of("avg_size"))


def test_published_raps_by_hand():
    # u = .5 multiplies p + penalty of the label itself, labels above it count whole:
    # rank 3: .7 + .5 (.2 + .1) = .85; rank 4: (.9 + .1) + .5 (.1 + .1) = 1.1
    score, quarters = PublishedRAPS(penalty=0.1, k_reg=2), [0.4, 0.3, 0.2, 0.1]
    for u, want in ((0.5, [0.2, 0.55, 0.85, 1.1]), (1.0, [0.4, 0.7, 1.0, 1.2])):  # u = 1 is RAPS
        assert raps_values(score, quarters, u) == pytest.approx(want)
    # defaults, eight classes of 1/8, u = .5: (L - .5) / 8, and .005, .015, .025 on ranks 6, 7, 8
    eighths = [0.0625, 0.1875, 0.3125, 0.4375, 0.5625, 0.6925, 0.8275, 0.9625]
    assert raps_values(PublishedRAPS(), [0.125] * 8, 0.5) == pytest.approx(eighths)


def raps_values(score, probabilities, u):
    """Values of the scores of all labels of a row with these probabilities."""
    return block_scores(np.log([probabilities]), Randomness(given=np.array([u])), score, 1.0).real[0]
