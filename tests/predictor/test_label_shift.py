"""Predictors for other class shares: equal weights change no bit, weights by hand, documents, refusals."""

import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest

import thermoset as ts
from engines import ENGINES
from law import generated
from thermoset.calibration import probabilities
from thermoset.errors import CoverageWarning, FileFormatError, InputError
from thermoset.predictor.document import checksum_of, read_document, write_document
from thermoset.predictor.label_shift import read_priors, shares_of, shiftable_scores, source_counts
from thermoset.predictor.stored import Thresholds

LOGITS, LABELS = generated(1200, 4, signal=0.0)
LOGITS = LOGITS / 4
ROWS = ts.Logits(LOGITS[:800], LABELS[:800], classes=["ant", "bee", "cow", "doe"])
FRESH = ts.Logits(LOGITS[800:], LABELS[800:])
OTHER = {"ant": 0.55, "bee": 0.25, "cow": 0.15, "doe": 0.05}
TARGET = np.array(list(OTHER.values()))


def fitted(method="raps", alpha=0.1, **parameters):
    return ts.TwoTemperaturePredictor(method, alpha, prefer="small", **parameters).fit(ROWS)


@pytest.fixture(scope="module")
def predictor():
    return fitted()


@pytest.fixture(scope="module")
def shifted(predictor):
    return predictor.shifted(priors=OTHER)


@pytest.mark.parametrize("alpha", ["0.02", 0.1, "0.25", "0.5"])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"method": "aps", "randomized": False},
        {"method": "lac", "allow_empty": False},
        {"method": "saps"},
        {"method": "margin"},
    ],
)
def test_the_same_shares_change_no_bit(alpha, parameters, tmp_path):
    plain = fitted(alpha=alpha, **parameters)
    same = plain.shifted(priors=shares_of(source_counts(plain.document_)))
    same.save(tmp_path / "p.json")
    for one in (same, ts.TwoTemperaturePredictor.load(tmp_path / "p.json")):
        assert np.array_equal(one.predict_set(FRESH), plain.predict_set(FRESH))
        assert np.array_equal(one.set_sizes(FRESH), plain.set_sizes(FRESH))
        assert np.array_equal(one.predict_proba(FRESH), plain.predict_proba(FRESH))
        assert np.array_equal(one.predict(FRESH), plain.predict(FRESH))
        assert one.document_.shift.effective_rows == plain.document_.provenance.conformal_rows


def test_thresholds_by_hand(predictor, shifted):
    """The definition in fractions: the smallest q with sum_{s_i <= q} w_i / (sum w_i + w) >= 1 - alpha."""
    made = shifted.document_
    n = made.provenance.conformal_rows
    pairs, labels = made.scores.pairs(n), made.scores.own_labels(n, 4)
    source = np.bincount(labels) / n
    assert np.allclose(made.shift.source, source, rtol=1e-15)
    weight = [Fraction(float(one)) for one in TARGET / source]
    order = np.argsort(pairs)
    whole = sum(weight[y] for y in labels)
    for y in range(4):
        running, found = Fraction(0), math.inf
        for row in order:
            running += weight[labels[row]]
            if running >= Fraction(9, 10) * (whole + weight[y]):
                found = pairs.real[row]
                break
        assert shifted.threshold_[y] == found
    exact = np.array([float(weight[y]) for y in labels])
    assert made.shift.effective_rows == pytest.approx(exact.sum() ** 2 / (exact**2).sum(), rel=1e-9)
    assert predictor.threshold_.__class__ is float


def test_probabilities_are_bayes(predictor, shifted):
    p = predictor.predict_proba(FRESH) * (TARGET / np.array(shifted.document_.shift.source))
    p /= p.sum(axis=1, keepdims=True)
    assert shifted.predict_proba(FRESH) == pytest.approx(p, abs=1e-12)
    assert np.array_equal(shifted.predict(FRESH), p.argmax(axis=1))
    found = shifted.predict_arrays(FRESH)
    assert np.array_equal(found.labels, shifted.predict(FRESH))
    assert np.array_equal(found.confidence, shifted.predict_proba(FRESH).max(axis=1))
    assert np.array_equal(found.sets, shifted.predict_set(FRESH))
    assert not np.array_equal(shifted.predict(FRESH), predictor.predict(FRESH))


def test_confidence_is_honest_on_the_target(predictor, shifted):
    """Rows drawn with the target shares: the shifted predictor is calibrated there, and loses less."""
    logits, labels = generated(60_000, 4, signal=0.0, seed=5)
    source = np.array(shifted.document_.shift.source)
    kept = np.random.default_rng(0).random(60_000) < (TARGET / source)[labels] / (TARGET / source).max()
    rows = ts.Logits(logits[kept] / 4, labels[kept])
    loss = ts.metrics.negative_log_likelihood
    before, after = (loss(one.predict_proba(rows), rows.labels) for one in (predictor, shifted))
    assert after < before - 0.02
    assert ts.metrics.expected_calibration_error(shifted.predict_proba(rows), rows.labels) < 0.02


