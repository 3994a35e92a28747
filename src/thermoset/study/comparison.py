"""The table of appendix D, extended: ways to even class coverage, all with RAPS.

Rules that choose a temperature are measured by `measure_trials`; sets with thresholds by class cost a prediction for
each trial, and our own choices a search, so that those have fewer trials on large files.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal import ConformalClassifier, sets_under
from thermoset.data import Logits
from thermoset.engine import ScorePairs
from thermoset.errors import CoverageWarning
from thermoset.levels import conformal_rank
from thermoset.metrics import avg_gap, coverage_gaps, top_gap
from thermoset.pool import run_all
from thermoset.scores import resolve
from thermoset.study.appendices import calibration_curves, conf_ts, least_gap, plain_aps_scores
from thermoset.study.cells import SHOWN, Cell, cell_of_trials
from thermoset.study.measure import METHODS, Measured, Settings, Tell
from thermoset.study.published import Pair
from thermoset.sweeping import METRICS, Sweep, Trial, draw_trial, measure_trials
from thermoset.tuning import default_grid, read_preference
from thermoset.tuning.curves import Setting
from thermoset.tuning.search import Search, Steps, find

__all__ = ["ALPHA", "Comparison", "compare", "few_trials"]

Floats = NDArray[np.float64]

ALPHA = 0.1
_RAPS = METHODS.index("raps")
_CP = (10, 20)  # sizes of the conformal set in the table, percent
_ENTRIES = 1e8  # logits that class-conditional predictions go through, over all trials
_LEAST = 10  # trials of what is slow, however large the file
_GAP_BUDGET = "gap<=0.03"
_GAP_SEARCHES = 25  # each measures class gaps by halves, at every temperature


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
    few = few_trials(data, settings)
    rules = {"coverage": few, budget: few, _GAP_BUDGET: min(few, _GAP_SEARCHES)}
    for prefer, count in rules.items():
        chosen[f"choose {prefer}"] = _our_choices(data, found, settings, prefer, count)
        tell(f"choose {prefer}")
    curves = {}
    for cp in (cp for cp in _CP if cp in settings.cp_percents):
        curves[cp] = calibration_curves(data, settings, cp, ("aps", "raps"), ALPHA)
        chosen[f"t_hat, CP {cp}%"] = least_gap(curves[cp], "raps")
        tell(f"appendix C, CP {cp}%")
        cells.extend(_fixed(found, pair, settings, cp))
        for name in ("conf_ts", *(f"choose {prefer}" for prefer in rules)):
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


def _our_choices(data: Logits, found: Measured, settings: Settings, prefer: str, count: int) -> Floats:
    """T-hat as `tuning.choose` finds it, on the calibration rows of the first trials."""
    preference = read_preference(prefer)
    chosen = np.empty(count)

    def work(t: int, rows: NDArray[np.int64]) -> None:
        setting = Setting(resolve("raps"), ALPHA, True, True, None, t)
        search = Search(data.take(rows), setting, len(rows), "calibration", None, Steps(None))
        chosen[t] = find(search, preference, default_grid(float(found.trial_nll[t]))).temperature

    trials = zip(range(count), _calibration(data, settings), strict=False)
    run_all([partial(work, t, rows) for t, rows in trials])
    return chosen


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
    values = np.empty((few_trials(data, settings), 3, len(SHOWN)))

    def work(t: int) -> None:
        values[t] = _sets_by_class(data, draw_trial(len(data), t, settings.protocol(cp)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # classes with few rows are the point of the comparison
        run_all([partial(work, t) for t in range(len(values))])
    for i, (mode, at) in enumerate((("exact", "mondrian"), ("published", "mondrian"), ("exact", "clustered"))):
        for k, metric in enumerate(SHOWN):
            yield cell_of_trials(pair, mode, metric, "raps", at, ALPHA, cp, values[:, i, k])


def _sets_by_class(data: Logits, drawn: Trial) -> Floats:
    """Metrics of a trial's sets, (3, metrics); one pass over the rows serves all thresholds."""
    conformal, evaluation = data.take(drawn.conformal), data.take(drawn.evaluation)
    mondrian, clustered = (
        ConformalClassifier("raps", ALPHA, class_conditional=kind) for kind in ("mondrian", "clustered")
    )
    for model in (mondrian, clustered):
        model.fit(conformal, u=drawn.u[drawn.conformal])
    q = mondrian.thresholds_, _as_published(mondrian), clustered.thresholds_
    stacked = ScorePairs(np.stack([one.value for one in q]), np.stack([one.refine for one in q]))
    scoring = mondrian.calibration_.scoring
    sets = sets_under(evaluation, scoring, stacked, allow_empty=True, u=drawn.u[drawn.evaluation])
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


def _as_published(model: ConformalClassifier) -> ScorePairs:
    """Thresholds by class of the published code, from the scores of a fitted Mondrian classifier.

    It takes order statistic k + 1, and where a class has fewer rows its largest score, which promises nothing.
    """
    calibration = model.calibration_
    clamped = np.empty((2, model.n_features_in_))
    for c in range(model.n_features_in_):
        pool = calibration.scores[calibration.labels == c]
        n = pool.value.size
        clamped[:, c] = pool.smallest(min(conformal_rank(n, ALPHA) + 1, n)) if n else (math.inf, math.inf)
    return ScorePairs(*clamped)
