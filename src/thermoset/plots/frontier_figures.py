"""What one could have instead: size against the coverage of hard classes (or groups), and against their gap."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from thermoset.errors import InputError
from thermoset.looks import Look, score_looks
from thermoset.notebook import PanelAxis, names_of_points
from thermoset.plots.curve_figures import BEHIND_TEXT, INK, figure
from thermoset.tuning import Choice, Outlook
from thermoset.tuning.choice import (
    FRONTS,
    Alternative,
    Front,
    drawable,
    front,
    front_titles,
    settings_of,
    target_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["frontier_figure", "plot_frontier"]

_WIDE = 8  # sizes that span more than this need a logarithmic axis
_PANEL = (4.9, 4.1)  # inches
_INNER = (298.0, 190.0)  # points of a panel inside its axes, about


def plot_frontier(choice: Choice, metric: Front, *, ax: "Axes") -> "Axes":
    """Labels in a set against a metric, a point for each setting; the front is joined, the recommended one ringed.

    Intervals: 95% for sizes and class gaps, 90% for the worst tenth. Named settings are large and named, the other
    members of the front small. Hollow ones have a threshold for each class or cluster of classes.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 800)
    >>> predictor = ts.TwoTemperaturePredictor().fit(3 * (rng.normal(size=(800, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> _, (ax,) = figure(1)
    >>> plot_frontier(predictor.choice_, "class_gap", ax=ax).get_xlabel()
    'labels in a set'
    """
    shown = drawable(choice, metric)
    if not shown:
        raise InputError(f"there is nothing to draw: no setting on the frontier of this choice has a {metric}.")
    target = target_of(choice, metric)
    across = PanelAxis([end for one in shown for end in (one.outlook.size, *one.size_interval) if end > 0], _WIDE)
    along = PanelAxis([*(end for one in shown for end in one.interval(metric)), *([] if target is None else [target])])
    _set_limits(ax, across, along)
    line = front([one.outlook for one in shown], metric)
    ax.plot([at.size for at in line], [getattr(at, metric) for at in line], color=INK, linewidth=0.8, zorder=1)
    looks = _looks(choice)
    for one in shown:
        _draw(ax, one, metric, looks[_score(one.outlook)])
    if target is not None:
        ax.axhline(target, color=INK, linewidth=0.9, linestyle="--", zorder=0)
        ax.annotate(
            f"target {target:g}", (0, target), xycoords=("axes fraction", "data"), xytext=(3, 2),
            textcoords="offset points", va="bottom", color=INK, fontsize="small", bbox=BEHIND_TEXT,
        )  # fmt: skip
    _name(ax, shown, metric, (across, along))
    ax.set(xlabel="labels in a set", ylabel=front_titles(choice)[metric])
    return ax


def frontier_figure(choice: Choice) -> Figure:
    """Size against the coverage of the worst tenth of classes (or groups), and against their gap, with one legend.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 800)
    >>> predictor = ts.TwoTemperaturePredictor().fit(3 * (rng.normal(size=(800, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> [ax.get_ylabel() for ax in frontier_figure(predictor.choice_).axes]
    ['coverage of the worst tenth of classes', 'class gap']
    """
    metrics = [metric for metric in FRONTS if drawable(choice, metric)]
    if not metrics:
        raise InputError("this choice has no frontier. Fit with one threshold for all classes and a built-in score.")
    made, panels = figure(len(metrics), panel=_PANEL)
    titles: dict[Front, str] = {"worst_tenth": f"Hard {choice.words.many}", "class_gap": "Evenness"}
    for ax, metric in zip(panels, metrics, strict=True):
        plot_frontier(choice, metric, ax=ax).set_title(titles[metric], loc="left")
    made.legend(handles=_key(choice), loc="outside upper center", ncols=6, frameon=False)
    made.supxlabel(
        f"recommended: {choice.setting.title}; estimated on {choice.n_rows:,} calibration rows; prefer "
        f"{choice.prefer}\n"
        f"bars: 95% for labels and the {choice.words.gap}, 90% for the worst tenth",
        fontsize="small",
        color=INK,
    )
    return made


def _set_limits(ax: "Axes", across: PanelAxis, along: PanelAxis) -> None:
    if across.is_log:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlim=across.ends, ylim=along.ends)


def _score(at: Outlook) -> str:
    """The score without its parameters: variants look alike."""
    return at.setting.method.title.partition("(")[0]


def _looks(choice: Choice) -> dict[str, Look]:
    scores = sorted({_score(one.outlook) for one in settings_of(choice)})
    return dict(zip(scores, score_looks(scores), strict=True))


def _draw(ax: "Axes", one: Alternative, metric: Front, look: Look) -> None:
    at = one.outlook
    value: float = getattr(at, metric)
    low, high = one.interval(metric)
    left, right = one.size_interval
    ax.errorbar(
        at.size, value, xerr=[[at.size - left], [right - at.size]],
        yerr=[[max(value - low, 0)], [max(high - value, 0)]],
        color=look.colour, fmt=look.marker, markersize=8 if one.names else 4, markeredgewidth=1.5 if one.names else 0.8,
        markerfacecolor=look.colour if at.setting.grouping is None else "white",
        elinewidth=1.2 if one.names else 0.6, alpha=1 if one.names else 0.6, zorder=3 if one.names else 2,
    )  # fmt: skip
    if one.chosen:
        ax.plot(
            at.size, value, marker="o", markersize=17, markerfacecolor="none", markeredgecolor=INK, markeredgewidth=2,
            zorder=4,
        )  # fmt: skip


def _name(ax: "Axes", shown: Sequence[Alternative], metric: Front, axes: tuple[PanelAxis, PanelAxis]) -> None:
    """Names beside the points, where they cover nothing; the recommended one's is bold."""
    named = {one.name: one for one in shown if one.names}
    points = {name: (one.outlook.size, getattr(one.outlook, metric)) for name, one in named.items()}
    bars = [bar for one in shown for bar in one.bars(metric)]
    for at in names_of_points(points, bars, axes, [_INNER]):
        ax.annotate(
            at.name, points[at.name], xytext=(at.right, -at.down), textcoords="offset points", ha=at.align, va="center",
            color=INK, fontsize="small", fontweight="bold" if named[at.name].chosen else "normal", bbox=BEHIND_TEXT,
            zorder=5,
        )  # fmt: skip


def _key(choice: Choice) -> list[Line2D]:
    """Scores, and what a ring and hollow marks mean."""
    handles = [
        Line2D([], [], linestyle="", color=look.colour, marker=look.marker, label=score)
        for score, look in _looks(choice).items()
    ]
    grouped = any(one.outlook.setting.grouping is not None for one in settings_of(choice))
    hollow = Line2D([], [], linestyle="", marker="o", markerfacecolor="white", markeredgecolor=INK)
    hollow.set_label("thresholds by class or cluster")
    ring = Line2D([], [], linestyle="", marker="o", markersize=12, markerfacecolor="none", markeredgecolor=INK)
    ring.set_label("recommended")
    ring.set_markeredgewidth(2)
    return [*handles, *([hollow] if grouped else []), ring]
