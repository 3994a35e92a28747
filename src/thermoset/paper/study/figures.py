"""The paper's figures, drawn from what was measured."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import NullFormatter, ScalarFormatter

from thermoset.calibration import confidence_and_loss
from thermoset.data import Logits
from thermoset.metrics import METRICS, reliability_from_confidence
from thermoset.paper.study.measure import Measured, Settings
from thermoset.paper.study.row_by_row import LowTemperatures, SizeDifferences
from thermoset.plots import (
    COLOURS,
    bound_figure,
    figure,
    last_index_figure,
    margins_figure,
    plot_reliability,
    plot_sweep,
)
from thermoset.sweeping import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CAPTIONS", "drawn_figures"]

_PANELS = ("avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold")
_SYMBOLS = {"threshold": r" $\hat{q}$"}  # the paper's
_NAMES = ("LAC", "APS", "RAPS")
CAPTIONS = {
    "curves": "Figure 1 and appendix B.5: sizes, class gaps and thresholds against T, by alpha and size of the CP set",
    "reliability": "Appendix B.3: reliability before and after temperature scaling (T* by ECE, all rows)",
    "differences": "Appendix B.4: set size at T* minus that at T = 1, rows in falling order, mean over trials",
    "margins": "Section 4: margins of the two largest logits, rows by rising deterministic APS score",
    "last-index": "Section 4: last index s_T, rows by rising deterministic APS score",
    "bound": "Section 4: the bound b(T) on the margin",
    "low-temperatures": "Appendix B.5: very low temperatures, by a plain softmax and as computed here",
    "single-trials": "Appendix C: curves of single trials from calibration and CP rows alone",
}
"""What each figure shows, by name of its file."""


def drawn_figures(
    data: Logits,
    found: Measured,
    differences: Sequence[SizeDifferences],
    low: LowTemperatures,
    single: Sweep,
    settings: Settings,
) -> Mapping[str, Callable[[], "Figure"]]:
    """The figures by name, each drawn when called for: at most one is in memory."""
    alpha = settings.alphas[0]
    return {
        "curves": lambda: _curves(found, settings),
        "reliability": lambda: _reliability(data, found, settings),
        "differences": lambda: _differences(differences),
        "margins": lambda: margins_figure(data, found.ece, alpha),
        "last-index": lambda: last_index_figure(data, alpha),
        "bound": lambda: bound_figure(data.n_classes),
        "low-temperatures": lambda: _low(low, alpha),
        "single-trials": lambda: _single(single),
    }


def _curves(found: Measured, settings: Settings) -> "Figure":
    """A column for each alpha and size of the conformal set, a row for each metric."""
    columns = [(alpha, cp) for alpha in settings.alphas for cp in settings.cp_percents]
    made, panels = figure(len(_PANELS) * len(columns), columns=len(columns))
    for i, metric in enumerate(_PANELS):
        for j, (alpha, cp) in enumerate(columns):
            ax = panels[i * len(columns) + j]
            one = _at_level(found.curves[cp], alpha)
            label = METRICS[metric].title + _SYMBOLS.get(metric, "")
            plot_sweep(one, metric, ax=ax, ylabel=label, marks={"T*": found.ece})
            if i == 0:
                ax.set_title(f"alpha = {alpha:g}, CP {cp}%", loc="left")
    panels[0].legend(frameon=False)
    return made


def _at_level(curves: Sweep, alpha: float) -> Sweep:
    a = curves.alphas.index(alpha)
    values = curves.trial_values[:, :, a : a + 1]
    axes = curves.methods, curves.temperatures, (alpha,), curves.metrics
    return Sweep(*axes, values, curves.absent_classes, curves.settings)


def _reliability(data: Logits, found: Measured, settings: Settings) -> "Figure":
    made, panels = figure(2)
    correct = data.logits.argmax(axis=1) == data.require_labels("the study")
    for ax, (title, t) in zip(panels, (("T = 1", 1.0), (f"T* = {found.ece:.3f}", found.ece)), strict=True):
        confidence, _ = confidence_and_loss(data, t)
        plot_reliability(reliability_from_confidence(confidence, correct, settings.ece_bins), ax=ax, title=title)
    return made


def _differences(differences: Sequence[SizeDifferences]) -> "Figure":
    made, panels = figure(len(differences))
    for ax, one, colour in zip(panels, differences, COLOURS[1:], strict=False):
        share = np.arange(len(one.mean_sorted)) / len(one.mean_sorted)
        ax.plot(share, one.mean_sorted, color=colour, linewidth=1.8)
        ax.axhline(0, color="#333333", linewidth=0.8)
        ax.set(xlabel="share of the rows, by falling difference", ylabel="size at T* minus size at T = 1")
        title = f"{one.method.upper()}: {one.grow:.0%} grow, {one.stay:.0%} stay, {one.shrink:.0%} shrink"
        ax.set_title(title, loc="left")
    return made


def _low(low: LowTemperatures, alpha: float) -> "Figure":
    """Sizes above, coverages below; a column for each method."""
    made, panels = figure(2 * len(_NAMES), columns=len(_NAMES))
    styles = {"float32": (COLOURS[1], ":"), "float64": (COLOURS[3], "--")}
    for i, metric in enumerate(("avg_size", "marginal_coverage")):
        for m, name in enumerate(_NAMES):
            ax = panels[i * len(_NAMES) + m]
            for kind, (colour, style) in styles.items():
                values = low.naive[kind][metric][m]
                ax.plot(low.ours.temperatures, values, style, color=colour, linewidth=1.8, label=f"plain {kind}")
            ours = low.ours.curve(metric, low.ours.methods[m])
            ax.plot(low.ours.temperatures, ours, color=COLOURS[2], linewidth=1.8, label="thermoset")
            ax.set_xscale("log")
            ax.set(xlabel="temperature T", ylabel=METRICS[metric].title)
            if metric == "avg_size":
                ax.set_yscale("log")
                ax.yaxis.set_major_formatter(ScalarFormatter())
                ax.yaxis.set_minor_formatter(
                    ScalarFormatter() if np.ptp(np.log10(ax.get_ylim())) < 1 else NullFormatter()
                )
                ax.set_title(name, loc="left")
            else:
                ax.axhline(1 - alpha, color="#333333", linewidth=0.8, linestyle=":")
    panels[0].legend(frameon=False)
    return made


def _single(curves: Sweep) -> "Figure":
    """A row for each run, as in the paper: coverage gap, size and class gap."""
    runs = min(3, curves.trials)
    shown = ("marginal_coverage_gap", "avg_size", "top_coverage_gap")
    made, panels = figure(runs * len(shown), columns=len(shown))
    for t in range(runs):
        values = curves.trial_values[..., t : t + 1]
        axes = curves.methods, curves.temperatures, curves.alphas, curves.metrics
        one = Sweep(*axes, values, curves.absent_classes[t : t + 1], curves.settings)
        for i, metric in enumerate(shown):
            ax = panels[t * len(shown) + i]
            plot_sweep(one, metric, ax=ax)
            if metric == "marginal_coverage_gap":
                ax.set_ylim(0, 0.1)
            ax.set_title(f"Run {t + 1}", loc="left")
    panels[0].legend(frameon=False)
    return made
