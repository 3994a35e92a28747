"""What a choice means: sets at T = 1, at T* and as chosen side by side, with errors, and the alternatives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from thermoset.arrays import Floats
from thermoset.levels import Alpha
from thermoset.tuning.choice import Choice, Curve, Outlook, TradeOff
from thermoset.tuning.class_gap import ClassGaps
from thermoset.tuning.closed_form import Curves, Rows
from thermoset.tuning.frontier import by_group, ends_of, front, paper_choice, payers_of
from thermoset.tuning.held_out import by_halves, top_gaps
from thermoset.tuning.parts import parts_of
from thermoset.tuning.points import Points, Sample, levels_between, measure
from thermoset.tuning.preferences import AnyPreference
from thermoset.tuning.search import Found, Search

__all__ = ["Compared", "report"]

_CARRIED = 30  # rows of every class without which TopCovGap, which looks at the worst classes, is mostly chance
_NAMES = ("T = 1", "T*", "T-hat")


@dataclass(frozen=True, eq=False)
class Compared:
    """What a choice is compared with: the promised level, T*, all rows, and kinds of sets measured on some of them."""

    alpha: Alpha
    best: float
    sample: Sample
    points: Sequence[Points]
    kinds: tuple[str, ...]


def report(search: Search, preference: AnyPreference, found: Found, compared: Compared) -> Choice:
    """Say what sets will look like at T = 1, at T* and as chosen."""
    promised = replace(search, recipe=found.recipe.change(alpha=compared.alpha))
    temperatures = np.array([1.0, compared.best, found.temperature])
    view = _view(promised, np.unique(temperatures))
    places = np.searchsorted(view.curves.temperatures, temperatures)
    outlooks = [view.outlook(name, int(i)) for name, i in zip(_NAMES, places, strict=True)]
    comparisons = [view.comparison(name, int(places[2]), int(i)) for name, i in zip(_NAMES[:2], places, strict=False)]
    if found.recipe.closed_form:
        points = _beside(found, compared, temperatures)
        if found.recipe.alpha != compared.alpha:
            outlooks[2] = _view(replace(search, recipe=found.recipe), temperatures[2:]).outlook(_NAMES[2], 0)
            comparisons = [_against(points, outlooks, j, search.n_conformal) for j in (0, 1)]
        outlooks = [_with_classes(points, j, at, found, search.n_conformal) for j, at in enumerate(outlooks)]
    elif found.tenths is not None:
        worst = found.tenths.worst
        known = {"worst_tenth": float(np.median(worst)), "worst_tenth_ends": ends_of(worst)}
        outlooks[2] = msgspec.structs.replace(outlooks[2], **known)
    floor = search.floor()
    curves = found.curves
    ends = np.quantile(found.of_halves, (0.05, 0.95), method="inverted_cdf") if found.of_halves.size > 1 else None
    return Choice(
        preference=preference,
        alpha=str(compared.alpha),
        methods=compared.kinds,
        met=found.met,
        sure=found.sure,
        peak=found.peak,
        spread=None if ends is None else (float(ends[0]), float(ends[1])),
        outlooks=tuple(outlooks),
        comparisons=tuple(comparisons),
        frontier=_frontier(search, compared, outlooks),
        signal=found.signal,
        noise_floor=floor.top_mean,
        noise_floor_95=floor.top_95,
        n_rows=len(search.calibration),
        even=search.even,
        rows_needed=found.rows_needed,
        curve=Curve(
            tuple(curves.temperatures.tolist()),
            tuple(curves.size.tolist()),
            tuple(curves.size_error.tolist()),
            tuple(curves.loss.tolist()),
        ),
    )


def _beside(found: Found, compared: Compared, temperatures: Floats) -> Points:
    """The chosen kind of sets at T = 1, T* and T-hat, at the promised level and the chosen one."""
    level = str(found.recipe.alpha)
    promised, more = levels_between(compared.alpha, (1.0, 0.8))
    levels = promised, more if level == promised else level
    recipe = found.recipe.change(alpha=compared.alpha)
    (points,) = measure(compared.sample, [recipe], temperatures, levels, keep_rows=True)
    return points


def _against(points: Points, outlooks: Sequence[Outlook], j: int, n_conformal: int) -> TradeOff:
    """The choice at its stricter level against a temperature at the promised one: class gaps are not compared."""
    chosen, other = outlooks[2], outlooks[j]
    error = points.difference_error((2, 1), (j, 0), n_conformal)
    return TradeOff(other.name, other.temperature, chosen.size - other.size, error, None, None, None)


def _with_classes(points: Points, j: int, at: Outlook, found: Found, n_conformal: int) -> Outlook:
    """An outlook with the worst tenth of classes, and who pays."""
    level = points.levels.index(at.setting.alpha)
    tenths = points.tenths(j, level, n_conformal) if j < 2 or found.tenths is None else found.tenths
    return msgspec.structs.replace(
        at,
        worst_tenth=float(np.median(tenths.worst)),
        worst_tenth_ends=ends_of(tenths.worst),
        payers=payers_of(points, j, level, tenths),
    )


def _frontier(search: Search, compared: Compared, outlooks: Sequence[Outlook]) -> tuple[Outlook, ...]:
    """The front, the recommendation, and what people know: T = 1, T*, the paper's choice, sets by class."""
    if not compared.points:
        return ()
    chosen = msgspec.structs.replace(outlooks[2], name="recommended", top_gap=None)
    others = [msgspec.structs.replace(at, top_gap=None) for at in outlooks[:2]]
    paper = paper_choice(compared.points, search.n_conformal)
    sample = compared.points[0].sample
    grouped = by_group(sample, compared.points[0].recipe.change(alpha=compared.alpha), 1.0)
    named = [chosen, *others, *([] if paper is None else [paper]), *grouped]
    return (*named, *front(compared.points, search.n_conformal))


