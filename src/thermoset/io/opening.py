"""Files that need not fit into memory: many as one set of rows (`open`), or one in blocks of rows (`open_blocks`)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thermoset.bounds import whole_number
from thermoset.data import Logits
from thermoset.data.groups import joined_groups
from thermoset.data.guards import warn_of_probabilities
from thermoset.data.stored import StoredLogits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import MOST_BYTES, FilePath, errors_about, existing_file
from thermoset.io.formats import Where, found_shards
from thermoset.io.loading import groups_in, labels_in
from thermoset.io.roles import VALUE_SUFFIXES, TopColumns, is_value_file, request, texts
from thermoset.io.source import Source, open_source
from thermoset.io.table import Column
from thermoset.quoting import quoted

BLOCK_BYTES = 1 << 24
_VALUE_BYTES = 8  # of a float64, the largest type of logits


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
    asked = request(
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
    sources = [open_source(path, asked) for path in found_shards(where, sidecars=asked.named)]
    first, n_rows = sources[0], sum(one.n_rows for one in sources)
    for one in sources:
        with errors_about(one.path):
            _check_like(one, first)
    if not allow_duplicates:
        _check_once([one.path for one in sources])
    first.check_columns()  # the others have the same
    if asked.label_file is not None:
        of_labels = [labels_in(asked.label_file, first, n_rows)]
    elif many is not None:
        if len(many) != len(sources):
            raise InputError(f"labels must be one file, or one for each of {len(sources)} shards; got {len(many)}.")
        files = [existing_file(file, VALUE_SUFFIXES)[0] for file in many]
        of_labels = [labels_in(file, one, one.n_rows) for file, one in zip(files, sources, strict=True)]
    else:
        of_labels = [known_labels for one in sources if (known_labels := one.labels()) is not None]
    if asked.group_file is not None:
        of_groups = [groups_in(asked.group_file, asked.max_bytes, n_rows)]
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
    _source: Source = field(repr=False)

    def __iter__(self) -> Iterator[Logits]:
        for start in range(0, self.n_rows, self.block_rows):
            yield self._source.rows(start, min(start + self.block_rows, self.n_rows))

    def with_ids(self) -> Iterator[tuple[Logits, list[Any]]]:
        """The blocks with the ids of their rows; the file must have been opened with `id_column`."""
        column, done = self._source.layout.ids, 0
        if column is None:
            raise InputError("there are no ids: name their column when the file is opened, as id_column=.")
        for block in self:
            with self._source.errors(done):
                ids = [self._id(one, row) for row, one in enumerate(texts(column.read(done, done + len(block))))]
            yield block, ids
            done += len(block)

    def _id(self, value: Any, row: int) -> int | str:
        name = self._source.request.id_column
        one = value.item() if isinstance(value, np.generic) else value
        if one is None or (isinstance(one, str) and not one.strip()):
            raise InputError("is missing; expected an id.", row=row, name=name)
        with suppress(UnicodeEncodeError, OverflowError):
            if self.id_kind == "text" and isinstance(one, (str, int)) and not isinstance(one, bool):
                return str(one).encode().decode()  # JSON may have half of a surrogate pair, which no file can hold
            is_whole = isinstance(one, int) or (isinstance(one, float) and abs(one) < 2**53 and one == int(one))
            if self.id_kind == "number" and is_whole and abs(one) < 2**63:
                return int(one)
        raise InputError(f"is {quoted(one)}; ids are whole numbers below 2**63, or text.", row=row, name=name)


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
    id_column : str, optional
        The column that holds ids: whole numbers or text, not a class. `LogitBlocks.with_ids` gives them.
    groups : str, optional
        The column (array, dataset) that holds the group of each row, or the key of a folder above the file that is
        called `key=value`; see `load`.
    classes, known, n_options, ignore
        As for `load`.
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
    given: dict[str, object] = {"labels": labels, "groups": groups}
    for what, name in given.items():
        if name is not None and (not isinstance(name, str) or is_value_file(name)):
            raise InputError(f"{what} must be the name of a column where files are read in blocks; got {quoted(name)}.")
    asked = request(
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
    size = whole_number(block_bytes, "block_bytes", 1, MOST_BYTES, "Try 2**27.")
    source = open_source(path, asked._replace(find_labels=False), fewest=0)
    with suppress(FileFormatError):  # rows that cannot be read are reported when they are reached
        source.check_columns()
    with errors_about(source.path):
        ids = source.layout.ids
        id_kind = None if ids is None else _id_kind(ids, id_column or "")
    block_rows = max(1, min(size, asked.max_bytes) // (source.n_classes * _VALUE_BYTES))
    has_groups = source.layout.groups is not None
    # Not inside errors_about: the caller's own errors are not about this file.
    yield LogitBlocks(source.n_rows, source.n_classes, source.classes, block_rows, has_groups, id_kind, source)


def _id_kind(column: Column, name: str) -> Literal["number", "text"]:
    """Whether ids are whole numbers or text; the first tells where a column may hold anything."""
    kind = column.dtype.kind
    if len(column.shape) != 1 or kind not in "iufOUS":
        raise FileFormatError(
            f"column {quoted(name)} is {column.dtype}, shape {column.shape}; ids are numbers or text."
        )
    if kind == "O":
        first = column.read(0, min(1, column.shape[0])).tolist()
        return "number" if first and isinstance(first[0], (int, float)) else "text"
    return "text" if kind in "US" or column.dtype == np.uint64 else "number"
