"""Choosing the temperature of the sets, T-hat, for what the user prefers (paper, section 5 and appendix C).

Selection must not touch the rows that guarantee coverage: T-hat comes from the calibration rows alone, and the
conformal rows are used once, for the threshold. `selection="paper"` is appendix C, for reproduction.
"""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thermoset.calibration import T_MAX
from thermoset.data import Logits
from thermoset.engine import compiling
from thermoset.errors import BudgetWarning, InputError
from thermoset.estimators import checked_seed, checked_temperature
from thermoset.levels import Alpha, exact_level, rows_needed
from thermoset.metrics import NoiseFloor, noise_floor_of_counts
from thermoset.scores import Score, resolve
from thermoset.sweeping.grid import checked_temperatures, temperature_grid
from thermoset.tuning.choice import Choice, Comparison, Curve, Outlook
from thermoset.tuning.curves import Curves, Rows, Setting, in_closed_form, joined
from thermoset.tuning.held_out import Gaps, by_halves, by_paper, class_gaps, some_rows
from thermoset.tuning.preference import Preference, read_preference

__all__ = ["Choice", "Comparison", "Curve", "Outlook", "Preference", "choose", "default_grid", "read_preference"]

Progress = Callable[[int, int], None]
Floats = NDArray[np.float64]

_GRID = "0.3:5:0.1"  # never below 0.3: colder sets only trade labels for empty sets
_COARSE = "0.3,0.5,0.75,1,1.25,1.5,1.75,2,2.5,3,4,5"  # where a temperature costs fits and predictions
_BEYOND = 4.0  # the grid reaches this multiple of T*: size peaks were seen at 1 to 2.5 times it
_RATIO = 1.08  # of the temperatures added to the grid
_FINER = 5  # parts into which refinement cuts the two steps of the grid around a choice
_ONE_SIDED = 1.645  # standard errors a budget is kept by
_TOLD_APART = 1.96  # standard errors between class gaps that the rows can tell apart


