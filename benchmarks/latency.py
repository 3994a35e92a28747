"""Time to answer a request of few rows, warm: label, confidence and set."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Contender, best_of, network_logits
from benchmarks.report import Line, Settings, Table, Target
from thermoset import TwoTemperaturePredictor

__all__ = ["latency"]

_ALPHA = 0.1
_FITTED_ROWS = 10_000
_CALLS = {1: 500, 32: 100, 1024: 5}  # of one measurement, by the rows of a request
_TARGETS = {1: 100.0, 32: 500.0}  # microseconds
_LEAST_RUNS = 20
_PATIENT = 0.5  # seconds that the calls of one measurement may take, or there are fewer


class Request(NamedTuple):
    """Rows to answer, and what contenders may prepare with: a fitted predictor, threads."""

    logits: NDArray[np.float32]
    predictor: TwoTemperaturePredictor
    threads: int


def _ours(request: Request) -> Contender:
    return lambda: request.predictor.predict_arrays(request.logits)


def _onnx(request: Request) -> Contender | ImportError:
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


def _torch(request: Request) -> Contender | ImportError:
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


def _everything(request: Request) -> Contender:
    """What our module gives, from the library: the answers, and all probabilities."""

    def answer() -> object:
        return request.predictor.predict_arrays(request.logits), request.predictor.predict_proba(request.logits)

    return answer


_CONTENDERS: dict[str, Callable[[Request], Contender | ImportError]] = {
    "thermoset": _ours,
    "thermoset, with all probabilities": _everything,
    "ONNX Runtime on our graph": _onnx,
    "torch on our module, with all probabilities": _torch,
}
"""Each prepares for a request, and gives what answers it; a further one is a line here."""


def latency(settings: Settings) -> Table:
    """Randomised APS for 1, 32 and 1,024 rows at a time."""
    fitted = network_logits(_FITTED_ROWS, settings.classes, seed=1)
    predictor = TwoTemperaturePredictor("aps", alpha=_ALPHA, prefer="small").fit(*fitted)
    rows, _ = network_logits(max(_CALLS), settings.classes, seed=0)
    lines: list[Line] = []
    for n in _CALLS:
        request = Request(np.array(rows[:n]), predictor, settings.threads)
        lines += _lines(n, {name: build(request) for name, build in _CONTENDERS.items()}, settings.repeats)
    return Table(f"Latency, randomised APS, {settings.classes:,} classes, float32", lines, unit="µs")


def _lines(n: int, contenders: dict[str, Contender | ImportError], repeats: int) -> list[Line]:
    calls = {name: _calls(one, _CALLS[n]) for name, one in contenders.items() if not isinstance(one, ImportError)}
    repeated = {name: _repeated(one, calls.get(name, 1)) for name, one in contenders.items()}
    timings = best_of(repeated, max(repeats, _LEAST_RUNS))
    each = {name: 1e6 * timings[name].seconds / calls[name] for name in calls}
    lines = []
    for name, timing in timings.items():
        target = Target("<=", _TARGETS[n], "value") if name == "thermoset" and n in _TARGETS else None
        note = timing.missing or ("" if name == "thermoset" else f"{each[name] / each['thermoset']:.1f} × thermoset")
        rows = f"{n:,} row{'' if n == 1 else 's'}"
        lines.append(Line(f"{rows}, {name}", each.get(name), timing.runs, target, note))
    return lines


def _calls(contender: Contender, most: int) -> int:
    """How many calls fit one measurement; the first call, which may compile, is not counted."""
    contender()
    once = best_of({"once": contender}, 3)["once"].seconds
    return max(1, min(most, int(_PATIENT / once)))


def _repeated(contender: Contender | ImportError, calls: int) -> Contender | ImportError:
    if isinstance(contender, ImportError):
        return contender

    def several() -> None:
        for _ in range(calls):
            contender()

    return several
