"""The same stages with u integrated out: thresholds, hits and sizes as they are on average over u, row by row.

Over u in [0, 1] a label's score is an interval, and the share of it below the threshold is the probability that the
label is in the set. Averages of such shares are what sets show on average over u, without the noise of drawing it.
A score without u (LAC, or randomized=False) is an interval of no width: shares are 0 or 1.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import allocating_part, kernel, leaf_kernel, part
from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.formulas import Cut, Formula, Law, label_refine, label_value, lets_in, rounding
from thermoset.core.label_shares import LabelShares, SharesByTemperature, label_at
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
from thermoset.core.memory import row_array
from thermoset.core.sources import Block, RankedRows, Ranking
from thermoset.core.stages import UNTOLD, Told, fill_rows, total
from thermoset.core.tallies import exact_size
from thermoset.core.thresholds import Cuts
from thermoset.core.trials import Trials
from thermoset.core.walk import FallingRow, Opening, Prefix, fill_falling, open_ranks, prefix_of

__all__ = [
    "FIXED_POINT",
    "ScoreSpan",
    "expected_hits",
    "expected_misses",
    "expected_sizes",
    "expected_totals",
    "share_inside",
    "solve_thresholds",
]

FIXED_POINT = 2.0**28
"""Expected counts are summed in 64-bit integers of this unit: their order cannot matter."""

_HALVINGS = 64  # of an interval of values: down to neighbouring floats
_SHARE_HALVINGS = 40  # of the interval of u
_CHUNK = 4096  # rows whose expected hits are held for all trials at once
_CLOSE = 1e-14  # rounding error of the affine step
_STEEP = 1e-6  # where the score rises by less over all u, its rounding would show in the share of u inside


class ScoreSpan(NamedTuple):
    """A label's score over u: its value at u = 0, and how much it rises to u = 1."""

    start: float
    slope: float


class ScoreSpans(NamedTuple):
    """The same for many labels."""

    start: Floats
    slope: Floats


@part
def share_inside(interval: ScoreSpan, q: float) -> float:
    """Share of u in [0, 1] with start + u slope <= q."""
    if interval.slope <= 0.0:
        return 1.0 if interval.start <= q else 0.0
    return min(max((q - interval.start) / interval.slope, 0.0), 1.0)


@part
def _is_flat(interval: ScoreSpan, q: float) -> bool:
    """Whether the score meets q where it is too flat for its values to tell the share of u inside."""
    start, slope = interval
    return slope < _STEEP and start - _CLOSE <= q <= start + slope + _CLOSE


@part
def _share_by_pairs(formula: Formula, rank: int, shares: Shares, cut: Cut) -> float:
    """Share of u that lets the label in, by bisection over the pairs: right where values are all alike."""
    if lets_in(cut, formula, rank, shares, 1.0):
        return 1.0
    if not lets_in(cut, formula, rank, shares, 0.0):
        return 0.0
    inside, outside = 0.0, 1.0
    for _ in range(_SHARE_HALVINGS):
        middle = (inside + outside) / 2
        if lets_in(cut, formula, rank, shares, middle):
            inside = middle
        else:
            outside = middle
    return inside


@part
def _side(law: Law, rank: int, shares: Shares, cut: Cut) -> int:
    """1 where `_share_by_pairs` is 1, -1 where it is 0, and 0 in between: known long before the share is."""
    if lets_in(cut, law.formula, rank, shares, 1.0):
        return 1
    if not law.drawn or not lets_in(cut, law.formula, rank, shares, 0.0):
        return -1
    middle = 1.0
    for _ in range(_SHARE_HALVINGS):
        middle /= 2
        if lets_in(cut, law.formula, rank, shares, middle):
            return 0
    return -1


@part
def _label_share(law: Law, rank: int, shares: Shares, interval: ScoreSpan, cut: Cut) -> float:
    """Share of u that lets a label in."""
    if cut.value == np.inf:
        return 1.0
    if not _is_flat(interval, cut.value):
        return share_inside(interval, cut.value)
    if law.drawn:
        return _share_by_pairs(law.formula, rank, shares, cut)
    return 1.0 if lets_in(cut, law.formula, rank, shares, 1.0) else 0.0


