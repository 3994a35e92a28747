"""The strip of classes or groups, sizes of sets, and labels that share sets."""

from collections.abc import Callable
from typing import Any

import altair as alt
import numpy as np

from thermoset.looks import COLOURS
from thermoset.monitor.report import CoverageTable
from thermoset.report.charts.parts import data, tip
from thermoset.report.record import Report

__all__ = ["HEAT_STRIP_FROM", "label_pairs", "set_sizes", "strip"]

HEAT_STRIP_FROM = 30
"""From so many classes on, a heat strip shows them at a glance."""

_MAP_LABELS = 20
_BARS = 60  # of the histogram of sizes; more sizes than that share bars


def strip(table: CoverageTable, names: Callable[[int], str], one: str, many: str) -> Any:
    """Every class or group as a stripe, the least covered on the left; a line where the promise is reached."""
    order = np.argsort(np.nan_to_num(table.coverage, nan=2.0), kind="stable")
    present = [i for i in order.tolist() if table.rows[i]]
    rows: list[dict[str, Any]] = [
        # Stripes reach a little under the next one: no seams.
        {"i": place, "j": min(place + 1.3, len(present)), "n": names(i), "c": float(table.coverage[i])}
        | {"r": int(table.rows[i])}
        for place, i in enumerate(present)
    ]
    low, promised = min(row["c"] for row in rows), table.promised
    below = sum(row["c"] < promised for row in rows)
    lowest = min(low, promised - 0.01)
    scale = alt.Scale(domain=[lowest, promised, 1.0], range=[COLOURS[1], "#f2f2f2", COLOURS[0]])
    legend = alt.Legend(orient="top", gradientLength=180, format=".2~f", values=[lowest, promised, 1.0])
    x = alt.X(
        "i:Q",
        title=f"{many}, least covered first",
        axis=alt.Axis(tickMinStep=1, grid=False),
        scale=alt.Scale(domain=[0, len(rows)], nice=False),
    )
    stripes = (
        alt.Chart(data(rows))
        .mark_rect()
        .encode(
            x=x,
            x2="j:Q",
            color=alt.Color("c:Q", title="coverage", scale=scale, legend=legend),
            tooltip=[alt.Tooltip("n:N", title=one), tip("c", "coverage"), alt.Tooltip("r:Q", title="rows")],
        )
    )
    at = alt.Chart(data([{"i": below, "n": f"{below:,} of {len(rows):,} {many} below {promised:g}"}])).encode(x=x)
    # The words stand on the side where there is more room.
    side: dict[str, Any] = {"align": "right", "dx": -4} if 2 * below > len(rows) else {"align": "left", "dx": 4}
    return alt.layer(
        stripes,
        at.mark_rule(style="limit", y=-16, y2="height"),
        at.mark_text(y=-16, baseline="top", style="markname", **side).encode(text="n:N"),
        width="container",
        height=54,
        description=f"Coverage of {len(rows):,} {many}: {low:.3f} at the lowest, {below:,} below {promised:g}. The "
        "numbers are in the table.",
    )


def set_sizes(report: Report) -> Any:
    """How many sets have how many labels; where there are very many sizes, some share a bar."""
    counts = report.sets.sizes
    first, last = int(np.flatnonzero(counts)[0]), len(counts) - 1
    first = 0 if last - first >= first else first  # from 0, unless the sets would only fill a corner
    step = -(-(last + 1 - first) // _BARS)
    rows = [
        {
            "lo": start - 0.45,
            "hi": start + step - 0.55,
            "w": f"{start}" if step == 1 else f"{start} to {start + step - 1}",
            "n": int(counts[start : start + step].sum()),
        }
        for start in range(first, last + 1, step)
    ]
    told = f"{counts[0] / report.rows:.1%} empty, " if counts[0] else ""
    half = int(np.searchsorted(np.cumsum(counts), report.rows / 2))
    return (
        alt.Chart(data(rows), width="container", height=200)
        .transform_calculate(p=f"datum.n / {report.rows}")
        .mark_bar(style="bar")
        .encode(
            x=alt.X(
                "lo:Q", title="labels in the set", axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False)
            ),
            x2="hi:Q",
            y=alt.Y("n:Q", title="rows"),
            y2=alt.datum(0),
            tooltip=[
                alt.Tooltip("w:N", title="labels"),
                alt.Tooltip("n:Q", title="rows", format=","),
                alt.Tooltip("p:Q", title="share", format=".1%"),
            ],
        )
        .properties(
            description=f"Sizes of {report.rows:,} sets: {told}half of them with {half} labels or fewer, up to {last}, "
            f"{report.check.avg_size:.2f} on average."
        )
    )


def label_pairs(report: Report) -> Any:
    """Which labels share sets, for the labels of the most frequent pairs."""
    labels: list[int] = []
    for pair in report.sets.pairs:
        labels.extend(y for y in (pair.first, pair.second) if y not in labels and len(labels) < _MAP_LABELS)
    names = {str(y): report.short_name(y) for y in labels}
    rows = [
        {"a": str(a), "b": str(b), "an": names[str(a)], "bn": names[str(b)], "n": pair.count}
        for pair in report.sets.pairs
        if pair.first in labels and pair.second in labels
        for a, b in ((pair.first, pair.second), (pair.second, pair.first))
    ]
    order = [str(y) for y in sorted(labels)]
    # The axes hold numbers of classes, and only show names: two names may look alike.
    shown: dict[str, Any] = {"labelExpr": "names[datum.value]", "labelLimit": 110}
    return (
        alt.Chart(data(rows), width="container", height=max(160, 19 * len(labels)))
        .mark_rect(style="cell")
        .encode(
            x=alt.X("a:N", title=None, sort=order, axis=alt.Axis(labelAngle=-90, **shown)),
            y=alt.Y("b:N", title=None, sort=order, axis=alt.Axis(**shown)),
            color=alt.Color(
                "n:Q", title="sets", scale=alt.Scale(zero=True), legend=alt.Legend(orient="top", gradientLength=160)
            ),
            tooltip=[
                alt.Tooltip("an:N", title="label"),
                alt.Tooltip("bn:N", title="with"),
                alt.Tooltip("n:Q", title="sets", format=","),
            ],
        )
        .properties(description="Labels that are in the same sets; the most frequent pairs are in the list beside it.")
        .add_params(alt.param(name="names", value=names))
    )
