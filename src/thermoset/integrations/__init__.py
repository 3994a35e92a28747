"""Bridges to other libraries: each module needs one extra, and imports it when it is used."""

from lazy_loader import attach as _attach

__getattr__, __dir__, __all__ = _attach(
    __name__, submodules=["batches", "dask", "images", "lightning", "models", "onnx", "program", "sklearn", "torch"]
)
