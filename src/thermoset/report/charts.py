"""Every chart of the report: the trade-off, what one could have instead, calibration, answers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from thermoset.conformal.groupings import title_of
from thermoset.looks import COLOURS, DARK_COLOURS, PanelAxis, names_aside, placed_names
from thermoset.metrics import METRICS
from thermoset.report.record import NamedSetting, Reliability, Report, RiskPoint
from thermoset.report.set_charts import HEAT_STRIP_FROM, group_chart, label_pairs, part_charts, set_sizes, strip
from thermoset.report.vega import (
    DASHED,
    Palette,
    Rows,
    Spec,
    channel,
    chart,
    layer,
    legend_data,
    score_palette,
    tip,
    when,
)
from thermoset.sweeping import standard_error
from thermoset.tuning import Outlook
from thermoset.tuning.choice import FRONTS, Alternative, Front, drawable, front, front_titles, settings_of, target_of

TRADE_OFF = {name: METRICS[name].heading for name in ("avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold")}
"""Metrics of the trade-off's panels, with their headings."""

FIFTHS = ("least", "2nd", "3rd", "4th", "most")
"""Fifths of the rows by confidence."""


def all_charts(report: Report) -> dict[str, Spec]:
    """Every chart by the id of its place on the page."""
    choice, looks = report.document.choice, _looks(report)
    charts = {f"trade-{metric}": trade_off(report, metric, looks) for metric in TRADE_OFF}
    charts |= {f"frontier-{metric}": frontier(report, metric, looks) for metric in FRONTS if drawable(choice, metric)}
    if any(any(one.misses.empty) for one in report.with_misses):
        charts["missed"] = empty_by_confidence(report.with_misses)
    charts["size-gap"] = size_gap(report, looks)
    for i, calibration in enumerate(report.calibrations):
        charts[f"reliability-{i}"] = reliability(calibration)
        charts[f"confidence-{i}"] = confidence(calibration)
    if report.document.n_classes >= HEAT_STRIP_FROM:
        charts["strip"] = strip(report.check.classes, report.short_name, "class", "classes")
    if report.check.groups is not None:
        charts["groups"] = group_chart(report, report.check.groups)
    if report.risk and (alone := report.check.answers) is not None:
        share = alone.answered / alone.rows if alone.answered else None
        charts["answers"] = risk_coverage(report.risk, alone.bound, share)
    charts["sizes"] = set_sizes(report)
    charts |= part_charts(report)
    if report.sets.pairs:
        charts["pairs"] = label_pairs(report)
    return charts


def legend(report: Report) -> Spec:
    """What the legends of the page are drawn from: a name has the same look in all of them."""
    looks = _looks(report)
    held = {"lines": line_names(report), "points": series_names(report), "frontier": frontier_names(report)}
    return legend_data({kind: looks.legend(names) for kind, names in held.items()})


def _looks(report: Report) -> Palette:
    return score_palette(list(dict.fromkeys([*series_names(report), *frontier_names(report)])))


def method_name(name: str) -> str:
    """A method as papers print it."""
    head, bracket, rest = name.partition("(")
    return head.upper() + bracket + rest


def series_names(report: Report) -> list[str]:
    """Names of the curves, the predictor's own first, thresholds by class last."""
    methods = [method_name(name) for name in report.curves.methods]
    return [*methods, f"{methods[0]}, {title_of(report.conditional.settings['grouping'])}"]


def line_names(report: Report) -> list[str]:
    """Names of the curves of the trade-off: every method, or thresholds by class alone where the predictor has them."""
    names = series_names(report)
    return names[:-1] if report.document.grouping is None else names[-1:]


def frontier_names(report: Report) -> list[str]:
    """Kinds of sets on the frontier that colours tell apart: those of the page's curves, then the others."""
    curves = series_names(report)
    shown = {_series(one.outlook, curves) for one in settings_of(report.document.choice)}
    return [*(name for name in curves if name in shown), *sorted(shown - set(curves))]


