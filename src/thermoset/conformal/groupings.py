"""Groupings: which classes, or which rows, share a threshold. A registry: a grouping is one class and one entry."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from thermoset.arrays import Floats, Ints, Pairs, pairs
from thermoset.bounds import real_number
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level, rows_needed
from thermoset.quoting import quoted
from thermoset.scores import Score
from thermoset.uniforms import stream

NULL_GROUP = -1
"""The group of classes too rare for a threshold of their own: it pools the rows of all classes."""

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)  # quantiles that stand for a class's score distribution (Ding et al., section 3)


def cluster_plan(counts: Ints, alpha: Alpha) -> tuple[int, float]:
    """The number of clusters, and the share of the rows that makes them: the rule of Ding et al., appendix B.

    With K the number of classes that have enough rows for a threshold, the share is K / (75 + K), and there are half as
    many clusters as rows which that gives the smallest of these classes.
    """
    eligible = counts[counts >= rows_needed(alpha)]
    if not eligible.size:
        return 0, 0.0
    fraction = eligible.size / (75 + eligible.size)
    return math.floor(int(eligible.min()) * fraction) // 2, fraction


def cluster_classes(
    scores: Pairs, labels: Ints, n_classes: int, n_clusters: int, alpha: Alpha, random_state: int
) -> Ints:
    """Cluster of each class, from these rows' label scores; rare classes get `NULL_GROUP`.

    Score distributions are compared on the scale of ranks over all rows: quantiles of ranks are ranks of
    quantiles, and ranks do not saturate at low temperatures as the scores do.
    """
    ranks = (np.searchsorted(np.sort(scores), scores) + 1.0) / len(scores)
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


# ---- thresholds ------------------------------------------------------------------------------------------------------


def rank_table(most_rows: int, alphas: Sequence[Alpha]) -> Ints:
    """The rank of the threshold for each level and number of rows, (alphas, most_rows + 1), in exact arithmetic."""
    table = np.empty((len(alphas), most_rows + 1), dtype=np.int64)
    for a, alpha in enumerate(alphas):
        kept = 1 - exact_level(alpha)
        # ceil((n + 1) kept) in whole numbers, for all n at once
        table[a] = -((-np.arange(1, most_rows + 2, dtype=object) * kept.numerator) // kept.denominator)
    return table


def group_thresholds(scores: Pairs, groups: Ints, n_groups: int, alphas: Sequence[Alpha]) -> Pairs:
    """Order statistic k = ceil((n + 1)(1 - alpha)) of the scores of each group, (alphas, G); +inf if it has fewer."""
    order = np.lexsort((scores.imag, scores.real, groups))
    edges = np.searchsorted(groups[order], np.arange(n_groups + 1))
    counts = np.diff(edges)
    ranks = rank_table(int(counts.max(initial=0)), alphas)[:, counts]
    thresholds = np.full(ranks.shape, complex(np.inf, np.inf))
    finite = ranks <= counts
    thresholds[finite] = scores[order][(edges[:-1] + ranks - 1)[finite]]
    return thresholds


def mix_thresholds(own: Pairs, whole: Pairs, tau: float, score: Score, n_classes: int) -> Pairs:
    """Mixtures tau * own + (1 - tau) * whole, entry by entry; tau of 0 and 1 give the ends themselves.

    Where `own` is infinite, the largest value of the score stands for it. A mixture is never outside its two ends, in
    the order of pairs: a label that both let in is in, and one that both keep out is out.
    """
    whole = np.broadcast_to(whole, own.shape)
    if tau in (0, 1):
        return own if tau == 1 else whole.copy()
    ends = np.where(np.isposinf(own.real), score.largest(n_classes), own.real), whole.real
    with np.errstate(invalid="ignore"):
        value = _mix_logs(*ends, tau) if score.logarithmic else tau * ends[0] + (1.0 - tau) * ends[1]
    value = _between(value, *ends)
    # Tie-breaks of equal values hold minus the log of what is left.
    tie = _between(_mix_logs(own.imag, whole.imag, tau), own.imag, whole.imag)
    tie = np.where(value == ends[0], np.where(value == ends[1], tie, own.imag), np.inf)
    return pairs(value, np.where((value == ends[1]) & (value != ends[0]), whole.imag, tie))


def _mix_logs(a: Floats, b: Floats, tau: float) -> Floats:
    """The mixture of e**-a and e**-b as minus a logarithm."""
    with np.errstate(invalid="ignore"):
        return np.asarray(-np.logaddexp(np.log(tau) - a, np.log1p(-tau) - b))


def _between(mixture: Floats, a: Floats, b: Floats) -> Floats:
    """The mixture, kept between its ends; of two opposite infinities, which have none, the upper one."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.asarray(np.where(a == b, a, np.clip(np.where(np.isnan(mixture), high, mixture), low, high)))


