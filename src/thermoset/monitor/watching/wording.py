"""What a monitor has found, in sentences: the status, since when, how much, for which parts, and what to do."""

import math
from collections.abc import Sequence
from fractions import Fraction

from thermoset.levels import exact_level
from thermoset.metrics.planning import plan
from thermoset.monitor.watching.standing import BatchRecord, PartStanding, Standing, TestStanding
from thermoset.quoting import printable

__all__ = ["advice", "sentences"]

_SHOWN = 3  # parts that a sentence names
_CLEAR = math.log(20)  # evidence from which on a part is named that nothing was promised for
_NARROWEST = Fraction(1, 1000)
_LABEL_SOME = (
    "Rows no longer resemble those the predictor was fitted on, so its coverage may have changed: label a sample of "
    "recent rows and add them, or run thermoset check on them."
)
_PLURALS = {"class": "classes", "cluster": "clusters", "group": "groups"}


def sentences(found: Standing, changed: Sequence[str], untested: Sequence[str]) -> tuple[str, ...]:
    """What was found; `changed` names the tests whose detector has just alarmed, `untested` says what is not tested."""
    if not found.batches:
        return ("No batches so far.", *untested)
    crossed = [_of_test(found, test) for test in found.tests if test.crossed_batch is not None]
    detected = [_of_detector(found, test) for test in found.tests if test.name in changed]
    spoken = [_overall(found), *crossed, *detected]
    spoken += [] if found.since is None else [_of_change(found, found.since)]
    spoken += [*_of_parts(found), *untested]
    return (*spoken, *([] if found.alarm else ["No alarm."]))


def advice(found: Standing) -> tuple[str, ...]:
    """What to do after an alarm."""
    if not found.alarm:
        return ()
    if found.since is None:
        return (_LABEL_SOME,)
    width = max(exact_level(found.alpha) / 5, _NARROWEST)
    rows = plan(found.alpha, width).rows
    each = f" of each {found.part_kind}" if any(part.promised for part in found.parts) else ""
    within = f"within {found.promised:g} ± {float(width):g} with 95% probability"
    first = "Recalibrate on labelled rows from after the change (thermoset recalibrate)"
    return (f"{first}: with {rows:,} rows{each}, coverage will be {within}. Then start a new state file.",)


def _overall(found: Standing) -> str:
    batches = f"{len(found.batches):,} batch{'' if len(found.batches) == 1 else 'es'}"
    if not found.labelled:
        return f"{found.rows:,} rows in {batches}, none labelled so far."
    last = found.batches[-1]
    labelled = "all labelled" if found.labelled == found.rows else f"{found.labelled:,} of them labelled"
    sure = f"with {100 * (1 - found.delta):g}% confidence at any time"
    return (
        f"{found.rows:,} rows in {batches}, {labelled}: coverage {found.hits / found.labelled:.4f} "
        f"({last.coverage_low:.3f} to {last.coverage_high:.3f} {sure}); promised: {found.promised:g}."
    )


def _of_test(found: Standing, test: TestStanding) -> str:
    batch = found.batches[test.crossed_batch or 0]
    rows = "row" if test.name in ("size", "confidence") else "labelled row"
    at = "" if test.crossed_row is None else f", at {rows} {test.crossed_row:,}"
    said = {
        "under": "Coverage is lower than promised",
        "over": "Coverage is higher than promised, so sets are larger than necessary",
        "parts": f"Coverage of {_PLURALS[found.part_kind]} is lower than promised: {_worst(found.parts, alarm=True)}",
        "size": f"Set sizes have changed ({_sizes(found)})",
        "confidence": f"Confidence has changed (mean {found.batches[-1].mean_confidence:.3f} in the last batch)",
    }[test.name]
    chance = f"{math.exp(test.log_bar):,.0f}"
    return f"{said}: alarm in {_called(batch)}{at} (the chance of a false alarm is at most 1 in {chance})."


def _of_detector(found: Standing, test: TestStanding) -> str:
    once = f"{found.run_length:,}" if found.run_length else ""
    return (
        f"Change detector ({test.title}): alarm in {_called(found.batches[-1])}; false alarms occur at most once in "
        f"{once} rows on average."
    )


def _of_change(found: Standing, since: int) -> str:
    after, low, high = found.after or 0.0, found.after_low or 0.0, found.after_high or 0.0
    gap = 100 * (after - found.promised)
    side = "below" if gap < 0 else "above"
    before = "" if found.before is None else f"; before that it was {found.before:.3f}"
    return (
        f"This most likely began with {_called(found.batches[since])}: coverage has been {after:.3f} since then "
        f"({low:.3f} to {high:.3f}), {abs(gap):.1f} points {side} the promise{before}."
    )


def _of_parts(found: Standing) -> list[str]:
    """Parts that nothing was promised for and that stand out, or that none does although coverage has fallen."""
    noted = [part for part in found.parts if not part.promised and part.log_e >= _CLEAR]
    what = _PLURALS[found.part_kind]
    if noted:
        each = "any of these" if len(noted) > 1 else "it alone"
        return [f"Lowest {what}: {_worst(noted)}. No coverage was promised for {each}."]
    if found.since is not None and found.parts and not any(part.alarm for part in found.parts):
        return [f"No {found.part_kind} stands out."]
    return []


def _worst(parts: Sequence[PartStanding], alarm: bool = False) -> str:
    some = [part for part in parts if part.alarm or not alarm]
    named = [
        f"{printable(part.name, 40)} ({part.hits / part.rows:.3f} of {part.rows:,} rows)" for part in some[:_SHOWN]
    ]
    more = f" and {len(some) - _SHOWN:,} more" if len(some) > _SHOWN else ""
    return ", ".join(named) + more


def _sizes(found: Standing) -> str:
    before = "" if found.reference_size is None else f", {found.reference_size:.3g} for the conformal rows"
    return f"mean {found.batches[-1].mean_size:.3g} in the last batch{before}"


def _called(batch: BatchRecord) -> str:
    when = "" if batch.time is None else f" ({printable(batch.time, 40)})"
    return f"{printable(batch.name, 60)}{when}"
