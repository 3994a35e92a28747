"""Files that need not fit into memory: many as one set of rows (`open`), or one in blocks of rows (`open_blocks`)."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Groups, Logits
from thermoset.data.arrays import Floats, class_names
from thermoset.data.groups import joined_groups, read_groups
from thermoset.data.input_kinds import LOGITS, PROBABILITIES, warn_of_probabilities
from thermoset.data.labels import column_indices
from thermoset.data.stored import StoredLogits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.arrays import metadata_files
from thermoset.io.files import MOST_BYTES, FilePath, check_size, errors_about, existing
from thermoset.io.finding import Where, found_shards
from thermoset.io.formats import READABLE, format_of
from thermoset.io.loading import (
    VALUE_SUFFIXES,
    check_shape,
    column_named,
    file_values,
    group_folder,
    is_value_file,
    made_logits,
    rows_by_line,
    same_group,
)
from thermoset.io.roles import (
    Layout,
    Request,
    check_columns,
    checked_block_bytes,
    find_roles,
    numbered,
    read_labels,
    read_values,
    request,
    texts,
)
from thermoset.io.table import Column, Table
from thermoset.io.top_k import TopFile, find_top
from thermoset.quoting import quoted

BLOCK_BYTES = 1 << 24
_VALUE_BYTES = 8  # of a float64, the largest type of logits


# -- shards ------------------------------------------------------------------------------------------------------------


class Stamp(NamedTuple):
    """What tells whether a file was written to since it was opened."""

    n_bytes: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        """The file's size and when it was last written to; of a Zarr folder those of its metadata."""
        found = [part.stat() for part in (metadata_files(path) if path.is_dir() else [path])]
        return cls(sum(one.st_size for one in found), sum(one.st_mtime_ns for one in found))


@dataclass(frozen=True)
class FileShard:
    """Rows of logits in one file (a `thermoset.data.stored.Shard`); picklable, and opened when it is read.

    Attributes
    ----------
    path : Path
    name : str
        The path, and the array in a file that holds several.
    n_rows, n_classes : int
    dtype : float16, float32 or float64
        Type of the rows that `read` gives.
    classes : tuple of str, or None
    input_kind : "logits" or "probabilities"
        What the file holds; `read` gives logits.
    """

    path: Path
    name: str
    n_rows: int
    n_classes: int
    dtype: np.dtype[Any]
    classes: tuple[str, ...] | None
    input_kind: str
    request: Request = field(repr=False)
    scores: Column = field(repr=False)
    stamp: Stamp = field(repr=False)

    def read(self, start: int, stop: int) -> Floats:
        """Rows start to stop - 1, C-contiguous and checked."""
        with errors_about(self.path):
            if not 0 <= start < stop <= self.n_rows:
                raise InputError(f"has rows 0 to {self.n_rows}; asked for {start} to {stop}.")
            if Stamp.of(self.path) != self.stamp:
                raise InputError("was written to after it was opened. Open it again.")
            rows = self.scores.read(start, stop)
            return _checked_block(self.request, rows, start, self.n_rows).logits


class _Opened(NamedTuple):
    """A shard, and what its file holds beside the rows."""

    shard: FileShard
    layout: Layout
    table: Table
    folder: str | None  # the group that its folder gives to all rows

    @property
    def has_labels(self) -> bool:
        return self.layout.labels is not None

    @property
    def has_groups(self) -> bool:
        return self.folder is not None or self.layout.groups is not None

    def labels(self) -> NDArray[np.int64] | None:
        """The label of each row as a column number; None if there are none."""
        shard = self.shard
        with errors_about(shard.path), rows_by_line(self.table):
            return read_labels(self.layout, (shard.n_rows, shard.n_classes), shard.classes, shard.request.max_bytes)

    def groups(self) -> Groups | None:
        """The group of each row; None if there are none."""
        n_rows = self.shard.n_rows
        if self.folder is not None:
            return same_group(self.folder, n_rows)
        if self.layout.groups is None:
            return None
        with errors_about(self.shard.path), rows_by_line(self.table):
            return read_groups(read_values(self.layout.groups, self.shard.request.max_bytes), n_rows)


def open_shard(path: Path, asked: Request) -> _Opened:
    """Look at a file's header and what lies beside it; rows are not read."""
    source, suffix = existing(path, READABLE)
    with errors_about(source):
        stamp = Stamp.of(source)
        asked, folder = group_folder(source, asked)
        table = format_of(suffix).read(source, asked)
        if find_top(table, asked._replace(id_column=None, find_labels=False, find_groups=False)) is not None:
            raise InputError(
                "holds the largest logits of each row, which are small enough for memory: read it with thermoset.load."
            )
        layout = find_roles(table, asked)
        check_shape(layout, asked)
        n_rows, n_classes = layout.scores.shape
        classes = None if layout.classes is None else class_names(layout.classes, n_classes)
        kind = PROBABILITIES if asked.probabilities else LOGITS
        # A row that is one of logits and one of probabilities: what type does it become?
        dtype = made_logits(asked, np.array([[1, 0]], dtype=layout.scores.dtype)).logits.dtype
    name = f"{source}[{layout.array}]" if layout.array and not table.cells else str(source)
    shard = FileShard(source, name, n_rows, n_classes, dtype, classes, kind, asked, layout.scores, stamp)
    return _Opened(shard, layout, table, folder)


