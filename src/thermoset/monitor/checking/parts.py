"""Coverage of parts of the rows, for which nothing was promised: by set size and by confidence.

All parts of a table are tested together: p-values are adjusted for the number of parts of every kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from thermoset.arrays import Bools, Floats, Ints
from thermoset.levels import Alpha, exact_level
from thermoset.metrics import SIZE_STRATA, NoiseFloor, coverage_gaps, noise_floor_of_counts
from thermoset.metrics.counts import coverage_by_confidence, coverage_by_size
from thermoset.monitor.checking.by_group import CoverageTable, yardstick
from thermoset.quoting import Brief
from thermoset.text_tables import AsTable, TextTable

__all__ = ["Part", "PartGap", "PartTable", "confidence_parts", "part_table", "size_parts"]

_PHRASES = {"size": "sets of {} labels", "confidence": "confidence {}"}
_NAMED = 5  # parts a sentence names before it says "and n more"


class Part(NamedTuple):
    """Some of the rows: by what they were selected, their name, how many there are, and their hits."""

    by: str
    name: str
    rows: int
    hits: int


@dataclass(frozen=True)
class PartGap:
    """The largest | coverage - (1 - alpha) | over the parts of one kind, and what chance alone shows."""

    by: str
    gap: float
    floor: NoiseFloor


@dataclass(frozen=True, eq=False, repr=False)
class PartTable(Brief, AsTable):
    """Coverage of parts of the rows.

    Attributes
    ----------
    by, names : tuple of str
        For each part: its kind ("size" or "confidence"), and its name.
    table : CoverageTable
        Rows, hits, coverage with its interval, and p-values for coverage below 1 - alpha, adjusted for all parts.
    gaps : tuple of PartGap
        The largest gap of each kind, and what chance alone shows.
    """

    by: tuple[str, ...]
    names: tuple[str, ...]
    table: CoverageTable
    gaps: tuple[PartGap, ...]

    @property
    def phrases(self) -> tuple[str, ...]:
        """The name of each part in a sentence, such as "sets of 2 to 3 labels"."""
        return tuple(_PHRASES[by].format(name) for by, name in zip(self.by, self.names, strict=True))

    def places(self, by: str) -> list[int]:
        """Where the parts of a kind stand."""
        return [i for i, kind in enumerate(self.by) if kind == by]

    @property
    def sentence(self) -> str | None:
        """Which parts have coverage significantly below 1 - alpha; None if there are none."""
        under, table = self.table.under_covered, self.table
        if not len(under):
            return None
        told = ", ".join(
            f"{self.phrases[i]} ({table.hits[i]:,} of {table.rows[i]:,} rows, p = {table.p_holm[i]:.1g})"
            for i in under[:_NAMED]
        )
        more = f" and {len(under) - _NAMED} more" if len(under) > _NAMED else ""
        return (
            f"Coverage is below {table.promised:g} in {len(under)} of {table.tested} parts of the rows (Holm-adjusted "
            f"p-values), for which it was not promised: {told}{more}."
        )

    def to_table(self) -> TextTable:
        """The parts as a table of text."""
        return self.table.named_table("part", "parts of the rows", self.phrases)

    def to_json_dicts(self) -> list[dict[str, Any]]:
        """One dict per part: by, name, and the keys of `CoverageTable.to_json_dicts` except the index."""
        entries = self.table.to_json_dicts()
        for entry in entries:
            del entry["index"]
        named = zip(self.by, self.names, entries, strict=True)
        return [{"by": by, "name": name, **entry} for by, name, entry in named]


def part_table(parts: Sequence[Part], alpha: Alpha) -> PartTable:
    """Tabulate parts; those without rows are omitted.

    >>> found = part_table([Part("size", "0 to 1", 2, 0), Part("size", "2 to 3", 4, 4), Part("size", "4", 0, 0)], "0.5")
    >>> found.names, found.table.coverage.tolist(), found.table.p_holm.tolist()  # two misses: 1/4, and two tests
    (('0 to 1', '2 to 3'), [0.0, 1.0], [0.5, 1.0])
    >>> found.gaps[0].gap
    0.5
    """
    some = [part for part in parts if part.rows]
    rows, hits = (np.array([part[k] for part in some], dtype=np.int64) for k in (2, 3))
    kinds = dict.fromkeys(part.by for part in some)
    gaps = []
    for by in kinds:
        own = np.array([part.by == by for part in some])
        gap = float(coverage_gaps(hits[own], rows[own], alpha).max())
        gaps.append(PartGap(by, gap, noise_floor_of_counts(rows[own], alpha)))
    table = yardstick(rows, hits, float(1 - exact_level(alpha)))
    return PartTable(tuple(part.by for part in some), tuple(part.name for part in some), table, tuple(gaps))


def size_parts(sizes: Ints, hit: Bools) -> list[Part]:
    """Rows by set size, in the strata of SSCV.

    >>> size_parts(np.array([0, 2, 300]), np.array([False, True, True]))[-1]
    Part(by='size', name='101 or more', rows=1, hits=1)
    """
    found = coverage_by_size(sizes, hit)
    names = [f"{a} to {b - 1}" for a, b in pairwise(SIZE_STRATA)] + [f"{SIZE_STRATA[-1]} or more"]
    counts = zip(names, found.count.tolist(), found.hits.tolist(), strict=True)
    return [Part("size", *counted) for counted in counts]


def confidence_parts(confidence: Floats, hit: Bools) -> list[Part]:
    """Rows by their confidence, in tenths.

    >>> parts = confidence_parts(np.linspace(0.5, 1.0, 20), np.ones(20, dtype=bool))
    >>> parts[0], len(parts)
    (Part(by='confidence', name='0.500 to 0.526', rows=2, hits=2), 10)
    """
    found = coverage_by_confidence(confidence, hit)
    columns = (found.low, found.high, found.count, found.hits)
    return [
        Part("confidence", f"{low:.3f} to {high:.3f}", rows, hits)
        for low, high, rows, hits in zip(*(column.tolist() for column in columns), strict=True)
        if rows
    ]