def test_estimated_from_rows(predictor):
    found = predictor.shifted(FRESH)
    estimate = predictor.estimate_priors(FRESH)
    made = found.document_.shift
    assert made.estimated
    assert made.target_rows == 400
    assert np.array_equal(made.target, estimate.target)
    assert np.array_equal(made.error, estimate.error)
    assert np.array_equal(made.ends[0], estimate.low)
    assert found.document_ == predictor.shifted(priors=estimate).document_
    assert found.document_ == predictor.shifted(ts.Logits(FRESH.logits)).document_, "labels are not looked at"


def test_no_law_is_promised_of_it(shifted):
    promise = shifted._promise
    assert not promise.exact
    assert promise.effective_rows == shifted.document_.shift.effective_rows < promise.pool_sizes[0]
    report = shifted.check(FRESH)
    assert report.marginal.allowed.high == 1
    assert report.marginal.coverage == pytest.approx(shifted.predict_set(FRESH)[np.arange(400), FRESH.labels].mean())
    assert report.calibration.accuracy == pytest.approx((shifted.predict(FRESH) == FRESH.labels).mean())


def test_another_level(predictor, shifted):
    stricter = shifted.at(0.02)
    assert (stricter.predict_set(FRESH) >= shifted.predict_set(FRESH)).all()
    assert stricter.document_.thresholds == predictor.at(0.02).shifted(priors=OTHER).document_.thresholds
    assert shifted.at(0.1).document_ == shifted.document_
    other = [0.1, 0.2, 0.3, 0.4]  # new shares replace earlier ones
    assert shifted.shifted(priors=other).document_ == predictor.shifted(priors=other).document_


def test_new_rows_make_it_an_ordinary_predictor_again(shifted, tmp_path):
    shifted.save(tmp_path / "p.json")
    again = ts.TwoTemperaturePredictor.load(tmp_path / "p.json").recalibrate(ts.Logits(LOGITS[800:], LABELS[800:]))
    assert again.document_.shift is None
    assert again._inference.thresholds.size == 1
    assert again.predict_proba(FRESH) == pytest.approx(probabilities(FRESH, again.temperature_))


def test_classes_without_conformal_rows_are_in_every_set():
    rows = ROWS.take(ROWS.labels != 2)
    predictor = ts.TwoTemperaturePredictor("aps", prefer="small").fit(rows)
    with pytest.warns(CoverageWarning, match=r"1 of 4 classes .* in every set: 'cow' \(0 rows\)"):
        found = predictor.shifted(priors=OTHER)
    assert found.threshold_[2] == np.inf
    assert found.predict_set(FRESH)[:, 2].all()
    assert np.isfinite(found.predict_proba(FRESH)).all()
    with pytest.raises(InputError, match="all the weight to classes without conformal rows"):
        predictor.shifted(priors=[0, 0, 1, 0])
    none = fitted().shifted(priors=[0.5, 0.5, 0, 0])
    assert (none.predict_proba(FRESH)[:, 2:] == 0).all()
    assert np.isfinite(none.threshold_).all()


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("parameters", [{}, {"method": "lac"}, {"method": "aps", "allow_empty": False}])
def test_exports_agree(engine, parameters):
    found = fitted(**parameters).shifted(priors=OTHER)
    answer = engine(found, FRESH.logits)
    assert np.array_equal(answer["sets"], found.predict_set(FRESH))
    assert np.array_equal(answer["label"], found.predict(FRESH))
    assert answer["probabilities"] == pytest.approx(found.predict_proba(FRESH), abs=1e-12)
    assert answer["confidence"] == pytest.approx(found.predict_proba(FRESH).max(axis=1), abs=1e-12)


def test_what_does_not_know_shifts_says_so(shifted):
    from thermoset.report import build_report

    with pytest.raises(InputError, match="no p-values: its conformal rows are weighted"):
        shifted.predict_p(FRESH)
    with pytest.raises(InputError, match="a report needs a predictor for the class shares it was fitted on"):
        build_report(shifted, FRESH)
    assert "other class shares" in shifted._repr_html_()


@pytest.mark.parametrize(
    ("parameters", "because"),
    [
        ({"grouping": "class"}, "thresholds by class remain valid under label shift"),
        ({"grouping": "cluster"}, "grouping='cluster' cannot be shifted"),
        ({"grouping": "rc3p"}, "thresholds by class remain valid under label shift"),
        ({"grouping": "interpolated"}, "grouping='interpolated.*' cannot be shifted"),
    ],
)
def test_predictors_that_cannot_be_shifted(parameters, because):
    found = fitted(**parameters)
    for asked in (lambda: found.shifted(priors=OTHER), lambda: found.shifted(FRESH)):
        with pytest.raises(InputError, match=because):
            asked()


