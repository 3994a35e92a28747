"""Sets with thresholds by class (Mondrian, clustered): not prefixes of the ranking, so every label is asked.

A score never falls as the rank grows. So beyond the first rank whose score exceeds the largest finite threshold only
labels with an infinite one are inside, and few labels need more than a comparison of logits.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel, part
from thermoset.core.counting import Counted, Levels, Tally, total_of
from thermoset.core.exponentials import Bools, Counts, Floats, Ints
from thermoset.core.levels import Alpha, exact_level
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
from thermoset.core.pool import PerThread, for_blocks
from thermoset.core.scores import (
    Cut,
    Formula,
    Formulas,
    Score,
    formula_at,
    formulas,
    label_refine,
    label_value,
    lets_in,
    score_value,
)
from thermoset.core.sources import Block, Source, ranked, widened
from thermoset.core.thresholds import Cuts, ScorePairs, select
from thermoset.core.trials import Trials, drawn_block
from thermoset.core.uniforms import Randomness

__all__ = [
    "NULL_GROUP",
    "ascending",
    "class_sets",
    "count_class_sets",
    "group_thresholds",
    "rank_table",
    "score_matrix",
]


class UnrankedBlock(NamedTuple):
    """Rows as they came and ranked, and each row's u."""

    rows: Floats
    ranked: Floats
    u: Floats


@part
def _position(ranked: Floats, row: Floats, label: int) -> int:
    """Where a label stands in its ranked row; of equal logits the lower label index ranks higher."""
    value, low, high = row[label], 0, ranked.shape[0]
    if value == -np.inf:
        return 0  # masked classes have no order
    while low < high:  # the first place beyond all logits that are not larger
        middle = (low + high) // 2
        if ranked[middle] <= value:
            low = middle + 1
        else:
            high = middle
    position = low - 1
    if position > 0 and ranked[position - 1] == value:  # ties: those with a lower index come first
        for j in range(label):
            position -= row[j] == value
    return position


@part
def _linear_shares(row: WeightedRow, masses: RowMasses, position: int) -> Shares:
    """Shares without their logs, which cost most."""
    total = 1.0 + masses.below[masses.below.shape[0] - 1]
    low, tail = masses.above[position] / total, masses.below[position] / total
    return Shares(low, row.weight[position] / total, tail, 1.0 / total, 0.0, 0.0, 0.0)


@part
def _reach(row: WeightedRow, masses: RowMasses, formula: Formula, u: float, largest: float) -> int:
    """How many ranks have a value of at most `largest`: gallop from the top, then bisect."""
    n_classes = row.weight.shape[0]
    inside, outside, step = 0, n_classes - row.masked + 1, 1
    while outside - inside > 1:
        rank = min(inside + step, outside - 1) if step > 0 else (inside + outside) // 2
        if score_value(formula, rank, _linear_shares(row, masses, n_classes - rank), u) <= largest:
            inside, step = rank, 2 * step
        else:
            outside, step = rank, 0
    return inside


@kernel
def _fill_sets(
    block: UnrankedBlock, temperature: float, formula: Formula, cuts: Cuts, largest: Floats, sets: Bools
) -> None:
    """Whether each label is inside, for thresholds (n_levels, C) by class: sets (n_levels, n_rows, C).

    `largest` is the largest finite threshold of each level.
    """
    n_classes = block.ranked.shape[1]
    gaps, weight, masses = np.empty(n_classes), np.empty(n_classes), row_masses(n_classes)
    for i in range(block.ranked.shape[0]):
        rising, given, u = block.ranked[i], block.rows[i], block.u[i]
        row = WeightedRow(gaps, rank_gaps(rising, gaps), 1.0 / temperature, weight)
        weigh(gaps, temperature, weight)
        fill_masses(row, masses)
        for t in range(cuts.value.shape[0]):
            reach, inside = _reach(row, masses, formula, u, largest[t]), sets[t, i]
            last = rising[n_classes - reach] if reach > 0 else np.inf
            for label in range(n_classes):
                inside[label] = cuts.value[t, label] == np.inf
            for label in range(n_classes):
                if given[label] >= last and not inside[label]:
                    p = _position(rising, given, label)
                    cut = Cut(cuts.value[t, label], cuts.refine[t, label])
                    inside[label] = _enters(row, masses, formula, p, u, cut)


