"""Ids: u comes from the seed and the id alone, through classifier, predictor and files."""

import csv
import json

import numpy as np
import pytest

import thermoset as ts
from law import generated, z_over_splits
from parts import require
from thermoset import ConformalClassifier
from thermoset.errors import FileFormatError, InputError
from thermoset.io import open_blocks, open_predictions

LOGITS, LABELS = generated(800, 6, signal=0.2)
IDS = [f"row {i}" for i in range(800)]
FITTED = ConformalClassifier("aps", 0.1).fit(LOGITS[:400], LABELS[:400], ids=IDS[:400])
FRESH, FRESH_IDS = LOGITS[400:], IDS[400:]
SETS = FITTED.predict_set(FRESH, ids=FRESH_IDS)


def test_a_row_keeps_its_set_in_any_batch_and_at_any_last_bits():
    noisy = FRESH * (1 + 1e-13 * np.random.default_rng(0).normal(size=FRESH.shape))
    assert (noisy != FRESH).any()
    np.testing.assert_array_equal(FITTED.predict_set(noisy, ids=FRESH_IDS), SETS)
    order = np.random.default_rng(1).permutation(400)
    np.testing.assert_array_equal(FITTED.predict_set(FRESH[order], ids=[FRESH_IDS[i] for i in order]), SETS[order])
    alone = [FITTED.predict_set(FRESH[i : i + 1], ids=FRESH_IDS[i : i + 1])[0] for i in range(20)]
    np.testing.assert_array_equal(alone, SETS[:20])
    np.testing.assert_array_equal(FITTED.set_sizes(FRESH, ids=FRESH_IDS), SETS.sum(axis=1))
    np.testing.assert_array_equal(FITTED.predict_sets(FRESH, [0.1], ids=FRESH_IDS)[0], SETS)


def test_other_ids_and_other_seeds_give_other_sets():
    assert (FITTED.predict_set(FRESH, ids=[f"other {i}" for i in range(400)]) != SETS).any()
    assert (FITTED.predict_set(FRESH) != SETS).any()
    other = ConformalClassifier("aps", 0.1, random_state=1).fit(LOGITS[:400], LABELS[:400], ids=IDS[:400])
    assert other.threshold_ != FITTED.threshold_


def test_the_same_id_gives_the_same_u():
    # the same logits under one id have one set; under many ids, sets of both sizes
    rows = np.tile(np.log([0.6, 0.1, 0.1, 0.1, 0.05, 0.05]), (400, 1))
    assert len(np.unique(FITTED.predict_set(rows, ids=["a"] * 400), axis=0)) == 1
    assert len(np.unique(FITTED.predict_set(rows, ids=range(400)), axis=0)) == 2


@pytest.mark.parametrize("collect", [np.array, list, tuple, lambda ids: np.array(ids, dtype=object)])
def test_numbers_and_their_text_are_the_same_id(collect):
    numbers = FITTED.predict_set(FRESH, ids=collect(list(range(400))))
    np.testing.assert_array_equal(FITTED.predict_set(FRESH, ids=collect([str(i) for i in range(400)])), numbers)


@pytest.mark.scaled
def test_the_law_holds_with_ids():
    number = {row.tobytes(): i for i, row in enumerate(LOGITS)}

    def predict(conformal, own, fresh):
        ids = [[number[row.tobytes()] for row in part] for part in (conformal, fresh)]
        model = ConformalClassifier("aps", temperature=0.3).fit(conformal, own, ids=ids[0])
        return model.predict_set(fresh, ids=ids[1])

    assert abs(z_over_splits(predict, LOGITS, LABELS, alpha="0.1", n_conformal=200, n_evaluation=400)) < 5


