"""Rows that are not whole: the K largest logits of each, and what is known of the others.

>>> rows = TopLogits([[3.0, 1.0, 0.5, 0.0]], [[7, 2, 9, 4]], n_classes=10, labels=[2])
>>> rows
TopLogits(1 rows x 10 classes, the 4 largest, float64, labelled)
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import checked_temperature, whole_number
from thermoset.data import Groups, Logits
from thermoset.data.arrays import Floats, check_logits, class_names, foreign_array, read_table
from thermoset.data.completing import completed
from thermoset.data.groups import read_groups
from thermoset.data.input_kinds import LOGITS
from thermoset.data.labels import label_indices
from thermoset.data.splits import row_index
from thermoset.data.tail_mass import Stated, stated_ends, too_heavy, too_light
from thermoset.data.top_rows import LEAST_KEPT, TopRows
from thermoset.errors import InputError

__all__ = ["MOST_CLASSES", "TopLogits"]

MOST_CLASSES = 10_000_000
MOST_COMPLETED = 2**32  # bytes that `logits` may take

Indices = NDArray[np.integer[Any]]


class TopLogits(Logits):
    """The K largest logits of each row, with their classes, and what is known of the others.

    Taken wherever `Logits` are. Sets keep the promise: calibration takes the most that a label's score can be and
    prediction the least, so that labels are let in where nobody can tell. What only chooses (temperatures) or describes
    (probabilities, figures) works on completed rows, a best guess: `logits` and `blocks`.

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
    top_logits : float array (n, K), falling
    top_indices : int array (n, K)
    labels, classes

    >>> rows = TopLogits([[3.0, 1.0, 0.5, 0.0]], [[7, 2, 9, 4]], 10, log_sum_exp=[3.3])
    >>> rows.n_classes, rows.top, rows.logits.shape
    (10, 4, (1, 10))
    """

    __slots__ = ("_n_classes", "_stated", "top_indices", "top_logits")

    top_logits: Floats
    top_indices: Indices
    _n_classes: int
    _stated: Stated

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
        values, indices = _falling(values, indices)
        _check_stated(values, stated, most)
        names = None if classes is None else class_names(classes, most)
        own = None if labels is None else label_indices(labels, (len(values), most), names)
        known = None if groups is None else read_groups(groups, len(values))
        self._fill(TopRows(values, indices, most, stated), own, names, known)

    @classmethod
    def of(
        cls,
        rows: TopRows,
        labels: NDArray[np.int64] | None,
        classes: tuple[str, ...] | None,
        groups: Groups | None = None,
        input_kind: str = LOGITS,
    ) -> "TopLogits":
        """Rows that have been checked."""
        made: TopLogits = object.__new__(cls)
        made._fill(rows, labels, classes, groups, input_kind)
        return made

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.top_logits)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self._n_classes

    @property
    def top(self) -> int:
        """Number of logits that a row keeps."""
        return int(self.top_logits.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the logits."""
        return self.top_logits.dtype

    @property
    def n_masked(self) -> int:
        """Number of kept logits that are -inf."""
        return int(np.isneginf(self.top_logits).sum())

    @property
    def log_rest(self) -> NDArray[np.floating[Any]] | None:
        """Log-sums of the classes that are not kept, (n, S), where they are stated."""
        return None if self._stated.of_all or not self._stated.temperatures.size else self._stated.log_sums

    @property
    def rest_temperatures(self) -> tuple[float, ...]:
        """The temperatures of `log_rest`."""
        return () if self.log_rest is None else tuple(self._stated.temperatures.tolist())

    @property
    def log_sum_exp(self) -> NDArray[np.floating[Any]] | None:
        """Log-sum of all classes, (n,), where it is stated."""
        return self._stated.log_sums[:, 0] if self._stated.of_all else None

    @property
    def stored(self) -> TopRows:
        """What is kept, as the core takes it."""
        return TopRows(self.top_logits, self.top_indices, self._n_classes, self._stated)

    @property
    def tops(self) -> TopRows | None:
        """The same where classes are missing; None where rows are whole after all."""
        return None if self.top == self.n_classes else self.stored

    @property
    def logits(self) -> Floats:
        """Completed rows (n, C): a best guess that carries no promise; made anew at each call."""
        size = self.n_rows * self.n_classes * self.dtype.itemsize
        if size > MOST_COMPLETED:
            raise InputError(
                f"{self.n_rows:,} rows of {self.n_classes:,} classes would take {size:,} bytes, completed. "
                "Take fewer rows at a time."
            )
        return completed(self.stored)

    def blocks(self, step: int) -> Iterator[tuple[slice, Floats]]:
        """Completed rows, at most `step` at a time, each with its place; see `logits`."""
        rows = self.stored
        for start in range(0, self.n_rows, step):
            place = slice(start, min(start + step, self.n_rows))
            yield place, completed(rows.part(place))

    def head(self, n_rows: int) -> Floats:
        """The first rows, completed, at most so many, (n, C)."""
        return completed(self.stored.part(slice(0, n_rows)))

    def take(self, rows: object) -> "TopLogits":
        """Select rows by number, boolean mask or slice, in the order given."""
        index, stored = row_index(rows, self.n_rows), self.stored
        stated = stored.stated._replace(log_sums=np.ascontiguousarray(stored.stated.log_sums[index]))
        logits, indices = np.ascontiguousarray(stored.logits[index]), np.ascontiguousarray(stored.indices[index])
        labels = None if self.labels is None else self.labels[index]
        groups = None if self.groups is None else self.groups.take(index)
        some = TopRows(logits, indices, self._n_classes, stated)
        return TopLogits.of(some, labels, self.classes, groups, self.input_kind)

    def labelled(self, labels: NDArray[np.int64]) -> "TopLogits":
        """The same rows with labels, which have been checked."""
        return TopLogits.of(self.stored, labels, self.classes, self.groups, self.input_kind)

    def grouped(self, groups: Groups) -> "TopLogits":
        """The same rows with groups, which have been checked."""
        return TopLogits.of(self.stored, self.labels, self.classes, groups, self.input_kind)

    def joined(self, other: Logits) -> "TopLogits":
        """These labelled rows and then the others; both must keep as many logits and state the same."""
        labels = self.require_labels("joining rows"), other.require_labels("joining rows")
        alike = isinstance(other, TopLogits) and _kind(self) == _kind(other) and self.input_kind == other.input_kind
        if not isinstance(other, TopLogits) or not alike:
            raise InputError(
                "rows that are not whole can be joined only with rows of the same classes that keep as many logits and "
                "state the same sums of the others."
            )
        rows, groups = TopRows.stacked([self.stored, other.stored]), self._joined_groups(other)
        return TopLogits.of(rows, np.concatenate(labels), self.classes, groups, self.input_kind)

    def __repr__(self) -> str:
        kept = f"the {self.top} largest"
        return f"TopLogits({self.n_rows} rows x {self.n_classes} classes, {kept}, {self.dtype}{self._extras})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopLogits):
            return NotImplemented
        mine, theirs = self.stored, other.stored
        arrays = (mine.logits, theirs.logits), (mine.indices, theirs.indices), (self.labels, other.labels)
        sums = mine.stated.log_sums, theirs.stated.log_sums
        same = _kind(self) == _kind(other) and self.groups == other.groups
        return same and all(_equal(*pair) for pair in (*arrays, sums))

    __hash__ = None  # arrays compare by value

    def __reduce__(self) -> tuple[Any, ...]:
        return TopLogits.of, (self.stored, self.labels, self.classes, self.groups, self.input_kind)

    def _fill(
        self,
        rows: TopRows,
        labels: NDArray[np.int64] | None,
        classes: tuple[str, ...] | None,
        groups: Groups | None,
        input_kind: str = LOGITS,
    ) -> None:
        parts = {
            "top_logits": _read_only(rows.logits),
            "top_indices": _read_only(rows.indices),
            "_n_classes": rows.n_classes,
            "_stated": rows.stated._replace(log_sums=_read_only(rows.stated.log_sums)),
            "labels": None if labels is None else _read_only(labels),
            "classes": classes,
            "groups": groups,
            "input_kind": input_kind,
        }
        for name, value in parts.items():
            object.__setattr__(self, name, value)


