"""A sweep as a job: which trials are drawn, what is counted of every set, and the loops over temperatures.

Temperatures are taken in turns whose arrays fit a budget of bytes, so that memory does not grow with them. Strata of
confidence need a temperature: T* is fitted once on all rows, so that strata are the same in every trial. No threshold
sees T*, and coverage is that of evaluation rows alone.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.calibration import TemperatureScaler, confidence_at
from thermoset.conformal.groupings import Grouping
from thermoset.data import Logits
from thermoset.errors import BoundWarning
from thermoset.levels import Alpha, exact_level
from thermoset.metrics import SIZE_STRATA, Metric, SetCounts, swept_metrics
from thermoset.metrics.counts import N_STRATA, confidence_strata
from thermoset.rows import Progress, SortedRows, budget_share, part_of, thread_count
from thermoset.scores import BEYOND, NeverEmpty, Score
from thermoset.sweeping.engine import (
    Counted,
    Misses,
    Part,
    Trials,
    class_thresholds,
    count_class_sets,
    count_sets,
    label_parts,
    trial_thresholds,
)
from thermoset.sweeping.expectations import expected_misses, expected_totals
from thermoset.sweeping.protocol import Protocol, draw_trials


@dataclass(frozen=True)
class SweepJob:
    """What to sweep: scores, temperatures, levels, how evaluation rows are counted, and metrics beyond the usual."""

    scores: tuple[Score, ...]
    temperatures: Floats
    alphas: tuple[Alpha, ...]
    integrate: bool
    allow_empty: bool
    n_jobs: int | None
    added: tuple[Metric, ...] = ()

    @property
    def set_scores(self) -> tuple[Score, ...]:
        """What labels are compared by; see `Recipe.set_score`."""
        return self.scores if self.allow_empty else tuple(map(NeverEmpty, self.scores))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What is measured."""
        return (*swept_metrics("integrated" if self.integrate else "drawn"), *self.added)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Scores, temperatures, alphas."""
        return len(self.scores), len(self.temperatures), len(self.alphas)

    def turns(self, bytes_of_one: int, parts: int) -> list[slice]:
        """Temperatures whose arrays, of so many bytes each, fit one of so many parts of the budget."""
        step = max(1, budget_share(parts) // max(bytes_of_one, 1))
        return [slice(start, start + step) for start in range(0, len(self.temperatures), step)]


@dataclass(frozen=True, eq=False)
class SweptValues:
    """values : by score, temperature, alpha, metric and trial; counts : evaluation rows by trial and class.

    temperature : of the confidence whose strata were measured, if they were.
    """

    values: Floats
    counts: Ints
    temperature: float | None = None


# ---- what is counted -------------------------------------------------------------------------------------------------


def set_counts(counted: Counted, rows: Ints, alpha: Alpha, threshold: Floats) -> SetCounts:
    """What metrics of classes read: `counted` holds one score, temperature and level, `rows` is (trials, C)."""
    hits = np.subtract(rows, counted.missed.T, out=np.empty(rows.shape))
    return SetCounts(rows, hits, counted.size, counted.empty, float(1 - exact_level(alpha)), threshold)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Parts of the rows: the first of their cells, and the evaluation rows of each in every trial (trials, parts)."""

    first: int
    rows: Ints

    def hits(self, counted: Counted) -> Ints:
        """Rows of each part whose set holds their label, (trials, parts)."""
        found: Ints = self.rows - counted.missed[self.first : self.first + self.rows.shape[1]].T
        return found


class Measured:
    """The trials of a sweep, and what is measured in each.

    misses : what is counted of every set; temperature : of the confidence, where strata of it are asked for.
    """

    def __init__(self, data: Logits, job: SweepJob, trials: int, protocol: Protocol) -> None:
        self.labels = data.require_labels("sweep")
        self.trials: Trials = draw_trials(self.labels, data.n_classes, range(trials), protocol)
        needed = {metric.needs for metric in job.metrics}
        self._columns, self._least, self._of_label, self._n_cells = [self.labels], [1], [True], data.n_classes
        self._groups = self._strata = None
        self.temperature: float | None = None
        if data.groups and "groups" in needed:
            self._groups = self._count_part(data.groups.codes, len(data.groups.names))
        if "confidence" in needed:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BoundWarning)  # the order of the rows is all that is needed of T*
                self.temperature = TemperatureScaler().fit(data).temperature_
            strata = confidence_strata(confidence_at(data, self.temperature), N_STRATA)
            self._strata = self._count_part(strata, N_STRATA)
        self._first_size = self._n_cells
        self._sizes: tuple[int, ...] = ()
        if "sizes" in needed:  # sets with fewer labels than these, and those that also may lack their row's label
            self._sizes = tuple(size for size in SIZE_STRATA[1:] if size <= data.n_classes)
            for size in self._sizes:
                for of_label in (False, True):
                    self._count(np.full(len(self.labels), self._n_cells), size, of_label, 1)
        cells = np.ascontiguousarray(np.column_stack(self._columns), dtype=np.int64)
        self.misses = Misses(cells, np.array(self._least), np.array(self._of_label), self._n_cells)

    def _count(self, cells: Ints, least: int, of_label: bool, n_cells: int) -> None:
        self._columns.append(cells)
        self._least.append(least)
        self._of_label.append(of_label)
        self._n_cells += n_cells

    def _count_part(self, codes: Ints, count: int) -> _Cells:
        """Count the misses of each part of the rows."""
        rows = np.array([np.bincount(codes[seen], minlength=count) for seen in self.trials.evaluation.T])
        first = self._n_cells
        self._count(codes + first, 1, True, count)
        return _Cells(first, rows)

    def fill(self, values: Floats, counted: Counted, job: SweepJob, threshold: Floats) -> None:
        """The metrics of what was counted, (scores, T, alphas, metrics, trials); thresholds have no axis of metrics."""
        for m, j, a in np.ndindex(values.shape[:3]):
            counts = self._counts(counted.at(m, j, a), job.alphas[a], threshold[m, j, a])
            for k, metric in enumerate(job.metrics):
                if metric.needs != "expectation":
                    values[m, j, a, k] = metric.of(counts)

    def _counts(self, counted: Counted, alpha: Alpha, threshold: Floats) -> SetCounts:
        """What metrics read, from the counts of one score, temperature and level."""
        n_classes = self.trials.counts.shape[1]
        of_class = counted._replace(missed=counted.missed[:n_classes])
        found = set_counts(of_class, self.trials.counts, alpha, threshold)
        if self._groups is not None:
            found = replace(found, group_rows=self._groups.rows, group_hits=self._groups.hits(counted))
        if self._strata is not None:
            found = replace(found, confidence_rows=self._strata.rows, confidence_hits=self._strata.hits(counted))
        if self._sizes:  # sets that are large enough for a stratum, less those large enough for the next
            both = []
            for k, every in enumerate((found.total, found.hits.sum(axis=-1))):
                missed = counted.missed[self._first_size + k :: 2][: len(self._sizes)]
                enough = np.zeros((len(every), len(SIZE_STRATA) + 1), dtype=np.int64)
                enough[:, 0] = every
                enough[:, 1 : 1 + len(self._sizes)] = found.total[:, None] - missed.T
                both.append(enough[:, :-1] - enough[:, 1:])
            found = replace(found, stratum_rows=both[0], stratum_hits=both[1])
        return found


