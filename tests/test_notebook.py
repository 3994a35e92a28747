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
from thermoset.notebook import html_curves, html_table, placed_names
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
