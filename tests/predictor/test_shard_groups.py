"""Groups from files of logits to files of predictions: a column of each kind of file, whatever blocks rows come in."""

import csv
import json

import numpy as np
import pytest

import thermoset as ts
from law import generated
from parts import require
from thermoset.errors import InputError
from thermoset.io import PREDICTION_SUFFIXES, open_predictions
from thermoset.predictor.shards import predict_shard, predict_shards, read_manifest
from thermoset.predictor.shards.jobs import Reading, ShardJob

SITES = ["north", "süd", "007", "a longer name, with a comma"]
LOGITS, LABELS = generated(300, 4, signal=0.5)
GROUPS = [SITES[i % 4] for i in range(100)]


@pytest.fixture(scope="module")
def predictor():
    return ts.TwoTemperaturePredictor(prefer="small").fit(LOGITS[100:], LABELS[100:])


@pytest.fixture(params=PREDICTION_SUFFIXES)
def kind(request):
    if request.param == ".parquet":
        require("pyarrow", "io")
    return request.param.removeprefix(".")


def column(path, name):
    """One column of a file of predictions; None if there is no such column."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as held:
            return held[name].tolist() if name in held else None
    if path.suffix == ".parquet":
        table = require("pyarrow.parquet", "io").read_table(path)
        return table.column(name).to_pylist() if name in table.column_names else None
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(lines)) if path.suffix == ".csv" else [json.loads(line) for line in lines]
    return [row[name] for row in rows] if name in rows[0] else None


def job(source, target, **reading):
    return ShardJob(source, target, source.name, target.name, Reading(**reading))


@pytest.mark.parametrize("given", [".npz", ".npy", ".csv", ".jsonl", ".parquet"])
def test_every_format_has_the_group_of_each_row(predictor, tmp_path, given, kind):
    if given == ".parquet":
        require("pyarrow", "io")
    source, rows = tmp_path / f"new{given}", ts.Logits(LOGITS[:100], groups=GROUPS)
    if given == ".jsonl":
        pairs = zip(rows.logits.tolist(), GROUPS, strict=True)
        source.write_text("\n".join(json.dumps({"logits": one, "groups": group}) for one, group in pairs))
    else:
        ts.save(source, rows)
    written = set()
    for n_rows in (1, 7, 100):
        target = tmp_path / f"{n_rows}.{kind}"
        predict_shard(predictor, job(source, target, block_bytes=8 * 4 * n_rows))
        assert column(target, "group") == GROUPS
        assert column(target, "size") is not None
        written.add(target.read_bytes())
    assert len(written) == 1, "blocks do not show"


def test_without_groups_there_is_no_column(predictor, tmp_path, kind):
    ts.save(tmp_path / "new.npz", ts.Logits(LOGITS[:100]))
    predict_shard(predictor, job(tmp_path / "new.npz", tmp_path / f"sets.{kind}"))
    assert column(tmp_path / f"sets.{kind}", "group") is None


def test_ids_come_first(predictor, tmp_path, kind):
    np.savez(tmp_path / "new.npz", logits=LOGITS[:100], site=GROUPS, id=np.arange(100))
    target = tmp_path / f"sets.{kind}"
    predict_shard(predictor, job(tmp_path / "new.npz", target, id_column="id", groups="site"))
    assert column(target, "group") == GROUPS
    assert [int(one) for one in column(target, "id")] == list(range(100))
    if kind == "csv":
        assert target.read_text(encoding="utf-8").splitlines()[0] == "id,group,label,confidence,size,set"


def test_compact_rows(predictor, tmp_path, kind):
    rows = ts.compact(ts.Logits(LOGITS[:100], groups=GROUPS), top=4)
    ts.save(tmp_path / "top.npz", rows)
    predict_shard(predictor, job(tmp_path / "top.npz", tmp_path / f"sets.{kind}", block_bytes=8 * 4 * 9))
    assert column(tmp_path / f"sets.{kind}", "group") == GROUPS


def test_folders_of_shards(predictor, tmp_path, kind):
    ends = [0, 1, 40, 41, 100]
    for i in range(4):
        for site in ("n", "s"):
            (tmp_path / "in" / f"site={site}").mkdir(parents=True, exist_ok=True)
            rows = slice(ends[i], ends[i + 1])
            ts.save(tmp_path / "in" / f"site={site}" / f"part-{i}.npy", ts.Logits(LOGITS[rows] + ord(site)))
    predict_shards(predictor, tmp_path / "in", tmp_path / "out", kind=kind, groups="site")
    assert read_manifest(tmp_path / "out").run.groups == "site"
    for site in ("n", "s"):
        found = [column(tmp_path / "out" / f"site={site}" / f"part-{i}.{kind}", "group") for i in range(4)]
        assert found == [[site] * (ends[i + 1] - ends[i]) for i in range(4)]
    with pytest.raises(InputError, match="was begun with a different column of groups"):
        predict_shards(predictor, tmp_path / "in", tmp_path / "out", kind=kind, resume=True)


def test_npy_files_of_groups_are_no_shards(predictor, tmp_path):
    (tmp_path / "in").mkdir()
    for i in range(2):
        np.save(tmp_path / "in" / f"part-{i}.npy", LOGITS[50 * i : 50 * i + 50])
        np.save(tmp_path / "in" / f"part-{i}_site.npy", GROUPS[50 * i : 50 * i + 50])
    predict_shards(predictor, tmp_path / "in", tmp_path / "out", kind="csv", groups="site")
    assert [column(tmp_path / "out" / f"part-{i}.csv", "group") for i in range(2)] == [GROUPS[:50], GROUPS[50:]]


def test_all_shards_have_groups_or_none(predictor, tmp_path):
    (tmp_path / "in").mkdir()
    ts.save(tmp_path / "in" / "a.npz", ts.Logits(LOGITS[:9], groups=GROUPS[:9]))
    ts.save(tmp_path / "in" / "b.npz", ts.Logits(LOGITS[9:20]))
    with pytest.raises(InputError, match=r"b.npz: has no groups, unlike .*a.npz"):
        predict_shards(predictor, tmp_path / "in", tmp_path / "out", kind="csv")
    assert not (tmp_path / "out").exists()


def test_groups_go_to_the_predictor(predictor, tmp_path, monkeypatch):
    seen = []
    answers = ts.TwoTemperaturePredictor.predict_arrays

    def watched(self, logits, **options):
        seen.extend(logits.groups)
        return answers(self, logits, **options)

    monkeypatch.setattr(ts.TwoTemperaturePredictor, "predict_arrays", watched)
    ts.save(tmp_path / "new.npz", ts.Logits(LOGITS[:100], groups=GROUPS))
    predict_shard(predictor, job(tmp_path / "new.npz", tmp_path / "sets.csv", block_bytes=8 * 4 * 30))
    assert seen == GROUPS


def test_a_writer_takes_groups_if_it_was_opened_for_them(tmp_path, kind):
    rows = [1], [0.5], [[False, True]]
    with (
        pytest.raises(InputError, match="groups must be given if the file was opened for them, and only then"),
        open_predictions(tmp_path / f"sets.{kind}", groups=True) as out,
    ):
        out.write(*rows)
    with (
        pytest.raises(InputError, match="groups must be given if the file was opened for them, and only then"),
        open_predictions(tmp_path / f"sets.{kind}") as out,
    ):
        out.write(*rows, groups=["a"])
    with (
        pytest.raises(InputError, match=r"groups must have shape \(1,\)"),
        open_predictions(tmp_path / f"sets.{kind}", groups=True) as out,
    ):
        out.write(*rows, groups=["a", "b"])
    with open_predictions(tmp_path / f"sets.{kind}", groups=True) as out:
        for group in ("a", "a longer one", "b"):
            out.write(*rows, groups=[group])
    assert column(tmp_path / f"sets.{kind}", "group") == ["a", "a longer one", "b"]
