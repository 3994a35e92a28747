"""Sets with thresholds by class at T = 1: as they are valid, and clamped, which comes nearest to the printed gaps.

The code published with the paper has no thresholds by class, so how the printed ones were made is not known.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.conformal.groupings import GROUPINGS
from thermoset.core.counting import Levels
from thermoset.core.formulas import Law
from thermoset.core.thresholds import Cuts, ScorePairs
from thermoset.core.trials import trial_scores
from thermoset.data import Logits
from thermoset.levels import Alpha, conformal_rank
from thermoset.metrics import SetCounts
from thermoset.paper.study.own_temperatures import joined_by_top, split_by_top
from thermoset.rows import SortedRows
from thermoset.scores import Score, resolve
from thermoset.sweeping import Protocol
from thermoset.sweeping.engine import LabelParts, Misses, Trials, count_class_sets, expected_hits, label_parts
from thermoset.sweeping.grouped import class_thresholds
from thermoset.sweeping.passes import SweepJob
from thermoset.sweeping.protocol import draw_trials
from thermoset.sweeping.questions import set_counts

__all__ = ["KINDS", "count_sets"]

KINDS = (("exact", "mondrian"), ("published", "mondrian"), ("exact", "clustered"))
"""The thresholds that are compared: in whose mode, and how classes are grouped, by the paper's names."""
_GROUPINGS = {"mondrian": "class", "clustered": "cluster"}


def count_sets(
    data: Logits, protocol: Protocol, trials: int, method: str, alpha: Alpha
) -> list[tuple[SetCounts, SetCounts]]:
    """Find the thresholds of every trial and count what the sets of its evaluation rows hold, for each of `KINDS`.

    Counted with u drawn, and with the hits averaged over u.
    """
    labels, source, score = data.require_labels("the study"), data, resolve(method)
    one = np.ones(1)
    drawn = draw_trials(labels, data.n_classes, range(trials), protocol)
    shares = label_parts(SortedRows(source, kept_bytes=0), labels, one)
    plan = SweepJob((score,), one, (alpha,), False, True, None)
    found = []
    for mode, grouping in KINDS:
        if mode == "published":
            found.append(_as_published(score, shares.at(0), labels, drawn, alpha))
        else:
            kind = GROUPINGS[_GROUPINGS[grouping]]
            found.append(class_thresholds(shares, labels, plan, kind, drawn, protocol.random_state))
    cuts = Cuts(*(np.concatenate(parts, axis=2) for parts in zip(*found, strict=True)))  # kinds stand where levels do
    split, groups = split_by_top(drawn, labels, shares.all.rank == 1)
    counted = count_class_sets(
        source, labels, Levels((score,), one, cuts), split, asked=Misses(groups, split.counts.shape[1])
    )
    none = np.full(drawn.count, np.nan)  # no cell shows a threshold
    both = []
    for k in range(len(KINDS)):
        counts = joined_by_top(set_counts(counted.at(0, 0, k), split.counts, alpha, none))
        of_kind = Cuts(cuts.value[0, 0, k], cuts.refine[0, 0, k])
        missed = _expected_misses(score, shares.at(0), labels, drawn, of_kind)
        both.append((counts, replace(counts, hits=counts.rows - missed)))
    return both


def _expected_misses(score: Score, shares: LabelParts, labels: Ints, trials: Trials, cuts: Cuts) -> Floats:
    """Misses of each class in every trial on average over u, (trials, C); thresholds are (C, trials)."""
    law, n_classes = Law(score.formula, trials.draws.drawn and score.uses_u), trials.counts.shape[1]
    missed = np.zeros((trials.count, n_classes))
    for c in range(n_classes):
        rows = np.flatnonzero(labels == c)
        hits = np.empty((trials.count, len(rows)))
        own = LabelParts(shares.rank[rows], *(field[rows] for field in shares[1:]))
        expected_hits(law, own, Cuts(*map(np.ascontiguousarray, (cuts.value[c], cuts.refine[c]))), hits)
        missed[:, c] = np.where(trials.evaluation[rows].T, 1.0 - hits, 0.0).sum(axis=1)
    return missed


def _as_published(score: Score, shares: LabelParts, labels: Ints, trials: Trials, alpha: Alpha) -> Cuts:
    """Order statistic k + 1 of each class, or its largest score if it has fewer rows, which promises nothing.

    The printed TopCovGap fits this; the printed sizes do not. The k + 1 is that of the published code's one threshold.
    """
    n_classes = trials.counts.shape[1]
    shape = 1, 1, 1, n_classes, trials.count
    out = Cuts(np.empty(shape), np.empty(shape))
    for t in range(trials.count):
        scores, of_rows = trial_scores(score.formula, shares, trials, t), labels[trials.conformal[t]]
        for c, (value, refine) in enumerate(_clamped(scores, of_rows, n_classes, alpha)):
            out.value[..., c, t], out.refine[..., c, t] = value, refine
    return out


def _clamped(scores: ScorePairs, labels: Ints, n_classes: int, alpha: Alpha) -> Iterator[tuple[float, float]]:
    for c in range(n_classes):
        pool = scores[labels == c]
        n = pool.value.size
        yield pool.smallest(min(conformal_rank(n, alpha) + 1, n)) if n else (math.inf, math.inf)
