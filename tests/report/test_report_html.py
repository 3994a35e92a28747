"""The page as text, without a browser: numbers, groups, answers, names, the drawing; tests/browser has the rest."""

import html
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from browser.test_report_numbers import assert_numbers
from law import generated
from pages import rows_of, written
from parts import require

for module in ("vl_convert", "jinja2"):
    require(module, "report")

from thermoset.report import build_report, render_page  # noqa: E402
from thermoset.report.charts import all_charts  # noqa: E402
from thermoset.report.page import guideline  # noqa: E402
from thermoset.report.shell import shorten  # noqa: E402
from thermoset.report.words import SCORE_WORDS  # noqa: E402
from thermoset.scores import SCORES  # noqa: E402

pytestmark = pytest.mark.slow


def test_every_number_of_a_page_is_the_librarys(tmp_path):
    known, fresh = rows_of(2400, 6, seed=2).split(1600)
    page = written(tmp_path, ts.TwoTemperaturePredictor("lac", prefer="small").fit(known), fresh, trials=3)
    text = page.path.read_text(encoding="utf-8")
    found = re.findall(r"<data value='([^']*)' data-key='([^']*)'>(.*?)</data>", text, flags=re.DOTALL)
    read = {html.unescape(key): (float(value or "nan"), html.unescape(shown)) for value, key, shown in found}
    assert len(read) == len(found), "a key names one number"
    assert_numbers(page, read)


# --- groups of rows ---------------------------------------------------------------------------------------------------


def rows(n_groups, hard=()):
    logits, labels = generated(1600, 5, signal=1.0)
    codes = np.arange(1600) % n_groups
    noise = np.where(np.isin(codes, hard), 25.0, 0.0)[:, None]
    logits = logits + noise * np.random.default_rng(1).normal(size=logits.shape)
    return ts.Logits(logits, labels, groups=[f"site {code}" for code in codes])


def reported(data, **asked):
    known, fresh = data.split(800)
    predictor = ts.TwoTemperaturePredictor(**{"method": "lac", "prefer": "small"} | asked).fit(known)
    return build_report(predictor, fresh, trials=2)


@pytest.fixture(scope="module")
def of_groups():
    """A report of four groups, one of them hard."""
    return reported(rows(4, hard=[2]))


def value(page, key):
    (found,) = re.findall(rf"<data value='([^']*)' data-key='{re.escape(key)}'", page)
    return float(found)


def test_the_table_of_groups_has_the_numbers_of_the_check_and_warns_of_a_low_one(of_groups):
    page, table = render_page(of_groups), of_groups.check.groups
    assert '<section id="groups">' in page
    for i in range(4):
        assert value(page, f"group.{i}.coverage") == table.coverage[i]
        assert value(page, f"group.{i}.rows") == table.rows[i]
        assert value(page, f"group.{i}.p_holm") == table.p_holm[i]
        assert value(page, f"group.{i}.size") == of_groups.sets.group_sizes[i]
    assert of_groups.sets.group_sizes @ table.rows == pytest.approx(of_groups.check.avg_size * of_groups.rows)
    assert value(page, "groups.flagged") == 1
    assert "<b>Groups:</b> Coverage is below 0.9 in 1 of 4 groups" in page
    assert html.escape("'site 2'") in page


def test_many_groups_are_a_strip_few_are_dots_and_none_have_no_section(of_groups):
    few, many = all_charts(of_groups)["groups"], all_charts(reported(rows(40)))["groups"]
    assert len(few["layer"][0]["data"]["values"]) == 4
    assert many["layer"][0]["mark"]["type"] == "rect"
    assert len(many["layer"][0]["data"]["values"]) == 40
    plain = render_page(reported(ts.Logits(*generated(1600, 5, signal=1.0))))
    assert 'id="groups"' not in plain
    assert "#groups" not in plain


def test_thresholds_by_group_are_promised_to_each():
    page = render_page(reported(rows(4, hard=[2]), grouping="group"))
    assert "Coverage is promised for each group, by its own threshold." in page
    assert "For new rows of a group that come from the same source" in page
    assert value(page, "groups.flagged") == 0
    assert "<b>Groups:</b>" not in page


# --- answers ----------------------------------------------------------------------------------------------------------


def test_a_predictor_that_answers_alone_shows_its_curve_and_its_rule():
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=5000)
    logits = rng.normal(size=(5000, 5)) + np.where(rng.random((5000, 1)) < 0.6, 6.0, 1.5) * np.eye(5)[labels]
    data = ts.Logits(logits, labels)
    predictor = ts.TwoTemperaturePredictor("lac", prefer="small", answer="error<=0.05").fit(data.take(slice(0, 3000)))
    fresh = data.take(slice(3000, None))
    report = build_report(predictor, fresh, trials=3)
    answered = predictor.predict_actions(fresh) == "answer"
    wrong = predictor.predict(fresh) != fresh.labels
    at = [point for point in report.risk if point.share == answered.mean()]
    assert at[0].error == pytest.approx(wrong[answered].mean())
    assert all(point.low <= point.error <= point.high for point in report.risk)
    assert report.risk[-1].error == pytest.approx(wrong.mean())
    page = render_page(report)
    assert 'id="answers"' in page
    assert predictor.answer_.sentence.split(" (")[0] in page


# --- names, words and the drawing -------------------------------------------------------------------------------------


@given(st.text(min_size=1), st.integers(0, 10_000))
def test_short_names_stay_and_long_ones_are_cut_and_told_apart(name, label):
    short = shorten(name, f"class {label}")
    assert short == name if len(name) <= 60 else len(short) <= 60
    assert len(name) <= 60 or short.endswith(f"(class {label})")


def test_every_score_is_explained():
    assert {score.name for score in SCORES.values()} == set(SCORE_WORDS)


def test_both_branches_start_at_the_logits_and_each_has_its_temperature():
    """The docs have the same picture: python -c "from thermoset.report.page import guideline; print(guideline())"."""
    drawing = guideline()
    assert (Path(__file__).parents[2] / "docs" / "images" / "guideline.svg").read_text(encoding="utf-8") == drawing
    drawn = texts(drawing)
    assert drawn[0] == "logits"
    star, hat = drawn.index("\u00f7 T*"), drawn.index("\u00f7 T\u0302")
    assert drawn[star : star + 3] == ["\u00f7 T*", "softmax", "confidence"]
    assert drawn[hat : hat + 4] == ["\u00f7 T\u0302", "score", "threshold", "prediction set"]
    alone = drawing.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in alone
    assert "href" not in alone


@pytest.mark.parametrize("text", ["<b>", "a & b", '"quoted"', "{x}"])
def test_what_is_filled_in_is_text(text):
    drawn = guideline(star=text, score=text)
    assert f"\u00f7 {text}" in texts(drawn)
    assert text in texts(drawn)
    assert text in ET.fromstring(drawn).get("aria-label")  # noqa: S314 (our own)


def texts(drawing):
    svg = ET.fromstring(drawing)  # noqa: S314 (our own)
    return ["".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")]
