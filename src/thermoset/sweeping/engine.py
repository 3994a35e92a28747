"""The loops of a sweep: what labels need, thresholds of all trials, and what the sets of evaluation rows hold.

Every row is sorted once, and its exponentials are computed once for each temperature; from there on trials and levels
are nearly free. The same loops serve the choice of a temperature and the study. Blocks of rows, threads and workers
write to places of their own or add whole numbers, so they change nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset import kernels
from thermoset.arrays import Block, Bools, Counts, Floats, Ints, Keys, Pairs, as_floats, as_int64, pairs
from thermoset.conformal.groupings import Grouping, rank_table
from thermoset.conformal.scoring import block_parts
from thermoset.levels import Alpha, conformal_rank
from thermoset.rows import Progress, SortedRows, Sorter, Spills, map_rows, row_array, run_tasks, sum_rows
from thermoset.scores import Score, stack_terms

# ---- labels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelParts:
    """What the score of each row's own label needs, at several temperatures.

    ranks : (n,), from 0; gap, second : (n,), how far the label and the second class are below the top; parts :
    (4, T, n), see `kernels.label_parts`.
    """

    temperatures: Floats
    ranks: Ints
    gap: Floats
    second: Floats
    parts: Floats

    def at(self, j: int) -> "LabelParts":
        """One of the temperatures."""
        return replace(self, temperatures=self.temperatures[j : j + 1], parts=self.parts[:, j : j + 1])

    def take(self, rows: Any) -> "LabelParts":
        """Some of the rows."""
        own = {name: getattr(self, name)[rows] for name in ("ranks", "gap", "second")}
        return replace(self, **own, parts=np.ascontiguousarray(self.parts[:, :, rows]))

    @property
    def others(self) -> Floats:
        """The mass of all but the top class, relative to the second: (T, n)."""
        masses: Floats = self.parts[2]
        return masses

    @property
    def is_top(self) -> Bools:
        """Whether the label is the top class, (n,)."""
        return np.asarray(self.ranks == 0)

    def terms(self, j: int) -> tuple[float, Ints, Floats, Floats, Floats]:
        """What kernels take at temperature j."""
        at_j = np.ascontiguousarray(self.parts[:, j])
        return 1.0 / float(self.temperatures[j]), self.ranks, self.gap, self.second, at_j

    def lines(self, score: Score, j: int) -> Floats:
        """The line of every label at temperature j, (4, n); see `kernels.Line`."""
        out = np.empty((4, len(self.ranks)))
        kernels.label_terms(score.terms, *self.terms(j), out)
        return out

    def ties(self, score: Score, j: int, rows: Ints, u: Floats) -> Floats:
        """Tie-breaks of the labels of some rows at temperature j, each with its u."""
        out = np.empty(len(rows))
        kernels.label_ties(score.terms, *self.terms(j), rows, u, out)
        return out

    def scores(self, score: Score, j: int, rows: Ints, u: Floats) -> Pairs:
        """Scores of the labels of some rows at temperature j, each with its u."""
        value = np.empty((1, len(rows)))
        kernels.trial_values(score.terms, self.lines(score, j), rows.astype(np.int32)[None], u[None], value)
        return pairs(value[0], self.ties(score, j, rows, u))


def label_parts(
    rows: SortedRows, labels: Ints, temperatures: Floats, *, n_jobs: int | None = None,
    progress: Progress | None = None,
) -> LabelParts:  # fmt: skip
    """Sort every row once and find what its label's score needs at every temperature."""
    n = rows.source.n_rows
    ranks, gap, second = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
    parts = row_array((4, len(temperatures), n))
    map_rows(
        rows.source,
        _parts_of_block,
        [ranks, gap, second, parts],
        per_row=[range(n), as_int64(labels)],
        fixed=[rows.sorter, temperatures],
        n_jobs=n_jobs,
        progress=progress,
    )
    return LabelParts(temperatures, ranks, gap, second, parts)


