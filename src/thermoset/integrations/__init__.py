"""Integrations with other libraries: each module needs one extra, and imports it on first use.

`numpy` and `language_models` need none.
"""

from lazy_loader import attach as _attach

__getattr__, __dir__, __all__ = _attach(
    __name__,
    submodules=[
        "batches",
        "dask",
        "language_models",
        "lightning",
        "mlflow",
        "numpy",
        "onnx",
        "program",
        "sklearn",
        "torch",
        "web",
    ],
)
