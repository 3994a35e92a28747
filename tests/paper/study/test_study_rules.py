"""The rules that are compared, naive scores and curves of single trials against the plainest composition."""

from dataclasses import replace

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.conformal import scores
from thermoset.paper.study import Settings, study_logits
from thermoset.paper.study.cells import COMPARED
from thermoset.paper.study.measure import calibrated_temperatures, measure, measure_ways
from thermoset.paper.study.row_by_row import low_temperatures, naive_ranks, naive_scores, size_differences
from thermoset.paper.study.rules import (
    PENALTIES,
    CalibrationRows,
    at_temperatures,
    calibration_curves,
    chosen_rules,
    class_cells,
    conf_ts,
    least_gap,
    our_choices,
    plain_aps_scores,
    rank_quantile,
    rule_cells,
    stricter,
    tuned_raps,
)
from thermoset.sweeping import draw_trial

pytestmark = pytest.mark.slow

SETTINGS = Settings(trials=4, cp_percents=(10, 20), temperatures="0.5,1,2,4")


@pytest.fixture(scope="module")
def data():
    return ts.Logits(*generated(700, 8, signal=0.5))


def test_plain_aps_scores_are_those_of_the_score(data):
    grid = np.array([0.5, 2.0])
    rows = np.arange(len(data))
    for j, temperature in enumerate(grid):
        want = scores("aps", data.logits, temperature=temperature, u=1.0)[rows, data.labels]
        np.testing.assert_allclose(plain_aps_scores(data, grid)[j], want, atol=1e-12)


def test_conf_ts_finds_the_temperature_whose_scores_lie_nearest_to_the_threshold():
    rng = np.random.default_rng(0)
    spread = np.array([0.3, 0.1, 0.02, 0.2])
    values = 0.5 + spread[:, None] * rng.uniform(-1, 1, size=(4, 200))
    assert conf_ts(values, np.arange(200), np.array([0.5, 1.0, 1.5, 2.0]), 0.1, 7) == 1.5


def test_naive_scores_are_the_scores_where_nothing_underflows(data):
    u = np.random.default_rng(1).random(len(data))
    ranked, rank = naive_ranks(data.logits, data.labels, 1.5, "float64")
    order = np.argsort(-data.logits, axis=1)
    np.testing.assert_array_equal(order[np.arange(len(data)), rank], data.labels)
    for got, method in zip(naive_scores(ranked, u), ("lac", "aps", "raps"), strict=True):
        want = scores(method, data.logits, temperature=1.5, u=u)
        np.testing.assert_allclose(got, np.take_along_axis(want, order, axis=1), atol=1e-12)


def test_naive_sets_are_ours_where_nothing_underflows(data):
    low = low_temperatures(data, SETTINGS)
    assert (low.n_rows, low.ours.trials) == (len(data), SETTINGS.trials)
    for metric in ("avg_size", "marginal_coverage"):
        for m, method in enumerate(low.ours.methods):
            got = low.naive["float64"][metric][m, -1]  # at T = 1, trial by trial
            np.testing.assert_allclose(got, low.ours.of_trials(metric, method)[-1], atol=1e-12)


def test_curves_of_single_trials_take_thresholds_from_conformal_and_metrics_from_calibration_rows(data):
    curves = calibration_curves(data, SETTINGS, 20, ("raps",), 0.1)
    for t in range(SETTINGS.trials):
        drawn = draw_trial(len(data), t, SETTINGS.protocol(20))
        for j, temperature in enumerate(curves.temperatures):
            model = ts.ConformalClassifier("raps", 0.1, float(temperature))
            model.fit(data.take(drawn.conformal), u=drawn.u[drawn.conformal])
            part = data.take(drawn.calibration)
            sets = model.predict_set(part, u=drawn.u[drawn.calibration])
            assert curves.of_trials("avg_size", "raps")[j, t] == ts.metrics.avg_size(sets)
            gap = ts.metrics.top_coverage_gap(sets, part.labels, 0.1)
            assert curves.of_trials("top_coverage_gap", "raps")[j, t] == gap


def test_t_hat_of_appendix_c_is_the_least_gap_below_2_95(data):
    curves = calibration_curves(data, SETTINGS, 20, ("raps",), 0.1)
    gaps = curves.of_trials("top_coverage_gap", "raps")
    for t, chosen in enumerate(least_gap(curves, "raps")):
        assert chosen in (0.5, 1.0, 2.0)
        assert gaps[curves.temperatures.tolist().index(chosen), t] == gaps[:3, t].min()


def test_t_star_of_trials_is_as_good_as_a_fit_of_its_own(data):
    nll, ece = calibrated_temperatures(data, SETTINGS, 1.0)
    for t in range(SETTINGS.trials):
        part = data.take(draw_trial(len(data), t, SETTINGS.protocol(10)).calibration)
        assert nll[t] == ts.TemperatureScaler().fit(part).temperature_
        fitted = ts.TemperatureScaler("ece", n_bins=10).fit(part)
        probs = ts.calibration.probabilities(part, ece[t])
        # a scan in steps of half a percent: what it misses is a small part of the error
        assert ts.metrics.expected_calibration_error(probs, part.labels, 10) <= fitted.loss_ + 0.01


