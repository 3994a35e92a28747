"""Every rule for building sets in addition to the table of appendix D: size, and which rows lose coverage.

A rule says from a trial's calibration rows how its sets are built (`Way`). To add one, write a function of
`CalibrationRows` that returns a `Way`, and add a line to `CHOOSERS`. Rules with one threshold are measured by
`measure_ways`, thresholds by class by `count_by_class`. Slow rules have fewer trials on large files.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from thermoset.arrays import Floats, Ints, as_floats
from thermoset.conformal.groupings import GROUPINGS
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.levels import Alpha, conformal_rank, exact_level, rows_needed
from thermoset.metrics import METRICS, SetCounts
from thermoset.paper.study.cells import COMPARED, Cell, Pair, Place, cell_of_trials, find_cells
from thermoset.paper.study.measure import (
    HOTTEST,
    METHODS,
    Measured,
    Settings,
    Tell,
    Way,
    calibration_rows,
    counts_by_top,
    measure_ways,
    misses_by_top,
)
from thermoset.quoting import Brief
from thermoset.rows import SortedRows, run_tasks
from thermoset.scores import RAPS, Score, resolve
from thermoset.sweeping import Protocol, Sweep, draw_trial
from thermoset.sweeping.engine import LabelParts, Trials, class_thresholds, count_class_sets, label_parts
from thermoset.sweeping.expectations import expected_hits, expected_sizes, solve_thresholds
from thermoset.sweeping.job import SweepJob, run
from thermoset.sweeping.protocol import Split, draw_trials
from thermoset.tuning import Search, menu, read_preference, select
from thermoset.uniforms import stream

PENALTIES = (0.001, 0.01, 0.1, 0.2, 0.5)
"""What RAPS tries (Angelopoulos et al. 2021, appendix E)."""
KINDS = (("exact", "mondrian", "class"), ("published", "mondrian", "class"), ("exact", "clustered", "cluster"))
"""Thresholds by class: in whose mode, the paper's name, and ours for the grouping."""
_LABELS = {
    ("exact", "t_hat"): "T-hat of appendix D",
    ("exact", "conf_ts"): "ConfTS",
    ("exact", "own tuning"): "its authors' tuning",
    ("exact", "mondrian"): "Mondrian",
    ("exact", "clustered"): "clustered",
    ("published", "t_hat"): "T = 1, where T-hat is printed",
    ("published", "mondrian"): "Mondrian, clamped",
}
_HALVINGS = 10  # of the calibration rows, for ConfTS
_STRICTER = (Fraction(4, 5), Fraction(3, 5), Fraction(2, 5))  # of alpha
_RAPS = METHODS.index("raps")
_CP = (10, 20)  # sizes of the conformal set in the table, percent
_ENTRIES = 1e8  # logits that slow rules go through, over all trials
_LEAST = 40  # trials of what is slow, however large the file
_GAP_BUDGET = "gap<=0.03"
_JOINT_SEARCHES = 12  # each looks at every kind of sets
_GAP_SEARCHES = 25  # each simulates class gaps at every temperature


def rule_label(mode: str, name: str) -> str:
    """What readers see for a rule."""
    return _LABELS.get((mode, name), name)


class Rule(NamedTuple):
    """How a rule makes the sets of each trial; rules that share their temperatures are one, and measured at once.

    names : what cells call the score and the rule, for each score and level of its ways, levels within scores.
    """

    names: tuple[tuple[str, str], ...]
    ways: tuple[Way, ...]

    @property
    def temperatures(self) -> Floats:
        """Of each trial."""
        return np.array([way.temperature for way in self.ways])


def at_temperatures(name: str, methods: Sequence[str], temperatures: Floats, *levels: Alpha) -> Rule:
    """A rule that chooses the temperature of scores alone; of several levels, each is in its name."""
    scores = tuple(resolve(method) for method in methods)
    names = [f"{name}, alpha {float(level):g}" for level in levels] if len(levels) > 1 else [name]
    ways = tuple(Way(float(t), scores, levels) for t in temperatures)
    return Rule(tuple(itertools.product(methods, names)), ways)