@part
def _enters(row: WeightedRow, masses: RowMasses, formula: Formula, position: int, u: float, cut: Cut) -> bool:
    """Whether the label at a position is inside; values nearly always decide, without logarithms."""
    rank = row.weight.shape[0] - position
    if position < row.masked:
        return cut.value == np.inf
    value = score_value(formula, rank, _linear_shares(row, masses, position), u)
    if value == cut.value:
        return lets_in(cut, formula, rank, shares_at(row, position, masses_at(masses, position)), u)
    return value < cut.value


def _largest_finite(values: Floats) -> Floats:
    """The largest finite threshold of each level (the first axis); -inf where there is none."""
    finite = np.where(np.isfinite(values), values, -np.inf)
    largest: Floats = finite.reshape(len(values), -1).max(axis=1)
    return largest


def class_sets(
    source: Source, score: Score, temperature: float, randomness: Randomness, thresholds: ScorePairs
) -> Bools:
    """Sets under one threshold for each class: thresholds (n_thresholds, C), sets (n_thresholds, n_rows, C)."""
    sets = np.empty((len(thresholds.value), source.n_rows, source.n_classes), dtype=np.bool_)
    largest = _largest_finite(thresholds.value)

    def work(block: Block, place: slice) -> None:
        rows = ranked(block)
        given = UnrankedBlock(widened(block), rows, randomness.block(rows, place))
        _fill_sets(given, temperature, score.formula, thresholds.cuts, largest, sets[:, place])

    for_blocks(source, work)
    return sets


@kernel
def _fill_matrix(block: UnrankedBlock, temperature: float, formula: Formula, out: Cuts) -> None:
    """Scores of every label."""
    n_classes = block.ranked.shape[1]
    gaps, weight, masses = np.empty(n_classes), np.empty(n_classes), row_masses(n_classes)
    for i in range(block.ranked.shape[0]):
        row = WeightedRow(gaps, rank_gaps(block.ranked[i], gaps), 1.0 / temperature, weight)
        weigh(gaps, temperature, weight)
        fill_masses(row, masses)
        for label in range(n_classes):
            p = _position(block.ranked[i], block.rows[i], label)
            shares = shares_at(row, p, masses_at(masses, p))
            out.value[i, label] = label_value(formula, n_classes - p, shares, block.u[i])
            out.refine[i, label] = label_refine(formula, shares, block.u[i])


def score_matrix(source: Source, score: Score, temperature: float, randomness: Randomness) -> ScorePairs:
    """Score of every label of every row, (n_rows, C), in label order."""
    pairs = ScorePairs(np.empty((source.n_rows, source.n_classes)), np.empty((source.n_rows, source.n_classes)))

    def work(block: Block, place: slice) -> None:
        rows = ranked(block)
        given = UnrankedBlock(widened(block), rows, randomness.block(rows, place))
        _fill_matrix(given, temperature, score.formula, Cuts(pairs.value[place], pairs.refine[place]))

    for_blocks(source, work)
    return pairs


NULL_GROUP = -1
"""The group of classes too rare for a threshold of their own: it pools the rows of all classes."""


class GroupedRows(NamedTuple):
    """Label scores in order of their groups: group g has places edges[g] .. edges[g + 1]."""

    value: Floats
    refine: Floats
    edges: Ints


@kernel
def _fill_thresholds(rows: GroupedRows, ranks: Ints, out: Cuts) -> None:
    """Order statistic ranks[a, n] of each group of n rows: out (alphas, groups)."""
    scratch = np.empty(rows.value.shape[0])
    for g in range(rows.edges.shape[0] - 1):
        first, stop = rows.edges[g], rows.edges[g + 1]
        n = stop - first
        for a in range(ranks.shape[0]):
            k = ranks[a, n]
            if k > n:
                out.value[a, g], out.refine[a, g] = np.inf, np.inf
                continue
            for i in range(n):
                scratch[i] = rows.value[first + i]
            q = select(scratch, n, k)
            below, ties = 0, np.int64(0)
            for i in range(first, stop):
                below += rows.value[i] < q
                if rows.value[i] == q:
                    scratch[ties] = rows.refine[i]
                    ties += 1
            out.value[a, g], out.refine[a, g] = q, select(scratch, ties, k - below)


