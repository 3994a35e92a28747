"""The page of a predictor that answers rows alone."""

import numpy as np
import pytest

import thermoset as ts
from parts import require
from thermoset.report import build_report
from thermoset.report.page import render_page

pytestmark = pytest.mark.slow


def test_page_shows_the_curve_and_the_rule():
    require("vl_convert", "report")
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=5000)
    logits = rng.normal(size=(5000, 5)) + np.where(rng.random((5000, 1)) < 0.6, 6.0, 1.5) * np.eye(5)[labels]
    data = ts.Logits(logits, labels)
    predictor = ts.TwoTemperaturePredictor("lac", prefer="small", answer="error<=0.05").fit(data.take(slice(0, 3000)))
    fresh = data.take(slice(3000, None))
    report = build_report(predictor, fresh, trials=3)
    answered = predictor.predict_actions(fresh) == "answer"
    wrong = predictor.predict(fresh) != fresh.labels
    at = [point for point in report.risk if point.share == answered.mean()]
    assert at[0].error == pytest.approx(wrong[answered].mean())
    assert all(point.low <= point.error <= point.high for point in report.risk)
    assert report.risk[-1].error == pytest.approx(wrong.mean())
    page = render_page(report)
    assert 'id="answers"' in page
    assert predictor.answer_.sentence.split(" (")[0] in page
