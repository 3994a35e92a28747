"""JSON: layouts, and files that cannot be read."""

import json

import numpy as np
import pytest

from helpers_io import both_refuse
from parts import require
from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError
from thermoset.io import load, open_blocks, save

ROWS = [[2.0, 0.5, -1.0], [0.25, 1.25, -np.inf], [3, 2, 1]]
LABELS = [1, 0, 2]


def records(rows=ROWS, labels=LABELS, name="logits"):
    return [
        {"id": f"row {i}", name: row, "label": label} for i, (row, label) in enumerate(zip(rows, labels, strict=True))
    ]


def layouts(found):
    """The same records in every layout that is read."""
    return {
        "lines": "\n".join(map(json.dumps, found)) + "\n",
        "lines and blanks": "\n\n  " + "\r\n \n".join(map(json.dumps, found)),
        "array": json.dumps(found, indent=2),
        "byte order mark": "\ufeff" + json.dumps(found),
    }


# -- layouts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".JSON"])
@pytest.mark.parametrize("layout", layouts(records()))
def test_every_layout_is_read(tmp_path, suffix, layout):
    path = tmp_path / f"val{suffix}"
    path.write_text(layouts(records())[layout])
    assert load(path) == Logits(np.array(ROWS, dtype=float), LABELS)
    with open_blocks(path, block_bytes=48, id_column="id") as blocks:
        assert (blocks.n_rows, blocks.n_classes, blocks.id_kind) == (3, 3, "text")
        found = list(blocks.with_ids())
    assert [len(block) for block, _ in found] == [2, 1]
    assert [one for _, ids in found for one in ids] == ["row 0", "row 1", "row 2"]
    assert np.array_equal(np.concatenate([block.logits for block, _ in found]), load(path).logits)


def test_names_labels_and_ids(tmp_path):
    path = tmp_path / "val.jsonl"
    path.write_text('{"logit": [1, 2], "labels": 1.0, "n": 5}\n{"logit": [1.5, 2], "labels": 0, "n": 6}\n')
    assert load(path) == Logits([[1.0, 2], [1.5, 2]], [1, 0])
    with open_blocks(path, id_column="n") as blocks:
        assert blocks.id_kind == "number"
        assert next(blocks.with_ids())[1] == [5, 6]
    path.write_text('{"probs": [0.5, 0.5]}\n{"probs": [0.25, 0.75]}\n')
    assert load(path, probabilities=True) == Logits.from_probabilities([[0.5, 0.5], [0.25, 0.75]])
    both_refuse(path, "Pass probabilities=True")
    (tmp_path / "truth.txt").write_text("1\n0\n")
    assert load(path, probabilities=True, labels=tmp_path / "truth.txt").labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    "bad", ['"id": null', '"id": ""', '"id": 2.5', '"id": true', '"id": [1]', '"x": 1', r'"id": "\ud800"']
)
def test_bad_ids(tmp_path, bad):
    path = tmp_path / "val.jsonl"
    for first, record in (('"a"', bad), ("1", f'"id": {2**63}')):
        path.write_text(f'{{"logits": [1, 2], "id": {first}}}\n{{"logits": [1, 2], {record}}}\n')
        with pytest.raises(InputError) as caught, open_blocks(path, id_column="id") as blocks:
            list(blocks.with_ids())
        assert (caught.value.row, caught.value.name) == (1, "id")


def test_text_files_of_labels(tmp_path):
    val = Logits([[0.0, 1.0], [2.0, 1.0]], classes=["cat", "dog"])
    save(tmp_path / "val.npz", val)
    labels = tmp_path / "labels.txt"
    for text in ("dog\ncat\n", "\ufeffdog\r\n  cat ", "1\n0", "1.0\n0\n"):
        labels.write_text(text, encoding="utf-8")
        assert load(tmp_path / "val.npz", labels=labels).labels.tolist() == [1, 0]
    save(tmp_path / "val.npz", Logits([[0.0, 1.0], [2.0, 1.0]], classes=["1", "0"]))
    labels.write_text("1\n0\n")
    assert load(tmp_path / "val.npz", labels=labels).labels.tolist() == [0, 1]  # names, as in csv
    for text, said in (
        ("1\n", r"has 1 values for 2 rows"),
        ("1\n\n", "is missing"),
        ("1\neel\n", "not one of the 2 classes"),
    ):
        labels.write_text(text)
        with pytest.raises(InputError, match=said):
            load(tmp_path / "val.npz", labels=labels)
    labels.write_bytes(b"\xff\xfe1")
    with pytest.raises(FileFormatError, match="not UTF-8"):
        load(tmp_path / "val.npz", labels=labels)
    labels.write_text("1\n" * 10_000)
    with pytest.raises(FileFormatError, match="10,000 bytes"):
        load(tmp_path / "val.npz", labels=labels, max_bytes=10_000)


def test_other_suffixes_are_not_written(tmp_path):
    with pytest.raises(FileFormatError, match=r"unknown kind of file '\.json'"):
        save(tmp_path / "val.json", Logits([[0.0, 1.0]]))


