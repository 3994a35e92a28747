"""Multiple choice: rows of different lengths become masked classes."""

import numpy as np
import pytest

import thermoset as ts
from parts import require
from thermoset.data import Logits
from thermoset.errors import InputError

INF = np.inf


def test_options_that_a_row_lacks_are_masked():
    quiz = Logits.from_choices([[-4.0, -2.0, -3.0], [-1.0], [-1.0, -5.0]], labels=[1, 0, 1])
    assert quiz.logits.tolist() == [[-4, -2, -3], [-1, -INF, -INF], [-1, -5, -INF]]
    assert quiz.classes == ("A", "B", "C")
    assert quiz.labels.tolist() == [1, 0, 1]
    assert quiz.n_masked == 3


def test_what_options_may_come_in():
    expected = Logits.from_choices([[-4.0, -2.0], [-1.0, -3.0]])
    array = np.array([[-4.0, -2.0], [-1.0, -3.0]])
    assert Logits.from_choices(array) == expected
    assert Logits.from_choices(iter(array)) == expected
    assert Logits.from_choices([tuple(array[0]), array[1].astype(np.float32)]) == expected
    torch = require("torch", "torch")
    assert Logits.from_choices([torch.tensor(row) for row in array]) == expected


def test_lengths_divide():
    # -6 / 3 = -2, -4 / 1 = -4, -9 / 2 = -4.5
    made = Logits.from_choices([[-6.0, -4.0], [-9.0]], lengths=[[3, 1], [2]])
    assert made.logits.tolist() == [[-2, -4], [-4.5, -INF]]


def test_more_columns_and_names():
    made = Logits.from_choices([[-1.0, -2.0]], labels=["no"], n_options=3, classes=["yes", "no", "perhaps"])
    assert made.logits.tolist() == [[-1, -2, -INF]]
    assert made.labels.tolist() == [1]
    assert Logits.from_choices(np.zeros((1, 27))).classes is None


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        ([], {}, "loglikelihoods is empty"),
        (3.5, {}, "must hold a list of numbers for each row; got 3.5"),
        ([[-1.0], []], {}, r"loglikelihoods\[1\] is empty; a row needs at least one option"),
        ([[-1.0], [-2.0]], {}, "at least 2 classes"),
        ([-1.0, -2.0], {}, r"loglikelihoods\[0\] is -1.0; expected a list of numbers"),
        ([["-1.0", "-2.0"]], {}, r"loglikelihoods\[0\] is \['-1.0', '-2.0'\]; expected a list of numbers"),
        (["ab"], {}, r"loglikelihoods\[0\] is 'ab'; expected a list of numbers"),
        ([[True, False]], {}, "expected a list of numbers"),
        ([[[-1.0], [-2.0]]], {}, "expected a list of numbers"),
        ([[-1.0, [-2.0]]], {}, "expected a list of numbers"),
        ([[-1.0, float("nan")]], {}, r"logits\[0, 1\] is NaN"),
        ([[-INF, -INF]], {}, "is -inf for every class"),
        ([[-1.0, -2.0], [-1.0]], {"labels": [0, 1]}, r"labels\[1\] is 1, and its row has 1 option\(s\)"),
        ([[-1.0, -2.0]], {"labels": [2]}, r"labels\[0\] is 2; must be in 0..1"),
        ([[-1.0, -2.0, -3.0]], {"n_options": 2}, "row 0 has 3 options and n_options is 2"),
        ([[-1.0, -2.0]], {"n_options": 2.5}, "n_options must be a whole number"),
        ([[-1.0, -2.0]], {"n_options": 10**9}, "n_options must be a whole number from 2 to 10,000,000"),
        ([[-1.0, -2.0]], {"lengths": [[1]]}, "one number for each log-likelihood"),
        ([[-1.0, -2.0]], {"lengths": [[1, 0]]}, r"lengths\[0\] holds 0.0; lengths must be positive"),
        ([[-1.0, -2.0]], {"lengths": [[INF, 1]]}, r"lengths\[0\] holds inf"),
    ],
)
def test_bad_options_are_refused_in_one_line(rows, options, said):
    with pytest.raises(InputError, match=said) as caught:
        Logits.from_choices(rows, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_padding_changes_no_probability_and_no_set_has_a_padded_option():
    """Softmax over the options a row has: a masked class takes nothing and is never in a set."""
    rng = np.random.default_rng(0)
    counts = rng.integers(2, 6, size=3000)
    rows = [rng.normal(size=n) * 2 for n in counts]
    labels = [int((row + rng.gumbel(size=len(row))).argmax()) for row in rows]
    quiz = Logits.from_choices(rows, labels)
    for method in ("lac", "aps", "raps", "saps"):
        predictor = ts.TwoTemperaturePredictor(method, alpha=0.2).fit(quiz)
        probs = predictor.predict_proba(quiz)
        for row in range(0, 3000, 500):
            scaled = np.exp(rows[row] / predictor.temperature_)
            assert probs[row, : counts[row]] == pytest.approx(scaled / scaled.sum(), abs=1e-12)
            assert not probs[row, counts[row] :].any()
        assert not (predictor.predict_set(quiz) & np.isneginf(quiz.logits)).any()
