"""The paper's claims on the bundled glyphs: 209 classes, about eight conformal rows a class, T* above 1."""

import numpy as np
import pytest

from thermoset.datasets import load_glyphs
from thermoset.metrics import swept_metrics
from thermoset.paper.study import RuleComparison, Settings
from thermoset.paper.study.claims import check_claims
from thermoset.paper.study.measure import measure
from thermoset.paper.theory import quantile_samples

pytestmark = pytest.mark.slow

SETTINGS = Settings(trials=30, alphas=(0.1,), cp_percents=(10,))
METRICS = [metric.name for metric in swept_metrics()]
SIZE, GAP = METRICS.index("avg_size"), METRICS.index("top_coverage_gap")


@pytest.fixture(scope="module")
def glyphs():
    return load_glyphs().logits


@pytest.fixture(scope="module")
def found(glyphs):
    return measure(glyphs, SETTINGS, None, lambda: None)


def test_the_study_says_that_the_claims_hold(glyphs, found):
    samples = quantile_samples(glyphs, temperatures=(1.0, found.ece, 0.5, 2.0))
    assert np.all(found.trial_ece > 1)
    claims = check_claims(found, RuleComparison((), {}, found.curves[10]), (), samples, SETTINGS)
    enlarged = {f"Where T* > 1, TS {what} {method}" for what in ("enlarges the sets of", "lowers the TopCovGap of")
                for method in ("APS", "RAPS")}  # fmt: skip
    curves = {f"{what} of {method} {does}" for method in ("APS", "RAPS") for what, does in (
        ("The threshold", "falls as T rises"), ("AvgSize", "rises to a peak at T_c and then falls"))}  # fmt: skip
    holding = {claim.text for claim in claims if claim.holds}
    assert {*enlarged, *curves} <= holding, claims
