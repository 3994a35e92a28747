"""Fitting a temperature, making sets, answering single rows and starting up, against yardsticks of the same run."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Contender, best_of, network_logits
from benchmarks.peers.libraries import TEMPERATURES
from benchmarks.tables import Line, Settings, Table, Target, timed_lines
from thermoset import ConformalClassifier, TemperatureScaler, TwoTemperaturePredictor

__all__ = ["ece", "fitted_classifier", "latency", "mondrian", "raps", "startup", "temperature"]

_ALPHA = 0.1
_WARM_UP = 100  # rows on which kernels are compiled before anything is timed
_FITTED_ROWS = 10_000
_ECE_SHARE = 5  # the ECE search looks at some ninety temperatures: it gets this fraction of the rows


# --- Temperatures


def temperature(settings: Settings) -> Table:
    """Temperature by NLL to machine precision."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    TemperatureScaler().fit(logits[:_WARM_UP], labels[:_WARM_UP])
    contenders = {
        "numpy.exp(logits)": lambda: np.exp(logits),
        "thermoset": lambda: TemperatureScaler().fit(logits, labels),
        "scikit-learn": TEMPERATURES["scikit-learn"]((logits, labels)),
    }
    timings = best_of(contenders, settings.repeats)
    ours = timings["thermoset"].result
    notes = {
        "thermoset": f"T = {ours.temperature_:.12f} in {ours.n_iter_} steps",
        "scikit-learn": f"|T - T thermoset| = {abs(timings['scikit-learn'].result - ours.temperature_):.1e}",
    }
    lines = timed_lines(timings, {"scikit-learn": Target(">=", 15, "thermoset")}, notes)
    title = f"Temperature by NLL, {settings.rows:,} × {settings.classes:,} float32"
    return Table(title, lines, thermoset="thermoset")


