"""Vega-Lite charts of the page, as specifications in plain Python. Colours come from the page, which is light or dark.

================== =====================================================================================
`parts`            what several charts need: data, axes, names of the curves
`over_temperature` the trade-off against temperature, and size against class gap
`frontier`         what one could have instead of the choice, and who pays
`reliability`      reliability diagrams and histograms of confidence
`set_sizes`        the strip of classes, sizes of sets, coverage by size, labels that stand together
================== =====================================================================================
"""

from thermoset.report.charts.frontier import FIFTHS, frontier, frontier_names, payers
from thermoset.report.charts.over_temperature import TRADE_OFF, size_gap, trade_off
from thermoset.report.charts.parts import DASHES, SHAPES, Spec, line_names, series_names, stratum_names
from thermoset.report.charts.reliability import confidence, reliability
from thermoset.report.charts.set_sizes import HEAT_STRIP_FROM, label_pairs, set_sizes, strata, strip
from thermoset.report.record import Report
from thermoset.report.who_pays import who_pays
from thermoset.tuning.alternatives import FRONTS, drawable

__all__ = [
    "DASHES",
    "FIFTHS",
    "SHAPES",
    "TRADE_OFF",
    "all_charts",
    "frontier_names",
    "line_names",
    "series_names",
    "stratum_names",
]


def all_charts(report: Report) -> dict[str, Spec]:
    """Every chart by the id of its place on the page."""
    charts = {f"trade-{metric}": trade_off(report, metric) for metric in TRADE_OFF}
    choice = report.artifact.choice
    charts |= {f"frontier-{metric}": frontier(report, metric) for metric in FRONTS if drawable(choice, metric)}
    paid = {payer.name: payer.payers.empty for payer in who_pays(choice)}
    if any(map(any, paid.values())):
        charts["payers"] = payers(paid)
    charts["size-gap"] = size_gap(report)
    for i, calibration in enumerate(report.calibrations):
        charts[f"reliability-{i}"] = reliability(calibration)
        charts[f"confidence-{i}"] = confidence(calibration)
    if report.artifact.n_classes >= HEAT_STRIP_FROM:
        charts["strip"] = strip(report)
    charts["sizes"] = set_sizes(report)
    charts["strata"] = strata(report)
    if report.sets.pairs:
        charts["pairs"] = label_pairs(report)
    # Validation against the schema takes as long as all the rest of the page; the tests do it.
    return {name: chart.to_dict(validate=False) for name, chart in charts.items()}
