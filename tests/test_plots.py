"""Figures draw what the table says."""

import numpy as np
import pytest

from parts import require
from thermoset.metrics import reliability_from_confidence
from thermoset.monitor.check import yardstick
from thermoset.sweeping import Sweep

require("matplotlib", "plot")

from thermoset import plots  # noqa: E402  (needs matplotlib)


def test_reliability_bars_are_the_accuracies_and_the_title_the_ece():
    table = reliability_from_confidence([0.55, 0.65, 0.95, 0.95], [True, False, True, True], n_bins=10)
    _, (ax,) = plots.figure(1)
    assert plots.plot_reliability(table, ax=ax, title="T = 1") is ax
    accuracy, gap = ax.containers
    assert [bar.get_height() for bar in accuracy] == [1.0, 0.0, 1.0]
    assert [bar.get_height() for bar in gap] == pytest.approx([0.45, 0.65, 0.05])
    assert ax.get_title(loc="left") == f"T = 1: ECE {table.ece:.3f}"


def swept(methods=("lac", "aps"), alphas=(0.1,), temperatures=(0.5, 1.0, 2.0), trials=4):
    metrics = ("avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold")
    shape = (len(methods), len(temperatures), len(alphas), len(metrics), trials)
    values = np.random.default_rng(0).random(shape)
    return Sweep(methods, np.array(temperatures), alphas, metrics, values, np.zeros(trials, dtype=int), {})


def test_a_sweep_is_drawn_as_means_with_bands_of_two_standard_errors():
    sweep = swept()
    _, (ax,) = plots.figure(1)
    assert plots.plot_sweep(sweep, "avg_size", ax=ax, ylabel="AvgSize") is ax
    lines = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    assert list(lines) == ["LAC", "APS"]
    assert lines["APS"].get_xdata().tolist() == [0.5, 1.0, 2.0]
    assert lines["APS"].get_ydata().tolist() == sweep.curve("avg_size", "aps").tolist()
    trials = sweep.of_trials("avg_size", "aps")
    edges = np.unique(ax.collections[1].get_paths()[0].vertices[:, 1].round(12))
    error = trials.std(axis=1, ddof=1) / 2  # square root of 4 trials
    want = np.concatenate([trials.mean(axis=1) - 2 * error, trials.mean(axis=1) + 2 * error])
    assert np.sort(edges) == pytest.approx(np.sort(want))
    assert ax.get_xscale() == "linear"


def test_alphas_are_line_styles_and_methods_colours():
    sweep = swept(methods=("lac", "aps", "raps(penalty=0.1)"), alphas=(0.1, 0.05))
    _, (ax,) = plots.figure(1)
    plots.plot_sweep(sweep, "threshold", ax=ax, ylabel="threshold")
    lines = [line for line in ax.lines if not line.get_label().startswith("_")]
    assert lines[-1].get_label() == "RAPS(penalty=0.1), alpha = 0.05"
    assert len({line.get_color() for line in lines}) == 3
    assert lines[0].get_color() == lines[1].get_color()
    assert lines[0].get_linestyle() != lines[1].get_linestyle()
    assert lines[0].get_linestyle() == lines[2].get_linestyle()


def test_wide_grids_are_drawn_on_a_logarithmic_axis():
    _, (ax,) = plots.figure(1)
    plots.plot_sweep(swept(temperatures=(0.01, 1.0, 5.0)), "avg_size", ax=ax, ylabel="AvgSize")
    assert ax.get_xscale() == "log"


@pytest.mark.parametrize("n_alphas", [1, 2])
def test_the_figure_of_a_sweep_has_four_panels_and_one_legend_beside_them(n_alphas):
    made = plots.sweep_figure(swept(alphas=(0.1, 0.2)[:n_alphas]))
    assert [ax.get_ylabel() for ax in made.axes] == ["AvgSize", "TopCovGap", "AvgCovGap", "threshold"]
    assert all(ax.get_legend() is None for ax in made.axes)
    (legend,) = made.legends
    want = ["LAC", "APS"] + (["alpha = 0.1", "alpha = 0.2"] if n_alphas == 2 else [])
    assert [text.get_text() for text in legend.get_texts()] == want
    made.draw_without_rendering()
    top = max(ax.get_tightbbox().y1 for ax in made.axes)
    assert legend.get_window_extent().y0 >= top - 1, "the legend covers a panel"


def test_one_trial_many_methods_and_infinite_thresholds_can_be_drawn():
    sweep = swept(methods=tuple(f"raps(k_reg={k})" for k in range(9)), trials=1)
    sweep.trial_values[:, :, :, 3] = np.inf
    made = plots.sweep_figure(sweep)
    made.draw_without_rendering()
    assert len(made.axes) == 4