def test_nothing_moves_where_the_temperature_is_one(data):
    found = size_differences(data, "aps", np.ones(3), SETTINGS)
    assert (found.grow, found.stay, found.shrink) == (0, 1, 0)
    assert not found.mean_sorted.any()


@pytest.mark.filterwarnings("ignore::thermoset.BudgetWarning")
def test_our_choices_are_those_of_choose(data):
    found = measure(data, SETTINGS, None, lambda: None)
    chosen = our_choices(data, found, SETTINGS, {"even": 3, "size<=1.5": 3, "gap<=0.03": 2})
    assert [len(temperatures) for temperatures in chosen.values()] == [3, 3, 2]
    for prefer, temperatures in chosen.items():
        for t, got in enumerate(temperatures):
            part = data.take(draw_trial(len(data), t, SETTINGS.protocol(10)).calibration)
            recipe = ts.Recipe("raps", 0.1, random_state=t)
            choice = ts.tuning.choose(part, recipe, prefer=prefer, calibrated=found.trial_nll[t])
            assert got == choice.temperature


@pytest.mark.filterwarnings("ignore::thermoset.CoverageWarning")
@pytest.mark.parametrize("tied", [False, True])
def test_sets_by_class_are_those_of_the_classifier(data, tied):
    data = ts.Logits(np.round(data.logits / 4), data.labels) if tied else data
    cells = {(c.mode, c.at, c.metric): c for c in class_cells(data, None, SETTINGS, 20)}
    for kind, grouping in (("mondrian", "class"), ("clustered", "cluster")):
        values = []
        for t in range(SETTINGS.trials):
            drawn = draw_trial(len(data), t, SETTINGS.protocol(20))
            model = ts.ConformalClassifier("raps", 0.1, grouping=grouping)
            model.fit(data.take(drawn.conformal), u=drawn.u[drawn.conformal])
            part = data.take(drawn.evaluation)
            sets = model.predict_set(part, u=drawn.u[drawn.evaluation])
            of_sets = {
                "avg_size": ts.metrics.avg_size(sets),
                "marginal_coverage_gap": ts.metrics.marginal_coverage_gap(sets, part.labels, 0.1),
                "top_coverage_gap": ts.metrics.top_coverage_gap(sets, part.labels, 0.1),
                "avg_coverage_gap": ts.metrics.avg_coverage_gap(sets, part.labels, 0.1),
            }
            inside = sets[np.arange(len(part)), part.labels]
            of_sets["marginal_coverage"] = inside.mean()
            of_sets["worst_tenth_coverage"] = ts.metrics.worst_tenth_coverage(sets, part.labels)
            of_sets["left_out_share"] = ((part.logits.argmax(axis=1) == part.labels) & ~inside).mean()
            values.append(list(of_sets.values()))
        for metric, mean in zip(of_sets, np.array(values).T, strict=True):
            assert cells["exact", kind, metric].value == pytest.approx(ts.sweeping.median_of_means(mean), abs=1e-12)


def test_temperatures_are_kept_by_score_and_rule(data):
    found = study_logits(data, "mine", replace(SETTINGS, cp_percents=(10,))).comparison
    of_rules = {name: rule.temperatures for rule in found.rules for name in rule.names}
    assert ("auto", "choose even") in of_rules
    for name, temperatures in of_rules.items():
        np.testing.assert_array_equal(found.temperatures[name], temperatures)
    assert len(found.temperatures["raps", "choose even"]) == SETTINGS.trials, "its own search, in every trial"
    shown = {name for name in found.by_rule(10) if name[1] not in ("mondrian", "clustered", "t_hat")}
    assert shown | {("raps", "t_hat, CP 10%")} == found.temperatures.keys()


def test_the_share_of_infinite_mondrian_thresholds_is_counted(data):
    found = study_logits(data, "mine", SETTINGS).comparison
    for cp in (10, 20):
        infinite = []
        for t in range(SETTINGS.trials):
            rows = data.labels[draw_trial(len(data), t, SETTINGS.protocol(cp)).conformal]
            infinite.extend((rows == c).sum() < 9 for c in range(8))  # alpha 0.1 needs 9
        assert found.infinite[cp] == np.mean(infinite)


def test_sizes_that_the_papers_comparison_does_not_have_leave_it_out(data):
    found = study_logits(data, "mine", replace(SETTINGS, cp_percents=(5,)))
    assert not found.comparison.cells
    assert {cell.cp_percent for cell in found.cells} == {None, 5}


