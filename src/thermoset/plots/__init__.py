"""Pictures of tables: axes in, axes out. Needs the `plot` extra."""

from thermoset.plots.curves import COLOURS, figure, plot_reliability, plot_sweep, sweep_figure

__all__ = ["COLOURS", "figure", "plot_reliability", "plot_sweep", "sweep_figure"]
