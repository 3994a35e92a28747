"""Reliability diagrams and histograms of confidence."""

from typing import Any

import altair as alt

from thermoset.report.charts.parts import data, tip
from thermoset.report.record import Reliability

__all__ = ["confidence", "reliability"]

_UNIT = alt.Scale(domain=[0, 1])
_ROOM = 46  # pixels for the labels of both y axes, so that the two charts stand under each other


def reliability(calibration: Reliability) -> Any:
    """Accuracy by confidence; the distance to the diagonal is drawn as a bar."""
    bins = calibration.bins
    columns = (bins.edges[:-1], bins.edges[1:], bins.confidence, bins.accuracy, bins.count)
    rows = [
        {"lo": a, "hi": b, "c": c, "acc": acc, "n": n}
        for a, b, c, acc, n in zip(*(column.tolist() for column in columns), strict=True)
        if n
    ]
    x = alt.X("lo:Q", title="confidence", scale=_UNIT)
    y = alt.Y("acc:Q", title="accuracy", scale=_UNIT, axis=alt.Axis(minExtent=_ROOM))
    tips = [tip("c", "confidence"), tip("acc", "accuracy"), alt.Tooltip("n:Q", title="rows", format=",")]
    base = alt.Chart(data(rows))
    diagonal = alt.Chart(data([{"c": 0.0, "d": 0.0}, {"c": 1.0, "d": 1.0}]))
    x_c = alt.X("c:Q", title="confidence", scale=_UNIT)
    return alt.layer(
        base.mark_bar(style="bar").encode(x=x, x2="hi:Q", y=y, y2=alt.datum(0), tooltip=tips),
        base.mark_rule(style="gap", strokeWidth=6).encode(x=x_c, y=y, y2="c:Q", tooltip=tips),
        diagonal.mark_line(style="mark", strokeDash=[4, 4]).encode(
            x=x_c, y=alt.Y("d:Q", title="accuracy", scale=_UNIT)
        ),
        width="container",
        height=230,
        description=(
            f"Reliability diagram at {calibration.name} = {calibration.temperature:.3f} in {len(bins.count)} bins: "
            f"ECE {bins.ece:.4f}. The numbers are in the table below."
        ),
    )


def confidence(calibration: Reliability) -> Any:
    """Rows by confidence, their number above each bar."""
    bins = calibration.bins
    edges = zip(bins.edges[:-1].tolist(), bins.edges[1:].tolist(), bins.count.tolist(), strict=True)
    rows = [{"lo": a, "hi": b, "mid": (a + b) / 2, "n": n} for a, b, n in edges]
    axis = alt.Axis(tickCount=3, minExtent=_ROOM)
    base = alt.Chart(data(rows))
    bars = base.mark_bar(style="soft").encode(
        x=alt.X("lo:Q", title="confidence", scale=_UNIT),
        x2="hi:Q",
        y=alt.Y("n:Q", title="rows", axis=axis),
        y2=alt.datum(0),
        tooltip=[alt.Tooltip("n:Q", title="rows", format=",")],
    )
    counts = base.mark_text(dy=-6, style="count").encode(
        x=alt.X("mid:Q", scale=_UNIT),
        y=alt.Y("n:Q", axis=axis),
        text=alt.Text("n:Q", format=".3~s"),
    )
    return alt.layer(
        bars,
        counts,
        width="container",
        height=90,
        description=f"Histogram of confidence at {calibration.name}; the numbers are in the table below.",
    )
