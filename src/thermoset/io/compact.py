"""Files of rows that hold only their largest logits: npz and parquet, as `thermoset.save` and others write them.

| array or column | content |
|---|---|
| `top_indices` (n, K) | the classes, counted from 0 |
| `top_logits` (n, K) | their logits, in any order |
| `log_rest` (n, S), `rest_temperatures` (S,) | log-sums of the other classes, or |
| `log_sum_exp` (n,) | that of all classes at T = 1, or nothing |
| `n_classes` | how many classes there are |
| `labels` (n,), `classes` (C,), `groups` (n,) | as in files of whole rows |

In parquet the arrays of rows are list columns, and `n_classes` and `rest_temperatures` stand in the metadata. Other
names in use are read too: see `top_parts.ROLES`. Log-probabilities (`logprobs`) need no sum: that of all classes is 0.
"""

import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from thermoset.data.top import TopLogits
from thermoset.errors import InputError
from thermoset.io.compact_parquet import open_parquet_top, read_parquet_top, write_parquet_top
from thermoset.io.files import FilePath, Request, RowSource, as_path, errors_about, known_suffix, write_whole
from thermoset.io.numpy_files import decoded, read_npz_arrays, texts
from thermoset.io.top_parts import ROLES, made, parts_of, roles_of

__all__ = ["COMPACT_SUFFIXES", "open_top", "read_top", "write_top"]


def read_top(path: Path, suffix: str, request: Request) -> TopLogits | None:
    """Read a file of largest logits; None if it is of another kind."""
    reader = _READERS.get(suffix)
    return None if reader is None else reader(path, request)


def open_top(path: Path, suffix: str, request: Request, stack: ExitStack) -> RowSource | None:
    """Open a file of largest logits, to be read in blocks without labels; None if it is of another kind.

    An npz archive is read whole, within the limit.
    """
    unlabelled = request._replace(find_labels=False)
    if suffix == ".parquet":
        found = open_parquet_top(path, unlabelled, stack)
    else:
        rows = read_top(path, suffix, unlabelled)
        found = None if rows is None else _in_memory(rows)
    if found is not None and request.id_column is not None:
        raise InputError("ids cannot be read from files of largest logits. Omit id_column.")
    return found


def _in_memory(rows: TopLogits) -> RowSource:
    def read(step: int) -> Iterator[TopLogits]:
        for start in range(0, rows.n_rows, step):
            yield rows.take(slice(start, start + step))

    return RowSource((rows.n_rows, rows.n_classes), rows.classes, read, grouped=rows.groups is not None)


def _read_npz(path: Path, request: Request) -> TopLogits | None:
    roles: dict[str, str] = {}

    def choose(held: Collection[str]) -> list[str | None]:
        roles.update(roles_of(held, request))
        return list(roles.values())

    arrays = read_npz_arrays(path, choose, request.max_bytes)
    parts: dict[str, Any] = dict(zip(roles, arrays, strict=True))
    if not parts:
        return None
    if "classes" in parts:
        parts["classes"] = texts(parts["classes"])
    if "groups" in parts:
        parts["groups"] = decoded(parts["groups"])
    return made(parts, request)


def write_top(path: FilePath, rows: TopLogits) -> None:
    """Write rows to a file, whole or not at all."""
    target = as_path(path)
    write = _WRITERS[known_suffix(target, COMPACT_SUFFIXES)]
    with errors_about(target, "written"), write_whole(target) as stream:
        write(stream, rows)


def _write_npz(stream: BinaryIO, rows: TopLogits) -> None:
    arrays = {ROLES[role][0]: np.asarray(array) for role, array in parts_of(rows).items()}
    arrays["n_classes"] = np.array(rows.n_classes)
    if rows.log_rest is not None:
        arrays["rest_temperatures"] = np.array(rows.rest_temperatures)
    if rows.classes is not None:
        arrays["classes"] = np.asarray(rows.classes)
    if rows.groups is not None:
        arrays["groups"] = np.asarray(rows.groups)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:  # being small is what they are for
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)


_READERS: dict[str, Callable[[Path, Request], TopLogits | None]] = {".npz": _read_npz, ".parquet": read_parquet_top}
_WRITERS: dict[str, Callable[[BinaryIO, TopLogits], None]] = {".npz": _write_npz, ".parquet": write_parquet_top}
COMPACT_SUFFIXES = tuple(_WRITERS)
"""The endings of names of files that can hold the largest logits of rows."""
