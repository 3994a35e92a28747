"""Every chart of the page over time: coverage, evidence, sizes of sets, confidence and accuracy, batch after batch."""

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from thermoset.metrics.laws import clopper_pearson
from thermoset.monitor.evidence import confidence_sequence
from thermoset.monitor.status import BatchRecord, MonitorStatus, TestStatus
from thermoset.quoting import printable
from thermoset.report.shell import shorten
from thermoset.report.vega import DASHED, Palette, Rows, Spec, channel, chart, layer, legend_data, series_palette, tip

LABELLED, UNLABELLED = ("under", "over"), ("size", "confidence")
"""Tests with a curve: those that need labels, and those that do not."""

AGREEMENT = ("mean confidence at T*", "accuracy")
"""Curves of the chart that compares what the model claims with what is true."""

_HEIGHT = 230
_TICKS = 12  # numbers below an axis
_LINE = 14  # pixels of a line of names above a panel
_NAME = channel("n:N", title="batch")
_MOST_SPANS = 120  # points of a chart that can still be distinguished
_MOST_STEPS = 500  # points of a line; more cannot be seen


# ---- batches along an axis: by time where every batch has one, else by number ----------------------------------------


class Span(NamedTuple):
    """A batch, or several that follow each other, as one point of a chart; shares of labels are None without labels.

    `x` is its place on the axis: milliseconds since 1970, or the number of the batch.
    """

    x: float
    name: str
    batches: tuple[BatchRecord, ...]
    rows: int
    labelled: int
    hits: int
    correct: int
    coverage: float | None
    accuracy: float | None
    mean_size: float
    mean_confidence: float
    empty_share: float


def span_of(batches: tuple[BatchRecord, ...], name: str = "", x: float = 0.0) -> Span:
    """Batches as one."""
    rows, labelled, hits, correct, empty = (
        sum(getattr(batch, key) for batch in batches) for key in ("rows", "labelled", "hits", "correct", "empty")
    )
    size, confidence = (
        sum(batch.rows * getattr(batch, key) for batch in batches) / max(rows, 1)
        for key in ("mean_size", "mean_confidence")
    )
    coverage, accuracy = (hits / labelled, correct / labelled) if labelled else (None, None)
    counts = rows, labelled, hits, correct
    return Span(x, name, batches, *counts, coverage, accuracy, size, confidence, empty / max(rows, 1))


def exact_intervals(hits: Sequence[int], rows: Sequence[int]) -> list[tuple[float, float]]:
    """Exact 95% intervals of shares (Clopper and Pearson), NaN where there are no rows; all at once, which is fast."""
    if not rows:
        return []
    low, high = np.where(np.array(rows) > 0, clopper_pearson(hits, rows), np.nan).tolist()
    return list(zip(low, high, strict=True))


