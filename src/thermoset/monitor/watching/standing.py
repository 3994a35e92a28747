"""The status of a watched predictor after each batch: what the command prints and the page draws.

Evidence is the natural logarithm of an e-value throughout: 0 is no evidence, and a test alarms at `log_bar`.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from thermoset.notebook import html_paragraphs
from thermoset.quoting import printable
from thermoset.text_tables import AsTable, TextTable, number

__all__ = ["BatchRecord", "PartKind", "PartStanding", "Standing", "TestStanding"]

PartKind = Literal["class", "cluster", "group"]
"""What the parts are: classes, clusters of classes, or groups of rows."""


@dataclass(frozen=True)
class BatchRecord:
    """One batch.

    Attributes
    ----------
    name, time : str
        Its name, and the time given for it (None if no time was given).
    rows, labelled, hits, correct : int
        Number of rows; how many have a label by now; how many of these have the label in their set; for how many the
        likeliest label is correct.
    mean_size, empty, mean_confidence
        Mean number of labels in a set, number of empty sets, and mean confidence of the likeliest label, over all rows.
    log_under, log_over, log_size, log_confidence : float, or None where there is no such test
        Evidence of each test when this was the latest batch.
    coverage_low, coverage_high : float, or None without labels
        Confidence sequence of the mean coverage of all labelled rows, when this was the latest batch.
    """

    name: str
    time: str | None
    rows: int
    labelled: int
    hits: int
    mean_size: float
    empty: int
    mean_confidence: float
    correct: int
    log_under: float | None
    log_over: float | None
    log_size: float | None
    log_confidence: float | None
    coverage_low: float | None
    coverage_high: float | None


@dataclass(frozen=True)
class TestStanding:
    """One test: its evidence now, and when it alarmed.

    Attributes
    ----------
    name : "under", "over", "parts", "size" or "confidence"
        Which one.
    title : str
        What it looks for, in words.
    log_e, log_bar : float
        Evidence now, and the level at which it alarms.
    crossed_batch, crossed_row : int or None
        Index of the batch (from 0) and number of the row (from 1) at which it first alarmed. Tests of coverage count
        labelled rows; tests of parts are evaluated after every batch, and have no row.
    change_batches : tuple of int
        Indices of the batches in which its change detector alarmed.
    """

    name: str
    title: str
    log_e: float
    log_bar: float
    crossed_batch: int | None
    crossed_row: int | None
    change_batches: tuple[int, ...]


@dataclass(frozen=True)
class PartStanding:
    """Coverage of one class, cluster or group.

    `log_e` is the evidence of too few hits, adjusted for testing all parts. Where coverage was promised for the part
    (`promised`), it is the largest so far; otherwise it is the current evidence against coverage 1 - alpha, which never
    alarms.
    """

    name: str
    rows: int
    hits: int
    log_e: float
    promised: bool
    alarm: bool


@dataclass(frozen=True, repr=False)
class Standing(AsTable):
    """The status of a watched predictor. `print` it for what was found; `to_table` lists the batches.

    Attributes
    ----------
    promised, alpha, exact
        1 - alpha, alpha as the user wrote it, and whether coverage follows an exact law or is at least as high.
    delta : float
        Upper bound on the probability that any test ever alarms while the promise holds.
    run_length : int or None
        Lower bound on the average number of rows between false alarms of a change detector; None without detectors.
    reference_rows, reference_size
        Number of conformal rows, and the mean size of their sets (None if unknown).
    batches, tests, parts : tuples
        All batches in order; the tests in use; coverage of each part that has labelled rows.
    part_kind : "class", "cluster" or "group"
        What parts are.
    since : int or None
        Index of the batch at which coverage most likely changed; None unless a test of coverage has alarmed.
    before, after : float or None
        Coverage before that batch and from it on (`before` is None if it is the first).
    after_low, after_high : float or None
        Confidence sequence of `after`, valid although the data chose the starting point.
    alarm : bool
        Whether a test has ever alarmed, or a change detector alarmed in the last call.
    new_changes : bool
        Whether a change detector alarmed in the last call.
    sentences, advice : tuples of str
        What was found, and what to do.
    """

    promised: float
    alpha: str
    exact: bool
    delta: float
    run_length: int | None
    reference_rows: int
    reference_size: float | None
    batches: tuple[BatchRecord, ...]
    tests: tuple[TestStanding, ...]
    part_kind: PartKind
    parts: tuple[PartStanding, ...]
    since: int | None
    before: float | None
    after: float | None
    after_low: float | None
    after_high: float | None
    alarm: bool
    new_changes: bool
    sentences: tuple[str, ...]
    advice: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Rows of all batches."""
        return sum(batch.rows for batch in self.batches)

    @property
    def labelled(self) -> int:
        """Rows that have a label by now."""
        return sum(batch.labelled for batch in self.batches)

    @property
    def hits(self) -> int:
        """Labelled rows whose set holds the label."""
        return sum(batch.hits for batch in self.batches)

    def to_json_dict(self) -> dict[str, Any]:
        """The same as plain values for JSON.

        >>> part = PartStanding("cat", rows=10, hits=9, log_e=0.0, promised=False, alarm=False)
        >>> nothing = dict.fromkeys(("since", "before", "after", "after_low", "after_high"))
        >>> standing = Standing(promised=0.9, alpha="0.1", exact=True, delta=0.01, run_length=None, reference_rows=500,
        ...     reference_size=1.5, batches=(), tests=(), part_kind="class", parts=(part,), alarm=False,
        ...     new_changes=False, sentences=("No batch so far.",), advice=(), **nothing)
        >>> standing.to_json_dict()["parts"][0]["hits"], standing.to_json_dict()["rows"]
        (9, 0)
        """
        return {"rows": self.rows, "labelled": self.labelled, "hits": self.hits} | asdict(self)

    def to_table(self) -> TextTable:
        """One line for each batch, in order."""
        head = ("batch", "rows", "labelled", "coverage", "labels in a set", "empty", "confidence", "accuracy")
        lines = [
            (
                printable(batch.name),
                f"{batch.rows:,}",
                f"{batch.labelled:,}",
                number(batch.hits / batch.labelled if batch.labelled else None),
                number(batch.mean_size, ".2f"),
                number(batch.empty / batch.rows if batch.rows else None, ".1%"),
                number(batch.mean_confidence),
                number(batch.correct / batch.labelled if batch.labelled else None),
            )
            for batch in self.batches
        ]
        return TextTable("batches", f"Batches; promised coverage: {self.promised:g}", head, tuple(lines))

    def __str__(self) -> str:
        return " ".join((*self.sentences, *self.advice))

    def __repr__(self) -> str:
        told = [f"{len(self.batches):,} batch{'' if len(self.batches) == 1 else 'es'}", f"{self.rows:,} rows"]
        if self.labelled:
            told.append(f"coverage {self.hits / self.labelled:.4f} of {self.labelled:,} labelled ones")
        verdict = "ALARM" if self.alarm else "PASS"
        return f"Standing({verdict}: {', '.join(told)}; promised {self.promised:g})"

    def _repr_html_(self) -> str:
        """What a notebook shows: what was found, and the batches."""
        return html_paragraphs(str(self)) + self.to_table().to_html()
