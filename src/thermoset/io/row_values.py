"""One value for each row that is no logit: from a column, from a file beside the logits, or from a folder's name."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data.labels import one_column
from thermoset.errors import FileFormatError, InputError
from thermoset.io.arrow_files import read_arrow_column
from thermoset.io.csv_text import csv_column
from thermoset.io.files import FilePath, Request, byte_limit, errors_about, existing
from thermoset.io.finding import Where, found_shards
from thermoset.io.group_folders import hive_value
from thermoset.io.hdf5_files import read_hdf5_dataset
from thermoset.io.label_files import LABEL_SUFFIXES, file_values, is_label_file
from thermoset.io.names import checked_columns, checked_roles
from thermoset.io.numpy_files import sibling
from thermoset.io.numpy_rows import read_npy_values, read_npz_values
from thermoset.io.parquet import read_column
from thermoset.io.records import json_column
from thermoset.io.safe import read_values as read_safetensors_values
from thermoset.io.shards import FileShard, open_shard
from thermoset.io.tensors import read_pt_values
from thermoset.io.zarr_folders import read_zarr_array
from thermoset.quoting import quoted

__all__ = ["column_of", "read_values"]


def read_values(
    where: Where,
    name: FilePath,
    *,
    probabilities: bool = False,
    classes: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    max_bytes: int | None = None,
) -> NDArray[Any]:
    r"""Read one value for each row from files of logits: the patient, font or camera that a split keeps together.

    Parameters
    ----------
    where : path, folder, glob, or a list of these
        The files of logits, as for `thermoset.open`.
    name : str or path
        A column (an array, a dataset) of every file; for npy files that of a file beside it (`val_patient.npy`); a key
        of folders called `patient=ann`; or a `.npy` or `.txt` file with one value for each row of all files.
    probabilities, classes, max_bytes
        As for `thermoset.open`.
    ignore : sequence of str
        Other columns that are not classes, as for `thermoset.open`: also those of labels, ids and groups, where they
        are not called `label` and `groups`.

    Returns
    -------
    array (n,)
        Numbers or text. The text of a csv or txt file stays text: 007 is not 7.

    Raises
    ------
    InputError, FileFormatError
        As `thermoset.open`; or there is no such column, or it has not one value for each row. The message names the
        file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "val.csv")
    ...     _ = path.write_text("patient,cat,dog\n007,1.5,0.5\n012,0.1,2.5\n")
    ...     read_values(path, "patient").tolist()
    ['007', '012']
    """
    limit = byte_limit(max_bytes)
    if is_label_file(name):
        file = existing(name, LABEL_SUFFIXES)[0]
        with errors_about(file):
            return one_column(file_values(file, limit), "values")
    column = str(name)
    beside = (column, *checked_columns(ignore))
    roles = checked_roles(classes=classes, ignore=beside)
    request = Request(probabilities, limit, find_labels=False, find_groups=False, doubt=False, **roles)
    shards = [open_shard(path, request) for path in found_shards(where, sidecars=(column, *ignore))]
    return column_of(shards, column)


def column_of(shards: Sequence[FileShard], name: str) -> NDArray[Any]:
    """The values of a column of every shard, one for each row: numbers or text."""
    parts: list[NDArray[Any]] = []
    for shard in shards:
        with errors_about(shard.path):
            parts.append(_values(shard, name))
            if (parts[-1].dtype.kind == "U") != (parts[0].dtype.kind == "U"):
                raise InputError(f"{quoted(name)} is text in some shards and a number in others.")
    return np.concatenate(parts)


def _values(shard: FileShard, name: str) -> NDArray[Any]:
    path = shard.path
    value = hive_value(path, name)
    if value is not None:
        return np.full(shard.n_rows, value)
    read = COLUMNS[path.suffix.lower()](path, name, shard.request)
    found = one_column(read if hasattr(read, "dtype") else list(read), name)  # type: ignore[call-overload]
    if found.shape != (shard.n_rows,) or found.dtype.kind not in "iubfU":
        raise FileFormatError(
            f"{quoted(name)} must hold one value for each of {shard.n_rows} rows, a number or text; got "
            f"{found.dtype}, shape {found.shape}."
        )
    return found


def _beside(path: Path, name: str, request: Request) -> object:
    file = sibling(path.with_suffix(".npy"), name)
    if not file.exists():
        raise FileFormatError(f"there is no {file.name} next to it to read {quoted(name)} from.")
    return read_npy_values(file, request.max_bytes)


def _zarr(path: Path, name: str, request: Request) -> object:
    bare = not (path / name).is_dir() and sibling(path.with_suffix(".npy"), name).exists()
    return _beside(path, name, request) if bare else read_zarr_array(path, name, request)


def _csv(path: Path, name: str, _: Request) -> object:
    return csv_column(path, name)


COLUMNS: dict[str, Callable[[Path, str, Request], object]] = {
    ".npz": read_npz_values,
    ".npy": _beside,
    ".csv": _csv,
    ".parquet": read_column,
    ".arrow": read_arrow_column,
    ".feather": read_arrow_column,
    ".ipc": read_arrow_column,
    ".zarr": _zarr,
    ".h5": read_hdf5_dataset,
    ".hdf5": read_hdf5_dataset,
    ".safetensors": read_safetensors_values,
    ".pt": read_pt_values,
    ".pth": read_pt_values,
    ".json": json_column,
    ".jsonl": json_column,
}
"""How a column is read from the files of each ending."""
