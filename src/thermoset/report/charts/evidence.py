"""Evidence of sequential tests over batches, on a logarithmic scale, and what each batch added to it."""

import json
import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from thermoset.monitor.status import BatchRecord, TestStatus
from thermoset.report.charts.over_batches import ON_CLEAR, across, level
from thermoset.report.charts.palette import Palette
from thermoset.report.charts.parts import data, shared
from thermoset.report.timeline import Timeline

__all__ = ["LABELLED", "UNLABELLED", "drift_by_batch", "evidence_over_time", "is_cut", "log_evidence"]

LABELLED, UNLABELLED = ("under", "over"), ("size", "confidence")
"""Tests with a curve: those that need labels, and those that do not."""

_LEAST, _MOST = -3.0, 12.0  # powers of ten that an axis shows; the rest is drawn at its ends
_TEN = math.log(10)
_HEIGHT = 240
_TOLD = "abs(datum.v) < 6 ? format(pow(10, datum.v), '.3~g') : '1e' + format(datum.v, '+.0f')"
_POWERS = "abs(datum.value) <= 3 ? format(pow(10, datum.value), ',~g') : '1e' + datum.value"


def log_evidence(batch: BatchRecord, test: str) -> float | None:
    """Evidence of a test after a batch (logarithm, base e), by the name of the test."""
    value: float | None = getattr(batch, f"log_{test}")
    return value


def is_cut(tests: Sequence[TestStatus], batches: Sequence[BatchRecord]) -> bool:
    """Whether some evidence is beyond the ends of the axis."""
    found = (log_evidence(batch, test.name) for test in tests for batch in batches)
    return any(not _LEAST <= log_e / _TEN <= _MOST for log_e in found if log_e is not None)


def evidence_over_time(tests: Sequence[TestStatus], timeline: Timeline, looks: Palette) -> Any:
    """A curve for each test, a line where it alarms, diamonds at its alarms and triangles where changes were found."""
    curves = {test.title: _curve(test, timeline) for test in tests}
    values = [row["v"] for rows in curves.values() for row in rows] + [test.log_bar / _TEN for test in tests]
    low, high = max(_LEAST, min([0.0, *values])), min(_MOST, max(values))
    y = _decades("v:Q", "evidence (e-value)", (low - 0.2, high + 0.4))
    x, colour = across(timeline), looks.colour()
    size = 22 if len(timeline.steps()) <= 80 else 6
    layers: list[Any] = []
    charts, datasets = shared(curves)
    for title, chart in charts.items():
        # The name of the test is said once, not with every point: the page would grow with it.
        base = chart.transform_calculate(m=_literal(title), e=_TOLD)
        layers += [
            base.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour, strokeDash=looks.dash()),
            base.mark_point(size=size, opacity=1).encode(x=x, y=y, **looks.marks(), tooltip=_tips("evidence")),
        ]
    rules, bar_names = _bars(tests, y)
    return alt.layer(
        *rules,
        *layers,
        *_fired(tests, timeline, (x, y, colour)),
        *bar_names,
        width="container",
        height=_HEIGHT,
        datasets=datasets,
        description=_description(tests),
    )


def _decades(field: str, title: str, ends: tuple[float, float]) -> alt.Y:
    """An axis of powers of ten; values beyond its ends are drawn there."""
    first, last = math.ceil(ends[0]), math.floor(ends[1])
    step = 1 + (last - first) // 8
    values = [v for v in range(first, last + 1) if v % step == 0]
    scale = alt.Scale(domain=list(ends), nice=False, clamp=True)
    return alt.Y(field, title=title, scale=scale, axis=alt.Axis(labelExpr=_POWERS, values=values))


def _tips(what: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("n:N", title="batch"),
        alt.Tooltip("m:N", title="test"),
        alt.Tooltip("e:N", title=what),
    ]


def _curve(test: TestStatus, timeline: Timeline) -> list[dict[str, Any]]:
    found = ((i, log_evidence(timeline.batches[i], test.name)) for i in timeline.steps())
    return [
        {"x": timeline.places[i], "n": timeline.name(i), "v": _tens(log_e)} for i, log_e in found if log_e is not None
    ]


def _literal(text: str) -> str:
    """A text as Vega's expressions write it."""
    return json.dumps(text)


def _tens(log_e: float) -> float:
    """As a power of ten that JSON can hold."""
    return min(max(log_e / _TEN, -1e6), 1e6)


def _power(log_e: float) -> str:
    return f"{math.exp(log_e):.3g}" if abs(log_e) < 500 else f"1e{_tens(log_e):+.0f}"


