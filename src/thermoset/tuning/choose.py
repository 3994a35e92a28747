"""Choosing a setting, and describing it: sets at T = 1, at T* and as chosen, and what one could have instead."""

import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from thermoset.arrays import Floats
from thermoset.bounds import MOST_ROWS, checked_temperature, whole_number
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.errors import BudgetWarning, InputError
from thermoset.levels import conformal_rank, exact_level
from thermoset.metrics import noise_floor_of_counts
from thermoset.quoting import quoted
from thermoset.rows import Progress, part_of
from thermoset.sweeping.protocol import checked_temperatures
from thermoset.tuning.choice import (
    A_STRICTER_ALPHA,
    PREFER_PROTECT,
    Choice,
    Curve,
    MissBreakdown,
    Outlook,
    Signal,
    TradeOff,
    warning_of,
)
from thermoset.tuning.class_gap import NORMAL, ClassGaps
from thermoset.tuning.estimates import (
    AROUND,
    STRICTER,
    Estimates,
    Request,
    largest_error,
    levels_between,
    parts_of,
    warn_of_missing_parts,
)
from thermoset.tuning.preferences import AnyPreference, EvenOver, Protect, checked_even, read_preference
from thermoset.tuning.search import (
    Search,
    Selection,
    by_halves,
    is_of_paper,
    menu,
    protect,
    select,
    some_rows,
    subsample,
)
from thermoset.tuning.worst_classes import Claims, Tenths, checked_claims

_CARRIED = 30  # rows of every class without which TopCovGap, which looks at the worst classes, is mostly chance
_SHOWN, _OFFERED = (1.0, 0.8, 0.6, 0.3, 0.1), 0.6  # of alpha: levels of the frontier, and the one that a screen offers
_CONFIDENCE, _ENDS = 0.95, (0.05, 0.95)
_NAMES = ("T = 1", "T*", "T-hat")


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
        halves=preference.evens_out,
        progress=progress,
    )
    result = describe(search, preference, select(search, preference))
    if preference.is_about_classes:
        warn_of_missing_parts(search.calibration, even)
    if (doubt := warning_of(result, calibration.n_classes)) is not None:
        warnings.warn(doubt, BudgetWarning, stacklevel=2)
    return result


def _candidates(recipe: object) -> tuple[Recipe, ...]:
    candidates = menu("0.1") if recipe is None else (recipe,) if isinstance(recipe, Recipe) else recipe
    if not isinstance(candidates, Sequence) or not candidates or not all(isinstance(one, Recipe) for one in candidates):
        raise InputError(
            "recipe must be a Recipe, such as ts.Recipe('aps', alpha=0.1), or a sequence of them; got "
            f"{quoted(recipe)}."
        )
    return tuple(one.change(temperature=1.0) for one in candidates)


