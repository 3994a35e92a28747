"""The report's page compared with its sweep: everything else together should take less time."""

import warnings

import thermoset as ts
from benchmarks.measure import best_of, network_logits
from benchmarks.report import Line, Settings, Table, Target, timed
from thermoset.report import build_report, render_page

__all__ = ["page"]

_KNOWN_ROWS = 10_000


def page(settings: Settings) -> Table:
    """A page about fresh rows: curves, thresholds by class, check, examples at every temperature, charts, HTML."""
    warnings.simplefilter("ignore", ts.CoverageWarning)
    predictor = ts.TwoTemperaturePredictor().fit(ts.Logits(*network_logits(_KNOWN_ROWS, settings.classes, seed=1)))
    data = ts.Logits(*network_logits(settings.rows, settings.classes, seed=0))
    small = build_report(predictor, data.take(slice(0, 1_000)), trials=2)
    render_page(small)  # what is imported and compiled before does not count
    curves = small.curves
    contenders = {
        "sweep": lambda: _sweep(data, curves),
        "page": lambda: render_page(build_report(predictor, data)),
    }
    timings = best_of(contenders, settings.repeats)
    whole, sweep = (timings[name].seconds or float("nan") for name in ("page", "sweep"))
    size = len(timings["page"].result.encode()) / 1e6
    temperatures, levels = len(curves.temperatures), len(curves.alphas)
    return Table(
        f"Report, {settings.rows:,} × {settings.classes:,} float32",
        [
            timed(f"its sweep: {temperatures} temperatures, 3 scores, {levels} levels, 100 trials", timings["sweep"]),
            Line("everything else", whole - sweep, timings["page"].runs, Target("<=", 1, "yardstick"), "page - sweep"),
            timed("the whole page", timings["page"], note=f"{size:.1f} MB"),
        ],
    )


def _sweep(data: ts.Logits, like: ts.Sweep) -> ts.Sweep:
    """The curves of the page, alone."""
    return ts.sweep(
        data,
        temperatures=like.temperatures,
        methods=like.methods,
        alphas=like.alphas,
        calibration_fraction=0,
        cp_fraction=like.settings["cp_fraction"],
    )
