"""Answer rules on real files: how often claims are broken, how much is answered, what sets of the others cover.

Rows are drawn with replacement, so that the file is the population and its risk and coverage are known.
"""

import functools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import thermoset as ts
from conftest import REAL, real_file
from thermoset.calibration.confidence import top_odds
from thermoset.decisions import TRUST, count_answers, kinds_of, propose, prove, set_thresholds
from thermoset.metrics.planning import most_errors
from thermoset.tuning.preferences import calibration_share
from tiers import scaled

pytestmark = pytest.mark.slow

DELTA = Fraction(1, 20)
CELLS = [("0.1", 500), ("0.05", 1000), ("0.05", 2000), ("0.02", 2000)]
LEAST = {("0.1", 500): 0.95, ("0.05", 1000): 0.85, ("0.05", 2000): 0.95, ("0.02", 2000): 0.75}


@functools.cache
def facts(name):
    """Log-odds of the top label at T*, right answers, and label scores, of every row of a file."""
    data = ts.datasets.load_glyphs().logits if name == "glyphs" else ts.load(real_file(name))
    temperature = ts.TemperatureScaler().fit(data.logits, data.labels).temperature_
    scores = {
        method: ts.ConformalClassifier(method, temperature=temperature).fit(data).calibration_.scores
        for method in ("lac", "aps")
    }
    return top_odds(data, temperature)[0], data.logits.argmax(axis=1) == data.labels, scores


def draw(name, error, n, rng):
    """A rule from n rows of a file: thresholds that were proposed, the claim, and the rows that proved it."""
    g, right, _ = facts(name)
    rows, n_first = rng.integers(len(g), size=n), int(n * float(calibration_share(n, 100)))
    first, rest = rows[:n_first], rows[n_first:]
    risk = 1 / (1 + np.exp(g[first]))
    found = propose(g[first], right[first], risk, TRUST, Fraction(error), DELTA, len(rest), 0)
    return found, prove(found, g[rest], right[rest], error, "0.95"), rest


@pytest.mark.scaled
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_claims_and_coverage_on_the_bundled_file(cell):
    check_cell("glyphs", cell, scaled(20, 100, 400))


@pytest.mark.long
@pytest.mark.parametrize("cell", CELLS, ids=str)
@pytest.mark.parametrize("name", REAL)
def test_claims_and_coverage_on_published_files(name, cell):
    check_cell(name, cell, scaled(40, 100, 400))


def check_cell(name, cell, draws):
    (error, n), (g, right, scores) = cell, facts(name)
    rng, broken, left = np.random.default_rng(11), 0, []
    covered = {method: [] for method in scores}
    for _ in range(draws):
        _, claim, rest = draw(name, error, n, rng)
        answered = g >= claim.threshold
        broken += bool(answered.any()) and np.mean(~right[answered]) > float(error)
        if answered.all():
            continue
        some = rest[~answered[rest]]
        left.append(len(some))
        block = ~answered & right & (g >= float(claim.below))
        for method, own in scores.items():
            q, top = set_thresholds(own[some], kinds_of(g[some], right[some], claim), claim, "0.1")
            covered[method].append(((own <= q) | (block & (own <= top)))[~answered].mean())
    assert broken <= binom.ppf(0.999, draws, 0.05)
    for found in covered.values():
        if len(found) >= draws / 2 and np.mean(left) >= 150:
            error_of_mean = np.std(found) / np.sqrt(len(found))
            assert 0.9 - 4 * error_of_mean <= np.mean(found) <= 0.915 + 4 * error_of_mean


@pytest.mark.evidence
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_nearly_all_is_answered_that_passes_in_hindsight(cell):
    (error, n), share, hindsight = cell, 0.0, 0.0
    for name in ("glyphs", *REAL):
        g, right, _ = facts(name)
        rng = np.random.default_rng(11)
        for _ in range(400):
            found, claim, rest = draw(name, error, n, rng)
            share += np.mean(g >= claim.threshold)
            rows, errors = count_answers(g[rest], ~right[rest], found.thresholds)
            passing = np.flatnonzero(errors <= most_errors(rows, Fraction(error), DELTA))
            hindsight += np.mean(g >= found.thresholds[passing[-1]]) if len(passing) else 0.0
    assert share >= LEAST[cell] * hindsight
