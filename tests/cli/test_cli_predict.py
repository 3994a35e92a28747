"""`thermoset predict` as a user runs it: what it writes, what it refuses, and what a killed run leaves."""

import csv
import json
import os
import signal
import time

import numpy as np
import pytest
from numpy.lib import format as npy

import thermoset as ts
from commands import started
from law import generated
from parts import require
from thermoset.monitor.drift import size_drift
from thermoset.predictor.document import SCHEMA

pytestmark = pytest.mark.slow


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    read = {"label": str, "confidence": float, "set": json.loads, "size": int}
    return [{name: read[name](cell) for name, cell in row.items()} for row in rows]


def read_jsonl(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_parquet(path):
    return require("pyarrow.parquet", "io").read_table(path).to_pylist()


READ = {".csv": read_csv, ".jsonl": read_jsonl, ".parquet": read_parquet}
FORMATS = [(".npz", ".csv"), (".csv", ".jsonl"), (".parquet", ".parquet"), (".npy", ".csv")]
"""Of logits, and of predictions."""


def answers(predictor, data):
    """What the library says of the rows."""
    return [
        {"label": row.label, "confidence": row.confidence, "set": list(row.set), "size": len(row.set)}
        for row in predictor.predict_records(data)
    ]


@pytest.fixture
def some(tuned, tmp_path):
    """A file of 300 fresh rows, and the rows."""
    rows = ts.load(tuned.fresh).take(slice(0, 300))
    path = tmp_path / "some.npz"
    ts.save(path, rows)
    return path, rows


# --- what is written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "suffix"), FORMATS)
def test_every_format_holds_what_the_library_says(command, tuned, tmp_path, given, suffix):
    if ".parquet" in (given, suffix):
        require("pyarrow", "io")
    fresh = ts.load(tuned.fresh)
    ts.save(tmp_path / f"fresh{given}", fresh)
    out = tmp_path / f"sets{suffix}"
    done = command("predict", tuned.path, tmp_path / f"fresh{given}", "--out", out)
    assert (done.returncode, done.stderr) == (0, ""), "quiet: rows like the conformal ones, and no terminal"
    want = answers(tuned.predictor, fresh)
    assert READ[suffix](out) == want
    assert {row["label"] for row in want} == set(fresh.classes), "class names travel"
    sizes = np.array([row["size"] for row in want])
    assert done.stdout == (
        f"Wrote {out}: 2,000 rows, {sizes.mean():.2f} labels in a set on average, {np.mean(sizes == 0):.1%} empty\n"
    )
    assert not list(tmp_path.glob(".*")), "no hidden file is left"


def test_p_values_are_those_of_the_library(call, tuned, some, tmp_path):
    p = tuned.predictor.predict_p(some[1])
    told = ts.conformal.p_summary(p)
    assert call("predict", tuned.path, some[0], "--out", tmp_path / "sets.jsonl", "--p-values").returncode == 0
    read = read_jsonl(tmp_path / "sets.jsonl")
    np.testing.assert_array_equal([list(row["p"].values()) for row in read], p)
    np.testing.assert_array_equal([row["credibility"] for row in read], told.credibility)
    np.testing.assert_array_equal([row["conformal_confidence"] for row in read], told.confidence)


def test_p_values_need_scores_and_a_changed_level_needs_no_sizes(call, tuned, some, tmp_path):
    out = tmp_path / "sets.csv"
    tuned.predictor.save(tmp_path / "without.json", scores=False)
    done = call("predict", tmp_path / "without.json", some[0], "--out", out, "--p-values")
    assert (done.returncode, out.exists()) == (2, False)
    assert "saved without the label scores of its conformal rows" in done.stderr
    tuned.predictor.at("0.5").save(tmp_path / "other.json")
    done = call("predict", tmp_path / "other.json", some[0], "--out", out)
    assert (done.returncode, done.stderr) == (0, ""), "set sizes are others, which is no drift"


def test_without_names_labels_are_numbers_and_names_are_the_predictors(call, tuned, some, tmp_path):
    data, bare = ts.load(tuned.val), ts.Logits(some[1].logits)
    nameless = ts.TwoTemperaturePredictor(prefer="small").fit(ts.Logits(data.logits, data.labels))
    nameless.save(tmp_path / "nameless.json")
    ts.save(tmp_path / "bare.npz", bare)
    for name, path, want in (
        ("sets", tmp_path / "nameless.json", answers(nameless, bare)),
        ("named", tuned.path, answers(tuned.predictor, some[1])),
    ):
        done = call("predict", path, tmp_path / "bare.npz", "--out", tmp_path / f"{name}.jsonl")
        assert done.returncode == 0, done
        assert read_jsonl(tmp_path / f"{name}.jsonl") == want


# --- drift and the terminal -----------------------------------------------------------------------------------------


def test_drift_is_a_warning_with_its_test_and_p_value(command, tuned, tmp_path):
    fresh = ts.load(tuned.fresh)
    noise = np.random.default_rng(0).normal(scale=10.0, size=fresh.logits.shape)
    ts.save(tmp_path / "noisy.npz", ts.Logits(fresh.logits + noise))
    out = tmp_path / "sets.jsonl"
    done = command("predict", tuned.path, tmp_path / "noisy.npz", "--out", out)
    assert done.returncode == 0, "a warning is no error"
    sizes = np.bincount([row["size"] for row in read_jsonl(out)])
    drift = size_drift(np.array(tuned.predictor.document_.sizes), sizes)
    assert drift.drifted
    assert done.stderr == f"thermoset: warning: {drift.message}\n"
    assert "set sizes differ from those of the 1,000 conformal rows" in done.stderr
    assert "Fisher's exact test" in done.stderr
    assert "p = " in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_bar_is_for_terminals_and_not_for_the_quiet(call, monkeypatch, tuned, some, tmp_path):
    asked = ("predict", tuned.path, some[0], "--out", tmp_path / "sets.csv")
    assert call(*asked).stderr == "", "no terminal"
    monkeypatch.setenv("FORCE_COLOR", "1")  # how one tells rich to take a pipe for a terminal
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "Predicting" in call(*asked).stderr
    assert call(*asked, "--quiet").stderr == ""


# --- what is refused ------------------------------------------------------------------------------------------------


def test_classes_in_another_order_are_put_in_order_and_others_are_refused(call, tuned, tmp_path):
    rows, written = ts.load(tuned.fresh), []
    turned = ts.Logits(rows.logits[:, ::-1], None, rows.classes[::-1])
    for name, data in (("plain", ts.Logits(rows.logits, None, rows.classes)), ("turned", turned)):
        ts.save(tmp_path / f"{name}.npz", data)
        done = call("predict", tuned.path, tmp_path / f"{name}.npz", "--out", tmp_path / f"{name}.csv")
        assert done.returncode == 0, done
        written.append((tmp_path / f"{name}.csv").read_bytes())
    assert written[0] == written[1]
    ts.save(tmp_path / "other.npz", ts.Logits(rows.logits, None, ["wolf", *rows.classes[1:]]))
    done = call("predict", tuned.path, tmp_path / "other.npz", "--out", tmp_path / "sets.csv")
    done.assert_refused("column 0 is 'wolf' where it had 'ant'")
    assert not (tmp_path / "sets.csv").exists()


def damaged(content):
    document = json.loads(content)
    return {
        "truncated": (content[:-100], "is not a JSON document, or is damaged"),
        "a digit": (json.dumps(document | {"temperature": 2.0}).encode(), "its checksum does not match"),
        "foreign": (b'{"format": "some model", "schema": 1}', "is not a predictor saved by thermoset"),
        "newer": (json.dumps(document | {"schema": SCHEMA + 1}).encode(), "was saved by a newer thermoset"),
    }


@pytest.mark.parametrize("kind", damaged(b"{}"))
def test_a_file_that_is_no_good_predictor_is_refused(call, tuned, tmp_path, kind):
    content, message = damaged(tuned.path.read_bytes())[kind]
    bad = tmp_path / "bad.json"
    bad.write_bytes(content)
    done = call("predict", bad, tuned.fresh, "--out", tmp_path / "sets.csv")
    done.assert_refused(message)
    assert str(bad) in done.stderr
    assert list(tmp_path.iterdir()) == [bad]


def test_files_that_are_not_there(call, tuned, tmp_path):
    none, out = tmp_path / "none", tmp_path / "sets.csv"
    call("predict", none, tuned.fresh, "--out", out).assert_refused(f"{none}: there is no such file")
    call("predict", tmp_path, tuned.fresh, "--out", out).assert_refused(f"{tmp_path}: is a folder")
    call("predict", tuned.path, none, "--out", out).assert_refused(f"{none}: there is no such file")
    call("predict", tuned.path, tuned.path, "--out", out).assert_refused("record 0: not readable JSON")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(call, tuned, tmp_path):
    asked = ("predict", tuned.path, tuned.fresh, "--out")
    call(*asked, tmp_path / "sets.xlsx").assert_refused("unknown kind of file '.xlsx'")
    call(*asked, tmp_path / "none" / "sets.csv").assert_refused("does not exist; create it first")
    (tmp_path / "folder.csv").mkdir()
    call(*asked, tmp_path / "folder.csv").assert_refused("is a folder; pass the name of a file")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]
    assert call("predict", tuned.path, tuned.fresh).returncode == 2, "--out must be given"