def stricter(name: str, methods: Sequence[str], temperatures: Floats, alpha: Alpha) -> Rule:
    """Scores with thresholds at 0.8, 0.6 and 0.4 times alpha, which promise more coverage than 1 - alpha."""
    return at_temperatures(name, methods, temperatures, *(factor * exact_level(alpha) for factor in _STRICTER))


def calibration_curves(data: Logits, settings: Settings, cp: int, methods: tuple[str, ...], alpha: float) -> Sweep:
    """What a practitioner sees, trial by trial: thresholds from the conformal rows, metrics on the calibration rows."""
    plan = SweepJob(tuple(resolve(method) for method in methods), settings.grid(), (alpha,), False, True, None)
    protocol = settings.protocol(cp)
    shown = _OnCalibrationRows(protocol.calibration_fraction, protocol.cp_fraction, protocol.random_state)
    values, measured = run(data, plan, None, settings.trials, shown, None)
    absent = np.count_nonzero(measured.trials.counts == 0, axis=1)
    metrics = tuple(metric.name for metric in plan.metrics)
    return Sweep(methods, plan.temperatures, (alpha,), metrics, values, absent, {"cp_percent": cp})


class _OnCalibrationRows(Protocol):
    """The same splits, evaluated on the calibration rows."""

    def split(self, n_rows: int, trial: int) -> Split:
        parts = super().split(n_rows, trial)
        return Split(parts.calibration[:0], parts.conformal, parts.calibration)


def least_gap(curves: Sweep, method: str) -> Floats:
    """T-hat of each trial as appendix D has it: where its approximated TopCovGap is least, below 2.95."""
    searched = curves.temperatures < HOTTEST
    values = curves.of_trials("top_coverage_gap", method)[searched]
    chosen: Floats = curves.temperatures[searched][values.argmin(axis=0)]
    return chosen


def plain_aps_scores(data: Logits, temperatures: Floats) -> Floats:
    """Deterministic APS score of every label at each temperature, (n_temperatures, n)."""
    labels = label_parts(SortedRows(data, keep=False), data.require_labels("the study"), temperatures)
    scores: Floats = labels.parts[0] + labels.parts[1]
    return scores


def conf_ts(scores: Floats, rows: Ints, temperatures: Floats, alpha: float, seed: int) -> float:
    """Temperature of ConfTS (Xi et al. 2024): label scores of one half nearest to the threshold of the other.

    Minimises the mean squared difference between the threshold of a random half of `rows` and the scores of the other
    half, averaged over halvings. `scores` (n_temperatures, n) are deterministic APS scores.
    """
    rng = stream(seed, "ConfTS")
    half = len(rows) // 2
    k = min(conformal_rank(half, alpha), half)
    loss = np.zeros(len(temperatures))
    for _ in range(_HALVINGS):
        mixed = rng.permutation(rows)
        threshold = np.partition(scores[:, mixed[:half]], k - 1, axis=1)[:, k - 1 : k]
        loss += ((threshold - scores[:, mixed[half:]]) ** 2).mean(axis=1)
    return float(temperatures[int(loss.argmin())])


class CalibrationRows(NamedTuple):
    """What a rule may look at: the calibration rows of a trial, the alpha promised, T* by NLL, and a seed."""

    rows: Logits
    alpha: Alpha
    calibrated: float
    seed: int


def tuned_raps(calibration: CalibrationRows) -> Way:
    """RAPS with parameters as its authors tune them for size (Angelopoulos et al. 2021, appendix E), at T = 1.

    k_reg is an order statistic of the ranks of the labels; the penalty is the one of `PENALTIES` with the smallest sets
    on the same rows, which set the threshold too. u is integrated out.
    """
    rows, n = SortedRows(calibration.rows), len(calibration.rows)
    labels = label_parts(rows, calibration.rows.require_labels("the study"), np.ones(1))
    scores = [RAPS(penalty, rank_quantile(labels.ranks + 1, calibration.alpha)) for penalty in PENALTIES]
    target = np.array([float((1 - exact_level(calibration.alpha)) * (n + 1))])
    cuts = (solve_thresholds(labels, score, 0, target)[:, None] for score in scores)
    sizes = [expected_sizes(rows, labels, score, q)[0, 0].mean() for score, q in zip(scores, cuts, strict=True)]
    return Way(1.0, (scores[int(np.argmin(sizes))],), (calibration.alpha,))


