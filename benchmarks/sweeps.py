"""The sweep: against the softmaxes it replaces, a researcher's plain loop, and itself at other sizes."""

import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

import thermoset as ts
from benchmarks import loops
from benchmarks.measure import best_of, network_logits
from benchmarks.report import Line, Settings, Table, Target, timed
from thermoset.sweeping import PAPER_GRID, temperature_grid

__all__ = ["compilation", "growth", "plain", "sweep"]

GRID = temperature_grid(PAPER_GRID)
ALPHAS = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5]
_SOFTMAXES = 6  # timed; the yardstick is as many as the grid has temperatures


def _compiled() -> None:
    ts.sweep(np.zeros((100, 2), dtype=np.float32), np.arange(100) % 2, [1.0], trials=1)


def sweep(settings: Settings) -> Table:
    """The paper's whole protocol for one network: 46 temperatures, three scores, 100 trials, all metrics."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    _compiled()
    # One softmax needs a float T: a NumPy scalar would turn the float32 logits into float64 and take twice as long.
    contenders = {
        "softmax": lambda: [softmax(logits / float(t), axis=1) for t in GRID[:: len(GRID) // _SOFTMAXES][:_SOFTMAXES]],
        "100 trials": lambda: ts.sweep(logits, labels, GRID),
        "1 trial": lambda: ts.sweep(logits, labels, GRID, trials=1),
        "10 alphas": lambda: ts.sweep(logits, labels, GRID, alphas=ALPHAS),
    }
    timings = best_of(contenders, settings.repeats)
    yardstick = (timings["softmax"].seconds or 0) * len(GRID) / _SOFTMAXES
    found: ts.Sweep = timings["100 trials"].result
    one, hundred = timings["1 trial"].seconds or np.nan, timings["100 trials"].seconds or np.nan
    ten = timings["10 alphas"].seconds or np.nan
    note = ", ".join(f"{m} {found.curve('avg_size', m)[5]:.1f}" for m in found.methods)
    return Table(
        f"Sweep, {settings.rows:,} × {settings.classes:,} float32, {len(GRID)} temperatures, LAC + APS + RAPS",
        [
            Line(f"{len(GRID)} softmaxes", yardstick, timings["softmax"].runs, note=f"{_SOFTMAXES} timed, scaled up"),
            timed("100 trials", timings["100 trials"], Target("<=", 0.12, "yardstick"), f"sizes at T = 1: {note}"),
            timed("1 trial", timings["1 trial"], note=f"100 trials are {hundred / one:.2f} times one (target 3)"),
            timed("10 alphas", timings["10 alphas"], note=f"{ten / hundred:.2f} times one alpha (target 2.5)"),
        ],
    )


def growth(settings: Settings) -> Table:
    """How the time grows with rows and classes."""
    _compiled()
    sizes = [(5_000, 1_000), (20_000, 1_000), (50_000, 1_000), (200_000, 1_000), (10_000, 100), (10_000, 10_000)]
    lines = []
    for rows, classes in sizes:
        if rows > 4 * settings.rows or classes > 10 * settings.classes:
            continue
        logits, labels = network_logits(rows, classes, seed=2)
        run = partial(ts.sweep, logits, labels, GRID, trials=100)
        timing = best_of({"sweep": lambda run=run: _quiet(run)}, min(settings.repeats, 2))["sweep"]
        each = 1e9 * (timing.seconds or 0) / (rows * classes * len(GRID))
        lines.append(timed(f"{rows:,} × {classes:,}", timing, note=f"{each:.2f} ns per logit and temperature"))
    return Table("Sweep, growth with rows and classes", lines)


def _quiet(run: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.CoverageWarning)  # small runs have classes without evaluation rows
        return run()


def plain(settings: Settings) -> Table:
    """What a researcher would write: softmax, sort and sums for each trial, or once for each temperature."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    _compiled()
    ours = best_of({"sweep": lambda: ts.sweep(logits, labels, GRID)}, 2)["sweep"]
    note = f"one temperature, x {len(GRID)}"
    return Table(
        f"Sweep compared with plain NumPy loops, {settings.rows:,} × {settings.classes:,} float32",
        [
            timed("the sweep", ours),
            Line("loop, everything in each trial", len(GRID) * loops.plain(logits, labels), 1, note=note),
            Line("loop, sorted once for each temperature", len(GRID) * loops.sorted_once(logits, labels), 1, note=note),
        ],
    )


def compilation(settings: Settings) -> Table:
    """The first tune of a process, with an empty cache of compiled kernels and with a full one."""
    del settings
    code = (
        "import numpy as np, thermoset as ts\n"
        "labels = np.arange(2000) % 10\n"
        "logits = np.random.default_rng(0).normal(size=(2000, 10)) + 3 * np.eye(10)[labels]\n"
        "ts.TwoTemperaturePredictor().fit(logits, labels)"
    )
    with tempfile.TemporaryDirectory() as folder:
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
            subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True)
            seconds.append(time.perf_counter() - start)
    cached = min(seconds[1:])
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy, scipy.stats, sklearn.cluster, numba"], check=True)
    imports = time.perf_counter() - start
    return Table(
        "First tune of a process, 2,000 × 10, whole process",
        [
            Line("importing NumPy, SciPy, scikit-learn, Numba", imports),
            Line("nothing compiled", seconds[0], 1, Target("<=", 8, "value")),
            Line("compiled before", cached, 2, note=f"{cached - imports:.2f} s beyond the imports (target 1)"),
        ],
    )
