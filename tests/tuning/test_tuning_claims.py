"""Claims about hard classes on populations that are not easy: the population is the truth, rows are drawn from it."""

import warnings

import numpy as np
import pytest

import thermoset as ts
from thermoset.tuning import choose, menu
from thermoset.tuning.worst_classes import tenth_of
from tiers import scaled

pytestmark = pytest.mark.slow

POOL, ALPHA = 20_000, 0.1
SHARES = {"five": [60, 20, 10, 7, 3]}


def population(name):
    """Logits in which a few classes are often mistaken for others: overall coverage hides them."""
    n_classes, n_hard, easy, weak = {
        "forty": (40, 4, 4.2, 1.0),
        "ten": (10, 2, 3.6, 1.2),
        "five": (5, 1, 2.4, 1.2),
        "two": (2, 1, 2.4, 0.8),
        "hundred": (100, 8, 5.0, 1.5),
        "thousand": (1000, 80, 6.0, 2.0),
    }[name]
    rng = np.random.default_rng(n_classes)
    shares = np.array(SHARES.get(name, [1] * n_classes), dtype=float)
    labels = rng.choice(n_classes, size=POOL, p=shares / shares.sum())
    strength = np.where(np.arange(n_classes) < n_hard, weak, easy) + 0.4 * rng.normal(size=n_classes)
    logits = rng.normal(size=(POOL, n_classes)).astype(np.float32)
    logits[np.arange(POOL), labels] += strength[labels]
    return ts.Logits(1.3 * logits, labels)


def worst_tenth(everyone, model):
    hit = model.predict_set(everyone)[np.arange(len(everyone)), everyone.labels]
    counts = np.bincount(everyone.labels, minlength=everyone.n_classes)
    covered = np.bincount(everyone.labels, hit, minlength=everyone.n_classes) / np.maximum(counts, 1)
    return float(np.sort(covered)[: tenth_of(everyone.n_classes)].mean())


def outcomes(name, n_rows, prefer, draws, candidates, **asked):
    """Of so many draws: how many claims are made, how many are true, and how many intervals hold the truth."""
    everyone, rng = population(name), np.random.default_rng(1)
    made = true = inside = 0
    for t in range(draws):
        rows = rng.integers(0, POOL, n_rows)
        calibration, conformal = everyone.take(rows[: n_rows // 2]), everyone.take(rows[n_rows // 2 :])
        given = {"calibrated": 1.0, "n_conformal": len(conformal), "conformal": conformal, "prefer": prefer}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            choice = choose(calibration, [one.change(random_state=t) for one in candidates], **given, **asked)
            model = ts.ConformalClassifier.of(choice.setting.change(alpha=choice.alpha)).fit(conformal)
            if choice.setting.alpha != choice.alpha:
                model.tighten(choice.setting.alpha, calibration)
        worst = worst_tenth(everyone, model)
        made, true = made + choice.met, true + (choice.met and worst >= choice.target)
        inside += choice.outlook.worst_tenth_ends[0] <= worst <= choice.outlook.worst_tenth_ends[1]
    return made, true, inside


def enough(count, of, share):
    """Whether so many of so many are no fewer than a share allows, within three standard deviations."""
    return count >= share * of - 3 * np.sqrt(of * share * (1 - share))


@pytest.mark.scaled
@pytest.mark.parametrize("claims", ["model", "distribution-free"])
def test_a_claim_that_is_made_is_true(claims):
    draws = scaled(5, 40, 200)
    n_rows = 600 if claims == "model" else 2400
    made, true, inside = outcomes("forty", n_rows, "protect", draws, [ts.Recipe("lac")], claims=claims)
    assert made >= 0.9 * draws  # the rows-per-class rule allows it; a few draws do not reach the bound
    assert enough(true, made, 0.95)
    assert claims != "model" or enough(inside, draws, 0.87)


def test_the_population_is_not_easy():
    """So that the test above can tell: at the promised level the worst tenth is far below the target."""
    everyone = population("forty")
    model = ts.ConformalClassifier("lac", ALPHA).fit(everyone)
    hit = model.predict_set(everyone)[np.arange(POOL), everyone.labels]
    assert hit.mean() == pytest.approx(0.9, abs=0.001)
    assert worst_tenth(everyone, model) < 0.6


@pytest.mark.evidence
@pytest.mark.parametrize(
    ("name", "n_rows"),
    [("two", 400), ("five", 1500), ("ten", 1000), ("hundred", 1000), ("hundred", 4000), ("thousand", 12_000)],
)
@pytest.mark.parametrize("prefer", ["protect", "classes>=0.8", "classes>=0.7"])
def test_claims_are_true_on_every_population(name, n_rows, prefer):
    draws = 20 if name == "thousand" else 100
    made, true, inside = outcomes(name, n_rows, prefer, draws, menu(ALPHA))
    assert enough(true, made, 0.95)
    assert enough(inside, draws, 0.87)


@pytest.mark.evidence
@pytest.mark.parametrize("name", ["five", "ten", "hundred"])
def test_small_is_no_larger_than_lac_on_all_rows(name):
    """Within 2%, on average over draws, although some of the rows choose and set no threshold."""
    everyone, rng, sizes = population(name), np.random.default_rng(2), []
    fresh = everyone.take(slice(0, 5000))
    for t in range(100):
        rows = everyone.take(rng.integers(0, POOL, 2000))
        made = ts.TwoTemperaturePredictor(calibration="temperature", random_state=t)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sizes.append(
                (
                    made.fit(rows).set_sizes(fresh).mean(),
                    ts.ConformalClassifier("lac").fit(rows).set_sizes(fresh).mean(),
                )
            )
    ours, plain = np.mean(sizes, axis=0)
    assert ours <= 1.02 * plain
