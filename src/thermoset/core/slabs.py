"""Slabs {x : a <= v.x <= b}: projections of rows on directions, and the slab in which sets miss most.

Along a direction the rows of a slab are neighbours once they are sorted, so the worst slab is the window of at least so
many rows with the largest share of misses. With W rows and S misses counted up to each place, that share is a slope
between two points (W, S), and the steepest one is found by keeping the lower convex hull of possible beginnings: each
point enters and leaves it once (Chung and Lu 2005). All numbers are whole, so slopes are compared exactly.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset import kernels
from thermoset.arrays import Block, Bools, Floats, as_float64

__all__ = ["Along", "Found", "project", "rows_inside", "some_along", "sorted_along", "worst_window"]

Order = NDArray[np.int32]


class Along(NamedTuple):
    """Rows along each of D directions: their projections as they rise, and the numbers of the rows; (D, n) each."""

    value: Floats
    order: Order


class Found(NamedTuple):
    """The worst slab: its direction, its ends, and the rows and misses that it was found by. None if `rows` is 0."""

    direction: int
    low: float
    high: float
    rows: int
    misses: int


def project(rows: Block, directions: Floats) -> Floats:
    """Projections (D, n) of rows (n, d) on directions (D, d): those of a row do not depend on other rows.

    >>> project(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]))
    array([[1.],
           [3.]])
    """
    out = np.empty((len(directions), len(rows)))
    kernels.fill_projections(as_float64(rows), as_float64(directions.T), np.empty(len(directions)), out)
    return out


def sorted_along(projections: Floats) -> Along:
    """Rows as they stand along each direction; projections (D, n) are sorted in place."""
    out = np.empty(projections.shape, dtype=np.int32)
    for d in range(len(projections)):
        out[d] = np.argsort(projections[d])
        projections[d] = projections[d, out[d]]
    return Along(projections, out)


def some_along(along: Along, chosen: Bools) -> Along:
    """The chosen rows as they stand along each direction, with their numbers among all rows."""
    shape = len(along.value), int(np.count_nonzero(chosen))
    out = Along(np.empty(shape), np.empty(shape, dtype=np.int32))
    kernels.fill_chosen(along.value, along.order, chosen, out.value, out.order)
    return out


def worst_window(along: Along, missed: Bools, least: int) -> Found:
    """The slab that holds at least `least` of the rows and has the largest share of misses among them."""
    return Found(*kernels.worst_window(along.value, along.order, missed, least))


def rows_inside(along: Along, found: Found) -> Order:
    """The numbers of the rows that are in a slab."""
    value = along.value[found.direction]
    start, stop = np.searchsorted(value, found.low, "left"), np.searchsorted(value, found.high, "right")
    return along.order[found.direction, start : stop if found.rows else start]
