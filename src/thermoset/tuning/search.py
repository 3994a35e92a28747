"""The search: the menu, what is measured for a preference, and how one setting wins.

Selection does not touch the rows that promise coverage: kind and temperature of the sets come from calibration rows.
Only how strict the level must be for hard classes may come from all rows: whatever it is, the threshold is at least the
one that conformal rows alone give at alpha, and so is coverage.

Among candidates (scores, groupings) whose difference the rows cannot show, the smallest sets win, and then the
simplest: LAC at T = 1 with one threshold. Among temperatures of one candidate the best estimate is taken.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.calibration import T_MAX
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.data.top_k import tops_of
from thermoset.errors import CoverageWarning, InputError
from thermoset.levels import Alpha, conformal_rank, exact_level, rows_needed
from thermoset.rows import Progress, part_of
from thermoset.scores import APS, LAC, RAPS, SAPS, Score
from thermoset.sweeping import sweep
from thermoset.sweeping.protocol import temperature_grid
from thermoset.tuning.choice import Claim
from thermoset.tuning.class_gap import NORMAL, ClassGaps
from thermoset.tuning.estimates import (
    AROUND,
    STRICTER,
    Engine,
    Estimates,
    Pick,
    Request,
    Sample,
    largest_error,
    levels_between,
    own_ranks,
    parts_of,
)
from thermoset.tuning.preferences import WORDS, EvenOver, Preference
from thermoset.tuning.worst_classes import (
    SURE,
    Claims,
    Tenths,
    guess_worst,
    rows_missing,
    tenths,
    tenths_by_law,
    worst_looking_limit,
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
_STEP, _STRICTEST = 0.94, 0.004  # of the levels tried for a claim, as multiples of alpha
_NEAR = 4  # steps from a guess within which such a level mostly lies
_MARGIN = 6.0  # over the root of the number of rows: by how much another score must beat LAC under a claim
_CONFIDENCE = 0.95
_SLOW_TRIALS, _SLOW_ROWS = 5, 5_000  # sets without a closed form cost a fit and a prediction each


def menu(
    alpha: Alpha, *, randomized: bool = True, allow_empty: bool = True, random_state: int = 0
) -> tuple[Recipe, ...]:
    """The kinds of sets that `method="auto"` chooses from, besides thresholds by class where each has rows enough.

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


def subsample(rows: Logits, seed: int, even: EvenOver = "class") -> Logits:
    """The rows that a choice uses: all, or, of very many, a sample so large that more would not change it."""
    count = max(_ENOUGH, _ENOUGH_OF_CLASS * len(parts_of(rows, even).names))
    if len(rows) <= count:
        return rows
    return rows.take(np.sort(stream(seed, "rows to choose on").permutation(len(rows))[:count]))


