"""Counts of what prediction sets contain: of all rows, and of parts of them (classes, groups, strata).

A table of sets is counted once, a sweep counts over trials without making sets, and with u integrated out the counts
are expected ones: the formulas of `thermoset.metrics.sets` are the same. Coverages and gaps are fractions, not percent.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset import kernels
from thermoset.arrays import Bools, Floats, Ints, as_float64
from thermoset.bounds import MOST_ROWS, whole_number
from thermoset.data.groups import read_groups
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.quoting import Brief, quoted

AnyArray = NDArray[np.generic]

SIZE_STRATA = (0, 2, 4, 11, 101)
"""First set size of each stratum of SSCV: 0-1, 2-3, 4-10, 11-100, 101 and more."""

N_STRATA = 10
"""Default number of strata of confidence."""

_STRATUM_NAMES = (*(f"{a}-{b - 1}" for a, b in pairwise(SIZE_STRATA)), f"{SIZE_STRATA[-1]}+")
_MOST_STRATA = 10_000

# --- input validation: nothing here changes its input -------------------------------------------------------------


def as_array(values: ArrayLike, name: str) -> AnyArray:
    """An array of the values, which must not be ragged lists."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} must be a rectangular array; got {type(values).__name__}: {error}.") from error


def check_shape(array: AnyArray, name: str) -> None:
    """Refuse what is no table (rows, classes)."""
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"{name} must have shape (rows, classes) with at least one row and one class; got {array.shape}. "
            "Pass one row per example and one column per class."
        )


def check_sets(sets: ArrayLike) -> Bools:
    """Prediction sets: boolean (n, C), True where the class is in the set."""
    array = as_array(sets, "sets")
    if array.dtype != np.bool_:
        raise InputError(f"sets must be a boolean array; got dtype {array.dtype}. Pass what predict_set returns.")
    check_shape(array, "sets")
    return array.astype(np.bool_, copy=False)


def check_labels(labels: ArrayLike, n_classes: int, n_rows: int | None = None) -> Ints:
    """Labels as column indices 0 .. C-1: at least one, and one for each row where their number is known."""
    array = as_array(labels, "labels")
    if array.ndim != 1 or not len(array) or n_rows not in (None, len(array)):
        wanted = "(rows,) with at least one row" if n_rows is None else f"({n_rows},)"
        raise InputError(f"labels must have shape {wanted}; got {array.shape}. Pass one label per row.")
    if array.dtype.kind not in "iu":
        raise InputError(
            f"labels must be integer class indices; got dtype {array.dtype}. Use the .labels of thermoset.Logits, "
            "which turns class names into indices."
        )
    indices = array.astype(np.int64, copy=False)
    bad = np.flatnonzero((indices < 0) | (indices >= n_classes))
    if len(bad):
        raise InputError(
            f"labels[{bad[0]}] is {array[bad[0]]}; {len(bad)} such values. "
            f"Labels must lie in 0..{n_classes - 1}, the columns of {n_classes} classes."
        )
    return indices


def check_row_values(values: ArrayLike, name: str, kinds: str, advice: str, n_rows: int | None = None) -> AnyArray:
    """One number (`kinds` "fiu") or boolean ("b") per row, not NaN."""
    array = as_array(values, name)
    if array.ndim != 1 or not len(array) or array.dtype.kind not in kinds or n_rows not in (None, len(array)):
        wanted = "(rows,), with at least one row" if n_rows is None else f"({n_rows},), one per row"
        raise InputError(
            f"{name} must be {'booleans' if kinds == 'b' else 'numbers'} of shape {wanted}; got shape {array.shape} of "
            f"{array.dtype}. {advice}"
        )
    if np.isnan(array).any():
        raise InputError(f"{name}[{int(np.isnan(array).argmax())}] is nan. {advice}")
    return array


