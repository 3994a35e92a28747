"""The page over time: where a watched predictor stands, batch after batch, in one file that opens offline."""

import math
import os
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from thermoset.monitor.status import PLURALS, MonitorStatus
from thermoset.quoting import printable
from thermoset.report.monitor_charts import Timeline, exact_intervals, is_cut, log_evidence, monitor_charts, span_of
from thermoset.report.shell import along, bar_start, fill_template, markup, number, shorten, write_html
from thermoset.report.words import monitor_words, with_symbols

_MOST_PARTS, _MOST_BATCHES = 1000, 500  # lines of the tables; more would make the page too large to be sent
_TIMES_TEN = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")


def build_monitor_page(status: MonitorStatus, title: str | None = None) -> str:
    """The page over time as HTML: self-contained, it asks for nothing over a network. Needs the `report` extra.

    Parameters
    ----------
    status : MonitorStatus
        Where a monitor stands.
    title : str, optional
        What is watched; shown on top.

    Examples
    --------
    >>> nothing = dict.fromkeys(("since", "before", "after", "after_low", "after_high"))
    >>> status = MonitorStatus(promised=0.9, alpha="0.1", exact=True, delta=0.01, run_length=None, reference_rows=500,
    ...     reference_size=1.5, batches=(), tests=(), part_kind="class", parts=(), alarm=False,
    ...     new_changes=False, sentences=(), advice=(), **nothing)
    >>> page = build_monitor_page(status, title="the shop")
    >>> "the shop: no alarm" in page
    True
    """
    timeline = Timeline(status.batches)
    charts, legend = monitor_charts(status, timeline)
    named = printable(title) if title is not None else "predictor"
    curves = [test for test in status.tests if test.name not in ("parts", "answers")]
    alarms = {test.name for test in status.tests if test.crossed_batch is not None}
    whole, parts = span_of(timeline.batches), _parts(status)
    start = bar_start(np.array([status.promised, *(part.ends[0] for part in parts)]))
    return fill_template(
        "monitor.html",
        (),
        monitor_words(status),
        status=status,
        title=shorten(named, f"{len(named):,} letters"),
        headline=headline(status, timeline),
        timeline=timeline,
        charts=charts,
        legend=legend,
        cut=is_cut(curves, timeline.batches),
        columns={test.name: f"e: {test.title}" for test in curves},
        evidence=_evidence,
        log_evidence=log_evidence,
        last=timeline.batches[-1] if timeline.batches else None,
        since=status.since is not None and status.after is not None,
        coverage=whole.coverage,
        mean_size=whole.mean_size if whole.rows else None,
        empty_share=whole.empty_share if whole.rows else None,
        alarms=alarms,
        covered_badly=bool({"under", "over"} & alarms),
        alarms_drawn=bool(alarms - {"parts"}),
        n_changes=sum(len(test.change_batches) for test in status.tests),
        kind={"one": status.part_kind, "many": PLURALS[status.part_kind]},
        parts=parts,
        part_alarms=sum(part.alarm for part in status.parts),
        promised_parts=sum(part.promised for part in status.parts),
        bar_from=start,
        along=partial(along, start),
        rows=_batches(timeline),
        timed=any(batch.time is not None for batch in timeline.batches),
    )


def write_monitor_page(status: MonitorStatus, path: str | os.PathLike[str], title: str | None = None) -> None:
    """Write the page over time to a file, whole or not at all."""
    write_html(path, "the page over time", lambda: build_monitor_page(status, title))


class _Line(NamedTuple):
    """A line of a table: a class, cluster or group with its place, or a batch; `ends` are of its coverage."""

    place: int
    name: str
    of: Any
    coverage: float | None
    ends: tuple[float, float]


