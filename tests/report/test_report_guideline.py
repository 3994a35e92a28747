"""The drawing of the guideline, and the words of the page."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from thermoset.report.page import guideline
from thermoset.report.words import SCORE_WORDS
from thermoset.scores import SCORES

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "guideline.svg"


def texts(drawing):
    return ["".join(text.itertext()) for text in ET.fromstring(drawing).iter(f"{SVG}text")]  # noqa: S314 (our own)


def test_the_picture_of_the_docs_is_the_drawing():
    """To write it anew: python -c "from thermoset.report.page import guideline; print(guideline(), end='')"."""
    assert PICTURE.read_text(encoding="utf-8") == guideline()


def test_both_branches_start_at_the_logits_and_each_has_its_temperature():
    drawn = texts(guideline())
    assert drawn[0] == "logits"
    star, hat = drawn.index("\u00f7 T*"), drawn.index("\u00f7 T\u0302")
    assert drawn[star : star + 3] == ["\u00f7 T*", "softmax", "confidence"]
    assert drawn[hat : hat + 4] == ["\u00f7 T\u0302", "score", "threshold", "prediction set"]


def test_it_asks_for_nothing_else():
    told = guideline().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in told
    assert "href" not in told


@pytest.mark.parametrize("text", ["<b>", "a & b", '"quoted"', "{x}"])
def test_what_is_filled_in_is_text(text):
    drawn = guideline(star=text, score=text)
    assert f"\u00f7 {text}" in texts(drawn)
    assert text in texts(drawn)
    assert text in ET.fromstring(drawn).get("aria-label")  # noqa: S314 (our own)


def test_every_score_is_explained():
    assert {score.name for score in SCORES.values()} == set(SCORE_WORDS)
