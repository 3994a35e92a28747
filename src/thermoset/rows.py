"""Rows in blocks: where they come from, who works on them, and how much memory that may take.

`map_rows` calls a function for every block and puts its results where the rows stand; `sum_rows` adds up whole numbers.
So the number of threads, the size of blocks, and whether blocks are processed locally or on a cluster change no answer.
"""

import mmap
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import chain, islice
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from thermoset.arrays import Block, Floats, Ints
from thermoset.bounds import MOST_DIGITS, bytes_of, whole_number

Progress = Callable[[int, int], None]
"""Called with (done, total) as work proceeds."""

Arrays = tuple[NDArray[Any], ...]

_BLOCK_BYTES = 2**19  # float64 entries of a block: half a mebibyte, so that its buffers share the second-level cache


# ---- sources ---------------------------------------------------------------------------------------------------------


class Source(Protocol):
    """Rows of logits that can be gone through from the first to the last, any number of times."""

    @property
    def n_rows(self) -> int:
        """How many rows there are."""

    @property
    def n_classes(self) -> int:
        """How many logits a row has."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the logits."""

    @property
    def labels(self) -> Ints | None:
        """The label of every row, if they have some."""

    @property
    def engine(self) -> "Engine | None":
        """Who works on the blocks; threads of this process if None."""

    def blocks(self, step: int) -> Iterator[tuple[slice, Block]]:
        """Consecutive rows, at most `step` at a time, each with its place."""


def block_rows(n_classes: int) -> int:
    """Rows of a block whose buffers stay in cache."""
    return max(1, _BLOCK_BYTES // (8 * n_classes))


# ---- sorted rows -----------------------------------------------------------------------------------------------------


def sort_ascending(block: Block) -> Block:
    """Each row sorted, in its own type, which is faster; but NumPy sorts float16 seven times slower than float32."""
    return np.sort(block.astype(np.float32) if block.dtype == np.float16 else block, axis=1)


def gaps_of(ascending: Block) -> Floats:
    """Sorted rows as compiled loops take them: z - max z in float64, from the top down."""
    wide = ascending.astype(np.float64, copy=False)
    return np.subtract(wide[:, ::-1], wide[:, -1:])


def sorted_order(block: Block) -> tuple[Floats, Ints]:
    """Gaps of each row from the top down, and the label at each rank; of equal logits the lower label index first."""
    order = np.argsort(-block, axis=1)
    wide = np.take_along_axis(block, order, axis=1).astype(np.float64)
    tied = np.flatnonzero((wide[:, 1:] == wide[:, :-1]).any(axis=1))  # which the quick sort leaves in any order
    order[tied] = _stable_order(block[tied])
    return wide - wide[:, :1], order


def _stable_order(block: Block) -> Ints:
    """Labels from the top down, ties by index.

    NumPy sorts whole numbers several times faster than it sorts stably: narrow floats are put into the high half of a
    number, in an order that descends, and their column into the low half.
    """
    if block.dtype == np.float64:
        return np.argsort(-block, axis=1, kind="stable")
    bits = (block.astype(np.float32) + np.float32(0.0)).view(np.uint32)  # which turns -0.0 into 0.0
    keys = np.where(bits >> np.uint32(31), bits, bits ^ np.uint32(0x7FFFFFFF)).astype(np.uint64)
    keys = np.sort((keys << np.uint64(32)) | np.arange(block.shape[1], dtype=np.uint64), axis=1)
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


_KEPT_BYTES = 2**28  # sorted rows are kept for another pass up to this; beyond, sorting twice is cheaper


class SortedRows:
    """Sorts blocks of a source; they are kept for the next pass where that fits, and a copy elsewhere keeps nothing."""

    def __init__(self, source: Source, *, keep: bool | None = None) -> None:
        self.source = source
        size = source.n_rows * source.n_classes * max(source.dtype.itemsize, 4)
        fits = source.engine is None and size <= min(_KEPT_BYTES, budget_share(4))
        self.sorter = Sorter(fits if keep is None else keep)


class Sorter:
    """What sorts a block: see `SortedRows`."""

    def __init__(self, keep: bool = False) -> None:
        self._kept: dict[int, Block] | None = {} if keep else None
        self._orders: dict[int, NDArray[np.unsignedinteger[Any]]] = {}

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return Sorter, ()

    @property
    def keeps(self) -> bool:
        """Whether sorted rows stay in memory."""
        return self._kept is not None

    def gaps(self, first: int, block: Block) -> Floats:
        """Gaps of the block that begins at row `first`."""
        if self._kept is None:
            return gaps_of(sort_ascending(block))
        if first not in self._kept:
            self._kept[first] = sort_ascending(block)
        return gaps_of(self._kept[first])

    def order(self, first: int, block: Block) -> tuple[Floats, Ints]:
        """Gaps of the block that begins at row `first`, and the label at each rank; see `sorted_order`."""
        if first in self._orders:
            return self.gaps(first, block), self._orders[first].astype(np.int64)
        gaps, order = sorted_order(block)
        if self._kept is not None:
            self._orders[first] = order.astype(np.uint16 if block.shape[1] <= 2**16 else np.uint32)
        return gaps, order


# ---- threads ---------------------------------------------------------------------------------------------------------

MOST_THREADS = 1024
"""Beyond it a system may refuse to start them."""

_AHEAD = 4  # tasks created for each thread before one of them is done: a file is not read faster than it is worked on


def thread_count() -> int:
    """Threads to use: THERMOSET_NUM_THREADS, else the cores this process may run on."""
    setting = os.environ.get("THERMOSET_NUM_THREADS", "")
    if not setting:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = int(setting) if setting.isascii() and setting.isdigit() and len(setting) <= MOST_DIGITS else setting
    return whole_number(number, "THERMOSET_NUM_THREADS", 1, MOST_THREADS, "Unset it for all cores.")


def run_tasks(
    tasks: Iterable[Callable[[], int | None]],
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    total: int = 0,
) -> None:
    """Run tasks on a pool of threads, started as they are needed; the first error, or Ctrl-C, stops what has not begun.

    `progress` gets what tasks return, which is how much they did (or 1), of `total`. The tasks of a task run one
    after the other: there are no threads beyond those requested.
    """
    threads = thread_count() if n_jobs is None else n_jobs  # a wrong setting is an error whatever there is to do
    done = 0

    def add(more: int | None) -> None:
        nonlocal done
        done = min(done + (more or 1), total)
        if progress is not None:
            progress(done, total)

    coming = iter(tasks)
    first = list(islice(coming, 2))
    if len(first) <= 1 or _inside.a_task or threads <= 1:
        for task in chain(first, coming):
            add(task())
        return
    pool = ThreadPoolExecutor(threads, initializer=_enter)
    running: set[Future[int | None]] = set()

    def wait_for_one() -> None:
        ended, _ = wait(running, return_when=FIRST_COMPLETED)
        running.difference_update(ended)
        for future in ended:
            add(future.result())

    try:
        for task in chain(first, coming):
            if len(running) >= _AHEAD * threads:
                wait_for_one()
            running.add(pool.submit(task))
        while running:
            wait_for_one()
    finally:
        pool.shutdown(cancel_futures=True)


def part_of(progress: Progress | None, number: int, parts: int) -> Progress | None:
    """The progress of one of several parts of a job that take about as long, counted from 0."""
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, parts * total)


