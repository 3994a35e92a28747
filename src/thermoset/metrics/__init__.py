"""Metrics of sets and probabilities, the laws they follow by chance, and how many rows to plan for.

=====================  ==================================================================================
of sets                `avg_size`, `empty_share`, `marginal_coverage`, `marginal_coverage_gap`,
                       `class_coverage`, `top_coverage_gap`, `avg_coverage_gap`,
                       `worst_tenth_coverage`, `macro_coverage`, `classes_below`,
                       `size_stratified_coverage`, `size_stratified_coverage_violation`
of groups of rows      `group_coverage`, `top_group_coverage_gap`, `avg_group_coverage_gap`,
                       `worst_group_coverage`
of confidence          `confidence_stratified_coverage`, `confidence_coverage_gap`, `confidence_strata`
of answered rows       `risk_coverage_curve`, `area_under_risk_coverage`, `error_at_coverage`
of slabs               `worst_slab`, `worst_slab_coverage`
records of all these   `METRICS`, by name, each a `Metric` with title and unit; `swept_metrics`, `group_metrics`,
                       `asked_metrics`
of counts              `SetCounts`, `counts_of_sets`: what the formulas read; `coverage_gaps`, `top_gap`, `avg_gap`,
                       `worst_tenth`
of probabilities       `reliability_table`, `reliability_from_confidence`, `expected_calibration_error`,
                       `classwise_calibration`, `classwise_calibration_error`,
                       `negative_log_likelihood`, `brier_score`, `top_k_accuracy`
laws and intervals     `conformal_coverage_distribution`, `coverage_law`, `coverage_interval`,
                       `coverage_p_value`, `clopper_pearson`
noise floor            `coverage_gap_noise_floor`, `noise_floor_of_counts`
planning               `plan`, `coverage_half_width`
=====================  ==================================================================================

Coverages and gaps are fractions, not percentages. Labels are column indices.

Names load when they are first used: `__init__.pyi` lists them.

>>> from thermoset.metrics import avg_size, marginal_coverage
>>> sets = [[True, False], [True, True], [False, True]]
>>> avg_size(sets), marginal_coverage(sets, labels=[0, 0, 1])
(1.3333333333333333, 1.0)
"""

from lazy_loader import attach_stub as _attach_stub

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