@pytest.mark.parametrize(
    ("ids", "because"),
    [
        (IDS[:3], "there must be 400 ids, one per row; got 3"),
        ("abc", "ids must be 400 whole numbers or strings"),
        (7, "ids must be 400 whole numbers or strings"),
        ([*FRESH_IDS[:399], None], r"ids\[399\] is None"),
        ([1.5, *FRESH_IDS[1:]], r"ids\[0\] is 1\.5"),
        ([True, *FRESH_IDS[1:]], r"ids\[0\] is True"),
        (np.zeros((400, 2), dtype=int), r"ids\[0\] is \[0, 0\]"),
    ],
)
def test_bad_ids_are_refused_in_one_line(ids, because):
    with pytest.raises(InputError, match=because):
        FITTED.predict_set(FRESH, ids=ids)
    with pytest.raises(InputError, match=because):
        ConformalClassifier("aps").fit(FRESH, LABELS[400:], ids=ids)


def test_u_and_ids_exclude_each_other():
    with pytest.raises(InputError, match="u and ids cannot both be given"):
        FITTED.predict_set(FRESH, u=np.ones(400), ids=FRESH_IDS)


@pytest.fixture(scope="module")
def predictor():
    return ts.TwoTemperaturePredictor("aps", prefer="small").fit(LOGITS[:400], LABELS[:400], ids=IDS[:400])


def test_a_predictor_takes_ids(predictor, tmp_path):
    data = ts.Logits(LOGITS[:400], LABELS[:400])
    rows = ts.data.split_indices(400, 0.5, random_state=0)[1]
    plain = ConformalClassifier("aps", 0.1, predictor.temperature_sets_)
    plain.fit(data.take(rows), ids=[IDS[i] for i in rows])
    assert plain.threshold_ == predictor.threshold_
    sets = predictor.predict_set(FRESH, ids=FRESH_IDS)
    np.testing.assert_array_equal(sets, plain.predict_set(FRESH, ids=FRESH_IDS))
    assert (sets != predictor.predict_set(FRESH)).any()
    np.testing.assert_array_equal(predictor.predict_arrays(FRESH, ids=FRESH_IDS).sets, sets)
    np.testing.assert_array_equal(predictor.set_sizes(FRESH, ids=FRESH_IDS), sets.sum(axis=1))
    records = predictor.predict_records(FRESH, ids=FRESH_IDS)
    assert [len(record.set) for record in records] == sets.sum(axis=1).tolist()
    predictor.save(tmp_path / "predictor.json")
    again = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    np.testing.assert_array_equal(again.predict_set(FRESH, ids=FRESH_IDS), sets)
    again.recalibrate(data.take(rows), ids=[IDS[i] for i in rows])
    assert again.threshold_ == predictor.threshold_
    with pytest.raises(InputError, match="there must be 400 ids, one per row"):
        ts.TwoTemperaturePredictor("aps").fit(data, ids=IDS)


def write_rows(path, ids):
    """The fresh rows with a column `key` of ids in the middle."""
    if path.suffix == ".npz":
        np.savez(path, logits=FRESH, key=np.array(ids))
    elif path.suffix == ".parquet":
        arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
        columns = {f"c{i}": FRESH[:, i] for i in range(6)}
        parquet.write_table(arrow.table({"c0": columns.pop("c0"), "key": ids, **columns}), path, row_group_size=150)
    else:
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["c0", "key", *(f"c{i}" for i in range(1, 6))])
            writer.writerows([row[0], one, *row[1:]] for row, one in zip(FRESH.tolist(), ids, strict=True))


