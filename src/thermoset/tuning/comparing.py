"""What a choice means: sets at T = 1, T* and T-hat side by side, with errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from thermoset.core.exponentials import Floats
from thermoset.tuning.choice import Choice, Curve, Outlook, TradeOff
from thermoset.tuning.class_gap import ClassGaps
from thermoset.tuning.closed_form import Curves, Rows
from thermoset.tuning.held_out import by_halves, top_gaps
from thermoset.tuning.preference import AnyPreference
from thermoset.tuning.search import Found, Search

__all__ = ["report"]

_CARRIED = 30  # rows of every class without which TopCovGap, which looks at the worst classes, is mostly chance


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
        rows_needed=found.rows_needed,
        curve=Curve(
            tuple(curves.temperatures.tolist()),
            tuple(curves.size.tolist()),
            tuple(map(_known, curves.size_error.tolist())),
            tuple(curves.loss.tolist()),
        ),
    )


@dataclass(frozen=True)
class _View:
    """Curves at a few temperatures; `rows` and `gaps` give paired errors where there is a closed form.

    `top`: TopCovGap; None where some class has too few rows to carry it.
    """

    curves: Curves
    top: Floats | None
    rows: Rows | None
    gaps: ClassGaps | None
    n_conformal: int

    def outlook(self, name: str, temperature: float, i: int) -> Outlook:
        return Outlook(
            name=name,
            temperature=temperature,
            size=float(self.curves.size[i]),
            size_error=_known(self.curves.size_error[i]),
            empty_share=float(self.curves.empty_share[i]),
            class_gap=None if self.gaps is None else float(self.gaps.values[i]),
            class_gap_ends=None if self.gaps is None else _ends(self.gaps.intervals[i]),
            top_gap=None if self.top is None else float(self.top[i]),
        )

    def comparison(self, name: str, temperature: float, hat: int, other: int) -> TradeOff:
        gap, ends, apart = (None, None, None) if self.gaps is None else self.gaps.difference(hat, other)
        return TradeOff(
            name=name,
            temperature=temperature,
            size=float(self.curves.size[hat] - self.curves.size[other]),
            size_error=None if self.rows is None else self.rows.difference_error(hat, other, self.n_conformal),
            class_gap=gap,
            class_gap_ends=ends,
            tells_apart=apart,
        )


def _view(search: Search, temperatures: Floats) -> _View:
    data, recipe = search.calibration, search.recipe
    if not recipe.closed_form:
        return _View(*by_halves(data, recipe, temperatures, search.steps.take), None, None, search.n_conformal)
    curves, rows = search.closed_form(temperatures)
    carried = np.bincount(data.require_labels("tuning"), minlength=data.n_classes).min() >= _CARRIED
    top = top_gaps(search.rows, data, recipe, temperatures) if carried else None
    gaps = None if curves.classes is None or not len(curves.classes.sample.counts) else ClassGaps(curves.classes)
    return _View(curves, top, rows, gaps, search.n_conformal)


def _ends(pair: Floats) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