# ---- the trade-off ---------------------------------------------------------------------------------------------------
# Each panel has signals that the page sets: `at`, the temperature of the slider, `hover`, that under the pointer in any
# of them, and `level`, the alpha shown.

_NARROWEST = 250  # pixels of a panel on a telephone
_LINE = 13  # pixels of a line of the marks' names


def trade_off(report: Report, metric: str, looks: Palette) -> Spec:
    """A metric against temperature: bands of two standard errors, the noise floor, the marked temperatures.

    Curves have the dashes and, here and there, the marks of their scores: where two coincide, both are seen.
    """
    x, y = _temperature(report), channel("v:Q", title=None, scale={"zero": metric == "avg_size"})
    at_level = {"filter": "datum.a == level"}
    width = when(f"datum.m === {line_names(report)[0]!r}", 2.6, 1.5)
    low = channel("lo:Q", title=None)
    # Dots are hidden rather than filtered out: an empty layer has no extent, and Vega warns of that.
    seen = when("abs(datum.T - hover) < 1e-9", 1, 0)
    pointer = [{"calculate": "hover > 0 ? hover : at", "as": "T"}]  # where there is none, behind the slider's
    signals = {"at": report.document.temperature_sets, "hover": 0, "level": report.alpha}
    return chart(
        _trade_off_description(report, metric),
        *_noise_floor(report, metric, at_level),
        layer("area", "curves", [at_level], opacity=0.2, x=x, y=low, y2=channel("hi"), color=looks.colour),
        layer("line", "curves", [at_level], x=x, y=y, color=looks.colour, strokeDash=looks.dash, strokeWidth=width),
        layer(
            "point", "curves", [at_level, looks.some("i")], size=34, opacity=1, strokeWidth=1.2, x=x, y=y, **looks.marks
        ),
        *_temperature_marks(report, x),
        layer("rule", [{"z": 0.0}], [{"calculate": "at", "as": "T"}], style="at", x=x),
        layer("rule", [{"z": 0.0}], pointer, style="pointer", x=x),
        layer("point", "curves", [at_level], size=40, filled=True, x=x, y=y, color=looks.colour, opacity=seen),
        height=220,
        datasets={"curves": _curves(report, metric)},
        params=[{"name": name, "value": value} for name, value in signals.items()],
    )


def _curves(report: Report, metric: str) -> Rows:
    sweep, rows = report.own, []
    for name, method in zip(line_names(report), sweep.methods, strict=True):
        for alpha in sweep.alphas:
            trials = sweep.of_trials(metric, method, alpha)
            mean, error = trials.mean(axis=-1), np.nan_to_num(standard_error(trials))
            columns = sweep.temperatures.tolist(), mean.tolist(), (2 * error).tolist()
            rows += [
                {"m": name, "a": alpha, "T": t, "v": value, "lo": value - reach, "hi": value + reach, "i": i}
                for i, (t, value, reach) in enumerate(zip(*columns, strict=True))
            ]
    return rows


def _ends(report: Report) -> tuple[float, float]:
    return float(report.own.temperatures[0]), float(report.own.temperatures[-1])


def _temperature(report: Report) -> Spec:
    """The axis of temperatures: logarithmic where they span much."""
    low, high = _ends(report)
    kind = {"type": "log"} if high > 20 * low else {"type": "linear", "zero": False}
    return channel("T:Q", title="temperature T", scale={"domain": [low, high], "nice": False, **kind})