def read_ids(path, name="key"):
    if path.suffix == ".npz":
        with np.load(path) as held:
            return held[name].tolist()
    if path.suffix == ".parquet":
        return require("pyarrow.parquet", "io").read_table(path).column(name).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line)[name] for line in path.read_text(encoding="utf-8").splitlines()]
    with path.open(newline="", encoding="utf-8") as stream:
        return [row[name] for row in csv.DictReader(stream)]


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
@pytest.mark.parametrize("ids", [FRESH_IDS, list(range(7, 407)), ["twice"] * 400], ids=["text", "numbers", "repeated"])
def test_ids_of_a_file_come_with_its_blocks(suffix, ids, tmp_path):
    path = tmp_path / f"rows{suffix}"
    write_rows(path, ids)
    with open_blocks(path, id_column="key", block_bytes=6 * 8 * 64) as blocks:
        assert blocks.n_classes == 6
        assert blocks.id_kind == ("number" if ids[0] == 7 and suffix != ".csv" else "text")
        parts = list(blocks.with_ids())
    assert len(parts) > 1
    assert [str(one) for _, some in parts for one in some] == [str(one) for one in ids]
    np.testing.assert_array_equal(np.concatenate([block.logits for block, _ in parts]), FRESH)


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
def test_ids_that_cannot_be_read_are_named(suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    write_rows(path, FRESH_IDS)
    with pytest.raises(FileFormatError, match="there is no 'no' in the file"), open_blocks(path, id_column="no"):
        pass
    with open_blocks(path, id_column="key") as blocks:
        next(iter(blocks))
    if suffix != ".npz":  # unless it is named, an id is no logit
        with pytest.raises(FileFormatError, match="column 'key'"), open_blocks(path) as blocks:
            list(blocks)
    else:
        np.savez(path, logits=FRESH, key=np.arange(3))
        with pytest.raises(FileFormatError, match="'key'"), open_blocks(path, id_column="key"):
            pass


def test_an_empty_id_and_a_kind_of_file_without_ids(tmp_path):
    write_rows(tmp_path / "rows.csv", [*FRESH_IDS[:9], " ", *FRESH_IDS[10:]])
    with (
        pytest.raises(InputError, match="is missing") as caught,
        open_blocks(tmp_path / "rows.csv", id_column="key") as blocks,
    ):
        list(blocks.with_ids())
    assert "key" in str(caught.value)
    np.save(tmp_path / "rows.npy", FRESH)
    with pytest.raises(InputError), open_blocks(tmp_path / "rows.npy", id_column="key"):
        pass
    with open_blocks(tmp_path / "rows.npy") as blocks, pytest.raises(InputError, match="there are no ids"):
        next(blocks.with_ids())


def test_predictions_hold_ids_only_as_the_file_was_opened(tmp_path):
    row = {"labels": [1], "confidence": [0.75], "sets": [[False, True]]}
    with open_predictions(tmp_path / "a.jsonl", ids="number") as out:
        out.write(**row, ids=[7])
        for bad in (None, [7, 8], ["7"]):
            with pytest.raises(InputError, match="ids must be"):
                out.write(**row, ids=bad)
    assert read_ids(tmp_path / "a.jsonl", "id") == [7]
    with open_predictions(tmp_path / "b.jsonl") as out, pytest.raises(InputError, match="ids must be given if"):
        out.write(**row, ids=[7])


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
@pytest.mark.parametrize("out", [".csv", ".jsonl", ".parquet"])
def test_the_command_carries_ids_into_the_output(suffix, out, predictor, tmp_path, monkeypatch, capsys):
    from thermoset.cli import main

    path, target = tmp_path / f"rows{suffix}", tmp_path / f"sets{out}"
    predictor.save(tmp_path / "predictor.json")
    write_rows(path, FRESH_IDS)
    command = ["thermoset", "predict", str(tmp_path / "predictor.json"), str(path), "--out", str(target)]
    by_row, by_id = predictor.set_sizes(FRESH), predictor.set_sizes(FRESH, ids=FRESH_IDS)
    assert (by_row != by_id).any()
    for asked, sizes in (((), by_row), (("--u", "ids"), by_id)):
        monkeypatch.setattr("sys.argv", [*command, "--id-column", "key", *asked])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, capsys.readouterr()
        assert read_ids(target) == FRESH_IDS
        assert [int(size) for size in read_ids(target, "size")] == sizes.tolist()
