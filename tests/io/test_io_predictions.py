"""Files of predictions: read back by other programs as they were written, whole or not at all, in little memory."""

import csv
import json
import os
import sys
import tempfile
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from parts import require
from thermoset.errors import FileFormatError, InputError, MissingExtraError
from thermoset.io import PREDICTION_SUFFIXES, open_predictions, predictions
from thermoset.io.predictions import write_table
from tiers import examples

ODD_NAMES = ["a,b", 'c "d"', "e\nf", "g\r\nh", "[1, 2]", "ä狗🐕", " i ", "\u2028j", "k'\\\t", "0"]
LABELS, SURE = np.array([1, 0, 2]), np.array([0.75, 0.5, 1 / 3])
SETS = np.array([[False, True, False], [True, True, True], [False, False, False]])


@pytest.fixture(params=PREDICTION_SUFFIXES)
def suffix(request):
    if request.param == ".parquet":
        require("pyarrow", "io")
    return request.param


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def write_all(path, classes, *blocks):
    with open_predictions(path, classes) as out:
        for block in blocks:
            out.write(*block)
    return path


def expected_rows(blocks, classes):
    """What a reader should see: (label, confidence, set, size) of every row, in plain Python."""
    rows = []
    for labels, sure, sets in blocks:
        for label, number, inside in zip(labels, sure, sets, strict=True):
            members = [column for column, is_in in enumerate(inside) if is_in]
            if classes is not None:
                label, members = classes[label], [classes[column] for column in members]  # noqa: PLW2901
            rows.append((label, float(number), members, len(members)))
    return rows


# Readers that know nothing of thermoset; each gives rows (label, confidence, set, size).


def rows_of_parquet(path):
    table = require("pyarrow.parquet", "io").read_table(path)
    assert table.column_names == ["label", "confidence", "set", "size"]
    return [(row["label"], row["confidence"], row["set"], row["size"]) for row in table.to_pylist()]


def rows_of_csv(path):
    with path.open(encoding="utf-8", newline="") as stream:
        header, *rows = csv.reader(stream, strict=True)
    assert header == ["label", "confidence", "size", "set"]
    return [(label, float(sure), json.loads(inside), int(size)) for label, sure, size, inside in rows]


def rows_of_jsonl(path):
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert all(list(row) == ["label", "confidence", "set", "size"] for row in rows)
    return [tuple(row.values()) for row in rows]


READABLE = {".parquet": rows_of_parquet, ".csv": rows_of_csv, ".jsonl": rows_of_jsonl}


def reads_back(path, blocks, classes):
    rows = READABLE[path.suffix](path)
    wanted = expected_rows(blocks, classes)
    if path.suffix == ".csv" and classes is None:  # a csv cell has no type
        wanted = [(str(label), *rest) for label, *rest in wanted]
    assert rows == wanted


# -- what is written is what is read ------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)
names = st.sampled_from(ODD_NAMES) | texts.filter(str.strip)


@st.composite
def some_blocks(draw):
    n_classes = draw(st.integers(2, 5))
    classes = draw(st.none() | st.lists(names, min_size=n_classes, max_size=n_classes, unique=True))
    blocks = []
    for n_rows in draw(st.lists(st.integers(0, 4), max_size=4)):
        labels = draw(hnp.arrays(np.int64, n_rows, elements=st.integers(0, n_classes - 1)))
        kind = draw(st.sampled_from([np.float32, np.float64]))
        sure = draw(hnp.arrays(kind, n_rows, elements=st.floats(0, 1, width=kind().itemsize * 8)))
        blocks.append((labels, sure, draw(hnp.arrays(np.bool_, (n_rows, n_classes)))))
    return classes, blocks


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=some_blocks(), piece=st.integers(1, 12))
@example(case=(ODD_NAMES, [(np.arange(10), np.full(10, 0.1), np.tri(10, dtype=bool))]), piece=1)
@example(case=(None, []), piece=1)
def test_what_is_read_is_what_was_written(suffix, case, piece):
    classes, blocks = case
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictions, "PIECE", piece)
        patch.setattr(predictions, "ROW_GROUP_BYTES", 60 * piece)
        path = write_all(Path(folder) / f"out{suffix}", classes, *blocks)
        reads_back(path, blocks, classes)
        assert names_in(Path(folder)) == [path.name]


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=some_blocks(), group_bytes=st.integers(1, 300))
def test_how_rows_are_cut_into_blocks_does_not_show(suffix, case, group_bytes):
    """Byte for byte, wherever row groups end; and sizes are counted on the way."""
    classes, blocks = case
    if not blocks:
        return
    whole = tuple(np.concatenate([block[i].astype(blocks[0][i].dtype) for block in blocks]) for i in range(3))
    rows = [tuple(part[i : i + 1] for part in whole) for i in range(len(whole[0]))]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictions, "ROW_GROUP_BYTES", group_bytes)
        written = []
        for name, some in (("whole", [whole]), ("rows", rows)):
            with open_predictions(Path(folder) / f"{name}{suffix}", classes) as out:
                for block in some:
                    out.write(*block)
            assert out.sizes == Counter(whole[2].sum(axis=1).tolist())
            written.append((Path(folder) / f"{name}{suffix}").read_bytes())
    assert written[0] == written[1]


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sure=hnp.arrays(np.float64, 3, elements=st.floats(allow_nan=False, allow_infinity=False)))
@example(sure=np.array([0.1 + 0.2, 5e-324, 1e16]))
def test_every_float_is_read_back_exactly(suffix, sure):
    with tempfile.TemporaryDirectory() as folder:
        path = write_all(Path(folder) / f"out{suffix}", None, (LABELS, sure, SETS))
        back = [row[1] for row in READABLE[suffix](path)]
    assert np.array(back).tobytes() == sure.tobytes()


