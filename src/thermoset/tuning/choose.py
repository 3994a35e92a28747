"""The choice itself: the menu, what is measured for a preference, how one setting wins, and what is said of it.

Selection does not touch the rows that promise coverage: kind and temperature of the sets come from calibration rows.
Only how strict the level must be for hard classes may come from all rows: whatever it is, the threshold is at least the
one that conformal rows alone give at alpha, and so is coverage.

Among candidates (scores, groupings) whose difference the rows cannot show, the smallest sets win, and then the
simplest: LAC at T = 1 with one threshold. Among temperatures of one candidate the best estimate is taken.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from thermoset.arrays import Floats
from thermoset.bounds import MOST_ROWS, checked_temperature, whole_number
from thermoset.calibration import T_MAX
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.data.top_rows import tops_of
from thermoset.errors import BudgetWarning, InputError
from thermoset.levels import Alpha, conformal_rank, exact_level, rows_needed
from thermoset.metrics import noise_floor_of_counts
from thermoset.quoting import quoted
from thermoset.rows import Progress, part_of
from thermoset.scores import APS, LAC, RAPS, SAPS, Score
from thermoset.sweeping.protocol import checked_temperatures, temperature_grid
from thermoset.tuning import wording
from thermoset.tuning.choice import Choice, Claim, Curve, MissBreakdown, Outlook, Signal, TradeOff
from thermoset.tuning.class_gap import ClassGaps, ClassHits, simultaneous_reach
from thermoset.tuning.estimates import (
    AROUND,
    STRICTER,
    ByClass,
    Engine,
    Estimates,
    Pick,
    Request,
    Sample,
    by_halves,
    conformal_counts,
    largest_error,
    laxer,
    levels_between,
    parts_of,
    some_rows,
    warn_of_missing_parts,
)
from thermoset.tuning.preferences import (
    WORDS,
    AnyPreference,
    EvenOver,
    Preference,
    Protect,
    checked_even,
    read_preference,
)
from thermoset.tuning.worst_classes import (
    Claims,
    ClaimTest,
    ClassMisses,
    CrossCheck,
    Tenths,
    checked_claims,
    guess_worst,
    rows_missing,
    tenths,
    tenths_by_law,
)
from thermoset.uniforms import stream

_SCORES: tuple[Score, ...] = (LAC(), RAPS(), APS(), SAPS())  # the simplest first
_COARSE = "0.3,0.5,0.75,1,1.25,1.5,1.75,2,2.5,3,4,5"  # where a temperature costs fits and predictions
_LOWEST, _HIGHEST, _RATIO = 0.3, 5.0, 1.08  # of the grid
_BEYOND = 4.0  # the grid reaches this multiple of T*: size peaks were seen at 1 to 2.5 times it
_AROUND_STAR = (0.5, 0.7, 1.0, 1.3, 1.8, 2.5)  # multiples of T* at which stricter levels are measured
_ABOVE = 1.3  # times T*: sets at stricter levels are about as small there as anywhere, on all data tried
_ENOUGH, _ENOUGH_OF_CLASS = 100_000, 20  # calibration rows that a choice looks at, or so many for each class
_ROWS_BY_CLASS = 40  # conformal rows of each class from which on thresholds by class are a candidate
_CARRIED = 30  # rows of every class without which TopCovGap, which looks at the worst classes, is mostly chance
_STEP, _STRICTEST = 0.94, 0.004  # of the levels tried for a claim, as multiples of alpha
_MARGIN = 6.0  # over the root of the number of rows: by how much another score must beat LAC under a claim
_CONFIDENCE, _NORMAL, _ENDS = 0.95, 1.96, (0.05, 0.95)
_NAMES = ("T = 1", "T*", "T-hat")


def menu(
    alpha: Alpha, *, randomized: bool = True, allow_empty: bool = True, random_state: int = 0
) -> tuple[Recipe, ...]:
    """The kinds of sets that `method="auto"` chooses from, beside thresholds by class where each has rows enough.

    >>> [kind.kind for kind in menu(0.1)]
    ['LAC', 'RAPS', 'APS', 'SAPS']
    """
    return tuple(Recipe(score, alpha, randomized, allow_empty, None, random_state) for score in _SCORES)


def default_grid(calibrated: float, *, coarse: bool = False) -> Floats:
    """The temperatures searched: 0.3 to 5 in steps of 8%, or a dozen where each is slow; further where T* asks for it.

    >>> grid = default_grid(1.3)
    >>> float(grid[0]), float(grid[-1]), 1.0 in grid
    (0.32, 5.44, True)
    """
    top, bottom = min(max(_HIGHEST, _BEYOND * calibrated), T_MAX), min(_LOWEST, calibrated)
    steps = np.arange(np.ceil(np.log(bottom) / np.log(_RATIO)), np.ceil(np.log(top) / np.log(_RATIO)) + 1)
    fine = np.array([float(f"{t:.2f}") if t >= _LOWEST else float(f"{t:.3g}") for t in _RATIO**steps])
    fine = np.unique(np.minimum(fine, T_MAX))
    if not coarse:
        return fine
    few = temperature_grid(_COARSE)
    return np.unique([*few, *fine[fine > few[-1]][::-2], *fine[fine < few[0]][::2]])


def choose(
    calibration: Logits,
    recipe: Recipe | Sequence[Recipe] | None = None,
    *,
    prefer: str = "small",
    calibrated: float,
    n_conformal: int | None = None,
    even: EvenOver = "class",
    conformal: Logits | None = None,
    temperatures: Iterable[float] | None = None,
    claims: Claims = "model",
    progress: Progress | None = None,
) -> Choice:
    """Choose a setting for the sets from labelled calibration rows.

    Parameters
    ----------
    calibration : Logits
        Labelled rows that set no threshold, with groups if these are evened out. If there are more than 100,000 (or 20
        for each class or group), a random sample of that size is used: the error of the choice is then negligible.
    recipe : Recipe, or several
        How the sets will be made. Of several, the best is chosen; the default is `tuning.menu(0.1)`.
    prefer : str
        - "small": the smallest sets; LAC at T = 1 unless the rows show that others are smaller.
        - "even": the most even class coverage at exactly 1 - alpha, the paper's aim.
        - "protect", or a bound such as "classes>=0.85": the smallest sets whose worst tenth of classes reaches that
          coverage ("protect": 1 - 1.5 alpha), with a level stricter than alpha if necessary.
        - "size<=S": the most even class coverage with at most S labels on average.
        - "gap<=G": the smallest sets with a class gap of at most G: the root mean square over classes of class
          coverage minus 1 - alpha, in the population that the rows come from.

        A bound is met with 95% confidence, whichever of the settings searched is chosen. If none meets it, the
        promised level is kept, with a warning that says whether rows are too few or the bound is not reached. "even"
        keeps T = 1 unless most random halves of the rows find another temperature more even.
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
        how strict the level must be is decided from all rows.
    temperatures : iterable of float
        The grid to search; by default 0.3 to 5 in steps of 8%, wider if T* requires it. Without T = 1, that is never
        the choice.
    claims : "model" or "distribution-free"
        What a claim about hard classes rests on: see `worst_classes`.
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
    >>> ts.tuning.choose(sites, ts.Recipe("aps"), prefer="even", even="group", calibrated=1.8).even
    'group'
    """
    preference, candidates = read_preference(prefer), _candidates(recipe)
    rows = len(calibration) if n_conformal is None else n_conformal
    search = Search(
        calibration=subsample(calibration, candidates[0].random_state, checked_even(even)),
        candidates=candidates,
        calibrated=checked_temperature(calibrated),
        n_conformal=whole_number(rows, "n_conformal", 1, MOST_ROWS, "Omit it for as many as calibration rows."),
        conformal=conformal,
        even=even,
        only=None if temperatures is None else checked_temperatures(temperatures),
        claims=checked_claims(claims),
        strict=preference.target(candidates[0].alpha) is not None,
        progress=progress,
    )
    result = describe(search, preference, settle(search, preference))
    if preference.is_about_classes:
        warn_of_missing_parts(search.calibration, even)
    if not result.met:
        warnings.warn(wording.unmet(result), BudgetWarning, stacklevel=2)
    if (long := wording.too_long(result, calibration.n_classes)) is not None:
        warnings.warn(long, BudgetWarning, stacklevel=2)
    return result


def subsample(rows: Logits, seed: int, even: EvenOver = "class") -> Logits:
    """The rows that a choice uses: all, or, of very many, a sample so large that more would not change it.

    >>> len(subsample(Logits(np.zeros((120_000, 2)), np.zeros(120_000, dtype=int)), seed=0))
    100000
    """
    count = max(_ENOUGH, _ENOUGH_OF_CLASS * parts_of(rows, even).count)
    if len(rows) <= count:
        return rows
    return rows.take(np.sort(stream(seed, "rows to choose on").permutation(len(rows))[:count]))


def _candidates(recipe: object) -> tuple[Recipe, ...]:
    given = menu("0.1") if recipe is None else (recipe,) if isinstance(recipe, Recipe) else recipe
    if not isinstance(given, Sequence) or not given or not all(isinstance(one, Recipe) for one in given):
        raise InputError(
            "recipe must be a Recipe, such as ts.Recipe('aps', alpha=0.1), or a sequence of them; got "
            f"{quoted(recipe)}."
        )
    return tuple(given)


# ---- what is measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Search:
    """Calibration rows, the candidates, and what was measured of them: once, whoever asks.

    only : the temperatures to choose from, where they were named; strict : whether every candidate is measured at
    stricter levels, and not LAC alone; by_class : whether thresholds by class may be chosen among several candidates.
    """

    calibration: Logits
    candidates: tuple[Recipe, ...]
    calibrated: float
    n_conformal: int
    conformal: Logits | None = None
    even: EvenOver = "class"
    only: Floats | None = None
    claims: Claims = "model"
    strict: bool = False
    by_class: bool = True
    progress: Progress | None = None

    @property
    def alpha(self) -> str:
        """The promised level."""
        return self.candidates[0].alpha

    @property
    def seed(self) -> int:
        """Of everything drawn."""
        return self.candidates[0].random_state

    @property
    def closed_form(self) -> bool:
        """Whether u can be integrated out of the candidates' sets."""
        return self.candidates[0].closed_form

    @cached_property
    def grid(self) -> Floats:
        """The temperatures to choose from."""
        if self.only is not None:
            return np.unique(self.only)
        grid = default_grid(self.calibrated, coarse=not self.closed_form)
        return np.unique([*grid, self.calibrated]) if self.closed_form else grid

    @cached_property
    def engine(self) -> Engine:
        """The first pass over the rows."""
        sample = Sample(self.calibration, self.even, self.seed)
        at = np.unique([*self.grid, 1.0, self.calibrated, *self._strict_temperatures])
        return Engine(sample, at, self.n_conformal, self.progress)

    @property
    def _strict_temperatures(self) -> Floats:
        if self.only is not None:
            return np.unique([*self.only, 1.0, self.calibrated])
        near = [self.grid[np.argmin(np.abs(np.log(self.grid / (m * self.calibrated))))] for m in _AROUND_STAR]
        return np.unique([1.0, *near])

    @cached_property
    def measured(self) -> "Measured":
        """Every candidate at all temperatures, some of them at stricter levels, and sets by class: the second pass."""
        engine, first = self.engine, self.candidates[0]
        every = np.unique([*self.grid, 1.0, self.calibrated])
        around, stricter = levels_between(self.alpha, AROUND), levels_between(self.alpha, STRICTER)
        plain = first.change(method=LAC(), randomized=True)
        strict = list(dict.fromkeys([plain, *(self.candidates if self.strict else ())]))
        requests = [Request(one, every, around) for one in self.candidates]
        requests += [Request(one, self._strict_temperatures, stricter, evenness=False) for one in strict]
        usual = np.unique([1.0, self.calibrated])
        if self.only is not None:  # the nearest of those
            usual = np.unique(self.grid[np.abs(self.grid[:, None] - usual).argmin(axis=0)])
        own_levels = Request(plain.change(grouping="class"), usual, (self.alpha,))
        by_class = own_levels if self._can_go_by_class else None
        found, own = engine.measure(requests, self.calibrated, by_class)
        curves = [
            replace(one, allowed=np.isin(one.temperatures, self.grid), kinds=len(self.candidates))
            for one in found[: len(self.candidates)]
        ]
        return Measured(curves, found[len(self.candidates) :], own)

    @property
    def _can_go_by_class(self) -> bool:
        """Whether thresholds by class are a candidate: with several others, and many rows of each class."""
        several = self.by_class and len(self.candidates) > 1
        if not several or self.even == "group" or not self.candidates[0].allow_empty:
            return False  # by group, new rows would need a group: the user must ask for that
        in_use = conformal_counts(parts_of(self.calibration, "class").rows, self.n_conformal)
        needed = max(_ROWS_BY_CLASS, rows_needed(self.alpha))
        return int(in_use.min()) >= needed and tops_of(self.calibration) is None


