"""Reliability diagrams, curves against temperature, and the panels they are drawn on."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from thermoset.errors import MissingExtraError
from thermoset.metrics import ReliabilityTable
from thermoset.sweeping import Sweep, standard_error
from thermoset.tuning import Choice

try:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
except ModuleNotFoundError as error:
    raise MissingExtraError.of("matplotlib", "plot", "drawing figures") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLOURS",
    "INK",
    "choice_figure",
    "figure",
    "mark_temperatures",
    "plot_choice",
    "plot_reliability",
    "plot_sweep",
    "sweep_figure",
]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito: told apart by colour-blind readers
_MORE_COLOURS = (*COLOURS, "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_ALPHA_STYLES: tuple[Literal["-"] | tuple[float, Sequence[float]], ...] = (
    "-",
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (5, 2, 1.5, 2)),
)
INK, _GRID = "#333333", "#dddddd"
_SWEEP_PANELS = {
    "avg_size": "AvgSize",
    "top_coverage_gap": "TopCovGap",
    "avg_coverage_gap": "AvgCovGap",
    "threshold": "threshold",
}


def figure(n_panels: int, columns: int | None = None) -> tuple[Figure, list["Axes"]]:
    """Make panels in the project's style, in one row or in `columns`, without touching pyplot's global state."""
    across = columns or n_panels
    down = -(-n_panels // across)
    made = Figure(figsize=(4.6 * across, 3.9 * down), layout="constrained")
    panels = [made.add_subplot(down, across, i + 1) for i in range(n_panels)]
    for ax in panels:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color=_GRID, linewidth=0.6)
        ax.set_axisbelow(True)
    return made, panels


def plot_reliability(table: ReliabilityTable, *, ax: "Axes", title: str) -> "Axes":
    """Accuracy against confidence in bins; the distance to the diagonal is the miscalibration."""
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
    sweep: Sweep, metric: str, *, ax: "Axes", ylabel: str, marks: Mapping[str, float] = MappingProxyType({"T = 1": 1.0})
) -> "Axes":
    """A metric against temperature: colours and markers are methods, line styles are alphas.

    Lines are means over trials, bands reach 2 standard errors to both sides. Wide grids get a logarithmic axis.
    `marks` are temperatures to point out, by name; those outside the grid are left out.
    """
    t = sweep.temperatures
    for i, method in enumerate(sweep.methods):
        colour, marker = (cycle[i % len(cycle)] for cycle in (_MORE_COLOURS, _MARKERS))
        for a, alpha in enumerate(sweep.alphas):
            values = sweep.of_trials(metric, method, alpha)
            mean, error = values.mean(axis=-1), standard_error(values)
            label = _label(method) if len(sweep.alphas) == 1 else f"{_label(method)}, alpha = {alpha:g}"
            ax.plot(
                t, mean, color=colour, linestyle=_ALPHA_STYLES[a % len(_ALPHA_STYLES)], linewidth=1.8, label=label,
                marker=marker, markersize=4.5, markevery=_some(len(t), i), markeredgecolor="white",
                markeredgewidth=0.5,
            )  # fmt: skip
            ax.fill_between(t, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.2, linewidth=0)
    mark_temperatures(ax, {name: mark for name, mark in marks.items() if t[0] < mark < t[-1]})
    if t[-1] > 20 * t[0]:
        ax.set_xscale("log")
    ax.set(xlabel="temperature T", ylabel=ylabel)
    return ax


def plot_choice(choice: Choice, curve: Literal["size", "loss"], *, ax: "Axes", marks: Mapping[str, float]) -> "Axes":
    """What T-hat was chosen by, against temperature: expected size with its 95% band, or the class loss."""
    t, values = np.array(choice.curve.temperatures), np.array(getattr(choice.curve, curve))
    ax.plot(t, values, color=COLOURS[0], linewidth=1.8)
    if curve == "size":
        reach = 1.96 * np.array([np.nan if error is None else error for error in choice.curve.size_error])
        ax.fill_between(t, values - reach, values + reach, color=COLOURS[0], alpha=0.2, linewidth=0)
    chosen = float(np.interp(choice.temperature, t, values))
    ax.plot(choice.temperature, chosen, marker="o", color=COLOURS[1], markersize=7, zorder=3)
    mark_temperatures(ax, {name: mark for name, mark in marks.items() if t[0] <= mark <= t[-1]})
    if t[-1] > 20 * t[0]:
        ax.set_xscale("log")
    ax.set(xlabel="temperature T", ylabel="labels in a set" if curve == "size" else "class loss")
    ax.set_ylim(bottom=0)
    return ax


def choice_figure(choice: Choice, calibrated: float) -> Figure:
    """Set size and class loss against temperature, with T = 1, T*, T-hat and the size peak T_c marked."""
    made, panels = figure(2)
    marks = {"T = 1": 1.0, "T*": calibrated, r"$\hat{T}$": choice.temperature}
    if choice.peak is not None and choice.peak != choice.temperature:
        marks["$T_c$"] = choice.peak
    rising = dict(sorted(marks.items(), key=lambda mark: mark[1]))
    plot_choice(choice, "size", ax=panels[0], marks=rising).set_title("Size", loc="left")
    plot_choice(choice, "loss", ax=panels[1], marks=rising).set_title("Unevenness of class coverage", loc="left")
    made.supxlabel(
        f"estimated on {choice.n_rows:,} calibration rows; prefer {choice.prefer}; band: 95%",
        fontsize="small",
        color=INK,
    )
    return made


def mark_temperatures(ax: "Axes", marks: Mapping[str, float]) -> None:
    """Dotted lines at temperatures, named at the top, neighbours at different heights."""
    for i, (name, temperature) in enumerate(marks.items()):
        ax.axvline(temperature, color=INK, linewidth=0.8, linestyle=":")
        ax.annotate(
            name, (temperature, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -1 - 11 * (i % 3)),
            textcoords="offset points", ha="left", va="top", color=INK, fontsize="small",
        )  # fmt: skip


def sweep_figure(sweep: Sweep) -> Figure:
    """Sizes, class gaps and thresholds of a sweep against temperature, in four panels with one legend above them."""
    made, panels = figure(len(_SWEEP_PANELS), columns=2)
    for ax, (metric, name) in zip(panels, _SWEEP_PANELS.items(), strict=True):
        plot_sweep(sweep, metric, ax=ax, ylabel=name)
    made.legend(handles=_key(sweep, panels[0]), loc="outside upper center", ncols=4, frameon=False, handlelength=3.2)
    band = "" if sweep.trials == 1 else "; bands: 2 standard errors"
    levels = ", ".join(f"{alpha:g}" for alpha in sweep.alphas)
    rows = sweep.settings.get("rows")
    data = f"{rows:,} rows, {sweep.settings['classes']:,} classes; " if rows else ""
    made.supxlabel(f"{data}alpha = {levels}; mean of {sweep.trials} random splits{band}", fontsize="small", color=INK)
    return made


def _key(sweep: Sweep, ax: "Axes") -> list[Line2D]:
    """Legend of a panel: its methods, and beside them line styles if there are several alphas."""
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
    return name.upper().replace("_PUBLISHED", " (published)") + bracket + parameters


def _some(n_points: int, offset: int) -> tuple[int, int]:
    """Start and step of about ten markers along a line, moved so that those of coinciding lines stay apart."""
    step = max(n_points // 10, 1)
    return (2 * offset) % step, step
