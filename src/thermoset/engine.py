"""Label scores, set sizes and sets, by blocks of rows.

Rows are sorted once for each call (temperature never changes a ranking) in blocks that stay in cache. Every
result belongs to one row and is written to that row's place, so the number of threads and the size of blocks
cannot change an answer. For one global threshold a row's set is a prefix of its ranking: its size is guessed by a
walk from the top and confirmed at the two ranks around it, and the set is found by comparing logits with the last one
inside; no argsort is needed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thermoset.compiled import kernel
from thermoset.kernels import (
    Floats,
    Row,
    all_masses,
    mass_above,
    mass_below,
    masses_around,
    rank_weights,
    shares,
    uniforms,
)
from thermoset.pool import for_blocks
from thermoset.scores import Score, score_refine, score_value

__all__ = [
    "Randomness",
    "ScorePairs",
    "ascending",
    "class_sets",
    "label_scores",
    "label_scores_at",
    "prefix_sets",
    "prefix_sizes",
    "rank_of",
    "score_matrix",
    "score_pair",
]

_GUESS_RANKS = 64  # sets are mostly smaller than this


@dataclass(frozen=True)
class ScorePairs:
    """Scores as pairs (value, refine), ordered lexicographically; arrays of one shape."""

    value: Floats
    refine: Floats

    def __getitem__(self, index: NDArray[np.int64] | NDArray[np.bool_] | slice | None) -> "ScorePairs":
        return ScorePairs(self.value[index], self.refine[index])

    def smallest(self, k: int) -> tuple[float, float]:
        """The k-th smallest pair, counting from 1; +inf when there are fewer than k."""
        if k > self.value.size:
            return math.inf, math.inf
        # A partial sort by value finds the candidates; only those equal in value need their refinement sorted.
        value = np.partition(self.value, k - 1)[k - 1]
        tied = np.sort(self.refine[self.value == value])
        return float(value), float(tied[k - 1 - np.count_nonzero(self.value < value)])


@dataclass(frozen=True)
class Randomness:
    """Where a row's u comes from: given numbers, a seed and the row's content, or neither (deterministic, u = 1)."""

    seed: int | None = None
    given: Floats | None = None

    def block(self, ranked: Row, rows: slice) -> Floats:
        """The u of each row of a block."""
        if self.given is not None:
            return self.given[rows]
        u = np.ones(len(ranked))
        if self.seed is not None:
            uniforms(ranked, np.uint64(self.seed), u)
        return u


@kernel
def rank_of(row: Row, label: int) -> int:
    """Rank of a label in its unsorted row; ties go to the lower label index."""
    own, rank = row[label], 1
    for j in range(row.shape[0]):
        rank += row[j] > own or (row[j] == own and j < label)
    return rank


@kernel
def score_pair(
    code: int,
    parameters: tuple[float, float, float],
    rank: int,
    around: tuple[float, float, float, float, float, float, float],
    u: float,
) -> tuple[float, float]:
    """Score of the label at `rank` as (value, refine); a masked class is beyond every finite threshold."""
    low, own, tail, top, log_own, log_tail, log_rest = around
    if log_own == -np.inf:
        return np.inf, np.inf
    value = score_value(code, parameters, rank, low, own, tail, top, u)
    return value, score_refine(code, own, log_own, log_tail, log_rest, u)


@kernel
def _label_scores(
    block: Row,
    ranked: Row,
    labels: NDArray[np.int64],
    temperature: float,
    code: int,
    parameters: tuple[float, float, float],
    u: Floats,
    value: Floats,
    refine: Floats,
) -> None:
    n_classes = ranked.shape[1]
    log_weight, weight = np.empty(n_classes), np.empty(n_classes)
    for i in range(ranked.shape[0]):
        rank = rank_of(block[i], labels[i])
        p = n_classes - rank
        masked = rank_weights(ranked[i], temperature, log_weight, weight)
        above, below, rest = masses_around(weight, p)
        around = shares(log_weight, weight, masked, p, above, below, rest)
        value[i], refine[i] = score_pair(code, parameters, rank, around, u[i])


@kernel
def _guess_last(
    weight: Floats,
    masked: int,
    rest: float,
    code: int,
    parameters: tuple[float, float, float],
    u: float,
    q_value: float,
) -> int:
    """The last rank inside as a quick walk from the top finds it, right but for rounding; 0 where it gives up."""
    n_classes, total, low = weight.shape[0], 1.0 + rest, 0.0
    for rank in range(1, min(n_classes - masked, _GUESS_RANKS) + 1):
        own = weight[n_classes - rank]
        tail = max(total - low - own, 0.0)
        if score_value(code, parameters, rank, low / total, own / total, tail / total, 1.0 / total, u) > q_value:
            return rank - 1
        low += own
    return 0


@kernel
def _prefix_sizes(
    ranked: Row,
    temperature: float,
    code: int,
    parameters: tuple[float, float, float],
    u: Floats,
    q_value: Floats,
    q_refine: Floats,
    sizes: NDArray[np.int64],
) -> None:
    """How many ranks are inside, for each threshold and row: sizes (n_thresholds, n_rows)."""
    n_classes = ranked.shape[1]
    log_weight, weight = np.empty(n_classes), np.empty(n_classes)
    for i in range(ranked.shape[0]):
        masked = rank_weights(ranked[i], temperature, log_weight, weight)
        rest = mass_below(weight, n_classes - 1)
        for t in range(q_value.shape[0]):
            inside, outside = 0, n_classes - masked + 1  # ranks known to be in, and out
            last = _guess_last(weight, masked, rest, code, parameters, u[i], q_value[t])
            while outside - inside > 1:
                # the two ranks around the guess, and where it was wrong, bisection
                rank = last if inside < last < outside else last + 1 if inside == last else (inside + outside) // 2
                p = n_classes - rank
                above, below = mass_above(weight, p), mass_below(weight, p)
                around = shares(log_weight, weight, masked, p, above, below, rest)
                value, refine = score_pair(code, parameters, rank, around, u[i])
                if value < q_value[t] or (value == q_value[t] and refine <= q_refine[t]):
                    inside = rank
                else:
                    outside = rank
            sizes[t, i] = n_classes if q_value[t] == np.inf else inside


@kernel
def _score_matrix(
    ranked: Row,
    order: NDArray[np.int64],
    temperature: float,
    code: int,
    parameters: tuple[float, float, float],
    u: Floats,
    value: Floats,
    refine: Floats,
) -> None:
    """Scores of every label; `order[i, p]` is the label at position p of the ascending row."""
    n_classes = ranked.shape[1]
    log_weight, weight = np.empty(n_classes), np.empty(n_classes)
    above, below = np.empty(n_classes), np.empty(n_classes)
    for i in range(ranked.shape[0]):
        masked = rank_weights(ranked[i], temperature, log_weight, weight)
        all_masses(weight, above, below)
        for p in range(n_classes):
            label = order[i, p]
            around = shares(log_weight, weight, masked, p, above[p], below[p], below[n_classes - 1])
            value[i, label], refine[i, label] = score_pair(code, parameters, n_classes - p, around, u[i])


@kernel
def _class_sets(
    ranked: Row,
    order: NDArray[np.int64],
    temperature: float,
    code: int,
    parameters: tuple[float, float, float],
    u: Floats,
    q_value: Floats,
    q_refine: Floats,
    sets: NDArray[np.bool_],
) -> None:
    """Whether each label is inside, for thresholds (n_levels, C) by class: sets (n_levels, n_rows, C).

    Values nearly always decide, and the refinement with its logarithms is worked out only where they do not.
    """
    n_classes = ranked.shape[1]
    log_weight, weight = np.empty(n_classes), np.empty(n_classes)
    above, below = np.empty(n_classes), np.empty(n_classes)
    for i in range(ranked.shape[0]):
        masked = rank_weights(ranked[i], temperature, log_weight, weight)
        all_masses(weight, above, below)
        rest = below[n_classes - 1]
        total = 1.0 + rest
        for p in range(n_classes):
            label, rank, value = order[i, p], n_classes - p, np.inf
            if p >= masked:
                low, own, tail = above[p] / total, weight[p] / total, below[p] / total
                value = score_value(code, parameters, rank, low, own, tail, 1.0 / total, u[i])
            for t in range(q_value.shape[0]):
                inside = value < q_value[t, label]
                if value == q_value[t, label]:
                    around = shares(log_weight, weight, masked, p, above[p], below[p], rest)
                    inside = score_pair(code, parameters, rank, around, u[i])[1] <= q_refine[t, label]
                sets[t, i, label] = inside


def label_scores(
    logits: Row,
    labels: NDArray[np.int64],
    score: Score,
    temperature: float,
    randomness: Randomness,
) -> ScorePairs:
    """Score of each row's own label."""
    return label_scores_at(logits, labels, score, [temperature], randomness)[0]


