"""A predictor at any level: p-values that are its sets, `at` that is a fresh fit, and files that keep both."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import thermoset as ts
from engines import ENGINES
from law import generated
from thermoset.errors import CoverageWarning, InputError
from thermoset.predictor.document import STORED_BY_DEFAULT, UNDECIDED

CALIBRATION, CONFORMAL, FRESH = (
    ts.Logits(*generated(400, 6, signal=0.5, seed=seed), groups=np.arange(400) % 3) for seed in (1, 2, 3)
)
LEVELS = [f"0.{i:02d}" for i in range(1, 100, 2)]
KINDS = {
    "one": {"method": "raps"},
    "class": {"method": "aps", "grouping": "class"},
    "cluster": {"method": "lac", "grouping": "cluster"},
    "group": {"method": "aps", "grouping": "group", "fallback": "pooled"},
    "strictest": {"method": "aps", "grouping": "group", "fallback": "strictest"},
    "rc3p": {"method": "aps", "grouping": "rc3p"},
    "pas": {"method": "pas"},
    "kept": {"method": "saps", "allow_empty": False, "randomized": False},
    "plain": {"method": "margin"},
    "auto": {"method": "auto"},
}


def made(alpha="0.2", **asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictor = ts.TwoTemperaturePredictor(alpha=alpha, **{"prefer": "small"} | asked)
        return predictor.fit_split(CALIBRATION, CONFORMAL)


@pytest.fixture(scope="module", params=KINDS)
def predictor(request):
    return made(**KINDS[request.param])


@pytest.fixture(scope="module")
def one():
    return made(method="raps")


def loaded(predictor, folder, **options):
    predictor.save(folder / "p.json", **options)
    return ts.TwoTemperaturePredictor.load(folder / "p.json")


@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_p_values_are_the_sets_at_every_level(predictor, tmp_path):
    p = predictor.predict_p(FRESH)
    np.testing.assert_array_equal(p > 0.2, predictor.predict_set(FRESH))
    again = loaded(predictor, tmp_path)
    np.testing.assert_array_equal(again.predict_p(FRESH), p)
    np.testing.assert_array_equal(again.predict_p(FRESH, smoothed=True), predictor.predict_p(FRESH, smoothed=True))
    for alpha in LEVELS:
        np.testing.assert_array_equal(again.at(alpha).predict_set(FRESH), p > float(alpha))
    ids = range(len(FRESH))
    np.testing.assert_array_equal(again.predict_p(FRESH, ids=ids) > 0.2, predictor.predict_set(FRESH, ids=ids))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_another_level_is_a_fresh_fit_of_the_threshold(kind, tmp_path):
    predictor = made(**KINDS[kind])
    hat = predictor.temperature_sets_
    for alpha in ("0.05", 0.3, "0.9"):
        other = loaded(predictor.at(alpha), tmp_path)
        assert (other.temperature_, other.temperature_sets_) == (predictor.temperature_, hat)
        assert other._promise.alpha == str(alpha)
        fresh = ts.ConformalClassifier.of(predictor.document_.recipe.change(alpha=alpha)).fit(CONFORMAL)
        if kind == "cluster":  # clusters stay; a fresh fit would cluster for its own level
            assert other.document_.group_of_class == predictor.document_.group_of_class
        else:
            known = [fresh.thresholds_, *([] if fresh.fallback_threshold_ is None else [fresh.fallback_threshold_])]
            np.testing.assert_array_equal(other._inference.thresholds[0], np.concatenate(known))
            np.testing.assert_array_equal(other.threshold_, fresh.threshold_)
            np.testing.assert_array_equal(other.predict_set(FRESH), fresh.predict_set(FRESH))
        np.testing.assert_array_equal(other.predict_proba(FRESH), predictor.predict_proba(FRESH))


def test_a_level_that_needs_more_rows_warns_as_a_fit_does(one):
    with pytest.warns(CoverageWarning, match="alpha=0.001 needs at least 999 rows for a finite threshold; got 400"):
        strict = one.at(0.001)
    assert strict.predict_set(FRESH).all()
    with pytest.raises(InputError, match="alpha must be a number strictly between 0 and 1"):
        one.at(0)


def test_what_is_said_of_another_level(one, tmp_path):
    """Nothing that was measured at the fitted level; and the choice keeps its own."""
    other = loaded(one.at(0.05), tmp_path)
    document = other.document_
    assert (document.alpha, document.recipe.alpha, document.choice.alpha) == ("0.05", "0.05", "0.2")
    assert document.is_moved
    assert document.sizes == ()
    names = {measure.name for measure in document.measures}
    assert names == {"nll_before", "nll_after", "ece_before", "ece_after", "coverage"}
    (law,) = (measure for measure in document.measures if measure.name == "coverage")
    assert law.value == 381 / 401  # k = ceil(401 * 0.95)
    assert other._promise.exact
    assert other.check(FRESH).marginal.promised == pytest.approx(0.95, abs=1e-15)
    assert "alpha = 0.05" in other._repr_html_()
    assert "refers to alpha = 0.2, for which T-hat was chosen" in other._repr_html_()
    assert "for which T-hat was chosen" not in one._repr_html_()
    assert "alpha=0.05" in repr(one.at(0.05))
    back = other.at("0.20")
    assert not back.document_.is_moved
    assert back._inference.thresholds == one._inference.thresholds
    assert loaded(back, tmp_path).document_.alpha == "0.2"
    assert one.at(0.2).document_ == one.document_
    assert (one.alpha, one.document_.alpha) == ("0.2", "0.2"), "the first one is as it was"


def test_another_level_can_be_recalibrated(one, tmp_path):
    other = one.at(0.05).recalibrate(FRESH)
    fresh = ts.ConformalClassifier("raps", "0.05", temperature=one.temperature_sets_).fit(FRESH)
    again = loaded(other, tmp_path)
    assert again._inference.thresholds == fresh.thresholds_
    assert sum(again.document_.sizes) == len(FRESH)
    np.testing.assert_array_equal(again.predict_p(CALIBRATION), fresh.predict_p(CALIBRATION))


@pytest.mark.parametrize("engine", ENGINES)
def test_another_level_can_be_exported(one, engine):
    other = one.at(0.05)
    np.testing.assert_array_equal(ENGINES[engine](other, FRESH.logits)["sets"], other.predict_set(FRESH))


def test_rows_that_are_not_whole(tmp_path):
    cut = [ts.compact(ts.Logits(rows.logits / 4, rows.labels), 4) for rows in (CALIBRATION, CONFORMAL, FRESH)]
    predictor = ts.TwoTemperaturePredictor(prefer="small").fit_split(*cut[:2])
    assert predictor.document_.provenance.top_rows
    p = predictor.predict_p(cut[2])
    np.testing.assert_array_equal(p > 0.1, predictor.predict_set(cut[2]))
    other = loaded(predictor.at("0.3"), tmp_path)
    np.testing.assert_array_equal(p > 0.3, other.predict_set(cut[2]))
    assert not other._promise.exact
    assert UNDECIDED not in {measure.name for measure in other.document_.measures}
    assert not other.recalibrate(FRESH).document_.provenance.top_rows


def test_predictors_whose_sets_ranks_do_not_give():
    data = ts.Logits(*generated(800, 6, signal=0.5, seed=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        protecting = ts.TwoTemperaturePredictor(prefer="classes>=0.93").fit(data)
    assert protecting.document_.recipe.alpha != protecting.document_.alpha
    assert protecting.document_.scores is None
    for call in (lambda p: p.predict_p(FRESH), lambda p: p.at(0.2), lambda p: p.save("no.json", scores=True)):
        with pytest.raises(InputError, match=r"cannot give p-values or other levels: .*to protect classes"):
            call(protecting)


SHARES = np.arange(1, 7) / 21
STORED = KINDS | {
    "ece": {"method": ts.RAPS(penalty=0.2, k_reg=1), "prefer": "even", "objective": "ece"},
    "interpolated": {"method": "aps", "grouping": "interpolated"},
    "protecting": {"prefer": "classes>=0.88"},
    "shifted": {"method": "aps"},
    "weighted": {"method": "aps"},
}


@pytest.mark.parametrize("kind", STORED)
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_what_is_stored_decides_the_sets_with_scores_and_without(kind, tmp_path):
    """Thresholds are stored only where they do not follow from scores."""
    predictor, options = made(**STORED[kind]), {}
    if kind == "shifted":
        predictor = predictor.shifted(priors=SHARES)
    if kind == "weighted":
        predictor.recalibrate(CONFORMAL, weights=1.0 + np.arange(400) % 5)
        options["weights"] = 1.0 + np.arange(400) % 3
    document, sets = predictor.document_, predictor.predict_set(FRESH, **options)
    assert (document.scores is None) == (kind in ("interpolated", "protecting"))
    assert (document.thresholds is None) == (document.scores is not None)
    for scores in (None, False) if kind != "weighted" else (None,):
        again = loaded(predictor, tmp_path, scores=scores)
        assert (again.document_.scores is None) == (document.scores is None or scores is False)
        assert (again.document_.thresholds is None) == (again.document_.scores is not None)
        np.testing.assert_array_equal(again.predict_set(FRESH, **options), sets)
        np.testing.assert_array_equal(again._inference.thresholds, predictor._inference.thresholds)
        np.testing.assert_array_equal(again.threshold_, predictor.threshold_)
        np.testing.assert_array_equal(again.predict_proba(FRESH), predictor.predict_proba(FRESH))
        assert again._inference.identity == predictor._inference.identity
        assert (again.choice_, again.fallback) == (predictor.choice_, predictor.fallback)
        assert again._promise.exact == predictor._promise.exact
        again.save(tmp_path / "again.json", scores=scores)
        assert (tmp_path / "again.json").read_bytes() == (tmp_path / "p.json").read_bytes()
        if kind == "ece":  # what was loaded can be fitted again with the same parameters
            assert clone(again).fit_split(CALIBRATION, CONFORMAL).threshold_ == predictor.threshold_
        if STORED[kind].get("fallback") is not None:
            rows, mars = FRESH.logits, ["mars"] * len(FRESH)
            expected = predictor.predict_set(rows, groups=mars)
            np.testing.assert_array_equal(again.predict_set(rows, groups=mars), expected)


def test_files_with_scores_and_without(one, tmp_path, monkeypatch):
    without = loaded(one, tmp_path, scores=False)
    np.testing.assert_array_equal(without.predict_set(FRESH), one.predict_set(FRESH))
    for call in (lambda: without.predict_p(FRESH), lambda: without.at(0.3), lambda: without.save("no", scores=True)):
        with pytest.raises(InputError, match=r"saved without the label scores .*Save it with scores=True"):
            call()
    again = loaded(without.recalibrate(CONFORMAL), tmp_path)
    np.testing.assert_array_equal(again.predict_p(FRESH), one.predict_p(FRESH))
    monkeypatch.setattr("thermoset.predictor.predictor.STORED_BY_DEFAULT", 399)
    assert loaded(one, tmp_path).document_.scores is None
    assert loaded(one, tmp_path, scores=True).document_.scores == one.document_.scores
    assert STORED_BY_DEFAULT == 1_000_000


def own_score(probs, rank, u):
    return rank - u * probs


def test_a_score_of_ones_own(tmp_path):
    """It moves to other levels and processes, and into no file."""
    predictor = made(method=own_score)
    p = predictor.predict_p(FRESH)
    np.testing.assert_array_equal(p > 0.2, predictor.predict_set(FRESH))
    sent = pickle.loads(pickle.dumps(predictor))  # noqa: S301
    np.testing.assert_array_equal(sent.predict_p(FRESH), p)
    for one in (predictor, sent):
        np.testing.assert_array_equal(p > 0.05, one.at(0.05).predict_set(FRESH))
        with pytest.raises(InputError, match="custom score"):
            one.save(tmp_path / "p.json")
    assert not list(tmp_path.iterdir())
