"""How far temperature moves the mass of the top classes: the gap g, its derivative, the differences d, the entropy.

Numbers are kept as logarithms until they are returned: probabilities of e**-200000 are ordinary values. No two nearly
equal numbers are subtracted, so that signs are exact.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from thermoset.arrays import Block, Floats, Ints
from thermoset.bounds import checked_temperature
from thermoset.data import Logits, as_logits
from thermoset.errors import InputError
from thermoset.levels import Alpha, conformal_rank, rows_needed
from thermoset.quoting import quoted
from thermoset.rows import SortedRows, block_rows, run_tasks

_FURTHEST = 1e300  # differences beyond it would overflow when added; exp(-1e300) is 0 as well


def finite_logits(logits: Any, labels: Any = None) -> Logits:
    """Read logits without masked classes, which the theory does not know."""
    data = as_logits(logits, labels)
    masked = data.n_masked
    if masked:
        blocks = ((rows.start, np.isneginf(block).any(axis=1)) for rows, block in data.blocks(1024))
        row = next(first + int(np.argmax(mask)) for first, mask in blocks if mask.any())
        raise InputError(
            f"the theory needs finite logits, but row {row} has a masked class (-inf); {masked} such values. Drop the "
            "masked columns or those rows."
        )
    return data


def each_row(
    data: Logits | SortedRows,
    work: Callable[[Floats, slice], NDArray[Any]],
    shape: tuple[int, ...] = (),
    dtype: DTypeLike = np.float64,
) -> NDArray[Any]:
    """What `work(ranked, rows)` gives for each row: blocks of rows in descending order, as float64.

    Of `SortedRows`, which are sorted once for all temperatures, blocks are z - max z.
    """
    source = data.source if isinstance(data, SortedRows) else data
    out = np.empty((source.n_rows, *shape), dtype=dtype)

    def fill(block: Block, rows: slice) -> None:
        if isinstance(data, SortedRows):
            ranked = data.sorter.gaps(rows.start, block)
        else:
            ranked = -np.sort(-block.astype(np.float64), axis=1)
        out[rows] = work(ranked, rows)

    run_tasks(partial(fill, block, rows) for rows, block in source.blocks(block_rows(source.n_classes)))
    return out


def checked_places(m: ArrayLike, n_rows: int, n_classes: int) -> Ints:
    """Read how many top classes a sum takes: a whole number, or one for each row, from 0 to C."""
    places = np.asarray(m)
    if places.dtype.kind not in "iu" or places.shape not in ((), (n_rows,)):
        raise InputError(f"m must be one whole number, or one for each of {n_rows} rows; got {quoted(m)}.")
    if places.size and not (places.min() >= 0 and places.max() <= n_classes):
        raise InputError(f"m must be from 0 to {n_classes}, the number of classes; got {quoted(m)}.")
    return np.broadcast_to(places.astype(np.int64), (n_rows,))


def not_one(temperature: float) -> float:
    """Read a temperature that is compared with 1."""
    t = checked_temperature(temperature)
    if t == 1:
        raise InputError("the theory compares T with 1, but got T = 1. Pass another temperature.")
    return t


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
    """Log probabilities at a temperature, for rows in descending order."""
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


def checked_u(u: ArrayLike, n_rows: int) -> Floats:
    """Read u: one number in [0, 1], or one for each row."""
    wanted = f"u must be one number in [0, 1], or one for each of {n_rows} rows"
    numbers = checked_numbers(u, wanted)
    if numbers.shape not in ((), (n_rows,)) or not np.all((numbers >= 0) & (numbers <= 1)):
        raise InputError(f"{wanted}; got shape {numbers.shape}.")
    return np.broadcast_to(numbers, (n_rows,)).copy()


def checked_numbers(values: ArrayLike, wanted: str) -> Floats:
    """Read numbers of any shape; `wanted` is the beginning of the message."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{wanted}; got {quoted(values)}.") from None


def margins(logits: Any) -> Floats:
    """Distance of the two largest logits of each row, dz = z_(1) - z_(2).

    >>> margins([[1.0, 9.0, 4.0], [2.0, 2.0, 0.0]])
    array([5., 0.])
    """
    return each_row(finite_logits(logits), lambda ranked, _: distances(ranked[:, 0], ranked[:, 1], 1.0))


