"""Display helpers: names as one line of text and, for notebooks, a small table and a small plot as HTML."""

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, Protocol

from thermoset.looks import Look, score_looks

__all__ = [
    "NameBeside",
    "PanelAxis",
    "PlacedName",
    "html_curves",
    "html_paragraphs",
    "html_sweep",
    "html_table",
    "names_beside",
    "names_of_points",
    "placed_names",
]

_LEFT, _ACROSS, _RIGHT, _UP = 44, 250, 46, 104  # pixels of a plot: numbers, curves, room for a name, height of curves
_TITLE, _LINE, _LETTER = 16, 13, 6  # pixels of the title, of a line of names, and of a letter at most


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text, escaped.

    >>> html_table(["T"], [["<1>"]])
    '<table><thead><tr><th>T</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_paragraphs(*texts: str) -> str:
    """Texts, escaped, each in a paragraph."""
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


@dataclass(frozen=True)
class PlacedName:
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

    >>> marks = {"T = 1": 1.0, "T*": 1.1, "T-hat": 1.2, "T_c": 1.2, "theory": 4.0}
    >>> [(at.name, at.line, at.left) for at in placed_names(marks, lambda t: 50 * t)]
    [('theory', 1, False), ('T-hat, T_c', 1, False), ('T*', 2, False), ('T = 1', 1, True)]
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


@dataclass(frozen=True)
class NameBeside:
    """Where the name of a point stands: pixels to the right and down from the point to its edge or middle."""

    name: str
    right: float
    down: float
    align: Literal["left", "center", "right"]


Place = tuple[float, float]
_Box = tuple[float, float, float, float]  # left, right, top, bottom


def names_beside(points: Mapping[str, Place], others: Sequence[Place], panels: Sequence[Place]) -> list[NameBeside]:
    """Place names beside their points so that they cover neither each other nor points, in panels of several sizes.

    Points, and `others` that are best left free as well, are given as parts of the panel, from the left and from the
    top; `panels` are widths and heights in pixels. The first names get the best places.

    >>> points = {"small": (0.1, 0.5), "large": (0.9, 0.5)}
    >>> [(at.name, at.align) for at in names_beside(points, [], [(250, 200)])]
    [('small', 'left'), ('large', 'right')]
    """
    placed: list[NameBeside] = []
    for name, point in points.items():
        best, least = None, math.inf
        for align, right, down in _SIDES:
            at, cost = NameBeside(name, right, down, align), len(panels) * _FAR * (down / _LINE) ** 2
            for panel in panels:
                box = _box(at, point, panel)
                cost += 1e6 * _outside(box, panel)
                cost += 1e3 * sum(_shared(box, _box(one, points[one.name], panel)) for one in placed)
                cost += 10 * sum(_shared(box, _dot(other, panel)) for other in points.values())
                cost += sum(_shared(box, _dot(other, panel)) for other in others)
            if cost < least:  # of equal places the first
                best, least = at, cost
        placed.extend(() if best is None else (best,))
    return placed


class PanelAxis:
    """Ends of an axis around some values, logarithmic where they span more than `wide` times the least of them.

    >>> axis = PanelAxis([1.0, 3.0], wide=8)
    >>> axis.is_log, axis.part(2.0), [round(end, 2) for end in axis.ends]
    (False, 0.5, [0.84, 3.16])
    """

    def __init__(self, values: Sequence[float], wide: float = math.inf) -> None:
        self.is_log = min(values) > 0 and max(values) > wide * min(values)
        held = [self._along(value) for value in values]
        room = _ROOM * ((max(held) - min(held)) or abs(held[0]) or 1.0)
        self._low, self._high = min(held) - room, max(held) + room

    def _along(self, value: float) -> float:
        return math.log(value) if self.is_log else value

    @property
    def ends(self) -> tuple[float, float]:
        """Least and greatest value of the axis."""
        return (math.exp(self._low), math.exp(self._high)) if self.is_log else (self._low, self._high)

    def part(self, value: float) -> float:
        """Where a value lies between the ends, from 0 to 1."""
        return (self._along(value) - self._low) / (self._high - self._low)


