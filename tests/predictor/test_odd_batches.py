"""Batches without rows, answers by name, classes without rows, and levels above a half."""

import warnings

import numpy as np
import pytest

import thermoset as ts
from law import generated
from parts import require
from thermoset.conformal.calibration_scores import mostly_missed

NAMES = ("ant", "bee", "cow")
ROWS = ts.Logits(*generated(1200, 3, signal=1.0), NAMES)
FIT, FRESH = ROWS.take(slice(0, 600)), ROWS.take(slice(600, 1200))
NONE = np.empty((0, 3), dtype=np.float32)
GROUPS = np.where(np.arange(600) % 2, "north", "south")
BY_NAME = {
    "plain": {},
    "whole sets": {"method": "aps", "randomized": False, "allow_empty": False},
    "by class": {"prefer": "small", "grouping": "class"},
    "by group": {"prefer": "small", "grouping": "group"},
    "pas": {"method": "pas", "prefer": "small"},
}


@pytest.fixture(scope="module")
def predictors():
    made = {
        name: ts.TwoTemperaturePredictor(**options).fit(FIT, groups=GROUPS if name == "by group" else None)
        for name, options in BY_NAME.items()
    }
    made["shifted"] = made["plain"].shifted(priors=[0.5, 0.3, 0.2])
    made["weighted"] = ts.TwoTemperaturePredictor().fit(FIT, weights=1.0 + FIT.labels)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BY_NAME, "shifted", "weighted"])
@pytest.mark.parametrize("none", [NONE, NONE.astype(np.float16), ts.Logits(NONE), []], ids=["32", "16", "Logits", "[]"])
def test_no_rows_have_no_answers(predictors, name, none):
    predictor = predictors[name]
    beside = {"by group": {"groups": []}, "weighted": {"weights": []}}.get(name, {})
    assert predictor.predict(none).shape == (0,)
    assert predictor.predict_proba(none).shape == (0, 3)
    assert predictor.predict_set(none, **beside).shape == (0, 3)
    assert predictor.set_sizes(none, **beside).shape == (0,)
    assert predictor.predict_records(none, **beside) == []
    assert [part.shape for part in predictor.predict_arrays(none, **beside)[:3]] == [(0,), (0,), (0, 3)]
    if name != "shifted":  # which has no p-values
        assert predictor.predict_p(none, **beside).shape == (0, 3)
        assert ts.conformal.p_summary(predictor.predict_p(none, **beside)).label.shape == (0,)


def test_no_rows_have_no_answers_elsewhere(predictors):
    model = ts.ConformalClassifier("aps").fit(FIT)
    assert model.predict_set(NONE, ids=[]).shape == model.predict_p(NONE).shape == (0, 3)
    assert model.predict_sets(NONE, [0.1, 0.2]).shape == (2, 0, 3)
    assert (model.set_sizes(NONE).shape, model.predict_set_labels(NONE)) == ((0,), [])
    assert ts.TemperatureScaler().fit(FIT).predict_proba(NONE).shape == (0, 3)
    with pytest.raises(ts.InputError, match="X has 2 features"):
        predictors["plain"].predict(np.empty((0, 2)))
    monitor = ts.Monitor(predictors["plain"])
    monitor.add(FRESH)
    before = monitor.state
    for labels in (None, []):
        assert monitor.add(NONE, labels).rows == 600
    assert monitor.state == before, "a batch without rows changes nothing"


@pytest.mark.parametrize("name", BY_NAME)
def test_exported_predictors_answer_no_rows(predictors, name):
    torch = require("torch", "torch")
    runtime = require("onnxruntime", "onnx")
    codes = {"groups": np.empty(0, dtype=np.int64)} if name == "by group" else {}
    module = ts.integrations.torch.to_torch(predictors[name])
    assert module(torch.empty(0, 3), **{key: torch.from_numpy(one) for key, one in codes.items()}).sets.shape == (0, 3)
    session = runtime.InferenceSession(ts.integrations.onnx.to_onnx(predictors[name]).SerializeToString())
    inputs = {one.name: NONE if one.name == "logits" else np.empty(0, dtype=np.int64) for one in session.get_inputs()}
    assert [found.shape for found in session.run(None, inputs)] == [(0,), (0,), (0, 3), (0, 3), (0,)]


def test_what_needs_rows_says_so(predictors):
    empty = ts.Logits(NONE, [])
    plain = predictors["plain"]
    for job in (
        lambda: ts.TwoTemperaturePredictor().fit(empty),
        lambda: ts.TwoTemperaturePredictor().fit_split(FIT, empty),
        lambda: ts.ConformalClassifier().fit(NONE, []),
        lambda: ts.TemperatureScaler().fit(NONE, []),
        lambda: plain.check(NONE, []),
        lambda: plain.recalibrate(NONE, []),
        lambda: ts.sweep(empty),
        lambda: ts.tuning.choose(empty, calibrated=1.0),
    ):
        with pytest.raises(
            ts.InputError, match=r"needs rows, but these logits have none: 0 sample\(s\) \(shape=\(0, 3\)"
        ):
            job()
    with pytest.raises(ts.InputError, match="cannot be estimated from 0 rows"):
        plain.shifted(NONE)


# --- names --------------------------------------------------------------------------------------------------------


def test_answers_by_name_are_the_answers(predictors):
    predictor, model = predictors["plain"], ts.ConformalClassifier().fit(FIT)
    records = predictor.predict_records(FRESH.logits)  # bare rows: the predictor knows the names
    assert [one.label for one in records] == [NAMES[label] for label in predictor.predict(FRESH)]
    by_model = [some.tolist() for some in model.predict_set_labels(FRESH.logits)]
    for one, found in ((predictor, [list(one.set) for one in records]), (model, by_model)):
        assert found == [[NAMES[y] for y in np.flatnonzero(row)] for row in one.predict_set(FRESH)]


