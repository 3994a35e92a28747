"""Ratios to thermoset, a panel for each job."""

from collections.abc import Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.peers.plan import Found
from benchmarks.peers.reading import JOBS, multiple, ratios

__all__ = ["figure"]

_MORE, _LESS, _INK, _GRID = "#0072B2", "#D55E00", "#333333", "#dddddd"


def figure(found: Sequence[Found]) -> Figure:
    """Bars from 1, where thermoset is, to the right where a library takes more and to the left where it takes less."""
    made = Figure(figsize=(10.5, 5.4), layout="constrained")
    FigureCanvasAgg(made)
    every = [ratio for job in JOBS for _, ratio in ratios(found, job)]
    limits = min(0.5, min(every) / 4), max(every) * 12
    for (job, title), ax in zip(JOBS.items(), made.subplots(2, 3).flat, strict=True):
        _panel(ax, title, ratios(found, job)[::-1], limits)
    made.supxlabel(
        "times as much processor time, or memory, as thermoset (the line at 1); logarithmic", fontsize=10, color=_INK
    )
    return made


def _panel(ax: Any, title: str, told: Sequence[tuple[str, float]], limits: tuple[float, float]) -> None:
    for place, (_, ratio) in enumerate(told):
        ax.barh(place, ratio - 1, left=1, height=0.62, color=_MORE if ratio >= 1 else _LESS)
        ax.text(max(ratio, 1) * 1.15, place, multiple(ratio), va="center", fontsize=9, color=_INK)
    ax.axvline(1, color=_INK, linewidth=1.2)
    ax.set_xscale("log")
    ax.set_xlim(*limits)
    ax.set_yticks(range(len(told)), [name for name, _ in told], fontsize=9, color=_INK)
    ax.set_ylim(-0.6, max(len(told), 5) - 0.4)
    ax.set_title(title[0].upper() + title[1:], loc="left", fontsize=10.5, fontweight="bold", color=_INK)
    ax.tick_params(axis="x", labelsize=8, colors=_INK)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=_GRID, linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left", "bottom"):
        ax.spines[side].set_visible(False)
