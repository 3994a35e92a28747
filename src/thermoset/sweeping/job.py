"""A sweep as a job: which trials are drawn, what is counted of every set, and the loops over temperatures.

Temperatures are taken in turns whose arrays fit a budget of bytes, so that memory does not grow with them. Strata of
confidence need a temperature: T* is fitted once on all rows, so that strata are the same in every trial. No threshold
sees T*, and coverage is that of evaluation rows alone.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from thermoset.arrays import Bools, Floats, Ints, Pairs
from thermoset.calibration import TemperatureScaler, confidence_at
from thermoset.conformal.calibration_scores import CalibrationScores
from thermoset.conformal.groupings import Grouping, group_thresholds
from thermoset.conformal.recipe import Recipe, learn_from_some
from thermoset.conformal.scoring import Scoring, block_scores, block_sets, label_scores
from thermoset.data import Logits
from thermoset.errors import BoundWarning
from thermoset.levels import Alpha, exact_level
from thermoset.metrics import SIZE_STRATA, Metric, SetCounts, swept_metrics
from thermoset.metrics.counts import N_STRATA, confidence_strata
from thermoset.rows import Progress, SortedRows, block_rows, budget_share, part_of, run_tasks, thread_count
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
from thermoset.uniforms import Randomness


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
        hits: Ints = self.rows - counted.missed[self.first : self.first + self.rows.shape[1]].T
        return hits


class Measured:
    """The trials of a sweep, and what is measured in each.

    misses : what is counted of every set; temperature : of the confidence, where strata of it are requested.
    """

    def __init__(self, data: Logits, job: SweepJob, trials: int, protocol: Protocol) -> None:
        self.labels = data.require_labels("sweep")
        self.trials: Trials = draw_trials(self.labels, data.n_classes, range(trials), protocol)
        needed = {metric.needs for metric in job.metrics}
        self._conditions: list[tuple[Ints, int, bool]] = [(self.labels, 1, True)]  # cells, least, of_label of `Misses`
        self._n_cells = data.n_classes
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
                    self._conditions.append((np.full(len(self.labels), self._n_cells), size, of_label))
                    self._n_cells += 1
        columns, least, of_labels = zip(*self._conditions, strict=True)
        cells = np.ascontiguousarray(np.column_stack(columns), dtype=np.int64)
        self.misses = Misses(cells, np.array(least), np.array(of_labels), self._n_cells)

    def _count_part(self, codes: Ints, count: int) -> _Cells:
        rows = np.array([np.bincount(codes[seen], minlength=count) for seen in self.trials.evaluation.T])
        first = self._n_cells
        self._conditions.append((codes + first, 1, True))
        self._n_cells += count
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
        counts = set_counts(of_class, self.trials.counts, alpha, threshold)
        if self._groups is not None:
            counts = replace(counts, group_rows=self._groups.rows, group_hits=self._groups.hits(counted))
        if self._strata is not None:
            counts = replace(counts, confidence_rows=self._strata.rows, confidence_hits=self._strata.hits(counted))
        if self._sizes:  # sets that are large enough for a stratum, less those large enough for the next
            both = []
            for k, every in enumerate((counts.total, counts.hits.sum(axis=-1))):
                missed = counted.missed[self._first_size + k :: 2][: len(self._sizes)]
                enough = np.zeros((len(every), len(SIZE_STRATA) + 1), dtype=np.int64)
                enough[:, 0] = every
                enough[:, 1 : 1 + len(self._sizes)] = counts.total[:, None] - missed.T
                both.append(enough[:, :-1] - enough[:, 1:])
            counts = replace(counts, stratum_rows=both[0], stratum_hits=both[1])
        return counts


# ---- the loops -------------------------------------------------------------------------------------------------------


def run(
    data: Logits, job: SweepJob, grouping: Grouping | None, trials: int, protocol: Protocol, progress: Progress | None
) -> tuple[Floats, Measured]:
    """Measure every score by the loops it takes: values by score, temperature, alpha, metric and trial."""
    measured = Measured(data, job, trials, protocol)
    by_loops = grouping is None or not (grouping.limits_ranks or grouping.of_rows)
    fast = [m for m, score in enumerate(job.scores) if score.prefixes and by_loops]
    parts = [*([fast] if fast else []), *([m] for m in range(len(job.scores)) if m not in fast)]
    values = np.empty((*job.shape, len(job.metrics), trials))
    for number, which in enumerate(parts):
        some = replace(job, scores=tuple(job.scores[m] for m in which))
        loops = _run_prefixes if which is fast else _run_slowly
        of_part = part_of(progress, number, len(parts))
        values[which] = loops(data, some, grouping, measured, protocol.random_state, of_part)
    return values, measured


def _run_prefixes(
    data: Logits, job: SweepJob, grouping: Grouping | None, measured: Measured, seed: int, progress: Progress | None
) -> Floats:
    """Measure scores whose sets are prefixes of the ranking, with one threshold, or one for each class or cluster."""
    trials = measured.trials.count
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
        turn_values = values[:, some]
        if grouping is None:
            thresholds = trial_thresholds(labels, job.set_scores, job.alphas, measured.trials, n_jobs=job.n_jobs)
            part = Part(labels, job.set_scores, thresholds, measured.trials)
            (counted,) = count_sets(rows, measured.misses, [part], n_jobs=job.n_jobs, progress=of_passes[1])
            measured.fill(turn_values, counted, job, thresholds[0])
            if job.integrate:
                _fill_integrated(rows, job, measured, part, turn_values, of_passes[2:])
            continue
        thresholds = class_thresholds(
            labels, measured.labels, job.set_scores, job.alphas, grouping, measured.trials, seed, n_jobs=job.n_jobs
        )
        counted, means = count_class_sets(  # `threshold` is the mean of the finite thresholds of the classes
            rows, labels, measured.labels, job.set_scores, thresholds, measured.trials, measured.misses,
            n_jobs=job.n_jobs, progress=of_passes[1],
        )  # fmt: skip
        measured.fill(turn_values, counted, job, means)
    return values


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


# ---- scores without a closed form ------------------------------------------------------------------------------------
#
# Nothing is shared between these trials: each costs a softmax and the score itself at every temperature. Sets with a
# threshold for each group of rows go this way too. A plain score that does not look at u and learns nothing gives a row
# the same scores in every trial: they are computed once for each temperature.


def _mean_finite(thresholds: Floats) -> float:
    """Mean of the finite thresholds, but for those beyond a rank limit; where there is none, the largest of all."""
    finite = thresholds[np.isfinite(thresholds) & (thresholds < BEYOND)]
    return float(np.cumsum(finite)[-1] / finite.size if finite.size else thresholds.max())  # in the order of classes


def _run_slowly(
    data: Logits, job: SweepJob, grouping: Grouping | None, measured: Measured, seed: int, progress: Progress | None
) -> Floats:
    """Measure one score, trial by trial."""
    trials = measured.trials.count
    counted = Counted.zero((*job.shape, trials), measured.misses.n_cells)
    threshold = np.empty((*job.shape[1:], trials))
    of_rows = grouping is not None and grouping.of_rows
    codes = data.require_groups("grouping='group'").codes if of_rows else np.zeros(len(data), dtype=np.int64)
    one = _OneScore(data, job, grouping, measured, seed, codes)
    count, number = (one.count_at, len(threshold)) if one.is_the_same_in_every_trial else (one.count, trials)
    tasks = [partial(count, i, counted, threshold) for i in range(number)]
    run_tasks(tasks, n_jobs=job.n_jobs, progress=progress, total=number)
    values = np.full((*job.shape, len(job.metrics), trials), np.nan)
    measured.fill(values, counted, job, threshold[None])
    return values


@dataclass(frozen=True, eq=False)
class _OneScore:
    """One score in a sweep, trial by trial; `codes` are the groups of the rows, where each has a threshold."""

    data: Logits
    job: SweepJob
    grouping: Grouping | None
    measured: Measured
    seed: int
    codes: Ints

    @property
    def is_the_same_in_every_trial(self) -> bool:
        """Whether a row has the same scores in every trial."""
        return self.grouping is None and not (self.job.scores[0].uses_u or self.job.scores[0].learns)

    @property
    def _alike(self) -> list[list[int]]:
        """Places of levels at which rows have the same scores: all where nothing is learned, or each for itself."""
        places = list(range(len(self.job.alphas)))
        learns = self.grouping is not None or self.job.scores[0].learns
        return [[place] for place in places] if learns else [places]

    def _fit(self, t: int, u: Floats) -> list[list[tuple[Score, Pairs]]]:
        """What labels are compared by in one trial, and thresholds (G, K), by temperature and level."""
        rows = self.measured.trials.conformal[t]
        data, at = self.data.take(rows), self.job.temperatures.tolist()
        fits: list[list[tuple[Score, Pairs]]] = [[] for _ in at]
        for alphas in ([self.job.alphas[a] for a in places] for places in self._alike):
            recipe = Recipe(
                self.job.scores[0],
                alphas[0],
                allow_empty=self.job.allow_empty,
                grouping=self.grouping,
                random_state=self.seed,
            )
            learned = learn_from_some(recipe, data)
            score = learned.recipe.set_score
            of_rows = label_scores(data, self.measured.labels[rows], score, at, Randomness(given=u[rows]))
            for of_temperature, scores, temperature in zip(fits, of_rows, at, strict=True):
                scoring = Scoring(score, temperature, None)
                fitted = CalibrationScores.of(scores, data, learned.recipe, scoring, learned.rows)
                of_temperature += [(score, fitted.thresholds(alpha)) for alpha in alphas]
        return fits

    def count(self, t: int, counted: Counted, threshold: Floats) -> None:
        """Fit and predict in one trial; fill what its sets hold, and its thresholds (T, alphas, trials)."""
        trials, n = self.measured.trials, len(self.data)
        u = trials.uniforms(slice(t, t + 1), np.arange(n, dtype=np.int32)[None])[0]
        fresh = np.flatnonzero(trials.evaluation[:, t])
        rows, fitted = self.data.take(fresh), self._fit(t, u)
        threshold[:, :, t] = [[_mean_finite(q.real.ravel()) for _, q in levels] for levels in fitted]
        drawn = Randomness(given=u[fresh])
        for place, block in rows.blocks(block_rows(rows.n_classes)):
            for j, levels in enumerate(fitted):
                for places in self._alike:
                    score, table = levels[places[0]][0], np.stack([levels[a][1] for a in places])
                    at, codes = float(self.job.temperatures[j]), self.codes[fresh[place]]
                    sets = block_sets(block, drawn[place], codes, score, at, table)
                    for a, one in zip(places, sets, strict=True):
                        self._add(counted, (j, a, t), one, fresh[place])

    def count_at(self, j: int, counted: Counted, threshold: Floats) -> None:
        """What `count` does in one trial for all temperatures, at one of them for all trials with the same scores."""
        at, score, trials = float(self.job.temperatures[j]), self.job.set_scores[0], self.measured.trials
        no_u = Randomness(given=np.ones(len(self.data)))
        (own,) = label_scores(self.data, self.measured.labels, score, [at], no_u)
        thresholds = []
        for rows in trials.conformal:
            zero = np.zeros(len(rows), dtype=np.int64)
            thresholds.append(group_thresholds(own[rows], zero, 1, self.job.alphas)[:, 0])
        threshold[j] = np.array(thresholds).real.T + 0.0  # no negative zero
        for place, block in self.data.blocks(block_rows(self.data.n_classes)):
            scores = block_scores(block, no_u[place], score, at)
            for t, of_trial in enumerate(thresholds):
                mine = np.flatnonzero(trials.evaluation[place, t])
                for a, q in enumerate(of_trial):
                    self._add(counted, (j, a, t), np.asarray(scores[mine] <= q), place.start + mine)

    def _add(self, counted: Counted, at: tuple[int, int, int], sets: Bools, rows: Ints) -> None:
        """Count the sets of some rows at a temperature, level and trial."""
        (j, a, t), size = at, np.count_nonzero(sets, axis=1)
        hit = sets[np.arange(len(rows)), self.measured.labels[rows]]
        counted.size[0, j, a, t] += size.sum()
        counted.empty[0, j, a, t] += np.count_nonzero(size == 0)
        counted.missed[0, j, a, :, t] += self.measured.misses.count(size, hit, rows).astype(np.int32)