@pytest.mark.parametrize("classes", [None, ["cat", "dog", "eel"]])
@pytest.mark.parametrize("blocks", [(), ((LABELS[:0], SURE[:0], SETS[:0]),)], ids=["nothing", "no rows"])
def test_zero_rows(tmp_path, suffix, classes, blocks):
    reads_back(write_all(tmp_path / f"out{suffix}", classes, *blocks), blocks, classes)


def test_the_text_of_a_file(tmp_path):
    classes = ["cat", "do,g", 'e"el']
    write_all(tmp_path / "out.jsonl", classes, (LABELS, SURE, SETS))
    assert (tmp_path / "out.jsonl").read_text() == (
        '{"label": "do,g", "confidence": 0.75, "set": ["do,g"], "size": 1}\n'
        '{"label": "cat", "confidence": 0.5, "set": ["cat", "do,g", "e\\"el"], "size": 3}\n'
        '{"label": "e\\"el", "confidence": 0.3333333333333333, "set": [], "size": 0}\n'
    )
    write_all(tmp_path / "out.csv", None, (LABELS, SURE, SETS))
    assert (tmp_path / "out.csv").read_bytes() == (
        b'label,confidence,size,set\r\n1,0.75,1,[1]\r\n0,0.5,3,"[0, 1, 2]"\r\n2,0.3333333333333333,0,[]\r\n'
    )


def test_frames_of_pandas_and_polars(tmp_path):
    pandas, polars = require("pandas", "test"), require("polars", "test")
    classes = ["cat", 'do,"g', "e\nel"]
    sure = np.array([0.75, 0.5, 0.375])  # not every release of pandas reads every float exactly
    for suffix in (".parquet", ".csv", ".jsonl"):
        write_all(tmp_path / f"out{suffix}", classes, (LABELS, sure, SETS))
    frames = [
        pandas.read_parquet(tmp_path / "out.parquet"),
        pandas.read_csv(tmp_path / "out.csv"),
        pandas.read_json(tmp_path / "out.jsonl", lines=True),
        polars.read_parquet(tmp_path / "out.parquet"),
        polars.read_csv(tmp_path / "out.csv"),
        polars.read_ndjson(tmp_path / "out.jsonl"),
    ]
    for frame in frames:
        sets = [json.loads(inside) if isinstance(inside, str) else list(inside) for inside in frame["set"]]
        rows = list(zip(frame["label"], frame["confidence"], sets, frame["size"], strict=True))
        assert rows == expected_rows([(LABELS, sure, SETS)], classes)


def test_types_of_the_columns(tmp_path):
    arrow, parquet = require("pyarrow", "io"), require("pyarrow.parquet", "io")
    for classes, kind in ((None, arrow.int32()), (["a", "b", "c"], arrow.string())):
        schema = parquet.read_schema(write_all(tmp_path / "out.parquet", classes))
        assert schema.types == [kind, arrow.float64(), arrow.list_(kind), arrow.int32()]


# -- whole or not at all ------------------------------------------------------------------------------------------


@pytest.fixture(params=["new", "old"])
def target(request, tmp_path, suffix):
    """A name where nothing is, or where an older file is."""
    path = tmp_path / f"out{suffix}"
    if request.param == "old":
        path.write_text("older")
    return path


def as_it_was(path):
    """Neither the file nor anything beside it has changed."""
    return names_in(path.parent) == ([path.name] if path.exists() else []) and (
        not path.exists() or path.read_text() == "older"
    )


