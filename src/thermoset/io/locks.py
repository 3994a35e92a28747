"""Files that only one process can hold at a time, where the file system has locks."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

from thermoset.errors import InputError
from thermoset.io.files import errors_about

try:
    import fcntl
except ImportError:  # there are no such locks on Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["lock", "locked_file"]

_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_PAUSE = 0.02  # seconds between two looks at a lock


def lock(path: Path, busy: str, patience: float = 0.0) -> FileIO:
    """Open a file that only one process can have open so; others wait so many seconds, and are told that it is busy.

    Where the file system has no locks, nobody is kept out.
    """
    end = time.monotonic() + patience
    while True:
        stream = path.open("a+b", buffering=0)
        try:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            if time.monotonic() >= end:
                raise InputError(busy) from None
            time.sleep(_PAUSE)
            continue
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                stream.close()
                raise
        with suppress(FileNotFoundError):  # whoever held the lock may have finished and removed the file meanwhile
            if os.path.samestat(path.stat(), os.fstat(stream.fileno())):
                return stream
        stream.close()


@contextmanager
def locked_file(path: Path, busy: str, patience: float) -> Iterator[None]:
    """Hold a lock by the name of a file that is there for this alone, and goes at the end.

    A process that is killed leaves the file, and not the lock.
    """
    with errors_about(path, "written"):
        stream = lock(path, busy, patience)
    with stream:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
