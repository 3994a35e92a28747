"""Coverage of each class as T changes and the marginal coverage stays, which the paper leaves open.

With u integrated out, the coverage of a class is the mean of f, the probability of its rows' labels to be inside. Every
f changes at the rate density (v - mean v) of `slopes`: a class gains coverage where its labels at the threshold have
scores that fall faster than those of all labels there. As T grows without bound only the rank L of a label and u count,
(L - 1 + u) / C, and a class is covered as far as its own distribution of ranks reaches the common threshold.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from thermoset.bounds import checked_temperature
from thermoset.conformal.scoring import label_ranks
from thermoset.levels import Alpha, exact_level
from thermoset.paper.theory.slopes import label_moves, population
from thermoset.paper.theory.sorted_rows import Floats, Ints, finite_logits
from thermoset.quoting import Brief
from thermoset.scores import Score

__all__ = ["ClassCoverage", "RankLimit", "class_coverage", "rank_limit"]


@dataclass(frozen=True, eq=False, repr=False)
class ClassCoverage(Brief):
    """Coverage of each class and its derivative in T, at a threshold that covers 1 - alpha of all rows.

    Attributes
    ----------
    temperature : (n_temperatures,)
    coverage, slope : (n_temperatures, C)
        Share of the class's labels inside, and its derivative in T; NaN for classes without rows.
    counts : (C,)
        Rows of each class.
    alpha : float
    """

    temperature: Floats
    coverage: Floats
    slope: Floats
    counts: Ints
    alpha: float

    @property
    def gap(self) -> Floats:
        """Root mean square over classes of coverage - (1 - alpha), at each temperature."""
        return root_mean_square(self.coverage, self.alpha)

    @property
    def gap_slope(self) -> Floats:
        """Derivative of the gap in T: the mean over classes of (coverage - (1 - alpha)) slope, over the gap.

        Zero where the gap is least: classes that are covered too little gain as much as those covered too much.
        """
        above = self.coverage - (1 - self.alpha)
        with np.errstate(invalid="ignore"):  # a gap of 0 has no derivative: NaN
            return np.asarray(np.nanmean(above * self.slope, axis=1) / self.gap)


def class_coverage(
    logits: Any,
    labels: Any = None,
    temperatures: Iterable[float] = (1.0,),
    *,
    method: str | Score = "aps",
    alpha: Alpha = 0.1,
) -> ClassCoverage:
    """Coverage of each class under APS or RAPS, and its derivative in T at fixed marginal coverage, in closed form.

    The rows are the population: their threshold covers 1 - alpha of them, on average over u.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, size=3000)
    >>> z = 2 * (rng.normal(size=(3000, 3)) + np.array([1, 2, 3])[y, None] * np.eye(3)[y])  # class 0 is hard
    >>> found = class_coverage(z, y, [0.5, 1, 2])
    >>> found.coverage.round(2)
    array([[0.79, 0.94, 0.97],
           [0.82, 0.93, 0.94],
           [0.84, 0.93, 0.93]])
    >>> found.slope[1].round(2)  # at T = 1 it gains, and the others lose
    array([ 0.05, -0.01, -0.04])
    """
    rows = population(logits, labels, method, alpha)
    counts = np.bincount(rows.labels, minlength=rows.ranked.source.n_classes)
    grid = [checked_temperature(t) for t in temperatures]
    found = np.empty((2, len(grid), len(counts)))
    for j, t in enumerate(grid):
        moves = label_moves(rows, t)
        found[:, j] = [_class_means(one, rows.labels, counts) for one in (moves.inside, moves.slopes)]
    return ClassCoverage(np.array(grid, dtype=np.float64), found[0], found[1], counts, rows.alpha)


@dataclass(frozen=True, eq=False, repr=False)
class RankLimit(Brief):
    """Sets of APS and RAPS as T grows without bound: the first `size` ranks, of a part of a rank the share of u.

    size : float
        Mean size v of the sets: floor(v) or one more.
    coverage : (C,)
        Coverage of each class; NaN for classes without rows.
    alpha : float
    """

    size: float
    coverage: Floats
    alpha: float

    @property
    def gap(self) -> float:
        """Root mean square over classes of coverage - (1 - alpha)."""
        return float(root_mean_square(self.coverage[None], self.alpha)[0])


def rank_limit(logits: Any, labels: Any = None, *, alpha: Alpha = 0.1) -> RankLimit:
    """Limits of size and class coverage for T -> infinity, from the ranks of the labels alone.

    With F the share of labels of rank at most k, a line between whole k, the size v solves F(v) = 1 - alpha; the
    coverage of a class is its own F at v. RAPS has the same limits as APS.

    >>> z, y = np.tile([3.0, 2.0, 1.0], (20, 1)), [0] * 12 + [1] * 8  # 12 labels of rank 1, 8 of rank 2
    >>> found = rank_limit(z, y)  # 18 of 20: all of rank 1, and three quarters of rank 2
    >>> found.size, found.coverage
    (1.75, array([1.  , 0.75,  nan]))
    """
    data, level = finite_logits(logits, labels), float(exact_level(alpha))
    own = data.require_labels("rank_limit")
    ranks = label_ranks(data, own)
    reached = np.concatenate([[0], np.cumsum(np.bincount(ranks, minlength=data.n_classes + 1)[1:])])
    target = (1 - level) * len(ranks)
    whole = int(np.searchsorted(reached, target, side="right")) - 1  # the last k with F(k) <= 1 - alpha
    size = whole + (target - reached[whole]) / (reached[whole + 1] - reached[whole])
    counts = np.bincount(own, minlength=data.n_classes)
    return RankLimit(float(size), _class_means(np.clip(size - (ranks - 1), 0.0, 1.0), own, counts), level)


def root_mean_square(coverage: Floats, alpha: float) -> Floats:
    """Over classes that have rows, of coverage - (1 - alpha)."""
    return np.asarray(np.sqrt(np.nanmean((coverage - (1 - alpha)) ** 2, axis=1)))


def _class_means(values: Floats, labels: Ints, counts: Ints) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(labels, values, minlength=len(counts)) / counts)
