"""How the curves of a page look: scores as in every other figure of the project, light or dark as the page is."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt

from thermoset.looks import COLOURS, DARK_COLOURS, Look, score_looks, series_looks
from thermoset.report.charts.parts import Spec

__all__ = ["Palette", "Series", "legend_data", "method_of", "score_palette"]


class Series(NamedTuple):
    """A curve: what it is called, and how it looks. Hollow marks are thresholds by class, cluster or group.

    `outline` dashes the outline of hollow marks, so that two such curves of one score are told apart.
    """

    name: str
    look: Look
    hollow: bool = False
    outline: tuple[int, ...] = ()


_OUTLINES: tuple[tuple[int, ...], ...] = ((), (2, 1), (1, 1))  # of hollow marks: by class, then others
_MARKED = 10  # points of a line from one mark to the next
_GROUND = "dark ? '#1a2027' : '#ffffff'"  # of the cards that charts stand on


class Palette:
    """The looks of the curves of a page: the same in every chart and legend. The page says whether it is `dark`."""

    def __init__(self, series: Sequence[Series]) -> None:
        self.series = tuple(series)
        self._names = [one.name for one in series]

    @classmethod
    def of_names(cls, names: Sequence[str]) -> "Palette":
        """Curves that are not scores."""
        return cls([Series(name, look) for name, look in zip(names, series_looks(len(names)), strict=True)])

    def colour(self) -> alt.Color:
        """Colour by name."""
        return alt.Color("m:N", legend=None, scale=self._scale([_shade(one.look) for one in self.series]))

    def stroke(self) -> alt.Stroke:
        """Outline of marks by name."""
        return alt.Stroke("m:N", legend=None, scale=self._scale([_shade(one.look) for one in self.series]))

    def fill(self) -> alt.Fill:
        """Inside of marks by name: hollow ones show the ground."""
        held = [alt.ExprRef(_GROUND) if one.hollow else _shade(one.look) for one in self.series]
        return alt.Fill("m:N", legend=None, scale=self._scale(held))

    def outline(self) -> alt.StrokeDash:
        """Dashes of the outline of marks by name."""
        return alt.StrokeDash("m:N", legend=None, scale=self._scale([_dashes(one.outline) for one in self.series]))

    def shape(self) -> alt.Shape:
        """Mark by name."""
        return alt.Shape("m:N", legend=None, scale=self._scale([one.look.mark.path for one in self.series]))

    def dash(self) -> alt.StrokeDash:
        """Dashes of lines by name."""
        return alt.StrokeDash("m:N", legend=None, scale=self._scale([_dashes(one.look.dash) for one in self.series]))

    def marks(self) -> dict[str, Any]:
        """Outline, inside and shape of marks by name, for `encode`."""
        return {"stroke": self.stroke(), "fill": self.fill(), "shape": self.shape()}

    def outlined_marks(self) -> dict[str, Any]:
        """The same with dashed outlines, for charts whose lines have no dashes: a chart has one scale for both."""
        return {**self.marks(), "strokeDash": self.outline()}

    def some(self, field: str) -> str:
        """A condition on the place of a point along its curve: some have a mark, no two curves at the same places."""
        turns = (
            f"datum.m === {json.dumps(name)} && datum.{field} % {_MARKED} == {(2 + 3 * i) % _MARKED}"
            for i, name in enumerate(self._names)
        )
        return " || ".join(turns)

    def legend(self, held: Sequence[str]) -> list[Spec]:
        """What the legend of these names is drawn from."""
        return [
            {
                "name": one.name,
                "light": one.look.colour,
                "dark": one.look.dark,
                "path": one.look.mark.path,
                "dash": list(one.look.dash),
                "hollow": one.hollow,
                "outline": list(one.outline),
            }
            for one in self.series
            if one.name in held
        ]

    def _scale(self, held: list[Any]) -> alt.Scale:
        return alt.Scale(domain=self._names, range=held)


def _shade(look: Look) -> alt.ExprRef:
    return alt.ExprRef(f"dark ? '{look.dark}' : '{look.colour}'")


def _dashes(dash: tuple[int, ...]) -> list[int]:
    return list(dash) or [1, 0]


def legend_data(kinds: dict[str, list[Spec]]) -> Spec:
    """What legends are drawn from, by kind, and the colours of the page."""
    return {"kinds": kinds, "light": list(COLOURS), "dark": list(DARK_COLOURS)}


def score_palette(names: Sequence[str]) -> Palette:
    """Looks of scores, by the name of their curves: "RAPS", or with a grouping "RAPS, Mondrian".

    >>> [(one.look.colour, one.hollow) for one in score_palette(["RAPS", "RAPS, Mondrian", "APS"]).series]
    [('#009E73', False), ('#009E73', True), ('#D55E00', False)]
    """
    parted = {name: method_of(name) for name in names}
    methods = list(dict.fromkeys(method for method, _ in parted.values()))
    looks = dict(zip(methods, score_looks(methods), strict=True))
    kinds = sorted({grouping for _, grouping in parted.values() if grouping}, key=lambda title: title != "Mondrian")
    return Palette(
        [
            Series(
                name,
                looks[method],
                bool(grouping),
                _OUTLINES[kinds.index(grouping) % len(_OUTLINES)] if grouping else (),
            )
            for name, (method, grouping) in parted.items()
        ]
    )


def method_of(name: str) -> tuple[str, str]:
    """The score and the grouping of a curve.

    >>> method_of("RAPS(penalty=0.1, k_reg=2), Mondrian"), method_of("LAC")
    (('RAPS(penalty=0.1, k_reg=2)', 'Mondrian'), ('LAC', ''))
    """
    score, bracket, rest = name.partition(")")
    if bracket:
        return score + bracket, rest.removeprefix(", ")
    score, _, grouping = name.partition(", ")
    return score, grouping
