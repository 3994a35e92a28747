"""The table of appendix D, and every other rule for making sets beside it: size, and who pays for it.

Rules with one threshold are measured by `measure_ways`, thresholds by class by `count_sets`. These cost a fit for each
trial, and our own choices a search, so that both have fewer trials on large files.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.levels import rows_needed
from thermoset.metrics import METRICS
from thermoset.paper.study.appendices import calibration_curves, conf_ts, least_gap, plain_aps_scores
from thermoset.paper.study.cells import COMPARED, Cell, Place, cell_of_trials
from thermoset.paper.study.measure import METHODS, Measured, Settings, Tell, calibration_rows
from thermoset.paper.study.mondrian import KINDS, count_sets
from thermoset.paper.study.own_temperatures import OwnTemperatures, measure_ways
from thermoset.paper.study.published import Pair
from thermoset.paper.study.rules import Rule, at_temperatures, chosen_rules, stricter
from thermoset.quoting import Brief
from thermoset.rows import run_tasks
from thermoset.sweeping import Sweep, draw_trial
from thermoset.tuning import Search, read_preference, settle

__all__ = ["RuleComparison", "compare", "few_trials"]


_RAPS = METHODS.index("raps")
_CP = (10, 20)  # sizes of the conformal set in the table, percent
_ENTRIES = 1e8  # logits that slow rules go through, over all trials
_LEAST = 40  # trials of what is slow, however large the file
_GAP_BUDGET = "gap<=0.03"
_JOINT_SEARCHES = 12  # each looks at every kind of sets
_GAP_SEARCHES = 25  # each simulates class gaps at every temperature


@dataclass(frozen=True, eq=False, repr=False)
class RuleComparison(Brief):
    """What the rules show, and what they chose.

    Attributes
    ----------
    cells
        Of the tables: every rule, for each size of the conformal set.
    temperatures
        Of each trial, by score and name of the rule.
    single_trials
        The curves of appendix C.
    rules
        Those that choose more than a temperature, with what they chose in each trial.
    infinite
        Share of Mondrian thresholds that are infinite for lack of rows, by size of the conformal set.
    """

    cells: tuple[Cell, ...]
    temperatures: dict[tuple[str, str], Floats]
    single_trials: Sweep
    rules: tuple[Rule, ...] = ()
    infinite: dict[int, float] = field(default_factory=dict)

    def by_rule(self, cp: int) -> dict[tuple[str, str], dict[str, Cell]]:
        """Cells of our own conventions, by score and rule, then by metric; a score's rules stand together."""
        mine = [cell for cell in self.cells if (cell.mode, cell.cp_percent) == ("exact", cp)]
        order = list(dict.fromkeys(cell.method for cell in mine))
        found: dict[tuple[str, str], dict[str, Cell]] = {}
        for cell in sorted(mine, key=lambda cell: order.index(cell.method)):  # stable: rules keep their order
            found.setdefault((cell.method, cell.at), {})[cell.metric] = cell
        return found


def few_trials(data: Logits, settings: Settings) -> int:
    """Trials of what is slow: as many as asked for, or fewer on a large file."""
    affordable = math.ceil(_ENTRIES / (len(data) * data.n_classes))
    return min(settings.trials, max(affordable, _LEAST))


def compare(data: Logits, found: Measured, pair: Pair | None, settings: Settings, tell: Tell) -> RuleComparison:
    """Measure every rule at the sizes of the conformal set that the table has (as far as they were asked for)."""
    alpha, middle = settings.main
    conf_ts_ = _conf_ts_temperatures(data, settings)
    rules = [at_temperatures("conf_ts", ("aps", "raps"), conf_ts_, alpha)]
    tell("ConfTS")
    rules.extend(_our_rules(data, found, settings))
    tell("our choices")
    chosen = tuple(chosen_rules(data, found, settings, min(few_trials(data, settings), _JOINT_SEARCHES)))
    ones = np.ones(settings.trials)
    rules.extend((*chosen, stricter("T*", ("lac",), found.trial_ece, alpha)))
    rules.append(stricter("T = 1", METHODS[:3], ones, alpha))
    tell("other rules")
    known = {"T = 1": ones, "T*": found.trial_ece}
    temperatures = {(method, name): chosen_ for name, chosen_ in known.items() for method in METHODS[:3]}
    temperatures.update({name: rule.temperatures for rule in rules for name in rule.names})
    cells: list[Cell] = []
    curves = {}
    for cp in (cp for cp in _CP if cp in settings.cp_percents):
        curves[cp] = calibration_curves(data, settings, cp, ("aps", "raps"), alpha)
        t_hat = temperatures["raps", f"t_hat, CP {cp}%"] = least_gap(curves[cp], "raps")
        tell(f"appendix C, CP {cp}%")
        cells.extend(_fixed(found, pair, settings, cp))
        for rule in (*rules, at_temperatures("t_hat", ("raps",), t_hat, alpha)):
            cells.extend(_measured(data, pair, settings, cp, rule))
    if curves:
        cells.extend(_by_class(data, pair, settings, list(curves)))
    tell("sets by class")
    single = curves.get(middle) or calibration_curves(data, settings, middle, ("aps", "raps"), alpha)
    infinite = {cp: _infinite_share(data, settings, cp) for cp in curves}
    return RuleComparison(tuple(cells), temperatures, single, chosen, infinite)


