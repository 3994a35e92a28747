"""On a dask cluster: the same bits as here, whatever the workers, and whoever of them dies."""

import itertools
import os
import signal
import time

import numpy as np
import pytest

import thermoset as ts
from clusters import local_cluster
from law import generated
from parts import require
from thermoset.predictor.document import checksum_of
from thermoset.predictor.many_files import predict_shards
from thermoset.rows import top_labels

pytestmark = pytest.mark.long

distributed = require("distributed", "dask")
array = require("dask.array", "dask")
dask = require("dask", "dask")
on_dask = require("thermoset.integrations.dask", "dask")
on_cluster = on_dask.on_cluster

LOGITS, LABELS = generated(4000, 8, seed=11)
LOGITS = LOGITS.astype(np.float32)
FRESH, FRESH_LABELS = generated(1000, 8, seed=12)
SWEEP = {"temperatures": [0.5, 1.0, 2.0], "methods": ["lac", "raps"], "trials": 5}


@pytest.fixture(scope="module", params=["threads", 4, 2, 1])
def client(request):
    """Threads of this process, or so many worker processes."""
    if request.param == "threads":
        with local_cluster(processes=False, threads_per_worker=3) as made, distributed.Client(made) as found:
            yield found
        return
    made, found = request.getfixturevalue("four_workers")
    made.scale(request.param)
    until = time.monotonic() + 60
    while len(found.ncores()) != request.param:
        assert time.monotonic() < until, found.ncores()
        time.sleep(0.05)
    yield found


@pytest.fixture(scope="module")
def four_workers():
    """Processes that have loaded everything once; of them, two and then three leave."""
    with local_cluster(n_workers=4, threads_per_worker=1) as made, distributed.Client(made) as found:
        yield made, found


@pytest.fixture(scope="module")
def two_workers():
    """Threads of this process: their kernels are compiled already."""
    with local_cluster(n_workers=2, threads_per_worker=1, processes=False) as made, distributed.Client(made) as found:
        yield found


@pytest.fixture(scope="module")
def here():
    return ts.TwoTemperaturePredictor().fit(LOGITS, LABELS)


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch):
    """Pieces so small that there is something to do for every worker, more than once."""
    monkeypatch.setattr("thermoset.integrations.dask._PIECE_BYTES", 2**14)
    monkeypatch.setattr("thermoset.integrations.dask._SENT_BYTES", 2**14)


def rows_of(kind):
    match kind:
        case "memory":
            return LOGITS, LABELS
        case "dask array":
            return array.from_array(LOGITS, chunks=(700, 3)), array.from_array(LABELS, chunks=900)
        case "delayed blocks":
            cuts = [0, 1, 999, 1000, 2777, 4000]
            return [dask.delayed(np.copy)(LOGITS[a:b]) for a, b in itertools.pairwise(cuts)], LABELS


class Watched(ts.TwoTemperaturePredictor):
    """A predictor whose confidence tells the group of each row."""

    def predict_arrays(self, logits, **options):
        found = super().predict_arrays(logits, **options)
        return found._replace(confidence=np.array([float(name) for name in options["groups"]]))


@pytest.mark.parametrize("kind", ["memory", "dask array", "delayed blocks"])
def test_groups_go_with_the_rows(two_workers, kind):
    groups = np.arange(len(LABELS)) % 7
    logits, labels = rows_of(kind)
    given = array.from_array(groups, chunks=500) if kind == "dask array" else groups
    rows = on_cluster(logits, labels, groups=given, client=two_workers)
    assert list(rows.groups) == [str(group) for group in groups]
    if kind == "memory":
        data = ts.Logits(LOGITS, LABELS, groups=groups)
        assert on_cluster(data, client=two_workers).groups == data.groups


def test_groups_of_blocks_go_to_the_predictor(here):
    watched = Watched().fit(LOGITS[:1000], LABELS[:1000])
    groups = np.arange(len(FRESH)) % 5
    rows = array.from_array(FRESH, chunks=(130, 3))
    found = on_dask.predict(watched, rows, groups=array.from_array(groups, chunks=77))
    assert found.confidence.compute(scheduler="sync").tolist() == groups.tolist()
    assert np.array_equal(found.sets.compute(scheduler="sync"), watched.predict_set(FRESH))
    with pytest.raises(ts.InputError, match=r"groups must have shape \(1000,\)"):
        on_dask.predict(here, rows, groups=groups[:-1])


@pytest.mark.parametrize("kind", ["memory", "dask array", "delayed blocks"])
def test_rows_of_any_kind(two_workers, kind):
    there = ts.sweep(on_cluster(*rows_of(kind), client=two_workers), **SWEEP)
    assert there.trial_values.tobytes() == ts.sweep(LOGITS, LABELS, **SWEEP).trial_values.tobytes()