def ece(settings: Settings) -> Table:
    """Temperature by ECE, a search over all temperatures, compared with the one by NLL."""
    rows = max(settings.rows // _ECE_SHARE, 1)
    logits, labels = (array[:rows] for array in network_logits(settings.rows, settings.classes, seed=0))
    contenders = {
        "thermoset, NLL": lambda: TemperatureScaler().fit(logits, labels),
        "thermoset, ECE": lambda: TemperatureScaler("ece").fit(logits, labels),
    }
    for objective in ("nll", "ece"):
        TemperatureScaler(objective).fit(logits[:_WARM_UP], labels[:_WARM_UP])
    timings = best_of(contenders, settings.repeats)
    scaler = timings["thermoset, ECE"].result
    targets = {"thermoset, ECE": Target("<=", 2.5, "yardstick")}
    notes = {"thermoset, ECE": f"T = {scaler.temperature_:.6f}, {scaler.n_iter_} temperatures tried"}
    return Table(f"Temperature by ECE, {rows:,} × {settings.classes:,} float32", timed_lines(timings, targets, notes))


# --- Sets


def fitted_classifier(method: str, classes: int, rows: int = _FITTED_ROWS, **options: Any) -> ConformalClassifier:
    """A classifier calibrated on its own rows, every kernel it needs compiled."""
    logits, labels = network_logits(rows, classes, seed=1)
    model = ConformalClassifier(method, alpha=_ALPHA, **options).fit(logits, labels)
    model.predict_set(logits[:_WARM_UP])
    return model


def raps(settings: Settings) -> Table:
    """Randomised RAPS against a plain sort of the rows, and LAC, which needs none, against a softmax of float32."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    by_rank, by_share = fitted_classifier("raps", settings.classes), fitted_classifier("lac", settings.classes)
    share = np.float32(1 - by_share.threshold_)

    def softmax_and_compare() -> NDArray[np.bool_]:
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True) >= share)

    contenders = {
        "numpy.sort(logits, axis=1)": lambda: np.sort(logits, axis=1),
        "predict_set, RAPS": lambda: by_rank.predict_set(logits),
        "NumPy softmax and compare": softmax_and_compare,
        "predict_set, LAC": lambda: by_share.predict_set(logits),
    }
    timings = best_of(contenders, settings.repeats)
    plain = timings["NumPy softmax and compare"].seconds or np.nan
    targets = {
        "predict_set, RAPS": Target("<=", 1.5, "yardstick"),
        "predict_set, LAC": Target("<=", 0.55 * plain, "value"),
    }
    lac = (timings["predict_set, LAC"].seconds or np.nan) / plain
    notes = {
        "predict_set, RAPS": _quality(timings["predict_set, RAPS"].result, labels),
        "predict_set, LAC": f"{lac:.2f} times NumPy's (target 0.55)",
    }
    lines = timed_lines(timings, targets, notes)
    return Table(f"Prediction sets, {settings.rows:,} × {settings.classes:,} float32", lines)


def mondrian(settings: Settings) -> Table:
    """One threshold for each class, compared with the argsort that such sets would take: they are no prefixes."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    rows = max(_FITTED_ROWS, 50 * settings.classes)  # enough of every class for a finite threshold
    model = fitted_classifier("raps", settings.classes, rows, grouping="class")
    conformal = network_logits(rows, settings.classes, seed=1)
    contenders = {
        "numpy.argsort(logits, axis=1)": lambda: np.argsort(logits, axis=1),
        "fit": lambda: model.fit(*conformal),
        "predict_set": lambda: model.predict_set(logits),
    }
    timings = best_of(contenders, settings.repeats)
    targets = {"predict_set": Target("<=", 1.5, "yardstick")}
    notes = {"fit": f"{rows:,} rows", "predict_set": _quality(timings["predict_set"].result, labels)}
    return Table(
        f"Randomised RAPS, one threshold per class, {settings.rows:,} × {settings.classes:,} float32",
        timed_lines(timings, targets, notes),
    )


def _quality(sets: Any, labels: NDArray[np.int64]) -> str:
    """Coverage and size, so that nobody is fast by being wrong."""
    inside = np.asarray(sets, dtype=bool)
    coverage = inside[np.arange(len(labels)), labels].mean()
    return f"coverage {coverage:.3f}, {np.count_nonzero(inside) / len(labels):.1f} labels per set"


# --- Requests of few rows


_CALLS = {1: 500, 32: 100, 1024: 5}  # of one measurement, by the rows of a request
_LATENCY_TARGETS = {1: 100.0, 32: 500.0}  # microseconds
_LEAST_ROUNDS = 20
_PATIENCE = 0.5  # seconds that the calls of one measurement may take, or there are fewer


class _Request(NamedTuple):
    """Rows to answer, and what contenders may prepare with: a fitted predictor, threads."""

    logits: NDArray[np.float32]
    predictor: TwoTemperaturePredictor
    threads: int


def _ours(request: _Request) -> Contender:
    return lambda: request.predictor.predict_arrays(request.logits)


def _everything(request: _Request) -> Contender:
    """What our module gives, from the library: the answers, and all probabilities."""

    def answer() -> object:
        return request.predictor.predict_arrays(request.logits), request.predictor.predict_proba(request.logits)

    return answer


def _onnx(request: _Request) -> Contender | ImportError:
    """Our graph in ONNX Runtime."""
    try:
        import onnxruntime

        from thermoset.integrations.onnx import to_onnx

        model = to_onnx(request.predictor)
    except ImportError as error:
        return error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = request.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # or idle threads slow down the others
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(["label", "confidence", "sets"], {"logits": request.logits})


def _torch(request: _Request) -> Contender | ImportError:
    """Our module in PyTorch."""
    try:
        import torch

        from thermoset.integrations.torch import to_torch
    except ImportError as error:
        return error
    torch.set_num_threads(request.threads)
    module, rows = to_torch(request.predictor), torch.from_numpy(request.logits)

    def answer() -> object:
        with torch.inference_mode():
            return module(rows)

    return answer


_ENGINES: dict[str, Callable[[_Request], Contender | ImportError]] = {
    "thermoset": _ours,
    "thermoset, with all probabilities": _everything,
    "ONNX Runtime on our graph": _onnx,
    "torch on our module, with all probabilities": _torch,
}


def latency(settings: Settings) -> Table:
    """Label, confidence and randomised APS set of 1, 32 and 1,024 rows at a time, warm."""
    fitted = network_logits(_FITTED_ROWS, settings.classes, seed=1)
    predictor = TwoTemperaturePredictor("aps", alpha=_ALPHA, prefer="small").fit(*fitted)
    rows, _ = network_logits(max(_CALLS), settings.classes, seed=0)
    lines: list[Line] = []
    for n in _CALLS:
        request = _Request(np.array(rows[:n]), predictor, settings.threads)
        lines += _latency_lines(n, {name: build(request) for name, build in _ENGINES.items()}, settings.repeats)
    return Table(f"Latency, randomised APS, {settings.classes:,} classes, float32", lines, unit="µs")


def _latency_lines(n: int, contenders: dict[str, Contender | ImportError], repeats: int) -> list[Line]:
    calls = {name: _calls(one, _CALLS[n]) for name, one in contenders.items() if not isinstance(one, ImportError)}
    repeated = {name: _repeated(one, calls.get(name, 1)) for name, one in contenders.items()}
    timings = best_of(repeated, max(repeats, _LEAST_ROUNDS))
    each = {name: 1e6 * timings[name].seconds / calls[name] for name in calls}
    lines = []
    for name, timing in timings.items():
        target = Target("<=", _LATENCY_TARGETS[n], "value") if name == "thermoset" and n in _LATENCY_TARGETS else None
        note = timing.missing or ("" if name == "thermoset" else f"{each[name] / each['thermoset']:.1f} × thermoset")
        rows = f"{n:,} row{'' if n == 1 else 's'}"
        lines.append(Line(f"{rows}, {name}", each.get(name), timing.runs, target, note))
    return lines


def _calls(contender: Contender, most: int) -> int:
    """How many calls fit one measurement; the first call, which may compile, is not counted."""
    contender()
    once = best_of({"once": contender}, 3)["once"].seconds
    return max(1, min(most, int(_PATIENCE / once)))


def _repeated(contender: Contender | ImportError, calls: int) -> Contender | ImportError:
    if isinstance(contender, ImportError):
        return contender

    def several() -> None:
        for _ in range(calls):
            contender()

    return several


# --- Fresh processes


_LEAST_STARTS = 5
_FIRST_ANSWER = """
import sys
import numpy as np
from thermoset import TwoTemperaturePredictor
TwoTemperaturePredictor.load(sys.argv[1]).predict_arrays(np.zeros((1, 1000), dtype=np.float32))
"""


def startup(settings: Settings) -> Table:
    """`import thermoset`, `thermoset --help`, and a predictor loaded for its first answer, interpreter included."""
    with tempfile.TemporaryDirectory() as folder:
        saved = _saved_predictor(Path(folder))
        commands = {
            "import numpy, numba": [sys.executable, "-c", "import numpy, numba"],
            "python -c pass": [sys.executable, "-c", "pass"],
            "import thermoset": [sys.executable, "-c", "import thermoset"],
            "thermoset --help": [str(Path(sys.executable).with_name("thermoset")), "--help"],
            "load + first answer": [sys.executable, "-c", _FIRST_ANSWER, saved],
        }

        def run(name: str) -> None:
            subprocess.run(commands[name], check=True, stdout=subprocess.DEVNULL)

        run("load + first answer")  # compiles what is not compiled yet
        timings = best_of(
            {name: lambda name=name: run(name) for name in commands}, max(settings.repeats, _LEAST_STARTS)
        )
    targets = {
        "import thermoset": Target("<=", 0.3, "value"),
        "thermoset --help": Target("<=", 0.5, "value"),
        "load + first answer": Target("<=", 2, "yardstick"),
    }
    return Table("Start-up, whole process", timed_lines(timings, targets))


def _saved_predictor(folder: Path) -> str:
    """A predictor of 1,000 classes on disk."""
    labels = np.arange(4000) % 1000
    logits = 2 * np.random.default_rng(0).normal(size=(4000, 1000)) + 6 * np.eye(1000)[labels]
    path = folder / "predictor.json"
    TwoTemperaturePredictor().fit(logits.astype(np.float32), labels).save(path)
    return str(path)
