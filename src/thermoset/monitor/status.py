"""A monitor's status after a batch: the tests, since when coverage has changed and by how much, and what to do.

Evidence is the natural logarithm of an e-value: 0 is no evidence, and a test alarms at `log_bar`.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from thermoset.levels import exact_level
from thermoset.metrics.planning import plan
from thermoset.monitor.evidence import change_point, coverage_since
from thermoset.quoting import listing, printable
from thermoset.text_tables import AsTable, TextTable, html_paragraphs, number

if TYPE_CHECKING:
    from thermoset.monitor.state import MonitorState, Reference

PartKind = Literal["class", "cluster", "group"]
"""The kind of the parts: classes, clusters of classes, or groups of rows."""

TITLES = {
    "under": "coverage too low",
    "over": "coverage too high",
    "parts": "coverage of a part too low",
    "size": "set sizes changed",
    "confidence": "confidence changed",
    "answers": "too many wrong answers",
}
"""The title of each test, in the order in which they are shown."""

PLURALS = {"class": "classes", "cluster": "clusters", "group": "groups"}

_OF_COVERAGE = {"under", "over", "parts"}
_LOWEST = -700.0  # of a logarithm: below it an e-value is no number
_SHOWN = 3  # parts that a sentence names
_CLEAR = math.log(20)  # evidence from which on a part is named that nothing was promised for
_NARROWEST = Fraction(1, 1000)


@dataclass(frozen=True)
class BatchRecord:
    """One batch: its name and time, and what its rows and their labels show.

    `labelled` rows have a label by now, `hits` of these have it in their set, and for `correct` of them it is the
    likeliest; rows `answered` alone are not among them. The other numbers are over all rows. Evidence of each test
    (None where there is no such test) and the confidence sequence of the mean coverage of all labelled rows,
    `coverage_low` to `coverage_high`, are those of the time when this was the latest batch.
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
    log_under: float | None = None
    log_over: float | None = None
    log_size: float | None = None
    log_confidence: float | None = None
    coverage_low: float | None = None
    coverage_high: float | None = None
    answered: int = 0

    @property
    def called(self) -> str:
        """Its name and time, for a sentence."""
        return printable(self.name, 60) + ("" if self.time is None else f" ({printable(self.time, 40)})")


@dataclass(frozen=True)
class TestStatus:
    """One test: its evidence now, and when it alarmed.

    `crossed_batch` (from 0) and `crossed_row` (from 1) are where it first alarmed: tests of coverage count labelled
    rows, and tests of parts have no row. `change_batches` are those in which its change detector alarmed.
    """

    __test__ = False  # pytest takes the name for that of a class of tests

    name: str
    title: str
    log_e: float
    log_bar: float
    crossed_batch: int | None
    crossed_row: int | None
    change_batches: tuple[int, ...]


@dataclass(frozen=True)
class PartStatus:
    """Coverage of one class, cluster or group, and evidence of too few hits, adjusted for testing all parts.

    Where coverage was `promised` for the part, `log_e` is the largest evidence so far; otherwise it is the current
    evidence against coverage 1 - alpha, which never alarms.
    """

    name: str
    rows: int
    hits: int
    log_e: float
    promised: bool
    alarm: bool


@dataclass(frozen=True)
class AnswerCounts:
    """Rows answered alone: all of them, those with a label by now, the wrong ones of these, and the claimed `bound`."""

    rows: int
    labelled: int
    errors: int
    bound: float


