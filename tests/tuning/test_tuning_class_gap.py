"""The class gap: hand arithmetic, an unbiased estimate, intervals that cover, budgets that are kept."""

import numpy as np
import pytest

import thermoset as ts
from on_arrays import estimates_of
from thermoset.tuning.class_gap import ClassGaps, ClassSample

pytestmark = pytest.mark.slow

ALPHA = 0.1
GRID = np.array([0.4, 0.7, 1.0, 1.5, 2.0, 2.5, 3.0])


def sample_of(labels, n_classes):
    return ClassSample(np.asarray(labels), n_classes, 0)


def hits_of(labels, n_classes, hits):
    sample = sample_of(labels, n_classes)
    parts = zip(*(sample.measure(hit) for hit in hits), strict=True)
    return ClassGaps(sample, ALPHA, *map(np.array, parts))


def test_by_hand():
    labels = np.array([0, 0, 1, 1, 1])
    found = hits_of(labels, 2, [np.array([1.0, 0.5, 1.0, 1.0, 0.4])])
    np.testing.assert_allclose(found.mean, [[0.75, 0.8]])
    # sums of squared deviations 0.125 and 0.24, over n (n - 1)
    np.testing.assert_allclose(found.variance, [[0.0625, 0.04]])
    # the threshold holds 2/5 m_0 + 3/5 m_1 in place: v_c (1 - 2 w_c) + sum of w^2 v
    shifted = np.array([0.0625 * 0.2, 0.04 * -0.2]) + 0.16 * 0.0625 + 0.36 * 0.04
    np.testing.assert_allclose(found.squares, [((0.15**2 + 0.1**2) - shifted.sum()) / 2])


def test_the_estimate_is_unbiased():
    """Classes covered with probability exactly 1 - a, and classes that are not: on average the estimate is right."""
    rng = np.random.default_rng(0)
    labels = np.arange(6000) % 1000  # six rows each: noise alone is 0.09 / 6
    for spread in (0.0, 0.08):
        covered = 0.9 + spread * np.where(np.arange(1000) % 2, 1, -1)
        hits = (rng.random((30, 6000)) < covered[labels]).astype(np.float64)
        squares = hits_of(labels, 1000, hits).squares
        # the threshold is not held in place here, so its share of the noise, 1/1000 of it, is left in
        assert squares.mean() == pytest.approx(spread**2 + 0.09 / 6000, abs=5 * squares.std(ddof=1) / np.sqrt(30))


def test_classes_without_rows_are_represented_by_rare_ones():
    labels = np.repeat(np.arange(6), [2, 2, 9, 9, 9, 9])
    sample = sample_of(labels, 8)  # two classes have no row
    np.testing.assert_allclose(sample.weights, [1 / 4, 1 / 4, 1 / 8, 1 / 8, 1 / 8, 1 / 8])
    assert sample.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("counts", "said"),
    [([75, 75], True), ([250, 250], False), ([20] * 10, False), ([20] * 8 + [1, 0], True), ([3] * 4, True)],
)
def test_too_few_rows_are_named(counts, said):
    """50 misses for two classes, 15 at least; two rows for nine classes of ten."""
    assert sample_of(np.repeat(np.arange(len(counts)), counts), len(counts)).too_few(ALPHA) == said


