"""Runs of `thermoset monitor` that are killed, that find the disk full, or that come together: no batch is lost."""

import signal

import pytest

import thermoset as ts
from attacks.written import content
from law import generated

pytestmark = [pytest.mark.long, pytest.mark.scaled]


@pytest.fixture
def begun(zygote, files, tmp_path):
    """A state with one batch, and a second batch that has not been added."""
    rows = ts.Logits(*generated(120, 4, signal=0.5, seed=1))
    ts.save(tmp_path / "a.npz", rows.take(slice(0, 60)))
    ts.save(tmp_path / "b.npz", rows.take(slice(60, 120)))
    out = tmp_path / "out"
    out.mkdir()
    asked = ("monitor", files.predictor, tmp_path / "b.npz", "--state", out / "state.json", "--quiet")
    first = zygote.run("monitor", files.predictor, tmp_path / "a.npz", "--state", out / "state.json", "--quiet")
    assert first.returncode == 0, first
    return out, asked


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda n: n.name)
@pytest.mark.parametrize("moment", ["opening", "writing", "renaming"])
def test_a_killed_run_leaves_the_old_state_or_the_new_one(zygote, files, begun, moment, number):
    out, asked = begun
    before = (out / "state.json").read_bytes()
    ended = zygote.run(*asked, signal=number, at={"moment": moment, "file": 0})
    assert ended.returncode in (-9, 128 + number)
    left = content(out)
    assert left.pop("state.json") == before
    assert all(name.endswith((".tmp", ".lock")) for name in left)
    assert number == signal.SIGKILL or not left
    assert zygote.run(*asked).returncode == 0, "what was left is in nobody's way"
    predictor = ts.TwoTemperaturePredictor.load(files.predictor)
    assert [batch.name for batch in ts.Monitor.load(out / "state.json", predictor).status.batches] == ["a.npz", "b.npz"]


def test_a_full_disk_leaves_the_old_state(zygote, begun):
    out, asked = begun
    before = content(out)
    ended = zygote.run(*asked, most_bytes=500)
    assert ended.returncode == 2
    assert "cannot be written (File too large)" in ended.stderr
    assert content(out) == before


def test_runs_at_the_same_time_add_a_batch_once(zygote, files, begun):
    out, asked = begun
    ended = zygote.together(*[{"arguments": [str(argument) for argument in asked]}] * 3)
    assert sorted(one.returncode for one in ended) == [0, 2, 2], ended
    assert sum("has no new labels" in one.stderr for one in ended) == 2
    predictor = ts.TwoTemperaturePredictor.load(files.predictor)
    assert ts.Monitor.load(out / "state.json", predictor).status.rows == 120
    assert list(content(out)) == ["state.json"]
