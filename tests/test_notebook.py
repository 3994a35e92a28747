"""Names of any kind become text that can be shown; notebooks: escaped text, the object's numbers, valid markup."""

import re
import unicodedata
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from thermoset.notebook import PanelAxis, html_curves, html_table, names_beside, names_of_points, placed_names
from thermoset.quoting import printable


def parsed(html):
    return ET.fromstring(html.replace("<br>", "<br/>"))  # noqa: S314 (our own text)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a cat", "a cat"),
        ("two\nlines", "two\\nlines"),
        ("\x00", "\\x00"),
        ("val\udcff.npz", "val\\udcff.npz"),  # a file's name that is not UTF-8
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b", "a\\u2028b"),  # ends a line
        ("👩\u200d👧", "👩\u200d👧"),  # joined pictures stay joined
        ("مرحبا", "مرحبا"),
    ],
)
def test_what_cannot_be_shown_is_written_out(name, shown):
    assert printable(name) == shown


@given(st.text(st.characters(codec=None)))
def test_anything_can_be_shown_in_one_line(name):
    shown = printable(name)
    assert shown.encode().decode() == shown
    assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in shown)
    assert len(shown.splitlines()) <= 1


def test_names_are_escaped():
    hostile = "<img src=x onerror=alert(1)>"
    for html in (
        html_table([hostile], [[hostile]]),
        html_curves(hostile, [1.0, 2.0], {hostile: [1.0, 2.0]}, {hostile: 1.5}),
    ):
        assert "<img" not in html
        assert hostile in "".join(parsed(html).itertext())


def test_curves_rise_upwards_and_skip_what_is_not_finite():
    svg = html_curves("q", [1.0, 2.0, 3.0], {"a": [0.0, np.inf, 2.0]}, {"far": 9.0})
    (points,) = re.findall(r'points="([^"]*)"', svg)
    first, last = (tuple(map(float, point.split(","))) for point in points.split())
    assert last[0] > first[0]
    assert last[1] < first[1]
    assert "far" not in svg


@given(st.lists(st.integers(3, 50), min_size=1, max_size=5))
def test_no_line_of_a_mark_runs_through_a_name(tenths):
    names = ["T = 1", "T*", "T\u0302", "T_c", "theory"]
    marks = {name: t / 10 for name, t in zip(names, tenths, strict=False)}
    placed = placed_names(marks, lambda t: 50 * t)
    assert sorted(name for at in placed for name in at.name.split(", ")) == sorted(marks)
    for at in placed:
        start, width = 50 * at.temperature, 6 * len(at.name.replace("\u0302", ""))
        reach = (start - width, start) if at.left else (start, start + width)
        for other in placed:
            crosses = reach[0] < 50 * other.temperature < reach[1] and other.temperature != at.temperature
            assert not crosses or other.line < at.line, "a line ends below the names above it"


LETTER, LINE = 6, 13  # pixels, as the module counts them


def boxes(placed, points, panel):
    """Left, right, top and bottom of each name."""
    for at in placed:
        x, y, width = (
            points[at.name][0] * panel[0] + at.right,
            points[at.name][1] * panel[1] + at.down,
            LETTER * len(at.name),
        )
        left = x - {"left": 0, "center": width / 2, "right": width}[at.align]
        yield left, left + width, y - LINE / 2, y + LINE / 2


spots = st.tuples(*[st.integers(0, 20).map(lambda n: 0.05 + 0.045 * n)] * 2)


@given(st.lists(spots, min_size=1, max_size=4, unique=True))
def test_names_stay_in_the_panel_and_cover_no_other_name(places):
    """Four short names always find room beside their points, on a telephone and on a wide screen."""
    points = {f"setting {i}": place for i, place in enumerate(places)}
    panels = [(250, 300), (700, 300)]
    placed = names_beside(points, [], panels)
    assert [at.name for at in placed] == list(points)
    for panel in panels:
        found = list(boxes(placed, points, panel))
        for i, (left, right, top, bottom) in enumerate(found):
            assert 0 <= left < right <= panel[0]
            assert 0 <= top < bottom <= panel[1]
            for other in found[:i]:
                assert left >= other[1] or right <= other[0] or top >= other[3] or bottom <= other[2]


def test_a_name_leaves_other_points_free_where_it_can():
    points, crowd = {"here": (0.5, 0.5)}, [(0.5 + 0.02 * i, 0.5) for i in range(1, 12)]
    panel = (250, 300)
    ((left, right, top, bottom),) = boxes(names_beside(points, crowd, [panel]), points, panel)
    assert not any(left < 250 * x < right and top < 300 * y < bottom for x, y in crowd)


@pytest.mark.parametrize(("values", "is_log"), [([1, 8], False), ([1, 8.01], True), ([0, 100], False), ([3, 3], False)])
def test_an_axis_is_logarithmic_only_where_values_span_much(values, is_log):
    axis = PanelAxis(values, wide=8)
    low, high = axis.ends
    assert axis.is_log is is_log
    assert low < min(values) <= max(values) < high
    assert (axis.part(low), axis.part(high)) == pytest.approx((0, 1))
    middle = np.sqrt(low * high) if is_log else (low + high) / 2
    assert axis.part(middle) == pytest.approx(0.5)


def test_points_are_placed_in_the_units_of_their_axes():
    axes = PanelAxis([0.0, 10.0]), PanelAxis([0.0, 1.0])
    at_left, at_right = names_of_points({"first": (0.0, 0.5), "other": (10.0, 0.5)}, [], axes, [(250, 300)])
    assert (at_left.align, at_right.align) == ("left", "right")


def test_a_sweep_shows_its_numbers():
    data = ts.Logits(*generated(600, 5))
    sweep = ts.sweep(data, temperatures=[0.5, 1, 2], methods=["aps", "raps"], alphas=(0.1, 0.2), trials=3)
    cells = [[cell.text for cell in row] for row in parsed(sweep._repr_html_()).iter("tr")]
    assert len(cells) == 1 + 4
    for method, alpha, t, size, gap in cells[1:]:
        curve = sweep.curve("top_coverage_gap", method, float(alpha))
        place = sweep.temperatures.tolist().index(float(t))
        assert curve[place] == curve.min()
        assert (size, gap) == (f"{sweep.curve('avg_size', method, float(alpha))[place]:.3f}", f"{curve.min():.3f}")


def test_a_fitted_predictor_shows_its_choice_and_an_unfitted_one_its_parameters():
    predictor = ts.TwoTemperaturePredictor()
    assert predictor._repr_html_() is None
    assert "text/plain" in predictor._repr_mimebundle_()
    predictor.fit(ts.Logits(*generated(1000, 5)))
    shown = predictor._repr_mimebundle_()["text/html"]
    assert shown == predictor._repr_html_()
    text = "".join(parsed(shown).itertext())
    assert predictor.choice_.sentences[0] in text
    for at in predictor.choice_.outlooks:
        assert f"{at.size:.2f}" in text
