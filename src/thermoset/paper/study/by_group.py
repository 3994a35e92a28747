"""Groups of rows in the study: what the temperature of the sets does to them, where a file has groups."""

from collections.abc import Iterator, Sequence

import numpy as np

from thermoset.metrics import METRICS, group_metrics
from thermoset.paper.study.pairs import PairStudy
from thermoset.sweeping import Sweep, standard_error
from thermoset.text_tables import TextTable

__all__ = ["group_tables"]

_AIM = "avg_group_coverage_gap"  # the temperature that evens groups out is where this is least


def group_tables(studies: Sequence[PairStudy]) -> Iterator[TextTable]:
    """For each alpha: methods at T = 1, near T*, and where groups are covered most evenly; files with groups alone."""
    grouped = [study for study in studies if study.measured.curves and _AIM in _curves(study).metrics]
    if not grouped:
        return
    shown = ("avg_size", *(metric.name for metric in group_metrics()))
    head = ("file", "method", "at", "T", *(_title(name) for name in shown))
    for alpha in grouped[0].settings.alphas:
        lines = [
            (study.title, method.upper(), at, f"{temperature:g}", *(_cell(curves, name, place) for name in shown))
            for study in grouped
            for curves in [_curves(study)]
            for method in curves.methods
            for at, temperature, place in _places(study, curves, method, alpha)
        ]
        yield TextTable(f"groups-alpha-{alpha:g}", f"Groups of rows, alpha = {alpha:g}", head, tuple(lines))


def _curves(study: PairStudy) -> Sweep:
    return study.measured.curves[study.settings.main[1]]


def _title(name: str) -> str:
    metric = METRICS[name]
    return metric.title[0].upper() + metric.title[1:] + (" (%)" if metric.unit == "share" else "")


Place = tuple[str, float, int]
"""A method, a level, and a temperature by its number."""


def _places(study: PairStudy, curves: Sweep, method: str, alpha: float) -> Iterator[tuple[str, float, Place]]:
    """The temperatures of the grid to show: nearest to 1 and to T*, and the one that evens groups out."""
    grid = curves.temperatures
    best = int(np.argmin(curves.curve(_AIM, method, alpha)))
    star = float(study.measured.trial_ece.mean())
    near = {"T = 1": int(np.argmin(np.abs(grid - 1.0))), "near T*": int(np.argmin(np.abs(grid - star)))}
    for at, place in (near | {"groups most even": best}).items():
        yield at, float(grid[place]), (method, alpha, place)


def _cell(curves: Sweep, name: str, where: Place) -> str:
    method, alpha, place = where
    trials = curves.of_trials(name, method, alpha)[place]
    scale, digits = (100.0, 1) if METRICS[name].unit == "share" else (1.0, 2)
    error = float(standard_error(trials))
    return f"{scale * float(trials.mean()):.{digits}f} ± {scale * error:.{digits}f}"
