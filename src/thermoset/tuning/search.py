"""The search for T-hat: estimates on a grid, the preference's rules, and a finer look around the choice."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Floats
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.metrics import NoiseFloor, noise_floor_of_counts
from thermoset.rows import SortedRows
from thermoset.tuning.choice import Signal
from thermoset.tuning.closed_form import Curves, Rows, in_closed_form, joined
from thermoset.tuning.held_out import by_halves, some_rows
from thermoset.tuning.parts import WORDS, EvenOver, Words, parts_of
from thermoset.tuning.preference import Preference
from thermoset.tuning.worst_classes import Tenths

__all__ = ["FINER", "Found", "Progress", "Search", "Steps", "find"]

FINER = 5
"""Parts into which refinement cuts the two steps of the grid around a choice."""

Progress = Callable[[int, int], None]


class Steps:
    """Progress in temperatures done."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._done, self._total = progress, 0, 0

    def expect(self, total: int) -> None:
        """Take note of how many there will be."""
        self._total = total

    def take(self, count: int) -> None:
        """Take note that so many more are done."""
        self._done = min(self._done + count, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def finish(self) -> None:
        """Tell that all are done."""
        self.take(self._total)


@dataclass(frozen=True)
class Search:
    """What every look at a temperature needs.

    rows : the calibration rows, ranked once for every look; kinds : how many kinds of sets are searched, of which
    `recipe` is one; even : what coverage is evened over; only : the temperatures to choose from, where they were named.
    """

    calibration: Logits
    rows: SortedRows
    recipe: Recipe
    n_conformal: int
    conformal: Logits | None
    steps: Steps
    kinds: int = 1
    even: EvenOver = "class"
    only: Floats | None = None

    @property
    def words(self) -> Words:
        """What coverage is evened over, in words."""
        return WORDS[self.even]

    def curves(self, temperatures: Floats) -> Curves:
        """Estimates to choose by."""
        if not self.recipe.closed_form:
            return by_halves(self.calibration, self.recipe, temperatures, self.steps.take)[0]
        return replace(self.closed_form(temperatures)[0], kinds=self.kinds)

    def closed_form(self, temperatures: Floats) -> tuple[Curves, Rows]:
        """Estimates of sets with one threshold, and the rows behind them."""
        known, take = (self.rows, self.calibration, self.recipe), self.steps.take
        return in_closed_form(*known, temperatures, self.n_conformal, take, self.even)

    def floor(self) -> NoiseFloor:
        """What TopCovGap shows by chance alone on the rows it is measured on."""
        slow = not self.recipe.closed_form
        rows = some_rows(self.calibration, self.recipe) if slow else self.calibration
        counts = parts_of(rows, self.even).rows
        if slow:
            counts = -(-counts // 2)  # measured on halves
        return noise_floor_of_counts(counts, self.recipe.alpha, random_state=self.recipe.random_state)

    def size_gain(self, temperature: float) -> tuple[float, float]:
        """How much smaller sets are at a temperature than at T = 1, and the standard error of that."""
        if temperature == 1.0:
            return 0.0, 0.0
        one, other = (0, 1) if temperature > 1.0 else (1, 0)
        pair = np.sort([1.0, temperature])
        if self.recipe.closed_form:
            curves, rows = self.closed_form(pair)
            error = rows.difference_error(0, 1, self.n_conformal)
        else:
            curves = self.curves(pair)
            error = float(np.hypot(*curves.size_error))  # as if they were not of the same rows
        return float(curves.size[one] - curves.size[other]), error


@dataclass(frozen=True)
class Found:
    """What was chosen: a recipe, at the level of its threshold, and a temperature; and what the choice rests on.

    curves : what was searched; of_halves : what random halves of the rows choose; tenths : draws of the coverage of the
    worst and the best tenth of classes, where they decided; size : of sets that protect classes, as calibration rows
    alone see them, infinite if these cannot carry the claim; met, sure, rows_needed, signal : as in `Choice`.
    """

    recipe: Recipe
    temperature: float
    curves: Curves
    met: bool = True
    peak: float | None = None
    of_halves: Floats = field(default_factory=lambda: np.empty(0))
    rows_needed: int | None = None
    sure: float | None = None
    tenths: Tenths | None = None
    size: float = np.inf
    signal: Signal = field(default_factory=Signal)

    @property
    def at(self) -> int:
        """The place of the temperature searched that is nearest to the chosen one."""
        return int(np.argmin(np.abs(self.curves.temperatures - self.temperature)))


def find(search: Search, preference: Preference, grid: Floats) -> Found:
    """Search the grid up to the size peak, then between its temperatures, unless each is slow."""
    curves = search.curves(grid)
    peak = _peak(curves)
    pick = preference.pick(curves, _searched(curves, peak))
    between = _between(curves.temperatures, pick.index, peak)
    if search.recipe.closed_form and between.size:
        curves = joined(curves, search.curves(between))
        pick = preference.pick(curves, _searched(curves, peak))
    temperature = float(curves.temperatures[pick.index])
    if search.only is None or 1.0 in search.only:
        temperature = preference.settled(temperature, search)
    return Found(search.recipe, temperature, curves, pick.met, peak, pick.of_halves, pick.rows_needed)


def _peak(curves: Curves) -> float | None:
    """T_c: where sets are largest, if that is inside the grid."""
    j = int(np.argmax(curves.size))
    return float(curves.temperatures[j]) if 0 < j < len(curves.size) - 1 else None


def _searched(curves: Curves, peak: float | None) -> NDArray[np.bool_]:
    searched: NDArray[np.bool_] = curves.temperatures <= (np.inf if peak is None else peak)
    return searched


def _between(temperatures: Floats, j: int, peak: float | None) -> Floats:
    """Temperatures that cut the steps on both sides of j into parts, up to the peak."""
    steps = [left for left in (j - 1, j) if 0 <= left < len(temperatures) - 1]
    finer = [np.linspace(temperatures[left], temperatures[left + 1], FINER + 1)[1:-1] for left in steps]
    between = np.concatenate([np.empty(0), *finer])
    return np.asarray(between[between <= (np.inf if peak is None else peak)])
