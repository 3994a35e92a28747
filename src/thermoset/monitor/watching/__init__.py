"""Is the promise still kept, batch after batch? Tests that may be looked at after every row, at any time.

================  =====================================================================================
`rows`            what a batch shows row by row, and how its rows are recognised when they come again
`parts`           classes, clusters and groups: what is promised for each, and what their rows show
`watch`           a batch more: from one state to the next
`state`           everything that the next batch needs, as a JSON document
`telling`         where the monitor stands, since when and how much; `wording` says it in sentences
`standing`        the records of that: what the command prints and the page draws
================  =====================================================================================

`thermoset.Monitor` puts a predictor in front of it.
"""

from thermoset.monitor.watching.rows import RowsSeen, identified
from thermoset.monitor.watching.standing import BatchRecord, PartStanding, Standing, TestStanding
from thermoset.monitor.watching.state import MonitorState, read_state, write_state
from thermoset.monitor.watching.telling import told
from thermoset.monitor.watching.watch import Named, Watched, advanced, begun

__all__ = [
    "BatchRecord",
    "MonitorState",
    "Named",
    "PartStanding",
    "RowsSeen",
    "Standing",
    "TestStanding",
    "Watched",
    "advanced",
    "begun",
    "identified",
    "read_state",
    "told",
    "write_state",
]
