"""How good prediction sets are: functions of boolean sets (n, C) and labels (n,).

Each function counts what its metric needs and applies the formula of `metrics.counts`, so a caller who has counts but
no sets (a sweep) computes the same numbers. Gaps are fractions, not percentages; lower is better.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats, Ints
from thermoset.levels import Alpha
from thermoset.metrics import counts as of
from thermoset.metrics._arrays import ratio
from thermoset.metrics._checks import check_labels, check_sets, promised
from thermoset.metrics.counts import SIZE_STRATA, SetCounts
from thermoset.quoting import Brief

__all__ = [
    "ClassCoverage",
    "StratumCoverage",
    "avg_coverage_gap",
    "avg_size",
    "class_coverage",
    "classes_below",
    "counts_of_sets",
    "coverage_by",
    "coverage_by_size",
    "empty_share",
    "hits_of",
    "macro_coverage",
    "marginal_coverage",
    "marginal_coverage_gap",
    "size_stratified_coverage",
    "size_stratified_coverage_violation",
    "top_coverage_gap",
    "worst_tenth_coverage",
]


@dataclass(frozen=True, eq=False, repr=False)
class ClassCoverage(Brief):
    """Per class: rows with that label, how many of their sets contain it, and the share (NaN without rows)."""

    coverage: Floats
    count: Ints
    hits: Ints


@dataclass(frozen=True, eq=False, repr=False)
class StratumCoverage(Brief):
    """Per stratum of set size: its first size, rows, how many of their sets contain the label, and the share."""

    first: Ints
    coverage: Floats
    count: Ints
    hits: Ints


def avg_size(sets: ArrayLike) -> float:
    """AvgSize: mean number of labels in a set.

    >>> avg_size([[True, False, True], [False, True, False]])
    1.5
    """
    members = check_sets(sets)
    return float(of.mean_size(SetCounts(_whole(members), members=np.asarray(np.count_nonzero(members)))))


def empty_share(sets: ArrayLike) -> float:
    """Share of sets without any label; read it together with `avg_size`.

    >>> empty_share([[True, False], [False, False]])
    0.5
    """
    members = check_sets(sets)
    empty = np.asarray(np.count_nonzero(~members.any(axis=1)))
    return float(of.empty_part(SetCounts(_whole(members), empty=empty)))


def marginal_coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows whose set contains their label.

    >>> marginal_coverage([[True, False], [True, False]], labels=[0, 1])
    0.5
    """
    table = class_coverage(sets, labels)
    return float(of.coverage(SetCounts(table.count, table.hits)))


