"""Folders of predictions: what is in them, what is refused before the work, and what becomes of a run that stopped."""

import csv
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
from thermoset.io.files import lock
from thermoset.predictor.document import write_document
from thermoset.predictor.many_files import (
    JOURNAL,
    MANIFEST,
    Manifest,
    Reading,
    ShardJob,
    predict_shard,
    predict_shards,
)
from thermoset.predictor.stored import Thresholds

NAMES = ("ant", "bee", "cow", "dog")
ROWS = {"day=1/part-2.npz": 40, "day=1/part-10.npy": 7, "day=2/part-0.csv": 23, "last.npz": 30}
"""Files in the order in which they are found, and how many rows each has."""
DATA = ts.Logits(*generated(500, 4, signal=0.5), NAMES)
SITES = ["north", "süd", "007", "a longer name, with a comma"]
GROUPS = [SITES[i % 4] for i in range(100)]


@pytest.fixture(scope="module")
def predictor():
    return ts.TwoTemperaturePredictor(prefer="small").fit(DATA.take(slice(0, 400)))


@pytest.fixture
def shards(tmp_path):
    """A hive-style tree of 100 rows in files of several kinds and sizes."""
    folder, first = tmp_path / "in", 400
    for name, rows in ROWS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        ts.save(folder / name, ts.Logits(DATA.logits[first : first + rows], classes=NAMES))
        first += rows
    return folder


@pytest.fixture(params=PREDICTION_SUFFIXES)
def kind(request):
    if request.param == ".parquet":
        require("pyarrow", "io")
    return request.param.removeprefix(".")


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def read_manifest(folder):
    return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)


def column(path, name):
    """One column of a file of predictions; None if there is no such column."""
    if path.suffix == ".parquet":
        table = require("pyarrow.parquet", "io").read_table(path)
        return table.column(name).to_pylist() if name in table.column_names else None
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(lines)) if path.suffix == ".csv" else [json.loads(line) for line in lines]
    return [row[name] for row in rows] if name in rows[0] else None


def stopped(predictor, shards, out, after, **options):
    """A folder in which some files are finished, by a run that was then interrupted."""

    def run(predictor, jobs):
        yield from (predict_shard(predictor, job) for job in jobs[:after])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as ended:
        predict_shards(predictor, shards, out, kind="csv", run=run, **options)
    assert f"of {len(ROWS)}" in ended.value.__notes__[0]
    return out


def job(source, target, **reading):
    return ShardJob(source, target, source.name, target.name, Reading(**reading))


# --- what is written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p_values", [False, True])
def test_every_file_has_its_predictions_as_if_it_were_alone(predictor, shards, tmp_path, kind, p_values):
    done = predict_shards(predictor, shards, tmp_path / "out", kind=kind, p_values=p_values)
    made = content(tmp_path / "out")
    assert list(made) == sorted([MANIFEST, *(str(Path(name).with_suffix(f".{kind}")) for name in ROWS)])
    for name in ROWS:
        rows, alone = ts.load(shards / name), tmp_path / f"alone.{kind}"
        with open_predictions(alone, NAMES, p_values=len(NAMES) if p_values else None) as out:
            out.write(*predictor.predict_arrays(rows)[:3], p=predictor.predict_p(rows) if p_values else None)
        assert made[str(Path(name).with_suffix(f".{kind}"))] == alone.read_bytes()
    assert (done.rows, done.found, len(done.shards)) == (100, 0, 4)


def test_the_manifest_says_what_was_made_of_what(predictor, shards, tmp_path):
    out = tmp_path / "out"
    done, found = predict_shards(predictor, shards, out, kind="csv"), read_manifest(out)
    assert found.shards == done.shards
    assert [one.input for one in found.shards] == list(ROWS), "in natural order"
    assert found.run["predictor"] == predictor._inference.identity
    assert (found.run["version"], found.run["format"], found.run["p_values"]) == (ts.__version__, "csv", False)
    every = []
    for one in found.shards:
        read = (shards / one.input).stat()
        assert one.output_bytes == (out / one.output).stat().st_size
        assert (one.input_bytes, one.input_modified_ns) == (read.st_size, read.st_mtime_ns)
        every.append(predictor.set_sizes(ts.load(shards / one.input)))
        assert one.rows == len(every[-1]) == ROWS[one.input]
        assert dict(one.sizes) == dict(zip(*np.unique(every[-1], return_counts=True), strict=True))
    np.testing.assert_array_equal(done.sizes, np.bincount(np.concatenate(every)))


