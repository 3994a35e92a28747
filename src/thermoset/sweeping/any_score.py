"""A sweep of any scores: compiled ones by the fast passes, plain ones by fitting and predicting in every trial.

A plain score may bend with u and with the rank as it likes, so that nothing can be shared between trials: each costs a
softmax and the score itself at every temperature.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from thermoset.conformal.groupings import Grouping
from thermoset.core.counting import Counted
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.general import label_scores, sets_of
from thermoset.core.groups import rank_table
from thermoset.core.pool import run_all
from thermoset.core.sources import ArrayRows
from thermoset.core.thresholds import ScorePairs
from thermoset.core.trials import Trials, drawn_rows
from thermoset.core.uniforms import Randomness
from thermoset.data import Logits
from thermoset.sweeping.grouped import divided_thresholds, mean_finite, run_by_class
from thermoset.sweeping.passes import SweepJob, SweptValues, Ticks, fill_counted, run, set_counts
from thermoset.sweeping.protocol import Protocol, draw_trials

__all__ = ["run_any"]

Progress = Callable[[int, int], None]


def run_any(
    data: Logits, plan: SweepJob, grouping: Grouping | None, trials: int, protocol: Protocol, progress: Progress | None
) -> SweptValues:
    """Measure every score by the path it takes; `progress` is told (done, total)."""
    fast = [m for m, score in enumerate(plan.scores) if score.compiled]
    plain = [m for m, score in enumerate(plan.scores) if not score.compiled]
    values = np.empty((*plan.shape, len(plan.metrics), trials))
    n_parts = bool(fast) + len(plain)
    counts = None
    for done, which in enumerate([*([fast] if fast else []), *([m] for m in plain)]):
        some = replace(plan, scores=tuple(plan.scores[m] for m in which))
        told = None if progress is None else partial(_tell, progress, done, n_parts)
        if which is not fast:
            found = _run_plain(data, some, grouping, trials, protocol, told)
        elif grouping is None:
            found = run(data, some, trials, protocol, told)
        else:
            found = run_by_class(data, some, grouping, trials, protocol, told)
        values[which], counts = found.values, found.counts
    assert counts is not None  # noqa: S101 - a plan has at least one score
    return SweptValues(values, counts)


def _tell(progress: Progress, before: int, n_parts: int, done: int, total: int) -> None:
    """Progress of one of several parts that count as much as each other."""
    progress(before * total + done, n_parts * total)


@dataclass(frozen=True, eq=False)
class _Plain:
    """One plain score in a sweep."""

    data: Logits
    labels: Ints
    plan: SweepJob
    grouping: Grouping | None
    trials: Trials
    seed: int

    def thresholds(self, t: int, u: Floats) -> list[ScorePairs]:
        """Of one trial at each temperature: (alphas, 1), or (alphas, C) by group."""
        rows = self.trials.conformal[t]
        own, n_classes, alphas = self.labels[rows], self.data.n_classes, self.plan.alphas
        ranks = rank_table(len(rows), alphas)
        found = []
        at, (score,) = self.plan.temperatures.tolist(), self.plan.threshold_scores
        for pairs in label_scores(ArrayRows(self.data.logits[rows]), own, score, at, Randomness(given=u[rows])):
            if self.grouping is None:
                q = [ScorePairs(*map(np.atleast_1d, pairs.smallest(ranks[a, -1]))) for a in range(len(alphas))]
            else:
                divisions = [self.grouping.divide(pairs, own, n_classes, alpha, self.seed) for alpha in alphas]
                q = [divided_thresholds(pairs, own, made, ranks[a : a + 1]) for a, made in enumerate(divisions)]
            found.append(ScorePairs(np.stack([one.value for one in q]), np.stack([one.refine for one in q])))
        return found

    def count(self, t: int, counted: Counted, threshold: Floats) -> None:
        """Fit and predict in one trial; fill what its sets hold, and its thresholds (T, alphas, trials)."""
        u = drawn_rows(self.trials.draws, t, np.arange(len(self.data)))
        fresh = np.flatnonzero(self.trials.evaluation[:, t])
        logits, own, row = self.data.logits[fresh], self.labels[fresh], np.arange(len(fresh))
        (score,) = self.plan.set_scores
        for j, q in enumerate(self.thresholds(t, u)):
            temperature = float(self.plan.temperatures[j])
            sets = sets_of(ArrayRows(logits), score, temperature, Randomness(given=u[fresh]), q)
            for a, one in enumerate(sets):
                counted.size[0, j, a, t] = np.count_nonzero(one)
                counted.empty[0, j, a, t] = np.count_nonzero(~one.any(axis=1))
                counted.missed[0, j, a, :, t] = np.bincount(own[~one[row, own]], minlength=self.data.n_classes)
                threshold[j, a, t] = mean_finite(q.value[a])


def _run_plain(
    data: Logits, plan: SweepJob, grouping: Grouping | None, trials: int, protocol: Protocol, progress: Progress | None
) -> SweptValues:
    """Measure one plain score."""
    labels = data.require_labels("sweep")
    drawn = draw_trials(labels, data.n_classes, range(trials), protocol)
    shape = *plan.shape, trials
    missed = np.empty((*plan.shape, data.n_classes, trials), dtype=np.int32)
    counted, threshold = Counted(np.empty(shape), np.empty(shape), missed), np.empty(shape[1:])
    one = _Plain(data, labels, plan, grouping, drawn, protocol.random_state)
    tasks = [partial(one.count, t, counted, threshold) for t in range(trials)]
    run_all(tasks, n_jobs=plan.n_jobs, progress=Ticks(trials, progress))
    values = np.full((*plan.shape, len(plan.metrics), trials), np.nan)
    for _, j, a in np.ndindex(plan.shape):
        counts = set_counts(counted.at(0, j, a), drawn.counts, plan.alphas[a], threshold[j, a])
        fill_counted(values[0, j, a], plan.metrics, counts)
    return SweptValues(values, drawn.counts)
