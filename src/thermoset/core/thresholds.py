"""The second stage: thresholds, which are order statistics of label scores, one for each level in every trial."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.core.compiling import part
from thermoset.core.exponentials import Floats

__all__ = ["NULL_GROUP", "Cuts", "ScorePairs", "select", "select_near"]

NULL_GROUP = -1
"""The group of classes too rare for a threshold of their own: it pools the rows of all classes."""


class Cuts(NamedTuple):
    """Thresholds as pairs: two arrays of one shape."""

    value: Floats
    refine: Floats


@dataclass(frozen=True)
class ScorePairs:
    """Scores as pairs (value, refine), ordered lexicographically; arrays of one shape."""

    value: Floats
    refine: Floats

    def __getitem__(self, index: NDArray[np.int64] | NDArray[np.bool_] | slice | int | None) -> "ScorePairs":
        return ScorePairs(self.value[index], self.refine[index])

    @property
    def cuts(self) -> Cuts:
        """As the record that kernels take."""
        return Cuts(np.ascontiguousarray(self.value), np.ascontiguousarray(self.refine))

    def smallest(self, k: int) -> tuple[float, float]:
        """The k-th smallest pair, counting from 1; +inf when there are fewer than k."""
        if k > self.value.size:
            return math.inf, math.inf
        # A partial sort by value finds the candidates; only those equal in value need their refinement sorted.
        value = np.partition(self.value, k - 1)[k - 1]
        tied = np.sort(self.refine[self.value == value])
        return float(value), float(tied[k - 1 - np.count_nonzero(self.value < value)])


@part
def select(values: Floats, n: int, k: int) -> float:
    """The k-th smallest of the first n values, counting from 1; reorders them (Hoare 1961).

    numpy.partition inside a kernel takes seven seconds to compile.
    """
    low, high, place = 0, n - 1, k - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break
    return float(values[place])


@part
def select_near(values: Floats, k: int, low: float, high: float, scratch: Floats) -> float:
    """The k-th smallest value, left in place; quick when it lies in [low, high]."""
    below, within = 0, int(np.int64(0))
    for j in range(values.shape[0]):
        v = values[j]
        below += v < low
        scratch[within] = v
        within += low <= v <= high
    if below < k <= below + within:
        return select(scratch, within, k - below)
    for j in range(values.shape[0]):
        scratch[j] = values[j]
    return select(scratch, values.shape[0], k)
