"""Groupings: which classes share a threshold. A registry; a member is a class and a line.

By cluster is clustered conformal prediction (Ding et al. 2023).

Classes with similar score distributions are pooled, so that a threshold has rows enough where a class alone has
not. The rows that decide the clusters set no threshold, which keeps the guarantee for each cluster.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from thermoset.core.exponentials import Ints
from thermoset.core.levels import Alpha, rows_needed
from thermoset.core.thresholds import NULL_GROUP, ScorePairs
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = [
    "GROUPINGS",
    "NULL_GROUP",
    "ByClass",
    "ByCluster",
    "ClusterPlan",
    "Division",
    "Grouping",
    "cluster_classes",
    "cluster_plan",
    "resolve_grouping",
]

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
    """Cluster of each class, from these rows' label scores; rare classes get `NULL_GROUP`.

    Score distributions are compared on the scale of ranks over all rows: quantiles of ranks are ranks of
    quantiles, and ranks do not saturate at low temperatures as the scores do.
    """
    ranks = _ranks(scores)
    counts = np.bincount(labels, minlength=n_classes)
    common = np.flatnonzero(counts >= rows_needed(alpha))
    cluster = np.full(n_classes, NULL_GROUP, dtype=np.int64)
    if n_clusters >= len(common):  # rows enough for every class to stand alone
        cluster[common] = np.arange(len(common))
        return cluster
    if n_clusters < 2:
        return cluster
    features = np.array([np.quantile(ranks[labels == c], _LEVELS, method="inverted_cdf") for c in common])
    n_clusters = min(n_clusters, len(np.unique(features, axis=0)))
    from sklearn.cluster import KMeans  # noqa: PLC0415 - a second to import, for those who cluster
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    kmeans = KMeans(n_clusters, n_init=10, random_state=random_state % 2**32)
    with threadpool_limits(1, user_api="openmp"):  # for so few points threads wait longer for each other than they work
        cluster[common] = kmeans.fit(features, sample_weight=np.sqrt(counts[common])).labels_
    return cluster


def _ranks(scores: ScorePairs) -> NDArray[np.float64]:
    """Ranks of the scores as shares of all; equal scores, as of top labels that are below everything, share the first.

    >>> _ranks(ScorePairs(np.array([3.0, -np.inf, 2.0, -np.inf]), np.array([0.0, -np.inf, 0.0, -np.inf])))
    array([1.  , 0.25, 0.75, 0.25])
    """
    n, order = len(scores.value), np.lexsort((scores.refine, scores.value))
    value, refine = scores.value[order], scores.refine[order]
    first = np.ones(n, dtype=np.bool_)
    first[1:] = (value[1:] != value[:-1]) | (refine[1:] != refine[:-1])
    ranks = np.empty(n)
    ranks[order] = (np.maximum.accumulate(np.where(first, np.arange(n), 0)) + 1.0) / n
    return ranks


@dataclass(frozen=True, eq=False)
class Division:
    """The group of each class, and the rows that set thresholds: numbers of those given, all if None."""

    group_of_class: Ints
    rows: Ints | None = None


class Grouping:
    """How classes are grouped for thresholds of their own.

    Attributes
    ----------
    name, title : str
        What `grouping=` takes; what tables and charts call such sets.
    unit, units : str
        What a threshold is for, in messages; several of them, in short.
    each_class : bool
        Whether every class is a group by itself, numbered as the class is. Coverage is then promised for each class.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    unit: ClassVar[str]
    units: ClassVar[str]
    each_class: ClassVar[bool]

    def divide(self, scores: ScorePairs, labels: Ints, n_classes: int, alpha: Alpha, seed: int) -> Division:
        """Group the classes, from the label scores of the conformal rows."""
        raise NotImplementedError


class ByClass(Grouping):
    """A threshold for each class (Mondrian)."""

    name = "class"
    title = "Mondrian"
    unit = "class"
    units = "classes"
    each_class = True

    def divide(self, scores: ScorePairs, labels: Ints, n_classes: int, alpha: Alpha, seed: int) -> Division:  # noqa: ARG002
        """Each class by itself."""
        return Division(np.arange(n_classes))


class ByCluster(Grouping):
    """A threshold for each cluster of classes with similar scores (Ding et al. 2023)."""

    name = "cluster"
    title = "clustered"
    unit = "cluster of classes"
    units = "clusters"
    each_class = False

    def divide(self, scores: ScorePairs, labels: Ints, n_classes: int, alpha: Alpha, seed: int) -> Division:
        """Cluster the classes on a seeded part of the rows; the others set the thresholds."""
        plan = cluster_plan(np.bincount(labels, minlength=n_classes), alpha)
        rows = np.random.default_rng(seed).permutation(len(labels))
        n_clustering = int(plan.fraction * len(rows))
        making, rest = rows[:n_clustering], np.sort(rows[n_clustering:])
        groups = cluster_classes(scores[making], labels[making], n_classes, plan.n_clusters, alpha, seed)
        return Division(groups, rest)


GROUPINGS: Mapping[str, Grouping] = MappingProxyType({member.name: member for member in (ByClass(), ByCluster())})
"""Every grouping by the name that `grouping=` takes."""


def resolve_grouping(grouping: object) -> Grouping | None:
    """Turn a name into the grouping; None is one threshold for all classes.

    >>> resolve_grouping("class").unit
    'class'
    """
    if grouping is None:
        return None
    if not isinstance(grouping, str) or grouping not in GROUPINGS:
        names = " or ".join(repr(name) for name in GROUPINGS)
        raise InputError(
            f"grouping must be None, {names}; got {quoted(grouping)}. None keeps one threshold for all classes."
        )
    return GROUPINGS[grouping]
