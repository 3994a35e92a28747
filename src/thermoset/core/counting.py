"""The third stage: sizes and hits of the sets of every row, for every score, temperature, level and trial.

What is counted of a set is asked as a question: does it have at least so many labels, and its row's own label? A no is
counted in a cell. The misses of a class are one question, whose cell is the row's class; those of a group, or of a
stratum of set sizes, are others, and all of them are answered by one walk along the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.core.exponentials import Bools, Counts, Floats, Ints
from thermoset.core.formulas import Formulas
from thermoset.core.label_shares import SharesByTemperature
from thermoset.core.scores import Score, formulas
from thermoset.core.sources import Block, RankedRows, Ranking, numbered
from thermoset.core.stages import UNTOLD, Told, total
from thermoset.core.tallies import AskedBlock, AtTemperatures, BlockCuts, BlockDraws, SortedCuts, Tally, count_block
from thermoset.core.thresholds import Cuts
from thermoset.core.trials import Draws, Trials, drawn_block

__all__ = ["Asked", "Counted", "Levels", "Part", "count_sets", "empty_tally", "misses_of"]


@dataclass(frozen=True, eq=False)
class Counted:
    """What the sets of the evaluation rows of each trial hold.

    size, empty : (scores, T, alphas, trials), labels in all sets, and sets without a label; missed : (scores, T,
    alphas, cells, trials), how many sets have no for an answer: with one question, the rows of each group (class)
    whose set lacks their label.
    """

    size: Floats
    empty: Floats
    missed: Counts

    def at(self, m: int, j: int, a: int) -> "Counted":
        """One score, temperature and level: arrays (trials,), (trials,) and (cells, trials)."""
        return Counted(self.size[m, j, a], self.empty[m, j, a], self.missed[m, j, a])


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of the set of every row: whether it has `least` labels or more, and the row's own if `own`.

    cell : (n, Q), where a no is counted, from 0 to n_cells - 1; least : (Q,); own : (Q,).
    """

    cell: Ints
    least: Ints
    own: Bools
    n_cells: int

    def ranks(self, label_ranks: Ints) -> Ints:
        """For sets that are prefixes: which rank (n, Q) must be inside, given those of the labels (n,)."""
        return np.maximum(np.where(self.own, label_ranks[:, None], 1), self.least)

    def noes(self, sizes: Ints, hits: Bools, rows: Ints | slice) -> Ints:
        """Noes of each cell for the sets of some rows, given their sizes and whether they hold their row's label.

        >>> misses_of(np.array([1, 0, 1]), 2).noes(np.array([1, 2, 0]), np.array([True, True, False]), slice(3))
        array([0, 1])
        """
        inside = (sizes[:, None] >= self.least) & (hits[:, None] | ~self.own)
        return np.bincount(self.cell[rows][~inside], minlength=self.n_cells)


def misses_of(groups: Ints, n_groups: int) -> Asked:
    """The one question whether a set holds its row's label; a no is counted in the row's group (n,), such as its class.

    >>> misses_of(np.array([1, 0]), 2).ranks(np.array([3, 7]))
    array([[3],
           [7]])
    """
    return Asked(numbered(groups)[:, None], np.ones(1, dtype=np.int64), np.ones(1, dtype=np.bool_), n_groups)


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


def count_sets(rows: RankedRows, asked: Asked, parts: Sequence[Part], told: Told = UNTOLD) -> list[Counted]:
    """Sizes, empty sets and noes of the evaluation rows of every trial, for each part, in one pass over the rows."""
    counters = tuple(_Counter.of(part, asked.n_cells) for part in parts)
    stage = _CountSets(rows.ranking, 0, asked.cell, asked.ranks(parts[0].shares.all.rank), counters)
    flat, width = total(rows.source, stage, told), len(Tally._fields)
    return [Counted(*flat[start : start + width]) for start in range(0, len(flat), width)]


@dataclass(frozen=True, eq=False)
class _Counter:
    """What counting one part needs: top shares (T, n), evaluation (n, trials), thresholds."""

    formulas: Formulas
    temperatures: Floats
    top: Floats
    evaluation: Bools
    draws: Draws
    cuts: SortedCuts
    n_cells: int

    @classmethod
    def of(cls, part: Part, n_cells: int) -> "_Counter":
        cuts, trials = part.levels.cuts, part.trials
        ordered = SortedCuts(*cuts, np.lexsort((cuts.refine, cuts.value), axis=-1))
        of_rows = part.shares.all.top, trials.evaluation
        given = formulas(part.levels.scores), part.levels.temperatures
        return cls(*given, *of_rows, trials.draws, ordered, n_cells)

    def rows(self, place: slice) -> "_Counter":
        return replace(self, top=self.top[:, place], evaluation=self.evaluation[place])

    def add(self, rows: AskedBlock, first: int, tally: Tally) -> None:
        """Add what the sets of a block hold; `first` is its first row."""
        at = AtTemperatures(self.temperatures, np.ascontiguousarray(self.top))
        u = drawn_block(self.draws, slice(first, first + len(rows.rank)))
        draws = BlockDraws(u, self.evaluation.astype(np.float64))
        count_block(rows, at, self.formulas, BlockCuts(draws, self.cuts), tally)


@dataclass(frozen=True, eq=False)
class _CountSets:
    """The stage: the tallies of all parts, one after the other."""

    ranking: Ranking
    first: int
    cells: Ints
    ranks: Ints
    counters: tuple[_Counter, ...]

    def rows(self, place: slice) -> "_CountSets":
        return replace(
            self,
            first=self.first + place.start,
            cells=self.cells[place],
            ranks=self.ranks[place],
            counters=tuple(counter.rows(place) for counter in self.counters),
        )

    def zero(self) -> tuple[NDArray[Any], ...]:
        tallies = (empty_tally(counter.cuts.value.shape, counter.n_cells) for counter in self.counters)
        return tuple(chain.from_iterable(tallies))

    def add(self, block: Block, sums: tuple[NDArray[Any], ...]) -> None:
        some = AskedBlock(self.ranking.of(self.first, block), self.cells, self.ranks)
        for i, counter in enumerate(self.counters):
            width = len(Tally._fields)
            counter.add(some, self.first, Tally(*sums[i * width : (i + 1) * width]))


def empty_tally(shape: tuple[int, ...], n_cells: int) -> Tally:
    """A tally of no rows: shape is that of (scores, T, alphas, trials)."""
    missed = np.zeros((*shape[:3], n_cells, shape[3]), dtype=np.int32)
    return Tally(np.zeros(shape), np.zeros(shape), missed)
