"""No signal, no advice: where classes do not differ, T = 1 is kept and said in the first sentence."""

import numpy as np
import pytest

import thermoset as ts
from thermoset.tuning import choose
from thermoset.tuning.points import Sample
from thermoset.tuning.signals import classes_differ

pytestmark = pytest.mark.slow


def rows_of(n_rows, seed, apart=0.0, n_classes=20):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    noise = rng.normal(size=(n_rows, n_classes)) * (1 + apart * labels[:, None] / n_classes)
    return ts.Logits(3 * (noise + 2.5 * np.eye(n_classes)[labels]), labels)


def test_classes_that_are_alike_are_told_apart_as_often_as_chance_allows():
    rng, found = np.random.default_rng(0), []
    for _ in range(400):
        labels = rng.choice(12, size=300, p=np.arange(1, 13) / 78)  # some classes are rare
        sample = Sample(ts.Logits(rng.normal(size=(300, 12)), labels), 1.0)
        found.append(classes_differ(sample, (rng.random(300) < 0.3).astype(float)).p_value)
    assert np.mean(np.array(found) < 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    assert 0.4 < np.mean(found) < 0.6


@pytest.mark.long
@pytest.mark.parametrize("method", ["raps", "aps"])
def test_t_hat_does_not_wander_where_classes_do_not_differ(method):
    choices = [choose(rows_of(1500, seed), ts.Recipe(method), prefer="even", calibrated=1.2) for seed in range(12)]
    kept = [choice for choice in choices if choice.temperature == 1.0]
    assert len(kept) >= 10  # each test is wrong one time in twenty
    for choice in kept:
        assert choice.sentences[0].startswith("Keep T = 1") or choice.signal.tried is None
        if choice.signal.tried is not None:
            assert choice.signal.p_value > 0.05 or choice.signal.beats < 0.1
    assert any("no more than by chance" in choice.sentences[0] for choice in kept)


def test_a_difference_that_is_there_is_used():
    choice = choose(rows_of(6000, 1, apart=1.5), ts.Recipe("raps"), prefer="even", calibrated=1.8)
    assert choice.temperature != 1.0
    assert choice.signal.tried is None
    assert choice.signal.p_value < 1e-6
    assert choice.signal.beats > 0.5
    assert choice.sentences[0].startswith("T-hat = ")


def test_how_many_rows_would_tell():
    """Ten times fewer rows need about ten times as many to come to the same."""
    few = choose(rows_of(400, 3), ts.Recipe("raps"), prefer="even", calibrated=1.2)
    assert few.temperature == 1.0
    assert few.rows_needed is not None
    assert few.rows_needed > 400
    assert f"About {few.rows_needed:,} rows could" in few.sentences[0]


def test_other_preferences_and_grids_without_one_are_left_alone():
    data = rows_of(600, 5)
    assert choose(data, ts.Recipe("raps"), prefer="small", calibrated=1.2).signal.p_value is None
    assert choose(data, ts.Recipe("raps"), prefer="even", calibrated=1.2, temperatures=[2.0]).temperature == 2.0
