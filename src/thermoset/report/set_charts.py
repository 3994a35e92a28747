"""Charts of the report about its sets: classes, groups and parts of the rows, sizes, labels that share sets."""

from collections.abc import Callable

import numpy as np

from thermoset.looks import COLOURS
from thermoset.monitor.report import CoverageTable
from thermoset.report.record import Report
from thermoset.report.vega import DASHED, Rows, Spec, channel, chart, layer, tip

PART_TITLES = {"size": "labels in the set", "confidence": "confidence at T*"}
"""What distinguishes the parts of each kind."""

HEAT_STRIP_FROM = 30
"""From so many classes on, a heat strip shows them at a glance."""

MOST_PARTS = 40
"""Parts that a chart shows; of more, those that are covered least."""


# ---- classes, groups and parts of the rows ---------------------------------------------------------------------------


def strip(table: CoverageTable, names: Callable[[int], str], one: str, many: str) -> Spec:
    """Every class or group as a stripe, the least covered on the left; a line where the promise is reached."""
    order = np.argsort(np.nan_to_num(table.coverage, nan=2.0), kind="stable")
    present = [i for i in order.tolist() if table.rows[i]]
    rows: Rows = [
        # Stripes reach a little under the next one: no seams.
        {"i": place, "j": min(place + 1.3, len(present)), "n": names(i), "c": float(table.coverage[i])}
        | {"r": int(table.rows[i])}
        for place, i in enumerate(present)
    ]
    low, promised = min(row["c"] for row in rows), table.promised
    below = sum(row["c"] < promised for row in rows)
    lowest = min(low, promised - 0.01)
    scale = {"domain": [lowest, promised, 1.0], "range": [COLOURS[1], "#f2f2f2", COLOURS[0]]}
    key = {"orient": "top", "gradientLength": 180, "format": ".2~f", "values": [lowest, promised, 1.0]}
    across = {"domain": [0, len(rows)], "nice": False}
    x = channel("i:Q", title=f"{many}, least covered first", axis={"tickMinStep": 1, "grid": False}, scale=across)
    colour = channel("c:Q", title="coverage", scale=scale, legend=key)
    tips = [channel("n:N", title=one), tip("c", "coverage"), channel("r:Q", title="rows")]
    at = [{"i": below, "n": f"{below:,} of {len(rows):,} {many} below {promised:g}"}]
    # The words stand on the side where there is more room.
    side: Spec = {"align": "right", "dx": -4} if 2 * below > len(rows) else {"align": "left", "dx": 4}
    return chart(
        f"Coverage of {len(rows):,} {many}: {low:.3f} at the lowest, {below:,} below {promised:g}. The numbers are in "
        "the table.",
        layer("rect", rows, x=x, x2=channel("j"), color=colour, tooltip=tips),
        layer("rule", at, style="limit", y=-16, y2="height", x=x),
        layer("text", at, y=-16, baseline="top", style="markname", **side, x=x, text=channel("n:N")),
        height=54,
    )


_PART_LINE = 22  # pixels from one part to the next
_PART_ROOM = 110  # pixels for names, so that charts stand under each other


def coverage_of_parts(names: list[str], table: CoverageTable, *, title: str, lowest: float) -> Spec:
    """A dot and a 95% interval for each part, and the promised coverage (dashed), from `lowest` to 1.

    Parts stand in the order of the table. Those that are covered significantly less than promised are drawn in another
    colour, with another shape.
    """
    places = np.arange(len(names))
    if len(names) > MOST_PARTS:
        places = np.sort(np.argsort(table.coverage, kind="stable")[:MOST_PARTS])
    flagged, kinds = set(table.under_covered.tolist()), ["as promised, as far as these rows tell", "low"]
    rows = [
        {"i": str(i), "s": names[i], "c": float(table.coverage[i]), "lo": float(table.low[i])}
        | {"hi": float(table.high[i]), "n": int(table.rows[i]), "f": kinds[i in flagged]}
        for i in places.tolist()
    ]
    shown = {row["i"]: row["s"] for row in rows}
    # The axis holds numbers of parts, and only shows names: two names may look alike.
    axis = {"labelExpr": "parts[datum.value]", "labelLimit": _PART_ROOM, "minExtent": _PART_ROOM}
    y = channel("i:N", sort=list(shown), axis={**axis, "title": None, "ticks": False})
    scale = {"domain": [lowest, 1.0], "nice": False, "clamp": True}
    x, dot = (channel(f"{f}:Q", title="coverage", scale=scale, axis={"tickCount": 6}) for f in ("lo", "c"))
    colour = channel("f:N", legend=None, scale={"domain": kinds})
    shape = channel("f:N", legend=None, scale={"domain": kinds, "range": ["circle", "diamond"]})
    tips = [channel("s:N", title=title), tip("c", "coverage"), tip("lo", "95% from"), tip("hi", "to")]
    tips.append(tip("n", "rows", ","))
    low = float(table.coverage[places].min())
    return chart(
        f"Coverage by {title} with 95% intervals, compared with {table.promised:g} (dashed): {low:.3f} at the lowest. "
        "The numbers are in the table.",
        layer("rule", rows, strokeWidth=2.5, x=x, x2=channel("hi"), y=y, color=colour, tooltip=tips),
        layer("point", rows, filled=True, size=80, opacity=1, x=dot, y=y, color=colour, shape=shape, tooltip=tips),
        layer("rule", [{"lo": table.promised}], **DASHED, x=x),
        height=len(rows) * _PART_LINE + _PART_LINE // 2,
        params=[{"name": "parts", "value": shown}],
    )


