"""Tasks on threads: all of them, no more threads than asked for, and the first error."""

import threading
from functools import partial

import numpy as np
import pytest

from on_arrays import ArrayRows
from thermoset.errors import InputError
from thermoset.rows import SortedRows, gaps_of, map_rows, run_tasks, sort_ascending, sorted_order, sum_rows


def test_every_task_runs_once(monkeypatch):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "3")
    done = []
    run_tasks([partial(done.append, i) for i in range(20)])
    assert sorted(done) == list(range(20))


def test_tasks_of_a_task_open_no_threads_of_their_own(monkeypatch):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "2")
    names = {}

    def inner(i, j):
        names[i, j] = threading.get_ident()

    def outer(i):
        run_tasks([partial(inner, i, j) for j in range(3)], n_jobs=3)
        assert {names[i, j] for j in range(3)} == {threading.get_ident()}

    run_tasks([partial(outer, i) for i in range(4)])
    assert len(names) == 12
    assert len(set(names.values())) <= 2
    outside = set()
    barrier = threading.Barrier(2)  # broken, and an error, unless two tasks run at the same time

    def both():
        barrier.wait(timeout=30)
        outside.add(threading.get_ident())

    run_tasks([both, both])
    assert len(outside) == 2, "afterwards threads are there again"


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_first_error_is_the_callers(monkeypatch, threads):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)

    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_tasks([fail, lambda: None])


def test_tasks_are_made_only_as_they_are_needed(monkeypatch):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "2")
    made, done, ahead = [], [], []

    def tasks():
        for i in range(200):
            made.append(i)
            ahead.append(len(made) - len(done))
            yield partial(done.append, i)

    run_tasks(tasks())
    assert sorted(done) == list(range(200))
    assert max(ahead) <= 20, "a file longer than the memory must not be read ahead of the work"


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("block_bytes", [8, 2**12, 2**19])
def test_blocks_put_results_where_their_rows_stand_and_add_up(monkeypatch, threads, block_bytes):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
    monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", block_bytes)
    source, steps = ArrayRows(np.arange(3000.0).reshape(1000, 3)), []
    by_column, by_row = np.empty((2, 1000)), np.empty((1000, 3))

    def progress(done, total):
        steps.append((done, total))

    def seen(block, numbers, factor):
        assert len(block) == len(numbers)
        return (factor * np.stack([block[:, 0], np.array(numbers)]),)

    map_rows(source, seen, [by_column], per_row=[range(1000)], fixed=[2.0], progress=progress)
    np.testing.assert_array_equal(by_column, 2.0 * np.stack([source.logits[:, 0], np.arange(1000)]))
    assert steps[-1] == (1000, 1000)
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    map_rows(source, lambda block: (block + 1,), [by_row], axis=-2)
    np.testing.assert_array_equal(by_row, source.logits + 1)

    def add(block, sums, numbers):
        sums[0][:] += sum(numbers)

    (total,) = sum_rows(source, add, lambda: (np.zeros(1, dtype=np.int64),), per_row=[range(1000)])
    assert total[0] == 1000 * 999 // 2


def test_no_rows_give_nothing():
    empty = ArrayRows(np.empty((0, 4)))
    map_rows(empty, lambda block: (block,), [np.empty((0, 4))], axis=-2)
    (total,) = sum_rows(empty, lambda block, sums: None, lambda: (np.zeros(2),))
    assert total.tolist() == [0, 0]


@pytest.mark.parametrize("threads", ["0", "-1", "two", "1.5", "²", "१", "1025", "9" * 5000, "+1", "1_0"])
def test_a_bad_number_of_threads_is_named(threads, monkeypatch):
    monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
    with pytest.raises(InputError, match="THERMOSET_NUM_THREADS"):
        run_tasks([lambda: None])


def test_sorted_rows_rank_ties_by_label_index():
    rows = np.random.default_rng(1).integers(-2, 3, size=(200, 9)).astype(np.float16)
    gaps, order = sorted_order(rows)
    for row, found, labels in zip(rows.astype(float).tolist(), gaps.tolist(), order.tolist(), strict=True):
        expected = sorted(range(9), key=lambda y: (-row[y], y))
        assert labels == expected
        assert found == [row[y] - max(row) for y in expected]
    np.testing.assert_array_equal(gaps_of(sort_ascending(rows)), gaps)


@pytest.mark.parametrize("kept", [False, True])
def test_rows_are_sorted_once_where_they_fit(monkeypatch, kept):
    rows = np.random.default_rng(0).normal(size=(50, 7)).astype(np.float32)
    sorts = []
    plain = np.sort
    monkeypatch.setattr("thermoset.rows.np.sort", lambda *a, **k: sorts.append(1) or plain(*a, **k))
    both = SortedRows(ArrayRows(rows), keep=kept)
    one, two = both.sorter.gaps(0, rows), both.sorter.gaps(0, rows)
    assert len(sorts) == (1 if kept else 2)
    assert one.tobytes() == two.tobytes() == gaps_of(sort_ascending(rows)).tobytes()