def rank_quantile(ranks: Ints, alpha: Alpha) -> int:
    """The k-th smallest of n ranks, k = ceil((n + 1)(1 - alpha)), or the largest where k exceeds n."""
    k = min(conformal_rank(len(ranks), alpha), len(ranks))
    return int(np.partition(ranks, k - 1)[k - 1])


def choose_jointly(calibration: CalibrationRows, prefer: str) -> Way:
    """Score, temperature and level at once, for a preference: `method="auto"`, of sets with one threshold."""
    preference = read_preference(prefer)
    search = Search(
        calibration=calibration.rows,
        candidates=menu(calibration.alpha, random_state=calibration.seed),
        calibrated=calibration.calibrated,
        n_conformal=len(calibration.rows),
        strict=preference.target(calibration.alpha) is not None,
        by_class=False,
    )
    setting = select(search, preference).setting
    return Way(setting.temperature, (setting.score,), (setting.alpha,))


CHOOSERS: dict[tuple[str, str], Callable[[CalibrationRows], Way]] = {
    ("raps", "own tuning"): tuned_raps,
    **{("auto", f"choose {prefer}"): partial(choose_jointly, prefer=prefer) for prefer in ("small", "even", "protect")},
}
"""Rules that choose more than a temperature, by what cells call the score ("auto" if that is chosen) and the rule."""


def _in_trials(data: Logits, settings: Settings, trials: int, choose: Callable[[int, Ints], Any]) -> list[Any]:
    """What `choose(trial, its calibration rows)` returns in so many trials."""
    results: list[Any] = [None] * trials

    def work(t: int, rows: Ints) -> None:
        results[t] = choose(t, rows)

    drawn = zip(range(trials), calibration_rows(data, settings), strict=False)
    run_tasks([partial(work, t, rows) for t, rows in drawn])
    return results


def chosen_rules(data: Logits, measured: Measured, settings: Settings, few: int) -> Iterator[Rule]:
    """What every rule of `CHOOSERS` chooses in each trial; those that choose the score too have few trials."""
    alpha, _ = settings.main
    for name, chooser in CHOOSERS.items():

        def choose(t: int, rows: Ints, chooser: Callable[[CalibrationRows], Way] = chooser) -> Way:
            return chooser(CalibrationRows(data.take(rows), alpha, float(measured.trial_nll[t]), t))

        trials = few if name[0] == "auto" else settings.trials
        yield Rule((name,), tuple(_in_trials(data, settings, trials, choose)))


def our_choices(data: Logits, measured: Measured, settings: Settings, trials: dict[str, int]) -> dict[str, Floats]:
    """T-hat of RAPS as `tuning.choose` finds it on the calibration rows of so many trials for each preference."""

    def choose(t: int, rows: Ints) -> dict[str, float]:
        recipe = Recipe("raps", settings.main[0], random_state=t)
        star = float(measured.trial_nll[t])
        search = Search(calibration=data.take(rows), candidates=(recipe,), calibrated=star, n_conformal=len(rows))
        preferences = [prefer for prefer, count in trials.items() if t < count]
        return {prefer: select(search, read_preference(prefer)).setting.temperature for prefer in preferences}

    chosen = _in_trials(data, settings, max(trials.values()), choose)
    return {prefer: np.array([one[prefer] for one in chosen[:count]]) for prefer, count in trials.items()}