def marginal_coverage_gap(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """MarCovGap: | coverage - (1 - alpha) |.

    >>> marginal_coverage_gap([[True, False], [True, False]], labels=[0, 1], alpha=0.25)
    0.25
    """
    return float(of.coverage_gap(_class_counts(sets, labels, alpha)))


def class_coverage(sets: ArrayLike, labels: ArrayLike) -> ClassCoverage:
    """Coverage of each class, with the counts behind it.

    >>> table = class_coverage([[True, False, False], [False, True, False], [True, False, False]], labels=[0, 1, 1])
    >>> table.coverage.tolist(), table.count.tolist(), table.hits.tolist()
    ([1.0, 0.5, nan], [1, 2, 0], [1, 1, 0])
    """
    hit, truth, n_classes = hits_of(sets, labels)
    return coverage_by(truth, n_classes, hit)


def top_coverage_gap(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """TopCovGap: mean distance from 1 - alpha of the 5% of classes furthest from it; see `top_gap`.

    Compare it with `coverage_gap_noise_floor`: with few rows per class, perfect sets have gaps too.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> top_coverage_gap(sets, labels=[0, 0, 1, 1], alpha=0.25)  # coverages 1 and 1/2: gaps 1/4 and 1/4
    0.25
    """
    return float(of.top_class_gap(_class_counts(sets, labels, alpha)))


def worst_tenth_coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Mean coverage of the 10% of classes with the lowest coverage; see `worst_tenth`. Higher is better.

    With few rows per class, some classes have lower coverage by chance alone, even in perfect sets.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> worst_tenth_coverage(sets, labels=[0, 0, 1, 1])  # coverages 1 and 1/2, and one class is a tenth of two
    0.5
    """
    table = class_coverage(sets, labels)
    return float(of.worst_classes(SetCounts(table.count, table.hits)))


def macro_coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Mean over the classes present of class coverage: every class counts the same, however rare. Higher is better.

    >>> sets = [[True, False], [True, False], [True, False], [True, False]]
    >>> macro_coverage(sets, labels=[0, 0, 0, 1])  # coverages 1 and 0
    0.5
    """
    table = class_coverage(sets, labels)
    return float(of.macro(SetCounts(table.count, table.hits)))


def classes_below(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """Share of the classes present whose coverage is below 1 - alpha.

    Chance alone puts many classes below: if every class had coverage exactly 1 - alpha, a class of m rows would show
    less with probability P(Binomial(m, 1 - alpha) < m (1 - alpha)), which at alpha 0.1 is 0.35 for 10 rows, 0.42 for
    100 and 0.48 for 1,000.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> classes_below(sets, labels=[0, 0, 1, 1], alpha=0.25)  # coverages 1 and 1/2
    0.5
    """
    return float(of.below_part(_class_counts(sets, labels, alpha)))


def avg_coverage_gap(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """AvgCovGap: mean over the classes present of | class coverage - (1 - alpha) |.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> avg_coverage_gap(sets, labels=[0, 0, 1, 1], alpha=0.5)  # coverages 1 and 1/2: gaps 1/2 and 0
    0.25
    """
    return float(of.avg_class_gap(_class_counts(sets, labels, alpha)))


def size_stratified_coverage(sets: ArrayLike, labels: ArrayLike) -> StratumCoverage:
    """Coverage of the sets in each stratum of `SIZE_STRATA`, with the counts behind it.

    >>> table = size_stratified_coverage([[True, False, False], [True, True, False]], labels=[1, 1])
    >>> table.first.tolist(), table.count.tolist(), table.coverage.tolist()
    ([0, 2, 4, 11, 101], [1, 1, 0, 0, 0], [0.0, 1.0, nan, nan, nan])
    """
    hit, _, _ = hits_of(sets, labels)
    return coverage_by_size(np.count_nonzero(check_sets(sets), axis=1), hit)


def coverage_by_size(sizes: Ints, hit: Bools) -> StratumCoverage:
    """`size_stratified_coverage` from the size of each set, and whether it contains its row's label."""
    strata = np.searchsorted(SIZE_STRATA, sizes, side="right") - 1
    found = coverage_by(strata, len(SIZE_STRATA), hit)
    return StratumCoverage(np.array(SIZE_STRATA), found.coverage, found.count, found.hits)


def coverage_by(codes: Ints, n_codes: int, hit: Bools) -> ClassCoverage:
    """Coverage of the rows of each code, whatever the codes stand for: classes, groups or strata."""
    count = np.bincount(codes, minlength=n_codes)
    hits = np.bincount(codes[hit], minlength=n_codes)
    return ClassCoverage(coverage=ratio(hits, count), count=count, hits=hits)


def size_stratified_coverage_violation(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """SSCV (Angelopoulos et al. 2021): largest | coverage - (1 - alpha) | over the strata of set size that have rows.

    The strata are those of `SIZE_STRATA`: sizes 0-1, 2-3, 4-10, 11-100, 101 and more.

    >>> sets = [[True, False, False], [True, False, False], [True, True, True]]
    >>> size_stratified_coverage_violation(sets, labels=[0, 1, 2], alpha=0.25)  # sizes 0-1: 1/2; sizes 2-3: 1
    0.25
    """
    table = size_stratified_coverage(sets, labels)
    rows = np.array([table.count.sum()])
    found = SetCounts(rows, promised=promised(alpha), stratum_rows=table.count, stratum_hits=table.hits)
    return float(of.worst_stratum_gap(found))


def counts_of_sets(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> SetCounts:
    """Everything that metrics of sets read, counted.

    >>> found = counts_of_sets([[True, True], [False, False]], labels=[0, 1], alpha=0.1)
    >>> int(found.members), int(found.empty), found.hits.tolist(), found.rows.tolist()
    (2, 1, [1, 0], [1, 1])
    """
    classes, strata, members = class_coverage(sets, labels), size_stratified_coverage(sets, labels), check_sets(sets)
    return SetCounts(
        rows=classes.count,
        hits=classes.hits,
        members=np.asarray(np.count_nonzero(members)),
        empty=np.asarray(np.count_nonzero(~members.any(axis=1))),
        promised=promised(alpha),
        stratum_rows=strata.count,
        stratum_hits=strata.hits,
    )


def _class_counts(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> SetCounts:
    """What metrics of coverage read: no set is counted beyond its own label."""
    table = class_coverage(sets, labels)
    return SetCounts(table.count, table.hits, promised=promised(alpha))


def _whole(members: Bools) -> Ints:
    """Rows of sets whose labels are not known, as one class."""
    return np.array([len(members)])


def hits_of(sets: ArrayLike, labels: ArrayLike) -> tuple[Bools, Ints, int]:
    """Whether each row's set holds its label; the labels; the number of classes."""
    members = check_sets(sets)
    truth = check_labels(labels, members, "sets")
    return members[np.arange(len(members)), truth], truth, members.shape[1]
