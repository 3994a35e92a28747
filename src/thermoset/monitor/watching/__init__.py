"""Is the promise still kept, batch after batch? Tests that may be looked at after every row, at any time.

================  =====================================================================================
`standing`        where a watched predictor stands: what the command prints and the page draws
================  =====================================================================================
"""

from thermoset.monitor.watching.standing import BatchRecord, PartStanding, Standing, TestStanding

__all__ = ["BatchRecord", "PartStanding", "Standing", "TestStanding"]
