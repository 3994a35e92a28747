"""`thermoset predict` on many files, and what commands make of several files, folders and globs."""

import numpy as np
import pytest

import thermoset as ts
from clusters import local_cluster
from parts import require
from thermoset.predictor.many_files import MANIFEST, predict_shards

pytestmark = pytest.mark.slow

N_SHARDS = 4


@pytest.fixture
def shards(tuned, tmp_path):
    """Fresh rows in four files."""
    rows, folder = ts.load(tuned.fresh).take(slice(0, 400)), tmp_path / "in"
    folder.mkdir()
    for i in range(N_SHARDS):
        ts.save(folder / f"part-{i}.npz", rows.take(slice(100 * i, 100 * i + 100)))
    return folder


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def summary(predictor, shards):
    sizes = np.concatenate([predictor.set_sizes(ts.load(path)) for path in sorted(shards.iterdir())])
    return f"400 rows, {sizes.mean():.2f} labels in a set on average, {np.mean(sizes == 0):.1%} empty\n"


def test_a_folder_of_logits_becomes_a_folder_of_predictions(command, tuned, shards, tmp_path):
    require("pyarrow", "io")
    out = tmp_path / "out"
    done = command("predict", tuned.path, shards, "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Wrote 4 shards to {out}: {summary(tuned.predictor, shards)}"
    assert names_in(out) == [MANIFEST, *(f"part-{i}.parquet" for i in range(N_SHARDS))]
    table = require("pyarrow.dataset", "io").dataset(out).to_table()
    want = [tuned.predictor.predict_records(ts.load(path)) for path in sorted(shards.iterdir())]
    assert table["label"].to_pylist() == [row.label for rows in want for row in rows], "the manifest is in nobody's way"


def test_a_folder_a_glob_and_a_list_are_the_same(call, tuned, shards, tmp_path):
    files = sorted(shards.iterdir())
    for i, logits in enumerate(([shards], [shards / "*.npz", "--memory", "1MiB"], files)):
        done = call("predict", tuned.path, *logits, "--out", tmp_path / str(i), "--format", "csv")
        assert done.returncode == 0, done
    made = [{path.name: path.read_bytes() for path in (tmp_path / str(i)).iterdir()} for i in range(3)]
    assert made[0] == made[1] == made[2]
    predict_shards(tuned.predictor, shards, tmp_path / "library", kind="csv")
    assert made[0] == {path.name: path.read_bytes() for path in (tmp_path / "library").iterdir()}


def test_one_file_and_a_folder_or_a_folder_of_one_and_a_file(call, tuned, shards, tmp_path):
    (tmp_path / "there.v2").mkdir()
    for out in (tmp_path / "new", tmp_path / "there.v2"):
        done = call("predict", tuned.path, shards / "part-0.npz", "--out", out, "--format", "csv")
        assert done.returncode == 0, done
        assert names_in(out) == [MANIFEST, "part-0.csv"]
    for i in range(1, N_SHARDS):
        (shards / f"part-{i}.npz").unlink()
    assert call("predict", tuned.path, shards, "--out", tmp_path / "sets.csv").returncode == 0
    assert (tmp_path / "sets.csv").read_bytes() == (tmp_path / "new" / "part-0.csv").read_bytes()


def test_resuming(call, tuned, shards, tmp_path):
    out = tmp_path / "out"
    asked = ("predict", tuned.path, shards, "--out", out, "--format", "csv")
    said = summary(tuned.predictor, shards)
    assert call(*asked, "--resume").stdout == f"Wrote 4 shards to {out}: {said}", "it begins where there is nothing"
    call(*asked).assert_refused("earlier run")
    assert call(*asked, "--resume").stdout == f"Nothing to do: all 4 shards in {out} are finished: {said}"
    (out / "part-1.csv").unlink()
    assert call(*asked, "--resume").stdout == f"Wrote 4 shards (3 of them earlier) to {out}: {said}"
    call(*asked[:-1], "jsonl", "--resume").assert_refused("different format")


def test_drift_is_that_of_all_shards_also_after_a_resume(call, tuned, shards, tmp_path):
    rows = ts.load(tuned.fresh)
    for i in range(N_SHARDS):
        noise = np.random.default_rng(i).normal(scale=10.0, size=rows.logits.shape)
        ts.save(shards / f"part-{i}.npz", ts.Logits(rows.logits + noise))
    np.savez(shards / "part-9.npz", logits=np.empty((0, 6)))  # no rows
    asked = ("predict", tuned.path, shards, "--out", tmp_path / "out", "--format", "jsonl", "--resume")
    first, again = call(*asked), call(*asked)
    assert "Wrote 5 shards" in first.stdout
    assert f"{4 * len(rows):,} rows" in first.stdout
    assert "warning: set sizes differ" in first.stderr
    assert again.stderr == first.stderr
    assert (tmp_path / "out" / "part-9.jsonl").read_text() == ""


def test_what_does_not_fit_together(call, tuned, shards, tmp_path):
    asked, one = ("predict", tuned.path), shards / "part-0.npz"
    call(*asked, shards, "--out", tmp_path / "sets.csv").assert_refused("4 files of logits. Name a folder.")
    call(*asked, one, "--out", tmp_path / "sets.csv", "--resume").assert_refused("--resume is for a folder")
    call(*asked, one, "--out", tmp_path / "sets.csv", "--format", "csv").assert_refused("--format is for a folder")
    call(*asked, shards, "--out", tmp_path / "out", "--memory", "much").assert_refused("--memory must be")
    call(*asked, tmp_path / "none-*.npz", "--out", tmp_path / "out").assert_refused("finds nothing")
    np.savez(shards / "part-3.npz", logits=np.zeros((2, 5)))
    call(*asked, shards, "--out", tmp_path / "out").assert_refused(f"{shards / 'part-3.npz'}: X has 5 features")
    assert names_in(tmp_path) == ["in"]


# --- the other commands ---------------------------------------------------------------------------------------------


def made_by(call, name, tuned, logits, out, *options):
    """What a command writes or prints, but for the names of files."""
    before = (tuned.path,) if name in ("check", "report") else ()
    few = ("--trials", "2") if name in ("sweep", "report") else ()
    own = {"tune": ("--no-report",), "check": ("--json",), "report": ("--name", "rows")}.get(name, ())
    written = {"report": ("--out", out / "page.html"), "check": ()}.get(name, ("--out", out))
    out.mkdir(exist_ok=True)
    done = call(name, *before, *logits, *few, *own, *written, *options)
    assert done.returncode == 0, done
    if name == "check":
        return done.stdout
    return (out / {"tune": "predictor.json", "sweep": "sweep.csv", "report": "page.html"}[name]).read_bytes()


@pytest.mark.parametrize("name", ["tune", "sweep", "check", "report"])
def test_commands_give_the_same_for_shards_as_for_one_file(call, tuned, shards, tmp_path, name):
    if name == "sweep":
        require("matplotlib", "plot")
    if name == "report":
        require("vl_convert", "report")
    whole = tmp_path / "whole.npz"
    ts.save(whole, ts.load(tuned.fresh).take(slice(0, 400)))
    wanted = made_by(call, name, tuned, [whole], tmp_path / "one")
    files = sorted(shards.iterdir())
    assert made_by(call, name, tuned, [shards / "part-*.npz"], tmp_path / "glob") == wanted
    assert made_by(call, name, tuned, files, tmp_path / "list", "--memory", "1MiB") == wanted
    assert made_by(call, name, tuned, [whole], tmp_path / "bounded", "--memory", "1MiB") == wanted
    before = (tuned.path,) if name in ("check", "report") else ()
    call(name, *before, shards, shards / "none-*.npz").assert_refused("finds nothing")


@pytest.fixture(scope="module")
def scheduler():
    """The address of a cluster of two worker processes."""
    with local_cluster(n_workers=2, threads_per_worker=1) as cluster:
        yield cluster.scheduler_address


@pytest.mark.long
@pytest.mark.parametrize("name", ["tune", "sweep", "check"])
def test_commands_give_the_same_on_a_cluster(call, tuned, shards, tmp_path, name, scheduler):
    require("matplotlib", "plot")
    wanted = made_by(call, name, tuned, [shards], tmp_path / "here")
    assert made_by(call, name, tuned, [shards], tmp_path / "there", "--scheduler", scheduler) == wanted


def test_predict_on_a_cluster(call, tuned, shards, tmp_path, scheduler):
    asked = ("predict", tuned.path, shards, "--format", "csv", "--out")
    assert call(*asked, tmp_path / "here").returncode == 0
    assert call(*asked, tmp_path / "there", "--scheduler", scheduler).returncode == 0
    here, there = (
        sorted((path.name, path.read_bytes()) for path in (tmp_path / d).iterdir()) for d in ("here", "there")
    )
    assert here == there
    one = ("predict", tuned.path, shards / "part-0.npz", "--out", tmp_path / "one.csv", "--scheduler", scheduler)
    call(*one).assert_refused("Name a folder")


def test_a_scheduler_that_does_not_answer(call, tuned, shards, monkeypatch):
    require("distributed", "dask")
    monkeypatch.setattr("thermoset.cli.options._PATIENCE", "1s")
    call("check", tuned.path, shards, "--scheduler", "tcp://127.0.0.1:9").assert_refused("does not answer")


@pytest.mark.parametrize("name", ["tune", "sweep", "check"])
def test_memory_is_read_by_every_command(call, tuned, name):
    before = (tuned.path,) if name == "check" else ()
    call(name, *before, tuned.fresh, "--memory", "4").assert_refused("--memory must be from 1MiB to 1024PiB")


def test_files_to_read_are_protected_in_folders_too(call, tuned, tmp_path):
    (tmp_path / "in").mkdir()
    ts.save(tmp_path / "in" / "sweep.csv", ts.load(tuned.fresh))
    ts.save(tmp_path / "in" / "other.csv", ts.load(tuned.fresh))
    require("matplotlib", "plot")
    call("sweep", tmp_path / "in", "--out", tmp_path / "in").assert_refused("sweep.csv: is the file to read from")
