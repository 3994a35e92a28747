"""p-values: where the score of each label stands among the label scores of the conformal rows.

p = (#{s_i > s} + v (1 + #{s_i = s})) / (n + 1), with pairs compared as pairs. v = 1 gives rank p-values, for which the
labels with p > alpha are exactly the set at alpha, whatever alpha is: with k = ceil((n + 1)(1 - alpha)), s <= s_(k) has
p >= (n - k + 2)/(n + 1) > alpha, and s > s_(k) has p <= (n - k + 1)/(n + 1) <= alpha. A v that is uniform on (0, 1)
smooths ties.

Where conformal rows have weights, so has the row to be predicted, and weights are summed instead of counted: p =
(sum_{s_i > s} w_i + v (w + sum_{s_i = s} w_i)) / (sum w_i + w), in whole numbers; see `weighted`.

Of rows that are not whole, the lower end of a label's score is looked up among upper ends, which gives an upper bound
of the p-value of whole rows, and again exactly the sets of such rows.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import leaf_kernel, part
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.general import block_scores
from thermoset.core.pool import for_blocks
from thermoset.core.scores import Score
from thermoset.core.sources import Block, Source, ranked
from thermoset.core.thresholds import NULL_GROUP, Cuts, ScorePairs
from thermoset.core.top_rows import TopRows, tops_of
from thermoset.core.top_stages import draws_of, for_lower_scores
from thermoset.core.uniforms import Randomness
from thermoset.core.weighted import WeightedScores

__all__ = ["Pools", "SortedPools", "class_pools", "group_pools", "one_pool", "p_values", "weighted_pool"]


class SortedPools(NamedTuple):
    """Scores of conformal rows in rising order within each pool: pool g has places edges[g] .. edges[g + 1].

    sums : (n + 1,), the weight of all scores before each place; without weights their number.
    """

    value: Floats
    refine: Floats
    edges: Ints
    sums: Ints


@dataclass(frozen=True, eq=False)
class Pools:
    """Pools of conformal scores, and which of them a label is looked up in: one for all, by class, or by row.

    pool_of_class : (C,), pool_of_row : (n,) for the rows to be predicted; None where it does not matter.
    weight_of_class, weight_of_row : their weights, as whole numbers of the grid that those of the scores are on; None
    where all are 1.
    """

    scores: SortedPools
    pool_of_class: Ints | None = None
    pool_of_row: Ints | None = None
    weight_of_class: Ints | None = None
    weight_of_row: Ints | None = None


def one_pool(scores: ScorePairs) -> Pools:
    """All rows in one pool."""
    return Pools(_sorted_pools(scores, np.zeros(len(scores.value), dtype=np.int64), 1))


def weighted_pool(scores: WeightedScores) -> Pools:
    """All rows in one pool, with their weights; what is looked up there needs weights too."""
    pairs, edges = scores.scores, np.array([0, len(scores.weights)])
    return Pools(SortedPools(pairs.value, pairs.refine, edges, np.concatenate([[0], scores.sums])))


def class_pools(scores: ScorePairs, labels: Ints, group_of_class: Ints) -> Pools:
    """A pool for each group of classes; that of the null group has the rows of all classes."""
    groups, pool_of_class = np.unique(group_of_class, return_inverse=True)
    pool = pool_of_class[labels]
    if groups[0] == NULL_GROUP:
        others = np.flatnonzero(pool)
        every = np.concatenate([np.arange(len(labels)), others])
        scores, pool = scores[every], np.concatenate([np.zeros(len(labels), dtype=np.int64), pool[others]])
    return Pools(_sorted_pools(scores, pool, len(groups)), pool_of_class=pool_of_class)


def group_pools(scores: ScorePairs, codes: Ints, n_groups: int, *, others: bool) -> Pools:
    """A pool for each group of rows, and for other groups one with all rows if `others`; rows name theirs later."""
    if not others:
        return Pools(_sorted_pools(scores, codes, n_groups))
    twice = np.tile(np.arange(len(codes)), 2)
    pool = np.concatenate([codes, np.full(len(codes), n_groups)])
    return Pools(_sorted_pools(scores[twice], pool, n_groups + 1))


def _sorted_pools(scores: ScorePairs, pool: Ints, n_pools: int) -> SortedPools:
    order = np.lexsort((scores.refine, scores.value, pool))
    edges = np.searchsorted(pool[order], np.arange(n_pools + 1))
    return SortedPools(scores.value[order], scores.refine[order], edges, np.arange(len(order) + 1))


class PoolOf(NamedTuple):
    """The pool of row i and class c is row[i] + label[c]: one of the two is all zeros.

    Its weight is the product of row_weight[i] and label_weight[c]: one of the two is all ones.
    """

    row: Ints
    label: Ints
    row_weight: Ints
    label_weight: Ints


class Pair(NamedTuple):
    """A score as a pair."""

    value: float
    refine: float


@part
def _first_not_below(pools: SortedPools, first: int, stop: int, score: Pair) -> int:
    """The first place of a pool whose score is at least this one."""
    while first < stop:
        middle = (first + stop) // 2
        value = pools.value[middle]
        if value < score.value or (value == score.value and pools.refine[middle] < score.refine):
            first = middle + 1
        else:
            stop = middle
    return first


@part
def _first_above(pools: SortedPools, first: int, stop: int, score: Pair) -> int:
    """The first place of a pool whose score is larger than this one."""
    while first < stop:
        middle = (first + stop) // 2
        value = pools.value[middle]
        if value < score.value or (value == score.value and pools.refine[middle] <= score.refine):
            first = middle + 1
        else:
            stop = middle
    return first


@leaf_kernel
def _fill_p_values(scores: Cuts, pools: SortedPools, pool_of: PoolOf, v: Floats, out: Floats) -> None:
    """p-values of all labels, (n, C)."""
    for i in range(out.shape[0]):
        for label in range(out.shape[1]):
            score = Pair(scores.value[i, label], scores.refine[i, label])
            pool = pool_of.row[i] + pool_of.label[label]
            own = pool_of.row_weight[i] * pool_of.label_weight[label]
            begin, end = pools.edges[pool], pools.edges[pool + 1]
            first = _first_not_below(pools, begin, end, score)
            above = first
            if first < end and pools.value[first] == score.value and pools.refine[first] == score.refine:
                above = _first_above(pools, first, end, score)
            larger, tied = pools.sums[end] - pools.sums[above], pools.sums[above] - pools.sums[first]
            out[i, label] = (larger + v[i] * (own + tied)) / (pools.sums[end] - pools.sums[begin] + own)


def p_values(
    source: Source,
    score: Score,
    temperature: float,
    randomness: Randomness,
    pools: Pools,
    smoothing: Randomness | None = None,
) -> Floats:
    """p-values of every label of every row, (n_rows, C); smoothed with a v of each row if `smoothing` gives one."""
    shape = source.n_rows, source.n_classes
    found = np.empty(shape)
    of_row, of_class = _or_all(pools.pool_of_row, shape[0], 0), _or_all(pools.pool_of_class, shape[1], 0)
    row_weight, class_weight = _or_all(pools.weight_of_row, shape[0], 1), _or_all(pools.weight_of_class, shape[1], 1)

    def fill(pairs: ScorePairs, place: slice, v: Floats) -> None:
        pool_of = PoolOf(of_row[place], of_class, row_weight[place], class_weight)
        _fill_p_values(pairs.cuts, pools.scores, pool_of, v, found[place])

    def work(block: Block, place: slice) -> None:
        v = np.ones(len(block)) if smoothing is None else smoothing.rows(place).block(ranked(block))
        fill(block_scores(block, score, temperature, randomness.rows(place)), place, v)

    def wide_work(some: TopRows, place: slice, pairs: ScorePairs) -> None:
        fill(pairs, place, np.ones(some.n_rows) if smoothing is None else draws_of(some, smoothing, place))

    if (tops := tops_of(source)) is not None:
        for_lower_scores(tops, score, temperature, randomness, wide_work)
    else:
        for_blocks(source, work)
    return found


def _or_all(given: Ints | None, n: int, value: int) -> Ints:
    return np.full(n, value, dtype=np.int64) if given is None else given
