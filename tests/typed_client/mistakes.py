"""Mistakes that a type checker must find: each `type: ignore` names the error, and an unused one is an error too."""

import numpy as np

import thermoset as ts

ROWS = np.zeros((4, 3), dtype=np.float32)

ts.TwoTemperaturePredictor(objective="accuracy")  # type: ignore[arg-type]
ts.TemperatureScaler("brier")  # type: ignore[arg-type]
ts.ConformalClassifier("raps", alfa=0.1)  # type: ignore[call-arg]
ts.RAPS(penalty="0.01")  # type: ignore[arg-type]
ts.sweep(ROWS, trials="100")  # type: ignore[arg-type]
ts.TwoTemperaturePredictor.load(7)  # type: ignore[arg-type]
size: str = ts.metrics.avg_size(ROWS > 0)  # type: ignore[assignment]
ts.Logits(ROWS).n_labels  # type: ignore[attr-defined]  # noqa: B018 (never run)
ts.TwoTemperaturePredicter  # type: ignore[attr-defined]  # noqa: B018 (never run)
