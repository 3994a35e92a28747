"""What work costs, as a formula: measured at several sizes, fitted, and stretched to a billion rows.

Core-seconds of a stage are taken as a sum of terms, each a product of rows, classes and temperatures; the factors come
from a least-squares fit of relative errors that allows no negative ones. The last column of the table says how well the
formula gives back what was measured.
"""

import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from benchmarks.report import Line, Settings, Table

__all__ = ["costs"]


class Size(NamedTuple):
    """Of a run: rows, classes, temperatures."""

    rows: int
    classes: int
    temperatures: int = 1


class Model(NamedTuple):
    """A stage: how it is measured at a size, its terms in words and as functions, and the sizes it is measured at."""

    measure: Callable[[Size], float]
    words: tuple[str, ...]
    terms: Callable[[Size], Sequence[float]]
    sizes: tuple[Size, ...]
    huge: Size


_BILLION = 10**9
_SWEPT = tuple(
    Size(*size)
    for size in ((20_000, 100, 12), (20_000, 100, 48), (20_000, 1_000, 12), (20_000, 1_000, 48), (5_000, 4_000, 24))
)
_READ = tuple(Size(*size) for size in ((200_000, 100), (50_000, 1_000), (20_000, 1_000), (10_000, 5_000)))


def costs(settings: Settings) -> Table:
    """Factors of the formulas in docs/large-data.md."""
    lines = []
    for name, model in _models().items():
        rows = np.array([model.terms(size) for size in model.sizes], dtype=np.float64)
        seconds = np.array([settings.threads * model.measure(size) for size in model.sizes])
        factors, _ = nnls(rows / seconds[:, None], np.ones(len(seconds)))
        worst = float(np.abs(rows @ factors / seconds - 1).max())
        huge = float(np.array(model.terms(model.huge)) @ factors)
        words = " + ".join(f"{1e9 * factor:.2f} ns × {word}" for factor, word in zip(factors, model.words, strict=True))
        note = f"{words}; within {worst:.0%} of the measurements"
        lines.append(
            Line(f"{name}, core-hours for a billion rows × 1,000 classes", huge / 3600, len(seconds), note=note)
        )
    return Table("Cost model", lines, unit="h")


def _models() -> dict[str, Model]:
    per_logit = ("rows × classes", "rows")
    return {
        "predict to parquet": Model(_predict, per_logit, _by_logit, _READ, Size(_BILLION, 1_000)),
        "check": Model(_check, per_logit, _by_logit, _READ, Size(_BILLION, 1_000)),
        "recalibrate": Model(_recalibrate, per_logit, _by_logit, _READ, Size(_BILLION, 1_000)),
        "sweep, 3 scores, 20 trials": Model(
            _sweep,
            ("rows × classes × temperatures", "rows × classes", "rows × temperatures"),
            lambda size: (
                size.rows * size.classes * size.temperatures,
                size.rows * size.classes,
                size.rows * size.temperatures,
            ),
            _SWEPT,
            Size(_BILLION, 1_000, 48),
        ),
    }


def _by_logit(size: Size) -> tuple[float, float]:
    return size.rows * size.classes, size.rows


def _rows(size: Size) -> "tuple[np.ndarray, np.ndarray]":
    rng = np.random.default_rng(0)
    labels = rng.integers(0, size.classes, size.rows)
    logits = rng.standard_normal((size.rows, size.classes), dtype=np.float32)
    logits[np.arange(size.rows), labels] += 3.5
    return 2.5 * logits, labels


def _fitted(size: Size) -> "tuple[object, object]":
    import thermoset as ts

    logits, labels = _rows(size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = ts.Logits(1.01 * logits[:2000], labels[:2000])  # rows that made a predictor may not judge it
        return ts.TwoTemperaturePredictor(prefer="small").fit(few), ts.Logits(logits, labels)


def _seconds(work: Callable[[], object]) -> float:
    best = np.inf
    for _ in range(2):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return float(best)


def _predict(size: Size) -> float:
    import thermoset as ts
    from thermoset.predictor.many_files import predict_shards

    predictor, data = _fitted(size)
    with tempfile.TemporaryDirectory() as folder:
        ts.save(Path(folder) / "rows_logits.npy", data)
        taken = iter(range(9))
        return _seconds(
            lambda: predict_shards(
                predictor, Path(folder) / "rows_logits.npy", f"{folder}/{next(taken)}", kind="parquet"
            )
        )


def _check(size: Size) -> float:
    predictor, data = _fitted(size)
    return _seconds(lambda: predictor.check(data))


def _recalibrate(size: Size) -> float:
    predictor, data = _fitted(size)
    return _seconds(lambda: predictor.recalibrate(data))


def _sweep(size: Size) -> float:
    import thermoset as ts

    logits, labels = _rows(size)
    grid = np.linspace(0.3, 5, size.temperatures)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _seconds(lambda: ts.sweep(logits, labels, grid, trials=20))
