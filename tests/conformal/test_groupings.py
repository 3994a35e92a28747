"""Which classes share a threshold."""

import numpy as np
import pytest

from thermoset import ConformalClassifier
from thermoset.arrays import pairs
from thermoset.conformal.groupings import NULL_GROUP, cluster_classes, cluster_plan


def test_the_plan_by_hand():
    # 25 classes of 80 rows: share 25 / 100 makes clusters, 20 rows a class, 10 clusters.
    assert cluster_plan(np.full(25, 80), 0.1) == (10, 0.25)
    # A class with too few rows for alpha (9 are needed) does not decide for the others.
    assert cluster_plan(np.append(np.full(25, 80), 3), 0.1) == (10, 0.25)
    assert cluster_plan(np.full(25, 8), 0.1) == (0, 0.0)


def scored(centres, n=40, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(centres)), n)
    value = np.asarray(centres, dtype=float)[labels] + 0.01 * rng.random(len(labels))
    return pairs(value, 0.0), labels


def test_classes_with_like_scores_share_a_cluster():
    scores, labels = scored([0.1, 0.9, 0.1, 0.9, 0.5, 0.5])
    found = cluster_classes(scores, labels, 7, 3, 0.1, random_state=0)
    assert found[0] == found[2]
    assert found[1] == found[3]
    assert found[4] == found[5]
    assert len({found[0], found[1], found[4]}) == 3
    assert found[6] == NULL_GROUP  # no rows


def test_tie_breaks_separate_saturated_values():
    labels = np.repeat([0, 1, 2, 3], 40)
    ties = np.where(labels % 2 == 0, 1.0, 100.0) + np.random.default_rng(0).random(160)
    found = cluster_classes(pairs(np.ones(160), ties), labels, 4, 2, 0.1, random_state=0)
    assert found[0] == found[2] != found[1] == found[3]


def test_with_rows_enough_every_class_stands_alone():
    scores, labels = scored([0.1, 0.2, 0.3])
    assert sorted(cluster_classes(scores, labels, 3, 9, 0.1, random_state=0)) == [0, 1, 2]


def test_one_cluster_is_no_cluster():
    scores, labels = scored([0.1, 0.2, 0.3])
    assert set(cluster_classes(scores, labels, 3, 1, 0.1, random_state=0)) == {NULL_GROUP}


@pytest.mark.parametrize(("name", "value"), [("temperature", 5.0), ("method", "lac"), ("random_state", 9)])
def test_a_parameter_changed_after_fit_changes_no_set(name, value):
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(200, 5)) * 4, rng.integers(0, 5, 200)
    model = ConformalClassifier("aps").fit(logits, labels)
    before = model.predict_set(logits)
    np.testing.assert_array_equal(model.set_params(**{name: value}).predict_set(logits), before)
