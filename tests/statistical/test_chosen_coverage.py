"""Whatever is chosen, by whatever preference, coverage keeps its law: over 200 splits, and a rule that breaks it."""

import warnings

import numpy as np
import pytest
from scipy.stats import betabinom

import thermoset as ts
from benchmarks.choices import Draw
from law import generated, law, z_over_splits
from thermoset.errors import BudgetWarning
from thermoset.tuning import Search, menu, read_preference, select

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::thermoset.errors.RepeatedRowsWarning"),
]  # drawn with replacement

ALPHA, N_CALIBRATION, N_CONFORMAL, N_EVALUATION, SPLITS = "0.1", 120, 100, 1500, 200
LOGITS, LABELS = generated(20_000, 6, signal=-1.0, seed=0)
POOL = ts.Logits(*generated(20_000, 6, signal=-1.0, seed=2))
OTHERS = ts.Logits(*generated(N_CONFORMAL, 6, signal=3.0, seed=3))
TIMES = 8
GRID = [0.5, 1.0, 1.5, 2.5]


def z_of(fit, splits=SPLITS):
    """The hits of all splits against their law; `fit` gets calibration rows from a pool of their own."""
    rng = np.random.default_rng(1)

    def predict(logits, labels, fresh):
        calibration = POOL.take(rng.permutation(len(POOL))[:N_CALIBRATION])
        return fit(calibration, ts.Logits(logits, labels)).predict_set(fresh)

    return z_over_splits(
        predict, LOGITS, LABELS, alpha=ALPHA, n_conformal=N_CONFORMAL, n_evaluation=N_EVALUATION, splits=splits
    )


def settled(prefer, kinds, calibration, conformal):
    """What the predictor would choose, without what is said of it."""
    preference = read_preference(prefer)
    search = Search(
        calibration=calibration,
        candidates=tuple(kinds),
        calibrated=1.5,
        n_conformal=N_CONFORMAL,
        conformal=conformal,
        only=np.array(GRID),
        strict=preference.target(ALPHA) is not None,
    )
    return select(search, preference)


def chosen(prefer, *, exact_only=False):
    """A classifier made as the predictor makes it; a choice serves `TIMES` splits, each with its own conformal rows.

    Given the choice, the hits of each of these splits follow the law, independently of each other, so that the sum of
    all 200 has the same law as with 200 choices. That a choice does not look at conformal rows, which would break the
    law, is asked for exactly: other conformal rows must not change it.
    """
    kinds = [kind for kind in menu(ALPHA) if kind.exact or not exact_only]
    model, left = None, 0

    def fit(calibration, conformal):
        nonlocal model, left
        if left == 0:
            found, again = (settled(prefer, kinds, calibration, rows) for rows in (conformal, OTHERS))
            assert found.setting == again.setting
            recipe = next(kind for kind in kinds if kind.score == found.setting.score)
            model, left = ts.ConformalClassifier.of(recipe.change(temperature=found.setting.temperature)), TIMES
        left -= 1
        return model.fit(conformal)

    return fit


def protecting(calibration, conformal):
    """The level that protects classes is chosen on all rows, and tightened in a way that keeps the promise."""
    kinds = [ts.Recipe("lac", ALPHA)]
    found = settled("protect", kinds, calibration, conformal)
    model = ts.ConformalClassifier.of(kinds[0].change(temperature=found.setting.temperature)).fit(conformal)
    return model.tighten(found.setting.alpha, calibration)


@pytest.mark.parametrize("prefer", ["small", "even"])
def test_coverage_is_exact_when_every_knob_is_chosen(prefer):
    assert abs(z_of(chosen(prefer, exact_only=True))) < 5


def test_coverage_is_exact_when_the_predictor_chooses_the_smallest_sets():
    """The predictor is fitted for the first of `TIMES` splits; others have sets of a classifier at its T-hat."""
    model, left = None, 0

    def fit(calibration, conformal):
        nonlocal model, left
        if left == 0:
            predictor, other = (
                ts.TwoTemperaturePredictor("aps", prefer="small").fit_split(calibration, rows)
                for rows in (conformal, OTHERS)
            )
            assert predictor.temperature_sets_ == other.temperature_sets_, "other conformal rows do not change it"
            model, left = ts.ConformalClassifier("aps", ALPHA, predictor.temperature_sets_), TIMES
            np.testing.assert_array_equal(model.fit(conformal).predict_set(LOGITS), predictor.predict_set(LOGITS))
        left -= 1
        return model.fit(conformal)

    assert abs(z_of(fit, splits=144)) < 5


