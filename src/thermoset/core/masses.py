"""Masses of a ranked row at a temperature: what lies above and below a rank, exact down to the deepest tail.

Rows come *ranked*: sorted ascending by `numpy.sort`, so position p holds rank C - p and the top class is last.
Ascending order is what makes tails exact: masses below a rank add up from the smallest term. A class weighs
exp((z - max z) / T), so the top class weighs 1.
"""

import math
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import allocating_part, part
from thermoset.core.exponentials import MOST_NEGATIVE, Floats, exp

__all__ = [
    "Masses",
    "RowMasses",
    "Shares",
    "WeightedRow",
    "count_masked",
    "fill_masses",
    "log_mass_below",
    "log_weight",
    "mass_above",
    "mass_below",
    "masses_around",
    "masses_at",
    "masses_below",
    "rank_gaps",
    "row_masses",
    "shares_at",
    "weigh",
]

LINEAR_FLOOR = -600.0  # log weights above this add up in linear scale without underflow; below, in log scale


class WeightedRow(NamedTuple):
    """A ranked row at one temperature: gaps z - max z, how many classes are masked, 1/T, and the classes' weights."""

    gaps: Floats
    masked: int
    inverse: float
    weight: Floats


class Masses(NamedTuple):
    """Total weight ranked above a position and below it, and of everything but the top class."""

    above: float
    below: float
    rest: float


class RowMasses(NamedTuple):
    """Total weight above and below every position."""

    above: Floats
    below: Floats


class Shares(NamedTuple):
    """What a score needs to know of a label: shares of the row's mass, and logs of the small ones.

    low, own, tail, top: shares ranked above the label, its own, ranked below it, and of the top class; log_own,
    log_tail, log_rest: logs of own, of tail, and of everything but the top class, exact where the share underflows.
    """

    low: float
    own: float
    tail: float
    top: float
    log_own: float
    log_tail: float
    log_rest: float


@part
def count_masked(ranked: Floats) -> int:
    """How many classes of a ranked row are masked."""
    masked = 0
    while ranked[masked] == -np.inf:
        masked += 1
    return masked


@part
def rank_gaps(ranked: Floats, gaps: Floats) -> int:
    """Fill z - max z for a ranked row; return how many classes are masked."""
    top = ranked[ranked.shape[0] - 1]
    for p in range(ranked.shape[0]):
        gaps[p] = ranked[p] - top
    return count_masked(ranked)


@part
def weigh(gaps: Floats, temperature: float, weight: Floats) -> None:
    """Fill the weights of a row whose gaps are known; the two arrays must not share memory.

    LLVM vectorises the loop if what it reads is not what it writes: in place, it takes five times as long.
    """
    inverse = 1.0 / temperature
    for p in range(gaps.shape[0]):
        weight[p] = exp(max(gaps[p] * inverse, MOST_NEGATIVE))


@allocating_part
def row_masses(n_classes: int) -> RowMasses:
    """Buffers for the masses of a row."""
    return RowMasses(np.empty(n_classes), np.empty(n_classes))


@part
def log_weight(row: WeightedRow, position: int) -> float:
    """Log of a weight: (z - max z) / T, or -inf for a masked class."""
    return -np.inf if position < row.masked else max(row.gaps[position] * row.inverse, MOST_NEGATIVE)


@part
def masses_below(weight: Floats, first: int, second: int) -> tuple[float, float]:
    """Sums of the weights before `first` and before `second` >= `first`, in one walk.

    Eight interleaved lanes: a fixed order that eight adders can follow at once.
    """
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    start, sums = 0, (0.0, 0.0)
    for stop in (first, second):
        whole = stop // 8 * 8
        for p in range(start, whole, 8):
            a += weight[p]
            b += weight[p + 1]
            c += weight[p + 2]
            d += weight[p + 3]
            e += weight[p + 4]
            f += weight[p + 5]
            g += weight[p + 6]
            h += weight[p + 7]
        start = whole
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
        for p in range(whole, stop):
            total += weight[p]
        sums = (sums[1], total)
    return sums


