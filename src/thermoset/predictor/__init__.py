"""The predictor: what it does (`predictor`), what it is (`document`), how it is fitted (`fit`).

Names and submodules load when they are first used (`__init__.pyi` lists them): predicting loads nothing of fitting.
"""

from lazy_loader import attach_stub as _attach_stub

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
