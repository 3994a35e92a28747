"""Class shares by EM: against plain NumPy, by the conditions of a maximum, and by how far off they say they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, poisson

import thermoset as ts
from conftest import real_file
from law import generated
from thermoset.calibration import probabilities
from thermoset.errors import CoverageWarning, InputError
from thermoset.predictor import priors
from thermoset.predictor.label_shift import shares_of
from thermoset.predictor.priors import FEWEST_ROWS, UNIT, Resampling, _add_rows, _no_rows, estimate_priors
from thermoset.uniforms import trial_keys
from tiers import examples

NONE = Resampling(bootstrap=0)


def plain_em(probs, source):
    """Saerens et al. (2002), equation 2.9, until nothing moves."""
    shares = source.copy()
    for _ in range(100_000):
        rows = probs * (shares / source)
        new = (rows / rows.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(new - shares).max() < 1e-13:
            return new
        shares = new
    raise AssertionError("no rest")


def drawn(n_rows, n_classes, shares, seed, signal=1.0):
    """Rows with these class shares, and probabilities that are right for even shares."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(n_classes, size=n_rows, p=shares)
    return signal * (rng.normal(size=(n_rows, n_classes)) + signal * np.eye(n_classes)[labels])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_classes", [2, 5, 20])
def test_the_same_shares_as_plain_em(seed, n_classes):
    rng = np.random.default_rng(seed)
    rows = drawn(800, n_classes, rng.dirichlet(np.ones(n_classes)), seed, signal=2.0)
    counts = rng.integers(5, 200, size=n_classes)
    found = estimate_priors(ts.Logits(rows), 1.2, counts, NONE)
    assert found.converged
    assert found.target == pytest.approx(plain_em(probabilities(rows, 1.2), shares_of(counts)), abs=2e-7)
    assert found.target.sum() == pytest.approx(1)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.floats(0.3, 3.0))
def test_nothing_is_more_likely(seed, n_classes, signal):
    """The conditions of a maximum: the mean of (p_y / a_y) / sum_j (b_j / a_j) p_j is 1, or at most 1 where b_y = 0."""
    rng = np.random.default_rng(seed)
    rows = drawn(300, n_classes, rng.dirichlet(np.ones(n_classes)), seed, signal)
    source = shares_of(np.full(n_classes, 50))
    found = estimate_priors(ts.Logits(rows), 1.0, np.full(n_classes, 50), NONE)
    probs = probabilities(rows) / source
    slope = (probs / (probs @ found.target)[:, None]).mean(axis=0)
    large = found.target > 1e-3
    assert slope[large] == pytest.approx(1, abs=1e-4)
    assert (slope < 1 + 1e-4).all()


def test_rows_like_the_source_have_its_shares():
    logits, labels = generated(4000, 6)
    scaler = ts.TemperatureScaler().fit(logits, labels)
    counts = np.bincount(labels, minlength=6)
    found = estimate_priors(ts.Logits(logits), scaler.temperature_, counts, Resampling(50))
    assert (np.abs(found.target - found.source) < 4 * found.error).all()


