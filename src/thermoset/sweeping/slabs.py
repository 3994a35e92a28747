"""Worst-slab coverage in every trial: the worst slab of one half of the evaluation rows, judged on the other half.

Slabs are cut in the logits. With a linear last layer, as most networks have, a slab of the logits is a slab of the
features that the layer reads, and what is added to all logits of a row, which no probability sees, moves no row: the
directions sum to zero. They are drawn once, from the seed, for all trials; trial t draws its halves from (seed, t).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from thermoset.core.exponentials import Floats, Ints
from thermoset.core.label_hits import label_hits
from thermoset.core.label_shares import SharesByTemperature
from thermoset.core.memory import row_array
from thermoset.core.pool import run_all
from thermoset.core.scores import Score
from thermoset.core.slabs import Along, Project, some_along, sorted_along
from thermoset.core.stages import fill_rows
from thermoset.core.thresholds import Cuts
from thermoset.core.trials import Trials, drawn_rows
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.metrics.slabs import SLAB_SHARE, halves, judged_slab, random_directions

__all__ = ["SWEPT_DIRECTIONS", "SlabCounts", "Slabs", "logit_directions"]

SlabCounts = tuple[Ints, Ints] | None
"""Rows and hits of worst slabs, (scores, T, alphas, trials), where they were looked for."""

SWEPT_DIRECTIONS = 100
"""Directions that a sweep looks at: every trial searches them at every temperature."""


def logit_directions(n_classes: int, count: int, seed: int | tuple[int, ...]) -> Floats:
    """Random directions for logits, (count, C), which sum to zero."""
    drawn = random_directions(count, n_classes, np.random.default_rng(seed))
    centred: Floats = drawn - drawn.mean(axis=1, keepdims=True)
    return centred


@dataclass(frozen=True, eq=False)
class Slabs:
    """Rows along all directions, and the trials that look for slabs among them."""

    along: Along
    trials: Trials
    seed: int

    @classmethod
    def of(cls, data: Logits, trials: Trials, seed: int) -> "Slabs":
        """Project the rows, and sort them along each direction."""
        directions = logit_directions(data.n_classes, SWEPT_DIRECTIONS, (seed, 0, 2))
        value = row_array((len(directions), len(data)))
        fill_rows(data, Project(directions), [value])
        if not all(np.isfinite(one).all() for one in value):
            raise InputError("worst_slab_coverage needs finite logits, but some classes are masked. Omit it.")
        return cls(sorted_along(value, row_array(value.shape, np.int32)), trials, seed)

    def halves(self, t: int) -> tuple[Along, Along]:
        """The rows that search in a trial, and those that judge."""
        rows = np.flatnonzero(self.trials.evaluation[:, t])
        searched = halves(len(rows), np.random.default_rng((self.seed, t, 1)))
        both = np.zeros((2, len(self.trials.evaluation)), dtype=np.bool_)
        both[0, rows[searched]], both[1, rows[~searched]] = True, True
        return some_along(self.along, both[0]), some_along(self.along, both[1])

    def judge(
        self, shares: SharesByTemperature, scores: Sequence[Score], which: Ints, cuts: Cuts, n_jobs: int | None
    ) -> tuple[Ints, Ints]:
        """Rows and hits of the worst slab for every score, temperature, level and trial, (scores, T, alphas, trials).

        cuts : (scores, T, alphas, K, trials), of which row i is compared with number which[i].
        """
        shape = *cuts.value.shape[:3], cuts.value.shape[4]
        found = np.empty((2, *shape), dtype=np.int64)

        def work(t: int) -> None:
            u, parts = drawn_rows(self.trials.draws, t, np.arange(len(which))), self.halves(t)
            for m, j, a in np.ndindex(shape[:3]):
                cut = Cuts(*(array[m, j, a, :, t] for array in cuts))
                hit = label_hits(scores[m].formula, shares.at(j), u, which, cut)
                found[:, m, j, a, t] = judged_slab(*parts, hit, SLAB_SHARE)

        tasks: list[Callable[[], None]] = [partial(work, t) for t in range(self.trials.count)]
        run_all(tasks, n_jobs=n_jobs)
        return found[0], found[1]
