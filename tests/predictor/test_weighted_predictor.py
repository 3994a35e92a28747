"""Predictors whose conformal rows have weights: plain ones where these are equal, and whole in their document."""

import msgspec
import numpy as np
import pytest

import thermoset as ts
from law import generated
from thermoset.conformal import ConformalClassifier
from thermoset.data import split_indices
from thermoset.errors import CoverageWarning, FileFormatError, InputError
from thermoset.predictor.document import write_document
from thermoset.predictor.label_shift import LabelShift

LOGITS, LABELS = generated(1500, 5, signal=0.7)
PARTS = ts.Logits(LOGITS[:500], LABELS[:500]), ts.Logits(LOGITS[500:1000], LABELS[500:1000])
FRESH, TRUTH = LOGITS[1000:], LABELS[1000:]
OWN = np.random.default_rng(2).exponential(size=500)
WEIGHTS = np.random.default_rng(1).exponential(size=500)


@pytest.fixture(scope="module")
def plain():
    return ts.TwoTemperaturePredictor("aps", alpha=0.1).fit_split(*PARTS)


@pytest.fixture
def weighted(plain, tmp_path):
    """A copy of the plain predictor, recalibrated with weights."""
    plain.save(tmp_path / "plain.json")
    return ts.TwoTemperaturePredictor.load(tmp_path / "plain.json").recalibrate(PARTS[1], weights=WEIGHTS)