# ---- what is measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Search:
    """Calibration rows, the candidates, and what was measured of them: once, whoever asks.

    only : the temperatures to choose from, where they were named; strict : whether every candidate is measured at
    stricter levels, and not LAC or the only one alone; halves : whether evenness is judged on random halves,
    and not on all rows alone; by_class : whether thresholds by class may be chosen among several candidates.
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
    halves: bool = True
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
        strict = list(dict.fromkeys([plain, *(self.candidates if self.strict or len(self.candidates) == 1 else ())]))
        requests = [Request(one, every, around, halves=self.halves or is_of_paper(one)) for one in self.candidates]
        requests += [Request(one, self._strict_temperatures, stricter, evenness=False) for one in strict]
        usual = np.unique([1.0, self.calibrated])
        if self.only is not None:  # the nearest of those
            usual = np.unique(self.grid[np.abs(self.grid[:, None] - usual).argmin(axis=0)])
        own_levels = Request(plain.change(grouping="class"), usual, (self.alpha,))
        by_class = own_levels if self._can_go_by_class else None
        estimates, own = engine.measure(requests, self.calibrated, by_class)
        curves = [
            replace(one, allowed=np.isin(one.temperatures, self.grid), kinds=len(self.candidates))
            for one in estimates[: len(self.candidates)]
        ]
        return Measured(curves, estimates[len(self.candidates) :], own)

    @property
    def _can_go_by_class(self) -> bool:
        """Whether thresholds by class are a candidate: with several others, and many rows of each class."""
        several = self.by_class and len(self.candidates) > 1
        if not several or self.even == "group" or not self.candidates[0].allow_empty:
            return False  # by group, new rows would need a group: the user must ask for that
        needed = max(_ROWS_BY_CLASS, rows_needed(self.alpha))
        return int(self.own_ranks()[0].min()) >= needed and tops_of(self.calibration) is None

    def all_rows(self, temperature: float) -> Engine:
        """All labelled rows at one temperature: these decide how strict the level must be to protect hard classes."""
        if self.conformal is None:
            return self.engine
        if temperature not in self._all_rows:
            rows = subsample(self.calibration.concatenate(self.conformal), self.seed, self.even)
            n = len(self.calibration) + len(self.conformal)
            self._all_rows[temperature] = Engine(Sample(rows, self.even, self.seed), np.array([temperature]), n)
        return self._all_rows[temperature]

    @cached_property
    def _all_rows(self) -> dict[float, Engine]:
        return {}

    def draw_tenths(self, recipe: Recipe, level: Alpha) -> Tenths:
        """Draws of the worst and best tenth of classes at a level: from all rows at a temperature that has a claim.

        So a claim and the levels next to it rest on the same rows.
        """
        engine = self._all_rows.get(recipe.temperature, self.engine)
        return tenths_at(engine.sample, engine.near_and_far(recipe, level), level, engine.n_conformal)

    def own_ranks(self, n_conformal: int | None = None) -> tuple[Ints, Ints]:
        """The conformal rows that classes will have, and the ranks of their thresholds."""
        return own_ranks(parts_of(self.calibration, "class").counts, n_conformal or self.n_conformal, self.alpha)

    def own_tenths(self, n_conformal: int | None = None) -> Tenths:
        """Draws of the worst and best tenth of classes that have thresholds of their own, by the laws of these."""
        return tenths_by_law(*self.own_ranks(n_conformal), self.seed)


@dataclass(frozen=True, eq=False)
class Measured:
    """Estimates of each candidate, of some of them at stricter levels, and of sets by class where these may do."""

    curves: list[Estimates]
    strict: list[Estimates]
    by_class: Estimates | None

    def strict_of(self, recipe: Recipe) -> Estimates | None:
        """The stricter levels of a candidate, if they were measured."""
        return next((one for one in self.strict if one.recipe == recipe), None)


# ---- how one setting wins --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Selection:
    """What was chosen: a setting with its temperature and level, and what the choice rests on.

    curve : the estimates of its candidate at the promised level.
    """

    setting: Recipe
    curve: Estimates
    pick: Pick
    met: bool = True
    tied: bool = False
    claim: Claim | None = None

    @property
    def by_class(self) -> bool:
        """Whether thresholds by class took the place of the candidate's one threshold."""
        return self.setting.grouping != self.curve.recipe.grouping


def is_of_paper(recipe: Recipe) -> bool:
    """Whether these are the sets that the paper recommends: RAPS with u drawn."""
    return recipe.score == RAPS() and recipe.randomized


def select(search: Search, preference: Preference) -> Selection:
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
        return protect(search, target, _smallest(curves, picks))
    if not all(pick.met for pick in picks) and any(pick.met for pick in picks):
        curves, picks = map(list, zip(*((c, p) for c, p in zip(curves, picks, strict=True) if p.met), strict=True))
    if not preference.evens_out:
        return _smallest(curves, picks)
    selection = _most_even(curves, picks)
    return _more_even_by_class(search, selection) if preference.may_go_by_class else selection


def _of_pick(curve: Estimates, pick: Pick, *, tied: bool = False) -> Selection:
    setting = curve.recipe.change(temperature=float(curve.temperatures[pick.place]))
    return Selection(setting, curve, pick, met=pick.met, tied=tied)


def _smallest(curves: Sequence[Estimates], picks: Sequence[Pick]) -> Selection:
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


def _most_even(curves: Sequence[Estimates], picks: Sequence[Pick]) -> Selection:
    """The smallest sets of those that the rows cannot tell from the most even ones; LAC at T = 1 is one of them."""
    if len(curves) == 1:
        return _of_pick(curves[0], picks[0])
    places = list(zip(curves, picks, strict=True))
    if curves[0].one not in (None, picks[0].place) and picks[0].beats is not None:  # a budget might not allow it
        places.insert(0, (curves[0], Pick(int(curves[0].one or 0))))
    loss = [one.loss[pick.place] for one, pick in places]
    size = np.array([one.size[pick.place, one.level] for one, pick in places])
    best, alike = int(np.argmin(loss)), np.ones(len(places), dtype=bool)
    gaps = [one.gaps.at([pick.place]) for one, pick in places if one.gaps is not None]
    if gaps and not gaps[0].too_few:
        joint = ClassGaps.join(gaps)
        versus = joint.against(best, joint.simultaneous_reach())
        alike = ~versus.tells_apart | (versus.gap < 0)
        alike[best] = True
    chosen = int(np.argmin(np.where(alike, size, np.inf)))
    if chosen and alike[0]:  # the simplest, where the rows cannot show that its sets are larger
        apart = [one.errors[pick.place, one.level] for one, pick in places]
        error = float(np.sqrt(((apart[chosen] - apart[0]) ** 2).sum()))
        chosen = 0 if size[0] - size[chosen] <= NORMAL * error else chosen
    curve, pick = places[chosen]
    alone = pick if chosen == best else Pick(pick.place, met=pick.met)
    return _of_pick(curve, alone, tied=chosen != best)


