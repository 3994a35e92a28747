"""How figures look, on pages as in plots: one colour, mark and dash for each score, and where names stand.

Colours are Okabe and Ito's on a light ground, and brighter ones on a dark ground. Marks and dashes tell scores apart
for readers who do not see all colours, and on printers that have none.
"""

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import NamedTuple

from thermoset.scores import SCORES

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#1d2329", "#59626b")
"""On a light ground."""

DARK_COLOURS = ("#56B4E9", "#f0954f", "#2fb88a", "#e79ac6", "#f0e442", "#8f7fe0", "#e8ebee", "#78828c")
"""The same places on a dark ground."""


class Mark(NamedTuple):
    """A mark by its name in Matplotlib, and as an SVG path around the origin, about two units wide."""

    marker: str
    path: str


MARKS = (
    Mark("o", "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z"),
    Mark("s", "M-.9,-.9H.9V.9H-.9Z"),
    Mark("^", "M0,-1.15L1.15,.9H-1.15Z"),
    Mark("D", "M0,-1.25L1.05,0L0,1.25L-1.05,0Z"),
    Mark("v", "M0,1.15L1.15,-.9H-1.15Z"),
    Mark("P", "M-.4,-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4Z"),
    Mark(">", "M1.15,0L-.9,1.15V-1.15Z"),
    Mark("<", "M-1.15,0L.9,1.15V-1.15Z"),
)
"""Marks of scores, in the order of the colours."""

_SPARE_MARKS = (
    Mark("X", "M-1,-.5L-.5,-1L0,-.5L.5,-1L1,-.5L.5,0L1,.5L.5,1L0,.5L-.5,1L-1,.5L-.5,0Z"),
    Mark("*", "M0,-1.3L.31,-.42L1.24,-.4L.5,.16L.76,1.05L0,.52L-.76,1.05L-.5,.16L-1.24,-.4L-.31,-.42Z"),
    Mark("p", "M0,-1.15L1.09,-.36L.68,.93H-.68L-1.09,-.36Z"),
    Mark("d", "M0,-1.3L.65,0L0,1.3L-.65,0Z"),
    Mark("h", "M0,-1.15L1,-.58V.58L0,1.15L-1,.58V-.58Z"),
)
"""Marks for variants of a score: no score has one of these."""

_DASHES = ((), (6, 3), (2, 2), (8, 2, 2, 2), (1, 4), (4, 2), (10, 4), (3, 3))


class Look(NamedTuple):
    """Colours on a light and on a dark ground, the mark, and the dashes of a line in pixels (none: solid)."""

    colour: str
    dark: str
    mark: Mark
    dash: tuple[int, ...]

    @property
    def marker(self) -> str:
        """The mark in Matplotlib."""
        return self.mark.marker


_LOOKS = tuple(map(Look, COLOURS, DARK_COLOURS, MARKS, _DASHES))

SCORE_LOOKS: Mapping[str, Look] = MappingProxyType({name: _LOOKS[score.look] for name, score in SCORES.items()})
"""The look of each score, by name. A score of one's own has the grey one that is left."""

_OTHER = _LOOKS[-1]


def base_score(name: str) -> str:
    """The score that a variant belongs to."""
    return name.partition("(")[0].partition(",")[0].strip().lower()


def score_looks(methods: Sequence[str]) -> list[Look]:
    """The look of each score: the same everywhere, whatever else is drawn with it.

    Variants of a score (another penalty) in one figure share its colour, and have marks and dashes of their own.

    >>> score_looks(["aps"]) == score_looks(["lac", "aps", "raps"])[1:2]
    True
    >>> plain, strict = score_looks(["raps", "raps(penalty=0.2)"])
    >>> plain.colour == strict.colour, plain.mark == strict.mark
    (True, False)
    """
    looks: list[Look] = []
    spare = cycle(_SPARE_MARKS)
    for method in methods:
        own = SCORE_LOOKS.get(base_score(method), _OTHER)
        before = sum(look.colour == own.colour for look in looks)
        if before:
            dash = _DASHES[(_DASHES.index(own.dash) + before) % len(_DASHES)]
            own = own._replace(mark=next(spare), dash=dash)
        looks.append(own)
    return looks


