"""Tasks on threads: all of them, no more threads than asked for, and the first error."""

import threading
from functools import partial

import numpy as np
import pytest
from thermoset.core.pool import PerThread, for_blocks, run_all
from thermoset.core.sources import ArrayRows, RankedRows, ranked


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


def test_tasks_are_made_only_as_they_are_needed(monkeypatch):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "2")
    made, done, ahead = [], [], []

    def tasks():
        for i in range(200):
            made.append(i)
            ahead.append(len(made) - len(done))
            yield partial(done.append, i)

    run_all(tasks())
    assert sorted(done) == list(range(200))
    assert max(ahead) <= 20, "a file longer than the memory must not be read ahead of the work"


def test_blocks_cover_the_rows_in_order():
    seen = []
    for_blocks(ArrayRows(np.zeros((1000, 3000))), lambda block, rows: seen.append((rows.start, len(block))), n_jobs=1)
    assert [start + i for start, n in seen for i in range(n)] == list(range(1000))


def test_counts_of_threads_add_up(monkeypatch):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "3")
    counts = PerThread(lambda: np.zeros(1, dtype=np.int64))

    def add(i):
        counts.mine()[0] += i

    run_all([partial(add, i) for i in range(300)])
    assert sum(counts.all())[0] == 300 * 299 // 2
    assert len(PerThread(lambda: 1).all()) == 1


@pytest.mark.parametrize("kept", [0, 2**30])
def test_rows_are_sorted_once_where_they_fit(monkeypatch, kept):
    rows = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    sorts = []
    plain = np.sort
    monkeypatch.setattr("thermoset.core.sources.np.sort", lambda *a, **k: sorts.append(1) or plain(*a, **k))
    both = RankedRows(ArrayRows(rows), kept)
    one, two = both.ranking.of(0, rows), both.ranking.of(0, rows)
    assert len(sorts) == (1 if kept else 2)
    assert one.tobytes() == two.tobytes() == ranked(rows).tobytes()
