"""Measured critical temperatures, the theory confronted with a data set, and the row whose score is the threshold."""

import numpy as np
import pytest

from law import generated
from thermoset import ConformalClassifier, InputError, Logits, sweep, theory
from thermoset.calibration import probabilities
from thermoset.conformal import scores
from thermoset.sweeping import Sweep

GRID = [0.5, 1.0, 2.0, 3.0, 4.0, 8.0]


def swept(sizes):
    values = np.asarray(sizes, dtype=float).reshape(1, -1, 1, 1, 1)
    return Sweep(("aps",), np.arange(1.0, 1 + len(sizes)), (0.1,), ("avg_size",), values, np.zeros(1, dtype=int), {})


@pytest.mark.parametrize(
    ("sizes", "place", "edge"), [([1, 5, 2], 2.0, False), ([3, 2, 1], 1.0, True), ([1, 2, 3], 3.0, True)]
)
def test_a_peak_is_where_the_mean_size_is_largest(sizes, place, edge):
    peak = theory.measured_peak(swept(sizes))
    assert (peak.temperature, peak.size, peak.at_edge) == (place, max(sizes), edge)


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_the_measured_peak_moves_with_the_scale_of_the_logits_and_the_theorys_does_not(scale):
    # softmax(c z / (c T)) = softmax(z / T): with c a power of 2, to the last bit
    z, labels = generated(600, 12, signal=0.3)
    one = sweep(z, labels, GRID, ["aps"], trials=5)
    other = sweep(scale * z, labels, [scale * t for t in GRID], ["aps"], trials=5)
    assert np.array_equal(one.curve("avg_size", "aps"), other.curve("avg_size", "aps"))
    assert theory.measured_peak(other).temperature == scale * theory.measured_peak(one).temperature


def test_an_explanation_is_its_parts():
    z, labels = generated(1200, 10, signal=0.3)
    data, told = Logits(z, labels), []
    protocol = {"trials": 6, "random_state": 3, "calibration_fraction": "0.2", "cp_fraction": 0.3}
    found = theory.explain(data, temperatures=GRID, **protocol, progress=lambda *steps: told.append(steps))
    assert found.critical == theory.critical_temperature(10)
    slopes = theory.size_slopes(data, temperatures=GRID)
    assert found.slopes.slope.tolist() == slopes.slope.tolist()
    assert found.classes.gap.tolist() == theory.class_coverage(data, temperatures=GRID).gap.tolist()
    assert found.limit.size == theory.rank_limit(data).size
    curves = sweep(data, None, GRID, ["aps", "raps"], [0.1], 6, "0.2", 0.3, 3)
    assert np.array_equal(found.curves.trial_values, curves.trial_values)
    assert found.peaks["raps"].temperature == theory.measured_peak(curves, "raps").temperature
    plain = sweep(data, None, GRID, ["aps"], [0.1], 6, "0.2", 0.3, 3, randomized=False)
    assert found.peaks["aps, u = 1"].size == plain.curve("avg_size", "aps").max()
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
    with pytest.raises(InputError, match="needs labels"):
        theory.explain(z)


def test_derivatives_are_taken_at_few_temperatures_and_not_where_probabilities_underflow():
    z, labels = generated(300, 4, signal=-0.5)
    found = theory.explain(z, labels, temperatures=np.linspace(0.5, 5, 91), trials=2)
    assert len(found.slopes.temperature) == len(found.classes.temperature) == 25
    assert (found.slopes.temperature[0], found.slopes.temperature[-1]) == (0.5, 5.0)
    for scale in (1e5, 1e306):
        far = theory.explain(scale * z, labels, temperatures=[0.5, 1.0, 2.0], trials=2)
        assert not len(far.slopes.temperature)
        assert not len(far.slopes.peaks)
        assert far.classes.gap.shape == (0,)


def test_rows_against_the_claim_with_u_drawn_lose_their_only_label():
    # every label is on top. Heat lowers p_1 and the scores u p_1 of unsure rows, and with them the threshold; sure rows
    # keep theirs, so that u alone decides, and those with u between the two thresholds are empty when hot
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 5))
    z[:, 0] = z[:, 1:].max(axis=1) + np.where(np.arange(2000) < 1000, 200.0, 3.0)
    data = Logits(z, np.zeros(2000, dtype=int))
    rows, fresh = data.split(0.2)
    found = theory.routes(rows, fresh, 4.0, randomized=True)
    against = ~found.claimed
    assert against.any()
    assert found.only_label.tolist() == against.tolist()
    assert set(found.sizes_before[against].tolist()) == {1}
    assert set(found.sizes_after[against].tolist()) == {0}
    cool = theory.routes(rows, fresh, 0.5, randomized=True)
    assert np.all(cool.before[cool.only_label] == 1)
    assert np.all(cool.after[cool.only_label] == 2)


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
