"""The sweep where it is hard: real logits, rows with large sets, low temperatures, thresholds by class.

One thread, processor time. The yardstick is our own exponential, one e**x for every row, class and temperature: SciPy's
softmax is three times faster on one processor than on another.
"""

import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

import thermoset as ts
from benchmarks.measure import best_of
from benchmarks.report import Line, Settings, Table, Target
from thermoset import kernels
from thermoset.rows import gaps_of
from thermoset.sweeping import PAPER_GRID, temperature_grid

__all__ = ["hard", "imagenet", "small"]

GRID = temperature_grid(PAPER_GRID)
COLD = temperature_grid("0.01:0.46:0.01")
ALPHAS = (0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4)

kernels.start()  # puts what Numba makes of them in the place of its functions

Rows = tuple[NDArray[Any], NDArray[np.int64]]


@njit(nogil=True)
def exponentials(gaps: NDArray[np.float64], temperatures: NDArray[np.float64]) -> None:
    """One exponential for every row, class and temperature."""
    weights = np.empty(gaps.shape[1])
    for i in range(gaps.shape[0]):
        for t in range(temperatures.shape[0]):
            kernels.fill_weights(gaps[i], 0.0, 1.0 / temperatures[t], weights)


def imagenet(settings: Settings) -> Table:
    """5,000 real rows of 1,000 classes."""
    return _table("ImageNet, 5,000 × 1,000", _file("imagenet5k_efficientnet_lite0"), settings, (3.5, 4, 1.9, 4.5))


def small(settings: Settings) -> Table:
    """10,000 real rows of 100 classes."""
    return _table("CIFAR-100, 10,000 × 100", _file("cifar100_resnet50"), settings, (None, 5, 2.3, 4.5))


def hard(settings: Settings) -> Table:
    """Generated rows with sets of 30 to 90 labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 1_000, 5_000)
    logits = (1.8 * rng.normal(size=(5_000, 1_000))).astype(np.float32)
    logits[np.arange(5_000), labels] += rng.gamma(4, 2.2, 5_000).astype(np.float32)
    return _table("Large sets, 5,000 × 1,000", (logits, labels), settings, (None, None, 2.6, None))


def _table(
    title: str,
    rows: Rows | None,
    settings: Settings,
    targets: tuple[float | None, float | None, float | None, float | None],
) -> Table:
    title = f"Sweep, {title}, 46 temperatures, LAC + APS + RAPS, 100 trials, one thread"
    if rows is None:
        return Table(title, [Line("the sweep", None, runs=0, note="THERMOSET_DATA names no folder with these logits")])
    sweep = partial(_quiet, ts.sweep, *rows, n_jobs=1)
    gaps = gaps_of(np.sort(rows[0], axis=1))
    contenders: dict[str, Callable[[], Any]] = {
        "exponentials": lambda: exponentials(gaps, GRID),
        "the sweep": lambda: sweep(GRID),
        "ten alphas": lambda: sweep(GRID, alphas=ALPHAS),
        "T = 0.01 to 0.46": lambda: sweep(COLD),
        "thresholds by class": lambda: sweep(GRID, grouping="class"),
    }
    contenders["exponentials"]()
    sweep(GRID[:1], trials=1)
    sweep(GRID[:1], trials=1, grouping="class")
    timings = best_of(contenders, settings.repeats, time.process_time)
    seconds = {name: timing.seconds or np.nan for name, timing in timings.items()}
    lines = [Line("exponentials", seconds["exponentials"], timings["exponentials"].runs)]
    for (name, target), base in zip(
        zip(list(contenders)[1:], targets, strict=True), ("exponentials", *["the sweep"] * 3), strict=True
    ):
        note = f"{seconds[name] / seconds[base]:.2f} times {base}" + (f" (target {target})" if target else "")
        limit = None if target is None else Target("<=", target * seconds[base], "value")
        lines.append(Line(name, seconds[name], timings[name].runs, limit, note))
    return Table(title, lines)


def _file(name: str) -> Rows | None:
    file = Path(os.environ.get("THERMOSET_DATA", "")) / f"{name}.npz"
    if not file.is_file():
        return None
    data = ts.load(file)
    return data.logits, data.require_labels("the benchmark")


def _quiet(run: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.CoverageWarning)  # some classes have few rows
        return run(*arguments, **options)
