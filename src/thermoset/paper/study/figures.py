"""The paper's figures, drawn from what was measured: one file each, with a legend that covers nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from thermoset import plots
from thermoset.arrays import Floats
from thermoset.data import Logits
from thermoset.looks import score_looks
from thermoset.metrics import METRICS
from thermoset.paper.study.measure import Measured, Settings
from thermoset.paper.study.pairs import PairStudy
from thermoset.paper.study.row_by_row import LowTemperatures, SizeDifferences
from thermoset.paper.study.rules import rule_label
from thermoset.plots.curve_figures import INK, note, plain_log_ticks
from thermoset.sweeping import Sweep, mean_over_trials, median_of_means, standard_error

_FIGURE_1 = ("avg_size", "top_coverage_gap", "threshold")
_PANELS = ("avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold")
_COSTS = ("avg_size", "marginal_coverage", "integrated_worst_tenth_coverage", "left_out_share", "top_coverage_gap")
_SYMBOLS = {"threshold": r" $\hat{q}$"}  # the paper's
_PANEL = (3.7, 2.7)
_TEMPERATURES = (0.3, 5.0)  # the paper's range
_FEW_BINS = 12  # whose numbers of rows can be written
_Style = Literal["-", "--", ":"]
_PLAIN: dict[str, tuple[str, _Style]] = {
    "float32": ("#8a949e", ":"),
    "float64": ("#4d565e", "--"),
}  # colours are scores


def captions(settings: Settings) -> dict[str, str]:
    """What each figure shows, by name of its file."""
    alpha, cp = settings.main
    return {
        **{
            f"curves-alpha-{level:g}": f"Appendix B.5, alpha = {level:g}: sizes, class gaps (medians of means) and "
            "mean thresholds against T, one column for each size of the CP set; the dotted line is T* of all rows"
            for level in settings.alphas
        },
        "reliability": f"Appendix B.3: reliability in {settings.ece_bins} bins before and after temperature scaling, "
        "on the rows that the T* (by ECE) of each trial was not fitted on; below, the number of rows in each bin",
        "differences": "Appendix B.4: set size at T* minus set size at T = 1, rows from the largest to the smallest "
        "difference, mean over trials "
        f"(alpha = {alpha:g}, CP {cp}%)",
        "margins": "Section 4: margins between the two largest logits, rows by increasing deterministic APS score",
        "last-index": "Section 4: last index s_T, rows by increasing deterministic APS score",
        "bound": "Section 4: the bound b(T) on the margin, and (an addition) the sharp bound b*(T)",
        "figure-1": f"Figure 1: {METRICS['avg_size'].title}, {METRICS['top_coverage_gap'].title} (medians of means) "
        "and mean threshold against T, one column for each file; the dotted line is T* of all rows, by ECE "
        f"(alpha = {alpha:g}, CP {cp}%)",
        "bound-share": "Section 4: share of rows whose margin is above the bounds, and whose derivative has the sign",
        "low-temperatures": "Appendix B.5: very low temperatures, with a plain softmax and with thermoset "
        f"(alpha = {alpha:g}, CP {cp}%)",
        "rules": f"All rules: size, coverage, and which rows lose (alpha = {alpha:g})",
        "single-trials": "Appendix C: curves of single trials, from calibration and CP rows alone "
        f"(alpha = {alpha:g}, CP {cp}%)",
    }


def drawn_figures(data: Logits, study: PairStudy) -> Mapping[str, Callable[[], Figure]]:
    """The figures by name, each drawn when called for: at most one is in memory."""
    measured, settings = study.measured, study.settings
    alpha, _ = settings.main
    curves = {f"curves-alpha-{level:g}": _curves_at(measured, settings, level) for level in settings.alphas}
    rules = {"rules": lambda: _rules(study)} if study.comparison.cells else {}
    return {
        **curves,
        **rules,
        "reliability": lambda: _reliability(measured),
        "differences": lambda: _differences(study.differences),
        "margins": lambda: plots.margins_figure(data, measured.ece, alpha),
        "last-index": lambda: plots.last_index_figure(data, alpha),
        "bound": lambda: plots.bound_figure(data.n_classes),
        "bound-share": lambda: plots.share_figure(data, _TEMPERATURES),
        "low-temperatures": lambda: _low(study.low, alpha),
        "single-trials": lambda: _single(study.comparison.single_trials),
    }


def figure_1(studies: Sequence[PairStudy]) -> Figure:
    """The paper's first figure: a column for each file."""
    settings = studies[0].settings
    alpha, cp = settings.main
    columns = [(study.title, study.measured, cp) for study in studies]
    return _curves(_FIGURE_1, columns, alpha, f"alpha = {alpha:g}; CP {cp}%; {settings.trials} random splits")


