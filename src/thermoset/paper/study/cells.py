"""The numbers that the paper prints, and the cells of our tables that are compared with them.

A line of `data/published.csv` holds a row of a table: its numbers as printed, for every `metric`, `at` and `method`
that the line names, the last changing fastest. Notes say which numbers the published logits do not give.
"""

import csv
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.levels import exact_level
from thermoset.metrics import coverage_gaps, top_gap
from thermoset.paper.study.measure import METHODS, Measured, Settings
from thermoset.sweeping import median_of_means, standard_error

_SAME_ACCURACY = 0.005
_NOISE = ("data", "logits", "val", "test")  # words that file names carry after the pair


@dataclass(frozen=True)
class Pair:
    """A data set and a model of the paper."""

    dataset: str
    model: str

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model}"


PAIRS = (
    Pair("ImageNet", "ResNet152"),
    Pair("ImageNet", "DenseNet121"),
    Pair("ImageNet", "ViT-B/16"),
    Pair("CIFAR-100", "ResNet50"),
    Pair("CIFAR-100", "DenseNet121"),
    Pair("CIFAR-10", "ResNet50"),
    Pair("CIFAR-10", "ResNet34"),
)
"""The pairs the paper examines."""


@dataclass(frozen=True)
class Printed:
    """A printed number: its place in the paper, what it measures, and half a unit of its last digit.

    `at` is "before" or "after" temperature scaling, "mondrian" or "t_hat" in the table of appendix D, a temperature in
    appendix B.6. Percentages are stored as fractions.
    """

    source: str
    pair: Pair
    metric: str
    method: str
    at: str
    alpha: float | None
    cp_percent: int | None
    value: float
    rounding: float
    note: str


@cache
def printed_cells() -> tuple[Printed, ...]:
    """Every printed number.

    >>> one = printed_cells()[3]
    >>> one.source, str(one.pair), one.metric, one.method, one.at, one.value
    ('Table 1', 'ImageNet, ResNet152', 'avg_size', 'lac', 'before', 1.95)
    """
    text = files("thermoset.paper.study").joinpath("data/published.csv").read_text(encoding="utf-8")
    cells = []
    for line in csv.DictReader(text.splitlines()):
        unit = 0.01 if line["unit"] == "percent" else 1.0
        places = itertools.product(*(line[name].split() or [""] for name in ("metric", "at", "method")))
        for (metric, at, method), printed in zip(places, line["printed"].split(), strict=True):
            digits, _, exponent = printed.partition("e")
            decimals = len(digits.partition(".")[2]) if digits != "0" else 1  # a gap of "0" stands among such with one
            one = Printed(
                source=line["source"],
                pair=Pair(line["dataset"], line["model"]),
                metric=metric,
                method=method,
                at=at,
                alpha=float(line["alpha"]) if line["alpha"] else None,
                cp_percent=int(line["cp_percent"]) if line["cp_percent"] else None,
                value=float(printed) * unit,
                rounding=unit * float(f"5e{int(exponent or 0) - decimals - 1}"),
                note=line["note"],
            )
            cells.append(one)
    return tuple(cells)


@cache
def _by_cell() -> dict[tuple[object, ...], Printed]:
    return {(c.pair, c.metric, c.method, c.at, c.alpha, c.cp_percent): c for c in printed_cells()}


def find_printed(
    pair: Pair | None, metric: str, method: str = "", at: str = "", alpha: float | None = None, cp: int | None = None
) -> Printed | None:
    """The printed number of a cell, if the paper has one.

    >>> find_printed(Pair("CIFAR-100", "ResNet50"), "avg_size", "aps", "after", 0.1, 10).value
    9.14
    """
    return _by_cell().get((pair, metric, method, at, alpha, cp))


def recognise(name: str, top1: float | None = None) -> Pair | None:
    """The paper's pair that a file's name stands for, or None; with its accuracy, if that is the printed one too.

    Names are common. A file of another network has another accuracy: half a percentage point is allowed.

    >>> str(recognise("Cifar100-ResNet50_data.npz")), str(recognise("imagenet_vit_b_16.npz", 0.8391))
    ('CIFAR-100, ResNet50', 'ImageNet, ViT-B/16')
    >>> recognise("cifar100_densenet_bc100.npz")  # another network
    >>> recognise("cifar100_resnet50.npz", 0.772)  # of the same name, but the paper's is right for 80.9%
    """
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower().partition(".")[0]) if word not in _NOISE]
    names = {re.sub(r"[^a-z0-9]", "", f"{pair.dataset}{pair.model}".lower()): pair for pair in PAIRS}
    names |= dict.fromkeys(("imagenetvit", "imagenetvitb"), Pair("ImageNet", "ViT-B/16"))
    pair = names.get("".join(words))
    printed = find_printed(pair, "top1")
    if printed is None or top1 is None:
        return pair
    return pair if abs(top1 - printed.value) <= _SAME_ACCURACY else None


