"""How evenly sets cover parts of the rows other than classes: groups of rows, and strata of confidence.

Groups are what the user names: one site, device or language for each row. The formulas are those of the classes, with
groups in their place. Strata of confidence have about as many rows each, from the least to the most confident.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Floats, Ints
from thermoset.bounds import whole_number
from thermoset.data.groups import read_groups
from thermoset.errors import InputError
from thermoset.levels import Alpha
from thermoset.metrics import counts as of
from thermoset.metrics._arrays import ratio
from thermoset.metrics._checks import as_array, check_sets, promised
from thermoset.metrics.counts import SetCounts
from thermoset.metrics.of_sets import coverage_by, hits_of
from thermoset.quoting import Brief

__all__ = [
    "N_STRATA",
    "ConfidenceCoverage",
    "GroupCoverage",
    "avg_group_coverage_gap",
    "confidence_coverage_gap",
    "confidence_strata",
    "confidence_stratified_coverage",
    "group_coverage",
    "top_group_coverage_gap",
    "worst_group_coverage",
]

N_STRATA = 10
"""Strata of confidence where nothing else is said."""

_MOST_STRATA = 10_000


@dataclass(frozen=True, eq=False, repr=False)
class GroupCoverage(Brief):
    """Per group: its name, its rows, how many of their sets contain the label, the share, and the mean set size.

    Coverage and size of a group without rows are NaN.
    """

    names: tuple[str, ...]
    coverage: Floats
    count: Ints
    hits: Ints
    avg_size: Floats


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceCoverage(Brief):
    """Per stratum of confidence: its lowest and highest confidence, its rows, hits and coverage (NaN without rows)."""

    low: Floats
    high: Floats
    coverage: Floats
    count: Ints
    hits: Ints


def group_coverage(sets: ArrayLike, labels: ArrayLike, groups: object) -> GroupCoverage:
    """Coverage and set sizes of each group of rows; `groups` has one name or whole number per row.

    >>> table = group_coverage([[True, False], [True, True], [True, False]], labels=[0, 1, 1], groups=["b", "a", "b"])
    >>> table.names, table.coverage.tolist(), table.count.tolist(), table.avg_size.tolist()
    (('a', 'b'), [1.0, 0.5], [1, 2], [2.0, 1.0])
    """
    hit, _, _ = hits_of(sets, labels)
    given = read_groups(groups, len(hit))
    found = coverage_by(given.codes, len(given.names), hit)
    members = np.bincount(given.codes, np.count_nonzero(check_sets(sets), axis=1), len(given.names))
    return GroupCoverage(given.names, found.coverage, found.count, found.hits, ratio(members, found.count))


def top_group_coverage_gap(sets: ArrayLike, labels: ArrayLike, groups: object, alpha: Alpha) -> float:
    """TopCovGap over groups: mean distance from 1 - alpha of the 5% of groups furthest from it, at least one.

    For what chance alone shows, use `noise_floor_of_counts` with the rows of each group.

    >>> sets, labels = [[True, False], [True, True], [True, False]], [0, 1, 1]
    >>> top_group_coverage_gap(sets, labels, ["b", "a", "b"], alpha=0.25)  # coverages 1 and 1/2
    0.25
    """
    return float(of.top_class_gap(_group_counts(sets, labels, groups, alpha).by_group))


def avg_group_coverage_gap(sets: ArrayLike, labels: ArrayLike, groups: object, alpha: Alpha) -> float:
    """AvgCovGap over groups: mean over the groups with rows of | group coverage - (1 - alpha) |.

    >>> sets, labels = [[True, False], [True, True], [True, False]], [0, 1, 1]
    >>> avg_group_coverage_gap(sets, labels, ["b", "a", "b"], alpha=0.5)  # coverages 1 and 1/2: gaps 1/2 and 0
    0.25
    """
    return float(of.avg_class_gap(_group_counts(sets, labels, groups, alpha).by_group))


def worst_group_coverage(sets: ArrayLike, labels: ArrayLike, groups: object) -> float:
    """Mean coverage of the 10% of groups with the lowest coverage, at least one. Higher is better.

    >>> sets, labels = [[True, False], [True, True], [True, False]], [0, 1, 1]
    >>> worst_group_coverage(sets, labels, ["b", "a", "b"])
    0.5
    """
    table = group_coverage(sets, labels, groups)
    return float(of.worst_classes(SetCounts(table.count, table.hits)))


def confidence_strata(confidence: ArrayLike, n_strata: int = N_STRATA) -> Ints:
    """The stratum of each row, from 0 for the least confident: as equal in size as ties allow.

    A row with r of n rows strictly less confident is in stratum floor(r n_strata / n), so equal confidences share a
    stratum, and where many are equal some strata stay empty.

    >>> confidence_strata([0.9, 0.3, 1.0, 1.0], n_strata=2).tolist()
    [0, 0, 1, 1]
    """
    level = _checked_confidence(confidence)
    strata = whole_number(n_strata, "n_strata", 1, _MOST_STRATA, "Try n_strata=10.")
    less = np.searchsorted(np.sort(level), level, side="left")
    return less.astype(np.int64) * strata // len(level)


def confidence_stratified_coverage(
    sets: ArrayLike, labels: ArrayLike, confidence: ArrayLike, n_strata: int = N_STRATA
) -> ConfidenceCoverage:
    """Coverage of rows by confidence, in strata of about equal size; see `confidence_strata`.

    `confidence` is the probability of each row's predicted label, best at T*: `predict_proba(logits).max(axis=1)`.

    >>> sets, labels = [[True, False], [True, True], [True, False], [True, False]], [0, 1, 1, 0]
    >>> table = confidence_stratified_coverage(sets, labels, [0.9, 0.5, 0.6, 1.0], n_strata=2)
    >>> table.low.tolist(), table.high.tolist(), table.coverage.tolist(), table.count.tolist()
    ([0.5, 0.9], [0.6, 1.0], [0.5, 1.0], [2, 2])
    """
    hit, _, _ = hits_of(sets, labels)
    return coverage_by_confidence(_checked_confidence(confidence, len(hit)), hit, n_strata)


def coverage_by_confidence(confidence: Floats, hit: ArrayLike, n_strata: int = N_STRATA) -> ConfidenceCoverage:
    """`confidence_stratified_coverage` from whether each row's set contains its label."""
    strata = confidence_strata(confidence, n_strata)
    found = coverage_by(strata, n_strata, np.asarray(hit))
    low, high = np.full(n_strata, np.inf), np.full(n_strata, -np.inf)
    np.minimum.at(low, strata, confidence)
    np.maximum.at(high, strata, confidence)
    empty = found.count == 0
    low[empty], high[empty] = np.nan, np.nan
    return ConfidenceCoverage(low, high, found.coverage, found.count, found.hits)


