"""What a choice means: sets at T = 1, T* and T-hat side by side, with errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from thermoset.tuning.choice import Choice, Curve, Outlook, TradeOff
from thermoset.tuning.closed_form import Curves, Floats, Rows
from thermoset.tuning.held_out import Gaps, by_halves, class_gaps
from thermoset.tuning.preference import AnyPreference
from thermoset.tuning.search import Found, Search

__all__ = ["report"]

_TOLD_APART = 1.96  # standard errors between class gaps that the rows can tell apart


def report(search: Search, preference: AnyPreference, best: float, found: Found) -> Choice:
    """Say what sets will look like at T = 1, T* and T-hat."""
    named = {"T = 1": 1.0, "T*": best, "T-hat": found.temperature}
    temperatures = np.unique(list(named.values()))
    place = {name: int(np.searchsorted(temperatures, t)) for name, t in named.items()}
    view = _view(search, temperatures)
    floor = search.floor()
    outlooks = tuple(view.outlook(name, float(named[name]), i) for name, i in place.items())
    hat = place["T-hat"]
    comparisons = tuple(
        view.comparison(name, float(named[name]), hat, i) for name, i in place.items() if name != "T-hat"
    )
    curves = found.curves
    ends = np.quantile(found.of_halves, (0.05, 0.95), method="inverted_cdf") if found.of_halves.size > 1 else None
    return Choice(
        temperature=found.temperature,
        preference=preference,
        selection=search.selection,
        met=found.met,
        peak=found.peak,
        spread=None if ends is None else (float(ends[0]), float(ends[1])),
        outlooks=outlooks,
        comparisons=comparisons,
        noise_floor=floor.top_mean,
        noise_floor_95=floor.top_95,
        n_rows=len(search.calibration),
        curve=Curve(
            tuple(curves.temperatures.tolist()),
            tuple(curves.size.tolist()),
            tuple(map(_known, curves.size_error.tolist())),
            tuple(curves.loss.tolist()),
        ),
    )


@dataclass(frozen=True)
class _View:
    """Curves and class gaps at a few temperatures; `rows` gives paired errors where there is a closed form."""

    curves: Curves
    gaps: Gaps
    rows: Rows | None
    n_conformal: int

    def outlook(self, name: str, temperature: float, i: int) -> Outlook:
        return Outlook(
            name=name,
            temperature=temperature,
            size=float(self.curves.size[i]),
            size_error=_known(self.curves.size_error[i]),
            empty_share=float(self.curves.empty_share[i]),
            top_gap=float(self.gaps.top[i]),
            top_gap_error=_known(self.gaps.errors()[i]),
        )

    def comparison(self, name: str, temperature: float, hat: int, other: int) -> TradeOff:
        return TradeOff(
            name=name,
            temperature=temperature,
            size=float(self.curves.size[hat] - self.curves.size[other]),
            size_error=None if self.rows is None else self.rows.difference_error(hat, other, self.n_conformal),
            top_gap=float(self.gaps.top[hat] - self.gaps.top[other]),
            top_gap_error=_known(self.gaps.difference_error(hat, other)),
            tells_apart=None if self.rows is None else abs(self.rows.gap_z(hat, other)) > _TOLD_APART,
        )


def _view(search: Search, temperatures: Floats) -> _View:
    if not search.recipe.closed_form:
        return _View(
            *by_halves(search.calibration, search.recipe, temperatures, search.steps.take), None, search.n_conformal
        )
    curves, rows = search.closed_form(temperatures)
    return _View(
        curves, class_gaps(search.rows, search.calibration, search.recipe, temperatures), rows, search.n_conformal
    )


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
