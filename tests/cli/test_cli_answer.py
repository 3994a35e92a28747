"""`thermoset answer`, and answers in `tune`, `check` and `predict`."""

import json

import numpy as np
import pytest

import thermoset as ts


@pytest.fixture
def judged(tmp_path):
    """A table of judged rows in four kinds of files, and its columns."""
    rng = np.random.default_rng(0)
    score = rng.random(3000).round(4)
    right = rng.random(3000) < 0.75 + 0.25 * score
    kind = np.where(rng.random(3000) < 0.5, "invoice", "letter, long")
    lines = [f'{i},"{kind[i]}",{score[i]},{"true" if right[i] else "no"}' for i in range(3000)]
    (tmp_path / "judged.csv").write_text("\n".join(["id,doc_type,confidence,correct", *lines]) + "\n")
    (tmp_path / "judged.tsv").write_text(
        "\n".join(["confidence\tcorrect", *(f"{score[i]}\t{int(right[i])}" for i in range(3000))])
    )
    records = ({"confidence": float(score[i]), "correct": bool(right[i])} for i in range(3000))
    (tmp_path / "judged.jsonl").write_text("\n".join(map(json.dumps, records)))
    return score, right, kind


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_rule_is_that_of_the_library(command, judged, suffix, tmp_path):
    given = ["--score", "confidence", "--right", "correct", "--error", "0.1", "--out", tmp_path / "rule.json"]
    done = command("answer", tmp_path / f"judged.{suffix}", *given)
    assert done.returncode == 0, done.stderr
    rule = ts.AnswerRule.load(tmp_path / "rule.json")
    assert rule.claims_ == ts.AnswerRule("error<=0.1", "0.95").fit(*judged[:2]).claims_
    assert f"{rule.claims_[0].share:.1%}" in done.stdout


def test_groups_have_rules_of_their_own(command, judged, tmp_path):
    given = ["--score", "confidence", "--right", "correct", "--error", "0.1", "--out", tmp_path / "rule.json"]
    done = command("answer", tmp_path / "judged.csv", *given, "--groups", "doc_type", "--joint")
    assert done.returncode == 0, done.stderr
    rule = ts.AnswerRule.load(tmp_path / "rule.json")
    assert rule.group_names_ == ("invoice", "letter, long")
    assert rule.claims_ == ts.AnswerRule("error<=0.1", "0.95", joint=True).fit(*judged).claims_


@pytest.mark.parametrize(
    "change", [{"--score": "nothing"}, {"--right": "doc_type"}, {"--error": "2"}, {"--score": "doc_type"}]
)
def test_bad_input_is_refused_and_nothing_written(command, judged, change, tmp_path):
    options = {"--score": "confidence", "--right": "correct", "--error": "0.1", "--out": tmp_path / "rule.json"}
    given = [part for pair in (options | change).items() for part in pair]
    done = command("answer", tmp_path / "judged.csv", *given)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "rule.json").exists()


@pytest.fixture(scope="module")
def tuned(command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    rng = np.random.default_rng(0)
    labels = rng.integers(6, size=5000)
    logits = rng.normal(size=(5000, 6)) + np.where(rng.random((5000, 1)) < 0.6, 6.0, 1.5) * np.eye(6)[labels]
    ts.save(folder / "val.npz", ts.Logits(logits[:4000], labels[:4000]))
    ts.save(folder / "fresh.npz", ts.Logits(logits[4000:], labels[4000:]))
    wrong = np.where(rng.random(1000) < 0.3, (labels[4000:] + 1) % 6, labels[4000:])
    ts.save(folder / "bad.npz", ts.Logits(logits[4000:] + 1e-9, wrong))
    done = command(
        "tune", folder / "val.npz", "--method", "lac", "--prefer", "small", "--answer", "error<=0.05",
        "--review", "size>3", "--out", folder / "out", "--no-report",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_tune_says_who_answers_what(tuned):
    folder, screen = tuned
    predictor = ts.TwoTemperaturePredictor.load(folder / "out" / "predictor.json")
    assert (predictor.answer, predictor.review) == ("error<=0.05", "size>3")
    assert f"{predictor.answer_.share:.1%}" in screen


def test_check_fails_on_wrong_answers_where_asked(command, tuned):
    folder, _ = tuned
    model = folder / "out" / "predictor.json"
    good = command("check", model, folder / "fresh.npz", "--fail-on", "answers", "--json")
    assert good.returncode == 0, good.stdout
    found = json.loads(good.stdout)["answers"]
    assert found["answered"] + json.loads(good.stdout)["rows"] == found["rows"] == 1000
    bad = command("check", model, folder / "bad.npz", "--fail-on", "answers", "--json")
    assert bad.returncode == 1
    assert json.loads(bad.stdout)["answers"]["p_value"] < 0.001
