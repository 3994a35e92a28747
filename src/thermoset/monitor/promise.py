"""The promise of a predictor, and the law that hits on fresh rows then follow; docs/definitions.md has the law itself.

Given their labels, classes, clusters and groups with thresholds of their own are independent: all hits follow the
convolution of their laws. Nothing is promised for the null cluster, or for a group without conformal rows. Tests are
one-sided, for too few hits: where scores tie, sets only get larger, and the law is a lower bound.
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
    """Classes, clusters or groups: conformal rows behind their thresholds, whether their rows follow that law, numbers.

    `of_class` (C,) is the place of each class, where parts are made of classes.
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
    """The promise of a fitted predictor, with the numbers that its law needs.

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
        """The promise of a document."""
        document, effective = inference.document, None
        if document.is_weighted:
            effective = inference.calibration_scores.scatter_rows(document.alpha)
        elif document.shift is not None:
            effective = document.shift.effective_rows
        like_fresh = not document.is_weighted and document.shift is None and not document.provenance.top_rows
        # Unanswered rows: the test that ended the walk failed, so wrong ones are if anything too many among them.
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

    Coverage then scatters about as with so many rows of equal weight, a number that need not be whole.
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
    """Hits of all parts with a law against the convolution of the laws: given the labels, parts are independent."""
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

    A set misses only if one under either of these does, so misses M are at most A + B, whose laws are known: M >= t
    needs A >= a or B >= t + 1 - a, for every a.
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
    """Mass function of a sum of independent counts; long ones by Fourier transforms, with an error below 1e-13."""
    left = list(masses) or [np.ones(1)]
    while len(left) > 1:
        left.sort(key=len)
        odd = left[len(left) - len(left) % 2 :]
        left = [convolve(a, b) for a, b in zip(left[::2], left[1::2], strict=False)] + odd
    return left[0]
