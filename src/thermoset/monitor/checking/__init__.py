"""Is the promise kept? Coverage and calibration of a fitted predictor on fresh labelled rows.

================  =====================================================================================
`promise`         which law the hits follow, and why; marginal coverage compared with it
`by_group`        coverage by class, cluster or group of rows, p-values adjusted for their number
`confidence`      whether confidence is calibrated, compared with what chance shows
`parts`           coverage by size of the set and by confidence
`findings`        what was found: as a record, as sentences, as JSON
================  =====================================================================================

>>> sets = np.eye(2, dtype=bool)[[0] * 90 + [1] * 10]  # {0} for 90 rows, {1} for 10
>>> report = check(sets, np.where(sets, 0.9, 0.1), labels=[0] * 100, promise=Promise(0.1, [999]))
>>> report.marginal.coverage, report.ok
(0.9, True)
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset.arrays import Bools, Ints
from thermoset.data.groups import Groups, read_groups
from thermoset.errors import InputError
from thermoset.metrics import (
    ClasswiseCalibration,
    avg_gap,
    classwise_calibration,
    coverage_gaps,
    noise_floor_of_counts,
    top_gap,
)
from thermoset.monitor.checking.by_group import CoverageTable, coverage_table, holm, yardstick
from thermoset.monitor.checking.confidence import CalibrationCheck, calibration_check
from thermoset.monitor.checking.facts import RowFacts, facts_of, row_facts
from thermoset.monitor.checking.findings import FAIL_ON, CheckReport
from thermoset.monitor.checking.parts import PartTable, confidence_parts, part_table, size_parts
from thermoset.monitor.checking.promise import (
    NULL_GROUP,
    SIGNIFICANCE,
    MarginalCoverage,
    Pools,
    Promise,
    group_laws,
    lower_tails,
    marginal_coverage,
    union_coverage,
    weighted_law,
)

__all__ = [
    "FAIL_ON",
    "NULL_GROUP",
    "SIGNIFICANCE",
    "CalibrationCheck",
    "CheckReport",
    "CoverageTable",
    "MarginalCoverage",
    "PartTable",
    "Promise",
    "RowFacts",
    "check",
    "check_facts",
    "holm",
    "row_facts",
]


def check(
    sets: ArrayLike,
    probs: ArrayLike,
    labels: ArrayLike,
    promise: Promise,
    *,
    n_bins: int = 15,
    fail_on: str | Iterable[str] = (),
    class_names: Sequence[str] | None = None,
    groups: object = None,
) -> CheckReport:
    """Compare sets (n, C) and probabilities (n, C) of fresh rows with their labels and with the promise.

    The promise is broken if marginal coverage is below 1 - alpha, significantly so (p < 0.001); with thresholds by
    class, cluster or group, also if this holds for one of them with a Holm-adjusted p-value. `groups`, one name or
    number per row, adds the coverage of each group of rows. `fail_on` adds further tests at the same level: "classes"
    and "groups" (one of them has coverage below 1 - alpha, even if nothing was promised for it) and "calibration"
    (confidence is not calibrated). A predictor that keeps its promise fails each test at most once in a thousand times.

    >>> sets = np.eye(2, dtype=bool)[[0] * 82 + [1] * 18]
    >>> probs = np.where(sets, 0.8, 0.2)
    >>> report = check(sets, probs, labels=[0] * 100, promise=Promise(0.1, [999]))
    >>> report.ok, report.marginal.p_value < 0.05  # 82 hits where 90 are expected: suspicious, and not enough
    (True, True)
    >>> report = check(sets, probs, labels=[1] * 100, promise=Promise(0.1, [999]))
    >>> report.ok, report.marginal.coverage, report.calibration.accuracy
    (False, 0.18, 0.18)
    """
    facts, truth = facts_of(sets, probs, labels)
    return check_facts(
        facts,
        truth,
        np.shape(sets)[1],
        promise,
        n_bins=n_bins,
        fail_on=fail_on,
        class_names=class_names,
        groups=None if groups is None else read_groups(groups, len(truth)),
        classwise=classwise_calibration(probs, truth, n_bins),
    )


def check_facts(
    facts: RowFacts,
    labels: NDArray[np.int64],
    n_classes: int,
    promise: Promise,
    *,
    n_bins: int = 15,
    fail_on: str | Iterable[str] = (),
    class_names: Sequence[str] | None = None,
    groups: Groups | None = None,
    classwise: ClasswiseCalibration | None = None,
) -> CheckReport:
    """The same from the facts of each row: sets and probabilities need not be in memory all at once."""
    wanted, names = _checked_fail_on(fail_on), _checked_names(class_names, n_classes)
    kind = promise.kind
    by_row = kind is not None and kind.of_rows
    if groups is None and (by_row or "groups" in wanted):
        raise InputError("checking groups needs the group of each row, but these rows have none. Pass groups=.")
    of_class = np.bincount(labels, minlength=n_classes), np.bincount(labels[facts.hit], minlength=n_classes)
    if by_row and groups is not None:
        found = _laws_of_rows(promise, facts.hit, groups)
    else:
        found = _laws_of_classes(promise, of_class, facts.hit, groups)
    gaps = coverage_gaps(of_class[1], of_class[0], promise.alpha)
    of_clusters = kind is not None and kind.exact and not kind.each_class and not by_row
    return CheckReport(
        promise=promise,
        fail_on=wanted,
        class_names=names,
        rows=len(labels),
        marginal=found.marginal,
        avg_size=float(facts.size.sum() / len(labels)),
        empty_share=float(np.count_nonzero(facts.size == 0) / len(labels)),
        classes=found.table if kind and kind.each_class else yardstick(*of_class, promise.promised),
        clusters=found.table if of_clusters else None,
        top_gap=float(top_gap(gaps, n_classes)),
        avg_gap=float(avg_gap(gaps)),
        floor=noise_floor_of_counts(of_class[0], promise.alpha),
        calibration=calibration_check(facts, n_bins),
        groups=found.groups,
        group_names=found.group_names,
        parts=part_table(
            [*size_parts(facts.size, facts.hit), *confidence_parts(facts.confidence, facts.hit)], promise.alpha
        ),
        classwise=classwise,
    )


class _Found(NamedTuple):
    """Coverage by what has a threshold of its own (`table`), of all rows, and by group of rows if they have groups."""

    table: CoverageTable
    marginal: MarginalCoverage
    groups: CoverageTable | None
    group_names: tuple[str, ...] | None


def _laws_of_classes(promise: Promise, of_class: tuple[Ints, Ints], hit: Bools, groups: Groups | None) -> _Found:
    """Laws of classes that share a threshold; groups of rows were promised nothing."""
    shared = promise.groups(len(of_class[0]))
    rows, hits = (shared.total(counts) for counts in of_class)
    table, marginal = _against_laws(promise, shared, shared.index, rows, hits)
    if groups is None:
        return _Found(table, marginal, None, None)
    return _Found(table, marginal, yardstick(*_counted(groups, hit), promise.promised), groups.names)


def _laws_of_rows(promise: Promise, hit: Bools, groups: Groups) -> _Found:
    """Laws of groups of rows."""
    fresh, pools = promise.row_groups(groups)
    table, marginal = _against_laws(promise, pools, np.arange(len(fresh.names)), *_counted(fresh, hit))
    return _Found(table, marginal, table, fresh.names)


def _against_laws(
    promise: Promise, pools: Pools, index: Ints, rows: Ints, hits: Ints
) -> tuple[CoverageTable, MarginalCoverage]:
    """Each group against its law, and all together against the convolution."""
    laws = group_laws(pools, rows, promise.alpha)
    if promise.effective_rows is not None:
        laws = [weighted_law(promise.effective_rows, int(rows.sum()), promise.alpha)]
    table = coverage_table(index, rows, hits, lower_tails(laws, hits), promise.promised, "beta-binomial")
    marginal = marginal_coverage if promise.kind is None or promise.kind.exact else union_coverage
    return table, marginal(laws, rows, hits, promise)


def _counted(groups: Groups, hit: Bools) -> tuple[Ints, Ints]:
    """Rows and hits of each group."""
    return groups.counts, np.bincount(groups.codes[hit], minlength=len(groups.names))


def _checked_fail_on(fail_on: str | Iterable[str]) -> tuple[str, ...]:
    names = (fail_on,) if isinstance(fail_on, str) else tuple(fail_on)
    unknown = [name for name in names if name not in FAIL_ON]
    if unknown:
        *others, last = (repr(name) for name in FAIL_ON)
        raise InputError(
            f"fail_on accepts {', '.join(others)} and {last}; got {unknown[0]!r}. The promised coverage is always "
            "checked."
        )
    return names


def _checked_names(class_names: Sequence[str] | None, n_classes: int) -> tuple[str, ...] | None:
    if class_names is None:
        return None
    if len(class_names) != n_classes:
        raise InputError(f"class_names must name the {n_classes} classes of the sets; got {len(class_names)}.")
    return tuple(class_names)
