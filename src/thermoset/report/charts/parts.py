"""What several charts need: data without what JSON cannot hold, tooltips, and the names of the curves."""

import math
from collections.abc import Mapping
from typing import Any

import altair as alt

from thermoset.conformal.groupings import title_of
from thermoset.report.record import Report

__all__ = [
    "Spec",
    "data",
    "line_names",
    "method_name",
    "plain",
    "series_names",
    "shared",
    "tip",
]

_DIGITS = 6  # of what is drawn; what is written has its own
_COMPARED = frozenset({"a", "T"})  # level and temperature: the page's signals must find them, to the last bit

Spec = dict[str, Any]


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with numbers of a few digits, but for those that signals are compared with; None for what is not finite."""
    return [
        {k: _rounded(v) if isinstance(v, float) and k not in _COMPARED else v for k, v in row.items()} for row in rows
    ]


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def data(rows: list[dict[str, Any]]) -> alt.Data:
    """Rows as the data of a chart."""
    return alt.Data(values=plain(rows))


def shared(rows: Mapping[str, list[dict[str, Any]]]) -> tuple[dict[str, Any], Spec]:
    """Charts of rows by name, and the rows to be given to the layers of them as `datasets`: they are written once.

    Rows of a chart of its own are copied for every layer, and validated, which takes longer than all the rest.
    """
    return {name: alt.Chart(alt.NamedData(name=name)) for name in rows}, {name: plain(rows[name]) for name in rows}


def tip(field: str, title: str) -> alt.Tooltip:
    """A line of a tooltip."""
    return alt.Tooltip(f"{field}:Q", title=title, format=".4~f")


def method_name(name: str) -> str:
    """A method as papers print it.

    >>> method_name("raps(penalty=0.1)")
    'RAPS(penalty=0.1)'
    """
    head, bracket, rest = name.partition("(")
    return head.upper() + bracket + rest


def series_names(report: Report) -> list[str]:
    """Names of the curves, the predictor's own first, thresholds by class last."""
    methods = [method_name(name) for name in report.curves.methods]
    return [*methods, f"{methods[0]}, {title_of(report.conditional.settings['grouping'])}"]


def line_names(report: Report) -> list[str]:
    """Names of the curves of the trade-off: every method, or thresholds by class alone where the predictor has them."""
    names = series_names(report)
    return names[:-1] if report.document.grouping is None else names[-1:]
