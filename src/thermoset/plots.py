"""Pictures of tables: axes in, axes out. Needs the `plot` extra."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import MissingExtraError
from thermoset.metrics import ReliabilityTable

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError as error:
    raise MissingExtraError.of("matplotlib", "plot", "drawing figures") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["COLOURS", "figure", "plot_curves", "plot_reliability"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito: told apart by colour-blind readers
_DASHES = ("-", "-", (0, (5, 3)), (0, (2, 2)))  # lines that coincide stay visible
_INK, _GRID = "#333333", "#dddddd"


def figure(n_panels: int) -> tuple[Figure, list["Axes"]]:
    """Make a row of panels in the project's style, without touching pyplot's global state."""
    made = Figure(figsize=(4.6 * n_panels, 3.9), layout="constrained")
    panels = [made.add_subplot(1, n_panels, i + 1) for i in range(n_panels)]
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
    ax.plot([0, 1], [0, 1], color=_INK, linewidth=1, linestyle="--")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    ax.set_title(f"{title}: ECE {table.ece:.3f}", loc="left")
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_curves(
    temperatures: Sequence[float] | NDArray[np.float64],
    curves: Mapping[str, NDArray[np.float64]],
    *,
    ax: "Axes",
    ylabel: str,
    marks: Mapping[str, float],
) -> "Axes":
    """One line for each method against temperature, with temperatures of interest marked."""
    for (colour, dashes), (name, values) in zip(zip(COLOURS, _DASHES, strict=True), curves.items(), strict=False):
        ax.plot(temperatures, values, color=colour, linestyle=dashes, linewidth=2, label=name)
    for i, (name, temperature) in enumerate(marks.items()):
        ax.axvline(temperature, color=_INK, linewidth=1, linestyle=":")
        ax.annotate(
            name, (temperature, 1.0), xycoords=("data", "axes fraction"), xytext=(3, -3 - 13 * i),
            textcoords="offset points", va="top", color=_INK,
        )  # fmt: skip
    ax.set(xlabel="temperature T", ylabel=ylabel)
    ax.legend(frameon=False)
    return ax
