"""The state of a monitor: where its tests stand after the last batch, and how one more batch moves them.

It is one JSON document of some 300 bytes per batch, without any row of the past, and with its own checksum and the
predictor's. Where classes, clusters or groups ("parts") have thresholds of their own, each is tested by its own law and
all of them together; docs/evidence.md explains how.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats, Ints, Keys
from thermoset.bounds import MOST_ROWS
from thermoset.conformal.groupings import NULL_GROUP
from thermoset.data.row_keys import KEY_BITS
from thermoset.errors import InputError
from thermoset.io.files import FilePath, read_sealed, write_sealed
from thermoset.kernels import GOLDEN
from thermoset.levels import conformal_rank
from thermoset.monitor.evidence import (
    SHARE_OVER,
    SHARE_UNDER,
    Count,
    CoverageTest,
    EProcess,
    HitLaw,
    RankTest,
    closed_testing,
    confidence_sequence,
    fixed_evidence,
    joint_evidence,
    part_evidence,
)
from thermoset.monitor.promise import Parts, Promise
from thermoset.monitor.status import BatchRecord, PartKind
from thermoset.predictor.sets import Inference
from thermoset.quoting import quoted

SHARE = 1 / 8
"""Of delta, for parts, for set sizes and for confidence, each."""

LEAST_DELTA = 1e-90

SKETCH = 8
"""Rows of each batch that are remembered: those with the smallest keys, which are any rows."""

_ENOUGH = 4  # of the rows of a sketch that must come again: a few rows may be alike by chance, as two empty images are
_OWN_BINS = 48  # sizes that have a bin of their own; larger ones share bins, eight to a doubling
_PER_DOUBLING = 8


@dataclass(frozen=True, eq=False)
class Reference:
    """The reference that a monitor compares later rows with.

    `law` is that of all rows, if there is one; `sizes` and `confidence` count the `rows` conformal rows by set size and
    by bin of confidence, and are empty where later rows need not be like them. `answer_bound` is the claimed error of
    answered rows, where there is an answer rule: coverage and its parts then concern the others.
    """

    predictor: str
    promise: Promise
    law: HitLaw | None
    n_classes: int
    classes: tuple[str, ...] | None
    sizes: tuple[int, ...]
    confidence: tuple[int, ...]
    rows: int
    answer_bound: float | None = None

    @classmethod
    def of(cls, inference: Inference) -> "Reference":
        """The reference of a document."""
        document, promise = inference.document, Promise.of(inference)
        if document.is_weighted:
            raise InputError(
                "a predictor with weighted conformal rows cannot be watched: later rows would need weights too, and "
                "their coverage follows no known law to test against. Use check on labelled rows, batch by batch."
            )
        law, alike = None, not document.provenance.top_rows and document.shift is None
        if document.grouping is None and document.shift is None:
            (pool,) = document.pool_rows
            law = HitLaw(conformal_rank(pool, document.alpha), pool, promise.exact)
        return cls(
            predictor=inference.identity,
            promise=promise,
            law=law,
            n_classes=document.n_classes,
            classes=document.classes,
            sizes=document.sizes if alike else (),
            confidence=document.confidence.counts if alike and document.confidence is not None else (),
            rows=document.provenance.conformal_rows,
            answer_bound=None if document.answers is None else document.answers.claim.bound,
        )

    @property
    def own_laws(self) -> bool:
        """Whether classes, clusters or groups have laws of their own."""
        return self.promise.kind is not None and self.promise.kind.exact

    def part_kind(self, grouped: bool) -> PartKind:
        """The kind of the parts, for rows that have groups or have none."""
        kind = self.promise.kind
        if kind is None or not kind.exact:
            return "group" if grouped else "class"
        return "group" if kind.of_rows else "class" if kind.each_class else "cluster"

    def parts(self, kind: PartKind) -> Parts:
        """The promise for each part."""
        if self.own_laws:
            return self.promise.group_parts() if kind == "group" else self.promise.class_parts(self.n_classes)
        nothing = np.zeros(self.n_classes if kind == "class" else 0, dtype=np.int64)
        return Parts(nothing, nothing > 0, nothing, nothing)

    def part_evidence(self, parts: Parts, rows: Ints, hits: Ints) -> Floats:
        """Adjusted evidence of too few hits: of promised parts among themselves, and of the others."""
        own, adjusted, promise = parts.promised, np.zeros(len(rows)), self.promise
        law = parts.ranks(promise.alpha)[own], parts.pools[own]
        adjusted[own] = closed_testing(part_evidence(hits[own], rows[own], *law))
        adjusted[~own] = closed_testing(fixed_evidence(hits[~own], rows[~own], promise.promised))
        return adjusted

    def part_names(self, counts: "PartCounts") -> tuple[str, ...]:
        """The names of the parts."""
        if counts.kind == "group":
            return counts.names
        if counts.kind == "class":
            return self.classes or tuple(map(str, range(len(counts.rows))))
        index = self.promise.class_parts(self.n_classes).index.tolist()
        return tuple("rare classes" if number == NULL_GROUP else f"cluster {number}" for number in index)


@dataclass(frozen=True, eq=False)
class BatchRows:
    """A batch: its name, and arrays (n,) in the order of its rows.

    confidence, bins : probability of the likeliest label, and its bin (0 without a reference); key : a hash of the
    logits, and of the id where there is one; label : column number, -1 where it is missing, and `hit` and `correct` are
    then False; part : place of the class, cluster or group that the row counts for, -1 without a label; groups : names
    of the groups by place; answered : whether the row is answered alone.
    """

    name: str
    time: str | None
    part_kind: PartKind
    groups: tuple[str, ...]
    size: Ints
    confidence: Floats
    bins: Ints
    key: Keys
    label: Ints
    hit: Bools
    correct: Bools
    part: Ints
    answered: Bools

    @property
    def digest(self) -> str:
        """A hash of all rows in order."""
        return hashlib.blake2b(self.key.astype("<u8").tobytes(), digest_size=16).hexdigest()


def row_identities(keys: Keys, ids: Keys | None) -> Keys:
    """The keys of rows (`data.row_keys`), with those of their ids taken in: other ids make other rows."""
    return keys if ids is None else ((keys * GOLDEN) ^ ids) >> np.uint64(64 - KEY_BITS)


def tie_breakers(keys: Keys) -> Floats:
    """A number in (0, 1) for each row that breaks ties of its rank."""
    return np.asarray((keys.astype(np.float64) + 0.5) / 2.0**KEY_BITS)


def sketch_of(keys: Keys) -> tuple[int, ...]:
    """The smallest keys of a batch, ascending: a sample of its rows."""
    return tuple(np.unique(keys)[:SKETCH].tolist())


def first_repeat(earlier: list[tuple[int, ...]], keys: Keys) -> int | None:
    """The first earlier batch, by its sketch, of which at least half comes again among other rows."""
    lengths = [len(sketch) for sketch in earlier]
    known = np.array([key for sketch in earlier for key in sketch], dtype=np.uint64)
    batch = np.repeat(np.arange(len(earlier)), lengths)
    seen = np.bincount(batch[np.isin(known, keys)], minlength=len(earlier))
    again = np.flatnonzero((seen >= _ENOUGH) & (2 * seen >= np.array(lengths)))
    return int(again[0]) if len(again) else None


def size_bins(sizes: Ints) -> Ints:
    """Bins of set sizes: up to 47 labels one bin for each size, beyond that eight bins to a doubling."""
    large = _OWN_BINS + np.floor(_PER_DOUBLING * np.log2(np.maximum(sizes, _OWN_BINS) / _OWN_BINS)).astype(np.int64)
    return np.where(sizes < _OWN_BINS, sizes, large)


class PartCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labelled rows and hits of each part so far, and the largest adjusted evidence of each.

    `names` are those of groups, beginning with the predictor's own; classes and clusters have numbers.
    """

    kind: PartKind
    names: tuple[str, ...]
    rows: tuple[Count, ...]
    hits: tuple[Count, ...]
    peaks: tuple[float, ...]

    def __post_init__(self) -> None:
        n_names = len(self.rows) if self.kind == "group" else 0
        whole = len(self.rows) == len(self.hits) == len(self.peaks) and len(set(self.names)) == len(self.names)
        if not whole or len(self.names) != n_names or any(h > n for h, n in zip(self.hits, self.rows, strict=True)):
            raise InputError(
                "parts must have rows, at most as many hits, and evidence, and groups names. Start a new state."
            )

    def after(self, batch: BatchRows, new: Bools, reference: Reference) -> "PartCounts":
        """The counts with those labels of a batch that are new."""
        n_parts, part = max(len(self.rows), len(batch.groups)), batch.part[new]
        more = (0, n_parts - len(self.rows))
        rows, hits = (np.pad(np.array(old, dtype=np.int64), more) for old in (self.rows, self.hits))
        peaks, parts = np.pad(np.array(self.peaks, dtype=float), more), reference.parts(batch.part_kind).pad(n_parts)
        rows = rows + np.bincount(part, minlength=n_parts)
        hits = hits + np.bincount(part[batch.hit[new]], minlength=n_parts)
        if len(part):
            peaks = np.where(parts.promised, np.maximum(peaks, reference.part_evidence(parts, rows, hits)), peaks)
        lists = (tuple(column.tolist()) for column in (rows, hits, peaks))
        return PartCounts(self.kind, batch.groups, *lists)


class StoredBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One batch: its record, and what its rows are recognised by.

    `labels_of` has a bit for each row that has a label; it is empty where all rows have one, or none. The record counts
    labels of rows that are not answered alone; of those that are, `audited` have a label, and `errors` are wrong.
    """

    record: BatchRecord
    digest: str
    sketch: tuple[Annotated[int, msgspec.Meta(ge=0, lt=1 << KEY_BITS)], ...]
    labels_of: bytes = b""
    audited: int = 0
    errors: int = 0

    def __post_init__(self) -> None:
        one = self.record
        whole = 0 < one.rows <= MOST_ROWS and 0 <= one.empty <= one.rows and 0 <= one.answered <= one.rows
        for some in (one.hits, one.correct):  # of labelled rows that are not answered alone
            whole &= 0 <= some <= one.labelled <= one.rows - one.answered
        whole &= 0 <= self.errors <= self.audited <= one.answered
        if not whole or len(self.labels_of) not in (0, -(-one.rows // 8)):
            raise InputError("the counts of a batch must be those of its rows. Start a new state.")

    @property
    def labelled(self) -> Bools:
        """Which rows have a label."""
        record = self.record
        if not self.labels_of:
            return np.full(record.rows, record.labelled + self.audited == record.rows)
        bits = np.frombuffer(self.labels_of, dtype=np.uint8)
        return np.unpackbits(bits, count=record.rows).astype(np.bool_)

    def with_labels(self, batch: BatchRows, new: Bools) -> "StoredBatch":
        """The same with those labels of the batch that are new."""
        has, old, others, alone = self.labelled | new, self.record, new & ~batch.answered, new & batch.answered
        record = replace(
            old,
            labelled=old.labelled + int(others.sum()),
            hits=old.hits + int(batch.hit[others].sum()),
            correct=old.correct + int(batch.correct[others].sum()),
        )
        bits = np.packbits(has).tobytes() if 0 < int(has.sum()) < record.rows else b""
        audited, errors = self.audited + int(alone.sum()), self.errors + int((alone & ~batch.correct).sum())
        return msgspec.structs.replace(self, record=record, labels_of=bits, audited=audited, errors=errors)


class MonitorState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the tests stand after the last batch.

    `coverage` tests one law for all rows, `joint` is the evidence of all parts where these have their own. `crossed`
    has the batch at which a test first alarmed, `changes` the batches in which its detector did, `new_changes` whether
    one did in the last call.
    """

    format: str = "thermoset monitor"
    schema: int = 1
    version: str
    predictor: str
    delta: Annotated[float, msgspec.Meta(ge=LEAST_DELTA, le=0.5)]
    run_length: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] | None
    coverage: CoverageTest | None
    joint: float | None
    size: RankTest | None
    confidence: RankTest | None
    answer_bound: float | None = None
    parts: PartCounts | None = None
    crossed: dict[str, int] = {}
    changes: dict[str, tuple[int, ...]] = {}
    new_changes: bool = False
    batches: tuple[StoredBatch, ...] = ()
    checksum: str = ""

    @classmethod
    def start(cls, reference: Reference, version: str, delta: float, run_length: int | None) -> "MonitorState":
        """The state before the first batch."""

        def ranks(counts: ArrayLike) -> RankTest:
            return RankTest.start(counts, share_of_delta=delta * SHARE, run_length=run_length)

        law, n_bins = reference.law, int(size_bins(np.array([reference.n_classes]))[0]) + 1
        counts = np.zeros(n_bins, dtype=np.int64)
        np.add.at(counts, size_bins(np.arange(len(reference.sizes))), reference.sizes)
        return cls(
            version=version,
            predictor=reference.predictor,
            delta=delta,
            run_length=run_length,
            coverage=None if law is None else CoverageTest.start(law, delta=delta, run_length=run_length),
            joint=0.0 if reference.own_laws else None,
            size=ranks(counts) if reference.sizes else None,
            confidence=ranks(reference.confidence) if reference.confidence else None,
            answer_bound=reference.answer_bound,
        )

    @property
    def records(self) -> tuple[BatchRecord, ...]:
        """All batches in order."""
        return tuple(batch.record for batch in self.batches)

    @property
    def processes(self) -> dict[str, EProcess]:
        """The tests that look at every row, by name."""
        hits, ranks = self.coverage, {"size": self.size, "confidence": self.confidence}
        each = {} if hits is None else {"under": hits.under, "over": hits.over}
        each |= {name: test.process for name, test in ranks.items() if test is not None}
        return {name: test for name, test in each.items() if test is not None}

    @property
    def evidence(self) -> dict[str, tuple[float, float]]:
        """Of all tests by name: evidence, and the bar. Those of parts look at counts after every batch."""
        each = {name: (test.log_e, test.log_bar) for name, test in self.processes.items()}
        if self.joint is not None:
            each["under"] = self.joint, -math.log(self.delta * SHARE_UNDER)
            if self.parts is not None:
                each["parts"] = max(self.parts.peaks, default=0.0), self.part_bar
        if self.answer_bound is not None:  # it takes the share of too many hits, which are not tested then
            answered, errors = self.audited
            log_e = fixed_evidence(answered - errors, answered, 1 - self.answer_bound)
            each["answers"] = float(log_e), -math.log(self.delta * SHARE_OVER)
        return each

    @property
    def audited(self) -> tuple[int, int]:
        """Labelled rows that are answered alone, and the wrong ones among them."""
        return sum(one.audited for one in self.batches), sum(one.errors for one in self.batches)

    @property
    def part_bar(self) -> float:
        """The evidence at which a part with a law of its own alarms."""
        return -math.log(self.delta * SHARE)

    def after(self, reference: Reference, batch: BatchRows) -> "MonitorState":
        """The state after a batch, which may be an earlier one with more labels."""
        if self.parts is not None and self.parts.kind != batch.part_kind:
            has, had = ("groups", "none") if batch.part_kind == "group" else ("no groups", "groups")
            raise InputError(
                f"this batch has {has}, but earlier batches had {had}. Pass groups with every batch, or with none."
            )
        digest = batch.digest
        known = [(one.digest, one.record.rows) for one in self.batches]
        place = known.index((digest, len(batch.label))) if (digest, len(batch.label)) in known else None
        state = self if place is not None else self._with_batch(batch)
        place = len(self.batches) if place is None else place
        new = (batch.label >= 0) & ~state.batches[place].labelled
        if state is self and not new.any():
            raise InputError(
                f"batch {quoted(batch.name)} was already added, as {quoted(self.batches[place].record.name)}, and has "
                "no new labels. Nothing was counted."
            )
        return state._with_labels(reference, batch, place, new)._with_evidence(self)

    def _with_batch(self, batch: BatchRows) -> "MonitorState":
        """The state with a new batch, whose rows count for the tests that need no labels."""
        again = first_repeat([known.sketch for known in self.batches], batch.key)
        if again is not None:
            raise InputError(
                f"batch {quoted(batch.name)} contains rows of batch {quoted(self.batches[again].record.name)}, which "
                "was already added. Each row counts only once: remove them. To add labels, pass all rows of that "
                "batch again, in the same order."
            )
        n_rows, ties = len(batch.size), tie_breakers(batch.key)
        record = BatchRecord(
            name=batch.name,
            time=batch.time,
            rows=n_rows,
            labelled=0,
            hits=0,
            mean_size=float(batch.size.sum() / n_rows),
            empty=int(np.count_nonzero(batch.size == 0)),
            mean_confidence=float(np.mean(batch.confidence)),
            correct=0,
            answered=int(np.count_nonzero(batch.answered)),
        )
        return msgspec.structs.replace(
            self,
            batches=(*self.batches, StoredBatch(record, batch.digest, sketch_of(batch.key))),
            size=None if self.size is None else self.size.after(size_bins(batch.size), ties),
            confidence=None if self.confidence is None else self.confidence.after(batch.bins, ties),
        )

    def _with_labels(self, reference: Reference, batch: BatchRows, place: int, new: Bools) -> "MonitorState":
        """The state with those labels of the batch at a place that are new."""
        known = reference.parts(batch.part_kind)
        zeros = (0,) * len(known.pools)
        others = new & ~batch.answered
        begun = PartCounts(batch.part_kind, batch.groups[: len(zeros)], zeros, zeros, zeros)
        parts = (self.parts or begun).after(batch, others, reference)
        joint, own = self.joint, known.promised
        if joint is not None:
            rows, hits = (np.array(column)[: len(own)][own] for column in (parts.rows, parts.hits))
            joint = joint_evidence(hits, rows, known.ranks(reference.promise.alpha)[own], known.pools[own])
        batches = list(self.batches)
        batches[place] = batches[place].with_labels(batch, new)
        coverage = None if self.coverage is None else self.coverage.after(batch.hit[others])
        return msgspec.structs.replace(self, parts=parts, joint=joint, coverage=coverage, batches=tuple(batches))

    def _with_evidence(self, before: "MonitorState") -> "MonitorState":
        """The state with what happened in this call: which tests alarmed, and where evidence stands at its end."""
        last, old, evidence = len(self.batches) - 1, before.processes, self.evidence
        alarmed = [name for name, (log_e, bar) in evidence.items() if log_e >= bar]
        alarmed += [name for name, test in self.processes.items() if test.alarm]
        changed = [name for name, test in self.processes.items() if test.changes != old[name].changes]
        changes = {name: tuple(dict.fromkeys((*self.changes.get(name, ()), last))) for name in changed}
        rows, hits = (sum(getattr(one, name) for one in self.records) for name in ("labelled", "hits"))
        seen = confidence_sequence(hits, rows, self.delta)
        log_e: Any = {f"log_{name}": evidence.get(name, (None,))[0] for name in ("under", "over", "size", "confidence")}
        low, high = (float(end) if rows else None for end in seen)
        record = replace(self.records[-1], **log_e, coverage_low=low, coverage_high=high)
        latest = msgspec.structs.replace(self.batches[-1], record=record)
        return msgspec.structs.replace(
            self,
            crossed=dict.fromkeys(alarmed, last) | before.crossed,
            changes=self.changes | changes,
            new_changes=bool(changed),
            batches=(*self.batches[:-1], latest),
        )


