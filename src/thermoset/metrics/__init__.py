"""Metrics of sets and probabilities, the laws they follow by chance, and how many rows to plan for.

Coverages and gaps are fractions, not percentages. Labels are column indices.
Names load when they are first used; `__init__.pyi` lists them, and docs/metrics.md explains them.
"""

from lazy_loader import attach_stub as _attach_stub

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
