"""What a choice rests on, against temperature, and what one could have instead of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from thermoset.errors import InputError
from thermoset.looks import Look, PanelAxis, names_aside, score_looks
from thermoset.plots.curve_figures import INK, figure, mark_temperatures, note
from thermoset.tuning import Choice, Outlook
from thermoset.tuning.choice import (
    FRONTS,
    Alternative,
    Front,
    drawable,
    front,
    front_titles,
    is_stricter,
    settings_of,
    target_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDE = 8  # sizes that span more than this need a logarithmic axis
_PANEL = (5.6, 4.1)  # inches
_NAME_GAP = 0.06  # from one name to the next, in parts of the height of a panel


def plot_choice(
    choice: Choice, curve: Literal["size", "class_gap"], *, ax: "Axes", marks: Mapping[str, float]
) -> "Axes":
    """What sets show against temperature, at the level of the threshold: expected size with its 95% band, or class gap.

    The ring is the choice, with its 95% interval.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 800)
    >>> predictor = ts.TwoTemperaturePredictor().fit(3 * (rng.normal(size=(800, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> _, (ax,) = figure(1)
    >>> plot_choice(predictor.choice_, "size", ax=ax, marks={"T = 1": 1.0}).get_ylabel()
    'labels in a set'
    """
    estimates, at, (look,) = choice.curve, choice.outlook, score_looks([choice.setting.method.name])
    t, values = np.array(estimates.temperatures), getattr(estimates, curve)
    if values is None:
        raise InputError("the class gap of this choice is not known: its sets have no closed form, or own thresholds.")
    ax.plot(t, values, color=look.colour, linewidth=1.8)
    if curve == "size":
        reach = 1.96 * np.array(estimates.size_error)
        ax.fill_between(t, values - reach, values + reach, color=look.colour, alpha=0.2, linewidth=0)
    value, ends = (at.size, at.size_ends) if curve == "size" else (at.class_gap, at.class_gap_ends)
    if value is not None:
        ax.vlines(at.temperature, *(ends or (value, value)), color=look.colour, linewidth=1.4, zorder=3)
        ax.plot(at.temperature, value, marker=look.marker, color=look.colour, markersize=8, zorder=3)
        ax.plot(at.temperature, value, marker="o", markersize=15, markerfacecolor="none", markeredgecolor=INK, zorder=3)
    if t[-1] > 20 * t[0]:
        ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    mark_temperatures(ax, {name: mark for name, mark in marks.items() if t[0] <= mark <= t[-1]})
    ax.set(xlabel="temperature T", ylabel="labels in a set" if curve == "size" else choice.words.gap)
    return ax


def choice_figure(choice: Choice, calibrated: float) -> Figure:
    """Set size and class (or group) gap against temperature, with T = 1, T*, T-hat and the size peak T_c marked.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 800)
    >>> predictor = ts.TwoTemperaturePredictor().fit(3 * (rng.normal(size=(800, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> [ax.get_ylabel() for ax in choice_figure(predictor.choice_, predictor.temperature_).axes]
    ['labels in a set', 'class gap']
    """
    uneven = f"Unevenness of {choice.words.one} coverage"
    titles: dict[Literal["size", "class_gap"], str] = {"size": "Size"}
    titles |= {} if choice.curve.class_gap is None else {"class_gap": uneven}
    fig, panels = figure(len(titles))
    marks = {"T = 1": 1.0, "T*": calibrated, r"$\hat{T}$": choice.temperature}
    if choice.peak is not None and not is_stricter(choice):  # the peak is that of the promised level
        marks["$T_c$"] = choice.peak
    for ax, (curve, title) in zip(panels, titles.items(), strict=True):
        plot_choice(choice, curve, ax=ax, marks=marks).set_title(title, loc="left")
    level = f"alpha = {choice.curve.alpha}" + (f", promised {choice.alpha}" if is_stricter(choice) else "")
    note(
        fig,
        f"{choice.setting.kind}, {level}; estimated on {choice.n_rows:,} calibration rows; prefer {choice.prefer}\n"
        "ring: the choice; band and bars: 95%",
    )
    return fig


def plot_frontier(choice: Choice, metric: Front, *, ax: "Axes") -> "Axes":
    """Labels in a set against a metric, a point for each setting; the front is joined, the recommended one ringed.

    Intervals: 95% for sizes and class gaps, 90% for the worst tenth. Named settings are large, with their names next to
    the panel; the other members of the front are small. Hollow ones have a threshold for each class or cluster.

    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, 800)
    >>> predictor = ts.TwoTemperaturePredictor().fit(3 * (rng.normal(size=(800, 4)) + 2 * np.eye(4)[labels]), labels)
    >>> _, (ax,) = figure(1)
    >>> plot_frontier(predictor.choice_, "class_gap", ax=ax).get_xlabel()
    'labels in a set'
    """
    shown, target = drawable(choice, metric), target_of(choice, metric)
    if not shown:
        raise InputError(f"there is nothing to draw: no setting on the frontier of this choice has a {metric}.")
    across = PanelAxis([end for one in shown for end in (one.outlook.size, *one.size_interval) if end > 0], _WIDE)
    along = PanelAxis([*(end for one in shown for end in one.interval(metric)), *([] if target is None else [target])])
    if across.is_log:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlim=across.ends, ylim=along.ends, xlabel="labels in a set", ylabel=front_titles(choice)[metric])
    line = front([one.outlook for one in shown], metric)
    ax.plot([at.size for at in line], [getattr(at, metric) for at in line], color=INK, linewidth=0.8, zorder=1)
    looks = _looks(choice)
    for one in shown:
        _draw(ax, one, metric, looks[_score(one.outlook)])
    named = {one.name: one for one in shown if one.names}
    points = {name: (one.outlook.size, float(getattr(one.outlook, metric))) for name, one in named.items()}
    if target is not None:
        ax.axhline(target, color=INK, linewidth=0.9, linestyle="--", zorder=0)
        points[f"target {target:g}"] = (across.value(1), target)
    for name in names_aside(points, along, _NAME_GAP):
        edge = (1.02, along.part(name.name_y))
        chosen = name.name in named and named[name.name].chosen
        ax.annotate(
            name.name.replace("T-hat", r"$\hat{T}$"), (name.x, name.y), xytext=edge, textcoords=ax.transAxes,
            ha="left", va="center", color=INK, fontsize="small", fontweight="bold" if chosen else "normal",
            annotation_clip=False, arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.5, "linestyle": ":"},
        )  # fmt: skip
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
    fig, panels = figure(len(metrics), panel=_PANEL)
    titles: dict[Front, str] = {"worst_tenth": f"Hard {choice.words.many}", "class_gap": "Evenness"}
    for ax, metric in zip(panels, metrics, strict=True):
        plot_frontier(choice, metric, ax=ax).set_title(titles[metric], loc="left")
    fig.legend(handles=_key(choice), loc="outside upper center", ncols=6, frameon=False)
    note(
        fig,
        f"recommended: {choice.setting.title}; estimated on {choice.n_rows:,} calibration rows; prefer "
        f"{choice.prefer}\nbars: 95% for labels and the {choice.words.gap}, 90% for the worst tenth",
    )
    return fig


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