def _temperature_marks(report: Report, x: Spec) -> list[Spec]:
    """Dotted lines at the marked temperatures, their names above the panel."""
    low, high = _ends(report)
    axis = PanelAxis([low, high], wide=20, room=0)
    names = placed_names(
        {name.replace("T-hat", "T\u0302"): t for name, t in report.marks.items() if low <= t <= high},
        lambda t: _NARROWEST * axis.part(t),
    )
    rows: Rows = [{"T": at.temperature, "n": at.name, "y": -2 - _LINE * at.line, "left": at.left} for at in names]
    y = channel("y:Q", scale=None, axis=None)
    lines = layer("rule", rows, style="mark", strokeDash=[2, 3], x=x, y=y, y2={"value": "height"})
    texts = [
        layer(
            "text", rows, [{"filter": f"datum.left == {str(left).lower()}"}], align="right" if left else "left",
            dx=-3 if left else 3, baseline="top", style="markname", x=x, y=y, text=channel("n:N"),
        )
        for left in sorted({at.left for at in names})
    ]  # fmt: skip
    return [lines, *texts]


def _noise_floor(report: Report, metric: str, at_level: Spec) -> list[Spec]:
    """What class gaps show by chance: mean and 95% point."""
    key = {"top_coverage_gap": "top", "avg_coverage_gap": "avg"}.get(metric)
    if key is None:
        return []
    rows = [
        {"a": alpha, "v": getattr(floor, f"{key}_mean"), "hi": getattr(floor, f"{key}_95")}
        for alpha, floor in report.floors.items()
    ]
    y = channel("v:Q", title=None)
    band = layer("rect", rows, [at_level], style="floor", y=y, y2=channel("hi"))
    return [band, layer("rule", rows, [at_level], style="floorline", y=y)]


def _trade_off_description(report: Report, metric: str) -> str:
    sweep = report.own
    values, t = sweep.curve(metric, sweep.methods[0], report.alpha), sweep.temperatures
    low, high = int(np.argmin(values)), int(np.argmax(values))
    hat = float(values[int(np.searchsorted(t, report.document.temperature_sets))])
    return (
        f"{TRADE_OFF[metric]} against temperature, {method_name(sweep.methods[0])}, alpha {report.alpha:g}: lowest "
        f"{values[low]:.3g} at T = {t[low]:.2f}, highest {values[high]:.3g} at T = {t[high]:.2f}, {hat:.3g} at T-hat."
    )


def size_gap(report: Report, looks: Palette) -> Spec:
    """Size against class gap, one point for each temperature."""
    names, size, gap = series_names(report), METRICS["avg_size"], METRICS["top_coverage_gap"]
    rows: Rows = []
    for sweep, offset in ((report.curves, 0), (report.conditional, len(names) - 1)):
        for i, method in enumerate(sweep.methods):
            sizes, gaps = (sweep.curve(metric, method, report.alpha) for metric in ("avg_size", "top_coverage_gap"))
            rows += [
                {"m": names[i + offset], "T": t, "s": s, "g": g}
                for t, s, g in zip(sweep.temperatures.tolist(), sizes.tolist(), gaps.tolist(), strict=True)
                if s > 0 and math.isfinite(g)  # the axis is logarithmic
            ]
    own, hat = line_names(report)[0], report.document.temperature_sets
    chosen = [row | {"n": "T\u0302"} for row in rows if row["m"] == own and row["T"] == hat]
    scale = {"type": "log", "nice": False, "padding": 12}
    x = channel("s:Q", title=f"{size.heading} (logarithmic)", scale=scale)
    y = channel("g:Q", title=gap.title, scale={"zero": False, "padding": 12})
    tips = [channel("m:N", title="sets"), channel("T:Q", format=".3~f"), tip("s", size.title), tip("g", gap.title)]
    chosen_points = "".join(f" T-hat: {at['s']:.3g} {size.unit}, {gap.title} {at['g']:.3g}." for at in chosen)
    return chart(
        f"Size against {gap.title} at alpha {report.alpha:g}, one point for each temperature, for {', '.join(names)}."
        f"{chosen_points}",
        layer("line", "points", strokeWidth=1, opacity=0.6, x=x, y=y, color=looks.colour, order=channel("T:Q")),
        layer("point", "points", size=34, opacity=0.9, strokeWidth=1.2, x=x, y=y, tooltip=tips, **looks.outlined_marks),
        layer("point", chosen, size=220, strokeWidth=2.5, style="chosen", x=x, y=y),
        layer("text", chosen, dx=14, dy=-12, style="chosentext", x=x, y=y, text=channel("n:N")),
        height=340,
        datasets={"points": rows},
    )


