"""What a check found: a record, sentences about broken promises, and plain Python for JSON."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from thermoset.errors import InputError
from thermoset.levels import exact_level
from thermoset.metrics import ClasswiseCalibration, NoiseFloor
from thermoset.metrics.sets import METRICS
from thermoset.monitor.checking.by_group import CoverageTable
from thermoset.monitor.checking.confidence import CalibrationCheck
from thermoset.monitor.checking.parts import PartTable
from thermoset.monitor.checking.promise import SIGNIFICANCE, MarginalCoverage, Promise
from thermoset.notebook import html_paragraphs
from thermoset.text_tables import AsTable, TextTable

__all__ = ["FAIL_ON", "CheckReport"]

FAIL_ON = ("classes", "groups", "calibration")
"""What a check can fail on besides broken promises."""

_SHOWN = 10  # classes or groups that a notebook shows
_NAMED = 5  # classes a sentence names before it says "and n more"


@dataclass(frozen=True, eq=False, repr=False)
class CheckReport(AsTable):
    """What `check` found. `print` it for a paragraph; `to_table`, `to_markdown` and `to_latex` list the classes.

    Attributes
    ----------
    promise : Promise
        What was promised.
    fail_on : tuple of str
        What else to fail on.
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
        Every group of classes, where thresholds are by cluster or another group of classes; otherwise None.
    top_gap, avg_gap : float
        TopCovGap and AvgCovGap.
    floor : NoiseFloor
        What those two show by chance, given the number of rows of each class.
    calibration : CalibrationCheck
        The probabilities.
    parts : PartTable
        Coverage by set size and by confidence, for which nothing was promised.
    classwise : ClasswiseCalibration or None
        Calibration of every class, where the probabilities of all classes were examined.
    undecided : int or None
        Rows with labels in their set that complete rows might exclude, where rows hold only their largest logits; see
        `TopLogits`.
    groups : CoverageTable or None
        Every group of rows, where rows have groups: compared with its own law where thresholds are by group, otherwise
        with coverage 1 - alpha, which was not promised for it.
    group_names : tuple of str, or None
        Names of the groups.
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
    parts: PartTable
    classwise: ClasswiseCalibration | None = None
    undecided: int | None = None
    groups: CoverageTable | None = None
    group_names: tuple[str, ...] | None = None

    @property
    def broken(self) -> tuple[str, ...]:
        """A sentence for each broken promise, and for each failed test that `fail_on` added."""
        kind, clusters = self.promise.kind, self.clusters
        by_class = (kind is not None and kind.each_class) or "classes" in self.fail_on
        sentences = (
            self._of_marginal(),
            # one group alone is what the first sentence is about
            self._of_table(clusters, kind.units, None) if kind and clusters and clusters.tested > 1 else None,
            self._of_groups(),
            self._of_table(self.classes, "classes", self.class_names) if by_class else None,
            self._of_calibration() if "calibration" in self.fail_on else None,
        )
        return tuple(sentence for sentence in sentences if sentence)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return not self.broken

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was not promised but is worth knowing: groups and parts with too little coverage.

        Also that the law is an approximation, where conformal rows have weights.
        """
        return tuple(sentence for sentence in (self.weight_note, self.group_note, self.parts.sentence) if sentence)

    @property
    def weight_note(self) -> str | None:
        """A sentence about the law where conformal rows have weights, and about which rows it is for."""
        rows = self.promise.effective_rows
        if rows is None:
            return None
        return (
            f"The conformal rows have weights, so coverage varies about as much as with {rows:,.0f} equally weighted "
            "rows: the expected range given here is approximate, and applies to rows like those the weights were made "
            "for."
        )

    @property
    def group_note(self) -> str | None:
        """A sentence about groups of rows with too little coverage, where nothing was promised for them."""
        told = None if self.groups is None else self._of_table(self.groups, "groups", self.group_names)
        return None if told in self.broken else told

    @property
    def verdict(self) -> str:
        """PASS or FAIL, and why, as the command ends."""
        if self.ok:
            return f"PASS: coverage is consistent with the promised {self.marginal.promised:g}."
        return " ".join(f"FAIL: {sentence}" for sentence in self.broken)

    def __str__(self) -> str:
        """The verdict and the main numbers in a paragraph."""
        seen, sure, floor = self.marginal, self.calibration, self.floor
        gap = METRICS["top_coverage_gap"].title
        expected = f"{seen.allowed.low:.4f} to {seen.allowed.high:.4f}"
        told = (
            f"{seen.hits:,} of {seen.rows:,} sets hold the true label: {seen.coverage:.4f}, expected {expected} (95%). "
            f"Sets have {self.avg_size:.2f} labels on average, and {self.empty_share:.1%} are empty. "
            f"{gap} is {self.top_gap:.3f}; chance alone gives {floor.top_mean:.3f} on these rows. "
            f"Accuracy is {sure.accuracy:.3f} and mean confidence {sure.confidence:.3f}: ECE {sure.ece:.4f}, and "
            f"{sure.ece_mean:.4f} by chance alone."
        )
        return " ".join((self.verdict, told, *self.notes))

    def __repr__(self) -> str:
        seen = self.marginal
        told = f"coverage {seen.coverage:.4f} of {seen.rows:,} rows, promised {seen.promised:g}"
        return f"CheckReport({'PASS' if self.ok else 'FAIL'}: {told}; {self.avg_size:.2f} labels in a set)"

    def _repr_html_(self) -> str:
        """What a notebook shows: the paragraph, and the classes or groups that are covered least."""
        found = self.to_table() if self.groups is None else self.group_table()
        return html_paragraphs(str(self)) + replace(found, lines=found.lines[:_SHOWN]).to_html()

    def to_table(self) -> TextTable:
        """Coverage of every class, the least covered first."""
        return self.classes.named_table("class", "classes", self.class_names)

    def group_table(self) -> TextTable:
        """Coverage of every group of rows, the least covered first; none without groups."""
        if self.groups is None:
            raise InputError("there is no table of groups: the rows that were checked have none. Pass groups to check.")
        return self.groups.named_table("group", "groups", self.group_names)

    def to_json_dict(self) -> dict[str, Any]:
        """The report as plain Python for `json`; values that are not finite (of an absent class) are None.

        Keys: ok, broken, notes, fail_on, rows, alpha, grouping, exact, effective_rows (None without weights); marginal
        (rows, hits, coverage, promised, allowed as [low, high], p_value); avg_size, empty_share; top_coverage_gap and
        avg_coverage_gap (value, floor_mean, floor_95); calibration (the fields of `CalibrationCheck`; nll is None when
        infinite); classwise_calibration (ece, chance, worst_class, worst_error), None where it was not measured;
        class_names; class_law; classes and clusters: a list of dicts (index, rows, hits, coverage, low, high, p_value,
        p_holm), clusters None where there are none; parts: the same with by and name in place of the index; part_gaps:
        a list of dicts (by, value, floor_mean, floor_95); undecided_rows, None for whole rows; group_names, group_law
        and groups, for groups of rows as for classes, None where rows have none.
        """
        floor = self.floor
        return {
            "ok": self.ok,
            "broken": list(self.broken),
            "notes": list(self.notes),
            "fail_on": list(self.fail_on),
            "rows": self.rows,
            "alpha": float(exact_level(self.promise.alpha)),
            "grouping": self.promise.grouping,
            "exact": self.promise.exact,
            "effective_rows": self.promise.effective_rows,
            "marginal": _plain(self.marginal) | {"allowed": list(self.marginal.allowed)},
            "avg_size": self.avg_size,
            "empty_share": self.empty_share,
            "top_coverage_gap": {"value": self.top_gap, "floor_mean": floor.top_mean, "floor_95": floor.top_95},
            "avg_coverage_gap": {"value": self.avg_gap, "floor_mean": floor.avg_mean, "floor_95": floor.avg_95},
            "calibration": _plain(self.calibration),
            "classwise_calibration": None if self.classwise is None else _classwise(self.classwise),
            "class_names": list(self.class_names) if self.class_names else None,
            "class_law": self.classes.law,
            "classes": self.classes.to_json_dicts(),
            "clusters": self.clusters.to_json_dicts() if self.clusters else None,
            "parts": self.parts.to_json_dicts(),
            "part_gaps": [
                {"by": of.by, "value": of.gap, "floor_mean": of.floor.top_mean, "floor_95": of.floor.top_95}
                for of in self.parts.gaps
            ],
            "undecided_rows": self.undecided,
            "group_names": list(self.group_names) if self.group_names else None,
            "group_law": self.groups.law if self.groups else None,
            "groups": self.groups.to_json_dicts() if self.groups else None,
        }

    def _of_marginal(self) -> str | None:
        seen = self.marginal
        if not seen.broken:
            return None
        expected = "the expected" if self.promise.effective_rows is None else "the approximate expected"
        return (
            f"Coverage is {seen.coverage:.4f} on {seen.rows:,} rows, below the promised {seen.promised:g}: {expected} "
            f"95% range is {seen.allowed.low:.4f} to {seen.allowed.high:.4f} (p = {seen.p_value:.1g})."
        )

    def _of_groups(self) -> str | None:
        kind, table = self.promise.kind, self.groups
        by_row = kind is not None and kind.of_rows
        if table is None or (by_row and table.tested < 2 and "groups" not in self.fail_on):
            return None
        return self._of_table(table, "groups", self.group_names) if by_row or "groups" in self.fail_on else None

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
            f"Confidence is not calibrated: its mean is {seen.confidence:.3f}, but accuracy is {seen.accuracy:.3f}; "
            f"ECE is {seen.ece:.4f}, while a calibrated model would show {seen.ece_mean:.4f} on average and more than "
            f"{seen.ece_95:.4f} in 5% of cases (p = {seen.p_value:.1g})."
        )


def _classwise(found: ClasswiseCalibration) -> dict[str, Any]:
    worst = int(found.error.argmax())
    numbers = {"ece": found.ece, "chance": found.ece_chance}
    return {**numbers, "worst_class": worst, "worst_error": float(found.error[worst])}


def _plain(record: MarginalCoverage | CalibrationCheck) -> dict[str, Any]:
    """Fields of a record; None for values that JSON cannot represent."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in asdict(record).items()
    }
