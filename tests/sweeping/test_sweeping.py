"""What `sweep` takes, refuses and warns about."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.errors import CoverageWarning, InputError

LOGITS, LABELS = generated(200, 5)


def run(**changed):
    asked = {"temperatures": [1.0], "methods": ["aps"], "trials": 2, **changed}
    return ts.sweep(LOGITS, LABELS, **asked)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"temperatures": [2.0, 1.0]}, "temperatures must increase"),
        ({"methods": ["apps"]}, "method must be"),
        ({"methods": []}, "methods must name"),
        ({"methods": ["aps", "lac", ts.APS()]}, "'aps' appears twice"),
        ({"methods": [ts.RAPS(k_reg=1), ts.RAPS(k_reg=1)]}, r"'raps\(k_reg=1\)' appears twice"),
        *(({"alphas": alphas}, "alphas must name") for alphas in ([], [0.1, "0.10"])),
        *(({"alphas": [alpha]}, "alpha must be") for alpha in (0.0, "x", "1e-99999999")),
        *(({"trials": trials}, "trials must be") for trials in (0, -1, 1.5, 10**9, 10**400, True)),
        *(({"n_jobs": n_jobs}, "n_jobs must be") for n_jobs in (0, -1, 2.0)),
        ({"evaluation": "both"}, "evaluation must be"),
        ({"grouping": "classes"}, "grouping must be"),
        ({"grouping": "class", "evaluation": "integrated"}, "one threshold for all classes"),
        ({"randomized": False, "evaluation": "integrated"}, "has no u"),
        ({"calibration_fraction": 0.6, "cp_fraction": 0.4}, "leaves none"),
        *(({name: 0.001}, "has no row") for name in ("cp_fraction", "calibration_fraction")),
        *(({"cp_fraction": part}, "between 0 and 1") for part in (0.0, -0.1, "1e-99999999")),
        ({"calibration_fraction": 1.5}, "between 0 and 1"),
        *(({"random_state": seed}, "random_state must be") for seed in (None, -1)),
    ],
)
def test_bad_input_is_refused_in_one_line(changed, named):
    with pytest.raises(InputError, match=named) as caught:
        run(**changed)
    assert "\n" not in str(caught.value)


def test_labels_are_needed():
    with pytest.raises(InputError, match="sweep needs labels"):
        ts.sweep(LOGITS)
    with pytest.raises(InputError, match="sweep needs labels"):
        ts.sweep(ts.Logits(LOGITS))


def test_logits_objects_lists_and_arrays_are_the_same():
    arrays, record, lists = (
        ts.sweep(*data, temperatures=[1.0], trials=2).trial_values
        for data in ((LOGITS, LABELS), (ts.Logits(LOGITS, LABELS),), (LOGITS.tolist(), LABELS.tolist()))
    )
    assert arrays.tobytes() == record.tobytes() == lists.tobytes()


def test_one_name_and_one_level_need_no_list():
    result = ts.sweep(LOGITS, LABELS, [1.0], "aps", 0.2, trials=2)
    assert (result.methods, result.alphas) == (("aps",), (0.2,))
    assert ts.sweep(LOGITS, LABELS, [1.0], ts.SAPS(), "0.2", trials=2).methods == ("saps",)


def test_levels_are_read_as_typed():
    want = run(alphas=[0.1]).trial_values
    for alpha in ("0.1", Decimal("0.1"), Fraction(1, 10)):
        result = run(alphas=[alpha])
        assert result.trial_values.tobytes() == want.tobytes()
        assert result.alphas == (0.1,)
    third = run(alphas=[Fraction(1, 3)])
    assert np.isfinite(third.trial_values).all()


def test_defaults_are_the_papers_protocol_from_its_appendix_on():
    result = ts.sweep(LOGITS, LABELS, trials=2)
    assert result.methods == ("lac", "aps", "raps")
    assert result.alphas == (0.1,)
    assert result.temperatures.tolist() == [k / 10 for k in range(3, 51)]  # section 3.1 begins at 0.5
    wanted = {"calibration_fraction": 0.1, "cp_fraction": 0.1, "random_state": 0, "evaluation": "drawn"}
    assert wanted.items() <= result.settings.items()


def test_classes_without_evaluation_rows_are_left_out():
    # Class 4 has no row at all, class 3 a single one: evaluated in some trials only.
    labels = LABELS % 3
    labels[17] = 3
    with pytest.warns(CoverageWarning, match="2 of 5 classes have no evaluation rows in some trial"):
        result = ts.sweep(LOGITS, labels, [1.0], ["aps"], trials=30)
    evaluated = [17 in ts.sweeping.draw_trial(200, t, ts.sweeping.Protocol()).evaluation for t in range(30)]
    assert result.absent_classes.tolist() == [1 if seen else 2 for seen in evaluated]
    assert set(result.absent_classes) == {1, 2}, "the case does not test what it says"
    for t in range(3):
        trial = ts.sweeping.draw_trial(200, t, ts.sweeping.Protocol())
        model = ts.ConformalClassifier("aps").fit(
            LOGITS[trial.conformal], labels[trial.conformal], u=trial.u[trial.conformal]
        )
        sets = model.predict_set(LOGITS[trial.evaluation], u=trial.u[trial.evaluation])
        for metric in ("avg_coverage_gap", "top_coverage_gap"):
            want = ts.metrics.METRICS[metric](sets, labels[trial.evaluation], 0.1)
            assert result.of_trials(metric, "aps")[0, t] == pytest.approx(want, abs=1e-14)


def test_integrated_gaps_leave_absent_classes_out_as_well():
    with pytest.warns(CoverageWarning, match="2 of 5 classes"):
        result = ts.sweep(LOGITS, LABELS % 3, [1.0], ["aps"], trials=3, evaluation="integrated")
    assert np.isfinite(result.trial_values).all()


def test_no_warning_without_cause():
    assert run(trials=3).absent_classes.tolist() == [0, 0, 0]


def test_too_few_conformal_rows_warn_at_the_callers_line():
    with pytest.warns(CoverageWarning, match=r"alpha=0\.01 needs at least 99 conformal rows; got 20") as caught:
        run(alphas=[0.1, 0.01])
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_one_row_in_each_part_is_enough():
    with pytest.warns(CoverageWarning):
        result = ts.sweep(LOGITS[:3], LABELS[:3], [1.0], ["aps"], trials=2, calibration_fraction=0.34, cp_fraction=0.34)
    assert result.curve("avg_size", "aps").tolist() == [5.0]
