"""How much memory work may take: arrays that grow with rows go to nameless files beyond a share of the budget."""

import mmap
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thermoset.bounds import bytes_of

__all__ = ["DEFAULT_MEMORY", "Spills", "memory_budget", "physical_memory", "room", "row_array"]

DEFAULT_MEMORY = 2**30
"""What work may take beside its input where nothing was said."""

_SPILLED = 8  # an array beyond this part of the budget goes to a file
_RELEASED = 2**25  # bytes that are written to files before they leave the memory

_budget: ContextVar[int] = ContextVar("memory", default=DEFAULT_MEMORY)


@contextmanager
def memory_budget(memory: str | int | None) -> Iterator[None]:
    """Set what work inside may take, as bytes or such as "512MiB"; None leaves it as it is. No answer depends on it.

    >>> with memory_budget("512MiB"):
    ...     room() // 2**20
    512
    """
    token = _budget.set(_budget.get() if memory is None else bytes_of(memory))
    try:
        yield
    finally:
        _budget.reset(token)


def physical_memory() -> int:
    """The bytes of memory of this machine, or 16 GiB where the system does not say.

    >>> physical_memory() > 0
    True
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 34


def room(parts: int = 1) -> int:
    """Bytes of the budget, or of one of so many equal parts of it."""
    return _budget.get() // parts


def row_array(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """An array that grows with rows, of any content: in memory, or in a nameless file where it is large.

    The file is in the system's temporary folder (TMPDIR), and is gone with the array.
    """
    kind = np.dtype(dtype)
    n_bytes = prod(shape) * kind.itemsize
    if n_bytes <= room(_SPILLED):
        return np.empty(shape, kind)
    with tempfile.TemporaryFile() as file:
        file.truncate(n_bytes)
        mapped = mmap.mmap(file.fileno(), n_bytes)
    return np.frombuffer(mapped, kind).reshape(shape)


class Spills:
    """Those of some arrays that are in files: what was written, or read, of them need not stay in memory."""

    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None:
        found = {id(file): file for array in arrays if (file := _file_of(array)) is not None}
        self._files = tuple(found.values())
        self._lock, self._written = threading.Lock(), 0

    def wrote(self, n_bytes: int) -> None:
        """Take note of what was written; every now and then it leaves the memory."""
        if not self._files:
            return
        with self._lock:
            self._written += n_bytes
            full = self._written >= _RELEASED
            self._written = 0 if full else self._written
        if full:
            self.release()

    def release(self) -> None:
        """Let go of what is in memory: it stays in the file, and comes back when it is looked at."""
        for file in self._files:
            if hasattr(mmap, "MADV_DONTNEED"):
                file.madvise(mmap.MADV_DONTNEED)


def _file_of(array: NDArray[Any]) -> mmap.mmap | None:
    """The mapped file that holds an array, if one does."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None
