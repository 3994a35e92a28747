"""The paper's protocol: random splits into calibration, conformal and evaluation rows, one u for each row and trial."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import exact_number
from thermoset.core.trials import Draws, drawn_rows
from thermoset.data import split_indices
from thermoset.levels import Alpha
from thermoset.rows import row_array, run_tasks
from thermoset.sweeping.engine import Trials
from thermoset.uniforms import trial_keys

__all__ = ["Protocol", "Split", "Trial", "draw_trial", "draw_trials", "packed_trials"]


@dataclass(frozen=True)
class Protocol:
    """How rows are split; fractions are read as typed. The calibration part may be 0.

    `split_by` has one value for each row: rows with the same value stay together, and parts are as large as that
    allows.
    """

    calibration_fraction: Alpha = 0.1
    cp_fraction: Alpha = 0.1
    random_state: int = 0
    randomized: bool = True
    split_by: object = field(default=None, repr=False, compare=False)

    def draws(self, trials: Sequence[int]) -> Draws:
        """The u of some trials, by their numbers."""
        return Draws(trial_keys(self.random_state, trials), self.randomized)

    def split(self, n_rows: int, trial: int) -> "Split":
        """The parts of one trial; the same whatever other trials are drawn."""
        seed, groups = (self.random_state, trial), self.split_by
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


def draw_trial(n_rows: int, trial: int, protocol: Protocol) -> Trial:
    """Draw trial number `trial`; the same whatever other trials are drawn.

    >>> one = draw_trial(100, 0, Protocol())
    >>> len(one.calibration), len(one.conformal), len(one.evaluation)
    (10, 10, 80)
    """
    parts = protocol.split(n_rows, trial)
    u = drawn_rows(protocol.draws([trial]), 0, np.arange(n_rows))
    return Trial(parts.calibration, parts.conformal, parts.evaluation, u)


def draw_trials(labels: NDArray[np.int64], n_classes: int, numbers: Sequence[int], protocol: Protocol) -> Trials:
    """Draw trials of a protocol by their numbers."""
    split = partial(protocol.split, len(labels))
    return packed_trials(labels, n_classes, [partial(split, t) for t in numbers], protocol.draws(numbers))


def packed_trials(
    labels: NDArray[np.int64], n_classes: int, splits: Sequence[Callable[[], Split]], draws: Draws
) -> Trials:
    """Splits as the kernels want them."""
    n_rows, trials = len(labels), len(splits)
    evaluation = row_array((n_rows, trials), np.bool_)
    evaluation[:] = False
    counts = np.empty((trials, n_classes), dtype=np.int64)
    conformal = row_array((trials, len(splits[0]().conformal)), np.int32)
    others: dict[int, NDArray[np.int32]] = {}  # of trials with another number, where whole groups are drawn

    def pack(t: int) -> None:
        parts = splits[t]()
        evaluation[parts.evaluation, t] = True
        counts[t] = np.bincount(labels[parts.evaluation], minlength=n_classes)
        rows = np.sort(parts.conformal)
        if len(rows) == conformal.shape[1]:
            conformal[t] = rows
        else:
            others[t] = rows.astype(np.int32)

    run_tasks([partial(pack, t) for t in range(trials)])
    rows = tuple(others.get(t, conformal[t]) for t in range(trials)) if others else conformal
    return Trials(rows, evaluation, draws, counts)
