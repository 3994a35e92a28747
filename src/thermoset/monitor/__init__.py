"""What watches a predictor after it was fitted: `checking` on labelled rows, `drift` on rows without labels."""

from lazy_loader import attach as _attach

__getattr__, __dir__, __all__ = _attach(__name__, submodules=["checking", "drift"])
