"""Files as rows: `load` and `open`, `save`, and one value for each row, such as a label or whatever a column holds."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Groups, Logits
from thermoset.data.groups import joined_groups, read_groups
from thermoset.data.guards import warn_of_probabilities
from thermoset.data.labels import column_indices, partial_indices
from thermoset.data.reading import one_column
from thermoset.data.stored import StoredLogits
from thermoset.data.top_k import TopLogits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import (
    FilePath,
    as_path,
    byte_limit,
    check_size,
    check_targets,
    errors_about,
    existing_file,
    known_suffix,
    read_at_most,
)
from thermoset.io.formats import SUFFIXES, Where, format_of, found_shards
from thermoset.io.numpy import SIBLINGS, npy_column, sibling
from thermoset.io.roles import (
    VALUE_SUFFIXES,
    TopColumns,
    all_values,
    checked_columns,
    column_or_file,
    is_value_file,
    named_column,
    read_as_numbers,
    request,
    top_arrays,
)
from thermoset.io.source import Source, hive_value, open_source, open_table
from thermoset.io.table import Held, Table
from thermoset.quoting import quoted


def files_of(path: FilePath) -> tuple[Path, ...]:
    """The files that a file of logits is made of: for npy also those of labels, class names and groups next to it.

    >>> [part.name for part in files_of("val_logits.npy")]
    ['val_logits.npy', 'val_labels.npy', 'val_classes.npy', 'val_groups.npy']
    """
    named = as_path(path)
    return (named, *(sibling(named, name) for name in SIBLINGS if named.suffix.lower() == ".npy"))


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
        Arrays `logits` (n, C) and optionally `labels`, `classes` and `groups`: `.npz`, `.safetensors`, `.pt`, `.zarr`,
        `.h5`; for `.npy` each in a file of its own (`val_logits.npy`, `val_labels.npy`). Tables with a column for each
        class, or a column of lists: `.csv`, `.parquet`, `.arrow`, `.jsonl`. `docs/file-formats.md` has all of it.
    labels : str or path, optional
        The column or array that holds the labels, where it is not called `label` or `labels`; for an npy file that of
        a file next to it (`val_target.npy` for "target"). Or a file with the labels, for a file that has none: `.npy`,
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
        a file next to it (`val_site.npy` for "site"); a key of folders above the file that are called `site=north`; or
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
    options = request(
        probabilities,
        max_bytes,
        labels=labels,
        groups=groups,
        classes=classes,
        id_column=id_column,
        ignore=ignore,
        known=known,
        n_options=n_options,
    )
    source = open_source(path, options)
    with errors_about(source.path):
        check_size(max(source.n_bytes, source.path.stat().st_size), options.max_bytes, "the file")
    source.check_columns()
    rows = source.rows(0, source.n_rows)
    row_labels = source.labels() if options.label_file is None else labels_in(options.label_file, source, rows.n_rows)
    rows = rows if row_labels is None else rows.labelled(row_labels)
    warn_of_probabilities(rows)
    if options.group_file is None:
        return rows
    return rows.with_groups(groups_in(options.group_file, options.max_bytes, rows.n_rows))


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
        See `thermoset.io.found_shards`. Each file is of a kind that `load` reads.
    labels : str, path, or a list of paths, optional
        The column or array that holds the labels, as for `load`; or files of labels: one for all rows in order, or a
        list of one for each shard. False leaves labels out.
    groups : str or path, optional
        As for `load`; a file has one value for each row of all files.
    probabilities, classes, id_column, ignore, known, n_options
        As for `load`.
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
    many = list(labels) if isinstance(labels, (list, tuple)) else None
    options = request(
        probabilities,
        max_bytes,
        labels=labels if many is None else False,  # type: ignore[arg-type]
        groups=groups,
        classes=classes,
        id_column=id_column,
        ignore=ignore,
        known=known,
        n_options=n_options,
    )
    sources = [open_source(path, options) for path in found_shards(where, sidecars=options.named)]
    first, n_rows = sources[0], sum(one.n_rows for one in sources)
    for one in sources:
        with errors_about(one.path):
            _check_like(one, first)
    if not allow_duplicates:
        _check_once([one.path for one in sources])
    first.check_columns()  # the others have the same
    if options.label_file is not None:
        of_labels = [labels_in(options.label_file, first, n_rows)]
    elif many is not None:
        if len(many) != len(sources):
            raise InputError(f"labels must be one file, or one for each of {len(sources)} shards; got {len(many)}.")
        files = [existing_file(file, VALUE_SUFFIXES)[0] for file in many]
        of_labels = [labels_in(file, one, one.n_rows) for file, one in zip(files, sources, strict=True)]
    else:
        of_labels = [known_labels for one in sources if (known_labels := one.labels()) is not None]
    if options.group_file is not None:
        of_groups = [groups_in(options.group_file, options.max_bytes, n_rows)]
    else:
        of_groups = [known_groups for one in sources if (known_groups := one.groups()) is not None]
    # What goes to other processes is the scores alone, with names that are in memory once.
    layouts = [one.layout._replace(labels=None, groups=None, classes=None, columns=()) for one in sources]
    pairs = zip(sources, layouts, strict=True)
    shards = [replace(one, classes=first.classes, layout=layout) for one, layout in pairs]
    rows = StoredLogits.of(
        shards, np.concatenate(of_labels) if of_labels else None, joined_groups(of_groups) if of_groups else None
    )
    warn_of_probabilities(rows)
    return rows


def _check_like(one: Source, first: Source) -> None:
    """Refuse a file that does not continue the first one."""
    if isinstance(one.layout.scores, TopColumns):
        raise InputError(
            "contains the largest logits of each row, which are small enough for memory: read it with thermoset.load."
        )
    if one.n_classes != first.n_classes:
        raise InputError(
            f"has {one.n_classes} classes where {first.path} has {first.n_classes}. Were they made by one model?"
        )
    if one.classes != first.classes:
        if one.classes is None or first.classes is None:
            has = "has no class names" if one.classes is None else "has class names"
            raise InputError(f"{has}, unlike {first.path}. Give all shards the same names, or none.")
        what = "the same classes in another order" if set(one.classes) == set(first.classes) else "other classes"
        pairs = enumerate(zip(one.classes, first.classes, strict=True))
        place, (name, other) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
        raise InputError(
            f"has {what} than {first.path}: column {place} is {quoted(name)}, there it is {quoted(other)}."
        )
    if one.dtype != first.dtype:
        raise InputError(f"gives {one.dtype} where {first.path} gives {first.dtype}. Save all shards in one type.")
    for what in ("labels", "groups"):
        mine, others = (getattr(source.layout, what) is not None for source in (one, first))
        if mine != others:
            raise InputError(
                f"has {'' if mine else 'no '}{what}, unlike {first.path}. Give all shards {what}, or none."
            )


def _check_once(paths: Sequence[Path]) -> None:
    seen: dict[tuple[int, int], Path] = {}
    for path in paths:
        with errors_about(path):
            status = path.stat()
            other = seen.setdefault((status.st_dev, status.st_ino), path)
            if other is not path:
                same = "appears twice" if other == path else f"is the same file as {other}"
                raise InputError(f"{same}. Name each shard once, or pass allow_duplicates=True.")


def save(path: FilePath, logits: Logits) -> None:
    """Write a file that `load` reads; the suffix decides the format.

    All but csv keep the type of the numbers; csv keeps their values (it is read as float64). The file appears whole
    or not at all. An npy file takes its labels, class names and groups in files next to it, each of which is written
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
    suffix = known_suffix(target, SUFFIXES)
    check_targets(files_of(target), ())  # all of them, before one is written
    with errors_about(target, "written"):
        format_of(suffix).save(target, table_of(logits))


