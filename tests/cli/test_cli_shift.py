"""`thermoset adapt` for other class shares: estimated or given, what is printed, what is refused."""

import json

import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.predictor.document import checksum_of

pytestmark = pytest.mark.slow

NAMES = ("ant", "bee, small", 'the "cat"')
SHARES = {"ant": 0.6, "bee, small": 0.3, 'the "cat"': 0.1}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A predictor, target rows with other shares (without and with labels), and the shares in files."""
    folder = tmp_path_factory.mktemp("shift")
    logits, labels = generated(3000, 3, signal=0.0)
    logits = (logits / 4).astype(np.float32)
    val = ts.Logits(logits[:1200], labels[:1200], classes=NAMES)
    ts.TwoTemperaturePredictor("aps", prefer="small").fit(val).save(folder / "predictor.json")
    rng, own = np.random.default_rng(0), labels[1200:]
    kept = 1200 + np.flatnonzero(rng.random(1800) < np.array([1.0, 0.5, 1 / 6])[own])
    ts.save(folder / "target.npz", ts.Logits(logits[kept], classes=NAMES))
    ts.save(folder / "labelled.npz", ts.Logits(logits[kept], labels[kept], classes=NAMES))
    (folder / "shares.json").write_text(json.dumps(SHARES))
    (folder / "shares.csv").write_text('class,share\nant,0.6\n"bee, small",0.3\n"the ""cat""",0.1\n', encoding="utf-8")
    return folder


