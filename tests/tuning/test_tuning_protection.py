"""Protecting hard classes: a stricter level, from all rows, that never costs the promise; or thresholds by class."""

import warnings

import numpy as np
import pytest

import thermoset as ts
from thermoset.errors import BudgetWarning, InputError
from thermoset.tuning import choose, menu

pytestmark = pytest.mark.slow


def population(n_rows, seed, n_classes=20):
    """Rows of classes that differ: the noise of a class grows with its number."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    noise = rng.normal(size=(n_rows, n_classes)) * (1 + labels[:, None] / n_classes)
    return ts.Logits(3 * (noise + 3 * np.eye(n_classes)[labels]), labels)


def differing(n_rows, seed, n_classes=4):
    """A few classes that differ much."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    noise = rng.normal(size=(n_rows, n_classes)) * (1 + 2 * labels[:, None] / n_classes)
    return ts.Logits(2 * (noise + 2 * np.eye(n_classes)[labels]), labels)


def worst_tenth(sets, labels, n_classes=20):
    hit = sets[np.arange(len(labels)), labels]
    covered = np.bincount(labels, hit, minlength=n_classes) / np.bincount(labels, minlength=n_classes)
    return np.sort(covered)[: max(1, round(n_classes / 10))].mean()


@pytest.fixture(scope="module")
def rows():
    return population(3000, seed=0)


@pytest.fixture(scope="module")
def fresh():
    return population(40_000, seed=1)


@pytest.mark.parametrize("method", ["lac", "auto"])
def test_the_hard_classes_get_what_was_asked_for(rows, fresh, method):
    plain = ts.TwoTemperaturePredictor("lac", prefer="small", calibration="temperature").fit(rows)
    assert worst_tenth(plain.predict_set(fresh), fresh.labels) < 0.8
    safe = ts.TwoTemperaturePredictor(method, prefer="classes>=0.85", calibration="temperature").fit(rows)
    choice = safe.choice_
    sets = safe.predict_set(fresh)
    assert choice.met
    assert choice.sure == 0.95
    assert float(choice.setting.alpha) < 0.1
    assert worst_tenth(sets, fresh.labels) >= 0.85
    low, high = choice.outlook.worst_tenth_ends
    assert low <= worst_tenth(sets, fresh.labels) <= high
    assert sets[np.arange(len(fresh)), fresh.labels].mean() > 0.9
    assert sets.sum(axis=1).mean() == pytest.approx(choice.outlook.size, abs=5 * choice.outlook.size_error)


def test_the_threshold_is_never_below_that_of_the_promise(rows):
    calibration, conformal = rows.split(0.5)
    safe = ts.TwoTemperaturePredictor("lac", prefer="protect", calibration="temperature")
    safe.fit_split(calibration, conformal)
    plain = ts.ConformalClassifier("lac", 0.1, safe.temperature_sets_).fit(conformal)
    pooled = ts.ConformalClassifier("lac", safe.choice_.setting.alpha, safe.temperature_sets_)
    pooled.fit(calibration.concatenate(conformal))
    assert safe.threshold_ == max(plain.threshold_, pooled.threshold_)
    assert safe._promise.alpha == "0.1"
    assert not safe._promise.exact


def test_where_the_pooled_rows_would_lower_the_threshold_the_conformal_ones_decide():
    """Calibration rows that are much easier than the conformal rows must not take from the promise."""
    hard, easy = population(1000, seed=2), population(4000, seed=3)
    easy = ts.Logits(easy.logits + 20 * np.eye(20)[easy.labels], easy.labels)
    model = ts.ConformalClassifier("lac", 0.1).fit(hard)
    before = model.thresholds_
    model.tighten("0.09", easy)
    assert model.thresholds_ == before
    with pytest.raises(InputError, match="tighten needs one threshold for all classes"):
        ts.ConformalClassifier("lac", 0.3, grouping="class").fit(hard).tighten("0.1", easy)


def test_conformal_rows_decide_the_level_and_nothing_else(rows):
    calibration, conformal = rows.split(0.5)
    other = population(1500, seed=9)
    kinds = menu(0.1)
    found = [
        choose(calibration, kinds, prefer="protect", calibrated=1.5, conformal=part, n_conformal=1500)
        for part in (conformal, other)
    ]
    assert found[0].setting.kind == found[1].setting.kind
    assert found[0].temperature == found[1].temperature
    assert found[0].setting.alpha != found[1].setting.alpha


def test_what_the_screen_offers_is_what_protecting_gives(rows):
    """The level, the size and the worst tenth, from all rows: the screen of "small" has no guess of its own."""
    calibration, conformal = rows.split(0.5)
    asked = {"calibrated": 1.5, "n_conformal": len(conformal), "conformal": conformal}
    small, safe = (choose(calibration, ts.Recipe("raps"), prefer=prefer, **asked) for prefer in ("small", "protect"))
    (offer,) = (at for at in small.frontier if at.name == "prefer protect")
    assert safe.met
    assert offer.setting == safe.setting
    assert (offer.size, offer.worst_tenth) == (safe.outlook.size, safe.outlook.worst_tenth)


def test_a_laxer_wish_needs_no_stricter_level(rows):
    choice = choose(rows, ts.Recipe("lac"), prefer="classes>=0.3", calibrated=1.5)
    assert choice.met
    assert choice.setting.alpha == choice.alpha == "0.1"


