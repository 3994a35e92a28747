"""Runs that are killed, and that find the disk full: afterwards every file is the old one or the new one, whole."""

import signal

import numpy as np
import pytest

from attacks.written import WRITING, content, writing
from tiers import cases

pytestmark = [pytest.mark.long, pytest.mark.scaled]

MOMENTS = ("opening", "writing", "renaming")


def older(out, names):
    for name in names:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(b"older")


def places(n_files, seed):
    """Some of the moments at which a run can be killed."""
    every = [(moment, file) for moment in MOMENTS for file in range(n_files)]
    drawn = np.random.default_rng(seed).permutation(len(every))[: cases(2)]
    return [every[i] for i in drawn]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("name", WRITING)
def test_a_killed_run_leaves_old_files_and_new_ones_but_no_parts(zygote, files, whole, tmp_path, name, number):
    if number in (signal.SIGHUP, signal.SIGINT) and cases(1) == 1 and name != "sweep":
        return  # the same as SIGTERM, and looked at when there is time
    for i, (moment, file) in enumerate(places(len(whole[name]), WRITING.index(name))):
        out = tmp_path / str(i)
        older(out, whole[name])
        at = {"moment": moment, "file": file}
        ended = zygote.run(*writing(files, out)[name], signal=number, at=at)
        left = content(out)
        hidden = [path for path in left if path.endswith(".tmp")]
        for path in whole[name]:
            assert left.pop(path) in (b"older", whole[name][path]), (path, at)
        assert list(left) == hidden, at
        if number == signal.SIGKILL:
            assert ended.returncode == -9
            assert len(hidden) <= 1
        else:
            said = "interrupted" if number == signal.SIGINT else "terminated"
            assert (ended.returncode, ended.stderr.splitlines()[-1]) == (128 + number, f"thermoset: {said}"), at
            assert ended.stdout == "" or name == "tune", "tune shows its result before the page is built"
            assert hidden == [], at


def test_what_a_killed_run_has_left_is_in_nobodys_way(zygote, files, whole, tmp_path):
    asked = writing(files, tmp_path)["sweep"]
    zygote.run(*asked, signal=signal.SIGKILL, at={"moment": "writing", "file": 1})
    assert zygote.run(*asked).returncode == 0
    left = content(tmp_path)
    assert whole["sweep"].items() <= left.items()
    assert len(left) == len(whole["sweep"]) + 1


@pytest.mark.parametrize("name", WRITING)
def test_a_full_disk_is_told_in_one_line_and_old_files_stay(zygote, files, whole, tmp_path, name):
    sizes = [len(made) for made in whole[name].values()]
    for room in np.linspace(max(sizes) - 1, 0, cases(1)).astype(int).tolist():
        older(tmp_path, whole[name])
        ended = zygote.run(*writing(files, tmp_path)[name], most_bytes=room)
        assert ended.returncode == 2, (ended, room)
        assert ended.stdout == "" or name == "tune", "tune shows its result before the page is built"
        if room > 200:  # else what is said does not fit either
            assert "cannot be written (File too large)" in ended.stderr.splitlines()[-1]
            assert ended.stderr.count("cannot be written") == 1
        left = content(tmp_path)
        assert left.keys() == whole[name].keys(), "no hidden file"
        assert all(left[path] in (b"older", whole[name][path]) for path in left)
        assert b"older" in left.values()


@pytest.mark.parametrize("name", ["sweep", "predict", "report"])
def test_runs_at_the_same_time_leave_what_one_of_them_wrote(zygote, files, whole, tmp_path, name):
    asked = {"arguments": [str(argument) for argument in writing(files, tmp_path)[name]]}
    ended = zygote.together(*[asked] * cases(3))
    assert [one.returncode for one in ended] == [0] * len(ended), ended
    assert content(tmp_path) == whole[name]
