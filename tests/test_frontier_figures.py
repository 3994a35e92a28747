"""The frontier as a figure: what is drawn is what the choice says, and names cover neither each other nor points."""

import msgspec
import numpy as np
import pytest

from choices import kept_choice, looked_at, made_choice
from parts import require
from thermoset.conformal.recipe import Recipe
from thermoset.errors import InputError

require("matplotlib", "plot")

from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402  (needs matplotlib)

from thermoset import plots  # noqa: E402
from thermoset.tuning import read_preference  # noqa: E402
from thermoset.tuning.choice import FRONTS, alternatives, front, front_titles, settings_of  # noqa: E402

both = pytest.mark.parametrize("metric", ["worst_tenth", "class_gap"])


def drawn(choice, metric):
    _, (ax,) = plots.figure(1)
    assert plots.plot_frontier(choice, metric, ax=ax) is ax
    return ax


@both
def test_every_setting_is_a_point_with_its_intervals(metric):
    choice = made_choice()
    bars = drawn(choice, metric).containers
    wanted = settings_of(choice)
    assert len(bars) == len(wanted)
    for one, (point, _, lines) in zip(wanted, bars, strict=True):
        at = one.outlook
        assert (point.get_xdata()[0], point.get_ydata()[0]) == (at.size, getattr(at, metric))
        ends = [np.array(line.get_segments()[0]) for line in lines]
        upright = ends[-1]
        assert upright[:, 1] == pytest.approx(getattr(at, f"{metric}_ends"))
        assert ends[0][:, 0] == pytest.approx([at.size - 1.96 * at.size_error, at.size + 1.96 * at.size_error])
        assert point.get_markersize() > 6 if one.names else point.get_markersize() < 5


@both
def test_the_line_is_the_front(metric):
    choice = made_choice()
    line = next(
        line for line in drawn(choice, metric).get_lines() if line.get_linestyle() == "-" and len(line.get_xdata()) > 1
    )
    kept = front([one.outlook for one in settings_of(choice)], metric)
    assert list(line.get_xdata()) == [at.size for at in kept]
    assert list(line.get_ydata()) == [getattr(at, metric) for at in kept]


@both
@pytest.mark.parametrize("choice", [made_choice(), kept_choice()], ids=["another", "kept"])
def test_the_ring_is_at_the_recommended_setting_and_its_name_is_bold(metric, choice):
    ax = drawn(choice, metric)
    (ring,) = [line for line in ax.get_lines() if line.get_markersize() > 12]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (choice.outlook.size, getattr(choice.outlook, metric))
    (bold,) = [text for text in ax.texts if text.get_fontweight() == "bold"]
    assert bold.get_text().startswith("recommended")
    assert bold.xy == (choice.outlook.size, getattr(choice.outlook, metric))


@both
def test_every_name_is_there_and_covers_no_other(metric):
    choice = made_choice()
    made = plots.frontier_figure(choice)
    canvas = FigureCanvasAgg(made)
    canvas.draw()
    ax = made.axes[list(FRONTS).index(metric)]
    assert sorted(text.get_text() for text in ax.texts) == sorted(
        one.name.replace("T-hat", r"$\hat{T}$") for one in alternatives(choice)
    )
    boxes = [text.get_window_extent(canvas.get_renderer()) for text in ax.texts]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i]), ax.texts[i].get_text()


def test_a_score_looks_as_in_other_figures_and_variants_look_alike():
    choice = made_choice()
    other = looked_at("sharp", Recipe("raps", "0.1"), 3.0, 2.0, 0.7, 0.09)
    sharp = msgspec.structs.replace(
        other.setting, method=msgspec.structs.replace(other.setting.method, parameters={"penalty": 0.5})
    )
    choice = msgspec.structs.replace(choice, frontier=(*choice.frontier, msgspec.structs.replace(other, setting=sharp)))
    looks = dict(zip(("lac", "raps"), plots.score_looks(["lac", "raps"]), strict=True))
    for one, (point, *_) in zip(settings_of(choice), drawn(choice, "class_gap").containers, strict=True):
        look = looks[one.outlook.setting.method.name]
        assert (point.get_color(), point.get_marker()) == (look.colour, look.marker)
        hollow = one.outlook.setting.grouping is not None
        assert (point.get_markerfacecolor() == "white") is hollow


