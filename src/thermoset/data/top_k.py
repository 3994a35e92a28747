"""Rows that are not whole: the K largest logits of each, and what is known of the others.

>>> rows = TopLogits([[3.0, 1.0, 0.5, 0.0]], [[7, 2, 9, 4]], n_classes=10, labels=[2])
>>> rows
TopLogits(1 rows x 10 classes, the 4 largest, float64, labelled)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block, Ints, as_float64, as_int64, read_only
from thermoset.bounds import checked_temperature, whole_number
from thermoset.data.groups import Groups, read_groups
from thermoset.data.guards import LOGITS
from thermoset.data.labels import class_names, label_indices
from thermoset.data.logits import Logits, as_logits
from thermoset.data.reading import check_logits, foreign_array, read_table
from thermoset.data.tail_mass import Stated, fill_tail, stated_bounds, too_heavy, too_light
from thermoset.errors import InputError
from thermoset.quoting import quoted
from thermoset.rows import block_rows

LEAST_KEPT = 4
"""Logits a row must keep: u is computed from the largest ones (`uniforms`)."""
MOST_CLASSES = 10_000_000
TEMPERATURES = (0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.0, 3.0, 5.0)
"""Where the log-sums of what is left out are kept: the range in which sets are chosen, densest where they change most.

Between them, bounds of the mass left out are some thousandths of a row apart on ImageNet."""
_FEWEST, _MOST, _SHARE = 16, 512, 25  # a twenty-fifth makes a file of float16 ten times smaller, indices included
_MOST_COMPLETED = 2**32  # bytes that `logits` may take

Indices = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class TopRows:
    """The K largest logits of each row, descending, the classes they belong to, and what is stated of the others.

    logits (n, K), indices (n, K); of equal logits the lower index comes first, also of those that are not kept.
    """

    logits: Block
    indices: Indices
    n_classes: int
    stated: Stated

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.logits)

    @property
    def n_tail(self) -> int:
        """How many classes of a row are not kept."""
        return self.n_classes - int(self.logits.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""
        return len(self.logits), self.n_classes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the logits."""
        return self.logits.dtype

    def part(self, rows: Any) -> "TopRows":
        """Some of the rows, by a slice or an array."""
        logits, indices, sums = (
            np.ascontiguousarray(part[rows]) for part in (self.logits, self.indices, self.stated.log_sums)
        )
        return replace(self, logits=logits, indices=indices, stated=self.stated._replace(log_sums=sums))

    @staticmethod
    def concatenate(parts: "Sequence[TopRows]") -> "TopRows":
        """Rows of several, one after the other; all keep as many logits and state the same."""
        logits, indices, sums = (
            np.concatenate(arrays)
            for arrays in zip(*((part.logits, part.indices, part.stated.log_sums) for part in parts), strict=True)
        )
        return replace(parts[0], logits=logits, indices=indices, stated=parts[0].stated._replace(log_sums=sums))

    def complete(self) -> Block:
        """Whole rows (n, C) of the type of the kept logits: a best guess at the others."""
        whole = np.empty(self.shape, dtype=self.dtype)
        if self.n_tail:
            whole[:] = fill_tail(self.logits, self.stated, self.n_classes)[:, None]
        np.put_along_axis(whole, self.indices.astype(np.int64), self.logits, axis=1)
        return whole


def tops_of(source: object) -> TopRows | None:
    """The record of a source whose rows are not whole; None for whole rows."""
    tops: TopRows | None = getattr(source, "tops", None)
    return tops


