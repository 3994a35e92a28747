"""What rows are recognised by: a number of 48 bits for each, made of its largest logits and the classes they belong to.

Four logits are taken, which is what rows that are not whole have at least (`data.top_k`), and each is rounded to
eleven significant bits, which is what float16 has: whole rows, their largest logits, text, and any type of floats give
the same key. Rows of fewer than four classes have fewer numbers to tell them apart, and those are rounded to float32.
"""

import numpy as np

from thermoset.arrays import Block, Floats, Ints, Keys, as_float64, as_int64
from thermoset.data.top_k import LEAST_KEPT, TopRows, tops_of
from thermoset.kernels import fill_largest, fill_row_keys
from thermoset.rows import Source, block_rows, map_rows, row_array
from thermoset.uniforms import OF_KEYS

KEY_BITS = 48
"""Keys are below 2**48: a million rows share none with 32,768 others, but for once in 8,000 times."""

_SHIFT = np.uint64(64 - KEY_BITS)
_DROPPED = 13  # bits of a float32 mantissa that a float16 lacks


def row_keys(source: Source) -> Keys:
    """The key of each row, (n,)."""
    keys = row_array((source.n_rows,), np.uint64)
    tops = tops_of(source)
    if tops is None:
        map_rows(source, _keys_of_block, [keys])
    else:
        step = block_rows(tops.logits.shape[1])
        for start in range(0, source.n_rows, step):
            place = slice(start, start + step)
            keys[place] = _top_keys(tops.part(place))
    return keys


def _keys_of_block(block: Block) -> tuple[Keys]:
    return (_keys(*_largest(_round_rows(block, block.shape[1]))),)


def _top_keys(tops: TopRows) -> Keys:
    order = np.argsort(tops.indices, axis=1)  # of equal logits the lower class comes first, as in whole rows
    rows = _round_rows(np.take_along_axis(tops.logits, order, axis=1), tops.n_classes)
    values, places = _largest(rows)
    indices = np.take_along_axis(tops.indices, order, axis=1).astype(np.int64)
    return _keys(values, np.take_along_axis(indices, places, axis=1))


def _round_rows(block: Block, n_classes: int) -> Floats:
    """The rows as float32, to eleven significant bits where there are classes enough; ties go to even, as casts do."""
    with np.errstate(over="ignore"):
        bits = block.astype(np.float32).view(np.uint32)
    if n_classes >= LEAST_KEPT:
        bits += np.uint32((1 << (_DROPPED - 1)) - 1) + ((bits >> np.uint32(_DROPPED)) & np.uint32(1))
        bits &= np.uint32(2**32 - (1 << _DROPPED))
    return as_float64(bits.view(np.float32) + np.float32(0.0))  # which turns -0.0 into 0.0


def _largest(rows: Floats) -> tuple[Floats, Ints]:
    shape = len(rows), min(LEAST_KEPT, rows.shape[1])
    values, places = np.empty(shape), np.empty(shape, dtype=np.int64)
    fill_largest(rows, values, places)
    return values, places


def _keys(values: Floats, classes: Ints) -> Keys:
    keys = np.empty(len(values), dtype=np.uint64)
    fill_row_keys(values, as_int64(classes), OF_KEYS, _SHIFT, keys)
    return keys
