"""What the documentation shows happens: Python blocks and shell sessions run, and their output is that of today."""

import difflib
import importlib.util
import re
import shutil
import sys
import tomllib
from itertools import pairwise

import pytest

import thermoset as ts
from conftest import ROOT
from parts import missing
from thermoset.io import PREDICTION_SUFFIXES, READABLE
from thermoset.tuning import menu

_SPEC = importlib.util.spec_from_file_location("sessions", ROOT / "tools" / "sessions.py")
sessions = importlib.util.module_from_spec(_SPEC)
sys.modules["sessions"] = sessions
_SPEC.loader.exec_module(sessions)

PAGES = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in sessions.PAGES}
RUN = [name for name, text in PAGES.items() if any(not block.reason for block in sessions.blocks(text))]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    sessions.fill(folder)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", RUN)
def test_what_a_page_shows_happens(name, filled, tmp_path):
    folder = tmp_path / "page"
    shutil.copytree(filled, folder)
    try:
        made = sessions.run_page(ROOT / name, folder)
    except sessions.MissingPartError as absent:
        missing(str(absent))
    differences = difflib.unified_diff(PAGES[name].splitlines(), made.splitlines(), name, "today", lineterm="", n=1)
    assert made == PAGES[name], "\n".join([f"python -m tools.sessions {name} would rewrite:", *differences])


def test_what_is_not_run_says_why():
    blocks = [block for text in PAGES.values() for block in sessions.blocks(text)]
    assert all(len(block.reason.split()) > 2 for block in blocks if block.reason)
    assert sum(not block.reason for block in blocks) > 2 * sum(bool(block.reason) for block in blocks)


def test_a_session_that_shows_something_else_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\none\n$ echo two\nthree\n```\n")
    assert sessions.run_page(page, tmp_path).splitlines()[2:5] == ["one", "$ echo two", "two"]
    page.write_text("```console\n$ thermoset tune val.npz --alpha 2\n```\n")
    with pytest.raises(sessions.DiffersError, match="exit code 2"):
        sessions.run_page(page, tmp_path)
    for unknown in ("pip install '.[plots]'", "make everything", "uvicorn app"):
        page.write_text(f"```console\n$ {unknown}\n```\n")
        with pytest.raises(sessions.DiffersError, match=r"plots|everything|uvicorn"):
            sessions.run_page(page, tmp_path)


def test_every_page_is_in_the_navigation_once():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"^ +- .*: ([\w/-]+\.md)$", settings, flags=re.MULTILINE)
    written = {"docs/reference/index.md"}  # when the site is built: tests/test_reference.py
    assert sorted({f"docs/{name}" for name in named} - written) == sorted(
        name for name in PAGES if name.startswith("docs/")
    )


def test_links_between_pages_lead_somewhere():
    written = {"docs/reference/" + name for name in ("index.md", *(f"{package}.md" for package in ts.__dir__()))}
    for name, text in PAGES.items():
        for link in re.findall(r"\]\((?!https?:)([\w./-]+\.md)(?:#[\w.-]+)?\)", text):
            target = (ROOT / name).parent.joinpath(link).resolve().relative_to(ROOT).as_posix()
            assert target in written or (ROOT / target).is_file(), f"{name} links to {link}"


def test_the_architecture_names_every_package_in_the_order_of_the_layers():
    page = PAGES["docs/architecture.md"]
    table = page[page.index("## The packages") : page.index("## Ideas")]
    rows = [re.findall(r"`(\w+)`", row) for row in re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)]
    packages = {path.parent.name for path in (ROOT / "src" / "thermoset").glob("*/__init__.py")}
    assert packages <= {name for row in rows for name in row}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    layers = [{name.partition(".")[0] for name in re.findall(r"[\w.]+", layer)} for layer in contract["layers"]]
    places = [[min(i for i, layer in enumerate(layers) if name in layer) for name in row] for row in rows]
    assert all(max(above) <= min(below) for above, below in pairwise(places))


def test_the_names_that_the_architecture_tells_to_use_exist():
    page = PAGES["docs/architecture.md"]
    named = set(re.findall(r"`([A-Za-z_]\w+)`", page[page.index("## How to add things") :]))
    sources = "\n".join(
        path.read_text(encoding="utf-8") for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py")]
    )
    words = set(re.findall(r"\w+", sources))
    assert len(named) > 30
    assert named <= words


def test_every_format_is_documented():
    page = PAGES["docs/file-formats.md"]
    files = page[page.index("## Files") : page.index("## Predictions")]
    assert set(READABLE) <= set(re.findall(r"`(\.[\w.]+)`", files))
    predictions = page[page.index("## Predictions") : page.index("## Limits")]
    assert set(re.findall(r"^\| `(\.\w+)` \|", predictions, flags=re.MULTILINE)) == set(PREDICTION_SUFFIXES)


def test_numbers_that_pages_repeat_are_those_of_the_code():
    kinds = len(menu(0.1))
    said = {int(number) for text in PAGES.values() for number in re.findall(r"\b(\d+)\s+kinds of\s+sets", text)}
    assert said == {kinds}
