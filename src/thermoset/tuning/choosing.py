"""The choice itself: what is searched, measured and compared for a preference, and in what order."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from thermoset.arrays import Floats
from thermoset.bounds import MOST_ROWS, checked_temperature, whole_number
from thermoset.calibration import T_MAX
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.errors import BudgetWarning, InputError
from thermoset.levels import rows_needed
from thermoset.quoting import quoted
from thermoset.rows import SortedRows, compiling
from thermoset.sweeping.protocol import DEFAULT_GRID, checked_temperatures, temperature_grid
from thermoset.tuning.aims import Small
from thermoset.tuning.by_class import by_class_instead
from thermoset.tuning.choice import Choice
from thermoset.tuning.closed_form import in_closed_form
from thermoset.tuning.comparing import Compared, report
from thermoset.tuning.held_out import top_gaps
from thermoset.tuning.kinds import FINALISTS, best_of, finalists, some_of
from thermoset.tuning.parts import WORDS, EvenOver, checked_even, parts_of, parts_without_rows, tell_missing
from thermoset.tuning.points import Points, Sample, levels_between, measure
from thermoset.tuning.preference import Preference
from thermoset.tuning.preferences import read_preference
from thermoset.tuning.protection import STRICTER, Protection, protect
from thermoset.tuning.search import FINER, Found, Progress, Search, Steps, find
from thermoset.tuning.signals import borne_out
from thermoset.uniforms import stream

__all__ = ["choose", "default_grid", "enough_of", "settle"]

_COARSE = "0.3,0.5,0.75,1,1.25,1.5,1.75,2,2.5,3,4,5"  # where a temperature costs fits and predictions
_BEYOND = 4.0  # the grid reaches this multiple of T*: size peaks were seen at 1 to 2.5 times it
_RATIO = 1.08  # of the temperatures added to the grid
_ENOUGH, _ENOUGH_OF_CLASS = 100_000, 20  # calibration rows that a choice looks at, or so many for each class


def choose(
    calibration: Logits,
    recipe: Recipe | Sequence[Recipe] | None = None,
    *,
    prefer: str = "even",
    calibrated: float,
    n_conformal: int | None = None,
    even: EvenOver = "class",
    conformal: Logits | None = None,
    temperatures: Iterable[float] | None = None,
    progress: Progress | None = None,
) -> Choice:
    """Choose a setting for the sets from labelled calibration rows.

    Parameters
    ----------
    calibration : Logits
        Labelled rows that set no threshold, with groups if these are evened out. If there are more than 100,000 (or 20
        for each class or group), a random sample of that size is used: the error of the choice is then negligible.
    recipe : Recipe, or several
        How the sets will be made; the default is `Recipe()`. Of several, the best is chosen: `tuning.menu` lists the
        ones that `method="auto"` considers.
    prefer : str
        - "small": the smallest sets.
        - "even": the most even class coverage at exactly 1 - alpha, the paper's aim.
        - "protect", or a bound such as "classes>=0.85": the smallest sets whose worst tenth of classes reaches that
          coverage ("protect": 1 - 1.5 alpha), with a level stricter than alpha if necessary.
        - "size<=S": the most even class coverage with at most S labels on average.
        - "gap<=G": the smallest sets with a class gap of at most G: the root mean square over classes of class
          coverage minus 1 - alpha, in the population that the rows come from.

        A bound is met with 95% confidence, whichever of the settings searched is chosen. If no setting meets it, the
        closest is taken, with a warning that says how many rows would be needed. If the rows do not show that classes
        differ, or contradict the best estimate, "even" keeps T = 1.
    calibrated : float
        T*, for comparison and to centre the search.
    n_conformal : int
        Number of rows that will set the threshold, for the standard error of sizes; by default as many as calibration
        rows.
    even : "class" or "group"
        What coverage is evened over, or protected: the classes, or the groups of the rows (`Logits(..., groups=)`).
        With "group", read "groups" for "classes" above: "gap<=G" bounds the group gap, and "groups>=0.85" replaces
        "classes>=0.85". The sets themselves do not use groups, so a new row needs none. Only for sets with one
        threshold.
    conformal : Logits
        The rows that will set the threshold, for "protect": score and temperature come from the calibration rows, but
        how strict the level must be is decided from all rows (see `protection`).
    temperatures : iterable of float
        The grid to search; by default 0.3 to 5 in steps of 0.1, wider if T* requires it. The choice is refined off the
        grid.
    progress : callable
        Called with (done, total).

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 10, size=2000)
    >>> hard = 1 + labels[:, None] / 10  # some classes are noisier than others
    >>> rows = ts.Logits(3 * (hard * rng.normal(size=(2000, 10)) + 4 * np.eye(10)[labels]), labels)
    >>> even = ts.tuning.choose(rows, ts.Recipe("aps"), prefer="even", calibrated=1.8)
    >>> small = ts.tuning.choose(rows, ts.Recipe("aps"), prefer="small", calibrated=1.8)
    >>> small.temperature < even.temperature, small.outlook.size < even.outlook.size
    (True, True)
    >>> safe = ts.tuning.choose(rows, ts.Recipe("lac"), prefer="classes>=0.8", calibrated=1.8)
    >>> safe.met, float(safe.setting.alpha) < 0.1
    (True, True)
    >>> sites = ts.Logits(rows.logits, labels, groups=np.where(labels < 5, "north", "south"))
    >>> ts.tuning.choose(sites, ts.Recipe("aps"), even="group", calibrated=1.8).even
    'group'
    """
    preference, even = read_preference(prefer), checked_even(even)
    rows = len(calibration) if n_conformal is None else n_conformal
    calibration = enough_of(calibration, _kinds(recipe)[0].random_state, even)
    fresh = whole_number(rows, "n_conformal", 1, MOST_ROWS, "Omit it for as many as calibration rows.")
    kinds = _kinds(recipe)
    ranked = SortedRows(calibration)
    search = Search(calibration, ranked, kinds[0], fresh, conformal, Steps(progress), even=even)
    found, compared = settle(search, preference, kinds, calibrated, temperatures)
    result = report(search, preference, found, compared)
    search.steps.finish()
    if not isinstance(preference, Small):
        tell_missing(calibration, even)
    if not result.met:
        unseen = bool(parts_without_rows(calibration, even))
        warnings.warn(_unmet(result, unseen), BudgetWarning, stacklevel=2)
    return result


def settle(
    search: Search,
    preference: Preference,
    kinds: Sequence[Recipe],
    calibrated: float,
    temperatures: Iterable[float] | None = None,
) -> tuple[Found, Compared]:
    """What `choose` chooses and the candidates it chose from, without the description."""
    best = checked_temperature(calibrated)
    _check(search, kinds, preference)
    if search.even == "group":
        _check_groups(kinds, preference)
    coarse = not kinds[0].closed_form
    grid = default_grid(best, coarse=coarse) if temperatures is None else checked_temperatures(temperatures)
    if kinds[0].closed_form:
        _warm_up(kinds[0])
    search.steps.expect(FINALISTS * (len(grid) + 2 * FINER) + 5 if len(kinds) > 1 else len(grid) + 2 * FINER + 5)
    compared = _compared(search, tuple(kinds), best, None if temperatures is None else grid)
    return _found(search, preference, tuple(kinds), grid, compared), compared


def enough_of(rows: Logits, seed: int, even: EvenOver = "class") -> Logits:
    """The rows that a choice uses: all, or, of very many, a sample so large that more would not change it.

    >>> len(enough_of(Logits(np.zeros((120_000, 2)), np.zeros(120_000, dtype=int)), seed=0))
    100000
    """
    count = max(_ENOUGH, _ENOUGH_OF_CLASS * parts_of(rows, even).count)
    if len(rows) <= count:
        return rows
    return rows.take(np.sort(stream(seed, "rows to choose on").permutation(len(rows))[:count]))


def _kinds(recipe: object) -> tuple[Recipe, ...]:
    kinds = (Recipe(),) if recipe is None else (recipe,) if isinstance(recipe, Recipe) else recipe
    if not isinstance(kinds, Sequence) or not kinds or not all(isinstance(kind, Recipe) for kind in kinds):
        raise InputError(
            "recipe must be a Recipe, such as ts.Recipe('aps', alpha=0.1), or a sequence of them; got "
            f"{quoted(recipe)}."
        )
    return tuple(kinds)


def _compared(search: Search, kinds: tuple[Recipe, ...], best: float, grid: Floats | None) -> Compared:
    """Measure all kinds on some of the rows; beside one alone, LAC and the paper's RAPS as well."""
    sample, first = Sample(search.calibration, best, search.rows, search.even), kinds[0]
    points: list[Points] = []
    if first.closed_form:
        usual = [first.change(method=name, randomized=True) for name in ("lac", "raps")]
        wanted = list(dict.fromkeys([*kinds, *(usual if first.randomized else usual[:1])]))
        some = some_of(search.calibration, first.random_state)
        measured = sample if some is search.calibration else Sample(some, best, even=search.even)
        looked = default_grid(best, coarse=True) if grid is None else grid
        levels = levels_between(first.alpha, STRICTER)
        points = measure(measured, wanted, np.unique([*looked, 1.0, best]), levels, loss=True)
        search.steps.take(1)
    names = tuple(kind.kind for kind in kinds)
    return Compared(first.alpha, best, sample, points, names)


