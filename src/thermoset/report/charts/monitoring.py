"""All charts of the page over time, and what their legends say."""

from typing import Any

from thermoset.monitor.status import MonitorStatus, TestStatus
from thermoset.report.charts.evidence import LABELLED, UNLABELLED, drift_by_batch, evidence_over_time, log_evidence
from thermoset.report.charts.over_batches import AGREEMENT, Mark, coverage_over_time, sizes_over_time, trust_over_time
from thermoset.report.charts.palette import Palette, legend_data
from thermoset.report.charts.parts import Spec
from thermoset.report.timeline import Timeline

__all__ = ["monitor_charts"]


def monitor_charts(status: MonitorStatus, timeline: Timeline) -> tuple[dict[str, Spec], dict[str, Any]]:
    """Every chart by the id of its place on the page, and what the legends say."""
    with_labels, without = (_with_curve(status, timeline, kind) for kind in (LABELLED, UNLABELLED))
    looks = Palette.of_names([test.title for test in (*with_labels, *without)])
    trusted = AGREEMENT if status.labelled else AGREEMENT[:1]
    trust = Palette.of_names(trusted)
    legend = legend_data(
        {
            "lines-labelled": looks.legend([test.title for test in with_labels]),
            "lines-unlabelled": looks.legend([test.title for test in without]),
            "lines-trust": trust.legend(trusted),
        }
    )
    if not status.batches:
        return {}, legend
    charts: dict[str, Any] = {}
    if status.labelled:
        charts["coverage"] = coverage_over_time(status, timeline, _marked(status))
    if with_labels:
        charts["evidence-labelled"] = evidence_over_time(with_labels, timeline, looks)
    if without:
        charts["evidence-unlabelled"] = evidence_over_time(without, timeline, looks)
        charts["drift"] = drift_by_batch(without, timeline, looks)
    charts |= sizes_over_time(status, timeline)
    charts["trust"] = trust_over_time(timeline, trust)
    # As in the report, the tests validate against the schema.
    return {name: chart.to_dict(validate=False) for name, chart in charts.items()}, legend


def _with_curve(status: MonitorStatus, timeline: Timeline, kind: tuple[str, ...]) -> list[TestStatus]:
    """Tests of one kind that have evidence for some batch."""
    return [
        test
        for test in status.tests
        if test.name in kind and any(log_evidence(batch, test.name) is not None for batch in timeline.batches)
    ]


def _marked(status: MonitorStatus) -> list[Mark]:
    """Batches that the chart of coverage marks: where it most likely changed, and where it first gave an alarm."""
    tests = [test for test in status.tests if test.name in LABELLED]
    first = [test.crossed_batch for test in tests if test.crossed_batch is not None]
    first += [place for test in tests for place in test.change_batches[:1]]
    found = [] if status.since is None else [Mark(status.since, "most likely change")]
    return [*found, *([Mark(min(first), "first alarm")] if first else [])]
