"""The third stage with thresholds by class: sizes and hits of the sets of every row, trial by trial.

Over trials a class has a range of thresholds. A label whose score is below it for every u is inside in all trials, one
above it in none, and only the others are compared trial by trial.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel, part
from thermoset.core.counting import Asked, Counted, Levels, empty_tally, misses_of
from thermoset.core.exponentials import Bools, Counts, Floats, Ints
from thermoset.core.formulas import Cut, Formula, Formulas, fill_values, formula_at, lets_in, score_value
from thermoset.core.masses import (
    RowMasses,
    Shares,
    WeightedRow,
    fill_masses,
    masses_at,
    rank_gaps,
    row_masses,
    shares_at,
    weigh,
)
from thermoset.core.scores import formulas
from thermoset.core.sources import Block, Source, ascending, numbered
from thermoset.core.stages import UNTOLD, Told, total
from thermoset.core.tallies import Tally
from thermoset.core.trials import Draws, Trials, drawn_block

__all__ = ["count_class_sets"]


class TrialBlock(NamedTuple):
    """Ranked rows, the label at each place, rows' own labels, and where a no to each question is counted (n_rows, Q).

    u : in each trial; seen : 1 where a trial evaluates the row, else 0.
    """

    ranked: Floats
    order: Ints
    label: Ints
    cell: Ints
    u: Floats
    seen: Floats


class ClassCuts(NamedTuple):
    """Thresholds by class and trial, (scores, T, alphas, C, trials); NaN stands for +inf: no score is compared with it.

    infinite : how many classes have +inf, (scores, T, alphas, trials); least, most : the range of a class's other
    thresholds over trials, (scores, T, alphas, C), least being -inf where one is +inf; reach : the largest of all but
    +inf, (scores, T, alphas).
    """

    value: Floats
    refine: Floats
    infinite: Floats
    least: Floats
    most: Floats
    reach: Floats


class ClassLine(NamedTuple):
    """One row, score, temperature and level over the trials.

    u and seen of `TrialBlock`; thresholds value and refine (C, trials) with the range least, most (C,) and reach of
    `ClassCuts`. size: how many labels the sets hold; hit: 1 for each trial in which the row's own label is inside;
    scratch: room for the scores of a label.
    """

    u: Floats
    seen: Floats
    value: Floats
    refine: Floats
    least: Floats
    most: Floats
    reach: float
    size: Floats
    hit: Floats
    scratch: Floats


class Questions(NamedTuple):
    """What is asked of every set: as in `Asked`, (Q,) each."""

    least: Ints
    own: Bools


class RowShares(NamedTuple):
    """A weighted row, its masses, and the shares that scores take from them, by position."""

    row: WeightedRow
    masses: RowMasses
    low: Floats
    own: Floats
    tail: Floats


@part
def _share_row(at: RowShares, temperature: float) -> None:
    """Fill the weights, masses and shares of a row whose gaps are known."""
    weight, low, own, tail, above, below = at.row.weight, at.low, at.own, at.tail, at.masses.above, at.masses.below
    weigh(at.row.gaps, temperature, weight)
    fill_masses(at.row, at.masses)
    total = 1.0 + below[below.shape[0] - 1]
    for p in range(low.shape[0]):
        low[p] = above[p] / total
        own[p] = weight[p] / total
        tail[p] = below[p] / total


@part
def _shares_of(at: RowShares, position: int) -> Shares:
    """Shares without their logs."""
    return Shares(at.low[position], at.own[position], at.tail[position], at.own[at.own.shape[0] - 1], 0.0, 0.0, 0.0)


@part
def _add_label(at: RowShares, formula: Formula, position: int, label: int, line: ClassLine, out: Floats) -> None:
    """Add 1 to `out` in each trial in which the label at a position is inside under a finite threshold."""
    rank = at.low.shape[0] - position
    cut, u, value, tied = line.value[label], line.u, line.scratch, False
    fill_values(formula, rank, _shares_of(at, position), u, value)
    for t in range(u.shape[0]):
        out[t] += 1.0 if value[t] < cut[t] else 0.0
        tied |= value[t] == cut[t]
    if tied:
        _add_ties(at, formula, position, label, line, out)


@part
def _add_ties(at: RowShares, formula: Formula, position: int, label: int, line: ClassLine, out: Floats) -> None:
    """Add 1 where refinements let a label in; a threshold ties with the row that set it, which is not evaluated."""
    cut, refine, matters = line.value[label], line.refine[label], False
    for t in range(cut.shape[0]):
        matters |= (line.scratch[t] == cut[t]) & (line.seen[t] > 0.0)
    if matters:
        rank, shares = at.low.shape[0] - position, shares_at(at.row, position, masses_at(at.masses, position))
        for t in range(cut.shape[0]):
            if line.scratch[t] == cut[t]:
                out[t] += lets_in(Cut(cut[t], refine[t]), formula, rank, shares, line.u[t])


@part
def _fill_line(at: RowShares, formula: Formula, order: Ints, line: ClassLine) -> None:
    """Add the labels with finite thresholds to the sizes of one row's sets."""
    n_classes, everywhere, size = at.low.shape[0], 0.0, line.size
    for position in range(n_classes - 1, at.row.masked - 1, -1):
        rank, shares, label = n_classes - position, _shares_of(at, position), order[position]
        start = score_value(formula, rank, shares, 0.0)
        if start > line.reach:
            break  # and so do all that rank lower
        if start > line.most[label]:
            continue
        if score_value(formula, rank, shares, 1.0) < line.least[label]:
            everywhere += 1.0
        else:
            _add_label(at, formula, position, label, line, size)
    for t in range(size.shape[0]):
        size[t] += everywhere


