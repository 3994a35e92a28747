"""The search for T-hat: estimates on a grid, a rule for each preference, and a finer look around the choice."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thermoset.core.sources import ArrayRows, RankedRows
from thermoset.data import Logits
from thermoset.metrics import NoiseFloor, noise_floor_of_counts
from thermoset.tuning.curves import Curves, Floats, Rows, Setting, in_closed_form, joined
from thermoset.tuning.held_out import by_halves, by_paper, class_gaps, some_rows
from thermoset.tuning.preference import Preference

__all__ = ["FINER", "Found", "Progress", "Search", "Steps", "find"]

FINER = 5
"""Parts into which refinement cuts the two steps of the grid around a choice."""

Progress = Callable[[int, int], None]

_ONE_SIDED = 1.645  # standard errors a budget is kept by


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
    """What every look at a temperature needs."""

    calibration: Logits
    setting: Setting
    n_conformal: int
    selection: str
    conformal: Logits | None
    steps: Steps

    def curves(self, temperatures: Floats) -> Curves:
        """Estimates to choose by."""
        if self.selection == "paper" and self.conformal is not None:
            return by_paper(self.conformal, self.calibration, self.setting, temperatures, self.steps.take)
        if self.setting.by_halving:
            return by_halves(self.calibration, self.setting, temperatures, self.steps.take)[0]
        return self.closed_form(temperatures)[0]

    def closed_form(self, temperatures: Floats) -> tuple[Curves, Rows]:
        """Estimates of sets with one threshold, and the rows behind them."""
        take = self.steps.take
        return in_closed_form(self.rows, self.calibration, self.setting, temperatures, self.n_conformal, take)

    @cached_property
    def rows(self) -> RankedRows:
        """The calibration rows, ranked once for every look."""
        return RankedRows(ArrayRows(self.calibration.logits))

    def floor(self) -> NoiseFloor:
        """What TopCovGap shows by chance alone on the rows it is measured on."""
        slow = self.setting.by_halving
        rows = some_rows(self.calibration, self.setting) if slow else self.calibration
        counts = np.bincount(rows.require_labels("tuning"), minlength=rows.n_classes)
        if slow:
            counts = -(-counts // 2)  # measured on halves
        return noise_floor_of_counts(counts, self.setting.alpha, random_state=self.setting.random_state)

    @property
    def refines(self) -> bool:
        """Whether temperatures off the grid are looked at: the paper has a grid, and halving rows is slow."""
        return self.selection == "calibration" and not self.setting.by_halving


@dataclass(frozen=True)
class Found:
    """The chosen temperature, whether a budget is kept, what was searched, and the choices of random halves."""

    temperature: float
    met: bool
    curves: Curves
    peak: float | None
    of_halves: Floats


def find(search: Search, preference: Preference, grid: Floats) -> Found:
    """Search the grid up to the size peak, then between its temperatures."""
    curves = search.curves(grid)
    peak = _peak(curves)
    rules = _rules(search, preference)
    picks, met, halves = [], True, np.empty(0)
    for rule in rules:
        pick = rule(curves, _searched(curves, peak))
        between = _between(curves.temperatures, pick.index, peak)
        if search.refines and between.size:
            curves = joined(curves, search.curves(between))
            pick = rule(curves, _searched(curves, peak))
        picks.append(float(curves.temperatures[pick.index]))
        met = met and pick.met
        halves = pick.of_halves if pick.of_halves.size else halves
    if len(picks) == 1:
        return Found(picks[0], met, curves, peak, halves)
    beta = preference.amount
    blend = (1 - beta) * picks[0] + beta * picks[1]
    return Found(blend, met, curves, peak, (1 - beta) * picks[0] + beta * halves)


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


@dataclass(frozen=True)
class _Pick:
    """The place of a choice among temperatures, whether it keeps the budget, and what random halves choose."""

    index: int
    met: bool
    of_halves: Floats


_Rule = Callable[[Curves, NDArray[np.bool_]], _Pick]


def _rules(search: Search, preference: Preference) -> list[_Rule]:
    """The picks that make up a preference: one, or the two ends of a blend."""
    if preference.kind == "size_budget":
        return [lambda curves, searched: _within_size(curves, searched, preference.amount)]
    if preference.kind == "gap_budget":
        most = preference.amount + search.floor().top_mean
        return [lambda curves, searched: _within_gap(search, curves, searched, most)]
    if preference.amount == 0:
        return [_smallest]
    return [_most_even] if preference.amount == 1 else [_smallest, _most_even]


def _least(values: Floats, among: NDArray[np.bool_]) -> int:
    return int(np.argmin(np.where(among, values, np.inf)))


def _smallest(curves: Curves, searched: NDArray[np.bool_]) -> _Pick:
    return _Pick(_least(curves.size, searched), True, np.empty(0))


def _most_even(curves: Curves, searched: NDArray[np.bool_]) -> _Pick:
    halves = [curves.temperatures[_least(loss, searched)] for loss in curves.loss_of_halves.T]
    return _Pick(_least(curves.loss, searched), True, np.array(halves))


def _within_size(curves: Curves, searched: NDArray[np.bool_], budget: float) -> _Pick:
    upper = curves.size + _ONE_SIDED * np.nan_to_num(curves.size_error)  # the paper's way knows no error
    kept = searched & (upper <= budget)
    if not kept.any():
        return _Pick(_least(upper, searched), False, np.empty(0))
    return _Pick(_least(curves.loss, kept), True, np.empty(0))


def _within_gap(search: Search, curves: Curves, searched: NDArray[np.bool_], budget: float) -> _Pick:
    gaps = class_gaps(search.rows, search.calibration, search.setting, curves.temperatures[searched])
    error = float(np.sqrt((gaps.errors() ** 2).mean()))  # one for all: with few pairs each alone is noisy
    upper = np.full(len(searched), np.inf)
    upper[searched] = gaps.top + _ONE_SIDED * error
    kept = searched & (upper <= budget)
    if not kept.any():
        return _Pick(_least(upper, searched), False, np.empty(0))
    return _Pick(_least(curves.size, kept), True, np.empty(0))
