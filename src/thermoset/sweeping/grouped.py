"""A sweep with thresholds by class or cluster: every row is sorted once for all temperatures, levels and trials."""

from collections.abc import Callable
from functools import partial

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.conformal.groupings import Division, Grouping, rank_table
from thermoset.core.counting import Levels
from thermoset.core.groups import ClassThresholds
from thermoset.core.stages import Told
from thermoset.core.thresholds import Cuts, ScorePairs
from thermoset.core.trials import trial_scores
from thermoset.data import Logits
from thermoset.rows import SortedRows, room, run_tasks
from thermoset.scores import BEYOND, Score
from thermoset.sweeping.engine import LabelParts, Trials, count_class_sets, label_parts
from thermoset.sweeping.passes import Measured, SweepJob, SweptValues, Ticks
from thermoset.sweeping.protocol import Protocol

__all__ = ["class_thresholds", "mean_finite", "run_by_class"]


def run_by_class(
    data: Logits,
    plan: SweepJob,
    grouping: Grouping,
    trials: int,
    protocol: Protocol,
    progress: Callable[[int, int], None] | None,
) -> SweptValues:
    """Measure sets with thresholds by group; `threshold` is the mean of the finite thresholds of the classes."""
    measured = Measured.of(data, plan, trials, protocol)
    labels, drawn, asked = measured.labels, measured.trials, measured.questions.asked
    rows = SortedRows(data, kept_bytes=0)
    values = np.full((*plan.shape, len(plan.metrics), trials), np.nan)
    # thresholds with their refinements, and counts of misses for each of two threads
    bytes_of_one = 28 * len(plan.scores) * len(plan.alphas) * asked.n_cells * trials
    step = max(1, room(4) // bytes_of_one)
    turns = [slice(start, start + step) for start in range(0, len(plan.temperatures), step)]
    tick = Ticks(2 * len(data) * len(turns), progress)
    told = Told(plan.n_jobs, tick)
    for turn in turns:
        temperatures = plan.temperatures[turn]
        shares = label_parts(rows, labels, temperatures, told)
        cuts = class_thresholds(shares, labels, plan, grouping, drawn, protocol.random_state)
        levels = Levels(plan.set_scores, temperatures, cuts)
        counted = count_class_sets(data, labels, levels, drawn, asked=asked, told=told)
        threshold = np.apply_along_axis(mean_finite, 3, cuts.value)
        measured.fill(values[:, turn], counted, plan, threshold)
    return SweptValues(values, drawn.counts, measured.temperature)


def class_thresholds(
    shares: LabelParts,
    labels: Ints,
    plan: SweepJob,
    grouping: Grouping,
    trials: Trials,
    seed: int,
) -> Cuts:
    """Thresholds of every class, for each score, temperature, level and trial: (scores, T, alphas, C, trials)."""
    n_classes, n_temperatures = trials.counts.shape[1], len(shares.all.top)
    shape = len(plan.scores), n_temperatures, len(plan.alphas), n_classes, trials.count
    out = Cuts(np.empty(shape), np.empty(shape))
    if grouping.each_class:  # whatever the scores: nothing to find out trial by trial
        fixed = ClassThresholds(trials, labels, plan.alphas)

        def at_once(j: int) -> None:
            at = shares.at(j)
            for m, score in enumerate(plan.set_scores):
                fixed.fill(score, at, Cuts(out.value[m, j], out.refine[m, j]))

        run_tasks([partial(at_once, j) for j in range(n_temperatures)], n_jobs=plan.n_jobs)
        return out
    ranks = rank_table(trials.most_conformal, plan.alphas)

    def work(j: int) -> None:
        at = shares.at(j)
        for m, score in enumerate(plan.set_scores):
            for t in range(trials.count):
                found, of_rows = trial_scores(score.formula, at, trials, t), labels[trials.conformal[t]]
                for a, alpha in enumerate(plan.alphas):
                    made = grouping.divide(found, of_rows, n_classes, alpha, seed)
                    q = _divided_thresholds(found, of_rows, made, ranks[a : a + 1], grouping, score)
                    out.value[m, j, a, :, t], out.refine[m, j, a, :, t] = q.value, q.refine

    run_tasks([partial(work, j) for j in range(n_temperatures)], n_jobs=plan.n_jobs)
    return out


def _divided_thresholds(
    scores: ScorePairs, labels: Ints, made: Division, ranks: Ints, grouping: Grouping, score: Score
) -> ScorePairs:
    """Thresholds of every class, (C,), from label scores and a division of the classes; `ranks` of one level."""
    some, kept = (scores, labels) if made.rows is None else (scores[made.rows], labels[made.rows])
    q = grouping.thresholds(some, kept, made.group_of_class, ranks, score)
    return ScorePairs(q.value[0], q.refine[0])


def mean_finite(thresholds: Floats) -> float:
    """Mean of the finite thresholds, but for those beyond a rank limit; where there is none, the largest of all."""
    finite = thresholds[np.isfinite(thresholds) & (thresholds < BEYOND)]
    return float(finite.mean() if finite.size else thresholds.max())