@dataclass(frozen=True, repr=False)
class MonitorStatus(AsTable):
    """The status of a monitor. `print` it for the findings; `to_table` lists the batches.

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
        The findings, and what to do.
    answers : AnswerCounts or None
        Rows answered alone and errors among them, where there is an answer rule.
    """

    promised: float
    alpha: str
    exact: bool
    delta: float
    run_length: int | None
    reference_rows: int
    reference_size: float | None
    batches: tuple[BatchRecord, ...]
    tests: tuple[TestStatus, ...]
    part_kind: PartKind
    parts: tuple[PartStatus, ...]
    since: int | None
    before: float | None
    after: float | None
    after_low: float | None
    after_high: float | None
    alarm: bool
    new_changes: bool
    sentences: tuple[str, ...]
    advice: tuple[str, ...]
    answers: AnswerCounts | None = None

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

    @property
    def changed_from(self) -> int | None:
        """Index of the first batch in which rows were seen to differ from the conformal rows; None if they do not."""
        crossed = [test.crossed_batch for test in self.tests if test.crossed_batch is not None]
        detected = [test.change_batches[-1] for test in self.tests if self.new_changes and test.change_batches]
        return min(crossed or detected, default=None)

    def to_json_dict(self) -> dict[str, Any]:
        """The status as plain values for JSON."""
        return {"rows": self.rows, "labelled": self.labelled, "hits": self.hits} | asdict(self)

    def to_table(self) -> TextTable:
        """One line for each batch, in order."""
        head = ("batch", "rows", "labelled", "coverage", "labels in a set", "empty", "confidence", "accuracy")
        lines = []
        for batch in self.batches:
            coverage, accuracy = (
                part / batch.labelled if batch.labelled else None for part in (batch.hits, batch.correct)
            )
            counts = printable(batch.name), f"{batch.rows:,}", f"{batch.labelled:,}", number(coverage)
            empty = number(batch.empty / batch.rows if batch.rows else None, ".1%")
            sure = number(batch.mean_confidence), number(accuracy)
            lines.append((*counts, number(batch.mean_size, ".2f"), empty, *sure))
        return TextTable("batches", f"Batches; promised coverage: {self.promised:g}", head, tuple(lines))

    def __str__(self) -> str:
        return " ".join((*self.sentences, *self.advice))

    def __repr__(self) -> str:
        counts = [f"{len(self.batches):,} batch{'' if len(self.batches) == 1 else 'es'}", f"{self.rows:,} rows"]
        if self.labelled:
            counts.append(f"coverage {self.hits / self.labelled:.4f} of {self.labelled:,} labelled ones")
        verdict = "ALARM" if self.alarm else "PASS"
        return f"MonitorStatus({verdict}: {', '.join(counts)}; promised {self.promised:g})"

    def _repr_html_(self) -> str:
        return html_paragraphs(str(self)) + self.to_table().to_html()


# ---- from a state ----------------------------------------------------------------------------------------------------


def summarize(state: "MonitorState", reference: "Reference") -> MonitorStatus:
    """The status that a state and its reference give."""
    records, evidence, promise = state.records, state.evidence, reference.promise
    rows_crossed = {name: process.crossed for name, process in state.processes.items()}
    tests = tuple(
        TestStatus(
            name, title, *evidence[name], state.crossed.get(name), rows_crossed.get(name), state.changes.get(name, ())
        )
        for name, title in TITLES.items()
        if name in evidence
    )
    last = len(records) - 1
    changed = [test.name for test in tests if state.new_changes and test.change_batches[-1:] == (last,)]
    alarmed = [test.name for test in tests if test.crossed_batch is not None]
    sizes = np.array(reference.sizes, dtype=np.float64)
    status = MonitorStatus(
        promised=promise.promised,
        alpha=str(promise.alpha),
        exact=promise.exact,
        delta=state.delta,
        run_length=state.run_length,
        reference_rows=reference.rows,
        reference_size=float(sizes @ np.arange(len(sizes)) / sizes.sum()) if len(sizes) else None,
        batches=records,
        tests=tests,
        part_kind=reference.part_kind(False) if state.parts is None else state.parts.kind,
        parts=_part_statuses(state, reference),
        **_change(state, reference, {*alarmed, *changed} & _OF_COVERAGE),
        alarm=bool(alarmed) or state.new_changes,
        new_changes=state.new_changes,
        sentences=(),
        advice=(),
        answers=None
        if state.answer_bound is None
        else AnswerCounts(sum(one.answered for one in records), *state.audited, state.answer_bound),
    )
    sentences = _sentences(status, changed, [*_audit(state), *_reasons_without_test(state, reference)])
    return replace(status, sentences=sentences, advice=_advice(status))


def _part_statuses(state: "MonitorState", reference: "Reference") -> tuple[PartStatus, ...]:
    """Each part that has labelled rows, those with most evidence first."""
    counts = state.parts
    if counts is None or not any(counts.rows):
        return ()
    names, bar = reference.part_names(counts), state.part_bar
    rows, hits = np.array(counts.rows, dtype=np.int64), np.array(counts.hits, dtype=np.int64)
    known = reference.parts(counts.kind).pad(len(rows))
    log_e = np.where(known.promised, counts.peaks, np.maximum(reference.part_evidence(known, rows, hits), _LOWEST))
    return tuple(
        PartStatus(
            name=names[i],
            rows=int(rows[i]),
            hits=int(hits[i]),
            log_e=float(log_e[i]),
            promised=bool(known.promised[i]),
            alarm=bool(known.promised[i] and log_e[i] >= bar),
        )
        for i in np.argsort(-log_e, kind="stable")
        if rows[i]
    )