# ---- what one could have instead, and which rows are missed ----------------------------------------------------------

_SIZE = "labels in a set"
_WIDE = 8  # sizes that span more than this need a logarithmic axis
_FRONTIER_HEIGHT = 300
_FOR_NAMES = 0.45  # of a panel's width; on a phone names need as much
_LONGEST_NAME = 14  # letters


def _series(at: Outlook, curves: Sequence[str]) -> str:
    """The score and its grouping, as the page's curves call them if they do; else variants of a score look alike."""
    grouped = "" if at.setting.grouping is None else f", {title_of(at.setting.grouping)}"
    name = at.setting.method.title + grouped
    return name if name in curves else at.setting.method.title.partition("(")[0] + grouped


def frontier(report: Report, metric: Front, looks: Palette) -> Spec:
    """Every setting as a point with its intervals; the front is joined, the recommended one ringed.

    Names stand at the right side in the order of their points, each with a line to its point.
    """
    choice, curves = report.document.choice, series_names(report)
    shown, titles, target = drawable(choice, metric), front_titles(choice), target_of(choice, metric)
    rows = [_row(one, metric, _series(one.outlook, curves)) for one in shown]
    sizes = [end for one in shown for end in (one.outlook.size, *one.size_interval) if end > 0]
    across = PanelAxis(sizes, _WIDE, right=_FOR_NAMES)
    along = PanelAxis([*(end for one in shown for end in one.interval(metric)), *([] if target is None else [target])])
    kind: Spec = {"type": "log"} if across.is_log else {"zero": False}
    x_scale = {"domain": list(across.ends), "nice": False, **kind}
    y_scale = {"domain": list(along.ends), "nice": False, "zero": False}
    marks = [float(f"{tick:.6g}") for tick in across.ticks(5, max(sizes))]

    def x(field: str, **more: Any) -> Spec:
        return channel(f"{field}:Q", title=_SIZE, scale=x_scale, axis={"values": marks, "format": "~g"}, **more)

    def y(field: str) -> Spec:
        return channel(f"{field}:Q", title=titles[metric], scale=y_scale)

    tips = [channel("n:N", title="called"), channel("t:N", title="setting"), tip("s", _SIZE)]
    tips += [tip(name, title) for name, title in titles.items()]
    weight, area = when("datum.n !== ''", 2, 0.8), when("datum.n !== ''", 110, 28)
    joined = [{"s": at.size, "v": getattr(at, metric)} for at in front([one.outlook for one in shown], metric)]
    stroke = {"color": looks.colour, "strokeWidth": weight}
    layers = [
        layer("line", joined, style="mark", strokeWidth=1, x=x("s"), y=y("v"), order=channel("s:Q")),
        layer("rule", rows, x=x("s"), y=y("lo"), y2=channel("hi"), **stroke),
        layer("rule", rows, clip=True, x=x("left"), x2=channel("right"), y=y("v"), **stroke),
    ]
    edge = across.value(1 - _FOR_NAMES)
    if target is not None:  # as far as its name
        line = [{"v": target, "left": across.value(0), "e": edge}]
        layers.append(layer("rule", line, **DASHED, x=x("left"), x2=channel("e"), y=y("v")))

    named = {_short(one): one for one in shown if one.names}
    points = {name: (one.outlook.size, getattr(one.outlook, metric)) for name, one in named.items()}
    points |= {} if target is None else {f"target {target:g}": (edge, target)}
    names = [
        {"s": at.x, "v": at.y, "e": edge, "w": at.name_y, "n": at.name.replace("T-hat", "T\u0302")}
        | {"chosen": at.name in named and named[at.name].chosen}
        for at in names_aside(points, along, _LINE / _FRONTIER_HEIGHT)
    ]
    to_name = {"x": x("s"), "x2": channel("e"), "y": y("v"), "y2": channel("w")}
    layers += [
        layer("rule", names, style="mark", strokeWidth=0.7, strokeDash=[1, 2], **to_name),
        layer(
            "point", rows, opacity=1, strokeWidth=1.5, x=x("s"), y=y("v"), size=area, tooltip=tips,
            **looks.outlined_marks,
        ),
        layer(
            "point", [row for row in rows if row["chosen"]], size=380, strokeWidth=2.5, style="chosen",
            x=x("s"), y=y("v"), tooltip=tips,
        ),
    ]  # fmt: skip
    for style, chosen in (("markname", False), ("chosenname", True)):
        text = layer(
            "text", [row for row in names if row["chosen"] == chosen], style=style, align="left", baseline="middle",
            dx=4, x=x("e"), y=y("w"), text=channel("n:N"), tooltip=[channel("n:N", title="called")],
        )  # fmt: skip
        text["mark"]["limit"] = {"expr": f"{_FOR_NAMES} * width"}
        layers.append(text)
    said = "; ".join(
        f"{one.name}: {one.outlook.size:.2f} and {getattr(one.outlook, metric):.3f}" for one in shown if one.names
    )
    return chart(
        f"{titles[metric].capitalize()} against {_SIZE} for {len(shown)} settings. {said}.",
        *layers,
        height=_FRONTIER_HEIGHT,
    )