def test_a_bad_row_at_the_end_leaves_what_was_there_before(call, monkeypatch, tuned, some, tmp_path):
    logits = some[1].logits.copy()
    logits[299, 1] = np.nan
    some[0].unlink()
    np.savez(tmp_path / "bad.npz", logits=logits)
    monkeypatch.setattr("thermoset.predictor.many_files.BLOCK_BYTES", 8 * 6 * 100)
    out = tmp_path / "sets.csv"
    asked = ("predict", tuned.path, tmp_path / "bad.npz", "--out", out)
    call(*asked).assert_refused("logits[299, 1] is NaN")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.npz"]
    out.write_text("older")
    call(*asked).assert_refused("logits[299, 1] is NaN")
    assert out.read_text() == "older"
    assert len(list(tmp_path.iterdir())) == 2


# --- runs that are killed -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """A file of zeros that takes no room on disk and half a minute to predict."""
    path, shape = tmp_path_factory.mktemp("endless") / "zeros.npy", (5_000_000, 6)
    with path.open("wb") as stream:
        npy.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
        stream.truncate(stream.tell() + 8 * shape[0] * shape[1])
    yield path
    path.unlink()


def wait_for_rows(working, folder):
    """Until a hidden file in the folder has content: predictions are being written."""
    end = time.monotonic() + 60
    while not any(path.stat().st_size for path in folder.glob(".*.tmp")):
        assert working.poll() is None, working.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