def _checked_block(
    asked: Request, scores: Any, first_row: int, n_rows: int, classes: Any = None, groups: Any = None
) -> Logits:
    """Make `Logits` of the rows from `first_row` on; what is said of a bad row counts rows of the file."""
    try:
        return made_logits(asked, scores, classes, groups)
    except InputError as error:
        if error.row is None:
            raise
        end = first_row + len(scores)
        more = "" if end == n_rows else f" Rows from {end} on were not looked at."
        raise error.at(first_row + error.row, more) from None


# -- all files as one set of rows --------------------------------------------------------------------------------------


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
    asked = request(
        probabilities,
        max_bytes,
        labels=own,
        groups=column,
        classes=classes,
        id_column=id_column,
        ignore=ignore,
        known=known,
        n_options=n_options,
        find_labels=labels is None or own is not None,
        find_groups=groups is None or column is not None,
    )
    sidecars = (*asked.ignored, *(name for name in (column, own) if name is not None))
    opened = [open_shard(path, asked) for path in found_shards(where, sidecars=sidecars)]
    shards = _checked_shards(opened, allow_duplicates)
    with errors_about(shards[0].path):
        check_columns(opened[0].layout, asked)  # the others have the same
    if labels is None or labels is False or own is not None:
        given = [found for one in opened if (found := one.labels()) is not None]
    else:
        given = _labels_of_files(shards, labels, asked.max_bytes)
    of_groups = _groups(opened, groups if column is None else None, asked.max_bytes)
    rows = StoredLogits.of(shards, np.concatenate(given) if given else None, of_groups)
    warn_of_probabilities(rows)
    return rows


def _labels_of_files(shards: Sequence[FileShard], labels: Where, max_bytes: int) -> list[NDArray[np.int64]]:
    """The labels of shards from other files: one for all rows, or one for each shard."""
    n_rows = [shard.n_rows for shard in shards]
    if isinstance(labels, (str, os.PathLike)):
        return [_file_labels(labels, sum(n_rows), shards[0], max_bytes)]
    if len(labels) != len(shards):
        raise InputError(f"labels must be one file, or one for each of {len(shards)} shards; got {len(labels)}.")
    return [_file_labels(file, shard.n_rows, shard, max_bytes) for file, shard in zip(labels, shards, strict=True)]


def _file_labels(name: FilePath, n_rows: int, shard: FileShard, max_bytes: int) -> NDArray[np.int64]:
    file = existing(name, VALUE_SUFFIXES)[0]
    with errors_about(file):
        values = _one_each(file_values(file, max_bytes), n_rows)
        return column_indices(numbered(values, shard.classes), (n_rows, shard.n_classes), shard.classes)


def _one_each(values: NDArray[Any], n_rows: int) -> NDArray[Any]:
    if len(values) != n_rows:
        raise InputError(f"has {len(values)} values for {n_rows} rows. Pass one per row, in the order of the shards.")
    return values


def _groups(opened: Sequence[_Opened], file: FilePath | None, max_bytes: int) -> Groups | None:
    """The groups of all rows, from a file of their own or from the shards."""
    if file is None:
        found = [groups for one in opened if (groups := one.groups()) is not None]
        return joined_groups(found) if found else None
    path, n_rows = existing(file, VALUE_SUFFIXES)[0], sum(one.shard.n_rows for one in opened)
    with errors_about(path):
        return read_groups(_one_each(file_values(path, max_bytes), n_rows), n_rows)


def _checked_shards(opened: Sequence[_Opened], allow_duplicates: bool) -> tuple[FileShard, ...]:
    """Refuse shards that differ from the first one, or that come twice."""
    first = opened[0]
    for one in opened[1:]:
        with errors_about(one.shard.path):
            _check_like(one, first)
    if not allow_duplicates:
        _check_once([one.shard.path for one in opened])
    return tuple(replace(one.shard, classes=first.shard.classes) for one in opened)  # names are in memory once


