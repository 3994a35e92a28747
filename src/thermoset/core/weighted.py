"""Weighted thresholds: order statistics of scores that do not count alike (Tibshirani et al. 2019).

With weights w_i of conformal scores s_i, and w of the point to be predicted, the threshold is the smallest q with
sum_{s_i <= q} w_i >= (1 - alpha)(sum w_i + w), and +inf where there is none.

Weights are rounded once, to whole numbers of 2**-40 of the largest; above 8,000 scores to fewer bits, so that sums stay
below 2**53. From then on everything is exact: sums do not depend on the order of rows, and both sides are compared as
whole numbers with alpha as it was typed. So equal weights give the order statistic k = ceil((n + 1)(1 - alpha)) to the
last bit, where sums of floats would miss it by one now and then.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from thermoset.core.exponentials import Floats, Ints
from thermoset.core.levels import Alpha, exact_level
from thermoset.core.thresholds import ScorePairs

__all__ = ["WeightGrid", "WeightedScores"]

_FINEST = 40
_SUM_BITS = 53  # sums are whole numbers that float64 holds too, as p-values need them
_MOST = 2**62  # larger weights of a point to be predicted count as this


@dataclass(frozen=True)
class WeightGrid:
    """How weights become whole numbers: `largest`, that of the conformal rows, is 2**bits.

    >>> grid = WeightGrid(largest=4.0, n_rows=3)
    >>> (grid.rounded(np.array([4.0, 1.0, 1e-13])) / 2**40).tolist()
    [1.0, 0.25, 0.0]
    """

    largest: float
    n_rows: int

    @property
    def bits(self) -> int:
        """Bits of the largest weight: as many as leave room for the sum of all rows."""
        return min(_FINEST, _SUM_BITS - self.n_rows.bit_length())

    def rounded(self, weights: Floats) -> Ints:
        """Weights, of conformal rows or of points to be predicted, as whole numbers of the grid."""
        with np.errstate(over="ignore", under="ignore"):
            steps = np.rint(np.ldexp(weights / self.largest, self.bits))
        return np.minimum(steps, float(_MOST)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class WeightedScores:
    """Scores of conformal rows in rising order, with their weights as whole numbers of a grid.

    >>> scores = ScorePairs(np.array([0.3, 0.1, 0.2]), np.zeros(3))
    >>> found = WeightedScores.of(scores, np.array([2.0, 1.0, 1.0]))
    >>> found.thresholds(np.array([0.0, 2.0, 3.0]), alpha=0.4).value.tolist()  # 60% of 4, 6, 7 from sums 1, 2, 4
    [0.3, 0.3, inf]
    >>> round(found.effective_rows, 6)  # (1 + 1 + 2)**2 / (1 + 1 + 4)
    2.666667
    """

    scores: ScorePairs
    weights: Ints
    grid: WeightGrid

    @classmethod
    def of(cls, scores: ScorePairs, weights: Floats) -> "WeightedScores":
        """Scores in any order, with weights that are finite, not negative and not all zero."""
        order = np.lexsort((scores.refine, scores.value))
        grid = WeightGrid(float(weights.max()), len(weights))
        return cls(scores[order], grid.rounded(weights)[order], grid)

    @cached_property
    def sums(self) -> Ints:
        """Weights of the scores up to each, (n,)."""
        return np.cumsum(self.weights)

    @property
    def effective_rows(self) -> float:
        """How many rows of equal weight say as much: (sum w)**2 / sum w**2."""
        exact = self.weights.astype(object)
        return float(exact.sum() ** 2 / (exact**2).sum())

    @property
    def table(self) -> ScorePairs:
        """Every threshold there can be, (n + 1,): the scores, and +inf at the end."""
        return ScorePairs(np.append(self.scores.value, np.inf), np.append(self.scores.refine, np.inf))

    @property
    def total(self) -> int:
        """The weight of all scores."""
        return int(self.sums[-1])

    def places(self, own: Floats, alpha: Alpha) -> Ints:
        """Where in `table` the threshold of a point with each of these weights is."""
        return self._places(self.grid.rounded(own), alpha)

    def thresholds(self, own: Floats, alpha: Alpha) -> ScorePairs:
        """The threshold of a point with each of these weights, as pairs of the same shape."""
        return self.table[self.places(own, alpha)]

    def average(self, alpha: Alpha) -> ScorePairs:
        """The threshold, (1,), of a point that weighs as much as a conformal row does on average."""
        mean = (2 * self.total + len(self.weights)) // (2 * len(self.weights))
        return self.table[self._places(np.array([mean]), alpha)]

    def heaviest(self, alpha: Alpha) -> float:
        """The largest weight of a point that has a finite threshold: alpha / (1 - alpha) of the sum of all."""
        level = exact_level(alpha)
        return float(self.total * level / (1 - level) / 2**self.grid.bits) * self.grid.largest

    def scatter_rows(self, alpha: Alpha) -> float:
        """How many rows of equal weight have coverage scatter as these do, from one set of rows to another.

        The weighted share of scores up to q has variance sum w**2 (hit - (1 - alpha))**2 / (sum w)**2, about; with n
        equal weights that is alpha (1 - alpha) / n. Where misses weigh more than hits, it is more than
        `effective_rows` tells; where they weigh less, these are taken, to be on the safe side.
        """
        level, q = float(exact_level(alpha)), self.average(alpha)
        hit = (self.scores.value < q.value) | ((self.scores.value == q.value) & (self.scores.refine <= q.refine))
        share = self.weights / self.total
        variance = float(np.sum((share * (hit - (1 - level))) ** 2))
        return min(level * (1 - level) / variance, self.effective_rows)

    def _places(self, steps: Ints, alpha: Alpha) -> Ints:
        return np.searchsorted(self._reaches(alpha), steps, side="left")

    def _reaches(self, alpha: Alpha) -> Ints:
        """The largest weight of a point for which each score is high enough, (n,); it may be negative.

        sum_{s_i <= q} w_i >= (1 - alpha)(total + w) where w <= sum_{s_i <= q} w_i / (1 - alpha) - total. Scores that
        are equal need not share their sum: whichever of them comes first with sum enough is the same threshold.
        """
        kept = 1 - exact_level(alpha)
        reaches = self.sums.astype(object) * kept.denominator // kept.numerator - self.total
        return np.asarray(np.minimum(reaches, _MOST - 1), dtype=np.int64)
