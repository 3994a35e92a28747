"""Thresholds of scores that treat classes differently, as engines compare with them."""

from typing import NamedTuple

import numpy as np

from thermoset.arrays import Floats, Pairs, pairs
from thermoset.scores import APS, LAC, PAS, RAPS, NeverEmpty, Score

__all__ = ["Compared", "compared_by", "plain_score"]


class Compared(NamedTuple):
    """Thresholds as pairs of a score that treats all classes alike, and what is different about classes, if anything.

    offset : (C,), what is added to values.
    """

    thresholds: Pairs
    offset: Floats | None = None


def plain_score(score: Score) -> Score:
    """The score as it was before its top label was kept."""
    return score.of if isinstance(score, NeverEmpty) else score


def compared_by(thresholds: Pairs, score: Score, n_classes: int) -> Compared:
    """Thresholds, (1,) or (C,), and what is different about classes."""
    value, tie = thresholds.real, thresholds.imag
    offset, plain = score.offsets(n_classes), plain_score(score)
    if isinstance(plain, LAC | PAS) and np.isposinf(tie).any():  # log-odds decide, where values are close or anyway
        found = _log_odds(-np.expm1(offset - value) if isinstance(plain, PAS) else value)
        tie = np.where(np.isposinf(tie), found, tie)
    if isinstance(plain, APS | RAPS):  # below saturation values alone decide: whoever is close is in
        tie = np.where(tie == 0.0, np.inf, tie)
    return Compared(pairs(value, tie), None if score.by_rank or not offset.any() else offset)


def _log_odds(others: Floats) -> Floats:
    """Log-odds of the mass of the others; minus infinity where it would be below 0."""
    with np.errstate(all="ignore"):
        found = np.log(np.maximum(others, 0.0)) - np.log1p(-others)
    return np.asarray(np.where(others < 1, found, np.inf))
