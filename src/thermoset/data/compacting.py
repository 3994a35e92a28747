"""Whole rows cut down to their largest logits."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block, Floats, Ints, as_float64, as_int64
from thermoset.bounds import checked_temperature, whole_number
from thermoset.data import as_logits
from thermoset.data.tail_mass import Stated
from thermoset.data.top import TopLogits
from thermoset.data.top_rows import LEAST_KEPT, TopRows
from thermoset.errors import InputError
from thermoset.kernels import log_left_out
from thermoset.rows import block_rows

__all__ = ["TEMPERATURES", "checked_top", "compact", "stated_temperatures"]

TEMPERATURES = (0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 3.0, 5.0)
"""Where the log-sums of what is left out are kept: the range in which sets are chosen, densest where they change most.

Between them, bounds of the mass left out are some thousandths of a row apart on ImageNet."""

_FEWEST, _MOST, _SHARE = 16, 512, 25  # a twenty-fifth makes a file of float16 ten times smaller, indices included


def compact(logits: Any, top: int | None = None, temperatures: Sequence[float] = TEMPERATURES) -> TopLogits:
    """Keep the largest logits of each row, and the log-sums of the others at some temperatures.

    Sets from such rows hold at least the labels that whole rows would give, and keep the promised coverage.

    Parameters
    ----------
    logits : Logits or array-like (n, C)
        Whole rows; those of `thermoset.open` are read block by block, so they need not fit into memory.
    top : int, optional
        How many logits to keep of each; by default C / 25, at least 16 and at most 512.
    temperatures : sequence of numbers
        Where to keep log-sums. Bounds are tightest at these, and between them.

    >>> rows = compact(np.random.default_rng(0).normal(size=(100, 1000)).astype(np.float32))
    >>> rows
    TopLogits(100 rows x 1000 classes, the 40 largest, float32)
    >>> rows.top_indices.dtype, rows.log_rest.shape
    (dtype('uint16'), (100, 11))
    """
    data = as_logits(logits)
    if isinstance(data, TopLogits):
        raise InputError(f"these rows hold their {data.top} largest logits already. Compact whole rows.")
    kept, at = checked_top(top, data.n_classes), stated_temperatures(temperatures)
    parts = [with_largest(block, kept, at) for _, block in data.blocks(block_rows(data.n_classes))]
    return TopLogits.of(TopRows.stacked(parts), data.labels, data.classes, data.groups, data.input_kind)


def checked_top(top: int | None, n_classes: int) -> int:
    """How many logits to keep.

    >>> checked_top(None, 1000), checked_top(None, 128_000), checked_top(None, 10)
    (40, 512, 10)
    """
    if top is None:
        return min(max(n_classes // _SHARE, _FEWEST), _MOST, n_classes)
    fewest = min(LEAST_KEPT, n_classes)
    return whole_number(top, "top", fewest, n_classes, "It is how many logits of a row to keep.")


def stated_temperatures(temperatures: Sequence[float]) -> NDArray[np.float64]:
    """Where to keep log-sums, checked."""
    at = [checked_temperature(one, "temperatures") for one in temperatures]
    if len(set(at)) != len(at):
        raise InputError(f"temperatures must be different from each other; got {at}.")
    return np.array(at, dtype=np.float64)


class Largest(NamedTuple):
    """The largest logits (n, K), falling, and their classes; how many with the logit of the last are left out (n,)."""

    logits: Block
    indices: Ints
    n_tied: Ints


def largest(block: Block, top: int) -> Largest:
    """The `top` largest of each row; of equal logits the lower classes are kept, as ranks have it.

    >>> found = largest(np.array([[1.0, 3.0, 1.0, 2.0, 1.0]]), 3)
    >>> found.logits.tolist(), found.indices.tolist(), found.n_tied.tolist()
    ([[3.0, 2.0, 1.0]], [[1, 3, 0]], [2])
    """
    n_rows, n_classes = block.shape
    last = np.partition(block, n_classes - top, axis=1)[:, n_classes - top, None]
    chosen, tied = block > last, block == last
    room = top - chosen.sum(axis=1)
    n_tied = tied.sum(axis=1) - room
    # The quick way is right where all that tie are kept; elsewhere those of the lowest classes are.
    crowded = np.flatnonzero(n_tied)
    tied[crowded] &= np.cumsum(tied[crowded], axis=1) <= room[crowded, None]
    indices = np.nonzero(chosen | tied)[1].reshape(n_rows, top)
    logits = np.take_along_axis(block, indices, axis=1)
    order = np.argsort(-logits, axis=1, kind="stable")
    return Largest(np.take_along_axis(logits, order, axis=1), np.take_along_axis(indices, order, axis=1), n_tied)


def with_largest(block: Block, top: int, temperatures: Floats) -> TopRows:
    """Whole rows cut down to their largest logits, with the log-sums of the others at some temperatures.

    Sums are float32, which is finer than bounds are between two temperatures, unless the logits are float64.
    """
    found, n_classes = largest(block, top), block.shape[1]
    sums, last = np.empty((len(block), len(temperatures))), found.logits[:, -1].astype(np.float64)
    log_left_out(as_float64(block), last, as_int64(found.n_tied), temperatures, np.empty((2, n_classes)), sums)
    with np.errstate(over="ignore"):
        kept: Block = sums if block.dtype == np.float64 else sums.astype(np.float32)
    indices = found.indices.astype(np.min_scalar_type(n_classes - 1))
    return TopRows(found.logits, indices, n_classes, Stated(temperatures, kept, of_all=False))
