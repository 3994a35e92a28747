"""Thresholds of scores that treat classes differently, as engines compare with them."""

from typing import NamedTuple

import numpy as np

from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.formulas import BEYOND
from thermoset.core.rank_limits import RankLimited
from thermoset.core.scores import LAC, PAS, NeverEmpty, Score
from thermoset.core.thresholds import ScorePairs

__all__ = ["Compared", "compared_by", "plain_score"]


class Compared(NamedTuple):
    """Thresholds as pairs of a score that treats all classes alike, and what is different about classes, if anything.

    offset : (C,), what is added to values; limit : (C,), the last ranks; beyond : (C,), whether the threshold lies
    beyond them, so that all labels within are in.
    """

    thresholds: ScorePairs
    offset: Floats | None = None
    limit: Ints | None = None
    beyond: Bools | None = None


def plain_score(score: Score) -> Score:
    """The score as it was before rank limits and kept top labels."""
    while isinstance(score, NeverEmpty | RankLimited):
        score = score.of
    return score


def compared_by(thresholds: ScorePairs, score: Score, n_classes: int) -> Compared:
    """Thresholds, (1,) or (C,), and what is different about classes."""
    beyond = thresholds.value == BEYOND
    # Labels beyond their limit are compared by their values alone.
    value = np.where(beyond, thresholds.refine, thresholds.value)
    refine = np.where(beyond, np.inf, thresholds.refine)
    terms, plain = score.terms(n_classes), plain_score(score)
    if isinstance(plain, LAC | PAS) and np.isposinf(refine).any():  # log-odds decide, where values are close or anyway
        found = _log_odds(-np.expm1(terms.offset - value) if isinstance(plain, PAS) else value)
        refine = np.where(np.isposinf(refine), found, refine)
    if score.by_rank:
        return Compared(ScorePairs(value, refine))
    return Compared(
        ScorePairs(value, refine),
        terms.offset if terms.offset.any() else None,
        terms.limit if (terms.limit < n_classes).any() else None,
        beyond if beyond.any() else None,
    )


def _log_odds(others: Floats) -> Floats:
    """Log-odds of the mass of the others; minus infinity where it would be below 0."""
    with np.errstate(all="ignore"):
        found = np.log(np.maximum(others, 0.0)) - np.log1p(-others)
    return np.asarray(np.where(others < 1, found, np.inf))
