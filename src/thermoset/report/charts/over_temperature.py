"""The trade-off: metrics against temperature, and size against class gap.

Every chart of the trade-off has signals that the page sets: `at`, the temperature of the slider, `hover`, that under
the pointer in any of them, and `level`, the alpha shown.
"""

import math
from typing import Any

import altair as alt
import numpy as np

from thermoset.metrics import METRICS
from thermoset.notebook import placed_names
from thermoset.report.charts.palette import Palette
from thermoset.report.charts.parts import data, line_names, method_name, plain, series_names, tip
from thermoset.report.record import Report
from thermoset.sweeping import Sweep, standard_error

__all__ = ["TRADE_OFF", "size_gap", "trade_off"]

TRADE_OFF = {name: METRICS[name].heading for name in ("avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold")}
"""Metrics of the trade-off's panels, with their headings."""

_MARK_NAMES = {"T = 1": "T = 1", "T*": "T*", "T-hat": "T̂", "T_c": "T_c", "theory": "theory"}
_NARROWEST = 250  # pixels of a panel on a telephone
_LINE = 13  # pixels of a line of the marks' names


def _points(sweep: Sweep, metric: str, names: list[str]) -> list[dict[str, Any]]:
    rows = []
    for name, method in zip(names, sweep.methods, strict=True):
        for alpha in sweep.alphas:
            trials = sweep.of_trials(metric, method, alpha)
            mean, error = trials.mean(axis=-1), np.nan_to_num(standard_error(trials))
            columns = sweep.temperatures.tolist(), mean.tolist(), (2 * error).tolist()
            for i, (t, value, reach) in enumerate(zip(*columns, strict=True)):
                row = {"m": name, "a": alpha, "T": t, "v": value, "lo": value - reach, "hi": value + reach, "i": i}
                rows.append(row)
    return rows


def _ends(report: Report) -> tuple[float, float]:
    return float(report.own.temperatures[0]), float(report.own.temperatures[-1])


def _is_wide(ends: tuple[float, float]) -> bool:
    """Whether temperatures need a logarithmic axis."""
    return ends[1] > 20 * ends[0]


def _temperature(report: Report) -> alt.X:
    ends = _ends(report)
    kind = {"type": "log"} if _is_wide(ends) else {"type": "linear", "zero": False}
    return alt.X("T:Q", title="temperature T", scale=alt.Scale(domain=list(ends), nice=False, **kind))


def trade_off(report: Report, metric: str, looks: Palette) -> Any:
    """A metric against temperature: bands of two standard errors, the noise floor, the marked temperatures.

    Curves have the dashes and, here and there, the marks of their scores: where two coincide, both are seen.
    """
    rows = _points(report.own, metric, line_names(report))
    x, shade = _temperature(report), looks.colour()
    y = alt.Y("v:Q", title=None, scale=alt.Scale(zero=metric == "avg_size"))
    base = alt.Chart(alt.NamedData(name="curves")).transform_filter("datum.a == level")
    band = base.mark_area(opacity=0.2).encode(x=x, y=alt.Y("lo:Q", title=None), y2="hi:Q", color=shade)
    own = line_names(report)[0]
    width = alt.condition(f"datum.m === {own!r}", alt.value(2.6), alt.value(1.5))
    line = base.mark_line().encode(x=x, y=y, color=shade, strokeDash=looks.dash(), strokeWidth=width)
    some = base.transform_filter(looks.some("i"))
    signs = some.mark_point(size=34, opacity=1, strokeWidth=1.2).encode(x=x, y=y, **looks.marks())
    # Hidden rather than filtered out: an empty layer has no extent, and Vega warns of that.
    seen = alt.condition("abs(datum.T - hover) < 1e-9", alt.value(1), alt.value(0))
    dots = base.mark_point(size=40, filled=True).encode(x=x, y=y, color=shade, opacity=seen)
    layers = [*_floor(report, metric), band, line, signs, *_marks(report, x), _cursor(x), _pointer(x), dots]
    signals = {"at": report.document.temperature_sets, "hover": 0, "level": report.alpha}
    return alt.layer(
        *layers,
        width="container",
        height=220,
        description=_description(report, metric),
        datasets={"curves": plain(rows)},
    ).add_params(*(alt.param(name=name, value=value) for name, value in signals.items()))


def _cursor(x: alt.X) -> Any:
    """A line at the slider's temperature."""
    return alt.Chart(data([{"z": 0.0}])).transform_calculate(T="at").mark_rule(style="at").encode(x=x)


def _pointer(x: alt.X) -> Any:
    """A thin line at the temperature under the pointer; where there is none, behind the slider's."""
    return (
        alt.Chart(data([{"z": 0.0}]))
        .transform_calculate(T="hover > 0 ? hover : at")
        .mark_rule(style="pointer")
        .encode(x=x)
    )


