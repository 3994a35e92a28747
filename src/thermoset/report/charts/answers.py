"""Errors against the share of rows that are answered alone, with the rule marked."""

from typing import Any

import altair as alt

from thermoset.report.charts.parts import data, tip
from thermoset.report.record import RiskPoint

__all__ = ["risk_coverage"]


def risk_coverage(points: tuple[RiskPoint, ...], bound: float, share: float | None) -> Any:
    """The error among answered rows at every threshold, its 95% band, the claimed bound, and where the rule stands."""
    rows = [{"s": one.share, "e": one.error, "lo": one.low, "hi": one.high} for one in points]
    x = alt.X("s:Q", title="share of the rows that are answered", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("e:Q", title="errors among them")
    tips = [tip("s", "answered"), tip("e", "errors"), tip("lo", "95% from"), tip("hi", "to")]
    base = alt.Chart(data(rows))
    layers = [
        base.mark_area(style="band").encode(x=x, y=alt.Y("lo:Q", title="errors among them"), y2="hi:Q"),
        base.mark_line(style="running").encode(x=x, y=y, tooltip=tips),
        alt.Chart(data([{"b": bound}])).mark_rule(style="mark", strokeDash=[4, 4]).encode(y=alt.Y("b:Q")),
    ]
    if share is not None:
        layers.append(alt.Chart(data([{"s": share}])).mark_rule(style="mark").encode(x=alt.X("s:Q")))
    where = "no row is answered alone" if share is None else f"the rule answers {share:.1%} of the rows"
    return alt.layer(
        *layers,
        width="container",
        height=230,
        description=f"Errors among answered rows by the share that is answered; at most {bound:g} is claimed, {where}.",
    )
