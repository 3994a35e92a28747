"""The page as a reader sees it: headless, offline, light and dark, narrow and wide, on paper, by keyboard."""

import numpy as np
import pytest

from pages import (
    CLIPPED,
    CONTRAST,
    HOSTILE,
    HOSTILE_FILE_SHOWN,
    LABELS_SHOWN,
    MARK_NAMES,
    METRICS,
    assert_apart,
    assert_glossary_opens,
    assert_wide_tables_say_so,
    is_rounded,
)
from thermoset.looks import SCORE_LOOKS
from thermoset.metrics import class_coverage
from thermoset.tuning.choice import alternatives

pytestmark = pytest.mark.long

PAGES = ("glyphs_page", "hostile_page", "mondrian_page", "two_page", "thousand_page", "protecting_page")
WINDOWS = ((390, "light"), (390, "dark"), (768, "light"), (1280, "dark"), (1920, "dark"))
every_page = pytest.mark.parametrize("name", PAGES)
windows = pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [*(("glyphs_page", *window) for window in WINDOWS), *((name, 390, "dark") for name in PAGES[1:])],
)


# --- it opens, alone ------------------------------------------------------------------------------------------------


@every_page
def test_it_opens_from_disk_without_a_complaint_or_a_request(opened, request, name):
    page = request.getfixturevalue(name)
    seen = opened(page.path)
    assert seen.complaints == []
    asked = [url for url in seen.requests if not url.startswith("data:")]
    assert asked == [page.path.as_uri()]
    assert seen.page.locator(".chart svg").count() == seen.page.locator(".chart").count() > 10
    seen.shot(name, full_page=True)


@every_page
def test_it_is_small_and_names_no_other_host(request, name):
    text = request.getfixturevalue(name).path.read_text(encoding="utf-8")
    assert len(text.encode()) < 3_000_000
    assert '<link rel="stylesheet' not in text
    assert 'src="http' not in text


@windows
def test_nothing_overflows_is_cut_or_covers_another(opened, request, name, width, scheme):
    page = request.getfixturevalue(name)
    seen = opened(page.path, width=width, scheme=scheme)
    assert seen.complaints == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.eval_on_selector_all(".chart svg", CLIPPED) == []
    temperatures = page.report.own.temperatures
    inside = [t for t in page.report.marks.values() if temperatures[0] <= t <= temperatures[-1]]
    for metric in ("avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold"):
        found = seen.page.locator(f"#chart-trade-{metric} svg").evaluate(MARK_NAMES)
        assert sum(len(text.split(", ")) for text, *_ in found) == len(inside)
        assert_apart(found)
    seen.shot(f"{name}-{width}-{scheme}", full_page=True)


@pytest.mark.parametrize("width", [390, 768, 1280, 1920])
@pytest.mark.parametrize("name", ["protecting_page", "kept_page"])
def test_settings_are_named_in_place_and_no_name_covers_another(opened, request, name, width):
    page = request.getfixturevalue(name)
    seen, choice = opened(page.path, width=width), page.predictor.choice_
    names = {one.name: one.name.split(", ")[0] for one in alternatives(choice)}  # a setting may have several
    wanted = {(name if len(name) <= 14 else first).replace("T-hat", "T\u0302") for name, first in names.items()}
    for metric in ("worst_tenth", "class_gap"):
        found = seen.page.locator(f"#chart-frontier-{metric} svg").evaluate(MARK_NAMES)
        assert {text for text, *_ in found} == wanted
        assert_apart(found)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    seen.shot(f"{name}-instead-{width}", full_page=True)


def test_a_point_of_the_frontier_says_what_it_is(opened, protecting_page):
    seen, choice = opened(protecting_page.path), protecting_page.predictor.choice_
    place = """(svg) => [...svg.querySelectorAll('.mark-symbol path')].map(e => e.getBoundingClientRect())
        .map(box => [box.left + box.width / 2, box.top + box.height / 2, box.width])"""
    chart = seen.page.locator("#chart-frontier-worst_tenth svg")
    seen.page.locator("#chart-frontier-worst_tenth").scroll_into_view_if_needed()
    points = chart.evaluate(place)
    largest = max(points, key=lambda point: point[2])  # the ring
    seen.page.mouse.move(largest[0], largest[1])
    tip = seen.page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    told = " ".join(tip.text_content().split())
    for part in ("recommended", choice.setting.title, "2.29", "0.865", "0.041"):
        assert part in told


