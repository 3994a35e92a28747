"""The installed command, run as a user runs it."""

import os
import re
import subprocess
import sys

import pytest

import thermoset as ts
from commands import COMMAND
from parts import require
from thermoset.cli import main
from thermoset.cli.tune import _reliability
from thermoset.datasets import load_glyphs

pytestmark = pytest.mark.slow


def test_help_lists_the_commands(command):
    done = command("--help")
    assert done.returncode == 0
    panels = ["The main job", "Over time", "Elsewhere", "first look"]
    commands = ["tune", "predict", "check", "monitor", "adapt", "export", "report", "answer", "sweep", "study", "demo"]
    places = [done.stdout.index(text) for text in (*panels, "thermoset tune val.npz", "thermoset check model/")]
    assert places == sorted(places), "groups of commands, and an example at the end"
    assert re.findall(r"^│ (\w+)  ", done.stdout, flags=re.MULTILINE)[-len(commands) :] == commands


def test_version(command):
    assert command("--version").stdout == f"thermoset {ts.__version__}\n"


def test_bad_alpha_in_a_process_of_its_own(command, tuned, tmp_path):
    done = command("tune", tuned.val, "--out", tmp_path, "--alpha=nan")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("thermoset: alpha must be a number strictly between 0 and 1, at least 1e-09 ")
    assert done.stderr.count("\n") == 1


MISUSE = {
    ("tempt",): "No such command 'tempt'. See: thermoset --help",
    ("tune", "val.npz", "--alfa", "0.1"): "--alfa",
    ("predict", "predictor.json", "val.npz"): "Missing option '--out'. See: thermoset predict --help",
    ("tune", "val.npz", "--alpha"): "--alpha",
    ("demo", "more"): "(more)",
    ("study", ".", "--trials", "many"): "Invalid value for '--trials'",
    ("study", ".", "--trials", "1"): "Invalid value for '--trials'",
    ("tune", "val.npz", "--objective", "two\nlines"): "Invalid value for '--objective'",
}


@pytest.mark.parametrize("arguments", MISUSE)
def test_misuse_is_one_line_and_exit_code_2(monkeypatch, capsys, arguments):
    monkeypatch.setattr(sys, "argv", ["thermoset", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.startswith("thermoset: ")
    assert MISUSE[arguments] in err
    assert err.count("\n") == 1
    assert err.endswith("--help\n")


def test_without_a_command_it_shows_the_help(command):
    done = command()
    assert (done.returncode, done.stderr) == (2, "")
    assert "Usage: thermoset" in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX")
@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_bad_input_is_code_2_though_nobody_hears_of_it(redirected):
    assert subprocess.run(f"{COMMAND} tune none.npz {redirected}", shell=True, check=False).returncode == 2  # noqa: S602


def test_the_demo_draws_the_confidence_of_the_predictor():
    require("matplotlib", "plot")
    known, fresh = load_glyphs().logits.split(0.7)
    predictor = ts.TwoTemperaturePredictor("lac").fit(known)
    before, after = (float(ax.get_title(loc="left").split()[-1]) for ax in _reliability(predictor, fresh).axes)
    assert after < before / 3  # T* alone, which is fitted after the class correction, would make it larger


def test_demo_runs_the_main_job_on_the_bundled_data(command, tmp_path):
    require("matplotlib", "plot")
    done = command("demo", "--out", tmp_path / "made", "--quiet", "--figures")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for name in ("reliability.png", "temperature.png", "frontier.png"):
        assert (tmp_path / "made" / name).read_bytes().startswith(b"\x89PNG")
    predictor = ts.TwoTemperaturePredictor.load(tmp_path / "made" / "predictor.json")
    assert f"T* = {predictor.temperature_:.3f}" in done.stdout
    assert f"T-hat = {predictor.temperature_sets_:.3f}" in done.stdout
    assert predictor.document_.plain_temperature > 1.1, "the demo's network is meant to be overconfident"
    _, fresh = load_glyphs().logits.split(0.7)
    coverage = ts.metrics.marginal_coverage(predictor.predict_set(fresh), fresh.labels)
    assert f"{coverage:.1%} of cases" in " ".join(done.stdout.split())
    require("vl_convert", "report")
    names = ["predictor.json", "reliability.png", "temperature.png", "frontier.png", "report.html"]
    assert re.findall(r"Wrote \S+?([\w.]+)\n", done.stdout) == names
    assert "thermoset tune val.npz" in done.stdout
