"""Metrics of prediction sets: each is one record in `METRICS`, and the public functions apply these records.

A record has a name, how it is shown, and a formula on counts (`thermoset.metrics.counts`). Sweeps, tables, figures,
pages and commands take names, titles and formulas from here. Gaps are fractions, not percentages; lower is better.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Floats
from thermoset.errors import InputError
from thermoset.levels import Alpha
from thermoset.metrics.counts import (
    N_STRATA,
    SetCounts,
    count_hits,
    count_members,
    counts_of_sets,
    group_coverage,
    ratio,
)
from thermoset.quoting import quoted

Needs = Literal["counts", "sizes", "threshold", "ranks", "expectation", "groups", "confidence"]
"""The counts that a formula reads; see `Metric`."""


@dataclass(frozen=True)
class Metric:
    """A metric of prediction sets, called as (sets, labels, alpha), and `groups=` or `confidence=` where it needs them.

    Attributes
    ----------
    name, title, about : str
        Its name in the metric column of a sweep; for display, the paper's name for it, and what it measures.
    unit : "labels", "share" or "score"
        Of its values. Shares are fractions.
    of : callable
        `SetCounts` -> a number, or one for each trial.
    needs : "counts", "sizes", "threshold", "ranks", "expectation", "groups" or "confidence"
        What the formula reads. Counts are there for sets and for every sweep; thresholds for sweeps, and groups for
        sweeps of rows that have them; sizes and strata of confidence for sweeps that request them; counts with u
        integrated out for sweeps with `evaluation="integrated"` and the study, ranks of labels for the study alone.
    averages : bool
        Whether a sweep with `evaluation="integrated"` computes it from expected counts too: where it is linear in hits.
    """

    name: str
    title: str
    about: str
    unit: Literal["labels", "share", "score"]
    of: Callable[[SetCounts], Floats]
    needs: Needs = "counts"
    averages: bool = False

    @property
    def heading(self) -> str:
        """Title and what it measures, as a chart heading."""
        return self.title[0].upper() + self.title[1:] + (f": {self.about}" if self.about else "")

    @property
    def is_of_sets(self) -> bool:
        """Whether sets and labels are enough to compute it."""
        return self.needs in ("counts", "sizes")

    @property
    def is_swept(self) -> bool:
        """Whether every sweep has it."""
        return self.needs in ("counts", "threshold")

    @property
    def is_asked(self) -> bool:
        """Whether a sweep computes it only when it is requested by name."""
        return self.needs in ("sizes", "confidence")

    def __call__(
        self,
        sets: ArrayLike,
        labels: ArrayLike,
        alpha: Alpha,
        *,
        groups: object = None,
        confidence: ArrayLike | None = None,
    ) -> float:
        """Compute it from boolean sets (n, C) and labels (n,)."""
        passed = {"groups": groups is not None, "confidence": confidence is not None}
        if not self.is_of_sets and not passed.get(self.needs):
            remedy = "Use thermoset.study." if self.needs == "ranks" else "Use thermoset.sweep."
            remedy = f"Pass {self.needs}= as well." if self.needs in passed else remedy
            raise InputError(f"{self.name} cannot be computed from sets and labels. {remedy}")
        return float(self.of(counts_of_sets(sets, labels, alpha, groups=groups, confidence=confidence)))


# fmt: off
_TOP = Metric("top_coverage_gap", "TopCovGap", "the worst classes", "share",
              lambda c: c.class_summary[0])
_AVG = Metric("avg_coverage_gap", "AvgCovGap", "all classes", "share", lambda c: c.class_summary[1])
_SQUARED = replace(_AVG, title=f"{_AVG.title} squared", of=lambda c: c.class_summary[2])
_WORST = Metric("worst_tenth_coverage", "coverage of the worst tenth", "the classes with the lowest coverage", "share",
                lambda c: c.class_summary[3])
# fmt: on


def _over_groups(metric: Metric, name: str) -> Metric:
    title, about, formula = f"{metric.title} over groups", metric.about.replace("classes", "groups"), metric.of
    return replace(metric, name=name, title=title, about=about, of=lambda c: formula(c.by_group), needs="groups")


def _integrated_metric(metric: Metric, name: str) -> Metric:
    return replace(metric, name=name, title=f"{metric.title}, u averaged", needs="expectation", averages=True)


# fmt: off
_ALL = (
    Metric("avg_size", "AvgSize", "labels in a set", "labels", lambda c: ratio(c.members, c.total), averages=True),
    Metric("marginal_coverage", "coverage", "all rows", "share", lambda c: c.coverage, averages=True),
    Metric("marginal_coverage_gap", "MarCovGap", "all rows", "share",
           lambda c: np.abs(c.coverage - c.promised), averages=True),
    _TOP,
    _AVG,
    Metric("threshold", "threshold", "", "score", lambda c: c.threshold, needs="threshold"),
    Metric("empty_share", "empty", "sets without a label", "share", lambda c: ratio(c.empty, c.total), averages=True),
    _WORST,
    Metric("macro_coverage", "macro-coverage", "the mean over classes", "share",
           lambda c: c.class_summary[4], averages=True),
    Metric("classes_below", "classes below", "classes with coverage below 1 - alpha", "share",
           lambda c: c.class_summary[5]),
    Metric("left_out_share", "correct top label left out", "all rows", "share",
           lambda c: ratio(c.top_missed, c.total), needs="ranks"),
    Metric("sscv", "SSCV", "the worst size of sets", "share",
           lambda c: c.largest_gap(c.stratum_hits, c.stratum_rows), needs="sizes"),
    Metric("confidence_coverage_gap", "gap over confidence", "the worst stratum of confidence", "share",
           lambda c: c.largest_gap(c.confidence_hits, c.confidence_rows), needs="confidence"),
    _over_groups(_TOP, "top_group_coverage_gap"),
    _over_groups(_AVG, "avg_group_coverage_gap"),
    _over_groups(_WORST, "worst_group_coverage"),
    _integrated_metric(_TOP, "integrated_top_coverage_gap"),
    _integrated_metric(_AVG, "integrated_avg_coverage_gap"),
    _integrated_metric(_SQUARED, "integrated_squared_coverage_gap"),
    _integrated_metric(_WORST, "integrated_worst_tenth_coverage"),
)
# fmt: on

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
"""Every metric of sets by name; `swept_metrics` says which of them a sweep has."""


def swept_metrics(evaluation: Literal["drawn", "integrated"] = "drawn") -> tuple[Metric, ...]:
    """The metrics of a sweep, in the order of its table.

    >>> [metric.name for metric in swept_metrics()][:3]
    ['avg_size', 'marginal_coverage', 'marginal_coverage_gap']
    """
    added = [metric for metric in METRICS.values() if metric.needs == "expectation" and evaluation == "integrated"]
    return (*(metric for metric in METRICS.values() if metric.is_swept), *added)


def group_metrics() -> tuple[Metric, ...]:
    """The metrics that a sweep adds for rows that have groups.

    >>> [metric.name for metric in group_metrics()]
    ['top_group_coverage_gap', 'avg_group_coverage_gap', 'worst_group_coverage']
    """
    return tuple(metric for metric in METRICS.values() if metric.needs == "groups")


def asked_metrics(names: Iterable[str]) -> tuple[Metric, ...]:
    """The metrics of these names that a sweep computes only on request, each once.

    >>> [metric.title for metric in asked_metrics(["sscv", "confidence_coverage_gap"])]
    ['SSCV', 'gap over confidence']
    """
    wanted = dict.fromkeys((names,) if isinstance(names, str) else names)
    known = {metric.name: metric for metric in METRICS.values() if metric.is_asked}
    for name in wanted:
        if name not in known:
            why = " Every sweep includes that one." if name in METRICS and METRICS[name].is_swept else ""
            raise InputError(f"metrics can be {', '.join(map(repr, known))}; got {quoted(name)}.{why}")
    return tuple(known[name] for name in wanted)


def _measure(name: str, counts: SetCounts) -> float:
    return float(METRICS[name].of(counts))


def avg_size(sets: ArrayLike) -> float:
    """AvgSize: mean number of labels in a set.

    >>> avg_size([[True, False, True], [False, True, False]])
    1.5
    """
    return _measure("avg_size", count_members(sets))


def empty_share(sets: ArrayLike) -> float:
    """Share of sets without any label; read it together with `avg_size`.

    >>> empty_share([[True, False], [False, False]])
    0.5
    """
    return _measure("empty_share", count_members(sets))


def marginal_coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows whose set contains their label.

    >>> marginal_coverage([[True, False], [True, False]], labels=[0, 1])
    0.5
    """
    return _measure("marginal_coverage", count_hits(sets, labels))


