"""What the paper says happens: told apart from what does not."""

from dataclasses import replace

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.paper.study import RuleComparison, Settings, SizeDifferences
from thermoset.paper.study.cells import Cell
from thermoset.paper.study.claims import (
    Change,
    FileNumber,
    check_claims,
    compare_files,
    file_numbers,
)
from thermoset.paper.study.measure import measure

pytestmark = pytest.mark.slow

SETTINGS = Settings(trials=12, alphas=(0.1, 0.2), cp_percents=(10,), temperatures="0.3:9.3:0.5")  # sizes peak at 4
FEW = "With few rows per class (under 20), T-hat beats Mondrian thresholds on size and TopCovGap"


@pytest.fixture(scope="module")
def measured():
    """The same rows from a network that is too sure of itself, and from one that is not sure enough."""
    logits, labels = generated(3600, 20, signal=0.5)  # 18 conformal rows a class
    return {scale: measure(ts.Logits(scale * logits, labels), SETTINGS, None, lambda: None) for scale in (1.0, 0.5)}


def claims_of(found, cells=(), differences=()):
    return check_claims(found, RuleComparison(cells, {}, found.curves[10]), differences, ONE_ROW, SETTINGS)


ONE_ROW = ts.theory.quantile_samples([[k, 0.0, 0.0] for k in range(1, 20)], [0] * 19, [0.5, 1.0, 2.0])


def told(claims, alpha=0.1):
    return {claim.text: claim.holds for claim in claims if claim.alpha in (alpha, None)}


def changed(found, metric, method, values):
    """The same, with other values of a metric of a method at alpha = 0.1, in the curves."""
    curves = found.curves[10]
    all_values = curves.trial_values.copy()
    all_values[curves.methods.index(method), :, 0, curves.metrics.index(metric)] = values
    return replace(found, curves={10: replace(curves, trial_values=all_values)})


def test_an_overconfident_network_does_what_the_paper_says(measured):
    claims = told(claims_of(measured[1.0]))
    for method in ("APS", "RAPS"):
        assert claims[f"Where T* > 1, TS enlarges the sets of {method}"] is True
        assert claims[f"The threshold of {method} falls as T rises"] is True
        assert claims[f"AvgSize of {method} rises to a peak at T_c and then falls"] is True
        assert claims[f"Where T* > 1, TS lowers the TopCovGap of {method}"] is None, "classes drawn alike: chance alone"
    assert claims["TS moves the sets of LAC little (less than 0.5 times as much as those of APS)"] is True


def test_every_level_is_looked_at(measured):
    claims = claims_of(measured[1.0])
    places = {(None, None), (None, 10), (0.1, None), (0.1, 10), (0.2, 10)}
    assert {(claim.alpha, claim.cp_percent) for claim in claims} == places
    in_one_setting = {text for text in told(claims) if "in one trial" in text or "One row" in text}
    assert told(claims).keys() - in_one_setting == told(claims, 0.2).keys()


def test_where_t_star_is_below_1_sets_shrink_and_class_gaps_are_not_spoken_of(measured):
    claims = told(claims_of(measured[0.5]))
    assert claims["Where T* < 1, TS shrinks the sets of APS"] is True
    assert claims["Where T* < 1, TS shrinks the sets of RAPS"] is True
    assert not any("TS lowers the TopCovGap" in text or "few sets" in text for text in claims)


def test_a_claim_that_does_not_hold_is_said_not_to(measured):
    found = measured[1.0]
    turned = told(claims_of(replace(found, before=found.after, after=found.before)))
    assert turned["Where T* > 1, TS enlarges the sets of APS"] is False
    rising = found.curves[10].of_trials("threshold", "aps", 0.1)[::-1]
    upside_down = told(claims_of(changed(found, "threshold", "aps", rising)))
    assert upside_down["The threshold of APS falls as T rises"] is False
    assert upside_down["The threshold of RAPS falls as T rises"] is True


def test_what_does_not_move_is_open(measured):
    found = measured[1.0]
    still = told(claims_of(replace(found, after=found.before)))
    assert still["Where T* > 1, TS enlarges the sets of APS"] is None


