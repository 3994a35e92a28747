"""What the report draws, for papers and notebooks: size against gap, classes, set sizes, strata, pairs, movements."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import ArrayLike

from thermoset.levels import Alpha, exact_level
from thermoset.looks import COLOURS, score_looks
from thermoset.metrics import METRICS, PartCoverage, ReliabilityTable, clopper_pearson
from thermoset.monitor.report import CoverageTable
from thermoset.plots.curve_figures import BEHIND_TEXT, INK
from thermoset.sweeping import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_class_coverage",
    "plot_confidence",
    "plot_label_pairs",
    "plot_movements",
    "plot_set_sizes",
    "plot_size_gap",
    "plot_strata",
]


def plot_size_gap(
    sweep: Sweep, *, ax: "Axes", alpha: float | None = None, chosen: float | None = None, label: str = ""
) -> "Axes":
    """AvgSize against TopCovGap, one point for each temperature; `chosen` is a temperature of the sweep to mark.

    To compare it with another sweep, such as one of Mondrian sets, call it again on the same axes; `label` goes before
    the names of its methods, and its marks are hollow where thresholds are by class or group.

    >>> import numpy as np, thermoset as ts
    >>> from thermoset.plots import figure
    >>> rng = np.random.default_rng(0)
    >>> found = ts.sweep(rng.normal(size=(400, 3)), rng.integers(0, 3, 400), [0.5, 1, 2], ["aps"], trials=3)
    >>> _, (ax,) = figure(1)
    >>> plot_size_gap(found, ax=ax, chosen=1.0).get_xlabel()
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
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high > 5 * low else MaxNLocator(5))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.legend(frameon=False)
    return ax


def plot_confidence(table: ReliabilityTable, *, ax: "Axes") -> "Axes":
    """Rows by confidence.

    >>> from thermoset.metrics import reliability_table
    >>> from thermoset.plots import figure
    >>> _, (ax,) = figure(1)
    >>> table = reliability_table([[0.75, 0.25], [0.75, 0.25]], labels=[0, 1], n_bins=10)
    >>> [int(bar.get_height()) for bar in plot_confidence(table, ax=ax).patches]
    [0, 0, 0, 0, 0, 0, 0, 2, 0, 0]
    """
    ax.bar(table.edges[:-1], table.count, np.diff(table.edges), align="edge", color=COLOURS[0], edgecolor="white")
    ax.set(xlim=(0, 1), xlabel="confidence", ylabel="rows")
    return ax


def plot_class_coverage(table: CoverageTable, *, ax: "Axes") -> "Axes":
    """Coverage of each class with its 95% interval, the least covered first; significantly low ones are orange squares.

    >>> import numpy as np
    >>> from thermoset.monitor.check import check
    >>> from thermoset.monitor.promise import Promise
    >>> from thermoset.plots import figure
    >>> sets = np.eye(2, dtype=bool)[[0] * 90 + [1] * 10]  # {0} for 90 rows, {1} for 10
    >>> found = check(sets, np.where(sets, 0.9, 0.1), labels=[0] * 100, promise=Promise(0.1, [999]))
    >>> _, (ax,) = figure(1)
    >>> plot_class_coverage(found.classes, ax=ax).get_ylabel()
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


def plot_set_sizes(sizes: ArrayLike, *, ax: "Axes") -> "Axes":
    """How many sets have how many labels, from the sizes of all sets.

    >>> from thermoset.plots import figure
    >>> _, (ax,) = figure(1)
    >>> [int(bar.get_height()) for bar in plot_set_sizes([1, 1, 2], ax=ax).patches]
    [0, 2, 1]
    """
    counts = np.bincount(np.asarray(sizes))
    ax.bar(np.arange(len(counts)), counts, 0.9, color=COLOURS[0])
    ax.set(xlabel="labels in the set", ylabel="rows")
    return ax


def plot_strata(table: PartCoverage, alpha: Alpha, *, ax: "Axes") -> "Axes":
    """Coverage by size of the set, with 95% intervals, beside 1 - alpha.

    >>> import numpy as np
    >>> from thermoset.metrics import size_stratified_coverage
    >>> from thermoset.plots import figure
    >>> table = size_stratified_coverage(np.eye(3, dtype=bool), labels=[0, 1, 1])
    >>> _, (ax,) = figure(1)
    >>> [tick.get_text() for tick in plot_strata(table, 0.1, ax=ax).get_xticklabels()]
    ['0-1']
    """
    used = np.flatnonzero(table.count)
    low, high = clopper_pearson(table.hits[used], table.count[used])
    at, seen = np.arange(len(used)), table.coverage[used]
    ax.errorbar(at, seen, [seen - low, high - seen], fmt="o", color=COLOURS[0])
    ax.set_xticks(at, [table.names[i] for i in used])
    ax.axhline(float(1 - exact_level(alpha)), color=INK, linewidth=1, linestyle="--")
    ax.set(xlabel="labels in the set", ylabel="coverage", xlim=(-0.5, len(used) - 0.5))
    return ax


def plot_label_pairs(together: ArrayLike, names: Sequence[str], *, ax: "Axes") -> "Axes":
    """A confusion map of sets: `together` (m, m) counts the sets that hold both labels; its diagonal is left out.

    >>> import numpy as np
    >>> from thermoset.plots import figure
    >>> sets = np.array([[True, True, False], [True, True, True]])
    >>> _, (ax,) = figure(1)
    >>> ax = plot_label_pairs(sets.T.astype(int) @ sets, ["ant", "bee", "cat"], ax=ax)
    >>> float(ax.images[0].get_array()[0, 1])  # ant and bee stand together in both sets
    2.0
    """
    counts = np.asarray(together, dtype=np.float64).copy()
    np.fill_diagonal(counts, np.nan)
    image = ax.imshow(counts, cmap="Blues", vmin=0)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.grid(visible=False)
    ax.figure.colorbar(image, ax=ax, label="sets")
    return ax


def plot_movements(movements: Mapping[str, tuple[int, int, int]], *, ax: "Axes") -> "Axes":
    """How many sets grow, stay and shrink, as one bar for each comparison (paper, appendix B.4.1).

    >>> from thermoset.plots import figure
    >>> _, (ax,) = figure(1)
    >>> [float(bar.get_width()) for bar in plot_movements({"T*": (1, 2, 1)}, ax=ax).patches]
    [0.25, 0.5, 0.25]
    """
    shares = np.array([np.divide(counts, sum(counts)) for counts in movements.values()])
    left = np.zeros(len(shares))
    for i, (name, colour) in enumerate((("grow", COLOURS[1]), ("stay", "#8a949e"), ("shrink", COLOURS[0]))):
        ax.barh(list(movements), shares[:, i], left=left, color=colour, label=name)
        left = left + shares[:, i]
    ax.set(xlim=(0, 1), xlabel="share of rows")
    ax.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
    return ax
