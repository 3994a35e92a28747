"""`Monitor`: takes batches of rows of a fitted predictor, and gives its status."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from thermoset._version import __version__
from thermoset.arrays import Block, Bools, Floats, Ints
from thermoset.bounds import MOST_ROWS, real_number, whole_number
from thermoset.calibration.calibrator import CalibratedSoftmax
from thermoset.data import Logits
from thermoset.data.estimator import predict_data, remember_classes, require_fitted
from thermoset.data.labels import partial_indices
from thermoset.data.row_keys import row_keys
from thermoset.data.top_k import tops_of
from thermoset.errors import InputError
from thermoset.io.files import as_path, locked_file
from thermoset.monitor.prometheus import prometheus_text
from thermoset.monitor.state import (
    LEAST_DELTA,
    BatchRows,
    MonitorState,
    Reference,
    read_state,
    row_identities,
    write_state,
)
from thermoset.monitor.status import MonitorStatus, PartKind, summarize
from thermoset.predictor.document import Document
from thermoset.predictor.leakage import find_leakage
from thermoset.predictor.sets import ANSWER, Inference, RowSets
from thermoset.quoting import quoted
from thermoset.rows import map_rows
from thermoset.uniforms import checked_ids

DELTA = 0.01
RUN_LENGTH = 1_000_000
_LONGEST_NAME = 200
_PATIENCE = 60.0  # seconds to wait for another process that holds the same state
_BUSY = "another process has been using this state for more than a minute. Try again when it has finished."


class Predictor(Protocol):
    """The parts of a fitted predictor that a monitor uses."""

    document_: Document
    _inference: Inference


class Monitor:
    """Watches a fitted predictor, batch after batch, and gives its status after each.

    While coverage is as promised and rows are like the conformal rows, the chance that any test *ever* alarms is at
    most `delta`, however long it watches. Change detectors, which find a change sooner after a long good period, have a
    separate guarantee: each gives a false alarm at most once in `run_length` rows on average.

    Parameters
    ----------
    predictor : TwoTemperaturePredictor
        A fitted one.
    delta : float
        Chance of a false alarm, over all tests and all time.
    run_length : int or None
        See above; None switches the change detectors off.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=6000)
    >>> logits = rng.normal(size=(6000, 5)) + 2 * np.eye(5)[labels]
    >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(logits[:3000], labels[:3000])
    >>> monitor = ts.Monitor(predictor)
    >>> monitor.add(logits[3000:4000], labels[3000:4000]).alarm
    False
    >>> monitor.add(logits[4000:5000]).alarm  # labels may come later
    False
    >>> monitor.add(logits[4000:5000], labels[4000:5000]).labelled
    2000
    >>> wrong = np.where(rng.random(1000) < 0.3, rng.integers(0, 5, size=1000), labels[5000:])
    >>> status = monitor.add(logits[5000:], wrong, name="Tuesday")
    >>> status.alarm, status.batches[status.since].name
    (True, 'Tuesday')
    """

    def __init__(self, predictor: Predictor, *, delta: float = DELTA, run_length: int | None = RUN_LENGTH) -> None:
        delta = real_number(delta, "delta", LEAST_DELTA, 0.5, f"a number from {LEAST_DELTA:g} to 0.5", "Try 0.01.")
        if run_length is not None:
            advice = "Use None to switch change detectors off."
            run_length = whole_number(run_length, "run_length", 1, MOST_ROWS, advice)
        self._watch(predictor)
        self.state: MonitorState = MonitorState.start(self._reference, __version__, delta, run_length)

    def _watch(self, predictor: Predictor) -> None:
        if not hasattr(predictor, "document_"):
            require_fitted(predictor)
        self.predictor, document = predictor, predictor.document_
        self._reference = Reference.of(predictor._inference)
        remember_classes(self, document.n_classes, document.classes, document.input_kind)

    def __repr__(self) -> str:
        return f"Monitor({self.status!r})"

    @classmethod
    def load(cls, path: str | os.PathLike[str], predictor: Predictor) -> "Monitor":
        """Read what `save` wrote, for the predictor it belongs to."""
        monitor: Monitor = object.__new__(cls)
        monitor._watch(predictor)
        monitor.state = read_state(path, monitor._reference)
        return monitor

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON document, completely or not at all."""
        write_state(path, self.state)

    @classmethod
    @contextmanager
    def open(cls, path: str | os.PathLike[str], predictor: Predictor, **settings: Any) -> Iterator["Monitor"]:
        """Open the monitor whose state is in a file, for this process alone; the file is written at the end.

        If the file does not exist, a new monitor is started. If another process has it open, this waits for up to a
        minute. If an exception is raised inside, the file stays as it is. `settings` (delta and run_length) apply to a
        new monitor; those of an existing file must be the same.

        >>> import tempfile, numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 5, size=3000)
        >>> logits = rng.normal(size=(3000, 5)) + 2 * np.eye(5)[labels]
        >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(logits[:2000], labels[:2000])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for place in (slice(2000, 2500), slice(2500, 3000)):
        ...         with ts.Monitor.open(f"{folder}/state.json", predictor) as monitor:
        ...             print(monitor.add(logits[place], labels[place]).rows)
        500
        1000
        """
        target, monitor = as_path(path), cls(predictor, **settings)
        with locked_file(target.with_name(f".{target.name}.lock"), _BUSY, _PATIENCE):
            if os.path.lexists(target):
                wanted, monitor = monitor.state, cls.load(target, predictor)
                for name in settings:  # with others its promise would no longer hold
                    value, known = getattr(wanted, name), getattr(monitor.state, name)
                    if value != known:
                        raise InputError(
                            f"{target}: was started with {name} {known}; got {value}. Omit it, or name another file to "
                            "start a new state."
                        )
            yield monitor
            monitor.save(target)

    @property
    def status(self) -> MonitorStatus:
        """The status after the last batch."""
        return summarize(self.state, self._reference)

    def to_prometheus(self, name: str | None = None) -> str:
        """Return the status as metrics in Prometheus' text format, for a textfile collector or a `/metrics` page.

        `name` is the label that tells predictors apart; by default the first digits of the predictor's checksum.

        >>> import numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 5, size=3000)
        >>> logits = rng.normal(size=(3000, 5)) + 2 * np.eye(5)[labels]
        >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(logits[:2000], labels[:2000])
        >>> monitor = ts.Monitor(predictor)
        >>> _ = monitor.add(logits[2000:], labels[2000:])
        >>> 'thermoset_monitor_rows_total{predictor="digits"} 1000' in monitor.to_prometheus("digits")
        True
        """
        return prometheus_text(self.status, self._reference.predictor[:12] if name is None else name)

    def add(
        self,
        logits: Any,
        labels: Any = None,
        groups: Any = None,
        *,
        ids: Any = None,
        time: str | None = None,
        name: str | None = None,
    ) -> MonitorStatus:
        """Add a batch of rows, in the order in which they arrived, and return the monitor's status.

        Some or all labels may be missing (-1, NaN, None, or blank text). When they become known, pass the same rows
        again with them: rows are recognised by their logits, and only new labels count. A batch that adds nothing new,
        or mixes rows of an earlier batch with others, is refused; one without rows changes nothing. Whether a label is
        known must not depend on whether the set contains it.

        Where the predictor answers rows alone, coverage is that of the others, and the labels of answered rows test
        the claimed error. Label a random sample of those: it may be small, and must not depend on the answer.

        Parameters
        ----------
        logits : array-like (n, C), or Logits
            Whole rows, as the predictor takes them.
        labels : array-like (n,), optional
            Column numbers or class names.
        groups : array-like (n,), optional
            The group of each row: coverage is shown by group, and tested if the predictor has thresholds by group.
        ids : sequence, optional
            As in `predict_set`; rows with different ids are different rows, even if their logits are the same.
        time, name : str, optional
            When the rows arrived, and a name for them; any text.
        """
        data = predict_data(self, logits, groups)
        known = data.labels
        if labels is not None:
            names = data.classes or self._reference.classes
            known = partial_indices(labels, (len(data), data.n_classes), names)
        if len(data):
            truth = np.full(len(data), -1, dtype=np.int64) if known is None else known
            self.state = self.state.after(self._reference, self._batch(data, truth, ids, time, name))
        return self.status

    def _batch(self, data: Logits, labels: Ints, ids: Any, time: str | None, name: str | None) -> BatchRows:
        """The batch as the predictor and the labels show it."""
        texts: tuple[tuple[str, Any], ...] = ("time", time), ("name", name)
        for what, text in texts:
            if text is not None and (not isinstance(text, str) or not 0 < len(text) <= _LONGEST_NAME):
                raise InputError(f"{what} must be text of 1 to {_LONGEST_NAME} characters; got {quoted(text)}.")
        document, inference, keys = self.predictor.document_, self.predictor._inference, row_keys(data)
        leakage = find_leakage(document, data, keys)
        if leakage.leaked:
            raise InputError(f"{leakage.sentence}, but a monitor watches later rows. Remove them.")
        whole = tops_of(data) is None
        if not whole and not document.provenance.top_rows:
            raise InputError(
                "this batch holds only the largest logits of each row, but the predictor was fitted on whole rows: "
                "sets and confidence would differ for that reason alone. Pass whole rows."
            )
        size, confidence = np.empty(len(data), dtype=np.int64), np.empty(len(data))
        hit, correct, answered = np.zeros((3, len(data)), dtype=np.bool_)
        if whole:
            out, per_row = [size, hit, correct, confidence, answered], [labels, inference.rows(data, ids)]
            map_rows(inference.correct(data), _facts_of_block, out, per_row=per_row, fixed=[inference.softmax])
        else:
            size, hit, correct, confidence = _facts(inference.sets(data, ids), *inference.confidences(data), labels)
        kind, groups, part = self._parts(data, labels)
        cuts = document.confidence
        return BatchRows(
            name=name or f"batch {len(self.state.batches) + 1}",
            time=time,
            part_kind=kind,
            groups=groups,
            size=size,
            confidence=confidence,
            bins=np.zeros(len(data), dtype=np.int64) if cuts is None else cuts.bins(confidence),
            key=row_identities(keys, None if ids is None else checked_ids(ids, len(data))),
            label=labels,
            hit=hit,
            correct=correct,
            part=np.where(labels >= 0, part, -1),
            answered=answered,
        )

    def _parts(self, data: Logits, labels: Ints) -> tuple[PartKind, tuple[str, ...], Ints]:
        """The kind of the parts, the known groups and then new ones, and the place of each row."""
        kind = self._reference.part_kind(data.groups is not None)
        if kind == "class":
            return kind, (), labels
        if kind == "cluster":
            return kind, (), self._reference.promise.class_parts(data.n_classes).of_class[labels]
        groups, parts = data.require_groups("this monitor"), self.state.parts
        known = parts.names if parts is not None else self.predictor.document_.group_names or ()
        names = tuple(dict.fromkeys((*known, *groups.names)))
        return kind, names, groups.codes_among(names)


def _facts(sets: Bools, likeliest: Ints, confidence: Floats, labels: Ints) -> tuple[Ints, Bools, Bools, Floats]:
    """Size, hit, correct and confidence of rows; a missing label is -1."""
    has, size = labels >= 0, np.count_nonzero(sets, axis=1).astype(np.int64)
    return size, has & sets[np.arange(len(sets)), labels], has & (likeliest == labels), confidence


def _facts_of_block(
    block: Block, labels: Ints, rows: RowSets, softmax: CalibratedSoftmax
) -> tuple[Ints, Bools, Bools, Floats, Bools]:
    sets, actions = rows.decide(block)
    return *_facts(sets, *softmax.top_of_block(block), labels), actions == ANSWER
