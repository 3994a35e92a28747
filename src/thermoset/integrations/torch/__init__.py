"""PyTorch: logits out of a model (`collect_logits`), and a fitted predictor behind one (`to_torch`).

PyTorch is imported when one of them is used.
"""

from lazy_loader import attach_stub as _attach_stub

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