class TopLogits(Logits):
    """The K largest logits of each row, with their classes, and what is known of the others.

    Taken wherever `Logits` are. Sets keep the promise: calibration takes the most that a label's score can be and
    prediction the least, so that sets include labels where nobody can tell. What only chooses (temperatures) or
    describes (probabilities, figures) works on completed rows, a best guess: `logits` and `blocks`.

    Parameters
    ----------
    top_logits : array-like (n, K)
        The largest logits of each row, in any order. K is at least 4, or the number of classes.
    top_indices : array-like (n, K)
        The class of each, counted from 0.
    n_classes : int
        How many classes there are.
    log_rest : array-like (n, S), optional
        log sum e**(z / T) over the classes that are not kept, at each of the S `rest_temperatures`; -inf where all of
        them are masked.
    rest_temperatures : sequence of S numbers, optional
    log_sum_exp : array-like (n,), optional
        Instead: log sum e**z over all classes. For log-probabilities it is 0.
    labels, classes
        As for `Logits`.

    Attributes
    ----------
    top_logits : float array (n, K), descending
    top_indices : int array (n, K)
    labels, classes

    >>> rows = TopLogits([[3.0, 1.0, 0.5, 0.0]], [[7, 2, 9, 4]], 10, log_sum_exp=[3.3])
    >>> rows.n_classes, rows.top, rows.logits.shape
    (10, 4, (1, 10))
    """

    __slots__ = ()

    _rows: TopRows

    def __init__(
        self,
        top_logits: object,
        top_indices: object,
        n_classes: int,
        *,
        log_rest: object = None,
        rest_temperatures: Sequence[float] | None = None,
        log_sum_exp: object = None,
        labels: object = None,
        classes: Sequence[str] | None = None,
        groups: object = None,
    ) -> None:
        most = whole_number(n_classes, "n_classes", 2, MOST_CLASSES, "It counts all classes.")
        values = read_table(top_logits, "top_logits").values
        check_logits(values, "top_logits")
        indices = _read_indices(top_indices, values.shape, most)
        if values.shape[1] < min(LEAST_KEPT, most):
            raise InputError(f"rows must keep at least {LEAST_KEPT} logits; got {values.shape[1]}. Keep more.")
        stated = _read_stated(len(values), log_rest, rest_temperatures, log_sum_exp)
        values, indices = _in_descending_order(values, indices)
        _check_stated(values, stated, most)
        names = None if classes is None else class_names(classes, most)
        own = None if labels is None else label_indices(labels, (len(values), most), names)
        known = None if groups is None else read_groups(groups, len(values))
        self._set(TopRows(values, indices, most, stated), own, names, known, LOGITS)

    @property
    def top(self) -> int:
        """Number of logits that a row keeps."""
        return int(self._rows.logits.shape[1])

    @property
    def top_logits(self) -> Block:
        """The largest logits of each row, (n, K), descending."""
        return read_only(self._rows.logits)

    @property
    def top_indices(self) -> Indices:
        """Their classes, (n, K)."""
        return read_only(self._rows.indices)

    @property
    def n_masked(self) -> int:
        """Number of kept logits that are -inf."""
        return int(np.isneginf(self._rows.logits).sum())

    @property
    def log_rest(self) -> Block | None:
        """Log-sums of the classes that are not kept, (n, S), where they are stated."""
        stated = self._rows.stated
        return None if stated.of_all or not stated.temperatures.size else read_only(stated.log_sums)

    @property
    def rest_temperatures(self) -> tuple[float, ...]:
        """The temperatures of `log_rest`."""
        return () if self.log_rest is None else tuple(self._rows.stated.temperatures.tolist())

    @property
    def log_sum_exp(self) -> Block | None:
        """Log-sum of all classes, (n,), where it is stated."""
        return read_only(self._rows.stated.log_sums[:, 0]) if self._rows.stated.of_all else None

    @property
    def tops(self) -> TopRows | None:
        """What is kept, where classes are missing; None where rows are whole after all."""
        return None if self.top == self.n_classes else self._rows

    @property
    def logits(self) -> Block:
        """Completed rows (n, C): a best guess that carries no promise; computed anew at each call."""
        size = self.n_rows * self.n_classes * self.dtype.itemsize
        if size > _MOST_COMPLETED:
            raise InputError(
                f"{self.n_rows:,} rows of {self.n_classes:,} classes would take {size:,} bytes, completed. "
                "Take fewer rows at a time."
            )
        return self._rows.complete()

    def _block(self, rows: slice) -> Block:
        """Completed rows; see `logits`."""
        return self._rows.part(rows).complete()

    def _reordered_rows(self, order: Ints) -> TopRows:
        logits, indices = _in_descending_order(self._rows.logits, np.argsort(order)[self._rows.indices])
        return replace(self._rows, logits=logits, indices=indices.astype(self._rows.indices.dtype))

    def _take_rows(self, index: Any) -> TopRows:
        return self._rows.part(index)

    def _joined_rows(self, other: Logits, labels: Ints, groups: Groups | None) -> "TopLogits":
        if not isinstance(other, TopLogits) or self._layout != other._layout:
            raise InputError(
                "rows that are not whole can be joined only with rows of the same classes that keep as many logits and "
                "state the same sums of the others."
            )
        rows = TopRows.concatenate([self._rows, other._rows])
        return self._with(rows=rows, labels=labels, groups=groups)

    @property
    def _layout(self) -> tuple[object, ...]:
        """What rows must have in common to stand in one table."""
        stated = self._rows.stated
        return self.dtype, self.top, self.n_classes, self.classes, stated.of_all, stated.temperatures.tolist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopLogits):
            return NotImplemented
        pairs: list[tuple[Any, Any]] = [(self.labels, other.labels), (self._rows.logits, other._rows.logits)]
        pairs += [(self._rows.indices, other._rows.indices), (self._rows.stated.log_sums, other._rows.stated.log_sums)]
        alike = self._layout == other._layout and self.groups == other.groups
        return alike and all(np.array_equal(*pair) for pair in pairs)

    __hash__ = None  # arrays compare by value


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
    kept, at = checked_top(top, data.n_classes), _distinct_temperatures(temperatures, "temperatures")
    parts = [_with_largest(block, kept, at) for _, block in data.blocks(block_rows(data.n_classes))]
    return TopLogits.from_checked(TopRows.concatenate(parts), data.labels, data.classes, data.groups, data.input_kind)


