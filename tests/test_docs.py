"""What the documentation shows happens: Python blocks and shell sessions run, and their output is that of today."""

import difflib
import importlib.util
import re
import shutil
import sys

import pytest
import typer.main

from conftest import ROOT
from parts import missing
from thermoset.cli import app
from thermoset.io import PREDICTION_SUFFIXES, READERS

_SPEC = importlib.util.spec_from_file_location("sessions", ROOT / "tools" / "sessions.py")
sessions = importlib.util.module_from_spec(_SPEC)
sys.modules["sessions"] = sessions
_SPEC.loader.exec_module(sessions)

PAGES = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in sessions.PAGES}
RUN = [name for name, text in PAGES.items() if any(not block.reason for block in sessions.blocks(text))]
COMMANDS = typer.main.get_command(app).commands


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    sessions.fill(folder)
    return folder


@pytest.mark.parametrize("name", RUN)
def test_what_a_page_shows_happens(name, filled, tmp_path):
    folder = tmp_path / "page"
    shutil.copytree(filled, folder)
    try:
        made = sessions.run_page(ROOT / name, folder)
    except sessions.Missing as absent:
        missing(str(absent))
    differences = difflib.unified_diff(PAGES[name].splitlines(), made.splitlines(), name, "today", lineterm="", n=1)
    assert made == PAGES[name], "\n".join([f"python -m tools.sessions {name} would rewrite:", *differences])
