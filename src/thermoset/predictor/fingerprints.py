"""Rows as one number: whether two parts of the data are the same as a whole."""

import hashlib
import json

import numpy as np

from thermoset.arrays import Block, Keys
from thermoset.data import Logits
from thermoset.rows import map_rows, row_array

__all__ = ["fingerprint"]


def fingerprint(data: Logits) -> str:
    """SHA-256 of rows, by way of those of each, and of labels and class names.

    >>> fingerprint(Logits([[1.0, 2.0]], [1])) == fingerprint(Logits([[1.0, 2.0]], [1]))
    True
    """
    digests = row_array((4, len(data)), np.uint64)
    map_rows(data, _digests_of_block, [digests])
    parts = hashlib.sha256(json.dumps([data.dtype.str, data.n_rows, data.n_classes, data.classes]).encode())
    for of_rows in digests:
        parts.update(of_rows.astype("<u8").data)
    parts.update(data.require_labels("a fingerprint").astype("<i8").data)
    return parts.hexdigest()


def _digests_of_block(block: Block) -> tuple[Keys]:
    """SHA-256 of each row, as four numbers, (4, n)."""
    rows = np.ascontiguousarray(block).astype(block.dtype.newbyteorder("<"), copy=False)
    digests = b"".join(hashlib.sha256(row.data).digest() for row in rows)
    return (np.frombuffer(digests, dtype="<u8").reshape(-1, 4).T.astype(np.uint64),)
