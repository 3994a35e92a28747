"""Sets with thresholds by class, for many trials at once.

A prediction for each trial would sort every row and take its logarithms a hundred times over. Here that is done once
for a row, and what differs between trials (u and the thresholds) is gone through inside.
"""

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.compiled import kernel
from thermoset.conformal import ConformalClassifier
from thermoset.data import Logits
from thermoset.engine import ScorePairs, ascending, score_pair
from thermoset.kernels import Floats, Row, all_masses, rank_weights, shares
from thermoset.levels import Alpha, conformal_rank
from thermoset.pool import for_blocks, run_all
from thermoset.scores import resolve, score_value
from thermoset.sweeping import Trial

__all__ = ["KINDS", "CountedSets", "count_sets"]

KINDS = (("exact", "mondrian"), ("published", "mondrian"), ("exact", "clustered"))
"""The thresholds that are compared: in whose mode, and how classes are grouped."""


@dataclass(frozen=True, eq=False)
class CountedSets:
    """What the sets of the evaluation rows hold.

    `members` (trials, kinds): labels in all sets; `hits` (trials, kinds, C): sets that hold the label of their row;
    `counts` (trials, C): evaluation rows of each class.
    """

    members: NDArray[np.int64]
    hits: NDArray[np.int64]
    counts: NDArray[np.int64]


def count_sets(data: Logits, trials: list[Trial], method: str, alpha: Alpha) -> CountedSets:
    """Fit class-conditional thresholds at T = 1 in every trial and count what the sets of its evaluation rows hold."""
    labels = data.require_labels("the study")
    score, shape = resolve(method), (data.n_classes, len(trials), len(KINDS))
    q = ScorePairs(np.empty(shape), np.empty(shape))
    u, evaluated = np.empty((len(data), len(trials))), np.zeros((len(data), len(trials)), dtype=np.bool_)

    def fit(t: int, trial: Trial) -> None:
        u[:, t] = trial.u
        evaluated[trial.evaluation, t] = True
        for k, one in enumerate(_thresholds(data, trial, method, alpha)):
            q.value[:, t, k], q.refine[:, t, k] = one.value, one.refine

    run_all([partial(fit, t, trial) for t, trial in enumerate(trials)])
    members = np.zeros(shape[1:], dtype=np.int64)
    hits = np.zeros((data.n_classes, *shape[1:]), dtype=np.int64)
    lock = threading.Lock()

    def count(block: Row, rows: slice) -> None:
        some = np.zeros_like(members), np.zeros_like(hits)
        drawn = np.ascontiguousarray(u[rows]), np.ascontiguousarray(evaluated[rows])
        _count(*ascending(block), labels[rows], score.code, score.parameters, *drawn, q.value, q.refine, *some)
        with lock:  # integers: the order of blocks does not matter
            np.add(members, some[0], out=members)
            np.add(hits, some[1], out=hits)

    for_blocks(data.logits, count)
    counts = [np.bincount(labels[trial.evaluation], minlength=data.n_classes) for trial in trials]
    return CountedSets(members, hits.transpose(1, 2, 0), np.array(counts))


def _thresholds(data: Logits, trial: Trial, method: str, alpha: Alpha) -> Iterator[ScorePairs]:
    """Thresholds of a trial, one for each kind and class."""
    conformal, u = data.take(trial.conformal), trial.u[trial.conformal]
    mondrian = ConformalClassifier(method, alpha, class_conditional="mondrian").fit(conformal, u=u)
    yield mondrian.thresholds_
    yield _as_published(mondrian, alpha)
    yield ConformalClassifier(method, alpha, class_conditional="clustered").fit(conformal, u=u).thresholds_


def _as_published(model: ConformalClassifier, alpha: Alpha) -> ScorePairs:
    """Thresholds by class of the published code, from the scores of a fitted Mondrian classifier.

    It takes order statistic k + 1, and where a class has fewer rows its largest score, which promises nothing.
    """
    calibration = model.calibration_
    clamped = np.empty((2, model.n_features_in_))
    for c in range(model.n_features_in_):
        pool = calibration.scores[calibration.labels == c]
        n = pool.value.size
        clamped[:, c] = pool.smallest(min(conformal_rank(n, alpha) + 1, n)) if n else (math.inf, math.inf)
    return ScorePairs(*clamped)


@kernel
def _count(
    ranked: Row,
    order: NDArray[np.int64],
    labels: NDArray[np.int64],
    code: int,
    parameters: tuple[float, float, float],
    u: Floats,
    evaluated: NDArray[np.bool_],
    value: Floats,
    refine: Floats,
    members: NDArray[np.int64],
    hits: NDArray[np.int64],
) -> None:
    """Count members and hits at T = 1, no class masked; thresholds (C, trials, kinds), u, evaluated (rows, trials)."""
    n_classes = ranked.shape[1]
    log_weight, weight = np.empty(n_classes), np.empty(n_classes)
    above, below = np.empty(n_classes), np.empty(n_classes)
    for i in range(ranked.shape[0]):
        masked = rank_weights(ranked[i], 1.0, log_weight, weight)
        all_masses(weight, above, below)
        rest = below[n_classes - 1]
        total = 1.0 + rest
        for p in range(n_classes):
            label, rank = order[i, p], n_classes - p
            low, own, tail = above[p] / total, weight[p] / total, below[p] / total
            for t in range(u.shape[1]):
                if not evaluated[i, t]:
                    continue
                score = score_value(code, parameters, rank, low, own, tail, 1.0 / total, u[i, t])
                for k in range(value.shape[2]):
                    inside = score < value[label, t, k]
                    if score == value[label, t, k]:  # only then logarithms are needed
                        around = shares(log_weight, weight, masked, p, above[p], below[p], rest)
                        inside = score_pair(code, parameters, rank, around, u[i, t])[1] <= refine[label, t, k]
                    if inside:
                        members[t, k] += 1
                        hits[label, t, k] += label == labels[i]
