"""Cells of the tables: a value with its standard error, the printed one beside it, and whether the two agree.

Agreement is judged where both are the same statistic, and nowhere else.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.levels import exact_level
from thermoset.metrics import coverage_gaps, top_gap
from thermoset.paper.study.measure import METHODS, Measured, Settings
from thermoset.paper.study.published import Pair, Printed, find_printed
from thermoset.sweeping import median_of_means, standard_error

__all__ = [
    "COMPARED",
    "SHOWN",
    "Cell",
    "Place",
    "agree",
    "averaged_top_gap",
    "cell_of_trials",
    "of_medians",
    "table_cells",
]


SHOWN = ("avg_size", "marginal_coverage_gap", "top_coverage_gap", "avg_coverage_gap")
COMPARED = (
    *SHOWN, "marginal_coverage", "worst_tenth_coverage", "integrated_worst_tenth_coverage", "left_out_share"
)  # fmt: skip
"""What cells of the comparison of rules show."""
_FAR = 3.0  # standard errors of the difference beyond which two values disagree
_MEDIAN = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean
_GROUPS = 10  # of trials, for the jackknife


@dataclass(frozen=True)
class Cell:
    """One number of a table.

    Attributes
    ----------
    mode : "exact" or "published"
        Whose conventions made it.
    metric, method, at, alpha, cp_percent
        What it is; `at` is "before" or "after" temperature scaling, or a rule of the comparison.
    value, standard_error
        Median of means over the trials; standard error of the mean.
    trials : int
        Random splits behind it.
    printed, source, note
        The paper's number, its place, and what is known of it.
    definition : str
        What makes the printed number another statistic; empty where both are the same.
    agrees : bool or None
        Whether the two differ by no more than sampling and rounding explain; None where nothing is printed, or where
        they differ by definition.
    """

    mode: str
    metric: str
    method: str
    at: str
    alpha: float | None
    cp_percent: int | None
    value: float
    standard_error: float
    trials: int
    printed: float | None = None
    source: str = ""
    note: str = ""
    definition: str = ""
    agrees: bool | None = None


def agree(value: float, spread: float, printed: Printed) -> bool:
    """Whether a value and a printed one differ by no more than 3 times `spread` and half a unit of the last digit.

    `spread` is the standard error of their difference: see `of_medians` for two medians of means.
    """
    return abs(value - printed.value) <= _FAR * spread + printed.rounding * (1 + 1e-9)


def of_medians(error: float) -> float:
    """Standard error of the difference of two medians of means over as many trials, from that of one mean."""
    return math.sqrt(2) * _MEDIAN * (0.0 if math.isnan(error) else error)


def other_statistic(place: "Place") -> str:
    """What sets a cell of our conventions apart from the printed one by definition; empty where nothing does.

    >>> other_statistic(Place("exact", "avg_size", "lac", "before", 0.1, 10))
    ''
    >>> other_statistic(Place("exact", "top_coverage_gap", "lac", "before", 0.1, 10))
    'gap of each trial, where class coverages were averaged over trials first'
    """
    if place.mode != "exact":
        return ""
    if place.at == "mondrian":
        return "a class with too few rows is in every set, where its largest score was the threshold"
    by_metric = {
        "marginal_coverage_gap": "gap of each trial, where coverages were averaged over trials first",
        "top_coverage_gap": "gap of each trial, where class coverages were averaged over trials first",
    }
    by_method = {
        "aps": "empty sets are empty, where they were given the top label",
        "raps": "u multiplies the probability alone, where it multiplied the penalty too",
    }
    if place.metric in by_metric:
        return by_metric[place.metric]
    if place.metric == "avg_size" and place.method in by_method:
        return by_method[place.method]
    return "T* of each trial, where one T* served all" if place.at == "after" else ""


class Place(NamedTuple):
    """What a cell tells: in whose mode which metric of which method, where, at which level and conformal size."""

    mode: str
    metric: str
    method: str = ""
    at: str = ""
    alpha: float | None = None
    cp_percent: int | None = None


def cell_of_trials(pair: Pair | None, place: Place, values: Floats) -> Cell:
    """A cell from its values in the trials."""
    return _beside(pair, place, float(median_of_means(values)), float(standard_error(values)), len(values))


def _beside(pair: Pair | None, place: Place, value: float, error: float, trials: int) -> Cell:
    """A cell beside the printed one, a median of means over as many trials."""
    return _compared(pair, place, (value, error), trials, of_medians(error))


def _compared(pair: Pair | None, place: Place, found: tuple[float, float], trials: int, spread: float) -> Cell:
    printed = find_printed(pair, *place[1:])
    if printed is None:
        return Cell(*place, *found, trials)
    definition = other_statistic(place)
    agrees = None if definition else agree(found[0], spread, printed)
    return Cell(*place, *found, trials, printed.value, printed.source, printed.note, definition, agrees)


def _temperature_cell(pair: Pair | None, metric: str, values: Floats) -> Cell:
    """T* beside the printed one, which is one fit: allowed is the spread of single fits, not that of their mean."""
    found = float(median_of_means(values)), float(standard_error(values))
    spread = float(np.std(values, ddof=1)) * math.sqrt(1 + _MEDIAN**2 / len(values))
    return _compared(pair, Place("exact", metric), found, len(values), spread)


def table_cells(found: Measured, pair: Pair | None, settings: Settings) -> tuple[Cell, ...]:
    """Tables 1 and 2, those of the appendix, and AvgCovGap, by our conventions and by those nearest to the tables."""
    heads = [
        _beside(pair, Place("exact", name), value, 0.0, settings.trials)
        for name, value in (("top1", found.top1), ("top5", found.top5))
    ]
    heads += [
        _temperature_cell(pair, name, values)
        for name, values in (("temperature_ece", found.trial_ece), ("temperature_nll", found.trial_nll))
    ]
    return (*heads, *_exact_cells(found, pair, settings), *_published_cells(found, pair, settings))


def _exact_cells(found: Measured, pair: Pair | None, settings: Settings) -> Iterator[Cell]:
    """Our conventions: empty sets allowed, gaps of each trial, T* of each trial's calibration rows."""
    for cp in settings.cp_percents:
        for a, alpha in enumerate(settings.alphas):
            for at, part in (("before", found.before[cp]), ("after", found.after[cp])):
                for m, method in enumerate(METHODS[:3]):
                    for metric in SHOWN:
                        values = part.of(metric)[m, a]
                        yield cell_of_trials(pair, Place("exact", metric, method, at, alpha, cp), values)


