"""One more batch: its new rows and labels go into the tests, and the resulting state replaces the old one."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Ints
from thermoset.errors import InputError
from thermoset.monitor.checking.promise import Promise
from thermoset.monitor.evidence import CoverageTest, HitLaw, RankTest, Sequential, confidence_sequence
from thermoset.monitor.evidence.coverage import SHARE_UNDER
from thermoset.monitor.watching.parts import PartCounts, PartLaws, counted, laws_of
from thermoset.monitor.watching.rows import Marks, RowsSeen, first_repeat, marks_of, tie_breakers
from thermoset.monitor.watching.standing import BatchRecord, PartKind
from thermoset.monitor.watching.state import MonitorState, StoredBatch
from thermoset.quoting import quoted

__all__ = ["SHARE", "Named", "Watched", "advanced", "batch_end_tests", "begun", "sequential_tests", "size_bins"]

SHARE = 1 / 8
"""Of delta, for parts, for set sizes and for confidence, each."""

_OWN_BINS = 48  # sizes that have a bin of their own; larger ones share bins, eight to a doubling
_PER_DOUBLING = 8


@dataclass(frozen=True, eq=False)
class Watched:
    """What a monitor knows of the predictor that it watches.

    `law` is that of all rows (None where there is none), `sizes` and `confidence` the reference counts of set sizes
    (by size) and of confidence (by bin), empty where there are none.
    """

    predictor: str
    promise: Promise
    law: HitLaw | None
    n_classes: int
    classes: tuple[str, ...] | None
    sizes: tuple[int, ...]
    confidence: tuple[int, ...]
    reference_rows: int

    @property
    def own_laws(self) -> bool:
        """Whether classes, clusters or groups have laws of their own."""
        return self.promise.kind is not None and self.promise.kind.exact

    def part_kind(self, grouped: bool) -> PartKind:
        """What parts are, for rows that have groups or have none."""
        kind = self.promise.kind
        if kind is None or not kind.exact:
            return "group" if grouped else "class"
        return "group" if kind.of_rows else "class" if kind.each_class else "cluster"

    def laws(self, kind: PartKind) -> PartLaws:
        """What is promised for each part."""
        return laws_of(self.promise, self.n_classes, kind)


@dataclass(frozen=True)
class Named:
    """What a batch is called, when it was, and the names of the groups that its rows count for by place."""

    name: str
    time: str | None
    kind: PartKind
    groups: tuple[str, ...]


def size_bins(sizes: Ints) -> Ints:
    """Bins of set sizes: up to 47 labels one bin for each size, beyond that eight bins to a doubling.

    >>> size_bins(np.array([0, 1, 47, 48, 96, 1000])).tolist()
    [0, 1, 47, 48, 56, 83]
    """
    large = _OWN_BINS + np.floor(_PER_DOUBLING * np.log2(np.maximum(sizes, _OWN_BINS) / _OWN_BINS)).astype(np.int64)
    return np.where(sizes < _OWN_BINS, sizes, large)


def begun(watched: Watched, version: str, delta: float, run_length: int | None) -> MonitorState:
    """The state before the first batch."""
    share = delta * SHARE
    n_bins = int(size_bins(np.array([watched.n_classes]))[0]) + 1
    by_size = np.bincount(
        size_bins(np.arange(len(watched.sizes))), weights=np.array(watched.sizes, dtype=np.float64), minlength=n_bins
    )

    def ranks(reference: ArrayLike) -> RankTest:
        return RankTest.start(reference, share_of_delta=share, run_length=run_length)

    return MonitorState(
        version=version,
        predictor=watched.predictor,
        delta=delta,
        run_length=run_length,
        coverage=None if watched.law is None else CoverageTest.start(watched.law, delta=delta, run_length=run_length),
        joint=0.0 if watched.own_laws else None,
        size=ranks(by_size.astype(np.int64)) if watched.sizes else None,
        confidence=ranks(watched.confidence) if watched.confidence else None,
    )


def advanced(state: MonitorState, watched: Watched, rows: RowsSeen, named: Named) -> MonitorState:
    """The state after a batch, which may be an earlier one with more labels."""
    _check_kind(state, named)
    marks = marks_of(rows.key)
    place = next((i for i, batch in enumerate(state.batches) if batch.digest == marks.digest), None)
    if place is None:
        _check_new(state, rows, named)
        place, after = len(state.batches), _with_batch(state, rows, named, marks)
    else:
        after = state
    new = rows.labelled & ~_has_label(after.batches[place])
    if after is state and not new.any():
        raise InputError(
            f"batch {quoted(named.name)} was already added, as {quoted(state.batches[place].record.name)}, and has no "
            "new labels. Nothing was counted."
        )
    return _told(state, _with_labels(after, watched, rows, named, _New(place, new)))


class _New(NamedTuple):
    """Labels that are new: the place of their batch, and which of its rows they are for."""

    place: int
    rows: Bools


def _check_new(state: MonitorState, rows: RowsSeen, named: Named) -> None:
    again = first_repeat([batch.sketch for batch in state.batches], rows.key)
    if again is not None:
        raise InputError(
            f"batch {quoted(named.name)} contains rows of batch {quoted(state.batches[again].record.name)}, which was "
            "already added. Each row counts only once: remove them. To add labels, pass all rows of that batch again, "
            "in the same order."
        )


def _with_batch(state: MonitorState, rows: RowsSeen, named: Named, marks: Marks) -> MonitorState:
    """The state with a new batch, whose rows count for the tests that need no labels."""
    stored, ties = StoredBatch(_record(rows, named), marks.digest, marks.sketch, b""), tie_breakers(rows.key)
    return msgspec.structs.replace(
        state,
        batches=(*state.batches, stored),
        size=None if state.size is None else state.size.after(size_bins(rows.size), ties),
        confidence=None if state.confidence is None else state.confidence.after(rows.bins, ties),
    )


def _check_kind(state: MonitorState, named: Named) -> None:
    if state.parts is not None and state.parts.kind != named.kind:
        has, had = ("groups", "none") if named.kind == "group" else ("no groups", "groups")
        raise InputError(
            f"this batch has {has}, but earlier batches had {had}. Pass groups with every batch, or with none."
        )


def _has_label(batch: StoredBatch) -> Bools:
    """Which rows of a batch have a label."""
    record = batch.record
    if not batch.labels_of:
        return np.full(record.rows, record.labelled == record.rows)
    bits = np.frombuffer(batch.labels_of, dtype=np.uint8)
    return np.unpackbits(bits, count=record.rows).astype(np.bool_)


def _record(rows: RowsSeen, named: Named) -> BatchRecord:
    """A batch before its labels are counted."""
    return BatchRecord(
        name=named.name,
        time=named.time,
        rows=len(rows.size),
        labelled=0,
        hits=0,
        mean_size=float(rows.size.sum() / len(rows.size)),
        empty=int(np.count_nonzero(rows.size == 0)),
        mean_confidence=float(np.mean(rows.confidence)),
        correct=0,
        log_under=None,
        log_over=None,
        log_size=None,
        log_confidence=None,
        coverage_low=None,
        coverage_high=None,
    )


def _with_labels(state: MonitorState, watched: Watched, rows: RowsSeen, named: Named, new: _New) -> MonitorState:
    """The state with the labels that are new."""
    laws = watched.laws(named.kind)
    n_parts, some = len(laws.rank), new.rows
    parts = state.parts or PartCounts(named.kind, (), (0,) * n_parts, (0,) * n_parts, (0.0,) * n_parts)
    parts = counted(parts, laws, named.groups, rows.part[some], rows.hit[some])
    batch = state.batches[new.place]
    has = _has_label(batch) | some
    record = replace(
        batch.record,
        labelled=int(has.sum()),
        hits=batch.record.hits + int(rows.hit[some].sum()),
        correct=batch.record.correct + int(rows.correct[some].sum()),
    )
    bits = np.packbits(has).tobytes() if 0 < record.labelled < record.rows else b""
    return msgspec.structs.replace(
        state,
        parts=parts,
        joint=None if state.joint is None else laws.joint(parts),
        coverage=None if state.coverage is None else state.coverage.after(rows.hit[some]),
        batches=(*state.batches[: new.place], _restored(batch, record, bits), *state.batches[new.place + 1 :]),
    )


def sequential_tests(state: MonitorState) -> dict[str, Sequential]:
    """The tests that look at every row, by name."""
    coverage, size, confidence = state.coverage, state.size, state.confidence
    found = {
        "under": None if coverage is None else coverage.under,
        "over": None if coverage is None else coverage.over,
        "size": None if size is None else size.sequential,
        "confidence": None if confidence is None else confidence.sequential,
    }
    return {name: test for name, test in found.items() if test is not None}


def batch_end_tests(state: MonitorState) -> dict[str, tuple[float, float]]:
    """The tests that look at counts after every batch, by name: evidence and bar."""
    found = {} if state.joint is None else {"under": (state.joint, -math.log(state.delta * SHARE_UNDER))}
    if state.joint is not None and state.parts is not None:
        found["parts"] = max(state.parts.peaks, default=0.0), -math.log(state.delta * SHARE)
    return found


def _told(before: MonitorState, after: MonitorState) -> MonitorState:
    """The state with what happened in this call: which tests alarmed, and where evidence stands at the last batch."""
    last, old = len(after.batches) - 1, sequential_tests(before)
    now, at_ends = sequential_tests(after), batch_end_tests(after)
    alarmed = [name for name, test in now.items() if test.alarm]
    alarmed += [name for name, (log_e, bar) in at_ends.items() if log_e >= bar]
    changed = [name for name, test in now.items() if test.changes != old[name].changes]
    evidence = {name: log_e for name, (log_e, _) in at_ends.items()} | {name: test.log_e for name, test in now.items()}
    records = after.records
    rows, hits = sum(one.labelled for one in records), sum(one.hits for one in records)
    seen = confidence_sequence(hits, rows, after.delta)
    record = replace(
        records[-1],
        log_under=evidence.get("under"),
        log_over=evidence.get("over"),
        log_size=evidence.get("size"),
        log_confidence=evidence.get("confidence"),
        coverage_low=float(seen.low) if rows else None,
        coverage_high=float(seen.high) if rows else None,
    )
    latest = after.batches[-1]
    return msgspec.structs.replace(
        after,
        crossed=dict.fromkeys(alarmed, last) | before.crossed,
        changes=after.changes | {name: _joined(after.changes.get(name, ()), last) for name in changed},
        new_changes=bool(changed),
        batches=(*after.batches[:-1], _restored(latest, record, latest.labels_of)),
    )


def _joined(places: tuple[int, ...], last: int) -> tuple[int, ...]:
    return places if places[-1:] == (last,) else (*places, last)


def _restored(batch: StoredBatch, record: BatchRecord, labels_of: bytes) -> StoredBatch:
    return StoredBatch(record, batch.digest, batch.sketch, labels_of)
