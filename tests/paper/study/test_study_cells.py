"""Cells: agreement, pooled class gaps, and the identity of the two modes where they coincide."""

import math

import numpy as np
import pytest

from law import generated
from thermoset import Logits
from thermoset.paper.study import Pair, Printed, Settings, study_logits
from thermoset.paper.study.cells import agree, averaged_top_gap


def printed(value, rounding=0.005):
    return Printed("Table 1", Pair("a", "b"), "avg_size", "aps", "before", 0.1, 10, value, rounding, "")


def test_agreement_allows_three_errors_of_the_difference_and_rounding():
    # medians of means: error 0.1 sqrt(pi / 2) each, difference sqrt(2) times that
    reach = 3 * 0.1 * math.sqrt(math.pi) + 0.005
    assert agree(5.0, 0.1, printed(5.0 + reach - 1e-6))
    assert not agree(5.0, 0.1, printed(5.0 + reach + 1e-6))
    assert agree(5.004, float("nan"), printed(5.0))
    assert not agree(5.006, float("nan"), printed(5.0))


def test_pooled_class_gaps_by_hand():
    # class 0: 3 + 2 of 4 + 6, class 1: 2 + 2 of 2 + 2; promised 0.8
    assert averaged_top_gap(np.array([[3, 2], [2, 2]]), np.array([[4, 2], [6, 2]]), 0.2) == pytest.approx(0.3)


@pytest.fixture(scope="module")
def small():
    data = Logits(*generated(800, 6, signal=0.6))
    return study_logits(data, "mine", Settings(trials=10, temperatures="0.3,0.5,1,2,5"))


def test_published_sizes_of_aps_count_the_top_label_of_empty_sets(small):
    cells = {(c.mode, c.metric, c.method, c.at, c.alpha, c.cp_percent): c for c in small.cells}
    part = small.measured.before[10]
    forced = part.of("avg_size")[1, 0] + part.of("empty_share")[1, 0]
    # ten trials are ten groups of one: the median of means is the median
    assert cells["published", "avg_size", "aps", "before", 0.1, 10].value == pytest.approx(np.median(forced))
    for method in ("lac", "raps"):
        exact = cells["exact", "avg_size", method, "before", 0.1, 10].value
        # six classes, k_reg = 5: the penalty touches one label
        assert cells["published", "avg_size", method, "before", 0.1, 10].value == pytest.approx(exact, abs=0.05)


def test_published_coverage_gap_is_the_gap_of_the_middle_coverage(small):
    cells = {(c.mode, c.metric, c.method, c.at, c.alpha, c.cp_percent): c for c in small.cells}
    coverage = small.measured.before[20].of("marginal_coverage")[0, 1]
    got = cells["published", "marginal_coverage_gap", "lac", "before", 0.05, 20].value
    assert got == pytest.approx(abs(np.median(coverage) - 0.95))


def test_nothing_is_printed_of_a_file_of_the_users(small):
    assert all(cell.printed is None and cell.agrees is None for cell in (*small.cells, *small.comparison.cells))


def test_trials_use_the_temperature_of_their_own_calibration_rows(small):
    np.testing.assert_array_equal(small.measured.after[5].temperatures, small.measured.trial_ece)
    assert len(set(small.measured.trial_ece)) > 1
