"""What a batch shows row by row, and how its rows are recognised when they come again."""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.uniforms import UNIT, UNIT_SHIFT

__all__ = ["SKETCH", "Keys", "Marks", "RowsSeen", "first_repeat", "marks_of", "row_keys", "tie_breakers"]

Keys = NDArray[np.uint64]

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


def row_keys(rows: NDArray[np.floating], ids: Keys | None = None) -> Keys:
    """A key for each row of logits: the same for the same numbers, whatever their type is.

    >>> bool(row_keys(np.array([[0.5, 2.0]], dtype=np.float32))[0] == row_keys(np.array([[0.5, 2.0]]))[0])
    True
    """
    numbers = np.ascontiguousarray(rows, dtype="<f8") + 0.0  # -0.0 becomes 0.0
    beside = [b""] * len(numbers) if ids is None else [one.tobytes() for one in ids.astype("<u8")]
    hashes = (
        hashlib.blake2b(row.data, digest_size=8, key=own).digest() for row, own in zip(numbers, beside, strict=True)
    )
    return np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64)


def tie_breakers(keys: Keys) -> Floats:
    """A number in (0, 1) for each row that breaks ties of its rank.

    >>> tie_breakers(np.array([1 << 63], dtype=np.uint64)).round(6).tolist()
    [0.5]
    """
    found: Floats = ((keys >> UNIT_SHIFT).astype(np.float64) + 0.5) * UNIT
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