def check_counts(hits: ArrayLike, counts: ArrayLike, names: tuple[str, str] = ("hits", "counts")) -> tuple[Ints, Ints]:
    """Successes and trials of the same shape, or shapes that broadcast: 0 <= hits <= counts."""
    pair = as_array(hits, names[0]), as_array(counts, names[1])
    for array, name in zip(pair, names, strict=True):
        if array.dtype.kind not in "iu":
            raise InputError(f"{name} must be integers; got dtype {array.dtype}. Pass counts of rows, not shares.")
    successes, trials = (array.astype(np.int64, copy=False) for array in pair)
    try:
        legal = (successes >= 0) & (successes <= trials)
    except ValueError as error:
        raise InputError(
            f"{names[0]} and {names[1]} must have shapes that match; got {successes.shape} and {trials.shape}."
        ) from error
    if not legal.all():
        where = tuple(int(i) for i in np.argwhere(~legal)[0])
        s, t = (int(np.broadcast_to(array, legal.shape)[where]) for array in (successes, trials))
        raise InputError(f"{names[0]} must lie between 0 and {names[1]}; got {s} of {t} at index {where}.")
    return successes, trials


def random_generator(random_state: int | np.random.Generator) -> np.random.Generator:
    """The generator that a seed stands for, or the generator itself."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InputError(
            f"random_state must be a whole number >= 0 or a numpy Generator; got {quoted(random_state)}. Try 0."
        ) from None


# --- counts, and arithmetic on them -------------------------------------------------------------------------------


def ratio(total: Floats | Ints, count: Ints) -> Floats:
    """Total / count, NaN (and no warning) where there is nothing to divide by."""
    quotient: Floats = np.full(np.broadcast_shapes(total.shape, count.shape), np.nan)
    np.divide(total, count, out=quotient, where=count > 0)
    return quotient


_unknown: Any = partial(np.array, np.nan)
_no_rows: Any = partial(np.zeros, 1, np.int64)
_nothing: Any = partial(np.empty, 0)


@dataclass(frozen=True, eq=False, repr=False)
class SetCounts(Brief):
    """Counts of what sets contain; trials, if there are any, are on the leading axes.

    What was not counted is NaN, and so is every metric that needs it.

    Attributes
    ----------
    rows, hits : (..., C)
        Rows of each class, and how many of their sets contain their label: counted, or expected over u.
    members, empty, promised, threshold
        Labels in all sets together; sets without any; the coverage 1 - alpha; the threshold of the scores, or the mean
        of the finite ones.
    top_missed
        Rows whose top label is correct but not in their set.
    stratum_rows, group_rows, confidence_rows, and the same of hits : (..., parts)
        By size of the set, in the strata of `SIZE_STRATA`; by group of rows; by stratum of confidence.
    """

    rows: Ints
    hits: Floats | Ints = field(default_factory=_unknown)
    members: Floats | Ints = field(default_factory=_unknown)
    empty: Floats | Ints = field(default_factory=_unknown)
    promised: float = np.nan
    threshold: Floats = field(default_factory=_unknown)
    stratum_rows: Ints = field(default_factory=_no_rows)
    stratum_hits: Floats | Ints = field(default_factory=_unknown)
    top_missed: Floats | Ints = field(default_factory=_unknown)
    group_rows: Ints = field(default_factory=_no_rows)
    group_hits: Floats | Ints = field(default_factory=_unknown)
    confidence_rows: Ints = field(default_factory=_no_rows)
    confidence_hits: Floats | Ints = field(default_factory=_unknown)

    @cached_property
    def by_group(self) -> "SetCounts":
        """The same sets with groups in place of classes."""
        return SetCounts(self.group_rows, self.group_hits, promised=self.promised)

    @cached_property
    def total(self) -> Ints:
        """Rows of all classes."""
        return np.asarray(self.rows.sum(axis=-1))

    @cached_property
    def coverage(self) -> Floats:
        """Share of rows whose set contains their label."""
        return ratio(np.asarray(self.hits.sum(axis=-1)), self.total)

    @cached_property
    def class_summary(self) -> Floats:
        """Numbers from coverage by class, (6, ...): see `kernels.class_summaries`."""
        n_classes = self.rows.shape[-1]
        out = np.full((6, *self.rows.shape[:-1]), np.nan)
        if self.hits.shape == self.rows.shape:
            hits = np.require(self.hits.reshape(-1, n_classes), np.float64, ("C", "W"))
            rows = np.require(self.rows.reshape(-1, n_classes), np.int64, ("C", "W"))
            sizes = n_top_classes(n_classes), n_worst_classes(n_classes)
            level, counts = np.nan_to_num(self.promised), np.empty(kernels.N_COUNTS, dtype=np.int64)
            kernels.class_summaries(hits, rows, level, *sizes, np.empty((3, n_classes)), counts, out.reshape(6, -1))
        if np.isnan(self.promised):
            out[[0, 1, 2, 5]] = np.nan
        return out

    def largest_gap(self, hits: Floats | Ints, rows: Ints) -> Floats:
        """Largest absolute gap to 1 - alpha over the parts (last axis) that have rows."""
        return np.asarray(np.fmax.reduce(np.abs(ratio(hits, rows) - self.promised), axis=-1))  # fmax leaves NaN out


def coverage_gaps(hits: ArrayLike, counts: ArrayLike, alpha: Alpha) -> Floats:
    """Absolute gap of each coverage hits / counts to 1 - alpha; NaN where counts is 0.

    Axes are free and broadcast: classes, or trials by classes.

    >>> coverage_gaps([3, 4, 0], [4, 4, 0], alpha=0.5).tolist()
    [0.25, 0.5, nan]
    """
    successes, trials = check_counts(hits, counts)
    return np.abs(ratio(successes, trials) - float(1 - exact_level(alpha)))


def avg_gap(gaps: ArrayLike) -> Floats:
    """Mean of the gaps along the last axis, over the classes present (those that are not NaN).

    >>> avg_gap([0.25, 0.5, float("nan")]).tolist()
    0.375
    """
    return _extreme_means(gaps, "gaps", "Pass what coverage_gaps returns.", MOST_ROWS, smallest=True)


def top_gap(gaps: ArrayLike, n_classes: int) -> Floats:
    """Mean of the m largest gaps along the last axis, m = max(int(0.05 C), 1) (paper, section 3.1: TopCovGap).

    C is the number of classes of the problem, even when some are absent (NaN, or omitted from `gaps`); with fewer than
    m classes present it is the mean over those, and NaN with none.

    >>> top_gap([0.25, 0.5, float("nan")], n_classes=3).tolist()
    0.5
    >>> top_gap([[0.0] * 37 + [0.25, 0.75, 0.5]], n_classes=40).tolist()
    [0.625]
    """
    count = n_top_classes(whole_number(n_classes, "n_classes", 1, MOST_ROWS, "Pass the number of columns."))
    return _extreme_means(gaps, "gaps", "Pass what coverage_gaps returns.", count, smallest=False)


def worst_tenth(coverage: ArrayLike, n_classes: int) -> Floats:
    """Mean of the m smallest coverages along the last axis, m = max(round(C / 10), 1), halves rounded to even.

    C is as in `top_gap`.

    >>> worst_tenth([0.75, 0.5, float("nan")], n_classes=3).tolist()
    0.5
    >>> worst_tenth([[0.9] * 17 + [0.75, 0.25, 0.8]], n_classes=20).tolist()
    [0.5]
    """
    count = n_worst_classes(whole_number(n_classes, "n_classes", 1, MOST_ROWS, "Pass the number of columns."))
    return _extreme_means(coverage, "coverage", "Pass hits / rows of each class.", count, smallest=True)


def n_top_classes(n_classes: int) -> int:
    """How many classes TopCovGap is the mean of: 0.05 C without floats, so that 20 classes give 1."""
    return max(n_classes // 20, 1)


def n_worst_classes(n_classes: int) -> int:
    """How many classes are the worst tenth."""
    return max(round(n_classes / 10), 1)


def _extreme_means(values: ArrayLike, name: str, remedy: str, count: int, *, smallest: bool) -> Floats:
    """Mean of the `count` smallest or largest numbers from 0 to 1 along the last axis, but for NaN."""
    array = as_array(values, name)
    if array.ndim == 0 or array.shape[-1] == 0 or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name} must be numbers with classes on the last axis; got shape {array.shape} of {array.dtype}. {remedy}"
        )
    numbers = array.astype(np.float64, copy=False)
    bad = (numbers < 0) | (numbers > 1)
    if bad.any():
        raise InputError(f"{name} must be from 0 to 1; got {numbers[bad][0]:.6g}. {remedy}")
    out, work = np.empty(numbers.shape[:-1]), np.empty((2, numbers.shape[-1]))
    flat, counts = as_float64(numbers.reshape(-1, numbers.shape[-1])), np.empty(kernels.N_COUNTS, dtype=np.int64)
    kernels.extreme_means(flat, count, smallest, work, counts, out.reshape(-1))
    return out


# --- coverage of parts of the rows --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class PartCoverage(Brief):
    """Coverage of parts of the rows (classes, groups, strata of set size or of confidence): one entry for each part.

    Attributes
    ----------
    count, hits, coverage : arrays
        Rows of each part, how many of their sets contain their label, and the share, NaN without rows.
    names, avg_size
        Names of groups, and of strata of set size such as "2-3"; mean set sizes of groups. Empty for other parts.
    low, high : float arrays
        Lowest and highest confidence of strata of confidence, NaN without rows; empty for other parts.
    """

    count: Ints
    hits: Ints
    names: tuple[str, ...] = ()
    avg_size: Floats = field(default_factory=_nothing)
    low: Floats = field(default_factory=_nothing)
    high: Floats = field(default_factory=_nothing)

    @cached_property
    def coverage(self) -> Floats:
        """Share of the rows of each part whose set contains their label."""
        return ratio(self.hits, self.count)


def _coverage_by(codes: Ints, n_parts: int, hit: Bools) -> PartCoverage:
    return PartCoverage(np.bincount(codes, minlength=n_parts), np.bincount(codes[hit], minlength=n_parts))


def check_hits(sets: ArrayLike, labels: ArrayLike) -> tuple[Bools, Bools, Ints]:
    """Whether each row's set holds its label, the sets, and the labels."""
    members = check_sets(sets)
    truth = check_labels(labels, members.shape[1], len(members))
    return members[np.arange(len(members)), truth], members, truth


