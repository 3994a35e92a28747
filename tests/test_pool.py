"""Tasks on threads: all of them, no more threads than asked for, and the first error."""

import threading
from functools import partial

import pytest

from thermoset.core.pool import row_blocks, run_all


def test_every_task_runs_once(monkeypatch):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "3")
    done = []
    run_all([partial(done.append, i) for i in range(20)])
    assert sorted(done) == list(range(20))


def test_tasks_of_a_task_open_no_threads_of_their_own(monkeypatch):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "2")
    names = {}

    def inner(i, j):
        names[i, j] = threading.get_ident()

    def outer(i):
        run_all([partial(inner, i, j) for j in range(3)], n_jobs=3)
        assert {names[i, j] for j in range(3)} == {threading.get_ident()}

    run_all([partial(outer, i) for i in range(4)])
    assert len(names) == 12
    assert len(set(names.values())) <= 2
    outside = set()
    barrier = threading.Barrier(2)  # broken, and an error, unless two tasks run at the same time

    def both():
        barrier.wait(timeout=30)
        outside.add(threading.get_ident())

    run_all([both, both])
    assert len(outside) == 2, "afterwards threads are there again"


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_first_error_is_the_callers(monkeypatch, threads):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)

    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_all([fail, lambda: None])


def test_blocks_cover_the_rows_in_order():
    blocks = row_blocks(1000, 3000)
    assert [i for block in blocks for i in range(block.start, block.stop)] == list(range(1000))