@dataclass(frozen=True, eq=False, repr=False)
class RuleComparison(Brief):
    """What the rules show, and what they chose.

    `infinite` is the share of Mondrian thresholds that are infinite for lack of rows, by size of the conformal set.
    """

    cells: tuple[Cell, ...]  # every rule, for each size of the conformal set
    temperatures: dict[tuple[str, str], Floats]  # of each trial, by score and name of the rule
    single_trials: Sweep  # the curves of appendix C
    rules: tuple[Rule, ...] = ()  # those that choose more than a temperature
    infinite: dict[int, float] = field(default_factory=dict)

    @property
    def cp_percents(self) -> list[int]:
        """Sizes of the conformal set that rules are compared at."""
        return sorted({cell.cp_percent for cell in self.cells if cell.cp_percent})

    def by_rule(self, cp: int) -> dict[tuple[str, str], dict[str, Cell]]:
        """Cells of our own conventions, by score and rule, then by metric; a score's rules stand together."""
        mine = find_cells(self.cells, mode="exact", cp_percent=cp)
        order = list(dict.fromkeys(method for _, method, _ in mine))
        table: dict[tuple[str, str], dict[str, Cell]] = {}
        for (metric, method, at), cell in sorted(mine.items(), key=lambda one: order.index(one[0][1])):  # stable
            table.setdefault((method, at), {})[metric] = cell
        return table

    def mean_temperature(self, method: str, at: str, cp: int) -> str:
        """The mean temperature of a rule's trials as tables show it; nothing for rules without one."""
        chosen = self.temperatures.get((method, f"{at}, CP {cp}%"), self.temperatures.get((method, at)))
        return "" if chosen is None else f"{chosen.mean():.2f}"


def few_trials(data: Logits, settings: Settings) -> int:
    """Trials of what is slow: as many as the settings say, or fewer on a large file."""
    affordable = math.ceil(_ENTRIES / (len(data) * data.n_classes))
    return min(settings.trials, max(affordable, _LEAST))


def compare(data: Logits, measured: Measured, pair: Pair | None, settings: Settings, tell: Tell) -> RuleComparison:
    """Measure every rule at the sizes of the conformal set that the table has (those of them in the settings)."""
    (alpha, middle), grid, few = settings.main, settings.grid(), few_trials(data, settings)
    scores = plain_aps_scores(data, grid)
    drawn = enumerate(calibration_rows(data, settings))
    conf_ts_ = np.array([conf_ts(scores, rows, grid, alpha, t) for t, rows in drawn])
    rules = [at_temperatures("conf_ts", ("aps", "raps"), conf_ts_, alpha)]
    tell()
    sizes = measured.before[settings.cp_percents[0]].of("avg_size")[_RAPS, settings.alphas.index(alpha)]
    budget = f"size<={1.5 * float(sizes.mean()):.3g}"  # what RAPS has at T = 1, and half as many more
    searches = {"even": few, budget: few, _GAP_BUDGET: min(few, _GAP_SEARCHES)}
    for prefer, chosen_ in our_choices(data, measured, settings, searches).items():
        rules.append(at_temperatures(f"choose {prefer}", ("raps",), chosen_, alpha))
    tell()
    chosen = tuple(chosen_rules(data, measured, settings, min(few, _JOINT_SEARCHES)))
    ones = np.ones(settings.trials)
    rules += [*chosen, stricter("T*", ("lac",), measured.trial_ece, alpha), stricter("T = 1", METHODS, ones, alpha)]
    tell()
    known = {"T = 1": ones, "T*": measured.trial_ece}
    temperatures = {(method, name): of_trials for name, of_trials in known.items() for method in METHODS}
    temperatures.update({name: rule.temperatures for rule in rules for name in rule.names})
    cells: list[Cell] = []
    curves = {}
    for cp in (cp for cp in _CP if cp in settings.cp_percents):
        curves[cp] = calibration_curves(data, settings, cp, ("aps", "raps"), alpha)
        t_hat = temperatures["raps", f"t_hat, CP {cp}%"] = least_gap(curves[cp], "raps")
        tell()
        cells.extend(_fixed_cells(measured, pair, settings, cp))
        for rule in (*rules, at_temperatures("t_hat", ("raps",), t_hat, alpha)):
            cells.extend(rule_cells(data, pair, settings, cp, rule))
    for cp in curves:
        cells.extend(class_cells(data, pair, settings, cp))
    tell()
    single = curves.get(middle) or calibration_curves(data, settings, middle, ("aps", "raps"), alpha)
    return RuleComparison(
        tuple(cells), temperatures, single, chosen, {cp: _infinite_share(data, settings, cp) for cp in curves}
    )


