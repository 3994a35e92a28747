"""`thermoset compact` as a user runs it, and the other commands on what it writes."""

import json

import numpy as np
import pytest

import thermoset as ts
from law import generated


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compact")
    logits, labels = generated(1500, 60, signal=1.0)
    rows = ts.Logits((logits / 3).astype(np.float32), labels)
    ts.save(folder / "val.npz", rows.take(slice(0, 1000)))
    ts.save(folder / "fresh.npz", rows.take(slice(1000, None)))
    return folder


def test_compact_tune_predict_check(call, files, tmp_path):
    for name in ("val", "fresh"):
        done = call("compact", files / f"{name}.npz", "--top", 16, "--out", tmp_path / f"{name}.npz")
        assert done.returncode == 0, done.stderr
        assert "the 16 largest of 60 logits, labelled" in done.stdout
        assert "times smaller" in done.stdout
        assert ts.load(tmp_path / f"{name}.npz") == ts.compact(ts.load(files / f"{name}.npz"), 16)
    done = call("tune", tmp_path / "val.npz", "--out", tmp_path / "out", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "have labels that the bounds could not exclude; these were included." in done.words
    assert "coverage at least 0.9" in done.words
    predictor = ts.TwoTemperaturePredictor.load(tmp_path / "out" / "predictor.json")
    fresh = ts.load(tmp_path / "fresh.npz")

    done = call(
        "predict", tmp_path / "out" / "predictor.json", tmp_path / "fresh.npz", "--out", tmp_path / "sets.jsonl"
    )
    assert done.returncode == 0, done.stderr
    undecided = int(predictor.undecided(fresh).sum())
    assert (f"Of 500 rows, {undecided} (" in done.words) == (undecided > 0)
    sizes = [json.loads(line)["size"] for line in (tmp_path / "sets.jsonl").read_text().splitlines()]
    assert sizes == predictor.set_sizes(fresh).tolist()

    done = call("check", tmp_path / "out" / "predictor.json", tmp_path / "fresh.npz")
    assert done.returncode == 0, done.stdout
    assert f"Of 500 rows, {undecided} (" in done.words
    done = call("check", tmp_path / "out" / "predictor.json", tmp_path / "fresh.npz", "--json")
    assert json.loads(done.stdout)["undecided_rows"] == undecided


def test_settings_are_kept(call, files, tmp_path):
    done = call("compact", files / "val.npz", "--temperatures", "1,2", "--out", tmp_path / "cut.npz")
    assert done.returncode == 0, done.stderr
    assert ts.load(tmp_path / "cut.npz").rest_temperatures == (1.0, 2.0)
    assert ts.load(tmp_path / "cut.npz").top == 16


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (["--out", "{out}/cut.csv"], "unknown kind of file '.csv'"),
        (["--out", "{val}"], "is the file to read from"),
        (["--out", "{out}/cut.npz", "--top", 3], "top must be a whole number from 4 to 60"),
        (["--out", "{out}/cut.npz", "--top", 61], "top must be a whole number from 4 to 60"),
        (["--out", "{out}/cut.npz", "--temperatures", "hot"], "--temperatures must be comma-separated numbers"),
        (["--out", "{out}/cut.npz", "--temperatures", "0"], "finite number > 0"),
        (["--out", "{out}/cut.npz", "--labels", "{out}/none.npy"], "none.npy"),
    ],
)
def test_what_cannot_be_done_is_refused(call, files, tmp_path, arguments, because):
    places = {"out": tmp_path, "val": files / "val.npz"}
    call("compact", files / "val.npz", *(str(one).format(**places) for one in arguments)).assert_refused(because)
    assert not list(tmp_path.iterdir())


def test_a_compact_file_is_not_compacted_again(call, files, tmp_path):
    call("compact", files / "val.npz", "--out", tmp_path / "cut.npz")
    call("compact", tmp_path / "cut.npz", "--out", tmp_path / "again.npz").assert_refused("largest logits of each row")
