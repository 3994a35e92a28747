"""What every statement of the theory starts from: finite logits, sorted in falling order, and softmaxes as logarithms.

Logits may be 10,000 apart and temperatures small, so probabilities of e**-200000 are ordinary here. Everything is
kept as a logarithm until a number is handed out: nothing overflows, and what underflows still has a sign.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset.arrays import Block, Bools, Floats, Ints
from thermoset.data import Logits, as_logits
from thermoset.errors import InputError
from thermoset.levels import Alpha, conformal_rank, rows_needed
from thermoset.quoting import quoted
from thermoset.rows import SortedRows, Source, block_rows, run_tasks

__all__ = [
    "Bools",
    "Floats",
    "Ints",
    "checked_places",
    "checked_rank",
    "distances",
    "each_ranked",
    "each_row",
    "finite_logits",
    "log_softmax",
    "log_sum",
]

_FURTHEST = 1e300  # differences beyond it would overflow when added; exp(-1e300) is 0 as well


def finite_logits(logits: Any, labels: Any = None) -> Logits:
    """Read logits without masked classes, which the theory does not know."""
    data = as_logits(logits, labels)
    masked = data.n_masked
    if masked:
        found = ((rows.start, np.isneginf(block).any(axis=1)) for rows, block in data.blocks(1024))
        row = next(first + int(np.argmax(here)) for first, here in found if here.any())
        raise InputError(
            f"the theory needs finite logits, but row {row} has a masked class (-inf); {masked} such values. Drop the "
            "masked columns or those rows."
        )
    return data


def each_row(data: Logits, out: NDArray[Any], work: Callable[[Floats, slice], NDArray[Any]]) -> None:
    """Fill `out`, one place a row, with `work(ranked, rows)`: blocks of rows sorted in falling order, as float64."""

    def fill(block: Block, rows: slice) -> None:
        ranked: Floats = -np.sort(-block.astype(np.float64), axis=1)
        out[rows] = work(ranked, rows)

    _for_blocks(data, fill)


def each_ranked(ranked: SortedRows, out: NDArray[Any], work: Callable[[Floats, slice], NDArray[Any]]) -> None:
    """The same with z - max z, for whoever comes back at other temperatures: rows are sorted once where they fit."""

    def fill(block: Block, rows: slice) -> None:
        out[rows] = work(ranked.sorter.gaps(rows.start, block), rows)

    _for_blocks(ranked.source, fill)


def _for_blocks(source: Source, fill: Callable[[Block, slice], None]) -> None:
    run_tasks(partial(fill, block, rows) for rows, block in source.blocks(block_rows(source.n_classes)))


def checked_places(m: ArrayLike, n_rows: int, n_classes: int, name: str = "m") -> Ints:
    """Read how many top classes a sum takes: a whole number, or one for each row, from 0 to C."""
    given = np.asarray(m)
    if given.dtype.kind not in "iu" or given.shape not in ((), (n_rows,)):
        raise InputError(f"{name} must be one whole number, or one for each of {n_rows} rows; got {quoted(m)}.")
    if given.size and not (given.min() >= 0 and given.max() <= n_classes):
        raise InputError(f"{name} must be from 0 to {n_classes}, the number of classes; got {quoted(m)}.")
    return np.broadcast_to(given.astype(np.int64), (n_rows,))


def checked_rank(n_rows: int, alpha: Alpha) -> int:
    """Which order statistic of n scores is the threshold; refused where none is finite."""
    k = conformal_rank(n_rows, alpha)
    if k > n_rows:
        raise InputError(f"alpha={alpha} needs at least {rows_needed(alpha)} conformal rows; got {n_rows}. Add rows.")
    return k


def distances(ranked: Floats, pivot: Floats, rate: float) -> Floats:
    """`rate` times the distance of logits from one of their row, kept finite."""
    with np.errstate(over="ignore"):
        return np.minimum(np.abs(ranked - pivot) * rate, _FURTHEST)


def log_softmax(ranked: Floats, temperature: float) -> Floats:
    """Log probabilities at a temperature, for rows in falling order."""
    falls = distances(ranked, ranked[:, :1], 1 / temperature)
    rest = np.exp(-falls[:, 1:]).sum(axis=1, keepdims=True)  # the top class weighs 1
    return np.asarray(-falls - np.log1p(rest))


def log_sum(terms: Floats) -> Floats:
    """Logarithm of the sum of exponentials along the last axis; -inf is an empty term, and an empty sum."""
    largest = terms.max(axis=-1, keepdims=True)
    largest = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(divide="ignore"):
        total: Floats = largest[..., 0] + np.log(np.exp(terms - largest).sum(axis=-1))
    return total
