"""Scores of rows, and sets under thresholds: what fitting and predicting have in common.

Thresholds are one array of pairs (levels, G, K): G is 1, or groups of rows (or their weights) of which each row names
one; K is 1, or the classes. Whole rows take the compiled loops, plain scores are computed label by label, and rows that
hold only their largest logits are compared by bounds (`bounds`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from thermoset import kernels
from thermoset.arrays import Block, Bools, Floats, Ints, Pairs, as_float64, as_floats, as_int64, pairs
from thermoset.bounds import checked_temperature
from thermoset.conformal.bounds import (
    LOWER,
    UPPER,
    KeptSets,
    for_parts,
    kept_sets,
    require_bounds,
    score_bounds,
    uniforms_of,
    upper_label_scores,
)
from thermoset.conformal.recipe import Recipe
from thermoset.data import as_logits
from thermoset.data.top_k import TopRows, tops_of
from thermoset.errors import InputError
from thermoset.plain_scores import plain_pairs, sorted_rows
from thermoset.quoting import quoted
from thermoset.rows import Source, gaps_of, map_rows, row_array, sort_ascending, sorted_order
from thermoset.scores import LAC, RankLimited, Score, ScoreLike, move_beyond, resolve
from thermoset.uniforms import Randomness, checked_ids

_MANY = 4096  # numbers from which on a second look at some rows is worth its trouble


@dataclass(frozen=True)
class Scoring:
    """How rows were scored when the threshold was found, and so must be scored when it is applied."""

    score: Score
    temperature: float
    seed: int | None

    @classmethod
    def of(cls, recipe: Recipe) -> "Scoring":
        """By a recipe."""
        return cls(recipe.set_score, recipe.temperature, recipe.seed)

    def randomness(self, u: Any, n_rows: int, ids: Any = None) -> Randomness:
        """Given numbers, or seeded ones by row or by id; the score is deterministic without a seed."""
        if u is not None and ids is not None:
            raise InputError(
                "u and ids cannot both be given: with ids, u comes from the seed and the id. Pass only one."
            )
        keys = None if ids is None else checked_ids(ids, n_rows)
        if u is None:
            return Randomness(self.seed, keys=keys)
        return Randomness(given=_checked_u(u, n_rows))


def scores(method: ScoreLike, logits: Any, *, temperature: float = 1.0, u: Any = 1.0) -> Floats:
    """Score of every label of every row, (n, C), as the paper's number; `u` is one number or one for each row.

    >>> p = np.array([[0.5, 0.3, 0.2]])  # second label, u = 0.4: 0.5 + 0.4 * 0.3 = 0.62
    >>> scores("aps", np.log(p), u=0.4).round(12)
    array([[0.2 , 0.62, 0.88]])
    """
    data = as_logits(logits)
    uniforms = _checked_u(np.full(len(data), u) if np.ndim(u) == 0 else u, len(data))
    matrix = score_matrix(data, resolve(method), checked_temperature(temperature), Randomness(given=uniforms))
    return matrix.real.copy()


def _checked_u(u: Any, n_rows: int) -> Floats:
    try:
        uniforms = np.array(u, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"u must be numbers in [0, 1], one per row; got {quoted(u)}.") from None
    if uniforms.shape != (n_rows,):
        raise InputError(f"u must have shape ({n_rows},), one number per row; got {uniforms.shape}.")
    if not np.all((uniforms >= 0) & (uniforms <= 1)):
        raise InputError(f"u must lie in [0, 1]; got {uniforms.min()} to {uniforms.max()}. Try rng.random({n_rows}).")
    return uniforms


# ---- scores of labels ------------------------------------------------------------------------------------------------


def label_ranks(source: Source, labels: Ints) -> Ints:
    """The rank of each row's label, from 1; of equal logits the lower label index ranks higher."""
    ranks = row_array((source.n_rows,), np.int64)
    map_rows(source, _block_ranks, ranks, per_row=[as_int64(labels)])
    return ranks + 1


def _block_ranks(block: Block, labels: Ints) -> Ints:
    ranks = np.empty(len(block), dtype=np.int64)
    kernels.rank_labels(as_float64(block), as_int64(labels), ranks)
    return ranks


def block_parts(block: Block, gaps: Floats, labels: Ints, temperatures: Floats) -> tuple[Ints, Floats, Floats, Floats]:
    """What the scores of labels need: rank from 0, gap of the label and of the second class, `kernels.label_parts`."""
    ranks, parts = _block_ranks(block, labels), np.empty((4, len(temperatures), len(block)))
    kernels.label_parts(gaps, ranks, temperatures, np.empty(gaps.shape[1]), parts)
    second = gaps[:, 1].copy() if gaps.shape[1] > 1 else np.full(len(block), -np.inf)
    return ranks, gaps[np.arange(len(block)), ranks], second, parts


