"""Sums of responsibilities: hand arithmetic, exact addition, and counts of the bootstrap that are Poisson numbers."""

import numpy as np
import pytest
from scipy.stats import chisquare, poisson
from thermoset.core.uniforms import trial_keys

from thermoset.core.responsibilities import UNIT, Responsibilities

LOGITS = np.log([[0.5, 0.5], [0.8, 0.2], [0.1, 0.9]])


def sums(stage, rows, cuts=()):
    """The sum over rows that come in blocks."""
    found = stage.zero()
    for place in np.split(np.arange(len(rows)), cuts):
        if len(place):
            stage.rows(slice(place[0], place[-1] + 1)).add(rows[place], found)
    return found.rows


def test_by_hand():
    # shares move from (1/2, 1/2) to (1/4, 3/4): ratios 1/2 and 3/2
    stage = Responsibilities(1.0, np.array([[0.5], [1.5]]))
    first = [0.25 / 1.0, 0.4 / 0.7, 0.05 / 1.4]
    found = sums(stage, LOGITS)[:, 0] * UNIT
    assert found == pytest.approx([sum(first), 3 - sum(first)], abs=1e-9)


def test_temperature_is_applied():
    stage = Responsibilities(2.0, np.ones((2, 1)))
    probs = np.exp(LOGITS / 2) / np.exp(LOGITS / 2).sum(axis=1, keepdims=True)
    assert sums(stage, LOGITS)[:, 0] * UNIT == pytest.approx(probs.sum(axis=0), abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_blocks_change_no_bit(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(9000, 7)) * 5
    stage = Responsibilities(1.3, rng.gamma(1.0, size=(7, 5)), trial_keys(seed, range(5)))
    whole = sums(stage, rows)
    for cuts in ([1], [4096], sorted(rng.integers(0, 9000, size=8))):
        assert np.array_equal(sums(stage, rows, cuts), whole)


def test_a_row_that_no_class_explains_adds_nothing():
    rows = np.array([[0.0, -np.inf], [0.0, 0.0]])
    found = sums(Responsibilities(1.0, np.array([[0.0], [1.0]])), rows)
    assert (found[:, 0] * UNIT).tolist() == [0.0, 1.0]


def test_bootstrap_counts_are_poisson_numbers():
    n_guesses = 2000
    stage = Responsibilities(1.0, np.ones((2, n_guesses)), trial_keys(0, range(n_guesses)))
    counts = np.array([sums(stage.rows(slice(i, i + 1)), LOGITS[:1]).sum(axis=0) for i in range(20)]) * UNIT
    whole = np.rint(counts)
    assert np.abs(counts - whole).max() < 1e-9
    seen = np.bincount(whole.astype(int).ravel(), minlength=7)
    expected = poisson(1).pmf(np.arange(6)) * whole.size
    observed = np.append(seen[:6], seen[6:].sum())
    assert chisquare(observed, np.append(expected, whole.size - expected.sum())).pvalue > 1e-4
