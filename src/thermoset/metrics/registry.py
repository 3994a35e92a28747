"""The metrics of sets, each a record: its name, how it is shown, and its formula on counts.

Sweeps, tables, figures, pages and commands take names and titles from here. A new metric is a formula in
`metrics/counts.py` and a record here.

>>> sets, labels = [[True, True], [False, True]], [0, 0]
>>> {name: METRICS[name](sets, labels, 0.25) for name in ("avg_size", "marginal_coverage_gap")}
{'avg_size': 1.5, 'marginal_coverage_gap': 0.25}
>>> METRICS["avg_size"].heading
'AvgSize: labels in a set'
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from numpy.typing import ArrayLike

from thermoset.errors import InputError
from thermoset.levels import Alpha
from thermoset.metrics import counts as of
from thermoset.metrics.counts import Formula
from thermoset.metrics.of_sets import counts_of_sets
from thermoset.quoting import quoted

__all__ = ["METRICS", "Metric", "asked_metrics", "group_metrics", "swept_metrics"]


Needs = Literal["counts", "sizes", "threshold", "ranks", "expectation", "groups", "confidence"]
"""What a formula reads; see `Metric`."""

_ASKED: tuple[Needs, ...] = ("sizes", "confidence")  # what a sweep counts only when it is asked to


@dataclass(frozen=True)
class Metric:
    """A metric of prediction sets, called as (sets, labels, alpha).

    Attributes
    ----------
    name : str
        Its name in the metric column of a sweep.
    title, about : str
        For display: the paper's name for it, and a few words on what it measures.
    unit : "labels", "share" or "score"
        Of its values. Shares are fractions.
    of : callable
        `SetCounts` -> a number, or one for each trial.
    needs : "counts", "sizes", "threshold", "ranks", "expectation", "groups" or "confidence"
        What the formula reads. Plain counts are there for sets and for every sweep, thresholds for sweeps alone, the
        ranks of labels for the study, counts with u integrated out for the study and for sweeps with
        `evaluation="integrated"`. Groups of rows are there for every sweep of rows that have groups; sizes of single
        sets and strata of confidence for sweeps that are asked for them.
    averages : bool
        Whether a sweep with `evaluation="integrated"` computes it from expected counts too. A metric that is not linear
        in hits would have another meaning then, and stays with drawn ones.
    """

    name: str
    title: str
    about: str
    unit: Literal["labels", "share", "score"]
    of: Formula
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
        return self.needs in _ASKED

    def __call__(self, sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
        """Compute it from boolean sets (n, C) and labels (n,)."""
        if not self.is_of_sets:
            elsewhere = {"ranks": "thermoset.study", "threshold": "thermoset.sweep", "expectation": "thermoset.sweep"}
            remedy = elsewhere.get(self.needs, f"thermoset.metrics.{self.name}, which also takes the {self.needs}")
            raise InputError(f"{self.name} cannot be computed from sets and labels. Use {remedy}.")
        return float(self.of(counts_of_sets(sets, labels, alpha)))


_TOP = Metric("top_coverage_gap", "TopCovGap", "the worst classes", "share", of.top_class_gap)
_AVG = Metric("avg_coverage_gap", "AvgCovGap", "all classes", "share", of.avg_class_gap)
_WORST = Metric(
    "worst_tenth_coverage",
    "coverage of the worst tenth",
    "the classes with the lowest coverage",
    "share",
    of.worst_classes,
)


def _over_groups(metric: Metric, name: str) -> Metric:
    title, about = f"{metric.title} over groups", metric.about.replace("classes", "groups")
    return replace(metric, name=name, title=title, about=about, of=of.over_groups(metric.of), needs="groups")


_SQUARED = replace(_AVG, title=f"{_AVG.title} squared", of=of.squared_class_gap)


def _expected(metric: Metric, name: str) -> Metric:
    return replace(metric, name=name, title=f"{metric.title}, u averaged", needs="expectation", averages=True)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("avg_size", "AvgSize", "labels in a set", "labels", of.mean_size, averages=True),
        Metric("marginal_coverage", "coverage", "all rows", "share", of.coverage, averages=True),
        Metric("marginal_coverage_gap", "MarCovGap", "all rows", "share", of.coverage_gap, averages=True),
        _TOP,
        _AVG,
        Metric("threshold", "threshold", "", "score", of.threshold, needs="threshold"),
        Metric("empty_share", "empty", "sets without a label", "share", of.empty_part, averages=True),
        _WORST,
        Metric("macro_coverage", "macro-coverage", "the mean over classes", "share", of.macro, averages=True),
        Metric("classes_below", "classes below", "classes with coverage below 1 - alpha", "share", of.below_part),
        Metric("left_out_share", "correct top label left out", "all rows", "share", of.left_out_part, needs="ranks"),
        Metric("sscv", "SSCV", "the worst size of sets", "share", of.worst_stratum_gap, needs="sizes"),
        Metric(
            "confidence_coverage_gap",
            "gap over confidence",
            "the worst stratum of confidence",
            "share",
            of.worst_confidence_gap,
            needs="confidence",
        ),
        _over_groups(_TOP, "top_group_coverage_gap"),
        _over_groups(_AVG, "avg_group_coverage_gap"),
        _over_groups(_WORST, "worst_group_coverage"),
        _expected(_TOP, "integrated_top_coverage_gap"),
        _expected(_AVG, "integrated_avg_coverage_gap"),
        _expected(_SQUARED, "integrated_squared_coverage_gap"),
        _expected(_WORST, "integrated_worst_tenth_coverage"),
    )
}
"""Every metric of sets by name; `swept_metrics` says which of them a sweep has."""


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


def swept_metrics(evaluation: Literal["drawn", "integrated"] = "drawn") -> tuple[Metric, ...]:
    """The metrics of a sweep, in the order of its table.

    >>> [metric.name for metric in swept_metrics()][:3]
    ['avg_size', 'marginal_coverage', 'marginal_coverage_gap']
    >>> len(swept_metrics("integrated")) - len(swept_metrics())
    4
    """
    every = tuple(METRICS.values())
    added = tuple(metric for metric in every if metric.needs == "expectation") if evaluation == "integrated" else ()
    return tuple(metric for metric in every if metric.is_swept) + added


def group_metrics() -> tuple[Metric, ...]:
    """The metrics that a sweep adds for rows that have groups.

    >>> [metric.name for metric in group_metrics()]
    ['top_group_coverage_gap', 'avg_group_coverage_gap', 'worst_group_coverage']
    """
    return tuple(metric for metric in METRICS.values() if metric.needs == "groups")