def class_coverage(sets: ArrayLike, labels: ArrayLike) -> PartCoverage:
    """Coverage of each class, with the counts behind it.

    >>> table = class_coverage([[True, False, False], [False, True, False], [True, False, False]], labels=[0, 1, 1])
    >>> table.coverage.tolist(), table.count.tolist(), table.hits.tolist()
    ([1.0, 0.5, nan], [1, 2, 0], [1, 1, 0])
    """
    hit, members, truth = check_hits(sets, labels)
    return _coverage_by(truth, members.shape[1], hit)


def group_coverage(sets: ArrayLike, labels: ArrayLike, groups: object) -> PartCoverage:
    """Coverage and set sizes of each group of rows; `groups` has one name or whole number per row.

    >>> table = group_coverage([[True, False], [True, True], [True, False]], labels=[0, 1, 1], groups=["b", "a", "b"])
    >>> table.names, table.coverage.tolist(), table.count.tolist(), table.avg_size.tolist()
    (('a', 'b'), [1.0, 0.5], [1, 2], [2.0, 1.0])
    """
    hit, members, _ = check_hits(sets, labels)
    parts = read_groups(groups, len(hit))
    table = _coverage_by(parts.codes, len(parts.names), hit)
    sizes = np.bincount(parts.codes, np.count_nonzero(members, axis=1), len(parts.names))
    return replace(table, names=parts.names, avg_size=ratio(sizes, table.count))


