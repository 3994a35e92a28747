"""Coverage beyond classes: by size of the set, by confidence, and in the worst slab of the logits."""

from functools import partial

import numpy as np

from thermoset.core.exponentials import Bools, Floats
from thermoset.core.memory import row_array
from thermoset.core.slabs import Project
from thermoset.core.stages import fill_rows
from thermoset.data import Logits
from thermoset.metrics import WorstSlab
from thermoset.metrics.slabs import N_DIRECTIONS, SLAB_SHARE, found_slab, halves
from thermoset.monitor.checking import CheckReport, PartTable
from thermoset.monitor.checking.parts import Part, part_table
from thermoset.sweeping.slabs import logit_directions

__all__ = ["beyond_classes"]

_LEAST_DIRECTIONS = 20
_PRODUCTS = 2_000_000_000  # rows x classes x directions that projecting may cost


def beyond_classes(judged: Logits, sets: Bools, check: CheckReport, seed: int) -> tuple[PartTable, WorstSlab | None]:
    """The parts of a check with the worst slab beside them, all tested together; no slab where classes are masked."""
    hit = sets[np.arange(len(sets)), judged.require_labels("a report")]
    affordable = _PRODUCTS // (len(judged) * judged.n_classes)
    count = min(max(affordable, _LEAST_DIRECTIONS), N_DIRECTIONS)
    slab = _slab(judged, hit, logit_directions(judged.n_classes, count, seed), seed)
    table = check.parts.table
    parts = [
        Part(by, name, int(rows), int(hits))
        for by, name, rows, hits in zip(check.parts.by, check.parts.names, table.rows, table.hits, strict=True)
    ]
    if slab is not None:
        parts.append(Part("slab", "the worst slab", slab.rows, slab.hits))
    return part_table(parts, check.promise.alpha), slab


def _slab(judged: Logits, hit: Bools, directions: Floats, seed: int) -> WorstSlab | None:
    if not np.isfinite(_projected(judged, directions[:1])).all():
        return None
    searched = halves(len(hit), np.random.default_rng((seed, 0, 1)))
    return found_slab(partial(_projected, judged), hit, searched, directions, SLAB_SHARE)


def _projected(rows: Logits, directions: Floats) -> Floats:
    found = row_array((len(directions), len(rows)))
    fill_rows(rows, Project(directions), [found])
    return found
