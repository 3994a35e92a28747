"""How scores look: one colour, mark and dash for each, in every figure, page and plot.

Colours are Okabe and Ito's on a light ground, and brighter ones on a dark ground. Marks and dashes tell scores apart
for readers who do not see all colours, and on printers that have none.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import NamedTuple

from thermoset.scores import SCORES

__all__ = [
    "COLOURS",
    "DARK_COLOURS",
    "MARKS",
    "SCORE_LOOKS",
    "Look",
    "Mark",
    "base_score",
    "score_looks",
    "series_looks",
]

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
"""Marks for variants of a score beside it: no score has one of these."""

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
    """The score that a variant belongs to.

    >>> base_score("raps(penalty=0.1)"), base_score("RAPS")
    ('raps', 'raps')
    """
    return name.partition("(")[0].partition(",")[0].strip().lower()


def score_looks(methods: Sequence[str]) -> list[Look]:
    """The look of each score: the same everywhere, whatever else is drawn beside it.

    Variants of a score (another penalty) in one figure share its colour, and have marks and dashes of their own.

    >>> score_looks(["aps"]) == score_looks(["lac", "aps", "raps"])[1:2]
    True
    >>> plain, strict = score_looks(["raps", "raps(penalty=0.2)"])
    >>> plain.colour == strict.colour, plain.mark == strict.mark
    (True, False)
    """
    found: list[Look] = []
    spare = cycle(_SPARE_MARKS)
    for method in methods:
        own = SCORE_LOOKS.get(base_score(method), _OTHER)
        before = sum(look.colour == own.colour for look in found)
        if before:
            dash = _DASHES[(_DASHES.index(own.dash) + before) % len(_DASHES)]
            own = own._replace(mark=next(spare), dash=dash)
        found.append(own)
    return found


def series_looks(count: int) -> list[Look]:
    """Looks of curves that are not scores, such as the tests of a monitor."""
    return [_LOOKS[i % len(_LOOKS)] for i in range(count)]
