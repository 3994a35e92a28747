"""`thermoset monitor` as a user runs it: batches, labels that come later, alarms, exit codes, and bad input."""

import json

import numpy as np
import pytest

import thermoset as ts
from parts import require

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def batches(tuned, tmp_path_factory):
    """Fresh rows in four files, of which the last has other labels."""
    folder, fresh = tmp_path_factory.mktemp("batches"), ts.load(tuned.fresh)
    for i in range(4):
        some = fresh.take(slice(500 * i, 500 * i + 500))
        labels = some.labels if i < 3 else np.roll(some.labels, 1)
        ts.save(folder / f"day-{i}.npz", ts.Logits(some.logits, labels, some.classes))
    some = fresh.take(slice(0, 500))
    ts.save(folder / "unlabelled.npz", ts.Logits(some.logits, None, some.classes))
    lines = ["" if i % 2 else some.classes[label] for i, label in enumerate(some.labels)]
    (folder / "half.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_batches_are_added_until_one_raises_an_alarm(call, tuned, batches, tmp_path):
    state = tmp_path / "state.json"
    for i in range(3):
        done = call("monitor", tuned.path, batches / f"day-{i}.npz", "--state", state, "--quiet")
        assert (done.returncode, done.stderr) == (0, ""), done
    assert "1,500 rows in 3 batches, all labelled: coverage 0." in done.words
    assert "No alarm." in done.words
    for title in ("coverage too low", "coverage too high", "set sizes changed", "confidence changed", "day-1.npz"):
        assert title in done.stdout
    done = call("monitor", tuned.path, batches / "day-3.npz", "--state", state, "--quiet", "--time", "Friday")
    assert (done.returncode, done.stderr) == (1, "")
    assert "Coverage is lower than promised: alarm in day-3.npz (Friday), at labelled row 1,5" in done.words
    assert "This most likely began with day-3.npz (Friday)" in done.words
    assert "To do Recalibrate on labelled rows from after the change (thermoset adapt): with 854 rows" in done.words
    assert "Lowest classes: " in done.words
    again = call("monitor", tuned.path, "--state", state)
    assert (again.returncode, again.stdout) == (1, done.stdout)


def test_labels_that_come_later(call, tuned, batches, tmp_path):
    state = tmp_path / "state.json"
    seen = []
    for rest in (
        [batches / "unlabelled.npz"],
        [batches / "unlabelled.npz", "--labels", batches / "half.txt"],
        [batches / "day-0.npz"],
    ):
        done = call("monitor", tuned.path, *rest, "--state", state, "--quiet", "--json")
        assert done.returncode == 0, done
        seen.append(json.loads(done.stdout))
    assert [one["labelled"] for one in seen] == [0, 250, 500]
    assert [len(one["batches"]) for one in seen] == [1, 1, 1]
    before = state.read_bytes()
    call("monitor", tuned.path, batches / "day-0.npz", "--state", state, "--quiet").assert_refused("has no new labels")
    assert state.read_bytes() == before
    at_once = call(
        "monitor", tuned.path, batches / "day-0.npz", "--state", tmp_path / "other.json", "--quiet", "--json"
    )
    assert json.loads(at_once.stdout)["hits"] == seen[-1]["hits"]


def test_json_is_the_status(call, tuned, batches, tmp_path):
    done = call("monitor", tuned.path, batches / "day-0.npz", "--state", tmp_path / "s.json", "--quiet", "--json")
    status = ts.Monitor.load(tmp_path / "s.json", tuned.predictor).status
    assert json.loads(done.stdout) == json.loads(json.dumps(status.to_json_dict()))


def test_settings_of_a_state_stay(call, tuned, batches, tmp_path):
    state = tmp_path / "state.json"
    common = ("monitor", tuned.path, "--state", state, "--quiet")
    done = call(*common, batches / "day-0.npz", "--delta", "0.05", "--run-length", "0", "--json")
    found = json.loads(done.stdout)
    assert (found["delta"], found["run_length"]) == (0.05, None)
    call(*common, batches / "day-1.npz", "--delta", "0.01").assert_refused("was started with delta 0.05; got 0.01")
    call(*common, batches / "day-1.npz", "--run-length", "500").assert_refused(
        "was started with run_length None; got 500"
    )
    assert call(*common, batches / "day-1.npz").returncode == 0


def test_what_cannot_be_is_refused_in_one_line(call, tuned, batches, tmp_path):
    state = tmp_path / "state.json"
    batch = batches / "day-0.npz"
    call("monitor", tuned.path, "--state", state).assert_refused("there is no such file. Pass a batch to start one.")
    call("monitor", tuned.path, batch).assert_refused("Missing option '--state'")
    call("monitor", tuned.path, batch, "--state", batch).assert_refused("is the file to read from")
    call("monitor", tuned.path, batch, "--state", tuned.path).assert_refused("is the file to read from")
    call("monitor", tuned.path, batch, "--state", tmp_path / "no" / "s.json").assert_refused("cannot be written")
    call("monitor", tuned.path, batch, "--state", state, "--delta", "2").assert_refused("delta must be")
    assert list(tmp_path.iterdir()) == []
    state.write_text('{"mine": 1}')
    call("monitor", tuned.path, batch, "--state", state, "--quiet").assert_refused("is not a state of a monitor")
    state.write_bytes(b"")
    call("monitor", tuned.path, batch, "--state", state, "--quiet").assert_refused("damaged")
    assert state.read_bytes() == b""
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


def test_a_recalibrated_predictor_needs_a_new_state(call, tuned, batches, tmp_path):
    state = tmp_path / "state.json"
    assert call("monitor", tuned.path, batches / "day-0.npz", "--state", state, "--quiet").returncode == 0
    tuned.predictor.recalibrate(ts.load(batches / "day-3.npz")).save(tmp_path / "new.json")
    before = state.read_bytes()
    done = call("monitor", tmp_path / "new.json", batches / "day-1.npz", "--state", state, "--quiet")
    done.assert_refused("for another predictor, or for this one before it was recalibrated")
    assert state.read_bytes() == before


def test_groups_are_read_from_a_column(call, tuned, batches, tmp_path):
    rows = ts.load(batches / "day-0.npz")
    grouped = ts.Logits(rows.logits, rows.labels, rows.classes, groups=np.where(np.arange(500) % 2, "north", "south"))
    ts.save(tmp_path / "rows.parquet", grouped)
    done = call("monitor", tuned.path, tmp_path / "rows.parquet", "--state", tmp_path / "s.json", "--quiet", "--json")
    found = json.loads(done.stdout)
    assert found["part_kind"] == "group"
    assert sorted(part["name"] for part in found["parts"]) == ["north", "south"]


def test_a_page_is_written(call, tuned, batches, tmp_path):
    for module in ("vl_convert", "jinja2"):
        require(module, "report")
    common = ("monitor", tuned.path, "--state", tmp_path / "s.json", "--quiet")
    call(*common, batches / "day-0.npz", "--page", tmp_path / "s.json").assert_refused("Name two different files")
    assert list(tmp_path.iterdir()) == []
    done = call(*common, batches / "day-0.npz", "--page", tmp_path / "over-time.html")
    assert done.returncode == 0, done
    assert "over-time.html" in done.words
    assert "day-0.npz" in (tmp_path / "over-time.html").read_text(encoding="utf-8")
    before = (tmp_path / "s.json").read_bytes()
    assert call(*common, "--page", tmp_path / "again.html").returncode == 0, "a page without a batch"
    assert (tmp_path / "s.json").read_bytes() == before
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "over-time.html").read_bytes()


def test_metrics_are_written_for_prometheus(call, tuned, batches, tmp_path):
    state, metrics = tmp_path / "s.json", tmp_path / "digits.prom"
    common = ("monitor", tuned.path, "--state", state, "--quiet")
    call(*common, batches / "day-0.npz", "--prometheus", tmp_path / "digits.txt").assert_refused("must end in .prom")
    call(*common, batches / "day-0.npz", "--prometheus", state).assert_refused("two different files")
    assert list(tmp_path.iterdir()) == []
    assert call(*common, batches / "day-0.npz", "--prometheus", metrics).returncode == 0
    assert metrics.read_text() == ts.Monitor.load(state, tuned.predictor).to_prometheus("digits")
    metrics.chmod(0o644)
    assert call(*common, batches / "day-3.npz", "--prometheus", metrics).returncode == 1
    assert 'thermoset_monitor_alarm{predictor="digits"} 1\n' in metrics.read_text()
    assert metrics.stat().st_mode & 0o777 == 0o644, "the exporter, another user, can still read it"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["digits.prom", "s.json"]
