"""Vega-Lite charts of the page, as specifications in plain Python. Colours come from the page, which is light or dark.

Every chart of the trade-off has two signals that the page sets: `at`, the temperature of the slider, and `hover`, the
temperature under the pointer in any of them; and `level`, the alpha shown.
"""

import math
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np

from thermoset.metrics import clopper_pearson
from thermoset.report.record import Calibration, Report
from thermoset.sweeping import Sweep, standard_error

__all__ = [
    "DASHES",
    "HEAT_STRIP_FROM",
    "SHAPES",
    "TRADE_OFF",
    "all_charts",
    "method_name",
    "series_names",
    "stratum_names",
]

TRADE_OFF = {
    "avg_size": "AvgSize: labels in a set",
    "top_coverage_gap": "TopCovGap: the worst classes",
    "avg_coverage_gap": "AvgCovGap: all classes",
    "threshold": "Threshold",
}
"""Metrics of the trade-off's panels, with their titles."""

HEAT_STRIP_FROM = 30
"""From so many classes on, a heat strip shows them at a glance."""

DASHES = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [1, 4]]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross"]
"""Curves are told apart by dashes and shapes too, for readers and printers without colour."""

_DIGITS = 6  # of what is drawn; what is written has its own
_MAP_LABELS = 20
_MARK_NAMES = {"T = 1": "T = 1", "T*": "T*", "T-hat": "T̂", "T_c": "T_c", "theory": "T̃_c"}

Spec = dict[str, Any]


def method_name(name: str) -> str:
    """A method as papers print it.

    >>> method_name("raps(penalty=0.1)")
    'RAPS(penalty=0.1)'
    """
    head, bracket, rest = name.partition("(")
    return head.upper() + bracket + rest


def series_names(report: Report) -> list[str]:
    """Names of the curves, the predictor's own first, thresholds by class last."""
    methods = [method_name(name) for name in report.curves.methods]
    kind = report.conditional.settings["class_conditional"]
    return [*methods, f"{methods[0]}, {_kind_name(kind)}"]


def _kind_name(kind: str) -> str:
    return "Mondrian" if kind == "mondrian" else kind  # a person's name


def stratum_names(report: Report) -> list[str]:
    """Sizes of each stratum, as 2 to 3."""
    first = report.sets.strata.first.tolist()
    closed = [f"{a} to {b - 1}" for a, b in pairwise(first)]
    return [*closed, f"{first[-1]} or more"]


def all_charts(report: Report) -> dict[str, Spec]:
    """Every chart by the id of its place on the page."""
    charts = {f"trade-{metric}": _trade_off(report, metric) for metric in TRADE_OFF}
    charts["size-gap"] = _size_gap(report)
    for i, calibration in enumerate(report.calibrations):
        charts[f"reliability-{i}"] = _reliability(calibration)
        charts[f"confidence-{i}"] = _confidence(calibration)
    if report.artifact.n_classes >= HEAT_STRIP_FROM:
        charts["strip"] = _strip(report)
    charts["sizes"] = _sizes(report)
    charts["strata"] = _strata(report)
    if report.sets.pairs:
        charts["pairs"] = _pairs(report)
    return {name: chart.to_dict() for name, chart in charts.items()}


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _data(rows: list[dict[str, Any]]) -> alt.Data:
    return alt.Data(values=_plain(rows))


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: _rounded(v) if isinstance(v, float) else v for k, v in row.items()} for row in rows]


def _points(sweep: Sweep, metric: str, names: list[str]) -> list[dict[str, Any]]:
    rows = []
    for name, method in zip(names, sweep.methods, strict=True):
        for alpha in sweep.alphas:
            trials = sweep.of_trials(metric, method, alpha)
            mean, error = trials.mean(axis=-1), np.nan_to_num(standard_error(trials))
            for t, value, reach in zip(sweep.temperatures.tolist(), mean.tolist(), (2 * error).tolist(), strict=True):
                rows.append({"m": name, "a": alpha, "T": t, "v": value, "lo": value - reach, "hi": value + reach})
    return rows


