"""thermoset: calibrated confidence and conformal prediction sets from logits, each with its own temperature.

>>> import thermoset as ts
>>> val = ts.Logits([[2.0, 0.5, -1.0], [0.1, 1.2, 0.3]], labels=[0, 1])
>>> val.n_classes
3

Names and submodules load when first used (SPEC 1), so importing thermoset costs nothing. `__init__.pyi` lists them for
the loader and for type checkers.
"""

from lazy_loader import attach_stub as _attach_stub

from thermoset._version import __version__ as __version__

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
__all__ = [name for name in __all__ if name != "open"]  # `from thermoset import *` must not hide Python's own
