"""A sweep of any scores: those whose sets are prefixes by the fast passes, others by fitting in every trial.

A plain score may bend with u and with the rank as it likes, and what a score or a grouping learns before there is a
threshold differs from trial to trial. So nothing is shared between trials: each costs a softmax and the score itself at
every temperature. Sets with a threshold for each group of rows go this way too. A plain score that does not look at u
and learns nothing gives a row the same scores in every trial: they are computed once for each temperature.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from thermoset.arrays import Bools, Floats, Ints
from thermoset.conformal.groupings import Grouping
from thermoset.conformal.pooling import pooled
from thermoset.conformal.recipe import Recipe, learn_from_some
from thermoset.conformal.scoring import Scoring, block_scores, label_scores
from thermoset.core.row_context import RowContext
from thermoset.core.row_sets import any_filler
from thermoset.core.thresholds import ScorePairs
from thermoset.core.trials import drawn_rows
from thermoset.data import Logits
from thermoset.data.groups import Groups
from thermoset.levels import conformal_rank
from thermoset.rows import block_rows, run_tasks
from thermoset.scores import Score
from thermoset.sweeping.engine import Counted, Trials
from thermoset.sweeping.grouped import mean_finite, run_by_class
from thermoset.sweeping.passes import Measured, SweepJob, SweptValues, Ticks, run
from thermoset.sweeping.protocol import Protocol
from thermoset.uniforms import Randomness

__all__ = ["run_any"]

Progress = Callable[[int, int], None]


def run_any(
    data: Logits, plan: SweepJob, grouping: Grouping | None, trials: int, protocol: Protocol, progress: Progress | None
) -> SweptValues:
    """Measure every score by the path it takes; `progress` is told (done, total)."""
    by_passes = grouping is None or not (grouping.limits_ranks or grouping.of_rows)
    fast = [m for m, score in enumerate(plan.scores) if score.prefixes and by_passes]
    plain = [m for m in range(len(plan.scores)) if m not in fast]
    values = np.empty((*plan.shape, len(plan.metrics), trials))
    n_parts = bool(fast) + len(plain)
    found = None
    for done, which in enumerate([*([fast] if fast else []), *([m] for m in plain)]):
        some = replace(plan, scores=tuple(plan.scores[m] for m in which))
        told = None if progress is None else partial(_tell, progress, done, n_parts)
        if which is not fast:
            found = _run_plain(data, some, grouping, trials, protocol, told)
        elif grouping is None:
            found = run(data, some, trials, protocol, told)
        else:
            found = run_by_class(data, some, grouping, trials, protocol, told)
        values[which] = found.values
    assert found is not None  # noqa: S101 - a plan has at least one score
    return replace(found, values=values)


def _tell(progress: Progress, before: int, n_parts: int, done: int, total: int) -> None:
    """Progress of one of several parts that count as much as each other."""
    progress(before * total + done, n_parts * total)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Thresholds of one temperature and level, (1, 1), (1, C) or (1, G), and what their labels are compared by."""

    score: Score
    thresholds: ScorePairs


