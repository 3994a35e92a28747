"""Slabs {x : a <= v.x <= b}: projections of rows on directions, and the slab in which sets miss most.

Along a direction the rows of a slab are neighbours once they are sorted, so the worst slab is the window of at least so
many rows with the largest share of misses. With W rows and S misses counted up to each place, that share is a slope
between two points (W, S), and the steepest one is found by keeping the lower convex hull of possible beginnings: each
point enters and leaves it once (Chung and Lu 2005). All numbers are whole, so slopes are compared exactly.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.core.compiling import kernel, leaf_kernel, part
from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.sources import Block, widened

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


class Points(NamedTuple):
    """Room for the points of one direction: rows and misses up to each place, the value there, and the hull."""

    rows: Ints
    misses: Ints
    value: Floats
    hull: Ints


class Window(NamedTuple):
    """A window: the points it begins and ends at, its rows and misses."""

    start: int
    stop: int
    rows: int
    misses: int


@leaf_kernel
def _fill_projections(rows: Floats, columns: Floats, sums: Floats, out: Floats) -> None:
    """Project on the columns of an array (d, D). Each sum is taken in the order of the features, all sums at once."""
    for i in range(rows.shape[0]):
        sums[:] = 0.0
        for j in range(rows.shape[1]):
            for d in range(sums.shape[0]):
                sums[d] += rows[i, j] * columns[j, d]
        for d in range(sums.shape[0]):
            out[d, i] = sums[d]


def project(rows: Block, directions: Floats) -> Floats:
    """Projections (D, n) of rows (n, d) on directions (D, d): those of a row do not depend on other rows.

    >>> project(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]))
    array([[1.],
           [3.]])
    """
    out = np.empty((len(directions), len(rows)))
    _fill_projections(widened(rows), widened(directions.T), np.empty(len(directions)), out)
    return out


def sorted_along(projections: Floats) -> Along:
    """Rows as they stand along each direction; projections (D, n) are sorted in place."""
    out = np.empty(projections.shape, dtype=np.int32)
    for d in range(len(projections)):
        out[d] = np.argsort(projections[d])
        projections[d] = projections[d, out[d]]
    return Along(projections, out)


@leaf_kernel
def _fill_some(along: Along, chosen: Bools, out: Along) -> None:
    for d in range(along.order.shape[0]):
        place = 0
        for k in range(along.order.shape[1]):
            i = along.order[d, k]
            if chosen[i]:
                out.value[d, place], out.order[d, place] = along.value[d, k], i
                place += 1


def some_along(along: Along, chosen: Bools) -> Along:
    """The chosen rows as they stand along each direction, with their numbers among all rows."""
    shape = len(along.value), int(np.count_nonzero(chosen))
    out = Along(np.empty(shape), np.empty(shape, dtype=np.int32))
    _fill_some(along, chosen, out)
    return out


@part
def _is_steeper(misses: int, rows: int, than_misses: int, than_rows: int) -> bool:
    """Whether misses / rows is larger than the other; a window of no rows is less steep than any."""
    return misses * than_rows > than_misses * rows if than_rows > 0 else True


@part
def _fill_points(value: Floats, order: Order, missed: Bools, points: Points) -> int:
    """Count along a direction; rows of equal value share a point. Returns the number of points after the first."""
    last, misses = 0, 0
    points.rows[0], points.misses[0] = 0, 0
    for k in range(order.shape[0]):
        if last == 0 or value[k] != points.value[last]:
            last += 1
            points.value[last] = value[k]
        misses += missed[order[k]]
        points.rows[last], points.misses[last] = k + 1, misses
    return last


@part
def _steepest(points: Points, last: int, least: int) -> Window:
    """The window of at least so many rows with the largest share of misses; of equal ones the first."""
    rows, misses, hull = points.rows, points.misses, points.hull
    front, back, beginning = 0, 0, 0
    best = Window(0, 0, 0, 0)
    for stop in range(1, last + 1):
        while rows[beginning] <= rows[stop] - least:  # one more place to begin at
            while back - front >= 2:
                a, b = hull[back - 2], hull[back - 1]
                if (misses[b] - misses[a]) * (rows[beginning] - rows[b]) < (misses[beginning] - misses[b]) * (
                    rows[b] - rows[a]
                ):
                    break
                back -= 1  # above the line from a to the new one: never the better beginning
            hull[back] = beginning
            back += 1
            beginning += 1
        if back == front:
            continue
        while back - front >= 2:  # what is less steep now can be steepest later only for a slope found before
            a, b = hull[front], hull[front + 1]
            if _is_steeper(
                misses[stop] - misses[a], rows[stop] - rows[a], misses[stop] - misses[b], rows[stop] - rows[b]
            ):
                break
            front += 1
        a = hull[front]
        if _is_steeper(misses[stop] - misses[a], rows[stop] - rows[a], best.misses, best.rows):
            best = Window(a, stop, rows[stop] - rows[a], misses[stop] - misses[a])
    return best


@kernel
def worst_window(along: Along, missed: Bools, least: int) -> Found:
    """The slab that holds at least `least` of the rows and has the largest share of misses among them.

    missed : (n,), by the numbers of the rows. Of equal ones the first: by direction, then by where it ends.
    """
    n = along.order.shape[1]
    points = Points(
        np.empty(n + 1, dtype=np.int64),
        np.empty(n + 1, dtype=np.int64),
        np.empty(n + 1),
        np.empty(n + 1, dtype=np.int64),
    )
    best = Found(0, 0.0, 0.0, 0, 0)
    for d in range(along.order.shape[0]):
        last = _fill_points(along.value[d], along.order[d], missed, points)
        window = _steepest(points, last, least)
        if window.rows > 0 and _is_steeper(window.misses, window.rows, best.misses, best.rows):
            best = Found(d, points.value[window.start + 1], points.value[window.stop], window.rows, window.misses)
    return best


def rows_inside(along: Along, found: Found) -> Order:
    """The numbers of the rows that are in a slab."""
    value = along.value[found.direction]
    start, stop = np.searchsorted(value, found.low, "left"), np.searchsorted(value, found.high, "right")
    return along.order[found.direction, start : stop if found.rows else start]
