"""The README's picture shows what the library says today, and its text alternative says what the picture shows."""

import importlib.util
import re
from pathlib import Path

import pytest

from parts import missing

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def picture():
    if importlib.util.find_spec("matplotlib") is None:
        missing("Matplotlib is not installed")
    spec = importlib.util.spec_from_file_location("readme_picture", ROOT / "tools" / "readme_picture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_picture_and_its_text_are_what_the_demos_predictor_answers(picture):
    told = re.search(r'<img src="docs/images/sets.png" alt="([^"]+)"', (ROOT / "README.md").read_text())[1]
    for _, name, record in picture.predictions():
        said = f"most likely {record.label} ({record.confidence:.0%})"
        truth = "" if record.label == name else f", in truth a {name}"
        assert f"{said}{truth}, set {{{', '.join(record.set)}}}" in told
        assert name in record.set


def test_what_the_readme_links_to_exists():
    links = re.findall(r"\]\(((?:docs/)?[\w./-]+\.md|LICENSE)(?:#[\w-]+)?\)", (ROOT / "README.md").read_text())
    assert len(links) > 15
    assert [link for link in links if not (ROOT / link).is_file()] == []