@dataclass(frozen=True, eq=False)
class Measured:
    """Estimates of each candidate, of some of them at stricter levels, and of sets by class where these may do."""

    curves: list[Estimates]
    strict: list[Estimates]
    by_class: ByClass | None

    def strict_of(self, recipe: Recipe) -> Estimates | None:
        """The stricter levels of a candidate, if they were measured."""
        return next((one for one in self.strict if one.recipe == recipe), None)


# ---- how one setting wins --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Found:
    """What was chosen: a setting with its temperature and level, and what the choice rests on.

    curve : the estimates of its candidate at the promised level; errors : standard errors that hold for all that was
    searched at once; by_class : where thresholds by class were chosen; draws : of the worst and best tenth of classes.
    """

    setting: Recipe
    curve: Estimates
    pick: Pick
    met: bool = True
    tied: bool = False
    claim: Claim | None = None
    by_class: ByClass | None = None
    draws: Tenths | None = None
    top_gaps: Floats | None = field(default=None)

    @property
    def recipe(self) -> Recipe:
        """The same, by the name that callers use."""
        return self.setting

    @property
    def temperature(self) -> float:
        """T-hat."""
        return self.setting.temperature


def settle(search: Search, preference: Preference) -> Found:
    """What is chosen, without a description."""
    _check(search, preference)
    if not search.closed_form:
        (recipe,) = search.candidates
        curve, _ = by_halves(search.calibration, recipe, search.grid, part_of(search.progress, 0, 2))
        return _of_pick(curve, preference.pick(curve))
    curves = search.measured.curves
    picks = [preference.pick(one) for one in curves]
    target = preference.target(search.alpha)
    if target is not None:
        return _protect(search, target, _smallest(curves, picks))
    if not all(pick.met for pick in picks) and any(pick.met for pick in picks):
        curves, picks = map(list, zip(*((c, p) for c, p in zip(curves, picks, strict=True) if p.met), strict=True))
    if not preference.evens_out:
        return _smallest(curves, picks)
    found = _most_even(curves, picks)
    return _more_even_by_class(search, found) if preference.may_go_by_class else found


