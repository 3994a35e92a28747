"""Worst-slab coverage (Cauchois, Gupta and Duchi 2021): coverage where sets do worst, whatever the partition.

A slab is {x : a <= v.x <= b}: along a direction v, a window of the sorted rows. Among so many slabs the worst looks bad
in perfect sets too, so it is found on a random half of the rows and judged on the other.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset.arrays import Bools, Floats, as_float64
from thermoset.bounds import whole_number
from thermoset.errors import InputError
from thermoset.kernels import fill_projections, worst_window
from thermoset.levels import Alpha, exact_level
from thermoset.metrics.counts import check_hits, random_generator
from thermoset.metrics.probabilities import RealArray, check_scores
from thermoset.quoting import Brief

N_DIRECTIONS = 1000
"""Default number of directions."""

SLAB_SHARE = 0.1
"""Default minimum share of the rows in a slab."""

_MOST_DIRECTIONS = 1_000_000
_ROOM = 1 << 22  # projections that are held at once


class Along(NamedTuple):
    """Rows along each of D directions: their projections in ascending order, and the numbers of the rows; (D, n)."""

    value: Floats
    order: NDArray[np.int32]

    def select(self, chosen: Bools) -> "Along":
        """The chosen rows as they stand along each direction, with their numbers among all rows."""
        mask, shape = chosen[self.order], (len(self.order), int(np.count_nonzero(chosen)))
        return Along(self.value[mask].reshape(shape), self.order[mask].reshape(shape))


class Window(NamedTuple):
    """The worst slab: its direction, its ends, and the rows and misses that it was found by. None if `rows` is 0."""

    direction: int
    low: float
    high: float
    rows: int
    misses: int

    def rows_inside(self, along: Along) -> NDArray[np.int32]:
        """The numbers of the rows that are in it."""
        start, stop = np.searchsorted(along.value[self.direction], (self.low, np.nextafter(self.high, np.inf)))
        return along.order[self.direction, start : stop if self.rows else start]


def sort_along(features: RealArray, directions: Floats) -> Along:
    """Project rows (n, d) on directions (D, d), and sort them. A projection does not depend on other rows."""
    value = np.empty((len(directions), len(features)))
    fill_projections(as_float64(features), as_float64(directions.T), np.empty(len(directions)), value)
    order = np.argsort(value, axis=1).astype(np.int32)
    return Along(np.take_along_axis(value, order, axis=1), order)


@dataclass(frozen=True, eq=False, repr=False)
class WorstSlab(Brief):
    """The slab low <= direction . x <= high with the lowest coverage, found on half of the rows and judged on the rest.

    `rows`, `hits` and `coverage` (NaN without rows) are those of the judging half, an unbiased estimate; `found_rows`,
    `found_hits` and `found_coverage` those of the half that the slab was found on, biased low by the search.
    """

    direction: Floats
    low: float
    high: float
    rows: int
    hits: int
    found_rows: int
    found_hits: int

    @property
    def coverage(self) -> float:
        """Coverage on the judging half."""
        return self.hits / self.rows if self.rows else math.nan

    @property
    def found_coverage(self) -> float:
        """Coverage on the half that the slab was found on."""
        return self.found_hits / self.found_rows


def worst_slab(
    sets: ArrayLike,
    labels: ArrayLike,
    features: ArrayLike,
    *,
    share: Alpha = SLAB_SHARE,
    directions: int | ArrayLike = N_DIRECTIONS,
    random_state: int | np.random.Generator = 0,
) -> WorstSlab:
    """Find the slab of the features with the lowest coverage on a random half of the rows, and judge it on the other.

    Parameters
    ----------
    sets, labels
        Boolean sets (n, C), and labels (n,).
    features : array-like (n, d)
        The space in which slabs are cut: logits, an embedding, or columns such as age and income. Finite. Where columns
        have different units, scale them first: directions are drawn at random.
    share : float
        The minimum share of rows in a slab, in (0, 1).
    directions : int or array-like (D, d)
        How many random directions to try, or the directions themselves.
    random_state : int or Generator
        Seeds the random directions and halves.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(4000, 2))
    >>> hit = rng.random(4000) < np.where(features[:, 0] > 1, 0.5, 0.95)  # covered badly where the first is large
    >>> slab = worst_slab(np.column_stack([hit, ~hit]), np.zeros(4000, dtype=int), features)
    >>> bool(abs(slab.direction[0]) > 0.9), round(slab.coverage, 1)
    (True, 0.5)
    """
    hit, _, _ = check_hits(sets, labels)
    table = _check_features(features, len(hit))
    rng = random_generator(random_state)
    if isinstance(directions, int | np.integer):
        count = whole_number(directions, "directions", 1, _MOST_DIRECTIONS, "Try 1000.")
        drawn = rng.normal(size=(count, table.shape[1]))  # even over the sphere
        chosen: Floats = drawn / np.sqrt((drawn**2).sum(axis=1, keepdims=True))
    else:
        chosen = _check_directions(directions, table.shape[1])
    searched = draw_half(len(hit), rng)
    least, step = least_rows(int(np.count_nonzero(searched)), share), max(1, _ROOM // len(hit))
    best, inside, first = Window(0, 0.0, 0.0, 0, 0), np.empty(0, dtype=np.int32), 0
    for start in range(0, len(chosen), step):  # a few directions at a time
        along = sort_along(table, chosen[start : start + step])
        some = along.select(searched)
        window = Window(*worst_window(some.value, some.order, ~hit, least))
        if best.rows == 0 or window.misses * best.rows > best.misses * window.rows:
            best, inside, first = window, window.rows_inside(along), start
    judged = inside[~searched[inside]]
    return WorstSlab(
        direction=chosen[first + best.direction],
        low=best.low,
        high=best.high,
        rows=len(judged),
        hits=int(np.count_nonzero(hit[judged])),
        found_rows=best.rows,
        found_hits=best.rows - best.misses,
    )


def worst_slab_coverage(
    sets: ArrayLike,
    labels: ArrayLike,
    features: ArrayLike,
    *,
    share: Alpha = SLAB_SHARE,
    directions: int | ArrayLike = N_DIRECTIONS,
    random_state: int | np.random.Generator = 0,
) -> float:
    """Coverage of the slab with the lowest coverage, on rows that were not used to find it; see `worst_slab`.

    >>> sets, labels = np.ones((100, 2), dtype=bool), np.zeros(100, dtype=int)
    >>> worst_slab_coverage(sets, labels, np.arange(100.0)[:, None])  # sets of all labels are right everywhere
    1.0
    """
    slab = worst_slab(sets, labels, features, share=share, directions=directions, random_state=random_state)
    return slab.coverage


def draw_half(n_rows: int, rng: np.random.Generator) -> Bools:
    """A random half of the rows: True where a slab is searched, False where it is judged."""
    searched = np.zeros(n_rows, dtype=np.bool_)
    searched[rng.permutation(n_rows)[: (n_rows + 1) // 2]] = True
    return searched


def least_rows(n_searched: int, share: Alpha) -> int:
    """The fewest rows of a slab."""
    return max(1, math.ceil(exact_level(share, "share", "0.1") * n_searched))


def _check_features(features: ArrayLike, n_rows: int) -> RealArray:
    table = check_scores(features, "features")
    if len(table) != n_rows:
        raise InputError(
            f"features must have shape ({n_rows}, d), one row per set; got {table.shape}. Pass a single feature as one "
            "column."
        )
    if n_rows < 2:
        raise InputError("a worst slab needs at least 2 rows: one half to find it on, one to judge it on.")
    if not np.isfinite(table).all():
        row, column = (int(place) for place in np.argwhere(~np.isfinite(table))[0])
        raise InputError(
            f"features[{row}, {column}] is {table[row, column]}; features must be finite. Drop masked classes."
        )
    return table


def _check_directions(directions: ArrayLike, width: int) -> Floats:
    table = check_scores(directions, "directions")
    if table.shape[1] != width or not np.isfinite(table).all():
        raise InputError(
            f"directions must be a number, or finite vectors (D, {width}), as wide as the features; got {table.shape}."
        )
    return table.astype(np.float64, copy=False)