def population(n_classes, seed, n_rows=20_000):
    """An overconfident classifier that finds some classes harder than others."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    hard = 1 + rng.gamma(1, 0.5, n_classes)
    logits = 2.5 * hard[labels][:, None] * rng.normal(size=(n_rows, n_classes))
    logits[np.arange(n_rows), labels] += rng.gamma(6, 1.6, n_rows)
    return ts.Logits(logits, labels)


def drawn(everyone, n_rows, times, seed=1):
    """Class gaps of everyone, and those that samples show."""
    recipe = ts.Recipe("raps")
    whole = estimates_of(everyone, recipe, GRID, 1000)
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(times):
        some = everyone.take(rng.integers(0, len(everyone), n_rows))
        samples.append(estimates_of(some, recipe, GRID, n_rows))
    return whole, samples


@pytest.fixture(scope="module", params=[(5, 400), (30, 600)], ids=["5 classes", "30 classes"])
def draws(request):
    n_classes, n_rows = request.param
    return drawn(population(n_classes, seed=n_classes), n_rows, times=150)


@pytest.mark.long
def test_intervals_cover(draws):
    whole, samples = draws
    true = np.sqrt((whole.gaps.gap**2).mean(axis=1))
    inside, apart = np.zeros(3), 0
    for curves in samples:
        gaps = curves.gaps.at([2, 5])
        for k, j in enumerate((2, 5)):
            low, high = gaps.intervals()[k]
            inside[k] += low <= true[j] <= high
        difference, (low, high), tells = (column[1] for column in gaps.against(0))
        inside[2] += low <= true[5] - true[2] <= high
        apart += tells and (difference > 0) != (true[5] > true[2])
    # 150 draws: 95% has a standard deviation of 1.8%
    assert (inside / 150 > 0.95 - 5 * 0.018).all()
    assert apart <= 0.05 * 150


@pytest.mark.long
@pytest.mark.parametrize(("n_classes", "hard", "n_rows"), [(96, 8, 1000), (2, 1, 510)])
def test_intervals_cover_where_a_few_classes_hold_most_misses(n_classes, hard, n_rows):
    rng = np.random.default_rng(n_classes)
    labels = rng.integers(n_classes, size=20_000)
    logits = rng.normal(size=(20_000, n_classes))
    logits[np.arange(20_000), labels] += np.where(labels < hard, *((2.2, 4.2) if n_classes > 2 else (0.8, 2.4)))
    everyone = ts.Logits(1.3 * logits, labels)
    one, draws, inside = np.ones(1), 150, 0
    true = np.sqrt((estimates_of(everyone, ts.Recipe("raps"), one).gaps.gap ** 2).mean())
    for _ in range(draws):
        rows = everyone.take(rng.integers(0, 20_000, n_rows))
        low, high = estimates_of(rows, ts.Recipe("raps"), one).gaps.intervals()[0]
        inside += low <= true <= high
    assert inside / draws > 0.95 - 3 * np.sqrt(0.05 * 0.95 / draws)


def kept_and_broken(draws, rule, factor):
    """How often a budget is said to be kept and is not, for a budget near the least class gap there is."""
    whole, samples = draws
    true = np.sqrt((whole.gaps.gap**2).mean(axis=1))
    budget = factor * float(np.median(true))
    said = broken = 0
    for curves in samples:
        kept = rule(curves.gaps, budget)
        if kept.any():
            chosen = np.flatnonzero(kept)[np.argmin(curves.size[kept, curves.level])]
            said, broken = said + 1, broken + (true[chosen] > budget)
    return said, broken


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.2])
def test_a_budget_that_is_said_to_be_kept_is_kept(draws, factor):
    _, broken = kept_and_broken(draws, lambda gaps, budget: gaps.excess(budget) <= 0, factor)
    assert broken <= 0.05 * 150 + 3 * np.sqrt(150 * 0.05 * 0.95)


def test_larger_budgets_are_seen_to_be_kept(draws):
    said, broken = kept_and_broken(draws, lambda gaps, budget: gaps.excess(budget) <= 0, 2.0)
    assert said > 100
    assert broken == 0


def test_the_plain_estimate_would_break_budgets(draws):
    """So that the tests above can tell: without a bound, a budget is broken in far more than 5% of draws."""
    _, broken = kept_and_broken(draws, lambda gaps, budget: gaps.values <= budget, 0.9)
    assert broken > 0.05 * 150 + 3 * np.sqrt(150 * 0.05 * 0.95)


@pytest.mark.long
def test_the_interval_of_the_most_even_setting_covers_it(draws):
    """Simultaneous over what was searched: the luckiest of seven temperatures is among them."""
    whole, samples = draws
    true = np.sqrt((whole.gaps.gap**2).mean(axis=1))
    inside = 0
    for curves in samples:
        best = int(np.argmin(curves.gaps.squares))
        low, high = curves.gaps.at([best]).intervals(curves.gaps.simultaneous_reach())[0]
        inside += low <= true[best] <= high
    assert inside / len(samples) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / len(samples))


def test_threads_change_nothing(monkeypatch):
    data = population(30, seed=5, n_rows=600)
    excess = []
    for threads in ("1", "2"):
        monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
        curves = estimates_of(data, ts.Recipe(), GRID, 300)
        excess.append(curves.gaps.excess(0.05))
    np.testing.assert_array_equal(*excess)


def test_a_few_very_hard_classes_are_not_taken_for_certain():
    """Hard classes are hit or missed, easy ones almost surely hit: the noise is that of the hard ones."""
    n_classes, hard, n, draws = 96, 8, 960, 100
    rng, truth = np.random.default_rng(0), np.where(np.arange(n_classes) < hard, 0.54, 0.9 + 0.36 / 11)
    found, claimed = np.empty(draws), np.empty(draws)
    for t in range(draws):
        classes = rng.integers(0, n_classes, n)
        easy = truth[classes] + rng.uniform(-0.06, 0.06, n)
        hit = np.where(classes < hard, rng.random(n) < 0.54, easy)
        sample = ClassSample(classes, n_classes, seed=0)
        hits = ClassGaps(sample, 0.1, *(values[None] for values in sample.measure(hit)))
        found[t], claimed[t] = hits.squares[0], hits.errors(np.sqrt(np.maximum(hits.squares, 0))).std()
    assert found.mean() == pytest.approx(np.mean((truth - 0.9) ** 2), abs=4 * found.std() / np.sqrt(draws))
    assert claimed.mean() > 0.85 * found.std()
