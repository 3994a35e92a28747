"""The general path: the stages for any score. Compiled scores take their kernels; plain ones are computed here.

A plain score (NumPy on sorted probabilities) may do anything: rise and fall with the rank, bend with u. So nothing is
assumed of it: every label of every row is scored, and the matrix is compared with the threshold, block by block. That
costs a sort, a softmax and the score itself for each temperature and each u, where kernels share and skip most of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from thermoset.core import class_sets as by_class
from thermoset.core import label_shares
from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.label_logits import label_ranks
from thermoset.core.memory import row_array
from thermoset.core.plain import SortedRows, sorted_rows
from thermoset.core.pool import for_blocks
from thermoset.core.prefixes import prefix_filler
from thermoset.core.rank_limits import RankLimited, moved_beyond
from thermoset.core.scores import Score
from thermoset.core.sources import Block, Source, ascending
from thermoset.core.stages import fill_rows
from thermoset.core.thresholds import ScorePairs
from thermoset.core.top_rows import tops_of
from thermoset.core.top_stages import upper_label_scores, wide_sets
from thermoset.core.uniforms import FillSets, Randomness
from thermoset.errors import InputError

__all__ = ["block_scores", "filler", "label_scores", "plain_pairs", "score_matrix", "sets_of"]


def label_scores(
    source: Source, own: Ints, score: Score, temperatures: Sequence[float], randomness: Randomness
) -> list[ScorePairs]:
    """Score of each row's own label at every temperature; rows are sorted once for all of them.

    Of rows that are not whole: the upper end of the score.
    """
    if (tops := tops_of(source)) is not None:
        return upper_label_scores(tops, own, score, temperatures, randomness)
    if isinstance(score, RankLimited):
        beyond = label_ranks(source, own) > np.array(score.limits)[own]
        return [moved_beyond(pairs, beyond) for pairs in label_scores(source, own, score.of, temperatures, randomness)]
    if score.compiled:
        return label_shares.label_scores(source, own, score, temperatures, randomness)
    found = row_array((2, len(temperatures), source.n_rows))
    fill_rows(source, _PlainLabels(own, score, tuple(temperatures), randomness), [found])
    return [ScorePairs(value, refine) for value, refine in zip(*found, strict=True)]


@dataclass(frozen=True, eq=False)
class _PlainLabels:
    """The stage: plain scores of labels as pairs, (2, T, n)."""

    labels: Ints
    score: Score
    temperatures: tuple[float, ...]
    randomness: Randomness

    def rows(self, place: slice) -> "_PlainLabels":
        return replace(self, labels=self.labels[place], randomness=self.randomness.rows(place))

    def __call__(self, block: Block) -> tuple[Floats]:
        rising, order = ascending(block)
        u, found = self.randomness.block(rising), np.empty((2, len(self.temperatures), len(block)))
        row, position = np.arange(len(block)), (order[:, ::-1] == self.labels[:, None]).argmax(axis=1)
        for j, temperature in enumerate(self.temperatures):
            pairs = plain_pairs(self.score, sorted_rows(rising, temperature, u))
            found[0, j], found[1, j] = pairs.value[row, position], pairs.refine[row, position]
        return (found,)


def score_matrix(source: Source, score: Score, temperature: float, randomness: Randomness) -> ScorePairs:
    """Score of every label of every row, (n_rows, C), in label order."""
    found = ScorePairs(np.empty((source.n_rows, source.n_classes)), np.empty((source.n_rows, source.n_classes)))

    def work(block: Block, place: slice) -> None:
        pairs = block_scores(block, score, temperature, randomness.rows(place))
        found.value[place], found.refine[place] = pairs.value, pairs.refine

    for_blocks(source, work)
    return found


def block_scores(block: Block, score: Score, temperature: float, randomness: Randomness) -> ScorePairs:
    """Score of every label of a block of rows, (n, C), in label order; the randomness must be that of these rows."""
    if isinstance(score, RankLimited):
        ranks = np.argsort(ascending(block)[1][:, ::-1], axis=1) + 1
        return moved_beyond(block_scores(block, score.of, temperature, randomness), ranks > np.array(score.limits))
    if score.compiled:
        return by_class.compiled_scores(block, score, temperature, randomness)
    rising, order = ascending(block)
    pairs = plain_pairs(score, sorted_rows(rising, temperature, randomness.block(rising)))
    out = ScorePairs(np.empty(block.shape), np.empty(block.shape))
    np.put_along_axis(out.value, order[:, ::-1], pairs.value, axis=1)
    np.put_along_axis(out.refine, order[:, ::-1], pairs.refine, axis=1)
    return out


def filler(score: Score, temperature: float, thresholds: ScorePairs) -> FillSets:
    """What makes sets under thresholds (n_thresholds, 1), for all classes, or (n_thresholds, C), for each."""
    if not score.compiled:
        return _plain_filler(score, temperature, thresholds)
    if thresholds.value.shape[1] == 1 and score.by_rank:
        return prefix_filler(score, temperature, ScorePairs(thresholds.value[:, 0], thresholds.refine[:, 0]))
    return by_class.class_filler(score, temperature, thresholds)


def _plain_filler(score: Score, temperature: float, thresholds: ScorePairs) -> FillSets:
    def fill(block: Block, randomness: Randomness, out: Bools) -> None:
        pairs = block_scores(block, score, temperature, randomness)
        for sets, value, refine in zip(out, thresholds.value, thresholds.refine, strict=True):
            tied = (pairs.value == value) & (pairs.refine <= refine)
            sets[:] = (pairs.value < value) | tied

    return fill


def sets_of(source: Source, score: Score, temperature: float, randomness: Randomness, thresholds: ScorePairs) -> Bools:
    """Sets of all rows, (n_thresholds, n_rows, C), under thresholds as `filler` takes them."""
    if (tops := tops_of(source)) is not None:
        return wide_sets(tops, score, temperature, randomness, thresholds)
    fill = filler(score, temperature, thresholds)
    sets = np.empty((len(thresholds.value), source.n_rows, source.n_classes), dtype=np.bool_)
    for_blocks(source, lambda block, place: fill(block, randomness.rows(place), sets[:, place]))
    return sets


def plain_pairs(score: Score, rows: SortedRows) -> ScorePairs:
    """Scores of sorted rows, (n, C) in the order of ranks, checked; masked classes are beyond every threshold."""
    with np.errstate(all="ignore"):  # probabilities underflow to 0 where temperatures are low; what matters is checked
        found = score.pairs(rows)
    value, refine = found if isinstance(found, tuple) and len(found) == 2 else (found, np.zeros(rows.probs.shape))
    masked = np.isneginf(rows.gaps)
    pairs = ScorePairs(_numbers(score, value, rows, masked), _numbers(score, refine, rows, masked))
    bad = np.argwhere(np.isinf(pairs.value) & ~masked)
    if len(bad):
        raise InputError(f"{_what(score, rows, *bad[0])} is {pairs.value[tuple(bad[0])]}; it must be finite. Clip it.")
    if score.keep_top:
        pairs.value[:, 0] = pairs.refine[:, 0] = -np.inf
    return pairs


def _numbers(score: Score, given: object, rows: SortedRows, masked: Bools) -> Floats:
    """One of the two numbers of a pair, for every row and rank."""
    try:
        numbers = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"score {score.name!r} must return an array, or a pair (value, refine) of arrays; got "
            f"{type(given).__name__}."
        ) from None
    if numbers.shape != rows.probs.shape:
        raise InputError(
            f"score {score.name!r} must return one number for each row and rank, the shape {rows.probs.shape} of "
            f"probs; got {numbers.shape}."
        )
    bad = np.argwhere(np.isnan(numbers) & ~masked)
    if len(bad):
        raise InputError(f"{_what(score, rows, *bad[0])} is NaN; it must be a number.")
    numbers[masked] = np.inf
    return numbers


def _what(score: Score, rows: SortedRows, row: int, column: int) -> str:
    return (
        f"score {score.name!r} at rank {column + 1} (probability {rows.probs[row, column]:g}, u = {rows.u[row, 0]:g})"
    )