@part
def mass_below(weight: Floats, position: int) -> float:
    """Sum of the weights before `position`, in the lanes of `masses_below`."""
    return masses_below(weight, position, position)[0]


@part
def mass_above(weight: Floats, position: int) -> float:
    """Sum of weights after `position`, from the last one down, in the lanes of `masses_below`."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    last = weight.shape[0] - 1
    whole = (last - position) // 8 * 8
    for k in range(0, whole, 8):
        a += weight[last - k]
        b += weight[last - k - 1]
        c += weight[last - k - 2]
        d += weight[last - k - 3]
        e += weight[last - k - 4]
        f += weight[last - k - 5]
        g += weight[last - k - 6]
        h += weight[last - k - 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for k in range(whole, last - position):
        total += weight[last - k]
    return total


@part
def masses_around(weight: Floats, position: int) -> Masses:
    """Masses around one position of a row."""
    below, rest = masses_below(weight, position, weight.shape[0] - 1)
    return Masses(mass_above(weight, position), below, rest)


@part
def fill_masses(row: WeightedRow, out: RowMasses) -> None:
    """`mass_above` and `mass_below` of every position, to the same bit, in one walk each way."""
    weight, above, below = row.weight, out.above, out.below
    last = weight.shape[0] - 1
    whole = (last + 1) // 8 * 8
    a, b, c, d, e, f, g, h, total = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(0, whole, 8):
        for k in range(p, p + 8):  # within eight the total runs on; the lanes then set it right
            below[k] = total
            total += weight[k]
        a, b, c, d = a + weight[p], b + weight[p + 1], c + weight[p + 2], d + weight[p + 3]
        e, f, g, h = e + weight[p + 4], f + weight[p + 5], g + weight[p + 6], h + weight[p + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for p in range(whole, last + 1):
        below[p] = total
        total += weight[p]
    a, b, c, d, e, f, g, h, total = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for p in range(0, whole, 8):
        q = last - p
        for k in range(q, q - 8, -1):
            above[k] = total
            total += weight[k]
        a, b, c, d = a + weight[q], b + weight[q - 1], c + weight[q - 2], d + weight[q - 3]
        e, f, g, h = e + weight[q - 4], f + weight[q - 5], g + weight[q - 6], h + weight[q - 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for p in range(whole, last + 1):
        above[last - p] = total
        total += weight[last - p]


@part
def masses_at(masses: RowMasses, position: int) -> Masses:
    """Masses around one position of a row whose masses are filled."""
    return Masses(masses.above[position], masses.below[position], masses.below[masses.below.shape[0] - 1])


@part
def log_mass_below(row: WeightedRow, position: int, below: float) -> float:
    """Log of the total weight ranked below `position`; `below` is the same total in linear scale.

    Linear sums lose everything under e**-708. Where the largest term is near that, the sum is taken relative
    to it, so that a tail of e**-5000 is as exact as one of 0.1.
    """
    if position <= row.masked:
        return -np.inf
    largest = log_weight(row, position - 1)
    if largest >= LINEAR_FLOOR:
        return math.log(below)
    total = 0.0
    for p in range(row.masked, position):
        total += exp(log_weight(row, p) - largest)
    return largest + math.log(total)


@part
def shares_at(row: WeightedRow, position: int, masses: Masses) -> Shares:
    """Shares of the label at `position`, with the masses around it."""
    total, log_total = 1.0 + masses.rest, math.log1p(masses.rest)  # the top class weighs 1
    return Shares(
        masses.above / total,
        row.weight[position] / total,
        masses.below / total,
        1.0 / total,
        log_weight(row, position) - log_total,
        log_mass_below(row, position, masses.below) - log_total,
        log_mass_below(row, row.weight.shape[0] - 1, masses.rest) - log_total,
    )
