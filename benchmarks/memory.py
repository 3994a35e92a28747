"""Peak memory of `predict_set` and `sweep`, measured by the kernel in a process that does nothing else.

Run as `python -m benchmarks.memory TASK ROWS CLASSES`, this module is that process. It does not use `ru_maxrss`, which
a child inherits from its parent: it would hide anything smaller than the parent's own peak. VmHWM belongs to the
process alone and is set back to the present size just before the call.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Line, Settings, Table, Target

__all__ = ["memory", "peak_above", "peak_memory"]

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_MB = 1e6
_NARROW = 1_000_000, 10  # rows and classes where what is kept for each row is most of it


def memory(settings: Settings) -> Table:
    """What `predict_set` and a whole sweep need beyond their input."""
    title = f"Peak memory beyond the input, {settings.rows:,} × {settings.classes:,} float32"
    size = settings.rows * settings.classes  # bytes of the boolean result; the float32 input has four times as many
    allowed = Line("result + 25% of the input", (size + 0.25 * 4 * size) / _MB, runs=0)
    if not _STATUS.exists():
        return Table(
            title, [allowed, Line("predict_set, RAPS", None, runs=0, note="measured on Linux only")], unit="MB"
        )
    sets, sweep = (_worst(task, settings.rows, settings.classes, settings.repeats) for task in ("predict_set", "sweep"))
    narrow = _worst("sweep", *_NARROW, 1)
    input_mb = 4 * size / _MB
    return Table(
        title,
        [
            allowed,
            Line(
                "predict_set, RAPS",
                sets / _MB,
                settings.repeats,
                Target("<=", 1, "yardstick"),
                f"the result and {(sets - size) / (4 * size):.1%} of the input",
            ),
            Line(
                "sweep, 46 temperatures, 100 trials",
                sweep / _MB,
                settings.repeats,
                Target("<=", 1.5 * input_mb, "value"),
                f"{1 + sweep / (4 * size):.2f} times the input, itself included",
            ),
            Line(
                f"the same, {_NARROW[0]:,} × {_NARROW[1]} float32",
                narrow / _MB,
                1,
                Target("<=", 600, "value"),
                f"the input has {4 * _NARROW[0] * _NARROW[1] / _MB:.0f} MB",
            ),
        ],
        unit="MB",
    )


def _worst(task: str, rows: int, classes: int, repeats: int) -> int:
    """The worst of several runs: a peak is a promise, not a race."""
    command = [sys.executable, "-m", "benchmarks.memory", task, str(rows), str(classes)]
    root = Path(__file__).parents[1]
    return max(
        json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    )


def _status(field: str) -> int:
    """VmRSS (now) or VmHWM (peak), in bytes."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return 1024 * int(line.split()[1])


def peak_memory() -> float:
    """The most memory this process has had, in bytes; not a number where the kernel does not say."""
    return _status("VmHWM") if _STATUS.exists() else float("nan")


def peak_above(job: Callable[[], object]) -> int:
    """How far a job lifts the peak of this process above what it holds before, in bytes."""
    _CLEAR.write_text("5")  # peak := now
    before = _status("VmRSS")
    result = job()
    peak = _status("VmHWM")
    del result  # kept until the peak was read
    return peak - before


def _peak(task: str, rows: int, classes: int) -> int:
    import numpy as np

    import thermoset as ts
    from benchmarks.measure import network_logits
    from benchmarks.sets import fitted

    # What is imported and compiled before does not count.
    model = fitted("raps", classes, rows=1_000)
    ts.sweep(np.zeros((100, 2), dtype=np.float32), np.arange(100) % 2, [1.0], trials=1)
    logits, labels = network_logits(rows, classes, seed=0)
    grid = ts.sweeping.temperature_grid(ts.sweeping.PAPER_GRID)
    return peak_above(lambda: model.predict_set(logits) if task == "predict_set" else ts.sweep(logits, labels, grid))


if __name__ == "__main__":
    print(json.dumps(_peak(sys.argv[1], *map(int, sys.argv[2:]))))
