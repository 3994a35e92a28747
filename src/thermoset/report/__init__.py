"""Pages to look at: one that explains the choice, one that shows a watched predictor over time. Needs `report`.

They are self-contained HTML, made from numbers that are collected first.

==================  ===================================================================================
`record`            every number of the page, in one frozen record
`build`             collects the record from the public functions; which rows may judge; what the sets look like
`page`              the page of a report: its numbers put into a template
`over_time`         the page over time of `thermoset.monitor`, and its headline
`vega`              what charts are put together from: Vega-Lite as plain dicts, and how curves look
`charts`            the charts of the report: trade-off, alternatives, calibration
`set_charts`        those of its sets: classes, groups, parts of the rows, sizes
`monitor_charts`    batches along an axis of time, and the charts of the page over time
`words`             what the words of the pages mean, and the glossary
`shell`             what every page needs: numbers, templates, and the libraries it draws with, in one file
==================  ===================================================================================
"""

from lazy_loader import attach as _attach

from thermoset.report.build import build_report
from thermoset.report.record import Examples, LabelPair, Movement, Reliability, Report, SetFacts

# A page needs the extra; the numbers do not.
__getattr__, __dir__, _ = _attach(
    __name__,
    submod_attrs={"page": ["render_page", "write_page"], "over_time": ["build_monitor_page", "write_monitor_page"]},
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
