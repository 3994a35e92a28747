"""PyTorch: logits out of a model (`collect_logits`), and a fitted predictor behind one (`to_torch`).

PyTorch is imported when one of them is used.
"""

from typing import Any

from lazy_loader import attach_stub as _attach_stub

from thermoset.io.files import need as _need

_loaded, __dir__, __all__ = _attach_stub(__name__, __file__)
# They derive from classes of PyTorch.
_OF_MODULES = ("Answers", "DecidedAnswers", "SetModule", "group_codes", "save_torch", "to_torch")


def __getattr__(name: str) -> Any:
    if name in _OF_MODULES:
        _need("torch", "torch", f"{__name__}.{name}")
    return _loaded(name)