def _found(
    search: Search, preference: Preference, kinds: tuple[Recipe, ...], grid: Floats, compared: Compared
) -> Found:
    """Search as the preference asks for it."""
    target, several = preference.target(search.recipe.alpha), len(kinds) > 1
    points = [one for one in compared.points if one.recipe in kinds]
    if target is not None:
        found = protect(_protection(search, target, compared), points)
    else:
        searched = finalists(points, preference) if several else kinds
        searches = [replace(search, recipe=kind, kinds=len(searched)) for kind in searched]
        found = best_of([find(one, preference, grid) for one in searches], preference)
        found = borne_out(replace(search, recipe=found.recipe), preference, found, compared.sample)
    # Thresholds by group would even out groups, but new rows would then need a group: the user must ask for them.
    return by_class_instead(search, preference, found, compared.best) if several and search.even == "class" else found


def _protection(search: Search, target: float, compared: Compared) -> Protection:
    """The level comes from all rows where the conformal ones are at hand; see `protection`."""
    seed, alpha = search.recipe.random_state, search.recipe.alpha
    if search.conformal is None:
        return Protection(compared.sample, compared.sample, target, alpha, search.n_conformal, compared.best, seed)
    both = enough_of(search.calibration.joined(search.conformal), seed, search.even)
    rows = len(search.calibration) + len(search.conformal)
    everything = Sample(both, compared.best, even=search.even)
    return Protection(compared.sample, everything, target, alpha, rows, compared.best, seed)


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