def label_scores(source: Source, labels: Ints, score: Score, temperatures: Any, randomness: Randomness) -> Pairs:
    """Score of each row's own label at every temperature, (T, n); rows are sorted once for all of them.

    Of rows that are not whole: the upper bound of the score.
    """
    at = np.array(temperatures, dtype=np.float64)
    if (tops := tops_of(source)) is not None:
        return upper_label_scores(tops, labels, score, at, randomness)
    if isinstance(score, RankLimited):
        beyond = label_ranks(source, labels) > np.array(score.limits)[labels]
        return move_beyond(label_scores(source, labels, score.of, at, randomness), beyond)
    parts = row_array((2, len(at), source.n_rows))
    f = _block_label_scores if score.compiled else _plain_label_scores
    map_rows(source, f, parts, per_row=[as_int64(labels), randomness], fixed=[score, at])
    return pairs(*parts)


def _block_label_scores(
    block: Block, labels: Ints, randomness: Randomness, score: Score, temperatures: Floats
) -> Floats:
    gaps, n = gaps_of(sort_ascending(block)), len(block)
    ranks, gap, second, parts = block_parts(block, gaps, labels, temperatures)
    values = np.empty((2, len(temperatures), n))
    u, terms_of, every = randomness.block(gaps), np.empty((4, n)), np.arange(n)
    numbers = every.astype(np.int32)[None]
    for j, temperature in enumerate(temperatures.tolist()):
        at, mine = 1.0 / temperature, np.ascontiguousarray(parts[:, j])
        kernels.label_terms(score.terms, at, ranks, gap, second, mine, terms_of)
        kernels.trial_values(score.terms, terms_of, numbers, u[None], values[0, j : j + 1])
        kernels.label_ties(score.terms, at, ranks, gap, second, mine, every, u, values[1, j])
    values[0] += score.offsets(block.shape[1])[labels]
    return values


def _plain_label_scores(
    block: Block, labels: Ints, randomness: Randomness, score: Score, temperatures: Floats
) -> Floats:
    gaps, order = sorted_order(block)
    u, values = randomness.block(gaps), np.empty((2, len(temperatures), len(block)))
    row, place = np.arange(len(block)), (order == labels[:, None]).argmax(axis=1)
    for j, temperature in enumerate(temperatures.tolist()):
        own = plain_pairs(score, sorted_rows(gaps, temperature, u))[row, place]
        values[0, j], values[1, j] = own.real, own.imag
    return values


# ---- scores of all labels --------------------------------------------------------------------------------------------


def score_matrix(source: Source, score: Score, temperature: float, randomness: Randomness) -> Pairs:
    """Score of every label of every row, (n, C), in the order of labels."""
    out = np.empty((source.n_rows, source.n_classes), dtype=np.complex128)
    map_rows(source, block_scores, out, per_row=[randomness], fixed=[score, temperature], axis=-2)
    return out


def block_scores(
    block: Block, randomness: Randomness, score: Score, temperature: float, among: Pairs | None = None
) -> Pairs:
    """Score of every label of a block of rows, (n, C), in the order of labels; the randomness must be that of the rows.

    Tie-breaks cost a sum each: of scores that are only looked up among sorted ones, `among`, few are computed.
    """
    gaps, order = sorted_order(block)
    if isinstance(score, RankLimited):
        ranks = np.argsort(order, axis=1) + 1
        return move_beyond(block_scores(block, randomness, score.of, temperature), ranks > np.array(score.limits))
    u = randomness.block(gaps)
    if not score.compiled:
        by_rank = plain_pairs(score, sorted_rows(gaps, temperature, u))
    else:
        by_rank = _compiled_scores(gaps, order, score, temperature, u, among)
    out = np.empty(by_rank.shape, dtype=np.complex128)
    np.put_along_axis(out, order, by_rank, axis=1)
    return out


def _compiled_scores(
    gaps: Floats, order: Ints, score: Score, temperature: float, u: Floats, among: Pairs | None
) -> Pairs:
    """Scores by rank of sorted rows."""
    value = np.empty(gaps.shape)
    kernels.value_matrix(score.terms, temperature, gaps, u, value)
    if not score.by_rank:
        value += score.offsets(gaps.shape[1])[order]
    scores, exact = pairs(value, 0.0), np.ones(gaps.shape, dtype=np.bool_)
    if among is not None:
        exact = among.real[np.minimum(np.searchsorted(among.real, value), len(among) - 1)] == value
        if score.terms.code in (kernels.APS, kernels.RAPS) and not score.keep_top and exact.any():
            scores.imag[exact] = _about(gaps, temperature, u)[exact]
            exact &= _has_near(scores, among)
    rows, ranks = map(np.ascontiguousarray, np.nonzero(exact))
    ties = np.empty(len(rows))
    kernels.rank_ties(score.terms, temperature, gaps, u, rows, ranks, ties)
    scores.imag[rows, ranks] = ties
    return scores


