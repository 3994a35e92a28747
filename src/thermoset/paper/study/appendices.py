"""Appendix C (curves of one trial, from calibration rows alone) and ConfTS: two ways to a temperature for the sets."""

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.data import Logits
from thermoset.levels import conformal_rank
from thermoset.paper.study.measure import HOTTEST, Settings
from thermoset.rows import SortedRows
from thermoset.scores import resolve
from thermoset.sweeping import Protocol, Sweep
from thermoset.sweeping.engine import label_parts
from thermoset.sweeping.job import SweepJob, run
from thermoset.sweeping.protocol import Split
from thermoset.uniforms import stream

__all__ = ["calibration_curves", "conf_ts", "least_gap", "plain_aps_scores"]


_HALVINGS = 10  # of the calibration rows, for ConfTS


def calibration_curves(data: Logits, settings: Settings, cp: int, methods: tuple[str, ...], alpha: float) -> Sweep:
    """What a practitioner sees: thresholds from the conformal rows, metrics on the calibration rows, trial by trial.

    Evaluation rows are not touched. The conformal rows are, so a temperature chosen by these curves costs exactness.
    """
    plan = SweepJob(tuple(resolve(method) for method in methods), settings.grid(), (alpha,), False, True, None)
    protocol = settings.protocol(cp)
    shown = _OnCalibrationRows(protocol.calibration_fraction, protocol.cp_fraction, protocol.random_state)
    measured = run(data, plan, None, settings.trials, shown, None)
    absent = np.count_nonzero(measured.counts == 0, axis=1)
    metrics = tuple(metric.name for metric in plan.metrics)
    return Sweep(methods, plan.temperatures, (alpha,), metrics, measured.values, absent, {"cp_percent": cp})


class _OnCalibrationRows(Protocol):
    """The same splits, evaluated on the calibration rows."""

    def split(self, n_rows: int, trial: int) -> Split:
        """Parts of a trial: the calibration rows are the ones evaluated."""
        parts = super().split(n_rows, trial)
        return Split(parts.calibration[:0], parts.conformal, parts.calibration)


def least_gap(curves: Sweep, method: str) -> Floats:
    """T-hat of each trial as appendix D has it: where its approximated TopCovGap is least, below 2.95."""
    searched = curves.temperatures < HOTTEST
    values = curves.of_trials("top_coverage_gap", method)[searched]
    chosen: Floats = curves.temperatures[searched][values.argmin(axis=0)]
    return chosen


def plain_aps_scores(data: Logits, temperatures: Floats) -> Floats:
    """Deterministic APS score of every label at each temperature, (n_temperatures, n)."""
    found = label_parts(SortedRows(data, keep=False), data.require_labels("the study"), temperatures)
    scores: Floats = found.parts[0] + found.parts[1]
    return scores


def conf_ts(scores: Floats, rows: Ints, temperatures: Floats, alpha: float, seed: int) -> float:
    """Temperature of ConfTS (Xi et al. 2024): label scores of one half nearest to the threshold of the other.

    Minimises the mean squared difference between the threshold of a random half of `rows` and the scores of the other
    half, averaged over halvings. `scores` (n_temperatures, n) are deterministic APS scores.

    >>> scores = np.array([[0.1, 0.9, 0.5, 0.6] * 5, [0.5] * 20])  # the second temperature makes them all alike
    >>> conf_ts(scores, np.arange(20), np.array([1.0, 2.0]), 0.2, seed=0)
    2.0
    """
    rng = stream(seed, "ConfTS")
    half = len(rows) // 2
    k = min(conformal_rank(half, alpha), half)
    loss = np.zeros(len(temperatures))
    for _ in range(_HALVINGS):
        mixed = rng.permutation(rows)
        threshold = np.partition(scores[:, mixed[:half]], k - 1, axis=1)[:, k - 1 : k]
        loss += ((threshold - scores[:, mixed[half:]]) ** 2).mean(axis=1)
    return float(temperatures[int(loss.argmin())])
