"""Runs of the command in great number, and files for them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import thermoset as ts
from law import generated
from parts import require

HERE = Path(__file__).parent

if os.name != "posix":
    pytest.skip("signals, pipes and limits of POSIX", allow_module_level=True)


class Ended(NamedTuple):
    """A run of the command that has ended."""

    code: int
    out: str
    err: str

    def assert_refused(self, because):
        assert (self.code, self.out) == (2, ""), self
        assert self.err.startswith("thermoset: ")
        assert because in self.err
        assert self.err.count("\n") == 1


class Zygote:
    """Asks for runs of the command; see `zygote.py`."""

    def __init__(self, process):
        self._process = process

    def together(self, *asked) -> list[Ended]:
        """Several runs at the same time."""
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return [Ended(*answer) for answer in json.loads(self._process.stdout.readline())]

    def run(self, *arguments, **options) -> Ended:
        """One run."""
        return self.together({"arguments": [str(argument) for argument in arguments], **options})[0]


@pytest.fixture(scope="session")
def zygote():
    require("matplotlib", "plot")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path]), "COLUMNS": "200"}
    asked = [sys.executable, HERE / "zygote.py"]
    with subprocess.Popen(
        asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", env=environment
    ) as process:
        yield Zygote(process)
        process.stdin.close()


class Files(NamedTuple):
    """Logits, a predictor made of them, and a folder of logits."""

    val: Path
    predictor: Path
    folder: Path


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    data = ts.Logits(*generated(400, 4, signal=0.5))
    ts.save(folder / "val.npz", data)
    ts.TwoTemperaturePredictor().fit(data).save(folder / "predictor.json")
    (folder / "in").mkdir()
    ts.save(folder / "in" / "val.npz", data)
    return Files(folder / "val.npz", folder / "predictor.json", folder / "in")


def writing(files, out):
    """Every command that writes, by name, with its arguments for a folder to write to."""
    few = ("--trials", "2", "--temperatures", "1,2")
    return {
        "tune": ("tune", files.val, "--out", out),
        "predict": ("predict", files.predictor, files.val, "--out", out / "sets.csv"),
        "predict npz": ("predict", files.predictor, files.val, "--out", out / "sets.npz"),
        "report": ("report", files.predictor, files.val, "--out", out / "page.html"),
        "sweep": ("sweep", files.val, "--out", out, *few),
        "theory": ("theory", files.val, "--out", out, *few),
        "study": ("study", files.folder, "--out", out),
    }


WRITING = ("tune", "predict", "predict npz", "report", "sweep", "theory", "study")


def content(folder):
    """All files below a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="session")
def whole(zygote, files, tmp_path_factory):
    """What each command writes when nobody disturbs it."""
    made = {}
    for name in WRITING:
        out = tmp_path_factory.mktemp("whole")
        ended = zygote.run(*writing(files, out)[name])
        assert ended.code == 0, ended
        made[name] = content(out)
        assert made[name]
    return made