def test_protect_alone_allows_half_as_many_misses_again(rows):
    choice = choose(rows, ts.Recipe("lac", alpha="0.08"), prefer="protect", calibrated=1.5)
    assert choice.target == pytest.approx(0.88)


@pytest.mark.parametrize(("n_rows", "prefer", "enough"), [(150, "protect", False), (400, "classes>=0.999", True)])
def test_too_few_rows_are_told_from_a_bound_not_reached(n_rows, prefer, enough):
    with pytest.warns(BudgetWarning):
        choice = choose(population(n_rows, seed=4), ts.Recipe("lac"), prefer=prefer, calibrated=1.5)
    assert not choice.met
    assert choice.sure is None
    assert choice.claim.enough_rows == enough
    assert choice.setting.alpha == choice.alpha  # the plain level is kept
    assert ("Too few rows" in choice.sentences[0]) != enough


def test_sets_of_more_than_half_of_the_labels_have_a_warning_with_the_price():
    rng = np.random.default_rng(0)
    labels = rng.choice(5, size=1500, p=[0.6, 0.2, 0.1, 0.07, 0.03])
    logits = rng.normal(size=(1500, 5)) + np.array([1.5, 1.0, 0.6, 0.3, 0.1])[labels][:, None] * np.eye(5)[labels]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        choice = choose(ts.Logits(logits, labels), prefer="protect", calibrated=1.0)
    said = [str(one.message) for one in caught if one.category is BudgetWarning]
    assert bool(said) == (not choice.met or choice.outlook.size > 2.5)
    if choice.met and choice.outlook.size > 2.5:
        assert f"{choice.outlooks[0].size:.1f}" in said[0]


def test_claims_without_a_model_are_stricter(rows):
    model, free = (
        choose(rows, ts.Recipe("lac"), prefer="classes>=0.8", calibrated=1.5, claims=claims)
        for claims in ("model", "distribution-free")
    )
    assert model.met
    assert free.met
    assert free.claim.claims == "distribution-free"
    with pytest.raises(InputError):
        choose(rows, calibrated=1.5, claims="none")


def test_the_file_keeps_the_level(rows, tmp_path):
    made = ts.TwoTemperaturePredictor("lac", prefer="protect", calibration="temperature").fit(rows)
    made.save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert read.document_.change(checksum="") == made.document_
    assert read.choice_ == made.choice_
    assert (read.alpha, read.document_.recipe.alpha) == ("0.1", made.choice_.setting.alpha)
    assert np.array_equal(read.predict_set(rows), made.predict_set(rows))
    again = read.recalibrate(population(2000, seed=6))
    assert again.document_.recipe.alpha == made.choice_.setting.alpha
    plain = ts.ConformalClassifier.of(made.choice_.setting)
    assert again.threshold_ == plain.fit(population(2000, seed=6)).threshold_


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"prefer": "protect", "grouping": "class"}, "needs one threshold"),
        ({"method": "margin", "prefer": "protect"}, "compiled score"),
    ],
)
def test_what_cannot_be_had_is_said(rows, arguments, said):
    with pytest.raises(InputError, match=said):
        ts.TwoTemperaturePredictor(**arguments).fit(rows)


# ---- thresholds by class ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::thermoset.errors.BudgetWarning")  # 2.3 of 4 labels are more than half
@pytest.mark.parametrize("prefer", ["even", "classes>=0.86"])
def test_thresholds_by_class_are_chosen_where_classes_have_many_rows(prefer, tmp_path):
    rows, fresh = differing(6_000, seed=0), differing(20_000, seed=1)
    made, plain = (
        ts.TwoTemperaturePredictor(method, prefer=wish, calibration="temperature").fit(rows)
        for method, wish in (("auto", prefer), ("lac", "small"))
    )
    assert made.choice_.setting.grouping == made.document_.recipe.grouping == "class"
    assert made.choice_.met
    assert "LAC, Mondrian" in made.choice_.sentences[0]
    sets, plain_sets = made.predict_set(fresh), plain.predict_set(fresh)
    coverage, other = (ts.metrics.class_coverage(of, fresh.labels).coverage for of in (sets, plain_sets))
    assert np.abs(coverage - 0.9).max() < 0.03
    assert np.abs(other - 0.9).max() > 0.06
    made.save(tmp_path / "p.json")
    assert np.array_equal(ts.TwoTemperaturePredictor.load(tmp_path / "p.json").predict_set(fresh), sets)


@pytest.mark.filterwarnings("ignore::thermoset.errors.BudgetWarning")
@pytest.mark.parametrize("prefer", ["even", "classes>=0.86", "small"])
def test_thresholds_by_class_are_not_chosen_for_few_rows(prefer):
    assert (
        ts.TwoTemperaturePredictor("auto", prefer=prefer).fit(differing(250, seed=0)).choice_.setting.grouping is None
    )


def test_conformal_rows_have_no_say_in_whether_thresholds_are_by_class():
    """Calibration rows that make them clearly better, and conformal rows that would not."""
    calibration, kinds = population(6000, seed=10, n_classes=4), menu(0.1)
    found = [
        choose(calibration, kinds, prefer="classes>=0.86", calibrated=1.5, conformal=part, n_conformal=6000).setting
        for part in (population(6000, seed=11, n_classes=4), ts.Logits(calibration.logits[::-1], calibration.labels))
    ]
    assert found[0].kind == found[1].kind
