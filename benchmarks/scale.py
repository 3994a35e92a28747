"""Larger than memory, on workers, and as wide as a vocabulary.

Run as `python -m benchmarks.scale TASK FOLDER`, this module is the process that does one task and nothing else: its
peak memory is that of the task.
"""

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.measure import peak_memory
from benchmarks.report import Line, Settings, Table, Target

__all__ = ["cluster", "larger", "vocabulary"]

_SHARD, _WIDTH, _LINKS = 50_000, 5_000, 20  # rows and classes of a shard of 1 GB, and how often it is linked to
_BUDGET = "512MiB"
_SPREAD = 200_000, 1_000  # rows and classes of the comparison with workers
_SWEEP = {"trials": 20}
_VOCABULARY = 2_000, 128_000


def larger(_: Settings) -> Table:
    """20 GB of logits, tuned and predicted, compared with one of its shards in memory."""
    with tempfile.TemporaryDirectory() as folder:
        _write_shard(Path(folder), _SHARD, _WIDTH)
        _link(Path(folder))
        part, whole = _measure("part", folder), _measure("folder", folder)
    rows = _SHARD * _LINKS
    lines = [
        Line(f"in memory, {_SHARD:,} × {_WIDTH:,}: 1,000 rows", 1e6 * part["seconds"] / _SHARD, note=_parts(part)),
        Line(
            f"a folder of {_LINKS} such files, {rows:,} rows: 1,000 rows",
            1e6 * whole["seconds"] / rows,
            target=Target("<=", 1.3, "yardstick"),
            note=f"{_parts(whole)}; peak memory {whole['peak'] / 1e9:.2f} GB (at most 1.5), memory={_BUDGET!r}",
        ),
    ]
    return Table(f"Tune and predict, {rows * _WIDTH * 4 / 1e9:.0f} GB of float32", lines, unit="ms")


def _parts(found: dict[str, float]) -> str:
    return f"fit {found['fit']:.0f} s, predict {found['predict']:.0f} s"


def cluster(_: Settings) -> Table:
    """A sweep here, and on two worker processes of this machine that read the files themselves."""
    rows, classes = _SPREAD
    with tempfile.TemporaryDirectory() as folder:
        for i in range(4):
            _write_shard(Path(folder), rows // 4, classes, f"part-{i}", seed=i)
        found = _measure("cluster", folder)
    lines = [
        Line("in memory, 2 threads", found["here"]),
        Line("dask, 2 processes", found["there"], target=Target("<=", 1.4, "yardstick"), note="the same bits"),
    ]
    return Table(f"Sweep of {rows:,} × {classes:,}, 48 temperatures, 3 scores, {_SWEEP['trials']} trials", lines)


def vocabulary(_: Settings) -> Table:
    """Rows as wide as the vocabulary of a language model."""
    rows, classes = _VOCABULARY
    with tempfile.TemporaryDirectory() as folder:
        _write_shard(Path(folder), rows, classes, signal=4.6)
        found = _measure("vocabulary", folder)
    lines = [
        Line("numpy.sort of the rows", found["sort"]),
        Line("answers", found["predict"], target=Target("<=", 3, "yardstick")),
        Line("fit", found["fit"], note=f"peak resident memory {found['peak'] / 1e9:.2f} GB, the rows take 1"),
    ]
    return Table(f"A vocabulary, {rows:,} × {classes:,} float32", lines)


def _write_shard(
    folder: Path, rows: int, classes: int, name: str = "one", *, seed: int = 0, signal: float = 3.5
) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    out = np.lib.format.open_memmap(folder / f"{name}_logits.npy", "w+", np.float32, (rows, classes))
    step = max(1, 10_000_000 // classes)
    for start in range(0, rows, step):
        some = labels[start : start + step]
        evidence = rng.standard_normal((len(some), classes), dtype=np.float32)
        evidence[np.arange(len(some)), some] += signal
        out[start : start + step] = 2.5 * evidence
    out.flush()
    np.save(folder / f"{name}_labels.npy", labels)


def _link(folder: Path) -> None:
    """A folder of links to the one shard counts as so many files."""
    (folder / "links").mkdir()
    for i in range(_LINKS):
        for kind in ("logits", "labels"):
            (folder / "links" / f"part-{i}_{kind}.npy").symlink_to(folder / f"one_{kind}.npy")


def _measure(task: str, folder: str) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", task, folder]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _warm() -> None:
    """Compile the kernels, or load them."""
    import thermoset as ts

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 20, 600)
    logits = (3 * (rng.normal(size=(600, 20)) + 2 * np.eye(20)[labels])).astype(np.float32)
    ts.TwoTemperaturePredictor().fit(logits, labels).predict_arrays(logits)
    ts.sweep(logits, labels, trials=2)


def _task_part(folder: Path) -> dict[str, float]:
    import thermoset as ts

    return _fit_and_predict(ts.load(folder / "one_logits.npy"), [folder / "one_logits.npy"], folder / "out-part")


def _task_folder(folder: Path) -> dict[str, float]:
    import thermoset as ts

    return _fit_and_predict(
        ts.open(folder / "links", allow_duplicates=True), [folder / "links"], folder / "out", memory=_BUDGET
    )


def _fit_and_predict(data: object, where: list[Path], out: Path, **budget: str) -> dict[str, float]:
    import thermoset as ts
    from thermoset.predictor.many_files import predict_shards

    start = time.perf_counter()
    predictor = ts.TwoTemperaturePredictor().fit(data, **budget)
    fitted = time.perf_counter()
    predict_shards(predictor, where, out, kind="parquet", **budget)
    ended = time.perf_counter()
    return {"seconds": ended - start, "fit": fitted - start, "predict": ended - fitted, "peak": peak_memory()}


def _task_cluster(folder: Path) -> dict[str, float]:
    from distributed import Client, LocalCluster

    import thermoset as ts
    from thermoset.integrations.dask import on_cluster

    stored = ts.open(folder)
    data = stored.load()
    here, there = [], []
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as made, Client(made) as client:
        ts.sweep(on_cluster(stored.take(slice(0, 4000)), client=client), trials=2)  # compiles in the workers
        for _ in range(2):
            start = time.perf_counter()
            one = ts.sweep(data, **_SWEEP)
            middle = time.perf_counter()
            other = ts.sweep(on_cluster(stored, client=client), **_SWEEP)
            here.append(middle - start)
            there.append(time.perf_counter() - middle)
        if one.trial_values.tobytes() != other.trial_values.tobytes():
            raise SystemExit("workers gave a different result")
    return {"here": min(here), "there": min(there)}


def _task_vocabulary(folder: Path) -> dict[str, float]:
    import thermoset as ts

    data = ts.load(folder / "one_logits.npy")
    start = time.perf_counter()
    predictor = ts.TwoTemperaturePredictor().fit(data, memory=_BUDGET)
    fitted, peak = time.perf_counter() - start, peak_memory()
    sorts, answers = [], []
    for _ in range(3):
        start = time.perf_counter()
        np.sort(data.logits, axis=1)
        middle = time.perf_counter()
        predictor.predict_arrays(data)
        sorts.append(middle - start)
        answers.append(time.perf_counter() - middle)
    return {"fit": fitted, "peak": peak, "sort": min(sorts), "predict": min(answers)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _warm()
    tasks = {
        "part": _task_part,
        "folder": _task_folder,
        "cluster": _task_cluster,
        "vocabulary": _task_vocabulary,
    }
    print(json.dumps(tasks[sys.argv[1]](Path(sys.argv[2]))))
