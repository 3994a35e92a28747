"""Folders of predictions: what is in them, what is refused before the work, and what becomes of a run that stopped."""

import hashlib
import json
import pickle
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

import thermoset as ts
from kinds import of_probabilities
from law import generated
from parts import require
from thermoset.errors import InputError
from thermoset.io import PREDICTION_SUFFIXES, open_predictions, predictions
from thermoset.predictor.document import write_document
from thermoset.predictor.shards import (
    JOURNAL,
    MANIFEST,
    ShardJob,
    predict_shard,
    predict_shards,
    read_manifest,
)
from thermoset.predictor.shards.folder import locked, standing
from thermoset.predictor.shards.jobs import Reading

NAMES = ("ant", "bee", "cow", "dog")
ROWS = {"day=1/part-2.npz": 40, "day=1/part-10.npy": 7, "day=2/part-0.csv": 23, "last.npz": 30}
"""Shards in the order in which they are found, and how many rows each has."""


@pytest.fixture(scope="module")
def data():
    return ts.Logits(*generated(500, 4, signal=0.5), NAMES)


@pytest.fixture(scope="module")
def predictor(data):
    return ts.TwoTemperaturePredictor(prefer="small").fit(data.take(slice(0, 400)))


@pytest.fixture
def shards(data, tmp_path):
    """A hive-style tree of 100 rows in files of several kinds and sizes."""
    folder, first = tmp_path / "in", 400
    for name, rows in ROWS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        ts.save(folder / name, ts.Logits(data.logits[first : first + rows], classes=NAMES))
        first += rows
    return folder


@pytest.fixture(params=PREDICTION_SUFFIXES)
def kind(request):
    if request.param == ".parquet":
        require("pyarrow", "io")
    return request.param.removeprefix(".")


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def stopping(after):
    """Runs some jobs here, and is then interrupted."""

    def run(predictor, jobs):
        yield from (predict_shard(predictor, job) for job in jobs[:after])
        raise KeyboardInterrupt

    return run


def stopped(predictor, shards, out, after, **options):
    with pytest.raises(KeyboardInterrupt):
        predict_shards(predictor, shards, out, kind="csv", run=stopping(after), **options)
    return out


# --- what is written ------------------------------------------------------------------------------------------------


def test_every_shard_has_its_predictions_as_if_it_were_alone(predictor, shards, tmp_path, kind):
    done = predict_shards(predictor, shards, tmp_path / "out", kind=kind)
    made = content(tmp_path / "out")
    assert list(made) == sorted([MANIFEST, *(str(Path(name).with_suffix(f".{kind}")) for name in ROWS)])
    for name in ROWS:
        alone = tmp_path / f"alone.{kind}"
        with open_predictions(alone, NAMES) as out:
            out.write(*predictor.predict_arrays(ts.load(shards / name)))
        assert made[str(Path(name).with_suffix(f".{kind}"))] == alone.read_bytes()
    assert (done.rows, done.found, len(done.shards)) == (100, 0, 4)


def test_p_values_are_written_for_every_shard_and_resumed_only_with_them(predictor, shards, tmp_path, kind):
    out = tmp_path / "out"
    predict_shards(predictor, shards, out, kind=kind, p_values=True)
    assert read_manifest(out).run.p_values
    for name in ROWS:
        rows, alone = ts.load(shards / name), tmp_path / f"alone.{kind}"
        with open_predictions(alone, NAMES, p_values=len(NAMES)) as written:
            written.write(*predictor.predict_arrays(rows), p=predictor.predict_p(rows))
        assert content(out)[str(Path(name).with_suffix(f".{kind}"))] == alone.read_bytes()
    with pytest.raises(InputError, match="setting for p-values"):
        predict_shards(predictor, shards, out, kind=kind, resume=True)
    assert predict_shards(predictor, shards, out, kind=kind, p_values=True, resume=True).found == 4
    predictor.save(tmp_path / "without.json", scores=False)
    without = ts.TwoTemperaturePredictor.load(tmp_path / "without.json")
    with pytest.raises(InputError, match="saved without the label scores"):
        predict_shards(without, shards, tmp_path / "other", kind=kind, p_values=True)


