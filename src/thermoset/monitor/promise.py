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

- With an answer rule: the law of one threshold, from the unanswered conformal rows, for unanswered rows. The test that
  ended the walk failed, so that wrong rows are if anything too many among those, and coverage is at least that.

Tests of coverage are one-sided: too few hits. Where scores tie (deterministic ones, and top labels with
`allow_empty=False`) sets only get larger, and the law is a lower bound: p-values are too large rather than too small,
and an alarm means what it says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import convolve
from scipy.stats import betabinom

from thermoset.arrays import Bools, Floats, Ints
from thermoset.conformal.groupings import NULL_GROUP, Grouping, resolve_grouping
from thermoset.errors import InputError
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.metrics import Interval, coverage_law
from thermoset.monitor.report import MarginalCoverage
from thermoset.predictor.sets import Inference

_TAIL = 0.025  # of each side of the 95% interval
_CONVOLVED = 1e-12  # a p-value of a convolution is rounded up to this, which is above the error of the transforms


@dataclass(frozen=True, eq=False)
class Parts:
    """Classes, clusters or groups, and what their laws need.

    `pools` has the conformal rows behind the threshold of each part, `promised` whether its rows follow its law,
    `index` its number, and `of_class` (C,) the place of each class, where parts are made of classes.
    """

    pools: Ints
    promised: Bools
    index: Ints
    of_class: Ints

    def total(self, counts: Ints) -> Ints:
        """Counts by part from counts by class."""
        sums = np.zeros(len(self.index), dtype=np.int64)
        np.add.at(sums, self.of_class, counts)
        return sums

    def pad(self, n_parts: int) -> "Parts":
        """The same with further parts, for which nothing was promised: groups that are new."""
        more = (0, max(n_parts - len(self.pools), 0))
        return replace(self, pools=np.pad(self.pools, more), promised=np.pad(self.promised, more))

    def ranks(self, alpha: Alpha) -> Ints:
        """The rank of the score that is the threshold of each."""
        return np.array([conformal_rank(int(pool), alpha) for pool in self.pools], dtype=np.int64)


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

    @classmethod
    def of(cls, inference: Inference) -> "Promise":
        """What a document promises.

        Weighted rows have no exact law. Coverage then scatters about as much as with so many rows of equal weight as
        say the same, and these are given.
        """
        document, effective = inference.document, None
        if document.is_weighted:
            effective = inference.calibration_scores.scatter_rows(document.alpha)
        elif document.shift is not None:
            effective = document.shift.effective_rows
        like_fresh = not document.is_weighted and document.shift is None and not document.provenance.top_rows
        like_fresh = like_fresh and document.answers is None
        return cls(
            alpha=document.alpha,
            pool_sizes=document.pool_sizes,
            grouping=document.recipe.grouping,
            exact=inference.recipe.exact and document.is_plain and like_fresh,
            group_of_class=document.by_class,
            group_names=document.group_names,
            effective_rows=effective,
        )

    @property
    def promised(self) -> float:
        """Coverage 1 - alpha, for every group with its own promise."""
        return float(1 - exact_level(self.alpha))

    @property
    def kind(self) -> Grouping | None:
        """The grouping itself."""
        return resolve_grouping(self.grouping)

    def class_parts(self, n_classes: int) -> Parts:
        """Which classes share a threshold, and the rows behind it."""
        kind, group = self.kind, self.group_of_class
        if kind is None or kind.each_class:
            group = np.zeros(n_classes, dtype=np.int64) if kind is None else np.arange(n_classes)
        of_class = _whole_numbers(group, "group_of_class", n_classes, NULL_GROUP)
        pools = _whole_numbers(self.pool_sizes, "pool_sizes", 1 if kind is None else n_classes, 0)
        index, first, place = np.unique(of_class, return_index=True, return_inverse=True)
        if np.any(pools[first][place] != pools):
            raise InputError("pool_sizes must be equal for classes of the same group, because they share a threshold.")
        return Parts(pools[first], (index != NULL_GROUP) | (len(index) == 1), index, place)

    def group_parts(self, names: tuple[str, ...] = ()) -> Parts:
        """Groups of rows that have a threshold, and the rows behind it, and groups that have none."""
        known = len(self.group_names or ())
        pools = _whole_numbers(self.pool_sizes, "pool_sizes", known, 0)
        nothing = np.zeros(0, dtype=np.int64)
        n_parts = max(len(names), known)
        return Parts(pools, np.ones(known, dtype=np.bool_), np.arange(n_parts), nothing).pad(n_parts)

    def group_names_with(self, fresh: Sequence[str]) -> tuple[str, ...]:
        """The groups with a threshold first, and then fresh ones without."""
        known = self.group_names or ()
        return known + tuple(name for name in fresh if name not in set(known))


