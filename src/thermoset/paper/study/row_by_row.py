"""What temperature does row by row: differences of set sizes (appendix B.4), and very low temperatures (B.5)."""

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thermoset.conformal import ConformalClassifier
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.levels import conformal_rank
from thermoset.core.pool import run_all
from thermoset.core.scores import RAPS
from thermoset.data import Logits
from thermoset.errors import CoverageWarning
from thermoset.paper.study.measure import Settings
from thermoset.sweeping import Protocol, Sweep, draw_trial, sweep, temperature_grid

__all__ = ["LowTemperatures", "SizeDifferences", "low_temperatures", "size_differences"]


_LOW_GRID = "0.01,0.02,0.03,0.05,0.07,0.1,0.14,0.2,0.3,0.5,1"
_LOW_TRIALS = 3
_LOW_ENTRIES = 500_000  # logits the naive scores are computed for; they sort at every temperature


@dataclass(frozen=True, eq=False)
class SizeDifferences:
    """Set sizes at T* minus those at T = 1, for the same rows, thresholds' rows and u.

    `mean_sorted` (n_rows,): the differences of each trial in falling order, averaged over trials. `grow`, `stay` and
    `shrink` are shares of the rows.
    """

    method: str
    mean_sorted: Floats
    grow: float
    stay: float
    shrink: float
    trials: int


def size_differences(
    data: Logits, method: str, temperatures: Floats, settings: Settings, cp: int, alpha: float
) -> SizeDifferences:
    """Compare the sets of each evaluation row with and without temperature scaling, a trial for each temperature."""
    protocol = settings.protocol(cp)
    falling: list[Ints] = [np.empty(0, dtype=np.int64)] * len(temperatures)

    def work(t: int) -> None:
        drawn = draw_trial(len(data), t, protocol)
        conformal, evaluation = data.take(drawn.conformal), data.take(drawn.evaluation)
        sizes = []
        for at in (1.0, float(temperatures[t])):
            model = ConformalClassifier(method, alpha, at).fit(conformal, u=drawn.u[drawn.conformal])
            sizes.append(model.set_sizes(evaluation, u=drawn.u[drawn.evaluation]))
        falling[t] = np.sort(sizes[1] - sizes[0])[::-1]

    run_all([partial(work, t) for t in range(len(temperatures))])
    moved = np.array(falling)
    shares = (float(np.mean(moved > 0)), float(np.mean(moved == 0)), float(np.mean(moved < 0)))
    return SizeDifferences(method, moved.mean(axis=0), *shares, len(temperatures))


@dataclass(frozen=True, eq=False)
class LowTemperatures:
    """Sets at low temperatures: ours, and as a plain softmax in float32 and float64 gives them.

    `naive[dtype][metric]` is (methods, temperatures), a mean over the same trials as `ours` has.
    """

    ours: Sweep
    naive: dict[str, dict[str, Floats]]


def low_temperatures(data: Logits, settings: Settings, alpha: float) -> LowTemperatures:
    """Measure size and coverage of LAC, APS and RAPS from T = 0.01 on, computed well and computed naively."""
    most = max(_LOW_ENTRIES // data.n_classes, 500)
    part = data if len(data) <= most else data.take(np.linspace(0, len(data) - 1, most).astype(np.int64))
    grid, protocol = temperature_grid(_LOW_GRID), settings.protocol(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # classes without rows: no class gap is looked at
        ours = sweep(
            part,
            temperatures=grid,
            alphas=(alpha,),
            trials=_LOW_TRIALS,
            calibration_fraction=protocol.calibration_fraction,
            cp_fraction=protocol.cp_fraction,
            random_state=protocol.random_state,
        )
    return LowTemperatures(
        ours, {name: _naive_curves(part, grid, protocol, alpha, name) for name in ("float32", "float64")}
    )


def _naive_curves(data: Logits, grid: Floats, protocol: Protocol, alpha: float, dtype: DTypeLike) -> dict[str, Floats]:
    labels = data.require_labels("the study")
    size, coverage = np.zeros((2, 3, len(grid)))
    for j, temperature in enumerate(grid.tolist()):
        probs = _naive_softmax(data.logits, temperature, dtype)
        for t in range(_LOW_TRIALS):
            drawn = draw_trial(len(data), t, protocol)
            k = conformal_rank(len(drawn.conformal), alpha)
            for m, scores in enumerate(_naive_scores(probs, drawn.u.astype(dtype))):
                threshold = np.sort(scores[drawn.conformal, labels[drawn.conformal]])[k - 1]
                sets = scores[drawn.evaluation] <= threshold
                size[m, j] += sets.sum() / len(sets) / _LOW_TRIALS
                coverage[m, j] += sets[np.arange(len(sets)), labels[drawn.evaluation]].mean() / _LOW_TRIALS
    return {"avg_size": size, "marginal_coverage": coverage}


def _naive_softmax(logits: NDArray[np.floating], temperature: float, dtype: DTypeLike) -> NDArray[np.floating]:
    """Softmax as everyone writes it: shares that underflow are zero."""
    z = logits.astype(dtype)
    weights = np.exp((z - z.max(axis=1, keepdims=True)) / np.array(temperature, dtype))
    probs: NDArray[np.floating] = weights / weights.sum(axis=1, keepdims=True)
    return probs


def _naive_scores(probs: NDArray[np.floating], u: NDArray[np.floating]) -> list[NDArray[np.floating]]:
    """LAC, APS and RAPS of every label by sorting probabilities: those that underflow tie."""
    order = np.argsort(-probs, axis=1, kind="stable")
    ranked = np.take_along_axis(probs, order, axis=1)
    aps_ranked = np.cumsum(ranked, axis=1, dtype=probs.dtype) - (1 - u[:, None]) * ranked
    known = RAPS()
    excess = np.maximum(np.arange(1, probs.shape[1] + 1) - known.k_reg, 0).astype(probs.dtype)
    raps_ranked = aps_ranked + probs.dtype.type(known.penalty) * excess
    aps, raps = np.empty_like(probs), np.empty_like(probs)
    np.put_along_axis(aps, order, aps_ranked, axis=1)
    np.put_along_axis(raps, order, raps_ranked, axis=1)
    return [1 - probs, aps, raps]
