"""A predictor with a threshold for each group of rows: fit, file, recalibration, checks, and who refuses it."""

import json

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.conformal.recipe import Recipe
from thermoset.errors import CoverageWarning, FileFormatError, InputError
from thermoset.predictor.document import read_document, write_document
from thermoset.predictor.stored import Thresholds

SITES = ("east", "north", "west")
ALPHA = 0.2


def rows(n_rows, seed=0, names=SITES, hard=4.0):
    logits, labels = generated(n_rows, 5, signal=0.0, seed=seed)
    codes = np.random.default_rng((seed, 1)).integers(0, len(names), n_rows)
    noise = np.random.default_rng((seed, 2)).normal(size=logits.shape)
    return ts.Logits(logits + hard * codes[:, None] * noise, labels, list("vwxyz"), groups=np.array(names)[codes])


DATA, FRESH = rows(900), rows(600, seed=1)


@pytest.fixture(scope="module")
def predictor():
    return ts.TwoTemperaturePredictor("aps", ALPHA, prefer="small", grouping="group", fallback="pooled").fit(DATA)


def test_sets_are_those_of_a_classifier_of_the_conformal_rows(predictor):
    halves = DATA.split(0.5, random_state=0)
    sets = ts.ConformalClassifier("aps", ALPHA, predictor.temperature_sets_, grouping="group").fit(halves[1])
    expected = sets.predict_set(FRESH)
    np.testing.assert_array_equal(predictor.predict_set(FRESH), expected)
    np.testing.assert_array_equal(predictor.predict_set(FRESH.logits, groups=np.asarray(FRESH.groups)), expected)
    np.testing.assert_array_equal(predictor.set_sizes(FRESH), expected.sum(axis=1))
    np.testing.assert_array_equal(predictor.predict_arrays(FRESH).sets, expected)
    names = np.array(list("vwxyz"))
    told = [record.set for record in predictor.predict_records(FRESH)]
    assert told == [tuple(names[row].tolist()) for row in expected]
    assert predictor.group_names_ == SITES
    assert predictor.threshold_.tolist() == sets.threshold_.tolist()
    tops = ts.compact(FRESH, top=4)
    np.testing.assert_array_equal(predictor.predict_set(tops), sets.predict_set(tops))
    np.testing.assert_array_equal(predictor._inference.undecided(tops), sets.undecided(tops))


def test_without_groups_nothing_is_predicted(predictor):
    for call in (predictor.predict_set, predictor.set_sizes, predictor.predict_arrays, predictor.predict_records):
        with pytest.raises(InputError, match="a predictor with grouping='group' needs groups"):
            call(FRESH.logits)
    assert predictor.predict(FRESH.logits).shape == (600,), "labels and probabilities need none"
    assert predictor.predict_proba(FRESH.logits).shape == (600, 5)
    with pytest.raises(InputError, match="needs groups"):
        ts.TwoTemperaturePredictor(grouping="group").fit(DATA.logits, DATA.labels)
    with pytest.raises(InputError, match="needs groups"):
        ts.TwoTemperaturePredictor(grouping="group").fit_split(ts.Logits(DATA.logits, DATA.labels, DATA.classes), DATA)
    with pytest.raises(InputError, match="looks like one id"):
        ts.TwoTemperaturePredictor(grouping="group").fit(DATA.logits, DATA.labels, groups=np.arange(900))
    with pytest.raises(InputError, match="got grouping='group'"):
        ts.TwoTemperaturePredictor("aps", ALPHA, prefer="protect", grouping="group").fit(DATA)


def test_an_unknown_group_needs_a_fallback(tmp_path):
    strict = ts.TwoTemperaturePredictor("lac", ALPHA, prefer="small", grouping="group").fit(DATA)
    strict.save(tmp_path / "p.json")
    for one in (strict, ts.TwoTemperaturePredictor.load(tmp_path / "p.json")):
        with pytest.raises(InputError, match="group 'mars' has no threshold"):
            one.predict_set(FRESH.logits[:1], groups=["mars"])
        with pytest.raises(InputError, match="group 'mars' has no threshold"):
            one.check(FRESH.logits[:1], FRESH.labels[:1], groups=["mars"])


def test_new_rows_renew_the_thresholds_of_their_groups(predictor, tmp_path):
    other = rows(400, seed=3, names=("north", "south"))
    predictor.save(tmp_path / "p.json")
    renewed = ts.TwoTemperaturePredictor.load(tmp_path / "p.json").recalibrate(other)
    assert renewed.group_names_ == ("north", "south")
    assert renewed.temperature_sets_ == predictor.temperature_sets_
    sets = ts.ConformalClassifier("aps", ALPHA, renewed.temperature_sets_, grouping="group").fit(other)
    fresh = rows(100, seed=4, names=("north", "south"))
    np.testing.assert_array_equal(renewed.predict_set(fresh), sets.predict_set(fresh))
    renewed.save(tmp_path / "q.json")
    assert read_document(tmp_path / "q.json").recipe.fallback == "pooled"
    one = renewed.recalibrate(ts.Logits(other.logits, other.labels, other.classes), groups=["only"] * 400)
    one.save(tmp_path / "r.json")
    assert ts.TwoTemperaturePredictor.load(tmp_path / "r.json")._promise.group_names == ("only",)


