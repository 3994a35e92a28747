"""The installed command, run as a user runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thermoset as ts
from parts import require

COMMAND = Path(sys.executable).with_name("thermoset")


def run(*arguments, **environment):
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", **environment},
    )


def test_help_lists_the_commands():
    done = run("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert "plan" in done.stdout


def test_version():
    assert run("--version").stdout == f"thermoset {ts.__version__}\n"


def test_plan_prints_what_the_library_says():
    done = run("plan", "--alpha", "0.1", "--width", "0.02")
    rows = ts.plan("0.1", "0.02").rows
    assert done.returncode == 0
    assert f"use {rows:,} rows or more" in done.stdout.replace("\n", " ")
    assert re.search(rf"\b{rows:,} │ +0\.0200 │", done.stdout)


@pytest.mark.parametrize("alpha", ["0", "1", "1.5", "-0.1", "nan", "x", ""])
def test_bad_alpha_is_one_line_and_exit_code_2(alpha):
    done = run("plan", f"--alpha={alpha}")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("thermoset: alpha must be a number strictly between 0 and 1; got ")
    assert done.stderr.count("\n") == 1


def test_unknown_commands_and_options_exit_with_2():
    assert run("tempt").returncode == 2
    assert run("plan", "--alfa", "0.1").returncode == 2


def test_demo_writes_figures_and_logits_and_prints_tables(tmp_path):
    require("matplotlib", "plot")
    done = run("demo", "--out", tmp_path / "made", "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stderr in ("", "thermoset: compiling, once for this machine ...\n")  # by whether another test was first
    for name in ("reliability.png", "temperature.png"):
        assert (tmp_path / "made" / name).read_bytes().startswith(b"\x89PNG")
    data = ts.load(tmp_path / "made" / "digits.npz")
    assert data.n_classes == 10
    printed = float(re.search(r"T\* = ([\d.]+)", done.stdout)[1])
    calibration, _ = data.split(0.3, random_state=0)
    assert printed == round(ts.TemperatureScaler().fit(calibration).temperature_, 2)
    assert printed > 1.2, "the demo's classifier is meant to be overconfident"
    cells = [line.split("│")[1:-1] for line in done.stdout.splitlines() if "APS" in line or "LAC" in line]
    coverage = np.array([float(row[3]) for row in cells])
    assert len(coverage) == 6
    assert np.all(np.abs(coverage - 0.9) < 0.01)


def test_no_color_is_respected():
    assert "\x1b[" not in run("plan", "--alpha", "0.1", NO_COLOR="1").stdout


def test_demo_says_when_it_cannot_write(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("demo", "--out", tmp_path / "file" / "made")
    assert done.returncode == 2
    assert "cannot be made a folder" in done.stderr
    assert done.stderr.count("\n") == 1
