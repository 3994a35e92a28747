"""Which classes share a threshold: clusters, and thresholds between one for all classes and one for each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thermoset as ts
from law import generated
from thermoset import ConformalClassifier
from thermoset.arrays import pairs
from thermoset.conformal.groupings import (
    GROUPINGS,
    NULL_GROUP,
    cluster_classes,
    cluster_plan,
    mix_thresholds,
    resolve_grouping,
)
from thermoset.errors import CoverageWarning, InputError


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


# ---- interpolated thresholds ---------------------------------------------------------------------------------------

LOGITS, LABELS = generated(900, 6, signal=-0.5)


def fitted(method, grouping, alpha=0.2, **options):
    return ts.ConformalClassifier(method, alpha, grouping=grouping, **options).fit(LOGITS, LABELS)


@pytest.mark.parametrize(
    "method", ["lac", "aps", "raps", "saps", "topk", "margin", ts.PAS([1, 2, 3, 4, 5, 6])], ids=str
)
@pytest.mark.parametrize("temperature", [0.01, 1.0])
def test_the_ends_are_one_threshold_and_one_for_each_class(method, temperature):
    one, each = (fitted(method, grouping, temperature=temperature) for grouping in (None, "class"))
    low, high = (fitted(method, ts.Interpolated(tau), temperature=temperature) for tau in (0, 1))
    for found, want in ((low, one), (high, each)):
        assert found.thresholds_.tolist() == np.broadcast_to(want.thresholds_, (1, 6)).tolist()
        np.testing.assert_array_equal(found.predict_set(LOGITS), want.predict_set(LOGITS))


@pytest.mark.parametrize("method", ["lac", "aps", "raps", "saps", "topk", "margin"])
@pytest.mark.parametrize("tau", [0.1, 0.5, 0.75])
def test_thresholds_are_mixtures(method, tau):
    one, each, found = (fitted(method, grouping) for grouping in (None, "class", ts.Interpolated(tau)))
    want = [tau * float(q) + (1 - tau) * one.threshold_ for q in each.threshold_]
    np.testing.assert_allclose(found.threshold_, want, rtol=1e-15)
    scores = ts.conformal.scores(method, LOGITS[:50], u=1.0)
    np.testing.assert_array_equal(found.predict_set(LOGITS[:50], u=np.ones(50)), scores <= found.threshold_)


def test_those_of_pas_are_mixtures_of_the_published_score():
    score = ts.PAS([1, 2, 3, 4, 5, 6])
    one, each, found = (fitted(score, grouping) for grouping in (None, "class", ts.Interpolated(0.3)))
    want = 0.3 * -np.exp(-each.threshold_) + 0.7 * -np.exp(-one.threshold_)
    np.testing.assert_allclose(-np.exp(-found.threshold_), want, rtol=1e-12)


@pytest.mark.parametrize(
    ("method", "largest"),
    [("lac", 1.0), ("aps", 1.0), ("raps", 1 + 0.01 * 3), ("saps", 1 + 7 * 0.2), ("topk", 9.0), ("margin", 1.0)],
)
def test_the_largest_score_stands_for_a_class_without_rows(method, largest):
    logits, labels = generated(400, 8)
    rows = labels != 3
    named = ts.Logits(logits[rows], labels[rows], classes=list("abcdefgh"))
    with pytest.warns(CoverageWarning, match=r"too few for 1 of 8 classes: 'd' \(0 rows\)\. The largest possible"):
        found = ts.ConformalClassifier(method, grouping="interpolated").fit(named)
    one = ts.ConformalClassifier(method).fit(named)
    assert found.threshold_[3] == pytest.approx(0.5 * largest + 0.5 * one.threshold_, rel=1e-14)
    assert not found.predict_set(logits)[:, 3].all() or largest <= found.threshold_[3]


numbers = st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1.0, np.inf, -np.inf])


@given(st.lists(st.tuples(*[numbers] * 4), min_size=1, max_size=8), st.floats(0, 1), st.sampled_from(["lac", "pas"]))
def test_a_mixture_is_never_outside_its_ends(ends, tau, method):
    """So that a set misses its label only if one of the two does, to the last bit."""
    own_value, own_tie, value, tie = np.array(ends).T
    own_value = np.where(np.isposinf(own_value), 1.0, np.minimum(own_value, 1.0)) if method == "lac" else own_value
    both = np.sort([pairs(own_value, own_tie), pairs(value, tie)], axis=0)
    found = mix_thresholds(pairs(own_value, own_tie), pairs(value, tie), tau, ts.SCORES[method], 10)
    assert np.all(both[0] <= found)
    assert np.all(found <= both[1])


def test_misses_are_those_of_either_kind():
    for alpha in (0.05, 0.2):
        one, each = (fitted("aps", grouping, alpha).predict_set(LOGITS) for grouping in (None, "class"))
        for tau in (0.2, 0.5, 0.9):
            sets = fitted("aps", ts.Interpolated(tau), alpha).predict_set(LOGITS)
            assert not (one & each & ~sets).any()
            assert not (sets & ~one & ~each).any()


def test_text_and_object_name_the_same_grouping():
    assert resolve_grouping("interpolated") == ts.Interpolated() == GROUPINGS["interpolated"]
    for tau in (0.0, 0.1, 1 / 3, 1e-9, 1.0):
        assert resolve_grouping(ts.Interpolated(tau).text) == ts.Interpolated(tau)
    assert ts.Recipe("lac", grouping=ts.Interpolated(0.25)).grouping == "interpolated(tau=0.25)"


@pytest.mark.parametrize("tau", [-0.1, 1.1, np.nan, np.inf, "half", None, True])
def test_a_bad_tau_is_refused(tau):
    with pytest.raises(InputError, match="tau must be a number"):
        ts.Interpolated(tau)
    with pytest.raises(InputError, match="must be"):
        ts.Recipe("lac", grouping=f"interpolated(tau={tau})")


def test_a_file_holds_tau(tmp_path):
    predictor = ts.TwoTemperaturePredictor("lac", 0.2, "small", grouping=ts.Interpolated(0.3)).fit(LOGITS, LABELS)
    predictor.save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert read.document_.recipe.grouping == "interpolated(tau=0.3)"
    assert read.choice_.setting.kind == "LAC, interpolated, tau = 0.3"
    np.testing.assert_array_equal(read.predict_set(LOGITS), predictor.predict_set(LOGITS))
    assert not read._promise.exact
