"""What `prefer` takes."""

import math

import pytest

from thermoset.errors import InputError
from thermoset.tuning import read_preference
from thermoset.tuning.preferences import Even, GapBudget, Protect, ProtectClasses, SizeBudget, Small


@pytest.mark.parametrize(
    ("prefer", "expected", "text"),
    [
        ("size<=3", SizeBudget(3.0), "size<=3"),
        (" size <= 2.5 ", SizeBudget(2.5), "size<=2.5"),
        ("gap<=0.03", GapBudget(0.03), "gap<=0.03"),
        ("gap<=0", GapBudget(0.0), "gap<=0"),
        ("small", Small(), "small"),
        ("even", Even(), "even"),
        ("protect", Protect(), "protect"),
        ("classes >= 0.85", ProtectClasses(0.85), "classes>=0.85"),
    ],
)
def test_preferences(prefer, expected, text):
    read = read_preference(prefer)
    assert read == expected
    assert type(read) is type(expected)
    assert read.text == text
    assert read_preference(read.text) == read


@pytest.mark.parametrize(
    ("prefer", "said"),
    [
        ("tiny", "prefer must be 'small', 'even', 'protect'"),
        ("size", "prefer must be"),
        ("coverage", "prefer must be"),
        ("0.25", "prefer must be"),
        (0, "prefer must be"),
        (1, "prefer must be"),
        (0.25, "prefer must be"),
        (math.nan, "prefer must be"),
        (True, "prefer must be"),
        (None, "prefer must be"),
        ([0.5], "prefer must be"),
        ("", "prefer must be"),
        ("size>=3", "prefer must be"),
        ("size<=", "prefer must be"),
        ("size<=0", "size budget must be a positive number of labels, .*; got 'size<=0'"),
        ("size<=many", "size budget"),
        ("size<=inf", "size budget"),
        ("size<=1e99999999", "size budget"),
        ("gap<=1e-99999999", "gap budget"),
        (10**400, "prefer must be"),
        ("gap<=1", "gap budget must be a number from 0 to 1; got 'gap<=1'"),
        ("gap<=-0.1", "gap budget"),
        ("gap<=nan", "gap budget"),
        ("classes>=1", "coverage of hard classes must be between 0 and 1; got 'classes>=1'"),
        ("classes>=0", "coverage of hard classes"),
        ("classes>=most", "coverage of hard classes"),
        ("classes<=0.8", "prefer must be"),
    ],
)
def test_bad_preferences(prefer, said):
    with pytest.raises(InputError, match=said):
        read_preference(prefer)