@allocating_part
def _score_spans(law: Law, labels: LabelShares) -> ScoreSpans:
    """Scores of the labels over u."""
    n = labels.rank.shape[0]
    start, slope = np.empty(n), np.empty(n)
    for i in range(n):
        shares = label_at(labels, i)
        end = label_value(law.formula, labels.rank[i], shares, 1.0)
        start[i] = label_value(law.formula, labels.rank[i], shares, 0.0) if law.drawn else end
        slope[i] = end - start[i] if -np.inf < end < np.inf else 0.0
    return ScoreSpans(start, slope)


@part
def _solve_value(found: ScoreSpans, low: float, high: float, target: float, scratch: ScoreSpans) -> float:
    """The value between low and high that lets in `target` rows."""
    sure, n = 0.0, found.start.shape[0]
    for i in range(n):
        scratch.start[i], scratch.slope[i] = found.start[i], found.slope[i]
    for _ in range(_HALVINGS // 4):
        for _ in range(4):
            middle, total = (low + high) / 2, sure
            for i in range(n):
                total += share_inside(ScoreSpan(scratch.start[i], scratch.slope[i]), middle)
            if total < target:
                low = middle
            else:
                high = middle
        left = 0
        for i in range(n):  # only rows whose interval meets the bracket need another look
            start, slope = scratch.start[i], scratch.slope[i]
            if start + slope < low:
                sure += 1.0
            elif start <= high:
                scratch.start[left], scratch.slope[left] = start, slope
                left += 1
        n = left
    return high


@allocating_part
def _solve_refine(law: Law, labels: LabelShares, found: ScoreSpans, q: float, target: float) -> float:
    """Where values are too close to tell apart, the threshold's second number that lets in `target` rows."""
    low, high, sure, n = np.inf, -np.inf, 0.0, 0
    open_rows = np.empty(labels.rank.shape[0], dtype=np.int64)
    for i in range(labels.rank.shape[0]):
        interval = ScoreSpan(found.start[i], found.slope[i])
        if _is_flat(interval, q):
            open_rows[n] = i
            n += 1
            rank, shares = labels.rank[i], label_at(labels, i)
            low = min(low, label_refine(law.formula, rank, shares, 0.0 if law.drawn else 1.0))
            high = max(high, label_refine(law.formula, rank, shares, 1.0))
        else:
            sure += share_inside(interval, q)
    if not -np.inf < low < high < np.inf:
        return np.inf
    low -= 1.0
    for _ in range(_HALVINGS):
        middle, total = (low + high) / 2, sure
        for k in range(n):
            total += _row_share(law, labels, found, open_rows[k], Cut(q, middle))
        if total < target:
            low = middle
        else:
            high = middle
        left = 0
        for k in range(n):  # rows that both ends of the bracket let in, or keep out, need no other look
            i = open_rows[k]
            rank, shares = labels.rank[i], label_at(labels, i)
            if _side(law, rank, shares, Cut(q, low)) == 1:
                sure += 1.0
            elif _side(law, rank, shares, Cut(q, high)) > -1:
                open_rows[left] = i
                left += 1
        n = left
    return high


@part
def _row_share(law: Law, labels: LabelShares, found: ScoreSpans, i: int, cut: Cut) -> float:
    interval = ScoreSpan(found.start[i], found.slope[i])
    return _label_share(law, labels.rank[i], label_at(labels, i), interval, cut)


@kernel
def solve_thresholds(law: Law, labels: LabelShares, targets: Floats, out: Cuts) -> None:
    """The thresholds that let in `targets` rows at one temperature, by bisection.

    +inf where there are fewer; -inf where the rows that are inside whatever the threshold are enough.
    """
    found, n = _score_spans(law, labels), labels.rank.shape[0]
    scratch = ScoreSpans(np.empty(n), np.empty(n))
    bottom, top, sure, reachable = np.inf, -np.inf, 0, 0
    for i in range(n):
        sure += found.start[i] == -np.inf
        reachable += found.start[i] < np.inf
        if -np.inf < found.start[i] < np.inf:
            bottom, top = min(bottom, found.start[i]), max(top, found.start[i] + found.slope[i])
    for a in range(targets.shape[0]):
        if targets[a] > reachable or targets[a] <= sure:
            out.value[a] = out.refine[a] = np.inf if targets[a] > reachable else -np.inf
            continue
        q = _solve_value(found, bottom - 1.0, top, targets[a], scratch)
        out.value[a] = q
        out.refine[a] = _solve_refine(law, labels, found, q, targets[a])


@kernel
def expected_hits(law: Law, labels: LabelShares, cuts: Cuts, out: Floats) -> None:
    """Probability over u that each row's label is in its set, for each threshold: out (n_thresholds, n)."""
    found = _score_spans(law, labels)
    for a in range(cuts.value.shape[0]):
        cut = Cut(cuts.value[a], cuts.refine[a])
        for i in range(labels.rank.shape[0]):
            out[a, i] = _row_share(law, labels, found, i, cut)


@part
def _walked_means(law: Law, prefix: Prefix, opening: Opening, cuts: Floats, out: Floats) -> bool:
    """Expected sizes from the scores of the open ranks; returns whether one is too flat to tell."""
    flat = False
    for k in range(cuts.shape[0]):
        out[k] = opening.first
        for r in range(opening.first, opening.stop):
            start = prefix.start[r] if law.drawn else prefix.end[r]
            interval = ScoreSpan(start, prefix.end[r] - start)
            flat |= _is_flat(interval, cuts[k])
            out[k] += share_inside(interval, cuts[k])
    return flat


@part
def _exact_mean(row: WeightedRow, masses: RowMasses, law: Law, cut: Cut) -> float:
    """Expected size of one row's set by the classifier's arithmetic; at most one label depends on u."""
    n_classes = row.weight.shape[0]
    inside = exact_size(row, masses, law.formula, cut, 1.0)
    if not law.drawn or inside >= n_classes - row.masked:
        return inside
    p = n_classes - inside - 1
    share = _share_by_pairs(law.formula, inside + 1, shares_at(row, p, masses_at(masses, p)), cut)
    return inside + np.int64(share * FIXED_POINT + 0.5) / FIXED_POINT


class WalkedRows(NamedTuple):
    """Ranked rows, temperatures (T,), and the share of each row's top class at them, (T, n_rows)."""

    ranked: Floats
    temperature: Floats
    top: Floats


@part
def _ends(values: Floats) -> tuple[float, float]:
    """The least and the largest; NumPy's own take half a second each to compile."""
    least, most = values[0], values[0]
    for value in values[1:]:
        least, most = min(least, value), max(most, value)
    return least, most


@kernel
def _fill_sizes(rows: WalkedRows, law: Law, cuts: Cuts, out: Floats) -> None:
    """Set sizes averaged over u: thresholds (T, K), out (T, K, n_rows)."""
    n_classes, count = rows.ranked.shape[1], cuts.value.shape[1]
    prefix, masses = prefix_of(n_classes), row_masses(n_classes)
    falling, gaps, weight, mine = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(count)
    close = rounding(law.formula, n_classes)
    for i in range(rows.ranked.shape[0]):
        masked = rank_gaps(rows.ranked[i], gaps)
        fill_falling(rows.ranked[i], falling)
        for j in range(rows.temperature.shape[0]):
            q = cuts.value[j]
            least, most = _ends(q)
            flat = masked > 0 or most == np.inf
            if not flat:
                row = FallingRow(falling, 1.0 / rows.temperature[j], rows.top[j, i])
                opening = open_ranks(row, law.formula, least - close, most + close, prefix, int(np.int64(0)))
                flat = _walked_means(law, prefix, opening, q, mine)
            if flat:
                weigh(gaps, rows.temperature[j], weight)
                exact = WeightedRow(gaps, masked, 1.0 / rows.temperature[j], weight)
                fill_masses(exact, masses)
                for k in range(count):
                    mine[k] = _exact_mean(exact, masses, law, Cut(q[k], cuts.refine[j, k]))
            for k in range(count):
                out[j, k, i] = mine[k]


@dataclass(frozen=True, eq=False)
class _ExpectSizes:
    """The stage: sizes averaged over u, (T, K, n); `top` are the shares of the rows' top classes, (T, n)."""

    ranking: Ranking
    first: int
    top: Floats
    temperatures: Floats
    law: Law
    cuts: Cuts

    def rows(self, place: slice) -> "_ExpectSizes":
        return replace(self, first=self.first + place.start, top=self.top[:, place])

    def __call__(self, block: Block) -> tuple[Floats]:
        out = np.empty((*self.cuts.value.shape, len(block)))
        walked = WalkedRows(self.ranking.of(self.first, block), self.temperatures, np.ascontiguousarray(self.top))
        _fill_sizes(walked, self.law, self.cuts, out)
        return (out,)


def expected_sizes(
    rows: RankedRows,
    shares: SharesByTemperature,
    temperatures: Floats,
    law: Law,
    cuts: Cuts,
    told: Told = UNTOLD,
) -> Floats:
    """Sizes of all rows averaged over u under thresholds (T, K): (T, K, n_rows)."""
    sizes = row_array((*cuts.value.shape, rows.source.n_rows))
    fill_rows(rows.source, _ExpectSizes(rows.ranking, 0, shares.all.top, temperatures, law, cuts), [sizes], told)
    return sizes


@leaf_kernel
def _add_misses(hits: Floats, labels: Ints, seen: Bools, out: Ints) -> None:
    """Add 1 - hit of the rows that a trial evaluates, by class, in fixed point: hits (trials, n), out (C, trials)."""
    for i in range(labels.shape[0]):
        for t in range(hits.shape[0]):
            if seen[i, t]:
                out[labels[i], t] += np.int64((1.0 - hits[t, i]) * FIXED_POINT + 0.5)


def expected_misses(law: Law, shares: LabelShares, labels: Ints, trials: Trials, cuts: Cuts) -> Floats:
    """Expected misses of each class in every trial at one temperature, (C, trials); `cuts` has one for each trial."""
    out = np.zeros((trials.counts.shape[1], trials.count), dtype=np.int64)
    for start in range(0, len(labels), _CHUNK):
        rows = slice(start, start + _CHUNK)
        some = LabelShares(shares.rank[rows], *(field[rows] for field in shares[1:]))
        hits = np.empty((trials.count, len(some.rank)))
        expected_hits(law, some, cuts, hits)
        _add_misses(hits, labels[rows], trials.evaluation[rows], out)
    return out / FIXED_POINT


class Totals(NamedTuple):
    """Expected labels in all sets, and expected empty sets, in fixed point: (T, K) each, where K is alphas x trials."""

    size: Ints
    empty: Ints


@dataclass(frozen=True, eq=False)
class _TotalSizes:
    """The stage: totals of expected sizes over the evaluation rows (n, trials) of every trial."""

    sizes: _ExpectSizes
    evaluation: Bools

    def rows(self, place: slice) -> "_TotalSizes":
        return _TotalSizes(self.sizes.rows(place), self.evaluation[place])

    def zero(self) -> Totals:
        return Totals(*np.zeros((2, *self.sizes.cuts.value.shape), dtype=np.int64))

    def add(self, block: Block, sums: Totals) -> None:
        (found,) = self.sizes(block)
        seen = np.tile(self.evaluation.T, (found.shape[1] // self.evaluation.shape[1], 1))
        for total_of, mean in zip(sums, (found, np.maximum(1.0 - found, 0.0)), strict=True):
            fixed = (mean * FIXED_POINT + 0.5).astype(np.int64)
            np.add(total_of, np.where(seen, fixed, 0).sum(axis=-1), out=total_of)


def expected_totals(
    rows: RankedRows,
    shares: SharesByTemperature,
    temperatures: Floats,
    law: Law,
    cuts: Cuts,
    trials: Trials,
    told: Told = UNTOLD,
) -> tuple[Floats, Floats]:
    """Expected labels in all sets, and expected empty sets, of the evaluation rows: (T, alphas, trials) each."""
    shape = cuts.value.shape
    flat = Cuts(*(part.reshape(shape[0], -1) for part in cuts))
    sizes = _ExpectSizes(rows.ranking, 0, shares.all.top, temperatures, law, flat)
    found = total(rows.source, _TotalSizes(sizes, trials.evaluation), told)
    size, empty = (fixed.reshape(shape) / FIXED_POINT for fixed in found)
    return size, empty
