"""PAS: -p / prior as a score, its prior from rows that set no threshold, the exact law, and equal priors as LAC."""

import numpy as np
import pytest

import thermoset as ts
from forged import forge
from law import generated, law
from thermoset.conformal import scores
from thermoset.errors import CoverageWarning, FileFormatError, InputError
from thermoset.levels import conformal_rank
from thermoset.scores import NeverEmpty

CLASSES = 6


def long_tailed(n_rows=4000, n_classes=CLASSES, seed=0):
    """Rows of classes of which each is half as common as the one before."""
    logits, labels = generated(3 * n_rows * n_classes, n_classes, signal=0.0, seed=seed)
    share = 2.0 ** -np.arange(n_classes)
    rng = np.random.default_rng(seed)
    kept = np.flatnonzero(rng.random(len(labels)) < share[labels])[:n_rows]
    return logits[kept], labels[kept]


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_labels_are_ordered_as_by_minus_p_over_prior(temperature):
    logits, labels = long_tailed(600)
    prior = np.array([30, 1, 7, 2, 0.5, 11])
    probs = np.exp(logits / temperature)
    probs /= probs.sum(axis=1, keepdims=True)
    plain = -probs / (prior / prior.sum())
    found = scores(ts.PAS(prior), logits, temperature=temperature)
    np.testing.assert_allclose(-np.exp(-found), plain, rtol=1e-12)
    model = ts.ConformalClassifier(ts.PAS(prior), 0.1, temperature).fit(logits[:400], labels[:400])
    q = np.sort(plain[np.arange(400), labels[:400]])[conformal_rank(400, 0.1) - 1]
    np.testing.assert_array_equal(model.predict_set(logits[400:]), plain[400:] <= q)


@pytest.mark.parametrize("allow_empty", [True, False])
@pytest.mark.parametrize("temperature", [0.01, 0.1, 1.0, 20.0])
def test_equal_priors_give_the_sets_of_lac(temperature, allow_empty):
    logits, labels = generated(900, 20, signal=0.5)
    options = {"alpha": 0.1, "temperature": temperature, "allow_empty": allow_empty}
    lac = ts.ConformalClassifier("lac", **options).fit(logits[:400], labels[:400])
    pas = ts.ConformalClassifier(ts.PAS(np.full(20, 0.05)), **options).fit(logits[:400], labels[:400])
    np.testing.assert_array_equal(pas.predict_set(logits[400:]), lac.predict_set(logits[400:]))
    np.testing.assert_array_equal(pas.set_sizes(logits[400:]), lac.set_sizes(logits[400:]))


@pytest.mark.parametrize("temperature", [0.01, 1.0])
@pytest.mark.parametrize("prior", [None, (16.0, 8.0, 4.0, 2.0, 1.0, 0.5)])
@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
def test_hits_follow_the_exact_law_over_200_splits(prior, temperature):
    """With an estimated prior four fifths of the rows set the threshold; at alpha 0.05 the law shows which."""
    logits, labels = long_tailed(1200)
    behind = 200 if prior else 160
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        rows = rng.permutation(len(labels))[:600]
        model = ts.ConformalClassifier(ts.PAS(prior), "0.05", temperature).fit(logits[rows[:200]], labels[rows[:200]])
        assert model.calibration_.pool_sizes().tolist() == [behind]
        sets = model.predict_set(logits[rows[200:]])
        hits += int(sets[np.arange(400), labels[rows[200:]]].sum())
    mean, variance = law(behind, 400, "0.05")
    assert abs(hits - 200 * mean) < 5 * np.sqrt(200 * variance)


def test_the_prior_comes_from_the_calibration_rows():
    calibration, conformal = (ts.Logits(*long_tailed(1500, seed=seed)) for seed in (0, 1))
    predictor = ts.TwoTemperaturePredictor("pas", prefer="small", calibration="temperature").fit_split(
        calibration, conformal
    )
    counts = np.bincount(calibration.labels, minlength=CLASSES) + 0.5
    assert predictor.document_.recipe.score == ts.PAS(counts)
    assert predictor.document_.pool_rows == (1500,), "every conformal row sets the threshold"
    model = ts.ConformalClassifier(ts.PAS(counts), 0.1, predictor.temperature_sets_).fit(conformal)
    assert predictor.threshold_ == model.threshold_
    again = predictor.recalibrate(ts.Logits(*long_tailed(1500, seed=2)))
    assert again.document_.recipe.score == ts.PAS(counts), "the prior stays"


