"""The paper's protocol (section 3.1) on one file: everything its tables and curves are made of."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from thermoset.bounds import checked_seed, whole_number
from thermoset.calibration import fit_ece, fit_nll
from thermoset.core.exponentials import Floats
from thermoset.core.pool import for_blocks
from thermoset.core.softmax import confidences
from thermoset.core.sources import ArrayRows, widened
from thermoset.data import Logits
from thermoset.metrics import reliability_from_confidence, top_k_accuracy
from thermoset.sweeping import (
    MOST_TRIALS,
    OwnTemperatures,
    Protocol,
    Sweep,
    draw_trial,
    measure_trials,
    sweep,
    temperature_grid,
)

__all__ = ["METHODS", "Measured", "Settings", "Tell", "calibrated_temperatures", "measure"]

Tell = Callable[[str], None]

METHODS = ("lac", "aps", "raps", "raps_published")
_SPAN, _RATIO = 2.0, 1.005  # of the temperatures scanned for T*: around that of all rows, and from one to the next


@dataclass(frozen=True)
class Settings:
    """What the study asks for: the paper's protocol."""

    trials: int = 100
    random_state: int = 0
    alphas: tuple[float, ...] = (0.1, 0.05)
    cp_percents: tuple[int, ...] = (5, 10, 20)
    calibration_percent: int = 10
    temperatures: str = "0.3:5:0.1"
    ece_bins: int = 10

    def __post_init__(self) -> None:
        whole_number(self.trials, "trials", 2, MOST_TRIALS, "Try 100.")
        checked_seed(self.random_state)
        for percent in (self.calibration_percent, *self.cp_percents):
            whole_number(percent, "percents of the rows", 1, 98, "Try 10.")

    def protocol(self, cp_percent: int) -> Protocol:
        """How rows are split for a size of the conformal set; calibration rows are the same for all of them."""
        return Protocol(Fraction(self.calibration_percent, 100), Fraction(cp_percent, 100), self.random_state)

    def grid(self) -> Floats:
        """Temperatures of the curves."""
        return temperature_grid(self.temperatures)


@dataclass(frozen=True, eq=False)
class Measured:
    """What one file shows.

    `nll`, `ece`: T* of all rows; `trial_nll`, `trial_ece`: of each trial's calibration rows. `curves`, `before` (at
    T = 1), `after` (at each trial's T* by ECE) and `printed` (at the paper's T*, or for other files that of all rows)
    have an entry for each size of the conformal set.
    """

    top1: float
    top5: float
    nll: float
    ece: float
    printed_temperature: float
    trial_nll: Floats
    trial_ece: Floats
    curves: dict[int, Sweep]
    before: dict[int, OwnTemperatures]
    after: dict[int, OwnTemperatures]
    printed: dict[int, OwnTemperatures]


def measure(data: Logits, settings: Settings, printed_temperature: float | None, tell: Tell) -> Measured:
    """Run the protocol; `tell` is given the name of each step as it ends."""
    labels = data.require_labels("the study")
    nll, ece = fit_nll(data).temperature, fit_ece(data, settings.ece_bins).temperature
    tell("T* of all rows")
    trial_nll, trial_ece = calibrated_temperatures(data, settings, ece)
    tell("T* of the trials")
    fixed = ece if printed_temperature is None else printed_temperature
    curves, before, after, printed = {}, {}, {}, {}
    for cp in settings.cp_percents:
        protocol = settings.protocol(cp)
        curves[cp] = sweep(
            data,
            temperatures=settings.grid(),
            methods=METHODS[:3],
            alphas=settings.alphas,
            trials=settings.trials,
            calibration_fraction=protocol.calibration_fraction,
            cp_fraction=protocol.cp_fraction,
            random_state=protocol.random_state,
        )
        tell(f"curves, CP {cp}%")
        asked = METHODS, settings.alphas, protocol
        before[cp] = measure_trials(data, np.ones(settings.trials), *asked)
        after[cp] = measure_trials(data, trial_ece, *asked)
        printed[cp] = measure_trials(data, np.full(settings.trials, fixed), *asked)
        tell(f"T = 1 and T*, CP {cp}%")
    return Measured(
        top1=top_k_accuracy(data.logits, labels, 1),
        top5=top_k_accuracy(data.logits, labels, min(5, data.n_classes)),
        nll=nll,
        ece=ece,
        printed_temperature=fixed,
        trial_nll=trial_nll,
        trial_ece=trial_ece,
        curves=curves,
        before=before,
        after=after,
        printed=printed,
    )


def calibrated_temperatures(data: Logits, settings: Settings, centre: float) -> tuple[Floats, Floats]:
    """T* by NLL and by ECE of each trial's calibration rows.

    The ECE of all trials is read from one scan of all rows, at temperatures half a percent apart around `centre`: a
    fit for each trial would be ten times the work of the rest of the study. A trial whose best is at an end of the scan
    is fitted by itself.
    """
    labels = data.require_labels("the study")
    steps = int(np.log(_SPAN) / np.log(_RATIO))
    grid: Floats = centre * _RATIO ** np.arange(-steps, steps + 1, dtype=np.float64)
    confidence = np.empty((len(grid), len(data)))
    for_blocks(ArrayRows(data.logits), lambda block, rows: confidences(widened(block), grid, confidence[:, rows]))
    correct = data.logits.argmax(axis=1) == labels
    nll, ece = np.empty(settings.trials), np.empty(settings.trials)
    for t in range(settings.trials):
        rows = draw_trial(len(data), t, settings.protocol(settings.cp_percents[0])).calibration
        losses = [
            reliability_from_confidence(level[rows], correct[rows], settings.ece_bins).ece for level in confidence
        ]
        best = int(np.argmin(losses))
        part = data.take(rows)
        at_end = best in (0, len(grid) - 1)
        ece[t] = fit_ece(part, settings.ece_bins).temperature if at_end else grid[best]
        nll[t] = fit_nll(part).temperature
    return nll, ece