def size_stratified_coverage(sets: ArrayLike, labels: ArrayLike) -> PartCoverage:
    """Coverage of the sets in each stratum of `SIZE_STRATA`, with the counts behind it.

    >>> table = size_stratified_coverage([[True, False, False], [True, True, False]], labels=[1, 1])
    >>> table.names, table.count.tolist(), table.coverage.tolist()
    (('0-1', '2-3', '4-10', '11-100', '101+'), [1, 1, 0, 0, 0], [0.0, 1.0, nan, nan, nan])
    """
    hit, members, _ = check_hits(sets, labels)
    return coverage_by_size(np.count_nonzero(members, axis=1), hit)


def coverage_by_size(sizes: Ints, hit: Bools) -> PartCoverage:
    """`size_stratified_coverage` from the size of each set, and whether it contains its row's label."""
    strata = np.searchsorted(SIZE_STRATA, sizes, side="right") - 1
    return replace(_coverage_by(strata, len(SIZE_STRATA), hit), names=_STRATUM_NAMES)


def confidence_strata(confidence: ArrayLike, n_strata: int = N_STRATA) -> Ints:
    """The stratum of each row, from 0 for the least confident: as equal in size as ties allow.

    A row with r of n rows strictly less confident is in stratum floor(r n_strata / n), so equal confidences share a
    stratum, and where many are equal some strata stay empty.

    >>> confidence_strata([0.9, 0.3, 1.0, 1.0], n_strata=2).tolist()
    [0, 0, 1, 1]
    """
    level = check_row_values(confidence, "confidence", "fiu", "Pass probs.max(axis=1).")
    strata = whole_number(n_strata, "n_strata", 1, _MOST_STRATA, "Try n_strata=10.")
    less = np.searchsorted(np.sort(level), level, side="left")
    return less.astype(np.int64) * strata // len(level)