def label_scores_at(
    logits: Row,
    labels: NDArray[np.int64],
    score: Score,
    temperatures: Sequence[float],
    randomness: Randomness,
) -> list[ScorePairs]:
    """Score of each row's own label at every temperature; rows are sorted once for all of them."""
    found = [ScorePairs(np.empty(len(logits)), np.empty(len(logits))) for _ in temperatures]

    def work(block: Row, rows: slice) -> None:
        ranked = np.sort(block, axis=1)
        u = randomness.block(ranked, rows)
        for temperature, pairs in zip(temperatures, found, strict=True):
            out = pairs.value[rows], pairs.refine[rows]
            _label_scores(block, ranked, labels[rows], temperature, score.code, score.parameters, u, *out)

    for_blocks(logits, work)
    return found


def prefix_sizes(
    logits: Row,
    score: Score,
    temperature: float,
    randomness: Randomness,
    thresholds: ScorePairs,
) -> NDArray[np.int64]:
    """Set sizes under global thresholds, (n_thresholds, n_rows)."""
    sizes = np.empty((thresholds.value.size, len(logits)), dtype=np.int64)

    def work(block: Row, rows: slice) -> None:
        ranked = np.sort(block, axis=1)
        sizes[:, rows] = _sizes_of(ranked, randomness.block(ranked, rows), score, temperature, thresholds)

    for_blocks(logits, work)
    return sizes


