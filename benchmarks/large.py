"""Memory, rows that do not fit into it, workers, vocabularies, and what work costs.

Run as `python -m benchmarks.large TASK ...`, this module is the process that does one task and nothing else: its peak
memory is that of the task.
"""

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

import thermoset as ts
from benchmarks.measure import best_of, from_child, network_logits, peak_above, peak_memory
from benchmarks.tables import Line, Settings, Table, Target
from thermoset.sweeping import PAPER_GRID, temperature_grid

__all__ = ["cluster", "costs", "larger", "memory", "vocabulary"]

_MB = 1e6
_BUDGET = "512MiB"


# --- Peak memory of `predict_set` and `sweep`


_NARROW = 1_000_000, 10  # rows and classes where what is kept for each row is most of it


def memory(settings: Settings) -> Table:
    """What `predict_set` and a whole sweep need beyond their input."""
    title = f"Peak memory beyond the input, {settings.rows:,} × {settings.classes:,} float32"
    size = settings.rows * settings.classes  # bytes of the boolean result; the float32 input has four times as many
    allowed = Line("result + 25% of the input", (size + 0.25 * 4 * size) / _MB, runs=0)
    if sys.platform != "linux":
        note = "measured on Linux only"
        return Table(title, [allowed, Line("predict_set, RAPS", None, runs=0, note=note)], unit="MB")

    def line(what: str, peak: int, target: Target, note: str) -> Line:
        return Line(what, peak / _MB, settings.repeats, target, note)

    sets, sweep = (_worst(task, settings.rows, settings.classes, settings.repeats) for task in ("predict_set", "sweep"))
    narrow = _worst("sweep", *_NARROW, settings.repeats)
    of_input = f"{1 + sweep / (4 * size):.2f} times the input, itself included"
    return Table(
        title,
        [
            allowed,
            line(
                "predict_set, RAPS",
                sets,
                Target("<=", 1, "yardstick"),
                f"the result and {(sets - size) / (4 * size):.1%} of the input",
            ),
            line("sweep, 46 temperatures, 100 trials", sweep, Target("<=", 6 * size / _MB, "value"), of_input),
            line(
                f"the same, {_NARROW[0]:,} × {_NARROW[1]} float32",
                narrow,
                Target("<=", 600, "value"),
                f"the input has {4 * _NARROW[0] * _NARROW[1] / _MB:.0f} MB",
            ),
        ],
        unit="MB",
    )


def _worst(task: str, rows: int, classes: int, repeats: int) -> int:
    """The worst of several runs: a peak is a promise, not a race."""
    return max(from_child("benchmarks.large", task, rows, classes) for _ in range(repeats))


def _peak_of_sets(rows: int, classes: int) -> int:
    from benchmarks.predicting import fitted_classifier

    model = fitted_classifier("raps", classes, rows=1_000)  # what is imported and compiled before does not count
    logits, _ = network_logits(rows, classes, seed=0)
    return peak_above(lambda: model.predict_set(logits))


def _peak_of_sweep(rows: int, classes: int) -> int:
    ts.sweep(np.zeros((100, 2), dtype=np.float32), np.arange(100) % 2, [1.0], trials=1)
    logits, labels = network_logits(rows, classes, seed=0)
    return peak_above(lambda: ts.sweep(logits, labels, temperature_grid(PAPER_GRID)))


# --- Larger than memory, on workers, and as wide as a vocabulary


_SHARD, _WIDTH, _LINKS = 50_000, 5_000, 20  # rows and classes of a shard of 1 GB, and how often it is linked to
_SPREAD = 200_000, 1_000  # rows and classes of the comparison with workers
_SWEEP = {"trials": 20}
_VOCABULARY = 2_000, 128_000


def larger(_: Settings) -> Table:
    """20 GB of logits, tuned and predicted, compared with one of its shards in memory."""
    with tempfile.TemporaryDirectory() as folder:
        _write_shard(Path(folder), _SHARD, _WIDTH)
        _link(Path(folder))
        part, whole = (from_child("benchmarks.large", task, folder) for task in ("part", "folder"))
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


def _parts(seconds: dict[str, float]) -> str:
    return f"fit {seconds['fit']:.0f} s, predict {seconds['predict']:.0f} s"