def checked_top(top: int | None, n_classes: int) -> int:
    """How many logits to keep."""
    if top is None:
        return min(max(n_classes // _SHARE, _FEWEST), _MOST, n_classes)
    fewest = min(LEAST_KEPT, n_classes)
    return whole_number(top, "top", fewest, n_classes, "It is how many logits of a row to keep.")


def _with_largest(block: Block, top: int, temperatures: NDArray[np.float64]) -> TopRows:
    """The `top` largest of each row, and the log-sums of the others; of equal logits the lower classes are kept."""
    from thermoset.kernels import log_left_out  # noqa: PLC0415 - reading and writing such rows needs no compiler

    n_rows, n_classes = block.shape
    smallest = np.partition(block, n_classes - top, axis=1)[:, n_classes - top, None]
    chosen, tied = block > smallest, block == smallest
    places = top - chosen.sum(axis=1)
    n_tied = tied.sum(axis=1) - places
    # The quick way is right where all that tie are kept; elsewhere those of the lowest classes are.
    crowded = np.flatnonzero(n_tied)
    tied[crowded] &= np.cumsum(tied[crowded], axis=1) <= places[crowded, None]
    indices = np.nonzero(chosen | tied)[1].reshape(n_rows, top)
    order = np.argsort(-np.take_along_axis(block, indices, axis=1), axis=1, kind="stable")
    indices = np.take_along_axis(indices, order, axis=1)
    logits = np.take_along_axis(block, indices, axis=1)

    # Sums are float32, which is finer than bounds are between two temperatures, unless the logits are float64.
    sums, last = np.empty((n_rows, len(temperatures))), logits[:, -1].astype(np.float64)
    log_left_out(as_float64(block), last, as_int64(n_tied), temperatures, np.empty((2, n_classes)), sums)
    with np.errstate(over="ignore"):
        kept: Block = sums if block.dtype == np.float64 else sums.astype(np.float32)
    small = indices.astype(np.min_scalar_type(n_classes - 1))
    return TopRows(logits, small, n_classes, Stated(temperatures, kept, of_all=False))


def _read_indices(values: object, shape: tuple[int, ...], n_classes: int) -> Indices:
    """Check classes: whole numbers in range, no class twice in a row."""
    indices = np.asarray(values) if isinstance(values, list | tuple) else foreign_array(values, "top_indices")
    if indices.shape != shape or indices.dtype.kind not in "iu":
        raise InputError(
            f"top_indices must be whole numbers, shape {shape} as top_logits; got {indices.dtype}, shape "
            f"{indices.shape}."
        )
    outside = np.argwhere((indices < 0) | (indices >= n_classes))
    if len(outside):
        row, place = outside[0]
        raise InputError(
            f"top_indices[{row}, {place}] is {indices[row, place]}; classes are 0 to {n_classes - 1}. Check n_classes."
        )
    ascending = np.sort(indices, axis=1)
    twice = np.flatnonzero((ascending[:, 1:] == ascending[:, :-1]).any(axis=1))
    if len(twice):
        raise InputError(f"top_indices[{twice[0]}] names a class twice; {len(twice)} such row(s). Keep it once.")
    return np.ascontiguousarray(indices)


def _in_descending_order(values: Block, indices: Indices) -> tuple[Block, Indices]:
    """Logits descending along each row, and of equal ones the lower class first."""
    descends = values[:, 1:] < values[:, :-1]
    descends |= (values[:, 1:] == values[:, :-1]) & (indices[:, 1:] > indices[:, :-1])
    if descends.all():
        return values, indices
    order = np.lexsort((indices.astype(np.int64), -values), axis=1)
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(indices, order, axis=1)


def _read_stated(n_rows: int, log_rest: object, temperatures: object, log_sum_exp: object) -> Stated:
    """Check the sums that are given: of the rest at some temperatures, of all, or none."""
    if (log_rest is None) != (temperatures is None):
        raise InputError("log_rest and rest_temperatures go together. Pass both or neither.")
    if log_rest is not None and log_sum_exp is not None:
        raise InputError("log_rest and log_sum_exp cannot both be given. Pass only one.")
    if log_rest is not None:
        listed = temperatures.tolist() if hasattr(temperatures, "tolist") else temperatures
        if not isinstance(listed, list | tuple | range):
            raise InputError(f"rest_temperatures must be a list of temperatures; got {quoted(temperatures)}.")
        at = _distinct_temperatures(listed, "rest_temperatures")
        return Stated(at, _sums(log_rest, (n_rows, len(at)), "log_rest"), of_all=False)
    if log_sum_exp is not None:
        return Stated(np.ones(1), _sums(log_sum_exp, (n_rows,), "log_sum_exp")[:, None], of_all=True)
    return Stated(np.empty(0), np.empty((n_rows, 0)), of_all=False)


def _sums(values: object, shape: tuple[int, ...], name: str) -> Block:
    sums = np.asarray(values) if isinstance(values, list | tuple) else foreign_array(values, name)
    if sums.shape != shape or sums.dtype.kind not in "fiu":
        raise InputError(f"{name} must be numbers of shape {shape}; got {sums.dtype}, shape {sums.shape}.")
    sums = sums if sums.dtype in (np.float16, np.float32, np.float64) else sums.astype(np.float64)
    bad = np.argwhere(np.isnan(sums) | np.isposinf(sums) | (np.isneginf(sums) & (name == "log_sum_exp")))
    if len(bad):
        where = ", ".join(map(str, bad[0]))
        raise InputError(f"{name}[{where}] is {sums[tuple(bad[0])]}; it must be a finite number.")
    return sums


def _check_stated(values: Block, stated: Stated, n_classes: int) -> None:
    n_tail = n_classes - values.shape[1]
    if n_tail == 0 or not stated.temperatures.size:
        return
    name = "log_sum_exp" if stated.of_all else "log_rest"
    bounds = stated_bounds(values, stated, n_classes)
    light = np.flatnonzero(too_light(bounds).any(axis=1))
    if len(light):
        raise InputError(
            f"{name}[{light[0]}] is less than the log-sum of the logits that are kept; {len(light)} such row(s). "
            "It must be that of all classes, at T = 1."
        )
    heavy = np.flatnonzero(too_heavy(bounds, n_tail).any(axis=1))
    if len(heavy):
        raise InputError(
            f"{name}[{heavy[0]}] is more than {n_tail} classes can have that are not above the smallest kept logit; "
            f"{len(heavy)} such row(s). Are these the {values.shape[1]} largest logits?"
        )


def _distinct_temperatures(temperatures: Sequence[float], name: str) -> NDArray[np.float64]:
    at = [checked_temperature(one, name) for one in temperatures]
    if len(set(at)) != len(at):
        raise InputError(f"{name} must be different from each other; got {at}.")
    return np.array(at, dtype=np.float64)
