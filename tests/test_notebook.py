"""Names of any kind become text that can be shown; notebooks: escaped text, the object's numbers, valid markup."""

import unicodedata
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from thermoset.looks import PanelAxis, names_aside, placed_names
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


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 1)), min_size=1, max_size=12, unique=True))
def test_names_beside_a_panel_keep_their_distance_and_the_order_of_their_points(places):
    points, gap = {f"setting {i}": place for i, place in enumerate(places)}, 0.06
    along = PanelAxis([0.0, 1.0])
    placed = names_aside(points, along, gap)
    assert {at.name: (at.x, at.y) for at in placed} == points
    assert [at.y for at in placed] == sorted(at.y for at in placed)
    heights = np.array([along.part(at.name_y) for at in placed])
    assert (np.diff(heights) > gap - 1e-9).all()
    assert 0 < heights.min() <= heights.max() < 1


def test_a_name_that_meets_no_other_stands_at_the_height_of_its_point():
    placed = names_aside({"low": (1.0, 0.2), "high": (1.0, 0.8)}, PanelAxis([0.0, 1.0]), 0.1)
    assert [at.name_y for at in placed] == pytest.approx([0.2, 0.8])


@pytest.mark.parametrize(("values", "is_log"), [([1, 8], False), ([1, 8.01], True), ([0, 100], False), ([3, 3], False)])
def test_an_axis_is_logarithmic_only_where_values_span_much(values, is_log):
    axis = PanelAxis(values, wide=8)
    low, high = axis.ends
    assert axis.is_log is is_log
    assert low < min(values) <= max(values) < high
    assert (axis.part(low), axis.part(high)) == pytest.approx((0, 1))
    middle = np.sqrt(low * high) if is_log else (low + high) / 2
    assert axis.part(middle) == pytest.approx(0.5)


def test_a_sweep_shows_its_numbers():
    data = ts.Logits(*generated(600, 5))
    sweep = ts.sweep(data, temperatures=[0.5, 1, 2], methods=["aps", "raps"], alphas=(0.1, 0.2), trials=3)
    cells = [
        ["".join(cell.itertext()) for cell in row] for row in parsed(f"<div>{sweep._repr_html_()}</div>").iter("tr")
    ]
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
    text = "".join(parsed(f"<div>{shown}</div>").itertext())
    assert predictor.choice_.sentences[0] in text
    for at in predictor.choice_.outlooks:
        assert f"{at.size:.2f}" in text
