"""Groups of rows on the page: a section with the numbers of the check, a picture, and a warning where one is low."""

import re
from html import escape

import numpy as np
import pytest

import thermoset as ts
from law import generated
from parts import require

for module in ("vl_convert", "jinja2"):
    require(module, "report")

from thermoset.report import build_report, render_page  # noqa: E402
from thermoset.report.charts import all_charts  # noqa: E402

pytestmark = pytest.mark.slow


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
def report():
    return reported(rows(4, hard=[2]))


def value(page, key):
    (found,) = re.findall(rf"<data value='([^']*)' data-key='{re.escape(key)}'", page)
    return float(found)


def test_the_table_has_the_numbers_of_the_check(report):
    page, table = render_page(report), report.check.groups
    assert '<section id="groups">' in page
    for i in range(4):
        assert value(page, f"group.{i}.coverage") == table.coverage[i]
        assert value(page, f"group.{i}.rows") == table.rows[i]
        assert value(page, f"group.{i}.p_holm") == table.p_holm[i]
        assert value(page, f"group.{i}.size") == report.sets.group_sizes[i]
    assert report.sets.group_sizes @ table.rows == pytest.approx(report.check.avg_size * report.rows)


def test_a_low_group_is_warned_of(report):
    page = render_page(report)
    assert value(page, "groups.flagged") == 1
    assert "<b>Groups:</b> Coverage is below 0.9 in 1 of 4 groups" in page
    assert escape("'site 2'") in page
    even = render_page(reported(rows(4)))
    assert value(even, "groups.flagged") == 0
    assert "<b>Groups:</b>" not in even


def test_many_groups_are_a_strip_and_few_are_dots(report):
    few, many = all_charts(report)["groups"], all_charts(reported(rows(40)))["groups"]
    assert len(few["layer"][0]["data"]["values"]) == 4
    assert many["layer"][0]["mark"]["type"] == "rect"
    assert len(many["layer"][0]["data"]["values"]) == 40


def test_thresholds_by_group_are_promised_to_each():
    page = render_page(reported(rows(4, hard=[2]), grouping="group"))
    assert "Coverage is promised for each group, by its own threshold." in page
    assert "For new rows of a group that come from the same source" in page


def test_rows_without_groups_have_no_such_section(report):
    plain = ts.Logits(*generated(1600, 5, signal=1.0))
    page = render_page(reported(plain))
    assert 'id="groups"' not in page
    assert "#groups" not in page
