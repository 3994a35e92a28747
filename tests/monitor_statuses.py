"""Where watched predictors may stand: records made by hand, to be drawn."""

import math
from dataclasses import replace
from datetime import date, timedelta

import numpy as np

from thermoset.monitor.evidence import confidence_sequence
from thermoset.monitor.status import BatchRecord, MonitorStatus, PartStatus, TestStatus

_TITLES = {
    "under": "coverage below the promise",
    "over": "coverage above the promise",
    "parts": "coverage of single classes",
    "size": "set sizes",
    "confidence": "confidence",
}


def status_of(n=26, drop_from=None, seed=0, rows=200, labelled=True, **changes):
    """Weekly batches whose coverage is 0.9, and 0.8 from one batch on; evidence is that of a plain likelihood ratio."""
    rng = np.random.default_rng(seed)
    log_e, batches = dict.fromkeys(_TITLES, 0.0), []
    crossed = dict.fromkeys(_TITLES)
    bars = {name: math.log(200 if name == "under" else 800) for name in _TITLES}
    for i in range(n):
        late = drop_from is not None and i >= drop_from
        hit = int(rng.binomial(rows, 0.8 if late else 0.9)) if labelled else 0
        if labelled:
            miss = rows - hit
            log_e["under"] += hit * math.log(0.85 / 0.9) + miss * math.log(0.15 / 0.1)
            log_e["over"] += hit * math.log(0.93 / 0.9) + miss * math.log(0.07 / 0.1)
        log_e["size"] += float(rng.normal(1.5 if late else -0.2, 0.8))
        log_e["confidence"] += float(rng.normal(0.9 if late else -0.2, 0.5))
        for name, value in log_e.items():
            if crossed[name] is None and value >= bars[name]:
                crossed[name] = i
        tested = {f"log_{name}": log_e[name] if labelled else None for name in ("under", "over")}
        batches.append(
            BatchRecord(
                name=f"week {i + 1}", time=str(date(2026, 1, 5) + timedelta(weeks=i)), rows=rows,
                labelled=rows * labelled, hits=hit, mean_size=float(rng.normal(2.6 if late else 1.9, 0.08)),
                empty=int(rng.binomial(rows, 0.03)), mean_confidence=float(rng.normal(0.78 if late else 0.84, 0.01)),
                correct=int(rng.binomial(rows, 0.7 if late else 0.83)) if labelled else 0, **tested,
                log_size=log_e["size"], log_confidence=log_e["confidence"],
                coverage_low=None, coverage_high=None,
            )
        )  # fmt: skip
    return replace(_status(_with_ends(batches, labelled), log_e, crossed, bars, drop_from, labelled), **changes)


def _with_ends(batches, labelled):
    """Batches with the confidence sequence of the mean so far."""
    if not labelled or not batches:
        return tuple(batches)
    hits, rows = (np.cumsum([getattr(batch, key) for batch in batches]) for key in ("hits", "labelled"))
    ends = zip(batches, *(end.tolist() for end in confidence_sequence(hits, rows, 0.01)), strict=True)
    return tuple(replace(batch, coverage_low=low, coverage_high=high) for batch, low, high in ends)


def _status(batches, log_e, crossed, bars, drop_from, labelled):
    after = batches[drop_from:] if drop_from is not None else ()
    before = batches[:drop_from] if drop_from is not None else ()
    changed = crossed["under"] is not None

    def share(part):
        return sum(batch.hits for batch in part) / sum(batch.labelled for batch in part)

    tests = tuple(
        TestStatus(
            name, title, log_e[name], bars[name], crossed[name],
            None if crossed[name] is None else 200 * crossed[name] + 7,
            (crossed[name],) if crossed[name] is not None else (),
        )
        for name, title in _TITLES.items()
        if labelled or name in ("size", "confidence")
    )  # fmt: skip
    alarm = any(test.crossed_batch is not None for test in tests)
    return MonitorStatus(
        promised=0.9, alpha="0.1", exact=True, delta=0.01, run_length=1_000_000, reference_rows=1000,
        reference_size=1.87,
        batches=batches, tests=tests, part_kind="class", parts=parts_of(6) if labelled else (),
        since=drop_from if changed else None, before=share(before) if changed and before else None,
        after=share(after) if changed else None, after_low=share(after) - 0.03 if changed else None,
        after_high=share(after) + 0.03 if changed else None, alarm=alarm, new_changes=False,
        sentences=("First sentence of the record.", "Second one, about T-hat."),
        advice=("Run `thermoset adapt` with 1,500 new labelled rows.",) if alarm else (),
    )  # fmt: skip


def parts_of(n, names=None, promised=True, alarm=(2,)):
    """Classes; some of them alarm."""
    return tuple(
        PartStatus(
            name=names[i] if names else f"class {i}", rows=40 + 10 * i, hits=(30 if i in alarm else 38) + 8 * i,
            log_e=(9.5 if i in alarm else -0.3 * i) if promised else None, promised=promised,
            alarm=promised and i in alarm,
        )
        for i in range(n)
    )  # fmt: skip


def renamed(status, names):
    """The same with other names of batches."""
    pairs = zip(status.batches, names, strict=True)
    return replace(status, batches=tuple(replace(batch, name=name) for batch, name in pairs))


def untimed(status):
    """The same without times."""
    return replace(status, batches=tuple(replace(batch, time=None) for batch in status.batches))
