import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from tests.parts import require
from thermoset.data.groups import Groups, listed_groups, read_groups
from thermoset.errors import InputError

ROWS = np.arange(12.0).reshape(4, 3)
SITES = ["b", "a", "b", "c"]


@pytest.mark.parametrize(
    "given",
    [
        [3, 10, 3],
        ["3", "10", "3"],
        np.array([3.0, 10.0, 3.0]),
        np.array([3, 10, 3], dtype=np.uint8),
        np.array(["3", "10", "3"]),
        np.array([3, "10", 3.0], dtype=object),
    ],
)
def test_numbers_and_their_text_are_the_same_groups(given):
    groups = read_groups(given, 3)
    assert groups.names == ("3", "10")  # by size, not by alphabet
    assert groups.codes.tolist() == [0, 1, 0]
    assert groups.counts.tolist() == [2, 1]


def test_series_and_booleans():
    pandas = require("pandas", "test")
    polars = require("polars", "test")
    for series in (pandas.Series(SITES), pandas.Categorical(SITES), polars.Series(SITES), np.array(SITES, object)):
        assert np.asarray(read_groups(series, 4)).tolist() == SITES
    assert read_groups([True, False], 2).names == ("False", "True")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (["a", "b"], r"groups must have shape \(4,\), one name or number for each row; got \(2,\)"),
        ([["a"], ["b"], ["a"], ["b"]], r"must have shape \(4,\)"),
        ("abcd", "expected an array"),
        (["a", None, "a", "b"], r"groups\[1\] is missing \(None\)"),
        ([1.0, 2.0, float("nan"), 1.0], r"groups\[2\] is missing"),
        (["a", "b", "a", " "], r"groups\[3\] is missing"),
        ([0.5, 1.0, 2.0, 1.5], r"groups\[0\] is 0.5; a group must be a name or a whole number. Cut measurements"),
        ([1, 2, 3, float("inf")], r"groups\[3\] is inf"),
        ([("a", 1)] * 3 + [None], r"groups\[0\] is"),
    ],
)
def test_bad_groups_are_refused(bad, message):
    with pytest.raises(InputError, match=message):
        ts.Logits(ROWS, groups=bad)


def test_groups_stay_with_their_rows():
    data = ts.Logits(ROWS, [0, 1, 2, 0], groups=SITES)
    assert np.asarray(data.take([3, 0]).groups).tolist() == ["c", "b"]
    assert data.take([0, 2]).groups.counts.tolist() == [0, 2, 0]  # names are kept
    assert data.take(slice(1, 3)).groups == read_groups(["a", "b"], 2)
    assert copy.deepcopy(data) == data
    assert data.labelled(data.labels).groups == data.groups
    assert data != ts.Logits(ROWS, [0, 1, 2, 0])
    parts = data.split(2)
    joined = parts[0].concatenate(parts[1])
    assert sorted(np.asarray(joined.groups).tolist()) == sorted(SITES)
    with pytest.raises(InputError, match="only if both have groups, or neither"):
        data.concatenate(ts.Logits(ROWS, [0, 1, 2, 0]))
    assert "3 groups" in repr(data)


def test_groups_beside_logits():
    data = ts.Logits(ROWS, [0, 1, 2, 0])
    assert ts.data.as_logits(data, groups=SITES).groups == read_groups(SITES, 4)
    named = ts.Logits({"logits": ROWS, "groups": SITES})
    assert ts.data.as_logits(named, groups=SITES) is named
    with pytest.raises(InputError, match="different groups"):
        ts.data.as_logits(named, groups=SITES[::-1])
    with pytest.raises(InputError, match="sorting needs groups"):
        data.require_groups("sorting")
    assert ts.Logits.from_probabilities([[0.5, 0.5]], groups=["x"]).groups.names == ("x",)
    assert ts.Logits.from_choices([[-1.0, -2.0]], groups=[7]).groups.names == ("7",)


def test_top_rows_keep_groups():
    top = ts.TopLogits([[3.0, 1.0, 0.5, 0.0]] * 4, [[0, 1, 2, 3]] * 4, 5, labels=[0, 1, 0, 1], groups=SITES)
    assert np.asarray(top.take([2, 1]).groups).tolist() == ["b", "a"]
    assert np.asarray(top.concatenate(top).groups).tolist() == SITES * 2
    assert copy.deepcopy(top) == top
    assert top != ts.TopLogits([[3.0, 1.0, 0.5, 0.0]] * 4, [[0, 1, 2, 3]] * 4, 5, labels=[0, 1, 0, 1])


@given(st.lists(st.one_of(st.integers(-5, 5), st.sampled_from("abc ä")), min_size=1).filter(lambda x: " " not in x))
def test_reading_keeps_every_value(values):
    groups = read_groups(values, len(values))
    assert np.asarray(groups).tolist() == [str(value) for value in values]
    assert groups.counts.sum() == len(values)
    assert groups.counts.min() > 0
    assert read_groups(groups, len(values)) is groups
    again = Groups(groups.names[::-1], len(groups.names) - 1 - groups.codes)
    assert again == groups  # names in another order
    assert np.array_equal(groups.codes_among(again.names), again.codes)


def test_a_thousand_groups_are_listed_briefly():
    assert listed_groups([f"g{i}" for i in range(1000)]) == "g0, g1, g2, g3, g4 and 995 more"
    assert repr(read_groups(np.arange(1000), 1000)) == "Groups(1,000 rows in 1,000 groups: 0, 1, 2, 3, 4 and 995 more)"
