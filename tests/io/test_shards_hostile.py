"""Arrow, Zarr and HDF5 files that are damaged, or were made to do harm."""

import json

import numpy as np
import pytest

from helpers_io import PARTS
from helpers_shards import VAL, VARIANTS, C, N, opened
from parts import require
from thermoset.errors import FileFormatError, InputError
from thermoset.io import load, save


def said_of(path, **options):
    """What reading all of a file raises, if it does."""
    try:
        shard = opened(path, **options)
        shard.labels()
        return shard.read(0, shard.n_rows)
    except InputError as error:
        return error


@pytest.mark.parametrize(
    "name", [n for n, v in VARIANTS.items() if v.suffix in (".arrow", ".feather", ".ipc", ".h5", ".hdf5")]
)
def test_a_truncated_file_is_refused(tmp_path, name):
    suffix, write = VARIANTS[name]
    require(*PARTS[suffix])
    path = tmp_path / f"val{suffix}"
    write(path)
    content = path.read_bytes()
    for length in {0, 1, 5, 9, 20, len(content) // 3, len(content) // 2, len(content) * 9 // 10, len(content) - 20}:
        path.write_bytes(content[:length])
        found = said_of(path)
        assert isinstance(found, FileFormatError)
        assert str(found).startswith(str(path))
        assert str(found).isprintable()


@pytest.mark.parametrize("name", ["arrow-file", "arrow-lists", "feather-lz4", "arrow-columns"])
def test_flipped_bytes_never_raise_anything_else(tmp_path, name):
    suffix, write = VARIANTS[name]
    require(*PARTS[suffix])
    path = tmp_path / f"val{suffix}"
    write(path)
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    draw = np.random.default_rng(5)
    for _ in range(150):
        damaged = content.copy()
        damaged[draw.integers(0, len(content), 4)] = draw.choice([0, 1, 0x7F, 0x80, 0xFF], 4)
        path.write_bytes(damaged.tobytes())
        assert str(said_of(path, max_bytes=10**6))


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [4.0, 5.0]], "row 2 of column 'logits' has 2 values, but row 0 has 3"),
        ([[1.0, 2.0], [3.0, 4.0], None], "row 2 of column 'logits' is missing"),
        ([[1.0, 2.0], [3.0, None]], "row 1 of column 'logits' has a missing value at position 1"),
    ],
)
def test_arrow_rows_that_are_not_whole_are_named(tmp_path, rows, said, compression):
    arrow, ipc = require("pyarrow", "io"), require("pyarrow.ipc", "io")
    table = arrow.table({"logits": rows})
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_file(tmp_path / "val.arrow", table.schema, options=options) as writer:
        writer.write_table(table)
    assert said in str(said_of(tmp_path / "val.arrow"))


def test_arrow_streams_are_not_read(tmp_path):
    arrow, ipc = require("pyarrow", "io"), require("pyarrow.ipc", "io")
    table = arrow.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    with ipc.new_stream(tmp_path / "val.arrow", table.schema) as writer:
        writer.write_table(table)
    assert "not a readable Arrow file" in str(said_of(tmp_path / "val.arrow"))


def test_zarr_codecs_that_run_code_are_refused(tmp_path):
    library = require("zarr", "zarr")
    group = library.open_group(str(tmp_path / "val.zarr"), mode="w", zarr_format=2)
    group.create_array("logits", data=VAL.logits)
    metadata = tmp_path / "val.zarr" / "logits" / ".zarray"
    good = metadata.read_text()
    for codec in ("pickle", "json2", "msgpack2", "categorize"):
        metadata.write_text(good.replace('"filters": null', f'"filters": [{{"id": "{codec}"}}]'))
        with pytest.raises(FileFormatError, match=f"array 'logits' uses codec '{codec}'; expected one of blosc"):
            opened(tmp_path / "val.zarr")
    metadata.write_text(good.replace('"<f4"', '"|O"'))
    with pytest.raises(FileFormatError, match=r"'logits' is of type '\|O'; expected numbers or text"):
        opened(tmp_path / "val.zarr")


def test_zarr_3_codecs_inside_of_shards_are_looked_at(tmp_path):
    VARIANTS["zarr-sharded"].write(tmp_path / "val.zarr")
    metadata = tmp_path / "val.zarr" / "logits" / "zarr.json"
    metadata.write_text(metadata.read_text().replace('"name": "zstd"', '"name": "numcodecs.pickle"'))
    with pytest.raises(FileFormatError, match="uses codec 'pickle'"):
        opened(tmp_path / "val.zarr")