def test_marks_are_named_and_those_outside_the_grid_left_out():
    _, (ax,) = plots.figure(1)
    plots.plot_sweep(swept(), "avg_size", ax=ax, ylabel="AvgSize", marks={"T*": 1.5, "far": 9.0})
    assert [text.get_text() for text in ax.texts] == ["T*"]
    assert [line.get_xdata()[0] for line in ax.lines if line.get_label().startswith("_")] == [1.5]


@pytest.mark.parametrize("temperatures", [(0.5, 1.0, 5.0), (0.1, 1.0, 5.0)], ids=["linear", "logarithmic"])
def test_names_of_marks_never_cover_each_other(temperatures):
    made, (ax,) = plots.figure(1)
    marks = {"T = 1": 1.0, "T*": 1.04, "theory": 1.2, r"$\hat{T}$": 1.5, "$T_c$": 1.5, "T_a": 4.5}
    plots.plot_sweep(swept(temperatures=temperatures), "avg_size", ax=ax, ylabel="AvgSize", marks=marks)
    made.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == 5, "names of one temperature stand together"
    assert not any(box.overlaps(other) for i, box in enumerate(boxes) for other in boxes[:i])


def every_figure():
    """Each function that draws a figure of the report, with something to draw."""
    table = reliability_from_confidence([0.55, 0.65, 0.95, 0.95], [True, False, True, True], n_bins=10)
    coverage = yardstick(np.array([100, 0, 400, 50]), np.array([95, 0, 200, 45]), promised=0.9)
    return {
        "reliability": lambda ax: plots.plot_reliability(table, ax=ax, title="T = 1"),
        "confidence": lambda ax: plots.plot_confidence(table, ax=ax),
        "sweep": lambda ax: plots.plot_sweep(swept(), "avg_size", ax=ax, ylabel="AvgSize"),
        "size_gap": lambda ax: plots.plot_size_gap(swept(), ax=ax, chosen=1.0),
        "class_coverage": lambda ax: plots.plot_class_coverage(coverage, ax=ax),
    }


@pytest.mark.parametrize("name", every_figure())
def test_figures_save_as_png_pdf_and_svg(name, tmp_path):
    made, (ax,) = plots.figure(1)
    assert every_figure()[name](ax) is ax
    for kind, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        made.savefig(tmp_path / f"f.{kind}")
        assert (tmp_path / f"f.{kind}").read_bytes().startswith(magic)


def test_sizes_on_a_logarithmic_axis_have_ticks_one_can_read():
    for scale in (1.0, 100.0):
        sweep = swept(methods=("aps",))
        sweep.trial_values[:, 0, :, 0] *= scale
        ax = plots.plot_size_gap(sweep, ax=drawn())
        ax.figure.draw_without_rendering()
        shown = [tick.get_window_extent() for tick in ax.get_xticklabels() if tick.get_text()]
        assert len(shown) >= 2
        assert not any(box.overlaps(other) for i, box in enumerate(shown) for other in shown[:i])


# --- the figures of the report ----------------------------------------------------------------------------------------


def drawn():
    _, (ax,) = plots.figure(1)
    return ax


def test_size_against_gap_has_a_point_for_each_temperature_and_marks_the_chosen_one():
    sweep, ax = swept(), drawn()
    assert plots.plot_size_gap(sweep, ax=ax, chosen=1.0) is ax
    aps = ax.lines[1]
    assert aps.get_xdata().tolist() == sweep.curve("avg_size", "aps").tolist()
    assert aps.get_ydata().tolist() == sweep.curve("top_coverage_gap", "aps").tolist()
    (mark,) = ax.collections
    want = [sweep.curve(metric, "lac")[1] for metric in ("avg_size", "top_coverage_gap")]
    assert mark.get_offsets()[0].tolist() == want
    plots.plot_size_gap(swept(methods=("aps",)), ax=ax, label="Mondrian")
    assert [line.get_label() for line in ax.lines] == ["LAC", "APS", "Mondrian APS"]
    lac, aps, by_class = ax.lines
    assert (aps.get_color(), aps.get_marker()) == (by_class.get_color(), by_class.get_marker()) != lac.get_color()


def test_classes_stand_in_the_order_of_their_coverage_with_the_low_ones_apart():
    table = yardstick(np.array([100, 0, 400, 50]), np.array([95, 0, 200, 45]), promised=0.9)
    ax = plots.plot_class_coverage(table, ax=drawn())
    good, low = (ax.collections[i].get_offsets()[:, 1].tolist() for i in (1, 3))
    assert good == [0.9, 0.95]
    assert low == [0.5]
