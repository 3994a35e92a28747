"""Fitting a temperature."""

import numpy as np

from benchmarks.measure import best_of, network_logits
from benchmarks.peers.libraries import TEMPERATURES
from benchmarks.report import Settings, Table, Target, timed
from thermoset import TemperatureScaler

__all__ = ["ece", "temperature"]

_WARM_UP = 100  # rows on which kernels are compiled before anything is timed
_ECE_SHARE = 5  # the ECE search looks at some ninety temperatures: it gets this fraction of the rows


def temperature(settings: Settings) -> Table:
    """Temperature by NLL to machine precision."""
    logits, labels = network_logits(settings.rows, settings.classes, seed=0)
    TemperatureScaler().fit(logits[:_WARM_UP], labels[:_WARM_UP])
    contenders = {
        "numpy.exp(logits)": lambda: np.exp(logits),
        "thermoset": lambda: TemperatureScaler().fit(logits, labels),
        "scikit-learn": TEMPERATURES["scikit-learn"]((logits, labels)),
    }
    timings = best_of(contenders, settings.repeats)
    ours = timings["thermoset"].result
    notes = {"thermoset": f"T = {ours.temperature_:.12f} in {ours.n_iter_} steps"}
    notes["scikit-learn"] = f"|T - T thermoset| = {abs(timings['scikit-learn'].result - ours.temperature_):.1e}"
    targets = {"scikit-learn": Target(">=", 15, "thermoset")}
    return Table(
        f"Temperature by NLL, {settings.rows:,} × {settings.classes:,} float32",
        [timed(name, timings[name], targets.get(name), notes.get(name, "")) for name in contenders],
        thermoset="thermoset",
    )


def ece(settings: Settings) -> Table:
    """Temperature by ECE, a search over all temperatures, compared with the one by NLL."""
    rows = max(settings.rows // _ECE_SHARE, 1)
    logits, labels = (array[:rows] for array in network_logits(settings.rows, settings.classes, seed=0))
    contenders = {
        "thermoset, NLL": lambda: TemperatureScaler().fit(logits, labels),
        "thermoset, ECE": lambda: TemperatureScaler("ece").fit(logits, labels),
    }
    for objective in ("nll", "ece"):
        TemperatureScaler(objective).fit(logits[:_WARM_UP], labels[:_WARM_UP])
    timings = best_of(contenders, settings.repeats)
    scaler = timings["thermoset, ECE"].result
    targets = {"thermoset, ECE": Target("<=", 2.5, "yardstick")}
    notes = {"thermoset, ECE": f"T = {scaler.temperature_:.6f}, {scaler.n_iter_} temperatures tried"}
    return Table(
        f"Temperature by ECE, {rows:,} × {settings.classes:,} float32",
        [timed(name, timings[name], targets.get(name), notes.get(name, "")) for name in contenders],
    )
