"""Predictions as an npz archive, which may be longer than the memory."""

import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from thermoset.io.grown_text import GrownText
from thermoset.io.prediction_blocks import P_COLUMNS, Block, Layout, Write

__all__ = ["ARRAYS", "npz_predictions"]

ARRAYS = {"label": "<i4", "confidence": "<f8", "size": "<i4", "set_labels": "<i4", "set_offsets": "<i8"}
"""What an npz archive holds."""


@contextmanager
def npz_predictions(stream: BinaryIO, layout: Layout) -> Iterator[Write]:
    """Let arrays grow in nameless files beside the target; they become members of the archive at the end."""
    names, ids, n_p = layout.names, layout.ids, layout.n_p
    kinds = ARRAYS | ({} if n_p is None else dict.fromkeys(P_COLUMNS, "<f8"))
    with ExitStack() as stack:
        folder = Path(stream.name).parent
        spools = {name: stack.enter_context(tempfile.TemporaryFile(dir=folder)) for name in kinds}
        groups = stack.enter_context(GrownText.beside(Path(stream.name)))
        n_members, known = 0, []

        def append(name: str, values: NDArray[Any]) -> None:
            spools[name].write(values.astype(kinds[name]).data)

        def write(block: Block) -> None:
            nonlocal n_members
            found = block.found
            known.extend(block.ids)
            if block.groups is not None:
                groups.add(block.groups)
            append("label", found.label)
            append("confidence", found.confidence)
            append("size", found.size)
            append("set_labels", found.members)
            append("set_offsets", found.offsets[1:] + n_members)
            for name, values in zip(P_COLUMNS, () if block.p is None else block.p.columns, strict=False):
                append(name, values)
            n_members += len(found.members)

        append("set_offsets", np.zeros(1))
        yield write
        texts = {} if names is None else {"classes": np.asarray(names)}
        given = (
            {} if ids is None else {layout.id_column: np.asarray(known, dtype=np.int64 if ids == "number" else np.str_)}
        )
        spooled = [Spooled(name, kind, spools[name], n_p if name == "p" else None) for name, kind in kinds.items()]
        _assemble(stream, spooled, given | texts, groups if layout.groups else None)


class Spooled(NamedTuple):
    """An array of an archive: its name, its type, its bytes, and the width of a row where it has two axes."""

    name: str
    kind: str
    content: IO[bytes]
    width: int | None

    @property
    def header(self) -> dict[str, Any]:
        """What stands before its bytes."""
        length = self.content.tell() // np.dtype(self.kind).itemsize
        shape = (length,) if self.width is None else (length // max(self.width, 1), self.width)
        return {"descr": self.kind, "fortran_order": False, "shape": shape}


def _assemble(
    stream: BinaryIO, arrays: Iterable[Spooled], others: Mapping[str, NDArray[Any]], groups: GrownText | None
) -> None:
    with zipfile.ZipFile(stream, "w") as archive:
        for array in arrays:
            header = array.header
            array.content.seek(0)
            with archive.open(f"{array.name}.npy", "w", force_zip64=True) as member:
                npy.write_array_header_1_0(member, header)
                shutil.copyfileobj(array.content, member)
        for name, values in others.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                npy.write_array(member, values, allow_pickle=False)
        if groups is not None:
            with archive.open("group.npy", "w", force_zip64=True) as member:
                groups.write_npy(member)
