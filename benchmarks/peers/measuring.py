"""What is measured of each library, as plain records; a library that cannot be run says why."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import loops
from benchmarks.data import network_logits
from benchmarks.memory import peak_above
from benchmarks.peers.plan import ALPHA, FULL, OURS, REPEATS, Found, Plan
from benchmarks.peers.sets import SETS, Model
from benchmarks.peers.temperatures import TEMPERATURES, Rows
from benchmarks.timing import Contender, best_of

__all__ = ["JOBS", "peak_of_child"]

CLOCK = time.process_time  # of all threads, of which every library has one: other work on the machine does not count
_CALLS, _ROUNDS = 10, 7  # of a single row, in so many rounds
_WARM_UP = 100  # rows


def temperatures(plan: Plan) -> Iterator[Found]:
    """Seconds to fit T*, and what it is."""
    rows = network_logits(plan.rows, plan.classes, seed=0)
    fits = {name: _attempt(lambda build=build: build(rows)) for name, build in TEMPERATURES.items()}
    for name, timing in best_of(fits, REPEATS, CLOCK).items():
        yield Found(name, "T*", timing.seconds, {"T": timing.result} if timing.seconds else {}, timing.missing)


def sets(plan: Plan) -> Iterator[Found]:
    """Seconds to make sets; with it coverage, size, and how many rows and labels differ from ours."""
    logits, labels = network_logits(plan.rows, plan.classes, seed=0)
    for method in ("LAC", "APS"):
        jobs = {name: _job(plan, name, method, logits) for name in SETS if method in SETS[name]}
        timings = best_of(jobs, REPEATS, CLOCK)
        ours = as_sets(timings[OURS].result, plan.classes)
        for name, timing in timings.items():
            seen = {} if timing.seconds is None else _seen(as_sets(timing.result, plan.classes), ours, labels)
            yield Found(name, f"{method} sets", timing.seconds, seen, timing.missing)


def _seen(found: NDArray[np.bool_], ours: NDArray[np.bool_], labels: NDArray[np.int64]) -> dict[str, float]:
    return {
        "coverage": float(found[np.arange(len(labels)), labels].mean()),
        "size": float(found.sum(axis=1).mean()),
        "different rows": int((found != ours).any(axis=1).sum()),
        "different labels": int((found != ours).sum()),
    }


def one_row(plan: Plan) -> Iterator[Found]:
    """Seconds for the set of a single row, warm."""
    logits, _ = network_logits(plan.rows, plan.classes, seed=0)
    jobs = {name: _attempt(lambda name=name: _repeated(_job(plan, name, _method(name), logits[:1]))) for name in SETS}
    for name, timing in best_of(jobs, _ROUNDS, CLOCK).items():
        yield Found(name, "one row", timing.seconds / _CALLS if timing.seconds else None, missing=timing.missing)


def memories(plan: Plan) -> Iterator[Found]:
    """Peak memory beyond the input while sets are made, in bytes; each in a process of its own."""
    small = [] if plan == FULL else ["--small"]
    for name in SETS:
        command = [sys.executable, "-m", "benchmarks.peers", *small, "--peak", name, _method(name)]
        done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
        try:
            yield Found(name, "memory", float(json.loads(done.stdout.splitlines()[-1])))
        except (IndexError, ValueError):
            yield Found(name, "memory", None, missing=(done.stderr.strip().splitlines() or ["no answer"])[-1])


def peak_of_child(plan: Plan, name: str, method: str) -> int:
    """What `memories` asks a child for."""
    logits, _ = network_logits(plan.rows, plan.classes, seed=0)
    model = _calibrated(plan, name, method)
    rows = model.prepare(logits)
    return peak_above(lambda: model.predict(rows))


def coverages(plan: Plan) -> Iterator[Found]:
    """Mean coverage over random splits of the bundled real logits, at temperatures where a softmax saturates."""
    import thermoset as ts

    data = ts.datasets.load_glyphs().logits
    logits, labels = np.asarray(data.logits, dtype=np.float32), data.require_labels("peers")
    for name, methods in SETS.items():
        for method, build in methods.items():
            for temperature in plan.temperatures:
                rows = logits / np.float32(temperature), labels
                found = _attempt(lambda build=build, rows=rows: _coverage(plan, build, rows))
                failed = isinstance(found, Exception)
                seen, missing = ({}, best_of({name: found}, 1)[name].missing) if failed else (found, "")
                yield Found(name, f"{method} at T = {temperature:g}", seen.get("coverage"), seen, missing)


def _coverage(plan: Plan, build: Callable[[Rows, float], Model], rows: Rows) -> dict[str, float]:
    (logits, labels), n = rows, plan.split_rows
    hits = sizes = 0.0
    for split in range(plan.splits):
        order = np.random.default_rng(split).permutation(len(labels))
        some, rest = order[:n], order[n : 2 * n]
        model = build((logits[some], labels[some]), ALPHA)
        found = as_sets(model.predict(model.prepare(logits[rest])), logits.shape[1])
        hits += found[np.arange(n), labels[rest]].mean()
        sizes += found.sum(axis=1).mean()
    return {"coverage": float(hits / plan.splits), "size": float(sizes / plan.splits)}


def sweeps(plan: Plan) -> Iterator[Found]:
    """Seconds of a sweep (46 temperatures, 3 scores, 100 trials, all metrics), and of loops written by hand."""
    import thermoset as ts
    from benchmarks.sweeps import GRID

    logits, labels = network_logits(plan.swept_rows, plan.swept_classes, seed=0)
    ts.sweep(logits, labels, GRID[:2], trials=1)  # compiles
    ours = best_of({OURS: lambda: ts.sweep(logits, labels, GRID)}, REPEATS, CLOCK)[OURS]
    yield Found(OURS, "sweep", ours.seconds)
    ways = {
        "NumPy loop, sorted once": loops.sorted_once,
        "NumPy loop": loops.plain,
        "the paper's way in PyTorch": loops.published,
    }
    for name, way in ways.items():
        yield Found(name, "sweep", len(GRID) * way(logits, labels, CLOCK))


JOBS: tuple[Callable[[Plan], Iterator[Found]], ...] = (temperatures, sets, one_row, memories, coverages, sweeps)


def as_sets(result: Any, n_classes: int) -> NDArray[np.bool_]:
    """Sets as booleans (n, C), from an array or from lists of labels."""
    if not isinstance(result, list | tuple):
        return np.asarray(result).astype(bool)
    sets = np.zeros((len(result), n_classes), dtype=bool)
    for row, members in zip(sets, result, strict=True):
        row[np.asarray(list(members), dtype=np.int64)] = True
    return sets


def _method(name: str) -> str:
    """The score by which single rows and memory are measured: APS where the library has it."""
    return "APS" if "APS" in SETS[name] else "LAC"


def _calibrated(plan: Plan, name: str, method: str) -> Model:
    """A model that has made some sets, so that nothing is left to be compiled or imported."""
    conformal = network_logits(plan.conformal_rows, plan.classes, seed=1)
    model = SETS[name][method](conformal, ALPHA)
    model.predict(model.prepare(conformal[0][:_WARM_UP]))
    return model


def _job(plan: Plan, name: str, method: str, logits: NDArray[np.float32]) -> Contender | Exception:
    def build() -> Contender:
        model = _calibrated(plan, name, method)
        rows = model.prepare(logits)
        return lambda: model.predict(rows)

    return _attempt(build)


def _repeated(job: Contender | Exception) -> Contender | Exception:
    if isinstance(job, Exception):
        return job
    job()  # a library may fail on a single row alone

    def several() -> None:
        for _ in range(_CALLS):
            job()

    return several


def _attempt(build: Callable[[], Any]) -> Any:
    """What a builder gives, or why it gives nothing, which `best_of` passes over."""
    try:
        return build()
    except Exception as error:  # noqa: BLE001 (a peer's failure is a finding)
        return error
