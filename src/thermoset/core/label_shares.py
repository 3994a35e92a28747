"""The first stage: what the score of each row's own label needs, at every temperature, for a single sort of the row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import kernel, leaf_kernel, part
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.formulas import Formula, label_refine, label_value
from thermoset.core.masses import Shares, WeightedRow, masses_around, rank_gaps, shares_at, weigh
from thermoset.core.pool import for_blocks
from thermoset.core.scores import Score
from thermoset.core.sources import Block, RankedRows, Source, numbered, widened
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

    BYTES = 8 * len(Shares._fields)
    """What a row costs at one temperature."""

    def at(self, j: int) -> LabelShares:
        """One temperature: arrays (n,)."""
        return LabelShares(self.all.rank, *(field[j] for field in self.all[1:]))

    def only(self, j: int) -> "SharesByTemperature":
        """One temperature: arrays (1, n)."""
        return SharesByTemperature(LabelShares(self.all.rank, *(field[j : j + 1] for field in self.all[1:])))

    def top_of(self, rows: slice) -> Floats:
        """Shares of the top class of some rows, (T, n)."""
        return np.ascontiguousarray(self.all.top[:, rows])


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


def label_shares(
    rows: RankedRows,
    labels: Ints,
    temperatures: Floats,
    *,
    n_jobs: int | None = None,
    progress: Callable[[], None] | None = None,
) -> SharesByTemperature:
    """Sort every row once and find the shares around its label at every temperature."""
    own, out = numbered(labels), _empty_shares(len(temperatures), rows.source.n_rows)

    def work(block: Block, place: slice) -> None:
        some = _empty_shares(len(temperatures), place.stop - place.start)
        _fill_shares(widened(block), rows.rank(place, block), own[place], temperatures, some)
        for whole, filled in zip(out, some, strict=True):
            whole[..., place] = filled

    for_blocks(rows.source, work, n_jobs=n_jobs, progress=progress)
    return SharesByTemperature(out)


@leaf_kernel
def _fill_scores(labels: LabelShares, formula: Formula, u: Floats, value: Floats, refine: Floats) -> None:
    for i in range(u.shape[0]):
        shares = label_at(labels, i)
        value[i] = label_value(formula, labels.rank[i], shares, u[i])
        refine[i] = label_refine(formula, labels.rank[i], shares, u[i])


def label_scores(
    source: Source, labels: Ints, score: Score, temperatures: Sequence[float], randomness: Randomness
) -> list[ScorePairs]:
    """Score of each row's own label at every temperature; rows are sorted once for all of them."""
    found = [ScorePairs(np.empty(source.n_rows), np.empty(source.n_rows)) for _ in temperatures]
    at, own = np.array(temperatures, dtype=np.float64), numbered(labels)
    rows = RankedRows(source, kept_bytes=0)

    def work(block: Block, place: slice) -> None:
        ranked, some = rows.rank(place, block), _empty_shares(len(at), place.stop - place.start)
        _fill_shares(widened(block), ranked, own[place], at, some)
        u = randomness.block(ranked, place)
        for j, pairs in enumerate(found):
            _fill_scores(SharesByTemperature(some).at(j), score.formula, u, pairs.value[place], pairs.refine[place])

    for_blocks(source, work)
    return found