class _Inside(threading.local):
    """Whether this thread runs a task of a pool."""

    a_task = False


_inside = _Inside()


def _enter() -> None:
    _inside.a_task = True


@contextmanager
def alone() -> Iterator[None]:
    """Around work of a thread that has others next to it, such as the task of an engine: it starts none of its own."""
    before, _inside.a_task = _inside.a_task, True
    try:
        yield
    finally:
        _inside.a_task = before


@contextmanager
def compiling() -> Iterator[None]:
    """Around first calls of compiled loops: say so on standard error when compiling takes over a second."""
    note = threading.Timer(1.0, lambda: sys.stderr.write("thermoset: compiling, once for this machine ...\n"))
    note.start()
    try:
        yield
    finally:
        note.cancel()


# ---- work on rows ----------------------------------------------------------------------------------------------------


class Task(NamedTuple):
    """A function of blocks of rows with its other arguments, which can be sent to where a block is.

    f : called as f(block, *per_row, *fixed); per_row : what belongs to rows, indexed by the slice of a block's rows.
    """

    f: Callable[..., Any]
    per_row: tuple[Any, ...]
    fixed: tuple[Any, ...]

    def at(self, place: slice) -> "Task":
        """The task of some of the rows: only that has to travel."""
        return Task(self.f, tuple(one[place] for one in self.per_row), self.fixed)

    def __call__(self, block: Block, *before: Any) -> Any:
        """Call the function for a block; `before` are sums to add to."""
        return self.f(block, *before, *self.per_row, *self.fixed)


