"""The metrics of sets, each a record: what it is called, how it is shown, and its formula on counts.

Sweeps, tables, figures, pages and commands take names and titles from here. A new metric is a formula in
`metrics/counts.py` and a record here.

>>> sets, labels = [[True, True], [False, True]], [0, 0]
>>> {name: METRICS[name](sets, labels, 0.25) for name in ("avg_size", "marginal_coverage_gap")}
{'avg_size': 1.5, 'marginal_coverage_gap': 0.25}
>>> METRICS["avg_size"].heading
'AvgSize: labels in a set'
"""

from dataclasses import dataclass, replace
from typing import Literal

from numpy.typing import ArrayLike

from thermoset.core.levels import Alpha
from thermoset.errors import InputError
from thermoset.metrics import counts as of
from thermoset.metrics.counts import Formula
from thermoset.metrics.of_sets import counts_of_sets

__all__ = ["METRICS", "Metric", "swept_metrics"]


@dataclass(frozen=True)
class Metric:
    """A metric of prediction sets, called as (sets, labels, alpha).

    Attributes
    ----------
    name : str
        What the metric column of a sweep says.
    title, about : str
        What readers see: the paper's name for it, and a few words on what it measures.
    unit : "labels", "share" or "score"
        Of its values. Shares are fractions.
    of : callable
        `SetCounts` -> a number, or one for each trial.
    needs : "counts", "sizes", "threshold", "ranks" or "expectation"
        What the formula reads. Plain counts are there for sets and for every sweep, sizes of single sets for sets
        alone, thresholds for sweeps alone, the ranks of labels for `measure_trials` and the study, counts with u
        integrated out for these and for sweeps with `evaluation="integrated"`.
    averages : bool
        Whether a sweep with `evaluation="integrated"` computes it from expected counts too. A metric that is not linear
        in hits would have another meaning then, and stays with drawn ones.
    """

    name: str
    title: str
    about: str
    unit: Literal["labels", "share", "score"]
    of: Formula
    needs: Literal["counts", "sizes", "threshold", "ranks", "expectation"] = "counts"
    averages: bool = False

    @property
    def heading(self) -> str:
        """Title and what it measures, as above a chart."""
        return self.title[0].upper() + self.title[1:] + (f": {self.about}" if self.about else "")

    @property
    def is_of_sets(self) -> bool:
        """Whether sets and labels are enough to compute it."""
        return self.needs in ("counts", "sizes")

    @property
    def is_swept(self) -> bool:
        """Whether every sweep has it."""
        return self.needs in ("counts", "threshold")

    def __call__(self, sets: ArrayLike, labels: ArrayLike, alpha: Alpha) -> float:
        """Compute it from boolean sets (n, C) and labels (n,)."""
        if not self.is_of_sets:
            remedy = "thermoset.study" if self.needs == "ranks" else "thermoset.sweep"
            raise InputError(f"{self.name} cannot be computed from sets and labels. Use {remedy}.")
        return float(self.of(counts_of_sets(sets, labels, alpha)))


_TOP = Metric("top_coverage_gap", "TopCovGap", "the worst classes", "share", of.top_class_gap)
_AVG = Metric("avg_coverage_gap", "AvgCovGap", "all classes", "share", of.avg_class_gap)
_WORST = Metric(
    "worst_tenth_coverage", "coverage of the worst tenth", "the classes covered least", "share", of.worst_classes
)
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
        Metric("left_out_share", "correct top label left out", "all rows", "share", of.left_out_part, needs="ranks"),
        Metric("sscv", "SSCV", "the worst size of sets", "share", of.worst_stratum_gap, needs="sizes"),
        _expected(_TOP, "integrated_top_coverage_gap"),
        _expected(_AVG, "integrated_avg_coverage_gap"),
        _expected(_SQUARED, "integrated_squared_coverage_gap"),
        _expected(_WORST, "integrated_worst_tenth_coverage"),
    )
}
"""Every metric of sets by name; `swept_metrics` says which of them a sweep has."""


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
