"""The reference names things that exist: `make docs` would fail, but it is not part of the tests."""

import importlib
import re
from pathlib import Path

import pytest

import thermoset as ts

PAGES = sorted((Path(__file__).parents[1] / "docs" / "reference").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_name_exists(page):
    for name in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        if name.startswith(("thermoset.integrations", "thermoset.report")):
            continue  # they need extras; the page is built from their sources
        module, _, rest = name.rpartition(".")
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError:
            while True:
                try:
                    found = importlib.import_module(module)
                    break
                except ModuleNotFoundError:
                    module, _, more = module.rpartition(".")
                    rest = f"{more}.{rest}"
            for part in rest.split("."):
                found = getattr(found, part)
        assert found is not None


def test_the_index_names_all_that_the_package_offers_and_no_more():
    page = next(page for page in PAGES if page.stem == "index").read_text(encoding="utf-8")
    assert set(re.findall(r"`ts\.(\w+)`", page)) == {*ts.__all__, "open"} - {"__version__"}