def _parts_of_block(
    block: Block, numbers: range, labels: Ints, sorter: Sorter, temperatures: Floats
) -> tuple[Ints, Floats, Floats, Floats]:
    return block_parts(block, sorter.gaps(numbers.start, block), labels, temperatures)


# ---- trials ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trials:
    """Random splits of the rows, and where their u come from.

    conformal : row numbers, (trials, n_conformal), or an array for each trial where they have different numbers;
    evaluation : (n, trials) which rows are evaluated; counts : (trials, C) evaluation rows of each class; keys :
    (trials,), what u is hashed from, unless `randomized` is False and u is 1.
    """

    conformal: Counts | tuple[Counts, ...]
    evaluation: Bools
    counts: Ints
    keys: Keys
    randomized: bool

    @property
    def count(self) -> int:
        """Number of trials."""
        return len(self.conformal)

    def alike(self) -> Iterator[tuple[Any, Counts]]:
        """Trials that have as many conformal rows, by their places, and these rows: (some trials, n_conformal)."""
        if not isinstance(self.conformal, tuple):
            yield slice(None), self.conformal
            return
        sizes = np.array([len(rows) for rows in self.conformal])
        for size in np.unique(sizes):
            which = np.flatnonzero(sizes == size)
            yield which, np.stack([self.conformal[t] for t in which])

    def take(self, which: Ints) -> "Trials":
        """Some of the trials."""
        ragged = isinstance(self.conformal, tuple)
        return replace(
            self,
            conformal=tuple(self.conformal[t] for t in which) if ragged else np.asarray(self.conformal)[which],
            evaluation=np.ascontiguousarray(self.evaluation[:, which]),
            counts=self.counts[which],
            keys=self.keys[which],
        )

    def uniforms(self, which: Any, rows: Counts) -> Floats:
        """The u of rows[t, j] in some trials."""
        u = np.ones(rows.shape)
        if self.randomized:
            kernels.some_trial_uniforms(self.keys[which], rows, u)
        return u


def trial_thresholds(
    labels: LabelParts, scores: Sequence[Score], alphas: Sequence[Alpha], trials: Trials, *, n_jobs: int | None = None
) -> Floats:
    """Thresholds of every score, temperature, level and trial, as values and tie-breaks: (2, M, T, alphas, trials)."""
    out = np.empty((2, len(scores), len(labels.temperatures), len(alphas), trials.count))

    def prepare(rows: Counts) -> list[int]:
        return [conformal_rank(rows.shape[1], alpha) for alpha in alphas]

    return _fill_thresholds(out, labels, scores, trials, prepare, _order_statistics, n_jobs)


def _fill_thresholds(
    out: Floats, labels: LabelParts, scores: Sequence[Score], trials: Trials, prepare: Callable[[Counts], Any],
    thresholds: Callable[..., Floats], n_jobs: int | None,
) -> Floats:  # fmt: skip
    """Fill `out` (2, M, T, ..., trials) with what `thresholds` makes of values of the conformal rows.

    What `prepare` finds of these rows serves all scores and temperatures.
    """
    alike = [(which, rows, trials.uniforms(which, rows), prepare(rows)) for which, rows in trials.alike()]
    spills = Spills([labels.parts])

    def work(j: int) -> None:
        for m, score in enumerate(scores):
            lines = labels.lines(score, j)
            for which, rows, u, prepared in alike:
                values = np.empty(rows.shape)
                kernels.trial_values(score.terms, lines, rows, u, values)
                out[:, m, j][..., which] = thresholds(labels, score, j, values, rows, u, prepared)
        spills.release()

    run_tasks([partial(work, j) for j in range(len(labels.temperatures))], n_jobs=n_jobs)
    return out


