"""What the theory says about a file of logits, and what its sets do."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from thermoset.bounds import checked_temperature
from thermoset.calibration import TemperatureScaler, label_logits
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.paper.theory.bound import BoundIntervals, critical_temperature, temperature_intervals
from thermoset.paper.theory.class_coverage import ClassCoverage, RankLimit, class_coverage, rank_limit
from thermoset.paper.theory.peaks import Peak, measured_peak, size_sweep
from thermoset.paper.theory.quantile import QuantileSamples, quantile_samples, score_order
from thermoset.paper.theory.routes import Routes, routes
from thermoset.paper.theory.slopes import SizeSlopes, size_slopes
from thermoset.paper.theory.sorted_rows import Floats, Ints, checked_rank, distances, finite_logits
from thermoset.quoting import Brief
from thermoset.sweeping import Sweep

__all__ = ["Explanation", "TypicalRows", "explain"]

_SLOPES = 25  # temperatures at which derivatives are taken
_DEEPEST = 650.0  # (z_1 - z_y) / T whose exponential is still an ordinary number


@dataclass(frozen=True, eq=False, repr=False)
class TypicalRows(Brief):
    """The evaluation rows in the middle tenth by deterministic APS score at T = 1: the paper's typical samples.

    Neighbours by score differ much in their margins, so one row, the median, would be decided by chance.

    Attributes
    ----------
    rows : (k,)
        Their row numbers, by increasing score.
    margin : (3,)
        Lower quartile, median and upper quartile of their margins.
    by_bound, by_sharp, by_proposition, claimed : float
        Share of them that each route covers, and for which the claim is true, from 1 to T* with u = 1.
    intervals : BoundIntervals
        The temperatures at which their median margin is above b(T).
    """

    rows: Ints
    margin: Floats
    by_bound: float
    by_sharp: float
    by_proposition: float
    claimed: float
    intervals: BoundIntervals


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Brief):
    """The theory and the data side by side.

    Attributes
    ----------
    n_rows : tuple
        Numbers of rows that T* was fitted on, that set thresholds, and that were evaluated.
    n_classes, alpha, temperature
        C, the level, and T*.
    critical : float
        The critical temperature of the theory, from C alone: the minimum of the proof's bound b(T).
    peaks : mapping
        Where mean set sizes peak, by name: "aps" and "raps" (u drawn), "aps, u = 1".
    drawn, fixed : Routes
        What the three routes say about the step from 1 to T*, with u drawn and with u = 1.
    typical : TypicalRows
    slopes : SizeSlopes
        What moves the mean size of APS sets, at up to 25 temperatures of the grid; all rows are the population. Not at
        temperatures so low that probabilities of labels underflow.
    classes : ClassCoverage
        Class coverage of APS sets at the same temperatures.
    limit : RankLimit
        Where size and class coverage end as T grows.
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
    typical: TypicalRows
    slopes: SizeSlopes
    classes: ClassCoverage
    limit: RankLimit
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
    """Compare the theory with labelled rows, split once for T*, thresholds and evaluation, as in the trials of a sweep.

    T* is fitted unless `temperature` is given. `temperatures` and `trials` are those of the measured curves.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 20, size=2000)
    >>> logits = 3 * (rng.normal(size=(2000, 20)) + 3 * np.eye(20)[labels])
    >>> found = explain(logits, labels, temperatures=[0.5, 1, 2.5, 5, 8], trials=20)
    >>> round(found.critical, 2), found.peaks["aps"].temperature
    (1.64, 2.5)
    >>> found.slopes.peaks.round(1)  # where scores fall as fast as the threshold
    array([2.4])
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
        raise InputError("the theory compares sets at T with sets at 1, but T is 1 here. Pass another temperature.")
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
    grid = _slope_grid(data, curves.temperatures)
    return Explanation(
        n_rows=(len(calibration), len(conformal), len(fresh)),
        n_classes=data.n_classes,
        alpha=float(exact_level(alpha)),
        temperature=t,
        critical=critical_temperature(data.n_classes),
        peaks=peaks,
        drawn=drawn,
        fixed=fixed,
        typical=_typical_rows(score_order(fresh), fixed, data.n_classes),
        slopes=size_slopes(data, temperatures=grid, alpha=alpha),
        classes=class_coverage(data, temperatures=grid, alpha=alpha),
        limit=rank_limit(data, alpha=alpha),
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


def _slope_grid(data: Logits, temperatures: Floats) -> list[float]:
    """At most 25 temperatures of the grid, its ends among them, at which no label's probability underflows."""
    at = label_logits(data, data.require_labels("explain"))
    deepest = float(distances(at.own, at.top, 1.0).max())
    able = temperatures[temperatures * _DEEPEST >= deepest]
    places = np.linspace(0, len(able) - 1, min(len(able), _SLOPES)).round().astype(int)
    found: list[float] = able[places].tolist()
    return found


def _typical_rows(order: Ints, fixed: Routes, n_classes: int) -> TypicalRows:
    half = max(len(order) // 20, 1)
    middle = (len(order) - 1) // 2
    rows = order[max(middle - half, 0) : middle + half + 1]
    quartiles = np.quantile(fixed.margin[rows], [0.25, 0.5, 0.75])
    return TypicalRows(
        rows=rows,
        margin=quartiles,
        by_bound=float(fixed.by_bound[rows].mean()),
        by_sharp=float(fixed.by_sharp[rows].mean()),
        by_proposition=float(fixed.by_proposition[rows].mean()),
        claimed=float(fixed.claimed[rows].mean()),
        intervals=temperature_intervals(float(quartiles[1]), n_classes),
    )