def _check(search: Search, kinds: Sequence[Recipe], preference: Preference) -> None:
    recipe, calibration = kinds[0], search.calibration
    calibration.require_labels("choosing a temperature")
    if preference.over not in (None, search.even):
        raise InputError(
            f"prefer={preference.text!r} is about {WORDS[preference.over].many}, but even={search.even!r}. "
            f"Use even={preference.over!r}, or '{search.words.many}>=...'."
        )
    if len(kinds) > 1 and not all(kind.closed_form for kind in kinds):
        raise InputError(
            "to choose among several recipes, each must have a closed form: no grouping and a compiled score."
        )
    _check_closed_form(recipe, preference)
    if recipe.by_row:
        calibration.require_groups("grouping='group'")
    needed = 2 * rows_needed(recipe.alpha)  # each half sets a threshold for the other
    if len(calibration) < needed:
        raise InputError(
            f"choosing a temperature at alpha={recipe.alpha} needs at least {needed} calibration rows; got "
            f"{len(calibration)}. Add rows or raise alpha."
        )


def _check_closed_form(recipe: Recipe, preference: Preference) -> None:
    """Refuse a preference that needs estimates these sets do not have."""
    if not preference.needs_closed_form:
        return
    if recipe.by_row:
        raise InputError(
            f"prefer={preference.text!r} needs one threshold for all rows; got grouping='group'. Use prefer='small', "
            "'even' or a size budget."
        )
    if recipe.grouping is not None:
        raise InputError(
            f"prefer={preference.text!r} needs one threshold for all classes, but grouping={recipe.grouping!r} already "
            "evens out class coverage. Use prefer='small' or a size budget."
        )
    if not recipe.closed_form:
        raise InputError(
            f"prefer={preference.text!r} needs a closed form, which the score {recipe.score.name!r} does not have. Use "
            "prefer='small', 'even' or a size budget."
        )


def _check_groups(kinds: Sequence[Recipe], preference: Preference) -> None:
    """Refuse what cannot be chosen for groups."""
    recipe = kinds[0]
    if recipe.grouping == "group":
        raise InputError(
            "grouping='group' gives every group its own threshold, which already evens out group coverage, so "
            f"even='group' with prefer={preference.text!r} has nothing left to choose. Omit even=."
        )
    if not recipe.closed_form:
        what = f"grouping={recipe.grouping!r}" if recipe.grouping else f"the score {recipe.score.name!r}"
        raise InputError(
            f"even='group' needs one threshold for all classes and a compiled score; got {what}. Use even='class'."
        )


def _warm_up(recipe: Recipe) -> None:
    """Compile the kernels on a handful of rows, or load them from the cache."""
    if not _compiled:
        with compiling():
            few = Logits(np.arange(20.0).reshape(10, 2), np.arange(10) % 2)
            small = recipe.change(alpha=0.5, grouping=None)
            rows = SortedRows(few)
            in_closed_form(rows, few, small, np.ones(1), 10, lambda _: None)
            top_gaps(rows, few, small, np.ones(1))
        _compiled.append(True)


_compiled: list[bool] = []


def _unmet(result: Choice, unseen: bool) -> str:
    needed, what = result.rows_needed, "temperature" if len(result.methods) == 1 else "setting"
    advice = "Ask for less" + ("." if needed is None else f", or use about {needed:,} calibration rows.")
    if result.target is not None:
        advice = "Ask for less" + ("." if needed is None else f", or use about {needed:,} rows in total.")
        what = "setting"
    unknown = f"Nothing is known about {result.words.many} without calibration rows: add rows for them. "
    return (
        f"no {what} meets {result.prefer} with 95% confidence; the closest, {result.setting.title}, has "
        f"{result.preference.shortfall(result)}. {unknown if unseen else ''}{advice}"
    )
