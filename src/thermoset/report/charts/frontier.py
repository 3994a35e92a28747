"""What one could have instead: size against the coverage of hard classes (or groups) and their gap; who pays."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from thermoset.conformal.groupings import title_of
from thermoset.looks import COLOURS, DARK_COLOURS
from thermoset.notebook import PanelAxis, names_of_points
from thermoset.report.charts.palette import Palette
from thermoset.report.charts.parts import data, series_names, tip
from thermoset.report.record import Report
from thermoset.tuning import Outlook
from thermoset.tuning.choice import (
    FRONTS,
    Alternative,
    Front,
    drawable,
    front,
    front_titles,
    settings_of,
    target_of,
)

__all__ = ["FIFTHS", "frontier", "frontier_names", "payers"]

FIFTHS = ("least", "2nd", "3rd", "4th", "most")
"""Fifths of the rows by confidence."""

_PAYERS = [  # not the colours of scores on a light ground; the recommendation has the accent of the page
    alt.ExprRef(f"dark ? '{DARK_COLOURS[-1]}' : '{COLOURS[-1]}'"),
    alt.ExprRef(f"dark ? '{DARK_COLOURS[1]}' : '#b84f00'"),
]
_SIZE = "labels in a set"
_LONGEST_NAME = 28  # letters beside a point
_WIDE = 8  # sizes that span more than this need a logarithmic axis
_HEIGHT = 300
_PANELS = tuple((float(width), float(_HEIGHT)) for width in (240, 420, 700))  # from a telephone to a wide screen


def frontier_names(report: Report) -> list[str]:
    """Kinds of sets on the frontier that colours tell apart: those of the page's curves, then the others."""
    curves = series_names(report)
    found = {_series(one.outlook, curves) for one in settings_of(report.document.choice)}
    return [*(name for name in curves if name in found), *sorted(found - set(curves))]


def _series(at: Outlook, curves: Sequence[str]) -> str:
    """The score and its grouping, as the page's curves call them if they do; else variants of a score look alike."""
    grouped = "" if at.setting.grouping is None else f", {title_of(at.setting.grouping)}"
    name = at.setting.method.title + grouped
    return name if name in curves else at.setting.method.title.partition("(")[0] + grouped


def frontier(report: Report, metric: Front, looks: Palette) -> Any:
    """Every setting as a point with its intervals; the front is joined, the recommended one ringed."""
    choice = report.document.choice
    shown, curves = drawable(choice, metric), series_names(report)
    rows = [_row(one, metric, _series(one.outlook, curves)) for one in shown]
    target = target_of(choice, metric)
    across = PanelAxis([end for one in shown for end in (one.outlook.size, *one.size_interval) if end > 0], _WIDE)
    along = PanelAxis([*(end for one in shown for end in one.interval(metric)), *([] if target is None else [target])])
    kind: dict[str, Any] = {"type": "log"} if across.is_log else {"zero": False}
    x_scale = alt.Scale(domain=list(across.ends), nice=False, **kind)
    y_scale = alt.Scale(domain=list(along.ends), nice=False, zero=False)
    x = alt.X("s:Q", title=_SIZE, scale=x_scale, axis=alt.Axis(tickCount=5, format="~g"))
    titles = front_titles(choice)
    y = alt.Y("v:Q", title=titles[metric], scale=y_scale)
    joined = [{"s": at.size, "v": getattr(at, metric)} for at in front([one.outlook for one in shown], metric)]
    layers = [
        alt.Chart(data(joined)).mark_line(style="mark", strokeWidth=1).encode(x=x, y=y, order="s:Q"),
        *_points(rows, x, y, looks, titles),
        *([] if target is None else _target(target, y)),
        *_names(shown, metric, (across, along), (x, y)),
    ]
    return alt.layer(*layers, width="container", height=_HEIGHT, description=_description(shown, metric, titles))


def _row(one: Alternative, metric: Front, series: str) -> dict[str, Any]:
    at, (low, high) = one.outlook, one.interval(metric)
    left, right = one.size_interval
    row = {"m": series, "t": at.setting.title, "n": one.name, "s": at.size, "v": getattr(at, metric), "lo": low}
    row |= {"hi": high, "left": left, "right": right, "chosen": one.chosen}
    return row | {other: getattr(at, other) for other in FRONTS}


