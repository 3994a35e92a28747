"""The third stage: sizes and hits of the sets of every row, for every score, temperature, level and trial."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from thermoset.core.exponentials import Counts, Floats, Ints
from thermoset.core.label_shares import SharesByTemperature
from thermoset.core.pool import PerThread, for_blocks
from thermoset.core.scores import Score, formulas
from thermoset.core.sources import Block, RankedRows, numbered
from thermoset.core.tallies import AtTemperatures, BlockCuts, BlockDraws, LabelledBlock, SortedCuts, Tally, count_block
from thermoset.core.thresholds import Cuts
from thermoset.core.trials import Trials, drawn_block

__all__ = ["Counted", "Levels", "Part", "count_sets", "total_of"]


@dataclass(frozen=True, eq=False)
class Counted:
    """What the sets of the evaluation rows of each trial hold.

    size, empty : (scores, T, alphas, trials), labels in all sets, and sets without a label; missed : (scores, T,
    alphas, groups, trials), rows of each group (class) whose set lacks their label.
    """

    size: Floats
    empty: Floats
    missed: Counts

    def at(self, m: int, j: int, a: int) -> "Counted":
        """One score, temperature and level: arrays (trials,), (trials,) and (groups, trials)."""
        return Counted(self.size[m, j, a], self.empty[m, j, a], self.missed[m, j, a])


@dataclass(frozen=True)
class Levels:
    """What is counted: scores, temperatures, and the thresholds to compare with.

    One for all classes: (scores, T, alphas, trials); by class: (scores, T, alphas, C, trials).
    """

    scores: tuple[Score, ...]
    temperatures: Floats
    cuts: Cuts


@dataclass(frozen=True, eq=False)
class Part:
    """Trials that are counted at the same temperatures, and the label shares at these."""

    shares: SharesByTemperature
    levels: Levels
    trials: Trials


def count_sets(
    rows: RankedRows,
    groups: Ints,
    parts: Sequence[Part],
    *,
    n_jobs: int | None = None,
    progress: Callable[[], None] | None = None,
) -> list[Counted]:
    """Sizes, empty sets and misses of the evaluation rows of every trial, for each part, in one pass over the rows.

    `groups` (n,) says where each row's miss is counted: its class, as the columns of `Trials.counts` number them.
    """
    counters, own = [_Counter(part) for part in parts], numbered(groups)

    def work(block: Block, place: slice) -> None:
        some = LabelledBlock(rows.rank(place, block), own[place], parts[0].shares.all.rank[place])
        for counter in counters:
            counter.count(some, place)

    for_blocks(rows.source, work, n_jobs=n_jobs, progress=progress)
    return [total_of(counter.tallies.all()) for counter in counters]


class _Counter:
    """The tallies of one part."""

    def __init__(self, part: Part) -> None:
        self._part, cuts = part, part.levels.cuts
        self._cuts = SortedCuts(*cuts, np.lexsort((cuts.refine, cuts.value), axis=-1))
        self._formulas = formulas(part.levels.scores)
        # No method of this object: it and its shares would wait for the garbage collector, turn after turn.
        self.tallies = PerThread(partial(_tally, cuts.value.shape, part.trials.counts.shape[1]))

    def count(self, rows: LabelledBlock, place: slice) -> None:
        """Add what the sets of a block hold."""
        part = self._part
        at = AtTemperatures(part.levels.temperatures, part.shares.top_of(place))
        seen = part.trials.evaluation[place].astype(np.float64)
        draws = BlockDraws(drawn_block(part.trials.draws, place), seen)
        count_block(rows, at, self._formulas, BlockCuts(draws, self._cuts), self.tallies.mine())


def _tally(shape: tuple[int, ...], n_groups: int) -> Tally:
    missed = np.zeros((*shape[:3], n_groups, shape[3]), dtype=np.int32)
    return Tally(np.zeros(shape), np.zeros(shape), missed)


def total_of(tallies: Sequence[Tally]) -> Counted:
    """The sum over threads: integers, so neither the order of blocks nor the number of threads matters."""
    first, *others = tallies
    for other in others:
        first.size[...] += other.size
        first.empty[...] += other.empty
        first.missed[...] += other.missed
    return Counted(*first)