@pytest.mark.parametrize("prefer", ["small", "even"])
def test_coverage_is_at_least_the_promised_one_with_deterministic_sets_on_the_menu(prefer):
    assert z_of(chosen(prefer)) > -5


def test_protecting_classes_covers_more_not_less():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        assert z_of(protecting, splits=50) > 5  # a stricter level is what protects


def test_the_level_from_all_rows_takes_nothing_from_the_promise():
    """The worst case for the promise: the level never is stricter, and easy rows pull the pooled threshold down."""

    def fit(calibration, conformal):
        easy = ts.Logits(calibration.logits + 30 * np.eye(6)[calibration.labels], calibration.labels)
        return ts.ConformalClassifier("lac", ALPHA).fit(conformal).tighten(ALPHA, easy)

    def pooled(calibration, conformal):
        easy = ts.Logits(calibration.logits + 30 * np.eye(6)[calibration.labels], calibration.labels)
        return ts.ConformalClassifier("lac", ALPHA).fit(easy.concatenate(conformal))

    assert abs(z_of(fit)) < 5
    assert z_of(pooled, splits=50) < -5


def test_the_test_has_power():
    """Taking the kind of sets and the temperature that are smallest on the conformal rows themselves is caught.

    A fourth of the splits will do, so that all of them see half of such a bias.
    """

    def fit(_, conformal):
        models = [
            ts.ConformalClassifier(method, ALPHA, float(t), random_state=i).fit(conformal)
            for method in ("aps", "raps", "saps", "topk")
            for i, t in enumerate(np.linspace(1.0, 1.2, 12))
        ]
        sizes = [model.set_sizes(conformal).mean() for model in models]
        return models[int(np.argmin(sizes))]

    assert z_of(fit, splits=50) < -5


@pytest.mark.filterwarnings("ignore:no calibration row belongs to class")
@pytest.mark.parametrize(("name", "n_rows"), [("cifar100_resnet50", 1000), ("banking77_bert", 1000)])
def test_a_claim_about_hard_classes_holds(real, name, n_rows):
    """The file is the population, rows are drawn from it, the truth is the whole file's."""
    everyone, target, draws = ts.Logits(*real(name)), 0.85, 30
    rng, kept = np.random.default_rng(0), 0
    classes = np.bincount(everyone.labels, minlength=everyone.n_classes)
    for _ in range(draws):
        some = everyone.take(rng.integers(0, len(everyone), n_rows))
        predictor = ts.TwoTemperaturePredictor("lac", prefer=f"classes>={target}").fit(some)
        assert predictor.choice_.met
        sets = predictor.predict_set(everyone)
        hits = np.bincount(everyone.labels, sets[np.arange(len(everyone)), everyone.labels], len(classes))
        tenth = max(1, round(len(classes) / 10))
        kept += np.sort(hits / classes)[:tenth].mean() >= target
    assert kept >= 0.95 * draws - 3 * np.sqrt(draws * 0.05 * 0.95)


@pytest.mark.filterwarnings("ignore::thermoset.errors.BudgetWarning")
@pytest.mark.filterwarnings("ignore:no calibration row belongs to class")
@pytest.mark.parametrize(
    ("name", "n_rows", "draws"),
    [("language", 1000, 20), ("extreme", 1000, 20), ("ten", 4000, 20), ("thousand", 10_000, 8)],
)
def test_claims_hold_where_a_few_classes_are_very_hard(name, n_rows, draws):
    judged = [Draw.of(name, n_rows, t).judged("protect", "lac") for t in range(draws)]
    assert all(choice.met for choice, _ in judged)
    assert sum(truth.worst >= choice.target for choice, truth in judged) >= 0.95 * draws - 3 * np.sqrt(draws * 0.0475)


def test_the_law_is_what_it_says():
    mean, variance = law(N_CONFORMAL, N_EVALUATION, ALPHA)
    assert mean / N_EVALUATION == pytest.approx(91 / 101)
    assert variance > 0


@pytest.mark.parametrize("n_evaluation", [1, 17, 1500])
@pytest.mark.parametrize(("n_conformal", "k"), [(9, 9), (100, 91), (149, 135), (2000, 1801)])
def test_the_law_is_that_of_scipy(n_conformal, k, n_evaluation):
    known = betabinom(n_evaluation, k, n_conformal + 1 - k)
    assert law(n_conformal, n_evaluation, "0.1") == pytest.approx((known.mean(), known.var()), rel=1e-12)
