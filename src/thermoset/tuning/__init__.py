"""Choosing the temperature of the sets, T-hat, for what the user prefers (paper, section 5 and appendix C).

Selection must not touch the rows that guarantee coverage: T-hat comes from the calibration rows alone, and the
conformal rows are used once, for the threshold. `selection="paper"` is appendix C, for reproduction.
"""

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np

from thermoset.bounds import MOST_ROWS, checked_temperature, whole_number
from thermoset.calibration import T_MAX
from thermoset.conformal.recipes import Recipe
from thermoset.core.exponentials import Floats
from thermoset.core.levels import rows_needed
from thermoset.core.pool import compiling
from thermoset.core.sources import ArrayRows, RankedRows
from thermoset.data import Logits
from thermoset.errors import BudgetWarning, InputError
from thermoset.quoting import quoted
from thermoset.sweeping.grid import DEFAULT_GRID, checked_temperatures, temperature_grid
from thermoset.tuning.choice import Choice, Curve, Outlook, TradeOff
from thermoset.tuning.closed_form import in_closed_form
from thermoset.tuning.comparing import report
from thermoset.tuning.held_out import top_gaps
from thermoset.tuning.preference import Preference, read_preference
from thermoset.tuning.search import FINER, Progress, Search, Steps, find

__all__ = ["Choice", "Curve", "Outlook", "Preference", "TradeOff", "choose", "default_grid", "read_preference"]

_COARSE = "0.3,0.5,0.75,1,1.25,1.5,1.75,2,2.5,3,4,5"  # where a temperature costs fits and predictions
_BEYOND = 4.0  # the grid reaches this multiple of T*: size peaks were seen at 1 to 2.5 times it
_RATIO = 1.08  # of the temperatures added to the grid


def choose(
    calibration: Logits,
    recipe: Recipe | None = None,
    *,
    prefer: str | float = "coverage",
    calibrated: float,
    n_conformal: int | None = None,
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
    recipe : Recipe
        How the sets will be made; `Recipe()` if left out.
    prefer : str or float
        - "size": the smallest sets; "coverage": the most even class coverage; a number beta in between: the
          temperature that far on the way from the first's to the second's (the published code's rule).
        - "size<=S": the most even class coverage with at most S labels on average.
        - "gap<=G": the smallest sets with a class gap of at most G: the root mean square over classes of class
          coverage minus 1 - alpha, in the population that the rows come from.

        A budget is kept with 95% confidence, whichever of the temperatures searched is chosen. Where that can be said
        of none, the closest is taken, with a warning that says how many rows would be needed.
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
    >>> even = ts.tuning.choose(rows, ts.Recipe("aps"), prefer="coverage", calibrated=1.8)
    >>> small = ts.tuning.choose(rows, ts.Recipe("aps"), prefer="size", calibrated=1.8)
    >>> small.temperature < even.temperature, small.outlook.size < even.outlook.size
    (True, True)
    """
    preference = read_preference(prefer)
    recipe = Recipe() if recipe is None else recipe
    best = checked_temperature(calibrated)
    _check(calibration, recipe, preference, selection, conformal)
    coarse = not recipe.closed_form
    grid = default_grid(best, coarse=coarse) if temperatures is None else checked_temperatures(temperatures)
    rows = len(calibration) if n_conformal is None else n_conformal
    fresh = whole_number(rows, "n_conformal", 1, MOST_ROWS, "Leave it out for as many as calibration rows.")
    search = Search(calibration, recipe, fresh, selection, conformal, Steps(progress))
    if recipe.closed_form:
        _warm_up(recipe)
    search.steps.expect(len(grid) + 2 * FINER + 3)
    found = find(search, preference, grid)
    result = report(search, preference, best, found)
    search.steps.finish()
    if not result.met:
        warnings.warn(_unmet(result), BudgetWarning, stacklevel=2)
    return result


def default_grid(calibrated: float, *, coarse: bool = False) -> Floats:
    """The temperatures searched: 0.3 to 5 by 0.1, or a dozen where each is slow, and further where T* asks for it.

    >>> grid = default_grid(1.3)
    >>> float(grid[0]), float(grid[-1]), 1.0 in grid
    (0.3, 5.2, True)
    """
    grid = temperature_grid(_COARSE if coarse else DEFAULT_GRID)
    added = []
    top = min(_BEYOND * calibrated, T_MAX)
    if top > grid[-1]:
        added.append(np.geomspace(grid[-1], top, 2 + int(np.log(top / grid[-1]) / np.log(_RATIO)))[1:])
    if calibrated < grid[0]:
        added.append(np.geomspace(calibrated, grid[0], 2 + int(np.log(grid[0] / calibrated) / np.log(_RATIO)))[:-1])
    return np.sort(np.concatenate([grid, *added]))


def _check(
    calibration: Logits, recipe: Recipe, preference: Preference, selection: str, conformal: Logits | None
) -> None:
    calibration.require_labels("choosing a temperature")
    if not isinstance(recipe, Recipe):
        raise InputError(f"recipe must be a Recipe, such as ts.Recipe('aps', alpha=0.1); got {quoted(recipe)}.")
    if selection not in ("calibration", "paper"):
        raise InputError(f"selection must be 'calibration' or 'paper'; got {selection!r}.")
    if selection == "paper" and conformal is None:
        raise InputError("selection='paper' takes thresholds from the conformal rows; pass conformal=.")
    if preference.needs_closed_form and recipe.grouping is not None:
        raise InputError(
            f"prefer={preference.text!r} needs one threshold for all classes; grouping="
            f"{recipe.grouping!r} evens out class coverage by itself. Use prefer='size' or a size budget."
        )
    if preference.needs_closed_form and not recipe.closed_form:
        raise InputError(
            f"prefer={preference.text!r} needs a closed form, which the score {recipe.score.name!r} has not. Use "
            "prefer='size', 'coverage' or a size budget."
        )
    needed = 2 * rows_needed(recipe.alpha)  # each half sets a threshold for the other
    if len(calibration) < needed:
        raise InputError(
            f"choosing a temperature at alpha={recipe.alpha} needs at least {needed} calibration rows; got "
            f"{len(calibration)}. Add rows or raise alpha."
        )


def _warm_up(recipe: Recipe) -> None:
    """Compile the kernels on a handful of rows, or load them from the cache."""
    if not _compiled:
        with compiling():
            few = Logits(np.arange(20.0).reshape(10, 2), np.arange(10) % 2)
            small = replace(recipe, alpha=0.5, grouping=None)
            rows = RankedRows(ArrayRows(few.logits))
            in_closed_form(rows, few, small, np.ones(1), 10, lambda _: None)
            top_gaps(rows, few, small, np.ones(1))
        _compiled.append(True)


_compiled: list[bool] = []


def _unmet(result: Choice) -> str:
    needed = result.rows_needed
    advice = "Allow more" + ("." if needed is None else f", or take some {needed:,} calibration rows.")
    return (
        f"no temperature keeps {result.prefer} with 95% confidence; the closest, T-hat = {result.temperature:.2f}, has "
        f"{result.preference.shortfall(result)}. {advice}"
    )
