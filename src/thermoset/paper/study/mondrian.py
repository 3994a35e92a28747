"""Sets with thresholds by class at T = 1: as they are valid, and clamped, which comes nearest to the printed gaps.

The code published with the paper has no thresholds by class, so how the printed ones were made is not known.
"""

from dataclasses import replace

import numpy as np

from thermoset.arrays import Floats, Ints, as_floats
from thermoset.conformal.groupings import GROUPINGS
from thermoset.data import Logits
from thermoset.levels import Alpha, conformal_rank
from thermoset.metrics import SetCounts
from thermoset.paper.study.own_temperatures import joined_by_top, split_by_top
from thermoset.rows import SortedRows
from thermoset.scores import Score, resolve
from thermoset.sweeping import Protocol
from thermoset.sweeping.engine import (
    LabelParts,
    Misses,
    Trials,
    class_thresholds,
    count_class_sets,
    expected_hits,
    label_parts,
)
from thermoset.sweeping.job import set_counts
from thermoset.sweeping.protocol import draw_trials

KINDS = (("exact", "mondrian"), ("published", "mondrian"), ("exact", "clustered"))
"""The thresholds that are compared: in whose mode, and how classes are grouped, by the paper's names."""
_GROUPINGS = {"mondrian": "class", "clustered": "cluster"}


def count_sets(
    data: Logits, protocol: Protocol, trials: int, method: str, alpha: Alpha
) -> list[tuple[SetCounts, SetCounts]]:
    """Find the thresholds of every trial and count what the sets of its evaluation rows hold, for each of `KINDS`.

    Counted with u drawn, and with the hits averaged over u.
    """
    labels, score, one = data.require_labels("the study"), resolve(method), np.ones(1)
    drawn = draw_trials(labels, data.n_classes, range(trials), protocol)
    rows = SortedRows(data, keep=False)
    known = label_parts(rows, labels, one)
    found = []
    for mode, grouping in KINDS:
        if mode == "published":
            found.append(_as_published(score, known, labels, drawn, alpha))
        else:
            kind = GROUPINGS[_GROUPINGS[grouping]]
            found.append(class_thresholds(known, labels, [score], [alpha], kind, drawn, protocol.random_state))
    cuts = np.concatenate(found, axis=3)  # kinds stand where levels do
    split, groups = split_by_top(drawn, labels, known.is_top)
    misses = Misses.by_group(groups, split.counts.shape[1])
    counted, _ = count_class_sets(rows, known, labels, [score], cuts.copy(), split, misses)
    none = np.full(drawn.count, np.nan)  # no cell shows a threshold
    both = []
    for k in range(len(KINDS)):
        counts = joined_by_top(set_counts(counted.at(0, 0, k), split.counts, alpha, none))
        missed = _expected_misses(score, known, labels, drawn, cuts[:, 0, 0, k])
        both.append((counts, replace(counts, hits=counts.rows - missed)))
    return both


def _expected_misses(score: Score, known: LabelParts, labels: Ints, trials: Trials, cuts: Floats) -> Floats:
    """Misses of each class in every trial on average over u, (trials, C); thresholds are (2, C, trials)."""
    n_classes = trials.counts.shape[1]
    missed = np.zeros((trials.count, n_classes))
    for c in range(n_classes):
        rows = np.flatnonzero(labels == c)
        hits = expected_hits(known.take(rows), score, 0, cuts[:, c], randomized=trials.randomized)
        missed[:, c] = np.where(trials.evaluation[rows].T, 1.0 - hits, 0.0).sum(axis=1)
    return missed


def _as_published(score: Score, known: LabelParts, labels: Ints, trials: Trials, alpha: Alpha) -> Floats:
    """Order statistic k + 1 of each class, or its largest score if it has fewer rows, which promises nothing.

    The printed TopCovGap fits this; the printed sizes do not. The k + 1 is that of the published code's one threshold.
    """
    n_classes = trials.counts.shape[1]
    out = np.full((1, 1, 1, n_classes, trials.count), complex(np.inf, np.inf))
    for t, rows in enumerate(trials.conformal):
        u = trials.uniforms(slice(t, t + 1), rows[None])[0]
        scores = known.scores(score, 0, rows.astype(np.int64), u)
        for c in range(n_classes):
            pool = np.sort(scores[labels[rows] == c])
            if len(pool):
                out[..., c, t] = pool[min(conformal_rank(len(pool), alpha) + 1, len(pool)) - 1]
    return as_floats(out)
