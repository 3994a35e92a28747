"""Reliability diagrams, curves against temperature, and the panels they are drawn on."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np

from thermoset.arrays import Floats
from thermoset.errors import MissingExtraError
from thermoset.looks import COLOURS, score_looks
from thermoset.metrics import METRICS, NoiseFloor, ReliabilityTable
from thermoset.notebook import placed_names
from thermoset.sweeping import Sweep, mean_over_trials, standard_error
from thermoset.tuning import Choice

try:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
except ModuleNotFoundError as error:
    raise MissingExtraError.of("matplotlib", "plot", "drawing figures") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BEHIND_TEXT",
    "INK",
    "choice_figure",
    "figure",
    "mark_temperatures",
    "plot_choice",
    "plot_noise_floor",
    "plot_reliability",
    "plot_sweep",
    "sweep_figure",
]

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

    >>> made, panels = figure(3, columns=2)
    >>> len(made.axes), len(panels)
    (3, 3)
    """
    across = columns or n_panels
    parts = [1.0] * -(-n_panels // across) if heights is None else list(heights)
    made = Figure(figsize=(panel[0] * across, panel[1] * sum(parts)), layout="constrained")
    grid = made.add_gridspec(len(parts), across, height_ratios=parts)
    panels = [made.add_subplot(grid[i // across, i % across]) for i in range(n_panels)]
    for ax in panels:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color=_GRID, linewidth=0.6)
        ax.set_axisbelow(True)
    return made, panels


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
    >>> found = ts.sweep(rng.normal(size=(400, 3)), rng.integers(0, 3, 400), [0.5, 1, 2], ["aps"], trials=3)
    >>> _, (ax,) = figure(1)
    >>> plot_sweep(found, "avg_size", ax=ax).get_legend_handles_labels()[1]
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


def plot_noise_floor(
    floor: NoiseFloor, metric: Literal["top_coverage_gap", "avg_coverage_gap"], *, ax: "Axes"
) -> "Axes":
    """What a class gap shows by chance alone, behind its curve: the mean (dashed), and a band to the 95% point.

    >>> from thermoset.metrics import noise_floor_of_counts
    >>> _, (ax,) = figure(1)
    >>> floor = noise_floor_of_counts([50] * 10, alpha=0.1)
    >>> bool(plot_noise_floor(floor, "top_coverage_gap", ax=ax).get_lines()[0].get_ydata()[0] == floor.top_mean)
    True
    """
    key = {"top_coverage_gap": "top", "avg_coverage_gap": "avg"}[metric]
    mean, high = (getattr(floor, f"{key}_{what}") for what in ("mean", "95"))
    ax.axhspan(mean, high, color=INK, alpha=0.12, linewidth=0, zorder=0)
    ax.axhline(mean, color=INK, linewidth=0.8, linestyle="--", zorder=0)
    return ax


def plot_choice(choice: Choice, curve: Literal["size", "loss"], *, ax: "Axes", marks: Mapping[str, float]) -> "Axes":
    """What T-hat was chosen by, against temperature: expected size with its 95% band, or the class (group) loss.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 800)
    >>> predictor = ts.TwoTemperaturePredictor().fit(3 * (rng.normal(size=(800, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> _, (ax,) = figure(1)
    >>> plot_choice(predictor.choice_, "size", ax=ax, marks={"T = 1": 1.0}).get_ylabel()
    'labels in a set'
    """
    t, values = np.array(choice.curve.temperatures), np.array(getattr(choice.curve, curve))
    (look,) = score_looks([choice.setting.method.name])
    ax.plot(t, values, color=look.colour, linewidth=1.8)
    if curve == "size":
        reach = 1.96 * np.array(choice.curve.size_error)
        ax.fill_between(t, values - reach, values + reach, color=look.colour, alpha=0.2, linewidth=0)
    chosen = float(np.interp(choice.temperature, t, values))
    ax.plot(choice.temperature, chosen, marker=look.marker, color=look.colour, markersize=8, zorder=3)
    ax.plot(
        choice.temperature, chosen, marker="o", markersize=15, markerfacecolor="none", markeredgecolor=INK, zorder=3
    )
    if t[-1] > 20 * t[0]:
        ax.set_xscale("log")
    mark_temperatures(ax, {name: mark for name, mark in marks.items() if t[0] <= mark <= t[-1]})
    ax.set(xlabel="temperature T", ylabel="labels in a set" if curve == "size" else f"{choice.words.one} loss")
    ax.set_ylim(bottom=0)
    return ax


def choice_figure(choice: Choice, calibrated: float) -> Figure:
    """Set size and class (or group) loss against temperature, with T = 1, T*, T-hat and the size peak T_c marked.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 800)
    >>> predictor = ts.TwoTemperaturePredictor().fit(3 * (rng.normal(size=(800, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> [ax.get_ylabel() for ax in choice_figure(predictor.choice_, predictor.temperature_).axes]
    ['labels in a set', 'class loss']
    """
    made, panels = figure(2)
    marks = {"T = 1": 1.0, "T*": calibrated, r"$\hat{T}$": choice.temperature}
    if choice.peak is not None:
        marks["$T_c$"] = choice.peak
    plot_choice(choice, "size", ax=panels[0], marks=marks).set_title("Size", loc="left")
    uneven = f"Unevenness of {choice.words.one} coverage"
    plot_choice(choice, "loss", ax=panels[1], marks=marks).set_title(uneven, loc="left")
    made.supxlabel(
        f"estimated on {choice.n_rows:,} calibration rows; prefer {choice.prefer}; band: 95%",
        fontsize="small",
        color=INK,
    )
    return made


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
    >>> found = ts.sweep(rng.normal(size=(400, 3)), rng.integers(0, 3, 400), [0.5, 1, 2], ["aps"], trials=3)
    >>> [ax.get_ylabel() for ax in sweep_figure(found).axes]
    ['AvgSize', 'TopCovGap', 'AvgCovGap', 'threshold']
    """
    made, panels = figure(len(_SWEEP_PANELS), columns=2)
    for ax, metric in zip(panels, _SWEEP_PANELS, strict=True):
        plot_sweep(sweep, metric, ax=ax)
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
    return name.upper() + bracket + parameters


def _some(n_points: int, offset: int) -> tuple[int, int]:
    """Start and step of about ten markers along a line, moved so that those of coinciding lines stay apart."""
    step = max(n_points // 10, 1)
    return (2 * offset) % step, step
