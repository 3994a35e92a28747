"""Whether a fitted predictor keeps its promise: labelled rows once, or batch after batch.

================  =====================================================================================
`promise`         what was promised, and the law that hits on fresh rows then follow
`check`           labelled rows, tested once; `report` holds the result
`drift`           rows without labels, tested once
`evidence`        e-processes, detectors and confidence sequences, which may be looked at after every row
`monitor`         `thermoset.Monitor`: batch after batch; `state` is its document, `status` its summary
`prometheus`      the status as metrics
================  =====================================================================================
"""

from lazy_loader import attach as _attach

__getattr__, __dir__, __all__ = _attach(
    __name__, submodules=["check", "drift", "evidence", "monitor", "promise", "prometheus", "report", "state", "status"]
)
