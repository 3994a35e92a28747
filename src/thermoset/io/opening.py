"""Files that need not fit into memory, as one set of rows."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Literal

from thermoset.data.choices import checked_options
from thermoset.data.groups import Groups, joined_groups, read_groups
from thermoset.data.input_kinds import warn_of_probabilities
from thermoset.data.stored import StoredLogits
from thermoset.errors import InputError
from thermoset.io.files import FilePath, Request, byte_limit, errors_about, existing
from thermoset.io.finding import Where, found_shards
from thermoset.io.label_files import LABEL_SUFFIXES, column_named, file_values, label_count, label_part
from thermoset.io.names import checked_roles
from thermoset.io.shard_checks import checked_shards
from thermoset.io.shards import FileShard, open_shard

__all__ = ["open"]


def open(  # noqa: A001  # users write ts.open; nothing in this module opens a file by itself
    where: Where,
    *,
    labels: Where | Literal[False] | None = None,
    probabilities: bool = False,
    classes: Sequence[str] | None = None,
    id_column: str | None = None,
    groups: FilePath | None = None,
    ignore: Sequence[str] = (),
    known: Sequence[str] | None = None,
    n_options: int | None = None,
    allow_duplicates: bool = False,
    max_bytes: int | None = None,
) -> StoredLogits:
    """Open files of logits without reading them: what takes `Logits` takes what comes back, and reads block by block.

    Parameters
    ----------
    where : path, folder, glob, or a list of these
        A folder stands for its files in the order of their names, `part-2` before `part-10`; a list keeps its order.
        See `thermoset.io.found_shards`. Each file is of a kind that `load` reads. csv, json and pt files are read whole
        when they are opened, and must fit into memory one at a time.
    labels : str, path, or a list of paths, optional
        The column or array that holds the labels, as for `load`; or files of labels: one for all rows in order, or a
        list of one for each shard. False leaves labels out.
    probabilities : bool
        The files hold probabilities; see `load`.
    classes, id_column, known
        As for `load`.
    groups : str or path, optional
        The group of each row, a name or a whole number: a column (an array, a dataset) of every file; for npy files
        that of a file beside it (`val_site.npy` for "site"); a key of folders called `site=north`; or a `.npy` or
        `.txt` file with one value for each row of all files. If left out, what is called `groups` is taken.
    ignore : sequence of str
        Columns that are not classes, such as a patient number.
    n_options : int, optional
        How many columns the options of multiple choice get; see `load`.
    allow_duplicates : bool
        Take a file that comes twice without complaint.
    max_bytes : int, optional
        Refuse a file of which something that must be read at once (a row, class names, a chunk, a text file) declares
        more bytes than this; by default half of the machine's memory.

    Raises
    ------
    InputError
        A file is missing, comes twice, or differs from the first one in its classes, its type or in having labels or
        groups. The message names it.
    FileFormatError
        A file is empty, truncated or of an unknown kind.
    MissingExtraError
        A library that reads these files is not installed.

    >>> import tempfile
    >>> import thermoset as ts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in range(3):
    ...         ts.save(f"{folder}/part-{part}.npz", ts.Logits([[2.0, part], [part, 1.2]], labels=[0, 1]))
    ...     rows = ts.open(folder)
    ...     print(rows.n_rows, rows.n_classes, rows.labels)
    6 2 [0 1 0 1 0 1]
    """
    column = column_named(groups)
    own = column_named(labels) if isinstance(labels, (str, os.PathLike)) else None
    request = Request(
        probabilities,
        byte_limit(max_bytes),
        labels is None or own is not None,
        n_options=checked_options(n_options),
        find_groups=groups is None or column is not None,
        leave_labels=labels is False,
        **checked_roles(labels=own, id_column=id_column, groups=column, classes=classes, ignore=ignore, known=known),
    )
    sidecars = (*request.ignored, *(name for name in (column, own) if name is not None))
    paths = found_shards(where, sidecars=sidecars)
    shards = checked_shards([open_shard(path, request) for path in paths], allow_duplicates)
    shards[0].check_columns()  # the others have the same
    if labels is not None and labels is not False and own is None:
        shards = _with_labels(shards, labels, request.max_bytes)
    rows = StoredLogits.of(shards, _groups(shards, groups if column is None else None, request.max_bytes))
    warn_of_probabilities(rows)
    return rows


def _with_labels(shards: Sequence[FileShard], labels: Where, max_bytes: int) -> tuple[FileShard, ...]:
    """Let shards take their labels from other files."""
    n_rows = [shard.n_rows for shard in shards]
    if isinstance(labels, (str, os.PathLike)):
        file = existing(labels, LABEL_SUFFIXES)[0]
        _check_count(file, sum(n_rows), max_bytes)
        parts = [(file, (end - rows, end)) for rows, end in zip(n_rows, accumulate(n_rows), strict=True)]
    else:
        if len(labels) != len(shards):
            raise InputError(f"labels must be one file, or one for each of {len(shards)} shards; got {len(labels)}.")
        parts = [(existing(path, LABEL_SUFFIXES)[0], (0, rows)) for path, rows in zip(labels, n_rows, strict=True)]
        for file, (_, rows) in parts:
            _check_count(file, rows, max_bytes)
    return tuple(
        replace(shard, stored=shard.stored._replace(labels=partial(label_part, file, rows, max_bytes, shard.classes)))
        for shard, (file, rows) in zip(shards, parts, strict=True)
    )


def _check_count(file: Path, wanted: int, max_bytes: int) -> None:
    with errors_about(file):
        if (got := label_count(file, max_bytes)) != wanted:
            raise InputError(f"has {got} values for {wanted} rows. Pass one per row, in the order of the shards.")


def _groups(shards: Sequence[FileShard], file: FilePath | None, max_bytes: int) -> Groups | None:
    """The groups of all rows, from a file of their own or from the shards."""
    if file is not None:
        return _group_file(shards, file, max_bytes)
    found = [one for shard in shards if (one := shard.groups()) is not None]
    return joined_groups(found) if found else None


def _group_file(shards: Sequence[FileShard], groups: FilePath, max_bytes: int) -> Groups:
    """Read groups from a file of their own."""
    file, n_rows = existing(groups, LABEL_SUFFIXES)[0], sum(shard.n_rows for shard in shards)
    _check_count(file, n_rows, max_bytes)
    with errors_about(file):
        return read_groups(file_values(file, max_bytes), n_rows)