def test_the_manifest_says_what_was_made_of_what(predictor, shards, tmp_path):
    out = tmp_path / "out"
    done = predict_shards(predictor, shards, out, kind="csv")
    found = read_manifest(out)
    assert found.shards == done.shards
    assert [one.input for one in found.shards] == list(ROWS), "in natural order"
    predictor.save(tmp_path / "predictor.json")
    assert found.run.predictor == json.loads((tmp_path / "predictor.json").read_bytes())["checksum"]
    assert (found.run.version, found.run.kind, found.run.probabilities) == (ts.__version__, "csv", False)
    for one in found.shards:
        written, read = (out / one.output).read_bytes(), shards / one.input
        assert (one.bytes, one.sha256) == (len(written), hashlib.sha256(written).hexdigest())
        assert (one.source.bytes, one.source.modified_ns) == (read.stat().st_size, read.stat().st_mtime_ns)
        assert one.source.ends_sha256 == hashlib.sha256(read.read_bytes()).hexdigest(), "a short file, all of it"
        sizes = predictor.set_sizes(ts.load(read))
        assert one.rows == len(sizes) == ROWS[one.input]
        assert dict(one.sizes) == dict(zip(*np.unique(sizes, return_counts=True), strict=True))
    every = np.concatenate([predictor.set_sizes(ts.load(shards / name)) for name in ROWS])
    np.testing.assert_array_equal(done.sizes, np.bincount(every))


def test_of_a_long_file_the_fingerprint_covers_both_ends(predictor, tmp_path):
    long = tmp_path / "long.npy"
    np.save(long, np.zeros((10_000, 4)))
    done = predict_shard(predictor, ShardJob(long, tmp_path / "out.csv", "long.npy", "out.csv", Reading()))
    held = long.read_bytes()
    assert done.source.ends_sha256 == hashlib.sha256(held[: 1 << 16] + held[-(1 << 16) :]).hexdigest()


@pytest.mark.parametrize("n_rows", [1, 7, 10**6])
def test_blocks_do_not_show(predictor, shards, tmp_path, monkeypatch, kind, n_rows):
    monkeypatch.setattr(predictions, "ROW_GROUP_BYTES", 300)
    predict_shards(predictor, shards, tmp_path / "one", kind=kind)
    monkeypatch.setattr("thermoset.predictor.shards.jobs.BLOCK_BYTES", 8 * 4 * n_rows)
    predict_shards(predictor, shards, tmp_path / "two", kind=kind, memory="1MiB")
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_jobs_can_run_elsewhere_and_end_in_any_order(predictor, shards, tmp_path):
    def elsewhere(predictor, jobs):
        for job in reversed(jobs):
            yield pickle.loads(pickle.dumps(predict_shard(*pickle.loads(pickle.dumps((predictor, job))))))  # noqa: S301

    predict_shards(predictor, shards, tmp_path / "here", kind="csv")
    told = []
    predict_shards(
        predictor, shards, tmp_path / "there", kind="csv", run=elsewhere, progress=lambda *at: told.append(at)
    )
    assert content(tmp_path / "here") == content(tmp_path / "there")
    total = sum((shards / name).stat().st_size for name in ROWS)
    assert told[-1] == (total, total)
    assert told == sorted(told)