def _order_statistics(
    labels: LabelParts, score: Score, j: int, values: Floats, rows: Counts, u: Floats, ks: Sequence[int]
) -> Floats:
    """The k-th smallest score of each trial, (2, levels, trials); tie-breaks are looked at only where values tie."""
    n = values.shape[1]
    places = [min(k, n) - 1 for k in ks]
    ordered = np.sort(values, axis=1) if len(set(places)) > 2 else np.partition(values, sorted(set(places)), axis=1)
    thresholds = np.empty((2, len(ks), len(values)))
    for a, (k, place) in enumerate(zip(ks, places, strict=True)):
        if k > n:
            thresholds[:, a] = np.inf
            continue
        q = ordered[:, place]
        trial, column = np.nonzero(values == q[:, None])
        ties = labels.ties(score, j, rows[trial, column].astype(np.int64), u[trial, column])
        if len(trial) > len(values):  # of tied scores, the one in its place among them
            below = np.count_nonzero(values < q[:, None], axis=1)
            first = np.searchsorted(trial, np.arange(len(values)))
            ties = ties[np.lexsort((ties, trial))][first + (k - 1 - below)]
        thresholds[0, a], thresholds[1, a] = q, ties
    return thresholds


def class_thresholds(
    labels: LabelParts, own: Ints, scores: Sequence[Score], alphas: Sequence[Alpha], grouping: Grouping,
    trials: Trials, seed: int, *, n_jobs: int | None = None,
) -> Floats:  # fmt: skip
    """Thresholds of every class, for each score, temperature, level and trial: (2, M, T, alphas, C, trials)."""
    n_classes = trials.counts.shape[1]
    out = np.empty((2, len(scores), len(labels.temperatures), len(alphas), n_classes, trials.count))
    if grouping.each_class and grouping.exact:  # nothing to find out trial by trial
        prepare = partial(_ClassPlaces.of, own, alphas, n_classes)
        return _fill_thresholds(out, labels, scores, trials, prepare, _class_statistics, n_jobs)
    divided = partial(_divided_statistics, own=own, alphas=alphas, n_classes=n_classes, grouping=grouping, seed=seed)
    return _fill_thresholds(out, labels, scores, trials, lambda _: None, divided, n_jobs)


class _ClassPlaces(NamedTuple):
    """Where the rows of each class stand in a trial once they are ordered by class, and which of them set thresholds.

    classes : (trials, n); first : (trials, C); wanted : for each level trial, class and place, where there is one.
    """

    classes: Ints
    first: Ints
    wanted: list[tuple[Ints, Ints, Ints]]

    @classmethod
    def of(cls, own: Ints, alphas: Sequence[Alpha], n_classes: int, rows: Counts) -> "_ClassPlaces":
        classes, wanted = own[rows], []
        counts = np.array([np.bincount(of_trial, minlength=n_classes) for of_trial in classes])
        first = np.cumsum(counts, axis=1) - counts
        for ranks in rank_table(rows.shape[1], alphas):
            t, c = np.nonzero(ranks[counts] <= counts)
            wanted.append((t, c, first[t, c] + ranks[counts[t, c]] - 1))
        return cls(classes, first, wanted)


def _class_statistics(
    labels: LabelParts, score: Score, j: int, values: Floats, rows: Counts, u: Floats, places: _ClassPlaces
) -> Floats:
    """The order statistics of each class, (2, levels, C, trials)."""
    order = np.empty(values.shape, dtype=np.int64)
    kernels.group_by_class(np.argsort(values, axis=1), places.classes, places.first.copy(), order)
    ordered = np.take_along_axis(values, order, axis=1)
    for trial in np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1)):  # tie-breaks only where values tie
        ties = labels.ties(score, j, as_int64(rows[trial]), u[trial])
        order[trial] = np.lexsort((ties, values[trial], places.classes[trial]))
    thresholds = np.full((2, len(places.wanted), places.first.shape[1], len(rows)), np.inf)
    for a, (t, c, place) in enumerate(places.wanted):
        column = order[t, place]
        thresholds[0, a, c, t] = values[t, column]
        thresholds[1, a, c, t] = labels.ties(score, j, as_int64(rows[t, column]), u[t, column])
    return thresholds


