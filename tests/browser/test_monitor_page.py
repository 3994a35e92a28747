"""The page over time as a reader sees it: headless, offline, light and dark, narrow and wide, on paper."""

from pathlib import Path
from typing import NamedTuple

import pytest

from monitor_statuses import parts_of, renamed, status_of, untimed
from pages import CLIPPED, CONTRAST, HOSTILE, MARK_NAMES, assert_apart, assert_glossary_opens, assert_wide_tables_say_so
from thermoset.monitor.status import MonitorStatus

pytestmark = pytest.mark.long


class Watched(NamedTuple):
    """A page on disk, and the record it shows."""

    path: Path
    status: MonitorStatus


def _hostile():
    names = list(HOSTILE)
    parts = parts_of(len(names), names=names)
    return renamed(untimed(status_of(len(names), drop_from=4, parts=parts)), names)


MADE = {
    "alarm": lambda: status_of(26, drop_from=14),
    "hostile": _hostile,
    "unlabelled": lambda: status_of(12, labelled=False),
    "one": lambda: status_of(1),
    "thousand": lambda: status_of(1000, drop_from=700, parts=parts_of(300, alarm=(2, 7))),
    "nothing": lambda: status_of(0, parts=()),
}
WINDOWS = [("alarm", 1280, "light"), ("alarm", 390, "dark"), *((name, 390, "light") for name in [*MADE][1:])]


@pytest.fixture(scope="module")
def watched(tmp_path_factory, chromium):
    """Pages by name, each made when it is first asked for."""
    from thermoset.report import write_monitor_page

    folder, made = tmp_path_factory.mktemp("over-time"), {}

    def page(name):
        if name not in made:
            made[name] = Watched(folder / f"{name}.html", MADE[name]())
            write_monitor_page(made[name].status, made[name].path, title=f"<b>{name}</b>")
        return made[name]

    return page


@pytest.mark.parametrize(("name", "width", "scheme"), WINDOWS)
def test_it_opens_alone_and_nothing_overflows_or_is_cut(opened, watched, name, width, scheme):
    page = watched(name)
    seen = opened(page.path, width=width, scheme=scheme)
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [page.path.as_uri()]
    assert page.path.stat().st_size < 3_000_000
    charts = {"unlabelled": 5, "nothing": 0}.get(name, 7)
    assert seen.page.locator(".chart svg").count() == seen.page.locator(".chart").count() == charts
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.eval_on_selector_all(".chart svg", CLIPPED) == []
    assert seen.page.evaluate(CONTRAST) == []
    seen.shot(f"monitor-{name}-{width}-{scheme}", full_page=True)


@pytest.mark.parametrize("width", [390, 1280])
def test_marks_are_named_and_no_name_covers_another(opened, watched, width):
    seen = opened(watched("alarm").path, width=width)
    found = seen.page.locator("#chart-coverage svg").evaluate(MARK_NAMES)
    written = {text: place for text, *place in found}  # each is drawn twice, at one place
    assert set(written) == {"most likely change", "first alarm"}
    assert_apart([(text, *place) for text, place in written.items()])
    bars = seen.page.locator("#chart-evidence-labelled svg").evaluate(MARK_NAMES)
    assert_apart([(text, *place) for text, place in {text: place for text, *place in bars}.items()])


def test_names_are_text(opened, watched):
    page = watched("hostile")
    seen = opened(page.path)
    assert seen.page.locator("img").count() == 0
    assert seen.page.locator("[onclick], [onmouseover], [onerror]").count() == 0
    short = {name for name in HOSTILE.values() if len(name) <= 60}
    cut = {text for text in seen.texts("#batches bdi.name") if text not in short}
    assert {*seen.texts("#batches bdi.name")} == short | cut
    assert [text.endswith("… (batch 10)") for text in cut] == [True]
    assert seen.texts(".eyebrow bdi")[0] == "<b>hostile</b>"


def test_the_glossary_is_one_click_away(opened, watched):
    seen = opened(watched("alarm").path)
    assert_glossary_opens(seen)
    terms = seen.texts("#words dt")
    assert {"e-value", "confidence sequence", "average run length", "coverage", "T*"} <= {*terms}


def test_points_say_what_they_are(opened, watched):
    page = watched("alarm")
    seen, batch = opened(page.path), page.status.batches[0]
    chart = seen.page.locator("#chart-coverage")
    chart.scroll_into_view_if_needed()
    place = """e => { const box = e.querySelector('.mark-symbol path').getBoundingClientRect();
                     return [box.left + box.width / 2, box.top + box.height / 2]; }"""
    seen.page.mouse.move(*chart.evaluate(place))
    tip = seen.page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "week 1" in tip.text_content()
    assert f"{batch.hits / batch.labelled:.4f}".rstrip("0") in tip.text_content()


def test_tables_sort_and_show_that_they_scroll(opened, watched):
    seen = opened(watched("alarm").path, width=390)
    assert_wide_tables_say_so(seen)
    read = "rows => rows.map(r => +r.cells[1].querySelector('data').value)"
    assert seen.page.eval_on_selector_all("#batches tbody tr", read) == list(range(26, 0, -1))
    seen.page.locator("#batches thead").get_by_role("button", name="number", exact=True).click()
    assert seen.page.eval_on_selector_all("#batches tbody tr", read) == list(range(1, 27))
    seen.page.locator("#parts thead").get_by_role("button", name="coverage", exact=True).click()
    shares = seen.page.eval_on_selector_all("#parts tbody tr", read)
    assert shares == sorted(shares)


def test_it_prints(opened, watched, tmp_path):
    seen = opened(watched("thousand").path)
    seen.page.emulate_media(media="print")
    assert not seen.page.locator("nav.toc").is_visible()
    assert seen.page.locator("#batches tbody tr:visible").count() == 40
    assert seen.page.locator("#parts tbody tr:visible").count() == 40
    seen.shot("monitor-print", full_page=True)
    assert seen.page.pdf(path=tmp_path / "over-time.pdf").startswith(b"%PDF")


def test_charts_have_text_and_colours_agree_with_the_legends(opened, watched):
    seen = opened(watched("alarm").path)
    told = seen.page.eval_on_selector_all(".chart", "all => all.map(e => e.getAttribute('aria-label'))")
    assert all(len(text) > 20 for text in told)
    assert seen.page.locator("[tabindex]:not([aria-label])").count() == 0
    read = "all => all.map(e => [e.textContent, e.querySelector('path').getAttribute('stroke').toLowerCase()])"
    legend = dict(seen.page.eval_on_selector_all("[data-kind=lines-labelled] li", read))
    strokes = "all => all.map(e => e.getAttribute('stroke').toLowerCase())"
    lines = seen.page.eval_on_selector_all("#chart-evidence-labelled .mark-line path", strokes)
    assert lines == list(legend.values())
    assert len(set(lines)) == 2
