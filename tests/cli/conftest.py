"""The commands as users run them, and what their tests share: rows, and a predictor that `thermoset tune` made."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import thermoset as ts
from commands import COMMAND, Done
from law import generated
from parts import undraw
from thermoset.cli import main

COMPILING = "thermoset: compiling, once for this machine ...\n"  # said by whichever test comes first, or by none
NAMES = ("ant", "bee, small", 'the "cat"', "döner", "eel", "fox")


class Tuned(NamedTuple):
    """A predictor tuned by the installed command, what it printed, and files of rows."""

    done: Done
    folder: Path
    val: Path
    fresh: Path
    seed: int

    @property
    def path(self) -> Path:
        return self.folder / "predictor.json"

    @property
    def predictor(self) -> ts.TwoTemperaturePredictor:
        return ts.TwoTemperaturePredictor.load(self.path)


@pytest.fixture(scope="session")
def command():
    """The installed command, in a process of its own."""

    def run(*arguments, **environment):
        done = subprocess.run(
            [COMMAND, *map(str, arguments)],
            capture_output=True,
            encoding="utf-8",
            check=False,
            env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8", **environment},
        )
        return Done(done.returncode, done.stdout, done.stderr.replace(COMPILING, ""))

    return run


@pytest.fixture
def call(monkeypatch, capsys):
    """The command in this process, which saves the second that starting each costs; figures are drawn if asked for."""

    def run(*arguments, columns=100, drawn=False):
        monkeypatch.setattr(sys, "argv", ["thermoset", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", str(columns))
        with monkeypatch.context() as patched:
            if not drawn:
                undraw(patched)
            with pytest.raises(SystemExit) as ended:
                main()
        out, err = capsys.readouterr()
        return Done(ended.value.code or 0, out, err.replace(COMPILING, ""))

    return run


@pytest.fixture(scope="session")
def tuned(command, tmp_path_factory):
    """Half of some exchangeable rows as `fresh`, and what `thermoset tune` makes of the other half."""
    folder = tmp_path_factory.mktemp("tuned")
    rows = ts.Logits(*generated(4000, len(NAMES), signal=0.2), NAMES)
    val, fresh = folder / "val.npz", folder / "fresh.npz"
    ts.save(val, rows.take(slice(0, 2000)))
    ts.save(fresh, rows.take(slice(2000, None)))
    out = folder / "new" / "made"
    seed = 3
    done = command("tune", val, "--out", out, "--seed", seed)
    assert done.returncode == 0, done
    return Tuned(done, out, val, fresh, seed)