def table_of(logits: Logits) -> Table:
    """Rows as they are written."""
    columns, metadata = top_arrays(logits) if isinstance(logits, TopLogits) else ({"logits": logits.logits}, {})
    if logits.labels is not None:
        columns.setdefault("labels", logits.labels)
    if logits.groups is not None:
        columns["groups"] = np.array(logits.groups.names, dtype=object)[logits.groups.codes]
    if logits.classes is not None:
        metadata["classes"] = list(logits.classes)
    return Table({name: Held(np.ascontiguousarray(array)) for name, array in columns.items()}, metadata)


# -- files of values ---------------------------------------------------------------------------------------------------


def file_values(path: Path, max_bytes: int) -> NDArray[Any]:
    """Values of rows, of an npy file or of lines of text, which stay text, with their zeros: 007."""
    if path.suffix.lower() == ".npy":
        return all_values(npy_column(path), max_bytes)
    lines = read_at_most(path, max_bytes).decode("utf-8-sig").splitlines()
    return np.array([line.strip() for line in lines], dtype=object)


def labels_in(file: Path, source: Source, n_rows: int) -> NDArray[np.int64]:
    """The labels of some rows, which begin with those of a source, from a file of their own."""
    with errors_about(file):
        values = read_as_numbers(_one_each(file_values(file, source.request.max_bytes), n_rows), source.classes)
        return column_indices(values, (n_rows, source.n_classes), source.classes)


def groups_in(file: Path, max_bytes: int, n_rows: int) -> Groups:
    """The groups of some rows from a file of their own."""
    with errors_about(file):
        return read_groups(_one_each(file_values(file, max_bytes), n_rows), n_rows)


