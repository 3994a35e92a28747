"""What every benchmark measures with: one stopwatch, peaks of memory, processes of their own, and generated rows."""

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ROOT",
    "TEMPERATURE",
    "Clock",
    "Contender",
    "Timing",
    "best_of",
    "from_child",
    "load_average",
    "machine",
    "network_logits",
    "peak_above",
    "peak_memory",
    "use_threads",
    "why_missing",
]

ROOT = Path(__file__).parents[1]
TEMPERATURE = 1.25  # generated logits are this much too sharp: labels follow softmax(logits / TEMPERATURE)

Contender = Callable[[], Any]
Clock = Callable[[], float]

_PATIENCE = 10.0  # a contender that has used this many seconds is not called again
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_BLOCK = 1_000  # rows made at once, so that making the rows needs little memory beyond the result
_CONFUSED = 10  # classes of a row that resemble its subject


@dataclass(frozen=True)
class Timing:
    """The best of `runs` calls, and what the last one returned; `missing` says why there was none."""

    seconds: float | None
    runs: int = 0
    result: Any = None
    missing: str = ""


def best_of(
    contenders: Mapping[str, Contender | Exception], repeats: int, clock: Clock = time.perf_counter
) -> dict[str, Timing]:
    """Call contenders in turn (A, B, A, B, ...), so that a busy moment of the machine meets them all."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    results: dict[str, Any] = {}
    for _ in range(repeats):
        for name, contender in contenders.items():
            if isinstance(contender, Exception) or sum(times[name]) > _PATIENCE:
                continue
            start = clock()
            result = contender()
            times[name].append(clock() - start)
            results[name] = result  # after the clock: this frees the one before
    return {
        name: Timing(min(seconds), len(seconds), results[name])
        if seconds
        else Timing(None, missing=why_missing(contenders[name]))
        for name, seconds in times.items()
    }


def why_missing(error: object) -> str:
    """What a table says of a contender that could not be called."""
    if isinstance(error, ImportError):
        return f"not installed ({error})"
    return f"fails ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"


def use_threads(threads: int) -> None:
    """Give every library so many threads; called before any of them is imported, which is when they read it."""
    for variable in ("THERMOSET_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(threads)


def machine(threads: int, packages: Iterable[str]) -> dict[str, Any]:
    """Where it is measured, and with which versions."""
    known = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in _lines(known) if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "threads": threads,
        "month": time.strftime("%B %Y"),
        "load": load_average(),
        "versions": {package: _version(package) for package in packages},
    }


def load_average() -> float:
    """Of the last minute; 0 where the system does not say."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def from_child(module: str, *arguments: object) -> Any:
    """What `python -m module arguments` prints as JSON in its last line: a process that does nothing else."""
    command = [sys.executable, "-W", "ignore", "-m", module, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no answer"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def peak_memory() -> float:
    """The most memory this process has had, in bytes; not a number where the kernel does not say."""
    return _status("VmHWM") if _STATUS.exists() else float("nan")


def peak_above(job: Callable[[], object]) -> int:
    """How far a job lifts the peak of this process above what it holds before, in bytes; on Linux only.

    Not `ru_maxrss`, which a child inherits from its parent: it would hide anything smaller than the parent's own peak.
    VmHWM belongs to the process alone and is set back to the present size just before the call.
    """
    _CLEAR.write_text("5")  # peak := now
    before = _status("VmRSS")
    result = job()
    peak = _status("VmHWM")
    del result  # kept until the peak was read
    return peak - before


def _status(field: str) -> int:
    """VmRSS (now) or VmHWM (peak), in bytes."""
    line = next(line for line in _lines(_STATUS) if line.startswith(field))
    return 1024 * int(line.split()[1])


@lru_cache(maxsize=4)
def network_logits(rows: int, classes: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Logits (rows, classes) in float32 and labels, like those of an overconfident network with many classes.

    At 1,000 classes about 74% of the rows are right, and sets are about as large as those published for ImageNet.
    """
    rng = np.random.default_rng(seed)
    logits, labels = np.empty((rows, classes), dtype=np.float32), np.empty(rows, dtype=np.int64)
    for start in range(0, rows, _BLOCK):
        part = slice(start, min(start + _BLOCK, rows))
        logits[part], labels[part] = _block(rng, part.stop - start, classes)
    logits.flags.writeable = labels.flags.writeable = False  # shared by all contenders
    return logits, labels


def _block(rng: np.random.Generator, rows: int, classes: int) -> tuple[NDArray[Any], NDArray[Any]]:
    tail = -math.log(classes / 1_000)  # the classes that do not matter weigh the same together, however many they are
    calibrated = rng.normal(tail, 0.5, size=(rows, classes))
    row = np.arange(rows)
    calibrated[row, rng.integers(0, classes, rows)] += rng.normal(11 - tail, 4, rows)
    like = rng.integers(0, classes, (rows, _CONFUSED))
    calibrated[row[:, None], like] += rng.uniform(-tail, 9 - tail, (rows, _CONFUSED))
    # The greatest sum of logit and Gumbel noise is a draw from their softmax.
    return TEMPERATURE * calibrated, np.argmax(calibrated + rng.gumbel(size=calibrated.shape), axis=1)