def _divided_statistics(
    labels: LabelParts, score: Score, j: int, values: Floats, rows: Counts, u: Floats, _: None, *, own: Ints,
    alphas: Sequence[Alpha], n_classes: int, grouping: Grouping, seed: int,
) -> Floats:  # fmt: skip
    """The same where a grouping divides the classes trial by trial, and at each level."""
    thresholds = np.empty((2, len(alphas), n_classes, len(rows)))
    for t, numbers in enumerate(map(as_int64, rows)):
        scores = pairs(values[t], labels.ties(score, j, numbers, u[t]))
        for a, alpha in enumerate(alphas):
            division = grouping.divide(scores, own[numbers], n_classes, alpha, seed)
            kept = slice(None) if division.rows is None else division.rows
            q = grouping.thresholds(scores[kept], own[numbers][kept], division.group_of_class, [alpha], score)
            thresholds[:, a, :, t] = as_floats(q[0])
    return thresholds


# ---- what sets hold --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Misses:
    """What is counted of every set: whether it has fewer than `least` labels, or lacks the row's own where `of_label`.

    cell : (n, Q), where that is counted, from 0 to n_cells - 1; least, of_label : (Q,). The misses of a class are one
    question, whose cell is the row's class; those of a group, or of a stratum of set sizes, are others.
    """

    cell: Ints
    least: Ints
    of_label: Bools
    n_cells: int

    @classmethod
    def by_group(cls, groups: Ints, n_groups: int) -> "Misses":
        """Sets that lack their row's label, by the group of the row (n,), such as its class."""
        return cls(as_int64(groups)[:, None], np.ones(1, dtype=np.int64), np.ones(1, dtype=np.bool_), n_groups)

    def required_sizes(self, label_ranks: Ints) -> Ints:
        """For sets that are prefixes of the ranking: how many labels (n, Q) they must have; ranks are from 0."""
        return np.maximum(np.where(self.of_label, label_ranks[:, None] + 1, 1), self.least)

    def count(self, sizes: Ints, hits: Bools, rows: Ints | slice) -> Ints:
        """Misses in each cell for the sets of some rows, given their sizes and whether they hold their row's label."""
        inside = (sizes[:, None] >= self.least) & (hits[:, None] | ~self.of_label)
        return np.bincount(self.cell[rows][~inside], minlength=self.n_cells)


class Counted(NamedTuple):
    """What the sets of the evaluation rows of each trial hold.

    size, empty : (scores, T, alphas, trials), labels in all sets, and sets without a label, whole numbers in float64;
    missed : (scores, T, alphas, cells, trials); see `Misses`.
    """

    size: Floats
    empty: Floats
    missed: NDArray[np.int32]

    def at(self, m: int, j: int, a: int) -> "Counted":
        """One score, temperature and level: arrays (trials,), (trials,) and (cells, trials)."""
        return Counted(self.size[m, j, a], self.empty[m, j, a], self.missed[m, j, a])

    @classmethod
    def zero(cls, shape: tuple[int, ...], n_cells: int) -> "Counted":
        """Counts of no rows, of the shape (scores, T, alphas, trials)."""
        missed = np.zeros((*shape[:3], n_cells, shape[3]), dtype=np.int32)
        return cls(np.zeros(shape), np.zeros(shape), missed)


class Part(NamedTuple):
    """Trials that are counted at the same temperatures, with scores and thresholds (2, scores, T, alphas, trials)."""

    labels: LabelParts
    scores: tuple[Score, ...]
    thresholds: Floats
    trials: Trials


def count_sets(
    rows: SortedRows, misses: Misses, parts: Sequence[Part], *, n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Counted]:  # fmt: skip
    """Sizes, empty sets and misses of the evaluation rows of every trial, for each part, in one pass over the rows."""
    per_row: list[Any] = [range(rows.source.n_rows), misses.cell, misses.required_sizes(parts[0].labels.ranks)]
    fixed: list[Any] = [rows.sorter]
    shapes = []
    for part in parts:
        per_row += [part.labels.others.T, part.trials.evaluation]
        order = np.lexsort((part.thresholds[1], part.thresholds[0]), axis=-1)
        how = stack_terms(part.scores), part.labels.temperatures, part.thresholds, order
        fixed.append((*how, part.trials.keys, part.trials.randomized))
        shapes.append(part.thresholds.shape[1:])
    zero = partial(_zeros, tuple(shapes), misses.n_cells)
    totals = sum_rows(
        rows.source, _count_block, zero, per_row=per_row, fixed=[tuple(fixed)], n_jobs=n_jobs, progress=progress
    )
    return [Counted(*totals[start : start + 3]) for start in range(0, len(totals), 3)]


