"""The table of appendix D, extended: ways to even class coverage, all with RAPS.

Rules that choose a temperature are measured by `measure_trials`, thresholds by class by `count_sets`. These cost a fit
for each trial, and our own choices a search, so that both have fewer trials on large files.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from thermoset.conformal.recipes import Recipe
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.pool import run_all
from thermoset.core.sources import ArrayRows, RankedRows
from thermoset.data import Logits
from thermoset.metrics import METRICS
from thermoset.paper.study.appendices import calibration_curves, conf_ts, least_gap, plain_aps_scores
from thermoset.paper.study.cells import SHOWN, Cell, Place, cell_of_trials
from thermoset.paper.study.measure import METHODS, Measured, Settings, Tell, calibration_rows
from thermoset.paper.study.mondrian import KINDS, count_sets
from thermoset.paper.study.published import Pair
from thermoset.sweeping import Sweep, measure_trials
from thermoset.tuning import default_grid, read_preference
from thermoset.tuning.closed_form import Curves, Rows
from thermoset.tuning.search import Search, Steps, find

__all__ = ["RuleComparison", "compare", "few_trials"]


_RAPS = METHODS.index("raps")
_CP = (10, 20)  # sizes of the conformal set in the table, percent
_ENTRIES = 1e8  # logits that slow rules go through, over all trials
_LEAST = 40  # trials of what is slow, however large the file
_GAP_BUDGET = "gap<=0.03"
_GAP_SEARCHES = 25  # each simulates class gaps at every temperature


@dataclass(frozen=True, eq=False)
class RuleComparison:
    """Cells of the table, what each rule chose in its trials by name of the rule, and the curves of appendix C."""

    cells: tuple[Cell, ...]
    temperatures: dict[str, Floats]
    single_trials: Sweep


def few_trials(data: Logits, settings: Settings) -> int:
    """Trials of what is slow: as many as asked for, or fewer on a large file."""
    affordable = math.ceil(_ENTRIES / (len(data) * data.n_classes))
    return min(settings.trials, max(affordable, _LEAST))


def compare(data: Logits, found: Measured, pair: Pair | None, settings: Settings, tell: Tell) -> RuleComparison:
    """Measure every rule at the sizes of the conformal set that the table has (as far as they were asked for)."""
    cells: list[Cell] = []
    chosen = {
        "T = 1": np.ones(settings.trials),
        "T*": found.trial_ece,
        "conf_ts": _conf_ts_temperatures(data, settings),
    }
    tell("ConfTS")
    budget = f"size<={_size_budget(found, settings):.3g}"
    few = few_trials(data, settings)
    ours = _our_choices(data, found, settings, {"coverage": few, budget: few, _GAP_BUDGET: min(few, _GAP_SEARCHES)})
    chosen.update({f"choose {prefer}": temperatures for prefer, temperatures in ours.items()})
    tell("our choices")
    curves = {}
    for cp in (cp for cp in _CP if cp in settings.cp_percents):
        curves[cp] = calibration_curves(data, settings, cp, ("aps", "raps"), settings.main[0])
        chosen[f"t_hat, CP {cp}%"] = least_gap(curves[cp], "raps")
        tell(f"appendix C, CP {cp}%")
        cells.extend(_fixed(found, pair, settings, cp))
        for name in ("conf_ts", *(f"choose {prefer}" for prefer in ours)):
            cells.extend(_at_chosen(data, pair, settings, cp, name, chosen[name]))
        cells.extend(_at_chosen(data, pair, settings, cp, "t_hat", chosen[f"t_hat, CP {cp}%"]))
    if curves:
        cells.extend(_by_class(data, pair, settings, list(curves)))
    tell("sets by class")
    alpha, middle = settings.main
    single = curves.get(middle) or calibration_curves(data, settings, middle, ("aps", "raps"), alpha)
    return RuleComparison(tuple(cells), chosen, single)


def _size_budget(found: Measured, settings: Settings) -> float:
    """Labels a set may have on average: what RAPS has at T = 1, and half as many more."""
    part = found.before[settings.cp_percents[0]]
    return 1.5 * float(part.of("avg_size")[_RAPS, settings.alphas.index(settings.main[0])].mean())


def _conf_ts_temperatures(data: Logits, settings: Settings) -> Floats:
    grid, (alpha, _) = settings.grid(), settings.main
    scores = plain_aps_scores(data, grid)
    return np.array([conf_ts(scores, rows, grid, alpha, t) for t, rows in enumerate(calibration_rows(data, settings))])


class _OneLook(Search):
    """A search that looks once at temperatures that several preferences ask for."""

    @cached_property
    def _seen(self) -> dict[bytes, tuple[Curves, Rows]]:
        return {}

    def closed_form(self, temperatures: Floats) -> tuple[Curves, Rows]:
        key = temperatures.tobytes()
        if key not in self._seen:
            self._seen[key] = super().closed_form(temperatures)
        return self._seen[key]


def _our_choices(data: Logits, found: Measured, settings: Settings, trials: dict[str, int]) -> dict[str, Floats]:
    """T-hat as `tuning.choose` finds it on the calibration rows of so many trials for each preference."""
    chosen = {prefer: np.empty(count) for prefer, count in trials.items()}

    def work(t: int, rows: Ints) -> None:
        recipe = Recipe("raps", settings.main[0], random_state=t)
        some = data.take(rows)
        ranked = RankedRows(ArrayRows(some.logits))
        search = _OneLook(some, ranked, recipe, len(rows), "calibration", None, Steps(None))
        grid = default_grid(float(found.trial_nll[t]))
        for prefer, temperatures in chosen.items():
            if t < len(temperatures):
                temperatures[t] = find(search, read_preference(prefer), grid).temperature

    drawn = zip(range(max(trials.values())), calibration_rows(data, settings), strict=False)
    run_all([partial(work, t, rows) for t, rows in drawn])
    return chosen


def _fixed(found: Measured, pair: Pair | None, settings: Settings, cp: int) -> Iterator[Cell]:
    """RAPS at T = 1 and at T*; the printed column of T-hat has the values of T = 1."""
    alpha = settings.main[0]
    a = settings.alphas.index(alpha)
    parts = ("exact", "T = 1", found.before), ("exact", "T*", found.after), ("published", "t_hat", found.before)
    for mode, at, part in parts:
        for metric in SHOWN:
            values = part[cp].of(metric)[_RAPS, a]
            yield cell_of_trials(pair, Place(mode, metric, "raps", at, alpha, cp), values)


def _at_chosen(
    data: Logits, pair: Pair | None, settings: Settings, cp: int, rule: str, temperatures: Floats
) -> Iterator[Cell]:
    alpha = settings.main[0]
    part = measure_trials(data, temperatures, ("raps",), (alpha,), settings.protocol(cp))
    for metric in SHOWN:
        values = part.of(metric)[0, 0]
        yield cell_of_trials(pair, Place("exact", metric, "raps", rule, alpha, cp), values)


def _by_class(data: Logits, pair: Pair | None, settings: Settings, cps: list[int]) -> Iterator[Cell]:
    """Mondrian sets as they are valid and as the printed gaps have them, and clustered ones; all at T = 1."""
    few, alpha = few_trials(data, settings), settings.main[0]
    for cp in cps:
        found = count_sets(data, settings.protocol(cp), few, "raps", alpha)
        for k, (mode, at) in enumerate(KINDS):
            for metric in SHOWN:
                values = METRICS[metric].of(found[k])
                yield cell_of_trials(pair, Place(mode, metric, "raps", at, alpha, cp), values)