def line_names(report: Report) -> list[str]:
    """Names of the curves of the trade-off: every method, or thresholds by class alone where the predictor has them."""
    names = series_names(report)
    return names[:-1] if report.artifact.class_conditional is None else names[-1:]


def _temperature(report: Report) -> alt.X:
    ends = float(report.own.temperatures[0]), float(report.own.temperatures[-1])
    kind = {"type": "log"} if ends[1] > 20 * ends[0] else {"type": "linear", "zero": False}
    return alt.X("T:Q", title="temperature T", scale=alt.Scale(domain=list(ends), nice=False, **kind))


def _colour(report: Report) -> alt.Color:
    return alt.Color("m:N", legend=None, scale=alt.Scale(domain=series_names(report)))


def _trade_off(report: Report, metric: str) -> Any:
    """A metric against temperature: bands of two standard errors, the noise floor, the marked temperatures."""
    rows = _points(report.own, metric, line_names(report))
    at = alt.param(name="at", value=report.artifact.temperature_sets)
    hover = alt.param(name="hover", value=0)
    level = alt.param(name="level", value=report.alpha)
    x, colour = _temperature(report), _colour(report)
    y = alt.Y("v:Q", title=None, scale=alt.Scale(zero=metric == "avg_size"))
    dash = alt.StrokeDash("m:N", legend=None, scale=alt.Scale(domain=series_names(report), range=DASHES))
    base = alt.Chart(alt.NamedData(name="curves")).transform_filter("datum.a == level")
    band = base.mark_area(opacity=0.2).encode(x=x, y=alt.Y("lo:Q", title=None), y2="hi:Q", color=colour)
    own = line_names(report)[0]
    width = alt.condition(f"datum.m === {own!r}", alt.value(2.6), alt.value(1.5))
    line = base.mark_line().encode(x=x, y=y, color=colour, strokeDash=dash, strokeWidth=width)
    # Hidden rather than filtered out: an empty layer has no extent, and Vega warns of that.
    seen = alt.condition("abs(datum.T - hover) < 1e-9", alt.value(1), alt.value(0))
    dots = base.mark_point(size=40, filled=True)
    layers = [
        *_floor(report, metric),
        band,
        line,
        *_marks(report, x),
        _cursor(x),
        dots.encode(x=x, y=y, color=colour, opacity=seen),
    ]
    return alt.layer(
        *layers, width="container", height=220, description=_told(report, metric), datasets={"curves": _plain(rows)}
    ).add_params(at, hover, level)


def _cursor(x: alt.X) -> Any:
    """A line at the slider's temperature."""
    return alt.Chart(_data([{"z": 0.0}])).transform_calculate(T="at").mark_rule(style="at").encode(x=x)


def _marks(report: Report, x: alt.X) -> list[Any]:
    """Dotted lines at the marked temperatures, their names at the top at different heights."""
    ends = report.own.temperatures[0], report.own.temperatures[-1]
    inside = sorted((t, _MARK_NAMES[name]) for name, t in report.marks.items() if ends[0] <= t <= ends[1])
    rows = [{"T": float(t), "n": name, "h": i % 3} for i, (t, name) in enumerate(inside)]
    base = alt.Chart(_data(rows)).encode(x=x)
    names = [
        base.transform_filter(f"datum.h == {h}")
        .mark_text(align="left", dx=3, y=2 + 12 * h, baseline="top", style="markname")
        .encode(text="n:N")
        for h in range(3)
    ]
    return [base.mark_rule(style="mark", strokeDash=[2, 3]), *names]


