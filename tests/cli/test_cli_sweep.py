"""`thermoset sweep` as a user runs it."""

import csv
import os
import signal
import time

import numpy as np
import pytest

import thermoset as ts
from commands import started
from law import generated
from parts import require
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


@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_every_option_reaches_the_library(run, val, tmp_path):
    parquet = require("pyarrow.parquet", "io")
    done = run(
        val, "--methods", "saps, aps", "--temperatures", "0.05,1", "--alpha", "0.2,0.05", "--trials", 3,
        "--calibration-fraction", 0, "--cp-fraction", 0.25, "--seed", 9, "--evaluation", "integrated",
        "--format", "parquet", "--per-trial", "--jobs", 2, "--quiet", "--out", tmp_path,
        "--metrics", "sscv, confidence_coverage_gap",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = (None, [0.05, 1.0], ["saps", "aps"], ["0.2", "0.05"], 3, 0, "0.25", 9)
    more = ["sscv", "confidence_coverage_gap"]
    want = ts.sweep(ts.load(val), *asked, evaluation="integrated", metrics=more)
    table = parquet.read_table(tmp_path / "sweep.parquet").to_pydict()
    assert table == want.trial_columns()
    assert not (tmp_path / "sweep.csv").exists()
    done = run(val, "--temperatures", "1", "--trials", 2, "--methods", "aps", "--grouping", "class", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    want = ts.sweep(ts.load(val), None, [1.0], ["aps"], trials=2, grouping="class")
    with (tmp_path / "sweep.csv").open(newline="") as stream:
        assert float(next(csv.DictReader(stream))["value"]) == want.curve("avg_size", "aps")[0]


def test_the_command_and_the_library_sweep_the_same_temperatures(run, val, tmp_path):
    done = run(val, "--trials", 1, "--methods", "lac", "--quiet", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "sweep.csv").open(newline="") as stream:
        seen = sorted({float(row["temperature"]) for row in csv.DictReader(stream)})
    assert seen == ts.sweep(ts.load(val), methods=["lac"], trials=1).temperatures.tolist()
    assert seen == temperature_grid(DEFAULT_GRID).tolist()
    assert DEFAULT_GRID in run("--help").stdout


BAD = [
    (("--temperatures", "5:1:1"), "temperatures must be start:stop:step"),
    (("--methods", "aps,aps"), "'aps' appears twice"),
    (("--metrics", "sccv"), "metrics can be 'sscv'"),
    (("--alpha", ","), "alphas must name at least one level"),
    (("--jobs", "0"), "n_jobs must be a whole number from 1 to 1,024"),
    (("--cp-fraction", "0.95"), "leaves none"),
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


def test_warnings_are_lines_for_people(run, tmp_path):
    logits, labels = generated(60, 4)
    ts.save(tmp_path / "few.npz", ts.Logits(logits, labels))
    done = run(tmp_path / "few.npz", "--temperatures", "1,2", "--trials", 2, "--out", tmp_path / "made")
    assert done.returncode == 0
    assert "thermoset: warning: alpha=0.1 needs at least 9 conformal rows; got 6." in done.stderr
    assert ".py:" not in done.stderr


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