def describe(search: Search, preference: AnyPreference, selection: Selection) -> Choice:
    """Say what sets will look like at T = 1, at T* and as chosen, and what one could have instead."""
    curve, pick = selection.curve, selection.pick
    rows = search.calibration
    if search.closed_form:
        outlooks, comparisons, frontier = _Outlooks(search, preference, selection).all
    else:
        outlooks, comparisons, frontier = (*_slow(search, selection), ())
        rows = some_rows(search.calibration, curve.recipe)
    counts = parts_of(rows, search.even).counts
    counts = counts if search.closed_form else -(-counts // 2)  # measured on halves
    floor = noise_floor_of_counts(counts, search.alpha, random_state=search.seed)
    return Choice(
        preference=preference,
        alpha=search.alpha,
        methods=tuple(one.kind for one in search.candidates),
        met=selection.met,
        sure=_CONFIDENCE if selection.claim is not None and selection.met else None,
        claim=selection.claim,
        tied=selection.tied,
        peak=None if curve.peak is None else float(curve.temperatures[curve.peak]),
        spread=None if len(pick.halves) != 2 or selection.by_class else (pick.halves[0], pick.halves[1]),
        outlooks=outlooks,
        comparisons=comparisons,
        frontier=frontier,
        signal=Signal() if selection.by_class else Signal(beats=pick.beats, tried=pick.tried),
        noise_floor=floor.top_mean,
        noise_floor_95=floor.top_95,
        n_rows=len(search.calibration),
        even=search.even,
        curve=_curve_in_use(search, selection),
    )


def _slow(search: Search, selection: Selection) -> tuple[tuple[Outlook, ...], tuple[TradeOff, ...]]:
    """Outlooks of sets without a closed form, and the choice against T = 1 and T*."""
    temperatures = np.array([1.0, search.calibrated, selection.setting.temperature])
    progress = part_of(search.progress, 1, 2)
    measured, top = by_halves(search.calibration, selection.curve.recipe, np.unique(temperatures), progress)
    outlooks = []
    for name, temperature in zip(_NAMES, temperatures, strict=True):
        j = measured.place(float(temperature))
        outlooks.append(
            Outlook(
                name=name,
                setting=measured.recipe.change(temperature=float(temperature)),
                size=float(measured.size[j, 0]),
                size_error=measured.size_error(j),
                empty_share=float(measured.empty_fifths[j, 0].mean()),
                top_gap=float(top[j]),
            )
        )
    size = outlooks[2].size
    versus = (TradeOff(at.name, at.temperature, size - at.size, None, None, None, None) for at in outlooks[:2])
    return tuple(outlooks), tuple(versus)


class _Outlooks:
    """What sets with a closed form show, setting by setting: each is measured once."""

    def __init__(self, search: Search, preference: AnyPreference, selection: Selection) -> None:
        self.search, self.preference, self.selection = search, preference, selection
        self._known: dict[Recipe, tuple[Outlook, ClassGaps | None]] = {}
        gaps = selection.curve.gaps
        self._compares = gaps is not None and not gaps.too_few

    @property
    def all(self) -> tuple[tuple[Outlook, ...], tuple[TradeOff, ...], tuple[Outlook, ...]]:
        """T = 1, T* and the choice; the choice against both; and what one could have instead."""
        curve, chosen = self.selection.curve, self.selection.setting
        offered = self._offer()  # first: it adds rows to what is known of the worst tenth at its temperature
        settings = [curve.recipe.change(temperature=t) for t in (1.0, float(self.search.calibrated))]
        at = [self.at(one, name) for name, one in zip(_NAMES, settings, strict=False)]
        last, gaps = self._known[chosen] if chosen in self._known else self._measure(chosen)
        size_reach, gap_reach = self._reaches
        at.append(msgspec.structs.replace(last, name=_NAMES[2], reach=size_reach, **self._class_gap(gaps, gap_reach)))
        comparisons = tuple(self._versus(at[2], one) for one in at[:2])
        return (
            self._with_top_gaps(at),
            comparisons,
            (msgspec.structs.replace(at[2], name="recommended"), *at[:2], *self._others(), *offered),
        )

    def at(self, setting: Recipe, name: str) -> Outlook:
        """What a setting shows."""
        if setting not in self._known:
            self._known[setting] = self._measure(setting)
        return msgspec.structs.replace(self._known[setting][0], name=name)

    def _measure(self, setting: Recipe) -> tuple[Outlook, ClassGaps | None]:
        search = self.search
        if setting.grouping == "class" and (own := search.measured.by_class) is not None:
            j = own.place(setting.temperature)
            size, error = float(own.size[j, 0]), own.size_error(j)
            worst = _worst_tenth(search.own_tenths())
            return Outlook(name="", setting=setting, size=size, size_error=error, empty_share=0.0, **worst), None
        one, j = self._source(setting)
        size, error, empty = one.at(j, setting.alpha)
        engine, sample = search.engine, search.engine.sample
        recipe = one.recipe.change(temperature=setting.temperature)
        hits, draws = engine.near_and_far(recipe, setting.alpha), search.draw_tenths(recipe, setting.alpha)
        measured = (values[None] for values in sample.classes.measure(hits[0]))
        several = len(sample.classes.counts) > 0
        gaps = ClassGaps(sample.classes, float(exact_level(setting.alpha)), *measured) if several else None
        left_out = float((1 - hits[0][engine.labels.is_top]).sum() / len(sample))
        outlook = Outlook(
            name="",
            setting=setting,
            size=size,
            size_error=error,
            empty_share=float(np.mean(empty)),
            **self._class_gap(gaps),
            **_worst_tenth(draws),
            misses=MissBreakdown(easy=float(np.median(draws.best)), left_out=left_out, empty=tuple(empty.tolist())),
        )
        return outlook, gaps

    def _class_gap(self, gaps: ClassGaps | None, reach: float = NORMAL) -> dict[str, Any]:
        """The class gap; its interval where rows are enough for one."""
        if gaps is None:
            return {}
        ends = _pair(gaps.intervals(reach)[0]) if self._compares else None
        return {"class_gap": float(gaps.values[0]), "class_gap_ends": ends}

    def _source(self, setting: Recipe) -> tuple[Estimates, int]:
        """The estimates that have a setting, and the place of its temperature there."""
        measured, level = self.search.measured, exact_level(setting.alpha)
        of_levels = measured.curves if level == exact_level(self.search.alpha) else []
        for one in (*of_levels, *measured.strict):
            same = one.recipe.change(alpha=setting.alpha, temperature=setting.temperature) == setting
            if same and setting.temperature in one.temperatures:
                return one, one.place(setting.temperature)
        raise LookupError(f"{setting.title} was never measured")

    def _place_on_curve(self, setting: Recipe) -> int | None:
        """The place of a setting among the temperatures of the chosen candidate; None at another level or by class."""
        curve = self.selection.curve
        same = curve.recipe.change(temperature=setting.temperature) == setting
        return curve.place(setting.temperature) if same else None

    def _with_top_gaps(self, outlooks: Sequence[Outlook]) -> tuple[Outlook, ...]:
        """The same with TopCovGap for settings of the chosen candidate, where every class has rows to carry it."""
        engine, settings = self.search.engine, [one.setting for one in outlooks]
        at = np.unique([one.temperature for one in settings if self._place_on_curve(one) is not None])
        if engine.sample.parts.counts.min() < _CARRIED:
            return tuple(outlooks)
        tops = dict(zip(at.tolist(), engine.top_gaps(self.selection.curve.recipe, at).tolist(), strict=True))
        known = (None if self._place_on_curve(one) is None else tops[one.temperature] for one in settings)
        return tuple(msgspec.structs.replace(one, top_gap=top) for one, top in zip(outlooks, known, strict=True))

    @cached_property
    def _reaches(self) -> tuple[float, float]:
        """Standard errors for sizes and class gaps of the choice: more than 1.96 where it was chosen by these."""
        selection, by_hand = self.selection, len(self.search.grid) == 1
        if by_hand or self._place_on_curve(selection.setting) is None:
            return NORMAL, NORMAL
        curves = self.search.measured.curves
        if not self.preference.evens_out:
            every = np.concatenate([one.errors[one.searched, one.level] for one in curves])
            return largest_error(every, two_sided=True), NORMAL
        curve = selection.curve
        size_reach = largest_error(curve.errors[curve.searched, curve.level], two_sided=True)
        return size_reach, NORMAL if curve.gaps is None else curve.gaps.at(curve.searched).simultaneous_reach()

    def _versus(self, chosen: Outlook, other: Outlook) -> TradeOff:
        """The choice against a temperature of its own candidate; at another level class gaps are not compared."""
        curve, size = self.selection.curve, chosen.size - other.size
        i, j = self._place_on_curve(chosen.setting), self._place_on_curve(other.setting)
        if i is None or j is None:
            error = NORMAL * float(np.hypot(chosen.size_error, other.size_error))
            return TradeOff(other.name, other.temperature, size, (size - error, size + error), None, None, None)
        size_reach, gap_reach = self._reaches
        apart = curve.errors[i, curve.level] - curve.errors[j, curve.level]
        error = size_reach * float(np.sqrt((apart**2).sum()))
        ends = size - error, size + error
        if curve.gaps is None or not self._compares:
            return TradeOff(other.name, other.temperature, size, ends, None, None, None)
        gap, gap_ends, tells = (values[0] for values in curve.gaps.at([i, j]).against(1, gap_reach))
        return TradeOff(other.name, other.temperature, size, ends, float(gap), _pair(gap_ends), bool(tells))

    def _others(self) -> list[Outlook]:
        """The most even T-hat of RAPS, sets by class, and LAC at stricter levels."""
        search, measured, others = self.search, self.search.measured, []
        paper = next((one for one in measured.curves if is_of_paper(one.recipe)), None)
        if paper is not None:
            j = read_preference("even").pick(paper).place
            others.append(self.at(paper.recipe.change(temperature=float(paper.temperatures[j])), "most even T-hat"))
        if (own := measured.by_class) is not None:
            best = own.recipe.change(temperature=float(own.temperatures[np.argmin(own.size)]))
            others.append(self.at(best, "Mondrian"))
        strict, chosen = measured.strict[0], self.selection.setting
        temperature = float(strict.temperatures[np.argmin(np.log(np.maximum(strict.size, 1e-9)).mean(axis=1))])
        if (
            chosen.change(alpha=search.alpha, temperature=1.0) == strict.recipe
            and chosen.temperature in strict.temperatures
        ):
            temperature = chosen.temperature
        for factor, level in zip(STRICTER, strict.levels, strict=True):
            if factor in _SHOWN and conformal_rank(search.n_conformal, level) <= search.n_conformal:
                name = A_STRICTER_ALPHA if factor == _OFFERED else ""
                others.append(self.at(strict.recipe.change(alpha=level, temperature=temperature), name))
        return others

    def _offer(self) -> list[Outlook]:
        """What protection would take, where it was not requested."""
        search, target = self.search, Protect().target(self.search.alpha)
        if target is None or self.preference.target(search.alpha) is not None:
            return []
        n_rows = search.n_conformal if search.conformal is None else len(search.calibration) + len(search.conformal)
        of_rows = float(Protect().calibration_share(n_rows))  # others than these are conformal there
        offered = protect(search, target, self.selection, round(n_rows * (1 - of_rows)))
        return [self.at(offered.setting, PREFER_PROTECT)] if offered.met else []


def _worst_tenth(draws: Tenths) -> dict[str, Any]:
    return {"worst_tenth": float(np.median(draws.worst)), "worst_tenth_ends": _pair(np.quantile(draws.worst, _ENDS))}


def _pair(values: Floats) -> tuple[float, float]:
    return float(values[0]), float(values[1])


def _curve_in_use(search: Search, selection: Selection) -> Curve:
    """What the chosen kind of sets shows at each temperature; a stricter level than the promised is measured here."""
    curve, level = selection.curve, selection.setting.alpha
    if selection.by_class and search.measured.by_class is not None:
        curve = search.measured.by_class
    shown = np.flatnonzero(curve.searchable)
    if level != curve.recipe.alpha:
        recipe, levels = curve.recipe.change(alpha=level), levels_between(level, AROUND)
        strict = Request(recipe, curve.temperatures[shown], levels, halves=search.halves)
        ((curve, *_), _) = search.engine.measure([strict], search.calibrated)
        shown = np.arange(len(shown))
    gaps = None if curve.gaps is None else curve.gaps.at(shown.tolist()).values
    return Curve(
        alpha=level,
        temperatures=tuple(curve.temperatures[shown].tolist()),
        size=tuple(curve.size[shown, curve.level].tolist()),
        size_error=tuple(curve.size_error(int(j)) for j in shown),
        class_gap=None if gaps is None else tuple(gaps.tolist()),
        loss=tuple(curve.loss[shown].tolist()) if curve.losses.size else None,
    )