def gap(logits: Any, temperature: float, m: ArrayLike) -> Floats:
    """Gap function g(z; T, M): the top-M mass at T = 1 minus that at T (paper, eq. 4). One number a row.

    Not negative for T > 1, not positive for T < 1; zero only for T = 1, M = 0 or C, or equal logits. `m` is a whole
    number or one for each row.

    >>> import numpy as np
    >>> z = np.log([[0.64, 0.36]])  # T = 2 takes square roots: 0.8 and 0.6, over their sum
    >>> gap(z, 2.0, 1).round(12) == np.round(0.64 - 0.8 / 1.4, 12)
    array([ True])
    >>> gap(z, 2.0, 2)
    array([0.])
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    places = checked_places(m, len(data), data.n_classes)
    sizes = np.exp(log_gaps(data, min(t, 1.0), max(t, 1.0), places))
    return sizes if t >= 1 else 0.0 - sizes


def log_gaps(data: Any, cool: float, hot: float, places: Ints) -> Floats:
    """Logarithm of head_cool(M) - head_hot(M) for each row; -inf where the two are equal.

    With k = 1/cool - 1/hot it is the sum over i <= M < j of p_cool(i) p_hot(j) (1 - exp(-k (z_i - z_j))), whose terms
    are never negative. Split at z_M, 1 - exp(...) is again a sum of such terms, so that two sums over classes do.
    """
    rate = (hot - cool) / hot / cool

    def work(ranked: Floats, rows: slice) -> Floats:
        m = places[rows, None]
        head = np.arange(ranked.shape[1]) < m
        pivot = np.take_along_axis(ranked, np.maximum(m - 1, 0), axis=1)
        distance = distances(ranked, pivot, rate)
        with np.errstate(divide="ignore"):
            lost = np.log(-np.expm1(-distance))
        inside = np.where(head, log_softmax(ranked, cool), -np.inf)
        outside = np.where(head, -np.inf, log_softmax(ranked, hot))
        one = log_sum(inside + lost) + log_sum(outside)
        other = log_sum(inside - distance) + log_sum(outside + lost)
        return np.asarray(np.logaddexp(one, other))

    return each_row(data, work)


def gap_derivative(logits: Any, temperature: float, m: ArrayLike) -> Floats:
    """Derivative of g(z; T, M) in the largest logit z_1, the others held. One number a row; zero for M = C.

    >>> import numpy as np
    >>> z = np.log([[0.64, 0.36]])  # p = 0.64, and 0.8 / 1.4 at T = 2: p (1 - p) - q (1 - q) / 2
    >>> gap_derivative(z, 2.0, 1).round(12) == np.round(0.64 * 0.36 - 0.8 * 0.6 / 1.4**2 / 2, 12)
    array([ True])
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    first, second = slope_logs(data, t, checked_places(m, len(data), data.n_classes))
    return np.asarray(np.exp(first) - np.exp(second))


def slope_logs(data: Any, temperature: float, places: Ints) -> Floats:
    """Logarithms of the two terms of the derivative: p_1 tail_1(M) and p_T,1 tail_T(M) / T. Shape (2, n)."""

    def work(ranked: Floats, rows: slice) -> Floats:
        tail = np.arange(ranked.shape[1]) >= places[rows, None]
        terms = []
        for t in (1.0, temperature):
            log_p = log_softmax(ranked, t)
            terms.append(log_p[:, 0] + log_sum(np.where(tail, log_p, -np.inf)) - np.log(t))
        return np.stack(terms, axis=1)

    return each_row(data, work, (2,)).T


