"""Prediction sets: time compared with a sort, and with one threshold per class."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import best_of, network_logits
from benchmarks.report import Settings, Table, Target, timed
from thermoset import ConformalClassifier

__all__ = ["fitted", "mondrian", "raps"]

ALPHA = 0.1
_CONFORMAL_ROWS = 10_000


def fitted(method: str, classes: int, rows: int = _CONFORMAL_ROWS, **options: Any) -> ConformalClassifier:
    """A classifier calibrated on its own rows, every kernel it needs compiled."""
    logits, labels = network_logits(rows, classes, seed=1)
    model = ConformalClassifier(method, alpha=ALPHA, **options).fit(logits, labels)
    model.predict_set(logits[:100])
    return model


def raps(settings: Settings) -> Table:
    """Randomised RAPS against a plain sort of the rows, and LAC, which needs none, against a softmax of float32."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    by_rank, by_share = fitted("raps", settings.classes), fitted("lac", settings.classes)
    share = np.float32(1 - by_share.threshold_)

    def softmax_and_compare() -> NDArray[np.bool_]:
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True) >= share)

    contenders = {
        "numpy.sort(logits, axis=1)": lambda: np.sort(logits, axis=1),
        "predict_set, RAPS": lambda: by_rank.predict_set(logits),
        "NumPy softmax and compare": softmax_and_compare,
        "predict_set, LAC": lambda: by_share.predict_set(logits),
    }
    timings = best_of(contenders, settings.repeats)
    lac, plain = timings["predict_set, LAC"], timings["NumPy softmax and compare"].seconds or np.nan
    limit = Target("<=", 0.55 * plain, "value")
    rank = timings["predict_set, RAPS"]
    return Table(
        f"Prediction sets, {settings.rows:,} × {settings.classes:,} float32",
        [
            timed("numpy.sort(logits, axis=1)", timings["numpy.sort(logits, axis=1)"]),
            timed("predict_set, RAPS", rank, Target("<=", 1.5, "yardstick"), _quality(rank.result, labels)),
            timed("NumPy softmax and compare", timings["NumPy softmax and compare"]),
            timed("predict_set, LAC", lac, limit, f"{(lac.seconds or np.nan) / plain:.2f} times it (target 0.55)"),
        ],
    )


def mondrian(settings: Settings) -> Table:
    """One threshold for each class, compared with the argsort that such sets would take: they are no prefixes."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    rows = max(_CONFORMAL_ROWS, 50 * settings.classes)  # enough of every class for a finite threshold
    model = fitted("raps", settings.classes, rows, grouping="class")
    cp_rows = network_logits(rows, settings.classes, seed=1)
    contenders = {
        "numpy.argsort(logits, axis=1)": lambda: np.argsort(logits, axis=1),
        "fit": lambda: model.fit(*cp_rows),
        "predict_set": lambda: model.predict_set(logits),
    }
    timings = best_of(contenders, settings.repeats)
    targets = {"predict_set": Target("<=", 1.5, "yardstick")}
    notes = {"fit": f"{rows:,} rows", "predict_set": _quality(timings["predict_set"].result, labels)}
    return Table(
        f"Randomised RAPS, one threshold per class, {settings.rows:,} × {settings.classes:,} float32",
        [timed(name, timings[name], targets.get(name), notes.get(name, "")) for name in contenders],
    )


def _quality(sets: Any, labels: NDArray[np.int64]) -> str:
    """Coverage and size, so that nobody is fast by being wrong."""
    inside = np.asarray(sets, dtype=bool)
    coverage = inside[np.arange(len(labels)), labels].mean()
    return f"coverage {coverage:.3f}, {np.count_nonzero(inside) / len(labels):.1f} labels per set"