SHOWN = ("avg_size", "marginal_coverage_gap", "top_coverage_gap", "avg_coverage_gap")
COMPARED = (
    *SHOWN, "marginal_coverage", "worst_tenth_coverage", "integrated_worst_tenth_coverage", "left_out_share"
)  # fmt: skip
"""What cells of the comparison of rules show."""
_FAR = 3.0  # standard errors of the difference beyond which two values disagree
_MEDIAN = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean
_GROUPS = 10  # of trials, for the jackknife


class Place(NamedTuple):
    """What a cell tells: in whose mode which metric of which method, where, at which level and conformal size."""

    mode: str
    metric: str
    method: str = ""
    at: str = ""
    alpha: float | None = None
    cp_percent: int | None = None


@dataclass(frozen=True)
class Cell:
    """One number of a table, the printed one, and whether both are the same.

    `agrees` says whether the two differ by no more than sampling and rounding explain; it is None where nothing is
    printed, or where they differ by definition.
    """

    mode: str  # whose conventions produced it: "exact" or "published"
    metric: str
    method: str
    at: str  # "before" or "after" temperature scaling, or a rule of the comparison
    alpha: float | None
    cp_percent: int | None
    value: float  # median of means over the trials
    standard_error: float  # of the mean
    trials: int
    printed: float | None = None
    source: str = ""  # its place in the paper
    note: str = ""  # what is known of the printed number
    definition: str = ""  # what makes it another statistic
    agrees: bool | None = None


def find_cells(cells: Iterable[Cell], **wanted: object) -> dict[tuple[str, str, str], Cell]:
    """Cells with these attributes, by metric, method and `at`."""
    matches = (cell for cell in cells if all(getattr(cell, name) == value for name, value in wanted.items()))
    return {(cell.metric, cell.method, cell.at): cell for cell in matches}


def agree(value: float, error: float, printed: Printed) -> bool:
    """Whether two numbers differ by at most 3 standard errors of the difference and half a unit of a digit."""
    return abs(value - printed.value) <= _FAR * error + printed.rounding * (1 + 1e-9)


def of_medians(error: float) -> float:
    """Standard error of the difference of two medians of means over as many trials, from that of one mean."""
    return math.sqrt(2) * _MEDIAN * float(np.nan_to_num(error))


def other_statistic(place: Place) -> str:
    """What makes a cell of our conventions another statistic than the printed one; empty where nothing does."""
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


def cell_of_trials(pair: Pair | None, place: Place, values: Floats) -> Cell:
    """A cell from its values in the trials."""
    return _compared_cell(pair, place, float(median_of_means(values)), float(standard_error(values)), len(values))


def _compared_cell(
    pair: Pair | None, place: Place, value: float, error: float, trials: int, spread: float | None = None
) -> Cell:
    """A cell with the printed one; `spread` is the error of their difference, if not that of medians of means."""
    printed = find_printed(pair, *place[1:])
    if printed is None:
        return Cell(*place, value, error, trials)
    definition = other_statistic(place)
    agrees = None if definition else agree(value, of_medians(error) if spread is None else spread, printed)
    return Cell(*place, value, error, trials, printed.value, printed.source, printed.note, definition, agrees)


