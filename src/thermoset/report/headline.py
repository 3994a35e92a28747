"""The page over time in one sentence: what happened, since when, how much, and what to do."""

from typing import Any

from thermoset.monitor.status import PLURALS, MonitorStatus, TestStatus
from thermoset.quoting import printable
from thermoset.report.naming import shortened
from thermoset.report.shell import markup, number
from thermoset.report.timeline import Timeline

__all__ = ["headline"]

"""What several parts are called."""

_MOST_NAMED = 3  # classes or groups; the others are counted


def headline(status: MonitorStatus, timeline: Timeline) -> Any:
    """The most urgent thing first: coverage that was lost, then parts, then coverage above the promise, then drift."""
    if not status.batches:
        return "No batch so far."
    crossed = {test.name: test for test in status.tests if test.crossed_batch is not None}
    for name, said in _ALARMS.items():
        if name in crossed:
            return said(status, timeline, crossed[name])
    return _alarm(status, timeline) if status.alarm else _no_alarm(status)


def _no_alarm(status: MonitorStatus) -> Any:
    if not status.labelled:
        return "Sets and confidence look as they did on the conformal rows. Without labels, coverage is not known."
    last, latest = status.batches[-1], ""
    if last.labelled and len(status.batches) > 1:
        latest = markup(" ({} in the last batch)").format(number("head.latest", last.hits / last.labelled))
    said = markup("Coverage is {} over {} labelled rows{}, in line with the promised {}.")
    return said.format(_share(status), number("head.labelled", status.labelled, ","), latest, _promised(status))


def _too_low(status: MonitorStatus, timeline: Timeline, test: TestStatus) -> Any:
    return _coverage_change(status, timeline, test, "below") + " Recalibrate."


def _too_high(status: MonitorStatus, timeline: Timeline, test: TestStatus) -> Any:
    return _coverage_change(status, timeline, test, "above") + " Recalibrate to get smaller sets."


def _coverage_change(status: MonitorStatus, timeline: Timeline, test: TestStatus, side: str) -> Any:
    """Coverage from the batch on where it most likely changed; over all rows where that is not known."""
    if status.since is None or status.after is None:
        said = markup("Coverage is {} the promised {}: {} over {} labelled rows, first seen in {}.")
        rows = number("head.labelled", status.labelled, ",")
        return said.format(side, _promised(status), _share(status), rows, _batch(timeline, test.crossed_batch))
    ends = (number("head.after.low", status.after_low), number("head.after.high", status.after_high))
    after = markup("{} ({} to {})").format(number("head.after", status.after), *ends)
    if status.before is None or status.since == 0:
        said = markup("Coverage has been {} the promised {} from the start: {}.")
        return said.format(side, _promised(status), after)
    said = markup("Coverage went from {} to {}, {} the promised {}, since {}.")
    before = number("head.before", status.before)
    return said.format(before, after, side, _promised(status), _batch(timeline, status.since))


def _of_parts(status: MonitorStatus, timeline: Timeline, test: TestStatus) -> Any:
    low = [part for part in status.parts if part.alarm]
    listed = [
        markup("<bdi>{}</bdi> ({} of {} rows)").format(
            shortened(printable(part.name), status.part_kind),
            number(f"head.part.{i}.coverage", part.hits / part.rows),
            number(f"head.part.{i}.rows", part.rows, ","),
        )
        for i, part in enumerate(low[:_MOST_NAMED])
    ]
    if len(low) > _MOST_NAMED:
        listed.append(markup("{} more").format(number("head.more", len(low) - _MOST_NAMED, "d")))
    who = markup(" and ").join([markup(", ").join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)
    what = status.part_kind if len(low) == 1 else PLURALS[status.part_kind]
    said = markup("Coverage is below the promised {} for {} {}, first seen in {}. Recalibrate.")
    return said.format(_promised(status), what, who, _batch(timeline, test.crossed_batch))


def _of_sizes(status: MonitorStatus, timeline: Timeline, test: TestStatus) -> Any:
    against, known = "", status.reference_size
    if known is not None:
        size = number("head.size", status.batches[-1].mean_size, ".2f")
        against = markup(" ({} labels on average in the last batch, {} before)").format(
            size, number("head.size.reference", known, ".2f")
        )
    said = markup("Sets no longer have the sizes that they had on the conformal rows{}, first seen in {}. {}")
    return said.format(against, _batch(timeline, test.crossed_batch), _of_labels(status))


def _of_answers(_: MonitorStatus, timeline: Timeline, test: TestStatus) -> Any:
    said = markup("More rows that are answered alone are wrong than was claimed, first seen in {}.")
    return said.format(_batch(timeline, test.crossed_batch))


def _of_confidence(status: MonitorStatus, timeline: Timeline, test: TestStatus) -> Any:
    said = markup("Confidence is no longer what it was on the conformal rows, first seen in {}. {}")
    return said.format(_batch(timeline, test.crossed_batch), _of_labels(status))


def _alarm(status: MonitorStatus, timeline: Timeline) -> Any:
    """An alarm of change detectors alone."""
    place, test = max(
        ((test.change_batches[-1], test) for test in status.tests if test.change_batches), key=lambda found: found[0]
    )
    if status.since is not None and status.after is not None:
        return _coverage_change(status, timeline, test, "below" if status.after < status.promised else "above")
    said = markup("Something changed in {}: the detector of \u201c{}\u201d raised an alarm.")
    return said.format(_batch(timeline, place), printable(test.title))


def _of_labels(status: MonitorStatus) -> Any:
    """Whether coverage suffers where rows have changed, as far as their labels are known."""
    since = status.batches[status.changed_from or 0 :]
    labelled, hits = sum(batch.labelled for batch in since), sum(batch.hits for batch in since)
    if not labelled:
        return "Label some of these rows to see whether coverage suffers."
    said = markup("Coverage is {} on the {} labelled rows since then; promised: {}.")
    share, rows = number("head.since", hits / labelled), number("head.since.rows", labelled, ",")
    return said.format(share, rows, _promised(status))


_ALARMS = {
    "under": _too_low,
    "parts": _of_parts,
    "over": _too_high,
    "size": _of_sizes,
    "confidence": _of_confidence,
    "answers": _of_answers,
}


def _share(status: MonitorStatus) -> Any:
    return number("head.coverage", status.hits / status.labelled)


def _promised(status: MonitorStatus) -> Any:
    return number("head.promised", status.promised, "g")


def _batch(timeline: Timeline, place: int | None) -> Any:
    return markup("<bdi>{}</bdi>").format("some batch" if place is None else timeline.when(place))
