"""Counts of what prediction sets contain, and the formula of each metric on them.

A table of sets is counted once, a sweep counts over trials without making sets, and with u integrated out the counts
are expected ones: the formulas are the same. Gaps are fractions, not percent; lower is better.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats, Ints
from thermoset.bounds import MOST_ROWS, whole_number
from thermoset.errors import InputError
from thermoset.levels import Alpha
from thermoset.metrics._arrays import ratio
from thermoset.metrics._checks import as_array, check_counts, promised
from thermoset.quoting import Brief

__all__ = [
    "SIZE_STRATA",
    "Formula",
    "SetCounts",
    "avg_class_gap",
    "avg_gap",
    "below_part",
    "coverage",
    "coverage_gap",
    "coverage_gaps",
    "empty_part",
    "gaps_to",
    "left_out_part",
    "macro",
    "mean_size",
    "over_groups",
    "squared_class_gap",
    "threshold",
    "top_class_gap",
    "top_gap",
    "worst_classes",
    "worst_confidence_gap",
    "worst_stratum_gap",
    "worst_tenth",
]

SIZE_STRATA = (0, 2, 4, 11, 101)
"""First set size of each stratum of SSCV: 0-1, 2-3, 4-10, 11-100, 101 and more."""


def _unknown() -> Floats:
    return np.array(np.nan)


def _no_strata() -> Ints:
    return np.zeros(len(SIZE_STRATA), dtype=np.int64)


def _no_rows() -> Ints:
    return np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class SetCounts(Brief):
    """What sets contain; trials, if there are any, are on the leading axes.

    What was not counted is NaN, and so is every metric that needs it.

    Attributes
    ----------
    rows, hits : (..., C)
        Rows of each class, and how many of their sets contain their label: counted, or expected over u.
    members, empty : (...)
        Labels in all sets together, and sets without any label.
    promised : float
        The coverage 1 - alpha.
    threshold : (...)
        Of the scores; with several, the mean of the finite ones, and infinite where there are none.
    stratum_rows, stratum_hits : (..., strata)
        Rows and hits by size of the set, in the strata of `SIZE_STRATA`.
    top_missed : (...)
        Rows whose top label is correct but not in their set.
    group_rows, group_hits : (..., groups)
        Rows and hits by group of rows.
    confidence_rows, confidence_hits : (..., strata)
        Rows and hits by stratum of confidence.
    """

    rows: Ints
    hits: Floats | Ints = field(default_factory=_unknown)
    members: Floats | Ints = field(default_factory=_unknown)
    empty: Floats | Ints = field(default_factory=_unknown)
    promised: float = np.nan
    threshold: Floats = field(default_factory=_unknown)
    stratum_rows: Ints = field(default_factory=_no_strata)
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
    def class_coverage(self) -> Floats:
        """Coverage of each class, (..., C); NaN for classes without rows."""
        return ratio(self.hits, self.rows)

    @cached_property
    def class_gaps(self) -> Floats:
        """Absolute gap of the coverage of each class, (..., C); NaN for classes without rows."""
        return np.abs(self.class_coverage - self.promised)


Formula = Callable[[SetCounts], Floats]
"""Counts -> a number, or one for each trial."""


def gaps_to(level: float, hits: Floats | Ints, rows: Ints) -> Floats:
    """Absolute gap of each coverage hits / rows to a level; NaN where there are no rows."""
    return np.abs(ratio(hits, rows) - level)


def mean_size(counts: SetCounts) -> Floats:
    """Labels in a set, on average."""
    return ratio(counts.members, counts.total)


def empty_part(counts: SetCounts) -> Floats:
    """Share of sets without any label."""
    return ratio(counts.empty, counts.total)


def coverage(counts: SetCounts) -> Floats:
    """Share of rows whose set contains their label."""
    return ratio(counts.hits.sum(axis=-1), counts.total)


def coverage_gap(counts: SetCounts) -> Floats:
    """Absolute gap of the coverage of all rows."""
    return gaps_to(counts.promised, counts.hits.sum(axis=-1), counts.total)


def top_class_gap(counts: SetCounts) -> Floats:
    """Mean gap of the 5% of classes furthest from 1 - alpha; see `top_gap`."""
    return top_gap(counts.class_gaps, counts.rows.shape[-1])


def avg_class_gap(counts: SetCounts) -> Floats:
    """Mean gap of the classes present."""
    return avg_gap(counts.class_gaps)


def squared_class_gap(counts: SetCounts) -> Floats:
    """Mean squared gap of the classes present."""
    return avg_gap(counts.class_gaps**2)


def worst_classes(counts: SetCounts) -> Floats:
    """Mean coverage of the 10% of classes with the lowest coverage; see `worst_tenth`."""
    return worst_tenth(counts.class_coverage, counts.rows.shape[-1])


def macro(counts: SetCounts) -> Floats:
    """Mean over the classes present of class coverage."""
    return _mean_where(counts.class_coverage, counts.rows > 0)


def below_part(counts: SetCounts) -> Floats:
    """Share of the classes present whose coverage is below 1 - alpha."""
    present = counts.rows > 0
    below = np.where(np.isnan(counts.class_coverage), np.nan, counts.class_coverage < counts.promised)
    return _mean_where(below, present)


def left_out_part(counts: SetCounts) -> Floats:
    """Share of rows whose top label is correct but not in their set."""
    return ratio(counts.top_missed, counts.total)


def threshold(counts: SetCounts) -> Floats:
    """Threshold of the scores."""
    return counts.threshold


def worst_stratum_gap(counts: SetCounts) -> Floats:
    """Largest gap over the strata of set size that have rows (Angelopoulos et al. 2021: SSCV)."""
    return _largest(gaps_to(counts.promised, counts.stratum_hits, counts.stratum_rows))


def worst_confidence_gap(counts: SetCounts) -> Floats:
    """Largest gap over the strata of confidence that have rows."""
    return _largest(gaps_to(counts.promised, counts.confidence_hits, counts.confidence_rows))


def over_groups(formula: Formula) -> Formula:
    """The formula with groups of rows in place of classes."""
    return lambda counts: formula(counts.by_group)


def _largest(gaps: Floats) -> Floats:
    return np.asarray(np.fmax.reduce(gaps, axis=-1))  # fmax leaves NaN out


def coverage_gaps(hits: ArrayLike, counts: ArrayLike, alpha: Alpha) -> Floats:
    """Absolute gap of each coverage hits / counts to 1 - alpha; NaN where counts is 0.

    Axes are free and broadcast: classes, or trials by classes.

    >>> coverage_gaps([3, 4, 0], [4, 4, 0], alpha=0.5).tolist()
    [0.25, 0.5, nan]
    """
    successes, trials = check_counts(hits, counts)
    return gaps_to(promised(alpha), successes, trials)


def top_gap(gaps: ArrayLike, n_classes: int) -> Floats:
    """Mean of the m largest gaps along the last axis, m = max(int(0.05 C), 1) (paper, section 3.1: TopCovGap).

    C is the number of classes of the problem, even when some are absent (NaN, or omitted from `gaps`); with fewer than
    m classes present it is the mean over those, and NaN with none.

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