@pytest.mark.parametrize(("largest", "scale"), [(11.9, "linear"), (12.1, "log")])
def test_sizes_that_span_much_have_a_logarithmic_axis(largest, scale):
    """Eight times, with intervals: the smallest begins at 1.56 - 1.96 * 0.03 = 1.501."""
    choice = made_choice()
    far = looked_at("far", Recipe("aps"), 1.0, largest, 0.9, 0.02)
    ax = drawn(msgspec.structs.replace(choice, frontier=(*choice.frontier, far)), "worst_tenth")
    assert ax.get_xscale() == scale
    low, high = ax.get_xlim()
    assert low < 1.56 < largest < high


def test_the_target_is_a_line_through_the_panel_of_hard_classes():
    choice = made_choice(preference=read_preference("classes>=0.97"))
    ax = drawn(choice, "worst_tenth")
    (line,) = [line for line in ax.get_lines() if line.get_linestyle() == "--"]
    assert set(line.get_ydata()) == {0.97}
    assert ax.get_ylim()[1] > 0.97
    assert "target 0.97" in [text.get_text() for text in ax.texts]
    assert not any(line.get_linestyle() == "--" for line in drawn(choice, "class_gap").get_lines())


def test_the_figure_says_what_is_recommended_and_from_how_many_rows():
    made = plots.frontier_figure(made_choice())
    assert [ax.get_ylabel() for ax in made.axes] == list(front_titles(made_choice()).values())
    assert "LAC, T = 2.00, alpha 0.06" in made.get_supxlabel()
    assert "2,000 calibration rows" in made.get_supxlabel()
    assert [text.get_text() for text in made.legends[0].get_texts()] == [
        "LAC",
        "RAPS",
        "thresholds by class or cluster",
        "recommended",
    ]


def test_a_metric_that_nobody_knows_has_no_panel_and_without_any_there_is_no_figure():
    choice = made_choice()
    blind = [
        msgspec.structs.replace(at, worst_tenth=None, worst_tenth_ends=None)
        for at in (*choice.frontier, *choice.outlooks)
    ]
    some = msgspec.structs.replace(choice, frontier=tuple(blind[:10]), outlooks=tuple(blind[10:]))
    assert [ax.get_ylabel() for ax in plots.frontier_figure(some).axes] == ["class gap"]
    with pytest.raises(InputError, match="has a worst_tenth"):
        drawn(some, "worst_tenth")
    with pytest.raises(InputError, match="no frontier"):
        plots.frontier_figure(made_choice(frontier=()))


def test_a_choice_for_groups_is_drawn_as_one():
    made = plots.frontier_figure(made_choice(even="group"))
    assert [ax.get_ylabel() for ax in made.axes] == ["coverage of the worst tenth of groups", "group gap"]
    assert [ax.get_title(loc="left") for ax in made.axes] == ["Hard groups", "Evenness"]
    assert "labels and the group gap" in made._supxlabel.get_text()
    curves = plots.choice_figure(made_choice(even="group"), 1.3)
    assert [ax.get_ylabel() for ax in curves.axes] == ["labels in a set", "group gap"]
    assert curves.axes[1].get_title(loc="left") == "Unevenness of group coverage"


def test_curves_are_of_the_level_in_use_and_the_ring_is_what_the_predictor_promises():
    """A stricter level than the promised one: sizes at alpha = 0.1 would be 1.6."""
    choice = made_choice()
    size, gap = plots.choice_figure(choice, 1.3).axes
    assert size.lines[0].get_ydata().tolist() == list(choice.curve.size)
    assert gap.lines[0].get_ydata().tolist() == list(choice.curve.class_gap)
    for ax, value in ((size, 2.29), (gap, 0.041)):
        (ring,) = [line for line in ax.get_lines() if line.get_markersize() > 12]
        assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (2.0, value)
    blind = msgspec.structs.replace(choice, curve=msgspec.structs.replace(choice.curve, class_gap=None))
    assert [ax.get_ylabel() for ax in plots.choice_figure(blind, 1.3).axes] == ["labels in a set"]
