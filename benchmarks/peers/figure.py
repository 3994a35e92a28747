"""Ratios to thermoset, a panel for each job."""

from collections.abc import Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from benchmarks.peers.plan import Found
from benchmarks.peers.reading import JOBS, multiple, ratios

__all__ = ["figure"]

_MORE, _LESS, _INK, _GRID = "#0072B2", "#D55E00", "#333333", "#dddddd"


def figure(found: Sequence[Found]) -> Figure:
    """Bars from 1, where thermoset is, to the right where a library takes more and to the left where it takes less."""
    figure = Figure(figsize=(10.5, 6.2), layout="constrained")
    FigureCanvasAgg(figure)
    every = [ratio for job in JOBS for _, ratio in ratios(found, job)]
    limits = min(0.5, *every) / 1.3, max(every) * 8
    places = max(len(ratios(found, job)) for job in JOBS)
    for (job, title), ax in zip(JOBS.items(), figure.subplots(2, 3).flat, strict=True):
        _bars(ax, ratios(found, job))
        _dressed(ax, title, limits, places)
    figure.supxlabel("times as much processor time, or memory, as thermoset (the line at 1)", fontsize=10, color=_INK)
    return figure


def _bars(ax: Any, ratios: Sequence[tuple[str, float]]) -> None:
    """Least first, from the top; each under its name."""
    for place, (name, ratio) in enumerate(ratios):
        ax.barh(-place, ratio - 1, left=1, height=0.4, color=_MORE if ratio >= 1 else _LESS)
        ax.text(max(ratio, 1) * 1.18, -place, multiple(ratio), va="center", fontsize=9, color=_INK)
        ax.text(1.12, 0.28 - place, name, va="bottom", fontsize=9, color=_INK)
    ax.axvline(1, color=_INK, linewidth=1.2)


def _dressed(ax: Any, title: str, limits: tuple[float, float], places: int) -> None:
    ax.set_xscale("log")
    ax.set_xlim(*limits)
    ax.set_ylim(-places + 0.6, 0.75)
    ax.set_yticks([])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}" if x >= 1 else f"{x:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_title(title[0].upper() + title[1:], loc="left", fontsize=10.5, fontweight="bold", color=_INK)
    ax.tick_params(axis="x", labelsize=8, colors=_INK, length=0)
    ax.grid(axis="x", color=_GRID, linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left", "bottom"):
        ax.spines[side].set_visible(False)
