"""Worst-slab coverage (Cauchois, Gupta and Duchi 2021): coverage where sets do worst, whatever the partition.

Classes and groups are parts that somebody has named. A slab {x : a <= v.x <= b} of the features is a part that nobody
has: among many random directions v, and all ends with at least a share of the rows between them, the slab that is
covered least. The search looks at so many slabs that the worst of them looks bad in perfect sets too. So it is found on
a random half of the rows, and judged on the other half, where its coverage is an honest estimate.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats
from thermoset.bounds import whole_number
from thermoset.core.slabs import Found, project, rows_inside, some_along, sorted_along, worst_window
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.metrics._arrays import RealArray
from thermoset.metrics._checks import check_scores, seeded
from thermoset.metrics.of_sets import hits_of
from thermoset.quoting import Brief

__all__ = [
    "N_DIRECTIONS",
    "SLAB_SHARE",
    "WorstSlab",
    "halves",
    "least_rows",
    "random_directions",
    "worst_slab",
    "worst_slab_coverage",
]

N_DIRECTIONS = 1000
"""Default number of directions."""

SLAB_SHARE = 0.1
"""Default minimum share of the rows in a slab."""

_MOST_DIRECTIONS = 1_000_000
_ROOM = 1 << 22  # projections that are held at once


@dataclass(frozen=True, eq=False, repr=False)
class WorstSlab(Brief):
    """The slab low <= direction . x <= high with the lowest coverage, found on half of the rows and judged on the rest.

    Attributes
    ----------
    direction : (d,)
        A unit vector, or one of those that were given.
    low, high : float
        The ends, both included.
    rows, hits, coverage
        Rows of the judging half in the slab, how many of their sets contain their label, and the share: an unbiased
        estimate. Without rows it is NaN.
    found_rows, found_hits, found_coverage
        The same for the half that the slab was found on: biased low by the search.
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
    hit, _, _ = hits_of(sets, labels)
    table = _checked_features(features, len(hit))
    rng = seeded(random_state)
    if isinstance(directions, int | np.integer):
        count = whole_number(directions, "directions", 1, _MOST_DIRECTIONS, "Try 1000.")
        chosen = random_directions(count, table.shape[1], rng)
    else:
        chosen = _checked_directions(directions, table.shape[1])
    searched = halves(len(hit), rng)
    least, step = least_rows(int(np.count_nonzero(searched)), share), max(1, _ROOM // len(hit))
    best, inside, first = Found(0, 0.0, 0.0, 0, 0), np.empty(0, dtype=np.int32), 0
    for start in range(0, len(chosen), step):  # a few directions at a time
        along = sorted_along(project(table, chosen[start : start + step]))
        found = worst_window(some_along(along, searched), ~hit, least)
        if best.rows == 0 or found.misses * best.rows > best.misses * found.rows:
            best, inside, first = found, rows_inside(along, found), start
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
    asked = {"share": share, "directions": directions, "random_state": random_state}
    return worst_slab(sets, labels, features, **asked).coverage  # type: ignore[arg-type]


def random_directions(count: int, width: int, rng: np.random.Generator) -> Floats:
    """Unit vectors, even over the sphere: (count, width)."""
    drawn = rng.normal(size=(count, width))
    unit: Floats = drawn / np.sqrt((drawn**2).sum(axis=1, keepdims=True))
    return unit


def halves(n_rows: int, rng: np.random.Generator) -> Bools:
    """A random half of the rows: True where a slab is searched, False where it is judged."""
    searched = np.zeros(n_rows, dtype=np.bool_)
    searched[rng.permutation(n_rows)[: (n_rows + 1) // 2]] = True
    return searched


def least_rows(n_searched: int, share: Alpha) -> int:
    """The fewest rows of a slab.

    >>> least_rows(25, 0.1)
    3
    """
    return max(1, math.ceil(exact_level(share, "share", "0.1") * n_searched))


def _checked_features(features: ArrayLike, n_rows: int) -> RealArray:
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


def _checked_directions(directions: ArrayLike, width: int) -> Floats:
    table = check_scores(directions, "directions")
    if table.shape[1] != width or not np.isfinite(table).all():
        raise InputError(
            f"directions must be a number, or finite vectors (D, {width}), as wide as the features; got {table.shape}."
        )
    return table.astype(np.float64, copy=False)
