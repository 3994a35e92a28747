"""The K largest logits of whole rows, and the log-sums of those that are left out."""

import math
from typing import Any, NamedTuple

import numpy as np

from thermoset.core.compiling import leaf_kernel
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.masses import mass_below, weigh
from thermoset.core.rest import Stated
from thermoset.core.sources import Block, widened
from thermoset.core.top_rows import TopRows

__all__ = ["largest", "with_largest"]


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


class _Rows(NamedTuple):
    """Whole rows (n, C), the last logit of each that is kept, and how many like it are not."""

    logits: Floats
    last: Floats
    n_tied: Ints


@leaf_kernel
def _fill_log_rest(rows: _Rows, temperatures: Floats, scratch: Floats, out: Floats) -> None:
    """Log sum e**(z / T) of the logits below the last that is kept, and of those like it that are not: out (n, S)."""
    for i in range(rows.logits.shape[0]):
        last, n, highest = rows.last[i], 0, -np.inf
        for z in rows.logits[i]:
            if -np.inf < z < last:
                scratch[0, n] = z
                highest = max(highest, z)
                n += 1
        n_tied = 0 if last == -np.inf else rows.n_tied[i]
        highest = last if n_tied > 0 else highest
        gaps, weight = scratch[0, :n], scratch[1, :n]
        for j in range(n):
            gaps[j] -= highest
        for s in range(temperatures.shape[0]):
            weigh(gaps, temperatures[s], weight)
            total = mass_below(weight, n) + n_tied
            out[i, s] = math.log(total) + highest / temperatures[s] if total > 0.0 else -np.inf


def with_largest(block: Block, top: int, temperatures: Floats) -> TopRows:
    """Whole rows cut down to their largest logits, with the log-sums of the others at some temperatures.

    Sums are float32, which is finer than bounds are between two temperatures, unless the logits are float64.
    """
    found, n_classes = largest(block, top), block.shape[1]
    sums = np.empty((len(block), len(temperatures)))
    rows = _Rows(widened(block), found.logits[:, -1].astype(np.float64), found.n_tied)
    _fill_log_rest(rows, temperatures, np.empty((2, n_classes)), sums)
    with np.errstate(over="ignore"):
        kept: Block = sums if block.dtype == np.float64 else sums.astype(np.float32)
    indices = found.indices.astype(_smallest(n_classes))
    return TopRows(found.logits, indices, n_classes, Stated(temperatures, kept, of_all=False))


def _smallest(n_classes: int) -> np.dtype[Any]:
    """The smallest type that numbers all classes."""
    return np.min_scalar_type(n_classes - 1)