@dataclass(frozen=True, eq=False)
class _Plain:
    """One score in a sweep, trial by trial; `groups` are those of the rows, where each has a threshold."""

    data: Logits
    plan: SweepJob
    grouping: Grouping | None
    measured: Measured
    seed: int
    groups: Groups | None

    @property
    def labels(self) -> Ints:
        return self.measured.labels

    @property
    def trials(self) -> Trials:
        return self.measured.trials

    @property
    def _alike(self) -> list[list[int]]:
        """Places of levels at which rows have the same scores: all where nothing is learned, or each for itself."""
        places = list(range(len(self.plan.alphas)))
        learns = self.grouping is not None or self.plan.scores[0].learns
        return [[place] for place in places] if learns else [places]

    def fitted(self, t: int, u: Floats) -> list[list[_Fitted]]:
        """What one trial finds, by temperature and level."""
        rows = self.trials.conformal[t]
        data, at = self.data.take(rows), self.plan.temperatures.tolist()
        found: list[list[_Fitted]] = [[] for _ in at]
        for alphas in ([self.plan.alphas[a] for a in places] for places in self._alike):
            asked = Recipe(
                self.plan.scores[0],
                alphas[0],
                allow_empty=self.plan.allow_empty,
                grouping=self.grouping,
                random_state=self.seed,
            )
            learned = learn_from_some(asked, data)
            recipe = learned.recipe
            pairs = label_scores(data, self.labels[rows], recipe.set_score, at, Randomness(given=u[rows]))
            for of_temperature, scores, temperature in zip(found, pairs, at, strict=True):
                fitted = pooled(scores, data, recipe, Scoring(recipe.set_score, temperature, None), learned.rows)
                of_temperature += [_Fitted(recipe.set_score, fitted.thresholds(alpha)[None]) for alpha in alphas]
        return found

    def count(self, t: int, counted: Counted, threshold: Floats) -> None:
        """Fit and predict in one trial; fill what its sets hold, and its thresholds (T, alphas, trials)."""
        u = drawn_rows(self.trials.draws, t, np.arange(len(self.data)))
        fresh = np.flatnonzero(self.trials.evaluation[:, t])
        rows, fitted = self.data.take(fresh), self.fitted(t, u)
        by_row, codes = self.groups is not None, None if self.groups is None else self.groups.codes[fresh]
        fillers = [
            [
                (places, any_filler(levels[places[0]].score, float(at), _stacked(levels, places), by_row=by_row))
                for places in self._alike
            ]
            for at, levels in zip(self.plan.temperatures, fitted, strict=True)
        ]
        context = RowContext(Randomness(given=u[fresh]), codes)
        threshold[:, :, t] = [[mean_finite(one.thresholds.value[0]) for one in levels] for levels in fitted]
        for place, block in rows.blocks(block_rows(rows.n_classes)):
            here, sets = context.rows(place), np.empty((len(self._alike[0]), *block.shape), np.bool_)
            for j, shared in enumerate(fillers):
                for places, fill in shared:
                    fill(block, here, sets)
                    for a, one in zip(places, sets, strict=True):
                        self._tally(counted, (j, a, t), one, fresh[place])

    def _tally(self, counted: Counted, at: tuple[int, int, int], sets: Bools, rows: Ints) -> None:
        """Count the sets of some rows at a temperature, level and trial."""
        (j, a, t), size, hit = at, np.count_nonzero(sets, axis=1), sets[np.arange(len(rows)), self.labels[rows]]
        counted.size[0, j, a, t] += size.sum()
        counted.empty[0, j, a, t] += np.count_nonzero(size == 0)
        counted.missed[0, j, a, :, t] += self.measured.questions.asked.noes(size, hit, rows).astype(np.int32)

    @property
    def is_the_same_in_every_trial(self) -> bool:
        """Whether a row has the same scores in every trial."""
        return self.grouping is None and not (self.plan.scores[0].uses_u or self.plan.scores[0].learns)

    def count_at(self, j: int, counted: Counted, threshold: Floats) -> None:
        """What `count` does in one trial for all temperatures, at one of them for all trials with the same scores."""
        at, score = float(self.plan.temperatures[j]), self.plan.set_scores[0]
        no_u = Randomness(given=np.ones(len(self.data)))
        (own,) = label_scores(self.data, self.labels, score, [at], no_u)
        levels = self.plan.alphas
        pools = [own[np.asarray(rows, dtype=np.int64)] for rows in self.trials.conformal]
        cuts = [[pool.smallest(conformal_rank(pool.value.size, alpha)) for alpha in levels] for pool in pools]
        threshold[j] = np.array(cuts)[:, :, 0].T + 0.0  # no negative zero
        for place, block in self.data.blocks(block_rows(self.data.n_classes)):
            pairs = block_scores(block, score, at, no_u.rows(place))
            for t, of_trial in enumerate(cuts):
                mine = np.flatnonzero(self.trials.evaluation[place, t])
                some, rows = pairs[mine], place.start + mine
                for a, (value, refine) in enumerate(of_trial):
                    sets = (some.value < value) | ((some.value == value) & (some.refine <= refine))
                    self._tally(counted, (j, a, t), sets, rows)


def _stacked(levels: list[_Fitted], places: list[int]) -> ScorePairs:
    """The thresholds of some levels, one below the other."""
    some = [levels[place].thresholds for place in places]
    return ScorePairs(np.concatenate([one.value for one in some]), np.concatenate([one.refine for one in some]))


def _run_plain(
    data: Logits, plan: SweepJob, grouping: Grouping | None, trials: int, protocol: Protocol, progress: Progress | None
) -> SweptValues:
    """Measure one score, trial by trial."""
    measured = Measured.of(data, plan, trials, protocol)
    shape = *plan.shape, trials
    missed = np.zeros((*plan.shape, measured.questions.asked.n_cells, trials), dtype=np.int32)
    counted, threshold = Counted(np.zeros(shape), np.zeros(shape), missed), np.empty(shape[1:])
    groups = data.require_groups("grouping='group'") if grouping is not None and grouping.of_rows else None
    one = _Plain(data, plan, grouping, measured, protocol.random_state, groups)
    count, number = (one.count_at, len(threshold)) if one.is_the_same_in_every_trial else (one.count, trials)
    tasks = [partial(count, i, counted, threshold) for i in range(number)]
    run_tasks(tasks, n_jobs=plan.n_jobs, progress=Ticks(number, progress))
    values = np.full((*plan.shape, len(plan.metrics), trials), np.nan)
    measured.fill(values, counted, plan, threshold[None])
    return SweptValues(values, measured.trials.counts, measured.temperature)
