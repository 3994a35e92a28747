"""`thermoset sweep` as a user runs it."""

import csv
import os
import signal
import subprocess
import time

import numpy as np
import pytest

import thermoset as ts
from commands import COMMAND, started
from law import generated
from parts import require
from thermoset.metrics import swept_metrics
from thermoset.sweeping import DEFAULT_GRID, temperature_grid

pytestmark = pytest.mark.slow

require("matplotlib", "plot")


@pytest.fixture
def run(call):
    return lambda *arguments, **options: call("sweep", *arguments, **options)


@pytest.fixture(scope="module")
def val(tmp_path_factory):
    logits, labels = generated(400, 6, signal=0.2)
    path = tmp_path_factory.mktemp("data") / "val.npz"
    ts.save(path, ts.Logits(logits, labels))
    return path


def test_writes_the_table_of_the_library_and_a_figure_and_names_them(run, val, tmp_path):
    out = tmp_path / "new" / "made"
    done = run(val, "--out", out, "--temperatures", "0.5:2:0.5", "--trials", "7", "--seed", "3", drawn=True)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["sweep.csv", "sweep.png"]
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")
    want = ts.sweep(ts.load(val), temperatures=temperature_grid("0.5:2:0.5"), trials=7, random_state=3)
    with (out / "sweep.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["value"]) for row in rows] == want.columns()["value"]
    assert [float(row["temperature"]) for row in rows] == want.columns()["temperature"]
    assert done.stdout.splitlines()[-2:] == [f"Wrote {out / 'sweep.csv'}", f"Wrote {out / 'sweep.png'}"]
    size = want.curve("avg_size", "aps")
    (line,) = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["aps"]]
    assert f"{size.max():.2f}" in line
    assert f"{size[1]:.2f}," in line, "AvgSize at T = 1"