def write_state(path: FilePath, state: MonitorState) -> None:
    """Write the document, whole or not at all."""
    write_sealed(path, state, indent=-1)


def read_state(path: FilePath, reference: Reference) -> MonitorState:
    """Read the state of a monitor of a predictor, or refuse it."""
    remedy = "Restore a backup of the file, or name another file to start a new state."
    name = "a state of a monitor"
    return read_sealed(
        path, MonitorState, name, 2**30, lambda state: _cross_checks(state, reference), remedy, exact=True
    )


def _cross_checks(state: MonitorState, reference: Reference) -> Iterator[tuple[bool, str]]:
    yield (
        state.predictor != reference.predictor,
        "it is for another predictor, or for this one before it was recalibrated. Name another file",
    )
    begun = MonitorState.start(reference, state.version, state.delta, state.run_length)
    yield _plan_of(state) != _plan_of(begun), "its tests must be those of the predictor"
    parts, last = state.parts, len(state.batches) - 1
    if parts is not None:
        allowed = {reference.part_kind(False)} if reference.own_laws else {"class", "group"}
        known = len(reference.parts(parts.kind).pools) if parts.kind in allowed else -1
        more = parts.kind == "group" and len(parts.rows) > known >= 0
        yield len(parts.rows) != known and not more, "its parts must be those of the predictor"
    places = [*state.crossed.values(), *(place for many in state.changes.values() for place in many)]
    yield not all(0 <= place <= last for place in places), "alarms must be those of its batches"
    labelled = sum(one.labelled for one in state.records)
    if labelled:
        latest = state.records[-1]
        yield None in (latest.coverage_low, latest.coverage_high), "the coverage of labelled rows must have an interval"
    of_coverage = {"under", "over", "parts"} & {*state.crossed, *state.changes}
    yield bool(of_coverage) and not labelled, "alarms about coverage must be those of labelled rows"


def _plan_of(state: MonitorState) -> tuple[object, ...]:
    """What never changes about the tests of a state."""
    tests = [(name, test.run_length, round(test.log_bar, 6)) for name, test in state.processes.items()]
    counted = [None if test is None else test.reference for test in (state.size, state.confidence)]
    law = None if state.coverage is None else state.coverage.law
    return tests, counted, law, state.joint is None, state.answer_bound