@pytest.mark.parametrize("error", [ValueError("mine"), OSError(5, "mine"), InputError("mine"), KeyboardInterrupt()])
def test_a_failure_in_the_middle_leaves_things_as_they_were(target, error):
    def run():
        with open_predictions(target, ["a", "b", "c"]) as out:
            out.write(LABELS, SURE, SETS)
            raise error

    with pytest.raises(type(error)) as caught:
        run()
    assert caught.value is error  # not dressed up as one about the file
    assert as_it_was(target)


def test_bad_predictions_leave_things_as_they_were(target):
    with pytest.raises(InputError, match=r"labels must be in 0\.\.2"):
        write_all(target, None, (LABELS, SURE, SETS), (LABELS + 1, SURE, SETS))
    assert as_it_was(target)


def test_a_full_disk_leaves_things_as_they_were(target, monkeypatch):
    many = [np.tile(part, (1000, 1)[: part.ndim]) for part in (LABELS, SURE, SETS)]

    def fail(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=r"cannot be written .*No space left"):
        write_all(target, None, many)
    assert as_it_was(target)


# -- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
@pytest.mark.parametrize("at_once", [False, True])
def test_memory_is_bounded_by_a_block(tmp_path, monkeypatch, suffix, at_once):
    """Many small blocks, or one that is much larger than a piece."""
    block = np.zeros(100, dtype=int), np.full(100, 0.5), np.ones((100, 50), dtype=bool)
    if at_once:
        monkeypatch.setattr(predictions, "PIECE", block[2].size)
    many = [tuple(np.concatenate([part] * 100) for part in block)] if at_once else [block] * 100
    path = tmp_path / f"out{suffix}"
    tracemalloc.start()
    write_all(path, None, *many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = path.stat().st_size
    assert size > 1_500_000
    assert peak < size / 4


# -- p-values -----------------------------------------------------------------------------------------------------

P = np.array([[0.25, 1.0, 1 / 3], [1e-300, 0.5, 0.5], [0.0, 1 / 7, 0.125]])
TOLD = [(1.0, 1 - 1 / 3), (0.5, 0.5), (1 / 7, 0.875)]  # the largest, and one minus the second largest


def p_of_parquet(path, names):
    rows = require("pyarrow.parquet", "io").read_table(path).to_pylist()
    return [(row["credibility"], row["conformal_confidence"], row["p"]) for row in rows]


def p_of_csv(path, names):
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, strict=True))
    columns = [f"p_{name}" for name in names]
    assert list(rows[0])[-5:] == ["credibility", "conformal_confidence", *columns]
    return [
        (float(row["credibility"]), float(row["conformal_confidence"]), [float(row[name]) for name in columns])
        for row in rows
    ]


def p_of_jsonl(path, names):
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    by_name = isinstance(names[0], str)
    values = [[row["p"][name] for name in names] if by_name else row["p"] for row in rows]
    assert all(len(row["p"]) == 3 for row in rows)
    return [(row["credibility"], row["conformal_confidence"], cells) for row, cells in zip(rows, values, strict=True)]


P_READABLE = {".parquet": p_of_parquet, ".csv": p_of_csv, ".jsonl": p_of_jsonl}


@pytest.mark.parametrize("classes", [None, ODD_NAMES[:3]])
@pytest.mark.parametrize("piece", [1, 7, 100])
def test_p_values_are_read_as_they_were_written(tmp_path, monkeypatch, suffix, classes, piece):
    monkeypatch.setattr(predictions, "PIECE", piece)
    path = tmp_path / f"out{suffix}"
    with open_predictions(path, classes, ids="text", p_values=3) as out:
        for _ in range(2):
            out.write(LABELS, SURE, SETS, ids=["a", "b", "c"], p=P)
    wanted = [(*told, row) for told, row in zip(TOLD, P.tolist(), strict=True)] * 2
    assert P_READABLE[suffix](path, classes or range(3)) == wanted


def test_p_values_that_do_not_fit_are_refused(target):
    wrong = open_predictions(target, ["a", "b", "c"], p_values=4)
    with pytest.raises(InputError, match="p_values must be the number of classes, 3; got 4"), wrong:
        pass
    for opened, given_p, said in (
        (None, P, "p must be given if the file was opened for it, and only then"),
        (3, None, "p must be given if the file was opened for it, and only then"),
        (3, P[:2], r"p must be p-values in \[0, 1\] of shape \(3, 3\); got \(2, 3\)"),
        (3, P + 1, r"p must be p-values in \[0, 1\]"),
        (3, P * np.nan, r"p must be p-values in \[0, 1\]"),
    ):
        with pytest.raises(InputError, match=said), open_predictions(target, p_values=opened) as out:
            out.write(LABELS, SURE, SETS, p=given_p)