def _points(rows: list[dict[str, Any]], x: alt.X, y: alt.Y, looks: Palette, titles: Mapping[Front, str]) -> list[Any]:
    """Intervals, points, and the ring around the recommended one."""
    shade = looks.colour()
    weight = alt.condition("datum.n !== ''", alt.value(2), alt.value(0.8))
    area = alt.condition("datum.n !== ''", alt.value(110), alt.value(28))
    tips = [
        *(alt.Tooltip("n:N", title="called"), alt.Tooltip("t:N", title="setting"), tip("s", _SIZE)),
        *(tip(metric, title) for metric, title in titles.items()),
    ]
    base = alt.Chart(data(rows))
    ring = alt.Chart(data([row for row in rows if row["chosen"]]))
    return [
        base.mark_rule().encode(x=x, y=_like(y, "lo"), y2="hi:Q", color=shade, strokeWidth=weight),
        base.mark_rule(clip=True).encode(x=_like(x, "left"), x2="right:Q", y=y, color=shade, strokeWidth=weight),
        base.mark_point(opacity=1, strokeWidth=1.5).encode(x=x, y=y, **looks.outlined_marks(), size=area, tooltip=tips),
        ring.mark_point(size=380, strokeWidth=2.5, style="chosen").encode(x=x, y=y, tooltip=tips),
    ]


def _like(axis: Any, field: str) -> Any:
    """The same axis for another field."""
    made = axis.copy()
    made.shorthand = f"{field}:Q"
    return made


def _target(target: float, y: alt.Y) -> list[Any]:
    base = alt.Chart(data([{"v": target, "n": f"target {target:g}"}])).encode(y=y)
    text = base.mark_text(align="right", baseline="bottom", dx=-3, dy=-2, style="markname")  # on the side of large sets
    return [base.mark_rule(style="mark", strokeDash=[4, 4]), text.encode(x=alt.value("width"), text="n:N")]


def _short(one: Alternative) -> str:
    """The names of a setting that fit beside its point; the tooltip has them all."""
    name = one.name
    while len(name) > _LONGEST_NAME and ", " in name:
        name = name.rpartition(", ")[0]
    return name


def _names(
    shown: Sequence[Alternative], metric: Front, axes: tuple[PanelAxis, PanelAxis], drawn: tuple[alt.X, alt.Y]
) -> list[Any]:
    """Names beside the points, where they cover nothing on a telephone or on a wide screen."""
    named = {_short(one): one for one in shown if one.names}
    points = {name: (one.outlook.size, getattr(one.outlook, metric)) for name, one in named.items()}
    bars = [bar for one in shown for bar in one.bars(metric)]
    return [
        alt.Chart(data([{"s": points[at.name][0], "v": points[at.name][1], "n": at.name.replace("T-hat", "T\u0302")}]))
        .mark_text(
            align=at.align, baseline="middle", dx=at.right, dy=at.down,
            style="chosenname" if named[at.name].chosen else "markname",
        )
        .encode(x=drawn[0], y=drawn[1], text="n:N")
        for at in names_of_points(points, bars, axes, _PANELS)
    ]  # fmt: skip


def _description(shown: Sequence[Alternative], metric: Front, titles: Mapping[Front, str]) -> str:
    """A sentence in place of the picture."""
    named = "; ".join(
        f"{one.name}: {one.outlook.size:.2f} and {getattr(one.outlook, metric):.3f}" for one in shown if one.names
    )
    return f"{titles[metric].capitalize()} against {_SIZE} for {len(shown)} settings. {named}."


def payers(series: dict[str, tuple[float, ...]]) -> Any:
    """Share of empty sets in each fifth of the rows by confidence, for one or two settings; the last is recommended."""
    rows = [
        {"f": fifth, "w": name, "v": share}
        for name, shares in series.items()
        for fifth, share in zip(FIFTHS, shares, strict=True)
    ]
    said = "; ".join(f"{name}: {', '.join(f'{share:.1%}' for share in shares)}" for name, shares in series.items())
    return (
        alt.Chart(data(rows), width="container", height=200)
        .mark_bar()
        .encode(
            x=alt.X("f:N", title="fifths of the rows, by confidence", sort=list(FIFTHS), axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("w:N", sort=list(series)),
            y=alt.Y("v:Q", title="empty sets", axis=alt.Axis(format="~%")),
            color=alt.Color(
                "w:N",
                title=None,
                scale=alt.Scale(domain=list(series), range=_PAYERS[-len(series) :]),
                legend=alt.Legend(orient="top", labelLimit=300),
            ),
            tooltip=[
                alt.Tooltip("w:N", title="sets"),
                alt.Tooltip("f:N", title="confidence"),
                alt.Tooltip("v:Q", title="empty", format=".1%"),
            ],
        )
        .properties(description=f"Empty sets by fifths of the rows, from the least to the most confident. {said}.")
    )
