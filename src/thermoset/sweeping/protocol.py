"""The paper's protocol: random splits into calibration, conformal and evaluation rows, one u for each row and trial."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import exact_number
from thermoset.core.levels import Alpha
from thermoset.core.pool import run_all
from thermoset.core.trials import Draws, Trials, drawn_rows
from thermoset.core.uniforms import trial_keys
from thermoset.data import split_indices

__all__ = ["Protocol", "Split", "Trial", "draw_trial", "draw_trials", "packed_trials"]


@dataclass(frozen=True)
class Protocol:
    """How rows are split; fractions are read as typed. The calibration part may be 0."""

    calibration_fraction: Alpha = 0.1
    cp_fraction: Alpha = 0.1
    random_state: int = 0
    randomized: bool = True

    def draws(self, trials: Sequence[int]) -> Draws:
        """The u of some trials, by their numbers."""
        return Draws(trial_keys(self.random_state, trials), self.randomized)

    def split(self, n_rows: int, trial: int, groups: object = None) -> "Split":
        """The parts of one trial; the same whatever other trials are drawn."""
        seed = (self.random_state, trial)
        if exact_number(self.calibration_fraction) == 0:
            calibration = np.empty(0, dtype=np.int64)
            conformal, evaluation = split_indices(n_rows, self.cp_fraction, random_state=seed, groups=groups)
        else:
            parts = self.calibration_fraction, self.cp_fraction
            calibration, conformal, evaluation = split_indices(n_rows, *parts, random_state=seed, groups=groups)
        return Split(calibration, conformal, evaluation)


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the parts of a trial."""

    calibration: NDArray[np.int64]
    conformal: NDArray[np.int64]
    evaluation: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trial(Split):
    """One random split, and every row's u."""

    u: NDArray[np.float64]


def draw_trial(n_rows: int, trial: int, protocol: Protocol, groups: object = None) -> Trial:
    """Draw trial number `trial`; the same whatever other trials are drawn.

    >>> one = draw_trial(100, 0, Protocol())
    >>> len(one.calibration), len(one.conformal), len(one.evaluation)
    (10, 10, 80)
    """
    parts = protocol.split(n_rows, trial, groups)
    u = drawn_rows(protocol.draws([trial]), 0, np.arange(n_rows))
    return Trial(parts.calibration, parts.conformal, parts.evaluation, u)


def draw_trials(labels: NDArray[np.int64], n_classes: int, numbers: Sequence[int], protocol: Protocol) -> Trials:
    """Draw trials of a protocol by their numbers."""
    split = partial(protocol.split, len(labels))
    return packed_trials(labels, n_classes, [partial(split, t) for t in numbers], protocol.draws(numbers))


def packed_trials(
    labels: NDArray[np.int64], n_classes: int, splits: Sequence[Callable[[], Split]], draws: Draws
) -> Trials:
    """Splits, all with as many conformal rows, as the kernels want them."""
    n_rows, trials = len(labels), len(splits)
    evaluation = np.zeros((n_rows, trials), dtype=np.bool_)
    counts = np.empty((trials, n_classes), dtype=np.int64)
    conformal = np.empty((trials, len(splits[0]().conformal)), dtype=np.int32)

    def pack(t: int) -> None:
        parts = splits[t]()
        evaluation[parts.evaluation, t] = True
        counts[t] = np.bincount(labels[parts.evaluation], minlength=n_classes)
        conformal[t] = np.sort(parts.conformal)

    run_all([partial(pack, t) for t in range(trials)])
    return Trials(conformal, evaluation, draws, counts)
