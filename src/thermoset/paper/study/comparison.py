"""The table of appendix D, and every other rule for making sets beside it: size, and who pays for it.

Rules with one threshold are measured by `measure_ways`, thresholds by class (at T = 1) by `count_sets`: as they are
valid, and clamped, which comes nearest to the printed gaps. The code published with the paper has no thresholds by
class, so how the printed ones were made is not known. These cost a fit for each trial, and our own choices a search, so
that both have fewer trials on large files.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from thermoset.arrays import Floats, Ints, as_floats
from thermoset.conformal.groupings import GROUPINGS
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.levels import Alpha, conformal_rank, rows_needed
from thermoset.metrics import METRICS, SetCounts
from thermoset.paper.study.cells import COMPARED, Cell, Pair, Place, cell_of_trials
from thermoset.paper.study.measure import (
    METHODS,
    Measured,
    OwnTemperatures,
    Settings,
    Tell,
    calibration_rows,
    joined_by_top,
    measure_ways,
    split_by_top,
)
from thermoset.paper.study.rules import (
    Rule,
    at_temperatures,
    calibration_curves,
    chosen_rules,
    conf_ts,
    least_gap,
    plain_aps_scores,
    stricter,
)
from thermoset.quoting import Brief
from thermoset.rows import SortedRows, run_tasks
from thermoset.scores import Score, resolve
from thermoset.sweeping import Protocol, Sweep, draw_trial
from thermoset.sweeping.engine import (
    LabelParts,
    Misses,
    Trials,
    class_thresholds,
    count_class_sets,
    expected_hits,
    label_parts,
)
from thermoset.sweeping.job import set_counts
from thermoset.sweeping.protocol import draw_trials
from thermoset.tuning import Search, read_preference, settle

KINDS = (("exact", "mondrian"), ("published", "mondrian"), ("exact", "clustered"))
"""The thresholds that are compared: in whose mode, and how classes are grouped, by the paper's names."""
_GROUPINGS = {"mondrian": "class", "clustered": "cluster"}


def count_sets(
    data: Logits, protocol: Protocol, trials: int, method: str, alpha: Alpha
) -> list[tuple[SetCounts, SetCounts]]:
    """Find the thresholds of every trial and count what the sets of its evaluation rows hold, for each of `KINDS`.

    Counted with u drawn, and with the hits averaged over u.
    """
    labels, score, one = data.require_labels("the study"), resolve(method), np.ones(1)
    drawn = draw_trials(labels, data.n_classes, range(trials), protocol)
    rows = SortedRows(data, keep=False)
    known = label_parts(rows, labels, one)
    found = []
    for mode, grouping in KINDS:
        if mode == "published":
            found.append(_as_published(score, known, labels, drawn, alpha))
        else:
            kind = GROUPINGS[_GROUPINGS[grouping]]
            found.append(class_thresholds(known, labels, [score], [alpha], kind, drawn, protocol.random_state))
    cuts = np.concatenate(found, axis=3)  # kinds stand where levels do
    split, groups = split_by_top(drawn, labels, known.is_top)
    misses = Misses.by_group(groups, split.counts.shape[1])
    counted, _ = count_class_sets(rows, known, labels, [score], cuts.copy(), split, misses)
    none = np.full(drawn.count, np.nan)  # no cell shows a threshold
    both = []
    for k in range(len(KINDS)):
        counts = joined_by_top(set_counts(counted.at(0, 0, k), split.counts, alpha, none))
        missed = _expected_misses(score, known, labels, drawn, cuts[:, 0, 0, k])
        both.append((counts, replace(counts, hits=counts.rows - missed)))
    return both


def _expected_misses(score: Score, known: LabelParts, labels: Ints, trials: Trials, cuts: Floats) -> Floats:
    """Misses of each class in every trial on average over u, (trials, C); thresholds are (2, C, trials)."""
    n_classes = trials.counts.shape[1]
    missed = np.zeros((trials.count, n_classes))
    for c in range(n_classes):
        rows = np.flatnonzero(labels == c)
        hits = expected_hits(known.take(rows), score, 0, cuts[:, c], randomized=trials.randomized)
        missed[:, c] = np.where(trials.evaluation[rows].T, 1.0 - hits, 0.0).sum(axis=1)
    return missed


def _as_published(score: Score, known: LabelParts, labels: Ints, trials: Trials, alpha: Alpha) -> Floats:
    """Order statistic k + 1 of each class, or its largest score if it has fewer rows, which promises nothing.

    The printed TopCovGap fits this; the printed sizes do not. The k + 1 is that of the published code's one threshold.
    """
    n_classes = trials.counts.shape[1]
    out = np.full((1, 1, 1, n_classes, trials.count), complex(np.inf, np.inf))
    for t, rows in enumerate(trials.conformal):
        u = trials.uniforms(slice(t, t + 1), rows[None])[0]
        scores = known.scores(score, 0, rows.astype(np.int64), u)
        for c in range(n_classes):
            pool = np.sort(scores[labels[rows] == c])
            if len(pool):
                out[..., c, t] = pool[min(conformal_rank(len(pool), alpha) + 1, len(pool)) - 1]
    return as_floats(out)


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