@pytest.mark.filterwarnings("ignore::thermoset.CoverageWarning")
def test_class_coverage_under_thresholds_by_class_is_averaged_over_u(data):
    cells = {(c.mode, c.at, c.metric): c for c in class_cells(data, None, SETTINGS, 20)}
    start, end = (scores("raps", data.logits, u=u)[np.arange(len(data)), data.labels] for u in (0.0, 1.0))
    worst = []
    for t in range(SETTINGS.trials):
        drawn = draw_trial(len(data), t, SETTINGS.protocol(20))
        model = ts.ConformalClassifier("raps", 0.1, grouping="class")
        model.fit(data.take(drawn.conformal), u=drawn.u[drawn.conformal])
        q = model.threshold_[data.labels]
        share = np.where(np.isinf(q), 1.0, np.clip((q - start) / (end - start), 0, 1))[drawn.evaluation]
        of_class = data.labels[drawn.evaluation]
        worst.append(min(share[of_class == c].mean() for c in range(8)))  # of 8 classes, a tenth is one
    got = cells["exact", "mondrian", "integrated_worst_tenth_coverage"].value
    assert got == pytest.approx(ts.sweeping.median_of_means(np.array(worst)), abs=1e-9)


def test_k_reg_is_an_order_statistic_of_ranks_with_exact_k():
    # n = 149, alpha = 0.18: (149 + 1) 0.82 = 123 exactly, where floats say 124
    assert rank_quantile(np.arange(1, 150), 0.18) == 123
    # n = 9, alpha = 0.1: k = 9, the largest; n = 8: k = 9 is more than there are, the largest again
    assert rank_quantile(np.array([1, 1, 7, 1, 1, 1, 1, 1, 1]), 0.1) == 7
    assert rank_quantile(np.array([1, 1, 7, 1, 1, 1, 1, 1]), 0.1) == 7
    # n = 19: k = 18, the last but one
    assert rank_quantile(np.array([1] * 16 + [2, 3, 9]), 0.1) == 3


def _plain_mean_size(logits, labels, penalty, k_reg, alpha):
    """RAPS in plain NumPy with u integrated out: threshold by bisection, then the mean size."""
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    order = np.argsort(-probs, axis=1)
    ranked = np.take_along_axis(probs, order, axis=1)
    start = np.cumsum(ranked, axis=1) - ranked + penalty * np.maximum(np.arange(1, probs.shape[1] + 1) - k_reg, 0)
    mine = order == labels[:, None]

    def shares(q):
        return np.clip((q - start) / ranked, 0, 1)

    low, high = -1.0, 10.0
    for _ in range(100):
        q = (low + high) / 2
        low, high = (q, high) if shares(q)[mine].sum() < (1 - alpha) * (len(labels) + 1) else (low, q)
    return shares(high).sum(axis=1).mean()


def test_raps_is_tuned_as_its_authors_do(data):
    picked = set()
    for seed in range(6):
        some = data.take(np.random.default_rng(seed).permutation(len(data))[:150])
        part = ts.Logits(some.logits / (1 + seed), some.labels)
        chosen = tuned_raps(CalibrationRows(part, 0.1, 1.0, 0))
        (score,) = chosen.scores
        ranks = 1 + (part.logits > part.logits[np.arange(150), part.labels][:, None]).sum(axis=1)
        assert score.k_reg == np.sort(ranks)[135]  # k = ceil(151 0.9) = 136
        sizes = [_plain_mean_size(part.logits, part.labels, p, score.k_reg, 0.1) for p in PENALTIES]
        assert sizes[PENALTIES.index(score.penalty)] == pytest.approx(min(sizes), abs=1e-9)
        assert (chosen.temperature, chosen.levels) == (1.0, (0.1,))
        picked.add(score.penalty)
    assert len(picked) > 1


def test_the_cells_of_a_rule_are_those_of_its_ways(data):
    found = measure(data, SETTINGS, None, lambda: None)
    tuned, *joint = chosen_rules(data, found, SETTINGS, 2)
    assert [rule.names for rule in joint] == [(("auto", f"choose {one}"),) for one in ("small", "even", "protect")]
    assert all(len(rule.ways) == 2 for rule in joint)
    strict = stricter("T*", ("lac",), found.trial_ece, 0.1)
    assert [level * 100 for level in strict.ways[0].levels] == [8, 6, 4]
    both = at_temperatures("mine", ("aps", "raps"), np.array([1.0, 0.5, 2.0, 1.0]), 0.1)
    for rule in (tuned, strict, stricter("T = 1", ("aps", "raps"), np.ones(SETTINGS.trials), 0.1), both):
        levels = len(rule.ways[0].levels)
        part = measure_ways(data, rule.ways, (0.1,) * levels, SETTINGS.protocol(20))  # against what is promised
        cells = iter(rule_cells(data, None, SETTINGS, 20, rule))
        for i, (method, name) in enumerate(rule.names):
            for metric in COMPARED:
                cell = next(cells)
                assert (cell.method, cell.at, cell.metric, cell.alpha) == (method, name, metric, 0.1)
                values = part.of(metric)[divmod(i, levels)]
                assert cell.value == ts.sweeping.median_of_means(values)
        assert not list(cells)