def _curves_at(measured: Measured, settings: Settings, alpha: float) -> Callable[[], Figure]:
    """A column for each size of the conformal set, the same height along a row."""
    columns = [(f"CP {cp}%", measured, cp) for cp in settings.cp_percents]
    below = f"alpha = {alpha:g}; {settings.trials} random splits"
    return lambda: _curves(_PANELS, columns, alpha, below, alike=True)


def _curves(
    metrics: Sequence[str],
    columns: Sequence[tuple[str, Measured, int]],
    alpha: float,
    below: str,
    *,
    alike: bool = False,
) -> Figure:
    """A row for each metric against T: medians of means, as the paper has them, and means of thresholds."""
    fig, panels = plots.figure(len(metrics) * len(columns), columns=len(columns), panel=_PANEL)
    for i, metric in enumerate(metrics):
        row = panels[i * len(columns) : (i + 1) * len(columns)]
        label = METRICS[metric].title + _SYMBOLS.get(metric, "")
        centre = mean_over_trials if metric == "threshold" else median_of_means
        for ax, (title, measured, cp) in zip(row, columns, strict=True):
            curves, marks = _at_level(measured.curves[cp], alpha), {"T*": measured.ece}
            plots.plot_sweep(curves, metric, ax=ax, ylabel=label, marks=marks, centre=centre)
            if i == 0:
                ax.set_title(title, loc="left", fontsize="medium", parse_math=False)
            if i < len(metrics) - 1:
                ax.set_xlabel("")
        if alike:
            _same_height(row)
    _legend_above(fig, panels[0])
    note(fig, f"{below}; bands: 2 standard errors")
    return fig


def _at_level(curves: Sweep, alpha: float) -> Sweep:
    a = curves.alphas.index(alpha)
    return replace(curves, alphas=(alpha,), trial_values=curves.trial_values[:, :, a : a + 1])


def _same_height(row: Sequence[Axes], headroom: float = 0.06) -> None:
    """The same limits for panels that are compared, with headroom for the names of marks."""
    low, high = min(ax.get_ylim()[0] for ax in row), max(ax.get_ylim()[1] for ax in row)
    for ax in row:
        ax.set_ylim(low, high + headroom * (high - low))


def _legend_above(fig: Figure, ax: Axes) -> None:
    """One legend for all panels, outside of them."""
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper left", ncols=len(labels), frameon=False)


def _reliability(measured: Measured) -> Figure:
    """Diagrams above, rows in the bins below them; both as an average trial has them."""
    fig, panels = plots.figure(4, columns=2, heights=(1.0, 0.42), panel=(3.8, 3.2))
    titles = "T = 1", f"T* (mean {measured.trial_ece.mean():.3f})"
    trials = min(len(measured.trial_ece), 100)
    for above, below, title, table in zip(panels[:2], panels[2:], titles, measured.reliability, strict=True):
        plots.plot_reliability(table, ax=above, title=title).legend_ = None  # one legend, outside
        above.set_xlabel("")
        plots.plot_confidence(replace(table, count=np.rint(table.count / trials).astype(np.int64)), ax=below)
        for bars in below.containers if len(table.count) <= _FEW_BINS else ():
            below.bar_label(cast("BarContainer", bars), fmt="{:,.0f}", fontsize="x-small", padding=1)
    _same_height(panels[2:], 0.12)
    _legend_above(fig, panels[0])
    rows = int(measured.reliability[0].count.sum()) // trials
    note(fig, f"{rows:,} rows that T* was not fitted on, in each of {trials} random splits")
    return fig


def _differences(differences: Sequence[SizeDifferences]) -> Figure:
    fig, panels = plots.figure(len(differences), panel=(4.6, 3.2))
    for ax, one, look in zip(panels, differences, score_looks([d.method for d in differences]), strict=True):
        share = (np.arange(len(one.mean_sorted)) + 0.5) / len(one.mean_sorted)
        ax.fill_between(share, one.mean_sorted, color=look.colour, alpha=0.15, linewidth=0)
        ax.plot(share, one.mean_sorted, color=look.colour, linewidth=1.8)
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.set(xlim=(0, 1), xlabel="share of rows, largest difference first", ylabel="size at T* minus size at T = 1")
        title = f"{one.method.upper()}: {one.grow:.0%} grow, {one.stay:.0%} stay, {one.shrink:.0%} shrink"
        ax.set_title(title, loc="left")
    note(fig, f"mean of {differences[0].trial_shares.shape[1]} random splits")
    return fig