def _zeros(shapes: tuple[tuple[int, ...], ...], n_cells: int) -> tuple[NDArray[Any], ...]:
    return tuple(array for shape in shapes for array in Counted.zero(shape, n_cells))


def _count_block(
    block: Block, sums: tuple[NDArray[Any], ...], numbers: range, cells: Ints, wanted: Ints, *rest: Any
) -> None:
    *of_parts, (sorter, *how) = rest
    gaps = sorter.gaps(numbers.start, block)
    for k, ((codes, parameters, keep), temperatures, thresholds, order, keys, randomized) in enumerate(how):
        others, seen = of_parts[2 * k], of_parts[2 * k + 1]
        u = np.where(seen, block_uniforms(keys, numbers, randomized), np.nan)
        trials = seen.shape[1]
        size, empty, missed = sums[3 * k : 3 * k + 3]
        kernels.count_sets(
            codes, parameters, keep, temperatures, gaps, np.ascontiguousarray(others.T), u, seen.astype(np.float64),
            wanted, cells, thresholds.reshape(2, -1, trials), order.reshape(-1, trials), size.reshape(-1, trials),
            empty.reshape(-1, trials), missed.reshape(-1, *missed.shape[3:]),
        )  # fmt: skip


def block_uniforms(keys: Keys, numbers: range, randomized: bool) -> Floats:
    """The u of consecutive rows in every trial, (n, trials)."""
    u = np.ones((len(numbers), len(keys)))
    if randomized:
        kernels.trial_uniforms(keys, numbers.start, u)
    return u


def count_class_sets(
    rows: SortedRows, labels: LabelParts, own: Ints, scores: Sequence[Score], thresholds: Floats, trials: Trials,
    misses: Misses, *, n_jobs: int | None = None, progress: Progress | None = None,
) -> tuple[Counted, Floats]:  # fmt: skip
    """The same under thresholds by class, (2, scores, T, alphas, C, trials), which are used up.

    Also gives the mean of the finite thresholds of each trial, (scores, T, alphas, trials).
    """
    shape = *thresholds.shape[1:4], thresholds.shape[5]
    infinite, mean, reach = np.empty(shape), np.empty(shape), np.empty(shape[:3])
    lowest, highest = (np.empty(thresholds.shape[1:5]) for _ in range(2))
    ranges = infinite, lowest, highest, reach
    kernels.class_ranges(*(array.reshape(reach.size, *array.shape[3:]) for array in (thresholds[0], *ranges, mean)))
    how = stack_terms(scores), labels.temperatures, thresholds, ranges
    totals = sum_rows(
        rows.source,
        _count_class_block,
        partial(_zeros, (shape,), misses.n_cells),
        per_row=[range(rows.source.n_rows), as_int64(own), misses.cell, labels.others.T, trials.evaluation],
        fixed=[rows.sorter, (*how, misses.least, misses.of_label, trials.keys, trials.randomized)],
        n_jobs=n_jobs,
        progress=progress,
    )
    return Counted(*totals), mean


def _count_class_block(
    block: Block, sums: tuple[NDArray[Any], ...], numbers: range, own: Ints, cells: Ints, others: Floats, seen: Bools,
    sorter: Sorter, how: Any,
) -> None:  # fmt: skip
    (codes, parameters, keep), temperatures, thresholds, ranges, least, of_label, keys, randomized = how
    gaps, order = sorter.order(numbers.start, block)
    u = np.where(seen, block_uniforms(keys, numbers, randomized), np.nan)
    kernels.count_class_sets(
        codes, parameters, keep, temperatures, gaps, np.ascontiguousarray(others.T), order, own, u,
        seen.astype(np.float64), least, of_label, cells, thresholds, *ranges, *sums,
    )  # fmt: skip