def group_chart(report: Report, table: CoverageTable) -> Spec:
    """Groups of rows: a strip of many, dots with intervals of a few."""
    present = np.flatnonzero(table.rows)
    if len(present) >= HEAT_STRIP_FROM:
        return strip(table, report.group_name, "group", "groups")
    order = present[np.argsort(table.coverage[present], kind="stable")]
    lowest = np.floor(10 * min(table.low[order].min(), table.promised)) / 10
    names = [report.group_name(i) for i in order.tolist()]
    return coverage_of_parts(names, table.at(order), title="group", lowest=float(lowest))


def part_charts(report: Report) -> dict[str, Spec]:
    """A chart for each kind of parts, all with the same scale."""
    parts, charts = report.check.parts, {}
    lowest = np.floor(10 * min(parts.table.low.min(), parts.table.promised)) / 10
    for by, title in PART_TITLES.items():
        places = np.array(parts.places(by), dtype=np.int64)
        if len(places):
            names = [parts.names[i] for i in places]
            charts[f"parts-{by}"] = coverage_of_parts(names, parts.table.at(places), title=title, lowest=float(lowest))
    return charts


# ---- sets ------------------------------------------------------------------------------------------------------------

_MAP_LABELS = 20
_BARS = 60  # of the histogram of sizes; more sizes than that share bars


def set_sizes(report: Report) -> Spec:
    """How many sets have how many labels; where there are very many sizes, some share a bar."""
    counts = report.sets.sizes
    first, last = int(np.flatnonzero(counts)[0]), len(counts) - 1
    first = 0 if last - first >= first else first  # from 0, unless the sets would only fill a corner
    step = -(-(last + 1 - first) // _BARS)
    rows = [
        {"lo": start - 0.45, "hi": start + step - 0.55, "n": int(counts[start : start + step].sum())}
        | {"w": f"{start}" if step == 1 else f"{start} to {start + step - 1}"}
        for start in range(first, last + 1, step)
    ]
    empty = f"{counts[0] / report.rows:.1%} empty, " if counts[0] else ""
    half = int(np.searchsorted(np.cumsum(counts), report.rows / 2))
    x = channel("lo:Q", title="labels in the set", axis={"tickMinStep": 1, "format": "d"}, scale={"nice": False})
    y, share = channel("n:Q", title="rows"), [{"calculate": f"datum.n / {report.rows}", "as": "p"}]
    tips = [channel("w:N", title="labels"), tip("n", "rows", ","), tip("p", "share", ".1%")]
    return chart(
        f"Sizes of {report.rows:,} sets: {empty}half of them with {half} labels or fewer, up to {last}, "
        f"{report.check.avg_size:.2f} on average.",
        layer("bar", rows, share, style="bar", x=x, x2=channel("hi"), y=y, y2={"datum": 0}, tooltip=tips),
        height=200,
    )


def label_pairs(report: Report) -> Spec:
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
    shown: Spec = {"labelExpr": "names[datum.value]", "labelLimit": 110}
    x = channel("a:N", title=None, sort=order, axis={"labelAngle": -90, **shown})
    y = channel("b:N", title=None, sort=order, axis=shown)
    colour = channel("n:Q", title="sets", scale={"zero": True}, legend={"orient": "top", "gradientLength": 160})
    tips = [channel("an:N", title="label"), channel("bn:N", title="with"), tip("n", "sets", ",")]
    return chart(
        "Labels that are in the same sets; the most frequent pairs are in the list next to it.",
        layer("rect", rows, style="cell", x=x, y=y, color=colour, tooltip=tips),
        height=max(160, 19 * len(labels)),
        params=[{"name": "names", "value": names}],
    )