_NEAR = 1e-9  # how far from the tie-break a number may be that is right but for rounding, and much more


def _about(gaps: Floats, temperature: float, u: Floats) -> Floats:
    """Tie-breaks of masses, right but for rounding, (n, C)."""
    own, tail = np.empty(gaps.shape), np.empty(gaps.shape)
    kernels.tail_logs(gaps, temperature, np.empty(gaps.shape[1]), own, tail)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.logaddexp(tail, own + np.log1p(-u)[:, None]))


def _has_near(scores: Pairs, known: Pairs) -> Bools:
    """Which scores are so near to one of sorted ones that rounding may decide."""
    place = np.searchsorted(known, scores)
    near = np.zeros(scores.shape, dtype=np.bool_)
    for one in (known[np.maximum(place - 1, 0)], known[np.minimum(place, len(known) - 1)]):
        with np.errstate(invalid="ignore"):  # two that are infinite are near
            apart = np.abs(one.imag - scores.imag)
        near |= (one.real == scores.real) & ~(apart > _NEAR * (1.0 + np.abs(scores.imag)))
    return near


# ---- sets ------------------------------------------------------------------------------------------------------------


def predict_sets(
    source: Source, score: Score, temperature: float, randomness: Randomness, thresholds: Pairs, groups: Ints | None
) -> Bools:
    """Sets of all rows, (levels, n, C), under thresholds (levels, G, K) of which each row's group names one."""
    how = score, temperature, randomness, thresholds, groups
    sets = np.empty((len(thresholds), source.n_rows, source.n_classes), dtype=np.bool_)
    if (tops := tops_of(source)) is not None:
        _fill_by_bounds(sets, KeptSets.sets, tops, *how, LOWER)
    else:
        _map_sets(source, block_sets, sets, *how, axis=-2)
    return sets


def _map_sets(
    source: Source, f: Any, out: Any, score: Score, temperature: float, randomness: Randomness, thresholds: Pairs,
    groups: Ints | None, **options: Any,
) -> None:  # fmt: skip
    groups = np.zeros(source.n_rows, dtype=np.int64) if groups is None else groups
    map_rows(source, f, out, per_row=[randomness, groups], fixed=[score, temperature, thresholds], **options)


def block_sets(
    block: Block, randomness: Randomness, groups: Ints, score: Score, temperature: float, thresholds: Pairs
) -> Bools:
    """Sets of a block of rows, (levels, n, C); see `predict_sets`."""
    if not score.compiled:
        mine = thresholds[:, groups]  # (levels, n, 1 or C)
        return np.asarray(block_scores(block, randomness, score, temperature) <= mine)
    sets = np.empty((len(thresholds), *block.shape), dtype=np.bool_)
    if score.by_share:
        rest = _near_sets(block, groups, score, temperature, thresholds, sets)
        if rest.any():
            sets[:, rest] = _share_sets(block[rest], groups[rest], score, temperature, thresholds)
        return sets
    cuts = as_floats(thresholds)
    if thresholds.shape[2] > 1:
        gaps, order = sorted_order(block)
        finite = np.where(np.isposinf(cuts[0, :, 0]), -np.inf, cuts[0, :, 0])
        kernels.class_sets(
            score.terms, temperature, gaps, order, randomness.block(gaps), np.ascontiguousarray(cuts[:, :, 0]),
            finite.max(axis=1), sets,
        )  # fmt: skip
        return sets
    ascending = sort_ascending(block)
    for level, size in enumerate(_prefix_sizes(ascending, score, temperature, randomness, cuts, groups)):
        _mark_prefixes(block, ascending, size, sets[level])
    return sets


def _near_sets(block: Block, groups: Ints, score: Score, temperature: float, thresholds: Pairs, sets: Bools) -> Bools:
    """Fill the LAC sets for which float32 is precise enough, and say which rows are left: all if they are not float32.

    A probability near its threshold is known to 1e-5 of it, but for the rounding of a sum over all classes.
    """
    usual = block.dtype == np.float32 and block.size >= _MANY and score == LAC() and thresholds.shape[2] == 1
    least = 1.0 - thresholds[:, :, 0].real
    if not usual or not 1e-3 < temperature < 1e3 or not ((least > 1e-6) & (least < 0.99)).all():
        return np.ones(len(block), dtype=np.bool_)
    left, margin = np.zeros(len(block), dtype=np.bool_), 1e-5 + block.shape[1] * 2.0**-24
    rows, inverse = np.require(block, np.float32, ("C", "W")), np.float32(1.0 / temperature)
    kernels.near_sets(rows, inverse, as_int64(groups), least, margin, sets, left)
    return left


