"""Blocks of rows on a pool of threads.

Every task writes to a place of its own, so the number of threads and the size of blocks cannot change an answer.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Generic, TypeVar

from thermoset.bounds import MOST_DIGITS, whole_number
from thermoset.core.sources import Block, Source, block_rows

__all__ = ["MOST_THREADS", "PerThread", "alone", "compiling", "for_blocks", "run_all", "thread_count"]

_T = TypeVar("_T")

MOST_THREADS = 1024
"""Beyond it a system may refuse to start them."""

_AHEAD = 4  # tasks made for each thread before one of them is done: a file is not read faster than it is worked on


def thread_count() -> int:
    """Threads to use: THERMOSET_NUM_THREADS, else the cores this process may run on."""
    asked = _asked_threads()
    if asked is not None:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _asked_threads() -> int | None:
    """THERMOSET_NUM_THREADS, checked; None where it is not set."""
    asked = os.environ.get("THERMOSET_NUM_THREADS", "")
    if not asked:
        return None
    number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) <= MOST_DIGITS else asked
    return whole_number(number, "THERMOSET_NUM_THREADS", 1, MOST_THREADS, "Unset it for all cores.")


def run_all(
    tasks: Iterable[Callable[[], int | None]],
    *,
    n_jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Run tasks on a pool of threads, made as they are needed; the first error, or Ctrl-C, stops what has not begun.

    `progress` is told what each task returns, which is how much it did, or 1. The tasks of a task run one after the
    other: there are no threads beyond those asked for.
    """
    asked = _asked_threads() if n_jobs is None else n_jobs  # a wrong setting is told whatever there is to do
    done = progress or _nothing
    coming = iter(tasks)
    first = list(islice(coming, 2))
    threads = 1 if len(first) <= 1 or _inside.a_task else asked or thread_count()
    if threads <= 1:
        for task in chain(first, coming):
            done(task() or 1)
        return
    pool = ThreadPoolExecutor(threads, initializer=_enter)
    running: set[Future[int | None]] = set()
    try:
        for task in chain(first, coming):
            if len(running) >= _AHEAD * threads:
                running = _settle(running, done)
            running.add(pool.submit(task))
        while running:
            running = _settle(running, done)
    finally:
        pool.shutdown(cancel_futures=True)


def _nothing(_: int) -> None:
    """Tell nobody."""


def _settle(running: "set[Future[int | None]]", done: Callable[[int], None]) -> "set[Future[int | None]]":
    """Wait for a task to end; raise what it raised, and return those that still run."""
    ended, running = wait(running, return_when=FIRST_COMPLETED)
    for future in ended:
        done(future.result() or 1)
    return running


class PerThread(Generic[_T]):
    """An object for each thread, so that threads can add up counts without waiting for each other."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._made: dict[int, _T] = {}

    def mine(self) -> _T:
        """The object of this thread."""
        thread = threading.get_ident()
        if thread not in self._made:
            self._made[thread] = self._make()
        return self._made[thread]

    def all(self) -> list[_T]:
        """The objects of all threads; at least one."""
        return list(self._made.values()) or [self._make()]


class _Inside(threading.local):
    """Whether this thread runs a task of a pool."""

    a_task = False


_inside = _Inside()


def _enter() -> None:
    _inside.a_task = True


@contextmanager
def alone() -> Iterator[None]:
    """Around work of a thread that has others beside it, such as the task of an engine: it starts none of its own."""
    before, _inside.a_task = _inside.a_task, True
    try:
        yield
    finally:
        _inside.a_task = before


@contextmanager
def compiling() -> Iterator[None]:
    """Around a first call of kernels: say so on standard error when compiling them takes over a second."""
    note = threading.Timer(1.0, lambda: sys.stderr.write("thermoset: compiling, once for this machine ...\n"))
    note.start()
    try:
        yield
    finally:
        note.cancel()


def for_blocks(
    source: Source,
    work: Callable[[Block, slice], None],
    *,
    n_jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Call `work(block, rows)` for every block of rows, in file order, on several threads; tell the rows done."""

    def task(block: Block, rows: slice) -> int:
        work(block, rows)
        return len(block)

    blocks = source.blocks(block_rows(source.n_classes))
    run_all((partial(task, block, rows) for rows, block in blocks), n_jobs=n_jobs, progress=progress)