def rank_table(n_rows: int, alphas: Sequence[Alpha]) -> Ints:
    """The rank of the threshold for each level and number of rows, (alphas, n_rows + 1): no row has none."""
    table = np.empty((len(alphas), n_rows + 1), dtype=np.int64)
    for a, alpha in enumerate(alphas):
        kept = 1 - exact_level(alpha)
        # ceil((n + 1) kept) in whole numbers, for all n at once
        table[a] = -((-np.arange(1, n_rows + 2, dtype=object) * kept.numerator) // kept.denominator)
    return table


def group_thresholds(scores: ScorePairs, labels: Ints, group_of_class: Ints, ranks: Ints) -> ScorePairs:
    """Thresholds by class, (alphas, C): each class has that of its group, from the rows of the group's classes.

    `ranks` is a `rank_table` for at least as many rows.
    """
    groups, group_index = np.unique(group_of_class, return_inverse=True)
    group_of_row = group_index[labels]
    order = np.argsort(group_of_row, kind="stable")
    edges = np.searchsorted(group_of_row[order], np.arange(len(groups) + 1))
    out = Cuts(np.empty((len(ranks), len(groups))), np.empty((len(ranks), len(groups))))
    _fill_thresholds(GroupedRows(scores.value[order], scores.refine[order], edges), ranks, out)
    if groups[0] == NULL_GROUP:
        whole = Cuts(out.value[:, :1].copy(), out.refine[:, :1].copy())
        _fill_thresholds(GroupedRows(scores.value, scores.refine, np.array([0, len(labels)])), ranks, whole)
        out.value[:, :1], out.refine[:, :1] = whole
    return ScorePairs(out.value[:, group_index], out.refine[:, group_index])


class TrialBlock(NamedTuple):
    """Ranked rows, the label at each place, rows' own labels, u in each trial, and which trials evaluate them."""

    ranked: Floats
    order: Ints
    label: Ints
    u: Floats
    seen: Bools


class ClassCuts(NamedTuple):
    """Thresholds by class and trial, (scores, T, alphas, C, trials); -inf stands for infinite ones.

    infinite : how many classes have an infinite one, (scores, T, alphas, trials); least, most : the range of a class's
    thresholds over trials, (scores, T, alphas, C), least being -inf where one is infinite; reach : the largest finite
    one of all, (scores, T, alphas).
    """

    value: Floats
    refine: Floats
    infinite: Counts
    least: Floats
    most: Floats
    reach: Floats


class ClassLine(NamedTuple):
    """One row, score, temperature and level over the trials.

    u; thresholds value and refine (C, trials) with the range least, most (C,) and reach of `ClassCuts`; size of the
    sets found; hit: whether the label last asked for is inside.
    """

    u: Floats
    value: Floats
    refine: Floats
    least: Floats
    most: Floats
    reach: float
    size: Counts
    hit: Bools


@part
def _ask_trials(
    row: WeightedRow, masses: RowMasses, formula: Formula, position: int, label: int, line: ClassLine
) -> None:
    """Find whether the label at a position is inside in each trial: `line.hit`."""
    rank, shares = row.weight.shape[0] - position, _linear_shares(row, masses, position)
    cut, u, hit, tied = line.value[label], line.u, line.hit, False
    for t in range(u.shape[0]):
        value = score_value(formula, rank, shares, u[t])
        hit[t] = value < cut[t]
        tied |= value == cut[t]
    if tied:
        full = shares_at(row, position, masses_at(masses, position))
        for t in range(u.shape[0]):
            hit[t] = lets_in(Cut(cut[t], line.refine[label, t]), formula, rank, full, u[t])


@part
def _fill_line(row: WeightedRow, masses: RowMasses, formula: Formula, order: Ints, line: ClassLine) -> None:
    """Add the labels with finite thresholds to the sizes of one row's sets."""
    n_classes, everywhere = row.weight.shape[0], 0
    for position in range(n_classes - 1, row.masked - 1, -1):
        rank, shares, label = n_classes - position, _linear_shares(row, masses, position), order[position]
        start = score_value(formula, rank, shares, 0.0)
        if start > line.reach:
            break  # and so do all that rank lower
        if score_value(formula, rank, shares, 1.0) < line.least[label]:
            everywhere += 1
        elif start <= line.most[label]:
            _ask_trials(row, masses, formula, position, label, line)
            for t in range(line.size.shape[0]):
                line.size[t] += line.hit[t]
    for t in range(line.size.shape[0]):
        line.size[t] += everywhere


@part
def _fill_hits(
    row: WeightedRow, masses: RowMasses, formula: Formula, position: int, label: int, line: ClassLine
) -> None:
    """Find whether a label is inside in each trial, also under an infinite threshold: `line.hit`."""
    if position >= row.masked:
        _ask_trials(row, masses, formula, position, label, line)
    else:
        for t in range(line.hit.shape[0]):
            line.hit[t] = False
    for t in range(line.hit.shape[0]):
        line.hit[t] |= line.value[label, t] == -np.inf


@kernel
def _count_block(
    block: TrialBlock, temperatures: Floats, scores: Formulas, cuts: ClassCuts, least: int, tally: Tally
) -> None:
    """Add what the sets of these rows hold, for each score, temperature, level and trial."""
    n_classes, trials = block.ranked.shape[1], block.u.shape[1]
    gaps, weight, masses = np.empty(n_classes), np.empty(n_classes), row_masses(n_classes)
    size, hit = np.empty(trials, dtype=np.int32), np.empty(trials, dtype=np.bool_)
    for i in range(block.ranked.shape[0]):
        masked, seen, label, position = rank_gaps(block.ranked[i], gaps), block.seen[i], block.label[i], 0
        while block.order[i, position] != label:
            position += 1
        for j in range(temperatures.shape[0]):
            row = WeightedRow(gaps, masked, 1.0 / temperatures[j], weight)
            weigh(gaps, temperatures[j], weight)
            fill_masses(row, masses)
            for m in range(scores.code.shape[0]):
                formula = formula_at(scores, m)
                for a in range(cuts.reach.shape[2]):
                    line = ClassLine(
                        block.u[i], cuts.value[m, j, a], cuts.refine[m, j, a], cuts.least[m, j, a],
                        cuts.most[m, j, a], cuts.reach[m, j, a], size, hit,
                    )  # fmt: skip
                    for t in range(trials):
                        size[t] = cuts.infinite[m, j, a, t]
                    _fill_line(row, masses, formula, block.order[i], line)
                    _fill_hits(row, masses, formula, position, label, line)
                    missed = tally.missed[m, j, a, label]
                    for t in range(trials):
                        if seen[t]:
                            kept = size[t] == 0 and least > 0  # the top label joins a set that would be empty
                            tally.size[m, j, a, t] += 1 if kept else size[t]
                            tally.empty[m, j, a, t] += size[t] == 0 and not kept
                            missed[t] += not (hit[t] or (kept and position == n_classes - 1))


def ascending(block: Block) -> tuple[Floats, Ints]:
    """Rows in ascending order, and the label at each place: position p is rank C - p, and ties rank by label index."""
    order = np.argsort(block, axis=1)
    rising = np.take_along_axis(block, order, axis=1)
    # The quick sort leaves ties in any order. Rows that have some are sorted again: mirrored, stably, much slower.
    tied = np.flatnonzero((rising[:, 1:] == rising[:, :-1]).any(axis=1))
    order[tied] = block.shape[1] - 1 - np.argsort(block[tied, ::-1], axis=1, kind="stable")
    rising[tied] = np.take_along_axis(block[tied], order[tied], axis=1)
    return widened(rising), order


def count_class_sets(
    source: Source,
    labels: Ints,
    levels: Levels,
    trials: Trials,
    *,
    n_jobs: int | None = None,
    progress: Callable[[], None] | None = None,
) -> Counted:
    """What the sets of the evaluation rows of every trial hold, under thresholds (scores, T, alphas, C, trials)."""
    finite = np.isfinite(levels.cuts.value)
    value = np.where(finite, levels.cuts.value, -np.inf)
    most = value.max(axis=4)
    infinite = np.count_nonzero(~finite, axis=3).astype(np.int32)
    cuts = ClassCuts(value, levels.cuts.refine, infinite, value.min(axis=4), most, most.max(axis=3))
    given = formulas(levels.scores)
    shape = infinite.shape

    def tally() -> Tally:
        sums = np.zeros((2, *shape), dtype=np.int64)
        return Tally(sums[0], sums[1], np.zeros(value.shape, dtype=np.int32))

    tallies = PerThread(tally)

    def work(block: Block, place: slice) -> None:
        u, seen = drawn_block(trials.draws, place), trials.evaluation[place]
        some = TrialBlock(*ascending(block), labels[place], u, seen)
        _count_block(some, levels.temperatures, given, cuts, levels.least, tallies.mine())

    for_blocks(source, work, n_jobs=n_jobs, progress=progress)
    return total_of(tallies.all())
