"""Is the promise still kept, batch after batch? Tests that can be examined after every row, at any time.

================  =====================================================================================
`rows`            what a batch shows row by row, and how rows are recognised when they are added again
`parts`           classes, clusters and groups: what is promised for each, and what their rows show
`watch`           one more batch: from one state to the next
`state`           everything that the next batch needs, as a JSON document
`telling`         the monitor's findings, since when and by how much; `wording` puts them into sentences
`standing`        the records of these findings: what the command prints and the page draws
================  =====================================================================================

`thermoset.Monitor` joins this to a predictor.
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
