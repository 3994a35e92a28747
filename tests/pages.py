"""Pages to look at in a browser, and how to read them."""

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

import thermoset as ts
from thermoset.report import Report, build_report

HOSTILE = {
    "<img src=x onerror=alert(1)>": "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>": "</script><script>alert(2)</script>",
    "{{ 7 * 7 }}${7 * 7}": "{{ 7 * 7 }}${7 * 7}",
    "' onmouseover='alert(4)\" x=\"": "' onmouseover='alert(4)\" x=\"",
    "the \"cat\" & co \\ 'dog'": "the \"cat\" & co \\ 'dog'",
    "-->": "-->",
    "two\nlines\t\x1b[31m": "two\\nlines\\t\\x1b[31m",
    "\u202efdp.exe": "\\u202efdp.exe",
    "שלום & <b>": "שלום & <b>",
    "long" * 2500: "long" * 2500,
}
"""Names of classes that are HTML, script, template or hardly text, and what the page is to show."""

HOSTILE_FILE = '<b onclick=alert(3)>val</b>\x00\n\udcff".npz'
HOSTILE_FILE_SHOWN = '<b onclick=alert(3)>val</b>\\x00\\n\\udcff".npz'

METRICS = ("avg_size", "marginal_coverage", "top_coverage_gap", "avg_coverage_gap", "threshold", "empty_share")
"""What the slider shows."""

LABELS_SHOWN = 8
"""Labels of a set that are shown; the true one is shown besides, the others are counted."""

CLIPPED = """all => all.filter(svg => {
    const held = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].some(text => {
        const box = text.getBoundingClientRect();
        return box.width && (box.left < held.left - 1 || box.right > held.right + 1 || box.top < held.top - 1);
    });
}).map(svg => svg.closest('.chart').id)"""
"""Charts with text that is cut off at an edge."""

MARK_NAMES = """svg => [...svg.querySelectorAll('.mark-text.role-mark text')].map(text => {
    const box = text.getBoundingClientRect();
    return [text.textContent, box.left, box.right, box.top, box.bottom];
})"""
"""Names within a chart, and their boxes."""

CONTRAST = """() => {
    const light = c => { const v = c / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
    const read = colour => colour.match(/[\\d.]+/g).map(Number);
    const behind = e => {
        for (; e; e = e.parentElement) {
            const colour = read(getComputedStyle(e).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
    };
    const poor = [];
    for (const e of document.querySelectorAll("body *")) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        if (!own || !e.getClientRects().length || e.closest("script, style, .skip")) continue;
        const style = getComputedStyle(e), svg = e.closest("svg");
        if (svg && style.stroke !== "none") continue; // the ground of a name, not the name
        const colour = read(svg ? style.fill : style.color);
        const shades = [luminance(colour), luminance(behind(e))].sort((a, b) => b - a);
        const ratio = (shades[0] + 0.05) / (shades[1] + 0.05);
        if (ratio < 4.5) poor.push([e.textContent.trim().slice(0, 30), e.className.baseVal ?? e.className, ratio]);
    }
    return poor;
}"""
"""Texts with a contrast below 4.5 (WCAG 2, level AA)."""

_SHOTS = os.environ.get("THERMOSET_SCREENSHOTS")
_READ_DATA = "all => all.map(e => [e.dataset.key, e.getAttribute('value'), e.textContent])"


class Page(NamedTuple):
    """A page on disk, and what it was made from."""

    path: Path
    report: Report
    predictor: ts.TwoTemperaturePredictor
    rows: ts.Logits

    @property
    def judged(self):
        """The rows that the predictor is measured on."""
        if self.report.origin == "fresh":
            return self.rows
        came = self.predictor.document_.provenance
        return self.rows.split(came.calibration_fraction, random_state=self.predictor.document_.recipe.random_state)[0]


class Opened(NamedTuple):
    """A page in the browser, what it complained of and what it asked for."""

    page: object
    complaints: list[str]
    requests: list[str]

    def shot(self, name: str, **options) -> None:
        """Keep a picture for people to look at, if they name a folder for it: pictures of whole pages take seconds."""
        if _SHOTS:
            self.page.screenshot(path=Path(_SHOTS) / f"{name}.png", **options)

    def texts(self, selector):
        """Text of everything that a selector finds, as it is read: lines of the source are no lines of the page."""
        return [re.sub("[ \n]+", " ", text).strip(" \n") for text in self.page.locator(selector).all_text_contents()]

    def numbers(self):
        """Every number of the page: key to exact value, and what is shown."""
        read = self.page.eval_on_selector_all("data", _READ_DATA)
        keys = [key for key, _, _ in read]
        assert len(keys) == len(set(keys)), "a key names one number"
        return {key: (float(value) if value else np.nan, shown) for key, value, shown in read}

    def move(self, place, level):
        """Put the slider to a temperature and the choice to a level, by their places."""
        moved = "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }"
        self.page.locator("#slider-t").evaluate(moved, place)
        self.page.select_option("#slider-alpha", str(level))


def written(folder: Path, predictor: ts.TwoTemperaturePredictor, rows: ts.Logits, **options) -> Page:
    """Make a page and keep it."""
    from thermoset.report import write_page

    report = build_report(predictor, rows, **options)
    write_page(report, folder / "report.html")
    return Page(folder / "report.html", report, predictor, rows)


def rows_of(n, n_classes, seed, classes=None):
    """Labelled rows that are right more often than not."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, size=n)
    logits = 3 * rng.normal(size=(n, n_classes))
    logits[np.arange(n), labels] += rng.uniform(2, 9, size=n_classes)[labels]
    return ts.Logits(logits.astype(np.float32), labels, classes=classes)


def is_rounded(shown: str, value: float) -> bool:
    """Whether a text is the value, rounded to as many digits as the text has."""
    plain = shown.replace(",", "")
    percent = plain.endswith("%")
    digits = len(plain.rstrip("%").partition(".")[2]) + 2 * percent
    return abs(float(plain.rstrip("%")) / (100 if percent else 1) - value) <= 0.5000001 * 10.0**-digits


def assert_glossary_opens(seen: Opened) -> None:
    """One click shows all terms and another hides them; so do the keys, and no term is said twice."""
    words = seen.page.locator("#words")
    assert not words.is_visible()
    button = seen.page.get_by_role("button", name="Glossary", exact=True)
    button.click()
    assert words.is_visible()
    assert all(len(text) > 20 for text in seen.texts("#words dd"))
    words.get_by_role("button", name="Close").click()
    assert not words.is_visible()
    button.press("Enter")
    assert words.is_visible()
    seen.page.keyboard.press("Escape")
    assert not words.is_visible()


def assert_wide_tables_say_so(seen: Opened) -> None:
    """Every table that is wider than its place says so above it, and has shadows; no other does."""
    told = """all => all.filter(e => e.clientWidth).map(e => [e.scrollWidth > e.clientWidth + 1,
        !!e.previousElementSibling?.matches('.swipe') && e.previousElementSibling.offsetHeight > 0,
        getComputedStyle(e).backgroundImage.split('gradient').length - 1])"""
    found = seen.page.eval_on_selector_all(".scroll", told)
    assert found
    assert all(wide == said and shadows == 4 for wide, said, shadows in found), found
    assert any(wide for wide, *_ in found)


def assert_apart(found):
    """No text covers another."""
    for i, (_, left, right, top, bottom) in enumerate(found):
        for _, other_left, other_right, other_top, other_bottom in found[:i]:
            apart = right <= other_left or other_right <= left or bottom <= other_top + 2 or other_bottom <= top + 2
            assert apart, found