def _one_each(values: NDArray[Any], n_rows: int) -> NDArray[Any]:
    if len(values) != n_rows:
        raise InputError(f"has {len(values)} values for {n_rows} rows. Pass one per row, in the order of the rows.")
    return values


# -- values of one column ----------------------------------------------------------------------------------------------


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
        A column (an array, a dataset) of every file; for npy files that of a file next to it (`val_patient.npy`); a key
        of folders called `patient=ann`; or a `.npy` or `.txt` file with one value for each row of all files.
    probabilities, classes, max_bytes
        As for `thermoset.open`.
    ignore : sequence of str
        Other columns that are not classes: also those of labels, ids and groups that have other names than these.

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
    if is_value_file(name):
        file = existing_file(name, VALUE_SUFFIXES)[0]
        with errors_about(file):
            return one_column(file_values(file, limit), "values")
    column = str(name)
    others = (column, *checked_columns(ignore))
    options = request(probabilities, max_bytes, labels=False, groups=False, classes=classes, ignore=others, doubt=False)
    parts: list[NDArray[Any]] = []
    for path in found_shards(where, sidecars=others):
        source = open_source(path, options, fewest=0)
        value = hive_value(source.path, column)
        if value is not None:
            parts.append(np.full(source.n_rows, value))
            continue
        with source.errors():
            values = all_values(named_column(open_table(path, options)[1], column), limit)
            parts.append(_plain_values(values, column, source.n_rows))
            if (parts[-1].dtype.kind == "U") != (parts[0].dtype.kind == "U"):
                raise InputError(f"{quoted(column)} is text in some files and a number in others.")
    return np.concatenate(parts)


def _plain_values(values: NDArray[Any], name: str, n_rows: int) -> NDArray[Any]:
    """One number or text for each row, none of them missing."""
    if values.shape == (n_rows,) and values.dtype.kind == "O":
        for row, one in enumerate(values.tolist()):
            if one is None or (isinstance(one, str) and not one.strip()):
                raise InputError("is missing. Give every row a value, or drop the row.", row=row, name=name)
        values = one_column(values.tolist(), name)
    if values.shape != (n_rows,) or values.dtype.kind not in "iubfU":
        raise FileFormatError(
            f"{quoted(name)} must hold one value for each of {n_rows} rows, a number or text; got {values.dtype}, "
            f"shape {values.shape}."
        )
    return values


def read_partial_labels(
    where: Where,
    rows: Logits,
    labels: FilePath | None = None,
    *,
    probabilities: bool = False,
    classes: Sequence[str] | None = None,
    id_column: str | None = None,
    groups: FilePath | None = None,
    ignore: Sequence[str] = (),
    max_bytes: int | None = None,
) -> NDArray[np.int64] | None:
    r"""Read the labels of rows, as column numbers with -1 where a label is missing; None if there are no labels.

    Parameters
    ----------
    where : path, folder, glob, or a list of these
        The files that the rows were read from.
    rows : Logits
        Those rows, read with `labels=False`.
    labels : str or path, optional
        The column of the labels, or a file with them, as for `thermoset.load`; a blank line is a missing one.
    probabilities, classes, id_column, groups, ignore, max_bytes
        As for `thermoset.load`, with which the rows were read.

    >>> import tempfile, thermoset as ts
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "today.csv")
    ...     _ = path.write_text("label,cat,dog\ndog,1.5,0.5\n,0.1,2.5\n")
    ...     read_partial_labels(path, ts.load(path, labels=False))
    array([ 1, -1])
    """
    shape, known = (rows.n_rows, rows.n_classes), rows.classes
    named = [name for name in (column_or_file(groups)[0], id_column) if name is not None]
    others = (*checked_columns(ignore), *named)
    options = request(
        probabilities, max_bytes, labels=labels, groups=False, classes=classes, ignore=others, doubt=False
    )
    if options.label_file is not None:
        with errors_about(options.label_file):
            values = read_as_numbers(file_values(options.label_file, options.max_bytes), known)
            return partial_indices(values, shape, known, column_indices)
    paths = found_shards(where, sidecars=options.named)
    parts = [open_source(path, options, fewest=0).label_values() for path in paths]
    if all(one is None for one in parts):
        return None
    for path, one in zip(paths, parts, strict=True):
        if one is None:
            raise InputError(f"{path}: has no labels, but other files do. Add them as separate batches.")
    values = parts[0] if len(parts) == 1 else list(chain.from_iterable(one_column(one, "labels") for one in parts))
    with errors_about(paths[0]):
        return partial_indices(values, shape, known, column_indices)
