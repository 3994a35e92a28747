"""Files of logits: npz, npy, csv, parquet, Arrow, Zarr, HDF5, json, safetensors and pt, by the suffix of the name.

No unpickler ever sees a file of logits, sizes are checked before memory is allocated, and a file is
written whole or not at all. `load` and `save` take a file at once, `open_blocks` and `open_predictions` (files of
predictions) in blocks of rows; `thermoset.open` takes many files as one set of rows.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from thermoset.data import Logits, as_logits
from thermoset.data.choices import checked_options
from thermoset.data.input_kinds import warn_of_probabilities
from thermoset.data.top import TopLogits
from thermoset.errors import InputError
from thermoset.io.arrow_files import read_arrow, write_arrow
from thermoset.io.blocks import open_blocks
from thermoset.io.compact import read_top, write_top
from thermoset.io.delimited import write_csv
from thermoset.io.files import (
    FilePath,
    Request,
    as_path,
    byte_limit,
    check_size,
    check_targets,
    errors_about,
    existing,
    known_suffix,
    write_whole,
)
from thermoset.io.finding import found_shards
from thermoset.io.group_folders import group_folder, same_group
from thermoset.io.hdf5_files import read_hdf5, write_hdf5
from thermoset.io.label_files import column_named, file_values, value_file, with_labels
from thermoset.io.listed import read_csv_file
from thermoset.io.names import checked_roles
from thermoset.io.numpy_files import read_npy, read_npz, siblings, write_npy, write_npz
from thermoset.io.parquet import read_parquet, write_parquet
from thermoset.io.predictions import PREDICTION_SUFFIXES, open_predictions
from thermoset.io.records import read_json
from thermoset.io.row_values import read_values
from thermoset.io.safe import read_safetensors, write_safetensors
from thermoset.io.tensors import read_pt, write_pt
from thermoset.io.zarr_folders import read_zarr, write_zarr

__all__ = [
    "PREDICTION_SUFFIXES",
    "READABLE",
    "SUFFIXES",
    "files_of",
    "found_shards",
    "load",
    "open_blocks",
    "open_predictions",
    "read_values",
    "save",
]

READERS: dict[str, Callable[[Path, Request], Logits]] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".csv": read_csv_file,
    ".parquet": read_parquet,
    ".arrow": read_arrow,
    ".feather": read_arrow,
    ".ipc": read_arrow,
    ".zarr": read_zarr,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
    ".safetensors": read_safetensors,
    ".pt": read_pt,
    ".pth": read_pt,
    ".json": read_json,
    ".jsonl": read_json,
}
STREAM_WRITERS: dict[str, Callable[[BinaryIO, Logits], None]] = {
    ".npz": write_npz,
    ".csv": write_csv,
    ".parquet": write_parquet,
    ".arrow": write_arrow,
    ".feather": write_arrow,
    ".ipc": write_arrow,
    ".h5": write_hdf5,
    ".hdf5": write_hdf5,
    ".safetensors": write_safetensors,
    ".pt": write_pt,
    ".pth": write_pt,
}
PATH_WRITERS: dict[str, Callable[[Path, Logits], None]] = {".npy": write_npy, ".zarr": write_zarr}
READABLE = tuple(READERS)
"""The endings of file names that can be read."""
SUFFIXES = tuple(suffix for suffix in READERS if suffix in STREAM_WRITERS or suffix in PATH_WRITERS)
"""The endings of file names that can be read and written."""


def files_of(path: FilePath) -> tuple[Path, ...]:
    """The files that a file of logits is made of: for npy also those of labels, class names and groups beside it.

    >>> [part.name for part in files_of("val_logits.npy")]
    ['val_logits.npy', 'val_labels.npy', 'val_classes.npy', 'val_groups.npy']
    """
    named = as_path(path)
    return (named, *siblings(named)) if named.suffix.lower() == ".npy" else (named,)


def load(
    path: FilePath,
    *,
    labels: FilePath | Literal[False] | None = None,
    probabilities: bool = False,
    classes: Sequence[str] | None = None,
    id_column: str | None = None,
    groups: FilePath | None = None,
    ignore: Sequence[str] = (),
    known: Sequence[str] | None = None,
    n_options: int | None = None,
    max_bytes: int | None = None,
) -> Logits:
    """Read a file of logits.

    Parameters
    ----------
    path : path
        - `.npz`, `.safetensors`, `.pt`, `.pth`: arrays `logits` (n, C) and optionally `labels` (or `label`),
          `classes` (or `class_names`) and `groups`; others are ignored. In safetensors the class names are metadata (a
          JSON list), as are names of groups, of which the tensor then holds the places; a `.pt` holds a dict, or one
          tensor of logits; labels and groups may be lists there, class names are one.
        - `.npy`: logits. Labels, class names and groups come from files beside it if they exist: the last `logits`
          (`probs`, `probabilities`) in the name is replaced by `labels`, `classes` and `groups` (`val_logits.npy`,
          `val_labels.npy`); a name without that word gets `_labels` appended (`val.npy`, `val_labels.npy`).
        - `.csv`: a header line, a column for each class, named after it, and optionally columns `label` (or `labels`),
          which holds class names or column numbers counted from 0, and `groups`. Columns that are something else must
          be named, in `id_column`, `labels`, `groups` or `ignore`; one that does not look like a class is refused. Or a
          column `logits` (or `logit`) whose cells are lists; other columns are then ignored.
        - `.parquet`: a list column `logits` (or `logit`), or one numeric column a class as in csv; columns `label`
          (or `labels`) and `groups`.
        - `.arrow`, `.feather`, `.ipc`: Arrow files (not streams), with the columns of `.parquet`.
        - `.zarr` (a folder), `.h5`, `.hdf5`: arrays or datasets `logits`, `labels`, `classes` and `groups`, as in npz.
          A Zarr folder may also be one array of logits, with the others in npy files beside it.
        - `.json`, `.jsonl`: an object for each row, with a list `logits` (or `logit`) and optionally a number `label`
          (or `labels`) and a name or number `groups`: one in each line, or all in an array. Or the samples that lm-eval
          logs of a multiple-choice task, whose labels are the right options; see `Logits.from_choices`.
        - `.npz`, `.parquet` with `top_indices` and `top_logits` (or `indices` and `values`, or `logprobs`): rows that
          hold only their largest logits, which become `TopLogits`; see `thermoset.io.compact`.
    labels : str or path, optional
        The column or array that holds the labels, where it is not called `label` or `labels`; for an npy file that of
        a file beside it (`val_target.npy` for "target"). Or a file with the labels, for a file that has none: `.npy`,
        or `.txt` with one label in each line. A name that ends in `.npy` or `.txt` is a file, any other a column.
        False leaves labels out.
    probabilities : bool
        The file holds probabilities, which may be called `probs` or `probabilities` (in tables also `prob`); see
        `Logits.from_probabilities`.
    classes : sequence of str, optional
        Which columns of a table are the classes, in the order that they are to have; all others are left out. Where
        rows are arrays or lists, names for their columns.
    id_column : str, optional
        The column of a table that holds ids, which is not a class. `read_values` reads it; predictions carry it along
        (`open_blocks`, `thermoset predict --id-column`).
    groups : str or path, optional
        The group of each row, where it is not called `groups`: the name of a column or array; for an npy file that of
        a file beside it (`val_site.npy` for "site"); a key of folders above the file that are called `site=north`; or
        a file: `.npy`, or `.txt` with one group in each line.
    ignore : sequence of str
        Other columns of a table that are not classes, such as a patient number; see also
        `thermoset.io.read_values`.
    known : sequence of str, optional
        Names that are those of classes for certain, such as the `class_names_` of a predictor: columns called so are
        not doubted, whatever their names look like.
    n_options : int, optional
        How many columns the options of multiple choice get; by default as many as the longest question needs. How
        many classes there are where rows hold their largest logits and the file does not say. Other files have as many
        columns as they have.
    max_bytes : int, optional
        Refuse files that are larger, or whose arrays declare more bytes than this; by default half of the machine's
        memory.

    Raises
    ------
    InputError
        The file does not exist or holds data that cannot be used.
    FileFormatError
        It is truncated, of an unknown kind, or without the arrays that are needed.
    MissingExtraError
        pyarrow, safetensors, zarr, h5py or torch is needed and not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/val.npz", Logits([[2.0, 0.5], [0.1, 1.2]], labels=[0, 1]))
    ...     load(f"{folder}/val.npz")
    Logits(2 rows x 2 classes, float64, labelled)
    """
    limit = byte_limit(max_bytes)
    source, suffix = existing(path, READABLE)
    label_file, group_file = value_file(labels), value_file(groups)
    request = Request(
        probabilities,
        limit,
        find_labels=label_file is None and labels is not False,
        n_options=checked_options(n_options),
        find_groups=group_file is None,
        leave_labels=labels is False,
        **checked_roles(
            labels=column_named(labels),
            id_column=id_column,
            groups=column_named(groups),
            classes=classes,
            ignore=ignore,
            known=known,
        ),
    )
    with errors_about(source):
        check_size(source.stat().st_size, limit, "the file")
        request, folder = group_folder(source, request)
        loaded = read_top(source, suffix, request) or READERS[suffix](source, request)
        loaded = loaded if label_file is None else with_labels(loaded, label_file, limit)
        loaded = loaded if folder is None else loaded.grouped(same_group(folder, len(loaded)))
    warn_of_probabilities(loaded)
    if group_file is None:
        return loaded
    with errors_about(group_file):
        return as_logits(loaded, groups=file_values(group_file, limit))


def save(path: FilePath, logits: Logits) -> None:
    """Write a file that `load` reads; the suffix decides the format.

    All but csv keep the type of the numbers; csv keeps their values (it is read as float64). The file appears whole
    or not at all. An npy file takes its labels, class names and groups in files beside it, each of which is written
    whole. Groups are written as text. A csv file with a class that does not look like one (`id`, with whole numbers) is
    read back with `load(path, classes=...)`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/val.csv", Logits([[2.0, 0.5]], labels=[1], classes=["cat", "dog"]))
    ...     print(Path(f"{folder}/val.csv").read_text())
    label,cat,dog
    dog,2.0,0.5
    """
    if not isinstance(logits, Logits):
        raise InputError(f"save writes Logits; got {type(logits).__name__}. Use save(path, Logits(logits, labels)).")
    target = as_path(path)
    if isinstance(logits, TopLogits):
        check_targets((target,), ())
        write_top(target, logits)
        return
    suffix = known_suffix(target, SUFFIXES)
    check_targets(files_of(target), ())  # all of them, before one is written
    with errors_about(target, "written"):
        if suffix in PATH_WRITERS:
            PATH_WRITERS[suffix](target, logits)
            return
        with write_whole(target) as stream:
            STREAM_WRITERS[suffix](stream, logits)