@part
def _fill_hits(at: RowShares, formula: Formula, position: int, label: int, line: ClassLine) -> None:
    """Find whether a label is inside in each trial, also under an infinite threshold: `line.hit`."""
    cut, hit = line.value[label], line.hit
    for t in range(hit.shape[0]):
        hit[t] = 1.0 if np.isnan(cut[t]) else 0.0
    if position >= at.row.masked:
        _add_label(at, formula, position, label, line, hit)


@part
def _tally_line(line: ClassLine, size: Floats, empty: Floats) -> None:
    """Count the sizes of one row's sets."""
    for t in range(line.size.shape[0]):
        size[t] += line.seen[t] * line.size[t]
        empty[t] += line.seen[t] * (1.0 if line.size[t] == 0.0 else 0.0)


@part
def _tally_noes(line: ClassLine, questions: Questions, cells: Ints, missed: Counts) -> None:
    """Count the answers of one row's sets that are no."""
    for q in range(cells.shape[0]):
        least, own, noes = questions.least[q], questions.own[q], missed[cells[q]]
        for t in range(line.size.shape[0]):
            enough = 1.0 if line.size[t] >= least else 0.0
            noes[t] += np.int32(line.seen[t] * (1.0 - enough * (line.hit[t] if own else 1.0)))


@part
def _place_of(order: Ints, label: int) -> int:
    """Where a label stands."""
    position = 0
    while order[position] != label:
        position += 1
    return position


@kernel
def _count_block(
    block: TrialBlock, temperatures: Floats, scores: Formulas, cuts: ClassCuts, questions: Questions, tally: Tally
) -> None:
    """Add what the sets of these rows hold, for each score, temperature, level and trial.

    Temperatures come first: the thresholds of one stay in the cache for all rows.
    """
    n_rows, n_classes = block.ranked.shape
    trials = block.u.shape[1]
    gaps, weight, masses = np.empty(n_classes), np.empty(n_classes), row_masses(n_classes)
    low, own, tail = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    size, hit, scratch = np.empty(trials), np.empty(trials), np.empty(trials)
    for j in range(temperatures.shape[0]):
        for i in range(n_rows):
            row = WeightedRow(gaps, rank_gaps(block.ranked[i], gaps), 1.0 / temperatures[j], weight)
            at = RowShares(row, masses, low, own, tail)
            _share_row(at, temperatures[j])
            label, position = block.label[i], _place_of(block.order[i], block.label[i])
            for m in range(scores.code.shape[0]):
                formula = formula_at(scores, m)
                for a in range(cuts.reach.shape[2]):
                    line = ClassLine(
                        block.u[i], block.seen[i], cuts.value[m, j, a], cuts.refine[m, j, a], cuts.least[m, j, a],
                        cuts.most[m, j, a], cuts.reach[m, j, a], size, hit, scratch,
                    )  # fmt: skip
                    infinite = cuts.infinite[m, j, a]
                    for t in range(trials):
                        size[t] = infinite[t]
                    _fill_line(at, formula, block.order[i], line)
                    _fill_hits(at, formula, position, label, line)
                    _tally_line(line, tally.size[m, j, a], tally.empty[m, j, a])
                    _tally_noes(line, questions, block.cell[i], tally.missed[m, j, a])


def count_class_sets(
    source: Source,
    labels: Ints,
    levels: Levels,
    trials: Trials,
    *,
    asked: Asked | None = None,
    told: Told = UNTOLD,
) -> Counted:
    """What the sets of the evaluation rows of every trial hold, under thresholds (scores, T, alphas, C, trials).

    If nothing is `asked`, misses are counted by class.
    """
    unbounded = np.isposinf(levels.cuts.value)
    value, bounded = (np.where(unbounded, instead, levels.cuts.value) for instead in (np.nan, -np.inf))
    most = bounded.max(axis=4)
    infinite = np.count_nonzero(unbounded, axis=3).astype(np.float64)
    cuts = ClassCuts(value, levels.cuts.refine, infinite, bounded.min(axis=4), most, most.max(axis=3))
    own = numbered(labels)
    given = misses_of(own, source.n_classes) if asked is None else asked
    of_rows, questions = (own, given.cell, trials.evaluation), Questions(given.least, given.own)
    at = formulas(levels.scores), levels.temperatures, cuts
    stage = _CountSets(0, *of_rows, *at, questions, trials.draws, given.n_cells)
    return Counted(*total(source, stage, told))


@dataclass(frozen=True, eq=False)
class _CountSets:
    """The stage: the tally of what sets hold."""

    first: int
    labels: Ints
    cells: Ints
    evaluation: Bools
    formulas: Formulas
    temperatures: Floats
    cuts: ClassCuts
    questions: Questions
    draws: Draws
    n_cells: int

    def rows(self, place: slice) -> "_CountSets":
        of_rows = {name: getattr(self, name)[place] for name in ("labels", "cells", "evaluation")}
        return replace(self, first=self.first + place.start, **of_rows)

    def zero(self) -> Tally:
        return empty_tally(self.cuts.infinite.shape, self.n_cells)

    def add(self, block: Block, sums: Tally) -> None:
        u = drawn_block(self.draws, slice(self.first, self.first + len(block)))
        some = TrialBlock(*ascending(block), self.labels, self.cells, u, self.evaluation.astype(np.float64))
        _count_block(some, self.temperatures, self.formulas, self.cuts, self.questions, sums)
