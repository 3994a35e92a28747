"""What is measured of each library, as plain records; a library that cannot be run says why."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import network_logits
from benchmarks.memory import peak_above
from benchmarks.peers.sets import SETS
from benchmarks.peers.temperatures import TEMPERATURES, Rows
from benchmarks.sweeps import plain_sweep
from benchmarks.timing import best_of

__all__ = ["OURS", "Found", "coverages", "memories", "one_row", "peak_of_child", "set_times", "sweeps", "temperatures"]

OURS = "thermoset"
ALPHA = 0.1
ROWS, CLASSES, CONFORMAL = 20_000, 1_000, 10_000
COLD = (0.05, 0.1, 1.0)
SPLITS = 10
_CALLS = 50  # of a single row


@dataclass(frozen=True)
class Found:
    """One number of one library, what else was seen, and whether it could be measured at all."""

    library: str
    job: str
    value: float | None
    note: str = ""


def temperatures() -> Iterator[Found]:
    """Seconds to fit T* on generated rows, and how far T is from ours."""
    rows = network_logits(ROWS, CLASSES, seed=0)
    fits = {name: _built(lambda build=build: build(rows)) for name, build in TEMPERATURES.items()}
    timings = best_of(fits, 3)
    ours = timings[OURS].result
    for name, timing in timings.items():
        note = timing.missing or (f"T = {timing.result:.7f}, {abs(timing.result - ours):.1e} from ours")
        yield Found(name, "T*", timing.seconds, note)


def set_times() -> Iterator[Found]:
    """Seconds to make sets; beside it coverage, size, and how many sets equal ours."""
    logits, labels = network_logits(ROWS, CLASSES, seed=0)
    conformal = network_logits(CONFORMAL, CLASSES, seed=1)
    for method in ("LAC", "APS"):
        jobs = {name: _job(name, method, conformal, logits) for name in SETS if method in SETS[name]}
        timings = best_of(jobs, 2)
        ours = as_sets(timings[OURS].result, CLASSES)
        for name, timing in timings.items():
            if timing.seconds is None:
                yield Found(name, f"{method} sets", None, timing.missing)
                continue
            sets = as_sets(timing.result, CLASSES)
            equal = "" if name == OURS else f", {(sets == ours).all(axis=1).mean():.1%} of the sets equal ours"
            yield Found(name, f"{method} sets", timing.seconds, _quality(sets, labels) + equal)


def one_row() -> Iterator[Found]:
    """Seconds for the APS (crepes: LAC) set of a single row, warm."""
    logits, _ = network_logits(ROWS, CLASSES, seed=0)
    conformal = network_logits(CONFORMAL, CLASSES, seed=1)
    for name, methods in SETS.items():
        method = "APS" if "APS" in methods else "LAC"
        job = _job(name, method, conformal, logits[:1])
        best = (
            job if isinstance(job, ImportError) else _built(lambda job=job: min(_seconds(job) for _ in range(_CALLS)))
        )
        failed = isinstance(best, ImportError)
        yield Found(name, "one row", None if failed else best, str(best) if failed else method)


def memories() -> Iterator[Found]:
    """Peak memory beyond the input while APS (crepes: LAC) sets are made, in bytes; each in a process of its own."""
    for name, methods in SETS.items():
        method = "APS" if "APS" in methods else "LAC"
        command = [sys.executable, "-m", "benchmarks.peers", "--peak", name, method]
        done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
        try:
            yield Found(name, "memory", float(json.loads(done.stdout.splitlines()[-1])), method)
        except (IndexError, ValueError):
            yield Found(name, "memory", None, done.stderr.strip().splitlines()[-1] if done.stderr else "no answer")


def peak_of_child(name: str, method: str) -> int:
    """What `memories` asks a child for."""
    logits, _ = network_logits(ROWS, CLASSES, seed=0)
    predict = SETS[name][method](network_logits(CONFORMAL, CLASSES, seed=1), ALPHA)
    predict(logits[:100])
    return peak_above(lambda: predict(logits))


def coverages() -> Iterator[Found]:
    """Mean coverage over random halves of the bundled real logits, at temperatures where a softmax saturates."""
    import thermoset as ts

    data = ts.datasets.load_glyphs().logits
    logits, labels = np.asarray(data.logits, dtype=np.float32), data.require_labels("peers")
    for name, methods in SETS.items():
        for method, build in methods.items():
            for temperature in COLD:
                found = _built(lambda b=build, t=temperature: _coverage(b, logits / np.float32(t), labels))
                missing = isinstance(found, ImportError)
                value, note = (None, str(found)) if missing else (found[0], f"{found[1]:.1f} labels")
                yield Found(name, f"{method} at T = {temperature:g}", value, note)


def sweeps() -> Iterator[Found]:
    """Seconds of a sweep (46 temperatures, 3 scores, 100 trials, all metrics) and of plain NumPy loops."""
    ours, loop = plain_sweep(10_000, 100)
    yield Found(OURS, "sweep", ours)
    yield Found("plain NumPy loop", "sweep", loop, "one trial of one score at one temperature, times 13,800")


def as_sets(result: Any, n_classes: int) -> NDArray[np.bool_]:
    """Sets as booleans (n, C), from an array or from lists of labels."""
    if not isinstance(result, list | tuple):
        return np.asarray(result).astype(bool)
    sets = np.zeros((len(result), n_classes), dtype=bool)
    for row, members in zip(sets, result, strict=True):
        row[np.asarray(list(members), dtype=np.int64)] = True
    return sets


def _coverage(build: Callable[..., Any], logits: NDArray[np.float32], labels: NDArray[np.int64]) -> tuple[float, float]:
    hits = sizes = 0.0
    for split in range(SPLITS):
        rows = np.random.default_rng(split).permutation(len(labels))
        some, rest = rows[: len(rows) // 2], rows[len(rows) // 2 :]
        sets = as_sets(build((logits[some], labels[some]), ALPHA)(logits[rest]), logits.shape[1])
        hits += sets[np.arange(len(rest)), labels[rest]].mean()
        sizes += sets.sum(axis=1).mean()
    return hits / SPLITS, sizes / SPLITS


def _job(name: str, method: str, conformal: Rows, logits: NDArray[np.float32]) -> Any:
    def build() -> Callable[[], Any]:
        predict = SETS[name][method](conformal, ALPHA)
        return lambda: predict(logits)

    return _built(build)


def _built(build: Callable[[], Any]) -> Any:
    """What a builder gives, or why it gives nothing, as the ImportError that `best_of` passes over."""
    try:
        return build()
    except ImportError as error:
        return error
    except Exception as error:  # noqa: BLE001 (a peer's failure is a finding)
        return ImportError(f"fails: {type(error).__name__}")


def _seconds(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def _quality(sets: NDArray[np.bool_], labels: NDArray[np.int64]) -> str:
    coverage = sets[np.arange(len(labels)), labels].mean()
    return f"coverage {coverage:.3f}, {sets.sum(axis=1).mean():.1f} labels"
