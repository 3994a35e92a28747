"""ONNX: a fitted predictor as a graph of standard operators, alone or behind a classifier's own graph."""

from typing import Any

from lazy_loader import attach_stub as _attach_stub

from thermoset.io.files import need as _need

_loaded, __dir__, __all__ = _attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        _need("onnx", "onnx", f"{__name__}.{name}")
    return _loaded(name)