def _short(one: Alternative) -> str:
    """The names of a setting that fit next to the panel; the tooltip has them all."""
    name = one.name
    while len(name) > _LONGEST_NAME and ", " in name:
        name = name.rpartition(", ")[0]
    return name


def _row(one: Alternative, metric: Front, series: str) -> dict[str, Any]:
    at, (low, high), (left, right) = one.outlook, one.interval(metric), one.size_interval
    row = {"m": series, "t": at.setting.title, "n": one.name, "s": at.size, "v": getattr(at, metric), "lo": low}
    row |= {"hi": high, "left": left, "right": right, "chosen": one.chosen}
    return row | {other: getattr(at, other) for other in FRONTS}


def empty_by_confidence(settings: Sequence[NamedSetting]) -> Spec:
    """Share of empty sets in each fifth of the rows by confidence, for one or two settings; the last is recommended."""
    # Not the colours of scores on a light ground; the recommendation has the accent of the page.
    colours = [
        {"expr": f"dark ? '{DARK_COLOURS[-1]}' : '{COLOURS[-1]}'"},
        {"expr": f"dark ? '{DARK_COLOURS[1]}' : '#b84f00'"},
    ]
    names = [one.name for one in settings]
    rows = [
        {"f": fifth, "w": one.name, "v": share}
        for one in settings
        for fifth, share in zip(FIFTHS, one.misses.empty, strict=True)
    ]
    x = channel("f:N", title="fifths of the rows, by confidence", sort=list(FIFTHS), axis={"labelAngle": 0})
    y = channel("v:Q", title="empty sets", axis={"format": "~%"})
    scale = {"domain": names, "range": colours[-len(names) :]}
    colour = channel("w:N", title=None, scale=scale, legend={"orient": "top", "labelLimit": 300})
    tips = [channel("w:N", title="sets"), channel("f:N", title="confidence"), tip("v", "empty", ".1%")]
    said = "; ".join(f"{one.name}: {', '.join(f'{share:.1%}' for share in one.misses.empty)}" for one in settings)
    return chart(
        f"Empty sets by fifths of the rows, from the least to the most confident. {said}.",
        layer("bar", rows, x=x, xOffset=channel("w:N", sort=names), y=y, color=colour, tooltip=tips),
        height=200,
    )


# ---- calibration and answers -----------------------------------------------------------------------------------------

