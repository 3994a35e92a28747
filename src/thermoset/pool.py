"""Blocks of rows on a pool of threads.

Every task writes to a place of its own, so the number of threads and the size of blocks cannot change an answer.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from thermoset.bounds import MOST_DIGITS, whole_number
from thermoset.kernels import Row

__all__ = ["MOST_THREADS", "compiling", "for_blocks", "row_blocks", "run_all", "thread_count", "widened"]

MOST_THREADS = 1024
"""Beyond it a system may refuse to start them."""

_BLOCK_BYTES = 2**19  # float64 entries of a block: half a mebibyte, so that its buffers share the second-level cache


def thread_count() -> int:
    """Threads to use: THERMOSET_NUM_THREADS, else the cores this process may run on."""
    asked = os.environ.get("THERMOSET_NUM_THREADS", "")
    if not asked:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) <= MOST_DIGITS else asked
    return whole_number(number, "THERMOSET_NUM_THREADS", 1, MOST_THREADS, "Unset it for all cores.")


def run_all(
    tasks: Sequence[Callable[[], None]],
    *,
    n_jobs: int | None = None,
    progress: Callable[[], None] | None = None,
) -> None:
    """Run tasks on a pool of threads; the first error, or Ctrl-C, stops what has not begun.

    The tasks of a task run one after the other: there are no threads beyond those asked for.
    """
    threads = 1 if _inside.a_task else thread_count() if n_jobs is None else n_jobs
    workers = min(threads, len(tasks))
    done = progress or (lambda: None)
    if workers <= 1:
        for task in tasks:
            task()
            done()
        return
    pool = ThreadPoolExecutor(workers, initializer=_enter)
    try:
        for future in as_completed([pool.submit(task) for task in tasks]):
            future.result()
            done()
    finally:
        pool.shutdown(cancel_futures=True)


class _Inside(threading.local):
    """Whether this thread runs a task of a pool."""

    a_task = False


_inside = _Inside()


def _enter() -> None:
    _inside.a_task = True


@contextmanager
def compiling() -> Iterator[None]:
    """Around a first call of kernels: say so on standard error when compiling them takes over a second."""
    note = threading.Timer(1.0, lambda: sys.stderr.write("thermoset: compiling, once for this machine ...\n"))
    note.start()
    try:
        yield
    finally:
        note.cancel()


def for_blocks(logits: Row, work: Callable[[Row, slice], None]) -> None:
    """Call `work(block, rows)` for every block of rows, on several threads; `block` is float32 or float64."""
    run_all([partial(_run_block, logits, work, rows) for rows in row_blocks(*logits.shape)])


def row_blocks(n_rows: int, n_classes: int) -> list[slice]:
    """Rows in blocks whose buffers stay in cache."""
    step = max(1, _BLOCK_BYTES // (8 * n_classes))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def widened(logits: Row) -> Row:
    """Contiguous float32 or float64 rows that kernels may read, not write; a copy only where one is needed."""
    dtype: type[np.floating[Any]] = np.float64 if logits.dtype == np.float64 else np.float32  # float16 widens exactly
    rows: Row = np.ascontiguousarray(logits, dtype=dtype).view()
    rows.flags.writeable = False  # one type for the compiler, whoever made the rows
    return rows


def _run_block(logits: Row, work: Callable[[Row, slice], None], rows: slice) -> None:
    work(widened(logits[rows]), rows)
