"""The result of a check: records of numbers, tables, sentences, and plain Python for JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.errors import InputError
from thermoset.levels import exact_level
from thermoset.metrics import ClasswiseCalibration, Interval, NoiseFloor
from thermoset.metrics.sets import METRICS
from thermoset.quoting import Brief, listing, printable
from thermoset.text_tables import AsTable, TextTable, html_paragraphs, number

if TYPE_CHECKING:
    from thermoset.monitor.promise import Promise

SIGNIFICANCE = 0.001
"""A promise is called broken when such data would have a probability below this if it were kept."""

FAIL_ON = ("classes", "groups", "confidence", "answers")
"""Tests that a check can add to those of the promise."""

_SHOWN = 10  # classes or groups that a notebook shows
_COLUMNS = ("index", "rows", "hits", "coverage", "low", "high", "p_value", "p_holm")
_PHRASES = {"size": "sets of {} labels", "confidence": "confidence {}"}


@dataclass(frozen=True)
class MarginalCoverage:
    """Coverage of all rows covered by a promise (so without those of a null cluster), taken together.

    `allowed` is the 95% range of the coverage under the law, up to 1 where the law is a lower bound; `p_value` the
    probability of that many hits or fewer under the promise, never below 1e-12 where laws were convolved.
    """

    rows: int
    hits: int
    coverage: float
    promised: float
    allowed: Interval
    p_value: float

    @property
    def broken(self) -> bool:
        """Whether coverage is below 1 - alpha, which the law may exceed, with a p-value below `SIGNIFICANCE`."""
        return self.p_value < SIGNIFICANCE and self.coverage < self.promised


@dataclass(frozen=True)
class AnswerCheck:
    """Errors among the rows that are answered alone, and the probability of so many or more at the claimed bound."""

    rows: int
    answered: int
    errors: int
    bound: float
    low: float
    high: float
    p_value: float

    @property
    def broken(self) -> bool:
        """Whether more answers are wrong than was claimed, with a p-value below `SIGNIFICANCE`."""
        return self.p_value < SIGNIFICANCE

    @property
    def sentence(self) -> str:
        """The numbers in a sentence."""
        share = f"{self.answered:,} of {self.rows:,} rows are answered alone"
        if not self.answered:
            return f"{share}."
        return (
            f"{share}, and {self.errors:,} of these are wrong: {self.errors / self.answered:.4f} ({self.low:.4f} to "
            f"{self.high:.4f}), claimed: at most {self.bound:g} (p = {self.p_value:.2g})."
        )


@dataclass(frozen=True, eq=False, repr=False)
class CoverageTable(Brief, AsTable):
    """Coverage of each class, cluster of classes or group of rows: arrays with one entry for each.

    index : class, cluster, or place of the group in the names; low, high : the 95% interval (Clopper-Pearson) of the
    coverage; p_value, p_holm : probability of that many hits or fewer, alone and adjusted for the number of entries
    tested; law : "beta-binomial", the promised law, or "binomial", a comparison with coverage 1 - alpha where nothing
    was promised. All but the counts are NaN for an entry without rows, and the p-values for one without a promise.
    """

    index: Ints
    rows: Ints
    hits: Ints
    coverage: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_holm: Floats
    promised: float
    law: str

    @property
    def tested(self) -> int:
        """Number of entries with a p-value."""
        return int(np.count_nonzero(~np.isnan(self.p_value)))

    @property
    def under_covered(self) -> Ints:
        """Indices of the entries below 1 - alpha with `p_holm` below `SIGNIFICANCE`, the clearest first."""
        low = np.flatnonzero((self.p_holm < SIGNIFICANCE) & (self.coverage < self.promised))
        return low[np.argsort(self.p_holm[low], kind="stable")]

    @property
    def order(self) -> list[int]:
        """Places of the entries, the least covered first, those without rows last."""
        return list(np.lexsort((self.p_value, np.nan_to_num(self.coverage, nan=2.0))).tolist())

    def at(self, places: Ints) -> "CoverageTable":
        """Some of the entries, with p-values that are still adjusted for all."""
        return replace(self, **{name: getattr(self, name)[places] for name in _COLUMNS})

    def sentence(self, kinds: str, names: Sequence[object] | None = None) -> str | None:
        """Which entries are significantly below 1 - alpha, and of how many rows; None if there are none."""
        low = self.under_covered
        if not len(low):
            return None
        called = names or self.index.tolist()
        each = [f"{called[i]} ({self.hits[i]:,} of {self.rows[i]:,} rows, p = {self.p_holm[i]:.1g})" for i in low]
        the, which = ("the promised ", "") if self.law == "beta-binomial" else ("", ", for which it was not promised")
        return (
            f"Coverage is below {the}{self.promised:g} in {len(low)} of {self.tested} {kinds}{which} "
            f"(Holm-adjusted p-values): {listing(each)}."
        )

    def to_table(self) -> TextTable:
        """The table in text, the least covered first; entries are called by their number."""
        return self.named_table("place", "")

    def named_table(self, one: str, many: str, names: tuple[str, ...] | None = None) -> TextTable:
        """The same for entries that are called `one` and have names."""
        lines = [
            (
                printable(names[i]) if names else str(self.index[i]),
                f"{self.rows[i]:,}",
                f"{self.hits[i]:,}",
                number(self.coverage[i]),
                f"{self.low[i]:.3f} to {self.high[i]:.3f}" if self.rows[i] else "-",
                number(self.p_holm[i], ".2g"),
            )
            for i in self.order
        ]
        title = f"Coverage{' of ' if many else ''}{many}, promised: {self.promised:g}"
        if self.law == "binomial" and many:
            title = f"Coverage of {many}; {self.promised:g} is promised for all rows together"
        return TextTable(many or "coverage", title, (one, "rows", "hits", "coverage", "95%", "p (Holm)"), tuple(lines))

    def to_json_dicts(self) -> list[dict[str, Any]]:
        """One dict per entry, with the names of the arrays as keys; None for NaN."""
        columns = ([None if x != x else x for x in getattr(self, key).tolist()] for key in _COLUMNS)  # noqa: PLR0124 (NaN)
        return [dict(zip(_COLUMNS, entry, strict=True)) for entry in zip(*columns, strict=True)]


@dataclass(frozen=True)
class PartGap:
    """The largest | coverage - (1 - alpha) | over the parts of one kind, and what chance alone shows."""

    by: str
    gap: float
    floor: NoiseFloor


@dataclass(frozen=True, eq=False, repr=False)
class PartTable(Brief, AsTable):
    """Coverage of parts of the rows, for which nothing was promised: by "size" of the set, and by "confidence".

    The p-values of `table` are adjusted for all parts of every kind; `gaps` has the largest gap of each kind.
    """

    by: tuple[str, ...]
    names: tuple[str, ...]
    table: CoverageTable
    gaps: tuple[PartGap, ...]

    @property
    def phrases(self) -> tuple[str, ...]:
        """The name of each part in a sentence, such as "sets of 2 to 3 labels"."""
        return tuple(_PHRASES[by].format(name) for by, name in zip(self.by, self.names, strict=True))

    def places(self, by: str) -> list[int]:
        """Where the parts of a kind stand."""
        return [i for i, kind in enumerate(self.by) if kind == by]

    def to_table(self) -> TextTable:
        """The parts as a table of text."""
        return self.table.named_table("part", "parts of the rows", self.phrases)

    def to_json_dicts(self) -> list[dict[str, Any]]:
        """One dict per part: by, name, and the keys of `CoverageTable.to_json_dicts` except the index."""
        entries = zip(self.by, self.names, self.table.to_json_dicts(), strict=True)
        return [{"by": by, "name": name, **{key: entry[key] for key in _COLUMNS[1:]}} for by, name, entry in entries]


@dataclass(frozen=True)
class ConfidenceRange:
    """Answers with a confidence from `low` to `high`: how many, how many were right, and their mean confidence."""

    low: float
    high: float
    rows: int
    right: int
    confidence: float


@dataclass(frozen=True)
class CalibrationCheck:
    """Quality of the probabilities, and whether confidence is calibrated.

    `ece_mean` and `ece_95` are the mean and the 95% quantile of the ECE that a calibrated model would show with these
    confidences, and `p_value` (simulated, at least 0.0002) is the probability of one at least as large. `worst` is
    where confidence and accuracy differ most clearly.
    """

    ece: float
    ece_mean: float
    ece_95: float
    p_value: float
    nll: float
    brier: float
    accuracy: float
    confidence: float
    n_bins: int
    worst: ConfidenceRange

    @property
    def sentence(self) -> str | None:
        """The range where confidence and accuracy differ most; None unless p < `SIGNIFICANCE`."""
        if self.p_value >= SIGNIFICANCE:
            return None
        worst = self.worst
        shares = worst.confidence, worst.right / worst.rows
        close = abs(shares[0] - shares[1]) < 0.02
        mean, right = (f"{share:.{int(close or not 0.01 <= share <= 0.99)}%}" for share in shares)
        return (
            f"Confidence does not match accuracy: of {worst.rows:,} answers given with {100 * worst.low:.0f} to "
            f"{worst.high:.0%} confidence ({mean} on average), {right} were right. ECE is {self.ece:.4f}, where "
            f"calibrated confidence shows {self.ece_mean:.4f} on average (p = {self.p_value:.1g})."
        )


@dataclass(frozen=True, eq=False, repr=False)
class CheckReport(AsTable):
    """The result of `check`: `print` it for a paragraph; `to_table`, `to_markdown` and `to_latex` list the classes.

    Attributes
    ----------
    promise : Promise
        What was promised.
    fail_on, class_names
        What else to fail on; names of the classes, or None.
    rows, marginal
        Number of fresh rows, and the coverage of all of them.
    avg_size, empty_share : float
        Mean set size, and share of sets without a label.
    classes, clusters : CoverageTable
        Every class; every group of classes, where these have thresholds, otherwise None.
    top_gap, avg_gap, floor
        TopCovGap and AvgCovGap, and what they show by chance, given the number of rows of each class.
    calibration, classwise
        The probabilities; every class's, where the probabilities of all classes were examined, otherwise None.
    parts : PartTable
        Coverage by set size and by confidence, for which nothing was promised.
    undecided : int or None
        Rows with labels in their set that complete rows might exclude; see `TopLogits`.
    groups, group_names
        Every group of rows, where rows have groups: compared with its own law where thresholds are by group, otherwise
        with coverage 1 - alpha, which was not promised for it.
    answers : AnswerCheck or None
        Errors among answered rows, where there is an answer rule. Coverage, sizes and `rows` then concern the others.
    """

    promise: "Promise"
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
    answers: AnswerCheck | None = None

    @property
    def broken(self) -> tuple[str, ...]:
        """A sentence for each broken promise, and for each failed test that `fail_on` added."""
        kind, clusters, groups, seen = self.promise.kind, self.clusters, self.groups, self.marginal
        sentences: list[str | None] = []
        if seen.broken:
            expected = "the expected" if self.promise.effective_rows is None else "the approximate expected"
            sentences.append(
                f"Coverage is {seen.coverage:.4f} on {seen.rows:,} rows, below the promised {seen.promised:g}: "
                f"{expected} 95% range is {seen.allowed.low:.4f} to {seen.allowed.high:.4f} (p = {seen.p_value:.1g})."
            )
        # One cluster or group alone is what the first sentence is about.
        if kind and clusters and clusters.tested > 1:
            sentences.append(clusters.sentence(kind.units))
        if groups and ("groups" in self.fail_on or (kind and kind.of_rows and groups.tested > 1)):
            sentences.append(self.group_sentence)
        if "classes" in self.fail_on or (kind and kind.each_class):
            sentences.append(self.classes.sentence("classes", self.class_names and [*map(repr, self.class_names)]))
        if "confidence" in self.fail_on:
            sentences.append(self.calibration.sentence)
        if "answers" in self.fail_on and self.answers is not None and self.answers.broken:
            sentences.append(self.answers.sentence)
        return tuple(sentence for sentence in sentences if sentence)

    @property
    def ok(self) -> bool:
        """Whether nothing is broken."""
        return not self.broken

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what was not promised, or is only approximate: confidence, groups, parts, weights."""
        confidence = None if "confidence" in self.fail_on else self.calibration.sentence
        parts = self.parts.table.sentence("parts of the rows", self.parts.phrases)
        answers = None if self.answers is None else self.answers.sentence
        weights, rows = None, self.promise.effective_rows
        if rows is not None:
            weights = (
                f"The conformal rows have weights, so coverage varies about as much as with {rows:,.0f} equally "
                "weighted rows: the expected range given here is approximate, and applies to rows like those the "
                "weights were made for."
            )
        notes, broken = (answers, confidence, weights, self.group_sentence, parts), self.broken
        return tuple(note for note in notes if note and note not in broken)

    @property
    def group_sentence(self) -> str | None:
        """Which groups of rows are significantly below 1 - alpha; None if there are none."""
        names = self.group_names and [*map(repr, self.group_names)]
        return None if self.groups is None else self.groups.sentence("groups", names)

    @property
    def verdict(self) -> str:
        """PASS or FAIL, and why, as the command ends."""
        if not self.ok:
            return " ".join(f"FAIL: {sentence}" for sentence in self.broken)
        but = "; confidence does not match accuracy" if self.calibration.sentence else ""
        return f"PASS: coverage is consistent with the promised {self.marginal.promised:g}{but}."

    def __str__(self) -> str:
        """The verdict and the main numbers in a paragraph."""
        seen, sure, floor = self.marginal, self.calibration, self.floor
        gap = METRICS["top_coverage_gap"].title
        expected = f"{seen.allowed.low:.4f} to {seen.allowed.high:.4f}"
        numbers = (
            f"{seen.hits:,} of {seen.rows:,} sets hold the true label: {seen.coverage:.4f}, expected {expected} (95%). "
            f"Sets have {self.avg_size:.2f} labels on average, and {self.empty_share:.1%} are empty. "
            f"{gap} is {self.top_gap:.3f}; chance alone gives {floor.top_mean:.3f} on these rows. "
            f"Accuracy is {sure.accuracy:.3f} and mean confidence {sure.confidence:.3f}: ECE {sure.ece:.4f}, and "
            f"{sure.ece_mean:.4f} by chance alone."
        )
        return " ".join((self.verdict, numbers, *self.notes))

    def __repr__(self) -> str:
        seen = self.marginal
        coverage = f"coverage {seen.coverage:.4f} of {seen.rows:,} rows, promised {seen.promised:g}"
        return f"CheckReport({'PASS' if self.ok else 'FAIL'}: {coverage}; {self.avg_size:.2f} labels in a set)"

    def _repr_html_(self) -> str:
        table = self.to_table() if self.groups is None else self.group_table()
        return html_paragraphs(str(self)) + replace(table, lines=table.lines[:_SHOWN]).to_html()

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

        docs/command-line.md describes the keys, which `thermoset check --json` prints.
        """
        floor, classwise = self.floor, self.classwise
        worst = 0 if classwise is None else int(classwise.error.argmax())
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
            "marginal": _finite(asdict(self.marginal)) | {"allowed": list(self.marginal.allowed)},
            "avg_size": self.avg_size,
            "empty_share": self.empty_share,
            "top_coverage_gap": {"value": self.top_gap, "floor_mean": floor.top_mean, "floor_95": floor.top_95},
            "avg_coverage_gap": {"value": self.avg_gap, "floor_mean": floor.avg_mean, "floor_95": floor.avg_95},
            "calibration": _finite(asdict(self.calibration)),
            "classwise_calibration": None
            if classwise is None
            else {
                "ece": classwise.ece,
                "chance": classwise.ece_chance,
                "worst_class": worst,
                "worst_error": float(classwise.error[worst]),
            },
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
            "answers": None if self.answers is None else asdict(self.answers),
        }


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """None for values that JSON cannot represent."""
    return {key: None if isinstance(x, float) and not math.isfinite(x) else x for key, x in record.items()}