@pytest.mark.parametrize("n_rows", [1, 7, 10**6])
def test_blocks_do_not_show(predictor, shards, tmp_path, monkeypatch, kind, n_rows):
    monkeypatch.setattr(predictions, "ROW_GROUP_BYTES", 300)
    predict_shards(predictor, shards, tmp_path / "one", kind=kind)
    monkeypatch.setattr("thermoset.predictor.many_files.BLOCK_BYTES", 8 * 4 * n_rows)
    predict_shards(predictor, shards, tmp_path / "two", kind=kind, memory="1MiB")
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_jobs_can_run_elsewhere_and_end_in_any_order(predictor, shards, tmp_path):
    def elsewhere(predictor, jobs):
        for job in reversed(jobs):
            yield pickle.loads(pickle.dumps(predict_shard(*pickle.loads(pickle.dumps((predictor, job))))))  # noqa: S301

    told = []
    asked = {"kind": "csv", "progress": lambda *at: told.append(at)}
    predict_shards(predictor, shards, tmp_path / "there", run=elsewhere, **asked)
    total = sum((shards / name).stat().st_size for name in ROWS)
    assert told == sorted(told)
    assert told[-1] == (total, total)
    predict_shards(predictor, shards, tmp_path / "here", kind="csv")
    assert content(tmp_path / "here") == content(tmp_path / "there")


