"""The label scores of conformal rows, pooled by what shares a threshold: thresholds and p-values at any level."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.groupings import Grouping, resolve_grouping
from thermoset.conformal.p_values import p_under, strictest_p
from thermoset.conformal.recipes import Recipe
from thermoset.conformal.row_groups import codes_of, largest
from thermoset.conformal.row_weights import own_weights
from thermoset.conformal.scoring import Scoring
from thermoset.core.groups import group_thresholds, rank_table
from thermoset.core.levels import Alpha, conformal_rank
from thermoset.core.p_values import Pools, class_pools, group_pools, one_pool, weighted_pool
from thermoset.core.thresholds import NULL_GROUP, ScorePairs
from thermoset.core.weighted import WeightedScores
from thermoset.data import Groups, Logits
from thermoset.data.weights import conformal_weights

__all__ = ["PooledScores", "pooled"]


@dataclass(frozen=True)
class PooledScores:
    """Label scores of the conformal rows, pooled by group of classes or rows; a threshold for any alpha is one look-up.

    `grouping` and `group_of_class` are None for one global threshold. The null group -1 pools the rows of all classes.
    `groups` are those of the rows, where these are grouped instead of classes, and `fallback` what others get.
    `weighted` are the same scores with weights, where rows have such: thresholds then depend on the row's own weight.
    """

    scores: ScorePairs
    labels: NDArray[np.int64]
    grouping: Grouping | None
    group_of_class: NDArray[np.int64] | None
    scoring: Scoring
    groups: Groups | None = None
    fallback: str | None = None
    weighted: WeightedScores | None = None

    def thresholds(self, alpha: Alpha) -> ScorePairs:
        """Order statistic k = ceil((n + 1)(1 - alpha)) of each group: shape (1,), (C,) by class, or (G,) by group.

        With weights: that of a row of average weight, (1,).
        """
        if self.weighted is not None:
            return self.weighted.average(alpha)
        ranks = rank_table(len(self.labels), [alpha])
        if self.groups is not None:
            return group_thresholds(self.scores, self.groups.codes, np.arange(len(self.groups.names)), ranks)[0]
        if self.grouping is None or self.group_of_class is None:
            return self.pooled(alpha)
        return self.grouping.thresholds(self.scores, self.labels, self.group_of_class, ranks, self.scoring.score)[0]

    def pooled(self, alpha: Alpha) -> ScorePairs:
        """The order statistic of all rows together, shape (1,)."""
        value, refine = self.scores.smallest(conformal_rank(len(self.labels), alpha))
        return ScorePairs(np.array([value]), np.array([refine]))

    def other(self, alpha: Alpha) -> ScorePairs | None:
        """The threshold (1,) of rows whose group has none of its own, if there is a fallback."""
        if self.fallback is None:
            return None
        return self.pooled(alpha) if self.fallback == "pooled" else largest(self.thresholds(alpha))

    def pool_sizes(self) -> NDArray[np.int64]:
        """Number of rows behind each threshold: shape (1,), (C,) by class, or (G,) by group."""
        if self.groups is not None:
            return self.groups.counts
        if self.group_of_class is None:
            return np.array([len(self.labels)])
        sizes = np.bincount(self.group_of_class[self.labels] - NULL_GROUP, minlength=len(self.group_of_class) + 1)
        sizes[0] = len(self.labels)  # the null group pools all
        return sizes[self.group_of_class - NULL_GROUP]

    @cached_property
    def pools(self) -> Pools:
        """The same scores, sorted: what p-values are looked up in."""
        if self.weighted is not None:
            return weighted_pool(self.weighted)
        if self.groups is not None:
            return group_pools(self.scores, self.groups.codes, len(self.groups.names), others=self.fallback == "pooled")
        if self.group_of_class is None:
            return one_pool(self.scores)
        return class_pools(self.scores, self.labels, self.group_of_class)

    def p_values(
        self, data: Logits, smoothing_seed: int | None, *, u: Any = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.float64]:
        """p-values (n, C) of rows; smoothed, if there is a seed for it."""
        pools, own = self.pools, own_weights(self.weighted, weights, len(data))
        if self.weighted is not None and own is not None:
            pools = replace(pools, weight_of_row=self.weighted.grid.rounded(own))
        if self.groups is None:
            return p_under(data, self.scoring, pools, smoothing_seed, u=u, ids=ids)
        codes = codes_of(data, self.groups.names, self.fallback is not None, "predict_p")
        under = strictest_p if self.fallback == "strictest" else p_under
        return under(data, self.scoring, replace(pools, pool_of_row=codes), smoothing_seed, u=u, ids=ids)


def pooled(
    pairs: ScorePairs,
    data: Logits,
    recipe: Recipe,
    scoring: Scoring,
    rows: NDArray[np.int64] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> PooledScores:
    """Pool the label scores of the rows, or of some of them, as the recipe groups the classes or the rows."""
    labels, groups = data.require_labels("ConformalClassifier.fit"), data.groups
    if rows is not None:
        pairs, labels, groups = pairs[rows], labels[rows], None if groups is None else groups.take(rows)
        weights = None if weights is None else conformal_weights(weights[rows], len(rows))
    grouping = resolve_grouping(recipe.grouping)
    if grouping is None:
        weighted = None if weights is None else WeightedScores.of(pairs, weights)
        return PooledScores(pairs, labels, None, None, scoring, weighted=weighted)
    if grouping.of_rows:
        return PooledScores(pairs, labels, grouping, None, scoring, groups, recipe.fallback)
    made = grouping.divide(pairs, labels, data.n_classes, recipe.alpha, recipe.random_state)
    if made.rows is not None:
        pairs, labels = pairs[made.rows], labels[made.rows]
    return PooledScores(pairs, labels, grouping, made.group_of_class, scoring)
