"""A column of names that grows block by block and becomes one array of text at the end, whatever its length."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from thermoset.data.groups import Groups

__all__ = ["GrownText"]

PIECE = 1 << 16  # rows that are turned into text at a time


class GrownText:
    """The groups of all rows so far: numbers in a nameless file, and each name once in memory.

    An array of text has the width of its longest name, which is known when the last block has come.
    """

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool, self._places = spool, dict[str, int]()

    @classmethod
    @contextmanager
    def beside(cls, target: Path) -> "Iterator[GrownText]":
        """One whose numbers go to a nameless file in the folder of another."""
        with tempfile.TemporaryFile(dir=target.parent) as spool:
            yield cls(spool)

    def add(self, groups: Groups) -> None:
        """Take the groups of more rows."""
        places = [self._places.setdefault(name, len(self._places)) for name in groups.names]
        self._spool.write(np.array(places, dtype=np.int64)[groups.codes].data)

    def write_npy(self, stream: IO[bytes]) -> None:
        """Write all of it as an npy array."""
        names = np.asarray(list(self._places), dtype=np.str_)
        n_rows = self._spool.tell() // 8
        npy.write_array_header_1_0(
            stream, {"descr": npy.dtype_to_descr(names.dtype), "fortran_order": False, "shape": (n_rows,)}
        )
        self._spool.seek(0)
        while piece := self._spool.read(8 * PIECE):
            stream.write(names[np.frombuffer(piece, dtype=np.int64)].data.cast("B"))