def test_progress_is_told_within_a_shard_too(predictor, tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", logits=np.zeros((100, 4)))
    monkeypatch.setattr("thermoset.predictor.shards.jobs.BLOCK_BYTES", 8 * 4 * 25)
    told = []
    predict_shards(predictor, tmp_path / "x.npz", tmp_path / "out", kind="csv", progress=lambda *at: told.append(at))
    total = (tmp_path / "x.npz").stat().st_size
    assert told == [(total * part // 4, total) for part in (1, 2, 3, 4, 4)]


def test_names_start_at_what_places_have_in_common(predictor, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.npz", "b/c/x.npz", "b/y.npz", "b/day=1/z.npz"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        ts.save(name, ts.Logits(data.logits[:5]))
    places = {
        "one folder": ("b", ["day=1/z.csv", "y.csv"]),
        "a glob": ("b/**/*.npz", ["c/x.csv", "day=1/z.csv", "y.csv"]),
        "a glob of one folder": ("b/c/*.npz", ["x.csv"]),
        "a glob of folders": ("[ab]/**/x.npz", ["a/x.csv", "b/c/x.csv"]),
        "two folders": (["a", "b"], ["a/x.csv", "b/day=1/z.csv", "b/y.csv"]),
        "two files": ([Path("a/x.npz"), tmp_path / "b" / "c" / "x.npz"], ["a/x.csv", "b/c/x.csv"]),
        "one file": ("b/y.npz", ["y.csv"]),
    }
    for name, (where, names) in places.items():
        predict_shards(predictor, where, f"out/{name}", kind="csv")
        assert list(content(Path("out") / name)) == sorted([MANIFEST, *names]), name


def test_ids_and_probabilities(predictor, data, tmp_path):
    probs = ts.calibration.probabilities(data.take(slice(0, 6)), 1.0)
    (tmp_path / "in").mkdir()
    for i in range(2):
        np.savez(tmp_path / "in" / f"{i}.npz", probs=probs[3 * i : 3 * i + 3], key=np.arange(3) + 3 * i)
    asked = {"kind": "jsonl", "probabilities": True, "id_column": "key", "u": "ids"}
    with pytest.raises(InputError, match="was fitted on logits, and these rows come from"):
        predict_shards(predictor, tmp_path / "in", tmp_path / "refused", **asked)
    predictor = of_probabilities(predictor)
    predict_shards(predictor, tmp_path / "in", tmp_path / "out", **asked)
    rows = [json.loads(line) for i in range(2) for line in (tmp_path / "out" / f"{i}.jsonl").read_text().splitlines()]
    want = predictor.predict_records(ts.Logits.from_probabilities(probs), ids=np.arange(6))
    assert [row["key"] for row in rows] == list(range(6))
    assert [tuple(row["set"]) for row in rows] == [one.set for one in want]


# --- what is resumed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(5))
def test_an_interrupted_run_is_resumed_where_it_stopped(predictor, shards, tmp_path, after):
    whole, out = tmp_path / "whole", tmp_path / "out"
    predict_shards(predictor, shards, whole, kind="csv")
    stopped(predictor, shards, out, after)
    assert standing(out) == (after, 4)
    assert not (out / MANIFEST).exists()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.csv")}
    done = predict_shards(predictor, shards, out, kind="csv", resume=True)
    assert (done.found, done.rows) == (after, 100)
    assert content(out) == content(whole)
    assert all(path.stat().st_mtime_ns == when for path, when in before.items()), (
        "finished shards are not written again"
    )
    assert standing(out) is None


def test_a_finished_folder_is_left_alone(predictor, shards, tmp_path):
    out = tmp_path / "out"
    predict_shards(predictor, shards, out, kind="csv")
    before = {path: path.stat().st_mtime_ns for path in [out, *out.rglob("*")] if path.is_file()}
    done = predict_shards(predictor, shards, out, kind="csv", resume=True, run=stopping(0))
    assert done.found == 4
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("damage", ["missing", "shorter", "another byte"])
@pytest.mark.parametrize("finished", [False, True])
def test_predictions_that_are_gone_or_damaged_are_made_again(predictor, shards, tmp_path, damage, finished):
    whole, out = tmp_path / "whole", tmp_path / "out"
    predict_shards(predictor, shards, whole, kind="csv")
    if finished:
        predict_shards(predictor, shards, out, kind="csv")
    else:
        stopped(predictor, shards, out, 2)
    bad = out / "day=1" / "part-2.csv"
    held = bad.read_bytes()
    bad.unlink()
    if damage != "missing":
        bad.write_bytes(held[:-1] if damage == "shorter" else b"L" + held[1:])
    stopped(predictor, shards, out, 0, resume=True)
    assert not (out / MANIFEST).exists(), "it would say that all is there"
    done = predict_shards(predictor, shards, out, kind="csv", resume=True)
    assert done.found == (3 if finished else 1)
    assert content(out) == content(whole)


def test_a_journal_that_is_torn_anywhere_is_read_up_to_there(predictor, shards, tmp_path):
    whole, half = tmp_path / "whole", tmp_path / "half"
    predict_shards(predictor, shards, whole, kind="csv")
    stopped(predictor, shards, half, 2)
    journal = (half / JOURNAL).read_bytes()
    ends = [i + 1 for i, byte in enumerate(journal) if byte == ord("\n")]
    assert len(ends) == 3
    cuts = sorted(
        {0, 1, *ends, *(end - 1 for end in ends), *(end + 1 for end in ends[:-1]), *range(0, len(journal), 97)}
    )
    for cut in cuts:
        out = tmp_path / "out"
        shutil.copytree(half, out)
        (out / JOURNAL).write_bytes(journal[:cut])
        if cut < ends[0]:  # then nothing was begun, and nothing can have been written
            for day in out.glob("day=*"):
                shutil.rmtree(day)
        kept = sum(cut >= end for end in ends[1:])
        done = predict_shards(predictor, shards, out, kind="csv", resume=True)
        assert done.found == kept, cut
        assert {name: held for name, held in content(out).items() if held} == content(whole), cut
        shutil.rmtree(out)


def test_rubbish_after_a_torn_line_does_not_count(predictor, shards, tmp_path):
    out = stopped(predictor, shards, tmp_path / "out", 2)
    lines = (out / JOURNAL).read_bytes().splitlines(keepends=True)
    (out / JOURNAL).write_bytes(lines[0] + b"\0" * 512 + b"\n" + lines[2])
    assert standing(out) == (0, 4)
    assert predict_shards(predictor, shards, out, kind="csv", resume=True).found == 0


def test_what_a_killed_run_has_left_is_removed(predictor, shards, tmp_path):
    whole = tmp_path / "whole"
    predict_shards(predictor, shards, whole, kind="csv")
    out = stopped(predictor, shards, tmp_path / "out", 2)
    for name in (".last.csv.0123456789abcdef.tmp", f".{MANIFEST}.0123456789abcdef.tmp", "day=2/.part-0.csv.ab.tmp"):
        (out / name).write_bytes(b"half")
    predict_shards(predictor, shards, out, kind="csv", resume=True)
    assert content(out) == content(whole)


def test_resuming_what_was_never_begun_begins(predictor, shards, tmp_path):
    assert predict_shards(predictor, shards, tmp_path / "out", kind="csv", resume=True).found == 0


# --- what is refused ------------------------------------------------------------------------------------------------


def test_a_folder_with_something_in_it_is_refused(predictor, shards, tmp_path):
    out = stopped(predictor, shards, tmp_path / "out", 2)
    before = content(out)
    with pytest.raises(
        InputError, match=r"out: contains predictions of an earlier run. Resume it, or name another folder"
    ):
        predict_shards(predictor, shards, out, kind="csv")
    predict_shards(predictor, shards, tmp_path / "done", kind="csv")
    with pytest.raises(InputError, match="done: contains predictions of an earlier run"):
        predict_shards(predictor, shards, tmp_path / "done", kind="csv")
    assert content(out) == before
    for resume in (False, True):
        with pytest.raises(InputError, match=r"in: is not empty \(it contains 'day=1'\). Name a new folder."):
            predict_shards(predictor, shards / "last.npz", shards, kind="csv", resume=resume)
    assert not (shards / JOURNAL).exists()


def differences(predictor, data, shards):
    other = ts.TwoTemperaturePredictor(prefer="small", alpha=0.2).fit(data.take(slice(0, 400)))
    few = [shards / name for name in ROWS if name != "day=2/part-0.csv"]
    more = [shards, shards / "day=2" / "more.txt"]
    return {
        "predictor": ((other, shards), {}, "a different predictor, so it cannot be resumed. Use the same"),
        "format": (
            (predictor, shards),
            {"kind": "jsonl"},
            "a different format: 'csv' then, 'jsonl'",
        ),
        "ids": ((predictor, shards), {"id_column": "key"}, "a different column of ids: None then"),
        "u": ((predictor, shards), {"id_column": "key", "u": "ids"}, "a different column of ids"),
        "classes": ((predictor, shards), {"classes": ["a", "b"]}, "a different choice of classes"),
        "ignored": ((predictor, shards), {"ignore": ["x"]}, "a different choice of columns to ignore"),
        "probabilities": (
            (predictor, shards),
            {"probabilities": True},
            "a different setting for probabilities: False then",
        ),
        "fewer": ((predictor, few), {}, "different shards, so it cannot be resumed: 'day=2/part-0.csv' is missing"),
        "more": ((predictor, more), {}, "different shards, so it cannot be resumed: 'day=2/more.txt' is new"),
    }


@pytest.mark.parametrize("which", ["predictor", "format", "ids", "probabilities", "fewer", "more"])
@pytest.mark.parametrize("finished", [False, True])
def test_another_run_cannot_be_resumed(predictor, data, shards, tmp_path, which, finished):
    (asked, options, said) = differences(predictor, data, shards)[which]
    out = tmp_path / "out"
    if finished:
        predict_shards(predictor, shards, out, kind="csv")
    else:
        stopped(predictor, shards, out, 2)
    before = content(out)
    (shards / "day=2" / "more.txt").write_text("of a kind that no folder is searched for")
    with pytest.raises(InputError, match=f"^{out}: was begun with {said}") as raised:
        predict_shards(*asked, out, **{"kind": "csv", "resume": True, **options})
    assert "\n" not in str(raised.value)
    assert content(out) == before


def test_another_version_cannot_be_resumed(predictor, shards, tmp_path, monkeypatch):
    out = stopped(predictor, shards, tmp_path / "out", 2)
    monkeypatch.setattr("thermoset.predictor.shards.running.__version__", "99.0")
    with pytest.raises(InputError, match=f"version of thermoset: '{ts.__version__}' then, '99.0' now"):
        predict_shards(predictor, shards, out, kind="csv", resume=True)


@pytest.mark.parametrize("change", ["content", "time"])
def test_logits_that_have_changed_are_named(predictor, data, shards, tmp_path, change):
    out = stopped(predictor, shards, tmp_path / "out", 2)
    first = shards / "day=1" / "part-2.npz"
    if change == "content":
        ts.save(first, ts.Logits(data.logits[:40], classes=NAMES))
    else:
        first.touch()
    with pytest.raises(
        InputError, match=f"{first}: has changed since it was predicted. Delete .*part-2.csv to predict"
    ):
        predict_shards(predictor, shards, out, kind="csv", resume=True)
    (out / "day=1" / "part-2.csv").unlink()
    assert predict_shards(predictor, shards, out, kind="csv", resume=True).found == 1


def test_logits_that_are_not_predicted_yet_may_change(predictor, data, shards, tmp_path):
    out = stopped(predictor, shards, tmp_path / "out", 2)
    ts.save(shards / "last.npz", ts.Logits(data.logits[:3], classes=NAMES))
    assert predict_shards(predictor, shards, out, kind="csv", resume=True).rows == 73


def test_logits_that_change_while_they_are_read(predictor, shards, tmp_path):
    source = shards / "last.npz"
    job = ShardJob(source, tmp_path / "out.csv", "last.npz", "out.csv", Reading())
    with pytest.raises(InputError, match=r"last\.npz: changed while it was being read"):
        predict_shard(predictor, job, lambda *_: source.touch())
    assert not job.target.exists()


def test_one_process_at_a_time(predictor, shards, tmp_path):
    out = stopped(predictor, shards, tmp_path / "out", 1)
    before = content(out)
    with (
        locked(out),
        pytest.raises(InputError, match=r"out: another process is writing predictions to this folder. Wait"),
    ):
        predict_shards(predictor, shards, out, kind="csv", resume=True)
    assert content(out) == before
    predict_shards(predictor, shards, out, kind="csv", resume=True)


def bad(name, data, shards):
    """A shard that cannot be used, made of a good one; what is said of it."""
    path, rows = shards / "last.npz", ts.load(shards / "last.npz").logits
    if name == "truncated":
        path.write_bytes(path.read_bytes()[:-300])
        return "not a readable npz archive, or a truncated one"
    if name == "empty":
        path.write_bytes(b"")
        return "the file is empty"
    made = {
        "other classes": (rows[:, :3], None, "X has 3 features, but TwoTemperaturePredictor is expecting 4"),
        "other names": (rows, ["ant", "bee", "dog", "cow"], "column 2 is 'dog' where it had 'cow'"),
        "text": (np.full((3, 4), "1.0"), None, "logits must be numbers"),
        "not a number": (rows * np.nan, None, r"logits\[0, 0\] is NaN"),
        "probabilities": (None, None, "no array called 'logits'"),
    }
    array, names, said = made[name]
    arrays = {"probs": rows} if array is None else {"logits": array}
    np.savez(path, **arrays, **({} if names is None else {"classes": np.array(names)}))
    return said


BAD = ["truncated", "empty", "other classes", "other names", "text", "not a number", "probabilities"]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_shard_is_named_before_the_first_is_predicted(predictor, data, shards, tmp_path, name):
    said = bad(name, data, shards)
    out = tmp_path / "new" / "out"
    with pytest.raises(InputError, match=f"^{shards / 'last.npz'}: .*{said}") as raised:
        predict_shards(predictor, shards, out, kind="csv")
    assert "\n" not in str(raised.value)
    assert not out.parent.exists(), "nothing is written, not even a folder"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=said):
        predict_shards(predictor, shards, tmp_path / "empty", kind="csv")
    assert list((tmp_path / "empty").iterdir()) == []


def test_shards_without_rows_are_predicted_like_others(predictor, data, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("key,logit_0,logit_1,logit_2,logit_3\n")  # no id tells that ids are numbers
    np.savez(tmp_path / "in" / "b.npz", logits=data.logits[:3], key=np.arange(3))
    done = predict_shards(predictor, tmp_path / "in", tmp_path / "out", kind="jsonl", id_column="key")
    assert [one.rows for one in done.shards] == [0, 3]
    assert (tmp_path / "out" / "a.jsonl").read_text() == ""


def test_shards_that_are_missing_or_twice_there(predictor, shards, tmp_path):
    first, none = shards / "last.npz", shards / "none.npz"
    for where, said in (
        ([first, none], f"{none}: there is no such file"),
        ([first, shards / "day=1" / ".." / "last.npz"], f"{first}: is listed twice. Name each shard once"),
        ([shards, first], f"{first}: is listed twice"),
    ):
        with pytest.raises(InputError, match=said):
            predict_shards(predictor, where, tmp_path / "out", kind="csv")
    shutil.copy(first, shards / "last.npy")
    with pytest.raises(InputError, match=r"last\.np. and .*last\.np. would both be written as last\.csv"):
        predict_shards(predictor, shards, tmp_path / "out", kind="csv")
    assert not (tmp_path / "out").exists()


def test_ids_of_two_kinds(predictor, data, tmp_path):
    (tmp_path / "in").mkdir()
    for name, ids in (("a", np.arange(3)), ("b", np.array(["x", "y", "z"]))):
        np.savez(tmp_path / "in" / f"{name}.npz", logits=data.logits[:3], key=ids)
    with pytest.raises(
        InputError, match=r"b\.npz: ids are text, but whole numbers in .*a\.npz. Use the same type for all"
    ):
        predict_shards(predictor, tmp_path / "in", tmp_path / "out", kind="csv", id_column="key")
    assert not (tmp_path / "out").exists()


def test_a_bad_row_inside_keeps_what_is_finished(predictor, shards, tmp_path):
    whole = tmp_path / "whole"
    predict_shards(predictor, shards, whole, kind="csv")
    held, path = (shards / "day=2" / "part-0.csv").read_text(), shards / "day=2" / "part-0.csv"
    path.write_text(held + "1.0,nan,2.0,3.0\n")
    out = tmp_path / "out"
    said = r"part-0\.csv: .*nan.* 2 of 4 shards are finished and kept: resume to do the rest\.$"
    with pytest.raises(InputError, match=said):
        predict_shards(predictor, shards, out, kind="csv")
    path.write_text(held)
    assert predict_shards(predictor, shards, out, kind="csv", resume=True).found == 2
    made, want = content(out), content(whole)
    del made[MANIFEST], want[MANIFEST]  # which has the time at which the shard was written again
    assert made == want


def test_what_else_is_refused(predictor, shards, tmp_path):
    with pytest.raises(InputError, match="kind must be one of parquet, csv, jsonl; got 'xlsx'"):
        predict_shards(predictor, shards, tmp_path / "out", kind="xlsx")
    with pytest.raises(InputError, match="memory must be from 1MiB"):
        predict_shards(predictor, shards, tmp_path / "out", kind="csv", memory="much")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="out cannot be created"):
        predict_shards(predictor, shards, tmp_path / "file" / "out", kind="csv")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / MANIFEST).write_text('{"run": 1}')
    with pytest.raises(InputError, match=f"^{tmp_path}/damaged/{MANIFEST}: is damaged or was edited"):
        predict_shards(predictor, shards, tmp_path / "damaged", kind="csv", resume=True)


def test_more_classes_than_multiple_choice_has_options(predictor, tmp_path):
    """A vocabulary: predictors may have many more classes than questions have answers."""
    wide = msgspec.structs.replace(predictor.document_, n_classes=110_000, classes=None, scores=None)
    write_document(tmp_path / "wide.json", wide)
    np.save(tmp_path / "x.npy", 4 * np.random.default_rng(0).normal(size=(3, 110_000)))
    wide = ts.TwoTemperaturePredictor.load(tmp_path / "wide.json")
    done = predict_shards(wide, tmp_path / "x.npy", tmp_path / "out", kind="csv")
    np.testing.assert_array_equal(done.sizes, np.bincount(wide.set_sizes(np.load(tmp_path / "x.npy"))))
