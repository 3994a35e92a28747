"""Collecting every number of the page, from the public functions that compute them."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.artifact import Artifact, fingerprint
from thermoset.calibration import probabilities
from thermoset.data import Logits, as_logits
from thermoset.errors import InputError
from thermoset.levels import exact_level, rows_needed
from thermoset.metrics import (
    brier_score,
    negative_log_likelihood,
    noise_floor_of_counts,
    reliability_table,
)
from thermoset.predictor import TwoTemperaturePredictor
from thermoset.report.record import Calibration, Examples, Report
from thermoset.report.rows import roles_of
from thermoset.report.sets import movements, pick_examples, set_facts, sets_of_examples
from thermoset.scores import SCORES
from thermoset.sweeping import Sweep, sweep
from thermoset.theory import critical_temperature
from thermoset.tuning import default_grid

__all__ = ["build_report"]

Progress = Callable[[int, int], None]

_BINS = 10
_EXAMPLES = 12
_TRIALS = 100
_BY_CLASS_TRIALS = 5  # each costs a fit and a prediction at every temperature
_BY_CLASS_CELLS = 60_000_000  # rows x classes x temperatures x trials that thresholds by class may cost
_MORE_ALPHAS = (0.05, 0.1, 0.2)
_CONFORMAL_PART = 0.5  # of a split of the sweep; the rest is evaluated


def build_report(
    predictor: TwoTemperaturePredictor,
    logits: Any,
    labels: Any = None,
    *,
    name: str = "data",
    groups: Any = None,
    images: Mapping[int, NDArray[np.generic]] | None = None,
    trials: int = _TRIALS,
    progress: Progress | None = None,
) -> Report:
    """Collect what a page about a fitted predictor says, from labelled rows.

    Parameters
    ----------
    predictor : TwoTemperaturePredictor
        Fitted.
    logits, labels
        Labelled rows, or `Logits`: fresh ones, or all those that the predictor was made from. The latter are
        recognised, and then only the calibration rows judge; rows that set the threshold never do.
    name : str
        What the page calls the data.
    groups
        As given to `fit`, if it was given any.
    images : mapping
        Row number to picture, a 2-d array: True is ink, or grey levels from 0 to 255.
    trials : int
        Random splits behind the curves.
    progress : callable
        Told (done, total) of the sweep.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=1500)
    >>> data = ts.Logits(3 * (rng.normal(size=(1500, 5)) + 2 * np.eye(5)[labels]), labels)
    >>> known, fresh = data.split(1000)
    >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(known)
    >>> report = build_report(predictor, fresh, trials=5)
    >>> report.origin, report.rows, build_report(predictor, known, trials=5).rows
    ('fresh', 500, 500)
    """
    if not hasattr(predictor, "artifact_"):
        raise InputError("a report is about a fitted predictor: call fit first.")
    data = as_logits(logits, labels)
    y = data.require_labels("a report")
    made = predictor.artifact_
    roles = roles_of(data, made.provenance, groups)
    judged, reference, compared = (data.take(rows) for rows in (roles.judged, roles.reference, roles.compared))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        alphas = _alphas(made, len(reference))
        curves, conditional = _sweeps(data, made, alphas, trials, progress)
        grid = (curves if made.class_conditional is None else conditional).temperatures.tolist()
        examples = _examples(predictor, reference, compared, roles.compared, grid, alphas, dict(images or {}))
        evaluated = np.ceil(np.bincount(y, minlength=data.n_classes) * (1 - _CONFORMAL_PART)).astype(np.int64)
        return Report(
            name=name,
            artifact=made,
            origin=roles.origin,
            rows=len(judged),
            reference_rows=len(reference),
            compared_rows=len(compared),
            data_sha256=fingerprint(data),
            check=predictor.check(judged),
            curves=curves,
            conditional=conditional,
            floors={alpha: noise_floor_of_counts(evaluated, alpha) for alpha in alphas},
            critical=critical_temperature(data.n_classes),
            calibrations=tuple(_calibration(judged, at, t) for at, t in (("T = 1", 1.0), ("T*", made.temperature))),
            sets=set_facts(predictor.predict_set(judged), judged.require_labels("a report")),
            examples=examples,
            movements=movements(predictor, reference, compared),
            notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
        )


def _examples(
    predictor: TwoTemperaturePredictor,
    reference: Logits,
    compared: Logits,
    numbers: NDArray[np.int64],
    temperatures: list[float],
    alphas: tuple[float, ...],
    images: dict[int, NDArray[np.generic]],
) -> Examples:
    """Some of the compared rows, with pictures if there are any."""
    drawn = np.flatnonzero(np.isin(numbers, list(images)))
    allowed = drawn if drawn.size else np.arange(len(compared))
    places = pick_examples(predictor.set_sizes(compared), allowed, _EXAMPLES)
    shown = compared.take(places)
    return sets_of_examples(predictor, reference, shown, numbers[places], temperatures, alphas, images)


def _alphas(made: Artifact, n_reference: int) -> tuple[float, ...]:
    """Levels of the slider: the predictor's, and common ones that the rows can tell."""
    common = [alpha for alpha in _MORE_ALPHAS if 2 * rows_needed(alpha) <= n_reference]
    return tuple(sorted({float(exact_level(made.alpha)), *common}))


def _sweeps(
    data: Logits, made: Artifact, alphas: tuple[float, ...], trials: int, progress: Progress | None
) -> tuple[Sweep, Sweep]:
    """Curves with global thresholds by method, the predictor's first, and with thresholds by class."""
    own = made.method.score()
    kind = made.class_conditional
    marks = [1.0, made.temperature, made.temperature_sets, *([] if made.choice.peak is None else [made.choice.peak])]
    shared: dict[str, Any] = {
        "calibration_fraction": 0,
        "cp_fraction": _CONFORMAL_PART,
        "random_state": made.provenance.random_state,
        "randomized": made.seed is not None or not own.uses_u,
        "allow_empty": made.allow_empty,
    }
    curves = sweep(
        data,
        temperatures=np.unique([*default_grid(made.temperature), *marks]),
        methods=[own, *(SCORES[name] for name in ("lac", "aps", "raps") if SCORES[name] != own)],
        alphas=alphas,
        trials=trials,
        progress=progress,
        **shared,
    )
    # Beside other sets, thresholds by class are shown at the marked temperatures and at the predictor's level only.
    grid = np.unique(marks if kind is None else [*default_grid(made.temperature, kind), *marks])
    affordable = _BY_CLASS_CELLS // (data.logits.size * len(grid))
    conditional = sweep(
        data,
        temperatures=grid,
        methods=[own],
        alphas=[float(exact_level(made.alpha))] if kind is None else alphas,
        trials=max(1, min(trials, _BY_CLASS_TRIALS, affordable)),
        class_conditional=kind or "mondrian",
        **shared,
    )
    return curves, conditional


def _calibration(judged: Logits, name: str, temperature: float) -> Calibration:
    probs, labels = probabilities(judged, temperature), judged.require_labels("a report")
    return Calibration(
        name,
        temperature,
        bins=reliability_table(probs, labels, _BINS),
        nll=negative_log_likelihood(probs, labels),
        brier=brier_score(probs, labels),
    )
