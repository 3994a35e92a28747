"""Files of logits: npz, npy, csv, parquet, json, safetensors and pt, by the suffix of the name; files of predictions.

No unpickler ever sees a file of logits, sizes are checked before memory is allocated, and a file is
written whole or not at all. `load` and `save` take a file at once, `open_blocks` and `open_predictions` in blocks of
rows.
"""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from thermoset.data import Logits
from thermoset.data.choices import checked_options
from thermoset.errors import InputError
from thermoset.io.blocks import open_blocks
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
from thermoset.io.label_files import LABEL_SUFFIXES, with_labels
from thermoset.io.listed import read_csv_file
from thermoset.io.numpy_files import read_npy, read_npz, siblings, write_npy, write_npz
from thermoset.io.parquet import read_parquet, write_parquet
from thermoset.io.predictions import PREDICTION_SUFFIXES, open_predictions
from thermoset.io.records import read_json
from thermoset.io.safe import read_safetensors, write_safetensors
from thermoset.io.tensors import read_pt, write_pt

__all__ = ["PREDICTION_SUFFIXES", "READABLE", "SUFFIXES", "files_of", "load", "open_blocks", "open_predictions", "save"]

READERS: dict[str, Callable[[Path, Request], Logits]] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".csv": read_csv_file,
    ".parquet": read_parquet,
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
    ".safetensors": write_safetensors,
    ".pt": write_pt,
    ".pth": write_pt,
}
READABLE = tuple(READERS)
"""The endings of file names that can be read."""
SUFFIXES = tuple(suffix for suffix in READERS if suffix in STREAM_WRITERS or suffix == ".npy")
"""The endings of file names that can be read and written."""


def files_of(path: FilePath) -> tuple[Path, ...]:
    """The files that a file of logits is made of: for npy also those of labels and class names beside it.

    >>> [part.name for part in files_of("val_logits.npy")]
    ['val_logits.npy', 'val_labels.npy', 'val_classes.npy']
    """
    named = as_path(path)
    return (named, *siblings(named)) if named.suffix.lower() == ".npy" else (named,)


def load(
    path: FilePath,
    *,
    labels: FilePath | None = None,
    probabilities: bool = False,
    n_options: int | None = None,
    max_bytes: int | None = None,
) -> Logits:
    """Read a file of logits.

    Parameters
    ----------
    path : path
        - `.npz`, `.safetensors`, `.pt`, `.pth`: arrays `logits` (n, C) and optionally `labels` (or `label`) and
          `classes` (or `class_names`); others are ignored. In safetensors the class names are metadata (a JSON list);
          a `.pt` holds a dict, or one tensor of logits; labels may be a list there, class names are one.
        - `.npy`: logits. Labels and class names come from files beside it if they exist: the last `logits` (`probs`,
          `probabilities`) in the name is replaced by `labels` and `classes` (`val_logits.npy`, `val_labels.npy`); a
          name without that word gets `_labels` appended (`val.npy`, `val_labels.npy`).
        - `.csv`: a header line, one column a class, named after it, and optionally a column `label` (or `labels`),
          which holds class names or column numbers counted from 0. Other columns are errors. Or a column `logits` (or
          `logit`) whose cells are lists; other columns are then ignored.
        - `.parquet`: a list column `logits` (or `logit`), or one numeric column a class as in csv; a column `label`
          (or `labels`).
        - `.json`, `.jsonl`: an object for each row, with a list `logits` (or `logit`) and optionally a number `label`
          (or `labels`): one after the other, in an array, or as pandas writes them. Or the samples that lm-eval logs
          of a multiple-choice task, whose labels are the right options; see `Logits.from_choices`.
    labels : path, optional
        A file with the labels, for a file that has none or whose labels are not wanted: `.npy`, or `.txt` with one
        label in each line.
    probabilities : bool
        The file holds probabilities, which may be called `probs` or `probabilities` (in tables also `prob`); see
        `Logits.from_probabilities`.
    n_options : int, optional
        How many columns the options of multiple choice get; by default as many as the longest question needs. Other
        files have as many columns as they have.
    max_bytes : int, optional
        Refuse files that are larger, or whose arrays declare more bytes than this; by default half of the machine's
        memory.

    Raises
    ------
    InputError
        The file does not exist or holds data that cannot be used.
    FileFormatError
        It is truncated, hostile, of an unknown kind, or without the arrays that are needed.
    MissingExtraError
        pyarrow, safetensors or torch is needed and not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/val.npz", Logits([[2.0, 0.5], [0.1, 1.2]], labels=[0, 1]))
    ...     load(f"{folder}/val.npz")
    Logits(2 rows x 2 classes, float64, labelled)
    """
    limit = byte_limit(max_bytes)
    source, suffix = existing(path, READABLE)
    label_file = None if labels is None else existing(labels, LABEL_SUFFIXES)[0]
    request = Request(probabilities, limit, find_labels=label_file is None, n_options=checked_options(n_options))
    with errors_about(source):
        check_size(source.stat().st_size, limit, "the file")
        loaded = READERS[suffix](source, request)
        return loaded if label_file is None else with_labels(loaded, label_file, limit)


def save(path: FilePath, logits: Logits) -> None:
    """Write a file that `load` reads; the suffix decides the format.

    All but csv keep the type of the numbers; csv keeps their values (it is read as float64). The file appears whole
    or not at all. An npy file takes its labels and class names in files beside it, each of which is written whole.

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
    suffix = known_suffix(target, SUFFIXES)
    check_targets(files_of(target), ())  # all of them, before one is written
    with errors_about(target, "written"):
        if suffix == ".npy":
            write_npy(target, logits)
            return
        with write_whole(target) as stream:
            STREAM_WRITERS[suffix](stream, logits)