def test_a_sweep_is_the_same_to_the_bit(client):
    told = []
    rows = on_cluster(*rows_of("dask array"), client=client)
    there = ts.sweep(rows, progress=lambda *done: told.append(done), **SWEEP)
    assert there.trial_values.tobytes() == ts.sweep(LOGITS, LABELS, **SWEEP).trial_values.tobytes()
    assert told[-1] == (2 * 4000, 2 * 4000)
    assert told == sorted(told)


def test_fit_and_check_are_the_same_to_the_bit(client, here):
    there = ts.TwoTemperaturePredictor().fit(on_cluster(LOGITS, LABELS, client=client))
    assert checksum_of(there.document_) == checksum_of(here.document_)
    fresh = array.from_array(FRESH, chunks=(170, 3)), array.from_array(FRESH_LABELS, chunks=130)
    seen = there.check(on_cluster(*fresh, client=client))
    assert seen.to_json_dict() == here.check(FRESH, FRESH_LABELS).to_json_dict()
    with pytest.raises(ts.InputError, match=r"^4,000 of 4,000 rows were used to fit this predictor"):
        there.check(on_cluster(*rows_of("dask array"), client=client))


def test_predictions_of_a_dask_array(client, here):
    found = on_dask.predict(here, array.from_array(FRESH, chunks=(301, 4)))
    assert found.actions is None
    labels, confidence, sets = client.gather(client.compute(list(found[:3])))
    known = here.predict_arrays(FRESH)
    assert sets.tobytes() == known.sets.tobytes()
    assert confidence.tobytes() == known.confidence.tobytes()
    np.testing.assert_array_equal(labels, known.labels)


@pytest.mark.parametrize(
    "options",
    [
        {"evaluation": "integrated", "methods": ["aps"]},
        {"grouping": "class", "alphas": [0.2]},
        {"metrics": ["sscv", "confidence_coverage_gap"]},
    ],
)
def test_other_sweeps(two_workers, options):
    asked = SWEEP | options
    there = ts.sweep(on_cluster(LOGITS, LABELS, client=two_workers), **asked)
    assert there.trial_values.tobytes() == ts.sweep(LOGITS, LABELS, **asked).trial_values.tobytes()


def test_groups_of_rows_in_memory_go_with_them(two_workers):
    rows = ts.Logits(LOGITS, LABELS, groups=LABELS % 3)
    there = ts.sweep(on_cluster(rows, client=two_workers), **SWEEP)
    assert there.metrics[-3:] == ("top_group_coverage_gap", "avg_group_coverage_gap", "worst_group_coverage")
    assert there.trial_values.tobytes() == ts.sweep(rows, **SWEEP).trial_values.tobytes()


@pytest.mark.parametrize("parameters", [{"method": "auto"}, {"prefer": "protect", "alpha": 0.2}, {"objective": "ece"}])
def test_other_predictors(two_workers, parameters):
    there = ts.TwoTemperaturePredictor(**parameters).fit(on_cluster(LOGITS, LABELS, client=two_workers))
    assert checksum_of(there.document_) == checksum_of(
        ts.TwoTemperaturePredictor(**parameters).fit(LOGITS, LABELS).document_
    )


@pytest.mark.parametrize("kind", ["memory", "dask array"])
def test_a_worker_that_dies_in_a_sweep_changes_nothing(kind):
    """The process is killed after the first rows came back, and again in the second pass; its rows are made again."""
    wanted = ts.sweep(LOGITS, LABELS, **SWEEP)
    with local_cluster(n_workers=2, threads_per_worker=1) as made, distributed.Client(made) as client:
        dead = set()

        def kill(done, total):
            if len(dead) < 2 and done > len(dead) * total / 2:
                pid = next(pid for pid in client.run(os.getpid).values() if pid not in dead)
                os.kill(pid, signal.SIGKILL)
                dead.add(pid)

        there = ts.sweep(on_cluster(*rows_of(kind), client=client), progress=kill, **SWEEP)
        assert len(dead) == 2
    assert there.trial_values.tobytes() == wanted.trial_values.tobytes()


def test_a_worker_that_dies_in_a_predict_changes_nothing(here, tmp_path):
    """Killed when the first shards are there: the same files, whole, as an undisturbed run writes."""
    (tmp_path / "in").mkdir()
    for i in range(12):
        ts.save(tmp_path / "in" / f"part-{i}.npz", ts.Logits(LOGITS[300 * i : 300 * i + 300]))
    wanted = predict_shards(here, tmp_path / "in", tmp_path / "here", kind="jsonl")
    with local_cluster(n_workers=2, threads_per_worker=1) as made, distributed.Client(made) as client:
        dead = []

        def kill(done, total):
            if not dead and done < total:
                dead.append(next(iter(client.run(os.getpid).values())))
                os.kill(dead[0], signal.SIGKILL)

        elsewhere = {"run": on_dask.run_shards(client), "progress": kill}
        found = predict_shards(here, tmp_path / "in", tmp_path / "there", kind="jsonl", **elsewhere)
        assert dead
    assert found.shards == wanted.shards
    here, there = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("here", "there"))
    assert here == there