# -- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "sure", "sets", "said"),
    [
        (LABELS[:2], SURE, SETS, "labels must be 3 whole numbers, one per row; got int64, shape"),
        (LABELS / 2, SURE, SETS, "labels must be 3 whole numbers, one per row; got float64"),
        (LABELS == 1, SURE, SETS, "labels must be 3 whole numbers, one per row; got bool"),
        (LABELS, SURE[:, None], SETS, "confidence must be 3 floats, one per row; got float64, shape"),
        (LABELS, LABELS, SETS, "confidence must be 3 floats, one per row; got int64"),
        (LABELS, SURE * np.nan, SETS, "confidence must be finite"),
        (LABELS, SURE, SETS[:, :2], r"sets must be a boolean array \(n, 3\); got bool, shape \(3, 2\)"),
        (LABELS, SURE, SETS[0], r"sets must be a boolean array \(n, 3\)"),
        (LABELS, SURE, SETS.astype(int), r"sets must be a boolean array .* got int64"),
        (LABELS - 1, SURE, SETS, r"labels must be in 0\.\.2; got -1\.\.1"),
        (LABELS + 1, SURE, SETS, r"labels must be in 0\.\.2; got 1\.\.3"),
    ],
)
@pytest.mark.parametrize("classes", [None, ["a", "b", "c"]])
def test_bad_predictions_are_refused(tmp_path, classes, labels, sure, sets, said):
    with pytest.raises(InputError, match=said) as caught:
        write_all(tmp_path / "out.csv", classes, (LABELS, SURE, SETS), (labels, sure, sets))
    assert "\n" not in str(caught.value)
    assert names_in(tmp_path) == []


def test_bad_targets_are_refused(tmp_path):
    for name in ("out.txt", "out", "out.json"):
        with pytest.raises(FileFormatError, match=r"unknown kind of file .*; known: \.parquet, \.csv, \.jsonl"):
            write_all(tmp_path / name, None)
    with pytest.raises(InputError, match=r"none/out\.csv: folder .* does not exist"):
        write_all(tmp_path / "none" / "out.csv", None)
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(InputError, match=r"out\.csv: is a folder"):
        write_all(tmp_path / "out.csv", None)
    with pytest.raises(InputError, match="path must be the name of a file"):
        write_all(3, None)
    with pytest.raises(InputError, match="'a' appears more than once"):
        write_all(tmp_path / "out.jsonl", ["a", "a"])
    assert names_in(tmp_path) == ["out.csv"]


def test_suffix_in_capitals_and_str_paths(tmp_path):
    write_all(str(tmp_path / "OUT.CSV"), None, (LABELS, SURE, SETS))
    assert len(rows_of_csv(tmp_path / "OUT.CSV")) == 3


def test_a_missing_part_is_named_before_anything_is_written(tmp_path, monkeypatch):
    for loaded in ["pyarrow", *(known for known in sys.modules if known.startswith("pyarrow."))]:
        monkeypatch.setitem(sys.modules, loaded, None)
    with pytest.raises(MissingExtraError, match=r"\.parquet needs pyarrow"):
        open_predictions(tmp_path / "out.parquet").__enter__()
    assert names_in(tmp_path) == []


# -- tables of columns --------------------------------------------------------------------------------------------

TABLE = {"name": ["a,b", 'say "x"'], "value": [0.1, float("inf")], "rows": [1, 2]}


def test_csv_quotes_and_keeps_every_digit(tmp_path):
    write_table(tmp_path / "t.CSV", TABLE)
    with (tmp_path / "t.CSV").open(newline="") as stream:
        assert list(csv.reader(stream)) == [["name", "value", "rows"], ["a,b", "0.1", "1"], ['say "x"', "inf", "2"]]


def test_parquet(tmp_path):
    parquet = require("pyarrow.parquet", "io")
    write_table(tmp_path / "t.parquet", TABLE)
    assert parquet.read_table(tmp_path / "t.parquet").to_pydict() == TABLE


@pytest.mark.parametrize("name", ["t", "t.npz", ".csv"])
def test_other_suffixes_are_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(InputError, match=r"known: \.csv, \.parquet"):
        write_table(tmp_path / name, TABLE)
    assert list(tmp_path.iterdir()) == []


def test_columns_of_different_lengths_leave_no_file(tmp_path):
    with pytest.raises(ValueError, match="shorter"):
        write_table(tmp_path / "t.csv", {"a": [1, 2], "b": [1]})
    assert list(tmp_path.iterdir()) == []
