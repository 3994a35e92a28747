"""The worst tenth of classes: probabilities that are right in the long run, and limits known by hand."""

import numpy as np
import pytest

from thermoset.levels import conformal_rank
from thermoset.tuning.worst_classes import ClassMisses, assured, tenth_of, tenths, with_more_rows

ALPHA, LAXER, TARGET = "0.06", 0.18, 0.87


def drawn(rng, n_classes, rows, spread, alpha=float(ALPHA), n_conformal=10**7):
    """Classes with gamma risks, rows of them, and the true coverage of the worst tenth under a drawn threshold."""
    risk = rng.gamma(1 / spread, spread, n_classes) if spread else np.ones(n_classes)
    risk = np.minimum(risk / risk.mean(), 0.9 / LAXER)
    near = rng.poisson(rows * alpha * risk).astype(float)
    far = near + rng.poisson(rows * (LAXER - alpha) * risk)
    k = conformal_rank(n_conformal, str(alpha))
    level = rng.beta(n_conformal + 1 - k, k)
    worst = 1 - level * np.sort(risk)[-tenth_of(n_classes) :].mean()
    return ClassMisses(np.full(n_classes, float(rows)), near, far, n_classes), worst


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_classes", "rows", "n_conformal"), [(100, 10, 1000), (100, 40, 4000), (10, 100, 1000), (60, 5, 300)]
)
def test_a_claim_that_is_nearly_sure_is_mostly_true(n_classes, rows, n_conformal):
    """Populations of every spread; of the claims made with 95%, about so many hold."""
    rng = np.random.default_rng(n_classes + rows)
    held = []
    for _ in range(400):
        misses, worst = drawn(rng, n_classes, rows, rng.uniform(0.05, 0.5), n_conformal=n_conformal)
        target = float(np.quantile(tenths(misses, ALPHA, n_conformal, seed=1, draws=200).worst, 0.05))
        held.append(worst >= target)
    assert np.mean(held) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(held))


def test_ends_are_not_so_far_apart_that_they_say_nothing():
    """The looks-worst tenth of ten rows a class is mostly bad luck: the estimate must not believe it."""
    rng = np.random.default_rng(0)
    misses, worst = drawn(rng, 100, 10, 0.0)
    seen = 1 - np.sort(misses.near / misses.counts)[-10:].mean()
    low, middle = np.quantile(tenths(misses, ALPHA, 10**7, seed=0).worst, [0.05, 0.5])
    assert seen < 0.8  # though every class is covered 0.94
    assert worst == pytest.approx(0.94, abs=1e-3)
    assert middle > 0.87
    assert low > 0.82


def test_with_very_many_rows_it_is_what_the_classes_have():
    risk = np.array([0.4] * 10 + [1.0] * 5 + [2.2] * 5)  # mean 1; the tenth are two classes with 2.2
    rows = 1e9
    misses = ClassMisses(np.full(20, rows), rows * 0.06 * risk, rows * 0.18 * risk, 20)
    found = tenths(misses, ALPHA, 10**9, seed=0)
    assert np.allclose(found.worst, 1 - 0.06 * 2.2, atol=2e-4)
    assert np.allclose(found.best, 1 - 0.06 * 0.4, atol=2e-4)


def test_the_threshold_adds_its_own_law():
    """With classes known exactly, the only doubt is the coverage of n conformal rows: Beta(k, n + 1 - k)."""
    risk = np.array([0.5] * 10 + [1.5] * 10)
    misses = ClassMisses(np.full(20, 1e8), 6e6 * risk, 18e6 * risk, 20)
    n, k = 200, conformal_rank(200, ALPHA)
    found = tenths(misses, ALPHA, n, seed=0, draws=4000)
    mean, sd = (n + 1 - k) / (n + 1), np.sqrt(k * (n + 1 - k) / ((n + 1) ** 2 * (n + 2)))
    assert (1 - found.worst).mean() == pytest.approx(1.5 * mean, rel=0.03)
    assert (1 - found.worst).std() == pytest.approx(1.5 * sd, rel=0.08)


def test_classes_without_rows_are_as_unknown_as_they_are():
    rng = np.random.default_rng(3)
    misses, _ = drawn(rng, 50, 40, 0.3)
    unseen = ClassMisses(misses.counts, misses.near, misses.far, 80)
    known, unknown = (np.quantile(tenths(one, ALPHA, 10**6, seed=0).worst, 0.05) for one in (misses, unseen))
    assert unknown < known


def test_more_rows_and_stricter_levels_make_surer():
    rng = np.random.default_rng(4)
    misses, _ = drawn(rng, 100, 20, 0.3)
    target = float(np.quantile(tenths(misses, ALPHA, 2000, seed=0).worst, 0.4))
    few = assured(misses, ALPHA, target, 2000, seed=0)
    assert few < assured(with_more_rows(misses, 20.0, seed=0), ALPHA, target, 40_000, seed=0)
    stricter = ClassMisses(misses.counts, misses.near / 2, misses.far, 100)
    assert assured(stricter, "0.03", target, 2000, seed=0) > few


def test_more_rows_show_less_chance_not_the_same_chance_again():
    """Classes that are all alike look different on ten rows each; a hundred times as many rows would not show that."""
    misses, _ = drawn(np.random.default_rng(0), 100, 10, 0.0)
    more = with_more_rows(misses, 100.0, seed=0)
    spread = [float(np.std(one.near / one.counts)) for one in (misses, more)]
    assert spread[1] < 0.6 * spread[0]
    assert more.near.sum() / more.counts.sum() == pytest.approx(misses.near.sum() / misses.counts.sum(), rel=0.3)


def test_the_same_rows_give_the_same_bits():
    misses, _ = drawn(np.random.default_rng(5), 30, 20, 0.3)
    assert np.array_equal(tenths(misses, ALPHA, 500, 7).worst, tenths(misses, ALPHA, 500, 7).worst)
