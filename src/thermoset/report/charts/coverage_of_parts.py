"""Coverage of parts of the rows with intervals, against what was promised: strata, groups."""

from typing import Any

import altair as alt
import numpy as np

from thermoset.monitor.report import CoverageTable
from thermoset.report.charts.parts import data, tip

__all__ = ["MOST_PARTS", "coverage_of_parts"]

MOST_PARTS = 40
"""Parts that a chart shows; of more, those that are covered least."""

_LINE = 22  # pixels from one part to the next
_ROOM = 110  # pixels for names, so that charts stand under each other


def coverage_of_parts(names: list[str], table: CoverageTable, *, title: str, lowest: float) -> Any:
    """A dot and a 95% interval for each part, beside the promised coverage (dashed), from `lowest` to 1.

    Parts stand in the order of the table. Those that are covered significantly less than promised are drawn in another
    colour, with another shape.
    """
    places = np.arange(len(names))
    if len(names) > MOST_PARTS:
        places = np.sort(np.argsort(table.coverage, kind="stable")[:MOST_PARTS])
    flagged = set(table.under_covered.tolist())
    rows = [
        {
            "i": str(i),
            "s": names[i],
            "c": float(table.coverage[i]),
            "lo": float(table.low[i]),
            "hi": float(table.high[i]),
        }
        | {"n": int(table.rows[i]), "f": "low" if i in flagged else "as promised, as far as these rows tell"}
        for i in places.tolist()
    ]
    shown = {row["i"]: row["s"] for row in rows}
    # The axis holds numbers of parts, and only shows names: two names may look alike.
    axis = alt.Axis(labelExpr="parts[datum.value]", labelLimit=_ROOM, minExtent=_ROOM, title=None, ticks=False)
    y = alt.Y("i:N", sort=list(shown), axis=axis)
    scale = alt.Scale(domain=[lowest, 1.0], nice=False, clamp=True)
    x = alt.X("lo:Q", title="coverage", scale=scale, axis=alt.Axis(tickCount=6))
    kinds = ["as promised, as far as these rows tell", "low"]
    colour = alt.Color("f:N", legend=None, scale=alt.Scale(domain=kinds))
    shape = alt.Shape("f:N", legend=None, scale=alt.Scale(domain=kinds, range=["circle", "diamond"]))
    tips = [
        alt.Tooltip("s:N", title=title),
        tip("c", "coverage"),
        tip("lo", "95% from"),
        tip("hi", "to"),
        alt.Tooltip("n:Q", title="rows", format=","),
    ]
    base = alt.Chart(data(rows))
    promised = alt.Chart(data([{"lo": table.promised}]))
    low = float(table.coverage[places].min())
    return alt.layer(
        base.mark_rule(strokeWidth=2.5).encode(x=x, x2="hi:Q", y=y, color=colour, tooltip=tips),
        base.mark_point(filled=True, size=80, opacity=1).encode(
            x=alt.X("c:Q", title="coverage", scale=scale, axis=alt.Axis(tickCount=6)),
            y=y,
            color=colour,
            shape=shape,
            tooltip=tips,
        ),
        promised.mark_rule(style="mark", strokeDash=[4, 4]).encode(x=x),
        width="container",
        height=len(rows) * _LINE + _LINE // 2,
        description=f"Coverage by {title} with 95% intervals, beside {table.promised:g} (dashed): {low:.3f} at the "
        "lowest. The numbers are in the table.",
    ).add_params(alt.param(name="parts", value=shown))