def names_of_points(
    points: Mapping[str, Place],
    bars: Sequence[tuple[Place, Place]],
    axes: tuple[PanelAxis, PanelAxis],
    panels: Sequence[Place],
) -> list[NameBeside]:
    """Place the names of points (x, y) clear of each other and, where there is room, of bars from one point to another.

    >>> axes = PanelAxis([1.0, 3.0]), PanelAxis([0.0, 1.0])
    >>> bars = [((2.2, 0.2), (2.2, 0.8))]
    >>> [at.align for at in names_of_points({"two": (2.0, 0.5)}, bars, axes, [(250, 200)])]
    ['right']
    """
    across, along = axes

    def place(point: Place) -> Place:
        return across.part(point[0]), 1 - along.part(point[1])

    taken = []
    for (x, y), (x_end, y_end) in ((place(start), place(end)) for start, end in bars):
        steps = [i / (_ALONG_BAR - 1) for i in range(_ALONG_BAR)]
        taken += [(x + t * (x_end - x), y + t * (y_end - y)) for t in steps]
    return names_beside({name: place(point) for name, point in points.items()}, taken, panels)


_ROOM = 0.08  # of the span of an axis, left free at both ends
_ALONG_BAR = 9  # places on a bar that names are kept off
_FAR = 20.0  # what a line of distance costs, in pixels that are covered, if it is the first
_NEAR, _DOT = 13, 4  # pixels from the middle of a point to its name, and to the edge of its mark
_SIDES: tuple[tuple[Literal["left", "center", "right"], float, float], ...] = (
    ("left", _NEAR, 0),
    ("right", -_NEAR, 0),
    ("center", 0, -_LINE - 4),
    ("center", 0, _LINE + 4),
    *(("left", _NEAR, lines * _LINE) for lines in (1, -1, 2, -2, 3, -3, 4, -4)),
    *(("right", -_NEAR, lines * _LINE) for lines in (1, -1, 2, -2, 3, -3, 4, -4)),
)


def _box(at: NameBeside, point: Place, panel: Place) -> _Box:
    width = _LETTER * sum(not unicodedata.combining(c) for c in at.name)
    start = point[0] * panel[0] + at.right - {"left": 0.0, "center": 0.5, "right": 1.0}[at.align] * width
    middle = point[1] * panel[1] + at.down
    return start, start + width, middle - _LINE / 2, middle + _LINE / 2


def _dot(point: Place, panel: Place) -> _Box:
    x, y = point[0] * panel[0], point[1] * panel[1]
    return x - _DOT, x + _DOT, y - _DOT, y + _DOT


def _shared(one: _Box, other: _Box) -> float:
    """Area that two boxes share."""
    across, along = min(one[1], other[1]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[2], other[2])
    return max(across, 0.0) * max(along, 0.0)


def _outside(box: _Box, panel: Place) -> float:
    """How far a box reaches beyond the panel."""
    return max(-box[0], 0.0) + max(box[1] - panel[0], 0.0) + max(-box[2], 0.0) + max(box[3] - panel[1], 0.0)


def html_curves(
    title: str, x: Sequence[float], curves: Mapping[str, Sequence[float]], marks: Mapping[str, float]
) -> str:
    """Curves of scores over x as SVG: a legend below, dotted lines at the marks; only finite values are drawn.

    >>> "<svg" in html_curves("AvgSize", [1.0, 2.0], {"raps": [3.0, 4.0]}, {"T*": 1.5})
    True
    """
    values = [v for curve in curves.values() for v in curve if math.isfinite(v)] or [0.0]
    low, high = min(values), max(values)
    span, reach = (high - low) or 1.0, (x[-1] - x[0]) or 1.0

    def across(t: float) -> float:
        return _ACROSS * (t - x[0]) / reach

    names = placed_names({name: t for name, t in marks.items() if x[0] <= t <= x[-1]}, across)
    top = _TITLE + _LINE * max((at.line for at in names), default=0) + 6
    bottom = top + _UP
    parts = [_text(_LEFT, 12, title), *_frame(top, bottom)]
    parts += [_text(_LEFT - 4, y + 4, f"{v:.3g}", "end") for y, v in ((top, high), (bottom, low))]
    parts += [_text(_LEFT + across(t), bottom + 14, f"{t:g}", "middle") for t in (x[0], x[-1])]
    parts.append(_text(_LEFT + _ACROSS / 2, bottom + 14, "temperature T", "middle"))
    parts += [_mark(at, _LEFT + across(at.temperature), bottom - _UP, bottom) for at in names]
    looks = score_looks(list(curves))
    for i, (look, curve) in enumerate(zip(looks, curves.values(), strict=True)):
        points = [
            (_LEFT + across(t), bottom - _UP * (v - low) / span)
            for t, v in zip(x, curve, strict=True)
            if math.isfinite(v)
        ]
        drawn = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke-width="2" {_stroke(look)}/>')
        parts += [_symbol(look, *point) for point in points[_FIRST_MARK + i * _MARK_SHIFT :: _MARK_STEP]]
    legend = " &#8194;".join(f"{_sample(look)} {escape(name)}" for look, name in zip(looks, curves, strict=True))
    width, height = _LEFT + _ACROSS + _RIGHT, bottom + 18
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    label = escape(f"{title} by temperature: {low:.3g} to {high:.3g}")
    return (
        f'<div style="display:inline-block;vertical-align:bottom"><svg {size} role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg><br><small>{legend}</small></div>"
    )