def _whole_numbers(values: ArrayLike | None, name: str, length: int, minimum: int) -> Ints:
    array = np.asarray(values)
    whole = array.shape == (length,) and array.dtype.kind in "iu"
    if not whole or array.min() < minimum:
        got = f"smallest {array.min()}" if whole else f"shape {array.shape} of {array.dtype}"
        raise InputError(
            f"{name} must be {length} whole numbers of at least {minimum}; got {got}. Pass the predictor's own values."
        )
    return array.astype(np.int64, copy=False)


def part_laws(parts: Parts, rows: Ints, promise: Promise) -> list[Floats | None]:
    """Mass function of the hits of each part on 0 .. rows; None where there is no row or nothing is promised."""
    if promise.effective_rows is not None:
        return [weighted_law(promise.effective_rows, int(rows.sum()), promise.alpha)]
    known: dict[tuple[int, int], Floats] = {}  # many classes have the same numbers of rows
    for n, m in set(zip(parts.pools[parts.promised].tolist(), rows[parts.promised].tolist(), strict=True)):
        known[n, m] = coverage_law(n, m, promise.alpha).pmf(np.arange(m + 1)) if m else np.ones(1)
    each = zip(parts.pools.tolist(), rows.tolist(), parts.promised.tolist(), strict=True)
    return [known[n, m] if promised and m else None for n, m, promised in each]


def weighted_law(effective_rows: float, rows: int, alpha: Alpha) -> Floats:
    """Mass function of the hits on 0 .. rows that stands for the law where conformal rows have weights.

    >>> weighted_law(9.0, 1, 0.1).round(12).tolist()
    [0.1, 0.9]
    """
    level, behind = float(exact_level(alpha)), effective_rows + 1
    mass: Floats = betabinom(rows, behind * (1 - level), behind * level).pmf(np.arange(rows + 1))
    return mass


def lower_tails(laws: Sequence[Floats | None], hits: Ints) -> Floats:
    """Probability of so few hits or fewer by each law, NaN where there is none."""
    # min: the whole sum may exceed one in the last bits.
    return np.array(
        [np.nan if mass is None else min(mass[: h + 1].sum(), 1.0) for mass, h in zip(laws, hits, strict=True)]
    )


def marginal_coverage(laws: Sequence[Floats | None], rows: Ints, hits: Ints, promise: Promise) -> MarginalCoverage:
    """Hits of all parts with a law against the convolution of the laws.

    >>> laws = [np.array([0.5, 0.5])] * 2
    >>> marginal_coverage(laws, np.array([1, 1]), np.array([0, 0]), Promise(0.5, [1, 1], "class")).p_value
    0.25
    """
    tested = [i for i, mass in enumerate(laws) if mass is not None]
    m, h = int(rows[tested].sum()), int(hits[tested].sum())
    mass = _convolution([mass for mass in laws if mass is not None])
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


def union_coverage(laws: Sequence[Floats | None], rows: Ints, hits: Ints, promise: Promise) -> MarginalCoverage:
    """Hits of all rows against the union bound, for thresholds between that of all rows and those of classes.

    `laws` are those of the classes. With M <= A + B, M >= t needs A >= a or B >= t + 1 - a, for every a.

    >>> one = Promise(0.5, [1, 1], "interpolated", group_of_class=[0, 1])  # 2 rows in all: k = 2 of n + 1 = 3
    >>> laws = [np.array([0.0, 1.0])] * 2  # of classes with too few rows: no miss
    >>> union_coverage(laws, np.array([1, 1]), np.array([0, 0]), one).p_value.__round__(12)  # P(A >= 2) = 1/6
    0.166666666667
    """
    m, h = int(rows.sum()), int(hits.sum())
    pooled = int(promise.class_parts(len(rows)).pools.sum())
    whole = coverage_law(pooled, m, promise.alpha).pmf(np.arange(m + 1)) if m else np.ones(1)
    both = whole, _convolution([mass for mass in laws if mass is not None])
    tails = [np.append(np.clip(np.cumsum(mass)[::-1], 0.0, 1.0), 0.0) for mass in both]  # P(misses >= t), t = 0 .. m+1

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


def _convolution(masses: Sequence[Floats]) -> Floats:
    """Mass function of a sum of independent counts: short ones are convolved in pairs until one is left.

    Long ones are multiplied as Fourier transforms. Their absolute error is below 1e-13 for ten million rows.
    """
    left = list(masses) or [np.ones(1)]
    while len(left) > 1:
        left.sort(key=len)
        odd = left[len(left) - len(left) % 2 :]
        left = [convolve(a, b) for a, b in zip(left[::2], left[1::2], strict=False)] + odd
    return left[0]
