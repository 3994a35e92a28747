"""Rows without labels, tested once: whether the set sizes of a batch are like those of the conformal rows.

Each of up to 26 cuts parts sizes into "at most s labels" and "more". Given the margins of that table, which also place
the cuts, the conformal rows above the cut are hypergeometric (Fisher's exact test); the smallest p-value is multiplied
by the number of cuts (Bonferroni). So the level holds at any number of rows, with ties and rare sizes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import hypergeom

from thermoset.arrays import Ints
from thermoset.bounds import MOST_HELD
from thermoset.errors import InputError
from thermoset.quoting import quoted

SIGNIFICANCE = 0.001
"""A p-value below this is reported as drift: at most one false alarm in a thousand batches."""

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Shares of all rows near which sizes are cut in two."""


@dataclass(frozen=True)
class Drift:
    """How the set sizes of a batch differ from those of the conformal rows.

    `p_value` is corrected for the number of `cuts`, and 1 when every set has the same size. The clearest cut separates
    sets of `size` labels from larger ones, whose shares are `share_before` (conformal rows) and `share_after` (batch).
    """

    p_value: float
    cuts: int
    size: int
    share_before: float
    share_after: float
    mean_before: float
    mean_after: float
    rows_before: int
    rows_after: int

    @property
    def drifted(self) -> bool:
        """Whether the p-value is below `SIGNIFICANCE`."""
        return self.p_value < SIGNIFICANCE

    @property
    def message(self) -> str:
        """The finding in one sentence, and what to do if there is drift."""
        test = f"Fisher's exact test at {self.cuts} cut{'' if self.cuts == 1 else 's'}"
        means = f"mean {self.mean_after:.3g} compared with {self.mean_before:.3g}"
        rows = f"those of the {self.rows_before:,} conformal rows"
        if not self.drifted:
            return f"set sizes look like {rows}: {means} ({test}, p = {self.p_value:.2g})."
        labels = f"{self.size} label{'' if self.size == 1 else 's'}"
        p = f"= {self.p_value:.1g}" if self.p_value else "< 1e-300"
        return (
            f"set sizes differ from {rows}: {means}; {self.share_after:.1%} of the sets have more than {labels}, "
            f"compared with {self.share_before:.1%} ({test}, p {p}). "
            "Coverage is promised only for rows like the conformal rows: check it on fresh labelled rows, or "
            "recalibrate."
        )

    def __str__(self) -> str:
        return self.message[0].upper() + self.message[1:]


def size_drift(reference_counts: Any, batch_counts: Any) -> Drift:
    """Compare two distributions of set sizes: counts[s] is the number of rows whose set has s labels.

    `reference_counts` are those of the conformal rows under the fitted threshold. The shorter array is padded with
    zeros.

    >>> before = [50, 900, 50]  # 900 of 1,000 conformal rows have sets of one label
    >>> size_drift(before, [1, 18, 1]).drifted
    False
    >>> drift = size_drift(before, [0, 2, 18])
    >>> drift.drifted, drift.mean_before, drift.mean_after
    (True, 1.0, 1.9)
    >>> drift.size, drift.share_before, drift.share_after  # sets of more than one label
    (1, 0.05, 0.9)
    """
    before, after = _size_counts(reference_counts, "reference_counts"), _size_counts(batch_counts, "batch_counts")
    sizes = np.arange(max(len(before), len(after)))
    before, after = (np.pad(counts, (0, len(sizes) - len(counts))) for counts in (before, after))
    n_before, n_after = int(before.sum()), int(after.sum())
    above_before, above_after = n_before - np.cumsum(before), n_after - np.cumsum(after)
    cuts = _cuts(before + after)
    margins = n_before + n_after, (above_before + above_after)[cuts], n_before
    tails = hypergeom.cdf(above_before[cuts], *margins), hypergeom.sf(above_before[cuts] - 1, *margins)
    p_values = np.minimum(2 * np.minimum(*tails), 1.0)
    # Where several p-values round to 0, the largest difference is reported; those equal but for rounding are equal, so
    # that the samples may change places.
    difference = np.abs(above_after / n_after - above_before / n_before)[cuts]
    with np.errstate(divide="ignore"):
        clearest = np.lexsort((-difference, np.log(p_values).round(9)))[0]
    size = int(cuts[clearest])
    return Drift(
        p_value=min(len(cuts) * float(p_values[clearest]), 1.0),
        cuts=len(cuts),
        size=size,
        share_before=int(above_before[size]) / n_before,
        share_after=int(above_after[size]) / n_after,
        mean_before=int(before @ sizes) / n_before,
        mean_after=int(after @ sizes) / n_after,
        rows_before=n_before,
        rows_after=n_after,
    )


def _cuts(pooled: Ints) -> Ints:
    """Of the sizes that occur, the two around each of the shares `LEVELS`: one size may hold most rows by itself."""
    occurring = np.flatnonzero(pooled)
    below = np.cumsum(pooled)[occurring]
    around = np.searchsorted(below, np.array(LEVELS) * below[-1])
    places = np.unique(np.concatenate([around - 1, around]))
    inside = (places >= 0) & (places < len(occurring) - 1)
    return occurring[places[inside]] if inside.any() else occurring[-1:]


def _size_counts(counts: Any, name: str) -> Ints:
    try:
        array = np.asarray(counts)
    except ValueError:  # ragged lists
        array = np.array(None)
    good = array.ndim == 1 and array.dtype.kind in "iu" and array.any() and array.min() >= 0
    if not good or sum(array.tolist()) > MOST_HELD:
        raise InputError(
            f"{name} must be whole numbers of rows by set size, shape (sizes,), from 1 to {MOST_HELD:,} in all; got "
            f"{quoted(counts)}. Pass np.bincount(set_sizes).",
            name=name,
        )
    return array.astype(np.int64, copy=False)
