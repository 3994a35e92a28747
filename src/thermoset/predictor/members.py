"""Thresholds in a predictor's file, and the members of a union: temperatures that may speak for some of the classes."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Literal

import msgspec
import numpy as np

from thermoset.core.thresholds import ScorePairs

__all__ = ["Member", "Number", "Thresholds", "broken_members"]

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


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A temperature that may speak for some classes (None: all), and its threshold; see `tuning.full`."""

    temperature: float
    thresholds: Thresholds
    classes: tuple[int, ...] | None


def broken_members(members: Sequence[Member], n_classes: int) -> Iterator[tuple[str, bool]]:
    """What members must be, and whether they are not."""
    temperatures = [member.temperature for member in members]
    yield "temperatures of members must increase", any(a >= b for a, b in pairwise(temperatures))
    pairs = [member.thresholds.pairs() for member in members]
    single = all(len(pair.value) == len(pair.refine) == 1 for pair in pairs)
    yield "a member must have one threshold", not single
    yield "thresholds must be numbers", any(np.isnan([*pair.value, *pair.refine]).any() for pair in pairs)
    named = [member.classes for member in members if member.classes is not None]
    known = all(list(some) == sorted({c for c in some if 0 <= c < n_classes}) for some in named)
    yield "classes of members must be columns, in increasing order", not known
    spoken = len(named) < len(members) or len(set(chain(*named))) == n_classes
    yield "members must cover every class", not spoken
