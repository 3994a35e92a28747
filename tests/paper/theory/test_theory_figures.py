"""Figures of the theory draw what the functions say."""

import numpy as np
import pytest

from law import generated
from parts import require
from thermoset import Logits, theory

require("matplotlib", "plot")

from thermoset import plots  # noqa: E402  (needs matplotlib)


@pytest.fixture(scope="module")
def data():
    return Logits(*generated(900, 10, signal=1.0))


@pytest.fixture(scope="module")
def explanation(data):
    return theory.explain(data, temperatures=[0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0], trials=3)


def named(ax):
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


@pytest.mark.parametrize(("own", "want"), [(None, [10, 100, 1000]), (100, [10, 100, 1000]), (37, [10, 37, 100, 1000])])
def test_the_bound_is_drawn_for_the_papers_classes_and_the_users(own, want):
    made = plots.bound_figure(own)
    (ax,) = made.axes
    assert list(named(ax)) == [*(f"C = {c:,}" for c in want), "b(T), the paper's", "b*(T), sharp"]
    curves = [line for line in ax.lines if len(line.get_xdata()) > 100]
    for i, c in enumerate(want):
        cool, hot, sharp = curves[3 * i : 3 * i + 3]
        assert named(ax)[f"C = {c:,}"] is cool
        for side in (cool, hot):
            assert np.array_equal(side.get_ydata(), theory.bound(side.get_xdata(), c))
            assert side.get_linestyle() == "-"
        assert np.array_equal(sharp.get_ydata(), theory.sharp_bound(sharp.get_xdata(), c))
        assert sharp.get_linestyle() == "--"
        assert len({side.get_color() for side in (cool, hot, sharp)}) == 1
    dots = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "o"]
    best = [theory.critical_temperature(c) for c in want]
    assert dots == [[t, theory.bound(t, c)] for t, c in zip(best, want, strict=True)]


def test_critical_temperatures_beyond_the_axis_are_not_drawn():
    _, (ax,) = plots.figure(1)
    plots.plot_bound([2], ax=ax, hottest=3.0)
    assert not [line for line in ax.lines if line.get_marker() == "o"]


def test_margins_are_in_the_order_of_scores_without_and_with_temperature_scaling(data):
    made = plots.margins_figure(data, 1.7, 0.1)
    for ax, t in zip(made.axes, (1.0, 1.7), strict=True):
        assert (
            ax.lines[0].get_ydata().tolist() == theory.margins(data)[theory.score_order(data, temperature=t)].tolist()
        )
        assert ax.get_title(loc="left") == f"scores at T = {t:g}"
        assert [text.get_text() for text in ax.texts] == ["0.9 quantile"]
        running = named(ax)["median of 101 rows"]
        assert running.get_ydata()[0] == np.median(ax.lines[0].get_ydata()[:101])
        assert running.get_xdata()[0] == 51
    made.draw_without_rendering()


def test_last_indices_at_the_papers_temperatures(data):
    made = plots.last_index_figure(data, 0.1)
    order = theory.score_order(data)
    for ax, t in zip(made.axes, (0.5, 1.5), strict=True):
        found = theory.last_index(data, t)[order]
        assert ax.lines[0].get_ydata().tolist() == found.tolist()
        assert f"{np.mean(found == 1):.0%}" in ax.get_title(loc="left")
    made.draw_without_rendering()


def test_few_rows_have_no_running_median(data):
    made = plots.margins_figure(data.take(range(50)), 1.7, 0.1)
    assert not named(made.axes[0])
    made.draw_without_rendering()


def test_shares_stand_beside_the_measured_sizes_with_both_critical_temperatures(data, explanation):
    made = plots.share_figure(data, (0.5, 32.0), explanation)
    left, right = made.axes
    for name, share in (
        ("derivative has the sign", theory.sign_share),
        ("margin above b*(T), sharp", theory.sharp_share),
        ("margin above b(T), the paper's", theory.bound_share),
    ):
        curve = named(left)[name]
        assert curve.get_ydata().tolist() == share(data, curve.get_xdata()).tolist()
    assert named(right)["APS"].get_ydata().tolist() == explanation.curves.curve("avg_size", "aps").tolist()
    assert not explanation.peaks["aps"].at_edge
    marks = {text.get_text(): text.xy[0] for text in right.texts}
    assert marks == {"minimum of b": explanation.critical, "APS peak": explanation.peaks["aps"].temperature}
    assert {text.get_text() for text in left.texts} == set(marks)
    made.draw_without_rendering()


def test_a_peak_at_the_edge_and_a_critical_temperature_beyond_it_are_not_marked(data):
    found = theory.explain(data, temperatures=[0.5, 1.0, 1.5], trials=3)
    assert found.peaks["aps"].at_edge
    for ax in plots.share_figure(data, (0.5, 1.5), found).axes:
        assert not ax.texts


def test_without_labels_there_is_the_share_alone(data):
    (ax,) = plots.share_figure(data, (0.5, 5.0)).axes
    assert [text.get_text() for text in ax.texts] == ["minimum of b"]


def test_the_terms_of_the_slope_and_the_class_gap_with_its_limit(explanation):
    made = plots.slopes_figure(explanation)
    left, right = made.axes
    slopes, classes = explanation.slopes, explanation.classes
    assert named(left)["scores fall: sets grow"].get_ydata().tolist() == slopes.direct.tolist()
    shrinking = named(left)["threshold falls: sets shrink"].get_ydata()
    assert shrinking.tolist() == (-slopes.through_threshold).tolist()
    assert [text.xy[0] for text in left.texts] == slopes.peaks[:1].tolist()
    assert named(right)["APS"].get_ydata().tolist() == classes.gap.tolist()
    assert named(right)["limit for high T, from ranks alone"].get_ydata()[0] == explanation.limit.gap
    made.draw_without_rendering()


def test_no_slopes_are_drawn_where_probabilities_underflow(data):
    far = Logits(1e5 * data.logits, data.labels)
    made = plots.slopes_figure(theory.explain(far, temperatures=[1.0, 2.0], trials=2))
    made.draw_without_rendering()
    assert not made.axes[0].texts