def _change(state: "MonitorState", reference: "Reference", alarmed: set[str]) -> dict[str, Any]:
    """Since when coverage has changed, and to what; all None if no test of coverage has alarmed.

    The conformal rows, whose coverage is known, stand before the first batch: so a stream that was bad from its first
    row on has its change there.
    """
    if not alarmed:
        return dict.fromkeys(("since", "before", "after", "after_low", "after_high"))
    rows, hits = (np.array([getattr(one, name) for one in state.records]) for name in ("labelled", "hits"))
    known = round(reference.rows * reference.promise.promised)
    direction: Literal["higher", "lower"] = "higher" if alarmed == {"over"} else "lower"
    change = change_point(np.append(reference.rows, rows), np.append(known, hits), direction=direction)
    start = 0 if change is None else change.batch - 1
    while not rows[start]:  # a change cannot be placed in batches without labels
        start += 1
    low, high = coverage_since(rows, hits, start, state.delta)
    return {
        "since": start,
        "before": float(hits[:start].sum() / rows[:start].sum()) if rows[:start].any() else None,
        "after": float(hits[start:].sum() / rows[start:].sum()),
        "after_low": low,
        "after_high": high,
    }


# ---- wording ---------------------------------------------------------------------------------------------------------


def _audit(state: "MonitorState") -> list[str]:
    """A sentence on the labels of answered rows, where there is an answer rule."""
    if state.answer_bound is None:
        return []
    answered, errors = state.audited
    if not answered:
        return ["No answered row has a label: label a random sample of them to test the claimed error."]
    seen = f"{errors:,} of {answered:,} labelled answers are wrong ({errors / answered:.4f})"
    return [f"{seen}; claimed: at most {state.answer_bound:g}."]


def _reasons_without_test(state: "MonitorState", reference: "Reference") -> list[str]:
    """Why there is no test of something, a sentence for each."""
    kind, law, sentences = reference.promise.kind, reference.law, []
    if kind is not None and not kind.exact:
        sentences.append(
            "Coverage is shown but not tested: for interpolated thresholds, the only proven bound is average coverage "
            "of at least 1 - 2 alpha, which does not apply to a single stream."
        )
    elif kind is None and law is None:
        sentences.append(
            "Coverage is shown but not tested: with thresholds adjusted for label shift, it follows no known law to "
            "test against."
        )
    elif law is not None and not law.finite:
        sentences.append(
            "Coverage is not tested: with so few conformal rows the threshold is infinite, and no set can miss."
        )
    off = [name for name, test in (("set sizes", state.size), ("confidence", state.confidence)) if test is None]
    if off:
        sentences.append(
            f"Unlabelled rows are not tested for changes in {' and '.join(off)}: the predictor has no conformal rows "
            "to compare them with."
        )
    return sentences


def _sentences(status: MonitorStatus, changed: Sequence[str], untested: Sequence[str]) -> tuple[str, ...]:
    """The findings; `changed` are the tests whose detector has just alarmed, `untested` comes last."""
    if not status.batches:
        return ("No batches so far.", *untested)
    latest = status.batches[-1].called
    sentences = [_overview(status)]
    sentences += [_alarm_sentence(status, test) for test in status.tests if test.crossed_batch is not None]
    sentences += [
        f"Change detector ({test.title}): alarm in {latest}; false alarms occur at most once in "
        f"{status.run_length or 0:,} rows on average."
        for test in status.tests
        if test.name in changed
    ]
    if status.since is not None:
        after, gap = status.after or 0.0, 100 * ((status.after or 0.0) - status.promised)
        before = "" if status.before is None else f"; before that it was {status.before:.3f}"
        sentences.append(
            f"This most likely began with {status.batches[status.since].called}: coverage has been {after:.3f} since "
            f"then ({status.after_low:.3f} to {status.after_high:.3f}), {abs(gap):.1f} points "
            f"{'below' if gap < 0 else 'above'} the promise{before}."
        )
    low = [part for part in status.parts if not part.promised and part.log_e >= _CLEAR]
    if low:
        each = "any of these" if len(low) > 1 else "it alone"
        sentences.append(f"Lowest {PLURALS[status.part_kind]}: {_list(low)}. No coverage was promised for {each}.")
    elif status.since is not None and status.parts and not any(part.alarm for part in status.parts):
        sentences.append(f"No {status.part_kind} stands out.")
    return (*sentences, *untested, *([] if status.alarm else ["No alarm."]))


