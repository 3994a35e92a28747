"""Trials with sets of their own: what a sweep with those temperatures shows, and what classifiers do."""

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.core.scores import APS, LAC, RAPS
from thermoset.sweeping import Protocol, Way, draw_trial, measure_trials, measure_ways, sweep

METHODS, ALPHAS = ("lac", "aps", "raps_published"), (0.1, 0.2)


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


@pytest.mark.parametrize("temperatures", [[], [0.0], [1.0, np.nan], [[1.0]]])
def test_refuses_what_is_no_temperature(temperatures):
    data = ts.Logits(*generated(100, 3, signal=0.4))
    with pytest.raises(ts.InputError, match="one per trial"):
        measure_trials(data, temperatures, ["aps"], [0.1], Protocol())
