"""Choosing T-hat, the temperature of the sets, to suit the user's preference (paper, section 5).

Selection must not touch the rows that guarantee coverage: T-hat comes from the calibration rows alone, and the
conformal rows are used once, for the threshold.

Names load when they are first used (`__init__.pyi` lists them): a predictor's file holds the record of a choice, and
reading that record needs none of the code that made it.
"""

from lazy_loader import attach_stub as _attach_stub

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