def test_the_legend_of_the_frontier_has_the_colours_of_the_other_charts(opened, protecting_page):
    seen = opened(protecting_page.path)
    read = """all => all.map(e => [e.textContent, ['stroke', 'd', 'fill', 'stroke-dasharray']
        .map(key => e.querySelector('path').getAttribute(key))])"""
    curves = dict(seen.page.eval_on_selector_all("#size-gap .legend li", read))
    front = dict(seen.page.eval_on_selector_all("#instead .legend li", read))
    assert set(front) == {"LAC", "RAPS", "RAPS, Mondrian", "RAPS, clustered"}
    assert {name: front[name] for name in ("LAC", "RAPS")} == {name: curves[name] for name in ("LAC", "RAPS")}
    assert len({tuple(look) for look in front.values()}) == 4
    for name, look in front.items():
        known = SCORE_LOOKS[name.partition(",")[0].lower()]
        assert look[:2] == [known.colour, known.mark.path]
        assert (look[2] == "var(--card)") is ("," in name)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_scores_have_the_colours_and_marks_that_they_have_everywhere(opened, glyphs_page, scheme):
    """In the charts as drawn: RAPS comes first on this page, and is green with triangles all the same."""
    seen = opened(glyphs_page.path, scheme=scheme)
    shade = "dark" if scheme == "dark" else "colour"
    wanted = {getattr(SCORE_LOOKS[name], shade) for name in ("raps", "lac", "aps")}
    lines = "all => all.map(e => e.getAttribute('stroke'))"
    marks = "all => all.map(e => e.getAttribute('fill') + ' ' + (e.getAttribute('d').match(/[A-Z]/g) ?? []).join(''))"
    for metric in ("avg_size", "threshold"):
        assert set(seen.page.eval_on_selector_all(f"#chart-trade-{metric} .mark-line path", lines)) == wanted
        drawn = seen.page.eval_on_selector_all(f"#chart-trade-{metric} .mark-symbol path", marks)
        by_colour = {colour: {mark for one, mark in map(str.split, drawn) if one == colour} for colour in wanted}
        assert all(by_colour.values()), "every curve has marks, so that two that coincide are both seen"


@pytest.mark.parametrize("name", ["glyphs_page", "protecting_page"])
def test_wide_tables_on_a_phone_say_that_they_scroll(opened, request, name):
    assert_wide_tables_say_so(opened(request.getfixturevalue(name).path, width=390))


def test_the_glossary_needs_no_script(chromium, glyphs_page):
    context = chromium.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(glyphs_page.path.as_uri())
    page.get_by_role("button", name="Glossary", exact=True).click()
    assert page.locator("#words").is_visible()
    page.locator("#words .close").click()
    page.locator(".tile .term").first.click()
    assert page.locator("#word-ece").is_visible()
    context.close()


def test_the_glossary_is_printed(opened, two_page):
    seen = opened(two_page.path)
    assert_glossary_opens(seen)
    seen.page.emulate_media(media="print")
    assert seen.page.locator("#words").is_visible()
    assert seen.page.locator(".word:visible").count() == 0


def test_dark_is_dark_and_follows_the_system(opened, glyphs_page):
    seen = opened(glyphs_page.path, scheme="dark")
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    assert seen.page.evaluate(shade) < 3 * 60
    seen.page.emulate_media(color_scheme="light")
    seen.page.wait_for_selector("html[data-drawn=light]")
    assert seen.page.evaluate(shade) > 3 * 200


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["glyphs_page", "mondrian_page", "protecting_page"])
def test_every_text_stands_out_from_what_is_behind_it(opened, request, name, scheme):
    """WCAG 2, level AA: a contrast of 4.5."""
    seen = opened(request.getfixturevalue(name).path, scheme=scheme)
    assert seen.page.evaluate(CONTRAST) == []


def test_it_prints(opened, glyphs_page, tmp_path):
    seen = opened(glyphs_page.path)
    seen.page.emulate_media(media="print")
    assert not seen.page.locator("nav.toc").is_visible()
    assert seen.page.locator("table.long tbody tr:visible").count() == 40
    assert seen.page.locator(".print-only:visible").count() == 2
    assert not seen.page.locator("summary").first.is_visible()
    seen.shot("print", full_page=True)
    assert seen.page.pdf(path=tmp_path / "report.pdf").startswith(b"%PDF")


# --- names are text -------------------------------------------------------------------------------------------------


def test_hostile_names_are_shown_as_text(opened, hostile_page):
    seen = opened(hostile_page.path)
    assert seen.complaints == []
    assert seen.page.locator("img").count() == 0
    assert seen.page.locator("[onclick], [onmouseover], [onerror]").count() == 0
    assert sorted(seen.texts("table.sortable tbody bdi.name")) == sorted(HOSTILE.values())
    assert seen.texts(".eyebrow bdi") == [HOSTILE_FILE_SHOWN]
    assert HOSTILE_FILE_SHOWN in seen.page.title()