def _of_pick(curve: Estimates, pick: Pick, *, tied: bool = False) -> Found:
    setting = curve.recipe.change(temperature=float(curve.temperatures[pick.place]))
    return Found(setting, curve, pick, met=pick.met, tied=tied)


def _smallest(curves: Sequence[Estimates], picks: Sequence[Pick]) -> Found:
    """The candidate with the smallest sets; the first one unless that is larger beyond the error of all at once."""
    size = [one.size[pick.place, one.level] for one, pick in zip(curves, picks, strict=True)]
    best = int(np.argmin(size))
    if best:
        first = curves[0].errors[picks[0].place, curves[0].level]
        apart = np.concatenate([one.errors[one.searched, one.level] - first for one in curves])
        error = curves[best].errors[picks[best].place, curves[best].level] - first
        if size[0] - size[best] <= largest_error(apart) * float(np.sqrt((error**2).sum())):
            best = 0
    return _of_pick(curves[best], picks[best])


def _most_even(curves: Sequence[Estimates], picks: Sequence[Pick]) -> Found:
    """The smallest sets of those that the rows cannot tell from the most even ones; LAC at T = 1 is one of them."""
    if len(curves) == 1:
        return _of_pick(curves[0], picks[0])
    places = list(zip(curves, picks, strict=True))
    if curves[0].one not in (None, picks[0].place) and picks[0].beats is not None:  # a budget might not allow it
        places.insert(0, (curves[0], Pick(int(curves[0].one or 0))))
    hits = [one.hits.at([pick.place]) for one, pick in places if one.hits is not None]
    loss = [one.loss[pick.place] for one, pick in places]
    size = np.array([one.size[pick.place, one.level] for one, pick in places])
    best = int(np.argmin(loss))
    if not len(hits[0].sample.counts):
        alike = np.ones(len(places), dtype=bool)
    else:
        joint = ClassHits.joined(hits)
        gaps = ClassGaps(joint, simultaneous_reach(joint))
        versus = [gaps.difference(k, best) for k in range(len(places))]
        alike = np.array([k == best or not apart or gap < 0 for k, (gap, _, apart) in enumerate(versus)])
    chosen = int(np.argmin(np.where(alike, size, np.inf)))
    if chosen and alike[0]:  # the simplest, where the rows cannot show that its sets are larger
        apart = [one.errors[pick.place, one.level] for one, pick in places]
        error = float(np.sqrt(((apart[chosen] - apart[0]) ** 2).sum()))
        chosen = 0 if size[0] - size[chosen] <= _NORMAL * error else chosen
    curve, pick = places[chosen]
    alone = pick if chosen == best else Pick(pick.place, met=pick.met)
    return _of_pick(curve, alone, tied=chosen != best)