def _low(low: LowTemperatures, alpha: float) -> Figure:
    """Sizes above, coverages below; a column for each method."""
    methods = low.ours.methods
    fig, panels = plots.figure(2 * len(methods), columns=len(methods), panel=_PANEL)
    looks = score_looks(methods)
    for i, metric in enumerate(("avg_size", "marginal_coverage")):
        row = panels[i * len(methods) : (i + 1) * len(methods)]
        for m, (ax, method) in enumerate(zip(row, methods, strict=True)):
            for kind, (colour, style) in _PLAIN.items():
                _band(ax, low.ours.temperatures, low.naive[kind][metric][m], colour, style, f"plain {kind}")
            ours = low.ours.of_trials(metric, method)
            _band(ax, low.ours.temperatures, ours, looks[m].colour, "-", "thermoset")
            ax.set(xscale="log", xlabel="temperature T" if i else "", ylabel=METRICS[metric].title)
            ax.xaxis.set_major_formatter("{x:g}")
            if metric == "marginal_coverage":
                ax.axhline(1 - alpha, color=INK, linewidth=0.8, linestyle=(0, (1, 3)))
            else:
                ax.set_yscale("log")
                ax.yaxis.set_major_formatter("{x:g}")
                ax.yaxis.set_minor_formatter("{x:g}" if np.ptp(np.log10(ax.get_ylim())) < 1 else NullFormatter())
                ax.set_title(method.upper(), loc="left")
        _same_height(row, 0.0)
    keys = [
        Line2D([], [], color=colour, linestyle=style, label=f"plain {kind}") for kind, (colour, style) in _PLAIN.items()
    ]
    keys.append(Line2D([], [], color=INK, label="thermoset (in the colour of the score)"))
    fig.legend(handles=keys, loc="outside upper left", ncols=len(keys), frameon=False)
    note(fig, f"{low.n_rows:,} rows; {low.ours.trials} random splits; bands: 2 standard errors")
    return fig


def _band(ax: Axes, t: Floats, values: Floats, colour: str, style: _Style, label: str) -> None:
    """A mean over trials and 2 standard errors around it, no further than any trial went."""
    mean, reach = values.mean(axis=-1), 2 * standard_error(values)
    low, high = np.maximum(mean - reach, values.min(axis=-1)), np.minimum(mean + reach, values.max(axis=-1))
    ax.plot(t, mean, style, color=colour, linewidth=1.8, label=label)
    ax.fill_between(t, low, high, color=colour, alpha=0.2, linewidth=0)


def _rules(study: PairStudy) -> Figure:
    """A line for each rule, in the colour of its score, and a panel for each thing that its sets cost or give."""
    alpha, middle = study.settings.main
    cp = max({cell.cp_percent or 0 for cell in study.comparison.cells}, key=lambda cp: (cp == middle, cp))
    rules = study.comparison.by_rule(cp)
    methods = list(dict.fromkeys(method for method, _ in rules))
    looks = dict(zip(methods, score_looks(methods), strict=True))
    fig, panels = plots.figure(len(_COSTS), columns=len(_COSTS), panel=(2.9, 0.26 * len(rules) + 0.9))
    for ax, metric in zip(panels, _COSTS, strict=True):
        for y, ((method, _), cells) in enumerate(rules.items()):
            cell, look = cells[metric], looks[method]
            ax.errorbar(cell.value, y, xerr=2 * np.nan_to_num(cell.standard_error), fmt=look.marker, color=look.colour)
        if metric.endswith("coverage"):
            ax.axvline(1 - alpha, color=INK, linewidth=0.8, linestyle=(0, (1, 3)))
        ax.set(ylim=(len(rules) - 0.5, -0.5), yticks=range(len(rules)), yticklabels=[])
        ax.set_xlabel(METRICS[metric].title.replace(", ", ",\n"))
        ax.grid(axis="y", alpha=0.3)
    panels[0].set_xscale("log")
    plain_log_ticks(panels[0], 4)
    panels[0].set_yticklabels([f"{method.upper()}, {rule_label('exact', at)}" for method, at in rules])
    note(fig, f"promised coverage {1 - alpha:.0%} (dotted), CP {cp}%; bars: 2 standard errors over random splits")
    return fig


def _single(curves: Sweep) -> Figure:
    """A row for each run, as in the paper: coverage gap, size and class gap."""
    runs = min(3, curves.trials)
    shown = ("marginal_coverage_gap", "avg_size", "top_coverage_gap")
    fig, panels = plots.figure(runs * len(shown), columns=len(shown), panel=_PANEL)
    for t in range(runs):
        one = replace(
            curves, trial_values=curves.trial_values[..., t : t + 1], absent_classes=curves.absent_classes[t : t + 1]
        )
        for ax, metric in zip(panels[t * len(shown) :], shown, strict=False):
            plots.plot_sweep(one, metric, ax=ax)
            ax.set_title(f"Run {t + 1}", loc="left")
    for i in range(len(shown)):
        _same_height(panels[i :: len(shown)])
    for ax in panels[: -len(shown)]:
        ax.set_xlabel("")
    _legend_above(fig, panels[0])
    note(fig, "each run is one split: thresholds from its CP rows, metrics on its calibration rows")
    return fig
