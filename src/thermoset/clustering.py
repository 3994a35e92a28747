"""Which classes share a threshold: clustered conformal prediction (Ding et al. 2023).

Classes with similar score distributions are pooled, so that a threshold has rows enough where a class alone has
not. The rows that decide the clusters set no threshold, which keeps the guarantee for each cluster.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from thermoset.engine import ScorePairs
from thermoset.levels import Alpha, rows_needed

__all__ = ["NULL_CLUSTER", "ClusterPlan", "cluster_classes", "cluster_plan"]

NULL_CLUSTER = -1
_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)  # quantiles that stand for a class's score distribution (Ding et al., section 3)


@dataclass(frozen=True)
class ClusterPlan:
    """How many clusters to make, and what share of the rows may go into making them."""

    n_clusters: int
    fraction: float


def cluster_plan(counts: NDArray[np.int64], alpha: Alpha) -> ClusterPlan:
    """Choose the number of clusters by the rule of Ding et al., appendix B.

    With K the number of classes that have enough rows for a threshold and n the rows of the smallest of them, a
    share K / (75 + K) of the rows makes the clusters, half as many clusters as rows that gives a class.

    >>> cluster_plan(np.full(75, 40), alpha=0.1)  # half of 40 rows a class, so 10 clusters
    ClusterPlan(n_clusters=10, fraction=0.5)
    """
    eligible = counts[counts >= rows_needed(alpha)]
    if not eligible.size:
        return ClusterPlan(n_clusters=0, fraction=0.0)
    fraction = eligible.size / (75 + eligible.size)
    return ClusterPlan(n_clusters=math.floor(int(eligible.min()) * fraction) // 2, fraction=fraction)


def cluster_classes(
    scores: ScorePairs,
    labels: NDArray[np.int64],
    n_classes: int,
    n_clusters: int,
    alpha: Alpha,
    random_state: int,
) -> NDArray[np.int64]:
    """Cluster of each class, from these rows' label scores; rare classes get `NULL_CLUSTER`.

    Score distributions are compared on the scale of ranks over all rows: quantiles of ranks are ranks of
    quantiles, and ranks do not saturate at low temperatures as the scores do.
    """
    ranks = np.empty(len(labels))
    ranks[np.lexsort((scores.refine, scores.value))] = (np.arange(len(labels)) + 1.0) / len(labels)
    counts = np.bincount(labels, minlength=n_classes)
    common = np.flatnonzero(counts >= rows_needed(alpha))
    cluster = np.full(n_classes, NULL_CLUSTER, dtype=np.int64)
    if n_clusters >= len(common):  # rows enough for every class to stand alone
        cluster[common] = np.arange(len(common))
        return cluster
    if n_clusters < 2:
        return cluster
    features = np.array([np.quantile(ranks[labels == c], _LEVELS, method="inverted_cdf") for c in common])
    n_clusters = min(n_clusters, len(np.unique(features, axis=0)))
    kmeans = KMeans(n_clusters, n_init=10, random_state=random_state % 2**32)
    cluster[common] = kmeans.fit(features, sample_weight=np.sqrt(counts[common])).labels_
    return cluster
