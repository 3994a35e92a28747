"""Predictions over shards, killed at any moment: resumed, the folder is that of a run that nobody disturbed."""

import signal

import numpy as np
import pytest

import thermoset as ts
from attacks.written import content
from law import generated
from parts import require
from thermoset.predictor.many_files import JOURNAL, MANIFEST
from tiers import cases

pytestmark = [pytest.mark.long, pytest.mark.scaled]

KINDS = {"csv": 10, "jsonl": 10, "parquet": 10}
"""How often a run is killed: 30 times."""
N_SHARDS = 12


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    logits = generated(300, 4, signal=0.5)[0]
    for i in range(N_SHARDS):
        day = folder / f"day={i % 3}"
        day.mkdir(exist_ok=True)
        ts.save(day / f"part-{i}.npz", ts.Logits(logits[25 * i : 25 * i + 25 - i]))
    return folder


def asked(files, shards, out, kind, *more):
    return ("predict", files.predictor, shards, "--out", out, "--format", kind, *more)


@pytest.fixture
def undisturbed(zygote, files, shards, tmp_path):
    """What a run makes that nobody disturbs."""

    def run(kind):
        if kind == "parquet":
            require("pyarrow", "io")
        ended = zygote.run(*asked(files, shards, tmp_path / "whole", kind))
        assert ended.returncode == 0, ended
        made = content(tmp_path / "whole")
        assert len(made) == N_SHARDS + 1
        return made

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments(zygote, files, shards, undisturbed, tmp_path, kind):
    """No moment leaves a file under its name that is not whole; and all are as if nothing had happened, in the end."""
    whole = undisturbed(kind)
    rng = np.random.default_rng(list(KINDS).index(kind))
    for i in range(cases(KINDS[kind])):
        out = tmp_path / str(i)
        # Up to a shard or two after one of them has appeared: spread over the run, however fast the machine is.
        marks = [tmp_path, *(out / name for name in whole)]
        for resume in [(), *[("--resume",)] * (i % 3)]:  # every third is killed once, twice, three times
            when = {"kill_once": str(marks[rng.integers(len(marks))]), "kill_after": rng.uniform(0, 0.02)}
            zygote.run(*asked(files, shards, out, kind, *resume), **when)
            left = content(out) if out.exists() else {}
            seen = {name for name in left if not name.endswith(".tmp") and name != JOURNAL}
            assert all(left[name] == whole[name] for name in seen)
            assert MANIFEST not in seen or len(seen) == N_SHARDS + 1
        resumed = zygote.run(*asked(files, shards, out, kind, "--resume"))
        assert resumed.returncode == 0, resumed
        assert content(out) == whole


@pytest.mark.parametrize("moment", ["opening", "writing", "renaming"])
def test_killed_around_a_file(zygote, files, shards, undisturbed, tmp_path, moment):
    """The first, one in the middle, the last, and the manifest after it."""
    whole = undisturbed("csv")
    for file in (0, 5, N_SHARDS - 1, N_SHARDS):
        out = tmp_path / str(file)
        at = {"moment": moment, "file": file}
        ended = zygote.run(*asked(files, shards, out, "csv"), signal=signal.SIGKILL, at=at)
        assert ended.returncode == -signal.SIGKILL
        assert len([name for name in content(out) if name.endswith(".csv")]) == file
        resumed = zygote.run(*asked(files, shards, out, "csv", "--resume"))
        assert (resumed.returncode, resumed.stderr) == (0, "")
        said = {0: "Wrote 12 shards to", N_SHARDS: "Nothing to do"}
        assert said.get(file, f"({file} of them earlier)") in resumed.stdout, resumed
        assert content(out) == whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_ends_it_is_told_how_to_go_on(zygote, files, shards, undisturbed, tmp_path, number):
    whole = undisturbed("csv")
    out = tmp_path / "out"
    ended = zygote.run(*asked(files, shards, out, "csv"), signal=number, at={"moment": "writing", "file": 4})
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (128 + number, "", 2)
    assert f"4 of {N_SHARDS} shards" in ended.stderr
    assert "--resume" in ended.stderr
    assert not [name for name in content(out) if name.endswith(".tmp")]
    assert zygote.run(*asked(files, shards, out, "csv", "--resume")).returncode == 0
    assert content(out) == whole


def test_two_that_resume_at_once(zygote, files, shards, undisturbed, tmp_path):
    whole = undisturbed("csv")
    out = tmp_path / "out"
    zygote.run(*asked(files, shards, out, "csv"), signal=signal.SIGKILL, at={"moment": "writing", "file": 2})
    one = {"arguments": [str(argument) for argument in asked(files, shards, out, "csv", "--resume")]}
    ended = zygote.together(*[one] * 4)
    assert any(run.returncode == 0 for run in ended)
    for run in ended:
        assert (run.returncode, run.stderr) == (0, "") or (run.returncode == 2 and "another process" in run.stderr)
    assert content(out) == whole


def test_a_full_disk_is_told_and_what_is_finished_kept(zygote, files, shards, undisturbed, tmp_path):
    whole = undisturbed("csv")
    out, room = tmp_path / "out", max(len(held) for name, held in whole.items() if name != MANIFEST) - 1
    ended = zygote.run(*asked(files, shards, out, "csv"), most_bytes=room)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "File too large" in ended.stderr
    assert zygote.run(*asked(files, shards, out, "csv", "--resume")).returncode == 0
    assert content(out) == whole
