"""The page of a study: offline, narrow and wide, and with file names that are HTML, Markdown and LaTeX."""

import csv

import pytest

import thermoset as ts
from law import generated
from pages import assert_glossary_opens, assert_wide_tables_say_so
from parts import require
from thermoset.paper.study import Settings, study

pytestmark = pytest.mark.long

NAME = "<img src=x onerror=alert(1)> a|b & $x_1$ 50% #{}~^\\"
SETTINGS = Settings(trials=2, alphas=(0.1,), cp_percents=(10,), temperatures="0.3,1,2,5")


@pytest.fixture(scope="module")
def out(tmp_path_factory, chromium):
    require("matplotlib", "plot")
    folder = tmp_path_factory.mktemp("logits")
    ts.save(folder / f"{NAME}.npz", ts.Logits(*generated(500, 4, signal=0.5)))
    study(folder, folder / "out", SETTINGS)
    return folder / "out"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_it_opens_alone_and_nothing_overflows(opened, out, width, scheme):
    path = out / "index.html"
    seen = opened(path, width=width, scheme=scheme, ready="figure img")
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [path.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    drawn = seen.page.eval_on_selector_all("img", "all => all.map(e => e.naturalWidth > 0 && e.alt.length > 0)")
    assert drawn == [True] * 11
    seen.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    tables = seen.page.locator(".scroll").all()
    sideways = [one.get_attribute("aria-label") for one in tables if one.evaluate("e => e.scrollWidth > e.clientWidth")]
    assert tables
    assert width < 1000 or sideways == [], "tables fit where there is room"
    wide = seen.page.evaluate("getComputedStyle(document.querySelector('nav')).position")
    assert wide == ("sticky" if width > 1000 else "static"), "contents stay in sight where there is room"
    seen.shot(f"study-{width}-{scheme}")


def test_the_glossary_is_one_click_away_and_wide_tables_say_so(opened, out):
    seen = opened(out / "index.html", width=390, ready="figure img")
    assert_glossary_opens(seen)
    assert {"T*", "T\u0302", "CP set", "TopCovGap", "published", "RAPS"} <= {*seen.texts("#words dt")}
    assert_wide_tables_say_so(seen)


def test_a_file_name_is_text_in_every_format(opened, out):
    seen = opened(out / "index.html", ready="figure img")
    assert seen.page.locator("h3").all_inner_texts()[-1] == NAME
    name = "sizes-alpha-0.1-cp-10"
    lines = list(csv.reader((out / "tables" / f"{name}.csv").read_text(encoding="utf-8").splitlines()))
    latex = (out / "tables" / "paper-table-1.tex").read_text(encoding="utf-8")
    shown = seen.page.locator(f"[id='{name}'] tr").all()
    assert [row.locator("th, td").all_inner_texts() for row in shown] == lines
    assert lines[1][0] == NAME
    assert r"a\textbar{}b \& \$x\_1\$ 50\% \#\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}" in latex
