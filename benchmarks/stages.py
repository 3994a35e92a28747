"""The sweep where it is hard: real logits, rows with large sets, low temperatures, thresholds by class."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

import thermoset as ts
from benchmarks.report import Line, Settings, Table, Target, timed
from benchmarks.sweeps import GRID
from benchmarks.timing import best_of
from thermoset.sweeping import temperature_grid

__all__ = ["cold", "grouped", "rows"]

_ROWS = 20_000
_SOFTMAXES = 6  # timed; the yardstick is as many as the grid has temperatures
_JITTER = 1e-3  # keeps tiled rows distinct

Rows = tuple[NDArray[np.float32], NDArray[np.int64]]


def rows(settings: Settings) -> Table:
    """Rows that are not as kind as generated ones: 20,000 x 1,000, 46 temperatures, three scores, 100 trials."""
    _compiled()
    lines = []
    for name, target, make in (("real", 0.15, _real), ("large sets", 0.2, _large_sets)):
        made = make()
        if made is None:
            lines.append(Line(name, None, runs=0, note="THERMOSET_DATA names no folder with ImageNet logits"))
            continue
        logits, labels = made
        some = [float(t) for t in GRID[:: len(GRID) // _SOFTMAXES][:_SOFTMAXES]]
        timings = best_of(
            {
                "softmax": lambda logits=logits, some=some: [softmax(logits / t, axis=1) for t in some],
                "sweep": _quiet(lambda logits=logits, labels=labels: ts.sweep(logits, labels, GRID)),
            },
            settings.repeats,
        )
        yardstick = (timings["softmax"].seconds or np.nan) * len(GRID) / _SOFTMAXES
        ratio = (timings["sweep"].seconds or np.nan) / yardstick
        note = f"{timings['sweep'].seconds:.1f} s"
        lines.append(Line(name, ratio, timings["sweep"].runs, Target("<=", target, "value"), note))
    return Table(f"Sweep of harder rows, {_ROWS:,} × 1,000 float32", lines, unit=f"of {len(GRID)} softmaxes")


def _real() -> Rows | None:
    file = Path(os.environ.get("THERMOSET_DATA", "")) / "imagenet5k_efficientnet_lite0.npz"
    if not file.is_file():
        return None
    data = ts.load(file)
    copies = _ROWS // len(data)
    logits = np.tile(data.logits.astype(np.float32), (copies, 1))
    logits += np.random.default_rng(0).normal(scale=_JITTER, size=logits.shape).astype(np.float32)
    return logits, np.tile(data.require_labels("the benchmark"), copies)


def _large_sets() -> Rows:
    """Sets of 30 to 90 labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 1_000, _ROWS)
    logits = (1.8 * rng.normal(size=(_ROWS, 1_000))).astype(np.float32)
    logits[np.arange(_ROWS), labels] += rng.gamma(4, 2.2, _ROWS).astype(np.float32)
    return logits, labels


def cold(settings: Settings) -> Table:
    """Low temperatures, where a softmax saturates, against as many common ones."""
    logits, labels = _hundred_classes()
    _compiled()
    timings = best_of(
        {
            "common": _quiet(lambda: ts.sweep(logits, labels, temperature_grid("0.5:5:0.1"))),
            "cold": _quiet(lambda: ts.sweep(logits, labels, temperature_grid("0.01:0.46:0.01"))),
        },
        settings.repeats,
    )
    return Table(
        "Sweep at low temperatures, 10,000 × 100",
        [
            timed("T = 0.5 to 5", timings["common"]),
            timed("T = 0.01 to 0.46", timings["cold"], Target("<=", 2, "yardstick")),
        ],
    )


def grouped(settings: Settings) -> Table:
    """Thresholds by class against one for all: 46 temperatures, 100 trials."""
    logits, labels = _hundred_classes()
    _compiled()
    timings = best_of(
        {
            "one": _quiet(lambda: ts.sweep(logits, labels, GRID)),
            "class": _quiet(lambda: ts.sweep(logits, labels, GRID, grouping="class")),
        },
        min(settings.repeats, 2),
    )
    return Table(
        "Sweep with thresholds by class, 10,000 × 100",
        [
            timed("one threshold", timings["one"]),
            timed("one threshold per class", timings["class"], Target("<=", 6, "yardstick")),
        ],
    )


def _hundred_classes() -> tuple[NDArray[Any], NDArray[np.int64]]:
    """CIFAR-100 where it is at hand, else generated rows of that size."""
    file = Path(os.environ.get("THERMOSET_DATA", "")) / "cifar100_resnet50.npz"
    if file.is_file():
        data = ts.load(file)
        return data.logits, data.require_labels("the benchmark")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 100, 10_000)
    return (3 * rng.normal(size=(10_000, 100)) + 12 * np.eye(100)[labels]).astype(np.float32), labels


def _compiled() -> None:
    """Compile what sweeps need, or load it, before anything is timed."""
    for grouping in (None, "class"):
        few = np.zeros((100, 2), dtype=np.float32), np.arange(100) % 2
        _quiet(lambda few=few, grouping=grouping: ts.sweep(*few, [1.0], trials=1, grouping=grouping))()


def _quiet(run: Callable[[], Any]) -> Callable[[], Any]:
    def quietly() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ts.CoverageWarning)  # some classes have few rows
            return run()

    return quietly