def _share_sets(block: Block, groups: Ints, score: Score, temperature: float, thresholds: Pairs) -> Bools:
    sets = np.empty((len(thresholds), *block.shape), dtype=np.bool_)
    offsets, cuts = score.offsets(block.shape[1]), as_floats(thresholds)
    kernels.share_sets(score.terms, temperature, as_float64(block), as_int64(groups), cuts, offsets, sets)
    return sets


def _prefix_sizes(
    ascending: Block, score: Score, temperature: float, randomness: Randomness, cuts: Floats, groups: Ints
) -> Ints:
    """Sizes (levels, n) of sets that are prefixes of the ranking, under thresholds (2, levels, G, 1)."""
    gaps = gaps_of(ascending)
    sizes = np.empty((cuts.shape[1], len(gaps)), dtype=np.int64)
    kernels.prefix_sizes(
        score.terms, temperature, gaps, randomness.block(gaps), as_int64(groups), np.ascontiguousarray(cuts[..., 0]),
        sizes,
    )  # fmt: skip
    return sizes


def _mark_prefixes(block: Block, ascending: Block, sizes: Ints, sets: Bools) -> None:
    """Mark the top-ranked labels of each row: those whose logit is at least that of the last one inside."""
    n_classes, row = block.shape[1], np.arange(len(block))
    last = ascending[row, np.minimum(n_classes - sizes, n_classes - 1)]
    last[sizes == 0] = np.inf
    np.greater_equal(block, last[:, None], out=sets)
    tied = (sizes > 0) & (sizes < n_classes)
    tied[tied] = ascending[row[tied], n_classes - sizes[tied] - 1] == last[tied]
    for i in np.flatnonzero(tied):  # of labels with the logit of the last one inside, those of the lowest indices
        like_last = np.flatnonzero(block[i] == last[i])
        above = np.count_nonzero(block[i] > last[i])
        sets[i, like_last[sizes[i] - above :]] = False


def predict_sizes(
    source: Source, score: Score, temperature: float, randomness: Randomness, thresholds: Pairs, groups: Ints | None
) -> Ints:
    """Set sizes of all rows, (levels, n); sets are formed only where they are not prefixes of the ranking."""
    how = score, temperature, randomness, thresholds, groups
    sizes = row_array((len(thresholds), source.n_rows), np.int64)
    if (tops := tops_of(source)) is not None:
        _fill_by_bounds(sizes, KeptSets.sizes, tops, *how, LOWER)
    else:
        _map_sets(source, _sizes_of_block, sizes, *how)
    return sizes


def _sizes_of_block(
    block: Block, randomness: Randomness, groups: Ints, score: Score, temperature: float, thresholds: Pairs
) -> Ints:
    if score.prefixes and not score.by_share and thresholds.shape[2] == 1:
        cuts = as_floats(thresholds)
        return _prefix_sizes(sort_ascending(block), score, temperature, randomness, cuts, groups)
    sets = block_sets(block, randomness, groups, score, temperature, thresholds)
    return np.asarray(sets.sum(axis=2))


def undecided_rows(
    source: Source, score: Score, temperature: float, randomness: Randomness, thresholds: Pairs, groups: Ints | None
) -> Bools:
    """Rows whose set holds labels that bounds could not exclude, (levels, n): none of whole rows.

    The set by upper bounds is part of that by lower ones, so they differ if and only if their sizes do.
    """
    if (tops := tops_of(source)) is None:
        return np.zeros((len(thresholds), source.n_rows), dtype=np.bool_)
    sizes = np.empty((2, len(thresholds), source.n_rows), dtype=np.int64)
    for out, side in zip(sizes, (LOWER, UPPER), strict=True):
        _fill_by_bounds(out, KeptSets.sizes, tops, score, temperature, randomness, thresholds, groups, side)
    return np.asarray(sizes[0] != sizes[1])


def _fill_by_bounds(
    out: Any, of: Any, rows: TopRows, score: Score, temperature: float, randomness: Randomness, thresholds: Pairs,
    groups: Ints | None, side: float,
) -> None:  # fmt: skip
    """Fill in sets or sizes, (levels, n, ...), of the labels that have one of their bounds within the threshold."""
    require_bounds(score)

    def work(some: TopRows, place: slice) -> None:
        bounds = score_bounds(score, some, temperature, uniforms_of(some, randomness[place]), side)
        indices = some.indices.astype(np.int64)
        kept = kept_sets(bounds, indices, thresholds, None if groups is None else groups[place])
        out[:, place] = of(kept, indices, some.n_classes)

    for_parts(rows, work)
