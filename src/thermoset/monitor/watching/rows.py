"""What a batch shows row by row, and how its rows are recognised when they are added again."""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thermoset.arrays import Bools, Floats, Ints, Keys
from thermoset.data.row_keys import KEY_BITS
from thermoset.kernels import GOLDEN

__all__ = ["SKETCH", "Marks", "RowsSeen", "first_repeat", "identified", "marks_of", "tie_breakers"]

SKETCH = 8
"""Rows of each batch that are remembered: those with the smallest keys, which are any rows."""

_ENOUGH = 4  # of them that must come again: a few rows may be alike by chance, as two empty images are


@dataclass(frozen=True, eq=False)
class RowsSeen:
    """Arrays (n,) in the order of the rows.

    size : labels in the set; confidence : probability of the likeliest label; bins : its bin (see the predictor's
    reference), all 0 without a reference; key : a hash of the logits, and of the id where there is one;
    label : column number, -1 where it is missing; hit, correct : whether the set holds the label, and whether the
    likeliest label is right, False where it is missing; part : place of the class, cluster or group that the row counts
    for, -1 where there is no label.
    """

    size: Ints
    confidence: Floats
    bins: Ints
    key: Keys
    label: Ints
    hit: Bools
    correct: Bools
    part: Ints

    @property
    def labelled(self) -> Bools:
        """Which rows have a label."""
        return self.label >= 0


class Marks(NamedTuple):
    """What a batch is recognised by: a hash of all its rows in order, and the smallest of their keys, rising."""

    digest: str
    sketch: tuple[int, ...]


def identified(keys: Keys, ids: Keys | None) -> Keys:
    """The keys of rows (`core.row_keys`), with those of their ids taken in: other ids make other rows.

    >>> keys = np.array([7, 7], dtype=np.uint64)
    >>> identified(keys, np.array([1, 2], dtype=np.uint64)).tolist() != identified(keys, None).tolist()
    True
    """
    return keys if ids is None else ((keys * GOLDEN) ^ ids) >> np.uint64(64 - KEY_BITS)


def tie_breakers(keys: Keys) -> Floats:
    """A number in (0, 1) for each row that breaks ties of its rank.

    >>> tie_breakers(np.array([1 << 47], dtype=np.uint64)).round(6).tolist()
    [0.5]
    """
    found: Floats = (keys.astype(np.float64) + 0.5) / 2.0**KEY_BITS
    return found


def marks_of(keys: Keys) -> Marks:
    """What a batch with these rows is recognised by.

    >>> marks_of(np.array([3, 1, 2], dtype=np.uint64)).sketch
    (1, 2, 3)
    """
    digest = hashlib.blake2b(keys.astype("<u8").tobytes(), digest_size=16).hexdigest()
    return Marks(digest, tuple(np.unique(keys)[:SKETCH].tolist()))


def first_repeat(earlier: list[tuple[int, ...]], keys: Keys) -> int | None:
    """The first earlier batch, by its sketch, of which at least half comes again among other rows.

    >>> first_repeat([(1, 2, 3, 4, 5, 6, 7, 8)], np.arange(4, 100, dtype=np.uint64))
    0
    >>> first_repeat([(1, 2, 3, 4, 5, 6, 7, 8)], np.arange(7, 100, dtype=np.uint64)) is None
    True
    """
    lengths = [len(sketch) for sketch in earlier]
    known = np.array([key for sketch in earlier for key in sketch], dtype=np.uint64)
    batch = np.repeat(np.arange(len(earlier)), lengths)
    found = np.bincount(batch[np.isin(known, keys)], minlength=len(earlier))
    again = np.flatnonzero((found >= _ENOUGH) & (2 * found >= np.array(lengths)))
    return int(again[0]) if len(again) else None
