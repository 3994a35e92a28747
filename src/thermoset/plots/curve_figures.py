"""Reliability diagrams, curves against temperature, size against gap, classes; and the panels they are drawn on."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from thermoset.arrays import Floats
from thermoset.looks import COLOURS, placed_names, score_looks
from thermoset.metrics import METRICS, ReliabilityTable
from thermoset.monitor.report import CoverageTable
from thermoset.sweeping import Sweep, mean_over_trials, standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ALPHA_STYLES: tuple[Literal["-"] | tuple[float, Sequence[float]], ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (5, 2, 1.5, 2)),
)
INK, _GRID = "#333333", "#dddddd"
BEHIND_TEXT = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85}
_PANEL = 250  # points that a panel is wide, about
_SWEEP_PANELS = ("avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold")


def figure(
    n_panels: int,
    columns: int | None = None,
    *,
    panel: tuple[float, float] = (4.6, 3.9),
    heights: Sequence[float] | None = None,
) -> tuple[Figure, list["Axes"]]:
    """Make panels in the project's style, in one row or in `columns`, without touching pyplot's global state.

    `panel` is the size of one in inches; `heights` are those of the rows of panels, in parts of it.

    >>> fig, panels = figure(3, columns=2)
    >>> len(fig.axes), len(panels)
    (3, 3)
    """
    across = columns or n_panels
    parts = [1.0] * -(-n_panels // across) if heights is None else list(heights)
    fig = Figure(figsize=(panel[0] * across, panel[1] * sum(parts)), layout="constrained")
    grid = fig.add_gridspec(len(parts), across, height_ratios=parts)
    panels = [fig.add_subplot(grid[i // across, i % across]) for i in range(n_panels)]
    for ax in panels:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color=_GRID, linewidth=0.6)
        ax.set_axisbelow(True)
    return fig, panels


def inline(fig: Figure, alt: str) -> str:
    """A figure as HTML for a notebook.

    >>> inline(figure(1)[0], "nothing")[:46]
    "<img alt='nothing' src='data:image/png;base64,"
    """
    stream = io.BytesIO()
    fig.savefig(stream, format="png", dpi=80)
    return f"<img alt='{escape(alt)}' src='data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}'/>"


def plot_reliability(table: ReliabilityTable, *, ax: "Axes", title: str) -> "Axes":
    """Accuracy against confidence in bins; the distance to the diagonal is the miscalibration.

    >>> from thermoset.metrics import reliability_table
    >>> _, (ax,) = figure(1)
    >>> table = reliability_table([[0.75, 0.25], [0.75, 0.25]], labels=[0, 1])  # confidence 3/4, accuracy 1/2
    >>> plot_reliability(table, ax=ax, title="T = 1").get_title(loc="left")
    'T = 1: ECE 0.250'
    """
    centres, width = (table.edges[:-1] + table.edges[1:]) / 2, np.diff(table.edges)
    used = table.count > 0
    ax.bar(centres[used], table.accuracy[used], width[used], color=COLOURS[0], edgecolor="white", label="accuracy")
    low = np.minimum(table.accuracy, table.confidence)[used]
    gap = np.abs(table.accuracy - table.confidence)[used]
    ax.bar(
        centres[used],
        gap,
        width[used],
        low,
        color="none",
        edgecolor=COLOURS[1],
        hatch="////",
        label="gap to confidence",
    )
    ax.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle="--")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    ax.set_title(f"{title}: ECE {table.ece:.3f}", loc="left")
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_sweep(
    sweep: Sweep,
    metric: str,
    *,
    ax: "Axes",
    ylabel: str | None = None,
    marks: Mapping[str, float] = MappingProxyType({"T = 1": 1.0}),
    centre: Callable[[Floats], Floats] = mean_over_trials,
) -> "Axes":
    """A metric against temperature: colours and markers are methods, line styles are alphas.

    Lines are means over trials, or what `centre` makes of them; bands reach 2 standard errors to both sides. Wide grids
    get a logarithmic axis.
    `marks` are temperatures to point out, by name; those outside the grid are left out. The axis is named after the
    metric, unless `ylabel` says otherwise.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> curves = ts.sweep(rng.normal(size=(400, 3)), rng.integers(0, 3, 400), [0.5, 1, 2], ["aps"], trials=3)
    >>> _, (ax,) = figure(1)
    >>> plot_sweep(curves, "avg_size", ax=ax).get_legend_handles_labels()[1]
    ['APS']
    >>> ax.get_ylabel()
    'AvgSize'
    """
    t = sweep.temperatures
    for i, (method, look) in enumerate(zip(sweep.methods, score_looks(sweep.methods), strict=True)):
        for a, alpha in enumerate(sweep.alphas):
            values = sweep.of_trials(metric, method, alpha)
            mean, error = centre(values), standard_error(values)
            label = _label(method) if len(sweep.alphas) == 1 else f"{_label(method)}, alpha = {alpha:g}"
            ax.plot(
                t, mean, color=look.colour, linestyle=_ALPHA_STYLES[a % len(_ALPHA_STYLES)], linewidth=1.8,
                label=label, marker=look.marker, markersize=4.5, markevery=_some(len(t), i), markeredgecolor="white",
                markeredgewidth=0.5,
            )  # fmt: skip
            ax.fill_between(t, mean - 2 * error, mean + 2 * error, color=look.colour, alpha=0.2, linewidth=0)
    if t[-1] > 20 * t[0]:
        ax.set_xscale("log")
    mark_temperatures(ax, {name: mark for name, mark in marks.items() if t[0] < mark < t[-1]})
    ax.set(xlabel="temperature T", ylabel=METRICS[metric].title if ylabel is None else ylabel)
    return ax


def plot_confidence(table: ReliabilityTable, *, ax: "Axes") -> "Axes":
    """Rows by confidence.

    >>> from thermoset.metrics import reliability_table
    >>> _, (ax,) = figure(1)
    >>> table = reliability_table([[0.75, 0.25], [0.75, 0.25]], labels=[0, 1], n_bins=10)
    >>> [int(bar.get_height()) for bar in plot_confidence(table, ax=ax).patches]
    [0, 0, 0, 0, 0, 0, 0, 2, 0, 0]
    """
    ax.bar(table.edges[:-1], table.count, np.diff(table.edges), align="edge", color=COLOURS[0], edgecolor="white")
    ax.set(xlim=(0, 1), xlabel="confidence", ylabel="rows")
    return ax


def plot_size_gap(
    sweep: Sweep, *, ax: "Axes", alpha: float | None = None, chosen: float | None = None, label: str = ""
) -> "Axes":
    """AvgSize against TopCovGap, one point for each temperature; `chosen` is a temperature of the sweep to mark.

    To compare it with another sweep, such as one of Mondrian sets, call it again on the same axes; `label` goes before
    the names of its methods, and its marks are hollow where thresholds are by class or group.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> curves = ts.sweep(rng.normal(size=(400, 3)), rng.integers(0, 3, 400), [0.5, 1, 2], ["aps"], trials=3)
    >>> _, (ax,) = figure(1)
    >>> plot_size_gap(curves, ax=ax, chosen=1.0).get_xlabel()
    'AvgSize'
    """
    hollow = sweep.settings.get("grouping") is not None
    for method, look in zip(sweep.methods, score_looks(sweep.methods), strict=True):
        size, gap = (sweep.curve(metric, method, alpha) for metric in ("avg_size", "top_coverage_gap"))
        name = f"{label} {method.upper()}".strip()
        ax.plot(
            size, gap, color=look.colour, marker=look.marker, markerfacecolor="white" if hollow else look.colour,
            linewidth=0.8, markersize=4, label=name,
        )  # fmt: skip
    if chosen is not None:
        j = int(np.argmin(np.abs(sweep.temperatures - chosen)))
        size, gap = (sweep.curve(metric, sweep.methods[0], alpha) for metric in ("avg_size", "top_coverage_gap"))
        ax.scatter(size[j], gap[j], s=160, facecolors="none", edgecolors=INK, linewidths=2, zorder=3)
        name = f"T = {sweep.temperatures[j]:.3g}"
        ax.annotate(
            name, (size[j], gap[j]), xytext=(11, 6), textcoords="offset points", color=INK, fontsize="small",
            bbox=BEHIND_TEXT,
        )  # fmt: skip
    ax.set(xlabel=METRICS["avg_size"].title, ylabel=METRICS["top_coverage_gap"].title, xscale="log")
    plain_log_ticks(ax, 5)
    ax.legend(frameon=False)
    return ax


def plain_log_ticks(ax: "Axes", few: int) -> None:
    """Plain numbers on a logarithmic axis of sizes; where it is short, a `few` at equal distances."""
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high > 5 * low else MaxNLocator(few))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())


def note(fig: Figure, text: str) -> None:
    """A line of small text below the panels."""
    fig.supxlabel(text, fontsize="small", color=INK)


def plot_class_coverage(table: CoverageTable, *, ax: "Axes") -> "Axes":
    """Coverage of each class with its 95% interval, the least covered first; significantly low ones are orange squares.

    >>> import numpy as np
    >>> from thermoset.monitor.check import check
    >>> from thermoset.monitor.promise import Promise
    >>> sets = np.eye(2, dtype=bool)[[0] * 90 + [1] * 10]  # {0} for 90 rows, {1} for 10
    >>> result = check(sets, np.where(sets, 0.9, 0.1), labels=[0] * 100, promise=Promise(0.1, [999]))
    >>> _, (ax,) = figure(1)
    >>> plot_class_coverage(result.classes, ax=ax).get_ylabel()
    'coverage'
    """
    present = np.flatnonzero(table.rows)
    order = present[np.argsort(table.coverage[present], kind="stable")]
    low = np.isin(order, table.under_covered)
    for which, colour, marker in ((~low, COLOURS[0], "o"), (low, COLOURS[1], "s")):
        at = np.flatnonzero(which)
        ax.vlines(at, table.low[order[at]], table.high[order[at]], color=colour, alpha=0.35, linewidth=1.5)
        ax.scatter(at, table.coverage[order[at]], s=10, color=colour, marker=marker, zorder=3)
    ax.axhline(table.promised, color=INK, linewidth=1, linestyle="--")
    ax.set(xlabel="classes, least covered first", ylabel="coverage")
    return ax


def mark_temperatures(ax: "Axes", marks: Mapping[str, float]) -> None:
    """Dotted lines at temperatures, named at the top, so that no name covers another and no line crosses one."""
    ax.autoscale_view()  # limits of what is drawn so far, which some Matplotlibs settle only when they render
    names = placed_names(
        marks, lambda t: _PANEL * float(ax.transAxes.inverted().transform(ax.transData.transform((t, 1)))[0])
    )
    lines = max((at.line for at in names), default=0)
    for at in names:
        ax.axvline(at.temperature, color=INK, linewidth=0.8, linestyle=":")
    for at in names:
        ax.annotate(
            at.name, (at.temperature, 1.0), xycoords=("data", "axes fraction"),
            xytext=(-3 if at.left else 3, -1 - 11 * (lines - at.line)), textcoords="offset points",
            ha="right" if at.left else "left", va="top", color=INK, fontsize="small",
            bbox=BEHIND_TEXT,
        )  # fmt: skip


def sweep_figure(sweep: Sweep) -> Figure:
    """Sizes, class gaps and thresholds of a sweep against temperature, in four panels with one legend above them.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> curves = ts.sweep(rng.normal(size=(400, 3)), rng.integers(0, 3, 400), [0.5, 1, 2], ["aps"], trials=3)
    >>> [ax.get_ylabel() for ax in sweep_figure(curves).axes]
    ['AvgSize', 'TopCovGap', 'AvgCovGap', 'threshold']
    """
    shown = [metric for metric in _SWEEP_PANELS if metric in sweep.metrics]
    fig, panels = figure(len(shown), columns=min(2, len(shown)))
    for ax, metric in zip(panels, shown, strict=True):
        plot_sweep(sweep, metric, ax=ax)
    fig.legend(handles=_key(sweep, panels[0]), loc="outside upper center", ncols=4, frameon=False, handlelength=3.2)
    band = "" if sweep.trials == 1 else "; bands: 2 standard errors"
    levels = ", ".join(f"{alpha:g}" for alpha in sweep.alphas)
    rows = sweep.settings.get("rows")
    data = f"{rows:,} rows, {sweep.settings['classes']:,} classes; " if rows else ""
    note(fig, f"{data}alpha = {levels}; mean of {sweep.trials} random splits{band}")
    return fig


def _key(sweep: Sweep, ax: "Axes") -> list[Line2D]:
    """Legend of a panel: its methods, and next to them line styles if there are several alphas."""
    drawn, n_alphas = ax.get_lines(), len(sweep.alphas)
    handles = [
        Line2D([], [], color=line.get_color(), marker=line.get_marker(), markeredgecolor="white", label=_label(method))
        for method, line in zip(sweep.methods, drawn[::n_alphas], strict=False)
    ]
    if n_alphas > 1:
        for alpha, style in zip(sweep.alphas, _ALPHA_STYLES * n_alphas, strict=False):
            handles.append(Line2D([], [], color=INK, linestyle=style, label=f"alpha = {alpha:g}"))
    return handles


def _label(method: str) -> str:
    """A method's name as papers print it; parameters keep their names."""
    name, bracket, parameters = method.partition("(")
    return name.upper() + bracket + parameters


def _some(n_points: int, offset: int) -> tuple[int, int]:
    """Start and step of about ten markers along a line, moved so that those of coinciding lines stay apart."""
    step = max(n_points // 10, 1)
    return (2 * offset) % step, step
