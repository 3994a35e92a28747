"""The findings of a monitor: everything in its state, including since when and by how much."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from thermoset.monitor.evidence import change_point, coverage_since
from thermoset.monitor.watching.parts import part_names, part_standings
from thermoset.monitor.watching.standing import PartStanding, Standing, TestStanding
from thermoset.monitor.watching.state import MonitorState
from thermoset.monitor.watching.watch import SHARE, Watched, batch_end_tests, sequential_tests
from thermoset.monitor.watching.wording import advice, sentences

__all__ = ["told"]

TITLES = {
    "under": "coverage too low",
    "over": "coverage too high",
    "parts": "coverage of a part too low",
    "size": "set sizes changed",
    "confidence": "confidence changed",
}
OF_COVERAGE = ("under", "over", "parts")


def told(state: MonitorState, watched: Watched) -> Standing:
    """Everything that a state says."""
    records, tests = state.records, _tests(state)
    alarmed = [test.name for test in tests if test.crossed_batch is not None]
    last = len(records) - 1
    changed = [test.name for test in tests if state.new_changes and test.change_batches[-1:] == (last,)]
    since = _since(state, watched, {*alarmed, *changed})
    parts = _parts(state, watched)
    sizes = np.array(watched.sizes, dtype=np.float64)
    found = Standing(
        promised=watched.promise.promised,
        alpha=str(watched.promise.alpha),
        exact=watched.promise.exact,
        delta=state.delta,
        run_length=state.run_length,
        reference_rows=watched.reference_rows,
        reference_size=float(sizes @ np.arange(len(sizes)) / sizes.sum()) if len(sizes) else None,
        batches=records,
        tests=tests,
        part_kind=watched.part_kind(False) if state.parts is None else state.parts.kind,
        parts=parts,
        since=since.batch,
        before=since.before,
        after=since.after,
        after_low=since.low,
        after_high=since.high,
        alarm=bool(alarmed) or state.new_changes,
        new_changes=state.new_changes,
        sentences=(),
        advice=(),
    )
    return replace(found, sentences=sentences(found, changed, _untested(state, watched)), advice=advice(found))


def _tests(state: MonitorState) -> tuple[TestStanding, ...]:
    """All tests, in the order in which they are shown."""
    rows, ends = sequential_tests(state), batch_end_tests(state)

    def standing(name: str) -> TestStanding:
        test = rows.get(name)
        log_e, bar = ends[name] if test is None else (test.log_e, test.log_bar)
        return TestStanding(
            name=name,
            title=TITLES[name],
            log_e=log_e,
            log_bar=bar,
            crossed_batch=state.crossed.get(name),
            crossed_row=None if test is None else test.crossed,
            change_batches=state.changes.get(name, ()),
        )

    return tuple(standing(name) for name in TITLES if name in rows or name in ends)


def _untested(state: MonitorState, watched: Watched) -> tuple[str, ...]:
    """Why there is no test of something, a sentence for each."""
    kind, found = watched.promise.kind, []
    if kind is not None and not kind.exact:
        found.append(
            "Coverage is shown but not tested: for interpolated thresholds, the only proven bound is average coverage "
            "of at least 1 - 2 alpha, which does not apply to a single stream."
        )
    elif kind is None and watched.law is None:
        found.append(
            "Coverage is shown but not tested: with thresholds adjusted for label shift, it follows no known law to "
            "test against."
        )
    elif watched.law is not None and not watched.law.finite:
        found.append(
            "Coverage is not tested: with so few conformal rows the threshold is infinite, and no set can miss."
        )
    off = [name for name, test in (("set sizes", state.size), ("confidence", state.confidence)) if test is None]
    if off:
        found.append(
            f"Unlabelled rows are not tested for changes in {' and '.join(off)}: the predictor has no conformal rows "
            "to compare them with."
        )
    return tuple(found)


def _parts(state: MonitorState, watched: Watched) -> tuple[PartStanding, ...]:
    if state.parts is None:
        return ()
    names = part_names(state.parts, watched.promise, watched.classes)
    bar = -math.log(state.delta * SHARE)
    return tuple(part_standings(state.parts, watched.laws(state.parts.kind), names, bar))


class _Since(NamedTuple):
    """Since when coverage has changed, and to what; all None if no test of coverage has alarmed."""

    batch: int | None = None
    before: float | None = None
    after: float | None = None
    low: float | None = None
    high: float | None = None


def _since(state: MonitorState, watched: Watched, names: set[str]) -> _Since:
    """The batch at which coverage changed, if a test of coverage has alarmed.

    The conformal rows, whose coverage is known, stand before the first batch: so a stream that was bad from its first
    row on has its change there.
    """
    found = names & set(OF_COVERAGE)
    if not found:
        return _Since()
    rows = np.array([record.labelled for record in state.records])
    hits = np.array([record.hits for record in state.records])
    n = watched.reference_rows
    known = np.concatenate([[n], rows]), np.concatenate([[round(n * watched.promise.promised)], hits])
    change = change_point(*known, direction="higher" if found == {"over"} else "lower")
    start = 0 if change is None else change.batch - 1
    while not rows[start]:  # batches without labels tell nothing of when coverage changed
        start += 1
    before = float(hits[:start].sum() / rows[:start].sum()) if rows[:start].any() else None
    after = float(hits[start:].sum() / rows[start:].sum())
    return _Since(start, before, after, *coverage_since(rows, hits, start, state.delta))
