"""Class-conditional sets in a sweep: not prefixes of a ranking, so each trial fits and predicts for itself."""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal import ConformalClassifier
from thermoset.data import Logits
from thermoset.errors import CoverageWarning
from thermoset.levels import Alpha
from thermoset.metrics import METRICS as SET_METRICS
from thermoset.pool import run_all
from thermoset.scores import Score
from thermoset.sweeping.passes import METRICS, Plan
from thermoset.sweeping.trials import Protocol, draw_trial

__all__ = ["run_class_conditional"]


def run_class_conditional(
    data: Logits,
    plan: Plan,
    kind: str,
    trials: int,
    protocol: Protocol,
    progress: Callable[[int, int], None] | None,
) -> NDArray[np.float64]:
    """Measure Mondrian or clustered sets; `threshold` is the mean of the finite thresholds."""
    values = np.full((*plan.shape, len(plan.metrics), trials), np.nan)
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, trials)

    def work(t: int) -> None:
        drawn = draw_trial(len(data), t, protocol)
        conformal, evaluation = data.take(drawn.conformal), data.take(drawn.evaluation)
        for m, score in enumerate(plan.scores):
            for j, temperature in enumerate(plan.temperatures):
                for a, alpha in enumerate(plan.alphas):
                    model = _classifier(score, alpha, float(temperature), kind, plan, protocol)
                    model.fit(conformal, u=drawn.u[drawn.conformal])
                    sets = model.predict_set(evaluation, u=drawn.u[drawn.evaluation])
                    labels = evaluation.require_labels("sweep")
                    values[m, j, a, :, t] = [
                        _mean_finite(np.atleast_1d(model.threshold_))
                        if name == "threshold"
                        else SET_METRICS[name](sets, labels, alpha)
                        for name in METRICS
                    ]

    with warnings.catch_warnings():
        # Classes with too few rows are the rule in these trials; their labels enter every set, which the sizes show.
        warnings.simplefilter("ignore", CoverageWarning)
        run_all([partial(work, t) for t in range(trials)], n_jobs=1, progress=tick)
    return values


def _classifier(
    score: Score, alpha: Alpha, temperature: float, kind: str, plan: Plan, protocol: Protocol
) -> ConformalClassifier:
    return ConformalClassifier(
        score,
        alpha,
        temperature,
        randomized=protocol.randomized,
        allow_empty=plan.allow_empty,
        class_conditional=kind,  # type: ignore[arg-type]
        random_state=protocol.random_state,
    )


def _mean_finite(thresholds: NDArray[np.float64]) -> float:
    finite = thresholds[np.isfinite(thresholds)]
    return float(finite.mean()) if finite.size else float("inf")
