"""Thresholds and sets: agreement with exact arithmetic, invariances, Mondrian and clustered thresholds, bad input."""

import math
import warnings
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import oracle
import thermoset
from on_arrays import label_scores
from thermoset import CoverageWarning, InputError
from thermoset.conformal import ConformalClassifier, fitted_at, scores
from thermoset.levels import conformal_rank
from thermoset.uniforms import Randomness
from tiers import examples

READY = [name for name, score in thermoset.SCORES.items() if not score.learns]  # PAS has its own: test_pas.py
METHODS = pytest.mark.parametrize("method", READY)
TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
ALPHAS = ("0.5", "0.3", "0.18", "0.1", "0.05")


def grid_rows(n, n_classes, seed, spread=10_000):
    """Logits on a 2^-10 grid, no two of a row equal: shifts by grid numbers are exact."""
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(2 * spread, size=n_classes, replace=False) - spread for _ in range(n)]) * 2.0**-10


def labelled(n, n_classes, seed, **options):
    """Grid rows with labels drawn so that the top class is right about three times in four."""
    logits = grid_rows(n, n_classes, seed, **options)
    rng = np.random.default_rng([seed, 1])
    drawn = rng.integers(0, n_classes, size=n)
    return logits, np.where(rng.random(n) < 0.7, logits.argmax(axis=1), drawn)