def _more_even_by_class(search: Search, selection: Selection) -> Selection:
    """Thresholds by class, where their law shows that they are more even, or that they are as even and smaller."""
    own = search.measured.by_class
    if own is None or selection.curve.gaps is None or selection.curve.gaps.too_few:
        return selection
    counts, ranks = search.own_ranks()
    mean, level = ranks / (counts + 1), 1 - float(exact_level(search.alpha))
    gap = float(np.sqrt(np.mean(mean * (1 - mean) / (counts + 2) + (mean - level) ** 2)))
    low, high = selection.curve.gaps.at([selection.pick.place]).intervals()[0]
    smaller = own.size.min() < selection.curve.size[selection.pick.place, selection.curve.level]
    return _by_class(selection, own) if gap < low or (gap < high and smaller) else selection


def _by_class(selection: Selection, own: Estimates) -> Selection:
    setting = own.recipe.change(temperature=float(own.temperatures[np.argmin(own.size)]))
    return replace(selection, setting=setting, tied=False, met=True)


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


def protect(search: Search, target: float, plain: Selection, n_own: int | None = None) -> Selection:
    """The smallest sets with a claim about hard classes; `plain`, and not met, where none can be made.

    n_own : conformal rows that thresholds by class would have, if not those of the search.
    """
    counts = parts_of(search.calibration, search.even).counts
    if search.conformal is not None:
        counts = counts + parts_of(search.conformal, search.even).counts
    claim = Claim(claims=search.claims, shortage=rows_missing(counts))
    tried = [] if claim.shortage else _finalists(search, target)
    levels: list[str | None] = []
    for recipe in tried:
        levels.append(laxest(search, search.engine, recipe, target, guess=levels[-1] if levels else None))
    sizes = [_size(search, recipe, level) for recipe, level in zip(tried, levels, strict=True)]
    own = search.measured.by_class
    smaller = tried and own is not None and own.size.min() < min(sizes)
    if own is not None and smaller and float((search.own_tenths(n_own).worst >= target).mean()) >= _CONFIDENCE:
        return replace(_by_class(plain, own), claim=claim)
    if tried:
        best = int(np.argmin(sizes))
        recipe, level = tried[best], levels[best]
        if search.conformal is not None:
            level = laxest(search, search.all_rows(recipe.temperature), recipe, target, guess=level)
        if level is not None:
            curve = next(one for one in search.measured.curves if one.recipe == recipe.change(temperature=1.0))
            return Selection(recipe.change(alpha=level), curve, Pick(0), claim=claim)
    return replace(plain, met=False, claim=claim)


def _finalists(search: Search, target: float) -> list[Recipe]:
    """Each candidate at the temperature with the smallest sets by a guess, LAC above T*, and the first at T = 1."""
    finalists: list[Recipe] = []
    margin = _MARGIN / float(np.sqrt(len(search.calibration)))
    for recipe in search.candidates:
        strict = search.measured.strict_of(recipe)
        if strict is None:
            continue
        away = np.abs(np.log(strict.temperatures / (_ABOVE * search.calibrated)))
        sizes = _guessed_sizes(strict, search.engine.sample.counts, target) * (1 + margin * away)
        if search.only is not None:
            sizes = np.where(np.isin(strict.temperatures, search.only), sizes, np.inf)
        finalists.append(recipe.change(temperature=float(strict.temperatures[np.argmin(sizes)])))
        if recipe == search.candidates[0] and search.only is None and strict.one is not None:
            finalists.append(recipe.change(temperature=1.0))
    return list(dict.fromkeys(finalists))


def _guessed_sizes(strict: Estimates, counts: Floats, target: float) -> Floats:
    """Sizes at the level where the guessed worst tenth reaches the target, (T,).

    Which level a temperature needs is guessed with much chance in it, how sizes differ at one level with little: the
    level is the median over the temperatures.
    """
    levels = np.log([float(exact_level(level)) for level in strict.levels])
    guessed = guess_worst(strict.missed, strict.far, counts)
    needed = float(np.median([np.interp(target, np.maximum.accumulate(worst), levels) for worst in guessed]))
    sizes = np.log(np.maximum(strict.size, 1e-9))
    return np.array([np.exp(np.interp(-needed, -levels, of)) for of in sizes])