def table_cells(measured: Measured, pair: Pair | None, settings: Settings) -> Iterator[Cell]:
    """Tables 1 and 2, those of the appendix, and AvgCovGap, by our conventions and by those nearest to the tables.

    Ours ("exact"): empty sets allowed, gaps of each trial, T* of each trial's calibration rows. Nearest ("published"):
    sizes of APS count the top label of every set while no coverage does; RAPS multiplies its penalty by u too;
    MarCovGap is that of the mean coverage, TopCovGap that of class coverages pooled over trials; T* is the printed one.
    """
    n = settings.trials
    for name, value in (("top1", measured.top1), ("top5", measured.top5)):
        yield _compared_cell(pair, Place("exact", name), value, 0.0, n)
    for name, values in (("temperature_ece", measured.trial_ece), ("temperature_nll", measured.trial_nll)):
        # the printed one is one fit: allowed is the spread of single fits, not that of their mean
        spread = float(np.std(values, ddof=1)) * math.sqrt(1 + _MEDIAN**2 / n)
        known = float(median_of_means(values)), float(standard_error(values)), n
        yield _compared_cell(pair, Place("exact", name), *known, spread)
    settings_of_tables = list(itertools.product(settings.cp_percents, enumerate(settings.alphas)))
    for cp, (a, alpha) in settings_of_tables:
        parts = ("before", measured.before[cp]), ("after", measured.after[cp])
        for (at, part), (m, method), metric in itertools.product(parts, enumerate(METHODS), SHOWN):
            yield cell_of_trials(pair, Place("exact", metric, method, at, alpha, cp), part.of(metric)[m, a])
    for cp, (a, alpha) in settings_of_tables:
        for at, part in (("before", measured.before[cp]), ("after", measured.printed[cp])):
            for method, m in (("lac", 0), ("aps", 1), ("raps", 3)):
                where = method, at, alpha, cp
                size, coverage = part.of("avg_size")[m, a], part.of("marginal_coverage")[m, a]
                if method == "aps":  # as `patched` in `measure_trials`: the top label fills what would be empty
                    size = size + part.of("empty_share")[m, a]
                yield cell_of_trials(pair, Place("published", "avg_size", *where), size)
                gap = abs(float(median_of_means(coverage)) - float(1 - exact_level(alpha)))
                error = float(standard_error(coverage))
                yield _compared_cell(pair, Place("published", "marginal_coverage_gap", *where), gap, error, n)
                gap, error = _pooled_top_gap(part.hits[m, a], part.counts, alpha)
                yield _compared_cell(pair, Place("published", "top_coverage_gap", *where), gap, error, n)


def _pooled_top_gap(hits: Ints, counts: Ints, alpha: float) -> tuple[float, float]:
    """TopCovGap of pooled trials and its error by the jackknife: the operator is not linear in the trials."""
    groups = np.array_split(np.arange(len(hits)), min(_GROUPS, len(hits)))
    left = [averaged_top_gap(np.delete(hits, g, 0), np.delete(counts, g, 0), alpha) for g in groups]
    return averaged_top_gap(hits, counts, alpha), math.sqrt((len(left) - 1) * float(np.var(left)))


def averaged_top_gap(hits: Ints, counts: Ints, alpha: float) -> float:
    """TopCovGap of class coverages pooled over trials, (trials, C): nearer to the printed one than a trial's."""
    return float(top_gap(coverage_gaps(hits.sum(axis=0), counts.sum(axis=0), alpha), hits.shape[1]))


_METRICS = ("avg_size", "top_coverage_gap", "marginal_coverage_gap")


@dataclass(frozen=True)
class Agreement:
    """Printed cells of one metric that the study agrees with (mode "published").

    `swapped` would agree if the scores were mistaken for one another: each printed number next to the measurement of
    the two other scores. Where this is nearly as large as `agree`, agreement says nothing of the method.
    """

    metric: str
    agree: int
    printed: int
    swapped: float

    @property
    def worth(self) -> str:
        """What agreement tells, in words: whether the wrong score would be noticed."""
        if self.swapped > 0.8 * self.agree:
            return "nothing: any method passes"
        return "much: other scores fail" if 2 * self.swapped <= self.agree else "little: other scores often pass"


def agreements(pair: Pair | None, cells: Iterable[Cell]) -> tuple[Agreement, ...]:
    """Count what agrees, and what would agree with the scores swapped; nothing for a file that the paper has not."""
    mine = [cell for cell in cells if cell.mode == "published" and cell.printed is not None]
    by_metric = {metric: [cell for cell in mine if cell.metric == metric] for metric in _METRICS}
    return tuple(
        Agreement(metric, sum(bool(cell.agrees) for cell in group), len(group), _swapped_agreement(pair, group))
        for metric, group in by_metric.items()
        if group
    )


def _swapped_agreement(pair: Pair | None, cells: list[Cell]) -> float:
    """Cells that agree with another score's number, a mean over the two ways to turn the scores round."""
    passed = 0
    for cell, other in itertools.product(cells, cells):
        place, its = ((one.at, one.alpha, one.cp_percent) for one in (cell, other))
        printed = find_printed(pair, cell.metric, cell.method, *place)
        if printed is not None and other.method != cell.method and its == place:
            passed += agree(other.value, of_medians(other.standard_error), printed)
    return passed / (len(METHODS) - 1)