def test_protected_classes_and_groups_cannot_be_shifted(predictor):
    made = predictor.document_.change(recipe=predictor.document_.recipe.change(alpha="0.05"))
    with pytest.raises(InputError, match=r"raised to that of alpha = 0\.05"):
        shiftable_scores(made)
    grouped = ts.Logits(ROWS.logits, ROWS.labels, groups=["a", "b"] * 400)
    with pytest.raises(InputError, match="grouping='group' cannot be shifted"):
        ts.TwoTemperaturePredictor("lac", prefer="small", grouping="group").fit(grouped).shifted(priors=TARGET)
    with pytest.raises(InputError, match="without the label scores"):
        shiftable_scores(predictor.document_.change(scores=None))


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ([0.5, 0.5], r"priors must be 4 shares, one per class; got shape \(2,\)"),
        ([0.5, 0.6, 0, 0], "priors must add up to 1; got 1.1"),
        ([1.2, -0.2, 0, 0], "shares from 0 to 1; that of class 'ant' is 1.2"),
        ([0.5, np.nan, 0.5, 0], "that of class 'bee' is nan"),
        ("even", "priors must be numbers"),
        (OTHER | {"elk": 0.0}, "an unknown class: 'elk'"),
        ({"ant": 1.0}, "a share for each of the 4 classes; 'bee', 'cow', 'doe' are missing"),
        ({0: 0.5, "0": 0.5, 1: 0, 2: 0, 3: 0}, "name class 'ant' twice"),
        ({"ant": "many", "bee": 0, "cow": 0, "doe": 0}, "priors must be numbers"),
    ],
)
def test_bad_shares(given, because):
    with pytest.raises(InputError, match=because):
        read_priors(given, ROWS.classes, 4)


def test_shares_that_are_a_little_off_are_scaled():
    assert read_priors([0.3333, 0.3333, 0.3333], None, 3).sum() == pytest.approx(1, abs=1e-12)
    exact = [1 / 3, 1 / 3, 1 / 3]
    assert read_priors(exact, None, 3).tolist() == exact


def test_either_rows_or_shares(predictor):
    for asked in ({}, {"target": FRESH, "priors": OTHER}):
        with pytest.raises(InputError, match="either target rows or their class shares"):
            predictor.shifted(**asked)
    other = ts.TwoTemperaturePredictor(prefer="small", random_state=7).fit(ROWS)
    with pytest.raises(InputError, match="estimated with a different predictor"):
        other.shifted(priors=predictor.estimate_priors(FRESH, bootstrap=0))


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"target": (0.5, 0.5)}, "target must be shares"),
        ({"target": (0.5, 0.5, 0.5, -0.5)}, "target must be shares"),
        ({"source": (1.0, 0.0, 0.0, 0.0)}, "source must be shares"),
        ({"source": (0.25,) * 4}, "must be that of the scores"),
        ({"target": (0.25,) * 4}, "must be that of the scores"),
        ({"effective_rows": 0.0}, "effective_rows must be"),
        ({"effective_rows": 1e9}, "effective_rows must be"),
        ({"target_rows": 0}, "target_rows must be"),
        ({"error": (0.1,) * 4}, "error must be that of estimated shares"),
        ({"target_rows": 10, "error": (0.1,) * 3}, "error must be above 0"),
    ],
)
def test_forged_shifts_are_refused(shifted, tmp_path, change, because):
    made = shifted.document_
    forged = msgspec.structs.replace(made, shift=msgspec.structs.replace(made.shift, **change))
    path = tmp_path / "p.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(forged, checksum=checksum_of(forged))))
    with pytest.raises(FileFormatError, match=because):
        read_document(path)


def test_forged_documents_with_a_shift_are_refused(shifted, tmp_path):
    made, classes = shifted.document_, fitted(grouping="class").document_
    scores, one = made.scores, Thresholds(value=(0.5,), tie=(0.0,))
    cases = [
        (made.change(scores=None, thresholds=one), "one for each"),
        (classes.change(shift=made.shift), "one threshold"),
        (made.change(scores=msgspec.structs.replace(scores, labels=scores.labels[1:])), "labels"),
        (made.change(scores=msgspec.structs.replace(scores, labels=b"\xff" * len(scores.labels))), "labels"),
        (made.change(scores=msgspec.structs.replace(scores, labels=None)), "labels"),
    ]
    for forged, because in cases:
        write_document(tmp_path / "p.json", forged)
        with pytest.raises(FileFormatError, match=because):
            read_document(tmp_path / "p.json")
