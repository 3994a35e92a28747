"""u of each row as array operations, with the bits that `uniforms` gives.

Every step is exact: a floor of a float64, and 64-bit arithmetic that wraps around.
"""

from thermoset import kernels, uniforms
from thermoset.integrations.program.operations import Array, Operations

__all__ = ["N_LOGITS", "signed", "u_of_ids", "u_of_rows"]

N_LOGITS = kernels.N_KEYS + 1
"""How many of a row's largest logits decide its u."""

# As plain numbers: those of NumPy are data to what traces a program.
_OF_ROWS, _OF_IDS, _GOLDEN = int(uniforms.OF_ROWS), int(uniforms.OF_IDS), int(kernels.GOLDEN)
_FIRST_SHIFT, _FIRST_FACTOR = int(kernels.FIRST_SHIFT), int(kernels.FIRST_FACTOR)
_SECOND_SHIFT, _SECOND_FACTOR = int(kernels.SECOND_SHIFT), int(kernels.SECOND_FACTOR)
_LAST_SHIFT, _UNIT_SHIFT = int(kernels.LAST_SHIFT), int(kernels.UNIT_SHIFT)


def u_of_rows(ops: Operations, largest: Array, n_logits: int, seed: Array) -> Array:
    """U (n, 1) from the seed and the `n_logits` largest logits of each row, (n, n_logits)."""
    state = _chained(ops, ops.key_constant(_OF_ROWS), seed)
    top = ops.columns(largest, 0, 1)
    for place in range(1, N_LOGITS):
        key = ops.key_constant(0) if place >= n_logits else _gap_key(ops, top, ops.columns(largest, place, place + 1))
        state = _chained(ops, state, key)
    return _unit(ops, state)


def u_of_ids(ops: Operations, id_keys: Array, seed: Array) -> Array:
    """U (n, 1) from the seed and the keys of ids, (n, 1)."""
    start = _chained(ops, ops.key_constant(_OF_IDS), seed)
    return _unit(ops, _chained(ops, start, id_keys))


def _gap_key(ops: Operations, top: Array, other: Array) -> Array:
    """One more than floor(157 gap + 0.309); 0 for a masked class."""
    gap = ops.at_most(top - other, kernels.WIDEST)
    steps = ops.floor(gap * kernels.STEPS + kernels.OFFSET) + 1.0
    return ops.key(ops.where(other == float("-inf"), 0.0, steps))


def _mix(ops: Operations, x: Array) -> Array:
    x = ops.xor(x, ops.shift(x, _FIRST_SHIFT)) * ops.key_constant(_FIRST_FACTOR)
    x = ops.xor(x, ops.shift(x, _SECOND_SHIFT)) * ops.key_constant(_SECOND_FACTOR)
    return ops.xor(x, ops.shift(x, _LAST_SHIFT))


def _chained(ops: Operations, state: Array, key: Array) -> Array:
    return _mix(ops, ops.xor(state, key) + ops.key_constant(_GOLDEN))


def _unit(ops: Operations, state: Array) -> Array:
    return (ops.number(ops.shift(state, _UNIT_SHIFT)) + 0.5) * kernels.UNIT


def signed(number: int) -> int:
    """A 64-bit number as int64 writes the same bits.

    >>> signed(2**64 - 1), signed(5)
    (-1, 5)
    """
    return number - (1 << 64) if number >= 1 << 63 else number
