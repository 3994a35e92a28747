"""Rising whole numbers as few bytes, which JSON holds as base64.

What is stored of each number is its distance from the one before: half a byte that says how many bytes it takes, and
those bytes. zlib would save another tenth, but gives other bytes in other versions, where the same rows should give the
same file; and nothing here can inflate a small file to more than 32 times its size.
"""

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import FileFormatError

__all__ = ["packed", "unpacked"]

Numbers = NDArray[np.uint64]

_BYTES = 8
_ONE = np.uint64(1)


def packed(numbers: Numbers) -> bytes:
    """Whole numbers that mostly rise, as bytes.

    >>> len(packed(np.array([10, 11, 300], dtype=np.uint64)))
    6
    """
    steps = np.diff(numbers, prepend=np.uint64(0)).view(np.int64)
    folded = ((steps << 1) ^ (steps >> 63)).astype("<i8")  # small steps in either direction have small numbers
    digits = folded.view(np.uint8).reshape(-1, _BYTES)
    n_digits = np.where(digits.any(axis=1), _BYTES - (digits[:, ::-1] != 0).argmax(axis=1), 0).astype(np.uint8)
    even = np.append(n_digits, np.uint8(0)) if len(numbers) % 2 else n_digits
    return (even[0::2] | (even[1::2] << 4)).tobytes() + digits[np.arange(_BYTES) < n_digits[:, None]].tobytes()


def unpacked(content: bytes, n_numbers: int, most: int, what: str) -> Numbers:
    """The numbers, which a document says are so many; `what` they are of, for the complaint.

    >>> unpacked(packed(np.array([10, 11, 300], dtype=np.uint64)), 3, 10, "keys").tolist()
    [10, 11, 300]
    """
    n_heads = (n_numbers + 1) // 2
    if n_numbers > most or len(content) < n_heads:
        raise FileFormatError(f"is not a usable predictor: {what} must be those of {n_numbers:,} rows, up to {most:,}.")
    heads, rest = (np.frombuffer(part, np.uint8) for part in (content[:n_heads], content[n_heads:]))
    n_digits = np.stack([heads & 15, heads >> 4], axis=1).ravel()
    if n_digits.max(initial=0) > _BYTES or n_digits[n_numbers:].any() or n_digits.sum(dtype=np.int64) != len(rest):
        raise FileFormatError(f"is not a usable predictor: {what} must be those of {n_numbers:,} rows.")
    digits = np.zeros((n_numbers, _BYTES), np.uint8)
    digits[np.arange(_BYTES) < n_digits[:n_numbers, None]] = rest
    folded = digits.view("<u8").ravel().astype(np.uint64)
    steps = (folded >> _ONE) ^ (np.uint64(0) - (folded & _ONE))
    return np.cumsum(steps, dtype=np.uint64)
