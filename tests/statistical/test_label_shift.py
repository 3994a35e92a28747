"""Coverage under a planted label shift: nominal with weights, by z-tests over 200 splits, and missed without them.

A split draws conformal rows at random; the others are the target, in which a row of class y counts r(y) times. That is
the same as drawing target rows with these class shares, without the noise of drawing them. Sets need not be formed: a
row's set holds its label if the label's score is at most the threshold of its class.
"""

import numpy as np
import pytest

import thermoset as ts
from conftest import real_file
from thermoset.arrays import Floats
from thermoset.conformal.calibration_scores import Weights
from thermoset.levels import conformal_rank
from thermoset.metrics import coverage_law
from thermoset.predictor.class_shares import estimate_priors, learn_shares
from thermoset.predictor.label_shift import LabelShift, shares_of

pytestmark = pytest.mark.long

FILES = {
    "cifar10_resnet50": ("lac", 1.0, 1000),
    "cifar100_resnet50": ("raps", 1.5, 2000),
    "banking77_bert": ("lac", 1.0, 1000),
}
SPLITS = 200
ALPHA = "0.1"


@pytest.fixture(scope="module", params=list(FILES))
def case(request):
    """A file, the scores of its labels, and class shares that favour the classes which are hard to cover."""
    data = ts.load(real_file(request.param))
    method, temperature, n_conformal = FILES[request.param]
    sets = ts.ConformalClassifier(method, ALPHA, temperature).fit(data)
    scores = sets.calibration_.scores
    hits = sets.predict_set(data)[np.arange(len(data)), data.labels]
    counts = np.bincount(data.labels, minlength=data.n_classes)
    missed = np.bincount(data.labels, weights=~hits, minlength=data.n_classes) / counts
    target = (counts / len(data)) * (0.2 + missed / missed.mean()) ** 2
    return data, scores, counts / len(data), target / target.sum(), n_conformal


def covered(scores, labels, rows, thresholds):
    return scores[rows] <= (thresholds[labels[rows]] if len(thresholds) > 1 else thresholds)


def over_splits(case, source_of, *, weighted=True):
    """Coverage of the target in every split, and how many rows of equal weight the conformal rows were worth."""
    data, scores, source, target, n_conformal = case
    rng, ratio = np.random.default_rng(0), target / source
    coverage, worth, rank = np.empty(SPLITS), np.empty(SPLITS), conformal_rank(n_conformal, ALPHA)
    for split in range(SPLITS):
        rows = rng.permutation(len(data))
        known, others = rows[:n_conformal], rows[n_conformal:]
        labels = data.labels[known]
        shares = source_of(labels, data.n_classes)
        shift = LabelShift(source=tuple(shares), target=tuple(target), effective_rows=1.0)
        own = scores[known]
        found = shift.thresholds(own, labels, ALPHA) if weighted else np.sort(own)[[rank - 1]]
        weight = ratio[data.labels[others]]
        coverage[split] = weight @ covered(scores, data.labels, others, found) / weight.sum()
        worth[split] = Weights.of((target / shares)[labels]).effective_rows
    return coverage, worth


def z_of(coverage: Floats, value: float) -> float:
    return float((coverage.mean() - value) / (coverage.std(ddof=1) / np.sqrt(len(coverage))))


def test_known_shares_give_the_promised_coverage(case):
    source, target = case[2], case[3]
    coverage, _ = over_splits(case, lambda *_: source)
    most = 0.9 + float((target / source).max()) / case[4]  # at most the share of one row more
    assert z_of(coverage, 0.9) > -4
    assert z_of(coverage, most) < 4


def test_the_plain_threshold_misses_it(case):
    coverage, _ = over_splits(case, lambda labels, n: shares_of(np.bincount(labels, minlength=n)), weighted=False)
    assert coverage.mean() < 0.88
    assert z_of(coverage, 0.9) < -10


def test_class_shares_of_the_conformal_rows_will_do(case):
    coverage, _ = over_splits(case, lambda labels, n: shares_of(np.bincount(labels, minlength=n)))
    assert z_of(coverage, 0.9) > -4
    assert coverage.mean() < 0.91


def test_the_scatter_is_that_of_the_effective_rows(case):
    """`check` takes the law of as many rows of equal weight: alarms are as rare as it says."""
    coverage, worth = over_splits(case, lambda labels, n: shares_of(np.bincount(labels, minlength=n)))
    n_fresh = 500
    hits = np.random.default_rng(1).binomial(n_fresh, coverage)
    p = np.array([coverage_law(int(n), n_fresh, ALPHA).cdf(h) for n, h in zip(worth, hits, strict=True)])
    assert np.count_nonzero(p < 0.05) <= 0.05 * SPLITS + 3 * np.sqrt(0.05 * 0.95 * SPLITS)
    assert np.count_nonzero(p < 0.001) <= 3


def test_estimated_shares_come_close(case):
    """Unlabelled target rows are drawn with replacement; coverage is that of fresh rows with the true shares."""
    data, scores, source, target, n_conformal = case
    rng, ratio = np.random.default_rng(2), target / source
    found = []
    for _ in range(20):
        rows = rng.permutation(len(data))
        known, pool, others = np.split(rows, [n_conformal, (n_conformal + len(data)) // 2])
        temperature, labels = ts.TemperatureScaler().fit(data.take(known)).temperature_, data.labels[known]
        weight = ratio[data.labels[pool]]
        drawn = data.take(rng.choice(pool, size=2000, p=weight / weight.sum()))
        counts = np.bincount(labels, minlength=data.n_classes)
        reference = learn_shares(data.take(known), temperature, scores[known], 0)
        estimate = estimate_priors(drawn, temperature, counts, reference, bootstrap=0)
        assert estimate.converged
        shift = LabelShift(source=tuple(estimate.source), target=tuple(estimate.target), effective_rows=1.0)
        thresholds = shift.thresholds(scores[known], labels, ALPHA)
        own = ratio[data.labels[others]]
        found.append(own @ covered(scores, data.labels, others, thresholds) / own.sum())

    assert abs(np.mean(found) - 0.9) < 0.02


def test_hits_by_score_are_those_of_sets():
    data = ts.load(real_file("cifar10_resnet50"))
    predictor = ts.TwoTemperaturePredictor("aps", prefer="small").fit(data.take(slice(0, 2000)))
    shifted = predictor.shifted(priors=np.arange(1, 11) / 55)
    fresh = data.take(slice(2000, 4000))
    sets = shifted.predict_set(fresh)[np.arange(2000), fresh.labels]
    own = ts.ConformalClassifier("aps", ALPHA, predictor.temperature_sets_).fit(fresh).calibration_.scores
    found = shifted._inference.thresholds.ravel()
    assert np.array_equal(sets, covered(own, fresh.labels, np.arange(2000), found))
