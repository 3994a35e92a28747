"""The page over time in one sentence: what happened, since when, how much, and what to do."""

from typing import Any

from thermoset.monitor.watching import Standing, TestStanding
from thermoset.quoting import printable
from thermoset.report.naming import shortened
from thermoset.report.shell import markup, number
from thermoset.report.timeline import Span, Timeline

__all__ = ["PLURALS", "headline"]

PLURALS = {"class": "classes", "cluster": "clusters", "group": "groups"}
"""What several parts are called."""

_MOST_NAMED = 3  # classes or groups; the others are counted


def headline(standing: Standing, timeline: Timeline) -> Any:
    """The most urgent thing first: coverage that was lost, then parts, then coverage above the promise, then drift."""
    if not standing.batches:
        return "No batch so far."
    crossed = {test.name: test for test in standing.tests if test.crossed_batch is not None}
    for name, said in _ALARMS.items():
        if name in crossed:
            return said(standing, timeline, crossed[name])
    return _changed(standing, timeline) if standing.alarm else _kept(standing)


def _kept(standing: Standing) -> Any:
    if not standing.labelled:
        return "Sets and confidence look as they did on the conformal rows. Without labels, coverage is not known."
    said = markup("Coverage is {} over {} labelled rows, in line with the promised {}.")
    return said.format(_share(standing), number("head.labelled", standing.labelled, ","), _promised(standing))


def _too_low(standing: Standing, timeline: Timeline, test: TestStanding) -> Any:
    return _moved(standing, timeline, test, "below") + " Recalibrate."


def _too_high(standing: Standing, timeline: Timeline, test: TestStanding) -> Any:
    return _moved(standing, timeline, test, "above") + " Recalibrate to get smaller sets."


def _moved(standing: Standing, timeline: Timeline, test: TestStanding, side: str) -> Any:
    """Coverage from the batch on where it most likely changed; over all rows where that is not known."""
    if standing.since is None or standing.after is None:
        said = markup("Coverage is {} the promised {}: {} over {} labelled rows, first seen in {}.")
        rows = number("head.labelled", standing.labelled, ",")
        return said.format(side, _promised(standing), _share(standing), rows, _batch(timeline, test.crossed_batch))
    ends = (number("head.after.low", standing.after_low), number("head.after.high", standing.after_high))
    after = markup("{} ({} to {})").format(number("head.after", standing.after), *ends)
    if standing.before is None or standing.since == 0:
        said = markup("Coverage has been {} the promised {} from the start: {}.")
        return said.format(side, _promised(standing), after)
    said = markup("Coverage went from {} to {}, {} the promised {}, since {}.")
    before = number("head.before", standing.before)
    return said.format(before, after, side, _promised(standing), _batch(timeline, standing.since))


def _of_parts(standing: Standing, timeline: Timeline, test: TestStanding) -> Any:
    low = [part for part in standing.parts if part.alarm]
    listed = [
        markup("<bdi>{}</bdi>").format(shortened(printable(part.name), standing.part_kind))
        for part in low[:_MOST_NAMED]
    ]
    if len(low) > _MOST_NAMED:
        listed.append(markup("{} more").format(number("head.more", len(low) - _MOST_NAMED, "d")))
    who = markup(" and ").join([markup(", ").join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)
    what = standing.part_kind if len(low) == 1 else PLURALS[standing.part_kind]
    said = markup("Coverage is below the promised {} for {} {}, first seen in {}. Recalibrate.")
    return said.format(_promised(standing), what, who, _batch(timeline, test.crossed_batch))


def _of_sizes(standing: Standing, timeline: Timeline, test: TestStanding) -> Any:
    against, known = "", standing.reference_size
    if known is not None:
        size = number("head.size", Span(0.0, "", timeline.batches).mean_size, ".2f")
        against = markup(" ({} labels on average, {} before)").format(size, number("head.size.reference", known, ".2f"))
    said = markup("Sets no longer have the sizes that they had on the conformal rows{}, first seen in {}. {}")
    return said.format(against, _batch(timeline, test.crossed_batch), _GET_LABELS)


def _of_confidence(standing: Standing, timeline: Timeline, test: TestStanding) -> Any:  # noqa: ARG001 (one signature)
    said = markup("Confidence is no longer what it was on the conformal rows, first seen in {}. {}")
    return said.format(_batch(timeline, test.crossed_batch), _GET_LABELS)


def _changed(standing: Standing, timeline: Timeline) -> Any:
    """An alarm of change detectors alone."""
    place, test = max(
        ((test.change_batches[-1], test) for test in standing.tests if test.change_batches), key=lambda found: found[0]
    )
    if standing.since is not None and standing.after is not None:
        return _moved(standing, timeline, test, "below" if standing.after < standing.promised else "above")
    said = markup("Something changed in {}: the detector of \u201c{}\u201d raised an alarm.")
    return said.format(_batch(timeline, place), printable(test.title))


_GET_LABELS = "Label some of these rows to see whether coverage suffers."
_ALARMS = {
    "under": _too_low,
    "parts": _of_parts,
    "over": _too_high,
    "size": _of_sizes,
    "confidence": _of_confidence,
}


def _share(standing: Standing) -> Any:
    return number("head.coverage", standing.hits / standing.labelled)


def _promised(standing: Standing) -> Any:
    return number("head.promised", standing.promised, "g")


def _batch(timeline: Timeline, place: int | None) -> Any:
    return markup("<bdi>{}</bdi>").format("some batch" if place is None else timeline.when(place))
