"""Prediction sets: thresholds from conformal rows, sets from thresholds.

`recipe` is how sets are made, `groupings` which classes share a threshold, `classifier` fits, `scoring` predicts.
Names load when they are first used (`__init__.pyi` lists them): predicting needs only `scoring`.
"""

from lazy_loader import attach_stub as _attach_stub

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
