"""A sweep of any scores: those whose sets are prefixes by the fast loops, others by fitting in every trial.

Nothing is shared between trials there: each costs a softmax and the score itself at every temperature. Sets with a
threshold for each group of rows go this way too. A plain score that does not look at u and learns nothing gives a row
the same scores in every trial: they are computed once for each temperature.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from thermoset.arrays import Bools, Floats, Ints, Pairs
from thermoset.conformal.calibration_scores import CalibrationScores
from thermoset.conformal.groupings import Grouping, group_thresholds
from thermoset.conformal.recipe import Recipe, learn_from_some
from thermoset.conformal.scoring import Scoring, block_scores, block_sets, label_scores
from thermoset.data import Logits
from thermoset.data.groups import Groups
from thermoset.rows import Progress, block_rows, part_of, run_tasks
from thermoset.scores import Score
from thermoset.sweeping.engine import Counted
from thermoset.sweeping.job import Measured, SweepJob, SweptValues, mean_finite, run
from thermoset.sweeping.protocol import Protocol
from thermoset.uniforms import Randomness


def run_any(
    data: Logits, job: SweepJob, grouping: Grouping | None, trials: int, protocol: Protocol, progress: Progress | None
) -> SweptValues:
    """Measure every score by the loops it takes; `progress` is called with (done, total)."""
    by_loops = grouping is None or not (grouping.limits_ranks or grouping.of_rows)
    fast = [m for m, score in enumerate(job.scores) if score.prefixes and by_loops]
    parts = [*([fast] if fast else []), *([m] for m in range(len(job.scores)) if m not in fast)]
    values = np.empty((*job.shape, len(job.metrics), trials))
    for number, which in enumerate(parts):
        some = replace(job, scores=tuple(job.scores[m] for m in which))
        measure = run if which is fast else _run_slowly
        found = measure(data, some, grouping, trials, protocol, part_of(progress, number, len(parts)))
        values[which] = found.values
    return replace(found, values=values)


def _run_slowly(
    data: Logits, job: SweepJob, grouping: Grouping | None, trials: int, protocol: Protocol, progress: Progress | None
) -> SweptValues:
    """Measure one score, trial by trial."""
    measured = Measured(data, job, trials, protocol)
    counted = Counted.zero((*job.shape, trials), measured.misses.n_cells)
    threshold = np.empty((*job.shape[1:], trials))
    groups = data.require_groups("grouping='group'") if grouping is not None and grouping.of_rows else None
    one = _OneScore(data, job, grouping, measured, protocol.random_state, groups)
    count, number = (one.count_at, len(threshold)) if one.is_the_same_in_every_trial else (one.count, trials)
    tasks = [partial(count, i, counted, threshold) for i in range(number)]
    run_tasks(tasks, n_jobs=job.n_jobs, progress=progress, total=number)
    values = np.full((*job.shape, len(job.metrics), trials), np.nan)
    measured.fill(values, counted, job, threshold[None])
    return SweptValues(values, measured.trials.counts, measured.temperature)


@dataclass(frozen=True, eq=False)
class _OneScore:
    """One score in a sweep, trial by trial; `groups` are those of the rows, where each has a threshold."""

    data: Logits
    job: SweepJob
    grouping: Grouping | None
    measured: Measured
    seed: int
    groups: Groups | None

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
        found: list[list[tuple[Score, Pairs]]] = [[] for _ in at]
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
            for of_temperature, scores, temperature in zip(found, of_rows, at, strict=True):
                scoring = Scoring(score, temperature, None)
                fitted = CalibrationScores.of(scores, data, learned.recipe, scoring, learned.rows)
                of_temperature += [(score, fitted.thresholds(alpha)) for alpha in alphas]
        return found

    def count(self, t: int, counted: Counted, threshold: Floats) -> None:
        """Fit and predict in one trial; fill what its sets hold, and its thresholds (T, alphas, trials)."""
        trials, n = self.measured.trials, len(self.data)
        u = trials.uniforms(slice(t, t + 1), np.arange(n, dtype=np.int32)[None])[0]
        fresh = np.flatnonzero(trials.evaluation[:, t])
        rows, fitted = self.data.take(fresh), self._fit(t, u)
        codes = np.zeros(len(fresh), dtype=np.int64) if self.groups is None else self.groups.codes[fresh]
        threshold[:, :, t] = [[mean_finite(q.real.ravel()) for _, q in levels] for levels in fitted]
        drawn = Randomness(given=u[fresh])
        for place, block in rows.blocks(block_rows(rows.n_classes)):
            for j, levels in enumerate(fitted):
                for places in self._alike:
                    score, table = levels[places[0]][0], np.stack([levels[a][1] for a in places])
                    at = float(self.job.temperatures[j])
                    sets = block_sets(block, drawn[place], codes[place], score, at, table)
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
