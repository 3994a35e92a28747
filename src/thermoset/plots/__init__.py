"""Pictures of tables: axes in, axes out. Needs the `plot` extra."""

from thermoset.plots.curves import (
    COLOURS,
    choice_figure,
    figure,
    plot_choice,
    plot_reliability,
    plot_sweep,
    sweep_figure,
)
from thermoset.plots.theory import (
    bound_figure,
    critical_figure,
    last_index_figure,
    margins_figure,
    plot_bound,
    plot_bound_share,
    plot_by_score,
    plot_critical,
    share_figure,
)

__all__ = [
    "COLOURS",
    "bound_figure",
    "choice_figure",
    "critical_figure",
    "figure",
    "last_index_figure",
    "margins_figure",
    "plot_bound",
    "plot_bound_share",
    "plot_by_score",
    "plot_choice",
    "plot_critical",
    "plot_reliability",
    "plot_sweep",
    "share_figure",
    "sweep_figure",
]