def _more_even_by_class(search: Search, found: Found) -> Found:
    """Thresholds by class, where their law shows that they are more even, or that they are as even and smaller."""
    own = search.measured.by_class
    if own is None or found.curve.hits is None:
        return found
    counts = conformal_counts(parts_of(search.calibration, "class").rows, search.n_conformal)
    ranks = np.array([conformal_rank(int(n), search.alpha) for n in counts])
    mean, level = ranks / (counts + 1), 1 - float(exact_level(search.alpha))
    gap = float(np.sqrt(np.mean(mean * (1 - mean) / (counts + 2) + (mean - level) ** 2)))
    low, high = ClassGaps(found.curve.hits.at([found.pick.place])).intervals[0]
    best = int(np.argmin(own.size))
    smaller = own.size[best] < found.curve.size[found.pick.place, found.curve.level]
    return _by_class(search, found, best) if gap < low or (gap < high and smaller) else found


def _by_class(search: Search, found: Found, best: int) -> Found:
    own = search.measured.by_class
    if own is None:
        return found
    counts = conformal_counts(parts_of(search.calibration, "class").rows, search.n_conformal)
    setting = own.recipe.change(temperature=float(own.temperatures[best]))
    draws = tenths_by_law(counts, search.alpha, search.seed)
    return replace(found, setting=setting, by_class=own, draws=draws, tied=False, met=True)


def _check(search: Search, preference: Preference) -> None:
    """Refuse what cannot be chosen."""
    first, words = search.candidates[0], WORDS[search.even]
    search.calibration.require_labels("choosing a temperature")
    if preference.over not in (None, search.even):
        raise InputError(
            f"prefer={preference.text!r} is about {WORDS[preference.over].many}, but even={search.even!r}. "
            f"Use even={preference.over!r}, or '{words.many}>=...'."
        )
    if len(search.candidates) > 1 and not all(one.closed_form for one in search.candidates):
        raise InputError(
            "to choose among several recipes, each must have a closed form: no grouping and a compiled score."
        )
    what = f"grouping={first.grouping!r}" if first.grouping else f"the score {first.score.name!r}"
    if preference.needs_closed_form and not first.closed_form:
        raise InputError(
            f"prefer={preference.text!r} needs one threshold for all classes and a compiled score; got {what}. Use "
            "prefer='small', 'even' or a size budget."
        )
    if search.even == "group" and not first.closed_form:
        already = " It already evens out group coverage: omit even=." if first.by_row else " Use even='class'."
        raise InputError(f"even='group' needs one threshold for all classes and a compiled score; got {what}.{already}")
    if first.by_row:
        search.calibration.require_groups("grouping='group'")
    needed = 2 * rows_needed(first.alpha)  # each half sets a threshold for the other
    if len(search.calibration) < needed:
        raise InputError(
            f"choosing a temperature at alpha={first.alpha} needs at least {needed} calibration rows; got "
            f"{len(search.calibration)}. Add rows or raise alpha."
        )


