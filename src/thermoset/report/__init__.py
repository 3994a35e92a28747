"""One page that explains the choice: self-contained HTML, made from numbers that are collected first. Needs `report`.

================  =====================================================================================
`record`          every number of the page, in one frozen record
`text`            names as the page shows them
`rows`            which rows may judge: never those that set the threshold
`sets`            what the sets look like: sizes, pairs, examples, movements
`build`           collects the record from the public functions
`charts`          Vega-Lite charts of the record
`page`            the page: template, style, script, and the libraries it draws with, all in one file
================  =====================================================================================
"""

from lazy_loader import attach as _attach

from thermoset.report.build import build_report
from thermoset.report.record import Examples, LabelPair, Movement, Reliability, Report, SetFacts

# The page needs the extra; the numbers do not.
__getattr__, __dir__, _ = _attach(__name__, submod_attrs={"page": ["render_page", "write_page"]})

__all__ = [
    "Examples",
    "LabelPair",
    "Movement",
    "Reliability",
    "Report",
    "SetFacts",
    "build_report",
    "render_page",
    "write_page",
]