def _floor(report: Report, metric: str) -> list[Any]:
    """What class gaps show by chance: mean and 95% point."""
    key = {"top_coverage_gap": "top", "avg_coverage_gap": "avg"}.get(metric)
    if key is None:
        return []
    rows = [
        {"a": alpha, "v": getattr(floor, f"{key}_mean"), "hi": getattr(floor, f"{key}_95")}
        for alpha, floor in report.floors.items()
    ]
    base = alt.Chart(_data(rows)).transform_filter("datum.a == level")
    y = alt.Y("v:Q", title=None)
    return [base.mark_rect(style="floor").encode(y=y, y2="hi:Q"), base.mark_rule(style="floorline").encode(y=y)]


def _told(report: Report, metric: str) -> str:
    """A sentence in place of the picture."""
    sweep = report.own
    values = sweep.curve(metric, sweep.methods[0], report.alpha)
    t = sweep.temperatures
    low, high = int(np.argmin(values)), int(np.argmax(values))
    hat = float(values[int(np.searchsorted(t, report.artifact.temperature_sets))])
    return (
        f"{TRADE_OFF[metric]} against temperature, {method_name(sweep.methods[0])}, alpha {report.alpha:g}: lowest "
        f"{values[low]:.3g} at T = {t[low]:.2f}, highest {values[high]:.3g} at T = {t[high]:.2f}, {hat:.3g} at T-hat."
    )


def _size_gap(report: Report) -> Any:
    """Size against class gap, one point for each temperature."""
    names = series_names(report)
    rows = []
    for sweep, offset in ((report.curves, 0), (report.conditional, len(names) - 1)):
        for i, method in enumerate(sweep.methods):
            size, gap = (sweep.curve(metric, method, report.alpha) for metric in ("avg_size", "top_coverage_gap"))
            for t, s, g in zip(sweep.temperatures.tolist(), size.tolist(), gap.tolist(), strict=True):
                rows.append({"m": names[i + offset], "T": t, "s": s, "g": g})
    own, hat = line_names(report)[0], report.artifact.temperature_sets
    chosen = [row | {"n": "T̂"} for row in rows if row["m"] == own and row["T"] == hat]
    x = alt.X(
        "s:Q", title="AvgSize: labels in a set (logarithmic)", scale=alt.Scale(type="log", nice=False, padding=12)
    )
    y = alt.Y("g:Q", title="TopCovGap", scale=alt.Scale(zero=False, padding=12))
    colour = _colour(report)
    shape = alt.Shape("m:N", legend=None, scale=alt.Scale(domain=names, range=SHAPES))
    tips = [
        alt.Tooltip("m:N", title="sets"),
        alt.Tooltip("T:Q", format=".3~f"),
        _tip("s", "AvgSize"),
        _tip("g", "TopCovGap"),
    ]
    base = alt.Chart(_data(rows))
    path = base.mark_line(strokeWidth=1, opacity=0.6).encode(x=x, y=y, color=colour, order="T:Q")
    dots = base.mark_point(filled=True, size=34, opacity=0.9).encode(x=x, y=y, color=colour, shape=shape, tooltip=tips)
    mark = alt.Chart(_data(chosen)).encode(x=x, y=y)
    told = (
        f"Size against TopCovGap at alpha {report.alpha:g}, one point for each temperature, for {', '.join(names)}. "
        f"T-hat: {chosen[0]['s']:.3g} labels, TopCovGap {chosen[0]['g']:.3g}."
    )
    return alt.layer(
        path,
        dots,
        mark.mark_point(size=220, strokeWidth=2.5, style="chosen"),
        mark.mark_text(dx=14, dy=-12, style="chosentext").encode(text="n:N"),
        width="container",
        height=340,
        description=told,
    )


def _tip(field: str, title: str) -> alt.Tooltip:
    return alt.Tooltip(f"{field}:Q", title=title, format=".4~f")


