"""Pages to look at: one that explains the choice, one that shows a watched predictor over time. Needs `report`.

They are self-contained HTML, made from numbers that are collected first.

================  =====================================================================================
`record`          every number of the page, in one frozen record
`naming`          names as the page shows them
`roles`           which rows may judge: never those that set the threshold
`set_facts`       what the sets look like: sizes, pairs, examples, movements
`build`           collects the record from the public functions
`charts`          Vega-Lite charts of the record
`guideline`       the drawing of the two branches: confidence from T*, sets from T-hat
`words`           what the words of the pages mean
`shell`           what every page needs: base template, style, scripts, and the libraries it draws with, in one file
`page`            the page of a report
`timeline`        batches along an axis of time
`headline`        where a watched predictor stands, in a sentence
`over_time`       the page over time of `thermoset.monitor`
================  =====================================================================================
"""

from lazy_loader import attach as _attach

from thermoset.report.build import build_report
from thermoset.report.record import Examples, LabelPair, Movement, Reliability, Report, SetFacts

# A page needs the extra; the numbers do not.
__getattr__, __dir__, _ = _attach(
    __name__,
    submod_attrs={
        "page": ["render_page", "write_page"],
        "over_time": ["build_monitor_page", "write_monitor_page"],
    },
)

__all__ = [
    "Examples",
    "LabelPair",
    "Movement",
    "Reliability",
    "Report",
    "SetFacts",
    "build_monitor_page",
    "build_report",
    "render_page",
    "write_monitor_page",
    "write_page",
]