def series_looks(count: int) -> list[Look]:
    """Looks of curves that are not scores, such as the tests of a monitor."""
    return [_LOOKS[i % len(_LOOKS)] for i in range(count)]


# ---- where names stand -----------------------------------------------------------------------------------------------

_LETTER = 6  # pixels at most


class PlacedName(NamedTuple):
    """Where the name of a marked temperature stands: in which line of text, counted upwards from 1, on which side."""

    name: str
    temperature: float
    line: int
    left: bool


def placed_names(marks: Mapping[str, float], across: Callable[[float], float]) -> list[PlacedName]:
    """Place the names of marked temperatures above a plot, in lines, so that no mark's line runs through a name.

    `across` gives the pixels from the left end of the plot. The first name stands at the left of its mark if there is
    room, the others at the right; one that would reach the next mark stands above that one's name. Names of equal
    temperatures stand together.
    """
    together: dict[float, list[str]] = {}
    for name, t in marks.items():
        together.setdefault(t, []).append(name)
    placed: list[PlacedName] = []
    for t in sorted(together, reverse=True):
        name = ", ".join(together[t])
        start, width = across(t), 6 + _LETTER * sum(not unicodedata.combining(c) for c in name)
        met = [other.line for other in placed if across(other.temperature) < start + width]
        left = t == min(together) and start > width
        placed.append(PlacedName(name, t, 1 if left else 1 + max(met, default=0), left))
    return placed


class PanelAxis:
    """An axis around some values, logarithmic where they span more than `wide` times the least of them.

    `room` is left free at both ends, in parts of the span; `right` beyond the values, in parts of the axis.
    """

    def __init__(self, values: Sequence[float], wide: float = math.inf, room: float = 0.08, right: float = 0) -> None:
        self.is_log = min(values) > 0 and max(values) > wide * min(values)
        low, high = (math.log(v) if self.is_log else v for v in (min(values), max(values)))
        free = room * ((high - low) or abs(low) or 1.0)
        self._low = low - free
        self._span = (high + free - self._low) / (1 - right)

    @property
    def ends(self) -> tuple[float, float]:
        """Least and greatest value of the axis."""
        return self.value(0), self.value(1)

    def part(self, value: float) -> float:
        """Where a value lies between the ends, from 0 to 1."""
        return ((math.log(value) if self.is_log else value) - self._low) / self._span

    def value(self, part: float) -> float:
        """The value at a part of the axis."""
        at = self._low + part * self._span
        return math.exp(at) if self.is_log else at

    def ticks(self, most: int, last: float) -> list[float]:
        """Round numbers on the axis, up to `last` and about so many."""
        low, high = self.value(0), min(last, self.value(1))
        if self.is_log:
            powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
            return [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
        least = (high - low) / most
        power = 10.0 ** math.floor(math.log10(least))
        step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= least)
        return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


class NameAside(NamedTuple):
    """A name next to the panel, joined by a line to its point (x, y); `name_y` is the middle of the name."""

    name: str
    x: float
    y: float
    name_y: float


def names_aside(points: Mapping[str, tuple[float, float]], along: PanelAxis, gap: float) -> list[NameAside]:
    """Names in the order of their points, as close to their heights as they can be with a gap (part of the panel)."""
    ordered = sorted(points.items(), key=lambda item: (item[1][1], item[1][0]))
    blocks: list[tuple[float, int]] = []  # names that touch, with the sum of where each wants the first of them
    for i, (_, (_, y)) in enumerate(ordered):
        total, count = along.part(y) - i * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    free = max(1 - (len(ordered) - 0.5) * gap, gap / 2)
    firsts = [min(max(total / count, gap / 2), free) for total, count in blocks for _ in range(count)]
    return [
        NameAside(name, x, y, along.value(first + i * gap))
        for i, ((name, (x, y)), first) in enumerate(zip(ordered, firsts, strict=True))
    ]
