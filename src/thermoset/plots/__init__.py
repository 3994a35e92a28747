"""Pictures of tables: axes in, axes out. Needs the `plot` extra."""

from importlib.util import find_spec

from thermoset.errors import MissingExtraError

if find_spec("matplotlib") is None:
    raise MissingExtraError.of("matplotlib", "plot", "thermoset.plots")

from thermoset.looks import COLOURS, score_looks
from thermoset.plots.choice_figures import choice_figure, frontier_figure, plot_choice, plot_frontier
from thermoset.plots.curve_figures import (
    figure,
    inline,
    plot_class_coverage,
    plot_confidence,
    plot_reliability,
    plot_size_gap,
    plot_sweep,
    sweep_figure,
)
from thermoset.plots.theory_figures import (
    bound_figure,
    last_index_figure,
    margins_figure,
    plot_bound,
    plot_bound_share,
    plot_by_score,
    plot_class_gap,
    plot_size_slopes,
    share_figure,
    slopes_figure,
)

__all__ = [
    "COLOURS", "bound_figure", "choice_figure", "figure", "frontier_figure", "inline", "last_index_figure",
    "margins_figure", "plot_bound", "plot_bound_share", "plot_by_score", "plot_choice", "plot_class_coverage",
    "plot_class_gap", "plot_confidence", "plot_frontier", "plot_reliability", "plot_size_gap", "plot_size_slopes",
    "plot_sweep", "score_looks", "share_figure", "slopes_figure", "sweep_figure",
]  # fmt: skip
