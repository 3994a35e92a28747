"""The critical temperature as data show it: where the mean set size peaks, and how that moves with the classes."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thermoset.bounds import checked_seed, whole_number
from thermoset.data import Logits
from thermoset.errors import CoverageWarning, InputError
from thermoset.levels import Alpha, rows_needed
from thermoset.paper.theory.bound import critical_temperature
from thermoset.paper.theory.sorted_rows import Bools, Floats, Ints, checked_rank, finite_logits
from thermoset.quoting import Brief, quoted
from thermoset.scores import Score
from thermoset.sweeping import MOST_TRIALS, Sweep, sweep

__all__ = ["ClassPeaks", "Peak", "measured_peak", "peaks_by_classes", "size_sweep"]

_LEAST_ROWS = 200  # of a subset: fewer show no peak worth a dot
_MOST_CELLS = 2**26  # of a subset, in memory: of more rows, so many at random
_STEP = 1024  # rows that are looked at at once


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
    >>> peak = measured_peak(sweep(logits, labels, [0.5, 1, 2.5, 5, 8], ["aps"], trials=20))
    >>> peak.temperature, peak.at_edge
    (2.5, False)
    """
    size = curves.curve("avg_size", method, alpha)
    place = int(size.argmax())
    return Peak(float(curves.temperatures[place]), float(size[place]), place in (0, len(size) - 1))


@dataclass(frozen=True, eq=False, repr=False)
class ClassPeaks(Brief):
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
    n_classes: Sequence[int] | None = None,
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
    Without `n_classes`, subsets of 5, 10, 20, 50, ... classes are taken, as far as every such subset has 200 rows.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 20, size=2000)
    >>> logits = 3 * (rng.normal(size=(2000, 20)) + 3 * np.eye(20)[labels])
    >>> found = peaks_by_classes(logits, labels, [5, 20], temperatures=[0.5, 1, 2, 3, 4, 8], repeats=2)
    >>> found.measured.shape, found.predicted.round(2)
    ((2, 2), array([2.72, 1.64]))
    """
    data = finite_logits(logits, labels)
    y = data.require_labels("peaks_by_classes")
    wanted = _sizes(np.bincount(y, minlength=data.n_classes), alpha) if n_classes is None else np.asarray(n_classes)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu" or not np.all((wanted >= 2) & (wanted <= data.n_classes)):
        raise InputError(f"n_classes must be whole numbers from 2 to {data.n_classes}; got {quoted(n_classes)}.")
    turns = whole_number(repeats, "repeats", 1, MOST_TRIALS, "Try 5.")
    protocol = {"temperatures": list(temperatures), "methods": [method], "alphas": [alpha], "trials": trials}
    rng = np.random.default_rng(checked_seed(random_state))
    found = []
    for count in wanted.tolist():
        for _ in range(turns):
            chosen = np.sort(rng.choice(data.n_classes, size=count, replace=False))
            rows = np.flatnonzero(np.isin(y, chosen))
            most = max(_MOST_CELLS // count, _LEAST_ROWS)
            if len(rows) > most:
                rows = np.sort(rng.permutation(rows)[:most])
            checked_rank(len(rows) // 2, alpha)
            part = np.concatenate([block[:, chosen] for _, block in data.take(rows).blocks(_STEP)])
            found.append(_peak_of(Logits(part, np.searchsorted(chosen, y[rows])), protocol))
    shape = (len(wanted), turns)
    return ClassPeaks(
        n_classes=wanted,
        predicted=critical_temperature(wanted),
        measured=np.array([peak.temperature for peak in found]).reshape(shape),
        at_edge=np.array([peak.at_edge for peak in found]).reshape(shape),
    )


def _sizes(counts: Ints, alpha: Alpha) -> Ints:
    """Sizes of subsets below C whose rows are enough, whichever classes are drawn."""
    rows = np.cumsum(np.sort(counts))[:-1]
    enough = 1 + np.flatnonzero(rows // 2 >= max(_LEAST_ROWS // 2, rows_needed(alpha)))
    steps = [step * 10**k for k in range(1 + len(str(len(counts)))) for step in (5, 10, 20)]
    return np.intersect1d(np.unique(steps), enough).astype(np.int64)


def size_sweep(data: Logits, **asked: Any) -> Sweep:
    """A sweep for its sizes: which classes have evaluation rows is of no concern to them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        return sweep(data, **asked)


def _peak_of(part: Logits, protocol: dict[str, Any]) -> Peak:
    curves = size_sweep(part, calibration_fraction=0, cp_fraction=0.5, evaluation="integrated", **protocol)
    return measured_peak(curves, curves.methods[0])