def confidence_stratified_coverage(
    sets: ArrayLike, labels: ArrayLike, confidence: ArrayLike, n_strata: int = N_STRATA
) -> PartCoverage:
    """Coverage of rows by confidence, in strata of about equal size; see `confidence_strata`.

    `confidence` is the probability of each row's predicted label, best at T*: `predict_proba(logits).max(axis=1)`.

    >>> sets, labels = [[True, False], [True, True], [True, False], [True, False]], [0, 1, 1, 0]
    >>> table = confidence_stratified_coverage(sets, labels, [0.9, 0.5, 0.6, 1.0], n_strata=2)
    >>> table.low.tolist(), table.high.tolist(), table.coverage.tolist(), table.count.tolist()
    ([0.5, 0.9], [0.6, 1.0], [0.5, 1.0], [2, 2])
    """
    hit, _, _ = check_hits(sets, labels)
    return coverage_by_confidence(confidence, hit, n_strata)


def coverage_by_confidence(confidence: ArrayLike, hit: Bools, n_strata: int = N_STRATA) -> PartCoverage:
    """`confidence_stratified_coverage` from whether each row's set contains its label."""
    level = check_row_values(confidence, "confidence", "fiu", "Pass probs.max(axis=1).", len(hit))
    strata = confidence_strata(level, n_strata)
    table = _coverage_by(strata, n_strata, hit)
    low, high = np.full(n_strata, np.inf), np.full(n_strata, -np.inf)
    np.minimum.at(low, strata, level)
    np.maximum.at(high, strata, level)
    return replace(table, low=np.where(table.count, low, np.nan), high=np.where(table.count, high, np.nan))


def counts_of_sets(
    sets: ArrayLike,
    labels: ArrayLike,
    alpha: Alpha,
    *,
    groups: object = None,
    confidence: ArrayLike | None = None,
    n_strata: int = N_STRATA,
) -> SetCounts:
    """Everything that metrics of sets read, counted; by group and by stratum of confidence where these are given.

    >>> counts = counts_of_sets([[True, True], [False, False]], labels=[0, 1], alpha=0.1)
    >>> int(counts.members), int(counts.empty), counts.hits.tolist(), counts.rows.tolist()
    (2, 1, [1, 0], [1, 1])
    """
    hit, members, _ = check_hits(sets, labels)
    sizes = np.count_nonzero(members, axis=1)
    by_size = coverage_by_size(sizes, hit)
    counts: dict[str, Any] = {"stratum_rows": by_size.count, "stratum_hits": by_size.hits}
    if groups is not None:
        by_group = group_coverage(sets, labels, groups)
        counts |= {"group_rows": by_group.count, "group_hits": by_group.hits}
    if confidence is not None:
        strata = coverage_by_confidence(confidence, hit, n_strata)
        counts |= {"confidence_rows": strata.count, "confidence_hits": strata.hits}
    counts |= {"members": np.asarray(sizes.sum()), "empty": np.asarray(np.count_nonzero(sizes == 0))}
    return replace(count_hits(sets, labels, alpha), **counts)


def count_members(sets: ArrayLike) -> SetCounts:
    """The counts for metrics of sets without labels: the rows are one class."""
    members = check_sets(sets)
    counts = np.count_nonzero(members), np.count_nonzero(~members.any(axis=1))
    return SetCounts(np.array([len(members)]), members=np.asarray(counts[0]), empty=np.asarray(counts[1]))


def count_hits(sets: ArrayLike, labels: ArrayLike, alpha: Alpha | None = None) -> SetCounts:
    """The counts for metrics of class coverage: no set is looked at beyond its own label."""
    table = class_coverage(sets, labels)
    return SetCounts(table.count, table.hits, promised=np.nan if alpha is None else float(1 - exact_level(alpha)))
