"""Batches along an axis: by time where every batch has one, else by number; of many, neighbours are put together."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from thermoset.metrics.laws import clopper_pearson
from thermoset.monitor.status import BatchRecord
from thermoset.quoting import printable
from thermoset.report.shell import shorten

_MOST_SPANS = 120  # points of a chart that can still be distinguished
_MOST_STEPS = 500  # points of a line; more cannot be seen


class Span(NamedTuple):
    """A batch, or several that follow each other, as one point of a chart; shares of labels are None without labels.

    `x` is its place on the axis: milliseconds since 1970, or the number of the batch.
    """

    x: float
    name: str
    batches: tuple[BatchRecord, ...]
    rows: int
    labelled: int
    hits: int
    correct: int
    coverage: float | None
    accuracy: float | None
    mean_size: float
    mean_confidence: float
    empty_share: float


def span_of(batches: tuple[BatchRecord, ...], name: str = "", x: float = 0.0) -> Span:
    """Batches as one."""
    rows, labelled, hits, correct, empty = (
        sum(getattr(batch, key) for batch in batches) for key in ("rows", "labelled", "hits", "correct", "empty")
    )
    size, confidence = (
        sum(batch.rows * getattr(batch, key) for batch in batches) / max(rows, 1)
        for key in ("mean_size", "mean_confidence")
    )
    coverage, accuracy = (hits / labelled, correct / labelled) if labelled else (None, None)
    counts = rows, labelled, hits, correct
    return Span(x, name, batches, *counts, coverage, accuracy, size, confidence, empty / max(rows, 1))


def exact_intervals(hits: Sequence[int], rows: Sequence[int]) -> list[tuple[float, float]]:
    """Exact 95% intervals of shares (Clopper and Pearson), NaN where there are no rows; all at once, which is fast."""
    if not rows:
        return []
    low, high = np.where(np.array(rows) > 0, clopper_pearson(hits, rows), np.nan).tolist()
    return list(zip(low, high, strict=True))


class Timeline:
    """Where batches stand on the axis of every chart.

    Time is used if every batch has one that can be read (ISO 8601) and each is later than the one before; times without
    a zone are taken as UTC.
    """

    def __init__(self, batches: Sequence[BatchRecord]) -> None:
        self.batches = tuple(batches)
        times = _times(self.batches)
        self.by_time = times is not None
        self.places: list[int] = list(range(1, len(self.batches) + 1)) if times is None else times

    def name(self, i: int) -> str:
        """A batch as charts and tables call it."""
        return shorten(printable(self.batches[i].name), f"batch {i + 1}")

    def when(self, i: int) -> str:
        """Its name, and its time if it has one that does not say the same."""
        name, time = self.name(i), self.batches[i].time
        if time is None or time == self.batches[i].name:
            return name
        return f"{name} ({self.time(i)})"

    def time(self, i: int) -> str:
        """The time of a batch as it was given, or a dash."""
        return "\u2013" if (time := self.batches[i].time) is None else shorten(printable(time), "time")

    @property
    def together(self) -> int:
        """How many batches share a point of a chart."""
        return max(1, -(-len(self.batches) // _MOST_SPANS))

    def spans(self) -> list[Span]:
        """Batches as points of charts; neighbours are put together where there are too many to be distinguished."""
        step, found = self.together, []
        for first in range(0, len(self.batches), step):
            last = min(first + step, len(self.batches)) - 1
            name = self.name(first) if first == last else f"{self.name(first)} to {self.name(last)}"
            x = (self.places[first] + self.places[last]) / 2
            found.append(span_of(self.batches[first : last + 1], name, x))
        return found

    def steps(self) -> list[int]:
        """Places of batches that a line is drawn through: all of them, or some of very many, and the last."""
        step = -(-len(self.batches) // _MOST_STEPS)
        return list(range(len(self.batches) - 1, -1, -step))[::-1] if self.batches else []

    def so_far(self) -> list[tuple[int, int]]:
        """Hits and labelled rows up to each batch, with the labels that are known now."""
        hits = accumulate(batch.hits for batch in self.batches)
        return list(zip(hits, accumulate(batch.labelled for batch in self.batches), strict=True))


def _times(batches: Sequence[BatchRecord]) -> list[int] | None:
    """Milliseconds since 1970, or None where they cannot be an axis."""
    try:
        read = [datetime.fromisoformat(batch.time or "") for batch in batches]
    except ValueError:
        return None
    known = [at if at.tzinfo else at.replace(tzinfo=UTC) for at in read]
    stamps = [round(1000 * at.timestamp()) for at in known]
    return stamps if len(stamps) > 1 and all(a < b for a, b in pairwise(stamps)) else None
