"""Two temperatures in one predictor: parts agree with the estimators they are made of, and files keep them."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

import thermoset as ts
from law import generated
from thermoset.calibration import probabilities
from thermoset.errors import InputError
from thermoset.predictor.sets import PredictionArrays
from thermoset.tuning import choose


@pytest.fixture(scope="module")
def data():
    logits, labels = generated(1200, 6, signal=0.0, seed=0)
    return ts.Logits(logits, labels, classes=list("abcdef"))


@pytest.fixture(scope="module")
def fresh():
    logits, labels = generated(500, 6, signal=0.0, seed=1)
    return ts.Logits(logits, labels, classes=list("abcdef"))


@pytest.fixture(scope="module")
def predictor(data):
    return ts.TwoTemperaturePredictor("raps", prefer="even", random_state=3).fit(data)


def test_it_is_made_of_the_estimators(predictor, data, fresh):
    calibration, conformal = data.split(0.5, random_state=3)
    scaler = ts.TemperatureScaler().fit(calibration)
    asked = {"prefer": "even", "calibrated": scaler.temperature_, "n_conformal": len(conformal)}
    choice = choose(calibration, ts.Recipe(random_state=3), **asked)
    sets = ts.ConformalClassifier("raps", 0.1, choice.temperature, random_state=3).fit(conformal)
    assert predictor.temperature_ == scaler.temperature_
    assert predictor.choice_.setting == choice.setting  # conformal rows say what other settings would give, no more
    assert predictor.choice_ == choose(calibration, ts.Recipe(random_state=3), conformal=conformal, **asked)
    assert predictor.temperature_sets_ == choice.temperature
    assert predictor.threshold_ == sets.threshold_
    np.testing.assert_array_equal(predictor.predict_proba(fresh), scaler.predict_proba(fresh))
    np.testing.assert_array_equal(predictor.predict_set(fresh), sets.predict_set(fresh))
    np.testing.assert_array_equal(predictor.set_sizes(fresh), sets.set_sizes(fresh))
    np.testing.assert_array_equal(predictor.predict(fresh), fresh.logits.argmax(axis=1))
    sizes = np.bincount(sets.set_sizes(conformal))
    assert predictor.document_.sizes == tuple(sizes.tolist())


def test_confidence_is_that_of_the_probabilities_to_the_bit(predictor, fresh):
    found, probs = predictor.predict_arrays(fresh), predictor.predict_proba(fresh)
    np.testing.assert_array_equal(found.labels, probs.argmax(axis=1))
    np.testing.assert_array_equal(found.confidence, probs[np.arange(len(fresh)), found.labels])
    np.testing.assert_array_equal(found.sets, predictor.predict_set(fresh))


def test_answers_form_no_probabilities(predictor, fresh, monkeypatch):
    """One number a row is asked for: a softmax of all classes is as large as the logits."""

    def refused(*_):
        raise AssertionError("a whole softmax")

    monkeypatch.setattr("thermoset.kernels.softmax", refused)
    monkeypatch.setattr("thermoset.kernels.share_out", refused)
    assert len(predictor.predict_arrays(fresh).confidence) == len(fresh)


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_records_are_the_answers_row_by_row(predictor, fresh, rows, monkeypatch):
    """Empty sets, full ones, first and last rows; each row's set by itself."""
    sets = np.random.default_rng(0).random((500, 6)) < np.linspace(0, 1, 500)[:, None]
    found = PredictionArrays(np.arange(500) % 6, np.linspace(0.1, 0.9, 500), sets)
    monkeypatch.setattr(
        predictor, "predict_arrays", lambda _, **__: PredictionArrays(*(part[:rows] for part in found[:3]))
    )
    records = predictor.predict_records(fresh)
    assert len(records) == rows
    for i, record in enumerate(records):
        members = tuple("abcdef"[y] for y in np.flatnonzero(sets[i]))
        assert record == ("abcdef"[i % 6], found.confidence[i], members, None)
        assert type(record.confidence) is float


