"""Watching a predictor after it has been fitted.

`checking` tests labelled rows once, `drift` rows without labels, and `evidence` both, row by row, at all times;
`watching` keeps such tests for a predictor, batch after batch (`thermoset.Monitor`).
"""

from lazy_loader import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, submodules=["checking", "drift", "evidence", "watching"])
