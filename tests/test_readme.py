"""The README's picture shows what the library says today, its text alternative what the picture shows, and its first
sentences are true of the bundled data."""

import importlib.util
import math
import re
from pathlib import Path

import pytest

import thermoset as ts
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


@pytest.mark.slow
def test_the_confidence_is_calibrated_as_the_first_sentences_say():
    """On half of the glyphs, none of which any step has seen: in every tenth, and in the numbers that are given."""
    known, fresh = ts.datasets.load_glyphs().logits.split(0.5)
    said = re.search(
        r"of (\d+) answers that are about 80% sure, (\d+)% are right; it was (\d+)% with",
        (ROOT / "README.md").read_text(),
    )
    shares = {}
    for calibration in ("auto", "temperature"):
        model = ts.TwoTemperaturePredictor("lac", temperature_sets=1.0, calibration=calibration).fit(known)
        probs = model.predict_proba(fresh)
        confidence, right = probs.max(axis=1), probs.argmax(axis=1) == fresh.labels
        about = (confidence >= 0.75) & (confidence < 0.85)
        shares[calibration] = int(about.sum()), round(100 * right[about].mean())
        off = []
        for tenth in range(10):
            some = (confidence >= tenth / 10) & (confidence < (tenth + 1) / 10)
            if some.sum() >= 200:
                mean = confidence[some].mean()
                error = math.sqrt(mean * (1 - mean) / some.sum())
                off.append(abs(right[some].mean() - mean) > 0.04 + 2 * error)
        assert any(off) == (calibration == "temperature")
    assert tuple(map(int, said.groups())) == (*shares["auto"], shares["temperature"][1])
