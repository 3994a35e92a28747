"""Coverage of a sweep by the exact law: hits of all trials together, at every point of the grid down to T = 0.01."""

import math
import warnings

import numpy as np
import pytest

from conftest import REAL
from law import generated, law
from thermoset import RAPS, SCORES, sweep
from thermoset.errors import CoverageWarning

pytestmark = pytest.mark.scaled

SIGMAS = 5
GRID = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 100.0)
METHODS = (*(name for name, score in SCORES.items() if not score.learns), RAPS(penalty=0.1, k_reg=1))
COMPILED = (*(name for name, score in SCORES.items() if score.prefixes), METHODS[-1])  # those with a closed form


def z_scores(result, alpha, promised=None):
    """How many standard deviations the hits of all trials lie from the law, (methods, temperatures)."""
    n_conformal = int(0.2 * result.settings["rows"])
    n_evaluation = result.settings["rows"] - n_conformal
    mean, variance = law(n_conformal, n_evaluation, promised or alpha)
    coverage = np.array([result.of_trials("marginal_coverage", name, alpha) for name in result.methods])
    hits = (coverage * n_evaluation).round().sum(axis=-1)
    return (hits - result.trials * mean) / math.sqrt(result.trials * variance)


def run(logits, labels, alphas, grid=GRID, trials=100):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # a class may have no evaluation rows in some trial
        return sweep(logits, labels, grid, METHODS, alphas, trials, calibration_fraction=0, cp_fraction=0.2)


@pytest.mark.parametrize(("n_classes", "signal"), [(2, 0.0), (10, 0.3), (100, 0.3), (100, -1.0)])
def test_hits_follow_the_law_at_every_point(n_classes, signal):
    logits, labels = generated(1000, n_classes, signal=signal, seed=n_classes)
    result = run(logits, labels, ("0.05", "0.3"))
    for alpha in ("0.05", "0.3"):
        assert np.all(np.abs(z_scores(result, alpha)) < SIGMAS), alpha


def test_the_test_sees_a_coverage_that_is_off_by_two_hundredths():
    logits, labels = generated(1000, 10, signal=0.3, seed=10)
    result = run(logits, labels, ("0.1",))
    assert np.all(np.abs(z_scores(result, "0.1", promised="0.12")) > SIGMAS)


@pytest.mark.slow
def test_hits_follow_the_law_without_empty_sets_while_accuracy_is_below_the_level():
    alphas = ("0.05", "0.1")
    logits, labels = generated(1000, 20, signal=0.0, seed=11)
    assert (logits.argmax(axis=1) == labels).mean() < 0.75
    result = sweep(logits, labels, GRID, METHODS, alphas, 200, 0, 0.2, allow_empty=False)
    for alpha in alphas:
        assert np.all(np.abs(z_scores(result, alpha)) < SIGMAS), alpha
        assert all(np.isfinite(result.of_trials("threshold", name, alpha)).all() for name in result.methods)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["deterministic", "never empty", "tied"])
def test_other_cases_cover_at_least_as_promised(case):
    logits, labels = generated(1000, 20, signal=0.3, seed=11)
    if case == "tied":
        logits = np.round(logits / 5)
    settings = {"deterministic": {"randomized": False}, "never empty": {"allow_empty": False}}.get(case, {})
    result = sweep(logits, labels, GRID, METHODS, ("0.1",), 200, 0, 0.2, **settings)
    assert np.all(z_scores(result, "0.1") > -SIGMAS)


@pytest.mark.long
@pytest.mark.parametrize("allow_empty", [True, False])
def test_integrated_coverage_has_the_mean_of_the_law(allow_empty):
    # Given its threshold a trial's integrated coverage has the same mean, and a smaller variance.
    logits, labels = generated(1000, 10, signal=0.3 if allow_empty else -0.3, seed=12)
    options = {"evaluation": "integrated", "allow_empty": allow_empty}
    result = sweep(logits, labels, GRID, COMPILED, ("0.1",), 200, 0, 0.2, **options)
    n_conformal, n_evaluation = 200, 800
    mean, variance = law(n_conformal, n_evaluation, "0.1")
    coverage = np.array([result.curve("marginal_coverage", name) for name in result.methods])
    z = (coverage - mean / n_evaluation) / (math.sqrt(variance / result.trials) / n_evaluation)
    assert np.all(np.abs(z) < SIGMAS)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")  # ImageNet: classes without a row
@pytest.mark.parametrize("name", REAL)
def test_hits_follow_the_law_on_real_logits(real, name):
    logits, labels = real(name)
    rows = np.random.default_rng(0).permutation(len(labels))[:1000]
    result = run(logits[rows], labels[rows], ("0.1",), GRID[:-1], 100)
    assert np.all(np.abs(z_scores(result, "0.1")) < SIGMAS)