# ---- the loops -------------------------------------------------------------------------------------------------------


def run(
    data: Logits, job: SweepJob, grouping: Grouping | None, trials: int, protocol: Protocol, progress: Progress | None
) -> SweptValues:
    """Measure scores whose sets are prefixes of the ranking, with one threshold, or one for each class or cluster."""
    measured = Measured(data, job, trials, protocol)
    values = np.full((*job.shape, len(job.metrics), trials), np.nan)
    threads = thread_count() if job.n_jobs is None else job.n_jobs
    # what labels need at a temperature, and counts for each thread; by class, thresholds with their tie-breaks too
    per_cell = 4 * threads if grouping is None else 28
    one = 32 * len(data) + per_cell * len(job.scores) * len(job.alphas) * measured.misses.n_cells * trials
    rows = SortedRows(data)
    turns = job.turns(one, 16 if rows.sorter.keeps else 8)  # a further turn costs little where rows stay sorted
    passes = 2 + (len(job.scores) if job.integrate else 0)
    for number, some in enumerate(turns):
        of_passes = [part_of(progress, number * passes + k, len(turns) * passes) for k in range(passes)]
        labels = label_parts(rows, measured.labels, job.temperatures[some], n_jobs=job.n_jobs, progress=of_passes[0])
        here = values[:, some]
        if grouping is None:
            thresholds = trial_thresholds(labels, job.set_scores, job.alphas, measured.trials, n_jobs=job.n_jobs)
            part = Part(labels, job.set_scores, thresholds, measured.trials)
            (counted,) = count_sets(rows, measured.misses, [part], n_jobs=job.n_jobs, progress=of_passes[1])
            measured.fill(here, counted, job, thresholds[0])
            if job.integrate:
                _fill_integrated(rows, job, measured, part, here, of_passes[2:])
            continue
        thresholds = class_thresholds(
            labels, measured.labels, job.set_scores, job.alphas, grouping, measured.trials, protocol.random_state,
            n_jobs=job.n_jobs,
        )  # fmt: skip
        counted, means = count_class_sets(  # `threshold` is the mean of the finite thresholds of the classes
            rows, labels, measured.labels, job.set_scores, thresholds, measured.trials, measured.misses,
            n_jobs=job.n_jobs, progress=of_passes[1],
        )  # fmt: skip
        measured.fill(here, counted, job, means)
    return SweptValues(values, measured.trials.counts, measured.temperature)


def mean_finite(thresholds: Floats) -> float:
    """Mean of the finite thresholds, but for those beyond a rank limit; where there is none, the largest of all."""
    finite = thresholds[np.isfinite(thresholds) & (thresholds < BEYOND)]
    return float(np.cumsum(finite)[-1] / finite.size if finite.size else thresholds.max())  # in the order of classes


def _fill_integrated(
    rows: SortedRows, job: SweepJob, measured: Measured, part: Part, values: Floats,
    progress: Sequence[Progress | None],
) -> None:  # fmt: skip
    """Sizes, coverage and class gaps with u integrated out of the evaluation rows."""
    trials = part.trials
    for m, score in enumerate(job.set_scores):
        cuts = part.thresholds[:, m]
        size, empty = expected_totals(rows, part.labels, score, cuts, trials, n_jobs=job.n_jobs, progress=progress[m])
        for j, a in np.ndindex(cuts.shape[1:3]):
            missed = expected_misses(part.labels, score, j, measured.labels, trials, cuts[:, j, a])
            level, n_rows = float(1 - exact_level(job.alphas[a])), trials.counts
            counts = SetCounts(n_rows, n_rows - missed.T, size[j, a], empty[j, a], level, cuts[0, j, a])
            for k, metric in enumerate(job.metrics):
                if metric.averages:
                    values[m, j, a, k] = metric.of(counts)
