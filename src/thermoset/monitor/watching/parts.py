"""Classes, clusters or groups of a watched predictor: what was promised for each, and what their rows show.

Where each has a threshold of its own, its hits follow a law of its own, and given the labels these laws are independent
of each other. So there are two questions, each with a share of delta of its own:

- Does a part break its promise? Closed testing with averages of e-values (Vovk and Wang 2021), at any number of parts.
- Has coverage fallen everywhere? For one alternative, "odds of a hit are r times as large in every part", evidence of
  independent parts multiplies; the average over r is evidence again. It sees a loss that is too small in each part.

There is no single law of all rows together: how many hits are expected depends on which parts the rows come from.
"""

from dataclasses import dataclass, replace

import msgspec
import numpy as np

from thermoset.arrays import Bools, Floats, Ints
from thermoset.levels import conformal_rank
from thermoset.monitor.checking.promise import NULL_GROUP, Promise
from thermoset.monitor.evidence import closed, fixed_evidence, joint_evidence, part_evidence
from thermoset.monitor.watching.standing import PartKind, PartStanding

__all__ = ["PartCounts", "PartLaws", "counted", "laws_of", "part_names", "part_standings"]

_LOWEST = -700.0  # of a logarithm: below it an e-value is no number
NULL_NAME = "rare classes"
"""What the null cluster is called."""


class PartCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labelled rows and hits of each part so far, and the largest adjusted evidence of each as a logarithm.

    `names` are those of groups that have come, beginning with the predictor's own; classes and clusters have numbers.
    """

    kind: PartKind
    names: tuple[str, ...]
    rows: tuple[int, ...]
    hits: tuple[int, ...]
    peaks: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class PartLaws:
    """The rank and the conformal rows behind the threshold of each part, and whether anything is promised for it."""

    kind: PartKind
    rank: Ints
    pool: Ints
    promised: Bools
    level: float  # 1 - alpha

    def grown(self, n_parts: int) -> "PartLaws":
        """The same with further parts, which nothing was promised for: groups that are new."""
        more = (0, max(n_parts - len(self.rank), 0))
        return replace(
            self, rank=np.pad(self.rank, more), pool=np.pad(self.pool, more), promised=np.pad(self.promised, more)
        )

    def evidence(self, rows: Ints, hits: Ints) -> Floats:
        """Adjusted evidence of too few hits, as logarithms: of promised parts among themselves, and of the others."""
        laws, found = self.grown(len(rows)), np.zeros(len(rows))
        own = laws.promised
        found[own] = closed(part_evidence(hits[own], rows[own], laws.rank[own], laws.pool[own]))
        found[~own] = closed(fixed_evidence(hits[~own], rows[~own], self.level))
        return found

    def joint(self, counts: PartCounts) -> float:
        """Evidence that odds of a hit have fallen alike in all promised parts."""
        laws = self.grown(len(counts.rows))
        rows, hits = np.array(counts.rows, dtype=np.int64), np.array(counts.hits, dtype=np.int64)
        own = laws.promised
        return joint_evidence(hits[own], rows[own], laws.rank[own], laws.pool[own])


def laws_of(promise: Promise, n_classes: int, kind: PartKind) -> PartLaws:
    """What is promised for each part.

    >>> laws = laws_of(Promise(0.1, [99, 199], "class"), 2, "class")
    >>> laws.rank.tolist(), laws.promised.tolist()
    ([90, 180], [True, True])
    >>> laws_of(Promise(0.1, [999]), 2, "class").promised.tolist()
    [False, False]
    """
    grouping = promise.kind
    if grouping is not None and grouping.of_rows:
        pools = np.asarray(promise.pool_sizes, dtype=np.int64)
        promised = np.ones(len(pools), dtype=np.bool_)
    elif grouping is not None and grouping.exact:
        groups = promise.groups(n_classes)
        pools, promised = groups.pools, groups.promised
    else:
        n_parts = n_classes if kind == "class" else 0
        pools, promised = np.zeros(n_parts, dtype=np.int64), np.zeros(n_parts, dtype=np.bool_)
    rank = np.array([conformal_rank(int(pool), promise.alpha) for pool in pools], dtype=np.int64)
    return PartLaws(kind, rank, pools, promised, promise.promised)


def part_names(counts: PartCounts, promise: Promise, classes: tuple[str, ...] | None) -> tuple[str, ...]:
    """What people call the parts."""
    if counts.kind == "group":
        return counts.names
    if counts.kind == "class":
        return classes or tuple(map(str, range(len(counts.rows))))
    index = promise.groups(len(np.asarray(promise.pool_sizes))).index.tolist()
    return tuple(NULL_NAME if number == NULL_GROUP else f"cluster {number}" for number in index)


def counted(counts: PartCounts, laws: PartLaws, names: tuple[str, ...], part: Ints, hit: Bools) -> PartCounts:
    """The counts with more labelled rows, of which the part and whether it is a hit are known."""
    n_parts = max(len(names) if counts.kind == "group" else 0, len(counts.rows))
    rows, hits = (
        np.pad(np.array(old, dtype=np.int64), (0, n_parts - len(old))) + np.bincount(part[some], minlength=n_parts)
        for old, some in ((counts.rows, slice(None)), (counts.hits, hit))
    )
    peaks = np.pad(np.array(counts.peaks), (0, n_parts - len(counts.peaks)))
    if len(part):
        own = laws.grown(n_parts).promised
        peaks[own] = np.maximum(peaks[own], laws.evidence(rows, hits)[own])
    return PartCounts(counts.kind, names, tuple(rows.tolist()), tuple(hits.tolist()), tuple(peaks.tolist()))


def part_standings(counts: PartCounts, laws: PartLaws, names: tuple[str, ...], log_bar: float) -> list[PartStanding]:
    """Each part that has labelled rows, those with most evidence first."""
    rows, hits = np.array(counts.rows, dtype=np.int64), np.array(counts.hits, dtype=np.int64)
    promised = laws.grown(len(rows)).promised
    now = np.maximum(laws.evidence(rows, hits), _LOWEST) if rows.any() else np.zeros(len(rows))
    log_e = np.where(promised, np.array(counts.peaks), now)
    order = np.argsort(-log_e, kind="stable")
    return [
        PartStanding(
            name=names[i],
            rows=int(rows[i]),
            hits=int(hits[i]),
            log_e=float(log_e[i]),
            promised=bool(promised[i]),
            alarm=bool(promised[i] and log_e[i] >= log_bar),
        )
        for i in order
        if rows[i]
    ]
