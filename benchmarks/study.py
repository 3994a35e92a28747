"""The whole study of one file, in a process of its own, against one sweep of its rows.

Run as `python -m benchmarks.study FOLDER`, this module is that process.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import thermoset as ts
from benchmarks.measure import network_logits, peak_memory
from benchmarks.report import Line, Settings, Table, Target
from thermoset.sweeping import PAPER_GRID, temperature_grid

__all__ = ["study"]

_SMALL = 10_000, 100


def study(settings: Settings) -> Table:
    """All tables and figures, 100 trials, of a file of CIFAR-100's size and of one of ImageNet's."""
    small, large = (_measure(*shape) for shape in (_SMALL, (settings.rows, settings.classes)))
    return Table(
        "Study of one file, whole process",
        [
            Line(f"one sweep, {_name(_SMALL)}", small["sweep"]),
            Line(f"study, {_name(_SMALL)}", small["study"], 1, Target("<=", 60, "value"), _memory(small)),
            Line(f"one sweep, {_name((settings.rows, settings.classes))}", large["sweep"]),
            Line(
                f"study, {_name((settings.rows, settings.classes))}",
                large["study"],
                1,
                Target("<=", 600, "value"),
                _memory(large),
            ),
        ],
    )


def _name(shape: tuple[int, int]) -> str:
    return f"{shape[0]:,} × {shape[1]:,}"


def _memory(measured: dict[str, float]) -> str:
    return f"peak {measured['peak'] / 1e9:.2f} GB"


def _measure(rows: int, classes: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        ts.save(Path(folder) / "generated.npz", ts.Logits(*network_logits(rows, classes, seed=0)))
        command = [sys.executable, "-m", "benchmarks.study", folder]
        root = Path(__file__).parents[1]
        done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _run(folder: Path) -> dict[str, float]:
    from thermoset.paper.study import study as run

    start = time.perf_counter()
    run(folder, folder / "out")
    ended = time.perf_counter()
    peak = peak_memory()
    data = ts.load(folder / "generated.npz")
    again = time.perf_counter()
    ts.sweep(data, temperatures=temperature_grid(PAPER_GRID))
    return {"study": ended - start, "peak": peak, "sweep": time.perf_counter() - again}


if __name__ == "__main__":
    print(json.dumps(_run(Path(sys.argv[1]))))