def prefix_sets(
    logits: Row,
    score: Score,
    temperature: float,
    randomness: Randomness,
    thresholds: ScorePairs,
    at_least: int,
) -> NDArray[np.bool_]:
    """Sets under global thresholds, (n_thresholds, n_rows, C), each with `at_least` top labels."""
    sets = np.empty((thresholds.value.size, *logits.shape), dtype=np.bool_)

    def work(block: Row, rows: slice) -> None:
        ranked = np.sort(block, axis=1)
        sizes = _sizes_of(ranked, randomness.block(ranked, rows), score, temperature, thresholds)
        for t, size in enumerate(np.maximum(sizes, at_least)):
            _mark_prefixes(block, ranked, size, sets[t, rows])

    for_blocks(logits, work)
    return sets


def class_sets(
    logits: Row,
    score: Score,
    temperature: float,
    randomness: Randomness,
    thresholds: ScorePairs,
) -> NDArray[np.bool_]:
    """Sets under one threshold for each class: thresholds (n_thresholds, C), sets (n_thresholds, n_rows, C)."""
    sets = np.empty((len(thresholds.value), *logits.shape), dtype=np.bool_)

    def work(block: Row, rows: slice) -> None:
        ranked, order = ascending(block)
        u = randomness.block(ranked, rows)
        q = thresholds.value, thresholds.refine
        _class_sets(ranked, order, temperature, score.code, score.parameters, u, *q, sets[:, rows])

    for_blocks(logits, work)
    return sets


def score_matrix(logits: Row, score: Score, temperature: float, randomness: Randomness) -> ScorePairs:
    """Score of every label of every row, (n_rows, C), in label order."""
    pairs = ScorePairs(np.empty(logits.shape), np.empty(logits.shape))

    def work(block: Row, rows: slice) -> None:
        ranked, order = ascending(block)
        u = randomness.block(ranked, rows)
        out = pairs.value[rows], pairs.refine[rows]
        _score_matrix(ranked, order, temperature, score.code, score.parameters, u, *out)

    for_blocks(logits, work)
    return pairs


def ascending(block: Row) -> tuple[Row, NDArray[np.int64]]:
    """Rows in ascending order, and the label at each place: position p is rank C - p, and ties rank by label index."""
    order = np.argsort(block, axis=1)
    ranked = np.take_along_axis(block, order, axis=1)
    # The quick sort leaves ties in any order. Rows that have some are sorted again: mirrored, stably, much slower.
    tied = np.flatnonzero((ranked[:, 1:] == ranked[:, :-1]).any(axis=1))
    order[tied] = block.shape[1] - 1 - np.argsort(block[tied, ::-1], axis=1, kind="stable")
    ranked[tied] = np.take_along_axis(block[tied], order[tied], axis=1)
    return ranked, order


def _sizes_of(ranked: Row, u: Floats, score: Score, temperature: float, thresholds: ScorePairs) -> NDArray[np.int64]:
    sizes = np.empty((thresholds.value.size, len(ranked)), dtype=np.int64)
    q = thresholds.value, thresholds.refine
    _prefix_sizes(ranked, temperature, score.code, score.parameters, u, *q, sizes)
    return sizes


def _mark_prefixes(block: Row, ranked: Row, sizes: NDArray[np.int64], out: NDArray[np.bool_]) -> None:
    """Mark the `sizes[i]` top-ranked labels of each row."""
    n_classes = block.shape[1]
    row = np.arange(len(block))
    # An empty set has no last member: its cut is above every logit.
    cut = np.where(sizes > 0, ranked[row, np.minimum(n_classes - sizes, n_classes - 1)], np.inf)
    np.greater_equal(block, cut[:, None].astype(block.dtype), out=out)
    # Where the next rank has the same logit, the comparison let in too many: the highest label indices leave.
    next_rank = ranked[row, np.maximum(n_classes - sizes - 1, 0)]
    for i in np.flatnonzero((sizes > 0) & (sizes < n_classes) & (next_rank == cut)):
        surplus = np.count_nonzero(out[i]) - sizes[i]
        out[i, np.flatnonzero(block[i] == cut[i])[-surplus:]] = False
