"""Every program of the gallery runs, and has all that its page shows."""

import importlib.util
import sys

import pytest

from conftest import ROOT
from parts import require

pytestmark = pytest.mark.long

require("matplotlib", "plot")

_SPEC = importlib.util.spec_from_file_location("gallery", ROOT / "tools" / "gallery.py")
gallery = importlib.util.module_from_spec(_SPEC)
sys.modules["gallery"] = gallery
_SPEC.loader.exec_module(gallery)


def test_every_program_is_in_the_gallery():
    assert sorted(gallery.PROGRAMS) == sorted((ROOT / "examples" / "gallery").glob("*.py"))
    assert (ROOT / "docs" / gallery.PAGE).read_text().count(gallery.PLACE) == 1


@pytest.mark.parametrize("program", gallery.PROGRAMS, ids=lambda program: program.stem)
def test_a_program_prints_and_draws(program):
    entry = gallery.run(program)
    assert entry.title
    assert len(entry.text.split()) > 20
    assert entry.printed.endswith("\n")
    assert 0 < entry.printed.count("\n") <= 12
    assert entry.picture.startswith(b"\x89PNG")
    assert '"""' not in entry.code.partition("\n")[0]