def _check_like(one: _Opened, other: _Opened) -> None:
    shard, first = one.shard, other.shard
    if shard.n_classes != first.n_classes:
        raise InputError(
            f"has {shard.n_classes} classes where {first.path} has {first.n_classes}. Were they made by one model?"
        )
    if shard.classes != first.classes:
        raise InputError(_other_names(shard, first))
    if shard.dtype != first.dtype:
        raise InputError(f"gives {shard.dtype} where {first.path} gives {first.dtype}. Save all shards in one type.")
    for what, has, had in (
        ("labels", one.has_labels, other.has_labels),
        ("groups", one.has_groups, other.has_groups),
    ):
        if has != had:
            said = f"has {what}" if has else f"has no {what}"
            raise InputError(f"{said}, unlike {first.path}. Give all shards {what}, or none.")


def _other_names(shard: FileShard, first: FileShard) -> str:
    if shard.classes is None or first.classes is None:
        has = "has no class names" if shard.classes is None else "has class names"
        return f"{has}, unlike {first.path}. Give all shards the same names, or none."
    pairs = enumerate(zip(shard.classes, first.classes, strict=True))
    place, (own, other) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
    same = set(shard.classes) == set(first.classes)
    what = "the same classes in another order" if same else "other classes"
    return f"has {what} than {first.path}: column {place} is {quoted(own)}, there it is {quoted(other)}."


def _check_once(paths: Sequence[Path]) -> None:
    """Refuse one file under two names."""
    seen: dict[tuple[int, int], Path] = {}
    for path in paths:
        with errors_about(path):
            found = path.stat()
            other = seen.setdefault((found.st_dev, found.st_ino), path)
            if other is not path:
                same = "appears twice" if other == path else f"is the same file as {other}"
                raise InputError(f"{same}. Name each shard once, or pass allow_duplicates=True.")


# -- one file in blocks ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogitBlocks:
    """The rows of an open file, as `Logits` without labels, with their groups; each iteration starts at the first row.

    Attributes
    ----------
    n_rows, n_classes : int
    classes : tuple of str, or None
    block_rows : int
        The most rows a block has.
    id_kind : "number", "text", or None
        What the ids of rows are, where they were asked for.
    has_groups : bool
        Whether the rows have groups.
    """

    n_rows: int
    n_classes: int
    classes: tuple[str, ...] | None
    block_rows: int
    has_groups: bool
    id_kind: Literal["number", "text"] | None
    _path: Path = field(repr=False)
    _request: Request = field(repr=False)
    _table: Table = field(repr=False)
    _file: Layout | TopFile = field(repr=False)
    _folder: str | None = field(repr=False)

    def with_ids(self) -> Iterator[tuple[Logits, list[Any]]]:
        """The blocks with the ids of their rows; the file must have been opened with `id_column`."""
        if not isinstance(self._file, Layout) or self._file.ids is None:
            raise InputError("there are no ids: name their column when the file is opened, as id_column=.")
        done = 0
        for block in self:
            with errors_about(self._path), rows_by_line(self._table):
                yield block, self._ids(self._file.ids, done, done + len(block))
            done += len(block)

    def _ids(self, column: Column, start: int, stop: int) -> list[Any]:
        name = self._request.id_column or ""
        found = texts(column.read(start, stop)).tolist()
        for row, one in enumerate(found, start):
            if one is None or (isinstance(one, str) and not one.strip()):
                raise InputError("is missing; expected an id.", row=row, name=name)
            good = isinstance(one, int) or (isinstance(one, float) and one.is_integer() and abs(one) < 2**53)
            if not _is_storable_id(one) if self.id_kind == "text" else not good or abs(one) >= 2**63:
                raise InputError(f"is {quoted(one)}; ids are whole numbers below 2**63, or text.", row=row, name=name)
        return [str(one) for one in found] if self.id_kind == "text" else [int(one) for one in found]

    def __iter__(self) -> Iterator[Logits]:
        for start in range(0, self.n_rows, self.block_rows):
            stop = min(start + self.block_rows, self.n_rows)
            with errors_about(self._path), rows_by_line(self._table):
                block = self._block(start, stop)
            yield block

    def _block(self, start: int, stop: int) -> Logits:
        folder = None if self._folder is None else same_group(self._folder, stop - start)
        if isinstance(self._file, TopFile):
            rows: Logits = self._file.read(start, stop)
            return rows if folder is None else rows.grouped(folder)
        column, groups = self._file.groups, folder
        own = None if column is None else texts(column.read(start, stop))
        scores = self._file.scores.read(start, stop)
        return _checked_block(self._request, scores, start, self.n_rows, self.classes, groups if own is None else own)


def _is_storable_id(one: object) -> bool:
    """Whether text can be an id: half of a surrogate pair is something that JSON can say and no file can hold."""
    try:
        return isinstance(one, (str, int)) and not isinstance(one, bool) and bool(str(one).encode())
    except UnicodeEncodeError:
        return False