def quiet_fit(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        return model.fit(*args, **kwargs)


# ---------------------------------------------------------------------------------------------------------------------
# Agreement with the oracle


def compare(method, logits, labels, new, alpha, temperature, u, new_u):
    """Library against oracle on one problem: how many sets differ within the rounding bound; fails beyond it."""
    model = ConformalClassifier(method, alpha=alpha, temperature=temperature, randomized=u is not None)
    sets = quiet_fit(model, logits, labels, u=u).predict_set(new, u=new_u)
    rows, new_rows = logits.astype(float).tolist(), new.astype(float).tolist()
    bound = oracle.rounding_bound(logits.shape[1], oracle.widest_exponent(rows + new_rows, temperature))
    excused = 0
    with mp.workdps(oracle.digits(rows + new_rows, temperature)):
        listed = (None if one is None else one.tolist() for one in (u, new_u))
        expected, q, exact = oracle.classify(
            method, rows, labels.tolist(), new_rows, oracle.fraction(alpha), temperature, *listed
        )
        if q.offset == math.inf:
            assert model.threshold_ == math.inf
        else:
            assert abs(model.threshold_ - q.value) <= bound * max(1, q.value)
        for found, wanted, row in zip(sets.tolist(), expected, exact, strict=True):
            differ = [label for label in range(len(row)) if found[label] != wanted[label]]
            assert all(oracle.within_rounding(row[label], q, bound) for label in differ), (found, wanted)
            excused += bool(differ)
    return excused


def seeded_problem(seed):
    rng = np.random.default_rng([2, seed])
    n_classes, n, m = int(rng.integers(2, 9)), int(rng.integers(5, 41)), 10
    temperature = TEMPERATURES[seed % len(TEMPERATURES)]
    spread = float(rng.choice([1.0, 10.0, 60.0], p=[0.3, 0.5, 0.2]))
    logits = rng.uniform(-spread / 2, spread / 2, size=(n + m, n_classes))
    kind = rng.integers(0, 5)
    if kind == 0:
        logits = np.round(logits)  # many ties
    if kind == 1:
        logits = logits.astype(np.float32)
    if kind == 2:
        logits[rng.random(logits.shape) < 0.2] = -np.inf
        logits[np.isneginf(logits).all(axis=1), 0] = 0.0
    labels = logits.argmax(axis=1)
    for i in np.flatnonzero(rng.random(n + m) < 0.4):
        labels[i] = rng.choice(np.flatnonzero(np.isfinite(logits[i])))
    logits[-2:] = logits[:2]  # rows of the calibration set among the new ones: exact ties with the threshold
    u = rng.random(n + m)
    u[-2:] = u[:2]
    return logits, labels, u, n, temperature, str(rng.choice(ALPHAS))


@pytest.mark.slow
def test_sets_are_the_oracles_sets():
    """405 seeded problems, two methods each, one randomised and one not: excused sets stay under 1%.

    They are rows of whole numbers at low temperatures, where log-odds of different rows agree to twenty digits and
    more. Where logits are not tied like that, there is nothing to excuse.
    """
    problems, sets, excused, untied = 405, 0, 0, 0
    names = READY
    for seed in range(problems):
        logits, labels, u, n, temperature, alpha = seeded_problem(seed)
        for turn, randomized in ((0, True), (1 + seed // len(names), False)):
            method = names[(seed + turn) % len(names)]
            given_u = (u[:n], u[n:]) if randomized else (None, None)
            found = compare(method, logits[:n], labels[:n], logits[n:], alpha, temperature, *given_u)
            excused += found
            # Margins of one row's unlikely labels, 1 - (r + p), differ by less than floats tell where p is far below r:
            # such a label ties with the threshold if its own row is the threshold's.
            untied += 0 if np.all(logits == np.round(logits)) or method == "margin" else found
            sets += len(logits) - n
    assert sets == problems * 2 * 10
    assert excused < 0.01 * sets
    assert untied == 0


def _problems():
    number = st.one_of(st.floats(-30, 30), st.integers(-3, 3).map(float), st.floats(-1e-3, 1e-3))

    def of(n_classes):
        row = st.lists(number, min_size=n_classes, max_size=n_classes)
        label = st.integers(0, n_classes - 1)
        u = st.floats(2.0**-53, 1 - 2.0**-53)
        return st.lists(st.tuples(row, label, u), min_size=6, max_size=14)

    return st.integers(2, 8).flatmap(of)


@pytest.mark.slow
@settings(max_examples=examples(400))
@given(
    rows=_problems(),
    temperature=st.sampled_from(TEMPERATURES),
    alpha=st.sampled_from(ALPHAS),
    method=st.sampled_from([name for name in oracle.METHODS if name in READY]),
    randomized=st.booleans(),
)
def test_no_set_differs_beyond_the_rounding_bound(rows, temperature, alpha, method, randomized):
    logits, labels, u = (np.array(part) for part in zip(*rows, strict=True))
    given_u = (u[:5], u[5:]) if randomized else (None, None)
    compare(method, logits[:5], labels[:5], logits[5:], alpha, temperature, *given_u)


def test_the_comparison_can_fail():
    """A test of the test: sets of a naive float64 softmax at T = 0.01 are found out."""
    logits, labels = labelled(40, 4, seed=3, spread=30_000)
    probs = np.exp((logits - logits.max(axis=1, keepdims=True)) / 0.01)
    probs /= probs.sum(axis=1, keepdims=True)
    naive = 1 - probs
    q = np.sort(naive[np.arange(30), labels[:30]])[conformal_rank(30, "0.1") - 1]
    with mp.workdps(oracle.digits(logits.tolist(), 0.01)):
        expected, _, _ = oracle.classify(
            "lac", logits[:30].tolist(), labels[:30].tolist(), logits[30:].tolist(), Fraction(1, 10), 0.01
        )
    assert (naive[30:] <= q).tolist() != expected


# ---------------------------------------------------------------------------------------------------------------------
# Identities and invariances


@METHODS
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_hits_on_the_calibration_rows_are_k(method, temperature):
    """The label's score and the set agree to the last bit, so exactly k calibration rows hold their label."""
    logits, labels = labelled(203, 12, seed=4)
    for alpha in (0.5, 0.18, 0.1, 0.01):
        model = ConformalClassifier(method, alpha=alpha, temperature=temperature).fit(logits, labels)
        hits = model.predict_set(logits)[np.arange(203), labels].sum()
        assert hits == conformal_rank(203, alpha)


@METHODS
@pytest.mark.parametrize("temperature", [0.01, 1.0, 100.0])
def test_hits_without_randomisation_are_at_least_k(method, temperature):
    logits, labels = labelled(203, 12, seed=5)
    model = ConformalClassifier(method, temperature=temperature, randomized=False).fit(logits, labels)
    hits = model.predict_set(logits)[np.arange(203), labels].sum()
    assert hits >= conformal_rank(203, 0.1)
    if method in ("lac", "saps"):  # no ties: the other two score 1 (plus a penalty) at the last rank of every row
        assert hits == conformal_rank(203, 0.1)


@METHODS
@pytest.mark.parametrize("grouping", [None, "class"])
@pytest.mark.parametrize("allow_empty", [True, False])
def test_several_levels_are_nested_and_each_is_its_own_fit(method, grouping, allow_empty):
    logits, labels = labelled(300, 4, seed=6)
    new = grid_rows(60, 4, seed=7)
    options = {"grouping": grouping, "allow_empty": allow_empty, "temperature": 0.4}
    alphas = [0.05, "0.1", 0.18, 0.3, Fraction(1, 2), 0.9]
    model = ConformalClassifier(method, alpha=0.2, **options).fit(logits, labels)
    sets = model.predict_sets(new, alphas)
    assert sets.shape == (6, 60, 4)
    assert sets.dtype == np.bool_
    for wide, narrow in pairwise(sets):
        assert np.all(wide | ~narrow)
    for alpha, found in zip(alphas, sets, strict=True):
        refit = ConformalClassifier(method, alpha=alpha, **options).fit(logits, labels)
        np.testing.assert_array_equal(refit.predict_set(new), found)
        np.testing.assert_array_equal(refit.set_sizes(new), found.sum(axis=1))
    np.testing.assert_array_equal(model.predict_sets(new, 0.2)[0], model.predict_set(new))


@METHODS
@pytest.mark.parametrize("randomized", [True, False])
@pytest.mark.parametrize("grouping", [None, "class"])
def test_shifts_and_orders_change_nothing(method, randomized, grouping):
    logits, labels = labelled(200, 6, seed=8)
    new = grid_rows(50, 6, seed=9)
    rng = np.random.default_rng(10)

    def fitted(z, y):
        options = {"alpha": 0.2, "temperature": 0.7, "randomized": randomized, "grouping": grouping}
        return ConformalClassifier(method, **options).fit(z, y)

    expected = fitted(logits, labels).predict_set(new)
    # a constant added to each row
    shifted = fitted(logits + rng.integers(-5000, 5000, size=(200, 1)) * 2.0**-10, labels)
    np.testing.assert_array_equal(
        shifted.predict_set(new + rng.integers(-5000, 5000, size=(50, 1)) * 2.0**-10), expected
    )
    # classes in another order
    order = rng.permutation(6)
    permuted = fitted(logits[:, order], np.argsort(order)[labels])
    np.testing.assert_array_equal(permuted.predict_set(new[:, order]), expected[:, order])
    # rows in another order, alone, and in blocks
    rows = rng.permutation(200)
    again = fitted(logits[rows], labels[rows])
    turn = rng.permutation(50)
    np.testing.assert_array_equal(again.predict_set(new[turn]), expected[turn])
    for i in range(10):
        np.testing.assert_array_equal(again.predict_set(new[i : i + 1])[0], expected[i])


@METHODS
def test_a_shift_moves_the_threshold_by_no_bit(method):
    logits, labels = labelled(100, 5, seed=11)
    one = ConformalClassifier(method, temperature=0.05).fit(logits, labels).thresholds_
    two = ConformalClassifier(method, temperature=0.05).fit(logits + 3.5, labels).thresholds_
    assert one.tobytes() == two.tobytes()


@METHODS
@pytest.mark.parametrize("grouping", [None, "class"])
def test_float32_and_the_same_values_in_float64(method, grouping):
    rng = np.random.default_rng(12)
    logits = rng.normal(scale=4, size=(300, 5)).astype(np.float32)
    labels = np.where(rng.random(300) < 0.6, logits.argmax(axis=1), rng.integers(0, 5, 300))
    for temperature in (0.01, 1.0, 30.0):
        model = ConformalClassifier(method, temperature=temperature, grouping=grouping)
        narrow = clone(model).fit(logits[:200], labels[:200]).predict_set(logits[200:])
        wide = clone(model).fit(logits[:200].astype(float), labels[:200]).predict_set(logits[200:].astype(float))
        np.testing.assert_array_equal(narrow, wide)


@METHODS
def test_threads_and_blocks_do_not_change_the_answer(method, monkeypatch):
    logits, labels = labelled(400, 6, seed=13)

    def answer(grouping):
        model = ConformalClassifier(method, temperature=0.1, grouping=grouping).fit(logits, labels)
        return (model.thresholds_.tobytes(), model.predict_set(logits).tobytes())

    for kind in (None, "class"):
        monkeypatch.undo()
        expected = answer(kind)
        for threads, block in (("1", 48), ("2", 48 * 7), ("5", 48 * 101), ("2", 2**30)):
            monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
            monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", block)
            assert answer(kind) == expected


@pytest.mark.parametrize("method", ["aps", "raps"])
@pytest.mark.parametrize("randomized", [True, False])
def test_thresholds_do_not_grow_with_temperature(method, randomized):
    """Corollary 4.2, in the exact form of the threshold: where values round to 1, the tie-break still falls."""
    logits, labels = labelled(150, 20, seed=14)
    found = []
    for temperature in (0.01, 0.03, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 20.0, 100.0):
        model = ConformalClassifier(method, alpha=0.3, temperature=temperature, randomized=randomized).fit(
            logits, labels
        )
        found.append(model.thresholds_[0, 0])
        assert model.threshold_ == model.thresholds_[0, 0].real
    assert all(later < earlier for earlier, later in pairwise(found))


@METHODS
def test_inputs_are_never_modified(method):
    logits, labels = labelled(100, 5, seed=15)
    u = np.random.default_rng(16).random(100)
    before = logits.tobytes(), labels.tobytes(), u.tobytes()
    for kind in (None, "class", "cluster"):
        model = quiet_fit(ConformalClassifier(method, grouping=kind, allow_empty=False), logits, labels, u=u)
        model.predict_set(logits, u=u)
        model.set_sizes(logits)
        model.predict_sets(logits, [0.3, 0.4])
        scores(method, logits, u=u)
    assert (logits.tobytes(), labels.tobytes(), u.tobytes()) == before
    assert logits.flags.writeable
    assert labels.flags.writeable


@METHODS
def test_a_given_u_is_copied(method):
    logits, labels = labelled(50, 4, seed=17)
    u = np.full(50, 0.5)
    model = ConformalClassifier(method).fit(logits, labels, u=u)
    expected = model.predict_set(logits, u=u)
    u[:] = 0.0
    np.testing.assert_array_equal(model.predict_set(logits, u=np.full(50, 0.5)), expected)


@pytest.mark.parametrize("grouping", [None, "class", "cluster"])
@pytest.mark.parametrize("randomized", [True, False])
def test_fitted_at_several_temperatures_is_fit_at_each(grouping, randomized):
    logits, labels = labelled(400, 5, seed=41)
    new, _ = labelled(60, 5, seed=42)
    model = ConformalClassifier("raps", 0.1, randomized=randomized, grouping=grouping, random_state=3)
    temperatures = (0.4, 1.0, 2.5)
    for t, one in zip(temperatures, fitted_at(model, temperatures, logits, labels), strict=True):
        alone = clone(model).set_params(temperature=t).fit(logits, labels)
        assert one.get_params() == alone.get_params()
        assert one.thresholds_.tobytes() == alone.thresholds_.tobytes()
        assert np.array_equal(one.predict_set(new), alone.predict_set(new))


def test_the_seed_decides_and_nothing_else():
    logits, labels = labelled(300, 10, seed=18)

    def sets(seed):
        model = ConformalClassifier("aps", alpha=0.3, random_state=seed)
        return model.fit(logits[:200], labels[:200]).predict_set(logits[200:])

    np.testing.assert_array_equal(sets(0), sets(0))
    assert not np.array_equal(sets(0), sets(1))
    np.testing.assert_array_equal(sets(np.int64(1)), sets(1))
    assert sets(2**64 - 1).shape == (100, 10)


def test_randomness_of_the_seed_is_a_u_like_any_other():
    """Sets with a seed are the sets with that seed's u given; the u is recovered from the score of a top label, u p."""
    logits, labels = labelled(60, 2, seed=19)
    top = logits.argmax(axis=1)
    u = label_scores(logits, top, thermoset.APS(), 1.0, Randomness(seed=5)).real / (
        label_scores(logits, top, thermoset.APS(), 1.0, Randomness()).real
    )
    seeded = ConformalClassifier("aps", alpha=0.3, random_state=5).fit(logits, labels)
    given_u = ConformalClassifier("aps", alpha=0.3).fit(logits, labels, u=u)
    assert given_u.threshold_ == pytest.approx(seeded.threshold_, abs=1e-15)


@METHODS
@pytest.mark.parametrize("grouping", [None, "class"])
@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.6])
def test_without_empty_sets_top_labels_score_below_everything(method, grouping, alpha):
    """The definition by hand: label scores of top labels are -inf, the threshold is an order statistic of these."""
    logits, labels = labelled(200, 5, seed=20)
    new, _ = labelled(300, 5, seed=21)
    u, new_u = np.random.default_rng(22).random(200), np.random.default_rng(23).random(300)
    options = {"alpha": alpha, "temperature": 2.0, "grouping": grouping}
    model = ConformalClassifier(method, allow_empty=False, **options).fit(logits, labels, u=u)
    own = scores(method, logits, temperature=2.0, u=u)[np.arange(200), labels]
    own[logits.argmax(axis=1) == labels] = -np.inf
    whole = scores(method, new, temperature=2.0, u=new_u)
    top = new.argmax(axis=1)
    want = np.zeros(whole.shape, dtype=bool)
    for label in range(5):
        pool = np.sort(own if grouping is None else own[labels == label])
        q = pool[oracle.order_statistic_index(len(pool), oracle.fraction(alpha)) - 1]
        assert np.atleast_1d(model.threshold_)[0 if grouping is None else label] == pytest.approx(q)
        # the row that set the threshold is not among the new ones: no score is as close to it as rounding
        want[:, label] = (whole[:, label] < q) | (top == label)
    np.testing.assert_array_equal(model.predict_set(new, u=new_u), want)
    np.testing.assert_array_equal(model.set_sizes(new, u=new_u), want.sum(axis=1))
    if grouping is None:
        right = (logits.argmax(axis=1) == labels).sum() >= oracle.order_statistic_index(200, oracle.fraction(alpha))
        assert np.isneginf(model.threshold_) == right
        assert (want.sum(axis=1) == 1).all() == right


@pytest.mark.filterwarnings("ignore::thermoset.errors.CoverageWarning")
@settings(max_examples=examples(60))
@given(
    method=st.sampled_from(
        [*thermoset.SCORES, lambda probs, rank, u: u * probs - rank]
    ),  # the last prefers the lowest ranks
    grouping=st.sampled_from([None, "class", "cluster"]),
    alpha=st.sampled_from([0.01, 0.1, 0.5, 0.9]),
    temperature=st.sampled_from([0.01, 0.5, 1.0, 20.0]),
    randomized=st.booleans(),
    tied=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_without_empty_sets_the_top_label_is_in_every_set(method, grouping, alpha, temperature, randomized, tied, seed):
    logits, labels = labelled(80, 4, seed=seed)
    new, _ = labelled(40, 4, seed=seed + 1)
    if tied:
        logits, new = np.round(logits / 4), np.round(new / 4)
    options = {"grouping": grouping, "randomized": randomized, "random_state": seed}
    model = ConformalClassifier(method, alpha, temperature, allow_empty=False, **options).fit(logits, labels)
    sets = model.predict_set(new)
    for row, found in zip(new.tolist(), sets, strict=True):
        assert found[oracle.ranking(row)[0]]
    np.testing.assert_array_equal(model.set_sizes(new), sets.sum(axis=1))


@METHODS
@pytest.mark.parametrize("grouping", [None, "class"])
def test_without_empty_sets_masked_labels_stay_out(method, grouping):
    logits, labels = labelled(200, 5, seed=25)
    masked = np.where((np.arange(5) == 4) & (np.arange(200) % 2 == 0)[:, None], -np.inf, logits)
    labels[(labels == 4) & np.isneginf(masked[:, 4])] = 0
    for alpha in (0.1, 0.3):
        model = ConformalClassifier(method, alpha, grouping=grouping, allow_empty=False).fit(masked, labels)
        assert not np.isposinf(model.threshold_).any()
        assert not model.predict_set(masked)[np.isneginf(masked)].any()


@METHODS
@pytest.mark.parametrize("grouping", [None, "class"])
def test_masked_classes_enter_only_at_an_infinite_threshold(method, grouping):
    logits, labels = labelled(200, 4, seed=22)
    new = grid_rows(50, 4, seed=23)
    new[:, 2] = -np.inf
    model = ConformalClassifier(method, alpha=0.05, grouping=grouping).fit(logits, labels)
    assert np.all(np.isfinite(model.threshold_))
    sets = model.predict_set(new)
    assert not sets[:, 2].any()
    assert sets.any()
    with pytest.warns(CoverageWarning):
        everything = model.predict_sets(new, ["0.0001"])[0]
    assert everything.all()


@METHODS
def test_labels_on_masked_classes_make_the_threshold_infinite(method):
    logits, labels = labelled(20, 4, seed=24)
    logits[:4, 3], labels[:4] = -np.inf, 3
    # alpha = .3: k = ceil(21 * .7) = 15 of the 16 finite scores; alpha = .2: k = ceil(16.8) = 17, an infinite one
    model = ConformalClassifier(method, alpha=0.3).fit(logits, labels)
    assert math.isfinite(model.threshold_)
    with pytest.warns(CoverageWarning, match="masked") as caught:
        model = ConformalClassifier(method, alpha=0.2).fit(logits, labels)
    assert "needs at least" not in str(caught[0].message), "four rows would be enough"
    assert model.threshold_ == math.inf
    assert model.predict_set(logits).all()


@METHODS
def test_too_few_rows_warn_with_the_number_and_give_everything(method):
    logits, labels = labelled(8, 5, seed=25)
    with pytest.warns(CoverageWarning, match=r"alpha=0\.1 needs at least 9 rows.*got 8") as caught:
        model = ConformalClassifier(method, alpha=0.1).fit(logits, labels)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.threshold_ == math.inf
    assert model.predict_set(logits).all()
    np.testing.assert_array_equal(model.set_sizes(logits), np.full(8, 5))
    with pytest.warns(CoverageWarning, match="needs at least 9 rows"):
        sets = model.predict_sets(logits, [0.1, 0.5])
    assert sets[0].all()
    assert not sets[1].all()
    # one more row is enough
    logits, labels = labelled(9, 5, seed=25)
    assert math.isfinite(ConformalClassifier(method, alpha=0.1).fit(logits, labels).threshold_)


# ---------------------------------------------------------------------------------------------------------------------
# One threshold for each class


@METHODS
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_mondrian_thresholds_and_sets_are_the_oracles(method, temperature):
    logits, labels = labelled(120, 4, seed=26)
    new = grid_rows(40, 4, seed=27)
    rng = np.random.default_rng(28)
    u, new_u = rng.random(120), rng.random(40)
    model = ConformalClassifier(method, alpha="0.2", temperature=temperature, grouping="class")
    sets = model.fit(logits, labels, u=u).predict_set(new, u=new_u)
    bound = oracle.rounding_bound(4, oracle.widest_exponent(logits.tolist() + new.tolist(), temperature))
    with mp.workdps(oracle.digits(logits.tolist() + new.tolist(), temperature)):
        exact = [
            oracle.row_scores(method, row, oracle.weights(row, temperature), one)
            for row, one in zip(new.tolist(), new_u.tolist(), strict=True)
        ]
        for label in range(4):
            own = [
                oracle.row_scores(method, row, oracle.weights(row, temperature), one)[label]
                for row, one, y in zip(logits.tolist(), u.tolist(), labels.tolist(), strict=True)
                if y == label
            ]
            q = oracle.threshold(own, Fraction(1, 5))
            assert abs(model.threshold_[label] - q.value) <= bound * max(1, q.value)
            for i, row in enumerate(exact):
                wanted = row[label].order <= q.order
                assert sets[i, label] == wanted or oracle.within_rounding(row[label], q, bound)


@METHODS
@pytest.mark.parametrize("temperature", [0.01, 1.0])
def test_mondrian_hits_are_k_in_each_class(method, temperature):
    logits, labels = labelled(400, 5, seed=29)
    model = ConformalClassifier(method, temperature=temperature, grouping="class").fit(logits, labels)
    hits = model.predict_set(logits)[np.arange(400), labels]
    for label in range(5):
        rows = labels == label
        assert hits[rows].sum() == conformal_rank(int(rows.sum()), 0.1)
        alone = ConformalClassifier(method, temperature=temperature).fit(logits[rows], labels[rows])
        assert alone.threshold_ == model.threshold_[label]
        assert alone.thresholds_[0, 0] == model.thresholds_[0, label]


def test_mondrian_names_the_classes_with_too_few_rows():
    logits, _ = labelled(60, 4, seed=30)
    labels = np.repeat([0, 2, 3], [40, 12, 8])  # none of class 1, eight of class 3; alpha = .1 needs nine
    named = thermoset.Logits(logits, labels, classes=["ant", "bee", "cow", "dog"])
    with pytest.warns(CoverageWarning, match="needs at least 9 rows") as caught:
        model = ConformalClassifier("aps", grouping="class").fit(named)
    message = str(caught[0].message)
    assert len(caught) == 1
    assert "'bee' (0 rows)" in message
    assert "'dog' (8 rows)" in message
    assert "ant" not in message
    assert "cow" not in message
    assert caught[0].filename == __file__
    assert np.isposinf(model.threshold_).tolist() == [False, True, False, True]
    sets = model.predict_set(logits)
    assert sets[:, [1, 3]].all()
    assert not sets[:, [0, 2]].all()


def test_a_warning_names_some_of_many_classes():
    logits, labels = labelled(60, 40, seed=31)
    with pytest.warns(CoverageWarning, match=r"40 of 40 classes: .* and \d+ more"):
        ConformalClassifier("lac", alpha=0.01, grouping="class").fit(logits, labels)


# ---------------------------------------------------------------------------------------------------------------------
# Clusters of classes


N_COMMON, ALPHA_CLUSTERS = 80, 0.05


def many_classes(seed=32, rare=10):
    """Eighty classes of 60 rows, half of them hard, and one class with fewer rows than alpha = .05 needs (19)."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.repeat(np.arange(N_COMMON), 60), np.full(rare, N_COMMON)])
    logits = rng.normal(size=(len(labels), N_COMMON + (rare > 0)))
    logits[np.arange(len(labels)), labels] += np.where(labels < N_COMMON // 2, 6.0, 1.0)
    return logits, labels


def clustered(method="aps", alpha=ALPHA_CLUSTERS, **options):
    return ConformalClassifier(method, alpha=alpha, grouping="cluster", **options)


def _threshold_rows(model, logits, labels, method, u):
    """Which rows set thresholds, recognised by their scores (no two rows score alike, given u that all differ)."""
    own = label_scores(logits, labels, thermoset.SCORES[method], 1.0, Randomness(given=u))
    position = {pair: i for i, pair in enumerate(own.tolist())}
    assert len(position) == len(labels)
    return np.array([position[pair] for pair in model.calibration_.scores.tolist()])


@METHODS
def test_clusters_depend_on_the_seed_alone(method):
    logits, labels = many_classes()
    one, two = clustered(method).fit(logits, labels), clustered(method).fit(logits, labels)
    assert one.thresholds_.tobytes() == two.thresholds_.tobytes()
    np.testing.assert_array_equal(one.calibration_.group_of_class, two.calibration_.group_of_class)
    other = clustered(method, random_state=1).fit(logits, labels)
    assert not np.array_equal(other.calibration_.labels, one.calibration_.labels)


@METHODS
def test_cluster_thresholds_are_order_statistics(method):
    logits, labels = many_classes()
    u = np.random.default_rng(0).random(len(labels))
    model = clustered(method).fit(logits, labels, u=u)
    groups = model.calibration_.group_of_class
    rows = _threshold_rows(model, logits, labels, method, u)
    assert len(rows) < len(labels)
    np.testing.assert_array_equal(labels[rows], model.calibration_.labels)
    assert groups[N_COMMON] == -1
    assert len(np.unique(groups[groups >= 0])) > 1
    assert len(np.unique(groups[groups >= 0])) < N_COMMON
    sets = model.predict_set(logits, u=u)
    hits = sets[np.arange(len(labels)), labels]
    for group in np.unique(groups[groups >= 0]):
        pool = rows[groups[labels[rows]] == group]
        assert hits[pool].sum() == conformal_rank(len(pool), ALPHA_CLUSTERS)
        assert len(np.unique(model.threshold_[groups == group])) == 1
    # the null cluster pools every row left
    everyone = np.sort(model.calibration_.scores)
    assert model.thresholds_[0, N_COMMON] == everyone[conformal_rank(len(rows), ALPHA_CLUSTERS) - 1]


def test_rows_that_make_clusters_set_no_threshold():
    logits, labels = many_classes()
    model = clustered("lac").fit(logits, labels)
    kept = _threshold_rows(model, logits, labels, "lac", np.ones(len(labels)))
    making = np.setdiff1d(np.arange(len(labels)), kept)
    assert len(making)
    # Replace each of those rows by one that scores far worse, in the same order: clusters are made of ranks.
    own = label_scores(logits[making], labels[making], thermoset.LAC(), 1.0, Randomness())
    worse = np.zeros((len(making), N_COMMON + 1))
    worse[np.arange(len(making)), labels[making]] = -10.0 - np.argsort(np.argsort(own.imag)) * 0.125
    changed = logits.copy()
    changed[making] = worse
    assert label_scores(worse, labels[making], thermoset.LAC(), 1.0, Randomness()).real.min() > 0.999
    again = clustered("lac").fit(changed, labels)
    np.testing.assert_array_equal(again.calibration_.group_of_class, model.calibration_.group_of_class)
    assert again.thresholds_.tobytes() == model.thresholds_.tobytes()


def test_clusters_bring_alike_classes_together():
    logits, labels = many_classes(rare=0)
    groups = clustered("lac").fit(logits, labels).calibration_.group_of_class
    assert groups.min() >= 0
    assert set(groups[: N_COMMON // 2]).isdisjoint(groups[N_COMMON // 2 :])  # easy and hard classes share no cluster


def test_clusters_of_hardly_any_rows_fall_back_to_one():
    logits, labels = labelled(30, 12, seed=33)
    model = clustered(alpha=0.2).fit(logits, labels)
    assert set(model.calibration_.group_of_class) == {-1}
    assert len(np.unique(model.threshold_)) == 1
    with pytest.warns(CoverageWarning, match="needs at least 9 rows"):
        model = ConformalClassifier("aps", alpha=0.1, grouping="cluster").fit(logits[:6], labels[:6])
    assert model.predict_set(logits).all()


# ---------------------------------------------------------------------------------------------------------------------
# The estimator


def test_parameters_clone_and_come_back():
    model = ConformalClassifier(thermoset.RAPS(penalty=0.2), alpha="0.05", temperature=2.0, random_state=3)
    names = {"method", "alpha", "temperature", "randomized", "allow_empty", "grouping", "random_state", "fallback"}
    assert set(model.get_params()) == names
    assert clone(model).get_params() == model.get_params()
    assert clone(model) is not model
    assert model.set_params(alpha=0.2, method="lac") is model
    assert (model.alpha, model.method) == (0.2, "lac")
    logits, labels = labelled(50, 4, seed=34)
    assert model.fit(logits, labels) is model
    assert not hasattr(clone(model), "threshold_")


def test_a_score_object_and_its_threshold_by_hand():
    # p of the label .5, .6, .7, .8 in four rows: LAC scores .5, .4, .3, .2; alpha = .4: k = ceil(5 * .6) = 3: .4
    own = np.array([0.5, 0.6, 0.7, 0.8])
    logits = np.log(np.column_stack([own, 1 - own]))
    model = ConformalClassifier("lac", alpha=0.4).fit(logits, [0, 0, 0, 0])
    assert model.threshold_ == pytest.approx(0.4, abs=1e-15)
    assert isinstance(model.threshold_, float)
    # 1 - .62 and 1 - .38 against .4: the first class alone; .5 and .5: none
    sets = model.predict_set(np.log([[0.62, 0.38], [0.5, 0.5]]))
    assert sets.tolist() == [[True, False], [False, False]]
    assert sets.dtype == np.bool_
    sizes = model.set_sizes(np.log([[0.62, 0.38], [0.5, 0.5]]))
    assert sizes.tolist() == [1, 0]
    assert np.issubdtype(sizes.dtype, np.integer)


GOOD = labelled(30, 3, seed=35)


BAD = {
    "alpha": [0, 1, -0.1, 1.2, math.nan, "a", None],
    "temperature": [0, -1.0, math.nan, math.inf, "1", None, [1.0]],
    "method": ["apps"],
    "grouping": ["classes", True, 1, "Mondrian"],
    "random_state": [None, -1, 2**64, 1.0, "0", True],
    "allow_empty": ["patched"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_bad_parameters_are_refused(name, value):
    model = ConformalClassifier(**{name: value})
    with pytest.raises(InputError, match=f"^{name} must be"):
        model.fit(*GOOD)
    with pytest.raises(NotFittedError):
        model.predict_set(GOOD[0])


@pytest.mark.parametrize("alphas", [[], [0.1, 1.2], [0.1, math.nan], ["a"]])
def test_bad_levels_are_refused(alphas):
    with pytest.raises(InputError, match="alpha"):
        ConformalClassifier().fit(*GOOD).predict_sets(GOOD[0], alphas)


@pytest.mark.parametrize(
    "u", [np.full(29, 0.5), np.full((30, 1), 0.5), 0.5, np.full(30, 1.01), np.full(30, -0.01), np.full(30, np.nan), "u"]
)
def test_bad_u(u):
    with pytest.raises(InputError, match="u must"):
        ConformalClassifier().fit(*GOOD, u=u)
    model = ConformalClassifier().fit(*GOOD)
    for call in (model.predict_set, model.set_sizes):
        with pytest.raises(InputError, match="u must"):
            call(GOOD[0], u=u)


def test_u_may_touch_its_ends():
    model = ConformalClassifier("aps").fit(*GOOD, u=np.linspace(0, 1, 30))
    assert model.predict_set(GOOD[0], u=np.zeros(30)).any(axis=1).all()  # u = 0: the top label scores 0


def test_not_fitted():
    model = ConformalClassifier()
    for call in (model.predict_set, model.set_sizes, lambda z: model.predict_sets(z, [0.1])):
        with pytest.raises(NotFittedError):
            call(GOOD[0])


@pytest.mark.parametrize("labels", [None, GOOD[1][:-1], np.full(30, 3), np.full(30, -1), np.full(30, 0.5)])
def test_bad_labels(labels):
    with pytest.raises(InputError, match="label"):
        ConformalClassifier().fit(GOOD[0], labels)


def test_another_number_of_classes():
    model = ConformalClassifier().fit(*GOOD)
    for call in (model.predict_set, model.set_sizes, lambda z: model.predict_sets(z, [0.1])):
        with pytest.raises(InputError, match=r"4 .*3 "):
            call(np.zeros((2, 4)))


def test_other_class_names():
    model = ConformalClassifier().fit(thermoset.Logits(*GOOD, classes=["a", "b", "c"]))
    with pytest.raises(InputError, match="class names must be those"):
        model.predict_set(thermoset.Logits(GOOD[0], classes=["a", "b", "d"]))
    expected = model.predict_set(GOOD[0])  # no names to compare
    other_order = thermoset.Logits(GOOD[0][:, [0, 2, 1]], classes=["a", "c", "b"])
    np.testing.assert_array_equal(model.predict_set(other_order), expected)
    np.testing.assert_array_equal(model.predict_set(thermoset.Logits(GOOD[0], classes=["a", "b", "c"])), expected)


def test_nan_is_named():
    bad = GOOD[0].copy()
    bad[4, 2] = np.nan
    with pytest.raises(InputError, match=r"logits\[4, 2\]"):
        ConformalClassifier().fit(bad, GOOD[1])
    with pytest.raises(InputError, match=r"logits\[4, 2\]"):
        ConformalClassifier().fit(*GOOD).predict_set(bad)


def test_too_few_rows_are_named_also_where_labels_are_masked():
    logits, labels = labelled(5, 4, seed=30)
    logits[0, 3], labels[0] = -np.inf, 3
    with pytest.warns(CoverageWarning, match="needs at least 9 rows for a finite threshold; got 5"):
        ConformalClassifier("aps", alpha=0.1).fit(logits, labels)
