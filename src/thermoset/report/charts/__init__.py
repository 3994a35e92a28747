"""Vega-Lite charts of the pages, as specifications in plain Python. Colours come from the page, which is light or dark.

=================== =====================================================================================
`parts`             what several charts need: data, axes, names of the curves
`palette`           how curves look, in charts and legends
`over_temperature`  the trade-off against temperature, and size against class gap
`frontier`          what one could have instead of the choice, and who pays
`reliability`       reliability diagrams and histograms of confidence
`answers`           errors against the share of rows that are answered alone
`set_sizes`         the strip of classes or groups, sizes of sets, labels that share sets
`coverage_of_parts` coverage of parts of the rows, with intervals
`over_batches`      coverage, sizes, confidence and accuracy of batches over time
`evidence`          evidence of sequential tests over time, and what each batch added to it
`monitoring`        all charts of the page over time
=================== =====================================================================================
"""

from typing import Any

import numpy as np

from thermoset.monitor.report import CoverageTable
from thermoset.report.charts.answers import risk_coverage
from thermoset.report.charts.coverage_of_parts import coverage_of_parts
from thermoset.report.charts.frontier import FIFTHS, frontier, frontier_names, payers
from thermoset.report.charts.over_temperature import TRADE_OFF, size_gap, trade_off
from thermoset.report.charts.palette import Palette, legend_data, score_palette
from thermoset.report.charts.parts import Spec, line_names, series_names
from thermoset.report.charts.reliability import confidence, reliability
from thermoset.report.charts.set_sizes import HEAT_STRIP_FROM, label_pairs, set_sizes, strip
from thermoset.report.record import Report
from thermoset.report.who_pays import who_pays
from thermoset.tuning.choice import FRONTS, drawable

__all__ = [
    "FIFTHS",
    "HEAT_STRIP_FROM",
    "PART_TITLES",
    "TRADE_OFF",
    "all_charts",
    "legend",
    "series_names",
]

PART_TITLES = {"size": "labels in the set", "confidence": "confidence at T*"}
"""What parts of each kind are told apart by."""


def all_charts(report: Report) -> dict[str, Spec]:
    """Every chart by the id of its place on the page."""
    choice, looks = report.document.choice, _looks(report)
    charts = {f"trade-{metric}": trade_off(report, metric, looks) for metric in TRADE_OFF}
    charts |= {f"frontier-{metric}": frontier(report, metric, looks) for metric in FRONTS if drawable(choice, metric)}
    paid = {payer.name: payer.payers.empty for payer in who_pays(choice)}
    if any(map(any, paid.values())):
        charts["payers"] = payers(paid)
    charts["size-gap"] = size_gap(report, looks)
    for i, calibration in enumerate(report.calibrations):
        charts[f"reliability-{i}"] = reliability(calibration)
        charts[f"confidence-{i}"] = confidence(calibration)
    if report.document.n_classes >= HEAT_STRIP_FROM:
        charts["strip"] = strip(report.check.classes, report.short_name, "class", "classes")
    if report.check.groups is not None:
        charts["groups"] = _groups(report, report.check.groups)
    if report.risk and (alone := report.check.answers) is not None:
        share = alone.answered / alone.rows if alone.answered else None
        charts["answers"] = risk_coverage(report.risk, alone.bound, share)
    charts["sizes"] = set_sizes(report)
    charts |= _parts(report)
    if report.sets.pairs:
        charts["pairs"] = label_pairs(report)
    # Validation against the schema takes as long as all the rest of the page; the tests do it.
    return {name: chart.to_dict(validate=False) for name, chart in charts.items()}


def legend(report: Report) -> Spec:
    """What the legends of the page are drawn from: a name has the same look in all of them."""
    looks = _looks(report)
    held = {"lines": line_names(report), "points": series_names(report), "frontier": frontier_names(report)}
    return legend_data({kind: looks.legend(names) for kind, names in held.items()})


def _looks(report: Report) -> Palette:
    """The looks of all curves and settings of the page."""
    return score_palette(list(dict.fromkeys([*series_names(report), *frontier_names(report)])))


def _groups(report: Report, table: CoverageTable) -> Any:
    """Groups of rows: a strip of many, dots with intervals of a few."""
    present = np.flatnonzero(table.rows)
    if len(present) >= HEAT_STRIP_FROM:
        return strip(table, report.group_name, "group", "groups")
    order = present[np.argsort(table.coverage[present], kind="stable")]
    lowest = np.floor(10 * min(table.low[order].min(), table.promised)) / 10
    names = [report.group_name(i) for i in order.tolist()]
    return coverage_of_parts(names, table.at(order), title="group", lowest=float(lowest))


def _parts(report: Report) -> dict[str, Any]:
    """A chart for each kind of parts, all with the same scale."""
    found, charts = report.check.parts, {}
    lowest = np.floor(10 * min(found.table.low.min(), found.table.promised)) / 10
    for by, title in PART_TITLES.items():
        places = np.array(found.places(by), dtype=np.int64)
        if len(places):
            names = [found.names[i] for i in places]
            charts[f"parts-{by}"] = coverage_of_parts(names, found.table.at(places), title=title, lowest=float(lowest))
    return charts