_UNIT = {"domain": [0, 1]}
_ROOM = 46  # pixels for the labels of both y axes, so that the two charts stand under each other


def reliability(calibration: Reliability) -> Spec:
    """Accuracy by confidence; the distance to the diagonal is drawn as a bar."""
    bins = calibration.bins
    columns = (bins.edges[:-1], bins.edges[1:], bins.confidence, bins.accuracy, bins.count)
    rows = [
        {"lo": a, "hi": b, "c": c, "acc": acc, "n": n}
        for a, b, c, acc, n in zip(*(column.tolist() for column in columns), strict=True)
        if n
    ]
    x, at = (channel(f"{field}:Q", title="confidence", scale=_UNIT) for field in ("lo", "c"))
    y = channel("acc:Q", title="accuracy", scale=_UNIT, axis={"minExtent": _ROOM})
    tips = [tip("c", "confidence"), tip("acc", "accuracy"), tip("n", "rows", ",")]
    diagonal = [{"c": 0.0, "d": 0.0}, {"c": 1.0, "d": 1.0}]
    return chart(
        f"Reliability diagram at {calibration.name} = {calibration.temperature:.3f} in {len(bins.count)} bins: "
        f"ECE {bins.ece:.4f}. The numbers are in the table below.",
        layer("bar", rows, style="bar", x=x, x2=channel("hi"), y=y, y2={"datum": 0}, tooltip=tips),
        layer("rule", rows, style="gap", strokeWidth=6, x=at, y=y, y2=channel("c"), tooltip=tips),
        layer("line", diagonal, **DASHED, x=at, y=channel("d:Q", title="accuracy", scale=_UNIT)),
        height=230,
    )


def confidence(calibration: Reliability) -> Spec:
    """Rows by confidence, their number above each bar."""
    bins = calibration.bins
    edges = zip(bins.edges[:-1].tolist(), bins.edges[1:].tolist(), bins.count.tolist(), strict=True)
    rows = [{"lo": a, "hi": b, "mid": (a + b) / 2, "n": n} for a, b, n in edges]
    x, middle = channel("lo:Q", title="confidence", scale=_UNIT), channel("mid:Q", scale=_UNIT)
    y = channel("n:Q", title="rows", axis={"tickCount": 3, "minExtent": _ROOM})
    tips = [tip("n", "rows", ",")]
    return chart(
        f"Histogram of confidence at {calibration.name}; the numbers are in the table below.",
        layer("bar", rows, style="soft", x=x, x2=channel("hi"), y=y, y2={"datum": 0}, tooltip=tips),
        layer("text", rows, dy=-6, style="count", x=middle, y=y, text=channel("n:Q", format=".3~s")),
        height=90,
    )


def risk_coverage(points: tuple[RiskPoint, ...], bound: float, share: float | None) -> Spec:
    """The error among answered rows at every threshold, its 95% band, the claimed bound, and where the rule stands."""
    rows = [{"s": one.share, "e": one.error, "lo": one.low, "hi": one.high} for one in points]
    x = channel("s:Q", title="share of the rows that are answered", scale=_UNIT)
    y, low = (channel(f"{field}:Q", title="errors among them") for field in ("e", "lo"))
    tips = [tip("s", "answered"), tip("e", "errors"), tip("lo", "95% from"), tip("hi", "to")]
    where = "no row is answered alone" if share is None else f"the rule answers {share:.1%} of the rows"
    return chart(
        f"Errors among answered rows by the share that is answered; at most {bound:g} is claimed, {where}.",
        layer("area", rows, style="band", x=x, y=low, y2=channel("hi")),
        layer("line", rows, style="running", x=x, y=y, tooltip=tips),
        layer("rule", [{"b": bound}], **DASHED, y=channel("b:Q")),
        *([] if share is None else [layer("rule", [{"s": share}], style="mark", x=channel("s:Q"))]),
        height=230,
    )