def _infinite_share(data: Logits, settings: Settings, cp: int) -> float:
    """Share of classes with fewer conformal rows than a threshold of their own needs, over the trials."""
    labels, needed = data.require_labels("the study"), rows_needed(settings.main[0])
    drawn = (draw_trial(len(data), t, settings.protocol(cp)) for t in range(few_trials(data, settings)))
    return float(np.mean([np.bincount(labels[one.conformal], minlength=data.n_classes) < needed for one in drawn]))


def _fixed_cells(measured: Measured, pair: Pair | None, settings: Settings, cp: int) -> Iterator[Cell]:
    """Each score at T = 1 and at T*; RAPS at T = 1 once more, which the T-hat printed of CIFAR-100 ResNet50 is."""
    alpha = settings.main[0]
    a = settings.alphas.index(alpha)
    parts = [
        ("exact", at, m, part) for m in METHODS for at, part in (("T = 1", measured.before), ("T*", measured.after))
    ]
    for mode, at, method, part in (*parts, ("published", "t_hat", "raps", measured.before)):
        for metric in COMPARED:
            values = part[cp].of(metric)[METHODS.index(method), a]
            yield cell_of_trials(pair, Place(mode, metric, method, at, alpha, cp), values)


def rule_cells(data: Logits, pair: Pair | None, settings: Settings, cp: int, rule: Rule) -> Iterator[Cell]:
    """A rule, against what was promised, whatever level it chose."""
    alpha, first = settings.main[0], rule.ways[0]
    part = measure_ways(data, rule.ways, (alpha,) * len(first.levels), settings.protocol(cp))
    places = np.ndindex(len(first.scores), len(first.levels))
    for (method, name), (m, a) in zip(rule.names, places, strict=True):
        for metric in COMPARED:
            values = part.of(metric)[m, a]
            yield cell_of_trials(pair, Place("exact", metric, method, name, alpha, cp), values)


def class_cells(data: Logits, pair: Pair | None, settings: Settings, cp: int) -> Iterator[Cell]:
    """Mondrian sets as they are valid and as the printed gaps have them, and clustered ones; all at T = 1."""
    alpha = settings.main[0]
    counts = count_by_class(data, settings.protocol(cp), few_trials(data, settings), resolve("raps"), alpha)
    for (mode, at, _), (drawn, averaged) in zip(KINDS, counts, strict=True):
        for metric in COMPARED:
            values = METRICS[metric].of(averaged if METRICS[metric].needs == "expectation" else drawn)
            yield cell_of_trials(pair, Place(mode, metric, "raps", at, alpha, cp), values)


def count_by_class(
    data: Logits, protocol: Protocol, trials: int, score: Score, alpha: Alpha
) -> Iterator[tuple[SetCounts, SetCounts]]:
    """Count what the sets of every trial hold under each of `KINDS`: with u drawn, and with hits averaged over u."""
    labels, n_classes = data.require_labels("the study"), data.n_classes
    drawn = draw_trials(labels, n_classes, range(trials), protocol)
    rows = SortedRows(data, keep=False)
    known = label_parts(rows, labels, np.ones(1))
    cuts = np.concatenate(  # kinds stand where levels do
        [
            _clamped_thresholds(score, known, labels, drawn, alpha)
            if mode == "published"
            else class_thresholds(known, labels, [score], [alpha], GROUPINGS[kind], drawn, protocol.random_state)
            for mode, _, kind in KINDS
        ],
        axis=3,
    )
    misses = misses_by_top(labels, known.is_top, n_classes)
    counted, _ = count_class_sets(rows, known, labels, [score], cuts.copy(), drawn, misses)
    none = np.full(drawn.count, np.nan)  # no cell shows a threshold
    for k in range(len(KINDS)):
        counts = counts_by_top(counted.at(0, 0, k), drawn.counts, alpha, none)
        missed = np.zeros((drawn.count, n_classes))
        for c in range(n_classes):
            own = np.flatnonzero(labels == c)
            hits = expected_hits(known.take(own), score, 0, cuts[:, 0, 0, k, c], randomized=drawn.randomized)
            missed[:, c] = np.where(drawn.evaluation[own].T, 1.0 - hits, 0.0).sum(axis=1)
        yield counts, replace(counts, hits=counts.rows - missed)


def _clamped_thresholds(score: Score, known: LabelParts, labels: Ints, trials: Trials, alpha: Alpha) -> Floats:
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
