"""What one could have instead of the choice: size against the coverage of hard classes, and against the class gap."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from thermoset.core.exponentials import Floats
from thermoset.errors import InputError
from thermoset.notebook import names_beside
from thermoset.plots.curve_figures import BEHIND_TEXT, INK, figure, score_looks
from thermoset.tuning import Choice, Outlook
from thermoset.tuning.alternatives import Alternative, front, settings_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["frontier_figure", "plot_frontier"]

Shown = Literal["worst_tenth", "class_gap"]

_METRICS: tuple[Shown, ...] = ("worst_tenth", "class_gap")
_TITLES = {"worst_tenth": "Hard classes", "class_gap": "Evenness"}
_LABELS = {"worst_tenth": "coverage of the worst tenth of classes", "class_gap": "class gap"}
_REACH = 1.96  # standard errors of a 95% interval
_WIDE = 8  # sizes that span more than this need a logarithmic axis
_PANEL = (4.9, 4.1)  # inches
_INNER = (298.0, 190.0)  # points of a panel inside its axes, about
_ALONG_BAR = 9  # places on a bar that names are kept off
_MARGIN = 0.07  # of a panel, left free around the points


def plot_frontier(choice: Choice, metric: Shown, *, ax: "Axes") -> "Axes":
    """Labels in a set against a metric, a point for each setting; the front is joined, the recommended one ringed.

    Intervals: 95% for sizes and class gaps, 90% for the worst tenth. Named settings are large and named, the other
    members of the front small. Hollow ones have a threshold for each class or cluster of classes.
    """
    shown = _known(choice, metric)
    if not shown:
        raise InputError(f"there is nothing to draw: no setting of the frontier of this choice has a {metric}.")
    frame = _Frame(choice, shown, metric)
    frame.set_limits(ax)
    line = front([one.outlook for one in shown], metric)
    ax.plot([at.size for at in line], [getattr(at, metric) for at in line], color=INK, linewidth=0.8, zorder=1)
    looks = _looks(choice)
    for one in shown:
        _draw(ax, one, metric, looks[_score(one.outlook)])
    target = _target(choice, metric)
    if target is not None:
        ax.axhline(target, color=INK, linewidth=0.9, linestyle="--", zorder=0)
        ax.annotate(
            f"target {target:g}", (0, target), xycoords=("axes fraction", "data"), xytext=(3, 2),
            textcoords="offset points", va="bottom", color=INK, fontsize="small", bbox=BEHIND_TEXT,
        )  # fmt: skip
    _name(ax, shown, metric, frame)
    ax.set(xlabel="labels in a set", ylabel=_LABELS[metric])
    return ax


def frontier_figure(choice: Choice) -> Figure:
    """Size against the coverage of the worst tenth of classes, and against the class gap, with one legend for both."""
    metrics = [metric for metric in _METRICS if _known(choice, metric)]
    if not metrics:
        raise InputError("this choice has no frontier: fit the predictor anew with this version of thermoset.")
    made, panels = figure(len(metrics), panel=_PANEL)
    for ax, metric in zip(panels, metrics, strict=True):
        plot_frontier(choice, metric, ax=ax).set_title(_TITLES[metric], loc="left")
    made.legend(handles=_key(choice), loc="outside upper center", ncols=6, frameon=False)
    made.supxlabel(
        f"recommended: {choice.setting.title}; estimated on {choice.n_rows:,} calibration rows; prefer {choice.prefer}\n"
        "bars: 95% for labels and the class gap, 90% for the worst tenth",
        fontsize="small",
        color=INK,
    )
    return made


def _known(choice: Choice, metric: Shown) -> list[Alternative]:
    return [one for one in settings_of(choice) if getattr(one.outlook, metric) is not None and one.outlook.size > 0]


def _target(choice: Choice, metric: Shown) -> float | None:
    target = getattr(choice.preference, "target", None)
    return None if target is None or metric != "worst_tenth" else float(target)


def _score(at: Outlook) -> str:
    """The score without its parameters: variants look alike."""
    return at.setting.method.title.partition("(")[0]


def _looks(choice: Choice) -> dict[str, tuple[str, str]]:
    scores = sorted({_score(one.outlook) for one in settings_of(choice)})
    return dict(zip(scores, score_looks([score.lower() for score in scores]), strict=True))


def _draw(ax: "Axes", one: Alternative, metric: Shown, look: tuple[str, str]) -> None:
    at, (colour, marker) = one.outlook, look
    value, ends = getattr(at, metric), getattr(at, f"{metric}_ends")
    reach = None if at.size_error is None else _REACH * at.size_error
    ax.errorbar(
        at.size, value, xerr=reach, yerr=None if ends is None else [[value - ends[0]], [ends[1] - value]],
        color=colour, fmt=marker, markersize=8 if one.names else 4, markeredgewidth=1.5 if one.names else 0.8,
        markerfacecolor=colour if at.setting.grouping is None else "white",
        elinewidth=1.2 if one.names else 0.6, alpha=1 if one.names else 0.6, zorder=3 if one.names else 2,
    )  # fmt: skip
    if one.chosen:
        ax.plot(
            at.size, value, marker="o", markersize=17, markerfacecolor="none", markeredgecolor=INK, markeredgewidth=2,
            zorder=4,
        )  # fmt: skip


class _Frame:
    """Limits around all points and intervals, and where points lie as parts of the panel, from the left and the top."""

    def __init__(self, choice: Choice, shown: Sequence[Alternative], metric: Shown) -> None:
        sizes = [one.outlook.size for one in shown]
        self.is_log = max(sizes) > _WIDE * min(sizes)
        values = [end for one in shown for end in _interval(one.outlook, metric)]
        target = _target(choice, metric)
        self._across = _around(np.log(sizes) if self.is_log else np.array(sizes))
        self._along = _around(np.array(values if target is None else [*values, target]))

    def set_limits(self, ax: "Axes") -> None:
        if self.is_log:
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlim(*(np.exp(self._across) if self.is_log else self._across))
        ax.set_ylim(*self._along)

    def place(self, size: float, value: float) -> tuple[float, float]:
        (left, right), (bottom, top) = self._across, self._along
        x = float(np.log(size)) if self.is_log else size
        return float((x - left) / (right - left)), float((top - value) / (top - bottom))


def _interval(at: Outlook, metric: Shown) -> tuple[float, float]:
    value: float = getattr(at, metric)
    ends: tuple[float, float] | None = getattr(at, f"{metric}_ends")
    return (value, value) if ends is None else ends


def _around(values: Floats) -> Floats:
    low, high = float(values.min()), float(values.max())
    room = _MARGIN * ((high - low) or abs(high) or 1.0)
    return np.array([low - room, high + room])


def _name(ax: "Axes", shown: Sequence[Alternative], metric: Shown, frame: _Frame) -> None:
    """Names beside the points, where they cover nothing; the recommended one's is bold."""
    named = {one.name: one.outlook for one in shown if one.names}
    spots = {name: frame.place(at.size, getattr(at, metric)) for name, at in named.items()}
    bars = [
        frame.place(one.outlook.size, float(value))
        for one in shown
        for value in np.linspace(*_interval(one.outlook, metric), _ALONG_BAR)
    ]
    for at in names_beside(spots, bars, [_INNER]):
        chosen = named[at.name].setting == shown[0].outlook.setting and shown[0].chosen
        ax.annotate(
            at.name, (named[at.name].size, getattr(named[at.name], metric)), xytext=(at.right, -at.down),
            textcoords="offset points", ha=at.align, va="center", color=INK, fontsize="small",
            fontweight="bold" if chosen else "normal", bbox=BEHIND_TEXT, zorder=5,
        )  # fmt: skip


def _key(choice: Choice) -> list[Line2D]:
    """Scores, and what a ring and hollow marks mean."""
    handles = [
        Line2D([], [], linestyle="", color=colour, marker=marker, label=score)
        for score, (colour, marker) in _looks(choice).items()
    ]
    grouped = any(one.outlook.setting.grouping is not None for one in settings_of(choice))
    hollow = Line2D([], [], linestyle="", marker="o", markerfacecolor="white", markeredgecolor=INK)
    hollow.set_label("thresholds by class or cluster")
    ring = Line2D([], [], linestyle="", marker="o", markersize=12, markerfacecolor="none", markeredgecolor=INK)
    ring.set_label("recommended")
    ring.set_markeredgewidth(2)
    return [*handles, *([hollow] if grouped else []), ring]
