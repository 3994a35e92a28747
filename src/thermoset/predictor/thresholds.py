"""Thresholds in a predictor's file."""

import math
from typing import Literal

import msgspec

from thermoset.arrays import Floats, Pairs
from thermoset.arrays import pairs as as_pairs

__all__ = ["Number", "Thresholds"]

Number = float | Literal["inf", "-inf"]
"""JSON has no infinity: those two are words."""


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Values and tie-breaks (`refine`): one pair for all classes, or one for each class or group of rows."""

    value: tuple[Number, ...]
    refine: tuple[Number, ...]

    @classmethod
    def of(cls, thresholds: Pairs) -> "Thresholds":
        """Write down thresholds of any shape, one after the other."""
        return cls(value=_words(thresholds.real), refine=_words(thresholds.imag))

    def pairs(self) -> Pairs:
        """The thresholds, (1,), (C,) or (G,).

        >>> Thresholds.of(as_pairs([[0.5, math.inf]], 0.0)).pairs().real.tolist()
        [0.5, inf]
        """
        return as_pairs([float(one) for one in self.value], [float(one) for one in self.refine])


def _words(numbers: Floats) -> tuple[Number, ...]:
    return tuple(("inf" if one > 0 else "-inf") if math.isinf(one) else one for one in numbers.ravel().tolist())