@pytest.mark.parametrize("method", ["lac", "aps", "pas"])
def test_equal_weights_change_no_bit(method):
    equal = ts.TwoTemperaturePredictor(method, alpha=0.18).fit_split(*PARTS, weights=np.full(500, 0.3))
    none = ts.TwoTemperaturePredictor(method, alpha=0.18).fit_split(*PARTS)
    own = np.full(len(FRESH), 0.3)
    np.testing.assert_array_equal(equal._inference.thresholds, none._inference.thresholds)
    assert equal.temperature_sets_ == none.temperature_sets_
    np.testing.assert_array_equal(equal.predict_set(FRESH, weights=own), none.predict_set(FRESH))
    np.testing.assert_array_equal(equal.set_sizes(FRESH, weights=own), none.set_sizes(FRESH))
    np.testing.assert_array_equal(equal.predict_p(FRESH, weights=own), none.predict_p(FRESH))
    assert equal.predict_records(FRESH[:5], weights=own[:5]) == none.predict_records(FRESH[:5])
    for ours, theirs in zip(equal.predict_arrays(FRESH, weights=own), none.predict_arrays(FRESH), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert equal.document_.effective_rows == none.document_.effective_rows == sum(none.document_.pool_rows)


def test_sets_are_those_of_a_classifier_at_t_hat(weighted):
    sets = ConformalClassifier("aps", 0.1, weighted.temperature_sets_).fit(PARTS[1], weights=WEIGHTS)
    np.testing.assert_array_equal(weighted.predict_set(FRESH, weights=OWN), sets.predict_set(FRESH, weights=OWN))
    np.testing.assert_array_equal(weighted.set_sizes(FRESH, weights=OWN), sets.set_sizes(FRESH, weights=OWN))
    np.testing.assert_array_equal(weighted.predict_p(FRESH, weights=OWN), sets.predict_p(FRESH, weights=OWN))
    stricter = weighted.at(0.03)
    np.testing.assert_array_equal(
        stricter.predict_set(FRESH, weights=OWN), sets.at(0.03).predict_set(FRESH, weights=OWN)
    )
    assert weighted.threshold_ == sets.threshold_
    effective = WEIGHTS.sum() ** 2 / (WEIGHTS**2).sum()
    assert weighted.document_.effective_rows == pytest.approx(effective, rel=1e-9)


def test_fit_takes_the_weights_of_the_rows_that_set_the_threshold():
    whole = ts.TwoTemperaturePredictor("lac", random_state=3).fit(LOGITS, LABELS, weights=np.arange(1500) + 1)
    some, rest = split_indices(1500, 0.5, random_state=3)
    parts = (ts.Logits(LOGITS[rows], LABELS[rows]) for rows in (some, rest))
    split = ts.TwoTemperaturePredictor("lac", random_state=3).fit_split(*parts, weights=rest + 1)
    assert whole.document_.scores == split.document_.scores
    assert whole.document_.is_weighted


def test_recalibrated_without_weights_it_is_a_plain_one_again(weighted, plain):
    again = weighted.recalibrate(PARTS[1])
    assert not again.document_.is_weighted
    assert again._inference.thresholds == plain._inference.thresholds
    assert {m.name for m in again.document_.measures} >= {"coverage", "ece_after"}
    np.testing.assert_array_equal(again.predict_set(FRESH), plain.predict_set(FRESH))


def test_weights_are_asked_for(weighted, plain):
    for ask in ("predict_set", "set_sizes", "predict_p", "predict_arrays", "predict_records"):
        with pytest.raises(InputError, match="the conformal rows have weights"):
            getattr(weighted, ask)(FRESH)
        with pytest.raises(InputError, match="comes from rows without weights"):
            getattr(plain, ask)(FRESH, weights=OWN)
        with pytest.raises(InputError, match=r"weights\[3\] is nan"):
            getattr(weighted, ask)(FRESH, weights=np.where(np.arange(500) == 3, np.nan, OWN))
    with pytest.raises(InputError, match="the conformal rows have weights"):
        weighted.check(FRESH, TRUTH)


def test_rows_that_are_not_whole(weighted):
    """A threshold by weight decides sets of rows that keep four of five logits, which hold those of whole rows."""
    cut = ts.compact(ts.Logits(FRESH, TRUTH), 4)
    sets = weighted.predict_set(cut, weights=OWN)
    assert (sets >= weighted.predict_set(FRESH, weights=OWN)).all()
    np.testing.assert_array_equal(weighted.set_sizes(cut, weights=OWN), sets.sum(axis=1))
    report = weighted.check(cut, weights=OWN)
    assert report.marginal.hits == sets[np.arange(500), TRUTH].sum()


def test_what_goes_with_no_weights():
    with pytest.raises(InputError, match="weights need one threshold"):
        ts.TwoTemperaturePredictor("lac", grouping="class").fit(LOGITS, LABELS, weights=np.ones(1500))
    made = ts.TwoTemperaturePredictor("lac").fit_split(*PARTS, weights=WEIGHTS)
    with pytest.raises(InputError, match="already have weights"):
        made.shifted(priors=[0.2] * 5)


def test_a_small_effective_sample_warns():
    weights = np.full(500, 1e-9)
    weights[0] = 1.0
    with pytest.warns(CoverageWarning, match=r"are worth 1\.0"):
        made = ts.TwoTemperaturePredictor("lac").fit_split(*PARTS, weights=weights)
    assert made.document_.effective_rows == pytest.approx(1.0, abs=1e-5)


def test_check_says_that_its_law_is_an_approximation(weighted):
    report = weighted.check(FRESH, TRUTH, weights=np.ones(500))
    assert report.notes[0].startswith("The conformal rows have weights, so coverage varies about as much as with ")
    told = report.to_json_dict()
    assert 0 < told["effective_rows"] <= weighted.document_.effective_rows
    assert told["exact"] is False
    with pytest.warns(ts.SuspiciousRowsWarning, match="another order"):
        wrong = weighted.check(FRESH, (TRUTH + 1) % 5, weights=np.ones(500))
    assert "the approximate expected 95% range is" in wrong.broken[0]


@pytest.mark.parametrize(
    "change",
    [
        {"largest": 0.0},
        {"largest": -1.0},
        {"weights": b""},
        {"weights": b"\x00" * 250},  # all of them 0: none is the largest
        {"weights": b"\xff" * 900},
        {"weights": None},  # the largest of none, and no labels either
    ],
)
def test_forged_weights_are_refused(weighted, tmp_path, change):
    scores = msgspec.structs.replace(weighted.document_.scores, **change)
    write_document(tmp_path / "forged.json", weighted.document_.change(scores=scores))
    with pytest.raises(FileFormatError, match=r"weights|largest|labels"):
        ts.TwoTemperaturePredictor.load(tmp_path / "forged.json")


def test_weights_that_do_not_belong_are_refused(weighted, tmp_path):
    by_class = weighted.document_.recipe.change(grouping="class")
    for document in (
        weighted.document_.change(recipe=by_class, pool_rows=(100,) * 5),
        weighted.document_.change(shift=LabelShift(source=(0.2,) * 5, target=(0.2,) * 5, effective_rows=500.0)),
    ):
        write_document(tmp_path / "forged.json", document)
        with pytest.raises(FileFormatError, match="weights"):
            ts.TwoTemperaturePredictor.load(tmp_path / "forged.json")