def choose(
    calibration: Logits,
    *,
    method: str | Score = "raps",
    alpha: Alpha = 0.1,
    prefer: str | float = "coverage",
    calibrated: float,
    n_conformal: int | None = None,
    randomized: bool = True,
    allow_empty: bool = True,
    class_conditional: Literal["mondrian", "clustered"] | None = None,
    random_state: int = 0,
    selection: Literal["calibration", "paper"] = "calibration",
    conformal: Logits | None = None,
    temperatures: Iterable[float] | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Choose T-hat from labelled calibration rows.

    Parameters
    ----------
    calibration : Logits
        Labelled rows that set no threshold.
    method, alpha, randomized, allow_empty, class_conditional, random_state
        As in `ConformalClassifier`: how the sets will be made.
    prefer : str or float
        - "size": the smallest sets; "coverage": the most even class coverage; a number beta in between: the
          temperature that far on the way from the first's to the second's (the published code's rule).
        - "size<=S": the most even class coverage with at most S labels on average.
        - "gap<=G": the smallest sets whose TopCovGap exceeds its noise floor by at most G, both on the calibration
          rows, each half with the threshold of the other.

        A budget is kept by the estimate plus 1.645 standard errors. Where no temperature does, the closest is taken,
        with a warning.
    calibrated : float
        T*, to compare with, and to place the search.
    n_conformal : int
        Rows that will set the threshold, for the standard error of sizes; as many as calibration rows if left out.
    selection : "calibration" or "paper"
        "paper" is appendix C: thresholds from `conformal`, metrics on `calibration`. It looks at the conformal rows
        for the choice, and coverage is then no longer exact.
    temperatures : iterable of float
        The grid to search; 0.3 to 5 by 0.1, or as far as T* asks for, if left out. The choice is refined off the grid.
    progress : callable
        Told (done, total).

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 10, size=2000)
    >>> hard = 1 + labels[:, None] / 10  # some classes are noisier than others
    >>> rows = ts.Logits(3 * (hard * rng.normal(size=(2000, 10)) + 4 * np.eye(10)[labels]), labels)
    >>> even = ts.tuning.choose(rows, method="aps", prefer="coverage", calibrated=1.8)
    >>> small = ts.tuning.choose(rows, method="aps", prefer="size", calibrated=1.8)
    >>> small.temperature < even.temperature, small.outlook.size < even.outlook.size
    (True, True)
    """
    preference = read_preference(prefer)
    setting = Setting(
        resolve(method), alpha, bool(randomized), bool(allow_empty), class_conditional, checked_seed(random_state)
    )
    best = checked_temperature(calibrated)
    _check(calibration, setting, preference, selection, conformal)
    grid = default_grid(best, class_conditional) if temperatures is None else checked_temperatures(temperatures)
    search = _Search(calibration, setting, n_conformal or len(calibration), selection, conformal, _Steps(progress))
    _warm_up(calibration, setting)
    search.steps.expect(len(grid) + 2 * _FINER + 3)
    found = _find(search, preference, grid)
    result = _report(search, preference, best, found)
    search.steps.finish()
    if not result.met:
        warnings.warn(_unmet(result), BudgetWarning, stacklevel=2)
    return result


def default_grid(calibrated: float, class_conditional: str | None = None) -> Floats:
    """The temperatures searched: 0.3 to 5 by 0.1, and further where T* asks for it.

    >>> grid = default_grid(1.3)
    >>> float(grid[0]), float(grid[-1]), 1.0 in grid
    (0.3, 5.2, True)
    """
    grid = temperature_grid(_GRID if class_conditional is None else _COARSE)
    added = []
    top = min(_BEYOND * calibrated, T_MAX)
    if top > grid[-1]:
        added.append(np.geomspace(grid[-1], top, 2 + int(np.log(top / grid[-1]) / np.log(_RATIO)))[1:])
    if calibrated < grid[0]:
        added.append(np.geomspace(calibrated, grid[0], 2 + int(np.log(grid[0] / calibrated) / np.log(_RATIO)))[:-1])
    return np.sort(np.concatenate([grid, *added]))


def _check(
    calibration: Logits, setting: Setting, preference: Preference, selection: str, conformal: Logits | None
) -> None:
    calibration.require_labels("choosing a temperature")
    exact_level(setting.alpha)
    if selection not in ("calibration", "paper"):
        raise InputError(f"selection must be 'calibration' or 'paper'; got {selection!r}.")
    if selection == "paper" and conformal is None:
        raise InputError("selection='paper' takes thresholds from the conformal rows; pass conformal=.")
    if setting.class_conditional not in (None, "mondrian", "clustered"):
        raise InputError(
            f"class_conditional must be None, 'mondrian' or 'clustered'; got {setting.class_conditional!r}."
        )
    if preference.kind == "gap_budget" and setting.class_conditional is not None:
        raise InputError(
            f"prefer={preference.text!r} needs one threshold for all classes; class_conditional="
            f"{setting.class_conditional!r} evens out class coverage by itself. Use prefer='size' or a size budget."
        )
    needed = (4 if preference.kind == "gap_budget" else 2) * rows_needed(setting.alpha)
    if len(calibration) < needed:
        raise InputError(
            f"choosing a temperature at alpha={setting.alpha} needs at least {needed} calibration rows; got "
            f"{len(calibration)}. Add rows or raise alpha."
        )


def _warm_up(data: Logits, setting: Setting) -> None:
    """Compile the kernels on a handful of rows, or load them from the cache."""
    if data.logits.dtype not in _compiled:
        with compiling():
            few = Logits(np.arange(20.0).reshape(10, 2).astype(data.logits.dtype), np.arange(10) % 2)
            small = replace(setting, alpha=0.5, class_conditional=None)
            in_closed_form(few, small, np.ones(1), 10, lambda _: None)
            class_gaps(few, small, np.ones(1))
        _compiled.add(data.logits.dtype)


_compiled: set[np.dtype[Any]] = set()


class _Steps:
    """Progress in temperatures done."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._done, self._total = progress, 0, 0

    def expect(self, total: int) -> None:
        self._total = total

    def take(self, count: int) -> None:
        self._done = min(self._done + count, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def finish(self) -> None:
        self.take(self._total)


@dataclass(frozen=True)
class _Search:
    """What every look at a temperature needs."""

    calibration: Logits
    setting: Setting
    n_conformal: int
    selection: str
    conformal: Logits | None
    steps: _Steps

    def curves(self, temperatures: Floats) -> Curves:
        """Estimates to choose by."""
        if self.selection == "paper" and self.conformal is not None:
            return by_paper(self.conformal, self.calibration, self.setting, temperatures)
        if self.setting.class_conditional is not None:
            return by_halves(self.calibration, self.setting, temperatures)[0]
        return self.closed_form(temperatures)[0]

    def closed_form(self, temperatures: Floats) -> tuple[Curves, Rows]:
        """Estimates of sets with one threshold, and the rows behind them."""
        return in_closed_form(self.calibration, self.setting, temperatures, self.n_conformal, self.steps.take)

    def floor(self) -> NoiseFloor:
        """What TopCovGap shows by chance alone on the rows it is measured on."""
        rows = self.calibration
        if self.setting.class_conditional is not None:
            rows = some_rows(rows, self.setting)
        counts = np.bincount(rows.require_labels("tuning"), minlength=rows.n_classes)
        if self.setting.class_conditional is not None:
            counts = -(-counts // 2)  # measured on halves
        return noise_floor_of_counts(counts, self.setting.alpha, random_state=self.setting.random_state)

    @property
    def refines(self) -> bool:
        """Whether temperatures off the grid are looked at: the paper has a grid, class-conditional sets are slow."""
        return self.selection == "calibration" and self.setting.class_conditional is None


@dataclass(frozen=True)
class _Found:
    """The chosen temperature, whether a budget is kept, what was searched, and the choices of random halves."""

    temperature: float
    met: bool
    curves: Curves
    peak: float | None
    of_halves: Floats


def _find(search: _Search, preference: Preference, grid: Floats) -> _Found:
    curves = search.curves(grid)
    peak = _peak(curves)
    rules = _rules(search, preference)
    picks, met, halves = [], True, np.empty(0)
    for rule in rules:
        pick = rule(curves, _searched(curves, peak))
        if search.refines:
            curves = joined(curves, search.curves(_between(curves.temperatures, pick.index, peak)))
            pick = rule(curves, _searched(curves, peak))
        picks.append(float(curves.temperatures[pick.index]))
        met = met and pick.met
        halves = pick.of_halves if pick.of_halves.size else halves
    if len(picks) == 1:
        return _Found(picks[0], met, curves, peak, halves)
    beta = preference.amount
    blend = (1 - beta) * picks[0] + beta * picks[1]
    return _Found(blend, met, curves, peak, (1 - beta) * picks[0] + beta * halves)


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
    finer = [np.linspace(temperatures[left], temperatures[left + 1], _FINER + 1)[1:-1] for left in steps]
    between = np.concatenate([np.empty(0), *finer])
    return np.asarray(between[between <= (np.inf if peak is None else peak)])


@dataclass(frozen=True)
class _Pick:
    """The place of a choice among temperatures, whether it keeps the budget, and what random halves choose."""

    index: int
    met: bool
    of_halves: Floats


_Rule = Callable[[Curves, NDArray[np.bool_]], _Pick]


def _rules(search: _Search, preference: Preference) -> list[_Rule]:
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


def _within_gap(search: _Search, curves: Curves, searched: NDArray[np.bool_], budget: float) -> _Pick:
    gaps = class_gaps(search.calibration, search.setting, curves.temperatures[searched])
    error = float(np.sqrt((gaps.errors() ** 2).mean()))  # one for all: with few pairs each alone is noisy
    upper = np.full(len(searched), np.inf)
    upper[searched] = gaps.top + _ONE_SIDED * error
    kept = searched & (upper <= budget)
    if not kept.any():
        return _Pick(_least(upper, searched), False, np.empty(0))
    return _Pick(_least(curves.size, kept), True, np.empty(0))


def _report(search: _Search, preference: Preference, best: float, found: _Found) -> Choice:
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
        prefer=preference.text,
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

    def comparison(self, name: str, temperature: float, hat: int, other: int) -> Comparison:
        return Comparison(
            name=name,
            temperature=temperature,
            size=float(self.curves.size[hat] - self.curves.size[other]),
            size_error=None if self.rows is None else self.rows.difference_error(hat, other, self.n_conformal),
            top_gap=float(self.gaps.top[hat] - self.gaps.top[other]),
            top_gap_error=_known(self.gaps.difference_error(hat, other)),
            tells_apart=None if self.rows is None else abs(self.rows.gap_z(hat, other)) > _TOLD_APART,
        )


def _view(search: _Search, temperatures: Floats) -> _View:
    if search.setting.class_conditional is not None:
        return _View(*by_halves(search.calibration, search.setting, temperatures), None, search.n_conformal)
    curves, rows = search.closed_form(temperatures)
    return _View(curves, class_gaps(search.calibration, search.setting, temperatures), rows, search.n_conformal)


def _known(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _unmet(result: Choice) -> str:
    at = result.outlook
    what = (
        f"{at.size:.2f} labels (± {1.96 * (at.size_error or 0):.2f})"
        if result.prefer.startswith("size")
        else f"a TopCovGap of {at.top_gap:.3f} over a noise floor of {result.noise_floor:.3f}"
    )
    return (
        f"no temperature keeps {result.prefer} with 95% confidence; the closest, T-hat = {result.temperature:.2f}, has "
        f"{what}. Allow more, or add calibration rows."
    )
