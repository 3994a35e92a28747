"""Runs of the command in great number, and files for them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import thermoset as ts
from attacks.written import WRITING, Files, content, writing
from commands import Done
from law import generated
from parts import require

HERE = Path(__file__).parent

if os.name != "posix":
    pytest.skip("signals, pipes and limits of POSIX", allow_module_level=True)


class Zygote:
    """Asks for runs of the command; see `zygote.py`."""

    def __init__(self, process):
        self._process = process

    def together(self, *asked) -> list[Done]:
        """Several runs at the same time."""
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return [Done(*answer) for answer in json.loads(self._process.stdout.readline())]

    def run(self, *arguments, **options) -> Done:
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


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    rows = ts.Logits(*generated(600, 4, signal=0.5))
    data = rows.take(slice(0, 400))
    ts.save(folder / "val.npz", data)
    ts.save(folder / "fresh.npz", rows.take(slice(400, None)))
    ts.TwoTemperaturePredictor().fit(data).save(folder / "predictor.json")
    (folder / "in").mkdir()
    ts.save(folder / "in" / "val.npz", data)
    return Files(folder / "val.npz", folder / "fresh.npz", folder / "predictor.json", folder / "in")


@pytest.fixture(scope="session")
def whole(zygote, files, tmp_path_factory):
    """What each command writes when nobody disturbs it."""
    made = {}
    for name in WRITING:
        out = tmp_path_factory.mktemp("whole")
        ended = zygote.run(*writing(files, out)[name])
        assert ended.returncode == 0, ended
        made[name] = content(out)
        assert made[name]
    return made