def _infinite_share(data: Logits, settings: Settings, cp: int) -> float:
    """Share of classes with fewer conformal rows than a threshold of their own needs, over the trials."""
    labels, needed = data.require_labels("the study"), rows_needed(settings.main[0])
    drawn = (draw_trial(len(data), t, settings.protocol(cp)) for t in range(few_trials(data, settings)))
    few = [np.bincount(labels[trial.conformal], minlength=data.n_classes) < needed for trial in drawn]
    return float(np.mean(few))


def _size_budget(found: Measured, settings: Settings) -> float:
    """Labels a set may have on average: what RAPS has at T = 1, and half as many more."""
    part = found.before[settings.cp_percents[0]]
    return 1.5 * float(part.of("avg_size")[_RAPS, settings.alphas.index(settings.main[0])].mean())


def _conf_ts_temperatures(data: Logits, settings: Settings) -> Floats:
    grid, (alpha, _) = settings.grid(), settings.main
    scores = plain_aps_scores(data, grid)
    return np.array([conf_ts(scores, rows, grid, alpha, t) for t, rows in enumerate(calibration_rows(data, settings))])


def _our_rules(data: Logits, found: Measured, settings: Settings) -> Iterator[Rule]:
    """Our choice of a temperature for RAPS, by preference."""
    few, budget = few_trials(data, settings), f"size<={_size_budget(found, settings):.3g}"
    trials = {"even": few, budget: few, _GAP_BUDGET: min(few, _GAP_SEARCHES)}
    for prefer, temperatures in _our_choices(data, found, settings, trials).items():
        yield at_temperatures(f"choose {prefer}", ("raps",), temperatures, settings.main[0])


def _our_choices(data: Logits, found: Measured, settings: Settings, trials: dict[str, int]) -> dict[str, Floats]:
    """T-hat as `tuning.choose` finds it on the calibration rows of so many trials for each preference."""
    chosen = {prefer: np.empty(count) for prefer, count in trials.items()}

    def work(t: int, rows: Ints) -> None:
        recipe = Recipe("raps", settings.main[0], random_state=t)
        star = float(found.trial_nll[t])
        search = Search(calibration=data.take(rows), candidates=(recipe,), calibrated=star, n_conformal=len(rows))
        for prefer, temperatures in chosen.items():
            if t < len(temperatures):
                temperatures[t] = settle(search, read_preference(prefer)).temperature

    drawn = zip(range(max(trials.values())), calibration_rows(data, settings), strict=False)
    run_tasks([partial(work, t, rows) for t, rows in drawn])
    return chosen


def _fixed(found: Measured, pair: Pair | None, settings: Settings, cp: int) -> Iterator[Cell]:
    """Each score at T = 1 and at T*; RAPS at T = 1 once more, which the T-hat printed of CIFAR-100 ResNet50 is."""
    alpha = settings.main[0]
    a = settings.alphas.index(alpha)
    parts = [("exact", at, method, part) for method in METHODS[:3] for at, part in _named(found)]
    for mode, at, method, part in (*parts, ("published", "t_hat", "raps", found.before)):
        for metric in COMPARED:
            values = part[cp].of(metric)[METHODS.index(method), a]
            yield cell_of_trials(pair, Place(mode, metric, method, at, alpha, cp), values)


def _named(found: Measured) -> tuple[tuple[str, dict[int, OwnTemperatures]], ...]:
    return ("T = 1", found.before), ("T*", found.after)


def _measured(data: Logits, pair: Pair | None, settings: Settings, cp: int, rule: Rule) -> Iterator[Cell]:
    """A rule, against what was promised, whatever level it chose."""
    alpha, first = settings.main[0], rule.ways[0]
    part = measure_ways(data, rule.ways, (alpha,) * len(first.levels), settings.protocol(cp))
    places = np.ndindex(len(first.scores), len(first.levels))
    for (method, name), (m, a) in zip(rule.names, places, strict=True):
        for metric in COMPARED:
            values = part.of(metric)[m, a]
            yield cell_of_trials(pair, Place("exact", metric, method, name, alpha, cp), values)


def _by_class(data: Logits, pair: Pair | None, settings: Settings, cps: list[int]) -> Iterator[Cell]:
    """Mondrian sets as they are valid and as the printed gaps have them, and clustered ones; all at T = 1."""
    few, alpha = few_trials(data, settings), settings.main[0]
    for cp in cps:
        found = count_sets(data, settings.protocol(cp), few, "raps", alpha)
        for k, (mode, at) in enumerate(KINDS):
            for metric in COMPARED:
                drawn, averaged = found[k]
                values = METRICS[metric].of(averaged if METRICS[metric].needs == "expectation" else drawn)
                yield cell_of_trials(pair, Place(mode, metric, "raps", at, alpha, cp), values)
