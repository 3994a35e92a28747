"""The table of appendix D, extended: ways to even class coverage, all with RAPS.

Rules that choose a temperature are measured by `measure_trials`; sets with thresholds by class cost a prediction for
each trial, and our own choices a search, so those have fewer trials on large files.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal import ConformalClassifier, sets_under
from thermoset.data import Logits
from thermoset.engine import ScorePairs
from thermoset.errors import BudgetWarning, CoverageWarning
from thermoset.levels import conformal_rank
from thermoset.metrics import avg_gap, coverage_gaps, top_gap
from thermoset.study.appendices import calibration_curves, conf_ts, least_gap, plain_aps_scores
from thermoset.study.cells import SHOWN, Cell, cell_of_trials
from thermoset.study.measure import METHODS, Measured, Settings, Tell
from thermoset.study.published import Pair
from thermoset.sweeping import METRICS, Sweep, draw_trial, measure_trials
from thermoset.tuning import choose

__all__ = ["ALPHA", "Comparison", "compare", "few_trials"]

Floats = NDArray[np.float64]

ALPHA = 0.1
_RAPS = METHODS.index("raps")
_CP = (10, 20)  # sizes of the conformal set in the table, percent
_ENTRIES = 2e7  # logits that class-conditional predictions go through, over all trials of a kind
_LEAST = 5  # trials of what is slow, however large the file
_SEARCHES = 12
_GAP_BUDGET = "gap<=0.03"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Cells of the table, what each rule chose in its trials by name of the rule, and the curves of appendix C."""

    cells: tuple[Cell, ...]
    temperatures: dict[str, Floats]
    single_trials: Sweep


def few_trials(data: Logits, settings: Settings) -> int:
    """Trials of what is slow: as many as asked for, or fewer on a large file."""
    affordable = math.ceil(_ENTRIES / (len(data) * data.n_classes))
    return min(settings.trials, max(affordable, _LEAST))


def compare(data: Logits, found: Measured, pair: Pair | None, settings: Settings, tell: Tell) -> Comparison:
    """Measure every rule at the sizes of the conformal set that the table has (as far as they were asked for)."""
    cells: list[Cell] = []
    chosen = {
        "T = 1": np.ones(settings.trials),
        "T*": found.trial_ece,
        "conf_ts": _conf_ts_temperatures(data, settings),
    }
    tell("ConfTS")
    budget = f"size<={_size_budget(found, settings):.3g}"
    rules = {"choose coverage": "coverage", f"choose {budget}": budget, f"choose {_GAP_BUDGET}": _GAP_BUDGET}
    for name, prefer in rules.items():
        chosen[name] = _our_choices(data, found, settings, prefer)
        tell(name)
    curves = {}
    for cp in (cp for cp in _CP if cp in settings.cp_percents):
        curves[cp] = calibration_curves(data, settings, cp, ("aps", "raps"), ALPHA)
        chosen[f"t_hat, CP {cp}%"] = least_gap(curves[cp], "raps")
        tell(f"appendix C, CP {cp}%")
        cells.extend(_fixed(found, pair, settings, cp))
        for name in ("conf_ts", *rules):
            cells.extend(_at_chosen(data, pair, settings, cp, name, chosen[name]))
        cells.extend(_at_chosen(data, pair, settings, cp, "t_hat", chosen[f"t_hat, CP {cp}%"]))
        cells.extend(_by_class(data, pair, settings, cp))
        tell(f"sets by class, CP {cp}%")
    middle = 10 if 10 in curves else settings.cp_percents[0]
    single = curves.get(middle) or calibration_curves(data, settings, middle, ("aps", "raps"), ALPHA)
    return Comparison(tuple(cells), chosen, single)


def _size_budget(found: Measured, settings: Settings) -> float:
    """Labels a set may have on average: what RAPS has at T = 1, and half as many more."""
    part = found.before[settings.cp_percents[0]]
    a = settings.alphas.index(ALPHA) if ALPHA in settings.alphas else 0
    return 1.5 * float(part.values[_RAPS, a, METRICS.index("avg_size")].mean())


def _conf_ts_temperatures(data: Logits, settings: Settings) -> Floats:
    grid = settings.grid()
    scores = plain_aps_scores(data, grid)
    return np.array([conf_ts(scores, rows, grid, ALPHA, t) for t, rows in enumerate(_calibration(data, settings))])


def _calibration(data: Logits, settings: Settings) -> Iterator[NDArray[np.int64]]:
    """Calibration rows of each trial."""
    for t in range(settings.trials):
        yield draw_trial(len(data), t, settings.protocol(settings.cp_percents[0])).calibration