def confidence_coverage_gap(
    sets: ArrayLike, labels: ArrayLike, confidence: ArrayLike, alpha: Alpha, n_strata: int = N_STRATA
) -> float:
    """Largest | coverage - (1 - alpha) | over the strata of confidence that have rows.

    >>> sets, labels = [[True, False], [True, True], [True, False], [True, False]], [0, 1, 1, 0]
    >>> confidence_coverage_gap(sets, labels, [0.9, 0.5, 0.6, 1.0], alpha=0.25, n_strata=2)  # coverages 1/2 and 1
    0.25
    """
    table = confidence_stratified_coverage(sets, labels, confidence, n_strata)
    rows = np.array([table.count.sum()])
    found = SetCounts(rows, promised=promised(alpha), confidence_rows=table.count, confidence_hits=table.hits)
    return float(of.worst_confidence_gap(found))


def _group_counts(sets: ArrayLike, labels: ArrayLike, groups: object, alpha: Alpha) -> SetCounts:
    table = group_coverage(sets, labels, groups)
    rows = np.array([table.count.sum()])
    return SetCounts(rows, promised=promised(alpha), group_rows=table.count, group_hits=table.hits)


def _checked_confidence(confidence: ArrayLike, n_rows: int | None = None) -> Floats:
    array = as_array(confidence, "confidence")
    if array.ndim != 1 or not len(array) or array.dtype.kind not in "fiu" or n_rows not in (None, len(array)):
        wanted = "(rows,)" if n_rows is None else f"({n_rows},)"
        raise InputError(
            f"confidence must be numbers of shape {wanted}, one per row; got shape {array.shape} of "
            f"{array.dtype}. Pass probs.max(axis=1)."
        )
    level = array.astype(np.float64, copy=False)
    if np.isnan(level).any():
        raise InputError(f"confidence[{int(np.isnan(level).argmax())}] is nan. Pass probs.max(axis=1).")
    return level