def test_a_size_that_falls_before_it_rises_is_a_counterexample_and_names_it(measured):
    found = measured[1.0]
    sizes = found.curves[10].of_trials("avg_size", "aps", 0.1).copy()
    text = "AvgSize of APS rises to a peak at T_c and then falls"
    sizes[0] = sizes[1] + 0.5  # in every trial
    (claim,) = [c for c in claims_of(changed(found, "avg_size", "aps", sizes)) if (c.text, c.alpha) == (text, 0.1)]
    assert claim.holds is False
    mean = sizes.mean(axis=1)
    assert f"but it falls from {mean[0]:.2f} at T = 0.3 to {mean[1]:.2f} at T = 0.8" in claim.found
    only_up = np.cumsum(np.abs(sizes), axis=0)
    assert told(claims_of(changed(found, "avg_size", "aps", only_up)))[text] is False


def test_a_class_gap_falls_and_then_rises_or_does_not(measured):
    found, text = measured[1.0], "TopCovGap of RAPS falls to a minimum and then rises"
    t = found.curves[10].temperatures[:, None]
    valley = 0.1 + 0.01 * (t - 2) ** 2 + 1e-4 * np.random.default_rng(0).normal(size=(len(t), SETTINGS.trials))
    assert told(claims_of(changed(found, "top_coverage_gap", "raps", valley)))[text] is True
    assert told(claims_of(changed(found, "top_coverage_gap", "raps", -valley)))[text] is False


def test_gaps_that_mirror_each_other(measured):
    found, text = measured[1.0], "AvgCovGap of APS mirrors its TopCovGap (correlation over T above 0.9)"
    top = found.curves[10].of_trials("top_coverage_gap", "aps", 0.1)
    assert told(claims_of(changed(found, "avg_coverage_gap", "aps", 0.3 * top)))[text] is True
    assert told(claims_of(changed(found, "avg_coverage_gap", "aps", 1 - top)))[text] is False


@pytest.mark.parametrize(("ratio", "holds"), [(1.0, True), (0.95, True), (0.8, False), (1.2, False)])
def test_temperatures_by_nll_and_ece(measured, ratio, holds):
    found = measured[1.0]
    noise = 1 + 1e-3 * np.random.default_rng(0).normal(size=SETTINGS.trials)
    claim = claims_of(replace(found, trial_nll=ratio * noise * found.trial_ece))[0]
    assert claim.text == "T* by NLL is close to T* by ECE (within 10%)"
    assert claim.holds is holds


def test_lac_is_smaller_but_less_even(measured):
    found, text = measured[1.0], "LAC has smaller sets than APS and a larger TopCovGap"

    def with_lac(size, gap):
        parts = []
        for part in (found.before[10], found.after[10]):
            values = part.values.copy()
            for name, factor in (("avg_size", size), ("top_coverage_gap", gap)):
                m = part.metrics.index(name)
                values[0, :, m] = factor * values[1, :, m]
            parts.append(replace(part, values=values))
        return told(claims_of(replace(found, before={10: parts[0]}, after={10: parts[1]})))[text]

    assert with_lac(0.8, 1.2) is True
    assert with_lac(0.8, 0.8) is False
    assert with_lac(1.2, 1.2) is False
    assert with_lac(1.0, 1.2) is None


@pytest.mark.parametrize(
    ("grow", "shrink", "holds"), [(0.3, 0.05, True), (0.3, 0.2, False), (0.02, 0.05, False), (0.3, 0.1, None)]
)
def test_few_sets_shrink(measured, grow, shrink, holds):
    wobble = 0.01 * np.array([-1, 1] * 6)
    shares = np.array([grow + wobble, 1 - grow - shrink - 2 * wobble, shrink + wobble])
    claims = told(
        claims_of(measured[1.0], differences=[SizeDifferences("aps", np.zeros(5), shares, *shares.mean(axis=1))])
    )
    assert claims["From T = 1 to T*, few sets of APS shrink (under 10%, and fewer than grow)"] is holds


def against_mondrian(size, gap):
    """Cells of T-hat, and of Mondrian sets of 4 labels and a gap of 0.2."""
    values = {("t_hat", "avg_size"): size, ("t_hat", "top_coverage_gap"): gap,
              ("mondrian", "avg_size"): 4.0, ("mondrian", "top_coverage_gap"): 0.2}  # fmt: skip
    return tuple(Cell("exact", metric, "raps", at, 0.1, 10, v, 0.01, 12) for (at, metric), v in values.items())


@pytest.mark.parametrize(
    ("size", "gap", "holds"), [(3.0, 0.1, True), (5.0, 0.1, False), (3.0, 0.3, False), (3.0, 0.19, None)]
)
def test_t_hat_must_beat_mondrian_on_both_metrics_beyond_error(measured, size, gap, holds):
    found, cells = measured[1.0], against_mondrian(size, gap)
    last = claims_of(found, cells)[-1]
    assert (last.text, last.source, last.holds) == (FEW, "Appendix D", holds)
    assert last.found == f"AvgSize {size:.2f} and 4.00, TopCovGap {gap:.3f} and 0.200; 18 rows per class"
    ten_times = replace(found.before[10], counts=10 * found.before[10].counts)
    assert last.source not in {claim.source for claim in claims_of(replace(found, before={10: ten_times}), cells)}
    infinite = RuleComparison(cells, {}, found.curves[10], infinite={10: 0.3})
    assert check_claims(found, infinite, (), ONE_ROW, SETTINGS)[-1].holds is None, "infinite for lack of rows"


def test_numbers_of_a_file_are_those_of_the_trials(measured):
    found = measured[1.0]
    curves, numbers = found.curves[10], list(file_numbers("mine", 20, found, SETTINGS))
    assert [(one.method, one.what) for one in numbers] == [
        (method, what) for method in ("aps", "raps") for what in ("peak", "avg_size", "top_coverage_gap")
    ]
    for one in numbers:
        m = ("lac", "aps", "raps").index(one.method)
        if one.what == "peak":
            values = curves.temperatures[curves.of_trials("avg_size", one.method, 0.1).argmax(axis=0)]
        else:
            before, after = (part[10].of(one.what)[m, 0] for part in (found.before, found.after))
            values = np.log(after / before) if one.what == "avg_size" else before - after
        assert one.value == pytest.approx((values.mean(), values.std(ddof=1) / np.sqrt(12)))
        assert one.temperature.gain == pytest.approx(found.trial_ece.mean())


@pytest.mark.parametrize(
    ("peaks", "holds"),
    [
        ([(10, 4.0), (100, 2.0), (1000, 1.5)], True),
        ([(10, 4.0), (100, 2.0), (1000, 2.5)], False),
        ([(10, 2.0), (100, 2.01)], None),
        ([(100, 2.0), (100, 3.0), (10, 4.0)], True),  # as many classes: nothing is said of those two
    ],
)
def test_the_peak_falls_with_the_number_of_classes(peaks, holds):
    star = Change(1.5, 0.01)
    made = [FileNumber(f"file {i}", n, "aps", "peak", star, Change(t, 0.05)) for i, (n, t) in enumerate(peaks)]
    (claim,) = compare_files(made, SETTINGS)
    assert claim.holds is holds
    assert ("file 2 is above file 1" in claim.found) == (holds is False)


def test_one_file_says_nothing_of_the_number_of_classes():
    one = FileNumber("a", 10, "aps", "peak", Change(1.5, 0.01), Change(2.0, 0.1))
    assert compare_files([one, replace(one, method="raps")], SETTINGS) == ()


def test_t_star_above_1_is_a_claim_about_every_file(measured):
    text = "T* is above 1: the network is overconfident"
    assert told(claims_of(measured[1.0]))[text] is True
    assert told(claims_of(measured[0.5]))[text] is False


@pytest.mark.parametrize(("lost", "holds"), [(0.0, True), (0.05, False)])
def test_marginal_coverage_is_kept_or_lost(measured, lost, holds):
    found = measured[1.0]
    part = found.after[10]
    values, m = part.values.copy(), part.metrics.index("marginal_coverage")
    values[:, :, m] = 0.9 + 1e-3 * np.random.default_rng(0).normal(size=values[:, :, m].shape)
    kept = replace(part, values=values)
    less = values.copy()
    less[1, :, m] -= lost
    claims = told(claims_of(replace(found, before={10: kept}, after={10: replace(part, values=less)})))
    assert claims["Marginal coverage is kept (within 0.01 of 1 - alpha), with and without TS"] is holds


def test_lac_has_a_pattern_where_its_curve_is_a_valley(measured):
    found, text = measured[1.0], "AvgSize of LAC has no pattern over T (neither rise and fall, nor fall and rise)"
    t = found.curves[10].temperatures[:, None]
    noise = 1e-4 * np.random.default_rng(0).normal(size=(len(t), SETTINGS.trials))
    valley, waves = 2 + 0.01 * (t - 4) ** 2 + noise, 2 + np.cos(3 * t) + noise
    assert told(claims_of(changed(found, "avg_size", "lac", valley)))[text] is False
    assert told(claims_of(changed(found, "avg_size", "lac", -valley)))[text] is False
    assert told(claims_of(changed(found, "avg_size", "lac", waves)))[text] is True


def test_a_stricter_level_has_larger_sets_and_smaller_gaps(measured):
    found, text = measured[1.0], "At alpha 0.1, sets are larger than at 0.2 and TopCovGap is smaller"
    turned = {10: replace(found.before[10], values=found.before[10].values[:, ::-1])}
    assert told(claims_of(found), None)[text] is not False
    assert told(claims_of(replace(found, before=turned)), None)[text] is False


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (1.05, True), (1.3, False)])
def test_a_small_conformal_set_suffices_if_sizes_are_the_same(measured, factor, holds):
    found = measured[1.0]
    both = replace(SETTINGS, cp_percents=(5, 10))
    values = found.before[10].values.copy()
    values[:, :, found.before[10].metrics.index("avg_size")] *= factor
    few = {5: replace(found.before[10], values=values), 10: found.before[10]}
    twice = {5: found.curves[10], 10: found.curves[10]}
    known = replace(found, before=few, after={5: found.after[10], 10: found.after[10]}, curves=twice)
    claims = check_claims(known, RuleComparison((), {}, found.curves[10]), (), ONE_ROW, both)
    assert told(claims)["A CP set of 5% suffices: sizes are those of 10% (within 10%)"] is holds


def test_one_row_sets_all_thresholds_or_it_does_not(measured):
    text = "One row sets the threshold of APS (u = 1) at T = 1, T*, 0.5 and 2"
    assert told(claims_of(measured[1.0]))[text] is True
    other = replace(ONE_ROW, row=np.array([17, 16, 17]))
    claims = check_claims(measured[1.0], RuleComparison((), {}, measured[1.0].curves[10]), (), other, SETTINGS)
    assert told(claims)[text] is False


def test_a_single_trial_resembles_the_average_or_not(measured):
    found = measured[1.0]
    text = "The curve of AvgSize of APS in one trial resembles the averaged one (correlation above 0.9)"
    assert told(claims_of(found))[text] is True, "sizes of one split follow those of all"
    upside_down = changed(found, "avg_size", "aps", -found.curves[10].of_trials("avg_size", "aps", 0.1)).curves[10]
    claims = check_claims(found, RuleComparison((), {}, upside_down), (), ONE_ROW, SETTINGS)
    assert told(claims)[text] is False


@pytest.mark.parametrize(("changes", "holds"), [((0.1, 0.5), True), ((0.5, 0.1), False), ((0.5, 0.5), None)])
def test_the_effect_grows_with_t_star(changes, holds):
    files = zip(("a", "b"), (1.2, 1.6), changes, strict=True)
    made = [FileNumber(n, 20, "aps", "avg_size", Change(t, 0.01), Change(change, 0.01)) for n, t, change in files]
    (claim,) = compare_files(made, SETTINGS)
    assert (claim.text, claim.holds) == ("The higher T*, the more TS enlarges the sets of APS", holds)
    below = replace(made[0], temperature=Change(0.8, 0.01))
    assert compare_files([below, made[1]], SETTINGS) == (), "the paper speaks of T* above 1"
    near = replace(made[1], temperature=Change(1.21, 0.01))
    assert compare_files([made[0], near], SETTINGS) == (), "T* cannot be told apart"
    assert compare_files([made[0], replace(made[1], n_classes=10)], SETTINGS) == (), "other data"
