"""A small project that uses thermoset with types: `mypy --strict` must have nothing to say.

`make check` runs it against the editable installation, `make release` against the wheel.
"""

from pathlib import Path
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import thermoset as ts
from thermoset.predictor import Prediction


def tuned(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> ts.TwoTemperaturePredictor:
    """Rows in, predictor out."""
    predictor = ts.TwoTemperaturePredictor("auto", alpha=0.1, prefer="protect").fit(ts.Logits(logits, labels))
    assert_type(predictor, ts.TwoTemperaturePredictor)
    assert_type(predictor.temperature_, float)
    assert_type(predictor.temperature_sets_, float)
    return predictor


def served(path: Path, logits: NDArray[np.float32]) -> list[str]:
    """From a saved predictor to lines."""
    predictor = ts.TwoTemperaturePredictor.load(path)
    assert_type(predictor.predict_set(logits), NDArray[np.bool_])
    assert_type(predictor.set_sizes(logits), NDArray[np.int64])
    assert_type(predictor.predict_p(logits), NDArray[np.float64])
    records = predictor.predict_records(logits)
    assert_type(records, list[Prediction])
    return [f"{one.label} ({one.confidence:.0%}): {', '.join(map(str, one.set))}" for one in records]


def watched(predictor: ts.TwoTemperaturePredictor, fresh: ts.Logits) -> bool:
    """Whether the promise is kept."""
    report = predictor.check(fresh)
    assert_type(report.ok, bool)
    assert_type(report.avg_size, float)
    return report.ok


def compared(data: ts.Logits) -> float:
    """The parts, one by one."""
    known, rest = data.split(0.5)
    assert_type(known, ts.Logits)
    model = ts.ConformalClassifier(ts.RAPS(penalty=0.01, k_reg=5), alpha=0.1, temperature=1.5).fit(known)
    sets = model.predict_set(rest)
    labels = rest.require_labels("the example")
    scaler = ts.TemperatureScaler(objective="ece").fit(known)
    assert_type(scaler.predict_proba(rest), NDArray[np.float64])
    found = ts.sweep(data, temperatures=[0.5, 1.0, 2.0], methods=["lac", ts.APS()], trials=5)
    assert_type(found, ts.Sweep)
    assert_type(ts.metrics.avg_size(sets), float)
    assert_type(ts.theory.critical_temperature(100), float)
    return ts.metrics.marginal_coverage(sets, labels)


def read(path: str) -> int:
    """Files, and the one error that callers catch."""
    try:
        return ts.load(path).n_classes
    except ts.InputError:
        return 0