def test_without_names_answers_are_column_numbers():
    bare = ts.TwoTemperaturePredictor().fit(FIT.logits, FIT.labels)
    records, sets = bare.predict_records(FRESH.logits), bare.predict_set(FRESH.logits)
    assert [one.label for one in records] == bare.predict(FRESH.logits).tolist()
    assert [list(one.set) for one in records] == [np.flatnonzero(row).tolist() for row in sets]


def test_labels_beside_bare_rows_may_be_names_that_the_predictor_knows(predictors):
    named = [NAMES[label] for label in FRESH.labels]
    by_name = predictors["plain"].check(FRESH.logits, named)
    assert by_name.to_json_dict() == predictors["plain"].check(FRESH.logits, FRESH.labels).to_json_dict()
    with pytest.raises(ts.InputError, match=r"labels\[0\] is 'dog', which is not one of the 3 classes"):
        predictors["plain"].check(FRESH.logits, ["dog"] * 600)


def test_classes_called_by_whole_numbers_go_round(tmp_path):
    names, labels = np.array([10, 20, 30]), np.array([10, 20, 30])[FIT.labels]
    predictor = ts.TwoTemperaturePredictor().fit(ts.Logits(FIT.logits, labels, names))
    predictor.save(tmp_path / "predictor.json")
    loaded = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    assert loaded.document_.classes == ("10", "20", "30"), "as text"
    top = FRESH.logits.argmax(axis=1)
    assert [one.label for one in loaded.predict_records(FRESH.logits)] == [str(names[label]) for label in top]
    report = loaded.check(FRESH.logits, names[FRESH.labels]).to_json_dict()
    assert report == loaded.check(FRESH.logits, [str(name) for name in names[FRESH.labels]]).to_json_dict()
    ambiguous = ts.TwoTemperaturePredictor().fit(ts.Logits(FIT.logits, FIT.labels + 1, [1, 2, 3]))
    with pytest.raises(ts.InputError, match=r"labels\[0\] is 1: the class called '1', or column 1"):
        ambiguous.check(FRESH.logits, np.ones(600, dtype=int))


# --- levels above a half -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::thermoset.errors.BudgetWarning")
@pytest.mark.parametrize("alpha", ["0.55", "0.9", "0.99"])
@pytest.mark.parametrize("prefer", ["even", "small", "protect", "size<=2", "gap<=0.3"])
@pytest.mark.parametrize("method", ["raps", "auto"])
def test_every_choice_works_above_a_half(method, prefer, alpha):
    rows = ROWS.take(slice(0, 300))
    predictor = ts.TwoTemperaturePredictor(method, alpha, prefer).fit(rows)
    n, promised = sum(predictor.document_.pool_rows), 1 - float(alpha)
    hits = predictor.predict_set(FRESH)[np.arange(600), FRESH.labels].mean()
    spread = np.sqrt(float(alpha) * promised * (1 / 600 + 1 / n))
    assert abs(hits - promised) < 5 * spread + 1 / n
    assert predictor.check(FRESH).rows == 600


def test_a_level_above_a_half_is_told_once():
    with pytest.warns(ts.CoverageWarning, match=r"alpha=0\.9 promises .* 10% of the time\. For 90% use alpha=0\.1"):
        ts.ConformalClassifier("lac", 0.9).fit(FIT)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ts.TwoTemperaturePredictor("lac", 0.9).fit(FIT)
    assert [str(one.message) for one in told] == [mostly_missed(0.9)]
    assert mostly_missed("0.5") is None


# --- classes without rows ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_class_without_rows_is_named_by_what_rests_on_classes():
    some = FIT.take(FIT.labels != 2)
    for options in ({"prefer": "even"}, {"method": "raps", "prefer": "even"}):
        with pytest.warns(ts.CoverageWarning, match="no calibration row belongs to class cow"):
            ts.TwoTemperaturePredictor(**options).fit(some)
    with (
        pytest.warns(ts.CoverageWarning, match="no calibration row belongs to class cow"),
        pytest.warns(ts.errors.BudgetWarning),
    ):
        ts.TwoTemperaturePredictor(prefer="gap<=0.5").fit(some)
    for grouping in ("class", "rc3p", "interpolated"):
        with pytest.warns(ts.CoverageWarning, match=r"1 of 3 classes: 'cow' \(0 rows\)"):
            model = ts.ConformalClassifier(grouping=grouping).fit(some)
        assert grouping == "interpolated" or model.predict_set(FRESH)[:, 2].all(), "which costs sets, not coverage"
    with pytest.warns(ts.CoverageWarning, match=r"1 of 3 classes have none of the .* rows that estimate the prior"):
        ts.ConformalClassifier("pas").fit(some)


def test_shares_of_a_class_without_rows_are_not_believed():
    predictor = ts.TwoTemperaturePredictor(prefer="small").fit(FIT.take(FIT.labels != 2))
    with pytest.warns(ts.CoverageWarning, match="to classes without conformal rows, so nothing supports it: 'cow'"):
        predictor.estimate_priors(FRESH, bootstrap=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sure = np.repeat(1000 * np.eye(3)[:2], 50, axis=0)  # none of them can be a cow
        assert predictor.estimate_priors(sure, bootstrap=0).target == pytest.approx([0.5, 0.5, 0.0], abs=0.03)
