"""Keys of rows: as they are defined, in plain Python, and the same however rows are kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import thermoset as ts
from on_arrays import ArrayRows
from thermoset.data.row_keys import KEY_BITS, row_keys
from tops import cut_down

MASK = 2**64 - 1


def mixed(x):
    """The finaliser of SplitMix64, in Python's whole numbers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def key_of(row):
    """The key by its definition: the largest values and their classes, one after the other through the finaliser."""
    exact = [float(np.float32(z)) for z in row]
    values = exact if len(row) < 4 else [float(np.float16(z)) for z in exact]
    order = sorted(range(len(row)), key=lambda c: (-values[c], c))[:4]
    state = 3
    for c in order:
        for word in (int(np.float64(values[c] + 0.0).view(np.uint64)), c):
            state = mixed(((state ^ word) + 0x9E3779B97F4A7C15) & MASK)
    return state >> (64 - KEY_BITS)


def keys(rows):
    return row_keys(ArrayRows(np.ascontiguousarray(rows))).tolist()


# float16 has fewer bits below 2**-14, and ends at 65,504
NUMBERS = st.floats(2.0**-13, 60_000, width=32) | st.floats(-60_000, -(2.0**-13), width=32)


@st.composite
def rows(draw):
    shape = draw(st.tuples(st.integers(1, 6), st.integers(2, 9)))
    number = NUMBERS | st.sampled_from([0.0, -0.0, 1.0, -np.inf])
    return draw(arrays(np.float32, shape, elements=number))


@given(rows())
def test_keys_are_as_defined(table):
    assert keys(table) == [key_of(row) for row in table]


@given(rows())
def test_every_type_of_float_gives_the_same_keys(table):
    expected = keys(table)
    assert keys(table.astype(np.float64)) == expected
    assert keys(table.astype(np.float64) * (1 + 1e-9)) == keys(
        (table.astype(np.float64) * (1 + 1e-9)).astype(np.float32)
    )
    if table.shape[1] >= 4:
        assert keys(table.astype(np.float16)) == expected


@pytest.mark.parametrize("n_classes", [5, 40])
@pytest.mark.parametrize("kind", ["nothing", "all", "rest"])
def test_rows_of_largest_logits_have_the_keys_of_whole_rows(n_classes, kind):
    table = np.random.default_rng(0).normal(size=(500, n_classes)) * 5
    whole = keys(table)
    top = min(8, n_classes - 1)
    cut = ts.TopLogits.from_checked(cut_down(table, top, kind), None, None)
    found = row_keys(cut).tolist()
    same = np.mean([one == other for one, other in zip(whole, found, strict=True)])
    assert same == 1.0 if top > 4 else same > 0.98  # the fourth and the fifth may be equal to eleven bits


def test_blocks_and_order_do_not_matter():
    table = np.random.default_rng(1).normal(size=(20_000, 30)).astype(np.float32)  # several blocks
    whole = row_keys(ArrayRows(table))
    order = np.random.default_rng(2).permutation(len(table))
    np.testing.assert_array_equal(row_keys(ArrayRows(table[order])), whole[order])
    assert len(set(whole.tolist())) == len(table)


def test_huge_float64_logits_are_allowed():
    assert keys([[1e300, -1e300, 0.0, 1.0, 2.0]]) == [key_of([np.inf, -np.inf, 0.0, 1.0, 2.0])]
