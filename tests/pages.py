"""Pages to look at in a browser, and how to read them."""

import os
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
        came = self.predictor.artifact_.provenance
        return self.rows.split(came.calibration_fraction, random_state=came.random_state)[0]


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
        """Text of everything that a selector finds."""
        return self.page.locator(selector).all_text_contents()

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
