"""Logits and probabilities: what looks like which, who is warned, and what a fitted estimator refuses."""

import warnings
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import thermoset as ts
from thermoset import InputError, ProbabilitiesAsLogitsWarning
from thermoset.data.guards import AS_LOGITS, LOGITS, PROBABILITIES, input_kind_of, look_like_probabilities


def rows(n_rows=300, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    logits = 2 * (rng.normal(size=(n_rows, n_classes)) + 1.5 * np.eye(n_classes)[labels])
    weights = np.exp(logits)
    return logits, weights / weights.sum(axis=1, keepdims=True), labels


Z, P, Y = rows()
FIT, NEW = slice(0, 200), slice(200, 300)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 10, 1000])
def test_probabilities_of_every_type_are_recognised(dtype, n_classes):
    _, probs, _ = rows(50, n_classes)
    assert look_like_probabilities(probs.astype(dtype))
    with np.errstate(divide="ignore"):
        assert not look_like_probabilities(np.log(probs.astype(dtype)))  # logarithms of them are logits


@pytest.mark.parametrize("digits", [2, 3, 4, 6])
def test_so_are_probabilities_that_a_text_rounds(digits):
    assert look_like_probabilities(P.round(digits))


def test_one_row_is_enough_where_its_sum_is_exact_in_six_digits():
    assert look_like_probabilities(P[:1])
    assert not look_like_probabilities(P[:1].round(2) + np.eye(4)[:1] / 100)  # by chance one of a hundred
    assert look_like_probabilities(np.eye(4)[Y[:20]])  # a tree's votes
    assert not look_like_probabilities(np.eye(4)[Y[:19]])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_of_logits_do_not_look_so_by_chance(n_classes):
    """One row at a time, as a service has them: two classes, and the widest tolerance that one row may have."""
    logits = np.random.default_rng(1).uniform(-1, 2, size=(200_000, n_classes))
    inside = (logits >= 0).all(axis=1) & (logits <= 1).all(axis=1)
    near = inside & (np.abs(logits.sum(axis=1) - 1) < 0.02)
    assert near.sum() > 100
    assert not any(look_like_probabilities(row[None]) for row in logits[near])


@given(arrays.arrays(np.float64, (3, 3), elements=st.floats(-5, 5)))
def test_numbers_outside_0_to_1_are_no_probabilities(values):
    values[1, 2] = -0.25
    assert not look_like_probabilities(values)


def test_logits_that_look_like_probabilities_are_told():
    for given_as in (P, P.astype(np.float32), P.tolist(), {"logits": P, "labels": Y}):
        with pytest.warns(ProbabilitiesAsLogitsWarning, match=r"from_probabilities .*--probabilities"):
            made = ts.Logits(given_as)
        assert input_kind_of(made) == AS_LOGITS
        assert made.input_kind == LOGITS  # nobody guesses


def test_frames_files_and_shards_are_told_once(tmp_path):
    pandas = pytest.importorskip("pandas")
    with pytest.warns(ProbabilitiesAsLogitsWarning) as told:
        ts.Logits(pandas.DataFrame(P, columns=list("abcd")))
    assert len(told) == 1
    np.savez(tmp_path / "part-0.npz", logits=P, labels=Y)
    np.savez(tmp_path / "part-1.npz", logits=P[::-1], labels=Y[::-1])
    pandas.DataFrame(P, columns=list("abcd")).to_csv(tmp_path / "rows.csv", index=False)
    for read in (
        lambda: ts.load(tmp_path / "part-0.npz"),
        lambda: ts.load(tmp_path / "rows.csv"),
        lambda: ts.open(tmp_path / "rows.csv").logits,
        lambda: ts.open(str(tmp_path / "part-*.npz")).take(slice(10, 400)).logits,
    ):
        with pytest.warns(ProbabilitiesAsLogitsWarning) as told:
            read()
        assert len(told) == 1
    ts.load(tmp_path / "part-0.npz", probabilities=True)
    assert ts.open(tmp_path / "part-0.npz", probabilities=True).input_kind == PROBABILITIES


def test_what_is_done_with_rows_does_not_change_their_kind(tmp_path):
    made = ts.Logits.from_probabilities(P, Y)
    np.savez(tmp_path / "rows.npz", probs=P, labels=Y)
    stored = ts.open(tmp_path / "rows.npz", probabilities=True)
    top = ts.compact(ts.Logits.from_probabilities(rows(n_classes=30)[1], rows(n_classes=30)[2]), 16)
    for data in (made, stored, top):
        again = (
            data.take([3, 1, 2]),
            data.take(slice(2, 9)),
            data.labelled(data.labels),
            data.split(0.5)[1],
            data.concatenate(data),
            deepcopy(data),
        )
        assert {one.input_kind for one in again} == {PROBABILITIES}
    assert stored.load().input_kind == PROBABILITIES
    assert ts.Logits(Z).take([0]).input_kind == LOGITS
    with pytest.raises(InputError, match="probabilities cannot be joined with rows of logits"):
        made.concatenate(ts.Logits(Z, Y))


def estimators():
    return (
        ts.TemperatureScaler(),
        ts.ConformalClassifier("lac", 0.2),
        ts.TwoTemperaturePredictor("lac", 0.2, prefer="small"),
    )


def asked(model, data):
    return model.predict_proba(data) if hasattr(model, "predict_proba") else model.predict_set(data)


@pytest.mark.parametrize("place", range(3))
def test_what_was_fitted_on_logits_refuses_probabilities(place):
    model = estimators()[place].fit(Z[FIT], Y[FIT])
    asked(model, Z[NEW])
    asked(model, np.log(P[NEW]))  # logits too
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the error alone
        for some in (P[NEW], P[200:201]):
            with pytest.raises(InputError, match=r"was fitted on logits, and these rows are probabilities.* logits\.$"):
                asked(model, some)
    with pytest.raises(InputError, match=r"was fitted on logits, and these rows come from Logits\.from_prob"):
        asked(model, ts.Logits.from_probabilities(P[NEW]))


@pytest.mark.parametrize("place", range(3))
def test_what_was_fitted_on_probabilities_refuses_logits(place):
    model = estimators()[place].fit(ts.Logits.from_probabilities(P[FIT], Y[FIT]))
    wanted = asked(model, ts.Logits.from_probabilities(P[NEW]))
    np.testing.assert_array_equal(asked(model, np.log(P[NEW])), wanted)  # the same numbers
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for some in (P[NEW], P[200:201]):
            with pytest.raises(InputError, match=r"fitted on probabilities, .* given as logits. Use Logits.from_pro"):
                asked(model, some)
    with pytest.raises(InputError, match=r"fitted on probabilities, and these rows are logits. Pass probabilities"):
        asked(model, Z[NEW])


@pytest.mark.parametrize("place", range(3))
def test_who_goes_on_after_the_warning_goes_on_alike(place):
    with pytest.warns(ProbabilitiesAsLogitsWarning) as told:
        model = estimators()[place].fit(P[FIT], Y[FIT])
    assert len(told) == 1
    asked(model, P[NEW])
    asked(model, P[200:201].round(2))  # one row, too few digits to be sure
    with pytest.raises(InputError, match="given as logits, and these rows are no probabilities"):
        asked(model, Z[NEW])
    with pytest.raises(InputError, match="given as logits, and these rows come from"):
        asked(model, ts.Logits.from_probabilities(P[NEW]))