KILLS = {  # format, an older file under the name or none, and what the process says about its end
    "SIGKILL": (".jsonl", None, -9),
    "SIGTERM": (".csv", b"older", 143),
    "SIGINT": (".parquet", b"older", 130),
}


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("name", KILLS)
def test_a_killed_run_leaves_nothing_under_the_final_name(tuned, endless, tmp_path, name):
    suffix, older, code = KILLS[name]
    if suffix == ".parquet":
        require("pyarrow", "io")
    out = tmp_path / f"sets{suffix}"
    if older:
        out.write_bytes(older)
    working = started("predict", tuned.path, endless, "--out", out)
    try:
        wait_for_rows(working, tmp_path)
        working.send_signal(getattr(signal, name))
        said, err = working.communicate(timeout=20)
    finally:
        working.kill()
    assert (working.returncode, said) == (code, "")
    assert "Traceback" not in err
    assert "\x1b" not in err, "no bar where there is no terminal"
    assert (out.read_bytes() if out.exists() else None) == older
    if name != "SIGKILL":  # which it cannot tidy up after
        assert err.splitlines()[-1:] == ["thermoset: interrupted" if name == "SIGINT" else "thermoset: terminated"]
        assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("which", ["fresh", "path"])
def test_the_files_it_reads_are_not_replaced(call, tuned, which):
    given = getattr(tuned, which)
    before = given.read_bytes()
    call("predict", tuned.path, tuned.fresh, "--out", given).assert_refused("is the file to read from")
    assert given.read_bytes() == before


# --- files without rows ---------------------------------------------------------------------------------------------


def test_a_file_without_rows_gives_predictions_without_rows(call, tuned, tmp_path):
    np.savez(tmp_path / "none.npz", logits=np.empty((0, 6)), classes=tuned.predictor.document_.classes)
    out = tmp_path / "sets.jsonl"
    done = call("predict", tuned.path, tmp_path / "none.npz", "--out", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"Wrote {out}: no rows, as in the logits\n", "")
    assert read_jsonl(out) == []


@pytest.mark.parametrize("job", ["check", "adapt", "monitor", "tune"])
def test_what_needs_rows_refuses_a_file_without(call, tuned, tmp_path, job):
    path = tmp_path / "none.npz"
    np.savez(path, logits=np.empty((0, 6)), labels=np.empty(0, dtype=int))
    made = [] if job == "check" else ["--state" if job == "monitor" else "--out", tmp_path / "made.json"]
    call(job, *([] if job == "tune" else [tuned.path]), path, *made).assert_refused("none.npz: the file has no rows")
    assert list(tmp_path.iterdir()) == [path]


# --- rows that hold only their largest logits -------------------------------------------------------------------------


def test_tune_predict_and_check_rows_of_largest_logits(call, tmp_path):
    logits, labels = generated(1500, 60, signal=1.0)
    rows = ts.Logits((logits / 3).astype(np.float32), labels)
    fresh = ts.compact(rows.take(slice(1000, None)), 16)
    ts.save(tmp_path / "val.npz", ts.compact(rows.take(slice(0, 1000)), 16))
    ts.save(tmp_path / "fresh.npz", fresh)
    done = call("tune", tmp_path / "val.npz", "--out", tmp_path / "out", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "have labels that the bounds could not exclude; these were included." in done.words
    assert "coverage at least 0.9" in done.words
    predictor = ts.TwoTemperaturePredictor.load(tmp_path / "out" / "predictor.json")

    done = call(
        "predict", tmp_path / "out" / "predictor.json", tmp_path / "fresh.npz", "--out", tmp_path / "sets.jsonl"
    )
    assert done.returncode == 0, done.stderr
    undecided = int(predictor._inference.undecided(fresh).sum())
    assert (f"Of 500 rows, {undecided} (" in done.words) == (undecided > 0)
    sizes = [json.loads(line)["size"] for line in (tmp_path / "sets.jsonl").read_text().splitlines()]
    assert sizes == predictor.set_sizes(fresh).tolist()

    done = call("check", tmp_path / "out" / "predictor.json", tmp_path / "fresh.npz")
    assert done.returncode == 0, done.stdout
    assert f"Of 500 rows, {undecided} (" in done.words
    done = call("check", tmp_path / "out" / "predictor.json", tmp_path / "fresh.npz", "--json")
    assert json.loads(done.stdout)["undecided_rows"] == undecided