@contextmanager
def open_blocks(
    path: FilePath,
    *,
    probabilities: bool = False,
    labels: str | None = None,
    classes: Sequence[str] | None = None,
    id_column: str | None = None,
    groups: str | None = None,
    n_options: int | None = None,
    ignore: Sequence[str] = (),
    known: Sequence[str] | None = None,
    block_bytes: int = BLOCK_BYTES,
    max_bytes: int | None = None,
) -> Iterator[LogitBlocks]:
    """Open a file of logits to read it in blocks of rows.

    The blocks, one after the other, are the logits, class names and groups that `load` gives, bit for bit, and what
    `load` refuses is refused, when it is reached; but a file without rows has no blocks. Labels are not read. The file
    may be larger than the memory, but for compressed npz in Fortran order and an array in json, which are read whole.

    Parameters
    ----------
    path : path
        A file of any kind that `load` reads.
    probabilities : bool
        The file holds probabilities; see `load`.
    labels : str, optional
        The column of labels, where it is not called `label` or `labels`: it is not a class, and is not read.
    classes, known
        As for `load`.
    id_column : str, optional
        The column that holds ids: whole numbers or text, not a class. `LogitBlocks.with_ids` gives them.
    groups : str, optional
        The column (array, dataset) that holds the group of each row, or the key of a folder above the file that is
        called `key=value`; see `load`.
    n_options : int, optional
        How many columns the options of multiple choice get; see `load`.
    ignore : sequence of str
        Other columns that are no classes; see `load`.
    block_bytes : int
        A block has at most as many rows as fit, as float64, into so many bytes, and at least one.
    max_bytes : int, optional
        Refuse a row, the class names, or an array that must be read whole, if they declare more bytes than this; by
        default half of the machine's memory. No block is larger.

    Raises
    ------
    InputError, FileFormatError, MissingExtraError
        As `load`; when the file is opened, or when the bad part of it is reached.

    >>> import tempfile
    >>> from thermoset.io import save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/new.npz", Logits([[2.0, 0.5], [0.1, 1.2], [0.0, 3.0]]))
    ...     with open_blocks(f"{folder}/new.npz", block_bytes=32) as blocks:
    ...         print(blocks.n_rows, blocks.n_classes, [len(block) for block in blocks])
    3 2 [2, 1]
    """
    source, suffix = existing(path, READABLE)
    asked = request(
        probabilities,
        max_bytes,
        labels=_column(labels, "labels"),
        groups=_column(groups, "groups"),
        classes=classes,
        id_column=id_column,
        ignore=ignore,
        known=known,
        n_options=n_options,
        find_labels=False,
    )
    size = checked_block_bytes(block_bytes, MOST_BYTES)
    with errors_about(source):
        asked, folder = group_folder(source, asked)
        table = format_of(suffix).read(source, asked)
        file: Layout | TopFile | None = find_top(table, asked)
        if file is None:
            file = find_roles(table, asked)
            check_shape(file, asked, fewest=0)
            _check_first_rows(file, asked)
        shape = file.shape if isinstance(file, TopFile) else file.scores.shape
        n_rows, n_classes = shape
        if n_rows == 0 and file.classes is None and asked.n_options is not None:
            n_classes = asked.n_options  # a column of lists without rows does not tell how long they are
        check_size(n_classes * _VALUE_BYTES, asked.max_bytes, "a row")
        names = None if file.classes is None else class_names(file.classes, n_classes)
        ids = None if isinstance(file, TopFile) or file.ids is None else _id_kind(file.ids, asked.id_column or "")
    block_rows = max(1, min(size, asked.max_bytes) // (n_classes * _VALUE_BYTES))
    grouped = folder is not None or file.groups is not None
    # Not inside errors_about: the caller's own errors are not about this file.
    yield LogitBlocks(n_rows, n_classes, names, block_rows, grouped, ids, source, asked, table, file, folder)


def _check_first_rows(layout: Layout, asked: Request) -> None:
    """Refuse columns that do not look like classes; rows that cannot be read are told of when they are reached."""
    with suppress(FileFormatError):
        check_columns(layout, asked)


def _id_kind(column: Column, name: str) -> Literal["number", "text"]:
    """Whether ids are whole numbers or text; the first tells where a column may hold anything."""
    if len(column.shape) != 1 or column.dtype.kind not in "iufOUS":
        raise FileFormatError(
            f"column {quoted(name)} is {column.dtype}, shape {column.shape}; ids are numbers or text."
        )
    first = column.read(0, min(1, column.shape[0])).tolist() if column.dtype.kind == "O" else []
    if column.dtype.kind in "US" or column.dtype == np.uint64 or (first and not isinstance(first[0], (int, float))):
        return "text"
    return "text" if column.dtype.kind == "O" and not first else "number"


def _column(name: object, what: str) -> str | None:
    if name is not None and (not isinstance(name, str) or is_value_file(name)):
        raise InputError(f"{what} must be the name of a column where files are read in blocks; got {quoted(name)}.")
    return name
