"""A predictor on rows that keep their largest logits: fitted, saved, asked and checked."""

import pytest

import thermoset as ts
from law import generated

LOGITS, LABELS = generated(1600, 40, signal=1.0)
ROWS = ts.Logits(LOGITS / 3, LABELS)
CUT = ts.compact(ROWS, 14)
SOME, FRESH = slice(0, 1200), slice(1200, None)


@pytest.fixture(scope="module")
def fitted():
    return ts.TwoTemperaturePredictor("raps", alpha=0.1).fit(CUT.take(SOME))


def undecided_share(predictor):
    return {one.name: one.value for one in predictor.document_.measures}.get("undecided_share")


def test_temperatures_are_near_those_of_whole_rows(fitted):
    whole = ts.TwoTemperaturePredictor("raps", alpha=0.1).fit(ROWS.take(SOME))
    assert fitted.temperature_ == pytest.approx(whole.temperature_, rel=0.05)
    assert undecided_share(whole) is None
    assert 0 <= undecided_share(fitted) < 0.2


def test_answers_hold_those_for_whole_rows(fitted):
    whole, cut = fitted.predict_arrays(ROWS.take(FRESH)), fitted.predict_arrays(CUT.take(FRESH))
    assert (whole.labels == cut.labels).all()
    assert cut.confidence == pytest.approx(whole.confidence, abs=0.01)
    assert not (whole.sets & ~cut.sets).any()
    assert (fitted.predict(CUT.take(FRESH)) == cut.labels).all()
    assert (fitted.predict_set(CUT.take(FRESH)) == cut.sets).all()
    assert (fitted.set_sizes(CUT.take(FRESH)) == cut.sets.sum(axis=1)).all()
    undecided = fitted._inference.undecided(CUT.take(FRESH))
    assert (cut.sets == whole.sets)[~undecided].all()
    assert not fitted._inference.undecided(ROWS.take(FRESH)).any()
    records = fitted.predict_records(CUT.take(FRESH))
    assert [len(one.set) for one in records] == cut.sets.sum(axis=1).tolist()


def test_a_check_says_how_often_bounds_could_not_decide(fitted):
    report = fitted.check(CUT.take(FRESH))
    assert report.ok
    assert report.undecided == fitted._inference.undecided(CUT.take(FRESH)).sum()
    assert report.to_json_dict()["undecided_rows"] == report.undecided
    assert fitted.check(ROWS.take(FRESH)).undecided is None
    assert not report.promise.exact


def test_recalibration_counts_again(fitted, tmp_path):
    fitted.save(tmp_path / "predictor.json")
    renewed = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json").recalibrate(CUT.take(FRESH))
    assert undecided_share(renewed) == renewed._inference.undecided(CUT.take(FRESH)).mean()
    assert undecided_share(renewed.recalibrate(ROWS.take(FRESH))) is None


def test_sets_by_class():
    rows = ts.Logits(*generated(1600, 8, seed=4))
    cut = ts.compact(rows, 6)
    model = ts.TwoTemperaturePredictor("lac", alpha=0.2, grouping="class", prefer="small").fit(cut.take(SOME))
    assert not (model.predict_set(rows.take(FRESH)) & ~model.predict_set(cut.take(FRESH))).any()