def _size(search: Search, recipe: Recipe, level: str | None) -> float:
    """The size of a finalist at its level; more for other candidates than the first, which few rows favour by luck."""
    strict = search.measured.strict_of(recipe.change(temperature=1.0))
    if strict is None or level is None:
        return np.inf
    first = recipe.change(temperature=1.0) == search.candidates[0]
    handicap = 1.0 if first else 1 + _MARGIN / float(np.sqrt(len(search.calibration)))
    return handicap * strict.at(strict.place(recipe.temperature), level)[0]


def laxest(search: Search, engine: Engine, recipe: Recipe, target: float, guess: str | None) -> str | None:
    """The laxest level that supports the claim, as far as the rows give finite thresholds; None if none does.

    guess : a level near which it is looked for first.
    """
    sample, n_threshold, most = engine.sample, engine.n_conformal, 1 - target
    if rows_missing(sample.parts.counts):
        return None
    factors = [_STEP**i for i in range(int(np.log(_STRICTEST) / np.log(_STEP)))]
    ladder = [
        level for level in levels_between(recipe.alpha, factors) if conformal_rank(n_threshold, level) <= n_threshold
    ]

    def fails(level: str) -> bool:
        hits = engine.near_and_far(recipe, level)
        misses = sample.misses(hits)
        if search.claims == "distribution-free":
            return worst_looking_limit(misses.near, misses.counts, misses.n_classes) > most
        if sample.cross_check.estimate(*(1 - hits))[1] > most:
            return True
        return float((tenths(misses, level, n_threshold, search.seed).worst >= target).mean()) < SURE

    around = [ladder.index(guess) + d for d in (0, -_NEAR, _NEAR)] if guess in ladder else []
    low, high = 0, len(ladder)  # the stricter, the surer
    while low < high:
        place = next((i for i in around if low <= i < high), (low + high) // 2)
        low, high = (place + 1, high) if fails(ladder[place]) else (low, place)
    return ladder[high] if high < len(ladder) else None


def tenths_at(sample: Sample, hits: Floats, level: Alpha, n_threshold: int) -> Tenths:
    """Draws of the worst and best tenth; the worst no better than a cross-check without a model finds them.

    hits : (2, n), at the level and at the laxer one. Where a few classes hold most of the misses, the model is too
    hopeful: its lower draws are moved to the limit of the cross-check, and the middle ones to its estimate.
    """
    draws = tenths(sample.misses(hits), level, n_threshold, sample.seed)
    rate, limit = sample.cross_check.estimate(*(1 - hits))
    share = np.argsort(np.argsort(draws.worst, kind="stable"), kind="stable") / max(len(draws.worst) - 1, 1)
    most = np.interp(share, (0.05, 0.5, 0.95), (1 - limit, 1 - rate, 1.0), left=1 - limit)
    return Tenths(np.maximum(np.minimum(draws.worst, most), 0.0), draws.best)


# ---- sets without a closed form --------------------------------------------------------------------------------------


def by_halves(
    data: Logits, recipe: Recipe, temperatures: Floats, progress: Progress | None = None
) -> tuple[Estimates, Floats]:
    """Estimates and TopCovGap of sets without a closed form, from random halvings of at most some thousand rows."""
    with warnings.catch_warnings():
        # Halves of a small calibration set lack some classes; the noise floor is that of the same counts.
        warnings.simplefilter("ignore", CoverageWarning)
        result = sweep(
            some_rows(data, recipe),
            temperatures=temperatures,
            methods=[recipe.score],
            alphas=[recipe.alpha],
            trials=_SLOW_TRIALS,
            calibration_fraction=0,
            cp_fraction=0.5,
            random_state=recipe.random_state,
            randomized=recipe.randomized,
            allow_empty=recipe.allow_empty,
            grouping=recipe.grouping,
            progress=progress,
        )
    values = {metric: result.of_trials(metric, result.methods[0]) for metric in result.metrics}
    size, loss = values["avg_size"], values["avg_coverage_gap"]
    loss = np.concatenate([loss.mean(axis=1, keepdims=True), loss], axis=1)
    spread = size.std(axis=1, ddof=1)
    estimates = Estimates(
        recipe=recipe,
        temperatures=temperatures,
        levels=(recipe.alpha,),
        size=size.mean(axis=1, keepdims=True),
        errors=(np.eye(len(temperatures)) * spread)[:, None],  # as if temperatures were not of the same rows
        empty_fifths=values["empty_share"].mean(axis=1)[:, None, None],
        losses=loss,
    )
    return estimates, values["top_coverage_gap"].mean(axis=1)


def some_rows(data: Logits, recipe: Recipe) -> Logits:
    """The rows that sets without a closed form are tried on: all, or some thousand of them."""
    if len(data) <= _SLOW_ROWS:
        return data
    rows = stream(recipe.random_state, "rows tried slowly").permutation(len(data))[:_SLOW_ROWS]
    return data.take(np.sort(rows))
