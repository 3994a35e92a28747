"""What is measured of each library, as plain records; a library that cannot be run says why."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import thermoset as ts
from benchmarks import loops
from benchmarks.measure import ROOT, Contender, best_of, from_child, network_logits, peak_above, why_missing
from benchmarks.peers.answers import answered, cell_job
from benchmarks.peers.libraries import CONFIDENCES, SETS, TEMPERATURES, Confidence, Model, Rows
from benchmarks.peers.results import ALPHA, FULL, OURS, Plan, Result

__all__ = ["JOBS", "data_files", "peak_of_child"]

CLOCK = time.process_time  # of all threads, of which every library has one: other work on the machine does not count
_CALLS, _ROUNDS = 10, 7  # of a single row, in so many rounds
_WARM_UP = 100  # rows
_FIRST_ROWS = 10
_BINS = 15
_MOST_JUDGED = 8_000  # rows
_FIRST_SETS = """
import sys
import warnings
import numpy as np
from benchmarks.peers.libraries import SETS
warnings.simplefilter("ignore")
with np.load(sys.argv[1]) as rows:
    model = SETS[sys.argv[2]][sys.argv[3]]((rows["logits"], rows["labels"]), float(sys.argv[4]))
    model.predict(model.prepare(rows["first"]))
"""
_PACKAGES = {
    "thermoset": ("thermoset", "thermoset", ()),
    "MAPIE": ("mapie", "mapie", ()),
    "TorchCP": ("torchcp", "torchcp", ()),
    "crepes": ("crepes", "crepes", ()),
    "puncc": ("puncc", "deel.puncc", ()),
    "torch-uncertainty": ("torch-uncertainty", "torch_uncertainty", ("cpu",)),
    "netcal": ("netcal", "netcal", ()),
    "probmetrics": ("probmetrics", "probmetrics", ()),
}
"""Distributions, what is imported, and the extras without which that fails."""


def temperatures(plan: Plan) -> Iterator[Result]:
    """Seconds to fit T*, and what it is."""
    rows = network_logits(plan.rows, plan.classes, seed=0)
    fits = {name: _attempt(lambda build=build: build(rows)) for name, build in TEMPERATURES.items()}
    for name, timing in best_of(fits, plan.repeats, CLOCK).items():
        yield Result(name, "T*", timing.seconds, {"T": timing.result} if timing.seconds else {}, timing.missing)


def sets(plan: Plan) -> Iterator[Result]:
    """Seconds to make sets; with it coverage, size, and how many rows and labels differ from ours."""
    logits, labels = network_logits(plan.rows, plan.classes, seed=0)
    for method in ("LAC", "APS"):
        jobs = {name: _job(plan, name, method, logits) for name in SETS if method in SETS[name]}
        timings = best_of(jobs, plan.repeats, CLOCK)
        ours = _as_sets(timings[OURS].result, plan.classes)
        for name, timing in timings.items():
            details = {} if timing.seconds is None else _compared(_as_sets(timing.result, plan.classes), ours, labels)
            yield Result(name, f"{method} sets", timing.seconds, details, timing.missing)


def _compared(theirs: NDArray[np.bool_], ours: NDArray[np.bool_], labels: NDArray[np.int64]) -> dict[str, float]:
    return {
        "coverage": float(theirs[np.arange(len(labels)), labels].mean()),
        "size": float(theirs.sum(axis=1).mean()),
        "different rows": int((theirs != ours).any(axis=1).sum()),
    }


def one_row(plan: Plan) -> Iterator[Result]:
    """Seconds for the set of a single row, warm."""
    logits, _ = network_logits(plan.rows, plan.classes, seed=0)
    jobs = {name: _attempt(lambda name=name: _repeated(_job(plan, name, _method(name), logits[:1]))) for name in SETS}
    for name, timing in best_of(jobs, _ROUNDS, CLOCK).items():
        yield Result(name, "one row", timing.seconds / _CALLS if timing.seconds else None, missing=timing.missing)


def memories(plan: Plan) -> Iterator[Result]:
    """Peak memory beyond the input while sets are made, in bytes; each in a process of its own."""
    small = [] if plan == FULL else ["--small"]
    for name in SETS:
        try:
            yield Result(name, "memory", from_child("benchmarks.peers", *small, "--peak", name, _method(name)))
        except RuntimeError as error:
            yield Result(name, "memory", None, missing=str(error))


def peak_of_child(plan: Plan, name: str, method: str) -> int:
    """What `memories` asks a child for."""
    logits, _ = network_logits(plan.rows, plan.classes, seed=0)
    model = _calibrated(plan, name, method)
    rows = model.prepare(logits)
    return peak_above(lambda: model.predict(rows))


def first_sets(plan: Plan) -> Iterator[Result]:
    """Seconds of a fresh process that imports a library, calibrates, and makes the sets of a few rows.

    Only ours takes longer at the first start after an installation, when nothing is compiled.
    """
    with tempfile.TemporaryDirectory() as folder:
        conformal = network_logits(plan.conformal_rows, plan.classes, seed=1)
        rows = Path(folder) / "rows.npz"
        np.savez(rows, logits=conformal[0], labels=conformal[1], first=conformal[0][:_FIRST_ROWS])

        def start(name: str, **environment: str) -> None:
            command = [sys.executable, "-c", _FIRST_SETS, str(rows), name, _method(name), str(ALPHA)]
            subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True, capture_output=True)

        jobs = {name: _attempt(lambda name=name: start(name) or (lambda: start(name))) for name in SETS}
        timings = best_of(jobs, plan.repeats, _seconds_of_children)
        uncompiled = best_of({OURS: lambda: start(OURS, NUMBA_CACHE_DIR=folder)}, 1, _seconds_of_children)[OURS]
        for name, timing in timings.items():
            yield Result(name, "first set", timing.seconds, missing=timing.missing)
        for name, timing in {**timings, OURS: uncompiled}.items():
            yield Result(name, "first start", timing.seconds, missing=timing.missing)


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def coverages(plan: Plan) -> Iterator[Result]:
    """Mean coverage over random splits of the bundled real logits, at temperatures where a softmax saturates."""
    data = ts.datasets.load_glyphs().logits
    logits, labels = np.asarray(data.logits, dtype=np.float32), data.require_labels("peers")
    for name, methods in SETS.items():
        for method, build in methods.items():
            for temperature in plan.temperatures:
                rows = logits / np.float32(temperature), labels
                job = f"{method} at T = {temperature:g}"
                coverage = _attempt(lambda build=build, rows=rows: _coverage(plan, build, rows))
                yield _result(name, job, coverage, "coverage")


def _coverage(plan: Plan, build: Callable[[Rows, float], Model], rows: Rows) -> dict[str, float]:
    (logits, labels), n = rows, plan.split_rows
    hits = sizes = 0.0
    for split in range(plan.splits):
        order = np.random.default_rng(split).permutation(len(labels))
        some, rest = order[:n], order[n : 2 * n]
        model = build((logits[some], labels[some]), ALPHA)
        predicted = _as_sets(model.predict(model.prepare(logits[rest])), logits.shape[1])
        hits += predicted[np.arange(n), labels[rest]].mean()
        sizes += predicted.sum(axis=1).mean()
    return {"coverage": float(hits / plan.splits), "size": float(sizes / plan.splits)}


def confidences(plan: Plan) -> Iterator[Result]:
    """ECE and log-loss of "the predicted label is right" on fresh rows, means over files, and seconds to fit."""
    files = [(np.asarray(data.logits, np.float32), data.require_labels("peers")) for data in data_files().values()]
    for name, build in CONFIDENCES.items():
        values = _attempt(lambda build=build: _judged_confidence(plan, build, files))
        for job in ("ECE", "log-loss", "confidence"):
            yield _result(name, job, values if isinstance(values, Exception) else {job: values[job]}, job)


def _judged_confidence(
    plan: Plan, build: Callable[[Rows], Callable[[Any], Confidence]], files: list[Rows]
) -> dict[str, float]:
    values = []
    for logits, labels in files:
        for draw in range(plan.calibration_draws):
            order = np.random.default_rng(draw).permutation(len(labels))
            some, rest = order[: plan.calibration_rows], order[plan.calibration_rows :][:_MOST_JUDGED]
            start = CLOCK()
            predict = build((logits[some], labels[some]))
            seconds = CLOCK() - start
            label, value = predict(logits[rest])
            values.append((*_calibration_errors(value, label == labels[rest]), seconds))
    ece, loss, seconds = np.mean(values, axis=0).tolist()
    return {"ECE": ece, "log-loss": loss, "confidence": seconds}


def _calibration_errors(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[float, float]:
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, confidence, _BINS) - np.bincount(bins, right, _BINS)
    loss = -np.log(np.clip(np.where(right, confidence, 1 - confidence), 1e-6, None))
    return float(np.abs(gaps).sum()) / len(right), float(loss.mean())


def reviews(plan: Plan) -> Iterator[Result]:
    """Shares answered with a certified error, and what is left on average over all limits and numbers of rows."""
    results = list(answered(plan, data_files()))
    yield from results
    cells = {cell_job(*cell) for cell in plan.answer_cells}
    for library in dict.fromkeys(one.library for one in results):
        shares = [one.value or 0.0 for one in results if one.library == library and one.job in cells]
        yield Result(library, "reviewed", 1 - float(np.mean(shares)))


def sweeps(plan: Plan) -> Iterator[Result]:
    """Seconds of a sweep (46 temperatures, 3 scores, 100 trials, all metrics), and of loops written by hand."""
    grid = ts.sweeping.temperature_grid(ts.sweeping.PAPER_GRID)
    logits, labels = network_logits(plan.swept_rows, plan.swept_classes, seed=0)
    ts.sweep(logits, labels, grid[:2], trials=1)  # compiles
    ours = best_of({OURS: lambda: ts.sweep(logits, labels, grid)}, plan.repeats, CLOCK)[OURS]
    yield Result(OURS, "sweep", ours.seconds)
    ways = {
        "NumPy loop, sorted once": loops.sorted_once,
        "NumPy loop": loops.plain,
        "the paper's way in PyTorch": loops.published,
    }
    for name, way in ways.items():
        yield Result(name, "sweep", len(grid) * way(logits, labels, CLOCK))


def installations(_: Plan) -> Iterator[Result]:
    """Bytes of a package with its dependencies, and its lines of Python."""
    for name, (package, module, extras) in _PACKAGES.items():
        sizes = _attempt(lambda package=package, module=module, extras=extras: _installed(package, module, extras))
        yield _result(name, "installed", sizes, "bytes")
        lines = _attempt(lambda module=module: {"lines": _lines(_folder(module))})
        yield _result(name, "lines", lines, "lines")


def _installed(package: str, module: str, extras: tuple[str, ...]) -> dict[str, float]:
    """Bytes with all dependencies, of the package alone, and how many dependencies are not installed here."""
    own, needed, absent = _bytes(_folder(module).rglob("*")), set[str](), set[str]()
    _add_dependencies(package, extras, needed, absent)
    needed.discard(package)
    dependencies = sum(_bytes(Path(str(file.locate())) for file in distribution(one).files or ()) for one in needed)
    return {"bytes": own + dependencies, "own": own, "dependencies": len(needed), "absent": len(absent)}


def _add_dependencies(package: str, extras: tuple[str, ...], needed: set[str], absent: set[str]) -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    for line in distribution(package).requires or ():
        requirement = Requirement(line)
        marker, name = requirement.marker, canonicalize_name(requirement.name)
        if (marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras))) or name in needed:
            continue
        try:
            distribution(name)
        except PackageNotFoundError:
            absent.add(name)
            continue
        needed.add(name)
        _add_dependencies(name, tuple(requirement.extras), needed, absent)


def _folder(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{module} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def _bytes(files: Iterator[Path]) -> int:
    """Without the bytecode that Python and Numba write themselves."""
    return sum(file.stat().st_size for file in files if "__pycache__" not in file.parts and file.is_file())


def _lines(folder: Path) -> int:
    sources = [file for file in folder.rglob("*.py") if "tests" not in file.parts]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in sources)


JOBS: tuple[Callable[[Plan], Iterator[Result]], ...] = (
    temperatures,
    sets,
    one_row,
    memories,
    first_sets,
    coverages,
    confidences,
    reviews,
    sweeps,
    installations,
)


@cache
def data_files() -> dict[str, ts.Logits]:
    """The bundled rows, and the files of logits in THERMOSET_DATA if it is set."""
    folder = os.environ.get("THERMOSET_DATA")
    paths = sorted(Path(folder).glob("*.npz")) if folder else []
    return {"glyphs": ts.datasets.load_glyphs().logits, **{path.stem: ts.load(path) for path in paths}}


def _as_sets(result: Any, n_classes: int) -> NDArray[np.bool_]:
    """Sets as booleans (n, C), from an array or from lists of labels."""
    if not isinstance(result, list | tuple):
        return np.asarray(result).astype(bool)
    sets = np.zeros((len(result), n_classes), dtype=bool)
    for row, members in zip(sets, result, strict=True):
        row[np.asarray(list(members), dtype=np.int64)] = True
    return sets


def _method(name: str) -> str:
    """The score by which single rows, memory and fresh processes are measured: APS where the library has it."""
    return "APS" if "APS" in SETS[name] else "LAC"


def _calibrated(plan: Plan, name: str, method: str) -> Model:
    """A model that has made some sets, so that nothing is left to be compiled or imported."""
    conformal = network_logits(plan.conformal_rows, plan.classes, seed=1)
    model = SETS[name][method](conformal, ALPHA)
    model.predict(model.prepare(conformal[0][:_WARM_UP]))
    return model


def _job(plan: Plan, name: str, method: str, logits: NDArray[np.float32]) -> Contender | Exception:
    def build() -> Contender:
        model = _calibrated(plan, name, method)
        rows = model.prepare(logits)
        return lambda: model.predict(rows)

    return _attempt(build)


def _repeated(job: Contender | Exception) -> Contender | Exception:
    if isinstance(job, Exception):
        return job
    job()  # a library may fail on a single row alone

    def several() -> None:
        for _ in range(_CALLS):
            job()

    return several


def _attempt(build: Callable[[], Any]) -> Any:
    """What a builder gives, or why it gives nothing, which `best_of` passes over."""
    try:
        return build()
    except Exception as error:  # noqa: BLE001 (a peer's failure is a finding)
        return error


def _result(library: str, job: str, numbers: dict[str, float] | Exception, value: str) -> Result:
    """A record of several numbers, of which one is the result; or why there are none."""
    if isinstance(numbers, Exception):
        return Result(library, job, None, missing=why_missing(numbers))
    return Result(library, job, numbers[value], {name: number for name, number in numbers.items() if name != value})
