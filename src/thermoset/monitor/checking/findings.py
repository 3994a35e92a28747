"""What a check found: a record, sentences about broken promises, and plain Python for JSON."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from thermoset.core.levels import exact_level
from thermoset.metrics import NoiseFloor
from thermoset.monitor.checking.by_group import CoverageTable
from thermoset.monitor.checking.confidence import CalibrationCheck
from thermoset.monitor.checking.promise import SIGNIFICANCE, MarginalCoverage, Promise

__all__ = ["FAIL_ON", "CheckReport"]

FAIL_ON = ("classes", "calibration")
"""What a check may be asked to fail on besides broken promises."""

_NAMED = 5  # classes a sentence names before it says "and n more"


@dataclass(frozen=True, eq=False)
class CheckReport:
    """What `check` found.

    Attributes
    ----------
    promise : Promise
        What was promised.
    fail_on : tuple of str
        What to fail on besides.
    class_names : tuple of str, or None
        Names of the classes.
    rows : int
        Fresh rows.
    marginal : MarginalCoverage
        All classes together.
    avg_size, empty_share : float
        Mean set size, and share of sets without a label.
    classes : CoverageTable
        Every class.
    clusters : CoverageTable or None
        Every group of classes, where thresholds are by cluster or another group; None where they are by class.
    top_gap, avg_gap : float
        TopCovGap and AvgCovGap.
    floor : NoiseFloor
        What those two show by chance with so many rows of each class.
    calibration : CalibrationCheck
        The probabilities.
    """

    promise: Promise
    fail_on: tuple[str, ...]
    class_names: tuple[str, ...] | None
    rows: int
    marginal: MarginalCoverage
    avg_size: float
    empty_share: float
    classes: CoverageTable
    clusters: CoverageTable | None
    top_gap: float
    avg_gap: float
    floor: NoiseFloor
    calibration: CalibrationCheck

    @property
    def broken(self) -> tuple[str, ...]:
        """A sentence for each promise that was not kept, and for what `fail_on` asked for."""
        kind, groups = self.promise.kind, self.clusters
        by_class = (kind is not None and kind.each_class) or "classes" in self.fail_on
        sentences = (
            self._of_marginal(),
            # one group alone is what the first sentence is about
            self._of_table(groups, kind.units, None) if kind and groups and groups.tested > 1 else None,
            self._of_table(self.classes, "classes", self.class_names) if by_class else None,
            self._of_calibration() if "calibration" in self.fail_on else None,
        )
        return tuple(sentence for sentence in sentences if sentence)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return not self.broken

    def to_json_dict(self) -> dict[str, Any]:
        """The report in plain Python for `json`; what has no finite value (an absent class) is None.

        Keys: ok, broken, fail_on, rows, alpha, grouping, exact; marginal (rows, hits, coverage, promised,
        allowed as [low, high], p_value); avg_size, empty_share; top_coverage_gap and avg_coverage_gap (value,
        floor_mean, floor_95); calibration (the fields of `CalibrationCheck`; nll is None when infinite); class_names;
        class_law; classes and clusters: a list of dicts (index, rows, hits, coverage, low, high, p_value, p_holm),
        clusters None where there are none.
        """
        floor = self.floor
        return {
            "ok": self.ok,
            "broken": list(self.broken),
            "fail_on": list(self.fail_on),
            "rows": self.rows,
            "alpha": float(exact_level(self.promise.alpha)),
            "grouping": self.promise.grouping,
            "exact": self.promise.exact,
            "marginal": _plain(self.marginal) | {"allowed": list(self.marginal.allowed)},
            "avg_size": self.avg_size,
            "empty_share": self.empty_share,
            "top_coverage_gap": {"value": self.top_gap, "floor_mean": floor.top_mean, "floor_95": floor.top_95},
            "avg_coverage_gap": {"value": self.avg_gap, "floor_mean": floor.avg_mean, "floor_95": floor.avg_95},
            "calibration": _plain(self.calibration),
            "class_names": list(self.class_names) if self.class_names else None,
            "class_law": self.classes.law,
            "classes": self.classes.to_json_dicts(),
            "clusters": self.clusters.to_json_dicts() if self.clusters else None,
        }

    def _of_marginal(self) -> str | None:
        seen = self.marginal
        if not seen.broken:
            return None
        return (
            f"Coverage is {seen.coverage:.4f} on {seen.rows:,} rows, below the promised {seen.promised:g}: by its law "
            f"it would lie between {seen.allowed.low:.4f} and {seen.allowed.high:.4f} (p = {seen.p_value:.1g})."
        )

    def _of_table(self, table: CoverageTable, kinds: str, names: tuple[str, ...] | None) -> str | None:
        under = table.under_covered
        if not len(under):
            return None
        told = ", ".join(
            f"{repr(names[i]) if names else table.index[i]} ({table.hits[i]:,} of {table.rows[i]:,} rows, "
            f"p = {table.p_holm[i]:.1g})"
            for i in under[:_NAMED]
        )
        more = f" and {len(under) - _NAMED} more" if len(under) > _NAMED else ""
        the, which = ("the promised ", "") if table.law == "beta-binomial" else ("", ", for which it was not promised")
        return (
            f"Coverage is below {the}{table.promised:g} in {len(under)} of {table.tested} {kinds}{which} "
            f"(Holm-adjusted p-values): {told}{more}."
        )

    def _of_calibration(self) -> str | None:
        seen = self.calibration
        if seen.p_value >= SIGNIFICANCE:
            return None
        return (
            f"Confidence is not calibrated: its mean is {seen.confidence:.3f} and accuracy {seen.accuracy:.3f}; ECE is "
            f"{seen.ece:.4f}, where a calibrated model shows {seen.ece_mean:.4f} on average and more than "
            f"{seen.ece_95:.4f} in 5% of cases (p = {seen.p_value:.1g})."
        )


def _plain(record: MarginalCoverage | CalibrationCheck) -> dict[str, Any]:
    """Fields of a record; None for what JSON cannot hold."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(record).items()
    }