def test_records_make_no_objects_of_labels_that_are_left_out(monkeypatch):
    """A row of 20,000 classes with two labels in its set: a list of its booleans alone would take 160 kB."""
    many, rows = 20_000, 50
    logits = np.zeros((rows, many))
    sets = np.zeros((rows, many), dtype=bool)
    sets[:, [3, 70]] = True
    predictor = ts.TwoTemperaturePredictor().fit(*generated(300, 3))
    predictor.document_ = predictor.document_.change(n_classes=many)
    monkeypatch.setattr(
        predictor, "predict_arrays", lambda _, **__: PredictionArrays(np.full(rows, 3), np.full(rows, 0.5), sets)
    )
    tracemalloc.start()
    try:
        records = predictor.predict_records(logits)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert records == [(3, 0.5, (3, 70), None)] * rows
    assert peak < 100_000


def test_fit_is_fit_split_on_its_own_split(predictor, data):
    calibration, conformal = data.split(0.5, random_state=3)
    again = ts.TwoTemperaturePredictor("raps", prefer="even", random_state=3).fit_split(calibration, conformal)
    assert again.document_ == predictor.document_


def test_fit_takes_the_names_of_scikit_learn(data):
    named = ts.TwoTemperaturePredictor().fit(data.logits, data.labels)
    for given in ({"X": data.logits, "y": data.labels}, {"y": data.labels, "logits": data.logits}):
        assert ts.TwoTemperaturePredictor().fit(**given).document_ == named.document_
    assert ts.TwoTemperaturePredictor().fit(X=ts.Logits(data.logits, data.labels)).document_ == named.document_
    with pytest.raises(InputError, match="rows"):
        ts.TwoTemperaturePredictor().fit(y=data.labels)


BY_HAND = [
    {},
    {"prefer": "small"},
    {"method": "raps"},
    {"method": "lac", "grouping": "class", "prefer": "small"},
    {"prefer": "classes>=0.05"},
    {"method": "raps", "prefer": "classes>=0.05"},
]


@pytest.mark.parametrize("options", BY_HAND)
def test_t_hat_by_hand(data, fresh, tmp_path, options):
    """No search: the sets are those of a classifier at that temperature, and a file remembers who chose it."""
    made = ts.TwoTemperaturePredictor(temperature_sets=2.5, alpha=0.2, **options).fit(data)
    made.save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert made.document_.is_plain
    sets = ts.ConformalClassifier.of(made.document_.recipe).fit(data.split(0.5, random_state=0)[1])
    for one in (made, read, read.at(0.1), clone(made).fit(data)):
        assert one.temperature_sets_ == one.temperature_sets == one.document_.recipe.temperature == 2.5
        np.testing.assert_array_equal(one.predict_set(fresh), sets.at(one.document_.alpha).predict_set(fresh))
    assert made.choice_.temperature == 2.5
    assert made.temperature_ == ts.TemperatureScaler().fit(data.split(0.5, random_state=0)[0]).temperature_
    made.set_params(temperature_sets=None).fit(data).save(tmp_path / "p.json")
    assert ts.TwoTemperaturePredictor.load(tmp_path / "p.json").temperature_sets is None


def test_groups_stay_on_one_side(data):
    groups = np.arange(len(data)) // 10
    predictor = ts.TwoTemperaturePredictor().fit(data, split_by=groups)
    calibration, conformal = data.split(0.5, random_state=0, split_by=groups)
    by_hand = ts.TwoTemperaturePredictor().fit_split(calibration, conformal)
    assert predictor.document_ == by_hand.document_
    assert predictor.document_.provenance.calibration_rows % 10 == 0


