"""Calibration: one temperature, and where that is not enough, a correction of classes and a map of the confidence.

Names load when they are first used; `__init__.pyi` lists them.
"""

from lazy_loader import attach_stub as _attach_stub

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