# ---- groupings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Division:
    """The group of each class, and the rows that set thresholds: numbers of those given, all if None."""

    group_of_class: Ints
    rows: Ints | None = None


class Grouping:
    """How classes, or rows, are grouped for separate thresholds.

    Attributes
    ----------
    name, title : str
        The value for `grouping=`; the name of such sets in tables and charts.
    unit, units : str
        What a threshold is for, in messages: singular, and a short plural.
    each_class : bool
        Whether every class is a group by itself, numbered as the class is. Coverage is then promised for each class.
    of_rows : bool
        Whether rows are grouped instead of classes: each brings the name of its group, and nothing is to be divided.
    exact : bool
        Whether coverage is promised for each group, by its law.
    limits_ranks : bool
        Whether labels have a last rank for each class, which is learned from rows that set no threshold.
    has_p_values : bool
        Whether a label is in a set where its score is at most an order statistic of its group's scores, at every level.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    unit: ClassVar[str]
    units: ClassVar[str]
    each_class: ClassVar[bool]
    of_rows: ClassVar[bool] = False
    exact: ClassVar[bool] = True
    limits_ranks: ClassVar[bool] = False
    has_p_values: ClassVar[bool] = True

    @property
    def text(self) -> str:
        """The grouping as `grouping=` reads it and files hold it: its name, with unusual parameters."""
        return self.name

    def read(self, text: str) -> "Grouping | None":
        """The grouping of this kind that a text names, if it names one."""
        return self if text == self.name else None

    def divide(self, scores: Pairs, labels: Ints, n_classes: int, alpha: Alpha, seed: int) -> Division:
        """Group the classes, from the label scores of the conformal rows."""
        raise NotImplementedError

    def thresholds(
        self,
        scores: Pairs,
        labels: Ints,
        group_of_class: Ints,
        alphas: Sequence[Alpha],
        score: Score,  # noqa: ARG002
    ) -> Pairs:
        """Thresholds by class, (alphas, C), from label scores: each class has that of its group."""
        groups, group_index = np.unique(group_of_class, return_inverse=True)
        by_group = group_thresholds(scores, group_index[labels], len(groups), alphas)
        if groups[0] == NULL_GROUP:
            by_group[:, :1] = group_thresholds(scores, np.zeros(len(labels), dtype=np.int64), 1, alphas)
        return np.asarray(by_group[:, group_index])


class ByClass(Grouping):
    """A threshold for each class (Mondrian)."""

    name = "class"
    title = "Mondrian"
    unit = "class"
    units = "classes"
    each_class = True

    def divide(self, scores: Pairs, labels: Ints, n_classes: int, alpha: Alpha, seed: int) -> Division:  # noqa: ARG002
        """Each class by itself."""
        return Division(np.arange(n_classes))


class ByCluster(Grouping):
    """A threshold for each cluster of classes with similar scores (Ding et al. 2023)."""

    name = "cluster"
    title = "clustered"
    unit = "cluster of classes"
    units = "clusters"
    each_class = False

    def divide(self, scores: Pairs, labels: Ints, n_classes: int, alpha: Alpha, seed: int) -> Division:
        """Cluster the classes on a seeded part of the rows; the others set the thresholds."""
        n_clusters, fraction = cluster_plan(np.bincount(labels, minlength=n_classes), alpha)
        making, rest = set_aside(len(labels), fraction, seed)
        groups = cluster_classes(scores[making], labels[making], n_classes, n_clusters, alpha, seed)
        return Division(groups, rest)


class ByGroup(Grouping):
    """A threshold for each group of rows: that of its own conformal rows, for all classes alike."""

    name = "group"
    title = "by group"
    unit = "group"
    units = "groups"
    each_class = False
    of_rows = True


class RC3P(ByClass):
    """A threshold for each class, and a rank limit for its labels (Shi et al. 2024).

    Label y is in a set if its rank is at most k_y and its score at most the threshold of class y. The limits k_y come
    from rows that set no threshold. For the others a label beyond its limit scores higher than all within it, so the
    threshold is the quantile at 1 - alpha + (top-k_y error), and coverage follows the exact law in each class; the
    published rule takes both from the same rows and adds up their errors by the union bound. Where more rows than alpha
    allows are beyond the limit, all labels within it are included, and some beyond it.
    """

    name = "rc3p"
    title = "RC3P"
    limits_ranks = True


def set_aside(n_rows: int, fraction: float, seed: int) -> tuple[Ints, Ints]:
    """A seeded part of rows that set no threshold, and the others in rising order."""
    rows = stream(seed, "rows set aside").permutation(n_rows)
    count = int(fraction * n_rows)
    return rows[:count], np.sort(rows[count:])


@dataclass(frozen=True)
class Interpolated(ByClass):
    """Thresholds tau q_class + (1 - tau) q_all, between one for all classes and one for each (Ding et al. 2025).

    All conformal rows set both. Where a class has too few rows for its own threshold, the largest value of the score
    replaces it (1 for LAC and APS, 1 + penalty (C - k_reg) for RAPS), so thresholds stay finite; a custom score has no
    known largest value, and such labels enter every set.

    A set misses its label only if the set under one of the two thresholds does. So overall coverage is at least 1 - 2
    alpha on average; that is all that is proven, and nothing is proven for a single class.

    >>> Interpolated(0.25).text, resolve_grouping("interpolated(tau=0.25)")
    ('interpolated(tau=0.25)', Interpolated(tau=0.25))
    >>> Interpolated(1.5)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: tau must be a number from 0 to 1; got 1.5. 0 means one threshold for all classes, ...
    """

    name = "interpolated"
    each_class = False
    exact = False
    has_p_values = False

    tau: float = 0.5

    def __post_init__(self) -> None:
        remedy = "0 means one threshold for all classes, 1 means one per class."
        object.__setattr__(self, "tau", real_number(self.tau, "tau", 0, 1, "a number from 0 to 1", remedy))

    @property
    def title(self) -> str:  # type: ignore[override]
        """The name, with tau."""
        return f"{self.name}, tau = {self.tau:g}"

    @property
    def text(self) -> str:
        """The name, with tau where it is not 0.5."""
        return self.name if self.tau == Interpolated.tau else f"{self.name}(tau={self.tau!r})"

    def read(self, text: str) -> Grouping | None:
        """That of a name, or of a name with tau in brackets."""
        if text == self.name:
            return self
        match = re.fullmatch(rf"{self.name}\(tau=([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?)\)", text)
        return None if match is None else Interpolated(float(match[1]))

    def thresholds(
        self, scores: Pairs, labels: Ints, group_of_class: Ints, alphas: Sequence[Alpha], score: Score
    ) -> Pairs:
        """Mixtures of the threshold of each class and that of all rows."""
        n_classes = len(group_of_class)
        own = group_thresholds(scores, labels, n_classes, alphas)
        whole = group_thresholds(scores, np.zeros(len(labels), dtype=np.int64), 1, alphas)
        return mix_thresholds(own, whole, self.tau, score, n_classes)


GROUPINGS: Mapping[str, Grouping] = MappingProxyType(
    {member.name: member for member in (ByClass(), ByCluster(), ByGroup(), RC3P(), Interpolated())}
)
"""Every grouping by the name that `grouping=` takes."""

GroupingLike = str | Grouping
"""What `grouping=` takes besides None: a name of `GROUPINGS`, or an object such as `Interpolated(tau=0.25)`."""


def text_of(grouping: object) -> str | None:
    """A grouping as text, or None as it is."""
    kind = resolve_grouping(grouping)
    return None if kind is None else kind.text


def title_of(grouping: str) -> str:
    """The name of sets with a grouping, in tables and charts."""
    kind = resolve_grouping(grouping)
    return "" if kind is None else kind.title


def resolve_grouping(grouping: object) -> Grouping | None:
    """Turn a name into the grouping; None is one threshold for all classes."""
    if grouping is None or isinstance(grouping, Grouping):
        return grouping
    if isinstance(grouping, str):
        for member in GROUPINGS.values():
            if (kind := member.read(grouping)) is not None:
                return kind
    *names, last = (repr(name) for name in GROUPINGS)
    raise InputError(
        f"grouping must be None, {', '.join(names)} or {last}; got {quoted(grouping)}. None means one threshold for "
        "all rows and classes."
    )