def test_estimated_from_the_target(call, files, tmp_path):
    out = tmp_path / "shifted.json"
    done = call(
        "adapt", "--shift", files / "predictor.json", files / "target.npz", "--out", out, "--bootstrap", 20, "--quiet"
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    found = ts.TwoTemperaturePredictor.load(out)
    shift = found.document_.shift
    target = ts.load(files / "target.npz")
    assert f"class shares that were estimated from {len(target):,} rows" in done.words
    assert f"600 rows are worth {shift.effective_rows:,.0f} equally weighted rows" in done.words
    before = ts.TwoTemperaturePredictor.load(files / "predictor.json")
    sizes = [one.set_sizes(target).mean() for one in (before, found)]
    assert f"on average: {sizes[0]:.2f} before, {sizes[1]:.2f} after" in done.words
    assert "probability at least 0.9 on average" in done.words
    assert f"accuracy by {-found.document_.shares.accuracy_loss:+.3f} at worst" in done.words
    assert f"{shift.target[0]:.4f} {shift.ends[0][0]:.4f} to {shift.ends[1][0]:.4f}" in done.words
    assert np.abs(np.array(shift.target) - [0.6, 0.3, 0.1]).max() < 0.1
    again = before.shifted(priors=before.estimate_priors(target, bootstrap=20))
    assert checksum_of(again.document_) == found.document_.checksum
    assert not list(tmp_path.glob(".*"))


def test_labels_of_the_target_are_not_used(call, files, tmp_path):
    out, other = tmp_path / "a.json", tmp_path / "b.json"
    call("adapt", "--shift", files / "predictor.json", files / "target.npz", "--out", out, "--bootstrap", 0)
    done = call("adapt", "--shift", files / "predictor.json", files / "labelled.npz", "--out", other, "--bootstrap", 0)
    assert done.returncode == 0
    assert "the labels of the target rows were not used: class shares come from the logits alone." in done.stderr
    assert out.read_bytes() == other.read_bytes()
    assert "95%" not in done.stdout


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_given_shares(call, files, tmp_path, kind):
    out = tmp_path / "shifted.json"
    done = call("adapt", files / "predictor.json", "--priors", files / f"shares.{kind}", "--out", out)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert "class shares that were given" in done.words
    assert "Labels in a set" not in done.words
    shift = ts.TwoTemperaturePredictor.load(out).document_.shift
    assert shift.target == (0.6, 0.3, 0.1)
    assert not shift.estimated


def test_given_shares_with_rows_to_look_at(call, files, tmp_path):
    asked = ("adapt", files / "predictor.json", files / "target.npz", "--priors", files / "shares.csv")
    done = call(*asked, "--out", tmp_path / "s.json")
    assert done.returncode == 0
    assert "class shares that were given" in done.words
    assert "Labels in a set on the target rows" in done.words


def test_as_json(call, files, tmp_path):
    out = tmp_path / "s.json"
    done = call(
        "adapt", "--shift", files / "predictor.json", files / "target.npz", "--out", out, "--json", "--bootstrap", 10
    )
    said, shift = json.loads(done.stdout), ts.TwoTemperaturePredictor.load(out).document_.shift
    assert said["classes"] == list(NAMES)
    assert said["target"] == list(shift.target)
    assert said["error"] == list(shift.error)
    assert said["low"] == shift.ends[0].tolist()
    assert said["effective_rows"] == shift.effective_rows
    assert said["estimated"] is True
    assert said["mean_size_after"] > 0


def test_shards_within_a_budget_of_memory_give_the_same_file(call, files, tmp_path):
    rows, folder = ts.load(files / "target.npz"), tmp_path / "shards"
    folder.mkdir()
    for part, place in enumerate(np.split(np.arange(len(rows)), [100, 101, 700])):
        ts.save(folder / f"part-{part}.npz", rows.take(place))
    whole, parts = tmp_path / "whole.json", tmp_path / "parts.json"
    asked = ("adapt", "--shift", files / "predictor.json", "--bootstrap", 5)
    assert call(*asked, files / "target.npz", "--out", whole).returncode == 0
    assert call(*asked, folder, "--out", parts, "--memory", "2MiB").returncode == 0
    assert whole.read_bytes() == parts.read_bytes()


def test_the_seed_draws_the_resamples(call, files, tmp_path):
    def error(seed):
        out = tmp_path / f"{seed}.json"
        asked = ("--out", out, "--bootstrap", 10, "--seed", seed)
        assert call("adapt", "--shift", files / "predictor.json", files / "target.npz", *asked).returncode == 0
        return ts.TwoTemperaturePredictor.load(out).document_.shift.error

    assert error(1) == error(1)
    assert error(1) != error(2)


def test_other_commands_take_it(call, files, tmp_path):
    out = tmp_path / "shifted.json"
    call("adapt", files / "predictor.json", "--priors", files / "shares.json", "--out", out)
    done = call("check", out, files / "labelled.npz")
    assert done.returncode == 0, done
    assert call("predict", out, files / "target.npz", "--out", tmp_path / "sets.csv").returncode == 0
    call("report", out, files / "labelled.npz", "--out", tmp_path / "r.html").assert_refused(
        "a report needs a predictor for"
    )


@pytest.mark.parametrize(
    ("content", "because"),
    [
        ('{"ant": 0.6, "bee, small": 0.3, "dog": 0.1}', "an unknown class: 'dog'"),
        ('{"ant": 1}', "missing"),
        ("[0.6, 0.3, 0.2]", "priors must add up to 1; got 1.1"),
        ("7", "must be an object of shares by class"),
        ("{", "is not a JSON document"),
    ],
)
def test_bad_shares_are_refused(call, files, tmp_path, content, because):
    path = tmp_path / "shares.json"
    path.write_text(content)
    done = call("adapt", files / "predictor.json", "--priors", path, "--out", tmp_path / "s.json")
    done.assert_refused(because)
    assert not (tmp_path / "s.json").exists()


@pytest.mark.parametrize(
    ("content", "because"),
    [
        ("ant,0.6,1\n", "line 1 must be a class and its share; got 3 cells"),
        ("class,share\nant,many\n", "line 2: the share must be a number; got 'many'"),
        ("ant,0.6\nant,0.4\n", "line 2: class 'ant' appears twice"),
    ],
)
def test_bad_tables_of_shares_are_refused(call, files, tmp_path, content, because):
    path = tmp_path / "shares.csv"
    path.write_text(content)
    call("adapt", files / "predictor.json", "--priors", path, "--out", tmp_path / "s.json").assert_refused(because)


def test_what_is_refused(call, files, tmp_path):
    model, target, out = files / "predictor.json", files / "target.npz", tmp_path / "s.json"
    call("adapt", "--shift", model, "--out", out).assert_refused("needs new rows")
    few, wide = tmp_path / "few.npz", tmp_path / "wide.npz"
    ts.save(few, ts.load(target).take(slice(0, 10)))
    ts.save(wide, ts.Logits(np.zeros((60, 4))))
    call("adapt", "--shift", model, few, "--out", out).assert_refused("cannot be estimated from 10 rows")
    call("adapt", "--shift", model, wide, "--out", out).assert_refused("4 features")
    call("adapt", model, target, "--out", target).assert_refused("is the file to read from")
    call("adapt", "--shift", model, target, "--priors", files / "shares.csv", "--out", out).assert_refused(
        "one of them"
    )
    call("adapt", "--shift", model, target, "--weights", "w", "--out", out).assert_refused("--weights")
    call("adapt", "--shift", model, target, "--out", out, "--bootstrap", -1).assert_refused("bootstrap must be")
    bare = tmp_path / "bare.json"
    ts.TwoTemperaturePredictor.load(model).save(bare, scores=False)
    call("adapt", "--shift", bare, target, "--out", out).assert_refused("tune --scores")
    assert not out.exists()