def test_groups_and_thresholds_that_disagree_are_refused(predictor, tmp_path):
    made, path = predictor.document_, tmp_path / "p.json"
    q = predictor._inference.thresholds
    forged = {
        "group_names": [made.change(group_names=None), made.change(recipe=Recipe("aps", ALPHA, grouping="class"))],
        "pool_rows": [made.change(group_names=("east", "north")), made.change(pool_rows=(450,))],
        "scores": [made.change(pool_rows=(1, 1, 1))],
        "thresholds": [made.change(scores=None, thresholds=Thresholds.of(q[:, :3]))],  # and the fallback's
        "group_of_class": [made.change(group_of_class=(0, 1, 2, 3, 4))],
        "different": [made.change(group_names=("east", "east", "west"))],
    }
    for said, documents in forged.items():
        for document in documents:
            write_document(path, document)
            with pytest.raises(FileFormatError, match=said):
                read_document(path)


@pytest.mark.parametrize("prefer", ["even", "size<=4", "small"])
def test_preferences_that_need_no_closed_form_work(prefer, recwarn):
    chosen = ts.TwoTemperaturePredictor("aps", ALPHA, prefer=prefer, grouping="group").fit(DATA)
    assert chosen.choice_.setting.grouping == "group"
    assert "by group" in chosen.choice_.setting.title
    assert [one for one in recwarn if issubclass(one.category, CoverageWarning)] == []


def test_a_check_holds_every_group_to_its_law(predictor):
    report = predictor.check(FRESH)
    assert report.ok, report.broken
    assert report.group_names == SITES
    assert report.groups.law == "beta-binomial"
    assert report.clusters is None
    assert report.classes.law == "binomial"
    sets = predictor.predict_set(FRESH)
    hit, codes = sets[np.arange(600), FRESH.labels], FRESH.groups.codes
    np.testing.assert_array_equal(report.groups.hits, np.bincount(codes, hit).astype(int))
    assert report.marginal.rows == 600
    wrong = FRESH.labels.copy()
    west = np.asarray(FRESH.groups) == "west"
    wrong[west] = (wrong[west] + 1) % 5
    broken = predictor.check(FRESH.logits, wrong, groups=np.asarray(FRESH.groups))
    assert any("below the promised 0.8 in 1 of 3 groups" in said and "'west'" in said for said in broken.broken)
    plain = json.loads(json.dumps(broken.to_json_dict(), allow_nan=False))
    assert plain["group_names"] == list(SITES)
    assert plain["group_law"] == "beta-binomial"
    assert [one["rows"] for one in plain["groups"]] == FRESH.groups.counts.tolist()


def test_groups_that_fell_back_are_measured_and_not_tested(predictor):
    named = np.where(np.arange(600) < 50, "mars", np.asarray(FRESH.groups))
    report = predictor.check(FRESH.logits, (FRESH.labels + (np.arange(600) < 50)) % 5, groups=named)
    assert report.group_names == (*SITES, "mars")
    assert report.groups.rows[3] == 50
    assert np.isnan(report.groups.p_value[3])
    assert report.marginal.rows == 550
    assert report.ok, "nothing was promised for mars"


@pytest.mark.slow
def test_where_groups_were_promised_nothing_they_are_a_yardstick():
    apart, fresh = rows(900, hard=12.0), rows(1500, seed=1, hard=12.0)
    plain = ts.TwoTemperaturePredictor("lac", ALPHA, prefer="small").fit(apart)
    assert plain.check(fresh.logits, fresh.labels).groups is None
    report = plain.check(fresh)
    assert report.groups.law == "binomial"
    assert report.ok
    asked = plain.check(fresh, fail_on="groups")
    (said,) = asked.broken
    assert "groups, for which it was not promised" in said
    assert "'west'" in said
    with pytest.raises(InputError, match="checking groups needs the group of each row"):
        plain.check(fresh.logits, fresh.labels, fail_on="groups")


def test_a_check_on_arrays_takes_groups_too():
    from thermoset.monitor.check import check
    from thermoset.monitor.promise import Promise

    sets, probs = np.eye(2, dtype=bool)[[0] * 90 + [1] * 10], np.full((100, 2), 0.5)
    promise = Promise(0.1, [99, 999], "group", group_names=("a", "b"))
    report = check(sets, probs, [0] * 100, promise, groups=["a"] * 50 + ["b"] * 50)
    # a: 50 of 50; b: 40 of 50, where Beta-Binomial(50; 900, 100) gives 40 or fewer
    from scipy.stats import betabinom

    assert report.groups.p_value[1] == pytest.approx(betabinom(50, 900, 100).cdf(40), abs=1e-12)
    with pytest.raises(InputError, match="checking groups"):
        check(sets, probs, [0] * 100, promise)
    with pytest.raises(InputError, match="groups must have shape"):
        check(sets, probs, [0] * 100, promise, groups=["a"])