def worst_tenth(coverage: ArrayLike, n_classes: int) -> Floats:
    """Mean of the m smallest coverages along the last axis, m = max(round(C / 10), 1).

    C is the number of classes of the problem, even when some are absent (NaN, or omitted from `coverage`); with fewer
    than m classes present it is the mean over those, and NaN with none. Where C / 10 ends in a half, it is rounded to
    even.

    >>> worst_tenth([0.75, 0.5, float("nan")], n_classes=3).tolist()
    0.5
    >>> worst_tenth([[0.9] * 17 + [0.75, 0.25, 0.8]], n_classes=20).tolist()
    [0.5]
    """
    array = _check_classes(coverage, "coverage", "Pass hits / rows of each class.")
    if (array < 0).any() or (array > 1).any():
        worst = array[(array < 0) | (array > 1)][0]
        raise InputError(f"coverage must be fractions from 0 to 1; got {worst:.6g}. Pass hits / rows of each class.")
    classes = whole_number(n_classes, "n_classes", 1, MOST_ROWS, "Pass the number of columns.")
    kept = min(max(round(classes / 10), 1), array.shape[-1])
    # Absent classes become 2 and so sort above every coverage; the final sort is as in `top_gap`.
    filled = np.where(np.isnan(array), 2.0, array)
    least = np.sort(np.partition(filled, kept - 1, axis=-1)[..., :kept], axis=-1)
    return _mean_where(least, least <= 1)


def avg_gap(gaps: ArrayLike) -> Floats:
    """Mean of the gaps along the last axis, over the classes present (those that are not NaN).

    >>> avg_gap([0.25, 0.5, float("nan")]).tolist()
    0.375
    """
    array = _check_gaps(gaps)
    return _mean_where(array, ~np.isnan(array))


def _check_gaps(gaps: ArrayLike) -> Floats:
    numbers = _check_classes(gaps, "gaps", "Pass what coverage_gaps returns.")
    if (numbers < 0).any():
        raise InputError(f"gaps must be absolute; got {numbers.min():.6g}. Pass what coverage_gaps returns.")
    return numbers


def _check_classes(values: ArrayLike, name: str, remedy: str) -> Floats:
    array = as_array(values, name)
    if array.ndim == 0 or array.shape[-1] == 0 or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name} must be numbers with classes on the last axis; got shape {array.shape} of {array.dtype}. {remedy}"
        )
    return array.astype(np.float64, copy=False)


def _mean_where(values: Floats, use: Bools) -> Floats:
    """Mean along the last axis of the values to use, NaN where there is none."""
    return ratio(np.asarray(np.where(use, values, 0.0).sum(axis=-1)), np.asarray(np.count_nonzero(use, axis=-1)))