@pytest.mark.parametrize("name", ["zarr-2", "zarr-gzip", "saved.zarr"])
def test_zarr_chunks_that_are_missing_or_cut(tmp_path, name):
    path = tmp_path / "val.zarr"
    require("zarr", "zarr")
    VARIANTS[name].write(path)
    chunk = path / "logits" / ("c/0/0" if name != "zarr-2" else "0.0")
    content = chunk.read_bytes()
    chunk.write_bytes(content[: len(content) // 2])
    with pytest.raises(FileFormatError, match=r"val.zarr: (array|chunk) .* truncated"):
        opened(path).read(0, 5)
    chunk.unlink()
    with pytest.raises(FileFormatError, match=r"val.zarr: chunk .*0.0 of array 'logits' is missing"):
        opened(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"shape": [10, -3]}, "declares shape"),
        ({"shape": [2**62, 2**62]}, "a shape that no array can have"),
        ({"shape": ["a", 3]}, "declares shape"),
        ({"shape": [3]}, "declares shape"),
        ({"data_type": "complex64"}, "is of type 'complex64'"),
        ({"data_type": {"name": "struct"}}, "is of type 'struct'"),
        ({"chunk_grid": {"name": "rectangular"}}, "not of one size"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**40, 5]}}}, "above the limit"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 5]}}}, "declares shape"),
        ({"codecs": 3}, "metadata of array 'logits' are damaged"),
        ({"codecs": [{}]}, "metadata of array 'logits' are damaged"),
    ],
)
def test_zarr_metadata_that_lie(tmp_path, change, said):
    require("zarr", "zarr")
    VARIANTS["zarr-3"].write(tmp_path / "val.zarr")
    metadata = tmp_path / "val.zarr" / "logits" / "zarr.json"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | change))
    with pytest.raises(FileFormatError, match=said):
        opened(tmp_path / "val.zarr")


def test_folders_that_are_no_zarr(tmp_path):
    (tmp_path / "val.zarr").mkdir()
    with pytest.raises(FileFormatError, match=r"val.zarr: not a Zarr folder"):
        opened(tmp_path / "val.zarr")
    (tmp_path / "val.zarr" / "zarr.json").write_text("[1]")
    with pytest.raises(FileFormatError, match=r"zarr.json is not a JSON object"):
        opened(tmp_path / "val.zarr")
    (tmp_path / "file.zarr").write_text("PK")
    with pytest.raises(FileFormatError, match=r"file.zarr: is a file; .zarr must be a folder"):
        opened(tmp_path / "file.zarr")


def test_hdf5_that_points_to_other_files_or_was_never_written(tmp_path):
    library = require("h5py", "hdf5")
    save(tmp_path / "good.h5", VAL)
    path = tmp_path / "val.h5"
    with library.File(path, "w") as file:
        file["logits"] = library.ExternalLink(str(tmp_path / "good.h5"), "logits")
    with pytest.raises(FileFormatError, match="'logits' is a link to another file"):
        opened(path)
    with library.File(path, "w") as file:
        file.create_dataset("logits", (N, C), "f4", external=[(str(tmp_path / "raw"), 0, N * C * 4)])
    with pytest.raises(FileFormatError, match="are stored in other files"):
        opened(path)
    for options in ({}, {"chunks": (10, 5)}):
        with library.File(path, "w") as file:
            file.create_dataset("logits", (N, C), "f4", **options)
            if options:
                file["logits"][:50] = VAL.logits[:50]
        with pytest.raises(FileFormatError, match="parts of dataset 'logits' were never written"):
            opened(path)
    for data in (["a", "b"], [[1j, 2.0]]):
        with library.File(path, "w") as file:
            file.create_dataset("logits", data=data)
        with pytest.raises(FileFormatError, match=r"dataset 'logits' is of type .* expected numbers"):
            opened(path)


def test_zarr_is_replaced_whole_and_nothing_else_is(tmp_path):
    require("zarr", "zarr")
    save(tmp_path / "val.zarr", VAL)
    save(tmp_path / "val.zarr", VAL.take(slice(0, 3)))
    assert load(tmp_path / "val.zarr") == VAL.take(slice(0, 3))
    assert [path.name for path in tmp_path.iterdir()] == ["val.zarr"]
    (tmp_path / "own.zarr").mkdir()
    (tmp_path / "own.zarr" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"own.zarr: not a Zarr folder"):
        save(tmp_path / "own.zarr", VAL)
    assert (tmp_path / "own.zarr" / "thesis.txt").read_text() == "years of work"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.zarr", "val.zarr"]
