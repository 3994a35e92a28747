"""What rows are recognised by: a number of 48 bits for each, made of its largest logits and the classes they belong to.

Four logits are taken, which is what rows that are not whole have at least (`core.top_rows`), and each is rounded to
eleven significant bits, which is what float16 has: whole rows, their largest logits, text, and any type of floats give
the same key. Rows of fewer than four classes have fewer numbers to tell them apart, and those are rounded to float32.
"""

import numpy as np

from thermoset.core.compiling import leaf_kernel
from thermoset.core.exponentials import Floats, Ints, as_bits
from thermoset.core.memory import row_array
from thermoset.core.sources import Block, Source, block_rows, widened
from thermoset.core.stages import fill_rows
from thermoset.core.top_rows import LEAST_KEPT, TopRows, tops_of
from thermoset.core.uniforms import Keys, chained

__all__ = ["KEY_BITS", "row_keys"]

KEY_BITS = 48
"""Keys are below 2**48: a million rows share none with 32,768 others, but for once in 8,000 times."""

_START = np.uint64(3)  # the chains of u start at 0, 1 and 2
_SHIFT = np.uint64(64 - KEY_BITS)
_DROPPED = 13  # bits of a float32 that a float16 has no room for


def row_keys(source: Source) -> Keys:
    """The key of each row, (n,).

    >>> from thermoset.core.sources import ArrayRows
    >>> rows = np.random.default_rng(0).normal(size=(3, 5))
    >>> keys = row_keys(ArrayRows(rows))
    >>> (keys == row_keys(ArrayRows(rows.astype(np.float16)))).tolist()
    [True, True, True]
    """
    keys = row_array((source.n_rows,), np.uint64)
    tops = tops_of(source)
    if tops is None:
        fill_rows(source, _Keys(), [keys])
    else:
        step = block_rows(tops.logits.shape[1])
        for start in range(0, source.n_rows, step):
            place = slice(start, start + step)
            keys[place] = _top_keys(tops.part(place))
    return keys


class _Keys:
    """The stage: the key of each row, (n,)."""

    def rows(self, _: slice) -> "_Keys":
        return self

    def __call__(self, block: Block) -> tuple[Keys]:
        return (_keys(*_largest(_rounded(block, block.shape[1]))),)


def _top_keys(tops: TopRows) -> Keys:
    order = np.argsort(tops.indices, axis=1)  # of equal logits the lower class comes first, as in whole rows
    rows = _rounded(np.take_along_axis(tops.logits, order, axis=1), tops.n_classes)
    values, places = _largest(rows)
    indices = np.take_along_axis(tops.indices, order, axis=1).astype(np.int64)
    return _keys(values, np.take_along_axis(indices, places, axis=1))


def _rounded(block: Block, n_classes: int) -> Floats:
    """The rows as float32, to eleven significant bits where there are classes enough; ties go to even, as casts do."""
    with np.errstate(over="ignore"):
        bits = block.astype(np.float32).view(np.uint32)
    if n_classes >= LEAST_KEPT:
        bits += np.uint32((1 << (_DROPPED - 1)) - 1) + ((bits >> np.uint32(_DROPPED)) & np.uint32(1))
        bits &= np.uint32(2**32 - (1 << _DROPPED))
    return widened(bits.view(np.float32) + np.float32(0.0))  # which turns -0.0 into 0.0


def _largest(rows: Floats) -> tuple[Floats, Ints]:
    shape = len(rows), min(LEAST_KEPT, rows.shape[1])
    values, places = np.empty(shape), np.empty(shape, dtype=np.int64)
    _fill_largest(rows, values, places)
    return values, places


def _keys(values: Floats, classes: Ints) -> Keys:
    keys = np.empty(len(values), dtype=np.uint64)
    _fill_keys(values, classes, keys)
    return keys


@leaf_kernel
def _fill_largest(rows: Floats, values: Floats, places: Ints) -> None:
    """The largest entries of each row, falling, and where they are: values and places (n, K); of equal ones the first.

    One pass: an entry is compared with the last that is kept, and seldom with more.
    """
    top = values.shape[1]
    for i in range(rows.shape[0]):
        kept, place, n = values[i], places[i], 0
        for c in range(rows.shape[1]):
            z = rows[i, c]
            if n == top and z <= kept[top - 1]:
                continue
            n = min(n + 1, top)
            p = n - 1
            while p > 0 and kept[p - 1] < z:
                kept[p] = kept[p - 1]
                place[p] = place[p - 1]
                p -= 1
            kept[p] = z
            place[p] = c


@leaf_kernel
def _fill_keys(values: Floats, classes: Ints, out: Keys) -> None:
    for i in range(values.shape[0]):
        state = _START
        for j in range(values.shape[1]):
            state = chained(chained(state, np.uint64(as_bits(values[i, j]))), np.uint64(classes[i, j]))
        out[i] = state >> _SHIFT