def difference(logits: Any, temperature: float) -> Floats:
    """Elementwise difference d(z; T, i) = p_(i) - p_T,(i) of the sorted softmaxes at T = 1 and at T, (n, C).

    >>> import numpy as np
    >>> d = difference(np.log([[0.64, 0.36]]), 2.0)
    >>> d.round(12) == np.round([[0.64 - 0.8 / 1.4, 0.36 - 0.6 / 1.4]], 12)
    array([[ True,  True]])
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    cool, hot = min(t, 1.0), max(t, 1.0)

    def work(ranked: Floats, _: slice) -> Floats:
        moved: Floats = np.exp(log_softmax(ranked, hot)) * np.expm1(_log_ratio(ranked, cool, hot))
        return moved if t >= 1 else 0.0 - moved

    return each_row(data, work, (data.n_classes,))


def last_index(logits: Any, temperature: float) -> Ints:
    """Last rank s_T up to which d has the sign of d_1: temperature takes mass from ranks 1 .. s_T (gives, for T < 1).

    From 1 to C - 1; 0 where there is none, which is for equal logits and for T = 1. It never parts equal logits.

    >>> last_index([[5.0, 1.0, 0.0], [2.0, 2.0, 2.0], [3.0, 2.8, 0.0]], 1.5)
    array([1, 0, 2])
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    cool, hot = min(t, 1.0), max(t, 1.0)

    def work(ranked: Floats, _: slice) -> Ints:
        # d_1 and d_C have opposite signs unless all logits are equal: known, where rounding could not tell
        above = (_log_ratio(ranked, cool, hot) > 0) | (ranked == ranked[:, :1])
        return np.asarray(np.count_nonzero(above & (ranked > ranked[:, -1:]) & (cool < hot), axis=1))

    return each_row(data, work, dtype=np.int64)


def _log_ratio(ranked: Floats, cool: float, hot: float) -> Floats:
    """Logarithm of p_cool / p_hot of every class: falls with the rank, equal for equal logits, at most log C.

    It is log(Z_hot / Z_cool) - k (z_1 - z_i), and Z_hot - Z_cool is a sum of terms that are not negative.
    """
    top = ranked[:, :1]
    lost = distances(ranked, top, (hot - cool) / hot / cool)
    z_cool = np.exp(-distances(ranked, top, 1 / cool)).sum(axis=1, keepdims=True)
    grown = (np.exp(-distances(ranked, top, 1 / hot)) * -np.expm1(-lost)).sum(axis=1, keepdims=True)
    return np.asarray(np.log1p(grown / z_cool) - lost)


def entropy(logits: Any, temperature: float) -> Floats:
    """Shannon entropy of softmax(z / T) in nats, one number a row.

    It is log(Z) + sum_i p_i (z_1 - z_i) / T with Z relative to the top class: terms that are never negative.

    >>> import numpy as np
    >>> entropy([[0.0, 0.0, 0.0, 0.0]], 3.0) == np.log(4)
    array([ True])
    >>> bool(entropy([[5.0, 1.0, 0.0]], 1.0) < entropy([[5.0, 1.0, 0.0]], 1.1))
    True
    """
    data, t = finite_logits(logits), checked_temperature(temperature)

    def work(ranked: Floats, _: slice) -> Floats:
        falls = distances(ranked, ranked[:, :1], 1 / t)
        weights = np.exp(-falls)
        rest = weights[:, 1:].sum(axis=1)
        return np.asarray(np.log1p(rest) + (weights * falls).sum(axis=1) / (1 + rest))

    return each_row(data, work)


def entropy_slope(logits: Any, temperature: float) -> Floats:
    """Derivative of the entropy in T: the variance of the logits under softmax(z / T), over T cubed.

    >>> import numpy as np
    >>> z = np.log([[0.5, 0.5, 0.25]])  # p = (0.4, 0.4, 0.2): variance 0.8 * 0.2 * ln(2)**2
    >>> entropy_slope(z, 1.0).round(12) == np.round(0.16 * np.log(2) ** 2, 12)
    array([ True])
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    return np.exp(log_entropy_slopes(data, t))


def log_entropy_slopes(data: Any, temperature: float) -> Floats:
    """Logarithm of the slope; -inf for equal logits alone."""

    def work(ranked: Floats, _: slice) -> Floats:
        log_p = log_softmax(ranked, temperature)
        falls = distances(ranked, ranked[:, :1], 1.0)
        mean = (np.exp(log_p) * falls).sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            away = np.log(np.abs(falls - mean))
        return np.asarray(log_sum(log_p + 2 * away) - 3 * np.log(temperature))

    return each_row(data, work)
