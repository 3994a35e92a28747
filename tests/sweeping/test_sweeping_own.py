"""Trials at temperatures of their own: the same numbers as a sweep that has those temperatures in its grid."""

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.sweeping import Protocol, measure_trials, sweep

METHODS, ALPHAS = ("lac", "aps", "raps_published"), (0.1, 0.2)


@pytest.mark.parametrize("temperatures", [[0.7, 1.3, 2.0, 0.9], [1.0, 2.0, 1.0, 2.0], [1.5] * 4])
def test_a_trial_shows_what_a_sweep_shows_at_its_temperature(temperatures):
    data = ts.Logits(*generated(600, 7, signal=0.4))
    found = measure_trials(data, temperatures, METHODS, ALPHAS, Protocol(0.1, 0.2, 3))
    grid = sorted(set(temperatures))
    want = sweep(data, None, grid, METHODS, ALPHAS, 4, 0.1, 0.2, 3)
    for t, temperature in enumerate(temperatures):
        np.testing.assert_array_equal(found.values[..., t], want.trial_values[:, grid.index(temperature), :, :, t])


def test_hits_of_classes_add_up_to_the_coverage():
    data = ts.Logits(*generated(600, 7, signal=0.4))
    found = measure_trials(data, [1.0, 1.4, 1.4], METHODS, ALPHAS, Protocol())
    coverage = found.of("marginal_coverage")
    np.testing.assert_array_equal(found.hits.sum(axis=-1) / found.counts.sum(axis=-1), coverage)


@pytest.mark.parametrize("temperatures", [[], [0.0], [1.0, np.nan], [[1.0]]])
def test_refuses_what_is_no_temperature(temperatures):
    data = ts.Logits(*generated(100, 3, signal=0.4))
    with pytest.raises(ts.InputError, match="one for each trial"):
        measure_trials(data, temperatures, ["aps"], [0.1], Protocol())
