"""Numbers that say how good sets and probabilities are, the laws they follow by chance, and how many rows to plan for.

=====================  ==================================================================================
of sets                `avg_size`, `empty_share`, `marginal_coverage`, `marginal_coverage_gap`,
                       `class_coverage`, `top_coverage_gap`, `avg_coverage_gap`,
                       `worst_tenth_coverage`,
                       `size_stratified_coverage`, `size_stratified_coverage_violation`
records of all these   `METRICS`, by name, each a `Metric` with title and unit; `swept_metrics`
of counts              `SetCounts`, `counts_of_sets`: what the formulas read; `coverage_gaps`, `top_gap`, `avg_gap`,
                       `worst_tenth`
of probabilities       `reliability_table`, `reliability_from_confidence`, `expected_calibration_error`,
                       `negative_log_likelihood`, `brier_score`, `top_k_accuracy`
laws and intervals     `conformal_coverage_distribution`, `coverage_law`, `coverage_interval`,
                       `coverage_p_value`, `clopper_pearson`
noise floor            `coverage_gap_noise_floor`, `noise_floor_of_counts`
planning               `plan`, `coverage_half_width`
=====================  ==================================================================================

Coverages and gaps are fractions, not percent. Labels are column indices.

>>> sets = [[True, False], [True, True], [False, True]]
>>> avg_size(sets), marginal_coverage(sets, labels=[0, 0, 1])
(1.3333333333333333, 1.0)
"""

from thermoset.metrics.counts import SIZE_STRATA, SetCounts, avg_gap, coverage_gaps, top_gap, worst_tenth
from thermoset.metrics.laws import (
    Interval,
    Intervals,
    NoiseFloor,
    clopper_pearson,
    conformal_coverage_distribution,
    coverage_gap_noise_floor,
    coverage_interval,
    coverage_law,
    coverage_p_value,
    noise_floor_of_counts,
)
from thermoset.metrics.of_probabilities import (
    ReliabilityTable,
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
    reliability_from_confidence,
    reliability_table,
    top_k_accuracy,
)
from thermoset.metrics.of_sets import (
    ClassCoverage,
    StratumCoverage,
    avg_coverage_gap,
    avg_size,
    class_coverage,
    counts_of_sets,
    empty_share,
    marginal_coverage,
    marginal_coverage_gap,
    size_stratified_coverage,
    size_stratified_coverage_violation,
    top_coverage_gap,
    worst_tenth_coverage,
)
from thermoset.metrics.planning import Plan, coverage_half_width, plan
from thermoset.metrics.registry import METRICS, Metric, swept_metrics

__all__ = [
    "METRICS",
    "SIZE_STRATA",
    "ClassCoverage",
    "Interval",
    "Intervals",
    "Metric",
    "NoiseFloor",
    "Plan",
    "ReliabilityTable",
    "SetCounts",
    "StratumCoverage",
    "avg_coverage_gap",
    "avg_gap",
    "avg_size",
    "brier_score",
    "class_coverage",
    "clopper_pearson",
    "conformal_coverage_distribution",
    "counts_of_sets",
    "coverage_gap_noise_floor",
    "coverage_gaps",
    "coverage_half_width",
    "coverage_interval",
    "coverage_law",
    "coverage_p_value",
    "empty_share",
    "expected_calibration_error",
    "marginal_coverage",
    "marginal_coverage_gap",
    "negative_log_likelihood",
    "noise_floor_of_counts",
    "plan",
    "reliability_from_confidence",
    "reliability_table",
    "size_stratified_coverage",
    "size_stratified_coverage_violation",
    "swept_metrics",
    "top_coverage_gap",
    "top_gap",
    "top_k_accuracy",
    "worst_tenth",
    "worst_tenth_coverage",
]