def _our_choices(data: Logits, found: Measured, settings: Settings, prefer: str) -> Floats:
    """T-hat by `tuning.choose` on the calibration rows of some trials."""
    count = min(_SEARCHES, few_trials(data, settings))
    chosen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # the closest temperature is what the rule then gives
        for t, rows in zip(range(count), _calibration(data, settings), strict=False):
            part, best = data.take(rows), float(found.trial_nll[t])
            choice = choose(part, method="raps", alpha=ALPHA, prefer=prefer, calibrated=best, random_state=t)
            chosen.append(choice.temperature)
    return np.array(chosen)


def _fixed(found: Measured, pair: Pair | None, settings: Settings, cp: int) -> Iterator[Cell]:
    """RAPS at T = 1 and at T*; the printed column of T-hat has the values of T = 1."""
    a = settings.alphas.index(ALPHA)
    parts = ("exact", "T = 1", found.before), ("exact", "T*", found.after), ("published", "t_hat", found.before)
    for mode, at, part in parts:
        for metric in SHOWN:
            values = part[cp].values[_RAPS, a, METRICS.index(metric)]
            yield cell_of_trials(pair, mode, metric, "raps", at, ALPHA, cp, values)


def _at_chosen(
    data: Logits, pair: Pair | None, settings: Settings, cp: int, rule: str, temperatures: Floats
) -> Iterator[Cell]:
    part = measure_trials(data, temperatures, ("raps",), (ALPHA,), settings.protocol(cp))
    for metric in SHOWN:
        values = part.values[0, 0, METRICS.index(metric)]
        yield cell_of_trials(pair, "exact", metric, "raps", rule, ALPHA, cp, values)


def _by_class(data: Logits, pair: Pair | None, settings: Settings, cp: int) -> Iterator[Cell]:
    """Mondrian sets as they are valid and as the published code makes them, and clustered ones; all at T = 1."""
    count = few_trials(data, settings)
    values = np.empty((3, len(SHOWN), count))
    for t in range(count):
        drawn = draw_trial(len(data), t, settings.protocol(cp))
        conformal, evaluation = data.take(drawn.conformal), data.take(drawn.evaluation)
        u = drawn.u[drawn.conformal], drawn.u[drawn.evaluation]
        values[:2, :, t] = _sets_of("mondrian", conformal, evaluation, u, _both)
        values[2:, :, t] = _sets_of("clustered", conformal, evaluation, u, lambda model: [model.thresholds_])
    for i, (mode, at) in enumerate((("exact", "mondrian"), ("published", "mondrian"), ("exact", "clustered"))):
        for k, metric in enumerate(SHOWN):
            yield cell_of_trials(pair, mode, metric, "raps", at, ALPHA, cp, values[i, k])


def _sets_of(
    kind: str,
    conformal: Logits,
    evaluation: Logits,
    u: tuple[Floats, Floats],
    thresholds: Callable[[ConformalClassifier], list[ScorePairs]],
) -> Floats:
    """Metrics of class-conditional sets under one or more thresholds by class, (n_thresholds, metrics)."""
    model = ConformalClassifier("raps", ALPHA, class_conditional=kind)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # classes with few rows are the point of the comparison
        model.fit(conformal, u=u[0])
    q = thresholds(model)
    stacked = ScorePairs(np.stack([one.value for one in q]), np.stack([one.refine for one in q]))
    sets = sets_under(evaluation, model.calibration_.scoring, stacked, allow_empty=True, u=u[1])
    return np.array([_metrics(one, evaluation) for one in sets])


def _metrics(sets: NDArray[np.bool_], evaluation: Logits) -> list[float]:
    """The metrics of the table, from one pass over the sets."""
    labels = evaluation.require_labels("the study")
    hit = sets[np.arange(len(sets)), labels]
    counts = np.bincount(labels, minlength=evaluation.n_classes)
    gaps = coverage_gaps(np.bincount(labels[hit], minlength=evaluation.n_classes), counts, ALPHA)
    found = {
        "avg_size": np.count_nonzero(sets) / len(sets),
        "marginal_coverage_gap": float(coverage_gaps(int(hit.sum()), len(hit), ALPHA)),
        "top_coverage_gap": float(top_gap(gaps, evaluation.n_classes)),
        "avg_coverage_gap": float(avg_gap(gaps)),
    }
    return [found[name] for name in SHOWN]


def _both(model: ConformalClassifier) -> list[ScorePairs]:
    """Thresholds that are valid, and those of the published code.

    It takes order statistic k + 1, and where a class has fewer rows its largest score, which promises nothing.
    """
    calibration = model.calibration_
    clamped = np.empty((2, model.n_features_in_))
    for c in range(model.n_features_in_):
        pool = calibration.scores[calibration.labels == c]
        n = pool.value.size
        clamped[:, c] = pool.smallest(min(conformal_rank(n, ALPHA) + 1, n)) if n else (math.inf, math.inf)
    return [model.thresholds_, ScorePairs(*clamped)]