def _reliability(calibration: Calibration) -> Any:
    """Accuracy by confidence; the distance to the diagonal is drawn as a bar."""
    bins = calibration.bins
    rows = [
        {"lo": a, "hi": b, "c": c, "acc": acc, "n": n}
        for a, b, c, acc, n in zip(
            *(x.tolist() for x in (bins.edges[:-1], bins.edges[1:], bins.confidence, bins.accuracy, bins.count)),
            strict=True,
        )
        if n
    ]
    unit = alt.Scale(domain=[0, 1])
    x, y = alt.X("lo:Q", title="confidence", scale=unit), alt.Y("acc:Q", title="accuracy", scale=unit)
    tips = [_tip("c", "confidence"), _tip("acc", "accuracy"), alt.Tooltip("n:Q", title="rows", format=",")]
    base = alt.Chart(_data(rows))
    diagonal = alt.Chart(_data([{"c": 0.0, "d": 0.0}, {"c": 1.0, "d": 1.0}]))
    x_c = alt.X("c:Q", title="confidence", scale=unit)
    return alt.layer(
        base.mark_bar(style="bar").encode(x=x, x2="hi:Q", y=y, y2=alt.datum(0), tooltip=tips),
        base.mark_rule(style="gap", strokeWidth=6).encode(x=x_c, y=y, y2="c:Q", tooltip=tips),
        diagonal.mark_line(style="mark", strokeDash=[4, 4]).encode(x=x_c, y=alt.Y("d:Q", title="accuracy", scale=unit)),
        width="container",
        height=230,
        description=(
            f"Reliability diagram at {calibration.name} = {calibration.temperature:.3f} in {len(bins.count)} bins: "
            f"ECE {bins.ece:.4f}. The numbers are in the table below."
        ),
    )


def _confidence(calibration: Calibration) -> Any:
    """Rows by confidence."""
    bins = calibration.bins
    edges = zip(bins.edges[:-1].tolist(), bins.edges[1:].tolist(), bins.count.tolist(), strict=True)
    rows = [{"lo": a, "hi": b, "n": n} for a, b, n in edges]
    return (
        alt.Chart(_data(rows), width="container", height=90)
        .mark_bar(style="soft")
        .encode(
            x=alt.X("lo:Q", title="confidence", scale=alt.Scale(domain=[0, 1])),
            x2="hi:Q",
            y=alt.Y("n:Q", title="rows", axis=alt.Axis(tickCount=3)),
            y2=alt.datum(0),
            tooltip=[alt.Tooltip("n:Q", title="rows", format=",")],
        )
        .properties(description=f"Histogram of confidence at {calibration.name}; the numbers are in the table below.")
    )


def _strip(report: Report) -> Any:
    """Every class as a stripe, the lowest coverage on the left."""
    table = report.check.classes
    order = np.argsort(np.nan_to_num(table.coverage, nan=2.0), kind="stable")
    rows: list[dict[str, Any]] = [
        {"i": place, "n": report.class_name(int(i)), "c": float(table.coverage[i]), "r": int(table.rows[i])}
        for place, i in enumerate(order)
        if table.rows[i]
    ]
    low = min(row["c"] for row in rows)
    scale = alt.Scale(
        domain=[min(low, table.promised - 0.01), table.promised, 1.0], range=["#D55E00", "#f2f2f2", "#0072B2"]
    )
    return (
        alt.Chart(_data(rows), width="container", height=54)
        .transform_calculate(j="datum.i + 1")
        .mark_rect()
        .encode(
            x=alt.X(
                "i:Q",
                title="classes, the least covered first",
                axis=alt.Axis(tickMinStep=1),
                scale=alt.Scale(domain=[0, len(rows)], nice=False),
            ),
            x2="j:Q",
            color=alt.Color(
                "c:Q", title="coverage", scale=scale, legend=alt.Legend(orient="top", gradientLength=180, format=".2f")
            ),
            tooltip=[alt.Tooltip("n:N", title="class"), _tip("c", "coverage"), alt.Tooltip("r:Q", title="rows")],
        )
        .properties(
            description=f"Coverage of {len(rows)} classes, {low:.3f} at the lowest; the numbers are in the table."
        )
    )


