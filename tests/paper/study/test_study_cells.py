"""Cells: agreement, pooled class gaps, and the identity of the two modes where they coincide."""

import math

import numpy as np
import pytest

from law import as_accurate, generated
from thermoset import InputError, Logits
from thermoset.calibration import probabilities
from thermoset.metrics import reliability_table
from thermoset.paper.study import Pair, Printed, Settings, find_printed, study_logits
from thermoset.paper.study.agreement import agreements
from thermoset.paper.study.cells import Cell, agree, averaged_top_gap, of_medians
from thermoset.sweeping import draw_trial

pytestmark = pytest.mark.slow


def printed(value, rounding=0.005):
    return Printed("Table 1", Pair("a", "b"), "avg_size", "aps", "before", 0.1, 10, value, rounding, "")


def test_agreement_allows_three_errors_of_the_difference_and_rounding():
    # medians of means: error 0.1 sqrt(pi / 2) each, difference sqrt(2) times that
    reach, spread = 3 * 0.1 * math.sqrt(math.pi) + 0.005, of_medians(0.1)
    assert agree(5.0, spread, printed(5.0 + reach - 1e-6))
    assert not agree(5.0, spread, printed(5.0 + reach + 1e-6))
    assert agree(5.004, of_medians(float("nan")), printed(5.0))
    assert not agree(5.006, of_medians(float("nan")), printed(5.0))


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


@pytest.fixture(scope="module")
def named():
    """The same rows under the name of a pair of the paper."""
    data = as_accurate(*generated(800, 6, signal=0.6), 0.9465)
    return study_logits(data, "cifar10_resnet50", Settings(trials=10, cp_percents=(10,), temperatures="0.3,0.5,1,2,5"))


def test_what_differs_by_definition_is_neither_right_nor_wrong(named):
    beside = [cell for cell in (*named.cells, *named.comparison.cells) if cell.printed is not None]
    assert all((cell.agrees is None) == bool(cell.definition) for cell in beside)
    judged = {(c.metric, c.method, c.at) for c in beside if c.mode == "exact" and c.agrees is not None}
    heads = {(name, "", "") for name in ("top1", "top5", "temperature_ece", "temperature_nll")}
    assert judged == {*heads, ("avg_size", "lac", "before")}
    assert not any(cell.definition for cell in beside if cell.mode == "published")


def test_a_printed_temperature_is_one_fit_and_may_be_as_far_as_single_fits_are(named):
    (cell,) = [c for c in named.cells if c.metric == "temperature_ece"]
    fits = named.measured.trial_ece
    reach = 3 * fits.std(ddof=1) * math.sqrt(1 + math.pi / 2 / len(fits)) + 0.0005
    assert cell.printed == 1.761
    assert cell.agrees is bool(abs(cell.value - 1.761) <= reach)


def test_agreement_is_counted_by_metric_and_beside_swapped_scores():
    pair = Pair("CIFAR-10", "ResNet50")  # Table 1: LAC 0.91, APS 1.04, RAPS 0.98; Table 2: all MarCovGaps 0 at T = 1

    def cell(metric, method, value, agrees):
        place = "published", metric, method, "before", 0.1, 10
        return Cell(*place, value, 0.0, 100, find_printed(pair, *place[1:]).value, agrees=agrees)

    sizes = [("lac", 0.91, True), ("aps", 1.2, False), ("raps", 0.98, True)]
    gaps = [(method, 0.0, True) for method in ("lac", "aps", "raps")]
    cells = [
        *(cell("avg_size", *one) for one in sizes),
        *(cell("marginal_coverage_gap", *one) for one in gaps),
        Cell("exact", "avg_size", "lac", "before", 0.1, 10, 0.91, 0.0, 100, 0.91, agrees=True),
    ]
    size, gap = agreements(pair, cells)
    assert (size.metric, size.agree, size.printed, size.swapped) == ("avg_size", 2, 3, 0.0)
    assert (gap.metric, gap.agree, gap.printed, gap.swapped) == ("marginal_coverage_gap", 3, 3, 3.0)
    assert gap.worth == "nothing: any method passes"
    assert size.worth == "much: other scores fail"
    assert agreements(None, []) == ()


def test_reliability_is_that_of_rows_that_t_star_has_not_seen(small):
    data = Logits(*generated(800, 6, signal=0.6))
    settings, temperatures = small.settings, small.measured.trial_ece
    seen = [draw_trial(len(data), t, settings.protocol(5)).calibration for t in range(settings.trials)]
    for table, used in zip(small.measured.reliability, (np.ones(10), temperatures), strict=True):
        kept = [data.take(np.setdiff1d(np.arange(800), rows)) for rows in seen]
        probs = np.concatenate([probabilities(part, t) for part, t in zip(kept, used, strict=True)])
        want = reliability_table(probs, np.concatenate([part.labels for part in kept]), n_bins=10)
        np.testing.assert_array_equal(table.count, want.count)
        np.testing.assert_allclose(table.accuracy, want.accuracy)
        np.testing.assert_allclose(table.confidence, want.confidence)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alphas": ()}, "alphas must be one number or more"),
        ({"alphas": (0.1, 0.1)}, "no two alike"),
        ({"alphas": (1.5,)}, "alpha must"),
        ({"cp_percents": ()}, "cp_percents must be one"),
        ({"cp_percents": (0,)}, "percents of the rows"),
        ({"cp_percents": (90,)}, "none are left to evaluate"),
        ({"temperatures": "1,2"}, "temperatures must be 3 to 500"),
        ({"temperatures": "3:5:0.5"}, "begin below 2.95"),
        ({"ece_bins": 0}, "ece_bins"),
    ],
)
def test_settings_that_make_no_sense_are_refused_in_one_line(wrong, message):
    with pytest.raises(InputError, match=message) as told:
        Settings(**wrong)
    assert "\n" not in str(told.value)


def test_other_levels_and_sizes_are_studied_in_the_same_way():
    data = Logits(*generated(800, 6, signal=0.6))
    found = study_logits(data, "mine", Settings(trials=3, alphas=(0.2,), cp_percents=(15, 20), temperatures="0.5,1,2"))
    assert found.settings.main == (0.2, 15)
    assert {(c.alpha, c.cp_percent) for c in found.cells if c.alpha} == {(0.2, 15), (0.2, 20)}
    assert {(c.alpha, c.cp_percent) for c in found.comparison.cells} == {(0.2, 20)}
    assert {(c.alpha, c.cp_percent) for c in found.claims if c.alpha} == {(0.2, 15), (0.2, 20), (0.2, None)}


def test_nothing_is_printed_of_a_file_of_the_users(small):
    assert all(cell.printed is None and cell.agrees is None for cell in (*small.cells, *small.comparison.cells))


def test_trials_use_the_temperature_of_their_own_calibration_rows(small):
    np.testing.assert_array_equal(small.measured.after[5].temperatures, small.measured.trial_ece)
    assert len(set(small.measured.trial_ece)) > 1
