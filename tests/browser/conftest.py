"""A browser without a network, and pages to look at. Without Chromium: skipped, or failed if THERMOSET_STRICT=1."""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import thermoset as ts
from parts import missing, require
from thermoset.data.splits import split_indices
from thermoset.report import Report, build_report

HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "{{ 7 * 7 }}", 'the "cat" & co', "-->")
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"


class Page(NamedTuple):
    """A page on disk, and what it was made from."""

    path: Path
    report: Report
    predictor: ts.TwoTemperaturePredictor
    rows: ts.Logits


@pytest.fixture(scope="session")
def chromium():
    api = require("playwright.sync_api", "test")
    for module in ("altair", "vl_convert", "jinja2"):
        require(module, "report")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        missing("Chromium is not installed (tools/chromium.sh installs it)")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


def written(folder: Path, predictor: ts.TwoTemperaturePredictor, rows: ts.Logits, **options) -> Page:
    from thermoset.report import write_page

    report = build_report(predictor, rows, **options)
    write_page(report, folder / "report.html")
    return Page(folder / "report.html", report, predictor, rows)


@pytest.fixture(scope="session")
def glyphs_page(tmp_path_factory, chromium):
    """The bundled data: 209 classes, with pictures."""
    glyphs = ts.datasets.load_glyphs()
    known, fresh = split_indices(len(glyphs.logits), 0.7)
    predictor = ts.TwoTemperaturePredictor("raps", 0.1).fit(glyphs.logits.take(known))
    place = {row: i for i, row in enumerate(fresh.tolist())}
    pictures = zip(glyphs.thumbnail_rows.tolist(), glyphs.thumbnails, strict=True)
    images = {place[row]: picture for row, picture in pictures if row in place}
    rows = glyphs.logits.take(fresh)
    return written(tmp_path_factory.mktemp("glyphs"), predictor, rows, name="glyphs", images=images, trials=20)


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory, chromium):
    """Names that are HTML, script and template; the rows that the predictor was made from."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, len(HOSTILE), size=1200)
    logits = 3 * (rng.normal(size=(1200, len(HOSTILE))) + 2 * np.eye(len(HOSTILE))[labels])
    rows = ts.Logits(logits, labels, classes=HOSTILE)
    predictor = ts.TwoTemperaturePredictor("aps", "0.2").fit(rows)
    name = "<b onclick=alert(3)>val.npz</b>"
    return written(tmp_path_factory.mktemp("hostile"), predictor, rows, name=name, trials=5)


class Opened(NamedTuple):
    """A page in the browser, what it complained of and what it asked for."""

    page: object
    complaints: list[str]
    requests: list[str]

    def shot(self, name: str, **options) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", **options)


@pytest.fixture
def opened(chromium):
    """Open a page from disk with networking off; wait until its charts are drawn."""
    contexts = []

    def open_page(path: Path, width: int = 1280, scheme: str = "light") -> Opened:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        seen = Opened(page, [], [])
        page.on("console", lambda message: seen.complaints.append(message.text))
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (seen.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn]")
        return seen

    yield open_page
    for context in contexts:
        context.close()
