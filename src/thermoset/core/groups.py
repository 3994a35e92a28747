"""Thresholds by group of classes: order statistics of the label scores of a group's rows."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel, part
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.formulas import Formula, label_refine, label_value
from thermoset.core.label_shares import LabelShares, label_at
from thermoset.core.levels import Alpha, exact_level
from thermoset.core.scores import Score
from thermoset.core.thresholds import NULL_GROUP, Cuts, ScorePairs, select
from thermoset.core.trials import Draws, Trials, draw

__all__ = ["ClassThresholds", "group_thresholds", "rank_table"]


class GroupedRows(NamedTuple):
    """Label scores in order of their groups: group g has places edges[g] .. edges[g + 1]."""

    value: Floats
    refine: Floats
    edges: Ints


@part
def _group_value(rows: GroupedRows, g: int, k: int, scratch: Floats) -> float:
    """The k-th smallest value of a group; infinite if it has fewer."""
    first, stop = rows.edges[g], rows.edges[g + 1]
    if k > stop - first:
        return np.inf
    for i in range(first, stop):
        scratch[i - first] = rows.value[i]
    return select(scratch, stop - first, k)


@part
def _group_refine(rows: GroupedRows, g: int, k: int, q: float, scratch: Floats) -> float:
    """The refinement of the k-th smallest score, of which `q` is the value."""
    if q == np.inf:
        return np.inf
    below, ties = 0, int(np.int64(0))
    for i in range(rows.edges[g], rows.edges[g + 1]):
        below += rows.value[i] < q
        if rows.value[i] == q:
            scratch[ties] = rows.refine[i]
            ties += 1
    return select(scratch, ties, k - below)


@kernel
def _fill_thresholds(rows: GroupedRows, ranks: Ints, out: Cuts) -> None:
    """Order statistic ranks[a, n] of each group of n rows: out (alphas, groups)."""
    scratch = np.empty(rows.value.shape[0])
    for g in range(rows.edges.shape[0] - 1):
        for a in range(ranks.shape[0]):
            k = ranks[a, rows.edges[g + 1] - rows.edges[g]]
            q = _group_value(rows, g, k, scratch)
            out.value[a, g], out.refine[a, g] = q, _group_refine(rows, g, k, q, scratch)


def rank_table(n_rows: int, alphas: Sequence[Alpha]) -> Ints:
    """The rank of the threshold for each level and number of rows, (alphas, n_rows + 1): no row has none."""
    table = np.empty((len(alphas), n_rows + 1), dtype=np.int64)
    for a, alpha in enumerate(alphas):
        kept = 1 - exact_level(alpha)
        # ceil((n + 1) kept) in whole numbers, for all n at once
        table[a] = -((-np.arange(1, n_rows + 2, dtype=object) * kept.numerator) // kept.denominator)
    return table


def group_thresholds(scores: ScorePairs, labels: Ints, group_of_class: Ints, ranks: Ints) -> ScorePairs:
    """Thresholds by class, (alphas, C): each class has that of its group, from the rows of the group's classes.

    `ranks` is a `rank_table` for at least as many rows.
    """
    groups, group_index = np.unique(group_of_class, return_inverse=True)
    group_of_row = group_index[labels]
    order = np.argsort(group_of_row, kind="stable")
    edges = np.searchsorted(group_of_row[order], np.arange(len(groups) + 1))
    out = Cuts(np.empty((len(ranks), len(groups))), np.empty((len(ranks), len(groups))))
    _fill_thresholds(GroupedRows(scores.value[order], scores.refine[order], edges), ranks, out)
    if groups[0] == NULL_GROUP:
        whole = Cuts(out.value[:, :1].copy(), out.refine[:, :1].copy())
        _fill_thresholds(GroupedRows(scores.value, scores.refine, np.array([0, len(labels)])), ranks, whole)
        out.value[:, :1], out.refine[:, :1] = whole
    return ScorePairs(out.value[:, group_index], out.refine[:, group_index])


class TrialGroups(NamedTuple):
    """Conformal rows of every trial in order of their groups, (trials, n); trial t's group g: edges[t, g] onwards."""

    rows: Ints
    edges: Ints


@kernel
def _fill_trial_thresholds(
    formula: Formula, labels: LabelShares, groups: TrialGroups, draws: Draws, ranks: Ints, out: Cuts
) -> None:
    """Thresholds of every group in every trial, at one temperature: out (alphas, groups, trials)."""
    n = groups.rows.shape[1]
    value, refine, scratch = np.empty(n), np.empty(n), np.empty(n)
    for t in range(groups.rows.shape[0]):
        for j in range(n):
            i = groups.rows[t, j]
            value[j] = label_value(formula, labels.rank[i], label_at(labels, i), draw(draws, t, i))
        rows = GroupedRows(value, refine, groups.edges[t])
        for g in range(out.value.shape[1]):
            for a in range(ranks.shape[0]):
                first, stop = rows.edges[g], rows.edges[g + 1]
                k = ranks[a, stop - first]
                q = _group_value(rows, g, k, scratch)
                for j in range(first, stop):  # logarithms only where values tie
                    if value[j] == q:
                        i = groups.rows[t, j]
                        refine[j] = label_refine(formula, labels.rank[i], label_at(labels, i), draw(draws, t, i))
                out.value[a, g, t], out.refine[a, g, t] = q, _group_refine(rows, g, k, q, scratch)


class ClassThresholds:
    """Thresholds of every class in every trial: rows are put in order of their classes once for all temperatures."""

    def __init__(self, trials: Trials, labels: Ints, alphas: Sequence[Alpha]) -> None:
        most, n_classes = trials.most_conformal, trials.counts.shape[1]
        rows = np.zeros((trials.count, most), dtype=np.int64)  # beyond the last edge stands any row, and counts nowhere
        edges = np.zeros((trials.count, n_classes + 1), dtype=np.int64)
        for t, of_trial in enumerate(trials.conformal):
            own = labels[of_trial]
            rows[t, : len(of_trial)] = of_trial[np.argsort(own, kind="stable")]
            edges[t, 1:] = np.cumsum(np.bincount(own, minlength=n_classes))
        self._groups = TrialGroups(rows, edges)
        self._draws, self._ranks = trials.draws, rank_table(most, alphas)

    def fill(self, score: Score, labels: LabelShares, out: Cuts) -> None:
        """Those of one score at one temperature: out (alphas, C, trials)."""
        _fill_trial_thresholds(score.formula, labels, self._groups, self._draws, self._ranks, out)
