"""Prediction over many files: one file of predictions for each file of logits, in a folder that can be resumed.

`jobs` plans the work, checks every shard before the first is predicted, and predicts one (`predict_shard`, which can
run anywhere); `folder` keeps the record of what is finished, so that a killed run loses no more than the shards it was
working on; `running` puts them together (`predict_shards`).
"""

from lazy_loader import attach_stub as _attach_stub

__getattr__, __dir__, __all__ = _attach_stub(__name__, __file__)
