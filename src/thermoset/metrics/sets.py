"""How good prediction sets are: functions of boolean sets (n, C) and labels (n,).

Each metric has one formula, on counts: `coverage_gaps`, `top_gap` and `avg_gap` take hits and rows per class, so
that a caller who has counts and no sets (a sweep) computes the same numbers. Gaps are fractions, not percent;
lower is better.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from thermoset.bounds import MOST_ROWS, whole_number
from thermoset.core.levels import Alpha
from thermoset.errors import InputError
from thermoset.metrics._arrays import BoolArray, FloatArray, IntArray, ratio
from thermoset.metrics._checks import (
    as_array,
    check_counts,
    check_labels,
    check_sets,
    promised,
)

__all__ = [
    "SIZE_STRATA",
    "ClassCoverage",
    "StratumCoverage",
    "avg_coverage_gap",
    "avg_gap",
    "avg_size",
    "class_coverage",
    "coverage_gaps",
    "empty_share",
    "marginal_coverage",
    "marginal_coverage_gap",
    "size_stratified_coverage",
    "size_stratified_coverage_violation",
    "top_coverage_gap",
    "top_gap",
]

SIZE_STRATA = (0, 2, 4, 11, 101)
"""First set size of each stratum of SSCV: 0-1, 2-3, 4-10, 11-100, 101 and more."""


@dataclass(frozen=True, eq=False)
class ClassCoverage:
    """Per class: rows with that label, how many of their sets hold it, and the share (NaN where there is no row)."""

    coverage: FloatArray
    count: IntArray
    hits: IntArray


@dataclass(frozen=True, eq=False)
class StratumCoverage:
    """Per stratum of set size: its first size, rows, how many of their sets hold the label, and the share."""

    first: IntArray
    coverage: FloatArray
    count: IntArray
    hits: IntArray


def coverage_gaps(hits: ArrayLike, counts: ArrayLike, alpha: Alpha) -> FloatArray:
    """Absolute gap of each coverage hits / counts to 1 - alpha; NaN where counts is 0.

    Axes are free and broadcast: classes, or trials by classes.

    >>> coverage_gaps([3, 4, 0], [4, 4, 0], alpha=0.5).tolist()
    [0.25, 0.5, nan]
    """
    successes, trials = check_counts(hits, counts)
    return np.abs(ratio(successes, trials) - promised(alpha))


def top_gap(gaps: ArrayLike, n_classes: int) -> FloatArray:
    """Mean of the m largest gaps along the last axis, m = max(int(0.05 C), 1) (paper, section 3.1: TopCovGap).

    C is the number of classes of the problem, also when some are absent (NaN, or left out of `gaps`); with fewer
    than m classes present it is the mean over those, with none NaN.

    >>> top_gap([0.25, 0.5, float("nan")], n_classes=3).tolist()
    0.5
    >>> top_gap([[0.0] * 37 + [0.25, 0.75, 0.5]], n_classes=40).tolist()
    [0.625]
    """
    array = _check_gaps(gaps)
    classes = whole_number(n_classes, "n_classes", 1, MOST_ROWS, "Pass the number of columns.")
    wanted = max(classes // 20, 1)  # 0.05 C without floats: 20 classes give 1
    kept = min(wanted, array.shape[-1])
    # Absent classes become -1 and so sort below every real gap. The final sort makes the sum, and with it the last
    # bit of the result, independent of the order of the classes.
    filled = np.where(np.isnan(array), -1.0, array)
    top = np.sort(np.partition(filled, -kept, axis=-1)[..., -kept:], axis=-1)
    return _mean_where(top, top >= 0)


def avg_gap(gaps: ArrayLike) -> FloatArray:
    """Mean of the gaps along the last axis, over the classes present (those that are not NaN).

    >>> avg_gap([0.25, 0.5, float("nan")]).tolist()
    0.375
    """
    array = _check_gaps(gaps)
    return _mean_where(array, ~np.isnan(array))


def avg_size(sets: ArrayLike) -> float:
    """AvgSize: mean number of labels in a set.

    >>> avg_size([[True, False, True], [False, True, False]])
    1.5
    """
    members = check_sets(sets)
    return int(np.count_nonzero(members)) / len(members)


def empty_share(sets: ArrayLike) -> float:
    """Share of sets without any label, to be read beside `avg_size`.

    >>> empty_share([[True, False], [False, False]])
    0.5
    """
    members = check_sets(sets)
    return int(np.count_nonzero(~members.any(axis=1))) / len(members)


def marginal_coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows whose set holds their label.

    >>> marginal_coverage([[True, False], [True, False]], labels=[0, 1])
    0.5
    """
    hit, _, _ = _hits(sets, labels)
    return int(np.count_nonzero(hit)) / len(hit)


