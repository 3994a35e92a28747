"""Predictors whose sets were chosen for groups of rows: what they are given, what they keep, and what people read."""

import io
import json

import msgspec
import numpy as np
import pytest

import thermoset as ts
from choices import with_choice
from sites import sites
from thermoset.cli.output import Screen
from thermoset.cli.tune import show_predictor
from thermoset.errors import InputError


@pytest.fixture(scope="module")
def rows():
    return sites(1600, seed=0)


@pytest.fixture(scope="module")
def fitted(rows):
    return ts.TwoTemperaturePredictor("aps", prefer="even", even="group").fit(rows)


def test_the_choice_is_that_of_the_calibration_rows(rows, fitted):
    calibration, conformal = rows.split(0.5, random_state=0)
    choice = ts.tuning.choose(
        calibration, ts.Recipe("aps"), prefer="even", even="group", calibrated=fitted.temperature_, n_conformal=800
    )
    assert fitted.choice_.setting == choice.setting
    assert fitted.choice_.curve == choice.curve
    model = ts.ConformalClassifier("aps", 0.1, choice.temperature).fit(conformal)
    np.testing.assert_array_equal(fitted.predict_set(rows), model.predict_set(rows))


def test_groups_may_stand_beside_the_rows_and_new_rows_need_none(rows, fitted):
    beside = ts.TwoTemperaturePredictor("aps", prefer="even", even="group").fit(
        rows.logits, rows.labels, groups=np.asarray(rows.groups)
    )
    assert beside.choice_ == fitted.choice_
    np.testing.assert_array_equal(beside.predict_set(rows.logits), fitted.predict_set(rows))


def test_the_file_keeps_what_was_evened_out(fitted, tmp_path):
    fitted.save(tmp_path / "p.json")
    told = json.loads((tmp_path / "p.json").read_text())
    assert told["choice"]["even"] == told["provenance"]["even"] == "group"
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert read.even == "group"
    assert read.choice_ == fitted.choice_
    assert {measure.name for measure in read.document_.measures} >= {"group_gap", "top_group_coverage_gap"}
    assert not {measure.name for measure in read.document_.measures} & {"class_gap", "top_coverage_gap"}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"even": "sites"}, "even must be 'class' or 'group'; got 'sites'"),
        ({"even": "group", "prefer": "classes>=0.8"}, "about classes, but even='group'"),
        ({"even": "class", "prefer": "groups>=0.8"}, "about groups, but even='class'"),
        ({"even": "group", "grouping": "cluster"}, "one threshold for all classes and a compiled score"),
    ],
)
def test_what_cannot_be_had_is_said(rows, parameters, said):
    with pytest.raises(InputError, match=said):
        ts.TwoTemperaturePredictor(**parameters).fit(rows)


def test_rows_without_groups_are_refused_before_the_work(rows, monkeypatch):
    monkeypatch.setattr("thermoset.predictor.fit.calibrate", None)
    with pytest.raises(InputError, match="these rows have no groups"):
        ts.TwoTemperaturePredictor(even="group").fit(rows.logits, rows.labels)


def shown(predictor):
    screen = io.StringIO()
    show_predictor(Screen(file=screen, width=160), predictor, "rows")
    return screen.getvalue()


def test_the_screen_speaks_of_groups(fitted):
    text = shown(fitted)
    assert "prefer even for groups" in text
    assert "group gap" in text
    assert "TopCovGap over groups" in text
    of_classes = with_choice(fitted, msgspec.structs.replace(fitted.choice_, even="class"))
    assert "group" not in shown(of_classes).replace("grouping", "")
    # The data has classes, and other settings may have thresholds by class; nothing else is about classes.
    lines = [line for line in text.splitlines() if "class" in line and "to correct" not in line]
    assert all(line.startswith("Data ") or "Mondrian" in line or "clustered" in line for line in lines), lines
