"""One page that explains the choice: self-contained HTML, made from numbers that are collected first. Needs `report`.

================  =====================================================================================
`record`          every number of the page, in one frozen record
`naming`          names as the page shows them
`roles`           which rows may judge: never those that set the threshold
`set_facts`       what the sets look like: sizes, pairs, examples, movements
`build`           collects the record from the public functions
`charts`          Vega-Lite charts of the record
`guideline`       the drawing of the two branches: confidence from T*, sets from T-hat
`words`           what the words of the page mean
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
