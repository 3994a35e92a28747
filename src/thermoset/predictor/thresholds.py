"""Thresholds in a predictor's file."""

import math
from typing import Literal

import msgspec
import numpy as np

from thermoset.core.thresholds import ScorePairs

__all__ = ["Number", "Thresholds"]

Number = float | Literal["inf", "-inf"]
"""JSON has no infinity: those two are words."""


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Pairs (value, refine): one for all classes, or one for each."""

    value: tuple[Number, ...]
    refine: tuple[Number, ...]

    @classmethod
    def of(cls, pairs: ScorePairs) -> "Thresholds":
        """Write down thresholds."""
        return cls(value=tuple(map(_word, pairs.value.tolist())), refine=tuple(map(_word, pairs.refine.tolist())))

    def pairs(self) -> ScorePairs:
        """The thresholds as arrays."""
        return ScorePairs(np.array(self.value, dtype=np.float64), np.array(self.refine, dtype=np.float64))


def _word(value: float) -> Number:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value
