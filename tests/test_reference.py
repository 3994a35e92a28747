"""The reference holds every public name, the page of commands every option; `make docs` writes both."""

import importlib
import importlib.util
import inspect
import re

import pytest
import typer.main

import thermoset as ts
from conftest import ROOT
from thermoset.cli import app

_SPEC = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(reference)

PAGES = reference.reference()
NAMED = [name for page in PAGES.values() for name in re.findall(r"^::: (\S+)", page, flags=re.MULTILINE)]
COMMANDS = typer.main.get_command(app).commands
NEED_EXTRAS = ("thermoset.integrations", "thermoset.report", "thermoset.plots")
"""Their names are read from the sources."""


def _public(module):
    """The names in `__all__`, or the classes and functions that are written there."""
    if hasattr(module, "__all__"):
        return {name for name in module.__all__ if not name.startswith("__")}
    own = {name: one for name, one in vars(module).items() if getattr(one, "__module__", None) == module.__name__}
    return {name for name, one in own.items() if name[0] != "_" and (inspect.isclass(one) or inspect.isroutine(one))}


def test_the_reference_holds_every_name_of_the_package_once():
    assert len(set(NAMED)) == len(NAMED)
    assert set(re.findall(r"\[`ts\.(\w+)`\]", PAGES["reference/index.md"])) == {
        name
        for name in (*ts.__all__, "open")
        if name != "__version__" and not hasattr(getattr(ts, name), "__path__") and f"reference/{name}.md" not in PAGES
    }


def test_the_reference_holds_every_name_that_a_public_package_exports():
    for part in (part for parts in reference.packages().values() for part in parts):
        names = reference.exported(part)
        assert set(names.values()) <= set(NAMED)
        if not part.startswith(NEED_EXTRAS):
            module = importlib.import_module(part)
            modules = {name for name in _public(module) if hasattr(getattr(module, name), "__spec__")}
            assert set(names) == _public(module) - modules, part


def test_every_name_in_the_reference_exists():
    split = [name.rpartition(".") for name in NAMED if not name.startswith(NEED_EXTRAS)]
    assert [name for module, _, name in split if not hasattr(importlib.import_module(module), name)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_on_its_page(name):
    section = re.search(
        rf"^## thermoset {name}\n(.*?)(?=^## |\Z)", reference.commands(), flags=re.DOTALL | re.MULTILINE
    )[1]
    options = [one for one in COMMANDS[name].params if one.param_type_name == "option" and not one.hidden]
    known = {flag for one in options for flag in (*one.opts, *one.secondary_opts)} - {"--help", "-h"}
    assert set(re.findall(r"`(--[\w-]+)`", section.replace(section.partition("|---")[0], ""))) >= known
    assert COMMANDS[name].help.splitlines()[0] in section


def test_the_page_of_commands_has_a_place_for_them():
    assert reference.COMMANDS_PLACE in (ROOT / "docs" / reference.COMMANDS_PAGE).read_text(encoding="utf-8")