def _marks(report: Report, x: alt.X) -> list[Any]:
    """Dotted lines at the marked temperatures, their names above the panel."""
    low, high = ends = _ends(report)
    along = np.log if _is_wide(ends) else np.asarray
    scale = _NARROWEST / float(along(high) - along(low))
    names = placed_names(
        {_MARK_NAMES[name]: t for name, t in report.marks.items() if low <= t <= high},
        lambda t: scale * float(along(t) - along(low)),
    )
    rows = [{"T": at.temperature, "n": at.name, "y": -2 - _LINE * at.line, "left": at.left} for at in names]
    base = alt.Chart(data(rows)).encode(x=x, y=alt.Y("y:Q", scale=None, axis=None))
    texts = [
        base.transform_filter(f"datum.left == {str(left).lower()}")
        .mark_text(align="right" if left else "left", dx=-3 if left else 3, baseline="top", style="markname")
        .encode(text="n:N")
        for left in sorted({at.left for at in names})
    ]
    return [base.mark_rule(style="mark", strokeDash=[2, 3]).encode(y2=alt.value("height")), *texts]


def _floor(report: Report, metric: str) -> list[Any]:
    """What class gaps show by chance: mean and 95% point."""
    key = {"top_coverage_gap": "top", "avg_coverage_gap": "avg"}.get(metric)
    if key is None:
        return []
    rows = [
        {"a": alpha, "v": getattr(floor, f"{key}_mean"), "hi": getattr(floor, f"{key}_95")}
        for alpha, floor in report.floors.items()
    ]
    base = alt.Chart(data(rows)).transform_filter("datum.a == level")
    y = alt.Y("v:Q", title=None)
    return [base.mark_rect(style="floor").encode(y=y, y2="hi:Q"), base.mark_rule(style="floorline").encode(y=y)]


def _description(report: Report, metric: str) -> str:
    """A sentence in place of the picture."""
    sweep = report.own
    values = sweep.curve(metric, sweep.methods[0], report.alpha)
    t = sweep.temperatures
    low, high = int(np.argmin(values)), int(np.argmax(values))
    hat = float(values[int(np.searchsorted(t, report.document.temperature_sets))])
    return (
        f"{TRADE_OFF[metric]} against temperature, {method_name(sweep.methods[0])}, alpha {report.alpha:g}: lowest "
        f"{values[low]:.3g} at T = {t[low]:.2f}, highest {values[high]:.3g} at T = {t[high]:.2f}, {hat:.3g} at T-hat."
    )


def size_gap(report: Report, looks: Palette) -> Any:
    """Size against class gap, one point for each temperature."""
    names = series_names(report)
    rows = _size_gap_points(report, names)
    own, hat = line_names(report)[0], report.document.temperature_sets
    chosen = [row | {"n": "T̂"} for row in rows if row["m"] == own and row["T"] == hat]
    size, gap = METRICS["avg_size"], METRICS["top_coverage_gap"]
    x = alt.X("s:Q", title=f"{size.heading} (logarithmic)", scale=alt.Scale(type="log", nice=False, padding=12))
    y = alt.Y("g:Q", title=gap.title, scale=alt.Scale(zero=False, padding=12))
    tips = [alt.Tooltip("m:N", title="sets"), alt.Tooltip("T:Q", format=".3~f"), tip("s", size.title)]
    base = alt.Chart(data(rows))
    path = base.mark_line(strokeWidth=1, opacity=0.6).encode(x=x, y=y, color=looks.colour(), order="T:Q")
    dots = base.mark_point(size=34, opacity=0.9, strokeWidth=1.2).encode(
        x=x, y=y, **looks.outlined_marks(), tooltip=[*tips, tip("g", gap.title)]
    )
    mark = alt.Chart(data(chosen)).encode(x=x, y=y)
    told = "".join(f" T-hat: {at['s']:.3g} {size.unit}, {gap.title} {at['g']:.3g}." for at in chosen)
    return alt.layer(
        path,
        dots,
        mark.mark_point(size=220, strokeWidth=2.5, style="chosen"),
        mark.mark_text(dx=14, dy=-12, style="chosentext").encode(text="n:N"),
        width="container",
        height=340,
        description=f"Size against {gap.title} at alpha {report.alpha:g}, one point for each temperature, for "
        f"{', '.join(names)}.{told}",
    )


def _size_gap_points(report: Report, names: list[str]) -> list[dict[str, Any]]:
    rows = []
    for sweep, offset in ((report.curves, 0), (report.conditional, len(names) - 1)):
        for i, method in enumerate(sweep.methods):
            size, gap = (sweep.curve(metric, method, report.alpha) for metric in ("avg_size", "top_coverage_gap"))
            rows += [
                {"m": names[i + offset], "T": t, "s": s, "g": g}
                for t, s, g in zip(sweep.temperatures.tolist(), size.tolist(), gap.tolist(), strict=True)
                if s > 0 and math.isfinite(g)  # the axis is logarithmic
            ]
    return rows
