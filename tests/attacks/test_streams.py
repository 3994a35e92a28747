"""Standard streams that are closed, full, or that nobody reads: exit codes mean what they say."""

import itertools

import numpy as np
import pytest

import thermoset as ts

pytestmark = [pytest.mark.long, pytest.mark.scaled]

PLACES = {"open": None, "closed": "closed", "full": "/dev/full", "broken": "broken"}
HEARD = ("open", "closed")  # a stream that was closed on purpose is like /dev/null


@pytest.fixture(scope="module")
def runs(files, tmp_path_factory):
    """Arguments, and the exit code when everything can be written."""
    folder = tmp_path_factory.mktemp("streams")
    data = ts.load(files.fresh)
    ts.save(folder / "wrong.npz", ts.Logits(data.logits, np.roll(data.labels, 1)))
    ts.save(folder / "few.npz", data.take(slice(0, 60)))
    few = ("--temperatures", "1", "--trials", "2", "--out", folder / "made")
    return {
        "kept": (("check", files.predictor, files.fresh), 0),
        "broken promise": (("check", files.predictor, folder / "wrong.npz"), 1),
        "broken promise, json": (("check", files.predictor, folder / "wrong.npz", "--json"), 1),
        "bad input": (("check", files.predictor, folder / "none.npz"), 2),
        "misuse": (("check", "--fail-no", "2"), 2),
        "help": (("--help",), 0),
        "warning": (("sweep", folder / "few.npz", *few), 0),
    }


@pytest.mark.parametrize(("out", "err"), list(itertools.product(PLACES, PLACES)))
def test_the_exit_code_says_what_happened_whoever_listens(zygote, runs, out, err):
    for name, (arguments, code) in runs.items():
        ended = zygote.run(*arguments, stdout=PLACES[out], stderr=PLACES[err])
        expected = code if out in HEARD or code == 2 else 2
        assert ended.returncode == expected, (name, ended)
        if err == "open" and expected == 2:
            assert ended.stderr.startswith("thermoset: ")
            assert ended.stderr.rstrip("\n").splitlines()[-1].startswith("thermoset: "), ended
            assert "Traceback" not in ended.stderr
        if err == "open" and out in ("full", "broken") and code != 2:
            assert "the output cannot be written" in ended.stderr, name


def test_files_are_written_though_the_warning_is_not_heard(zygote, runs, tmp_path):
    arguments = (*runs["warning"][0][:-1], tmp_path)
    heard = zygote.run(*arguments)
    assert "thermoset: warning: " in heard.stderr
    made = sorted(path.name for path in tmp_path.iterdir())
    for path in tmp_path.iterdir():
        path.unlink()
    assert zygote.run(*arguments, stderr="/dev/full").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == made == ["sweep.csv", "sweep.png"]
