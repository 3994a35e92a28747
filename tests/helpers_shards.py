"""Shards for the tests of thermoset.io: rows written in all the ways that other programs write them."""

import gzip
import json
from typing import NamedTuple

import numpy as np

from parts import require
from thermoset.data import Logits
from thermoset.io import SUFFIXES, save

N, C = 103, 5
RNG = np.random.default_rng(18)
NAMES = ("ant", "bee", "cat", "dog", "eel")
VAL = Logits(RNG.normal(size=(N, C)).astype(np.float32), RNG.integers(0, C, N), NAMES)


class Variant(NamedTuple):
    """One way to write VAL: the ending, and what writes it."""

    suffix: str
    write: object


def _arrow_table(lists="fixed", labels="int"):
    arrow = require("pyarrow", "io")
    kinds = {"list": arrow.list_(arrow.float32()), "large": arrow.large_list(arrow.float32())}
    if lists == "fixed":
        scores = arrow.FixedSizeListArray.from_arrays(arrow.array(VAL.logits.reshape(-1)), C)
    else:
        scores = arrow.array(list(VAL.logits), kinds[lists])
    label = [NAMES[i] for i in VAL.labels] if labels == "text" else VAL.labels.astype("i2")
    before = {"file": [f"{i}.png" for i in range(N)], "kind": arrow.array(["a"] * N).dictionary_encode()}
    columns = before | {"logits": scores, "label": label}
    if lists == "columns":
        columns = {name: VAL.logits[:, i] for i, name in enumerate(NAMES)} | {"label": label}
    names = '["ant", "bee", "cat", "dog", "eel"]'
    return arrow.table(columns).replace_schema_metadata({"thermoset.classes": names})


def _columns_table(labels="int"):
    arrow = require("pyarrow", "io")
    label = [NAMES[i] for i in VAL.labels] if labels == "text" else VAL.labels
    return arrow.table({name: VAL.logits[:, i] for i, name in enumerate(NAMES)} | {"label": label})


def ipc(table, compression=None, rows=20):
    def write(path):
        library = require("pyarrow.ipc", "io")
        made = table()
        options = library.IpcWriteOptions(compression=compression)
        with library.new_file(path, made.schema, options=options) as writer:
            writer.write_table(made, max_chunksize=rows)

    return write


def parquet(table, rows=20, **options):
    return lambda path: require("pyarrow.parquet", "io").write_table(table(), path, row_group_size=rows, **options)


def npz(write, order="C"):
    return lambda path: write(path, logits=np.asarray(VAL.logits, order=order), labels=VAL.labels, classes=NAMES)


def npy(order="C", kind="<f4"):
    def write(path):
        np.save(path, np.asarray(VAL.logits.astype(kind), order=order))
        np.save(path.with_name(f"{path.stem}_labels.npy"), VAL.labels.astype(np.uint8))
        np.save(path.with_name(f"{path.stem}_classes.npy"), np.array(NAMES))

    return write


def zarr(version, **options):
    def write(path):
        group = require("zarr", "zarr").open_group(str(path), mode="w", zarr_format=version)
        array = group.create_array("logits", shape=(N, C), dtype="float32", chunks=(16, 3), **options)
        array[:] = VAL.logits
        group.create_array("label", data=VAL.labels.astype("i4"))
        group.attrs["classes"] = list(NAMES)

    return write


def bare_zarr(path):
    require("zarr", "zarr").create_array(str(path), data=VAL.logits, chunks=(10, C))
    np.save(path.with_name(f"{path.stem}_labels.npy"), VAL.labels)
    np.save(path.with_name(f"{path.stem}_classes.npy"), np.array(NAMES))


def hdf5(text_labels=False, userblock_size=0, **options):
    def write(path):
        with require("h5py", "hdf5").File(path, "w", userblock_size=userblock_size) as file:
            file.create_dataset("logits", data=VAL.logits, **options)
            file.create_dataset("labels", data=[NAMES[i] for i in VAL.labels] if text_labels else VAL.labels)
            file.create_dataset("class_names", data=list(NAMES))

    return write


def text(delimiter=",", packed=False):
    """A table of text, without pyarrow's help."""

    def write(path):
        rows = [["label", *NAMES]]
        rows += [[NAMES[label], *map(repr, row)] for label, row in zip(VAL.labels, VAL.logits.tolist(), strict=True)]
        lines = "".join(delimiter.join(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(lines) if packed else lines)

    return write


def csv_lists(path):
    cells = zip(VAL.labels, VAL.logits.tolist(), strict=True)
    path.write_text("label,logits\n" + "".join(f'{label},"{row}"\n' for label, row in cells))


def records(as_array=False):
    def write(path):
        found = [
            {"logits": row, "label": int(label)} for label, row in zip(VAL.labels, VAL.logits.tolist(), strict=True)
        ]
        path.write_text(json.dumps(found) if as_array else "".join(json.dumps(one) + "\n" for one in found))

    return write


def tensors(path):
    torch = require("torch", "torch")
    turned = torch.tensor(VAL.logits.T.copy()).T  # rows that do not stand one after the other
    torch.save({"logits": turned, "label": VAL.labels.tolist(), "class_names": list(NAMES), "epoch": 3}, path)


VARIANTS = {
    **{f"saved{suffix}": Variant(suffix, lambda path: save(path, VAL)) for suffix in SUFFIXES},
    "npy-fortran": Variant(".npy", npy("F")),
    "npy-big-endian": Variant(".npy", npy(kind=">f4")),
    "npz-fortran": Variant(".npz", npz(np.savez, "F")),
    "npz-packed": Variant(".npz", npz(np.savez_compressed)),
    "npz-packed-fortran": Variant(".npz", npz(np.savez_compressed, "F")),
    "parquet-groups": Variant(".parquet", parquet(_arrow_table)),
    "parquet-one-group": Variant(".parquet", parquet(lambda: _arrow_table("list", "text"), rows=1000)),
    "parquet-columns": Variant(".parquet", parquet(lambda: _columns_table("text"), compression="zstd")),
    "arrow-file": Variant(".arrow", ipc(_arrow_table)),
    "arrow-lists": Variant(".arrow", ipc(lambda: _arrow_table("list", "text"))),
    "arrow-large-lists": Variant(".ipc", ipc(lambda: _arrow_table("large"))),
    "arrow-columns": Variant(".arrow", ipc(_columns_table)),
    "feather-lz4": Variant(".feather", ipc(_arrow_table, "lz4")),
    "arrow-columns-zstd": Variant(".arrow", ipc(lambda: _columns_table("text"), "zstd")),
    "zarr-2": Variant(".zarr", zarr(2)),
    "zarr-3": Variant(".zarr", zarr(3)),
    "zarr-gzip": Variant(".zarr", zarr(3, compressors={"name": "gzip", "configuration": {"level": 1}})),
    "zarr-sharded": Variant(".zarr", zarr(3, shards=(32, 6))),
    "zarr-bare": Variant(".zarr", bare_zarr),
    "hdf5-plain": Variant(".h5", hdf5(userblock_size=512)),
    "csv-lists": Variant(".csv", csv_lists),
    "tsv": Variant(".tsv", text("\t")),
    "csv-gz": Variant(".csv.gz", text(packed=True)),
    "tsv-gz": Variant(".tsv.gz", text("\t", packed=True)),
    "json-lines": Variant(".jsonl", records()),
    "json-array": Variant(".json", records(as_array=True)),
    "pt-turned": Variant(".pt", tensors),
    "hdf5-packed": Variant(".hdf5", hdf5(text_labels=True, chunks=(16, 2), compression="gzip")),
}
