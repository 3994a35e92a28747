"""A score that ends at a rank, which may be another one for each class: what RC3P compares labels by."""

from dataclasses import dataclass

import numpy as np

from thermoset.core.formulas import ClassTerms, Formula
from thermoset.core.plain import SortedRows
from thermoset.core.score import Score

__all__ = ["RankLimited"]


@dataclass(frozen=True)
class RankLimited(Score):
    """A score under which label y comes after all labels within their limits where it ranks below `limits[y]`.

    >>> from thermoset.core.scores import LAC
    >>> RankLimited(LAC(), (1, 2)).terms(2).limit
    array([1, 2])
    """

    of: Score
    limits: tuple[int, ...]

    def __post_init__(self) -> None:
        for field in ("name", "uses_u", "compiled", "keep_top", "logarithmic"):
            object.__setattr__(self, field, getattr(self.of, field))  # scores are frozen
        object.__setattr__(self, "by_rank", False)

    @property
    def step(self) -> float:
        """That of the score."""
        return self.of.step

    @property
    def formula(self) -> Formula:
        """That of the score."""
        return self.of.formula

    def largest(self, n_classes: int) -> float:
        """That of the score."""
        return self.of.largest(n_classes)

    def terms(self, n_classes: int) -> ClassTerms:
        """Those of the score, with the limits."""
        return self.of.terms(n_classes)._replace(limit=np.array(self.limits, dtype=np.int64))

    def pairs(self, rows: SortedRows) -> object:
        """Those of the score; the general path ends them at the limits."""
        return self.of.pairs(rows)
