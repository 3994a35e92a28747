"""What stays open or decoded between two reads of one file, within bounds.

A shard holds no handle, so that it can be pickled and read anywhere. Formats that can only be read forwards would start
again at each read; what they have open is kept here. Whoever reads takes it out and gives it back, so no two threads
ever use one handle. A forked process leaves those of its parent alone: they share positions in files.
"""

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Held", "give", "take"]

MOST_BYTES = 1 << 27
MOST_HELD = 32


class Held(NamedTuple):
    """Something that was opened, how many bytes it takes, and how to close it."""

    value: Any
    n_bytes: int = 0
    close: Callable[[], object] = lambda: None


_kept: OrderedDict[Hashable, Held] = OrderedDict()
_lock = threading.Lock()


def take(path: Path, what: Hashable) -> Any | None:
    """Take out what is held of a file; None if nothing is, or the file was replaced."""
    with _lock:
        found = _kept.pop(_key(path, what), None)
    return None if found is None else found.value


def give(path: Path, what: Hashable, held: Held) -> None:
    """Hold something until it is wanted again, or until newer things take up the room."""
    with _lock:
        key = _key(path, what)
        gone = [_kept.pop(key)] if key in _kept else []
        _kept[key] = held
        while len(_kept) > 1 and (len(_kept) > MOST_HELD or sum(h.n_bytes for h in _kept.values()) > MOST_BYTES):
            gone.append(_kept.popitem(last=False)[1])
    _close(gone)


def _close(gone: Iterable[Held]) -> None:
    for old in gone:
        with suppress(OSError, ValueError):
            old.close()


@atexit.register
def _close_all() -> None:
    _close(_kept.values())


def _key(path: Path, what: Hashable) -> Hashable:
    found = path.stat()
    return os.getpid(), str(path), found.st_ino, found.st_size, found.st_mtime_ns, what
