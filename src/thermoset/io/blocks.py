"""Files of any length, in blocks of rows: memory is bounded by a block, not by the file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thermoset.bounds import whole_number
from thermoset.data import Logits
from thermoset.data.arrays import class_names
from thermoset.data.choices import checked_options
from thermoset.data.class_columns import most_rows
from thermoset.errors import InputError
from thermoset.io.arrow_files import open_arrow
from thermoset.io.checked import checked_block, checked_shape
from thermoset.io.compact import open_top
from thermoset.io.files import (
    MOST_BYTES,
    FilePath,
    Ids,
    Request,
    RowSource,
    byte_limit,
    check_size,
    errors_about,
    existing,
    named_classes,
)
from thermoset.io.group_folders import group_folder
from thermoset.io.hdf5_files import open_hdf5
from thermoset.io.label_files import is_label_file
from thermoset.io.listed import open_csv_file
from thermoset.io.names import check_columns, checked_roles
from thermoset.io.numpy_rows import open_npy, open_npz
from thermoset.io.parquet import open_parquet
from thermoset.io.records import open_json
from thermoset.io.safe import open_safetensors
from thermoset.io.tensors import open_pt
from thermoset.io.zarr_folders import open_zarr
from thermoset.quoting import quoted

__all__ = ["LogitBlocks", "open_blocks"]

OPENERS: dict[str, Callable[[Path, Request, ExitStack], RowSource]] = {
    ".npz": open_npz,
    ".npy": open_npy,
    ".csv": open_csv_file,
    ".parquet": open_parquet,
    ".arrow": open_arrow,
    ".feather": open_arrow,
    ".ipc": open_arrow,
    ".zarr": open_zarr,
    ".h5": open_hdf5,
    ".hdf5": open_hdf5,
    ".safetensors": open_safetensors,
    ".pt": open_pt,
    ".pth": open_pt,
    ".json": open_json,
    ".jsonl": open_json,
}
WITH_IDS = (".npz", ".csv", ".parquet", ".arrow", ".feather", ".ipc", ".json", ".jsonl")
BLOCK_BYTES = 1 << 24
VALUE_BYTES = 8  # of a float64, the largest type of logits


@dataclass(frozen=True)
class LogitBlocks:
    """The rows of an open file, as `Logits` without labels, with their groups; each iteration starts at the first row.

    Attributes
    ----------
    n_rows : int, or None where only reading to the end would tell (csv, json)
    n_classes : int
    classes : tuple of str, or None
    block_rows : int
        The most rows a block has.
    ids : Ids, or None
        The ids of the rows, where they were asked for.
    has_groups : bool
        Whether the rows have groups.
    """

    n_rows: int | None
    n_classes: int
    classes: tuple[str, ...] | None
    block_rows: int
    _path: Path = field(repr=False)
    _request: Request = field(repr=False)
    _read: Callable[[int], Iterator[Any]] = field(repr=False)
    ids: Ids | None = field(default=None, repr=False)
    _groups: Callable[[], Iterator[object]] | None = field(default=None, repr=False)
    has_groups: bool = False

    @property
    def id_kind(self) -> Literal["number", "text"] | None:
        """What the ids are, where they were asked for."""
        return None if self.ids is None else "text" if self.ids.text else "number"

    def with_ids(self) -> Iterator[tuple[Logits, list[Any]]]:
        """The blocks with the ids of their rows; the file must have been opened with `id_column`."""
        if self.ids is None:
            raise InputError("there are no ids: name their column when the file is opened, as id_column=.")
        with errors_about(self._path):
            ids = self.ids.read()
            for block in self:
                some = islice(ids, len(block))
                yield block, list(map(str, some) if self.ids.text else some)

    def __iter__(self) -> Iterator[Logits]:
        done = 0
        with errors_about(self._path):
            groups = None if self._groups is None else self._groups()
            for scores in self._read(self.block_rows):
                if not len(scores):  # of a file without rows
                    continue
                some = None if groups is None else list(islice(groups, len(scores)))
                block = checked_block(self._request, scores, done, self.n_rows, self.classes, some)
                done += block.n_rows
                yield block


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
    may be larger than the memory; where rows do not stand one after the other (compressed npz in Fortran order, a
    transposed tensor in pt) it is read whole, within the limit.

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
        The column of a csv, parquet, Arrow or json file, or the array of an npz file, that holds ids: whole numbers or
        text, not a class. `LogitBlocks.with_ids` gives them. The ids of npz and Arrow files are read whole.
    groups : str, optional
        The column (array, dataset) that holds the group of each row, or the key of a folder above the file that is
        called `key=value`; see `load`. Those of csv, parquet and json files are read with the blocks, others whole.
    n_options : int, optional
        How many columns the options of multiple choice get; see `load`. Without it the file is read twice.
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
    source, suffix = existing(path, tuple(OPENERS))
    limit = byte_limit(max_bytes)
    if id_column is not None and suffix not in WITH_IDS:
        raise InputError(f"{source}: ids can be read from {', '.join(WITH_IDS)}; got {suffix}. Omit id_column.")
    options = checked_options(n_options)
    request = Request(
        probabilities,
        limit,
        find_labels=False,
        n_options=options,
        **checked_roles(
            labels=_column(labels, "labels"),
            id_column=id_column,
            groups=_column(groups, "groups"),
            classes=classes,
            ignore=ignore,
            known=known,
        ),
    )
    size = whole_number(block_bytes, "block_bytes", 1, MOST_BYTES, "Try 2**27.")
    with ExitStack() as stack:  # not inside errors_about: the caller's own errors are not about this file
        with errors_about(source):
            request, folder = group_folder(source, request)
            rows = open_top(source, suffix, request, stack) or OPENERS[suffix](source, request, stack)
            n_rows, n_classes = checked_shape(rows.shape, request, fewest=0)
            if n_rows == 0 and rows.classes is None and options is not None:
                n_classes = options  # a column of lists without rows does not tell how long they are
            check_size(n_classes * VALUE_BYTES, limit, "a row")
            named = named_classes(request, rows.classes)
            names = None if named is None else class_names(named, n_classes)
            _check_first_rows(rows, request)
        block_rows = max(1, min(size, limit) // (n_classes * VALUE_BYTES))
        block_rows = block_rows if n_rows is None else max(1, min(block_rows, n_rows))
        own = rows.groups if folder is None else partial(repeat, folder)
        grouped = rows.grouped or own is not None
        read, ids = rows.read, rows.ids
        yield LogitBlocks(n_rows, n_classes, names, block_rows, source, request, read, ids, own, grouped)


def _check_first_rows(rows: RowSource, request: Request) -> None:
    """Refuse columns that do not look like classes; rows that cannot be read are told of when they are reached."""
    if not rows.columns:
        return
    first = None
    with suppress(InputError):
        first = next(rows.read(most_rows(len(rows.columns))), None)
    if isinstance(first, np.ndarray) and len(first):
        check_columns(rows.columns, first, request)


def _column(name: object, what: str) -> str | None:
    if name is not None and (not isinstance(name, str) or is_label_file(name)):
        raise InputError(f"{what} must be the name of a column where files are read in blocks; got {quoted(name)}.")
    return name
