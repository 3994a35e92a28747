"""Tuning: a whole predictor from a file's rows against the sweep that its choice of temperature would need."""

import warnings

import thermoset as ts
from benchmarks.measure import best_of, network_logits
from benchmarks.report import Settings, Table, Target, timed
from thermoset.tuning import default_grid

__all__ = ["auto", "clustered", "tune"]

_LEVELS = [0.05, 0.07, 0.1, 0.14, 0.2]  # those of the class loss at alpha = 0.1


def tune(settings: Settings) -> Table:
    """Both temperatures, threshold, comparisons and measures, against bare sweeps of the calibration rows alone."""
    warnings.simplefilter("ignore", ts.CoverageWarning)
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    data = ts.Logits(logits, labels)
    small = ts.Logits(*network_logits(2_000, 20, seed=1))
    grid = default_grid(ts.TwoTemperaturePredictor().fit(small).temperature_)
    ts.sweep(small, temperatures=[1.0], methods=["raps"], trials=1, evaluation="integrated")
    calibration = data.split(0.5)[0]
    sweep = {"temperatures": grid, "methods": ["raps"], "calibration_fraction": 0, "cp_fraction": 0.5}
    contenders = {
        "sweep": lambda: ts.sweep(calibration, alphas=_LEVELS, evaluation="integrated", **sweep),
        "one level": lambda: ts.sweep(calibration, **sweep),
        "tune": lambda: ts.TwoTemperaturePredictor().fit(data),
    }
    timings = best_of(contenders, settings.repeats)
    seconds = {name: timing.seconds or float("nan") for name, timing in timings.items()}
    return Table(
        f"Tune, {settings.rows:,} × {settings.classes:,} float32, half of the rows for the temperatures",
        [
            timed(f"sweep, {len(grid)} temperatures, RAPS, 100 trials, five levels", timings["sweep"]),
            timed(
                "TwoTemperaturePredictor.fit",
                timings["tune"],
                Target("<=", 2.0, "yardstick"),
                f"{seconds['tune'] / seconds['one level']:.2f} times the sweep at one level",
            ),
            timed("the sweep at one level, u drawn", timings["one level"]),
        ],
    )


def auto(settings: Settings) -> Table:
    """Every knob at once, against one method."""
    warnings.simplefilter("ignore", ts.CoverageWarning)
    warnings.simplefilter("ignore", ts.BudgetWarning)
    data = ts.Logits(*network_logits(settings.rows, settings.classes, seed=0))
    small = ts.Logits(*network_logits(2_000, 20, seed=1))
    wanted = {"one method": ("raps", "even"), **{name: ("auto", name) for name in ("small", "even", "protect")}}
    for method, prefer in wanted.values():
        ts.TwoTemperaturePredictor(method, prefer=prefer).fit(small)  # compiles
    contenders = {
        name: lambda method=method, prefer=prefer: ts.TwoTemperaturePredictor(method, prefer=prefer).fit(data)
        for name, (method, prefer) in wanted.items()
    }
    timings = best_of(contenders, settings.repeats)
    return Table(
        f"Tune with every option at once, {settings.rows:,} × {settings.classes:,} float32",
        [
            timed("RAPS, prefer even", timings["one method"]),
            *(
                timed(f"auto, prefer {name}", timings[name], Target("<=", 3, "yardstick"))
                for name in ("small", "even", "protect")
            ),
        ],
    )


def clustered(settings: Settings) -> Table:
    """Thresholds by cluster of classes, whose temperature is found by trying, against one threshold for all."""
    warnings.simplefilter("ignore", ts.CoverageWarning)
    data = ts.Logits(*network_logits(4_000, 100, seed=0))
    contenders = {
        name: lambda grouping=grouping: ts.TwoTemperaturePredictor(prefer="small", grouping=grouping).fit(data)
        for name, grouping in (("one threshold", None), ("by cluster", "cluster"))
    }
    for contender in contenders.values():
        contender()  # compiles
    timings = best_of(contenders, settings.repeats)
    return Table(
        "Tune with clustered sets, 4,000 × 100 float32",
        [
            timed("one threshold", timings["one threshold"]),
            timed("by cluster", timings["by cluster"], Target("<=", 3, "yardstick")),
        ],
    )