@pytest.mark.slow
def test_a_new_process_predicts_the_same_bits(predictor, fresh, tmp_path):
    predictor.save(tmp_path / "p.json")
    np.save(tmp_path / "fresh.npy", fresh.logits)
    program = (
        "import sys, numpy as np, thermoset as ts\n"
        "folder = sys.argv[1]\n"
        "p = ts.TwoTemperaturePredictor.load(folder + '/p.json')\n"
        "z = np.load(folder + '/fresh.npy')\n"
        "np.savez(folder + '/out.npz', probs=p.predict_proba(z), sets=p.predict_set(z), sizes=p.set_sizes(z))\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, capture_output=True)
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_array_equal(out["probs"], predictor.predict_proba(fresh))
        np.testing.assert_array_equal(out["sets"], predictor.predict_set(fresh))
        np.testing.assert_array_equal(out["sizes"], predictor.set_sizes(fresh))


def test_recalibrating_renews_the_threshold_alone(predictor, fresh, tmp_path):
    predictor.save(tmp_path / "p.json")
    renewed = ts.TwoTemperaturePredictor.load(tmp_path / "p.json").recalibrate(fresh)
    sets = ts.ConformalClassifier("raps", 0.1, predictor.temperature_sets_, random_state=3).fit(fresh)
    assert renewed.threshold_ == sets.threshold_
    assert (renewed.temperature_, renewed.temperature_sets_) == (predictor.temperature_, predictor.temperature_sets_)
    provenance = renewed.document_.provenance
    assert (provenance.conformal_rows, provenance.recalibrated) == (500, True)
    assert provenance.calibration_sha256 == predictor.document_.provenance.calibration_sha256
    assert provenance.conformal_sha256 != predictor.document_.provenance.conformal_sha256
    assert sum(renewed.document_.sizes) == 500
    low, high = next((m.low, m.high) for m in renewed.document_.measures if m.name == "coverage")
    assert high - low > next(m.high - m.low for m in predictor.document_.measures if m.name == "coverage")


@pytest.mark.parametrize("method", ["aps", "margin", lambda probs, rank, u: rank - u * probs])
def test_without_empty_sets_every_threshold_is_a_classifiers(method, data, fresh):
    """Also after recalibration: the top label is below everything once, and the threshold knows of it."""
    arguments = {"method": method, "alpha": 0.02, "allow_empty": False}
    predictor = ts.TwoTemperaturePredictor(**arguments, prefer="small").fit(data)
    for rows in (fresh, ts.Logits(*generated(1200, 6, signal=0.0, seed=4), data.classes)):
        predictor.recalibrate(rows)
        alone = ts.ConformalClassifier(**arguments, temperature=predictor.temperature_sets_).fit(rows)
        assert predictor.threshold_ == alone.threshold_
        np.testing.assert_array_equal(predictor.predict_set(fresh), alone.predict_set(fresh))
        np.testing.assert_array_equal(predictor.set_sizes(fresh), alone.set_sizes(fresh))
        assert predictor.predict_set(fresh)[np.arange(len(fresh)), fresh.logits.argmax(axis=1)].all()


def test_changing_parameters_does_not_touch_what_was_fitted(data, fresh):
    predictor = ts.TwoTemperaturePredictor("raps").fit(data)
    before = predictor.predict_set(fresh)
    predictor.set_params(method="lac", alpha=0.5, allow_empty=False, randomized=False, random_state=9)
    np.testing.assert_array_equal(predictor.predict_set(fresh), before)
    again = predictor.recalibrate(fresh)
    recipe = again.document_.recipe
    assert (recipe.method.name, recipe.seed) == ("raps", 0)


def test_other_classes_are_refused(predictor, fresh):
    turned = ts.Logits(fresh.logits[:, ::-1], classes=list("fedcba"))  # columns are put in order by their names
    np.testing.assert_array_equal(predictor.predict_set(turned), predictor.predict_set(fresh.logits))
    with pytest.raises(InputError, match="class names must be those"):
        predictor.predict_proba(ts.Logits(fresh.logits, classes=list("uvwxyz")))
    with pytest.raises(InputError, match="X has 5 features"):
        predictor.predict(fresh.logits[:, :5])
    with pytest.raises(InputError, match="class names must be those"):
        predictor.recalibrate(ts.Logits(fresh.logits, fresh.labels, classes=list("uvwxyz")))


def test_check_passes_on_exchangeable_rows_and_not_on_shuffled_labels(predictor, fresh):
    assert predictor.check(fresh).ok
    with pytest.warns(ts.SuspiciousRowsWarning, match="another order"):
        wrong = predictor.check(fresh.logits, (fresh.labels + 1) % 6)
    assert not wrong.ok
    assert "Coverage is" in wrong.broken[0]


def test_measures_are_what_they_say(predictor, data):
    """Confidence is judged on the conformal rows, which no step of the calibration has seen."""
    _, conformal = data.split(0.5, random_state=3)
    measures = {m.name: m for m in predictor.document_.measures}
    for kind, probs in (("before", probabilities(conformal, 1.0)), ("after", predictor.predict_proba(conformal))):
        assert measures[f"nll_{kind}"].value == pytest.approx(
            ts.metrics.negative_log_likelihood(probs, conformal.labels), rel=1e-12
        )
    probs = probabilities(conformal, 1.0)
    reading = ts.metrics.expected_calibration_error(probs, conformal.labels)
    assert reading - 0.03 < measures["ece_before"].value < reading, "a reading is too high on average"
    counts = predictor.document_.reliability[0]
    sure = probs.max(axis=1)
    inside = (sure >= 0.75) & (sure < 0.85)
    right = probs.argmax(axis=1) == conformal.labels
    assert counts.between(0.75, 0.85) == (inside.sum(), right[inside].sum())
    assert measures["nll_after"].value < measures["nll_before"].value
    assert measures["ece_after"].value < measures["ece_before"].value
    # k/(n + 1) with n = 600: ceil(601 * 0.9) = 541
    assert measures["coverage"].value == pytest.approx(541 / 601, abs=1e-15)
    assert measures["avg_size"].value == predictor.choice_.outlook.size
    for measure in measures.values():
        if measure.low is not None:
            assert measure.low <= measure.value <= measure.high
    assert len(conformal) == 600


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"prefer": "tiny"}, "prefer must be"),
        ({"objective": "brier"}, "objective must be 'nll' or 'ece'"),
        ({"method": "apps"}, "method must be"),
        ({"alpha": 0}, "alpha must be"),
        ({"calibration_fraction": 2}, "calibration_fraction must be"),
        ({"random_state": None}, "random_state must be"),
        ({"grouping": "both"}, "grouping must be"),
        ({"temperature_sets": 0.0}, "temperature_sets"),
        ({"temperature_sets": "warm"}, "temperature_sets"),
    ],
)
def test_bad_parameters(data, arguments, said):
    with pytest.raises(InputError, match=said):
        ts.TwoTemperaturePredictor(**arguments).fit(data)


