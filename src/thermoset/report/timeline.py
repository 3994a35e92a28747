"""Batches along an axis: by time where every batch has one, else by number; of many, neighbours are put together."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np

from thermoset.metrics.laws import Interval, clopper_pearson
from thermoset.monitor.status import BatchRecord
from thermoset.quoting import printable
from thermoset.report.shell import shortened

_MOST_SPANS = 120  # points of a chart that can still be distinguished
_MOST_STEPS = 500  # points of a line; more cannot be seen


@dataclass(frozen=True)
class Span:
    """A batch, or several that follow each other, as one point of a chart.

    `x` is its place on the axis: milliseconds since 1970, or the number of the batch.
    """

    x: float
    name: str
    batches: tuple[BatchRecord, ...]

    @cached_property
    def rows(self) -> int:
        """Rows of all its batches."""
        return sum(batch.rows for batch in self.batches)

    @cached_property
    def labelled(self) -> int:
        """Rows with a label."""
        return sum(batch.labelled for batch in self.batches)

    @property
    def hits(self) -> int:
        """Labelled rows whose set holds the label."""
        return sum(batch.hits for batch in self.batches)

    @property
    def correct(self) -> int:
        """Labelled rows whose likeliest label is right."""
        return sum(batch.correct for batch in self.batches)

    @property
    def coverage(self) -> float | None:
        """Share of hits; None without labels."""
        return self.hits / self.labelled if self.labelled else None

    @property
    def accuracy(self) -> float | None:
        """Share of rows whose likeliest label is right; None without labels."""
        return self.correct / self.labelled if self.labelled else None

    @property
    def mean_size(self) -> float:
        """Mean number of labels in a set."""
        return sum(batch.rows * batch.mean_size for batch in self.batches) / max(self.rows, 1)

    @property
    def mean_confidence(self) -> float:
        """Mean confidence of the likeliest label."""
        return sum(batch.rows * batch.mean_confidence for batch in self.batches) / max(self.rows, 1)

    @property
    def empty_share(self) -> float:
        """Share of sets without a label."""
        return sum(batch.empty for batch in self.batches) / max(self.rows, 1)


def exact_intervals(hits: Sequence[int], rows: Sequence[int]) -> list[Interval | None]:
    """Exact 95% intervals of shares (Clopper and Pearson), None where there are no rows; all at once, which is fast.

    >>> [ends and round(ends.low, 3) for ends in exact_intervals([0, 9], [0, 10])]
    [None, 0.555]
    """
    if not rows:
        return []
    low, high = clopper_pearson(hits, rows)
    ends = zip(np.atleast_1d(low).tolist(), np.atleast_1d(high).tolist(), strict=True)
    return [Interval(*pair) if n else None for pair, n in zip(ends, rows, strict=True)]


class Timeline:
    """Where batches stand on the axis of every chart.

    Time is used if every batch has one that can be read (ISO 8601) and each is later than the one before; times without
    a zone are taken as UTC.

    >>> facts = dict(rows=10, labelled=10, hits=9, mean_size=1.5, empty=0, mean_confidence=0.8, correct=8)
    >>> facts |= dict.fromkeys(("log_under", "log_over", "log_size", "log_confidence", "coverage_low", "coverage_high"))
    >>> days = [BatchRecord(name=f"day {i}", time=f"2026-03-0{i}", **facts) for i in (1, 2, 3)]
    >>> Timeline(days).by_time, Timeline(days[::-1]).by_time
    (True, False)
    >>> Timeline(days[::-1]).places
    [1, 2, 3]
    """

    def __init__(self, batches: Sequence[BatchRecord]) -> None:
        self.batches = tuple(batches)
        times = _times(self.batches)
        self.by_time = times is not None
        self.places: list[int] = list(range(1, len(self.batches) + 1)) if times is None else times

    def name(self, i: int) -> str:
        """A batch as charts and tables call it."""
        return shortened(printable(self.batches[i].name), f"batch {i + 1}")

    def when(self, i: int) -> str:
        """Its name, and its time if it has one that does not say the same."""
        name, time = self.name(i), self.batches[i].time
        if time is None or time == self.batches[i].name:
            return name
        return f"{name} ({self.time(i)})"

    def time(self, i: int) -> str:
        """The time of a batch as it was given, or a dash."""
        return "\u2013" if (time := self.batches[i].time) is None else shortened(printable(time), "time")

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
            found.append(Span(x, name, self.batches[first : last + 1]))
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