def _overview(status: MonitorStatus) -> str:
    batches = f"{len(status.batches):,} batch{'' if len(status.batches) == 1 else 'es'}"
    if not status.labelled:
        return f"{status.rows:,} rows in {batches}, none labelled so far."
    last, audited = status.batches[-1], 0 if status.answers is None else status.answers.labelled
    n_labelled, latest = status.labelled + audited, ""
    if len(status.batches) > 1:
        seen = f"{last.rows:,} rows without labels"
        if last.labelled:
            seen = f"coverage {last.hits / last.labelled:.4f} on {last.labelled:,} labelled rows"
        latest = f"{last.called}: {seen}. So far: "
    labelled = "all labelled" if n_labelled == status.rows else f"{n_labelled:,} of them labelled"
    return (
        f"{latest}{status.rows:,} rows in {batches}, {labelled}: coverage {status.hits / status.labelled:.4f} "
        f"({last.coverage_low:.3f} to {last.coverage_high:.3f} with {100 * (1 - status.delta):g}% confidence at any "
        f"time); promised: {status.promised:g}."
    )


def _alarm_sentence(status: MonitorStatus, test: TestStatus) -> str:
    first, last = status.batches[test.crossed_batch or 0], status.batches[-1]
    rows = "row" if test.name in ("size", "confidence") else "labelled row"
    at = "" if test.crossed_row is None else f", at {rows} {test.crossed_row:,}"
    size = "" if status.reference_size is None else f", {status.reference_size:.3g} for the conformal rows"
    low = [part for part in status.parts if part.alarm]
    subject = {
        "under": "Coverage is lower than promised",
        "over": "Coverage is higher than promised, so sets are larger than necessary",
        "parts": f"Coverage of {PLURALS[status.part_kind]} is lower than promised: {_list(low)}",
        "size": f"Set sizes have changed (mean {last.mean_size:.3g} in the last batch{size})",
        "confidence": f"Confidence has changed (mean {last.mean_confidence:.3f} in the last batch)",
        "answers": "More of the rows that are answered alone are wrong than was claimed",
    }[test.name]
    chance = f"{math.exp(test.log_bar):,.0f}"
    return f"{subject}: alarm in {first.called}{at} (the chance of a false alarm is at most 1 in {chance})."


def _list(parts: Sequence[PartStatus]) -> str:
    """Some parts with their coverage and of how many rows it is."""
    named = [f"{printable(part.name, 40)} ({part.hits / part.rows:.3f} of {part.rows:,} rows)" for part in parts]
    return listing(named, _SHOWN)


def _advice(status: MonitorStatus) -> tuple[str, ...]:
    """Advice after an alarm."""
    first = status.changed_from
    if first is None:
        return ()
    if {test.name for test in status.tests if test.crossed_batch is not None} == {"answers"}:
        return ("Let people look at all rows, and recalibrate the predictor on recent labelled rows.",)
    if status.since is None:
        return (_advice_on_rows(status, first),)
    width = max(exact_level(status.alpha) / 5, _NARROWEST)
    each = f" of each {status.part_kind}" if any(part.promised for part in status.parts) else ""
    sentence = (
        "Recalibrate on labelled rows from after the change (thermoset adapt): with "
        f"{plan(status.alpha, width).rows:,} rows{each}, coverage will be within {status.promised:g} ± "
        f"{float(width):g} with 95% probability. Then start a new state file."
    )
    return (sentence,)


def _advice_on_rows(status: MonitorStatus, first: int) -> str:
    """Rows have changed from this batch on, and no test of coverage has alarmed: labels say whether it suffers."""
    batches, changed = status.batches, "Rows no longer resemble those the predictor was fitted on"
    rows = sum(batch.rows - batch.answered for batch in batches[first:])  # those that sets are for
    labelled, hits = ([getattr(batch, name) for batch in batches] for name in ("labelled", "hits"))
    n_labelled, n_hits = sum(labelled[first:]), sum(hits[first:])
    if not n_labelled:
        return (
            f"{changed}, so its coverage may have changed: label a sample of recent rows and add them, or run "
            "thermoset check on them."
        )
    low, high = coverage_since(labelled, hits, first, status.delta)
    more = "Label more of them for a narrower range." if n_labelled < rows else "All of them are labelled."
    return (
        f"{changed}, but no loss of coverage was found: it is {n_hits / n_labelled:.3f} on the {n_labelled:,} labelled "
        f"rows since then ({low:.3f} to {high:.3f}). {more}"
    )