def test_bad_blocks_are_named(two_workers):
    bad = LOGITS.copy()
    bad[1500, 3] = np.nan
    with pytest.raises(ts.InputError, match=r"block 2: logits\[100, 3\] is NaN"):
        on_cluster(array.from_array(bad, chunks=(700, 8)), LABELS, client=two_workers)
    uneven = [dask.delayed(LOGITS[:9]), dask.delayed(LOGITS[9:20, :7])]
    with pytest.raises(ts.InputError, match="block 1 has 7 columns"):
        on_cluster(uneven, LABELS[:20], client=two_workers)
    with pytest.raises(ts.InputError, match="labels must"):
        on_cluster(array.from_array(LOGITS, chunks=700), LABELS[:-1], client=two_workers)


def test_named_classes_of_workers_are_put_in_order(two_workers):
    names = tuple("abcdefgh")
    reversed_rows = array.from_array(LOGITS[:, ::-1].copy(), chunks=(700, 8))
    rows = on_cluster(reversed_rows, classes=names[::-1], client=two_workers).in_order(names)
    assert rows.load() == ts.Logits(LOGITS, classes=names)
    np.testing.assert_array_equal(top_labels(rows.apply(np.square)), np.square(LOGITS).argmax(axis=1))


def test_without_a_client(monkeypatch):
    def none():
        raise ValueError("No global client found and no address provided")

    monkeypatch.setattr(distributed, "get_client", none)
    with pytest.raises(ts.InputError, match="no active dask client"):
        on_cluster(LOGITS, LABELS)


def test_the_active_client_is_taken(two_workers, here):
    with two_workers.as_current():
        assert here.check(on_cluster(FRESH, FRESH_LABELS)).rows == 1000


def test_thresholds_by_group_answer_dask_arrays():
    rows = ts.Logits(LOGITS, LABELS, groups=np.arange(len(LABELS)) % 3)
    by_group = ts.TwoTemperaturePredictor("lac", prefer="small", grouping="group").fit(rows)
    groups = np.arange(len(FRESH)) % 3
    found = on_dask.predict(by_group, array.from_array(FRESH, chunks=(130, 8)), groups=groups)
    np.testing.assert_array_equal(found.sets.compute(scheduler="sync"), by_group.predict_set(FRESH, groups=groups))


@pytest.mark.parametrize("kind", ["dask", "stored"])
def test_groups_go_with_their_rows(two_workers, kind, tmp_path):
    """A threshold for each group: fit, check and a sweep give the same bits as here, whatever the pieces."""
    logits, labels, sites, fresh_sites = LOGITS[:600], LABELS[:600], np.arange(600) % 3, np.arange(1000) % 3
    asked = {"method": "aps", "prefer": "small", "grouping": "group", "fallback": "pooled"}
    rows = ts.Logits(logits, labels, groups=sites)
    alone = ts.TwoTemperaturePredictor(**asked).fit(rows)
    if kind == "stored":
        ts.save(tmp_path / "rows.npz", ts.Logits(logits, labels))
    given = {"dask": array.from_array(logits, chunks=(170, 3)), "stored": str(tmp_path / "rows.npz")}
    beside = None if kind == "stored" else labels
    there = ts.TwoTemperaturePredictor(**asked).fit(on_cluster(given[kind], beside, groups=sites, client=two_workers))
    assert checksum_of(there.document_) == checksum_of(alone.document_)
    found = there.check(on_cluster(FRESH, FRESH_LABELS, groups=fresh_sites, client=two_workers))
    expected = alone.check(FRESH, FRESH_LABELS, groups=fresh_sites)
    assert found.to_json_dict() == expected.to_json_dict()
    options = {"temperatures": [1.0], "methods": ["lac"], "trials": 2, "grouping": "group"}
    np.testing.assert_array_equal(
        ts.sweep(on_cluster(given[kind], beside, groups=sites, client=two_workers), **options).trial_values,
        ts.sweep(rows, **options).trial_values,
    )


def test_lazy_answers_carry_the_action():
    noise = np.random.default_rng(13).normal(scale=8.0, size=(len(LOGITS) + len(FRESH), 8))  # so that not all are right
    hard, rows = LOGITS + noise[: len(LOGITS)], FRESH + noise[len(LOGITS) :]
    model = ts.TwoTemperaturePredictor("lac", prefer="small", answer="error<=0.1", review="size>2").fit(hard, LABELS)
    found = on_dask.predict(model, array.from_array(rows, chunks=(130, 3)))
    known = model.predict_arrays(rows)
    np.testing.assert_array_equal(found.actions.compute(scheduler="sync"), known.actions)
    np.testing.assert_array_equal(found.sets.compute(scheduler="sync"), known.sets)
    assert len({*known.actions.tolist()}) > 1