class SweptCurves(Protocol):
    """What `html_sweep` shows: a `Sweep`. This module knows neither it nor NumPy, so that `--help` is quick."""

    @property
    def methods(self) -> tuple[str, ...]: ...
    @property
    def temperatures(self) -> Any: ...
    @property
    def alphas(self) -> tuple[float, ...]: ...
    def curve(self, metric: str, method: str, alpha: float | None = None) -> Any: ...


def html_sweep(sweep: SweptCurves, titles: Mapping[str, str]) -> str:
    """Curves of the metrics in `titles` at the first alpha, above them where the last of those metrics is smallest."""
    t, alpha = sweep.temperatures.tolist(), sweep.alphas[0]
    rows = []
    for method in sweep.methods:
        for level in sweep.alphas:
            curves = [sweep.curve(metric, method, level).tolist() for metric in titles]
            best = min(range(len(t)), key=lambda j: (math.isnan(curves[-1][j]), curves[-1][j]))
            rows.append([method, f"{level:g}", f"{t[best]:g}", *(f"{curve[best]:.3f}" for curve in curves)])
    plots = [
        html_curves(
            f"{title}, alpha = {alpha:g}",
            t,
            {method: sweep.curve(metric, method, alpha).tolist() for method in sweep.methods},
            {"T = 1": 1.0},
        )
        for metric, title in titles.items()
    ]
    names = list(titles.values())
    table = html_table(["method", "alpha", f"T with the least {names[-1]}", *names], rows)
    return f"<div><p>{escape(repr(sweep))}</p>{table}{''.join(plots)}</div>"


_FIRST_MARK, _MARK_SHIFT, _MARK_STEP = 2, 3, 10  # points of a curve with a mark; those of equal curves stand apart


def _stroke(look: Look) -> str:
    return f'stroke="{look.colour}" stroke-dasharray="{" ".join(map(str, look.dash))}"'


def _symbol(look: Look, x: float, y: float) -> str:
    return f'<path d="{look.mark.path}" transform="translate({x:.1f} {y:.1f}) scale(3.2)" fill="{look.colour}"/>'


def _sample(look: Look) -> str:
    """A piece of a curve for the legend."""
    line = f'<path d="M0 5h24" stroke-width="2" {_stroke(look)}/>{_symbol(look, 12, 5)}'
    return f'<svg width="24" height="10" aria-hidden="true">{line}</svg>'


def _frame(top: float, bottom: float) -> list[str]:
    ends = ((_LEFT, top, _LEFT, bottom), (_LEFT, bottom, _LEFT + _ACROSS, bottom))
    return [
        f'<line x1="{a}" y1="{b}" x2="{c}" y2="{d}" stroke="currentColor" stroke-opacity="0.4"/>' for a, b, c, d in ends
    ]


def _mark(at: PlacedName, x: float, top: float, bottom: float) -> str:
    """A dotted line, and its name above the curves."""
    y = top - 6 - _LINE * (at.line - 1)
    line = (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 9:.1f}" y2="{bottom}" stroke="currentColor" stroke-opacity="0.6" '
        'stroke-dasharray="2 3"/>'
    )
    return line + (_text(x - 3, y, at.name, "end") if at.left else _text(x + 3, y, at.name))


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" fill="currentColor" text-anchor="{anchor}">{escape(text)}</text>'
    )
