"""What timm's inference.py writes. The script is not in timm's package: frames are saved here by the calls it makes.

`save_results` there: `set_index("filename").to_parquet(path)`; `to_csv(path, index=False)` after
`np.set_printoptions(threshold=maxsize)`; `to_json(path, lines=True, orient="records")`. Its other JSON is not read.
"""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from parts import require
from thermoset.cli import app
from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError
from thermoset.io import load, open_blocks

pandas = require("pandas", "test")
require("pyarrow", "io")

RNG = np.random.default_rng(0)
OUT = (RNG.normal(size=(30, 12)) * 5).astype(np.float32)
FILES = [f"n{i % 12:02d}/{i}.jpg" for i in range(30)]
NAMES = np.array([f"thing {i}, or so" for i in range(12)], dtype=object)
FORMATS = ("parquet", "csv", "json-records")
SUFFIX = {"parquet": ".parquet", "csv": ".csv"}


def write(frame, path, fmt):
    path = path.with_suffix(SUFFIX.get(fmt, ".json"))
    with np.printoptions(threshold=10**9):
        if fmt == "parquet":
            frame.set_index("filename").to_parquet(path)
        elif fmt == "csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_json(path, lines=True, orient="records")
    return path


def inference(k=0, *, output=OUT, column="logit", index=False, labels=False, separate=False):
    """The frame that inference.py makes of a model's output with these options."""
    columns = {"filename": FILES[: len(output)]}
    order = np.argsort(-output, axis=1, kind="stable")[:, :k] if k else None
    if k:
        output = np.take_along_axis(output, order, axis=1)
    parts = ({"index": order} if index else {}) | ({"label": NAMES[order]} if labels else {}) | {column: output}
    for name, values in parts.items():
        if separate:
            columns |= {f"{name}_{i}": values[:, i] for i in range(values.shape[1])}
        else:
            columns[name] = list(values.squeeze(-1) if values.shape[1] == 1 else values)
    return pandas.DataFrame(columns)


def read_blocks(path, **options):
    with open_blocks(path, block_bytes=500, **options) as blocks:
        return np.concatenate([block.logits for block in blocks])


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


def as_written(fmt):
    """How far numbers in a file may be off: pandas writes ten decimals in JSON.

    NumPy prints as many digits as tell a float32 from its neighbours, which are 2**-23 apart, and at most eight
    decimals.
    """
    return {"parquet": {"abs": 0, "rel": 0}, "csv": {"abs": 1e-8, "rel": 2**-23}}.get(fmt, {"abs": 1e-10, "rel": 0})


@pytest.mark.parametrize("fmt", FORMATS)
def test_whole_rows_in_every_format(tmp_path, fmt):
    path = write(inference(), tmp_path / "resnet50-224", fmt)
    val = load(path)
    assert val.logits == pytest.approx(OUT, **as_written(fmt))
    assert val.labels is None
    assert val.classes is None
    assert np.array_equal(read_blocks(path), val.logits)


@pytest.mark.parametrize("fmt", FORMATS)
def test_file_names_are_ids(tmp_path, fmt):
    path = write(inference(), tmp_path / "results", fmt)
    with open_blocks(path, id_column="filename", block_bytes=500) as blocks:
        assert blocks.id_kind == "text"
        assert [one for _, ids in blocks.with_ids() for one in ids] == FILES


@pytest.mark.parametrize("fmt", FORMATS)
def test_all_classes_sorted_are_put_back_in_order(tmp_path, fmt):
    path = write(inference(12, index=True, labels=True), tmp_path / "results", fmt)
    assert load(path).logits == pytest.approx(OUT, **as_written(fmt))
    assert np.array_equal(read_blocks(path), load(path).logits)


@pytest.mark.parametrize("fmt", FORMATS)
def test_rows_that_are_not_whole_are_refused(tmp_path, fmt):
    for frame in (
        inference(5, index=True, labels=True),
        inference(5, index=True),
        inference(5, labels=True),
        inference(12, labels=True),
        inference(1, labels=True),
        inference(1, index=True, labels=True),
    ):
        path = write(frame, tmp_path / "results", fmt)
        for read in (load, read_blocks):
            with pytest.raises(FileFormatError, match=r"--topk 0") as caught:
                read(path)
            assert str(caught.value).isprintable()


