"""Is the promise kept? Coverage and calibration of a fitted predictor on fresh labelled rows.

================  =====================================================================================
`laws`            which law the hits follow, and why; marginal coverage against it
`tables`          coverage by class or cluster, p-values adjusted for their number
`calibration`     whether confidence is calibrated, beside what chance shows
`report`          what was found: as a record, as sentences, as JSON
================  =====================================================================================

>>> sets = np.eye(2, dtype=bool)[[0] * 90 + [1] * 10]  # {0} for 90 rows, {1} for 10
>>> report = check(sets, np.where(sets, 0.9, 0.1), labels=[0] * 100, promise=Promise(0.1, [999]))
>>> report.marginal.coverage, report.ok
(0.9, True)
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from thermoset.errors import InputError
from thermoset.metrics import (
    avg_gap,
    avg_size,
    class_coverage,
    coverage_gaps,
    empty_share,
    noise_floor_of_counts,
    top_gap,
)
from thermoset.monitor.checking.by_group import CoverageTable, coverage_table, holm, yardstick
from thermoset.monitor.checking.confidence import CalibrationCheck, calibration_check
from thermoset.monitor.checking.findings import FAIL_ON, CheckReport
from thermoset.monitor.checking.promise import (
    NULL_GROUP,
    SIGNIFICANCE,
    MarginalCoverage,
    Promise,
    group_laws,
    lower_tails,
    marginal_coverage,
)

__all__ = [
    "FAIL_ON",
    "NULL_GROUP",
    "SIGNIFICANCE",
    "CalibrationCheck",
    "CheckReport",
    "CoverageTable",
    "MarginalCoverage",
    "Promise",
    "check",
    "holm",
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
) -> CheckReport:
    """Compare sets (n, C) and probabilities (n, C) of fresh rows with their labels and with the promise.

    Broken is: marginal coverage below 1 - alpha, and below its law with p < 0.001; with thresholds by class or
    cluster, the same for one of these with a Holm-adjusted p-value. `fail_on` adds, at the same level, "classes" (a
    class is covered with probability below 1 - alpha, though nothing may be promised for it) and "calibration"
    (confidence is not calibrated). A predictor that keeps its promise fails each question once in a thousand times,
    or less.

    >>> sets = np.eye(2, dtype=bool)[[0] * 82 + [1] * 18]
    >>> probs = np.where(sets, 0.8, 0.2)
    >>> report = check(sets, probs, labels=[0] * 100, promise=Promise(0.1, [999]))
    >>> report.ok, report.marginal.p_value < 0.05  # 82 hits where 90 are expected: suspicious, and not enough
    (True, True)
    >>> report = check(sets, probs, labels=[1] * 100, promise=Promise(0.1, [999]))
    >>> report.ok, report.marginal.coverage, report.calibration.accuracy
    (False, 0.18, 0.18)
    """
    wanted = _checked_fail_on(fail_on)
    found = class_coverage(sets, labels)
    calibration = calibration_check(probs, labels, n_bins)
    if np.shape(probs) != np.shape(sets):
        raise InputError(
            f"sets and probs must have one shape (rows, classes); got {np.shape(sets)} and {np.shape(probs)}. "
            "Pass both for the same rows."
        )
    n_classes = len(found.count)
    groups = promise.groups(n_classes)
    rows, hits = groups.total(found.count), groups.total(found.hits)
    laws = group_laws(groups, rows, promise.alpha)
    by_group = coverage_table(groups.index, rows, hits, lower_tails(laws, hits), promise.promised, "beta-binomial")
    gaps = coverage_gaps(found.hits, found.count, promise.alpha)
    kind = promise.kind
    return CheckReport(
        promise=promise,
        fail_on=wanted,
        class_names=_checked_names(class_names, n_classes),
        rows=int(found.count.sum()),
        marginal=marginal_coverage(laws, rows, hits, promise),
        avg_size=avg_size(sets),
        empty_share=empty_share(sets),
        classes=by_group if kind and kind.each_class else yardstick(found.count, found.hits, promise.promised),
        clusters=by_group if kind and not kind.each_class else None,
        top_gap=float(top_gap(gaps, n_classes)),
        avg_gap=float(avg_gap(gaps)),
        floor=noise_floor_of_counts(found.count, promise.alpha),
        calibration=calibration,
    )


def _checked_fail_on(fail_on: str | Iterable[str]) -> tuple[str, ...]:
    names = (fail_on,) if isinstance(fail_on, str) else tuple(fail_on)
    unknown = [name for name in names if name not in FAIL_ON]
    if unknown:
        known = " and ".join(repr(name) for name in FAIL_ON)
        raise InputError(f"fail_on may name {known}; got {unknown[0]!r}. Coverage as promised is always checked.")
    return names


def _checked_names(class_names: Sequence[str] | None, n_classes: int) -> tuple[str, ...] | None:
    if class_names is None:
        return None
    if len(class_names) != n_classes:
        raise InputError(f"class_names must name the {n_classes} classes of the sets; got {len(class_names)}.")
    return tuple(class_names)