class Timeline:
    """Where batches stand on the axis of every chart.

    Time is used if every batch has one that can be read (ISO 8601) and each is later than the one before; times without
    a zone are taken as UTC.
    """

    def __init__(self, batches: Sequence[BatchRecord]) -> None:
        self.batches = tuple(batches)
        times = _times(self.batches)
        self.by_time = times is not None
        self.places: list[int] = list(range(1, len(self.batches) + 1)) if times is None else times

    def name(self, i: int) -> str:
        """A batch as charts and tables call it."""
        return shorten(printable(self.batches[i].name), f"batch {i + 1}")

    def when(self, i: int) -> str:
        """Its name, and its time if it has one that does not say the same."""
        name, time = self.name(i), self.batches[i].time
        if time is None or time == self.batches[i].name:
            return name
        return f"{name} ({self.time(i)})"

    def time(self, i: int) -> str:
        """The time of a batch as it was given, or a dash."""
        return "\u2013" if (time := self.batches[i].time) is None else shorten(printable(time), "time")

    @property
    def together(self) -> int:
        """How many batches share a point of a chart."""
        return max(1, -(-len(self.batches) // _MOST_SPANS))

    def spans(self) -> list[Span]:
        """Batches as points of charts; neighbours are put together where there are too many to be distinguished."""
        step, spans = self.together, []
        for first in range(0, len(self.batches), step):
            last = min(first + step, len(self.batches)) - 1
            name = self.name(first) if first == last else f"{self.name(first)} to {self.name(last)}"
            x = (self.places[first] + self.places[last]) / 2
            spans.append(span_of(self.batches[first : last + 1], name, x))
        return spans

    def steps(self) -> list[int]:
        """Places of batches that a line is drawn through: all of them, or some of very many, and the last."""
        step = -(-len(self.batches) // _MOST_STEPS)
        return list(range(len(self.batches) - 1, -1, -step))[::-1] if self.batches else []

    def so_far(self) -> list[tuple[int, int]]:
        """Hits and labelled rows up to each batch, with the labels that are known now."""
        hits = accumulate(batch.hits for batch in self.batches)
        return list(zip(hits, accumulate(batch.labelled for batch in self.batches), strict=True))


def _times(batches: Sequence[BatchRecord]) -> list[int] | None:
    """Milliseconds since 1970, or None where they cannot be an axis."""
    try:
        read = [datetime.fromisoformat(batch.time or "") for batch in batches]
    except ValueError:
        return None
    known = [at if at.tzinfo else at.replace(tzinfo=UTC) for at in read]
    stamps = [round(1000 * at.timestamp()) for at in known]
    return stamps if len(stamps) > 1 and all(a < b for a, b in pairwise(stamps)) else None


# ---- all charts ------------------------------------------------------------------------------------------------------


def monitor_charts(status: MonitorStatus, timeline: Timeline) -> tuple[dict[str, Spec], Spec]:
    """Every chart by the id of its place on the page, and what the legends say."""
    with_labels, without = (_with_curve(status, timeline, kind) for kind in (LABELLED, UNLABELLED))
    looks = series_palette([test.title for test in (*with_labels, *without)])
    trusted = AGREEMENT if status.labelled else AGREEMENT[:1]
    trust = series_palette(trusted)
    legend = legend_data(
        {
            "lines-labelled": looks.legend([test.title for test in with_labels]),
            "lines-unlabelled": looks.legend([test.title for test in without]),
            "lines-trust": trust.legend(trusted),
        }
    )
    if not status.batches:
        return {}, legend
    charts = sizes_over_time(status, timeline) | {"trust": trust_over_time(timeline, trust)}
    if status.labelled:
        charts["coverage"] = coverage_over_time(status, timeline)
    if with_labels:
        charts["evidence-labelled"] = evidence_over_time(with_labels, timeline, looks)
    if without:
        charts["evidence-unlabelled"] = evidence_over_time(without, timeline, looks)
        charts["drift"] = drift_by_batch(without, timeline, looks)
    return charts, legend


def _with_curve(status: MonitorStatus, timeline: Timeline, kind: tuple[str, ...]) -> list[TestStatus]:
    """Tests of one kind that have evidence for some batch."""
    some = {name for name in kind if any(log_evidence(batch, name) is not None for batch in timeline.batches)}
    return [test for test in status.tests if test.name in some]


def _across(timeline: Timeline) -> Spec:
    """The axis of batches."""
    if timeline.by_time:
        return channel("x:T", title="time (UTC)", scale={"type": "utc", "padding": 10, "nice": False})
    last = len(timeline.batches)
    step = -(-last // _TICKS)
    axis = {"values": sorted({1, *range(step, last + 1, step)}), "format": ",d", "grid": False}
    return channel("x:Q", title="batch", scale={"domain": [0.4, last + 0.6], "nice": False}, axis=axis)


def _on_clear(rows: Rows, **parts: Any) -> list[Spec]:
    """Names that lines may run through, drawn twice: first as a clear ground."""
    return [layer("text", rows, style=style, **parts, text=channel("n:N")) for style in ("halo", "markname")]


# ---- coverage --------------------------------------------------------------------------------------------------------


def coverage_over_time(status: MonitorStatus, timeline: Timeline) -> Spec:
    """Coverage of each batch with its exact interval; the mean so far with its confidence sequence; the promise."""
    x = _across(timeline)
    spans = [span for span in timeline.spans() if span.labelled]
    ends = exact_intervals([span.hits for span in spans], [span.labelled for span in spans])
    points: Rows = [
        {"x": span.x, "n": span.name, "c": span.coverage, "lo": low, "hi": high, "r": span.labelled}
        for span, (low, high) in zip(spans, ends, strict=True)
    ]
    running = _running(status, timeline)
    lowest = min(status.promised, *(row["c"] for row in points), *(row["c"] for row in running)) - 0.04
    scale = {"domain": [max(0.0, math.floor(20 * lowest) / 20), 1.0], "nice": False, "zero": False}
    y, low, promised = (channel(f"{field}:Q", title="coverage", scale=scale) for field in ("c", "lo", "v"))
    tips = [_NAME, tip("c", "coverage"), tip("lo", "95% from"), tip("hi", "to"), tip("r", "labelled rows", ",")]
    so_far = [_NAME, tip("c", "coverage so far"), tip("lo", "at any time from"), tip("hi", "to")]
    lines, above = _batch_marks(status, timeline, x)
    # A band of one batch has no width: its ends are drawn as a bar, next to the interval of the batch.
    wide: Spec = {"style": "band", "clip": True}
    narrow: Spec = {"style": "bar", "strokeWidth": 7, "opacity": 0.3, "xOffset": 9, "clip": True}
    kind, style = ("area", wide) if len(running) > 1 else ("rule", narrow)
    return chart(
        f"Coverage of {len(points)} points in time with exact 95% intervals, the mean so far, "
        f"{running[-1]['c']:.3f} at the end, and the promised {status.promised:g}. The numbers are in the table.",
        layer(kind, "so far", x=x, y=low, y2=channel("hi"), **style),
        layer("rule", [{"v": status.promised}], **DASHED, y=promised),
        layer("rule", "batches", style="soft", clip=True, x=x, y=low, y2=channel("hi"), tooltip=tips),
        layer("point", "batches", style="limit", filled=True, size=26, opacity=1, x=x, y=y, tooltip=tips),
        layer("line", "so far", style="running", clip=True, x=x, y=y, tooltip=so_far),
        *lines,
        *above,
        height=280,
        datasets={"batches": points, "so far": running},
    )


def _batch_marks(status: MonitorStatus, timeline: Timeline, x: Spec) -> tuple[list[Spec], list[Spec]]:
    """Where coverage most likely changed, and where it first gave an alarm: dotted lines, and names above the panel.

    Names on the left stand above those on their right.
    """
    tests = [test for test in status.tests if test.name in LABELLED]
    alarms = [test.crossed_batch for test in tests if test.crossed_batch is not None]
    alarms += [place for test in tests for place in test.change_batches[:1]]
    events = [] if status.since is None else [(status.since, "most likely change")]
    events += [(min(alarms), "first alarm")] if alarms else []
    rules, names = [], []
    first, last = timeline.places[0], timeline.places[-1]
    for line, (place, name) in enumerate(sorted(events, reverse=True), start=1):
        at = timeline.places[place]
        # A name stands on the right of its line where there is room on a telephone, too.
        left = at - first > (0.7 if line == 1 else 0.5) * (last - first)
        side: Spec = {"align": "right", "dx": -4} if left else {"align": "left", "dx": 4}
        rows, up = [{"x": at, "n": name}], -_LINE * line
        rules.append(layer("rule", rows, style="at", strokeDash=[2, 3], y=up, y2="height", x=x))
        names += _on_clear(rows, y=up, baseline="top", **side, x=x)
    return rules, names


def _running(status: MonitorStatus, timeline: Timeline) -> Rows:
    """The mean so far with its confidence sequence.

    Both are of the labels that are known now. What a batch holds was found while it was the latest, perhaps without
    labels that came later.
    """
    counts = timeline.so_far()
    known = [i for i in timeline.steps() if counts[i][1]]
    hits, rows = np.array([counts[i] for i in known]).T
    low, high = confidence_sequence(hits, rows, status.delta)
    return [
        {"x": timeline.places[i], "n": timeline.name(i), "c": counts[i][0] / counts[i][1], "lo": lo, "hi": hi}
        for i, lo, hi in zip(known, low.tolist(), high.tolist(), strict=True)
    ]


# ---- evidence, on a logarithmic scale --------------------------------------------------------------------------------

_LEAST, _MOST = -3.0, 12.0  # powers of ten that an axis shows; the rest is drawn at its ends
_TEN = math.log(10)
_EVIDENCE_HEIGHT = 240
_E_VALUE = "abs(datum.v) < 6 ? format(pow(10, datum.v), '.3~g') : '1e' + format(datum.v, '+.0f')"
_POWERS = "abs(datum.value) <= 3 ? format(pow(10, datum.value), ',~g') : '1e' + datum.value"


def log_evidence(batch: BatchRecord, test: str) -> float | None:
    """Evidence of a test after a batch (logarithm, base e), by the name of the test."""
    value: float | None = getattr(batch, f"log_{test}")
    return value


def is_cut(tests: Sequence[TestStatus], batches: Sequence[BatchRecord]) -> bool:
    """Whether some evidence is beyond the ends of the axis."""
    evidence = (log_evidence(batch, test.name) for test in tests for batch in batches)
    return any(not _LEAST <= log_e / _TEN <= _MOST for log_e in evidence if log_e is not None)


def evidence_over_time(tests: Sequence[TestStatus], timeline: Timeline, looks: Palette) -> Spec:
    """A curve for each test, a line where it alarms, diamonds at its alarms and triangles where changes were found."""
    curves = {test.title: _curve(test, timeline) for test in tests}
    values = [row["v"] for rows in curves.values() for row in rows] + [test.log_bar / _TEN for test in tests]
    low, high = max(_LEAST, min([0.0, *values])), min(_MOST, max(values))
    x, y = _across(timeline), _decades("evidence (e-value)", (low - 0.2, high + 0.4))
    size = 22 if len(timeline.steps()) <= 80 else 6
    layers, tips = [], _tips("evidence")
    for title in curves:
        named = _with_title(title)
        layers += [
            layer("line", title, named, strokeWidth=2, x=x, y=y, color=looks.colour, strokeDash=looks.dash),
            layer("point", title, named, size=size, opacity=1, x=x, y=y, tooltip=tips, **looks.marks),
        ]
    rules, bar_names = _bars(tests, y)
    said = "; ".join(
        f"{test.title}: {_power(test.log_e)} now, "
        f"{'no alarm' if test.crossed_batch is None else f'first alarm in batch {test.crossed_batch + 1}'}"
        for test in tests
    )
    return chart(
        f"Evidence of the tests after each batch, on a logarithmic scale. {said}.",
        *rules,
        *layers,
        *_alarms(tests, timeline, {"x": x, "color": looks.colour}, y),
        *bar_names,
        height=_EVIDENCE_HEIGHT,
        datasets=curves,
    )


def drift_by_batch(tests: Sequence[TestStatus], timeline: Timeline, looks: Palette) -> Spec:
    """By which factor each batch changed the evidence of a test: above 1 it is evidence of a change."""
    spans, x = timeline.spans(), _across(timeline)
    curves: dict[str, Rows] = {}
    for test in tests:
        evidence = [(span, log_evidence(span.batches[-1], test.name)) for span in spans]
        known = [(span, _tens(log_e)) for span, log_e in evidence if log_e is not None]
        ends = [0.0, *(value for _, value in known)]
        curves[test.title] = [
            {"x": span.x, "n": span.name, "v": after - before}
            for (span, after), before in zip(known, ends[:-1], strict=True)
        ]
    top = min(_MOST, max([1.0, *(abs(row["v"]) for rows in curves.values() for row in rows)])) + 0.05
    y = _decades("evidence times", (-top, top))
    width = 3.0 if len(spans) <= 40 else 1.5
    bars = [
        layer(  # bars of one batch stand side by side
            "bar", title, _with_title(title), width=width, xOffset=width * (i - (len(curves) - 1) / 2), x=x, y=y,
            y2={"datum": 0}, color=looks.colour, tooltip=_tips("evidence times"),
        )
        for i, title in enumerate(curves)
    ]  # fmt: skip
    return chart(
        "By which factor each batch changed the evidence of the tests that need no labels.",
        layer("rule", [{"v": 0.0}], style="mark", y=y),
        *bars,
        height=_EVIDENCE_HEIGHT,
        datasets=curves,
    )


def _with_title(title: str) -> list[Spec]:
    """The name of the test is said once, not with every point: the page would grow with it."""
    return [{"calculate": json.dumps(title), "as": "m"}, {"calculate": _E_VALUE, "as": "e"}]


def _decades(title: str, ends: tuple[float, float]) -> Spec:
    """An axis of powers of ten; values beyond its ends are drawn there."""
    first, last = math.ceil(ends[0]), math.floor(ends[1])
    step = 1 + (last - first) // 8
    axis = {"labelExpr": _POWERS, "values": [v for v in range(first, last + 1) if v % step == 0]}
    return channel("v:Q", title=title, scale={"domain": list(ends), "nice": False, "clamp": True}, axis=axis)


def _tips(what: str) -> list[Spec]:
    return [_NAME, channel("m:N", title="test"), channel("e:N", title=what)]


def _curve(test: TestStatus, timeline: Timeline) -> Rows:
    evidence = ((i, log_evidence(timeline.batches[i], test.name)) for i in timeline.steps())
    return [
        {"x": timeline.places[i], "n": timeline.name(i), "v": _tens(log_e)}
        for i, log_e in evidence
        if log_e is not None
    ]


def _tens(log_e: float) -> float:
    """As a power of ten that JSON can hold."""
    return min(max(log_e / _TEN, -1e6), 1e6)


def _power(log_e: float) -> str:
    return f"{math.exp(log_e):.3g}" if abs(log_e) < 500 else f"1e{_tens(log_e):+.0f}"


def _bars(tests: Sequence[TestStatus], y: Spec) -> tuple[list[Spec], list[Spec]]:
    """Dashed lines where tests alarm, and what they say: the lowest below its line, so that two are not in the way."""
    together: dict[float, list[str]] = {}
    for test in tests:
        together.setdefault(test.log_bar, []).append(test.title)
    rules, names = [], []
    for i, log_bar in enumerate(sorted(together)):
        who = "" if len(together) == 1 else f": {', '.join(together[log_bar])}"
        rows = [{"v": log_bar / _TEN, "n": f"alarm at {math.exp(log_bar):,.4g}{who}"}]
        below = i + 1 < len(together)
        place: Spec = {"dy": 3, "baseline": "top"} if below else {"dy": -2, "baseline": "bottom"}
        rules.append(layer("rule", rows, **DASHED, y=y))
        names += _on_clear(rows, align="left", dx=3, **place, x={"value": 0}, y=y)
    return rules, names


def _alarms(tests: Sequence[TestStatus], timeline: Timeline, along: Spec, y: Spec) -> list[Spec]:
    """Diamonds at the first alarm of each test, triangles along the bottom where its detector found a change."""
    alarms: Rows = []
    changes: Rows = []
    for test in tests:

        def event(place: int, what: str, title: str = test.title) -> dict[str, Any]:
            return {"x": timeline.places[place], "n": timeline.name(place), "m": title, "e": what}

        if (crossed := test.crossed_batch) is not None:
            value = max(test.log_bar, log_evidence(timeline.batches[crossed], test.name) or test.log_bar) / _TEN
            alarms.append(event(crossed, "first alarm") | {"v": value})
        changes += [event(place, "the detector found a change") for place in test.change_batches]
    layers, tips = [], {**along, "tooltip": _tips("what")}
    if alarms:
        layers.append(layer("point", alarms, shape="diamond", filled=True, size=190, opacity=1, y=y, **tips))
    if changes:
        bottom = {"y": {"value": "height"}}
        style: Spec = {"shape": "triangle-up", "filled": True, "size": 90, "opacity": 1, "yOffset": -6}
        layers.append(layer("point", changes, **style, **bottom, **tips))
    return layers


# ---- sets and confidence ---------------------------------------------------------------------------------------------


def sizes_over_time(status: MonitorStatus, timeline: Timeline) -> dict[str, Spec]:
    """Mean size of the sets and that of the conformal rows, and the share of empty sets."""
    x, known = _across(timeline), status.reference_size
    rows: Rows = [
        {"x": span.x, "n": span.name, "s": span.mean_size, "e": span.empty_share, "r": span.rows}
        for span in timeline.spans()
    ]
    sizes, shares = [row["s"] for row in rows], [row["e"] for row in rows]
    shown = sizes if known is None else [*sizes, known]
    margin = max(0.1, 0.1 * (max(shown) - min(shown)))
    size_scale = {"domain": [max(0.0, min(shown) - margin), max(shown) + margin], "nice": False, "zero": False}
    share_scale = {"domain": [0.0, max(0.05, 1.1 * max(shares))], "nice": False}
    tips = [_NAME, tip("s", "labels in a set"), tip("e", "empty sets", ".1%"), tip("r", "rows", ",")]

    def draw(text: str, y: Spec, level: list[Spec]) -> Spec:
        return chart(
            f"{text} The numbers are in the table.",
            *level,
            layer("line", "batches", style="running", strokeWidth=1.5, x=x, y=y),
            layer("point", "batches", style="point", filled=True, size=30, opacity=1, x=x, y=y, tooltip=tips),
            height=_HEIGHT,
            datasets={"batches": rows},
        )

    size, at = (channel(f"{field}:Q", title="labels in a set", scale=size_scale) for field in ("s", "v"))
    share = channel("e:Q", title="empty sets", scale=share_scale, axis={"format": "~%"})
    compared = "" if known is None else f", compared with {known:.2f} on the conformal rows"
    reference = [] if known is None else [layer("rule", [{"v": known}], **DASHED, y=at)]
    text = f"Mean size of the sets, from {min(sizes):.2f} to {max(sizes):.2f}{compared}."
    empty = f"Share of empty sets, from {min(shares):.1%} to {max(shares):.1%}."
    return {"sizes": draw(text, size, reference), "empty": draw(empty, share, [])}


def trust_over_time(timeline: Timeline, looks: Palette) -> Spec:
    """Mean confidence and accuracy: where they part, the model claims more or less than is true."""
    claimed, right = AGREEMENT
    spans = timeline.spans()
    rows = [{"x": span.x, "n": span.name, "m": claimed, "v": span.mean_confidence, "r": span.rows} for span in spans]
    known = [span for span in spans if span.labelled]
    ends = exact_intervals([span.correct for span in known], [span.labelled for span in known])
    judged = [
        {"x": span.x, "n": span.name, "m": right, "v": span.accuracy, "r": span.labelled, "lo": low, "hi": high}
        for span, (low, high) in zip(known, ends, strict=True)
    ]
    x = _across(timeline)
    y, low = (channel(f"{field}:Q", title="share", scale={"zero": False}) for field in ("v", "lo"))
    tips = [_NAME, channel("m:N", title="shown"), tip("v", "value"), tip("r", "rows", ",")]
    # An empty layer has no extent, and Vega warns of that.
    intervals = layer("rule", "judged", opacity=0.45, x=x, y=low, y2=channel("hi"), color=looks.colour)
    return chart(
        "Mean confidence at T* of each batch, and the share of its labelled rows whose likeliest label is right, with "
        "exact 95% intervals. The numbers are in the table.",
        *([intervals] if judged else []),
        layer("line", "batches", strokeWidth=1.5, x=x, y=y, color=looks.colour, strokeDash=looks.dash),
        layer("point", "batches", size=30, opacity=1, x=x, y=y, tooltip=tips, **looks.marks),
        height=_HEIGHT,
        datasets={"batches": [*rows, *judged], "judged": judged},
    )
