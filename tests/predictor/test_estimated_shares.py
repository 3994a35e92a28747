"""Class shares by EM: against plain NumPy, by the conditions of a maximum, by their errors, and where they do harm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, poisson

import thermoset as ts
from conftest import real_file
from thermoset.calibration import probabilities
from thermoset.errors import CoverageWarning, InputError
from thermoset.predictor import class_shares
from thermoset.predictor.class_shares import (
    FEWEST_ROWS,
    UNIT,
    ShareReference,
    _add_rows,
    _no_numbers,
    estimate_priors,
    learn_shares,
)
from thermoset.predictor.label_shift import LabelShift, shares_of
from thermoset.uniforms import trial_keys
from tiers import examples

NONE = {"bootstrap": 0}


def known(mean, spread=None, **losses):
    """A reference with these mean probabilities of the classes."""
    spread = np.zeros(len(mean)) if spread is None else spread
    losses = {"coverage_loss": 0.0, "accuracy_loss": 0.0, "bias": 0.0} | losses
    return ShareReference(mean=np.float32(mean).tobytes(), spread=np.float32(spread).tobytes(), **losses)


def even(n_classes):
    return known(np.full(n_classes, 1 / n_classes))


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
    counts, reference = rng.integers(5, 200, size=n_classes), known(rng.dirichlet(np.full(n_classes, 9.0)))
    found = estimate_priors(ts.Logits(rows), 1.2, counts, reference, **NONE)
    shares = plain_em(probabilities(rows, 1.2), reference.means()) / reference.means() * shares_of(counts)
    assert found.converged
    assert found.target == pytest.approx(shares / shares.sum(), abs=2e-6)
    assert found.target.sum() == pytest.approx(1)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.floats(0.3, 3.0))
def test_nothing_is_more_likely(seed, n_classes, signal):
    """The conditions of a maximum: the mean of (p_y / a_y) / sum_j (b_j / a_j) p_j is 1, or at most 1 where b_y = 0."""
    rng = np.random.default_rng(seed)
    rows = drawn(300, n_classes, rng.dirichlet(np.ones(n_classes)), seed, signal)
    source = shares_of(np.full(n_classes, 50))
    found = estimate_priors(ts.Logits(rows), 1.0, np.full(n_classes, 50), even(n_classes), **NONE)
    probs = probabilities(rows) / source
    slope = (probs / (probs @ found.target)[:, None]).mean(axis=0)
    large = found.target > 1e-3
    assert slope[large] == pytest.approx(1, abs=1e-4)
    assert (slope < 1 + 1e-4).all()


def distorted(kind, n_rows=6000, n_classes=10, seed=0):
    """Rows with a known posterior, and logits in which it is wrong for some classes."""
    rng = np.random.default_rng(seed)
    signal, labels = np.linspace(3.5, 1.5, n_classes), rng.integers(n_classes, size=n_rows)
    evidence = rng.normal(size=(n_rows, n_classes)) + signal * np.eye(n_classes)[labels]
    logits = np.log(probabilities(signal * evidence - signal**2 / 2))
    if kind == "biases":
        logits = logits + rng.normal(size=n_classes)
    if kind == "slopes":
        logits = logits * np.exp(0.3 * rng.normal(size=n_classes))
    if kind == "mixed up":
        mixed = 0.5 * np.eye(n_classes) + 0.5 * rng.dirichlet(np.full(n_classes, 0.1), size=n_classes)
        logits = np.log(np.exp(logits) @ mixed + 1e-12)
    return ts.Logits(2 * logits, labels)


def planted(data, pool, rng, target):
    """Numbers of 2,000 rows of a pool, drawn so that classes have the target shares."""
    counts = np.bincount(data.labels[pool], minlength=data.n_classes)
    weight = (target / np.maximum(counts, 1))[data.labels[pool]]
    return rng.choice(pool, size=2000, p=weight / weight.sum())


def learned(data, source):
    """T*, class counts, scores and the reference of source rows."""
    rows = data.take(source)
    temperature = float(ts.TemperatureScaler().fit(rows).temperature_)
    scores = ts.ConformalClassifier("lac", 0.1, temperature).fit(rows).calibration_.scores
    counts = np.bincount(rows.labels, minlength=data.n_classes)
    return temperature, counts, learn_shares(rows, temperature, scores, 0)


def test_means_and_spreads_of_probabilities():
    data = distorted("biases", 500)
    temperature, _, reference = learned(data, np.arange(500))
    probs = probabilities(data, temperature)
    assert reference.means() == pytest.approx(probs.mean(axis=0), rel=1e-6)
    assert reference.spreads() == pytest.approx((probs * (1 - probs)).mean(axis=0), rel=1e-6)


@pytest.mark.parametrize("kind", ["none", "biases", "slopes", "mixed up"])
def test_rows_like_the_source_have_its_shares(kind):
    """However wrong the probabilities are: b = a is the maximum for the rows that a is the mean probability of."""
    data = distorted(kind, 1000)
    temperature, counts, reference = learned(data, np.arange(1000))
    reference = known(reference.means(), reference.spreads())  # also where the estimate would be refused
    found = estimate_priors(data, temperature, counts, reference, **NONE)
    assert found.target == pytest.approx(counts / 1000, abs=1e-5)


@pytest.mark.parametrize("kind", ["none", "biases", "slopes"])
def test_biased_classes_do_no_harm(kind):
    """Random shares: sets for the estimated ones keep their promise, and probabilities gain."""
    data, rng, coverage, gain, inside = distorted(kind, 12_000), np.random.default_rng(1), [], [], []
    for draw in range(6):
        source, pool, fresh = np.split(rng.permutation(len(data)), [2000, 7000])
        temperature, counts, reference = learned(data, source)
        assert max(reference.coverage_loss, reference.accuracy_loss) < 0.01
        target = rng.dirichlet(np.ones(10))
        rows = data.take(planted(data, pool, rng, target))
        found = estimate_priors(rows, temperature, counts, reference, bootstrap=60, random_state=draw)
        inside.append((found.low <= target) & (target <= found.high))
        shift = LabelShift(
            source=tuple(found.source), target=tuple(found.target), effective_rows=1.0, smoothing=1 / 1000
        )
        model = ts.ConformalClassifier("lac", 0.1, temperature)
        own, later = (model.fit(data.take(part)).calibration_.scores for part in (source, fresh))
        labels, weight = data.labels[fresh], (target * 10)[data.labels[fresh]]
        held = later <= shift.thresholds(own, data.labels[source], 0.1)[labels]
        probs = probabilities(data.take(fresh), temperature)
        right = [(one.argmax(axis=1) == labels) @ weight for one in (probs, probs * shift.ratio)]
        coverage.append(held @ weight / weight.sum())
        gain.append((right[1] - right[0]) / weight.sum())
    assert abs(np.mean(coverage) - 0.9) < 0.015
    assert np.mean(gain) > 0.01
    assert np.mean(inside) > 0.85  # of 60 intervals; a share of 0.92 has a standard error of 0.035


def test_probabilities_that_mix_up_classes_are_refused():
    data = distorted("mixed up")
    temperature, counts, reference = learned(data, np.arange(2000))
    assert reference.accuracy_loss > 0.05
    with pytest.raises(InputError, match="wrong in some classes"):
        estimate_priors(data.take(slice(2000, 4000)), temperature, counts, reference, **NONE)
    predictor = ts.TwoTemperaturePredictor("lac", prefer="small").fit(data)
    with pytest.raises(InputError, match="wrong in some classes"):
        predictor.shifted(data.take(slice(0, 500)))
    assert predictor.shifted(priors=np.full(10, 0.1)).document_.shift is not None


@pytest.mark.parametrize("name", ["coverage_loss", "accuracy_loss"])
def test_the_limit_of_harm(name):
    known([0.5, 0.5], **{name: 0.0303}).refuse_harm(100)  # 0.03 (1 + 2/100) = 0.0306 is allowed
    with pytest.raises(InputError, match="own conformal rows"):
        known([0.5, 0.5], **{name: 0.0307}).refuse_harm(100)


def test_without_a_reference_it_is_refused():
    with pytest.raises(InputError, match="recalibrate"):
        estimate_priors(ts.Logits(np.zeros((60, 3))), 1.0, np.full(3, 9), None)


@pytest.mark.parametrize("name", ["cifar10_resnet50", "banking77_bert", "cifar100_resnet50"])
def test_intervals_hold_on_real_rows(name):
    data, rng, inside = ts.load(real_file(name)), np.random.default_rng(1), []
    for draw in range(4 if data.n_classes > 10 else 12):
        source, pool = np.split(rng.permutation(len(data)), [len(data) // 2])
        temperature, counts, reference = learned(data, source)
        target = rng.gamma(1.0, size=data.n_classes) + 0.1
        target /= target.sum()
        rows = data.take(planted(data, pool, rng, target))
        found = estimate_priors(rows, temperature, counts, reference, bootstrap=60, random_state=draw)
        inside.append((found.low <= target) & (target <= found.high))
    assert np.mean(inside) > 0.9


def test_threads_and_blocks_change_no_bit(monkeypatch, tmp_path):
    rows = drawn(30_000, 4, [0.1, 0.2, 0.3, 0.4], 0).astype(np.float32)
    counts, asked = np.array([10, 20, 30, 5]), {"bootstrap": 8, "random_state": 3}
    for part, place in enumerate(np.split(np.arange(30_000), [7001, 7002, 20_000])):
        ts.save(tmp_path / f"{part}.npz", ts.Logits(rows[place]))
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "1")
    calm = []
    one = estimate_priors(ts.Logits(rows), 1.5, counts, even(4), progress=lambda *at: calm.append(at), **asked)
    assert calm == sorted(calm)
    assert calm[-1] == (8, 8)
    monkeypatch.setenv("THERMOSET_NUM_THREADS", "3")
    for other in (ts.Logits(rows), ts.open(tmp_path)):
        found = estimate_priors(other, 1.5, counts, even(4), **asked)
        assert np.array_equal(found.target, one.target)
        assert np.array_equal(found.error, one.error)
    assert not np.array_equal(estimate_priors(ts.Logits(rows), 1.5, counts, even(4), bootstrap=8).error, one.error)


def test_a_class_that_no_row_has_is_small_and_its_error_is_not_zero():
    rows = np.repeat(1000.0 * np.eye(3)[:2], [60, 40], axis=0)
    found = estimate_priors(ts.Logits(rows), 1.0, np.array([30, 30, 30]), even(3), bootstrap=20)
    assert found.target == pytest.approx([0.6, 0.4, 0.0], abs=10 * UNIT)
    assert (found.error >= 1 / 100).all()
    assert found.low[2] == 0
    # 60 of 100 rows: the binomial error, and that of one row
    assert found.error[0] == pytest.approx(np.hypot(np.sqrt(0.24 / 100), 0.01), rel=0.5)


def test_shares_that_still_move_are_told(monkeypatch):
    monkeypatch.setattr(class_shares, "_MOST_STEPS", 1)
    rows = ts.Logits(drawn(200, 5, [0.7, 0.1, 0.1, 0.05, 0.05], 0))
    with pytest.warns(CoverageWarning, match="still changing after 2 EM steps"):
        found = estimate_priors(rows, 1.0, np.full(5, 9), even(5), **NONE)
    assert not found.converged


@pytest.mark.parametrize(
    ("rows", "asked", "because"),
    [
        (FEWEST_ROWS - 1, NONE, "cannot be estimated from 49 rows: at least 50 are needed"),
        (100, {"bootstrap": -1}, "bootstrap must be a whole number from 0 to 10,000; got -1"),
        (100, {"bootstrap": 2.5}, "bootstrap must be a whole number"),
        (100, {"random_state": -1}, "random_state must be"),
    ],
)
def test_what_is_refused(rows, asked, because):
    with pytest.raises(InputError, match=because):
        estimate_priors(ts.Logits(drawn(rows, 3, [0.2, 0.3, 0.5], 0)), 1.0, np.array([9, 9, 9]), even(3), **asked)


def test_masked_classes_and_extreme_rows_do_no_harm():
    rows = drawn(200, 3, [0.2, 0.3, 0.5], 0)
    rows[:20, 1] = -np.inf
    rows[20:40] *= 1e6
    with pytest.warns(CoverageWarning, match="to classes without conformal rows, so nothing supports it: 1"):
        found = estimate_priors(ts.Logits(rows), 1.0, np.array([9, 0, 9]), even(3), bootstrap=5)
    assert np.isfinite(found.target).all()
    assert found.target.sum() == pytest.approx(1)


PROBS = np.log([[0.5, 0.5], [0.8, 0.2], [0.1, 0.9]])


def added(rows, ratio, *, temperature=1.0, keys=None, cuts=(), first=0):
    """The sum over rows that come in blocks, (C, guesses)."""
    sums = _no_numbers(ratio.shape)
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
