"""What an engine must be able to do to run a predictor.

Arrays are float64 (n, C) or (n, 1), booleans of the same shapes, and 64-bit keys (n, 1), with the operators
+ - * / == < <= > >= & | ~ of Python. The axis is always the second one. Keys are held as int64, because few engines do
arithmetic on uint64; the bits are the same.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from thermoset import kernels, uniforms
from thermoset.arrays import Floats

Array = Any
"""An array of the engine, or a symbol that stands for one."""


class Ranking(NamedTuple):
    """Logits of each row from the largest down, (n, C), and their labels; of equal logits the lower label is first."""

    logits: Array
    labels: Array


def rank_rows(logits: Floats) -> Ranking:
    """The ranking of NumPy's arrays. A stable sort takes many times as long, in NumPy as in torch."""
    labels = np.argsort(-logits, axis=1)
    values = np.take_along_axis(logits, labels, axis=1)
    equal = values[:, 1:] == values[:, :-1]
    tied = np.flatnonzero(equal.any(axis=1))
    if tied.size:
        group = np.pad(np.cumsum(~equal[tied], axis=1), ((0, 0), (1, 0))) * logits.shape[1]  # of equal logits
        labels[tied] = np.sort(group + labels[tied], axis=1) - group
    return Ranking(values, labels)


class Operations(Protocol):
    """The operations besides Python's operators."""

    def float64(self, array: Array) -> Array: ...  # the same numbers: exact from any narrower type
    def rank(self, logits: Array) -> Ranking: ...
    def largest(self, logits: Array, k: int) -> Array: ...  # the k largest from the largest down, (n, k)
    def columns(self, array: Array, first: int, stop: int) -> Array: ...
    def top_label(self, logits: Array) -> Array: ...  # (n,); the lowest such label where several are equal
    def softmax(self, log_weights: Array) -> Array: ...
    def exp(self, array: Array) -> Array: ...
    def log(self, array: Array) -> Array: ...
    def floor(self, array: Array) -> Array: ...
    def at_most(self, array: Array, bound: float) -> Array: ...  # the smaller of each number and the bound
    def at_least(self, array: Array, bound: float) -> Array: ...
    def where(self, condition: Array, yes: Array, no: Array) -> Array: ...  # a plain number stands for an array of it
    def maximum(self, array: Array) -> Array: ...  # of each row, (n, 1)
    def total(self, array: Array) -> Array: ...  # of each row, (n, 1)
    def sums_before(self, array: Array) -> Array: ...  # of what stands before each place of its row
    def sums_after(self, array: Array) -> Array: ...  # of what stands behind each place, added up from the end
    def pick(self, by_class: Array, labels: Array) -> Array: ...  # entries of (C,) for labels (n, C), or groups (n, 1)
    def in_label_order(self, inside: Array, ranking: Ranking) -> Array: ...  # (n, C) by rank to (n, C) by label
    def count(self, inside: Array) -> Array: ...  # how many are true in each row, int64 (n,)
    def is_label(self, labels: Array, n_classes: int) -> Array: ...  # (n, C): whether the column is the label (n,)
    def as_row(self, column: Array) -> Array: ...  # (n, 1) as (n,)
    def key_constant(self, number: int) -> Array: ...  # one key, from 0 to 2**64 - 1
    def key(self, whole: Array) -> Array: ...  # whole numbers from 0 to 2**53 as keys
    def xor(self, one: Array, other: Array) -> Array: ...
    def shift(self, key: Array, bits: int) -> Array: ...  # right; zeros come in
    def number(self, key: Array) -> Array: ...  # a key below 2**53 as float64


# ---- u of each row, with the bits that `uniforms` gives: a floor of a float64, and 64-bit arithmetic that wraps ------

N_LOGITS = kernels.N_KEYS + 1
"""How many of a row's largest logits decide its u."""

# As plain numbers: those of NumPy are data to what traces a program.
_OF_ROWS, _OF_IDS, _GOLDEN = int(uniforms.OF_ROWS), int(uniforms.OF_IDS), int(kernels.GOLDEN)
_FIRST_SHIFT, _FIRST_FACTOR = int(kernels.FIRST_SHIFT), int(kernels.FIRST_FACTOR)
_SECOND_SHIFT, _SECOND_FACTOR = int(kernels.SECOND_SHIFT), int(kernels.SECOND_FACTOR)
_LAST_SHIFT, _UNIT_SHIFT = int(kernels.LAST_SHIFT), int(kernels.UNIT_SHIFT)


def u_of_rows(ops: Operations, largest: Array, n_logits: int, seed: Array) -> Array:
    """U (n, 1) from the seed and the `n_logits` largest logits of each row, (n, n_logits)."""
    state = _chain(ops, ops.key_constant(_OF_ROWS), seed)
    top = ops.columns(largest, 0, 1)
    for place in range(1, N_LOGITS):
        key = ops.key_constant(0) if place >= n_logits else _gap_key(ops, top, ops.columns(largest, place, place + 1))
        state = _chain(ops, state, key)
    return _unit(ops, state)


def u_of_ids(ops: Operations, id_keys: Array, seed: Array) -> Array:
    """U (n, 1) from the seed and the keys of ids, (n, 1)."""
    start = _chain(ops, ops.key_constant(_OF_IDS), seed)
    return _unit(ops, _chain(ops, start, id_keys))


def _gap_key(ops: Operations, top: Array, other: Array) -> Array:
    """One more than floor(157 gap + 0.309); 0 for a masked class."""
    gap = ops.at_most(top - other, kernels.WIDEST)
    steps = ops.floor(gap * kernels.STEPS + kernels.OFFSET) + 1.0
    return ops.key(ops.where(other == float("-inf"), 0.0, steps))


def _mix(ops: Operations, x: Array) -> Array:
    x = ops.xor(x, ops.shift(x, _FIRST_SHIFT)) * ops.key_constant(_FIRST_FACTOR)
    x = ops.xor(x, ops.shift(x, _SECOND_SHIFT)) * ops.key_constant(_SECOND_FACTOR)
    return ops.xor(x, ops.shift(x, _LAST_SHIFT))


def _chain(ops: Operations, state: Array, key: Array) -> Array:
    return _mix(ops, ops.xor(state, key) + ops.key_constant(_GOLDEN))


def _unit(ops: Operations, state: Array) -> Array:
    return (ops.number(ops.shift(state, _UNIT_SHIFT)) + 0.5) * kernels.UNIT


def as_int64(number: int) -> int:
    """A 64-bit number as int64 writes the same bits."""
    return number - (1 << 64) if number >= 1 << 63 else number
