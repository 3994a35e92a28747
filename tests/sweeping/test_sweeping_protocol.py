"""Temperatures are decimal and inclusive grids; trials are random parts of the rows and one u a row."""

import itertools

import numpy as np
import pytest

from thermoset.errors import InputError
from thermoset.sweeping import PAPER_GRID, Protocol, draw_trial, temperature_grid
from thermoset.sweeping.engine import block_uniforms
from thermoset.sweeping.protocol import checked_temperatures, draw_trials


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


# ---- grids of temperatures


def test_every_point_is_the_decimal_it_stands_for():
    grid = temperature_grid("0.3:5:0.1")
    assert len(grid) == 48
    assert grid.tolist() == [float(f"{k / 10:.1f}") for k in range(3, 51)]
    assert grid[7] == 1.0
    assert not np.array_equal(grid, 0.3 + 0.1 * np.arange(48)), "a sum of floats would do"


def test_the_papers_grid():
    grid = temperature_grid(PAPER_GRID)
    assert (len(grid), grid[0], grid[-1]) == (46, 0.5, 5.0)
    assert grid.dtype == np.float64


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1:2:0.3", [1.0, 1.3, 1.6, 1.9]),  # never past the stop
        ("0.01:0.01:1", [0.01]),
        ("1e-2:1e-1:3e-2", [0.01, 0.04, 0.07, 0.1]),
        (" 1 : 2 : 1 ", [1.0, 2.0]),
        ("0.05, 1,2.5", [0.05, 1.0, 2.5]),
        ("2", [2.0]),
    ],
)
def test_ranges_and_lists(text, want):
    assert temperature_grid(text).tolist() == want


@pytest.mark.parametrize(
    "text",
    ["", ":", "1:2", "1:2:3:4", "2:1:0.1", "1:2:0", "1:2:-1", "1:2,3:1", "a", "1,,2", "nan", "1:inf:1", "1:2:1e-9"],
)
def test_what_is_no_grid_is_refused_with_its_text(text):
    with pytest.raises(InputError) as caught:
        temperature_grid(text)
    assert repr(text) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("temperatures", "message"),
    [
        ([2.0, 1.0], "must increase; 1 comes out of order after 2"),
        ([1.0, 2.0, 2.0], "must increase; 2 comes twice after 2"),
        ([0.0, 1.0], "a finite number > 0, from 1e-300 to 1e[+]300; got 0.0"),
        ([-1.0], "a finite number > 0, from 1e-300 to 1e[+]300; got -1.0"),
        ([1.0, float("nan")], "a finite number > 0, from 1e-300 to 1e[+]300; got nan"),
        ([1.0, float("inf")], "a finite number > 0, from 1e-300 to 1e[+]300; got inf"),
        ([], "at least one"),
        (["a"], "each temperature must be a finite number > 0"),
        (None, "must be numbers"),
        (1.0, "must be numbers"),
        ([[1.0, 2.0], [3.0, 4.0]], "each temperature must be a finite number > 0"),
        ("12", "Pass temperature_grid"),
        ([5e-309], "from 1e-300 to 1e[+]300; got 5e-309"),
        ([10**400], "got 1000.*[.]{3}"),
        ([True], "got True"),
        (itertools.count(1), "at most 10,000 temperatures; got more"),
    ],
)
def test_bad_temperatures(temperatures, message):
    with pytest.raises(InputError, match=message):
        checked_temperatures(temperatures)


@pytest.mark.parametrize("text", ["0:1:0.5", "-1:1:0.5", "2,1", "1,1"])
def test_a_grid_obeys_the_rules_of_temperatures(text):
    with pytest.raises(InputError, match=r"must increase|> 0"):
        temperature_grid(text)


def test_any_iterable_of_numbers_is_read():
    assert checked_temperatures(np.array([1, 2], dtype=np.int32)).tolist() == [1.0, 2.0]
    assert checked_temperatures(t / 4 for t in (1, 2)).tolist() == [0.25, 0.5]
