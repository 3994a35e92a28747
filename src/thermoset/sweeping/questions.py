"""What a sweep asks of every set, so that one pass over the rows answers it for classes, groups, strata and sizes.

Strata of confidence need a temperature. T* is fitted once, by NLL on all rows of the sweep, and the strata are cut once
on all rows as well: they are the same parts in every trial, at every temperature and for every score, so that what
differs between these is the sets. No threshold sees T*, and coverage is that of evaluation rows alone.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thermoset.calibration import TemperatureScaler, confidence_at
from thermoset.core.counting import Asked, Counted
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.levels import Alpha, exact_level
from thermoset.core.trials import Trials
from thermoset.data import Logits
from thermoset.errors import BoundWarning
from thermoset.metrics import SIZE_STRATA, Metric, SetCounts
from thermoset.metrics.counts import N_STRATA, confidence_strata

__all__ = ["Questions", "Strata", "set_counts", "strata_of"]


@dataclass(frozen=True, eq=False)
class Strata:
    """Strata of confidence: the temperature of the confidence, and the stratum of every row (n,)."""

    temperature: float
    codes: Ints


def strata_of(data: Logits) -> Strata:
    """Strata of confidence at T*, fitted on these rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)  # the order of the rows is all that is needed of T*
        temperature = TemperatureScaler().fit(data).temperature_
    return Strata(temperature, confidence_strata(confidence_at(data, temperature), N_STRATA))


def set_counts(counted: Counted, rows: Ints, alpha: Alpha, threshold: Floats) -> SetCounts:
    """What metrics of classes read: `counted` holds one score, temperature and level, `rows` is (trials, C)."""
    level = float(1 - exact_level(alpha))
    return SetCounts(rows, rows - counted.missed.T, counted.size, counted.empty, level, threshold)


@dataclass(frozen=True, eq=False)
class _Part:
    """Parts of the rows: the first of their cells, and the evaluation rows of each in every trial (trials, parts)."""

    first: int
    rows: Ints

    def hits(self, counted: Counted) -> Ints:
        """Rows of each part whose set holds their label, (trials, parts)."""
        found: Ints = self.rows - counted.missed[self.first : self.first + self.rows.shape[1]].T
        return found


@dataclass(frozen=True, eq=False)
class Questions:
    """What is asked, and how the answers are read.

    classes : always; groups, strata : where they are asked for; first_size : the first of the cells for sizes of sets,
    two for each of `sizes`, the first sizes of strata that sets can have.
    """

    asked: Asked
    classes: _Part
    groups: _Part | None
    strata: _Part | None
    first_size: int
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, data: Logits, trials: Trials, metrics: Sequence[Metric], strata: Strata | None) -> "Questions":
        """The questions that these metrics need."""
        needed = {metric.needs for metric in metrics}
        made = _Making(trials, data.require_labels("sweep"), data.n_classes)
        classes = _Part(0, trials.counts)
        groups = made.part(data.groups.codes, len(data.groups.names)) if data.groups and "groups" in needed else None
        of_confidence = made.part(strata.codes, N_STRATA) if strata is not None else None
        sizes = tuple(size for size in SIZE_STRATA[1:] if size <= data.n_classes) if "sizes" in needed else ()
        first_size = made.sizes(sizes)
        return cls(made.asked(), classes, groups, of_confidence, first_size, sizes)

    def counts(self, counted: Counted, alpha: Alpha, threshold: Floats) -> SetCounts:
        """What metrics read, from the answers for one score, temperature and level."""
        of_class = replace(counted, missed=counted.missed[: self.classes.rows.shape[1]])
        found = set_counts(of_class, self.classes.rows, alpha, threshold)
        if self.groups is not None:
            found = replace(found, group_rows=self.groups.rows, group_hits=self.groups.hits(counted))
        if self.strata is not None:
            found = replace(found, confidence_rows=self.strata.rows, confidence_hits=self.strata.hits(counted))
        if self.sizes:
            rows, hits = self._by_size(counted, found)
            found = replace(found, stratum_rows=rows, stratum_hits=hits)
        return found

    def _by_size(self, counted: Counted, found: SetCounts) -> tuple[Ints, Ints]:
        """Rows and hits by size of the set, (trials, strata): those that are large enough less those of the next."""
        both = []
        for k, every in enumerate((found.total, found.hits.sum(axis=-1))):
            noes = counted.missed[self.first_size + k :: 2][: len(self.sizes)]
            enough = np.zeros((len(every), len(SIZE_STRATA) + 1), dtype=np.int64)
            enough[:, 0] = every
            enough[:, 1 : 1 + len(self.sizes)] = found.total[:, None] - noes.T
            both.append(enough[:, :-1] - enough[:, 1:])
        return both[0], both[1]


class _Making:
    """Questions as they are put together: cells one after the other, those of the classes first."""

    def __init__(self, trials: Trials, labels: Ints, n_classes: int) -> None:
        self._trials, self._n_cells = trials, n_classes
        self._columns, self._least, self._own = [labels], [1], [True]

    def part(self, codes: Ints, count: int) -> _Part:
        """Ask for the misses of each part."""
        rows = np.array([np.bincount(codes[seen], minlength=count) for seen in self._trials.evaluation.T])
        first = self._n_cells
        self._ask(codes + first, least=1, own=True)
        self._n_cells += count
        return _Part(first, rows)

    def sizes(self, sizes: Sequence[int]) -> int:
        """Ask for sets with fewer labels than each of these, and for those that also may lack their row's label."""
        first = self._n_cells
        for size in sizes:
            for own in (False, True):
                self._ask(np.full(len(self._columns[0]), self._n_cells), least=size, own=own)
                self._n_cells += 1
        return first

    def asked(self) -> Asked:
        """All of it."""
        cells = np.ascontiguousarray(np.column_stack(self._columns), dtype=np.int64)
        return Asked(cells, np.array(self._least), np.array(self._own), self._n_cells)

    def _ask(self, cells: Ints, least: int, own: bool) -> None:
        self._columns.append(cells)
        self._least.append(least)
        self._own.append(own)
