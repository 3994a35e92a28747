"""A monitor for a fitted predictor: takes batches of rows and reports its findings."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from thermoset._version import __version__
from thermoset.arrays import Block, Bools, Floats, Ints
from thermoset.bounds import MOST_ROWS, real_number, whole_number
from thermoset.data import Logits
from thermoset.data.fitted import predict_data, require_fitted
from thermoset.data.labels import partial_indices
from thermoset.data.row_keys import row_keys
from thermoset.data.top_rows import tops_of
from thermoset.errors import InputError
from thermoset.io.files import as_path
from thermoset.io.locks import locked_file
from thermoset.levels import conformal_rank
from thermoset.monitor.evidence import HitLaw
from thermoset.monitor.watching import (
    MonitorState,
    Named,
    RowsSeen,
    Standing,
    Watched,
    advanced,
    begun,
    identified,
    read_state,
    told,
    write_state,
)
from thermoset.predictor.document import Document, checksum_of
from thermoset.predictor.judging import promise_of
from thermoset.predictor.sets import CalibratedSoftmax, RowSets
from thermoset.predictor.used_rows import used_rows
from thermoset.quoting import quoted
from thermoset.rows import map_rows
from thermoset.uniforms import checked_ids

if TYPE_CHECKING:
    from thermoset.predictor.estimator import TwoTemperaturePredictor

__all__ = ["DELTA", "RUN_LENGTH", "Monitor"]

DELTA = 0.01
RUN_LENGTH = 1_000_000
_LEAST_DELTA = 1e-90
_LONGEST_NAME = 200
_PATIENCE = 60.0  # seconds to wait for another process that holds the same state


class Monitor:
    """Watches a fitted predictor, batch after batch, and reports its findings after each.

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
    >>> standing = monitor.add(logits[5000:], wrong, name="Tuesday")
    >>> standing.alarm, standing.batches[standing.since].name
    (True, 'Tuesday')
    """

    def __init__(
        self, predictor: "TwoTemperaturePredictor", *, delta: float = DELTA, run_length: int | None = RUN_LENGTH
    ) -> None:
        share = real_number(delta, "delta", _LEAST_DELTA, 0.5, f"a number from {_LEAST_DELTA:g} to 0.5", "Try 0.01.")
        length = run_length
        if run_length is not None:
            length = whole_number(run_length, "run_length", 1, MOST_ROWS, "Use None to switch change detectors off.")
        self._of(predictor)
        self.state: MonitorState = begun(self._watched, __version__, share, length)

    def _of(self, predictor: "TwoTemperaturePredictor") -> None:
        self.predictor = predictor
        self._watched = _watched(predictor)

    def __repr__(self) -> str:
        return f"Monitor({self.standing!r})"

    @classmethod
    def load(cls, path: str | os.PathLike[str], predictor: "TwoTemperaturePredictor") -> "Monitor":
        """Read what `save` wrote, for the predictor it belongs to."""
        monitor: Monitor = object.__new__(cls)
        monitor._of(predictor)
        monitor.state = read_state(path, monitor._watched.predictor)
        return monitor

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON document, completely or not at all."""
        write_state(path, self.state)

    @classmethod
    @contextmanager
    def open(
        cls, path: str | os.PathLike[str], predictor: "TwoTemperaturePredictor", **settings: Any
    ) -> Iterator["Monitor"]:
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
                begun_with, monitor = monitor.state, cls.load(target, predictor)
                _check_same(target, {name: getattr(begun_with, name) for name in settings}, monitor.state)
            yield monitor
            monitor.save(target)

    @property
    def standing(self) -> Standing:
        """The status after the last batch."""
        return told(self.state, self._watched)

    def add(
        self,
        logits: Any,
        labels: Any = None,
        groups: Any = None,
        *,
        ids: Any = None,
        time: str | None = None,
        name: str | None = None,
    ) -> Standing:
        """Add a batch of rows, in the order in which they arrived, and return the monitor's status.

        Some or all labels may be missing (-1, NaN, None, or blank text). When they become known, pass the same rows
        again with them: rows are recognised by their logits, and only new labels count. A batch that adds nothing new,
        or mixes rows of an earlier batch with others, is refused; one without rows changes nothing. Whether a label is
        known must not depend on whether the set contains it.

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
        rows = predict_data(self.predictor, logits, groups)
        known = (
            rows.labels if labels is None else partial_indices(labels, (len(rows), rows.n_classes), self._names(rows))
        )
        if len(rows) == 0:
            return self.standing
        seen, named = self._seen(rows, known, ids), self._named(rows, time, name)
        self.state = advanced(self.state, self._watched, seen, named)
        return self.standing

    def _names(self, rows: Logits) -> tuple[str, ...] | None:
        """The names that labels may be."""
        return rows.classes or self._watched.classes

    def _named(self, data: Logits, time: str | None, name: str | None) -> Named:
        asked: tuple[tuple[str, Any], ...] = ("time", time), ("name", name)
        for what, said in asked:
            if said is not None and (not isinstance(said, str) or not 0 < len(said) <= _LONGEST_NAME):
                raise InputError(f"{what} must be text of 1 to {_LONGEST_NAME} characters; got {quoted(said)}.")
        kind = self._watched.part_kind(data.groups is not None)
        groups = self._groups(data) if kind == "group" else ()
        return Named(name or f"batch {len(self.state.batches) + 1}", time, kind, groups)

    def _groups(self, data: Logits) -> tuple[str, ...]:
        """The groups that are known, in their order, and then those that are new."""
        own = self.predictor.document_.group_names or ()
        known = own if self.state.parts is None else self.state.parts.names
        return known + tuple(one for one in data.require_groups("this monitor").names if one not in set(known))

    def _seen(self, data: Logits, labels: Ints | None, ids: Any) -> RowsSeen:
        made, keys = self.predictor.document_, row_keys(data)
        used = used_rows(made, data, keys)
        if used.reused:
            raise InputError(f"{used.sentence}, but a monitor watches later rows. Remove them.")
        truth = np.full(len(data), -1, dtype=np.int64) if labels is None else labels
        if tops_of(data) is None:
            facts, sets = _Facts.empty(len(data)), self.predictor._inference.rows(data, ids)
            map_rows(data, _facts_of_block, facts, per_row=[truth, sets], fixed=[self.predictor._inference.softmax])
        else:
            facts = self._facts_of_tops(data, truth, ids)
        key = identified(keys, None if ids is None else checked_ids(ids, len(data)))
        reference = made.confidence
        bins = np.zeros(len(data), dtype=np.int64) if reference is None else reference.bins(facts.confidence)
        part = self._part(data, truth)
        return RowsSeen(facts.size, facts.confidence, bins, key, truth, facts.hit, facts.correct, part)

    def _facts_of_tops(self, data: Logits, truth: Ints, ids: Any) -> "_Facts":
        """The facts of rows that hold only their largest logits."""
        if not self.predictor.document_.provenance.top_rows:
            raise InputError(
                "this batch holds only the largest logits of each row, but the predictor was fitted on whole rows: "
                "sets and confidence would differ for that reason alone. Pass whole rows."
            )
        return _facts(self.predictor._inference.sets(data, ids), self.predictor._inference.confidences(data), truth)

    def _part(self, data: Logits, truth: Ints) -> Ints:
        """The place of the part that each labelled row counts for."""
        kind = self._watched.part_kind(data.groups is not None)
        if kind == "group":
            part = data.require_groups("this monitor").codes_among(self._groups(data))
        elif kind == "cluster":
            part = self._watched.promise.groups(data.n_classes).of_class[truth]
        else:
            part = truth
        return np.where(truth >= 0, part, -1)


_BUSY = "another process has been using this state for more than a minute. Try again when it has finished."


class _Facts(NamedTuple):
    """What a predictor and the labels say of rows, arrays (n,); see `RowsSeen`."""

    size: Ints
    hit: Bools
    correct: Bools
    confidence: Floats

    @classmethod
    def empty(cls, n_rows: int) -> "_Facts":
        hit, correct = np.empty((2, n_rows), dtype=np.bool_)
        return cls(np.empty(n_rows, dtype=np.int64), hit, correct, np.empty(n_rows))


def _facts(sets: Bools, likeliest: tuple[Ints, Floats], labels: Ints) -> _Facts:
    """The facts of rows from their sets (n, C), likeliest labels and confidence; a missing label is -1."""
    has = labels >= 0
    return _Facts(
        size=np.count_nonzero(sets, axis=1).astype(np.int64),
        hit=has & sets[np.arange(len(sets)), labels],
        correct=has & (likeliest[0] == labels),
        confidence=likeliest[1],
    )


def _facts_of_block(block: Block, labels: Ints, sets: RowSets, calibrated: CalibratedSoftmax) -> _Facts:
    return _facts(sets.of_block(block), calibrated.top_of_block(block), labels)


def _watched(predictor: "TwoTemperaturePredictor") -> Watched:
    """What a monitor must know of a predictor."""
    require_fitted(predictor)
    made = predictor.document_
    came, promise = made.provenance, promise_of(made, predictor.recipe)
    if made.weights is not None:
        raise InputError(
            "a predictor with weighted conformal rows cannot be watched: later rows would need weights too, and their "
            "coverage follows no known law to test against. Use check on labelled rows, batch by batch."
        )
    alike = not came.top_rows and made.shift is None  # whether later rows should look like the conformal rows
    return Watched(
        predictor=checksum_of(msgspec.structs.replace(made, scores=None)),
        promise=promise,
        law=_law(made, promise.exact) if made.grouping is None and made.shift is None else None,
        n_classes=made.n_classes,
        classes=made.classes,
        sizes=made.sizes if alike else (),
        confidence=made.confidence.counts if alike and made.confidence is not None else (),
        reference_rows=came.conformal_rows,
    )


def _law(made: Document, exact: bool) -> HitLaw:
    (n_rows,) = made.pool_sizes
    return HitLaw(rank=conformal_rank(n_rows, made.alpha), pool=n_rows, exact=exact)


def _check_same(path: Path, asked: dict[str, Any], state: MonitorState) -> None:
    """Refuse other settings than those that a state was begun with: its promise would no longer hold."""
    for name, given in asked.items():
        if given != (known := getattr(state, name)):
            raise InputError(
                f"{path}: was started with {name} {known}; got {given}. Omit it, or name another file to start a new "
                "state."
            )