# ---- protection of hard classes --------------------------------------------------------------------------------------


def _protect(search: Search, target: float, plain: Found) -> Found:
    """The smallest sets with a claim about hard classes; `plain` where none can be made."""
    rows = search.calibration if search.conformal is None else search.calibration.joined(search.conformal)
    rows = subsample(rows, search.seed, search.even)
    n_threshold = search.n_conformal if search.conformal is None else len(search.calibration) + len(search.conformal)
    claim = Claim(claims=search.claims, shortage=rows_missing(parts_of(rows, search.even).rows))
    unmet = replace(plain, met=False, claim=claim)
    if claim.shortage:
        return unmet
    tried = _finalists(search, target)
    own = [_laxest(search, search.engine, one, target, search.n_conformal) for one in tried]
    sizes = [
        _handicap(search, one.curve.recipe) * _at_level(one.curve, one.place, level).size if level else np.inf
        for one, level in zip(tried, own, strict=True)
    ]
    best = tried[int(np.argmin(sizes))]
    engine = search.engine
    if search.conformal is not None:
        sample = Sample(rows, search.even, search.seed)
        engine = Engine(sample, np.array([best.temperature]), n_threshold)
    level = _laxest(search, engine, best, target, n_threshold)
    by_class = _protect_by_class(search, replace(plain, claim=claim), target, min(sizes))
    if by_class is not None:
        return by_class
    if level is None:
        return unmet
    setting = best.curve.recipe.change(alpha=level, temperature=best.temperature)
    draws = _tenths_at(engine, best.curve.recipe, best.temperature, level, n_threshold)
    curve = next(one for one in search.measured.curves if one.recipe == best.curve.recipe)
    return Found(setting, curve, Pick(0), claim=claim, draws=draws)


@dataclass(frozen=True, eq=False)
class _Finalist:
    """A candidate at one of the temperatures that it was measured at with stricter levels."""

    curve: Estimates
    place: int

    @property
    def temperature(self) -> float:
        return float(self.curve.temperatures[self.place])


def _finalists(search: Search, target: float) -> list[_Finalist]:
    """Each candidate at the temperature with the smallest sets by a guess, LAC above T*, and the first at T = 1."""
    made: list[_Finalist] = []
    for one in search.candidates:
        strict = search.measured.strict_of(one)
        if strict is None or strict.sample is None:
            continue
        allowed = np.isin(strict.temperatures, search.only) if search.only is not None else None
        sizes = _guessed_sizes(strict, target) * _detour(search, strict.temperatures)
        best = int(np.argmin(sizes if allowed is None else np.where(allowed, sizes, np.inf)))
        made.append(_Finalist(strict, best))
        if one == search.candidates[0] and search.only is None and strict.one is not None and strict.one != best:
            made.append(_Finalist(strict, strict.one))
    return made


def _guessed_sizes(strict: Estimates, target: float) -> Floats:
    """Sizes at the level where the guessed worst tenth reaches the target, (T,).

    Which level a temperature needs is guessed with much chance in it, how sizes differ at one level with little: the
    level is the median over the temperatures.
    """
    sample = strict.sample
    if sample is None:
        return strict.size[:, 0]
    levels = np.log([float(exact_level(level)) for level in strict.levels])
    guessed = guess_worst(strict.missed, strict.far, sample.counts)
    needed = float(np.median([np.interp(target, np.maximum.accumulate(worst), levels) for worst in guessed]))
    sizes = np.log(np.maximum(strict.size, 1e-9))
    return np.array([np.exp(np.interp(-needed, -levels, of)) for of in sizes])


def _handicap(search: Search, recipe: Recipe) -> float:
    """What sizes are multiplied by before they are compared: what few rows show against LAC is mostly luck."""
    return 1.0 if recipe == search.candidates[0] else 1 + _MARGIN / float(np.sqrt(len(search.calibration)))


def _detour(search: Search, temperatures: Floats) -> Floats:
    """The same for temperatures."""
    margin = _MARGIN / float(np.sqrt(len(search.calibration)))
    return np.asarray(1 + margin * np.abs(np.log(temperatures / (_ABOVE * search.calibrated))))


def _laxest(search: Search, engine: Engine, one: _Finalist, target: float, n_threshold: int) -> str | None:
    """The laxest level that supports the claim, as far as the rows give finite thresholds; None if none does."""
    sample, recipe = engine.sample, one.curve.recipe
    if rows_missing(sample.parts.rows):
        return None
    factors = [_STEP**i for i in range(int(np.log(_STRICTEST) / np.log(_STEP)))]
    ladder = [
        level for level in levels_between(recipe.alpha, factors) if conformal_rank(n_threshold, level) <= n_threshold
    ]
    test = ClaimTest(
        sample.place, sample.counts, sample.parts.count, target, n_threshold, search.seed, search.claims
    )  # fmt: skip

    def passes(level: str) -> bool:
        _, hits = engine.solve(recipe, one.temperature, [float(exact_level(level)), laxer(recipe.alpha)])
        return test.passes(1 - hits[0], 1 - hits[1], level)

    low, high = 0, len(ladder) - 1  # the stricter, the surer
    if high < 0 or not passes(ladder[high]):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(ladder[middle]) else (middle + 1, high)
    return ladder[high]


