"""The critical temperature as data show it: where the mean set size peaks, and how that moves with the classes."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thermoset.data import Logits
from thermoset.errors import CoverageWarning, InputError
from thermoset.estimators import checked_seed
from thermoset.levels import Alpha
from thermoset.scores import Score
from thermoset.sweeping import Sweep, sweep
from thermoset.theory.bound import critical_temperature
from thermoset.theory.rows import Bools, Floats, Ints, checked_rank, finite_logits

__all__ = ["ClassPeaks", "Peak", "measured_peak", "peaks_by_classes"]


@dataclass(frozen=True)
class Peak:
    """Where a curve of mean set sizes is largest. At an edge of the grid there may be none, or one beyond it."""

    temperature: float
    size: float
    at_edge: bool


def measured_peak(curves: Sweep, method: str = "aps", alpha: float | None = None) -> Peak:
    """Temperature of a sweep's grid at which the mean set size is largest.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 20, size=2000)
    >>> logits = 3 * (rng.normal(size=(2000, 20)) + 3 * np.eye(20)[labels])
    >>> peak = measured_peak(sweep(logits, labels, [0.5, 1, 2, 3, 4, 8], ["aps"], trials=20))
    >>> peak.temperature, peak.at_edge
    (3.0, False)
    """
    size = curves.curve("avg_size", method, alpha)
    place = int(size.argmax())
    return Peak(float(curves.temperatures[place]), float(size[place]), place in (0, len(size) - 1))


@dataclass(frozen=True, eq=False)
class ClassPeaks:
    """Critical temperatures of subsets of the classes: what theory says of each size, and what was measured.

    `measured` and `at_edge` are (n_sizes, repeats), one entry for each random subset.
    """

    n_classes: Ints
    predicted: Floats
    measured: Floats
    at_edge: Bools


def peaks_by_classes(
    logits: Any,
    labels: Any = None,
    n_classes: Sequence[int] = (5, 10, 20, 50, 100),
    *,
    temperatures: Iterable[float],
    method: str | Score = "aps",
    alpha: Alpha = 0.1,
    repeats: int = 5,
    trials: int = 20,
    random_state: int = 0,
) -> ClassPeaks:
    """Measure the peak on random subsets of the classes: their rows, and their columns alone.

    The model stays the same, so what moves the peak is the number of classes. Half of the rows set the thresholds.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 20, size=2000)
    >>> logits = 3 * (rng.normal(size=(2000, 20)) + 3 * np.eye(20)[labels])
    >>> found = peaks_by_classes(logits, labels, [5, 20], temperatures=[0.5, 1, 2, 3, 4, 8], repeats=2)
    >>> found.measured.shape, found.predicted.round(2)
    ((2, 2), array([2.72, 1.64]))
    """
    data = finite_logits(logits, labels)
    y = data.require_labels("peaks_by_classes")
    wanted = np.asarray(n_classes)
    if wanted.ndim != 1 or not wanted.size or not (wanted.min() >= 2 and wanted.max() <= data.n_classes):
        raise InputError(f"n_classes must be numbers from 2 to {data.n_classes}; got {n_classes!r}.")
    grid = list(temperatures)
    rng = np.random.default_rng(checked_seed(random_state))
    found = []
    for count in wanted.tolist():
        for _ in range(repeats):
            chosen = np.sort(rng.choice(data.n_classes, size=count, replace=False))
            rows = np.flatnonzero(np.isin(y, chosen))
            checked_rank(len(rows) // 2, alpha)
            part = Logits(data.logits[np.ix_(rows, chosen)], np.searchsorted(chosen, y[rows]))
            found.append(_peak_of(part, grid, method, alpha, trials))
    shape = (len(wanted), repeats)
    return ClassPeaks(
        n_classes=wanted,
        predicted=critical_temperature(wanted),
        measured=np.array([peak.temperature for peak in found]).reshape(shape),
        at_edge=np.array([peak.at_edge for peak in found]).reshape(shape),
    )


def _peak_of(part: Logits, grid: list[float], method: str | Score, alpha: Alpha, trials: int) -> Peak:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # classes without evaluation rows: sizes do not ask for them
        curves = sweep(part, None, grid, [method], [alpha], trials, 0, 0.5, evaluation="integrated")
    return measured_peak(curves, curves.methods[0])
