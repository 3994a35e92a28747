"""The quantile sample: the row whose score is the threshold."""

import numpy as np
import pytest

from law import generated
from thermoset import ConformalClassifier, InputError, Logits, theory
from thermoset.calibration import probabilities
from thermoset.conformal import scores


def test_its_score_is_the_threshold_at_every_temperature():
    z, labels = generated(301, 8, signal=0.5)
    grid = [0.05, 0.5, 1.0, 3.0]
    found = theory.quantile_samples(z, labels, grid, alpha=0.2)
    for i, t in enumerate(grid):
        row = found.row[i]
        assert found.threshold[i] == ConformalClassifier("aps", 0.2, t, randomized=False).fit(z, labels).threshold_
        assert found.threshold[i] == scores("aps", z, temperature=t)[row, labels[row]]
        ranked = np.sort(z[row])[::-1]
        assert found.margin[i] == ranked[0] - ranked[1]
        assert ranked[found.rank[i] - 1] == z[row, labels[row]]
        assert found.last_index[i] == theory.last_index(z[row : row + 1], t)[0]
        # at T = 1, whatever temperature picked it
        assert found.top_probs[i] == pytest.approx(np.sort(probabilities(z[row : row + 1])[0])[::-1][:5], rel=1e-13)
    assert found.tied.tolist() == [1, 1, 1, 1]


def test_rows_whose_label_comes_last_tie_at_a_score_of_1():
    # nine rows of ten have their label on the last rank: any threshold above the first is 1, whoever is asked
    z = np.array([[3.0, 2.0, float(-k)] for k in range(10)])
    found = theory.quantile_samples(z, [0] + [2] * 9, alpha=0.5)
    assert (found.threshold[0], found.row[0], found.rank[0], found.tied[0]) == (1.0, 1, 3, 9)
    assert np.isnan(found.top_probs[0]).tolist() == [False, False, False, True, True]


def test_rows_by_score():
    z, labels = generated(200, 6, signal=0.5)
    for t in (0.1, 1.0, 4.0):
        order = theory.score_order(z, labels, t)
        own = scores("aps", z, temperature=t)[np.arange(200), labels]
        assert sorted(order.tolist()) == list(range(200))
        assert np.all(np.diff(own[order]) >= 0)


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(InputError, match="needs at least 9 conformal rows; got 2"):
        theory.quantile_samples([[1.0, 0.0]] * 2, [0, 0])
    with pytest.raises(InputError, match="needs labels"):
        theory.quantile_samples(Logits([[2.0, 0.0]] * 20))
    with pytest.raises(InputError, match="needs labels"):
        theory.score_order([[1.0, 0.0]])
