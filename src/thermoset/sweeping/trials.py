"""The paper's protocol: random splits into calibration, conformal and evaluation rows, one u a row and trial."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import exact_number
from thermoset.data import split_indices
from thermoset.levels import Alpha
from thermoset.pool import run_all

__all__ = ["Protocol", "Trial", "Trials", "draw_trial", "draw_trials", "packed_trials"]

_U_STREAM = 1  # splits draw from (random_state, trial), u from (random_state, trial, 1)


@dataclass(frozen=True)
class Protocol:
    """How rows are split; fractions are read as typed. The calibration part may be 0."""

    calibration_fraction: Alpha = 0.1
    cp_fraction: Alpha = 0.1
    random_state: int = 0
    randomized: bool = True


@dataclass(frozen=True)
class Trial:
    """One random split: row numbers of the parts, and every row's u."""

    calibration: NDArray[np.int64]
    conformal: NDArray[np.int64]
    evaluation: NDArray[np.int64]
    u: NDArray[np.float64]


@dataclass(frozen=True)
class Trials:
    """All splits as the kernels want them, rows in class order: `order[k]` is the row at place k.

    conformal, u_conformal : (trials, n_conformal) places and their u; evaluation, u : (n, trials); edges : class c is
    at places edges[c] to edges[c + 1]; counts : (trials, C) evaluation rows of each class.
    """

    order: NDArray[np.int64]
    conformal: NDArray[np.int32]
    u_conformal: NDArray[np.float64]
    evaluation: NDArray[np.bool_]
    u: NDArray[np.float64]
    edges: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of trials."""
        return len(self.conformal)


def draw_trial(n_rows: int, trial: int, protocol: Protocol, groups: object = None) -> Trial:
    """Draw trial number `trial`; the same whatever other trials are drawn.

    >>> one = draw_trial(100, 0, Protocol())
    >>> len(one.calibration), len(one.conformal), len(one.evaluation)
    (10, 10, 80)
    """
    seed = (protocol.random_state, trial)
    if exact_number(protocol.calibration_fraction) == 0:
        calibration = np.empty(0, dtype=np.int64)
        conformal, evaluation = split_indices(n_rows, protocol.cp_fraction, random_state=seed, groups=groups)
    else:
        parts = protocol.calibration_fraction, protocol.cp_fraction
        calibration, conformal, evaluation = split_indices(n_rows, *parts, random_state=seed, groups=groups)
    u = np.random.default_rng((*seed, _U_STREAM)).random(n_rows) if protocol.randomized else np.ones(n_rows)
    return Trial(calibration, conformal, evaluation, u)


def draw_trials(labels: NDArray[np.int64], n_classes: int, trials: int, protocol: Protocol) -> Trials:
    """Draw all trials of a protocol."""
    return packed_trials(labels, n_classes, trials, partial(draw_trial, len(labels), protocol=protocol))


def packed_trials(labels: NDArray[np.int64], n_classes: int, trials: int, draw: Callable[[int], Trial]) -> Trials:
    """Trials 0, 1, ... of `draw`, all with as many conformal rows, in class order: a class is counted in one place."""
    n_rows = len(labels)
    order = np.argsort(labels, kind="stable")
    place = np.empty(n_rows, dtype=np.int32)
    place[order] = np.arange(n_rows, dtype=np.int32)
    evaluation, u = np.zeros((n_rows, trials), dtype=np.bool_), np.empty((n_rows, trials))
    counts = np.empty((trials, n_classes), dtype=np.int64)
    n_conformal = len(draw(0).conformal)
    conformal = np.empty((trials, n_conformal), dtype=np.int32)
    u_conformal = np.empty((trials, n_conformal))

    def pack(t: int) -> None:
        drawn = draw(t)
        evaluation[place[drawn.evaluation], t] = True
        u[:, t] = drawn.u[order]
        counts[t] = np.bincount(labels[drawn.evaluation], minlength=n_classes)
        rows = order[np.sort(place[drawn.conformal])]
        conformal[t], u_conformal[t] = place[rows], drawn.u[rows]

    run_all([partial(pack, t) for t in range(trials)])
    edges = np.searchsorted(labels[order], np.arange(n_classes + 1))
    return Trials(order, conformal, u_conformal, evaluation, u, edges, counts)