def _sizes(report: Report) -> Any:
    """How many sets have how many labels."""
    counts = report.sets.sizes.tolist()
    rows = [{"s": size, "e": size + 1, "n": n, "p": n / report.rows} for size, n in enumerate(counts)]
    return (
        alt.Chart(_data(rows), width="container", height=200)
        .transform_calculate(lo="datum.s - 0.45", hi="datum.s + 0.45")
        .mark_bar(style="bar")
        .encode(
            x=alt.X(
                "lo:Q", title="labels in the set", axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False)
            ),
            x2="hi:Q",
            y=alt.Y("n:Q", title="rows"),
            y2=alt.datum(0),
            tooltip=[
                alt.Tooltip("s:Q", title="labels"),
                alt.Tooltip("n:Q", title="rows", format=","),
                alt.Tooltip("p:Q", title="share", format=".1%"),
            ],
        )
        .properties(
            description=f"Sizes of {report.rows:,} sets: up to {len(counts) - 1} labels, "
            f"{report.check.avg_size:.2f} on average."
        )
    )


def _strata(report: Report) -> Any:
    """Coverage by size of the set, with 95% intervals."""
    strata = report.sets.strata
    low, high = clopper_pearson(strata.hits, strata.count)
    rows = [
        {"s": name, "c": c, "lo": lo, "hi": hi, "n": n}
        for name, c, lo, hi, n in zip(
            stratum_names(report), *(x.tolist() for x in (strata.coverage, low, high, strata.count)), strict=True
        )
        if n
    ]
    x = alt.X("s:N", title="labels in the set", sort=[row["s"] for row in rows], axis=alt.Axis(labelAngle=0))
    y = alt.Y("lo:Q", title="coverage", scale=alt.Scale(zero=False))
    base = alt.Chart(_data(rows))
    tips = [
        _tip("c", "coverage"),
        _tip("lo", "95% from"),
        _tip("hi", "to"),
        alt.Tooltip("n:Q", title="rows", format=","),
    ]
    promised = alt.Chart(_data([{"lo": report.check.marginal.promised}]))
    return alt.layer(
        promised.mark_rule(style="mark", strokeDash=[4, 4]).encode(y=y),
        base.mark_rule(style="bar", strokeWidth=2.5).encode(x=x, y=y, y2="hi:Q"),
        base.mark_point(filled=True, size=90, style="point", opacity=1).encode(
            x=x, y=alt.Y("c:Q", title="coverage"), tooltip=tips
        ),
        width="container",
        height=200,
        description="Coverage by size of the set; the numbers are in the table below.",
    )


def _pairs(report: Report) -> Any:
    """Which labels stand together in sets, for the labels of the most frequent pairs."""
    labels: list[int] = []
    for pair in report.sets.pairs:
        labels.extend(y for y in (pair.first, pair.second) if y not in labels and len(labels) < _MAP_LABELS)
    names = {y: report.class_name(y) for y in labels}
    rows = [
        {"a": names[a], "b": names[b], "n": pair.count}
        for pair in report.sets.pairs
        if pair.first in names and pair.second in names
        for a, b in ((pair.first, pair.second), (pair.second, pair.first))
    ]
    order = [names[y] for y in sorted(labels)]
    axis = alt.Axis(labelLimit=110, labelAngle=-45)
    return (
        alt.Chart(_data(rows), width="container", height=max(160, 19 * len(labels)))
        .mark_rect(style="cell")
        .encode(
            x=alt.X("a:N", title=None, sort=order, axis=axis),
            y=alt.Y("b:N", title=None, sort=order, axis=alt.Axis(labelLimit=110)),
            color=alt.Color(
                "n:Q", title="sets", scale=alt.Scale(zero=True), legend=alt.Legend(orient="top", gradientLength=160)
            ),
            tooltip=[
                alt.Tooltip("a:N", title="label"),
                alt.Tooltip("b:N", title="with"),
                alt.Tooltip("n:Q", title="sets", format=","),
            ],
        )
        .properties(description="Labels that stand together in sets; the most frequent pairs are in the list beside.")
    )