def _published_cells(found: Measured, pair: Pair | None, settings: Settings) -> Iterator[Cell]:
    """The choices that come closest to the printed tables.

    Sizes of APS count the top label in every set while no coverage does; RAPS multiplies its penalty by u too;
    MarCovGap is the gap of the mean coverage, TopCovGap that of class coverages averaged over the trials; T* is the
    printed one.
    """
    for cp in settings.cp_percents:
        for a, alpha in enumerate(settings.alphas):
            for at, part in (("before", found.before[cp]), ("after", found.printed[cp])):
                for method, m in (("lac", 0), ("aps", 1), ("raps", 3)):
                    where = method, at, alpha, cp
                    values = dict(zip(part.metrics, part.values[m, a], strict=True))
                    size = values["avg_size"]
                    if method == "aps":  # as `patched` in `measure_trials`: the top label fills what would be empty
                        size = size + values["empty_share"]
                    yield cell_of_trials(pair, Place("published", "avg_size", *where), size)
                    margin = _margin_as_published(values["marginal_coverage"], alpha)
                    yield _beside(pair, Place("published", "marginal_coverage_gap", *where), *margin, len(size))
                    top = _top_as_published(part.hits[m, a], part.counts, alpha)
                    yield _beside(pair, Place("published", "top_coverage_gap", *where), *top, len(size))


def _margin_as_published(coverage: Floats, alpha: float) -> tuple[float, float]:
    """MarCovGap and its error."""
    return abs(float(median_of_means(coverage)) - float(1 - exact_level(alpha))), float(standard_error(coverage))


def _top_as_published(hits: Ints, counts: Ints, alpha: float) -> tuple[float, float]:
    """TopCovGap and its error by the jackknife: the operator is not linear in the trials."""
    groups = np.array_split(np.arange(len(hits)), min(_GROUPS, len(hits)))
    value, error = averaged_top_gap(hits, counts, alpha), math.nan
    if len(groups) > 1:
        left = [averaged_top_gap(np.delete(hits, g, 0), np.delete(counts, g, 0), alpha) for g in groups]
        error = math.sqrt((len(left) - 1) * float(np.var(left)))
    return value, error


def averaged_top_gap(hits: Ints, counts: Ints, alpha: float) -> float:
    """TopCovGap of class coverages pooled over trials, (trials, C): nearer to the printed tables than that of a trial.

    >>> averaged_top_gap(np.array([[3, 4], [1, 4]]), np.array([[4, 4], [4, 4]]), 0.5)  # 4 of 8, and 8 of 8
    0.5
    """
    return float(top_gap(coverage_gaps(hits.sum(axis=0), counts.sum(axis=0), alpha), hits.shape[1]))
