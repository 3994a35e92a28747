"""A score that ends at a rank, which may be another one for each class: what RC3P compares labels by.

It takes the general path alone (`core.general`): labels are scored as without limits, and those beyond are moved.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thermoset.core.exponentials import Bools
from thermoset.core.score import Score
from thermoset.core.thresholds import ScorePairs

__all__ = ["BEYOND", "RankLimited", "moved_beyond"]

BEYOND = 1e300
"""The value of labels beyond their rank limit: above all others, and below that of masked classes."""


@dataclass(frozen=True)
class RankLimited(Score):
    """A score under which label y comes after all labels within their limits where it ranks below `limits[y]`.

    >>> from thermoset.core.scores import LAC
    >>> RankLimited(LAC(), (1, 2)).prefixes
    False
    """

    compiled: ClassVar[bool] = False
    by_rank: ClassVar[bool] = False
    of: Score
    limits: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in ("name", "uses_u", "keep_top", "logarithmic"):
            object.__setattr__(self, field, getattr(self.of, field))  # scores are frozen

    def largest(self, n_classes: int) -> float:
        """That of the score."""
        return self.of.largest(n_classes)


def moved_beyond(pairs: ScorePairs, beyond: Bools) -> ScorePairs:
    """The pairs, those beyond a limit as (`BEYOND`, value); masked classes are further out already.

    >>> moved_beyond(ScorePairs(np.array([0.2, 0.7, np.inf]), np.zeros(3)), np.array([False, True, True])).value
    array([2.e-001, 1.e+300,      inf])
    """
    moved = beyond & (pairs.value < np.inf)
    return ScorePairs(np.where(moved, BEYOND, pairs.value), np.where(moved, pairs.value, pairs.refine))
