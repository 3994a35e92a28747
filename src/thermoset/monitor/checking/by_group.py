"""Coverage of each class, cluster of classes or group of rows, with p-values adjusted for multiple testing."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from thermoset.errors import InputError
from thermoset.metrics import clopper_pearson
from thermoset.monitor.checking.promise import SIGNIFICANCE
from thermoset.quoting import Brief, printable
from thermoset.text_tables import AsTable, TextTable, number

__all__ = ["CoverageTable", "coverage_table", "holm", "yardstick"]

_Floats = NDArray[np.float64]
_Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class CoverageTable(Brief, AsTable):
    """Coverage of each class, cluster of classes or group of rows: arrays with one entry for each.

    Attributes
    ----------
    index : int array
        Class, cluster, or place of the group in the names.
    rows, hits, coverage, low, high : arrays
        Number of rows, how many of their sets contain the label, the share, and its 95% interval (Clopper-Pearson).
    p_value, p_holm : float arrays
        Probability of that many hits or fewer, alone and adjusted by `holm` for the number of entries tested.
    promised : float
        1 - alpha.
    law : str
        Where the p-values come from: "beta-binomial", the promised law, or "binomial", a comparison with coverage 1 -
        alpha where nothing was promised.

    The share, the interval and the p-values of an entry without rows are NaN, as are the p-values of a null cluster and
    of groups that had no conformal row.
    """

    index: _Counts
    rows: _Counts
    hits: _Counts
    coverage: _Floats
    low: _Floats
    high: _Floats
    p_value: _Floats
    p_holm: _Floats
    promised: float
    law: str

    @property
    def tested(self) -> int:
        """Number of entries with a p-value."""
        return int(np.count_nonzero(~np.isnan(self.p_value)))

    @property
    def under_covered(self) -> _Counts:
        """Indices of the entries below 1 - alpha with `p_holm` below `SIGNIFICANCE`, the clearest first."""
        found = np.flatnonzero((self.p_holm < SIGNIFICANCE) & (self.coverage < self.promised))
        return found[np.argsort(self.p_holm[found], kind="stable")]

    def at(self, places: _Counts) -> "CoverageTable":
        """Some of the entries, with p-values that are still adjusted for all."""
        arrays = ("index", "rows", "hits", "coverage", "low", "high", "p_value", "p_holm")
        return replace(self, **{name: getattr(self, name)[places] for name in arrays})

    def to_table(self) -> TextTable:
        """The table in text, the least covered first; entries are called by their number.

        >>> print(yardstick(np.array([4, 2]), np.array([4, 1]), promised=0.9).to_table())
        Coverage, promised: 0.9
        place  rows  hits  coverage             95%  p (Holm)
        1         2     1     0.500  0.013 to 0.987      0.38
        0         4     4     1.000  0.398 to 1.000         1
        """
        return self.named_table("place", "")

    def named_table(self, one: str, many: str, names: tuple[str, ...] | None = None) -> TextTable:
        """The same for entries that are called `one` and have names."""
        order = np.lexsort((self.p_value, np.nan_to_num(self.coverage, nan=2.0))).tolist()
        lines = [
            (
                printable(names[i]) if names else str(self.index[i]),
                f"{self.rows[i]:,}",
                f"{self.hits[i]:,}",
                number(self.coverage[i]),
                f"{self.low[i]:.3f} to {self.high[i]:.3f}" if self.rows[i] else "-",
                number(self.p_holm[i], ".2g"),
            )
            for i in order
        ]
        title = f"Coverage{' of ' if many else ''}{many}, promised: {self.promised:g}"
        if self.law == "binomial" and many:
            title = f"Coverage of {many}; {self.promised:g} is promised for all rows together"
        return TextTable(many or "coverage", title, (one, "rows", "hits", "coverage", "95%", "p (Holm)"), tuple(lines))

    def to_json_dicts(self) -> list[dict[str, Any]]:
        """One dict per entry, with the names of the arrays as keys; None for NaN."""
        keys = ("index", "rows", "hits", "coverage", "low", "high", "p_value", "p_holm")
        columns = ([None if x != x else x for x in getattr(self, key).tolist()] for key in keys)  # noqa: PLR0124 (NaN)
        return [dict(zip(keys, entry, strict=True)) for entry in zip(*columns, strict=True)]


def coverage_table(
    index: _Counts, rows: _Counts, hits: _Counts, p_value: _Floats, promised: float, law: str
) -> CoverageTable:
    """Table of shares and intervals, with known p-values.

    >>> counts = np.array([4, 0]), np.array([3, 0])
    >>> table = coverage_table(np.arange(2), *counts, np.array([0.5, np.nan]), promised=0.9, law="binomial")
    >>> table.coverage.tolist(), table.p_holm.tolist(), table.tested
    ([0.75, nan], [0.5, nan], 1)
    """
    present, tested = rows > 0, ~np.isnan(p_value)
    interval = clopper_pearson(hits, rows)
    adjusted = np.full(len(rows), np.nan)
    adjusted[tested] = holm(p_value[tested])
    return CoverageTable(
        index=index,
        rows=rows,
        hits=hits,
        coverage=np.divide(hits, rows, out=np.full(len(rows), np.nan), where=present),
        low=np.where(present, interval.low, np.nan),
        high=np.where(present, interval.high, np.nan),
        p_value=p_value,
        p_holm=adjusted,
        promised=promised,
        law=law,
    )


def yardstick(rows: _Counts, hits: _Counts, promised: float) -> CoverageTable:
    """Entries for which nothing was promised, compared with coverage 1 - alpha of the predictor as it is.

    >>> yardstick(np.array([2, 0]), np.array([0, 0]), 0.5).p_value.tolist()  # two misses: 1/4
    [0.25, nan]
    """
    p_value = np.where(rows > 0, binom.cdf(hits, rows, promised), np.nan)
    return coverage_table(np.arange(len(rows)), rows, hits, p_value, promised, "binomial")


def holm(p_values: ArrayLike) -> _Floats:
    """Holm's adjusted p-values: for any true hypothesis, below a level a with probability at most a (Holm 1979).

    The i-th smallest of m is multiplied by m - i + 1; the results are made non-decreasing and capped at 1.

    >>> holm([0.01, 0.04, 0.03]).round(12).tolist()  # 3 * 0.01, 2 * 0.03, and 0.04 is not below that
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise InputError(f"p_values must be numbers from 0 to 1, shape (tests,); got {p_values!r}.")
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted
