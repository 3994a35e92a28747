"""The record behind the page: right rows, right numbers, nothing made up."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import NotFittedError

import thermoset as ts
from law import generated
from pages import rows_of
from thermoset.errors import InputError
from thermoset.metrics import size_stratified_coverage, size_stratified_coverage_violation
from thermoset.monitor.check import check_rows
from thermoset.report import build_report
from thermoset.report.build import label_pairs, pick_examples, set_facts

pytestmark = pytest.mark.slow

TRIALS = 4


@pytest.fixture(scope="module")
def parts():
    return ts.Logits(*generated(2400, 6, seed=3)).split(1600)


@pytest.fixture(scope="module")
def predictor(parts):
    return ts.TwoTemperaturePredictor("raps", alpha=0.1, prefer="even", random_state=5).fit(parts[0])


@pytest.fixture(scope="module")
def fresh(predictor, parts):
    return build_report(predictor, parts[1], trials=TRIALS)


@pytest.fixture(scope="module")
def known(predictor, parts):
    return build_report(predictor, parts[0], trials=TRIALS)


def test_fresh_rows_all_judge_and_are_halved_for_the_comparison(fresh):
    assert (fresh.origin, fresh.rows, fresh.reference_rows, fresh.compared_rows) == ("fresh", 800, 400, 400)


def test_rows_it_was_made_from_are_recognised_and_the_conformal_ones_never_judge(known, predictor, parts):
    calibration, _ = parts[0].split(0.5, random_state=5)
    assert (known.origin, known.rows, known.reference_rows) == ("calibration", 800, 800)
    kept = check_rows(predictor._inference, calibration, calibration.labels)
    assert known.check.to_json_dict() == kept.to_json_dict()
    with pytest.raises(InputError, match="800 chose the temperatures"):  # fresh rows alone show more than the page can
        predictor.check(calibration)


def test_thresholds_of_the_comparison_are_the_predictors_own_where_it_was_made_from_these_rows(known, predictor, parts):
    calibration, conformal = parts[0].split(0.5, random_state=5)
    at_one = ts.ConformalClassifier(alpha=0.1, temperature=1.0, random_state=5).fit(conformal).set_sizes(calibration)
    hat = predictor.set_sizes(calibration)
    to_hat = known.movements[1]
    assert (to_hat.grown, to_hat.same, to_hat.shrunk) == (
        np.sum(hat > at_one),
        np.sum(hat == at_one),
        np.sum(hat < at_one),
    )
    assert all(move.grown + move.same + move.shrunk == known.compared_rows for move in known.movements)


def test_nothing_moves_where_t_hat_is_1():
    """Where no temperature gives smaller sets than T = 1, the sets at T = 1 are the predictor's own."""
    known, fresh = rows_of(2400, 6, seed=2).split(1600)
    made = ts.TwoTemperaturePredictor(grouping="class", prefer="small", allow_empty=False).fit(known)
    assert made.temperature_sets_ == 1
    report = build_report(made, fresh, trials=2)
    assert report.movements[1].same == report.compared_rows
    assert np.array_equal(report.examples.named["T = 1"], report.examples.named["T-hat"])


def test_the_rows_that_set_the_threshold_are_refused(predictor, parts):
    _, conformal = parts[0].split(0.5, random_state=5)
    with pytest.raises(InputError, match="rows that set the threshold"):
        build_report(predictor, conformal)
    shuffled = parts[0].take(np.random.default_rng(0).permutation(1600)[:1000])
    with pytest.raises(
        InputError, match=r"^1,000 of 1,000 rows were used .* rows that set the threshold shows nothing"
    ):
        build_report(predictor, shuffled)


def test_rows_of_a_grouped_split_are_recognised_with_their_groups(parts):
    groups = np.arange(1600) // 40
    made = ts.TwoTemperaturePredictor().fit(parts[0], split_by=groups)
    assert build_report(made, parts[0], split_by=groups, trials=TRIALS).origin == "calibration"


def test_an_unfitted_predictor_and_rows_without_labels_are_refused(predictor, parts):
    with pytest.raises(NotFittedError):
        build_report(ts.TwoTemperaturePredictor(), parts[1])
    with pytest.raises(InputError, match="labels"):
        build_report(predictor, parts[1].logits)


def test_other_classes_and_too_few_rows_are_refused_before_the_work(predictor, parts):
    fresh, told = parts[1], []
    wider = np.hstack([fresh.logits, fresh.logits[:, :1]])
    with pytest.raises(InputError, match=rf"X has {wider.shape[1]} features"):
        build_report(predictor, wider, fresh.labels, progress=lambda *step: told.append(step))
    with pytest.raises(InputError, match="at least 10 labelled rows; got 9"):
        build_report(predictor, fresh.take(np.arange(9)), progress=lambda *step: told.append(step))
    assert told == []


def test_the_curves_are_the_sweeps(fresh, predictor, parts):
    again = ts.sweep(
        parts[1],
        temperatures=fresh.curves.temperatures,
        methods=["raps", "lac", "aps"],
        alphas=fresh.curves.alphas,
        trials=TRIALS,
        calibration_fraction=0,
        cp_fraction=0.5,
        random_state=5,
    )
    assert np.array_equal(again.trial_values, fresh.curves.trial_values)
    assert {1.0, predictor.temperature_, predictor.temperature_sets_} <= set(fresh.curves.temperatures.tolist())


def test_examples_have_the_predictors_sets_at_t_hat(fresh, predictor, parts):
    shown = fresh.examples
    data = parts[1].take(shown.rows)
    assert np.array_equal(shown.labels, data.labels)
    assert np.array_equal(shown.named["T-hat"], predictor.predict_set(data))
    hat = fresh.own.temperatures.tolist().index(predictor.temperature_sets_)
    level = fresh.own.alphas.index(0.1)
    assert np.array_equal(shown.swept[hat, level], predictor.predict_set(data))


def test_a_stricter_level_is_the_one_that_the_page_shows():
    known, fresh = rows_of(3000, 10, seed=9).split(2000)
    made = ts.TwoTemperaturePredictor("lac", prefer="classes>=0.85").fit(known)
    level = float(made.document_.recipe.alpha)
    assert level < 0.1, "hard classes cannot be covered so well at the promised level"
    report = build_report(made, fresh, trials=2)
    assert report.alpha == level
    assert level in report.own.alphas
    hat = report.own.temperatures.tolist().index(made.temperature_sets_)
    sets = made.predict_set(fresh.take(report.examples.rows))
    assert np.array_equal(report.examples.swept[hat, report.own.alphas.index(level)], sets)
    assert report.check.marginal.promised == 0.9


def test_sets_of_the_slider_are_nested_in_alpha(fresh):
    at = [a for a, _ in sorted(enumerate(fresh.own.alphas), key=lambda pair: -pair[1])]  # from small sets to large
    hat = fresh.own.temperatures.tolist().index(fresh.document.temperature_sets)
    others = np.delete(fresh.examples.swept, hat, axis=0)  # there one level is the predictor's, with other rows
    for small, large in pairwise(at):
        assert not np.any(others[:, small] & ~others[:, large])


def test_pictures_choose_the_examples(predictor, parts):
    rows = (3, 10, 700)
    made = build_report(predictor, parts[1], images={row: np.eye(4, dtype=bool) for row in rows}, trials=TRIALS)
    assert set(made.examples.rows.tolist()) <= set(rows)
    assert all(image is not None for image in made.examples.images)


def test_grouping_predictors_are_swept_as_they_are_made(parts):
    made = ts.TwoTemperaturePredictor(grouping="class", prefer="small").fit(parts[0])
    report = build_report(made, parts[1], trials=2)
    assert report.own is report.conditional
    assert report.own.settings["grouping"] == "class"


sets_and_labels = st.tuples(st.integers(1, 12), st.integers(2, 6)).flatmap(
    lambda shape: st.tuples(arrays(np.bool_, shape), arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))
)


@given(sets_and_labels)
def test_facts_agree_with_counting_by_hand(drawn):
    sets, labels = drawn
    facts = set_facts(sets, labels)
    assert facts.sizes.sum() == len(sets)
    assert facts.sizes @ np.arange(len(facts.sizes)) == sets.sum()
    for pair in facts.pairs:
        assert pair.count == sum(row[pair.first] and row[pair.second] for row in sets)
    for y in range(sets.shape[1]):
        own = [int(row.sum()) for row, label in zip(sets, labels, strict=True) if label == y]
        assert np.isnan(facts.class_sizes[y]) if not own else facts.class_sizes[y] == pytest.approx(np.mean(own))


@given(sets_and_labels)
def test_strata_hold_every_row_once_and_give_sscv(drawn):
    sets, labels = drawn
    table = size_stratified_coverage(sets, labels)
    assert table.count.sum() == len(sets)
    assert table.hits.sum() == np.sum(sets[np.arange(len(sets)), labels])
    worst = max(abs(c - 0.75) for c in table.coverage if c == c)  # noqa: PLR0124 (NaN)
    assert size_stratified_coverage_violation(sets, labels, 0.25) == pytest.approx(worst)


def test_pairs_are_the_most_frequent_first():
    sets = np.array([[1, 1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 1]], dtype=bool)
    found = [(pair.first, pair.second, pair.count) for pair in label_pairs(sets)]
    assert found == [(0, 1, 3), (0, 3, 2), (1, 3, 2), (2, 3, 1)]


@given(arrays(np.int64, st.integers(1, 40), elements=st.integers(0, 9)), st.integers(1, 12))
def test_examples_reach_from_the_smallest_set_to_the_largest(sizes, count):
    places = pick_examples(sizes, np.arange(len(sizes)), count)
    assert len(set(places.tolist())) == len(places) == min(count, len(sizes))
    assert np.all(np.diff(sizes[places]) >= 0)
    assert sizes[places[0]] == sizes.min()