@pytest.mark.parametrize("fmt", ["parquet", "csv"])
def test_separate_columns(tmp_path, fmt):
    path = write(inference(separate=True), tmp_path / "results", fmt)
    assert load(path).logits == pytest.approx(OUT, **as_written(fmt))
    assert np.array_equal(read_blocks(path), load(path).logits)
    with open_blocks(path, id_column="filename") as blocks:
        assert next(blocks.with_ids())[1] == FILES
    with open_blocks(path) as blocks:
        assert blocks.id_kind is None
    path = write(inference(5, separate=True, labels=True), tmp_path / "results", fmt)
    for read in (load, read_blocks):
        with pytest.raises(FileFormatError):
            read(path)


@pytest.mark.parametrize("fmt", FORMATS)
def test_probabilities_as_the_script_writes_them_by_default(tmp_path, fmt):
    probs = np.exp(OUT.astype(np.float64))
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
    path = write(inference(output=probs, column="prob"), tmp_path / "results", fmt)
    if fmt == "parquet":
        assert load(path, probabilities=True).logits == pytest.approx(np.log(probs.astype(np.float64)))
    else:  # rounded: a small probability may have become 0
        assert np.exp(load(path, probabilities=True).logits) == pytest.approx(probs, abs=1e-7)
    for read in (load, read_blocks):
        with pytest.raises(InputError):
            read(path)


@pytest.mark.parametrize("fmt", FORMATS)
def test_labels_come_from_a_column_that_was_added_or_a_file(tmp_path, fmt):
    labels = [i % 12 for i in range(30)]
    path = write(inference().assign(label=labels), tmp_path / "with", fmt)
    assert load(path).labels.tolist() == labels
    path = write(inference(), tmp_path / "without", fmt)
    np.save(tmp_path / "labels.npy", labels)
    (tmp_path / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
    for name in ("labels.npy", "labels.txt"):
        assert load(path, labels=tmp_path / name).labels.tolist() == labels


def test_lists_that_numpy_cut_short_are_refused(tmp_path):
    wide = RNG.normal(size=(3, 2000)).astype(np.float32)
    frame = pandas.DataFrame({"filename": FILES[:3], "logit": list(wide)})
    path = tmp_path / "results.csv"
    frame.to_csv(path, index=False)  # without the print options of the script
    assert "..." in path.read_text()
    for read in (load, read_blocks):
        with pytest.raises(FileFormatError, match="parquet or json"):
            read(path)


def test_a_thousand_classes_on_many_lines_of_a_cell(tmp_path):
    wide = RNG.normal(size=(3, 1000)).astype(np.float32)
    path = write(inference(output=wide), tmp_path / "results", "csv")
    assert len(path.read_text().splitlines()) > 100
    assert load(path).logits == pytest.approx(wide, **as_written("csv"))


@pytest.mark.slow
@pytest.mark.parametrize("fmt", FORMATS)
def test_from_the_files_to_sets_on_the_command_line(tmp_path, fmt):
    rng = np.random.default_rng(1)
    logits = (rng.normal(size=(1200, 4)) * 3).astype(np.float32)
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.save(tmp_path / "labels.npy", labels[:600])
    np.save(tmp_path / "fresh-labels.npy", labels[600:])
    names = [f"{i}.jpg" for i in range(600)]
    path, fresh = (
        write(pandas.DataFrame({"filename": names, "logit": list(part)}), tmp_path / name, fmt)
        for part, name in ((logits[:600], "results"), (logits[600:], "fresh"))
    )
    out, sets = tmp_path / "out", tmp_path / "sets.jsonl"
    given = ["--labels", tmp_path / "labels.npy"]
    assert run("tune", path, *given, "--out", out, "--no-report", "--quiet").exit_code == 0
    with pytest.raises(InputError, match="600 of 600 rows were used to fit this predictor"):
        run("check", out / "predictor.json", path, *given, "--quiet")
    given = ["--labels", tmp_path / "fresh-labels.npy"]
    assert run("check", out / "predictor.json", fresh, *given, "--quiet").exit_code == 0
    asked = ["--id-column", "filename", "--out", sets, "--quiet"]
    assert run("predict", out / "predictor.json", path, *asked).exit_code == 0
    rows = [json.loads(line) for line in sets.read_text().splitlines()]
    assert [row["filename"] for row in rows] == names
    assert [row["label"] for row in rows] == logits[:600].argmax(axis=1).tolist()


def test_json_record_of_timm_is_csv_by_another_name(tmp_path):
    """The script's option json-record falls through to csv; the file is called .json all the same."""
    path = tmp_path / "results.json"
    inference().to_csv(path, index=False)
    with pytest.raises(FileFormatError, match="not a JSON file: it begins with 'f'"):
        load(path)


def test_float32_is_kept_in_parquet(tmp_path):
    assert load(write(inference(), tmp_path / "r", "parquet")) == Logits(OUT)