def cluster(_: Settings) -> Table:
    """A sweep here, and on two worker processes of this machine that read the files themselves."""
    rows, classes = _SPREAD
    with tempfile.TemporaryDirectory() as folder:
        for i in range(4):
            _write_shard(Path(folder), rows // 4, classes, f"part-{i}", seed=i)
        measured = from_child("benchmarks.large", "cluster", folder)
    lines = [
        Line("in memory, 2 threads", measured["in_memory"]),
        Line("dask, 2 processes", measured["on_workers"], target=Target("<=", 1.4, "yardstick"), note="the same bits"),
    ]
    return Table(f"Sweep of {rows:,} × {classes:,}, 48 temperatures, 3 scores, {_SWEEP['trials']} trials", lines)


def vocabulary(_: Settings) -> Table:
    """Rows as wide as the vocabulary of a language model."""
    rows, classes = _VOCABULARY
    with tempfile.TemporaryDirectory() as folder:
        _write_shard(Path(folder), rows, classes, signal=4.6)
        measured = from_child("benchmarks.large", "vocabulary", folder)
    lines = [
        Line("numpy.sort of the rows", measured["sort"]),
        Line("answers", measured["predict"], target=Target("<=", 3, "yardstick")),
        Line("fit", measured["fit"], note=f"peak resident memory {measured['peak'] / 1e9:.2f} GB, the rows take 1"),
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
        out[start : start + step] = _plain_logits(rng, labels[start : start + step], classes, signal)
    out.flush()
    np.save(folder / f"{name}_labels.npy", labels)


def _plain_logits(rng: np.random.Generator, labels: Any, classes: int, signal: float = 3.5) -> Any:
    """Normal logits with a signal on the label: quick to make, in float32."""
    logits = rng.standard_normal((len(labels), classes), dtype=np.float32)
    logits[np.arange(len(labels)), labels] += signal
    return 2.5 * logits


def _link(folder: Path) -> None:
    """A folder of links to the one shard counts as so many files."""
    (folder / "links").mkdir()
    for i in range(_LINKS):
        for kind in ("logits", "labels"):
            (folder / "links" / f"part-{i}_{kind}.npy").symlink_to(folder / f"one_{kind}.npy")


def _compile() -> None:
    """Compile the kernels, or load them."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 20, 600)
    logits = (3 * (rng.normal(size=(600, 20)) + 2 * np.eye(20)[labels])).astype(np.float32)
    ts.TwoTemperaturePredictor().fit(logits, labels).predict_arrays(logits)
    ts.sweep(logits, labels, trials=2)


def _task_part(folder: str) -> dict[str, float]:
    shard = Path(folder) / "one_logits.npy"
    return _fit_and_predict(ts.load(shard), shard, Path(folder) / "out-part")


def _task_folder(folder: str) -> dict[str, float]:
    links = Path(folder) / "links"
    return _fit_and_predict(ts.open(links, allow_duplicates=True), links, Path(folder) / "out", memory=_BUDGET)


def _fit_and_predict(data: Any, source: Path, out: Path, **budget: str) -> dict[str, float]:
    from thermoset.predictor.many_files import predict_shards

    _compile()
    start = time.perf_counter()
    predictor = ts.TwoTemperaturePredictor().fit(data, **budget)
    fitted = time.perf_counter()
    predict_shards(predictor, [source], out, kind="parquet", **budget)
    ended = time.perf_counter()
    return {"seconds": ended - start, "fit": fitted - start, "predict": ended - fitted, "peak": peak_memory()}


def _task_cluster(folder: str) -> dict[str, float]:
    from distributed import Client, LocalCluster

    from thermoset.integrations.dask import on_cluster

    _compile()
    stored = ts.open(folder)
    data = stored.load()
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers, Client(workers) as client:
        ts.sweep(on_cluster(stored.take(slice(0, 4000)), client=client), trials=2)  # compiles in the workers
        contenders = {
            "in_memory": lambda: ts.sweep(data, **_SWEEP),
            "on_workers": lambda: ts.sweep(on_cluster(stored, client=client), **_SWEEP),
        }
        timings = best_of(contenders, 2)
    in_memory, on_workers = (timing.result.trial_values.tobytes() for timing in timings.values())
    if in_memory != on_workers:
        raise SystemExit("workers gave a different result")
    return {name: timing.seconds or np.nan for name, timing in timings.items()}


def _task_vocabulary(folder: str) -> dict[str, float]:
    _compile()
    data = ts.load(Path(folder) / "one_logits.npy")
    start = time.perf_counter()
    predictor = ts.TwoTemperaturePredictor().fit(data, memory=_BUDGET)
    fitted, peak = time.perf_counter() - start, peak_memory()
    contenders = {"sort": lambda: np.sort(data.logits, axis=1), "predict": lambda: predictor.predict_arrays(data)}
    timings = best_of(contenders, 3)
    return {"fit": fitted, "peak": peak, **{name: timing.seconds or np.nan for name, timing in timings.items()}}


# --- What work costs, as a formula: measured at several sizes, fitted, and stretched to a billion rows.
# Core-seconds of a stage are a sum of terms, each a product of rows, classes and temperatures. The factors come from a
# least-squares fit of relative errors without negative factors; the notes say how well it gives back the measurements.


class _Size(NamedTuple):
    """Of a run: rows, classes, temperatures."""

    rows: int
    classes: int
    temperatures: int = 1


class _Model(NamedTuple):
    """A stage: how it is measured at a size, its terms in words and as functions, and the sizes it is measured at."""

    measure: Callable[[_Size], float]
    words: tuple[str, ...]
    terms: Callable[[_Size], Sequence[float]]
    sizes: tuple[_Size, ...]
    huge: _Size


_BILLION = 10**9
_SWEPT = ((20_000, 100, 12), (20_000, 100, 48), (20_000, 1_000, 12), (20_000, 1_000, 48), (5_000, 4_000, 24))
_READ = ((200_000, 100), (50_000, 1_000), (20_000, 1_000), (10_000, 5_000))


def costs(settings: Settings) -> Table:
    """Factors of the formulas in docs/large-data.md."""
    lines = []
    for name, model in _models().items():
        rows = np.array([model.terms(size) for size in model.sizes], dtype=np.float64)
        seconds = np.array([settings.threads * model.measure(size) for size in model.sizes])
        factors, _ = nnls(rows / seconds[:, None], np.ones(len(seconds)))
        worst = float(np.abs(rows @ factors / seconds - 1).max())
        huge = float(np.array(model.terms(model.huge)) @ factors)
        words = " + ".join(f"{1e9 * factor:.2f} ns × {word}" for factor, word in zip(factors, model.words, strict=True))
        note = f"{words}; within {worst:.0%} of the measurements"
        lines.append(
            Line(f"{name}, core-hours for a billion rows × 1,000 classes", huge / 3600, len(seconds), note=note)
        )
    return Table("Cost model", lines, unit="h")


def _models() -> dict[str, _Model]:
    of_rows = {"predict to parquet": _seconds_to_predict, "check": _seconds_to_check}
    of_rows["recalibrate"] = _seconds_to_recalibrate
    return {
        **{
            name: _Model(
                measure,
                ("rows × classes", "rows"),
                lambda size: (size.rows * size.classes, size.rows),
                tuple(_Size(*size) for size in _READ),
                _Size(_BILLION, 1_000),
            )
            for name, measure in of_rows.items()
        },
        "sweep, 3 scores, 20 trials": _Model(
            _seconds_to_sweep,
            ("rows × classes × temperatures", "rows × classes", "rows × temperatures"),
            lambda size: (
                size.rows * size.classes * size.temperatures,
                size.rows * size.classes,
                size.rows * size.temperatures,
            ),
            tuple(_Size(*size) for size in _SWEPT),
            _Size(_BILLION, 1_000, 48),
        ),
    }


def _rows(size: _Size) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, size.classes, size.rows)
    return _plain_logits(rng, labels, size.classes), labels


def _fitted(size: _Size) -> tuple[ts.TwoTemperaturePredictor, ts.Logits]:
    logits, labels = _rows(size)
    few = ts.Logits(1.01 * logits[:2000], labels[:2000])  # rows that made a predictor may not judge it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ts.TwoTemperaturePredictor(prefer="small").fit(few), ts.Logits(logits, labels)


def _best_of_two(work: Callable[[], object]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return best_of({"work": work}, 2)["work"].seconds or np.nan


def _seconds_to_predict(size: _Size) -> float:
    from thermoset.predictor.many_files import predict_shards

    predictor, data = _fitted(size)
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows_logits.npy"
        ts.save(rows, data)
        targets = iter(range(9))
        return _best_of_two(lambda: predict_shards(predictor, rows, f"{folder}/{next(targets)}", kind="parquet"))


def _seconds_to_check(size: _Size) -> float:
    predictor, data = _fitted(size)
    return _best_of_two(lambda: predictor.check(data))


def _seconds_to_recalibrate(size: _Size) -> float:
    predictor, data = _fitted(size)
    return _best_of_two(lambda: predictor.recalibrate(data))


def _seconds_to_sweep(size: _Size) -> float:
    logits, labels = _rows(size)
    grid = np.linspace(0.3, 5, size.temperatures)
    return _best_of_two(lambda: ts.sweep(logits, labels, grid, trials=20))


if __name__ == "__main__":
    tasks: dict[str, Callable[[str], Any]] = {
        "predict_set": lambda rows: _peak_of_sets(int(rows), int(sys.argv[3])),
        "sweep": lambda rows: _peak_of_sweep(int(rows), int(sys.argv[3])),
        "part": _task_part,
        "folder": _task_folder,
        "cluster": _task_cluster,
        "vocabulary": _task_vocabulary,
    }
    print(json.dumps(tasks[sys.argv[1]](sys.argv[2])))
