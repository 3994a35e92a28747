"""Sets of scikit-learn's classifiers cover what is promised: the exact law over many splits, and the bound of CV+."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from law import law
from thermoset.integrations.sklearn import SetClassifier
from thermoset.integrations.sklearn.fitting import cross_bound

pytestmark = pytest.mark.long


def z_of(hits, n_conformal, n_evaluation):
    """How many standard deviations the hits of all splits lie from the convolution of their law."""
    mean, variance = law(n_conformal, n_evaluation, "0.1")
    return (sum(hits) - len(hits) * mean) / math.sqrt(len(hits) * variance)


def test_a_forest_with_many_zeros_follows_the_law():
    """Half of a small forest's probabilities are zero, and many rows have the same; with ids, scores still differ."""
    images, digits = load_digits(return_X_y=True)
    images = images + np.random.default_rng(1).normal(scale=4, size=images.shape)
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[digits]
    forest = RandomForestClassifier(10, random_state=0).fit(images[:597], names[:597])
    X, y, rng, hits = images[597:], names[597:], np.random.default_rng(0), []
    columns = np.searchsorted(forest.classes_, y)
    zero = forest.predict_proba(X) == 0
    assert zero.mean() > 0.3
    assert zero[np.arange(1200), columns].mean() > 0.02
    for _ in range(70):
        rows = rng.permutation(1200)
        fit, new = rows[:200], rows[200:]
        model = SetClassifier(forest, "aps", prefer="small", cv="prefit").fit(X[fit], y[fit], ids=fit.tolist())
        hits.append(int(model.predict_set(X[new], ids=new.tolist())[np.arange(1000), columns[new]].sum()))
    assert abs(z_of(hits, 100, 1000)) < 5


def gaussians(n_rows, rng):
    """Four overlapping classes."""
    y = rng.integers(0, 4, n_rows)
    return rng.normal(size=(n_rows, 3)) + 1.8 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]])[y], y


def test_rows_held_out_from_folds_follow_the_law():
    X, y = gaussians(20_000, np.random.default_rng(0))
    rng, hits = np.random.default_rng(1), []
    for seed in range(70):
        rows = rng.permutation(len(X))
        fit, new = rows[:180], rows[180:2180]
        model = SetClassifier(GaussianNB(), "lac", prefer="small", cv=3, held_out=80, random_state=seed)
        hits.append(int(model.fit(X[fit], y[fit]).predict_set(X[new])[np.arange(2000), y[new]].sum()))
    assert abs(z_of(hits, 80, 2000)) < 5


def test_cross_conformal_sets_cover_more_than_the_bound_and_about_the_level():
    rng, coverage = np.random.default_rng(2), []
    for seed in range(40):
        (X, y), (new, truth) = gaussians(100, rng), gaussians(1000, rng)
        model = SetClassifier(GaussianNB(), "lac", 0.2, "small", cv=5, conformal="cross", random_state=seed)
        coverage.append(model.fit(X, y).predict_set(new)[np.arange(1000), truth].mean())
    error = np.std(coverage) / math.sqrt(len(coverage))
    assert cross_bound(100, 5, 0.2) + 5 * error < np.mean(coverage)
    assert abs(np.mean(coverage) - 0.8) < 5 * error + 0.01
