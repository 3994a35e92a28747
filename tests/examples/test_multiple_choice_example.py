"""The multiple-choice example: its language model by arithmetic, its questions, and the way from samples to sets."""

import math
import sys

import numpy as np
import pytest

import thermoset as ts
from conftest import ROOT

sys.path.append(str(ROOT))  # `python -m` does it where the example is run by hand

from examples.multiple_choice.__main__ import main, sample, write_samples
from examples.multiple_choice.model import Characters
from examples.multiple_choice.questions import MOST_OPTIONS, Question, questions

pytestmark = pytest.mark.long


def test_the_model_by_hand():
    # "ab" has two letters; with the start that is 3 known and one for all others: 1/4 each before any counts.
    # No context: a 1, b 1 of 2, 2 kinds: (1 + 2 / 4) / (2 + 2) = 3/8. After "a": b 1 of 1: (1 + 3/8) / 2 = 11/16.
    model = Characters(order=1).fit(["ab"])
    assert model.log_likelihood("a", "b") == pytest.approx(math.log(11 / 16))
    # A letter never seen: no context (0 + 2 / 4) / 4 = 1/8, after "a" (0 + 1/8) / 2 = 1/16.
    assert model.log_likelihood("a", "z") == pytest.approx(math.log(1 / 16))
    # The chain rule: after "b" nothing was seen, so the shorter context decides.
    assert model.log_likelihood("", "ab") == pytest.approx(
        model.log_likelihood("", "a") + model.log_likelihood("a", "b")
    )


def test_probabilities_sum_to_one():
    model = Characters(order=2).fit(["abc", "abd", "bad"])
    known = {"a", "b", "c", "d", "\n"}
    for context in ("", "a", "ab", "ba", "zz"):
        total = sum(math.exp(model.log_likelihood(context, letter)) for letter in (*known, "?"))
        assert total == pytest.approx(1, abs=1e-12)


def test_questions_differ_in_one_word_of_the_same_length():
    made = questions([f"take the {word} back to your house" for word in ("black", "green", "white", "brown", "small")])
    assert len(made) == 5
    assert len({len(question.options) for question in made}) > 1
    for question in made:
        assert 2 <= len(question.options) <= MOST_OPTIONS
        assert len({len(option) for option in question.options}) == 1
        assert len(set(question.options)) == len(question.options)
        assert f"{question.beginning} {question.options[question.gold]}" in {
            f"take the {word} back to your house"[: len(question.beginning) + 1 + len(question.options[0])]
            for word in ("black", "green", "white", "brown", "small")
        }


def test_samples_are_read_as_they_were_scored(tmp_path):
    model = Characters(order=2).fit(["the cat sat on the mat"])
    asked = [Question("the cat", ("sat on", "tas no", "xyz qq"), 0), Question("on the", ("tam", "mat"), 1)]
    write_samples(tmp_path / "samples_x.jsonl", (sample(model, i, one) for i, one in enumerate(asked)))
    scores = [[model.log_likelihood(one.beginning, f" {option}") for option in one.options] for one in asked]
    assert ts.load(tmp_path / "samples_x.jsonl") == ts.Logits.from_choices(scores, [0, 1])


def test_from_questions_to_sets(tmp_path, capsys):
    predictor = main(["--out", str(tmp_path)])
    assert "<- correct" in capsys.readouterr().out
    fresh = ts.load(tmp_path / "samples_fresh.jsonl", n_options=predictor.document_.n_classes)
    assert fresh.n_masked > 0
    assert not (predictor.predict_set(fresh) & np.isneginf(fresh.logits)).any()
    assert predictor.check(fresh).ok
    chance = np.mean(1 / np.isfinite(fresh.logits).sum(axis=1))
    assert np.mean(fresh.logits.argmax(axis=1) == fresh.labels) > chance + 0.2
