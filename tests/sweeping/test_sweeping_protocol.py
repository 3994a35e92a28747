"""Trials: random parts of the rows and one u a row, from (seed, trial) alone."""

import numpy as np
import pytest

from thermoset.errors import InputError
from thermoset.sweeping import Protocol, draw_trial
from thermoset.sweeping.engine import block_uniforms
from thermoset.sweeping.protocol import draw_trials


def test_parts_are_disjoint_and_together_all_rows():
    trial = draw_trial(103, 4, Protocol(0.1, 0.2))
    assert [len(part) for part in (trial.calibration, trial.conformal, trial.evaluation)] == [10, 20, 73]
    together = np.concatenate([trial.calibration, trial.conformal, trial.evaluation])
    assert np.sort(together).tolist() == list(range(103))


def test_u_is_uniform_and_differs_by_trial_and_seed():
    u = [draw_trial(50_000, t, Protocol(random_state=s)).u for s, t in ((0, 0), (0, 1), (1, 0))]
    for one in u:
        assert one.min() >= 0
        assert one.max() < 1
        assert abs(one.mean() - 0.5) < 5 / np.sqrt(12 * 50_000)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(u[one], u[other])[0, 1]) < 5 / np.sqrt(50_000)
        assert not np.any(u[one] == u[other])


def test_splits_differ_by_trial_and_seed():
    parts = {tuple(draw_trial(100, t, Protocol(random_state=s)).conformal) for s in range(3) for t in range(3)}
    assert len(parts) == 9


def test_every_row_is_as_often_in_each_part():
    # Counts over 400 trials are binomial(400, 0.1) for each row.
    counts = np.zeros(200)
    for t in range(400):
        counts[draw_trial(200, t, Protocol(0.1, 0.1)).conformal] += 1
    assert np.all(np.abs(counts - 40) < 5 * np.sqrt(400 * 0.1 * 0.9))


def test_deterministic_trials_split_alike_and_have_u_1():
    one, other = (draw_trial(100, 3, Protocol(randomized=r)) for r in (True, False))
    assert np.array_equal(one.conformal, other.conformal)
    assert np.all(other.u == 1)


def test_no_calibration_part():
    trial = draw_trial(100, 0, Protocol(0, 0.3))
    assert [len(part) for part in (trial.calibration, trial.conformal, trial.evaluation)] == [0, 30, 70]


def test_fractions_are_read_as_typed():
    # 0.29 * 100 is 28.999999999999996 in floats
    assert len(draw_trial(100, 0, Protocol(0.1, 0.29)).conformal) == 29
    assert len(draw_trial(100, 0, Protocol("0.1", "0.29")).conformal) == 29


@pytest.mark.parametrize("protocol", [Protocol(0.5, 0.5), Protocol(0.9, 0.2), Protocol(0.001, 0.1), Protocol(0.1, 0)])
def test_parts_without_rows_are_refused(protocol):
    with pytest.raises(InputError, match=r"leaves none|has no row|>= 1|between 0 and 1"):
        draw_trial(100, 0, protocol)


def test_trials_drawn_together_are_those_drawn_alone():
    labels = np.random.default_rng(0).integers(0, 5, 90)
    drawn = draw_trials(labels, 6, range(1, 4), Protocol(0.1, 0.2))
    assert drawn.count == 3
    for t in range(3):
        one = draw_trial(90, t + 1, Protocol(0.1, 0.2))
        assert np.array_equal(drawn.conformal[t], np.sort(one.conformal))
        assert np.array_equal(np.flatnonzero(drawn.evaluation[:, t]), np.sort(one.evaluation))
        assert np.array_equal(block_uniforms(drawn.keys, range(90), True)[:, t], one.u)
        assert np.array_equal(np.bincount(labels[one.evaluation], minlength=6), drawn.counts[t])
