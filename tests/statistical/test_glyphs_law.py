"""Coverage on the bundled glyphs: split by row it follows the exact law, split by family it scatters more widely."""

import math

import numpy as np
import pytest

from law import law
from thermoset.conformal import scores
from thermoset.datasets import load_glyphs
from thermoset.levels import conformal_rank
from thermoset.sweeping import Protocol, draw_trial

pytestmark = pytest.mark.long

SPLITS, ALPHA, SIGMAS = 200, "0.1", 5


def hits_over_splits(method, temperature, groups=None):
    """Hits, conformal and evaluation rows of each split, (SPLITS, 3)."""
    logits = load_glyphs().logits
    rows = np.arange(len(logits))
    own = scores(method, logits, temperature=temperature, u=np.random.default_rng(0).random(len(logits)))
    own = own[rows, logits.labels]
    found = []
    for trial in range(SPLITS):
        drawn = draw_trial(len(rows), trial, Protocol(calibration_fraction=0, cp_fraction=0.5, split_by=groups))
        k = conformal_rank(len(drawn.conformal), ALPHA)
        threshold = np.partition(own[drawn.conformal], k - 1)[k - 1]
        found.append((np.sum(own[drawn.evaluation] <= threshold), len(drawn.conformal), len(drawn.evaluation)))
    return np.array(found)


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_split_by_row_hits_follow_the_law(method, temperature):
    hits, n, m = hits_over_splits(method, temperature).T
    mean, variance = law(int(n[0]), int(m[0]), ALPHA)
    assert abs(hits.sum() - SPLITS * mean) < SIGMAS * math.sqrt(SPLITS * variance)
    # The variance of a sample variance of a nearly normal law is 2 variance^2 / SPLITS.
    assert abs(hits.var() / variance - 1) < SIGMAS * math.sqrt(2 / SPLITS)


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
def test_split_by_family_coverage_scatters_more_widely(method):
    family = np.unique(load_glyphs().family, return_inverse=True)[1].tolist()
    hits, n, m = hits_over_splits(method, 1.0, family).T
    _, variance = law(int(n.mean()), int(m.mean()), ALPHA)
    assert (hits / m).std() > 1.5 * math.sqrt(variance) / m.mean()