def _tenths_at(engine: Engine, recipe: Recipe, temperature: float, level: Alpha, n_threshold: int) -> Tenths:
    """Draws of the worst and best tenth; the worst no better than a cross-check without a model finds them.

    Where a few classes hold most of the misses, the model is too hopeful: its lower draws are moved to the limit of the
    cross-check, and the middle ones to its estimate.
    """
    sample = engine.sample
    _, hits = engine.solve(recipe, temperature, [float(exact_level(level)), laxer(recipe.alpha)])
    near, far = sample.by_part(1 - hits)
    misses = ClassMisses(sample.counts, near, np.maximum(far, near), sample.parts.count)
    draws = tenths(misses, level, n_threshold, sample.seed)
    seen = CrossCheck(sample.place, len(sample.counts), sample.seed).look(1 - hits[0])
    share = np.argsort(np.argsort(draws.worst, kind="stable"), kind="stable") / max(len(draws.worst) - 1, 1)
    most = np.interp(share, (0.05, 0.5, 0.95), (1 - seen.limit, 1 - seen.rate, 1.0), left=1 - seen.limit)
    return Tenths(np.maximum(np.minimum(draws.worst, most), 0.0), draws.best)


def _protect_by_class(search: Search, plain: Found, target: float, smallest: float) -> Found | None:
    """Thresholds by class at the promised level, where their law keeps the claim and their sets are smaller."""
    own = search.measured.by_class
    if own is None or float(own.size.min()) >= smallest:
        return None
    found = _by_class(search, plain, int(np.argmin(own.size)))
    sure = found.draws is not None and float((found.draws.worst >= target).mean()) >= _CONFIDENCE
    return found if sure else None


# ---- what is said of it ----------------------------------------------------------------------------------------------


class _AtLevel(msgspec.Struct, frozen=True):
    """What sets show at a level between those measured."""

    size: float
    error: float
    empty: tuple[float, ...]
    left_out: float


def _at_level(one: Estimates, j: int, level: Alpha) -> _AtLevel:
    """Sizes by interpolation of their logarithms between the levels measured; the rest likewise."""
    levels = -np.log([float(exact_level(known)) for known in one.levels])
    at = float(np.clip(-np.log(float(exact_level(level))), levels[0], levels[-1]))
    right = int(np.clip(np.searchsorted(levels, at), 1, len(levels) - 1))
    part = float((at - levels[right - 1]) / (levels[right] - levels[right - 1]))

    def between(values: Floats) -> Floats:
        return np.asarray((1 - part) * values[right - 1] + part * values[right])

    size = float(np.exp(between(np.log(np.maximum(one.size[j], 1e-300)))))
    error = float(np.sqrt((between(one.errors[j]) ** 2).sum()))
    return _AtLevel(size, error, tuple(between(one.empty_fifths[j]).tolist()), float(between(one.left_out[j])))