def _bars(tests: Sequence[TestStatus], y: alt.Y) -> tuple[list[Any], list[Any]]:
    """Dashed lines where tests alarm, and what they say: the lowest below its line, so that two are not in the way."""
    together: dict[float, list[str]] = {}
    for test in tests:
        together.setdefault(test.log_bar, []).append(test.title)
    rules, names = [], []
    for i, log_bar in enumerate(sorted(together)):
        who = "" if len(together) == 1 else f": {', '.join(together[log_bar])}"
        base = alt.Chart(data([{"v": log_bar / _TEN, "n": f"alarm at {math.exp(log_bar):,.4g}{who}"}])).encode(y=y)
        below = i + 1 < len(together)
        place: dict[str, Any] = {"dy": 3, "baseline": "top"} if below else {"dy": -2, "baseline": "bottom"}
        rules.append(level(log_bar / _TEN, y))
        for style in ON_CLEAR:
            text = base.mark_text(style=style, align="left", dx=3, **place)
            names.append(text.encode(x=alt.value(0), text="n:N"))
    return rules, names


def _fired(tests: Sequence[TestStatus], timeline: Timeline, axes: tuple[alt.X, alt.Y, alt.Color]) -> list[Any]:
    """Diamonds at the first alarm of each test, triangles along the bottom where its detector found a change."""
    x, y, colour = axes
    alarms, changes = [], []
    for test in tests:
        if test.crossed_batch is not None:
            at = timeline.batches[test.crossed_batch]
            value = max(test.log_bar, log_evidence(at, test.name) or test.log_bar) / _TEN
            alarms.append(_event(test, test.crossed_batch, timeline) | {"v": value, "e": "first alarm"})
        found = {"e": "the detector found a change"}
        changes += [_event(test, place, timeline) | found for place in test.change_batches]
    layers: list[Any] = []
    if alarms:
        diamond = alt.Chart(data(alarms)).mark_point(shape="diamond", filled=True, size=190, opacity=1)
        layers.append(diamond.encode(x=x, y=y, color=colour, tooltip=_tips("what")))
    if changes:
        triangle = alt.Chart(data(changes)).mark_point(shape="triangle-up", filled=True, size=90, opacity=1, yOffset=-6)
        layers.append(triangle.encode(x=x, y=alt.value("height"), color=colour, tooltip=_tips("what")))
    return layers


def _event(test: TestStatus, place: int, timeline: Timeline) -> dict[str, Any]:
    return {"x": timeline.places[place], "n": timeline.name(place), "m": test.title}


def _description(tests: Sequence[TestStatus]) -> str:
    said = "; ".join(
        f"{test.title}: {_power(test.log_e)} now, "
        f"{'no alarm' if test.crossed_batch is None else f'first alarm in batch {test.crossed_batch + 1}'}"
        for test in tests
    )
    return f"Evidence of the tests after each batch, on a logarithmic scale. {said}."


def drift_by_batch(tests: Sequence[TestStatus], timeline: Timeline, looks: Palette) -> Any:
    """By which factor each batch changed the evidence of a test: above 1 it speaks for a change."""
    spans, layers = timeline.spans(), []
    x, colour = across(timeline), looks.colour()
    curves: dict[str, list[dict[str, Any]]] = {}
    for test in tests:
        found = [(span, log_evidence(span.batches[-1], test.name)) for span in spans]
        known = [(span, _tens(log_e)) for span, log_e in found if log_e is not None]
        ends = [0.0, *(value for _, value in known)]
        curves[test.title] = [
            {"x": span.x, "n": span.name, "v": after - before}
            for (span, after), before in zip(known, ends[:-1], strict=True)
        ]
    top = min(_MOST, max([1.0, *(abs(row["v"]) for rows in curves.values() for row in rows)])) + 0.05
    y = _decades("v:Q", "evidence times", (-top, top))
    width = 3.0 if len(spans) <= 40 else 1.5
    zero = alt.Chart(data([{"v": 0.0}])).mark_rule(style="mark").encode(y=y)
    charts, datasets = shared(curves)
    for i, (title, chart) in enumerate(charts.items()):
        base = chart.transform_calculate(m=_literal(title), e=_TOLD)
        shift = width * (i - (len(curves) - 1) / 2)  # bars of one batch stand side by side
        bars = base.mark_bar(width=width, xOffset=shift)
        layers.append(bars.encode(x=x, y=y, y2=alt.datum(0), color=colour, tooltip=_tips("evidence times")))
    return alt.layer(
        zero,
        *layers,
        width="container",
        height=_HEIGHT,
        datasets=datasets,
        description="By which factor each batch changed the evidence of the tests that need no labels.",
    )
