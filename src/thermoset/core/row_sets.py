"""Sets with a threshold for each group of rows: what a row's set is compared with is that of its group.

The sets of one row are those of one threshold for all classes. So nothing new is computed: rows look up a threshold.
"""

import numpy as np

from thermoset.core.exponentials import Bools
from thermoset.core.general import block_scores, filler
from thermoset.core.pool import for_blocks
from thermoset.core.prefixes import prefix_row_filler
from thermoset.core.row_context import FillRows, RowContext
from thermoset.core.scores import Score
from thermoset.core.sources import Block, Source
from thermoset.core.thresholds import ScorePairs
from thermoset.core.top_rows import tops_of
from thermoset.core.top_stages import wide_sets

__all__ = ["any_filler", "row_filler", "sets_by_row"]


def any_filler(score: Score, temperature: float, thresholds: ScorePairs, *, by_row: bool) -> FillRows:
    """What makes sets under thresholds by group of rows (`row_filler`), or under others (`filler`)."""
    if by_row:
        return row_filler(score, temperature, thresholds)
    fill = filler(score, temperature, thresholds)
    return lambda block, context, out: fill(block, context.randomness, out)


def row_filler(score: Score, temperature: float, thresholds: ScorePairs) -> FillRows:
    """What makes sets under thresholds (n_levels, G), of which each row's code names one."""
    if score.prefixes:
        return prefix_row_filler(score, temperature, thresholds)

    def fill(block: Block, context: RowContext, out: Bools) -> None:
        pairs, codes = block_scores(block, score, temperature, context.randomness), context.places(len(block))
        for sets, value, refine in zip(out, thresholds.value, thresholds.refine, strict=True):
            own = ScorePairs(value[codes, None], refine[codes, None])
            sets[:] = (pairs.value < own.value) | ((pairs.value == own.value) & (pairs.refine <= own.refine))

    return fill


def sets_by_row(source: Source, score: Score, temperature: float, context: RowContext, thresholds: ScorePairs) -> Bools:
    """Sets of all rows, (n_levels, n_rows, C), under thresholds as `row_filler` takes them."""
    if (tops := tops_of(source)) is not None:
        return wide_sets(tops, score, temperature, context.randomness, thresholds, context.codes)
    fill = row_filler(score, temperature, thresholds)
    sets = np.empty((len(thresholds.value), source.n_rows, source.n_classes), dtype=np.bool_)
    for_blocks(source, lambda block, place: fill(block, context.rows(place), sets[:, place]))
    return sets