class Engine(Protocol):
    """Who works on the blocks of a source: threads of this process, or the workers of a cluster."""

    def map(
        self, source: Source, task: Task, keep: Callable[[Any, slice], None], n_jobs: int | None,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        """Hand what the task returns for every block to `keep`, in any order, with the place of its rows."""

    def sum(
        self, source: Source, task: Task, zero: Callable[[], Arrays], n_jobs: int | None, progress: Progress | None
    ) -> Arrays:
        """The sums to which the task adds every block."""


class _Threads:
    """Threads of this process."""

    def map(
        self, source: Source, task: Task, keep: Callable[[Any, slice], None], n_jobs: int | None,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        def work(block: Block, place: slice) -> int:
            keep(task.at(place)(block), place)
            return len(block)

        _for_blocks(source, work, n_jobs, progress)

    def sum(
        self, source: Source, task: Task, zero: Callable[[], Arrays], n_jobs: int | None, progress: Progress | None
    ) -> Arrays:
        sums: dict[int, Arrays] = {}  # of each thread

        def work(block: Block, place: slice) -> int:
            thread = threading.get_ident()
            if thread not in sums:
                sums[thread] = zero()
            task.at(place)(block, sums[thread])
            return len(block)

        _for_blocks(source, work, n_jobs, progress)
        return add_up(list(sums.values()) or [zero()])


def _for_blocks(
    source: Source, work: Callable[[Block, slice], int], n_jobs: int | None, progress: Progress | None
) -> None:
    blocks = source.blocks(block_rows(source.n_classes))
    tasks = (partial(work, block, place) for place, block in blocks)
    run_tasks(tasks, n_jobs=n_jobs, progress=progress, total=source.n_rows)


_THREADS = _Threads()


def map_rows(
    source: Source,
    f: Callable[..., Any],
    out: NDArray[Any] | Sequence[NDArray[Any]],
    *,
    per_row: Sequence[Any] = (),
    fixed: Sequence[Any] = (),
    axis: int = -1,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Fill an array, or several, with what a function gives for blocks of rows: along the last axis, or the one before.

    The function is called as f(block, *per_row, *fixed), where `per_row` are arrays, ranges or other objects that are
    indexed by the slice of the block's rows, and returns an array, or a tuple. It must be picklable for a cluster.
    """
    arrays = (out,) if isinstance(out, np.ndarray) else tuple(out)
    spills = Spills(arrays)
    tail = () if axis == -1 else (slice(None),)

    def keep(result: Any, place: slice) -> None:
        parts = result if isinstance(result, tuple) else (result,)
        for whole, some in zip(arrays, parts, strict=True):
            whole[(..., place, *tail)] = some
        spills.wrote(sum(some.nbytes for some in parts))

    (source.engine or _THREADS).map(source, Task(f, tuple(per_row), tuple(fixed)), keep, n_jobs, progress)


def top_labels(source: Source) -> Ints:
    """The label with the largest logit of each row; of equal ones the first."""
    labels = np.empty(source.n_rows, dtype=np.int64)
    map_rows(source, partial(np.argmax, axis=1), labels)
    return labels


def sum_rows(
    source: Source,
    f: Callable[..., None],
    zero: Callable[[], Arrays],
    *,
    per_row: Sequence[Any] = (),
    fixed: Sequence[Any] = (),
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> Arrays:
    """Sums of whole numbers over all rows: f(block, sums, *per_row, *fixed) adds a block to the arrays of `zero()`."""
    return (source.engine or _THREADS).sum(source, Task(f, tuple(per_row), tuple(fixed)), zero, n_jobs, progress)


def add_up(parts: Sequence[Arrays]) -> Arrays:
    """The sum of sums, in the arrays of the first: whole numbers, so that their order does not matter."""
    first, *others = parts
    for other in others:
        for whole, some in zip(first, other, strict=True):
            np.add(whole, some, out=whole)
    return first


# ---- memory ----------------------------------------------------------------------------------------------------------

DEFAULT_MEMORY = 2**30
"""What work may take besides its input, by default."""

_SPILLED = 8  # an array beyond this part of the budget goes to a file
_RELEASED = 2**25  # bytes that are written to files before they leave the memory

_budget: ContextVar[int] = ContextVar("memory", default=DEFAULT_MEMORY)


@contextmanager
def memory_budget(memory: str | int | None) -> Iterator[None]:
    """Set what work inside may take, as bytes or such as "512MiB"; None leaves it as it is. No answer depends on it."""
    token = _budget.set(_budget.get() if memory is None else bytes_of(memory))
    try:
        yield
    finally:
        _budget.reset(token)


def physical_memory() -> int:
    """The bytes of memory of this machine, or 16 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 34


def budget_share(parts: int = 1) -> int:
    """Bytes of the budget, or of one of so many equal parts of it."""
    return _budget.get() // parts


def row_array(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """An array that grows with rows, of any content: in memory, or in a nameless file where it is large.

    The file is in the system's temporary folder (TMPDIR), and is gone with the array.
    """
    kind = np.dtype(dtype)
    n_bytes = prod(shape) * kind.itemsize
    if n_bytes <= budget_share(_SPILLED):
        return np.empty(shape, kind)
    with tempfile.TemporaryFile() as file:
        file.truncate(n_bytes)
        mapped = mmap.mmap(file.fileno(), n_bytes)
    return np.frombuffer(mapped, kind).reshape(shape)


class Spills:
    """Those of some arrays that are in files: what was written, or read, of them need not stay in memory."""

    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None:
        files = {id(file): file for array in arrays if (file := _file_of(array)) is not None}
        self._files = tuple(files.values())
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