def test_progress_is_told_within_a_file_too(predictor, tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", logits=np.zeros((100, 4)))
    monkeypatch.setattr("thermoset.predictor.many_files.BLOCK_BYTES", 8 * 4 * 25)
    told = []
    predict_shards(predictor, tmp_path / "x.npz", tmp_path / "out", kind="csv", progress=lambda *at: told.append(at))
    total = (tmp_path / "x.npz").stat().st_size
    assert told == [(total * part // 4, total) for part in (1, 2, 3, 4, 4)]


def test_names_start_at_what_places_have_in_common(predictor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/x.npz", "b/c/x.npz", "b/y.npz", "b/day=1/z.npz"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        ts.save(name, ts.Logits(DATA.logits[:5]))
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


def test_ids_and_probabilities(predictor, tmp_path):
    probs = ts.calibration.probabilities(DATA.take(slice(0, 6)), 1.0)
    (tmp_path / "in").mkdir()
    for i in range(2):
        np.savez(tmp_path / "in" / f"{i}.npz", probs=probs[3 * i : 3 * i + 3], key=np.arange(3) + 3 * i)
    asked = {"kind": "jsonl", "probabilities": True, "id_column": "key", "u": "ids"}
    with pytest.raises(InputError, match="fitted on logits"):
        predict_shards(predictor, tmp_path / "in", tmp_path / "refused", **asked)
    assert not (tmp_path / "refused").exists()
    predictor = of_probabilities(predictor)
    predict_shards(predictor, tmp_path / "in", tmp_path / "out", **asked)
    rows = [json.loads(line) for i in range(2) for line in (tmp_path / "out" / f"{i}.jsonl").read_text().splitlines()]
    want = predictor.predict_records(ts.Logits.from_probabilities(probs), ids=np.arange(6))
    assert [row["key"] for row in rows] == list(range(6))
    assert [tuple(row["set"]) for row in rows] == [one.set for one in want]


def test_more_classes_than_multiple_choice_has_options(predictor, tmp_path):
    """A vocabulary: predictors may have many more classes than questions have answers."""
    thresholds = Thresholds.of(predictor._inference.thresholds)
    wide = predictor.document_.change(n_classes=110_000, classes=None, scores=None, thresholds=thresholds, shares=None)
    write_document(tmp_path / "wide.json", wide)
    np.save(tmp_path / "x.npy", 4 * np.random.default_rng(0).normal(size=(3, 110_000)))
    wide = ts.TwoTemperaturePredictor.load(tmp_path / "wide.json")
    done = predict_shards(wide, tmp_path / "x.npy", tmp_path / "out", kind="csv")
    np.testing.assert_array_equal(done.sizes, np.bincount(wide.set_sizes(np.load(tmp_path / "x.npy"))))


# --- groups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [".npz", ".npy", ".csv", "top.npz"])
def test_every_format_has_the_group_of_each_row(predictor, tmp_path, monkeypatch, given, kind):
    source, rows = tmp_path / f"new{given}", ts.Logits(DATA.logits[:100], classes=NAMES, groups=GROUPS)
    ts.save(source, ts.compact(rows, top=4) if given == "top.npz" else rows)
    written, answers, seen = set(), ts.TwoTemperaturePredictor.predict_arrays, []
    monkeypatch.setattr(
        ts.TwoTemperaturePredictor,
        "predict_arrays",
        lambda self, some, **own: (seen.extend(some.groups), answers(self, some, **own))[1],
    )
    for n_rows in (1, 7, 100):
        target = tmp_path / f"{n_rows}.{kind}"
        monkeypatch.setattr("thermoset.predictor.many_files.BLOCK_BYTES", 8 * 4 * n_rows)
        predict_shard(predictor, job(source, target))
        assert column(target, "group") == GROUPS
        written.add(target.read_bytes())
    assert len(written) == 1, "blocks do not show"
    assert seen == 3 * GROUPS, "and go to the predictor"


def test_ids_come_first_and_without_groups_there_is_no_column(predictor, tmp_path, kind):
    np.savez(tmp_path / "new.npz", logits=DATA.logits[:100], site=GROUPS, id=np.arange(100))
    plain, target = tmp_path / f"plain.{kind}", tmp_path / f"sets.{kind}"
    predict_shard(predictor, job(tmp_path / "new.npz", plain))
    assert column(plain, "group") is None
    predict_shard(predictor, job(tmp_path / "new.npz", target, id_column="id", groups="site"))
    assert column(target, "group") == GROUPS
    assert [int(one) for one in column(target, "id")] == list(range(100))
    assert kind != "csv" or target.read_text(encoding="utf-8").startswith("id,group,label,confidence,size,set\n")


def test_groups_come_from_folders_and_files_beside(predictor, tmp_path, kind):
    ends = [0, 1, 40, 41, 100]
    for i in range(4):
        for site in ("n", "s"):
            (tmp_path / "in" / f"site={site}").mkdir(parents=True, exist_ok=True)
            rows = slice(ends[i], ends[i + 1])
            ts.save(tmp_path / "in" / f"site={site}" / f"part-{i}.npy", ts.Logits(DATA.logits[rows] + ord(site)))
    predict_shards(predictor, tmp_path / "in", tmp_path / "out", kind=kind, groups="site")
    for site in ("n", "s"):
        found = [column(tmp_path / "out" / f"site={site}" / f"part-{i}.{kind}", "group") for i in range(4)]
        assert found == [[site] * (ends[i + 1] - ends[i]) for i in range(4)]
    (tmp_path / "beside").mkdir()
    np.save(tmp_path / "beside" / "part.npy", DATA.logits[:100])
    np.save(tmp_path / "beside" / "part_site.npy", GROUPS)
    predict_shards(predictor, tmp_path / "beside", tmp_path / "other", kind=kind, groups="site")
    assert column(tmp_path / "other" / f"part.{kind}", "group") == GROUPS


def test_a_writer_takes_groups_if_it_was_opened_for_them(tmp_path, kind):
    rows, path = ([1], [0.5], [[False, True]]), tmp_path / f"sets.{kind}"
    for opened, groups in ((True, None), (False, ["a"]), (True, ["a", "b"])):
        with pytest.raises(InputError, match="groups"), open_predictions(path, groups=opened) as out:
            out.write(*rows, groups=groups)
    with open_predictions(path, groups=True) as out:
        for group in ("a", "a longer one", "b"):
            out.write(*rows, groups=[group])
    assert column(path, "group") == ["a", "a longer one", "b"]


# --- what is resumed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", range(5))
def test_an_interrupted_run_is_resumed_where_it_stopped(predictor, shards, tmp_path, after):
    whole, out = tmp_path / "whole", stopped(predictor, shards, tmp_path / "out", after)
    predict_shards(predictor, shards, whole, kind="csv")
    assert set(content(out)) == {JOURNAL, *(str(Path(name).with_suffix(".csv")) for name in list(ROWS)[:after])}
    for name in (".last.csv.0123456789abcdef.tmp", "day=2/.part-0.csv.ab.tmp"):
        (out / name).write_bytes(b"half, of a run that was killed")
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.csv")}
    done = predict_shards(predictor, shards, out, kind="csv", resume=True)
    assert (done.found, done.rows) == (after, 100)
    assert content(out) == content(whole)
    assert {path: path.stat().st_mtime_ns for path in before} == before, "finished files are not written again"


@pytest.mark.parametrize("damage", ["missing", "shorter", "other logits", "touched logits", "manifest"])
@pytest.mark.parametrize("finished", [False, True])
def test_what_is_gone_damaged_or_out_of_date_is_made_again(predictor, shards, tmp_path, damage, finished):
    out, bad, source = tmp_path / "out", tmp_path / "out" / "day=1" / "part-2.csv", shards / "day=1" / "part-2.npz"
    stopped(predictor, shards, out, 2)
    if finished:
        predict_shards(predictor, shards, out, kind="csv", resume=True)
    if damage == "missing":
        bad.unlink()
    elif damage == "shorter":
        bad.write_bytes(bad.read_bytes()[:-1])
    elif damage == "other logits":
        ts.save(source, ts.Logits(DATA.logits[:39], classes=NAMES))
    elif damage == "touched logits":
        source.touch()
    else:
        (out / (MANIFEST if finished else JOURNAL)).write_text('{"run": 1}')
    stopped(predictor, shards, out, 0, resume=True)
    assert not (out / MANIFEST).exists(), "it would say that all is there"
    done = predict_shards(predictor, shards, out, kind="csv", resume=True)
    assert done.found == (0 if damage == "manifest" else 3 if finished else 1)
    predict_shards(predictor, shards, tmp_path / "whole", kind="csv")
    assert content(out) == content(tmp_path / "whole")


@pytest.mark.parametrize("size", [-1, 2**53, 2**63 - 1])
def test_a_manifest_with_sizes_that_cannot_be_is_not_believed(predictor, shards, tmp_path, size):
    out = tmp_path / "out"
    whole = predict_shards(predictor, shards, out, kind="csv")
    manifest = json.loads((out / MANIFEST).read_text())
    manifest["shards"][0]["sizes"][0][0] = size
    (out / MANIFEST).write_text(json.dumps(manifest))
    done = predict_shards(predictor, shards, out, kind="csv", resume=True)
    assert done.found == 0
    assert done.sizes.tolist() == whole.sizes.tolist()


def test_a_journal_that_is_torn_anywhere_keeps_its_whole_lines(predictor, shards, tmp_path):
    whole, half = tmp_path / "whole", stopped(predictor, shards, tmp_path / "half", 2)
    predict_shards(predictor, shards, whole, kind="csv")
    journal = (half / JOURNAL).read_bytes()
    ends = [i for i, byte in enumerate(journal + b"\n") if byte == ord("\n")][1:]  # what was begun, two finished files
    near = {end + step for end in ends for step in (-1, 0, 1)}
    for cut in sorted(near.union(range(0, len(journal), 97)) & set(range(len(journal) + 1))):
        out = tmp_path / "out"
        shutil.copytree(half, out)
        (out / JOURNAL).write_bytes(journal[:cut])
        stopped(predictor, shards, out, 1, resume=True)
        done = predict_shards(predictor, shards, out, kind="csv", resume=True)
        assert done.found == sum(cut >= end for end in ends[1:]) + 1, cut
        assert content(out) == content(whole), cut
        shutil.rmtree(out)
    (half / JOURNAL).write_bytes(journal[: ends[0]] + b"\0" * 512 + journal[ends[1] :])  # after a power cut
    assert predict_shards(predictor, shards, half, kind="csv", resume=True).found == 1


def test_new_files_are_predicted_by_a_resumed_run(predictor, shards, tmp_path):
    """A finished folder is left alone, and one that was not begun begins."""
    out = tmp_path / "out"
    assert predict_shards(predictor, shards, out, kind="csv", resume=True).found == 0
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert predict_shards(predictor, shards, out, kind="csv", resume=True).found == 4
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    ts.save(shards / "day=1" / "part-1.npz", ts.Logits(DATA.logits[:3], classes=NAMES))
    done = predict_shards(predictor, shards, out, kind="csv", resume=True)
    assert (done.found, done.rows, done.shards[0].input) == (4, 103, "day=1/part-1.npz")
    predict_shards(predictor, shards, tmp_path / "whole", kind="csv")
    assert content(out) == content(tmp_path / "whole")


# --- what is refused ------------------------------------------------------------------------------------------------


def test_a_folder_with_something_in_it_is_refused(predictor, shards, tmp_path):
    out = stopped(predictor, shards, tmp_path / "out", 2)
    predict_shards(predictor, shards, tmp_path / "done", kind="csv")
    for folder in (out, tmp_path / "done"):
        before = content(folder)
        with pytest.raises(InputError, match="earlier run"):
            predict_shards(predictor, shards, folder, kind="csv")
        assert content(folder) == before
    before = content(out)
    with lock(out / JOURNAL, ""), pytest.raises(InputError, match="another process"):
        predict_shards(predictor, shards, out, kind="csv", resume=True)
    assert content(out) == before
    for resume in (False, True):
        with pytest.raises(InputError, match="not empty"):
            predict_shards(predictor, shards / "last.npz", shards, kind="csv", resume=resume)
    assert not (shards / JOURNAL).exists()


OTHER = {
    "format": {"kind": "jsonl"},
    "id column": {"id_column": "key"},
    "classes": {"classes": ["a", "b"]},
    "ignore": {"ignore": ["x"]},
    "probabilities": {"probabilities": True},
    "p values": {"p_values": True},
    "weights": {"weights": "w"},
    "groups": {"groups": "site"},
    "missing": {},
    "predictor": {},
    "version": {},
}


@pytest.mark.parametrize("which", OTHER)
@pytest.mark.parametrize("finished", [False, True])
def test_another_run_cannot_be_resumed(predictor, shards, tmp_path, monkeypatch, which, finished):
    out = stopped(predictor, shards, tmp_path / "out", 3)
    if finished:
        predict_shards(predictor, shards, out, kind="csv", resume=True)
    if which == "missing":
        (shards / "day=2" / "part-0.csv").unlink()
    if which == "version":
        monkeypatch.setattr("thermoset.predictor.many_files.__version__", "99.0")
    if which == "predictor":
        predictor = ts.TwoTemperaturePredictor(prefer="small", alpha=0.2).fit(DATA.take(slice(0, 400)))
    before = content(out)
    with pytest.raises(InputError, match=which) as raised:
        predict_shards(predictor, shards, out, **{"kind": "csv", "resume": True, **OTHER[which]})
    assert "\n" not in str(raised.value)
    assert content(out) == before


def test_logits_that_change_while_they_are_read(predictor, shards, tmp_path):
    source, target = shards / "last.npz", tmp_path / "out.csv"
    with pytest.raises(InputError, match="changed"):
        predict_shard(predictor, job(source, target), lambda *_: source.touch())
    assert not target.exists()


def bad(name, path):
    """Make a file that cannot be used of a good one; a word of what is said of it."""
    rows = ts.load(path).logits
    if name == "truncated":
        path.write_bytes(path.read_bytes()[:-300])
        return name
    arrays, said = {
        "other classes": ({"logits": rows[:, :3]}, "3 features"),
        "other names": ({"logits": rows, "classes": np.array(["ant", "bee", "dog", "fly"])}, "'dog'"),
        "text": ({"logits": np.full((3, 4), "1.0")}, "numbers"),
        "not a number": ({"logits": rows * np.nan}, "NaN"),
        "groups": ({"logits": rows, "groups": ["a"] * len(rows)}, "groups"),
    }[name]
    np.savez(path, **arrays)
    return said


@pytest.mark.parametrize("name", ["truncated", "other classes", "other names", "text", "not a number", "groups"])
def test_a_bad_file_is_named_before_the_first_is_predicted(predictor, shards, tmp_path, name):
    said = bad(name, shards / "last.npz")
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new" / "out", tmp_path / "empty"):
        with pytest.raises(InputError, match=f"^{shards / 'last.npz'}: .*{said}") as raised:
            predict_shards(predictor, shards, out, kind="csv")
        assert "\n" not in str(raised.value)
    assert not (tmp_path / "new").exists(), "nothing is written, not even a folder"
    assert list((tmp_path / "empty").iterdir()) == []


def test_files_without_rows_are_predicted_like_others_and_ids_of_two_kinds_are_refused(predictor, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("key,logit_0,logit_1,logit_2,logit_3\n")  # no id tells that ids are numbers
    np.savez(tmp_path / "in" / "b.npz", logits=DATA.logits[:3], key=np.arange(3))
    done = predict_shards(predictor, tmp_path / "in", tmp_path / "out", kind="jsonl", id_column="key")
    assert [one.rows for one in done.shards] == [0, 3]
    assert (tmp_path / "out" / "a.jsonl").read_text() == ""
    np.savez(tmp_path / "in" / "c.npz", logits=DATA.logits[:3], key=["x", "y", "z"])
    with pytest.raises(InputError, match=r"c\.npz.* ids"):
        predict_shards(predictor, tmp_path / "in", tmp_path / "other", kind="csv", id_column="key")
    assert not (tmp_path / "other").exists()


def test_files_that_are_missing_or_twice_there(predictor, shards, tmp_path):
    first, none = shards / "last.npz", shards / "none.npz"
    shutil.copy(first, shards / "day=2" / "part-0.npz")
    for where, said in (
        ([first, none], "no such file"),
        ([first, shards / "day=1" / ".." / "last.npz"], "both"),
        ([shards, first], "both"),
        (shards, r"part-0\.csv and .*part-0\.npz|part-0\.npz and .*part-0\.csv"),
    ):
        with pytest.raises(InputError, match=said):
            predict_shards(predictor, where, tmp_path / "out", kind="csv")
    assert not (tmp_path / "out").exists()


def test_a_bad_row_inside_keeps_what_is_finished(predictor, shards, tmp_path):
    path, out = shards / "day=2" / "part-0.csv", tmp_path / "out"
    held = path.read_text()
    path.write_text(held + "1.0,nan,2.0,3.0\n")
    with pytest.raises(InputError, match=r"part-0\.csv: .*NaN.* 2 of 4 "):
        predict_shards(predictor, shards, out, kind="csv")
    path.write_text(held)
    assert predict_shards(predictor, shards, out, kind="csv", resume=True).found == 2
    predict_shards(predictor, shards, tmp_path / "whole", kind="csv")
    assert content(out) == content(tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "said"), [({"kind": "xlsx"}, "kind"), ({"memory": "much"}, "memory"), ({"u": "ids"}, "id_column")]
)
def test_what_else_is_refused(predictor, shards, tmp_path, options, said):
    with pytest.raises(InputError, match=said):
        predict_shards(predictor, shards, tmp_path / "out", **{"kind": "csv", **options})
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="created"):
        predict_shards(predictor, shards, tmp_path / "file" / "out", kind="csv")
    predictor.save(tmp_path / "without.json", scores=False)
    without = ts.TwoTemperaturePredictor.load(tmp_path / "without.json")
    with pytest.raises(InputError, match="scores"):
        predict_shards(without, shards, tmp_path / "out", kind="csv", p_values=True)
    assert not (tmp_path / "out").exists()
