"""What batches show, one after the other: coverage, sizes of sets, empty sets, confidence and accuracy."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import altair as alt

from thermoset.monitor.evidence import confidence_sequence
from thermoset.monitor.status import MonitorStatus
from thermoset.report.charts.palette import Palette
from thermoset.report.charts.parts import data, shared, tip
from thermoset.report.timeline import Span, Timeline, exact_intervals

__all__ = [
    "AGREEMENT",
    "ON_CLEAR",
    "Mark",
    "across",
    "coverage_over_time",
    "level",
    "sizes_over_time",
    "trust_over_time",
]

AGREEMENT = ("mean confidence at T*", "accuracy")
"""Curves of the chart that compares what the model claims with what is true."""

ON_CLEAR = ("halo", "markname")
"""Styles of a name that lines may run through: it is drawn twice, the first time as a clear ground."""

_HEIGHT = 230
_TICKS = 12  # numbers below an axis
_LINE = 14  # pixels of a line of names above a panel


class Mark(NamedTuple):
    """A batch that a line is drawn at, with a name above the panel."""

    place: int
    name: str


def across(timeline: Timeline) -> alt.X:
    """The axis of batches."""
    if timeline.by_time:
        return alt.X("x:T", title="time (UTC)", scale=alt.Scale(type="utc", padding=10, nice=False))
    last = len(timeline.batches)
    ends, step = [0.4, last + 0.6], -(-last // _TICKS)
    axis = alt.Axis(values=sorted({1, *range(step, last + 1, step)}), format=",d", grid=False)
    return alt.X("x:Q", title="batch", scale=alt.Scale(domain=ends, nice=False), axis=axis)


def _marked(found: Iterable[Mark], timeline: Timeline, x: alt.X) -> tuple[list[Any], list[Any]]:
    """Dotted lines at batches, and their names above the panel: those on the left above those on their right."""
    rules: list[Any] = []
    names: list[Any] = []
    first, last = timeline.places[0], timeline.places[-1]
    for line, mark in enumerate(sorted(found, reverse=True), start=1):
        at = timeline.places[mark.place]
        # A name stands on the right of its line where there is room on a telephone, too.
        left = at - first > (0.7 if line == 1 else 0.5) * (last - first)
        base = alt.Chart(data([{"x": at, "n": mark.name}])).encode(x=x)
        place: dict[str, Any] = {"align": "right", "dx": -4} if left else {"align": "left", "dx": 4}
        rules.append(base.mark_rule(style="at", strokeDash=[2, 3], y=-_LINE * line, y2="height"))
        names += [
            base.mark_text(style=style, y=-_LINE * line, baseline="top", **place).encode(text="n:N")
            for style in ON_CLEAR
        ]
    return rules, names


def level(value: float, y: alt.Y) -> Any:
    """A dashed line across the panel."""
    return alt.Chart(data([{"v": value}])).mark_rule(style="mark", strokeDash=[4, 4]).encode(y=y)


def _tips(*more: alt.Tooltip) -> list[alt.Tooltip]:
    return [alt.Tooltip("n:N", title="batch"), *more]


# --- coverage -------------------------------------------------------------------------------------------------------


def coverage_over_time(status: MonitorStatus, timeline: Timeline, found: Iterable[Mark]) -> Any:
    """Coverage of each batch with its exact interval; the mean so far with its confidence sequence; the promise."""
    x = across(timeline)
    points = _covered([span for span in timeline.spans() if span.labelled])
    running = _running(status, timeline)
    lowest = min(status.promised, *(row["c"] for row in points), *(row["c"] for row in running)) - 0.04
    scale = alt.Scale(domain=[max(0.0, math.floor(20 * lowest) / 20), 1.0], nice=False, zero=False)
    y = alt.Y("c:Q", title="coverage", scale=scale)
    low = alt.Y("lo:Q", title="coverage", scale=scale)
    tips = _tips(
        tip("c", "coverage"),
        tip("lo", "95% from"),
        tip("hi", "to"),
        alt.Tooltip("r:Q", title="labelled rows", format=","),
    )
    so_far = _tips(tip("c", "coverage so far"), tip("lo", "at any time from"), tip("hi", "to"))
    charts, datasets = shared({"batches": points, "so far": running})
    base, mean = charts["batches"], charts["so far"]
    lines, above = _marked(found, timeline, x)
    # A band of one batch has no width: its ends are drawn as a bar, beside the interval of the batch.
    band = (
        mean.mark_area(style="band", clip=True)
        if len(running) > 1
        else mean.mark_rule(style="bar", strokeWidth=7, opacity=0.3, xOffset=9, clip=True)
    )
    return alt.layer(
        band.encode(x=x, y=low, y2="hi:Q"),
        level(status.promised, alt.Y("v:Q", title="coverage", scale=scale)),
        base.mark_rule(style="soft", clip=True).encode(x=x, y=low, y2="hi:Q", tooltip=tips),
        base.mark_point(style="limit", filled=True, size=26, opacity=1).encode(x=x, y=y, tooltip=tips),
        mean.mark_line(style="running", clip=True).encode(x=x, y=y, tooltip=so_far),
        *lines,
        *above,
        width="container",
        height=280,
        datasets=datasets,
        description=f"Coverage of {len(points)} points in time with exact 95% intervals, the mean so far, "
        f"{running[-1]['c']:.3f} at the end, and the promised {status.promised:g}. The numbers are in the table.",
    )


def _covered(spans: Sequence[Span]) -> list[dict[str, Any]]:
    ends = exact_intervals([span.hits for span in spans], [span.labelled for span in spans])
    return [
        {"x": span.x, "n": span.name, "c": span.coverage, "lo": low, "hi": high, "r": span.labelled}
        for span, (low, high) in zip(spans, filter(None, ends), strict=True)
    ]


def _running(status: MonitorStatus, timeline: Timeline) -> list[dict[str, Any]]:
    """The mean so far with its confidence sequence.

    Both are of the labels that are known now. What a batch holds was found while it was the latest, perhaps without
    labels that came later.
    """
    counts = timeline.so_far()
    known = [i for i in timeline.steps() if counts[i][1]]
    hits, rows = ([counts[i][j] for i in known] for j in (0, 1))
    low, high = confidence_sequence(hits, rows, status.delta)
    return [
        {"x": timeline.places[i], "n": timeline.name(i), "c": h / n, "lo": lo, "hi": hi}
        for i, h, n, lo, hi in zip(known, hits, rows, low.tolist(), high.tolist(), strict=True)
    ]


# --- sets and confidence --------------------------------------------------------------------------------------------


def sizes_over_time(status: MonitorStatus, timeline: Timeline) -> dict[str, Any]:
    """Mean size of the sets beside that of the conformal rows, and the share of empty sets."""
    rows: list[dict[str, Any]] = [
        {"x": span.x, "n": span.name, "s": span.mean_size, "e": span.empty_share, "r": span.rows}
        for span in timeline.spans()
    ]
    known = status.reference_size
    told = "" if known is None else f", beside {known:.2f} on the conformal rows"
    sizes, shares = [row["s"] for row in rows], [row["e"] for row in rows]
    shown = sizes if known is None else [*sizes, known]
    room = max(0.1, 0.1 * (max(shown) - min(shown)))
    size_scale = alt.Scale(domain=[max(0.0, min(shown) - room), max(shown) + room], nice=False, zero=False)
    share_scale = alt.Scale(domain=[0.0, max(0.05, 1.1 * max(shares))], nice=False)
    return {
        "sizes": _curve(
            rows, timeline, alt.Y("s:Q", title="labels in a set", scale=size_scale), known,
            f"Mean size of the sets, from {min(sizes):.2f} to {max(sizes):.2f}{told}.",
        ),
        "empty": _curve(
            rows, timeline, alt.Y("e:Q", title="empty sets", scale=share_scale, axis=alt.Axis(format="~%")), None,
            f"Share of empty sets, from {min(shares):.1%} to {max(shares):.1%}.",
        ),
    }  # fmt: skip


def _curve(rows: list[dict[str, Any]], timeline: Timeline, y: alt.Y, known: float | None, told: str) -> Any:
    x, (charts, datasets) = across(timeline), shared({"batches": rows})
    base = charts["batches"]
    share = alt.Tooltip("e:Q", title="empty sets", format=".1%")
    tips = _tips(tip("s", "labels in a set"), share, alt.Tooltip("r:Q", title="rows", format=","))
    at_level = y.copy()
    at_level.shorthand = "v:Q"
    return alt.layer(
        *([] if known is None else [level(known, at_level)]),
        base.mark_line(style="running", strokeWidth=1.5).encode(x=x, y=y),
        base.mark_point(style="point", filled=True, size=30, opacity=1).encode(x=x, y=y, tooltip=tips),
        width="container",
        height=_HEIGHT,
        datasets=datasets,
        description=f"{told} The numbers are in the table.",
    )


def trust_over_time(timeline: Timeline, looks: Palette) -> Any:
    """Mean confidence and accuracy: where they part, the model claims more or less than is true."""
    claimed, right = AGREEMENT
    spans = timeline.spans()
    rows = [{"x": span.x, "n": span.name, "m": claimed, "v": span.mean_confidence, "r": span.rows} for span in spans]
    known = [span for span in spans if span.labelled]
    ends = exact_intervals([span.correct for span in known], [span.labelled for span in known])
    judged = [
        {"x": span.x, "n": span.name, "m": right, "v": span.accuracy, "r": span.labelled, "lo": low, "hi": high}
        for span, (low, high) in zip(known, filter(None, ends), strict=True)
    ]
    x, colour = across(timeline), looks.colour()
    scale = alt.Scale(zero=False)
    y = alt.Y("v:Q", title="share", scale=scale)
    tips = _tips(alt.Tooltip("m:N", title="shown"), tip("v", "value"), alt.Tooltip("r:Q", title="rows", format=","))
    charts, datasets = shared({"batches": [*rows, *judged], "judged": judged})
    base = charts["batches"]
    low = alt.Y("lo:Q", title="share", scale=scale)
    # An empty layer has no extent, and Vega warns of that.
    intervals = charts["judged"].mark_rule(opacity=0.45).encode(x=x, y=low, y2="hi:Q", color=colour)
    return alt.layer(
        *([intervals] if judged else []),
        base.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour, strokeDash=looks.dash()),
        base.mark_point(size=30, opacity=1).encode(x=x, y=y, **looks.marks(), tooltip=tips),
        width="container",
        height=_HEIGHT,
        datasets=datasets,
        description="Mean confidence at T* of each batch, and the share of its labelled rows whose likeliest label is "
        "right, with exact 95% intervals. The numbers are in the table.",
    )
