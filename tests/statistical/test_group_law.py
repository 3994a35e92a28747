"""Coverage of every group of rows follows its own exact law, over 200 splits: each has its own n, m and threshold."""

import numpy as np
import pytest

import thermoset as ts
from law import SPLITS, generated, law, with_prior
from thermoset.scores import SCORES

pytestmark = pytest.mark.scaled

ALPHA = "0.15"
NAMES = np.array(["clinic", "scanner", "phone"])
SHARES = (0.6, 0.3, 0.1)
N_CONFORMAL, N_EVALUATION = 240, 400


def population(seed=0, n_rows=8000, n_classes=6):
    """Rows of three groups of very different sizes, of which the smallest is by far the hardest."""
    logits, labels = generated(n_rows, n_classes, signal=-0.5, seed=seed)
    rng = np.random.default_rng((seed, 1))
    codes = rng.choice(3, size=n_rows, p=SHARES)
    return ts.Logits(logits + 8.0 * codes[:, None] * rng.normal(size=logits.shape), labels, groups=NAMES[codes])


DATA = population()


def standardised(fit, splits=SPLITS):
    """Hits of each group over all splits against the sum of its laws, whose n and m differ from split to split."""
    excess, variance = np.zeros(3), np.zeros(3)
    rng, codes = np.random.default_rng(7), DATA.groups.codes_among(tuple(NAMES))
    for _ in range(splits):
        rows = rng.permutation(len(DATA))[: N_CONFORMAL + N_EVALUATION]
        conformal, fresh = rows[:N_CONFORMAL], rows[N_CONFORMAL:]
        sets = fit(DATA.take(conformal)).predict_set(DATA.take(fresh))
        hit = sets[np.arange(N_EVALUATION), DATA.labels[fresh]]
        for g in range(3):
            inside = codes[fresh] == g
            mean, spread = law(int((codes[conformal] == g).sum()), int(inside.sum()), ALPHA)
            excess[g] += hit[inside].sum() - mean
            variance[g] += spread
    return excess / np.sqrt(variance)


@pytest.mark.parametrize("method", list(SCORES))
def test_every_group_follows_its_law(method):
    score = with_prior(method, DATA.n_classes)
    found = standardised(ts.ConformalClassifier(score, ALPHA, temperature=1.4, grouping="group").fit)
    assert (np.abs(found) < 5).all(), dict(zip(NAMES, found, strict=True))


def test_one_threshold_for_all_leaves_groups_to_their_fate():
    """The test has power: with one threshold, hard groups are far below what a law of their own would give."""
    found = standardised(ts.ConformalClassifier("aps", ALPHA, temperature=1.4).fit)
    assert found[2] < -10
    assert found[0] > 10


def test_deterministic_scores_cover_at_least_as_much():
    assert (standardised(ts.ConformalClassifier("aps", ALPHA, randomized=False, grouping="group").fit) > -5).all()


@pytest.mark.slow
def test_a_chosen_temperature_leaves_every_law_as_it_is():
    """T-hat comes from calibration rows alone, by halves: each group keeps its law."""
    calibration = population(seed=5, n_rows=300)

    def fit(conformal):
        predictor = ts.TwoTemperaturePredictor("lac", ALPHA, prefer="small", grouping="group", fallback="pooled")
        return predictor.fit_split(calibration, conformal)

    found = standardised(fit, splits=20)
    assert (np.abs(found) < 5).all(), found
