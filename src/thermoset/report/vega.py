"""Vega-Lite as plain dicts: what every chart of the pages is put together from, and how its curves look.

A chart is a list of layers: a mark, its rows, and what it encodes. Colours come from the page, which is light or dark.
"""

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from thermoset.looks import COLOURS, DARK_COLOURS, Look, score_looks, series_looks

Spec = dict[str, Any]
Rows = list[dict[str, Any]]

DASHED = {"style": "mark", "strokeDash": [4, 4]}
"""A line that something is compared with."""

_DIGITS = 6  # of what is drawn; what is written has its own
_COMPARED = frozenset({"a", "T"})  # level and temperature: the page's signals must find them, to the last bit
_KINDS = {"Q": "quantitative", "N": "nominal", "T": "temporal"}


def chart(description: str, *layers: Spec, height: int, **more: Any) -> Spec:
    """Layers on top of each other, as wide as their place on the page; the description stands in for the picture.

    `datasets` are rows that several layers draw, by name: they are written once.
    """
    if "datasets" in more:
        more["datasets"] = {name: plain(rows) for name, rows in more["datasets"].items()}
    return {"description": description, "width": "container", "height": height, "layer": list(layers), **more}


def layer(mark: str, data: Rows | str, transform: Sequence[Spec] = (), /, **parts: Any) -> Spec:
    """A mark of some rows, or of the dataset with this name: dicts are channels, the rest belongs to the mark."""
    encoding = {name: part for name, part in parts.items() if isinstance(part, dict) or name == "tooltip"}
    style = {name: part for name, part in parts.items() if name not in encoding}
    held: Spec = {"mark": {"type": mark, **style}, "encoding": encoding}
    held["data"] = {"name": data} if isinstance(data, str) else {"values": plain(data)}
    return held | ({"transform": list(transform)} if transform else {})


def channel(shorthand: str, **more: Any) -> Spec:
    """A field with its kind: quantitative, nominal or a time."""
    field, _, kind = shorthand.partition(":")
    return {"field": field, **({"type": _KINDS[kind]} if kind else {}), **more}


def tip(field: str, title: str, form: str = ".4~f") -> Spec:
    """A number in a tooltip."""
    return channel(f"{field}:Q", title=title, format=form)


def when(test: str, then: Any, otherwise: Any) -> Spec:
    """One value where a test of the row holds, another elsewhere."""
    return {"condition": {"test": test, "value": then}, "value": otherwise}


def plain(rows: Rows) -> Rows:
    """Rows with numbers of a few digits, but for those that signals are compared with; None for what is not finite."""
    return [
        {k: _round_number(v) if isinstance(v, float) and k not in _COMPARED else v for k, v in row.items()}
        for row in rows
    ]


def _round_number(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


# ---- how curves look -------------------------------------------------------------------------------------------------


class Series(NamedTuple):
    """A curve: what it is called, and how it looks. Hollow marks are thresholds by class, cluster or group.

    `outline` dashes the outline of hollow marks, so that two such curves of one score can be distinguished.
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

    def __init__(self, series: Iterable[Series]) -> None:
        self.series = tuple(series)
        shades = [_shade(one.look) for one in self.series]
        self.colour = self._by_name(shades)
        self.dash = self._by_name([_dashes(one.look.dash) for one in self.series])
        fill = [{"expr": _GROUND} if one.hollow else shade for one, shade in zip(self.series, shades, strict=True)]
        self.marks = {
            "stroke": self._by_name(shades),
            "fill": self._by_name(fill),
            "shape": self._by_name([one.look.mark.path for one in self.series]),
        }
        outlines = self._by_name([_dashes(one.outline) for one in self.series])
        # For charts whose lines have no dashes: a chart has one scale for both.
        self.outlined_marks = self.marks | {"strokeDash": outlines}

    def _by_name(self, held: list[Any]) -> Spec:
        scale = {"domain": [one.name for one in self.series], "range": held}
        return channel("m:N", legend=None, scale=scale)

    def some(self, field: str) -> Spec:
        """A filter by the place of a point along its curve: some have a mark, no two curves at the same places."""
        turns = (
            f"datum.m === {json.dumps(one.name)} && datum.{field} % {_MARKED} == {(2 + 3 * i) % _MARKED}"
            for i, one in enumerate(self.series)
        )
        return {"filter": " || ".join(turns)}

    def legend(self, names: Sequence[str]) -> list[Spec]:
        """What the legend of these names is drawn from."""
        return [
            {
                "name": one.name, "light": one.look.colour, "dark": one.look.dark, "path": one.look.mark.path,
                "dash": list(one.look.dash), "hollow": one.hollow, "outline": list(one.outline),
            }
            for one in self.series
            if one.name in names
        ]  # fmt: skip


def _shade(look: Look) -> Spec:
    return {"expr": f"dark ? '{look.dark}' : '{look.colour}'"}


def _dashes(dash: tuple[int, ...]) -> list[int]:
    return list(dash) or [1, 0]


def legend_data(kinds: dict[str, list[Spec]]) -> Spec:
    """What legends are drawn from, by kind, and the colours of the page."""
    return {"kinds": kinds, "light": list(COLOURS), "dark": list(DARK_COLOURS)}


def series_palette(names: Sequence[str]) -> Palette:
    """Looks of curves that are not scores."""
    return Palette(Series(name, look) for name, look in zip(names, series_looks(len(names)), strict=True))


def score_palette(names: Sequence[str]) -> Palette:
    """Looks of scores, by the name of their curves: "RAPS", or with a grouping "RAPS, Mondrian"."""
    parted = {name: method_of(name) for name in names}
    methods = list(dict.fromkeys(method for method, _ in parted.values()))
    looks = dict(zip(methods, score_looks(methods), strict=True))
    kinds = sorted({grouping for _, grouping in parted.values() if grouping}, key=lambda title: title != "Mondrian")
    outlines = {"": (), **{kind: _OUTLINES[i % len(_OUTLINES)] for i, kind in enumerate(kinds)}}
    return Palette(
        Series(name, looks[method], bool(grouping), outlines[grouping]) for name, (method, grouping) in parted.items()
    )


def method_of(name: str) -> tuple[str, str]:
    """The score and the grouping of a curve."""
    score, bracket, rest = name.partition(")")
    if bracket:
        return score + bracket, rest.removeprefix(", ")
    score, _, grouping = name.partition(", ")
    return score, grouping
