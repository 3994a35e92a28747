"""What every statement of the theory starts from: finite logits, sorted in falling order, and softmaxes as logarithms.

Logits may be 10,000 apart and temperatures small, so probabilities of e**-200000 are ordinary here. Everything is
kept as a logarithm until a number is handed out: nothing overflows, and what underflows still has a sign.

Set sizes as the paper's section 4 counts them, L = min{l : the score of rank l >= q}, for one row or ten thousand.

The score of rank l is the mass of the first l ranks (u = 1), or that of the first l - 1 and the part u of the l-th. So
L is one more than the number of labels with a score below q. Scores and thresholds are compared as the classifier
does, by pairs that still differ where the numbers round to 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset.arrays import Block, Floats, Ints, Pairs, pairs
from thermoset.bounds import checked_seed, checked_temperature, real_number
from thermoset.conformal.scoring import predict_sizes
from thermoset.data import Logits, as_logits
from thermoset.errors import InputError
from thermoset.kernels import SATURATED
from thermoset.levels import Alpha, conformal_rank, rows_needed
from thermoset.quoting import quoted
from thermoset.rows import SortedRows, Source, block_rows, run_tasks
from thermoset.scores import APS
from thermoset.uniforms import Randomness, draw_uniforms

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


@dataclass(frozen=True)
class Threshold:
    """A threshold q of APS: the largest pair that is below it, and the logarithm of 1 - q."""

    value: float
    below: Pairs
    log_left: float


def as_threshold(q: Any, name: str = "q") -> Threshold:
    """Read a threshold: a number in (0, 1], or the pair a fitted classifier keeps in `thresholds_`."""
    if isinstance(q, np.ndarray) and q.shape == (1, 1) and np.iscomplexobj(q):
        value, tie = float(q[0, 0].real), float(q[0, 0].imag)
        if value == np.inf:
            raise InputError(f"{name} is infinite: too few rows for alpha. Add rows or raise alpha.")
    else:
        value = real_number(q, name, 5e-324, 1, "a threshold of APS, in (0, 1]", "Pass thresholds_ of a classifier.")
        with np.errstate(divide="ignore"):
            tie = -float(np.log1p(-value))
        if value < SATURATED:  # a number says nothing of tie-breaks: every score with this value reaches it
            return Threshold(value, pairs(value, -np.inf).reshape(1, 1, 1), -tie)
    below = pairs(1.0 if value >= SATURATED else value, np.nextafter(tie, -np.inf))
    return Threshold(value, below.reshape(1, 1, 1), -tie)


def paper_sizes(logits: Any, temperature: float, q: float | Pairs, *, u: ArrayLike = 1.0) -> Ints:
    """Size L of each row's APS set in the paper's sense: the first rank whose score reaches the threshold q.

    Without ties it is one more than the number of labels in the set {score <= q}. With u < 1 the last score is below
    1, and L is C + 1 where even that is below q. `q` is a number or `thresholds_` of a fitted classifier, which is
    exact where the number has been rounded.

    >>> import numpy as np
    >>> z = np.log([[0.5, 0.25, 0.125, 0.125]])  # scores 0.5, 0.75, 0.875, 1
    >>> [int(paper_sizes(z, 1.0, q)[0]) for q in (0.25, 0.5, 0.51, 0.8, 1.0)]
    [1, 1, 2, 3, 4]
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    threshold, given = as_threshold(q), checked_u(u, len(data))
    sizes: Ints = 1 + predict_sizes(data, APS(), t, Randomness(given=given), threshold.below, None)[0]
    return sizes


def row_u(logits: Any, random_state: int = 0) -> Floats:
    """Each row's u as `ConformalClassifier` draws it: a hash of the seed and the row's content.

    >>> u = row_u([[3.0, 1.0], [1.0, 3.0], [2.0, 0.5]])
    >>> bool(u[0] == u[1]), bool(u[0] == u[2])
    (True, False)
    """
    return draw_uniforms(finite_logits(logits), checked_seed(random_state))


def checked_u(u: ArrayLike, n_rows: int) -> Floats:
    """Read u: one number in [0, 1], or one for each row."""
    try:
        given = np.asarray(u, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"u must be one number in [0, 1], or one for each of {n_rows} rows; got {quoted(u)}."
        ) from None
    if given.shape not in ((), (n_rows,)) or not np.all((given >= 0) & (given <= 1)):
        raise InputError(f"u must be one number in [0, 1], or one for each of {n_rows} rows; got shape {given.shape}.")
    return np.broadcast_to(given, (n_rows,)).copy()