def describe(search: Search, preference: AnyPreference, found: Found) -> Choice:
    """Say what sets will look like at T = 1, at T* and as chosen, and what one could have instead."""
    curve, pick = found.curve, found.pick
    temperatures = np.array([1.0, search.calibrated, found.temperature])
    if search.closed_form:
        outlooks, comparisons, frontier = _Descriptions(search, preference, found).all
        counts = parts_of(search.calibration, search.even).rows
    else:
        looked, top = by_halves(
            search.calibration, curve.recipe, np.unique(temperatures), part_of(search.progress, 1, 2)
        )
        outlooks = tuple(_slow_outlook(name, looked, top, t) for name, t in zip(_NAMES, temperatures, strict=True))
        comparisons = tuple(
            TradeOff(at.name, at.temperature, outlooks[2].size - at.size, None, None, None, None) for at in outlooks[:2]
        )
        frontier = ()
        rows = some_rows(search.calibration, curve.recipe)
        counts = -(-parts_of(rows, search.even).rows // 2)  # measured on halves
    floor = noise_floor_of_counts(counts, search.alpha, random_state=search.seed)
    shown = np.flatnonzero(curve.searchable)
    return Choice(
        preference=preference,
        alpha=search.alpha,
        methods=tuple(one.kind for one in search.candidates),
        met=found.met,
        sure=_CONFIDENCE if found.claim is not None and found.met else None,
        claim=found.claim,
        tied=found.tied,
        peak=None if curve.peak is None else float(curve.temperatures[curve.peak]),
        spread=None if len(pick.halves) != 2 or found.by_class is not None else (pick.halves[0], pick.halves[1]),
        outlooks=outlooks,
        comparisons=comparisons,
        frontier=frontier,
        signal=Signal(beats=pick.beats, tried=pick.tried) if found.by_class is None else Signal(),
        noise_floor=floor.top_mean,
        noise_floor_95=floor.top_95,
        n_rows=len(search.calibration),
        even=search.even,
        curve=Curve(
            tuple(curve.temperatures[shown].tolist()),
            tuple(curve.size[shown, curve.level].tolist()),
            tuple(curve.size_error(int(j)) for j in shown),
            tuple(curve.loss[shown].tolist()),
        ),
    )


def _slow_outlook(name: str, looked: Estimates, top: Floats, temperature: float) -> Outlook:
    j = int(np.flatnonzero(looked.temperatures == temperature)[0])
    return Outlook(
        name=name,
        setting=looked.recipe.change(temperature=temperature),
        size=float(looked.size[j, 0]),
        size_error=looked.size_error(j),
        empty_share=float(looked.empty[j, 0]),
        top_gap=float(top[j]),
    )


@dataclass(frozen=True, eq=False)
class _Descriptions:
    """Outlooks of settings with a closed form, their comparisons, and the frontier."""

    search: Search
    preference: AnyPreference
    found: Found

    @property
    def all(self) -> tuple[tuple[Outlook, ...], tuple[TradeOff, ...], tuple[Outlook, ...]]:
        """T = 1, T* and the choice; the choice against both; and what one could have instead."""
        search, curve = self.search, self.found.curve
        one, star = (int(np.flatnonzero(curve.temperatures == t)[0]) for t in (1.0, search.calibrated))
        top = self._top_gaps(curve, [one, star])
        at_one, at_star = (
            msgspec.structs.replace(self._of_curve(name, curve, j), top_gap=top[k])
            for k, (name, j) in enumerate(zip(_NAMES[:2], (one, star), strict=True))
        )
        chosen = self._chosen()
        comparisons = tuple(self._versus(chosen, at, j) for at, j in ((at_one, one), (at_star, star)))
        frontier = (msgspec.structs.replace(chosen, name="recommended", top_gap=None), *self._others(at_one, at_star))
        return (at_one, at_star, chosen), comparisons, frontier

    def _top_gaps(self, curve: Estimates, places: list[int]) -> list[float | None]:
        """TopCovGap at temperatures of a candidate; None where some class has too few rows to carry it."""
        engine = self.search.engine
        if engine.sample.parts.rows.min() < _CARRIED:
            return [None] * len(places)
        return [float(gap) for gap in engine.top_gaps(curve.recipe, curve.temperatures[places])]

    @cached_property
    def _place(self) -> int | None:
        """The place of the choice among the temperatures of its curve; None at another level or by class."""
        found = self.found
        if found.by_class is not None or found.setting.alpha != self.search.alpha:
            return None
        return int(np.flatnonzero(found.curve.temperatures == found.temperature)[0])

    @cached_property
    def _reaches(self) -> tuple[float, float]:
        """Standard errors for sizes and class gaps of the choice: more than 1.96 where it was chosen by these."""
        found, by_hand = self.found, len(self.search.grid) == 1
        if by_hand or self._place is None:
            return _NORMAL, _NORMAL
        curves = self.search.measured.curves
        if not self.preference.evens_out:
            every = np.concatenate([one.errors[one.searched, one.level] for one in curves])
            return largest_error(every, two_sided=True), _NORMAL
        hits = found.curve.hits
        some = None if hits is None or not len(hits.sample.counts) else hits.at(found.curve.searched)
        return found.curve.reach(), _NORMAL if some is None else simultaneous_reach(some)

    def _of_curve(self, name: str, curve: Estimates, j: int, reaches: tuple[float, float] | None = None) -> Outlook:
        """What a candidate shows at the promised level."""
        size_reach, gap_reach = reaches or (_NORMAL, _NORMAL)
        at = float(curve.temperatures[j])
        draws = _tenths_at(self.search.engine, curve.recipe, at, self.search.alpha, self.search.n_conformal)
        gaps = self._gaps(None if curve.hits is None else curve.hits.at([j]), gap_reach)
        return Outlook(
            name=name,
            setting=curve.recipe.change(temperature=float(curve.temperatures[j])),
            size=float(curve.size[j, curve.level]),
            size_error=curve.size_error(j),
            reach=size_reach,
            empty_share=float(curve.empty[j, curve.level]),
            **gaps,
            **_tenth(draws),
            misses=MissBreakdown(
                easy=float(np.median(draws.best)),
                left_out=float(curve.left_out[j, curve.level]),
                empty=tuple(curve.empty_fifths[j, curve.level].tolist()),
            ),
        )

    def _gaps(self, hits: ClassHits | None, reach: float) -> dict[str, Any]:
        if hits is None or not len(hits.sample.counts):
            return {}
        gaps = ClassGaps(hits, reach)
        return {"class_gap": float(gaps.values[0]), "class_gap_ends": _pair(gaps.intervals[0])}

    def _strict(self, name: str, one: Estimates, j: int, level: Alpha, draws: Tenths | None = None) -> Outlook:
        """What a candidate shows at a stricter level."""
        engine, at = self.search.engine, _at_level(one, j, level)
        temperature, alpha = float(one.temperatures[j]), float(exact_level(level))
        _, hits = engine.solve(one.recipe, temperature, [alpha])
        coverage = engine.sample.classes.measured(hits[0])
        of_level = ClassHits(engine.sample.classes, alpha, *(values[None] for values in coverage))
        if draws is None:
            draws = _tenths_at(engine, one.recipe, temperature, level, self.search.n_conformal)
        return Outlook(
            name=name,
            setting=one.recipe.change(alpha=str(level), temperature=temperature),
            size=at.size,
            size_error=at.error,
            empty_share=float(np.mean(at.empty)),
            **self._gaps(of_level, _NORMAL),
            **_tenth(draws),
            misses=MissBreakdown(easy=float(np.median(draws.best)), left_out=at.left_out, empty=at.empty),
        )

    def _own(self, name: str, own: ByClass, j: int, draws: Tenths) -> Outlook:
        return Outlook(
            name=name,
            setting=own.recipe.change(temperature=float(own.temperatures[j])),
            size=float(own.size[j]),
            size_error=float(own.error[j]),
            empty_share=0.0,
            **_tenth(draws),
        )

    def _chosen(self) -> Outlook:
        found, name = self.found, _NAMES[2]
        if found.by_class is not None and found.draws is not None:
            j = int(np.flatnonzero(found.by_class.temperatures == found.temperature)[0])
            return self._own(name, found.by_class, j, found.draws)
        if self._place is not None:
            (top,) = self._top_gaps(found.curve, [self._place])
            at = self._of_curve(name, found.curve, self._place, self._reaches)
            return msgspec.structs.replace(at, top_gap=top)
        strict = self.search.measured.strict_of(found.curve.recipe)
        if strict is None:
            raise InputError("a stricter level was chosen that was never measured.")
        j = int(np.flatnonzero(strict.temperatures == found.temperature)[0])
        return self._strict(name, strict, j, found.setting.alpha, found.draws)

    def _versus(self, chosen: Outlook, other: Outlook, j: int) -> TradeOff:
        """The choice against a temperature of its own candidate; at another level class gaps are not compared."""
        curve, size = self.found.curve, chosen.size - other.size
        if self._place is None:
            error = float(np.hypot(chosen.size_error, other.size_error))
            ends = size - _NORMAL * error, size + _NORMAL * error
            return TradeOff(other.name, other.temperature, size, ends, None, None, None)
        apart = curve.errors[self._place, curve.level] - curve.errors[j, curve.level]
        size_reach, gap_reach = self._reaches
        error = size_reach * float(np.sqrt((apart**2).sum()))
        gap, ends_of_gap, tells = None, None, None
        if curve.hits is not None and len(curve.hits.sample.counts):
            gap, ends_of_gap, tells = ClassGaps(curve.hits.at([self._place, j]), gap_reach).difference(0, 1)
        return TradeOff(other.name, other.temperature, size, (size - error, size + error), gap, ends_of_gap, tells)

    def _others(self, *at: Outlook) -> list[Outlook]:
        """T = 1 and T*, the paper's T-hat, sets by class, LAC at stricter levels, and what protection would take."""
        search, measured = self.search, self.search.measured
        made = [msgspec.structs.replace(one, top_gap=None) for one in at]
        paper = next((one for one in measured.curves if one.recipe.score == RAPS() and one.recipe.randomized), None)
        if paper is not None:
            j = read_preference("even").pick(paper).place
            made.append(self._of_curve("the paper's T-hat", paper, j))
        if (own := measured.by_class) is not None:
            counts = conformal_counts(parts_of(search.calibration, "class").rows, search.n_conformal)
            draws = tenths_by_law(counts, search.alpha, search.seed)
            made.append(self._own("Mondrian", own, int(np.argmin(own.size)), draws))
        strict = measured.strict[0]
        path = int(np.argmin(np.log(np.maximum(strict.size, 1e-9)).mean(axis=1)))
        if strict.recipe == self.found.setting.change(alpha=search.alpha, temperature=1.0):
            same = np.flatnonzero(strict.temperatures == self.found.temperature)
            path = int(same[0]) if len(same) else path
        for factor, level in zip(STRICTER, strict.levels, strict=True):
            if factor in _SHOWN and conformal_rank(search.n_conformal, level) <= search.n_conformal:
                made.append(self._strict(wording.STRICTER if factor == _OFFERED else "", strict, path, level))
        target = Protect().target(search.alpha) or 0.0
        if self.preference.target(search.alpha) is None:
            laxest = _laxest(search, search.engine, _Finalist(strict, path), target, search.n_conformal)
            if laxest is not None:
                made.append(self._strict(wording.PROTECT, strict, path, laxest))
        return made


_SHOWN, _OFFERED = (1.0, 0.8, 0.6, 0.3, 0.1), 0.6  # of alpha: levels of the frontier, and the one that a screen offers


def _tenth(draws: Tenths) -> dict[str, Any]:
    return {"worst_tenth": float(np.median(draws.worst)), "worst_tenth_ends": _pair(np.quantile(draws.worst, _ENDS))}


def _pair(values: Floats) -> tuple[float, float]:
    return float(values[0]), float(values[1])
