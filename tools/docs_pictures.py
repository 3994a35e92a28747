"""Draw the pictures of the docs: the top of the demo's report, its figures, and those of the theory page.

`tools/readme_picture.py` draws `sets.png`, `examples/glyphs/card.py` draws `glyphs.png`, and `guideline.svg` is what
`thermoset.report.page.guideline` returns (a test compares them).
"""

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from thermoset import plots
from thermoset.cli.tune import demo
from thermoset.datasets import load_glyphs
from thermoset.paper.theory import explain

WIDTH, PADDING = 1280, 12
"""Of the picture of the report, in pixels, and what is left below its last chart."""


def report_picture(page: Path, out: Path) -> None:
    """The report from its top to the charts of the alternatives."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("Chromium is not installed; tools/chromium.sh installs it")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(viewport={"width": WIDTH, "height": 900})
        opened.goto(page.resolve().as_uri())
        opened.wait_for_selector("html[data-drawn]")
        end = opened.locator("#instead .grid2").first.evaluate("e => e.getBoundingClientRect().bottom + scrollY")
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": end + PADDING}
        opened.screenshot(path=out / "report.png", full_page=True, clip=clip)
        browser.close()


def demo_pictures(out: Path) -> None:
    """What `thermoset demo` writes."""
    with tempfile.TemporaryDirectory() as folder:
        demo(out=Path(folder), figures=True, quiet=True)
        for name in ("frontier.png", "reliability.png"):
            shutil.copy(Path(folder) / name, out / name)
        report_picture(Path(folder) / "report.html", out)


def theory_pictures(out: Path) -> None:
    """The bounds, and what moves sizes on the bundled data."""
    plots.bound_figure().savefig(out / "theory-bound.png", dpi=90)
    explanation = explain(load_glyphs().logits, temperatures=np.arange(0.3, 5.1, 0.2), trials=20)
    plots.slopes_figure(explanation).savefig(out / "theory-slopes.png", dpi=90)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    folder = parser.parse_args().out
    theory_pictures(folder)
    demo_pictures(folder)
