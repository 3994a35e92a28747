"""A browser without a network, and pages to look at. Without Chromium: skipped, or failed if THERMOSET_STRICT=1."""

import shutil
import warnings
from pathlib import Path

import pytest

import thermoset as ts
from choices import kept_choice, made_choice, with_choice
from pages import HOSTILE, HOSTILE_FILE, Opened, rows_of, written
from parts import missing, require
from thermoset.data.splits import split_indices


@pytest.fixture(scope="session")
def chromium():
    api = require("playwright.sync_api", "test")
    for module in ("vl_convert", "jinja2"):
        require(module, "report")
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        missing("Chromium is not installed (tools/chromium.sh installs it)")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def glyphs_page(tmp_path_factory, chromium):
    """The bundled data: 209 classes, with pictures."""
    glyphs = ts.datasets.load_glyphs()
    known, fresh = split_indices(len(glyphs.logits), 0.7)
    predictor = ts.TwoTemperaturePredictor("raps", 0.1, "even").fit(glyphs.logits.take(known))
    place = {row: i for i, row in enumerate(fresh.tolist())}
    pictures = zip(glyphs.thumbnail_rows.tolist(), glyphs.thumbnails, strict=True)
    images = {place[row]: picture for row, picture in pictures if row in place}
    rows = glyphs.logits.take(fresh)
    return written(tmp_path_factory.mktemp("glyphs"), predictor, rows, name="glyphs", images=images, trials=20)


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory, chromium):
    """Names that are HTML, script and template; the rows that the predictor was made from."""
    rows = rows_of(1200, len(HOSTILE), seed=1, classes=tuple(HOSTILE))
    predictor = ts.TwoTemperaturePredictor("aps", "0.2", "even").fit(rows)
    return written(tmp_path_factory.mktemp("hostile"), predictor, rows, name=HOSTILE_FILE, trials=5)


@pytest.fixture(scope="session")
def mondrian_page(tmp_path_factory, chromium):
    """Thresholds by class, small sets, no empty ones."""
    known, fresh = rows_of(2400, 6, seed=2).split(1600)
    predictor = ts.TwoTemperaturePredictor(grouping="class", prefer="small", allow_empty=False).fit(known)
    return written(tmp_path_factory.mktemp("class"), predictor, fresh, trials=3)


@pytest.fixture(scope="session")
def two_page(tmp_path_factory, chromium):
    """Two classes, a score without randomisation, a level of many digits."""
    known, fresh = rows_of(900, 2, seed=3, classes=("no", "yes")).split(600)
    predictor = ts.TwoTemperaturePredictor("lac", repr(1 / 7), "even", randomized=False).fit(known)
    return written(tmp_path_factory.mktemp("two"), predictor, fresh, trials=3)


@pytest.fixture(scope="session")
def thousand_page(tmp_path_factory, chromium):
    """A thousand classes, some of them without rows."""
    known, fresh = rows_of(6000, 1000, seed=4, classes=[f"class number {i}" for i in range(1000)]).split(3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.CoverageWarning)
        predictor = ts.TwoTemperaturePredictor("raps", prefer="even").fit(known)
    return written(tmp_path_factory.mktemp("thousand"), predictor, fresh, trials=2)


@pytest.fixture(scope="session")
def lac_predictor():
    """Rows of 30 classes, and a predictor of them at a stricter level."""
    known, fresh = rows_of(3000, 30, seed=5).split(2000)
    return ts.TwoTemperaturePredictor("lac", "0.06", prefer="small").fit(known), fresh


@pytest.fixture(scope="session")
def protecting_page(tmp_path_factory, chromium, lac_predictor):
    """A choice among scores and levels, made by hand."""
    predictor, fresh = lac_predictor
    chosen = with_choice(predictor, made_choice(predictor.temperature_sets_))
    return written(tmp_path_factory.mktemp("protecting"), chosen, fresh, trials=3)


@pytest.fixture(scope="session")
def kept_page(tmp_path_factory, chromium):
    """A choice that was given up for T = 1, made by hand."""
    known, fresh = rows_of(2400, 6, seed=2).split(1600)
    predictor = ts.TwoTemperaturePredictor(prefer="small", calibration="temperature").fit(known)
    return written(tmp_path_factory.mktemp("kept"), with_choice(predictor, kept_choice()), fresh, trials=3)


@pytest.fixture
def opened(chromium):
    """Open a page from disk with networking off; wait until its charts are drawn, or for what `ready` selects."""
    contexts = []

    def open_page(path: Path, width: int = 1280, scheme: str = "light", ready: str = "html[data-drawn]") -> Opened:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
        contexts.append(context)
        page = context.new_page()
        seen = Opened(page, [], [])
        page.on("console", lambda message: seen.complaints.append(message.text))
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (seen.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector(ready)
        return seen

    yield open_page
    for context in contexts:
        context.close()