@dataclass(frozen=True)
class _View:
    """Curves at a few temperatures; `rows` and `gaps` give paired errors where there is a closed form.

    `top`: TopCovGap; None where some class has too few rows to carry it.
    """

    search: Search
    curves: Curves
    top: Floats | None
    rows: Rows | None
    gaps: ClassGaps | None

    def outlook(self, name: str, i: int) -> Outlook:
        return Outlook(
            name=name,
            setting=self.search.recipe.change(temperature=float(self.curves.temperatures[i])),
            size=float(self.curves.size[i]),
            size_error=float(self.curves.size_error[i]),
            empty_share=float(self.curves.empty_share[i]),
            class_gap=None if self.gaps is None else float(self.gaps.values[i]),
            class_gap_ends=None if self.gaps is None else _ends(self.gaps.intervals[i]),
            top_gap=None if self.top is None else float(self.top[i]),
        )

    def comparison(self, name: str, hat: int, other: int) -> TradeOff:
        gap, ends, apart = (None, None, None) if self.gaps is None else self.gaps.difference(hat, other)
        error = None if self.rows is None else self.rows.difference_error(hat, other, self.search.n_conformal)
        return TradeOff(
            name=name,
            temperature=float(self.curves.temperatures[other]),
            size=float(self.curves.size[hat] - self.curves.size[other]),
            size_error=error,
            class_gap=gap,
            class_gap_ends=ends,
            tells_apart=apart,
        )


def _view(search: Search, temperatures: Floats) -> _View:
    data, recipe = search.calibration, search.recipe
    if not recipe.closed_form:
        return _View(search, *by_halves(data, recipe, temperatures, search.steps.take), None, None)
    curves, rows = search.closed_form(temperatures)
    carried = parts_of(data, search.even).rows.min() >= _CARRIED
    top = top_gaps(search.rows, data, recipe, temperatures, search.even) if carried else None
    gaps = None if curves.classes is None or not len(curves.classes.sample.counts) else ClassGaps(curves.classes)
    return _View(search, curves, top, rows, gaps)


def _ends(pair: Floats) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