@pytest.mark.parametrize("name", ["cifar10_resnet50", "banking77_bert"])
def test_errors_are_as_large_as_they_say(name):
    """Real rows, with labels drawn from their probabilities at T*: calibrated as the method assumes it."""
    data = ts.load(real_file(name))
    temperature = float(ts.TemperatureScaler().fit(data).temperature_)
    probs = probabilities(data, temperature)
    n, n_classes = probs.shape
    rng, z, inside = np.random.default_rng(0), [], []
    for draw in range(30 if n_classes == 10 else 6):
        labels = np.minimum((probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), n_classes - 1)
        source, pool = np.split(rng.permutation(n), [n // 2])
        counts = np.bincount(labels[pool], minlength=n_classes)
        target = rng.gamma(1.0, size=n_classes) * (counts > 0) + 0.1 * (counts > 0)
        target /= target.sum()
        weight = (target / np.maximum(counts, 1))[labels[pool]]
        rows = rng.choice(pool, size=1000, p=weight / weight.sum())
        known = np.bincount(labels[source], minlength=n_classes)
        found = estimate_priors(data.take(rows), temperature, known, Resampling(60, draw))
        z.append((found.target - target) / found.error)
        inside.append((found.low <= target) & (target <= found.high))
    assert 0.85 < np.std(z) < 1.2
    assert 0.92 < np.mean(inside) < 0.98


@pytest.mark.parametrize("name", ["cifar10_resnet50", "banking77_bert", "cifar100_resnet50"])
def test_real_labels_are_within_a_few_errors(name):
    """Temperature scaling does not calibrate every class: intervals hold the truth less often, and not by much."""
    data = ts.load(real_file(name))
    n, n_classes = len(data), data.n_classes
    rng, inside = np.random.default_rng(1), []
    for draw in range(4):
        source, pool = np.split(rng.permutation(n), [n // 2])
        temperature = float(ts.TemperatureScaler().fit(data.take(source)).temperature_)
        target = rng.gamma(1.0, size=n_classes) + 0.1
        target /= target.sum()
        weight = (target / np.bincount(data.labels[pool], minlength=n_classes))[data.labels[pool]]
        rows = rng.choice(pool, size=1000, p=weight / weight.sum())
        known = np.bincount(data.labels[source], minlength=n_classes)
        found = estimate_priors(data.take(rows), temperature, known, Resampling(60, draw))
        inside.append((found.low <= target) & (target <= found.high))
    assert np.mean(inside) > 0.85


def test_threads_and_blocks_change_no_bit(monkeypatch, tmp_path):
    rows = drawn(30_000, 4, [0.1, 0.2, 0.3, 0.4], 0).astype(np.float32)
    counts, asked = np.array([10, 20, 30, 5]), Resampling(8, 3)
    for part, place in enumerate(np.split(np.arange(30_000), [7001, 7002, 20_000])):
        ts.save(tmp_path / f"{part}.npz", ts.Logits(rows[place]))
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "1")
    one = estimate_priors(ts.Logits(rows), 1.5, counts, asked)
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "3")
    for other in (ts.Logits(rows), ts.open(tmp_path)):
        found = estimate_priors(other, 1.5, counts, asked)
        assert np.array_equal(found.target, one.target)
        assert np.array_equal(found.error, one.error)
    assert not np.array_equal(estimate_priors(ts.Logits(rows), 1.5, counts, Resampling(8, 4)).error, one.error)


def test_a_class_that_no_row_has_is_small_and_its_error_is_not_zero():
    rows = np.repeat(1000.0 * np.eye(3)[:2], [60, 40], axis=0)
    found = estimate_priors(ts.Logits(rows), 1.0, np.array([30, 30, 30]), Resampling(20))
    assert found.target == pytest.approx([0.6, 0.4, 0.0], abs=10 * UNIT)
    assert (found.error >= 1 / 100).all()
    assert found.low[2] == 0
    # 60 of 100 rows: the binomial error, and that of one row
    assert found.error[0] == pytest.approx(np.hypot(np.sqrt(0.24 / 100), 0.01), rel=0.5)


def test_progress_ends_with_all_resamples():
    told = []
    asked = Resampling(7, 0, lambda done, total: told.append((done, total)))
    estimate_priors(ts.Logits(drawn(100, 3, [0.2, 0.3, 0.5], 0)), 1.0, np.array([9, 9, 9]), asked)
    assert told[-1] == (7, 7)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_shares_that_still_move_are_told(monkeypatch):
    monkeypatch.setattr(priors, "_MOST_STEPS", 1)
    rows = ts.Logits(drawn(200, 5, [0.7, 0.1, 0.1, 0.05, 0.05], 0))
    with pytest.warns(CoverageWarning, match="still changing after 2 EM steps"):
        found = estimate_priors(rows, 1.0, np.full(5, 9), NONE)
    assert not found.converged


@pytest.mark.parametrize(
    ("rows", "asked", "because"),
    [
        (FEWEST_ROWS - 1, NONE, "cannot be estimated from 49 rows: at least 50 are needed"),
        (100, Resampling(bootstrap=-1), "bootstrap must be a whole number from 0 to 10,000; got -1"),
        (100, Resampling(bootstrap=2.5), "bootstrap must be a whole number"),
        (100, Resampling(random_state=-1), "random_state must be"),
    ],
)
def test_what_is_refused(rows, asked, because):
    with pytest.raises(InputError, match=because):
        estimate_priors(ts.Logits(drawn(rows, 3, [0.2, 0.3, 0.5], 0)), 1.0, np.array([9, 9, 9]), asked)


def test_masked_classes_and_extreme_rows_do_no_harm():
    rows = drawn(200, 3, [0.2, 0.3, 0.5], 0)
    rows[:20, 1] = -np.inf
    rows[20:40] *= 1e6
    with pytest.warns(CoverageWarning, match="to classes without conformal rows, so nothing supports it: 1"):
        found = estimate_priors(ts.Logits(rows), 1.0, np.array([9, 0, 9]), Resampling(5))
    assert np.isfinite(found.target).all()
    assert found.target.sum() == pytest.approx(1)


PROBS = np.log([[0.5, 0.5], [0.8, 0.2], [0.1, 0.9]])


def added(rows, ratio, *, temperature=1.0, keys=None, cuts=(), first=0):
    """The sum over rows that come in blocks, (C, guesses)."""
    sums = _no_rows(ratio.shape)
    for place in np.split(np.arange(len(rows)), cuts):
        if len(place):
            numbers = range(first + place[0], first + place[-1] + 1)
            _add_rows(rows[place], sums, numbers, temperature, ratio, keys)
    return sums[0]


def test_responsibilities_by_hand():
    # shares move from (1/2, 1/2) to (1/4, 3/4): ratios 1/2 and 3/2
    first = [0.25 / 1.0, 0.4 / 0.7, 0.05 / 1.4]
    found = added(PROBS, np.array([[0.5], [1.5]]))[:, 0] * UNIT
    assert found == pytest.approx([sum(first), 3 - sum(first)], abs=1e-9)


def test_responsibilities_are_at_the_temperature():
    probs = np.exp(PROBS / 2) / np.exp(PROBS / 2).sum(axis=1, keepdims=True)
    found = added(PROBS, np.ones((2, 1)), temperature=2.0)[:, 0] * UNIT
    assert found == pytest.approx(probs.sum(axis=0), abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_blocks_change_no_bit(seed):
    rng = np.random.default_rng(seed)
    rows, ratio, keys = rng.normal(size=(9000, 7)) * 5, rng.gamma(1.0, size=(7, 5)), trial_keys(seed, range(5))
    whole = added(rows, ratio, temperature=1.3, keys=keys)
    for cuts in ([1], [4096], sorted(rng.integers(0, 9000, size=8))):
        assert np.array_equal(added(rows, ratio, temperature=1.3, keys=keys, cuts=cuts), whole)


def test_a_row_that_no_class_explains_adds_nothing():
    found = added(np.array([[0.0, -np.inf], [0.0, 0.0]]), np.array([[0.0], [1.0]]))
    assert (found[:, 0] * UNIT).tolist() == [0.0, 1.0]


def test_bootstrap_counts_are_poisson_numbers():
    keys, ratio = trial_keys(0, range(2000)), np.ones((2, 2000))
    counts = np.array([added(PROBS[:1], ratio, keys=keys, first=i).sum(axis=0) for i in range(20)]) * UNIT
    whole = np.rint(counts)
    assert np.abs(counts - whole).max() < 1e-9
    seen = np.bincount(whole.astype(int).ravel(), minlength=7)
    expected = poisson(1).pmf(np.arange(6)) * whole.size
    observed = np.append(seen[:6], seen[6:].sum())
    assert chisquare(observed, np.append(expected, whole.size - expected.sum())).pvalue > 1e-4