# -- harm ---------------------------------------------------------------------------------------------------------


BAD = [
    "[]",
    "  \n ",
    "{}",
    "null",
    "[1.5, 2]",
    "[[1.5, 2]]",
    '["a"]',
    '{"logits": [1, 2]} 5',
    '{"logits": [1, 2]}\n5',
    '[{"logits": [1, 2]}] x',
    '[{"logits": [1, 2]} {"logits": [1, 2]}]',
    '{"logits": [1, 2',
    '{"logits": [1, 2], "note": "abc',
    '{"logits": [1, 2]}\n{"logits": [1, 2',
    '{"logits": [1, 2,]}',
    '{"a.jpg": {"logits": [1, 2]}}',
    '{"columns": ["logits"], "data": [[[1, 2]]]}',
    '{"logits": {"0": [1, 2]}}',
    '{"logits": [[1, 2], [3, 4]], "labels": [0, 1]}',
    '{"logits": "[1, 2]"}',
    '{"logits": [1, "2"]}',
    '{"logits": [1, null]}',
    '{"logits": [1, true]}',
    '{"logits": 5}',
    '{"logits": []}',
    '{"logits": [1]}',
    '{"logits": [1, NaN]}',
    '{"logits": [1, Infinity]}',
    '{"logits": [1, 1e999]}',
    '{"logits": [-Infinity, -Infinity]}',
    '{"logits": [1, 1%s]}' % ("0" * 400),
    '{"logits": [1, 1%s]}' % ("0" * 5000),
    '{"logits": [1, 2]}\n{"logits": [1, 2, 3]}',
    '{"logits": [1, 2]}\n{"x": 1}',
    '{"logits": [1, 2]}\n\0',
    "[" * 100_000,
    '{"logits": ' + "[" * 100_000,
    '{"a":' * 100_000,
    '{"logits": [1, 2], "\x1b[31mred": 1}',
    r'{"\u001b[31m\u202e": 1}',
]


@pytest.mark.parametrize("text", BAD)
def test_bad_json_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "val.json"
    path.write_text(text, encoding="utf-8")
    both_refuse(path, None, InputError)


@pytest.mark.parametrize("label", ["null", '"cat"', "true", "1.5", "NaN", "Infinity", "-1", "1" + "0" * 400, "5"])
def test_bad_labels_are_named_by_their_row(tmp_path, label):
    path = tmp_path / "val.jsonl"
    path.write_text(f'{{"logits": [1, 2], "label": {label}}}\n')
    with pytest.raises(InputError, match="label"):
        load(path)


def test_labels_for_some_rows_only(tmp_path):
    path = tmp_path / "val.jsonl"
    path.write_text('{"logits": [1, 2], "label": 1}\n{"logits": [1, 2]}\n')
    with pytest.raises(InputError) as caught:
        load(path)
    assert (caught.value.row, caught.value.name) == (1, "labels")


@pytest.mark.parametrize("index", ["[0]", "[0, 0]", "[0, 2]", "[1, -1]", '["0", "1"]', "[[0, 1]]", "[true, 0]"])
def test_an_index_that_is_no_order_of_the_classes(tmp_path, index):
    path = tmp_path / "val.jsonl"
    path.write_text(f'{{"logit": [1, 2], "index": {index}}}\n')
    both_refuse(path, "index|classes are missing")


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "val.json"
    path.write_bytes(b'{"logits": [1, 2], "note": "\xff"}')
    both_refuse(path, "not UTF-8 text")
    path.write_bytes('{"logits": [1, 2]}'.encode("utf-16"))
    both_refuse(path, "not UTF-8 text")


def test_a_csv_of_lists_that_lies(tmp_path):
    require("pyarrow", "io")
    path = tmp_path / "val.csv"
    rows = ["[1 2", "1 2,0", "[1 x],0", "[1 1_0],0", "[1 2 3],0", "[1 nan],0", "[1 1e999],0"]
    for text in [*(f"logit,label\n[1 2],0\n{row}\n" for row in rows), "logit,label\n[],0\n", "logit,logit\n[1 2],0\n"]:
        path.write_text(text)
        both_refuse(path, None, InputError)
    path.write_text("logit,index\n[1 2],[0 1e30]\n")
    both_refuse(path, "classes are missing", InputError)
    for label in ("cat", "", "7"):
        path.write_text(f"logit,label\n[1 2],{label}\n")
        with pytest.raises(InputError, match="label"):
            load(path)


def test_a_parquet_file_whose_index_is_no_order(tmp_path):
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    path = tmp_path / "val.parquet"
    for index in ([[1, 0], [0, 2]], [[1, 0], [0, 0]], [[1, 0], [0]], [[1, 0], None], [[1.0, 0.0], [0.5, 1.0]]):
        parquet.write_table(arrow.table({"logit": [[1.0, 2.0], [3.0, 4.0]], "index": index}), path)
        both_refuse(path, "index")
