"""Figures draw what the table says."""

import numpy as np
import pytest

from parts import require
from thermoset.metrics import reliability_from_confidence

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


def test_curves_hold_the_numbers_and_marks_their_temperatures():
    _, (ax,) = plots.figure(1)
    curves = {"APS": np.array([1.0, 2.0]), "RAPS": np.array([1.0, 1.5])}
    plots.plot_curves([1.0, 2.0], curves, ax=ax, ylabel="AvgSize", marks={"T*": 1.5})
    drawn = {line.get_label(): line.get_ydata().tolist() for line in ax.lines if not line.get_label().startswith("_")}
    assert drawn == {"APS": [1.0, 2.0], "RAPS": [1.0, 1.5]}
    assert [text.get_text() for text in ax.texts] == ["T*"]
    assert ax.get_ylabel() == "AvgSize"


def test_figures_save_as_png_pdf_and_svg(tmp_path):
    made, (ax, _) = plots.figure(2)
    plots.plot_curves([1.0, 2.0], {"LAC": np.array([1.0, 2.0])}, ax=ax, ylabel="AvgSize", marks={})
    for kind, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        made.savefig(tmp_path / f"f.{kind}")
        assert (tmp_path / f"f.{kind}").read_bytes().startswith(magic)
