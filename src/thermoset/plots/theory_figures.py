"""Figures of the theory: the bounds, margins and last indices by score, shares of rows, what moves sizes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from thermoset.looks import COLOURS, SCORE_LOOKS
from thermoset.metrics import METRICS
from thermoset.paper.theory import (
    ClassCoverage,
    Explanation,
    RankLimit,
    SizeSlopes,
    bound,
    bound_share,
    critical_temperature,
    last_index,
    margins,
    score_order,
    sharp_bound,
    sharp_share,
    sign_share,
)
from thermoset.plots.curve_figures import INK, figure, mark_temperatures, plot_sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from thermoset.data import Logits


_PAPER_CLASSES = (10, 100, 1000)
_HEADROOM = 1.12  # above the highest curve, for the names of marks
_SIGNS = 40  # temperatures at which signs are counted
_RUN = 101  # rows of a running median


def plot_bound(n_classes: Sequence[int], *, ax: "Axes", hottest: float = 5.0) -> "Axes":
    """The paper's bound b(T) against T for some numbers of classes, and the sharp b*(T), dashed; dots are minima of b.

    >>> _, (ax,) = figure(1)
    >>> plot_bound([10, 1000], ax=ax).get_legend_handles_labels()[1]
    ['C = 10', 'C = 1,000', "b(T), the paper's", 'b*(T), sharp']
    """
    cool, hot = np.linspace(0.02, 0.995, 400), np.linspace(1.005, hottest, 800)
    grid = np.linspace(0.02, hottest, 500)
    for i, c in enumerate(n_classes):
        colour = COLOURS[i % len(COLOURS)]
        for side in (cool, hot):
            label = f"C = {c:,}" if side is cool else None
            ax.plot(side, bound(side, c), linewidth=2.0, color=colour, label=label)
        ax.plot(grid, sharp_bound(grid, c), linewidth=1.1, linestyle="--", color=colour)
        best = critical_temperature(c)
        if best < hottest:
            ax.plot(best, bound(best, c), marker="o", markersize=4.5, color=colour)
    ax.plot([], [], color=INK, linewidth=2.0, label="b(T), the paper's")
    ax.plot([], [], color=INK, linewidth=1.1, linestyle="--", label="b*(T), sharp")
    ax.axvline(1.0, color=INK, linewidth=0.8, linestyle=":")
    top = 1.6 * max(float(bound(critical_temperature(c), c)) for c in n_classes)
    ax.set(xlabel="temperature T", ylabel="bound on the margin", xlim=(0, hottest), ylim=(0, top))
    return ax


def plot_by_score(
    values: NDArray[Any], *, ax: "Axes", ylabel: str, quantile: float, colour: str = COLOURS[0]
) -> "Axes":
    """A number of each row, rows in the order of their score: dots, a running median, and where the threshold falls.

    >>> _, (ax,) = figure(1)
    >>> plot_by_score(np.arange(5.0), ax=ax, ylabel="margin", quantile=0.9).get_ylabel()
    'margin'
    """
    rank = np.arange(1, len(values) + 1)
    ax.plot(rank, values, ".", markersize=1.5, color=colour, alpha=0.35, rasterized=True)
    if len(values) >= 2 * _RUN:
        window = np.lib.stride_tricks.sliding_window_view(values, _RUN)
        middle = rank[_RUN // 2 : len(rank) - _RUN // 2]
        ax.plot(middle, np.median(window, axis=1), color=INK, linewidth=1.4, label=f"median of {_RUN} rows")
    ax.axvline(quantile * len(values), color=INK, linewidth=0.8, linestyle=":")
    ax.annotate(
        f"{quantile:g} quantile", (quantile * len(values), 1.0), xycoords=("data", "axes fraction"), xytext=(-3, -1),
        textcoords="offset points", ha="right", va="top", color=INK, fontsize="small",
    )  # fmt: skip
    ax.set(xlabel="rows by increasing APS score (u = 1)", ylabel=ylabel)
    return ax


def plot_bound_share(data: "Logits", ends: tuple[float, float], *, ax: "Axes", marks: Mapping[str, float]) -> "Axes":
    """Shares of rows against T: above b(T), above the sharp b*(T), and those whose derivative has the sign.

    >>> import thermoset as ts
    >>> z = 4 * np.random.default_rng(0).normal(size=(50, 5))
    >>> _, (ax,) = figure(1)
    >>> plot_bound_share(ts.Logits(z), (0.5, 4.0), ax=ax, marks={"T = 1": 1.0}).get_legend_handles_labels()[1]
    ['derivative has the sign', 'margin above b*(T), sharp', "margin above b(T), the paper's"]
    """
    grid = np.linspace(*ends, 500)
    few = np.linspace(*ends, _SIGNS)
    few = few[few != 1]
    ax.plot(few, sign_share(data, few), color=COLOURS[0], linewidth=1.6, label="derivative has the sign")
    ax.plot(grid, sharp_share(data, grid), color=COLOURS[2], linewidth=2.0, label="margin above b*(T), sharp")
    ax.plot(
        grid, bound_share(data, grid), color=COLOURS[2], linewidth=1.1, linestyle="--",
        label="margin above b(T), the paper's",
    )  # fmt: skip
    mark_temperatures(ax, marks)
    ax.set(xlabel="temperature T", ylabel="share of rows", ylim=(0, 1.02))
    return ax


def plot_size_slopes(found: SizeSlopes, *, ax: "Axes") -> "Axes":
    """The two terms of the derivative of the mean set size, as sizes; where they cross the size peaks.

    >>> from thermoset.paper.theory import size_slopes
    >>> z, y = 4 * np.random.default_rng(0).normal(size=(50, 5)), np.arange(50) % 5
    >>> _, (ax,) = figure(1)
    >>> plot_size_slopes(size_slopes(z, y, [1, 2, 3]), ax=ax).get_legend_handles_labels()[1]
    ['scores fall: sets grow', 'threshold falls: sets shrink']
    """
    t = found.temperature
    ax.plot(t, found.direct, color=COLOURS[0], linewidth=2.0, label="scores fall: sets grow")
    ax.plot(
        t, -found.through_threshold, color=COLOURS[1], linewidth=2.0, linestyle="--",
        label="threshold falls: sets shrink",
    )  # fmt: skip
    mark_temperatures(ax, {f"T = {peak:.2g}": float(peak) for peak in found.peaks[:1]})
    largest = float(np.max([found.direct, -found.through_threshold], initial=0.0))
    ax.set(
        xlabel="temperature T",
        ylabel=f"change of {METRICS['avg_size'].title} per unit of T",
        ylim=(0, _HEADROOM * largest or 1),
    )
    return ax


def plot_class_gap(found: ClassCoverage, limit: RankLimit, *, ax: "Axes") -> "Axes":
    """Root mean square gap of class coverage against T, and where it ends as T grows.

    >>> from thermoset.paper.theory import class_coverage, rank_limit
    >>> z, y = 4 * np.random.default_rng(0).normal(size=(50, 5)), np.arange(50) % 5
    >>> _, (ax,) = figure(1)
    >>> plot_class_gap(class_coverage(z, y, [1, 2, 3]), rank_limit(z, y), ax=ax).get_ylabel()
    'class gap (root mean square)'
    """
    ax.plot(found.temperature, found.gap, color=SCORE_LOOKS["aps"].colour, linewidth=2.0, label="APS")
    ax.axhline(limit.gap, color=INK, linewidth=1.1, linestyle="--", label="limit for high T, from ranks alone")
    best = int(np.argmin([*found.gap, np.inf]))
    if 0 < best < len(found.gap) - 1:
        mark_temperatures(ax, {f"T = {found.temperature[best]:.2g}": float(found.temperature[best])})
    largest = max(*found.gap.tolist(), limit.gap, 0.0)
    ax.set(xlabel="temperature T", ylabel="class gap (root mean square)", ylim=(0, _HEADROOM * largest or 1))
    return ax


def bound_figure(n_classes: int | None = None) -> Figure:
    """Both bounds for 10, 100 and 1000 classes, and for the user's number if it is another.

    >>> len(bound_figure(209).axes[0].get_legend().get_texts())
    6
    """
    fig, (ax,) = figure(1)
    own = () if n_classes is None or n_classes in _PAPER_CLASSES else (n_classes,)
    plot_bound(sorted({*_PAPER_CLASSES, *own}), ax=ax)
    ax.set_title("Dots: minima of b, which the sharp bound does not have", loc="left", fontsize="small")
    ax.legend(frameon=False, loc="lower right", fontsize="small", ncols=2)
    return fig


def margins_figure(data: "Logits", temperature: float, alpha: float) -> Figure:
    """Margins of labelled rows in the order of their APS score, without and with temperature scaling.

    >>> import thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 300)
    >>> data = ts.Logits(3 * (rng.normal(size=(300, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> [ax.get_title(loc="left") for ax in margins_figure(data, 1.5, alpha=0.1).axes]
    ['scores at T = 1', 'scores at T = 1.5']
    """
    fig, panels = figure(2)
    row_margins = margins(data)
    for ax, t, colour in zip(panels, (1.0, temperature), COLOURS, strict=False):
        ordered = row_margins[score_order(data, temperature=t)]
        plot_by_score(ordered, ax=ax, ylabel="margin $\\Delta z$", quantile=1 - alpha, colour=colour)
        ax.set_title(f"scores at T = {t:.4g}", loc="left")
    _legend(panels[0], "upper left")
    return fig


def last_index_figure(data: "Logits", alpha: float, temperatures: Sequence[float] = (0.5, 1.5)) -> Figure:
    """Last index s_T of labelled rows in the order of their APS score at T = 1.

    >>> import thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 300)
    >>> data = ts.Logits(3 * (rng.normal(size=(300, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> len(last_index_figure(data, alpha=0.1, temperatures=[0.5, 1.0, 2.0]).axes)
    3
    """
    fig, panels = figure(len(temperatures))
    order = score_order(data)
    for ax, t, colour in zip(panels, temperatures, COLOURS, strict=False):
        indices = last_index(data, t)[order]
        plot_by_score(indices, ax=ax, ylabel="last index $s_T$", quantile=1 - alpha, colour=colour)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title(f"T = {t:g}: $s_T$ = 1 for {np.mean(indices == 1):.0%} of the rows", loc="left")
    _legend(panels[0], "center right")
    return fig


def share_figure(data: "Logits", ends: tuple[float, float], explanation: Explanation | None = None) -> Figure:
    """Shares of rows that the bounds apply to, and the measured mean set sizes, with the temperatures of both.

    >>> import thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 300)
    >>> data = ts.Logits(3 * (rng.normal(size=(300, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> [ax.get_ylabel() for ax in share_figure(data, (0.5, 5.0)).axes]
    ['share of rows']
    """
    critical = critical_temperature(data.n_classes)
    theory = {"minimum of b": critical} if ends[0] < critical < ends[1] else {}
    fig, panels = figure(1 if explanation is None else 2)
    marks = theory
    if explanation is not None:
        peak = explanation.peaks["aps"]
        temperatures = {**theory, **({} if peak.at_edge else {"APS peak": peak.temperature})}
        marks = dict(sorted(temperatures.items(), key=lambda mark: mark[1]))  # the first is named on its left
        title = f"{METRICS['avg_size'].title} (u drawn)"
        plot_sweep(explanation.curves, "avg_size", ax=panels[1], ylabel=title, marks=marks)
        panels[1].legend(frameon=False, loc="center right")
    plot_bound_share(data, ends, ax=panels[0], marks=marks)
    _legend_above(panels[0])
    return fig


def slopes_figure(explanation: Explanation) -> Figure:
    """What moves mean set sizes, with u integrated out, and how evenly classes are covered on the way.

    >>> from thermoset.paper.theory import explain
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 20, size=1000)
    >>> logits = 3 * (rng.normal(size=(1000, 20)) + 3 * np.eye(20)[labels])
    >>> fig = slopes_figure(explain(logits, labels, temperatures=[0.5, 1, 2, 4], trials=2))
    >>> [ax.get_xlabel() for ax in fig.axes]
    ['temperature T', 'temperature T']
    """
    fig, (left, right) = figure(2)
    plot_size_slopes(explanation.slopes, ax=left)
    plot_class_gap(explanation.classes, explanation.limit, ax=right)
    for ax in (left, right):
        _legend_above(ax)
    return fig


def _legend_above(ax: "Axes") -> None:
    """A legend over the panel, where it covers nothing."""
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2)


def _legend(ax: "Axes", place: Literal["upper left", "center right"]) -> None:
    """A legend, if there is something to explain: few rows have no running median."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, loc=place)
