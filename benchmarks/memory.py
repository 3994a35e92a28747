"""Peak memory of `predict_set`, measured by the kernel in a process that does nothing else.

Run as `python -m benchmarks.memory ROWS CLASSES`, this module is that process. It does not use `ru_maxrss`: a child
inherits its parent's, which would hide anything smaller than the parent's own peak. VmHWM belongs to the process
alone and is set back to the present size just before the call.
"""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.report import Line, Settings, Table, Target

__all__ = ["memory"]

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_MB = 1e6


def memory(settings: Settings) -> Table:
    """What `predict_set` needs beyond its input."""
    what, title = "predict_set, RAPS", f"Peak memory beyond the input, {settings.rows:,} × {settings.classes:,} float32"
    size = settings.rows * settings.classes  # bytes of the boolean result; the float32 input has four times as many
    allowed = Line("result + 25% of the input", (size + 0.25 * 4 * size) / _MB, runs=0)
    if not _STATUS.exists():
        return Table(title, [allowed, Line(what, None, runs=0, note="measured on Linux only")], unit="MB")
    command = [sys.executable, "-m", "benchmarks.memory", str(settings.rows), str(settings.classes)]
    root = Path(__file__).parents[1]
    peaks = [
        json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)
        for _ in range(settings.repeats)
    ]
    peak = max(peaks)  # the least flattering: a peak is a promise, not a race
    note = f"worst of its runs: result + {(peak - size) / (4 * size):.1%} of the input"
    ours = Line(what, peak / _MB, settings.repeats, Target("<=", 1, "yardstick"), note)
    return Table(title, [allowed, ours], unit="MB")


def _status(field: str) -> int:
    """VmRSS (now) or VmHWM (peak), in bytes."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return 1024 * int(line.split()[1])


def _peak_of_predict_set(rows: int, classes: int) -> int:
    from benchmarks.data import network_logits
    from benchmarks.sets import fitted

    model = fitted("raps", classes, rows=1_000)  # imports and compiles all that is needed
    logits, _ = network_logits(rows, classes, seed=0)
    _CLEAR.write_text("5")  # peak := now
    before = _status("VmRSS")
    sets = model.predict_set(logits)
    peak = _status("VmHWM")
    if sets.shape != logits.shape:  # also keeps both alive until the peak is read
        raise RuntimeError("predict_set returned another shape than its input's")
    return peak - before


if __name__ == "__main__":
    print(json.dumps(_peak_of_predict_set(*map(int, sys.argv[1:]))))
