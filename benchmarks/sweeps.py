"""The sweep, and what is built on it: tuning, the report's page, the study of the paper.

Sweeps are measured against the softmaxes they replace, a researcher's plain loop, and themselves at other sizes; the
hard cases (real logits, rows with large sets, low temperatures, thresholds by class) on one thread, in processor time.

Run as `python -m benchmarks.sweeps FOLDER`, this module is the process that studies one file.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import softmax

import thermoset as ts
from benchmarks import loops
from benchmarks.measure import best_of, from_child, network_logits, peak_memory
from benchmarks.tables import Line, Settings, Table, Target, timed
from thermoset import kernels
from thermoset.report import build_report, render_page
from thermoset.rows import gaps_of
from thermoset.sweeping import PAPER_GRID, temperature_grid
from thermoset.tuning import default_grid

__all__ = ["auto", "clustered", "compilation", "growth", "hard", "imagenet", "page", "plain", "small", "study"]
__all__ += ["sweep", "tune"]

_GRID = temperature_grid(PAPER_GRID)
_COLD_GRID = temperature_grid("0.01:0.46:0.01")
_ALPHAS = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5]
_HARD_ALPHAS = [0.02, 0.05, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4]
_TUNED_LEVELS = [0.05, 0.07, 0.1, 0.14, 0.2]  # those of the class loss at alpha = 0.1
_SOFTMAXES = 6  # timed; the yardstick is as many as the grid has temperatures
_REPORTED_ROWS = 10_000  # that made the predictor of the page
_STUDIED = 10_000, 100

Rows = tuple[NDArray[Any], NDArray[np.int64]]

kernels.start()  # puts what Numba makes of them in the place of its functions


# --- Against softmaxes and loops


def sweep(settings: Settings) -> Table:
    """The paper's whole protocol for one network: 46 temperatures, three scores, 100 trials, all metrics."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    _compile()
    # One softmax needs a float T: a NumPy scalar would turn the float32 logits into float64 and take twice as long.
    some = [float(t) for t in _GRID[:: len(_GRID) // _SOFTMAXES][:_SOFTMAXES]]
    contenders = {
        "softmax": lambda: [softmax(logits / t, axis=1) for t in some],
        "100 trials": lambda: ts.sweep(logits, labels, _GRID),
        "1 trial": lambda: ts.sweep(logits, labels, _GRID, trials=1),
        "10 alphas": lambda: ts.sweep(logits, labels, _GRID, alphas=_ALPHAS),
    }
    timings = best_of(contenders, settings.repeats)
    seconds = {name: timing.seconds or np.nan for name, timing in timings.items()}
    yardstick = seconds["softmax"] * len(_GRID) / _SOFTMAXES
    result: ts.Sweep = timings["100 trials"].result
    sizes = "sizes at T = 1: " + ", ".join(f"{m} {result.curve('avg_size', m)[5]:.1f}" for m in result.methods)
    trials = f"100 trials are {seconds['100 trials'] / seconds['1 trial']:.2f} times one (target 3)"
    alphas = f"{seconds['10 alphas'] / seconds['100 trials']:.2f} times one alpha (target 2.5)"
    return Table(
        f"Sweep, {settings.rows:,} × {settings.classes:,} float32, {len(_GRID)} temperatures, LAC + APS + RAPS",
        [
            Line(f"{len(_GRID)} softmaxes", yardstick, timings["softmax"].runs, note=f"{_SOFTMAXES} timed, scaled up"),
            timed("100 trials", timings["100 trials"], Target("<=", 0.12, "yardstick"), sizes),
            timed("1 trial", timings["1 trial"], note=trials),
            timed("10 alphas", timings["10 alphas"], note=alphas),
        ],
    )


def plain(settings: Settings) -> Table:
    """What a researcher would write: softmax, sort and sums for each trial, or once for each temperature."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    _compile()
    ours = best_of({"sweep": lambda: ts.sweep(logits, labels, _GRID)}, 2)["sweep"]
    note = f"one temperature, x {len(_GRID)}"
    return Table(
        f"Sweep compared with plain NumPy loops, {settings.rows:,} × {settings.classes:,} float32",
        [
            timed("the sweep", ours),
            Line("loop, everything in each trial", len(_GRID) * loops.plain(logits, labels), note=note),
            Line("loop, sorted once for each temperature", len(_GRID) * loops.sorted_once(logits, labels), note=note),
        ],
    )


def growth(settings: Settings) -> Table:
    """How the time grows with rows and classes."""
    _compile()
    sizes = [(5_000, 1_000), (20_000, 1_000), (50_000, 1_000), (200_000, 1_000), (10_000, 100), (10_000, 10_000)]
    lines = []
    for rows, classes in sizes:
        if rows > 4 * settings.rows or classes > 10 * settings.classes:
            continue
        run = partial(_sweep_quietly, *network_logits(rows, classes, seed=2), _GRID, trials=100)
        timing = best_of({"sweep": run}, min(settings.repeats, 2))["sweep"]
        each = 1e9 * (timing.seconds or 0) / (rows * classes * len(_GRID))
        lines.append(timed(f"{rows:,} × {classes:,}", timing, note=f"{each:.2f} ns per logit and temperature"))
    return Table("Sweep, growth with rows and classes", lines)


def compilation(_: Settings) -> Table:
    """The first tune of a process, with an empty cache of compiled kernels and with a full one."""
    tune_once = (
        "import numpy as np, thermoset as ts\n"
        "labels = np.arange(2000) % 10\n"
        "logits = np.random.default_rng(0).normal(size=(2000, 10)) + 3 * np.eye(10)[labels]\n"
        "ts.TwoTemperaturePredictor().fit(logits, labels)"
    )
    with tempfile.TemporaryDirectory() as folder:
        seconds = [_seconds_of_python(tune_once, NUMBA_CACHE_DIR=folder) for _ in range(3)]
    imports, cached = _seconds_of_python("import numpy, scipy.stats, sklearn.cluster, numba"), min(seconds[1:])
    return Table(
        "First tune of a process, 2,000 × 10, whole process",
        [
            Line("importing NumPy, SciPy, scikit-learn, Numba", imports),
            Line("nothing compiled", seconds[0], 1, Target("<=", 8, "value")),
            Line("compiled before", cached, 2, note=f"{cached - imports:.2f} s beyond the imports (target 1)"),
        ],
    )


def _seconds_of_python(code: str, **environment: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | environment, capture_output=True)
    return time.perf_counter() - start


def _compile() -> None:
    ts.sweep(np.zeros((100, 2), dtype=np.float32), np.arange(100) % 2, [1.0], trials=1)


def _sweep_quietly(*arguments: Any, **options: Any) -> ts.Sweep:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.CoverageWarning)  # some classes have few rows
        return ts.sweep(*arguments, **options)


# --- Where it is hard
# The yardstick is our own exponential: SciPy's softmax is three times faster on one processor than on another.


@njit(nogil=True)
def exponentials(gaps: NDArray[np.float64], temperatures: NDArray[np.float64]) -> None:
    """One exponential for every row, class and temperature."""
    weights = np.empty(gaps.shape[1])
    for i in range(gaps.shape[0]):
        for t in range(temperatures.shape[0]):
            kernels.fill_weights(gaps[i], 0.0, 1.0 / temperatures[t], weights)


def imagenet(settings: Settings) -> Table:
    """5,000 real rows of 1,000 classes."""
    return _stages("ImageNet, 5,000 × 1,000", _file("imagenet5k_efficientnet_lite0"), settings, (3.5, 4, 1.9, 4.5))


def small(settings: Settings) -> Table:
    """10,000 real rows of 100 classes."""
    return _stages("CIFAR-100, 10,000 × 100", _file("cifar100_resnet50"), settings, (None, 5, 2.3, 4.5))


def hard(settings: Settings) -> Table:
    """Generated rows with sets of 30 to 90 labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 1_000, 5_000)
    logits = (1.8 * rng.normal(size=(5_000, 1_000))).astype(np.float32)
    logits[np.arange(5_000), labels] += rng.gamma(4, 2.2, 5_000).astype(np.float32)
    return _stages("Large sets, 5,000 × 1,000", (logits, labels), settings, (None, None, 2.6, None))


def _stages(title: str, rows: Rows | None, settings: Settings, targets: tuple[float | None, ...]) -> Table:
    title = f"Sweep, {title}, 46 temperatures, LAC + APS + RAPS, 100 trials, one thread"
    if rows is None:
        return Table(title, [Line("the sweep", None, runs=0, note="THERMOSET_DATA names no folder with these logits")])
    run = partial(_sweep_quietly, *rows, n_jobs=1)
    gaps = gaps_of(np.sort(rows[0], axis=1))
    contenders: dict[str, Callable[[], Any]] = {
        "exponentials": lambda: exponentials(gaps, _GRID),
        "the sweep": lambda: run(_GRID),
        "ten alphas": lambda: run(_GRID, alphas=_HARD_ALPHAS),
        "T = 0.01 to 0.46": lambda: run(_COLD_GRID),
        "thresholds by class": lambda: run(_GRID, grouping="class"),
    }
    contenders["exponentials"]()
    run(_GRID[:1], trials=1)
    run(_GRID[:1], trials=1, grouping="class")
    timings = best_of(contenders, settings.repeats, time.process_time)
    seconds = {name: timing.seconds or np.nan for name, timing in timings.items()}
    lines = [timed("exponentials", timings["exponentials"])]
    for name, target in zip(list(contenders)[1:], targets, strict=True):
        base = "exponentials" if name == "the sweep" else "the sweep"
        note = f"{seconds[name] / seconds[base]:.2f} times {base}" + (f" (target {target})" if target else "")
        limit = None if target is None else Target("<=", target * seconds[base], "value")
        lines.append(timed(name, timings[name], limit, note))
    return Table(title, lines)


def _file(name: str) -> Rows | None:
    file = Path(os.environ.get("THERMOSET_DATA", "")) / f"{name}.npz"
    if not file.is_file():
        return None
    data = ts.load(file)
    return data.logits, data.require_labels("the benchmark")


# --- Tuning: a whole predictor from a file's rows


def tune(settings: Settings) -> Table:
    """Both temperatures, threshold, comparisons and measures, against bare sweeps of the calibration rows alone."""
    warnings.simplefilter("ignore", ts.CoverageWarning)
    data, small = _generated(settings.rows, settings.classes), _generated(2_000, 20, seed=1)
    grid = default_grid(ts.TwoTemperaturePredictor().fit(small).temperature_)
    ts.sweep(small, temperatures=[1.0], methods=["raps"], trials=1, evaluation="integrated")
    calibration = data.split(0.5)[0]
    options = {"temperatures": grid, "methods": ["raps"], "calibration_fraction": 0, "cp_fraction": 0.5}
    contenders = {
        "sweep": lambda: ts.sweep(calibration, alphas=_TUNED_LEVELS, evaluation="integrated", **options),
        "one level": lambda: ts.sweep(calibration, **options),
        "tune": lambda: ts.TwoTemperaturePredictor().fit(data),
    }
    timings = best_of(contenders, settings.repeats)
    ratio = (timings["tune"].seconds or np.nan) / (timings["one level"].seconds or np.nan)
    note = f"{ratio:.2f} times the sweep at one level"
    return Table(
        f"Tune, {settings.rows:,} × {settings.classes:,} float32, half of the rows for the temperatures",
        [
            timed(f"sweep, {len(grid)} temperatures, RAPS, 100 trials, five levels", timings["sweep"]),
            timed("TwoTemperaturePredictor.fit", timings["tune"], Target("<=", 2.0, "yardstick"), note),
            timed("the sweep at one level, u drawn", timings["one level"]),
        ],
    )


def auto(settings: Settings) -> Table:
    """Every option at once, against one method."""
    warnings.simplefilter("ignore", ts.CoverageWarning)
    warnings.simplefilter("ignore", ts.BudgetWarning)
    data, few = _generated(settings.rows, settings.classes), _generated(2_000, 20, seed=1)
    predictors = {
        "RAPS, prefer even": ("raps", "even"),
        **{f"auto, prefer {name}": ("auto", name) for name in ("small", "even", "protect")},
    }
    title = f"Tune with every option at once, {settings.rows:,} × {settings.classes:,} float32"
    fits = {
        name: lambda rows, method=method, prefer=prefer: ts.TwoTemperaturePredictor(method, prefer=prefer).fit(rows)
        for name, (method, prefer) in predictors.items()
    }
    return _tuned(title, fits, data, few, settings.repeats)


def clustered(settings: Settings) -> Table:
    """Thresholds by cluster of classes, whose temperature is found by trying, against one threshold for all."""
    warnings.simplefilter("ignore", ts.CoverageWarning)
    data = _generated(4_000, 100)
    fits = {
        name: lambda rows, grouping=grouping: ts.TwoTemperaturePredictor(prefer="small", grouping=grouping).fit(rows)
        for name, grouping in (("one threshold", None), ("by cluster", "cluster"))
    }
    return _tuned("Tune with clustered sets, 4,000 × 100 float32", fits, data, data, settings.repeats)


def _tuned(
    title: str, fits: dict[str, Callable[[ts.Logits], Any]], data: ts.Logits, few: ts.Logits, repeats: int
) -> Table:
    """All but the first may take three times as long as the first; `few` rows compile."""
    for fit in fits.values():
        fit(few)
    timings = best_of({name: partial(fit, data) for name, fit in fits.items()}, repeats)
    lines = [timed(name, one, Target("<=", 3, "yardstick")) for name, one in list(timings.items())[1:]]
    return Table(title, [timed(next(iter(timings)), next(iter(timings.values()))), *lines])


def _generated(rows: int, classes: int, seed: int = 0) -> ts.Logits:
    return ts.Logits(*network_logits(rows, classes, seed=seed))


# --- The report's page


def page(settings: Settings) -> Table:
    """Curves, thresholds by class, check, examples at every temperature, charts, HTML: all but its sweep take less."""
    warnings.simplefilter("ignore", ts.CoverageWarning)
    predictor = ts.TwoTemperaturePredictor().fit(_generated(_REPORTED_ROWS, settings.classes, seed=1))
    data = _generated(settings.rows, settings.classes)
    few = build_report(predictor, data.take(slice(0, 1_000)), trials=2)
    render_page(few)  # what is imported and compiled before does not count
    curves = few.curves
    contenders: dict[str, Callable[[], Any]] = {
        "sweep": lambda: ts.sweep(
            data,
            temperatures=curves.temperatures,
            methods=curves.methods,
            alphas=curves.alphas,
            calibration_fraction=0,
            cp_fraction=curves.settings["cp_fraction"],
        ),
        "page": lambda: render_page(build_report(predictor, data)),
    }
    timings = best_of(contenders, settings.repeats)
    whole, of_sweep = (timings[name].seconds or np.nan for name in ("page", "sweep"))
    size = len(timings["page"].result.encode()) / 1e6
    temperatures, levels = len(curves.temperatures), len(curves.alphas)
    return Table(
        f"Report, {settings.rows:,} × {settings.classes:,} float32",
        [
            timed(f"its sweep: {temperatures} temperatures, 3 scores, {levels} levels, 100 trials", timings["sweep"]),
            Line(
                "everything else", whole - of_sweep, timings["page"].runs, Target("<=", 1, "yardstick"), "page - sweep"
            ),
            timed("the whole page", timings["page"], note=f"{size:.1f} MB"),
        ],
    )


# --- The study of one file, in a process of its own, against one sweep of its rows


def study(settings: Settings) -> Table:
    """All tables and figures, 100 trials, of a file of CIFAR-100's size and of one of ImageNet's."""
    lines = []
    for (rows, classes), limit in ((_STUDIED, 60), ((settings.rows, settings.classes), 600)):
        with tempfile.TemporaryDirectory() as folder:
            ts.save(Path(folder) / "generated.npz", _generated(rows, classes))
            measured = from_child("benchmarks.sweeps", folder)
        name, note = f"{rows:,} × {classes:,}", f"peak {measured['peak'] / 1e9:.2f} GB"
        lines.append(Line(f"one sweep, {name}", measured["sweep"]))
        lines.append(Line(f"study, {name}", measured["study"], target=Target("<=", limit, "value"), note=note))
    return Table("Study of one file, whole process", lines)


def _study(folder: Path) -> dict[str, float]:
    from thermoset.paper.study import study as run

    start = time.perf_counter()
    run(folder, folder / "out")
    seconds, peak = time.perf_counter() - start, peak_memory()
    data = ts.load(folder / "generated.npz")
    start = time.perf_counter()
    ts.sweep(data, temperatures=_GRID)
    return {"study": seconds, "peak": peak, "sweep": time.perf_counter() - start}


if __name__ == "__main__":
    print(json.dumps(_study(Path(sys.argv[1]))))
