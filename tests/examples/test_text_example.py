"""The text example, on the docstrings of the Python that runs it and the real scikit-learn."""

import sys

import numpy as np
import pytest

import thermoset as ts
from conftest import ROOT

sys.path.append(str(ROOT))  # `python -m` does it where the example is run by hand

from examples.text.__main__ import ALPHA, ASKED, main, split
from examples.text.docstrings import LONG_ENOUGH, PACKAGES, docstrings

pytestmark = pytest.mark.long


def test_texts_are_real_and_each_is_there_once():
    found = docstrings()
    assert len({one.text for one in found}) == len(found) > 1500
    assert {one.package for one in found} <= set(PACKAGES)
    assert len({one.package for one in found}) > 15
    assert min(len(one.text) for one in found) >= LONG_ENOUGH
    assert any("arithmetic mean" in one.text for one in found if one.package == "statistics")


def test_the_three_parts_share_no_text():
    parts = split(docstrings())
    texts = [{one.text for one in part} for part in parts]
    assert not texts[0] & texts[1] | texts[1] & texts[2] | texts[0] & texts[2]
    assert sum(map(len, texts)) == len(docstrings())


def test_from_texts_to_sets(tmp_path, capsys):
    predictor, fresh = main(["--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert all(text in printed for text in ASKED)
    assert f"promised {1 - ALPHA}" in printed
    back = ts.TwoTemperaturePredictor.load(tmp_path / "predictor.json")
    assert np.array_equal(back.predict_set(fresh), predictor.predict_set(fresh))
    assert predictor.check(fresh).ok  # fresh rows keep what was promised, by the exact law
