"""What the theory says of a file of logits, beside what its sets do: everything `thermoset theory` prints."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from thermoset.bounds import checked_temperature
from thermoset.calibration import TemperatureScaler
from thermoset.core.levels import Alpha, exact_level
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.paper.theory.bound import BoundIntervals, critical_temperature, temperature_intervals
from thermoset.paper.theory.peaks import Peak, measured_peak, size_sweep
from thermoset.paper.theory.quantile import QuantileSamples, quantile_samples, score_order
from thermoset.paper.theory.routes import Routes, routes
from thermoset.paper.theory.sorted_rows import Ints, checked_rank, finite_logits
from thermoset.sweeping import Sweep

__all__ = ["Explanation", "MedianRow", "explain"]


@dataclass(frozen=True, eq=False)
class MedianRow:
    """The evaluation row whose deterministic APS score at T = 1 is the median: the paper's typical sample.

    `by_bound` and `by_proposition` say which route explains what its set does from 1 to T*, `claimed` whether its L did
    so; `intervals` are the temperatures at which its margin is above the bound.
    """

    row: int
    margin: float
    by_bound: bool
    by_proposition: bool
    claimed: bool
    intervals: BoundIntervals


@dataclass(frozen=True, eq=False)
class Explanation:
    """The theory and the data side by side.

    Attributes
    ----------
    n_rows : tuple
        Rows that T* was fitted on, that set thresholds, and that were judged.
    n_classes, alpha, temperature
        C, the level, and T*.
    critical : float
        The critical temperature of the theory, from C alone.
    peaks : mapping
        Where mean set sizes peak, by name: "aps" and "raps" (u drawn), "aps, u = 1".
    drawn, fixed : Routes
        What the three routes say of the step from 1 to T*, with u drawn and with u = 1.
    median : MedianRow
    samples : QuantileSamples
        The quantile samples of the threshold rows at T = 0.5, 1, T* and 2.
    curves : Sweep
        Mean set sizes with u drawn, over random splits.
    """

    n_rows: tuple[int, int, int]
    n_classes: int
    alpha: float
    temperature: float
    critical: float
    peaks: Mapping[str, Peak]
    drawn: Routes
    fixed: Routes
    median: MedianRow
    samples: QuantileSamples
    curves: Sweep


def explain(
    logits: Any,
    labels: Any = None,
    *,
    alpha: Alpha = 0.1,
    temperature: float | None = None,
    objective: Literal["nll", "ece"] = "nll",
    temperatures: Iterable[float] | None = None,
    trials: int = 100,
    calibration_fraction: Alpha = 0.1,
    cp_fraction: Alpha = 0.1,
    random_state: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Confront the theory with labelled rows, split once for T*, thresholds and judgement, as a sweep's trials are.

    T* is fitted unless `temperature` is given. `temperatures` and `trials` are those of the measured curves.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 20, size=2000)
    >>> logits = 3 * (rng.normal(size=(2000, 20)) + 3 * np.eye(20)[labels])
    >>> found = explain(logits, labels, temperatures=[0.5, 1, 2, 3, 4, 8], trials=20)
    >>> round(found.critical, 2), found.peaks["aps"].temperature
    (1.64, 3.0)
    >>> len(found.fixed.proposition.violations), len(found.drawn.proposition.violations)
    (0, 0)
    """
    data = finite_logits(logits, labels)
    data.require_labels("explain")
    calibration, conformal, fresh = data.split(calibration_fraction, cp_fraction, random_state=random_state)
    checked_rank(len(conformal), alpha)
    if temperature is None:
        t = float(TemperatureScaler(objective).fit(calibration).temperature_)
    else:
        t = checked_temperature(temperature)
    if t == 1:
        raise InputError("the theory compares sets at T with those at 1; T is 1 here. Name another temperature.")
    fixed, drawn = (
        routes(conformal, fresh, t, alpha=alpha, randomized=u_drawn, random_state=random_state)
        for u_drawn in (False, True)
    )
    protocol = {
        "temperatures": None if temperatures is None else list(temperatures),
        "alphas": [alpha],
        "trials": trials,
        "calibration_fraction": calibration_fraction,
        "cp_fraction": cp_fraction,
        "random_state": random_state,
    }
    curves, peaks = _measured(data, protocol, progress or (lambda _done, _total: None))
    return Explanation(
        n_rows=(len(calibration), len(conformal), len(fresh)),
        n_classes=data.n_classes,
        alpha=float(exact_level(alpha)),
        temperature=t,
        critical=critical_temperature(data.n_classes),
        peaks=peaks,
        drawn=drawn,
        fixed=fixed,
        median=_median_row(score_order(fresh), fixed, data.n_classes),
        samples=quantile_samples(conformal, temperatures=sorted({0.5, 1.0, t, 2.0}), alpha=alpha),
        curves=curves,
    )


def _measured(
    data: Logits, protocol: dict[str, Any], tell: Callable[[int, int], None]
) -> tuple[Sweep, dict[str, Peak]]:
    """Curves of mean set sizes with u drawn, and the peaks of these and of deterministic APS."""
    curves = size_sweep(data, methods=["aps", "raps"], progress=lambda i, n: tell(i, 2 * n), **protocol)
    plain = size_sweep(data, methods=["aps"], randomized=False, progress=lambda i, n: tell(n + i, 2 * n), **protocol)
    peaks = {method: measured_peak(curves, method) for method in curves.methods}
    return curves, {**peaks, "aps, u = 1": measured_peak(plain)}


def _median_row(order: Ints, fixed: Routes, n_classes: int) -> MedianRow:
    row = int(order[(len(order) - 1) // 2])
    margin = float(fixed.margin[row])
    return MedianRow(
        row=row,
        margin=margin,
        by_bound=bool(fixed.by_bound[row]),
        by_proposition=bool(fixed.by_proposition[row]),
        claimed=bool(fixed.claimed[row]),
        intervals=temperature_intervals(margin, n_classes),
    )
