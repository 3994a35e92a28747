"""The first stage: what the score of each row's own label needs, at every temperature, for a single sort of the row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel, leaf_kernel, part
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.formulas import Formula, label_refine, label_value
from thermoset.core.masses import Shares, WeightedRow, masses_around, rank_gaps, shares_at, weigh
from thermoset.core.memory import row_array
from thermoset.core.scores import Score
from thermoset.core.sources import Block, RankedRows, Ranking, Source, numbered, ranked, widened
from thermoset.core.stages import UNTOLD, Told, fill_rows
from thermoset.core.thresholds import ScorePairs
from thermoset.core.uniforms import Randomness

__all__ = ["LabelShares", "SharesByTemperature", "label_at", "label_scores", "label_shares", "rank_of"]


class LabelShares(NamedTuple):
    """Rank of each row's label, and the fields of `Shares` around it: arrays (n,), or (T, n) but for the rank."""

    rank: Ints
    low: Floats
    own: Floats
    tail: Floats
    top: Floats
    log_own: Floats
    log_tail: Floats
    log_rest: Floats


@dataclass(frozen=True, eq=False)
class SharesByTemperature:
    """`LabelShares` at several temperatures: arrays (T, n)."""

    all: LabelShares

    def at(self, j: int) -> LabelShares:
        """One temperature: arrays (n,)."""
        return LabelShares(self.all.rank, *(field[j] for field in self.all[1:]))

    def only(self, j: int) -> "SharesByTemperature":
        """One temperature: arrays (1, n)."""
        return SharesByTemperature(LabelShares(self.all.rank, *(field[j : j + 1] for field in self.all[1:])))


@part
def rank_of(row: Floats, label: int) -> int:
    """Rank of a label in its unsorted row; ties go to the lower label index."""
    own, rank = row[label], 1
    for j in range(row.shape[0]):
        rank += row[j] > own or (row[j] == own and j < label)
    return rank


@part
def label_at(labels: LabelShares, i: int) -> Shares:
    """Shares around the label of row i, at the one temperature that `labels` hold."""
    return Shares(
        labels.low[i],
        labels.own[i],
        labels.tail[i],
        labels.top[i],
        labels.log_own[i],
        labels.log_tail[i],
        labels.log_rest[i],
    )


@kernel
def _fill_shares(rows: Floats, ranked: Floats, labels: Ints, temperatures: Floats, out: LabelShares) -> None:
    """Fill the shares (T, n_rows) around each row's label, and its rank."""
    n_classes = ranked.shape[1]
    gaps, weight = np.empty(n_classes), np.empty(n_classes)
    for i in range(ranked.shape[0]):
        out.rank[i] = rank_of(rows[i], labels[i])
        p = n_classes - out.rank[i]
        masked = rank_gaps(ranked[i], gaps)
        for t in range(temperatures.shape[0]):
            weigh(gaps, temperatures[t], weight)
            row = WeightedRow(gaps, masked, 1.0 / temperatures[t], weight)
            shares = shares_at(row, p, masses_around(weight, p))
            out.low[t, i] = shares.low
            out.own[t, i] = shares.own
            out.tail[t, i] = shares.tail
            out.top[t, i] = shares.top
            out.log_own[t, i] = shares.log_own
            out.log_tail[t, i] = shares.log_tail
            out.log_rest[t, i] = shares.log_rest


def _empty_shares(n_temperatures: int, n_rows: int) -> LabelShares:
    shares = np.empty((len(Shares._fields), n_temperatures, n_rows))
    return LabelShares(np.empty(n_rows, dtype=np.int64), *shares)


@dataclass(frozen=True, eq=False)
class _FindShares:
    """The stage: sort rows, and find the shares around their labels."""

    ranking: Ranking
    first: int
    labels: Ints
    temperatures: Floats

    def rows(self, place: slice) -> "_FindShares":
        return replace(self, first=self.first + place.start, labels=self.labels[place])

    def __call__(self, block: Block) -> LabelShares:
        found = _empty_shares(len(self.temperatures), len(block))
        _fill_shares(widened(block), self.ranking.of(self.first, block), self.labels, self.temperatures, found)
        return found


def label_shares(rows: RankedRows, labels: Ints, temperatures: Floats, told: Told = UNTOLD) -> SharesByTemperature:
    """Sort every row once and find the shares around its label at every temperature."""
    shares = row_array((len(Shares._fields), len(temperatures), rows.source.n_rows))
    out = LabelShares(np.empty(rows.source.n_rows, dtype=np.int64), *shares)
    fill_rows(rows.source, _FindShares(rows.ranking, 0, numbered(labels), temperatures), out, told)
    return SharesByTemperature(out)


@leaf_kernel
def _fill_scores(labels: LabelShares, formula: Formula, u: Floats, value: Floats, refine: Floats) -> None:
    for i in range(u.shape[0]):
        shares = label_at(labels, i)
        value[i] = label_value(formula, labels.rank[i], shares, u[i])
        refine[i] = label_refine(formula, labels.rank[i], shares, u[i])


@dataclass(frozen=True, eq=False)
class _ScoreLabels:
    """The stage: scores of labels as pairs, (2, T, n)."""

    labels: Ints
    formula: Formula
    offsets: Floats
    temperatures: Floats
    randomness: Randomness

    def rows(self, place: slice) -> "_ScoreLabels":
        return replace(self, labels=self.labels[place], randomness=self.randomness.rows(place))

    def __call__(self, block: Block) -> tuple[Floats]:
        ranks, some = ranked(block), _empty_shares(len(self.temperatures), len(block))
        _fill_shares(widened(block), ranks, self.labels, self.temperatures, some)
        u, found = self.randomness.block(ranks), np.empty((2, len(self.temperatures), len(block)))
        for j in range(len(self.temperatures)):
            _fill_scores(SharesByTemperature(some).at(j), self.formula, u, found[0, j], found[1, j])
        found[0] += self.offsets[self.labels]
        return (found,)


def label_scores(
    source: Source, labels: Ints, score: Score, temperatures: Sequence[float], randomness: Randomness
) -> list[ScorePairs]:
    """Score of each row's own label at every temperature; rows are sorted once for all of them."""
    at = np.array(temperatures, dtype=np.float64)
    found = row_array((2, len(at), source.n_rows))
    stage = _ScoreLabels(numbered(labels), score.formula, score.offsets(source.n_classes), at, randomness)
    fill_rows(source, stage, [found])
    return [ScorePairs(value, refine) for value, refine in zip(*found, strict=True)]
