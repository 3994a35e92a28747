"""Files of rows that hold only their largest logits: npz and parquet, as `thermoset compact` and others write them.

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

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from thermoset.data.top import TopLogits
from thermoset.errors import InputError
from thermoset.io.compact_parquet import open_parquet_top, parquet_writer, read_parquet_top
from thermoset.io.files import FilePath, Request, RowSource, as_path, errors_about, known_suffix, write_whole
from thermoset.io.grown_text import GrownText
from thermoset.io.numpy_files import decoded, read_npz_arrays, texts
from thermoset.io.top_parts import ROLES, made, parts_of, roles_of

__all__ = ["COMPACT_SUFFIXES", "open_top", "read_top", "writing_top"]

Write = Callable[[TopLogits], None]


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


@contextmanager
def writing_top(path: FilePath) -> Iterator[Write]:
    """Open a file to write rows to it, block by block; it appears when the `with` block ends well, and never otherwise.

    All blocks must keep as many logits of as many classes, and state the same.
    """
    target = as_path(path)
    open_kind = _WRITERS[known_suffix(target, COMPACT_SUFFIXES)]
    with ExitStack() as stack:  # what the caller raises goes through as it is, and undoes what was written
        with errors_about(target, "written"):
            stream = stack.enter_context(write_whole(target))
            write = stack.enter_context(open_kind(stream))
        yield write
        with errors_about(target, "written"):
            stack.pop_all().close()  # what comes last; then to disk and under its name


@contextmanager
def _npz_writer(stream: BinaryIO) -> Iterator[Write]:
    """Let arrays grow in nameless files beside the target; they become members of the archive at the end."""
    with ExitStack() as stack:
        folder, spools, first = Path(stream.name).parent, dict[str, IO[bytes]](), list[TopLogits]()
        groups = stack.enter_context(GrownText.beside(Path(stream.name)))

        def write(rows: TopLogits) -> None:
            if not first:
                first.append(rows.take(slice(0, 1)))
            for role, array in parts_of(rows).items():
                if role not in spools:
                    spools[role] = stack.enter_context(tempfile.TemporaryFile(dir=folder))
                spools[role].write(np.ascontiguousarray(array).data)
            if rows.groups is not None:
                groups.add(rows.groups)

        yield write
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:  # being small is what they are for
            for role, array in parts_of(first[0]).items():
                _add_grown(archive, ROLES[role][0], array, spools[role])
            for name, array in _fixed(first[0]).items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    npy.write_array(member, array, allow_pickle=False)
            if first[0].groups is not None:
                with archive.open("groups.npy", "w", force_zip64=True) as member:
                    groups.write_npy(member)


def _add_grown(archive: zipfile.ZipFile, name: str, like: NDArray[Any], spool: IO[bytes]) -> None:
    """Add an array of many rows; `like` has one."""
    n_rows = spool.tell() // like.nbytes
    spool.seek(0)
    header = {"descr": npy.dtype_to_descr(like.dtype), "fortran_order": False, "shape": (n_rows, *like.shape[1:])}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        npy.write_array_header_1_0(member, header)
        shutil.copyfileobj(spool, member)


def _fixed(rows: TopLogits) -> dict[str, NDArray[Any]]:
    """What is the same for all rows."""
    found: dict[str, NDArray[Any]] = {"n_classes": np.array(rows.n_classes)}
    if rows.log_rest is not None:
        found["rest_temperatures"] = np.array(rows.rest_temperatures)
    if rows.classes is not None:
        found["classes"] = np.asarray(rows.classes)
    return found


_READERS: dict[str, Callable[[Path, Request], TopLogits | None]] = {".npz": _read_npz, ".parquet": read_parquet_top}
_WRITERS: dict[str, Callable[[BinaryIO], AbstractContextManager[Write]]] = {
    ".npz": _npz_writer,
    ".parquet": parquet_writer,
}
COMPACT_SUFFIXES = tuple(_WRITERS)
"""The endings of names of files that can hold the largest logits of rows."""