@pytest.mark.parametrize("grouping", [None, "class", "cluster", "rc3p", "interpolated"])
def test_a_file_holds_the_prior_and_predicts_the_same(tmp_path, grouping):
    rows, fresh = ts.Logits(*long_tailed()), ts.Logits(*long_tailed(500, seed=3))
    predictor = ts.TwoTemperaturePredictor("pas", 0.2, prefer="small", grouping=grouping).fit(rows)
    predictor.save(tmp_path / "p.json")
    read = ts.TwoTemperaturePredictor.load(tmp_path / "p.json")
    assert read.document_.recipe == predictor.document_.recipe
    assert len(read.document_.recipe.method.parameters["prior"]) == CLASSES
    np.testing.assert_array_equal(read.predict_set(fresh), predictor.predict_set(fresh))
    assert read.choice_.setting.title.startswith("PAS, ")


@pytest.mark.parametrize(
    ("prior", "complaint"),
    [
        ((1.0, 2.0), "prior must be one number for each"),
        ((1.0, 2.0, 3.0, 4.0, 5.0, -1.0), "class 5 has -1"),
        ((0.0,) * 6, "class 0 has 0"),
        (None, "prior must have one number per class"),
    ],
)
def test_a_prior_that_does_not_fit_is_refused_in_a_file(tmp_path, prior, complaint):
    document = ts.TwoTemperaturePredictor("pas", 0.2, prefer="small").fit(*long_tailed()).document_
    path = forge(tmp_path / "p.json", document, {"recipe.method.parameters": {"prior": prior}})
    with pytest.raises(FileFormatError, match=complaint):
        ts.TwoTemperaturePredictor.load(path)


@pytest.mark.parametrize(
    ("prior", "complaint"),
    [
        ([0.5, 0.0, 0.5], "class 1 has 0"),
        ([0.5, -0.1], "class 1 has -0.1"),
        ([0.5, np.nan], "class 1 has nan"),
        ([0.5, np.inf], "class 1 has inf"),
        ([1.0], "one positive number per class"),
        ([[0.5, 0.5]], "one positive number per class"),
        ("uniform", "one positive number per class"),
    ],
)
def test_a_bad_prior_is_refused(prior, complaint):
    with pytest.raises(InputError, match=complaint):
        ts.PAS(prior)


def test_a_prior_of_another_length_is_refused():
    logits, labels = long_tailed(300)
    with pytest.raises(InputError, match="PAS prior must be one number for each of 6 classes; got 3"):
        ts.ConformalClassifier(ts.PAS([1, 2, 3])).fit(logits, labels)


def test_absent_classes_are_named():
    logits, labels = long_tailed(900)
    named = ts.Logits(logits[labels != 2], labels[labels != 2], classes=["ant", "bee", "cow", "dog", "elk", "fox"])
    with pytest.warns(CoverageWarning, match=r"have none of the \d+ rows that estimate the prior.*'cow'") as caught:
        model = ts.ConformalClassifier("pas").fit(named)
    assert caught[0].filename == __file__
    assert model.calibration_.scoring.score.prior[2] == 0.5


def test_rows_that_keep_their_largest_logits_are_refused():
    rows = ts.Logits(*generated(400, 20))
    with pytest.raises(InputError, match="has no proven bounds for rows that hold only their largest logits"):
        ts.ConformalClassifier(ts.PAS(np.ones(20))).fit(ts.compact(rows, 5))


def test_pas_has_the_largest_macro_coverage_at_its_size():
    """With the true posterior: unit noise with a mean of m at the label has log-likelihoods m z, and the log prior."""
    logits, labels = long_tailed(20_000)
    shares = 2.0 ** -np.arange(CLASSES)
    posterior = np.sqrt(2 * np.log(CLASSES)) * logits / 5 + np.log(shares)
    known, fresh = slice(0, 10_000), slice(10_000, None)
    pas, lac = (
        ts.ConformalClassifier(score, 0.1).fit(posterior[known], labels[known]) for score in (ts.PAS(shares), "lac")
    )
    sets = pas.predict_set(posterior[fresh])
    rivals = lac.predict_sets(posterior[fresh], np.linspace(0.01, 0.2, 40))
    rival = min(rivals, key=lambda one: abs(one.sum() - sets.sum()))
    macro = [ts.metrics.macro_coverage(one, labels[fresh]) for one in (sets, rival)]
    assert macro[0] > macro[1] + 0.01


def test_the_top_label_is_kept_whatever_its_prior():
    logits, labels = long_tailed(1000)
    model = ts.ConformalClassifier(ts.PAS([1e6, 1, 1, 1, 1, 1]), allow_empty=False).fit(logits, labels)
    assert model.calibration_.scoring.score == NeverEmpty(ts.PAS([1e6, 1, 1, 1, 1, 1]))
    assert model.predict_set(logits)[np.arange(1000), logits.argmax(axis=1)].all()
