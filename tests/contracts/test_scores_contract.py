"""What every score must be, collected from the registry: a new score is tested by being in it."""

import dataclasses
import math

import numpy as np
import pytest

import oracle
import thermoset
import thermoset.scores as module
from on_arrays import score_matrix
from thermoset.conformal import ConformalClassifier, scores
from thermoset.errors import InputError
from thermoset.testing import check_score
from thermoset.uniforms import Randomness

NAMES = list(thermoset.SCORES)
ALL = pytest.mark.parametrize("name", NAMES)


def data(n=150, n_classes=8, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, size=n)
    return rng.normal(scale=2, size=(n, n_classes)) + 3 * np.eye(n_classes)[labels], labels


def test_the_oracle_knows_every_score():
    assert sorted(NAMES) == sorted(oracle.METHODS)


@pytest.mark.slow
@ALL
def test_every_score_passes_what_users_run_on_theirs(name):
    report = check_score(name, temperatures=(0.01, 1.0, 100.0))
    assert report.monotone
    assert report.distinct
    assert report.compiled is thermoset.SCORES[name].compiled
    assert report.name == thermoset.SCORES[name].name


@ALL
@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("u", [0.0, 2.0**-53, 0.3, 1 - 2.0**-53, 1.0])
def test_a_score_never_falls_with_rank(name, temperature, u):
    for seed, scale, n_classes in ((0, 1.0, 8), (1, 30.0, 8), (2, 0.0, 6), (3, 4.0, 200)):
        logits = np.random.default_rng(seed).normal(scale=scale, size=(40, n_classes))
        pairs = score_matrix(logits, thermoset.SCORES[name], temperature, Randomness(given=np.full(40, u)))
        for i, row in enumerate(logits.tolist()):
            walk = pairs[i, oracle.ranking(row)]
            assert np.all(walk[:-1] <= walk[1:])
            assert not np.isnan(walk).any()


@ALL
def test_a_masked_class_is_beyond_every_threshold(name):
    logits = np.array([[0.0, -np.inf, 3.0, -np.inf], [-np.inf, -np.inf, 1.0, -np.inf]])
    for temperature in (0.01, 1.0, 100.0):
        found = scores(name, logits, temperature=temperature, u=0.5)
        np.testing.assert_array_equal(np.isposinf(found), np.isneginf(logits))


@ALL
def test_a_mask_is_as_if_the_class_were_not_there(name):
    logits, _ = data(20, 5)
    masked = np.insert(logits, 2, -np.inf, axis=1)
    found = scores(name, masked, temperature=0.7, u=0.4)
    np.testing.assert_array_equal(np.delete(found, 2, axis=1), scores(name, logits, temperature=0.7, u=0.4))


@ALL
def test_deterministic_is_u_of_one(name):
    logits, labels = data()
    plain = ConformalClassifier(name, randomized=False).fit(logits, labels)
    ones = np.ones(len(labels))
    given = ConformalClassifier(name, randomized=True).fit(logits, labels, u=ones)
    assert plain.thresholds_.tobytes() == given.thresholds_.tobytes()
    np.testing.assert_array_equal(plain.predict_set(logits), given.predict_set(logits, u=ones))


@ALL
def test_u_matters_exactly_when_the_score_says_so(name):
    logits, _ = data()
    score = thermoset.SCORES[name]
    low, high = scores(name, logits, u=0.2), scores(name, logits, u=0.9)
    assert np.all(low < high) if score.uses_u else np.array_equal(low, high)


@ALL
def test_a_score_is_a_value(name):
    score = thermoset.SCORES[name]
    again = eval(repr(score), dict(vars(module)))  # noqa: S307 - our own repr
    assert again == score
    assert hash(again) == hash(score)
    assert again is not score
    for field in dataclasses.fields(score):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(score, field.name, 1)


def test_scores_of_different_names_are_different():
    assert len(set(thermoset.SCORES.values())) == len(NAMES)


def test_the_registry_cannot_be_written_to():
    with pytest.raises(TypeError):
        thermoset.SCORES["mine"] = thermoset.SCORES["aps"]


@ALL
def test_a_name_and_its_object_are_the_same_method(name):
    logits, labels = data()
    by_name = ConformalClassifier(name).fit(logits, labels)
    by_object = ConformalClassifier(thermoset.SCORES[name]).fit(logits, labels)
    assert by_name.threshold_ == by_object.threshold_
    np.testing.assert_array_equal(by_name.predict_set(logits), by_object.predict_set(logits))
    np.testing.assert_array_equal(scores(name, logits, u=0.5), scores(thermoset.SCORES[name], logits, u=0.5))


@ALL
def test_bad_parameters_are_refused(name):
    score = thermoset.SCORES[name]
    for field in dataclasses.fields(score):
        usual = getattr(score, field.name)
        bad = ("yes", None) if isinstance(usual, bool) else (-1, math.nan, math.inf, "a", None)
        for value in bad if usual is not None else bad[:-1]:
            with pytest.raises(InputError, match="must be"):
                dataclasses.replace(score, **{field.name: value})


@pytest.mark.parametrize("name", [name for name in NAMES if not thermoset.SCORES[name].learns])
def test_the_threshold_is_the_score_of_a_row(name):
    logits, labels = data()
    model = ConformalClassifier(name, randomized=False, temperature=0.8).fit(logits, labels)
    own = np.sort(scores(name, logits, temperature=0.8)[np.arange(len(labels)), labels])
    assert model.threshold_ == own[136 - 1]  # k = ceil(151 * 0.9) = ceil(135.9)


@ALL
def test_values_are_affine_in_u_and_ranks_do_not_overlap(name):
    """What the sweep relies on: one label of a row depends on u, and its score is a straight line in it."""
    logits = -np.sort(-np.random.default_rng(0).normal(scale=3, size=(50, 9)), axis=1)  # labels in order of rank
    for temperature in (0.3, 1.0, 5.0):
        start, middle, end = (scores(name, logits, temperature=temperature, u=u) for u in (0.0, 0.5, 1.0))
        squashed = 2.0**-32 if temperature < 1 else 0.0  # masses that are nearer to 1 count as 1
        np.testing.assert_allclose(middle, (start + end) / 2, rtol=0, atol=1e-14 + squashed)
        assert np.all(end >= start)
        assert np.all(start[:, 1:] >= end[:, :-1])