def test_every_option_reaches_the_library(run, val, tmp_path):
    parquet = require("pyarrow.parquet", "io")
    done = run(
        val, "--methods", "saps, aps", "--temperatures", "0.05,1", "--alpha", "0.2,0.05", "--trials", 3,
        "--calibration-fraction", 0, "--cp-fraction", 0.25, "--seed", 9, "--evaluation", "integrated",
        "--format", "parquet", "--per-trial", "--jobs", 2, "--quiet", "--out", tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    want = ts.sweep(
        ts.load(val), None, [0.05, 1.0], ["saps", "aps"], ["0.2", "0.05"], 3, 0, "0.25", 9, evaluation="integrated"
    )
    table = parquet.read_table(tmp_path / "sweep.parquet").to_pydict()
    assert table == want.trial_columns()
    assert not (tmp_path / "sweep.csv").exists()


def test_the_command_and_the_library_sweep_the_same_temperatures(run, val, tmp_path):
    done = run(val, "--trials", 1, "--methods", "lac", "--quiet", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "sweep.csv").open(newline="") as stream:
        seen = sorted({float(row["temperature"]) for row in csv.DictReader(stream)})
    assert seen == ts.sweep(ts.load(val), methods=["lac"], trials=1).temperatures.tolist()
    assert seen == temperature_grid(DEFAULT_GRID).tolist()
    assert DEFAULT_GRID in run("--help").stdout


@pytest.mark.parametrize("kind", ["class", "cluster"])
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_grouping(run, val, tmp_path, kind):
    asked = ("--temperatures", "1", "--trials", 2, "--cp-fraction", "0.4", "--methods", "aps")
    done = run(val, *asked, "--grouping", kind, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    want = ts.sweep(ts.load(val), None, [1.0], ["aps"], trials=2, cp_fraction=0.4, grouping=kind)
    with (tmp_path / "sweep.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(swept_metrics())
    assert float(rows[0]["value"]) == want.curve("avg_size", "aps")[0]


def test_more_metrics(run, val, tmp_path):
    asked = ("--temperatures", "1", "--trials", 2, "--methods", "aps", "--out", tmp_path)
    done = run(val, *asked, "--metrics", "sscv, confidence_coverage_gap")
    assert done.returncode == 0, done.stderr
    want = ts.sweep(ts.load(val), None, [1.0], ["aps"], trials=2, metrics=["sscv", "confidence_coverage_gap"])
    with (tmp_path / "sweep.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["metric"] for row in rows] == list(want.metrics)
    assert float(rows[-1]["value"]) == want.curve("confidence_coverage_gap", "aps")[0]


def test_probabilities_by_name(run, tmp_path):
    logits, labels = generated(300, 4, signal=0.2)
    probs = ts.calibration.probabilities(logits / 5)
    np.savez(tmp_path / "probs.npz", probs=probs, labels=labels)
    asked = (tmp_path / "probs.npz", "--temperatures", "1", "--trials", 2, "--out", tmp_path / "made")
    refused = run(*asked)
    assert refused.returncode == 2
    assert not (tmp_path / "made").exists()
    done = run(*asked, "--probabilities")
    assert done.returncode == 0, done.stderr


BAD = [
    (("--temperatures", "5:1:1"), "temperatures must be start:stop:step"),
    (("--temperatures", "2,1"), "temperatures must increase"),
    (("--temperatures", "0"), "each temperature must be a finite number > 0"),
    (("--methods", "apps"), "method must be a score object or one of"),
    (("--metrics", "sccv"), "metrics can be 'sscv'"),
    (("--methods", ""), "methods must name at least one score"),
    (("--methods", "aps,aps"), "'aps' appears twice"),
    (("--alpha", "2"), "alpha must be a number strictly between 0 and 1"),
    (("--alpha", ","), "alphas must name at least one level"),
    (("--trials", "0"), "trials must be a whole number from 1 to 100,000"),
    (("--jobs", "0"), "n_jobs must be a whole number from 1 to 1,024"),
    (("--seed", "-1"), "random_state must be a whole number"),
    (("--cp-fraction", "1"), "between 0 and 1"),
    (("--cp-fraction", "0.95"), "leaves none"),
    (("--calibration-fraction", "0.001"), "has no row"),
    (("--grouping", "class", "--evaluation", "integrated"), "needs one threshold for all classes"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line_exit_code_2_and_no_file(run, val, tmp_path, arguments, message):
    done = run(val, "--out", tmp_path / "made", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("thermoset: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_not_there_or_have_no_labels(run, val, tmp_path):
    done = run(tmp_path / "none.npz", "--out", tmp_path / "made")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "there is no such file" in done.stderr
    np.savez(tmp_path / "bare.npz", logits=ts.load(val).logits)
    done = run(tmp_path / "bare.npz", "--out", tmp_path / "made")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "needs labels" in done.stderr
    assert not (tmp_path / "made").exists()


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(run, val, tmp_path):
    (tmp_path / "file").write_text("")
    done = run(val, "--out", tmp_path / "file" / "made", "--trials", 10**6)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot be created" in done.stderr


def test_unknown_choices_are_refused(run, val):
    assert run(val, "--evaluation", "both").returncode == 2
    assert run(val, "--format", "xlsx").returncode == 2


def test_warnings_are_lines_for_people(run, tmp_path):
    logits, labels = generated(60, 4)
    ts.save(tmp_path / "few.npz", ts.Logits(logits, labels))
    done = run(tmp_path / "few.npz", "--temperatures", "1,2", "--trials", 2, "--out", tmp_path / "made")
    assert done.returncode == 0
    assert "thermoset: warning: alpha=0.1 needs at least 9 conformal rows; got 6." in done.stderr
    assert ".py:" not in done.stderr


def test_the_installed_command(val, tmp_path):
    asked = [COMMAND, "sweep", val, "--temperatures", "1", "--trials", "2", "--out", tmp_path / "made"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "\x1b[" not in done.stdout + done.stderr, "no colour and no bar where there is no terminal"
    assert len(list((tmp_path / "made").iterdir())) == 2


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_it_soon_with_130_and_without_a_file(tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 400)).astype(np.float32)  # flat rows: large sets, hours of work below
    ts.save(tmp_path / "long.npz", ts.Logits(logits, rng.integers(0, 400, 4000)))
    asked = ["--trials", "100", "--temperatures", "0.01:50:0.01", "--out", str(tmp_path / "made"), "--quiet"]
    working = started("sweep", tmp_path / "long.npz", *asked)
    try:
        time.sleep(4)
        assert working.poll() is None, working.communicate()
        working.send_signal(signal.SIGINT)
        out, err = working.communicate(timeout=10)
    finally:
        working.kill()
    assert working.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "thermoset: interrupted"
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["long.npz"]
