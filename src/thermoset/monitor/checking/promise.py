"""What a predictor promised, and the law that the hits on fresh rows then follow.

With n conformal rows behind a threshold and k = ceil((n + 1)(1 - alpha)):

- One threshold: hits on m fresh rows are Beta-Binomial(m; k, n + 1 - k). Nothing is promised for a class.
- Mondrian: this law in every class, with the class's own n and m. Classes are independent given the labels, so all
  hits together follow the convolution of the laws. The shares of the classes may change.
- Clustered: this law in every cluster, its classes taken together, as long as they keep their shares inside the
  cluster. Nothing is promised for a class, nor for the null cluster of rare classes, whose threshold comes from rows
  of all classes: its rows are measured and not tested. When all classes are in it, there is one threshold.
- By group of rows: this law in every group, with the group's own n and m, and all hits together as for Mondrian. The
  shares of the groups may change. Nothing is promised for a group that had no conformal row and got a fallback.
- Interpolated: a set misses its label only if the set under the threshold of all rows does, or that under the
  threshold of the class. Misses are at most the sum of two counts whose laws are those of the first two lines, and the
  union bound needs nothing of how they depend on each other. So the coverage of all rows together is at least
  1 - 2 alpha on average.

- Weighted conformal rows, for other class shares or a known shift of rows: coverage of target rows is at least
  1 - alpha on average, and no exact law is known. It scatters about as with n' rows of equal weight, n' the effective
  sample size, which may be any number: Beta-Binomial(m; (n' + 1)(1 - alpha), (n' + 1) alpha) has mean 1 - alpha and
  stands for the law. It is an approximation, and reports say so.

Tests of coverage are one-sided: too few hits. Where scores tie (deterministic ones, and top labels with
`allow_empty=False`) sets only get larger, and the law is a lower bound: p-values are too large rather than too small,
and an alarm means what it says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.signal import convolve
from scipy.stats import betabinom

from thermoset.conformal.groupings import NULL_GROUP, Grouping, resolve_grouping
from thermoset.data.groups import Groups as RowGroups
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.metrics import Interval, coverage_law

__all__ = [
    "NULL_GROUP",
    "SIGNIFICANCE",
    "Groups",
    "MarginalCoverage",
    "Pools",
    "Promise",
    "group_laws",
    "lower_tails",
    "marginal_coverage",
    "union_coverage",
    "weighted_law",
]

SIGNIFICANCE = 0.001
"""A promise is called broken when such data would have a probability below this if it were kept."""

_TAIL = 0.025  # of each side of the 95% interval
_CONVOLVED = 1e-12  # a p-value of a convolution is rounded up to this, which is above the error of the transforms

_Mass = NDArray[np.float64]
_Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pools:
    """What laws need of each group: `pools`, its conformal rows, and `promised`, whether its rows follow its law."""

    pools: _Counts
    promised: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Groups(Pools):
    """Classes that share a threshold.

    `of_class` (C,) is the place of a class's group in `index` (name of the group), `pools` and `promised`.
    """

    of_class: _Counts
    index: _Counts

    def total(self, counts: _Counts) -> _Counts:
        """Counts by group from counts by class."""
        sums = np.zeros(len(self.index), dtype=np.int64)
        np.add.at(sums, self.of_class, counts)
        return sums


@dataclass(frozen=True, eq=False)
class Promise:
    """What a fitted predictor promised, and what its law needs.

    Attributes
    ----------
    alpha : Alpha
        Miscoverage level, as the user wrote it.
    pool_sizes : int array
        Number of conformal rows behind each threshold: shape (1,), (C,) by class, or (G,) by group of rows.
    grouping : None, or a name in `GROUPINGS`
        Whether there is one threshold for all classes, one per class, or one per group.
    exact : bool
        Whether coverage follows the law exactly (randomised scores or LAC, empty sets allowed) or is at least as high.
    group_of_class : int array (C,)
        Group of each class, where that is not the class itself; `NULL_GROUP` for classes that have none.
    group_names : tuple of str (G,)
        The groups of rows that have a threshold each, where rows are grouped.
    effective_rows : float
        The number of equally weighted rows that the conformal rows are worth, where they have weights and one threshold
        for all classes or one weight for each; the law is then an approximation.

    >>> Promise("0.1", [1000]).promised
    0.9
    """

    alpha: Alpha
    pool_sizes: ArrayLike
    grouping: str | None = None
    exact: bool = True
    group_of_class: ArrayLike | None = None
    group_names: tuple[str, ...] | None = None
    effective_rows: float | None = None

    @property
    def promised(self) -> float:
        """Coverage 1 - alpha, for every group with its own promise.

        >>> Promise(0.05, [1000]).promised
        0.95
        """
        return float(1 - exact_level(self.alpha))

    def groups(self, n_classes: int) -> Groups:
        """Which classes share a threshold, and the rows behind it.

        >>> Promise(0.1, [40, 60, 40], "cluster", group_of_class=[3, 5, 3]).groups(3).pools.tolist()
        [40, 60]
        """
        kind = self.kind
        of_class = _whole(self._group_of_class(kind, n_classes), "group_of_class", n_classes, NULL_GROUP)
        pools = _whole(self.pool_sizes, "pool_sizes", 1 if kind is None else n_classes, 0)
        index, first, place = np.unique(of_class, return_index=True, return_inverse=True)
        if np.any(pools[first][place] != pools):
            raise InputError("pool_sizes must be equal for classes of the same group, because they share a threshold.")
        return Groups(pools[first], (index != NULL_GROUP) | (len(index) == 1), place, index)

    def row_groups(self, fresh: RowGroups) -> tuple[RowGroups, Pools]:
        """The groups of fresh rows, those with a threshold first, and the rows behind it; others were promised nothing.

        >>> sites = RowGroups(("east", "mars"), np.array([0, 1]))
        >>> groups, pools = Promise(0.1, [40, 60], "group", group_names=("west", "east")).row_groups(sites)
        >>> groups.names, groups.codes.tolist(), pools.pools.tolist(), pools.promised.tolist()
        (('west', 'east', 'mars'), [1, 2], [40, 60, 0], [True, True, False])
        """
        known = self.group_names or ()
        pools = _whole(self.pool_sizes, "pool_sizes", len(known), 0)
        names = known + tuple(name for name in fresh.names if name not in set(known))
        promised = np.arange(len(names)) < len(known)
        return RowGroups(names, fresh.codes_among(names)), Pools(
            np.where(promised, np.resize(pools, len(names)), 0), promised
        )

    @property
    def kind(self) -> Grouping | None:
        """The grouping itself."""
        return resolve_grouping(self.grouping)

    def _group_of_class(self, kind: Grouping | None, n_classes: int) -> ArrayLike | None:
        if kind is None:
            return np.zeros(n_classes, dtype=np.int64)
        return np.arange(n_classes) if kind.each_class else self.group_of_class


@dataclass(frozen=True)
class MarginalCoverage:
    """Coverage of all rows covered by a promise, taken together.

    Attributes
    ----------
    rows, hits : int
        Rows, without those of a null cluster, and how many of their sets contain the label.
    coverage, promised : float
        hits / rows (NaN without rows), and 1 - alpha.
    allowed : Interval
        The 95% range of the coverage under the law; up to 1 where the law is a lower bound.
    p_value : float
        Probability of that many hits or fewer under the promise; never below 1e-12 where laws were convolved.
    """

    rows: int
    hits: int
    coverage: float
    promised: float
    allowed: Interval
    p_value: float

    @property
    def broken(self) -> bool:
        """Whether coverage is below 1 - alpha, with a p-value below `SIGNIFICANCE`.

        With few conformal rows k / (n + 1) exceeds 1 - alpha, and the law demands more than was promised.
        """
        return self.p_value < SIGNIFICANCE and self.coverage < self.promised


def weighted_law(effective_rows: float, rows: int, alpha: Alpha) -> _Mass:
    """Mass function of the hits on 0 .. rows that stands for the law where conformal rows have weights.

    >>> weighted_law(9.0, 1, 0.1).round(12).tolist()
    [0.1, 0.9]
    """
    level, behind = float(exact_level(alpha)), effective_rows + 1
    mass: _Mass = betabinom(rows, behind * (1 - level), behind * level).pmf(np.arange(rows + 1))
    return mass


def group_laws(groups: Pools, rows: _Counts, alpha: Alpha) -> list[_Mass | None]:
    """Mass function of the hits of each group on 0 .. rows; None where there is no row or nothing is promised.

    >>> mass = group_laws(Promise(0.1, [9]).groups(2), np.array([1]), 0.1)[0]  # one row: a miss has probability 1/10
    >>> mass.round(12).tolist()
    [0.1, 0.9]
    """
    known: dict[tuple[int, int], _Mass] = {}
    laws: list[_Mass | None] = []
    for n, m, promised in zip(groups.pools.tolist(), rows.tolist(), groups.promised, strict=True):
        if not (promised and m):
            laws.append(None)
            continue
        if (n, m) not in known:  # many classes have the same numbers of rows
            known[n, m] = coverage_law(n, m, alpha).pmf(np.arange(m + 1))
        laws.append(known[n, m])
    return laws


def lower_tails(laws: Sequence[_Mass | None], hits: _Counts) -> NDArray[np.float64]:
    """Probability of so few hits or fewer by each law, NaN where there is none.

    >>> lower_tails([np.array([0.25, 0.25, 0.5]), None], np.array([1, 0])).tolist()
    [0.5, nan]
    """
    # min: the whole sum may exceed one in the last bits.
    return np.array(
        [np.nan if mass is None else min(mass[: h + 1].sum(), 1.0) for mass, h in zip(laws, hits, strict=True)]
    )


def marginal_coverage(laws: Sequence[_Mass | None], rows: _Counts, hits: _Counts, promise: Promise) -> MarginalCoverage:
    """Hits of all groups with a law against the convolution of the laws.

    >>> laws = [np.array([0.5, 0.5])] * 2
    >>> marginal_coverage(laws, np.array([1, 1]), np.array([0, 0]), Promise(0.5, [1, 1], "class")).p_value
    0.25
    """
    tested = [i for i, mass in enumerate(laws) if mass is not None]
    m, h = int(rows[tested].sum()), int(hits[tested].sum())
    mass = _sum_law([mass for mass in laws if mass is not None])
    p_value = float(lower_tails([mass], np.array([h]))[0])
    low = int(np.searchsorted(np.cumsum(mass), _TAIL))
    high = m - int(np.searchsorted(np.cumsum(mass[::-1]), _TAIL)) if promise.exact else m
    return MarginalCoverage(
        rows=m,
        hits=h,
        coverage=h / m if m else np.nan,
        promised=promise.promised,
        allowed=Interval(low / m, high / m) if m else Interval(0.0, 1.0),
        p_value=p_value if len(tested) < 2 else max(p_value, _CONVOLVED),
    )


def union_coverage(laws: Sequence[_Mass | None], rows: _Counts, hits: _Counts, promise: Promise) -> MarginalCoverage:
    """Hits of all rows against the union bound, for thresholds between that of all rows and those of classes.

    `laws` are those of the classes. With M <= A + B, M >= t needs A >= a or B >= t + 1 - a, for every a.

    >>> one = Promise(0.5, [1, 1], "interpolated", group_of_class=[0, 1])  # 2 rows in all: k = 2 of n + 1 = 3
    >>> laws = [np.array([0.0, 1.0])] * 2  # of classes with too few rows: no miss
    >>> union_coverage(laws, np.array([1, 1]), np.array([0, 0]), one).p_value.__round__(12)  # P(A >= 2) = 1/6
    0.166666666667
    """
    m, h = int(rows.sum()), int(hits.sum())
    pooled = int(promise.groups(len(rows)).pools.sum())
    whole = coverage_law(pooled, m, promise.alpha).pmf(np.arange(m + 1)) if m else np.ones(1)
    tails = _at_least(whole), _at_least(_sum_law([mass for mass in laws if mass is not None]))

    def bound(misses: int) -> float:
        """Of the probability of so many misses or more."""
        a, b = (tail[: misses + 2] for tail in tails)
        return min(float((a + b[::-1]).min()), 1.0)

    low, high = 0, m + 1  # the fewest misses that the bound gives less than the tail
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle) < _TAIL else (middle + 1, high)
    return MarginalCoverage(
        rows=m,
        hits=h,
        coverage=h / m if m else np.nan,
        promised=max(float(1 - 2 * exact_level(promise.alpha)), 0.0),
        allowed=Interval((m - low + 1) / m, 1.0) if m else Interval(0.0, 1.0),
        p_value=max(bound(m - h), _CONVOLVED),
    )


def _at_least(mass: _Mass) -> _Mass:
    """P(misses >= t) for t = 0 .. rows + 1, from the mass function of hits."""
    return np.append(np.clip(np.cumsum(mass)[::-1], 0.0, 1.0), 0.0)


def _sum_law(masses: Sequence[_Mass]) -> _Mass:
    """Mass function of a sum of independent counts: short ones are convolved in pairs until one is left.

    Long ones are multiplied as Fourier transforms. Their absolute error is below 1e-13 for ten million rows.
    """
    left = list(masses) or [np.ones(1)]
    while len(left) > 1:
        left.sort(key=len)
        odd = left[len(left) - len(left) % 2 :]
        left = [convolve(a, b) for a, b in zip(left[::2], left[1::2], strict=False)] + odd
    return left[0]


def _whole(values: ArrayLike | None, name: str, length: int, minimum: int) -> _Counts:
    array = np.asarray(values)
    whole = array.shape == (length,) and array.dtype.kind in "iu"
    if not whole or array.min() < minimum:
        got = f"smallest {array.min()}" if whole else f"shape {array.shape} of {array.dtype}"
        raise InputError(
            f"{name} must be {length} whole numbers of at least {minimum}; got {got}. Pass the predictor's own values."
        )
    return array.astype(np.int64, copy=False)