def _kind(rows: TopLogits) -> tuple[object, ...]:
    """What rows must have in common to stand in one table."""
    stated = rows.stored.stated
    return rows.dtype, rows.top, rows.n_classes, rows.classes, stated.of_all, stated.temperatures.tolist()


def _equal(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _read_indices(given: object, shape: tuple[int, ...], n_classes: int) -> Indices:
    """Check classes: whole numbers in range, no class twice in a row."""
    indices = np.asarray(given) if isinstance(given, list | tuple) else foreign_array(given, "top_indices")
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
    rising = np.sort(indices, axis=1)
    twice = np.flatnonzero((rising[:, 1:] == rising[:, :-1]).any(axis=1))
    if len(twice):
        raise InputError(f"top_indices[{twice[0]}] names a class twice; {len(twice)} such row(s). Keep it once.")
    return np.ascontiguousarray(indices)


def _falling(values: Floats, indices: Indices) -> tuple[Floats, Indices]:
    """Rows by falling logit; of equal logits the lower index first."""
    ordered = values[:, 1:] < values[:, :-1]
    ordered |= (values[:, 1:] == values[:, :-1]) & (indices[:, 1:] > indices[:, :-1])
    if ordered.all():
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
        at = [checked_temperature(one, "rest_temperatures") for one in np.asarray(temperatures).tolist()]
        if len(set(at)) != len(at):
            raise InputError(f"rest_temperatures must be different from each other; got {at}.")
        return Stated(np.array(at, dtype=np.float64), _sums(log_rest, (n_rows, len(at)), "log_rest"), of_all=False)
    if log_sum_exp is not None:
        return Stated(np.ones(1), _sums(log_sum_exp, (n_rows,), "log_sum_exp")[:, None], of_all=True)
    return Stated(np.empty(0), np.empty((n_rows, 0)), of_all=False)


def _sums(given: object, shape: tuple[int, ...], name: str) -> Floats:
    sums = np.asarray(given) if isinstance(given, list | tuple) else foreign_array(given, name)
    if sums.shape != shape or sums.dtype.kind not in "fiu":
        raise InputError(f"{name} must be numbers of shape {shape}; got {sums.dtype}, shape {sums.shape}.")
    sums = sums if sums.dtype in (np.float16, np.float32, np.float64) else sums.astype(np.float64)
    bad = np.argwhere(np.isnan(sums) | np.isposinf(sums) | (np.isneginf(sums) & (name == "log_sum_exp")))
    if len(bad):
        where = ", ".join(map(str, bad[0]))
        raise InputError(f"{name}[{where}] is {sums[tuple(bad[0])]}; it must be a finite number.")
    return sums


def _check_stated(values: Floats, stated: Stated, n_classes: int) -> None:
    """Refuse sums that the logits contradict."""
    n_rest = n_classes - values.shape[1]
    if n_rest == 0 or not stated.temperatures.size:
        return
    name = "log_sum_exp" if stated.of_all else "log_rest"
    ends = stated_ends(values, stated, n_classes)
    light = np.flatnonzero(too_light(ends).any(axis=1))
    if len(light):
        raise InputError(
            f"{name}[{light[0]}] is less than the log-sum of the logits that are kept; {len(light)} such row(s). "
            "It must be that of all classes, at T = 1."
        )
    heavy = np.flatnonzero(too_heavy(ends, n_rest).any(axis=1))
    if len(heavy):
        raise InputError(
            f"{name}[{heavy[0]}] is more than {n_rest} classes can have that are not above the smallest kept logit; "
            f"{len(heavy)} such row(s). Are these the {values.shape[1]} largest logits?"
        )