def _parts(status: MonitorStatus) -> list[_Line]:
    """Those with an alarm first, then the least covered."""
    parts = status.parts
    ends = exact_intervals([part.hits for part in parts], [part.rows for part in parts])
    lines = [
        _Line(
            place=i,
            name=shorten(printable(part.name), f"{status.part_kind} {i + 1}"),
            of=part,
            coverage=part.hits / part.rows if part.rows else None,
            ends=ends[i],
        )
        for i, part in enumerate(parts)
    ]
    urgency = {line.place: 2.0 if line.coverage is None else line.coverage for line in lines}
    return sorted(lines, key=lambda line: (not line.of.alarm, urgency[line.place], -line.of.rows))[:_MOST_PARTS]


def _batches(timeline: Timeline) -> list[_Line]:
    """The latest batches, the latest first, each as a span of its own."""
    batches = timeline.batches
    latest = range(len(batches) - 1, -1, -1)[:_MOST_BATCHES]
    ends = exact_intervals([batches[i].hits for i in latest], [batches[i].labelled for i in latest])
    spans = [span_of(batches[i : i + 1], timeline.name(i)) for i in latest]
    return [_Line(i, span.name, span, span.coverage, of) for i, span, of in zip(latest, spans, ends, strict=True)]


def _evidence(key: str, log_e: float | None) -> Any:
    """An e-value to read; the exact value next to it is its logarithm, which never overflows."""
    if log_e is None or math.isnan(log_e):
        return markup("<data value='' data-key='{}'>\u2013</data>").format(key)
    return markup("<data value='{}' data-key='{}'>{}</data>").format(str(log_e), key, _e_value(log_e))


def _e_value(log_e: float) -> str:
    """An e-value of a few digits."""
    if log_e < math.log(0.001):
        return "< 0.001"
    if log_e < math.log(10):
        return f"{math.exp(log_e):.2g}"
    if log_e < math.log(1e6):
        return f"{math.exp(log_e):,.0f}"
    power = math.floor(log_e / math.log(10))
    return f"{10 ** (log_e / math.log(10) - power):.1f} \u00d7 10{str(power).translate(_TIMES_TEN)}"


# ---- the headline ----------------------------------------------------------------------------------------------------


def headline(status: MonitorStatus, timeline: Timeline) -> Any:
    """What happened: how coverage changed and since when; else the first alarm; else that nothing did."""
    if not status.batches:
        return "No batch so far."
    if status.since is not None and status.after is not None:
        return _change(status, timeline)
    if status.alarm:
        return markup(with_symbols(printable(status.sentences[1])))  # the first sentence is about the rows so far
    if not status.labelled:
        return "Sets and confidence look as they did on the conformal rows. Without labels, coverage is not known."
    last, latest = status.batches[-1], ""
    if last.labelled and len(status.batches) > 1:
        latest = markup(" ({} in the last batch)").format(number("head.latest", last.hits / last.labelled))
    said = markup("Coverage is {} over {} labelled rows{}, in line with the promised {}.")
    coverage, rows = status.hits / status.labelled, number("head.labelled", status.labelled, ",")
    return said.format(number("head.coverage", coverage), rows, latest, number("head.promised", status.promised, "g"))


def _change(status: MonitorStatus, timeline: Timeline) -> Any:
    """Coverage before and after the batch from which on it most likely differs, and what to do."""
    low, high = number("head.after.low", status.after_low), number("head.after.high", status.after_high)
    after = markup("{} ({} to {})").format(number("head.after", status.after), low, high)
    is_low = (status.after or 0) < status.promised
    side = markup("{} the promised {}").format(
        "below" if is_low else "above", number("head.promised", status.promised, "g")
    )
    advice = "Recalibrate." if is_low else "Recalibrate to get smaller sets."
    if status.before is None or not status.since:
        return markup("Coverage has been {} from the start: {}. {}").format(side, after, advice)
    said = markup("Coverage went from {} to {}, {}, since <bdi>{}</bdi>. {}")
    return said.format(number("head.before", status.before), after, side, timeline.when(status.since), advice)