def test_arrays_serve_as_logits_do(predictor, data, fresh, tmp_path):
    """Also with groups of their own, which arrays have beside them."""
    predictor.save(tmp_path / "p.json")
    one, other = (ts.TwoTemperaturePredictor.load(tmp_path / "p.json") for _ in range(2))
    one.recalibrate(ts.Logits(fresh.logits, fresh.labels))
    assert one.document_ == other.recalibrate(fresh.logits, fresh.labels).document_
    assert one.document_ == other.recalibrate(fresh.logits.tolist(), labels=fresh.labels.tolist()).document_
    with pytest.raises(InputError, match="recalibrate needs labels"):
        other.recalibrate(fresh.logits)
    with pytest.raises(InputError, match="labels were passed with Logits"):
        other.recalibrate(fresh, (fresh.labels + 1) % 6)
    calibration, conformal = ts.Logits(data.logits, data.labels).split(0.5)
    pairs = [(part.logits, part.labels) for part in (calibration, conformal)]
    made = [ts.TwoTemperaturePredictor(prefer="small").fit_split(*parts) for parts in (pairs, (calibration, conformal))]
    assert made[0].document_ == made[1].document_


def test_bad_splits(data):
    predictor = ts.TwoTemperaturePredictor()
    with pytest.raises(InputError, match=r"calibration must be Logits or a pair \(logits, labels\); got ndarray"):
        predictor.fit_split(data.logits, data)
    with pytest.raises(InputError, match=r"conformal must be Logits or a pair \(logits, labels\); got tuple"):
        predictor.fit_split(data, (data.logits, data.labels, data.labels))
    with pytest.raises(InputError, match="labels"):
        predictor.fit_split(data, ts.Logits(data.logits))
    with pytest.raises(InputError, match="labels"):
        predictor.fit_split(data, (data.logits, None))
    with pytest.raises(InputError, match="same classes in the same order"):
        predictor.fit_split(data, ts.Logits(data.logits[:, :5], data.labels % 5))
    with pytest.raises(InputError, match="10 of the 20 rows"):
        predictor.fit(data.take(np.arange(20)))


def test_too_few_conformal_rows_warn_and_keep_the_promise(data, fresh):
    with pytest.warns(ts.CoverageWarning, match="needs at least 9 rows for a finite threshold; got 5"):
        predictor = ts.TwoTemperaturePredictor().fit_split(data, fresh.take(np.arange(5)))
    assert predictor.predict_set(fresh).all()
    assert np.isposinf(predictor._inference.thresholds.real).all()