def marginal_coverage_gap(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """MarCovGap: | coverage - (1 - alpha) |.

    >>> marginal_coverage_gap([[True, False], [True, False]], labels=[0, 1], alpha=0.25)
    0.25
    """
    hit, _, _ = _hits(sets, labels)
    return float(coverage_gaps(np.count_nonzero(hit), len(hit), alpha))


def class_coverage(sets: ArrayLike, labels: ArrayLike) -> ClassCoverage:
    """Coverage of each class, with the counts it rests on.

    >>> table = class_coverage([[True, False, False], [False, True, False], [True, False, False]], labels=[0, 1, 1])
    >>> table.coverage.tolist(), table.count.tolist(), table.hits.tolist()
    ([1.0, 0.5, nan], [1, 2, 0], [1, 1, 0])
    """
    hit, truth, n_classes = _hits(sets, labels)
    count = np.bincount(truth, minlength=n_classes)
    hits = np.bincount(truth[hit], minlength=n_classes)
    return ClassCoverage(coverage=ratio(hits, count), count=count, hits=hits)


def top_coverage_gap(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """TopCovGap: mean gap to 1 - alpha of the 5% of classes that are furthest from it; see `top_gap`.

    Read it against `coverage_gap_noise_floor`: with few rows a class, perfect sets have gaps too.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> top_coverage_gap(sets, labels=[0, 0, 1, 1], alpha=0.25)  # coverages 1 and 1/2: gaps 1/4 and 1/4
    0.25
    """
    table = class_coverage(sets, labels)
    return float(top_gap(coverage_gaps(table.hits, table.count, alpha), len(table.count)))


def avg_coverage_gap(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """AvgCovGap: mean over the classes present of | class coverage - (1 - alpha) |.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> avg_coverage_gap(sets, labels=[0, 0, 1, 1], alpha=0.5)  # coverages 1 and 1/2: gaps 1/2 and 0
    0.25
    """
    table = class_coverage(sets, labels)
    return float(avg_gap(coverage_gaps(table.hits, table.count, alpha)))


def size_stratified_coverage(sets: ArrayLike, labels: ArrayLike) -> StratumCoverage:
    """Coverage of the sets of each stratum of `SIZE_STRATA`, with the counts it rests on.

    >>> table = size_stratified_coverage([[True, False, False], [True, True, False]], labels=[1, 1])
    >>> table.first.tolist(), table.count.tolist(), table.coverage.tolist()
    ([0, 2, 4, 11, 101], [1, 1, 0, 0, 0], [0.0, 1.0, nan, nan, nan])
    """
    hit, _, _ = _hits(sets, labels)
    stratum = np.searchsorted(SIZE_STRATA, np.count_nonzero(check_sets(sets), axis=1), side="right") - 1
    count = np.bincount(stratum, minlength=len(SIZE_STRATA))
    hits = np.bincount(stratum[hit], minlength=len(SIZE_STRATA))
    return StratumCoverage(first=np.array(SIZE_STRATA), coverage=ratio(hits, count), count=count, hits=hits)


def size_stratified_coverage_violation(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """SSCV (Angelopoulos et al. 2021): largest | coverage - (1 - alpha) | over the strata of set size that have rows.

    The strata are those of `SIZE_STRATA`: sizes 0-1, 2-3, 4-10, 11-100, 101 and more.

    >>> sets = [[True, False, False], [True, False, False], [True, True, True]]
    >>> size_stratified_coverage_violation(sets, labels=[0, 1, 2], alpha=0.25)  # sizes 0-1: 1/2; sizes 2-3: 1
    0.25
    """
    table = size_stratified_coverage(sets, labels)
    return float(np.nanmax(coverage_gaps(table.hits, table.count, alpha)))


def _hits(sets: ArrayLike, labels: ArrayLike) -> tuple[BoolArray, IntArray, int]:
    """Whether each row's set holds its label; the labels; the number of classes."""
    members = check_sets(sets)
    truth = check_labels(labels, members, "sets")
    return members[np.arange(len(members)), truth], truth, members.shape[1]


def _check_gaps(gaps: ArrayLike) -> FloatArray:
    array = as_array(gaps, "gaps")
    if array.ndim == 0 or array.shape[-1] == 0 or array.dtype.kind not in "fiu":
        raise InputError(
            f"gaps must be numbers with classes on the last axis; got shape {array.shape} of {array.dtype}. "
            "Pass what coverage_gaps returns."
        )
    numbers = array.astype(np.float64, copy=False)
    if (numbers < 0).any():
        raise InputError(f"gaps must be absolute; got {numbers.min():.6g}. Pass what coverage_gaps returns.")
    return numbers


def _mean_where(values: FloatArray, use: BoolArray) -> FloatArray:
    """Mean along the last axis of the values to use, NaN where there is none."""
    return ratio(np.asarray(np.where(use, values, 0.0).sum(axis=-1)), np.asarray(np.count_nonzero(use, axis=-1)))