def test_a_page_with_hostile_names_still_works(opened, hostile_page):
    seen, report = opened(hostile_page.path), hostile_page.report
    shown = list(HOSTILE.values())
    for place, level in ((0, 0), (9, len(report.own.alphas) - 1)):
        seen.move(place, level)
        for i, members in enumerate(report.examples.swept[place, level]):
            chips = seen.page.locator(".live-set").nth(i).locator(".chip")
            read = chips.evaluate_all("all => all.map(e => [+e.dataset.label, e.textContent])")
            for y, text in read:
                assert members[y]
                assert text == shown[y] if len(shown[y]) <= 60 else text == f"{shown[y][:49]}… (class {y})"
    seen.page.locator("table.sortable thead").get_by_role("button", name="class", exact=True).click()
    assert seen.complaints == []


# --- the slider -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["glyphs_page", "mondrian_page"])
def test_the_slider_shows_the_sweep_table(opened, request, name):
    page = request.getfixturevalue(name)
    seen, sweep = opened(page.path), page.report.own
    assert seen.texts("#slider-alpha option") == [str(alpha) for alpha in sweep.alphas]
    for place in (0, 5, len(sweep.temperatures) // 2, len(sweep.temperatures) - 1):
        for level, alpha in enumerate(sweep.alphas):
            seen.move(place, level)
            shown = {*seen.texts(".at-temperature"), *(t.removeprefix("T = ") for t in seen.texts(".live"))}
            assert shown == {f"{sweep.temperatures[place]:.2f}"}
            for metric in METRICS:
                output = seen.page.locator(f"output[data-metric={metric}]")
                value = sweep.curve(metric, sweep.methods[0], alpha)[place]
                assert float(output.get_attribute("data-value")) == value
                assert is_rounded(output.text_content(), value)


@pytest.mark.parametrize("name", ["glyphs_page", "mondrian_page"])
def test_the_slider_changes_the_example_sets(opened, request, name):
    page = request.getfixturevalue(name)
    seen, examples = opened(page.path), page.report.examples
    for place, level in ((0, 0), (7, 1), (len(examples.swept) - 1, 2)):
        seen.move(place, level)
        sets = seen.page.locator(".live-set")
        sizes = [int(sets.nth(i).get_attribute("data-size")) for i in range(sets.count())]
        assert sizes == examples.swept[place, level].sum(axis=1).tolist()
        for i, members in enumerate(examples.swept[place, level]):
            chips = sets.nth(i).locator(".chip").evaluate_all("all => all.map(e => +e.dataset.label)")
            inside = [y for y in examples.order[i].tolist() if members[y]]
            late = [y for y in inside[LABELS_SHOWN:] if y == examples.labels[i]]
            assert chips == inside[:LABELS_SHOWN] + late
            more = len(inside) - len(chips)
            wanted = f"and {more} more" if more else "" if inside else "empty"
            assert sets.nth(i).locator(".more").text_content() == wanted
    seen.page.locator("#examples").scroll_into_view_if_needed()
    seen.shot(f"{name}-slider")


def test_the_slider_starts_at_t_hat_and_listens_to_keys(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    temperatures = glyphs_page.report.own.temperatures
    hat = temperatures.tolist().index(glyphs_page.predictor.temperature_sets_)
    assert seen.page.locator("#slider-t").input_value() == str(hat)
    seen.page.focus("#slider-t")
    seen.page.keyboard.press("ArrowRight")
    assert seen.page.locator("#at-temperature").text_content() == f"{temperatures[hat + 1]:.2f}"
    seen.page.get_by_role("button", name="T = 1", exact=True).press("Enter")
    assert seen.page.locator("#at-temperature").text_content() == "1.00"
    assert seen.page.locator("#slider-t").get_attribute("aria-valuetext") == "T = 1.00"
    seen.page.get_by_role("button", name="T*", exact=True).press("Enter")
    assert seen.page.locator("#at-temperature").text_content() == f"{glyphs_page.predictor.temperature_:.2f}"


def test_curves_are_drawn_at_every_level(opened, two_page):
    """The predictor's level is 1/7: none of its digits may be lost on the way to the curves."""
    seen, alphas = opened(two_page.path), two_page.report.own.alphas
    assert 1 / 7 in alphas
    curves = """all => all.map(svg => [...svg.querySelectorAll('.mark-line path')]
                                      .filter(line => line.getAttribute('d')).length)"""
    for level in range(len(alphas)):
        seen.move(0, level)
        seen.page.wait_for_timeout(100)
        assert seen.page.eval_on_selector_all("[id^=chart-trade-] svg", curves) == [3, 3, 3, 3]


def test_pointing_at_one_panel_reads_all_four(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    lit = """all => all.map(svg => [...svg.querySelectorAll('.mark-symbol path')]
                                   .filter(dot => dot.getAttribute('opacity') === '1').length)"""
    marks = seen.page.eval_on_selector_all("[id^=chart-trade-] svg", lit)  # those that tell curves apart
    seen.page.locator("#chart-trade-avg_size svg").hover(position={"x": 150, "y": 100})
    told = seen.page.locator("#hover-readout")
    seen.page.wait_for_function("document.getElementById('hover-readout').textContent.startsWith('T =')")
    sweep = glyphs_page.report.own
    t = float(told.text_content().split(":")[0].removeprefix("T = "))
    place = int(np.argmin(np.abs(sweep.temperatures - t)))
    size, top, avg, q = (
        sweep.curve(metric, sweep.methods[0], 0.1)[place]
        for metric in ("avg_size", "top_coverage_gap", "avg_coverage_gap", "threshold")
    )
    assert told.text_content() == (
        f"T = {t:.2f}: {size:.2f} labels, TopCovGap {top:.3f}, AvgCovGap {avg:.3f}, threshold {q:.4f}"
    )
    seen.page.wait_for_timeout(100)
    now = seen.page.eval_on_selector_all("[id^=chart-trade-] svg", lit)
    assert [after - before for after, before in zip(now, marks, strict=True)] == [3, 3, 3, 3]
    seen.page.locator("#chart-trade-avg_size svg").click(position={"x": 150, "y": 100})
    assert seen.page.locator("#at-temperature").text_content() == f"{sweep.temperatures[place]:.2f}"
    seen.shot("hover")


# --- the table of classes -------------------------------------------------------------------------------------------


def test_columns_sort_both_ways(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    for heading, column in (("rows", 5), ("labels in a set", 6), ("coverage", 1), ("p (Holm)", 7)):
        sorts(seen, heading, column)


def sorts(seen, heading, column):
    button = seen.page.locator("table.sortable thead").get_by_role("button", name=heading, exact=True)
    read = f"rows => rows.map(r => r.cells[{column}].querySelector('data').value)"

    def values():
        return [float(v) for v in seen.page.eval_on_selector_all("table.sortable tbody tr", read) if v]

    first = sorted(values())
    seen.page.locator("table.sortable thead").get_by_role("button", name="class", exact=True).click()
    button.click()
    assert values() == first
    button.press("Enter")
    assert values() == first[::-1]
    assert seen.page.locator("th[aria-sort=descending]").text_content() == heading


def test_the_least_covered_class_comes_first(opened, glyphs_page):
    seen = opened(glyphs_page.path)
    coverage = class_coverage(glyphs_page.predictor.predict_set(glyphs_page.rows), glyphs_page.rows.labels).coverage
    name = seen.texts("table.sortable tbody tr td:first-child")[0]
    assert coverage[glyphs_page.rows.classes.index(name)] == np.nanmin(coverage)


# --- readers who do not see, or have no mouse -------------------------------------------------------------------------


@every_page
def test_charts_have_text_and_controls_have_names(opened, request, name):
    seen = opened(request.getfixturevalue(name).path)
    told = seen.page.eval_on_selector_all(".chart", "all => all.map(e => e.getAttribute('aria-label'))")
    assert all(text and len(text) > 20 for text in told)
    assert seen.page.get_by_label("T =").count() >= 1
    unnamed = "all => all.filter(e => !e.textContent.trim()).length"
    assert seen.page.eval_on_selector_all("button, a", unnamed) == 0
    assert seen.page.eval_on_selector_all("img", "all => all.filter(e => !e.alt).length") == 0
    assert seen.page.locator("[tabindex]:not([aria-label])").count() == 0


def test_everything_to_operate_is_reached_by_keyboard_and_shows_it(opened, two_page):
    seen = opened(two_page.path)
    here = """() => { const e = document.activeElement, style = getComputedStyle(e);
                      return [e.id || e.textContent.trim() || e.getAttribute('aria-label'), style.outlineStyle]; }"""
    reached = set()
    for _ in range(90):
        seen.page.keyboard.press("Tab")
        name, outline = seen.page.evaluate(here)
        reached.add(name)
        assert outline != "none" or seen.page.evaluate("document.activeElement === document.body"), name
    assert {
        "slider-t",
        "slider-alpha",
        "slider-t-again",
        "coverage",
        "p (Holm)",
        "The bins",
        "T = 1",
        "Glossary",
        "ECE",
    } <= reached
