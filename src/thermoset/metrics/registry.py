"""The set metrics by name, all called alike: a table of them is one loop.

A new metric is a function and one line here.

>>> sets, labels = [[True, True], [False, True]], [0, 0]
>>> {name: METRICS[name](sets, labels, 0.25) for name in ("avg_size", "marginal_coverage_gap")}
{'avg_size': 1.5, 'marginal_coverage_gap': 0.25}
"""

from collections.abc import Callable

from numpy.typing import ArrayLike

from thermoset.core.levels import Alpha
from thermoset.metrics import sets as of

__all__ = ["METRICS", "SetMetric"]

SetMetric = Callable[[ArrayLike, ArrayLike, Alpha], float]
"""(sets, labels, alpha) -> number."""

METRICS: dict[str, SetMetric] = {
    "avg_size": lambda sets, _labels, _alpha: of.avg_size(sets),
    "marginal_coverage": lambda sets, labels, _alpha: of.marginal_coverage(sets, labels),
    "marginal_coverage_gap": of.marginal_coverage_gap,
    "top_coverage_gap": of.top_coverage_gap,
    "avg_coverage_gap": of.avg_coverage_gap,
    "empty_share": lambda sets, _labels, _alpha: of.empty_share(sets),
    "sscv": of.size_stratified_coverage_violation,
}
"""Name -> function of (sets, labels, alpha); the names are those of a sweep's metric column."""