def marginal_coverage_gap(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """MarCovGap: | coverage - (1 - alpha) |.

    >>> marginal_coverage_gap([[True, False], [True, False]], labels=[0, 1], alpha=0.25)
    0.25
    """
    return _measure("marginal_coverage_gap", count_hits(sets, labels, alpha))


def top_coverage_gap(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """TopCovGap: mean distance from 1 - alpha of the 5% of classes furthest from it; see `top_gap`.

    Compare it with `coverage_gap_noise_floor`: with few rows per class, perfect sets have gaps too.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> top_coverage_gap(sets, labels=[0, 0, 1, 1], alpha=0.25)  # coverages 1 and 1/2: gaps 1/4 and 1/4
    0.25
    """
    return _measure("top_coverage_gap", count_hits(sets, labels, alpha))


def avg_coverage_gap(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """AvgCovGap: mean over the classes present of | class coverage - (1 - alpha) |.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> avg_coverage_gap(sets, labels=[0, 0, 1, 1], alpha=0.5)  # coverages 1 and 1/2: gaps 1/2 and 0
    0.25
    """
    return _measure("avg_coverage_gap", count_hits(sets, labels, alpha))


def worst_tenth_coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Mean coverage of the 10% of classes with the lowest coverage; see `worst_tenth`. Higher is better.

    With few rows per class, some classes have lower coverage by chance alone, even in perfect sets.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> worst_tenth_coverage(sets, labels=[0, 0, 1, 1])  # coverages 1 and 1/2, and one class is a tenth of two
    0.5
    """
    return _measure("worst_tenth_coverage", count_hits(sets, labels))


def macro_coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """Mean over the classes present of class coverage: every class counts the same, however rare. Higher is better.

    >>> sets = [[True, False], [True, False], [True, False], [True, False]]
    >>> macro_coverage(sets, labels=[0, 0, 0, 1])  # coverages 1 and 0
    0.5
    """
    return _measure("macro_coverage", count_hits(sets, labels))


def classes_below(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """Share of the classes present whose coverage is below 1 - alpha.

    Chance alone puts many classes below: if every class had coverage exactly 1 - alpha, a class of m rows would show
    less with probability P(Binomial(m, 1 - alpha) < m (1 - alpha)), which at alpha 0.1 is 0.35 for 10 rows, 0.42 for
    100 and 0.48 for 1,000.

    >>> sets = [[True, False], [True, False], [False, True], [True, False]]
    >>> classes_below(sets, labels=[0, 0, 1, 1], alpha=0.25)  # coverages 1 and 1/2
    0.5
    """
    return _measure("classes_below", count_hits(sets, labels, alpha))


def size_stratified_coverage_violation(sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
    """SSCV (Angelopoulos et al. 2021): largest | coverage - (1 - alpha) | over the strata of set size that have rows.

    The strata are those of `SIZE_STRATA`: sizes 0-1, 2-3, 4-10, 11-100, 101 and more.

    >>> sets = [[True, False, False], [True, False, False], [True, True, True]]
    >>> size_stratified_coverage_violation(sets, labels=[0, 1, 2], alpha=0.25)  # sizes 0-1: 1/2; sizes 2-3: 1
    0.25
    """
    return METRICS["sscv"](sets, labels, alpha)


def top_group_coverage_gap(sets: ArrayLike, labels: ArrayLike, groups: object, alpha: Alpha) -> float:
    """TopCovGap over groups: mean distance from 1 - alpha of the 5% of groups furthest from it, at least one.

    For what chance alone shows, use `noise_floor_of_counts` with the rows of each group.

    >>> sets, labels = [[True, False], [True, True], [True, False]], [0, 1, 1]
    >>> top_group_coverage_gap(sets, labels, ["b", "a", "b"], alpha=0.25)  # coverages 1 and 1/2
    0.25
    """
    return METRICS["top_group_coverage_gap"](sets, labels, alpha, groups=groups)


def avg_group_coverage_gap(sets: ArrayLike, labels: ArrayLike, groups: object, alpha: Alpha) -> float:
    """AvgCovGap over groups: mean over the groups with rows of | group coverage - (1 - alpha) |.

    >>> sets, labels = [[True, False], [True, True], [True, False]], [0, 1, 1]
    >>> avg_group_coverage_gap(sets, labels, ["b", "a", "b"], alpha=0.5)  # coverages 1 and 1/2: gaps 1/2 and 0
    0.25
    """
    return METRICS["avg_group_coverage_gap"](sets, labels, alpha, groups=groups)


def worst_group_coverage(sets: ArrayLike, labels: ArrayLike, groups: object) -> float:
    """Mean coverage of the 10% of groups with the lowest coverage, at least one. Higher is better.

    >>> sets, labels = [[True, False], [True, True], [True, False]], [0, 1, 1]
    >>> worst_group_coverage(sets, labels, ["b", "a", "b"])
    0.5
    """
    table = group_coverage(sets, labels, groups)
    return _measure("worst_group_coverage", SetCounts(table.count, group_rows=table.count, group_hits=table.hits))


def confidence_coverage_gap(
    sets: ArrayLike, labels: ArrayLike, confidence: ArrayLike, alpha: Alpha, n_strata: int = N_STRATA
) -> float:
    """Largest | coverage - (1 - alpha) | over the strata of confidence that have rows.

    >>> sets, labels = [[True, False], [True, True], [True, False], [True, False]], [0, 1, 1, 0]
    >>> confidence_coverage_gap(sets, labels, [0.9, 0.5, 0.6, 1.0], alpha=0.25, n_strata=2)  # coverages 1/2 and 1
    0.25
    """
    counts = counts_of_sets(sets, labels, alpha, confidence=confidence, n_strata=n_strata)
    return _measure("confidence_coverage_gap", counts)
