"""Whole rows cut down to their largest logits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import checked_temperature, whole_number
from thermoset.core.selecting import with_largest
from thermoset.core.sources import block_rows
from thermoset.core.top_rows import LEAST_KEPT, TopRows
from thermoset.data import as_logits
from thermoset.data.top import TopLogits
from thermoset.errors import InputError

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
