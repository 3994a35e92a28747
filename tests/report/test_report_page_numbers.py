"""A page is built and its numbers are read, without a browser; tests/browser reads more pages, as people see them."""

import html
import re

import pytest

import thermoset as ts
from browser.test_report_numbers import assert_numbers
from pages import rows_of, written
from parts import require

pytestmark = pytest.mark.slow


def test_every_number_of_a_page_is_the_librarys(tmp_path):
    require("vl_convert", "report")
    known, fresh = rows_of(2400, 6, seed=2).split(1600)
    page = written(tmp_path, ts.TwoTemperaturePredictor("lac", prefer="small").fit(known), fresh, trials=3)
    text = page.path.read_text(encoding="utf-8")
    found = re.findall(r"<data value='([^']*)' data-key='([^']*)'>(.*?)</data>", text, flags=re.DOTALL)
    read = {html.unescape(key): (float(value or "nan"), html.unescape(shown)) for value, key, shown in found}
    assert len(read) == len(found), "a key names one number"
    assert_numbers(page, read)
