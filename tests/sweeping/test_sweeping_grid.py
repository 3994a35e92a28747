"""Temperature grids are decimal and inclusive."""

import itertools

import numpy as np
import pytest

from thermoset.errors import InputError
from thermoset.sweeping import PAPER_GRID, temperature_grid
from thermoset.sweeping.protocol import checked_temperatures


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
