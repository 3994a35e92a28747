"""p-values of a classifier: its sets at every level, uniform for true labels; and `at`, which is a fresh fit."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest
from sklearn.exceptions import NotFittedError

import thermoset as ts
from law import generated
from thermoset.conformal.groupings import GROUPINGS
from thermoset.errors import CoverageWarning, InputError
from thermoset.levels import rows_needed
from thermoset.scores import SCORES

RANKED = [None, *(name for name, one in GROUPINGS.items() if one.has_p_values)]
LEVELS = [f"0.{i:02d}" for i in range(1, 100, 2)]
LOGITS, LABELS = generated(260, 6, signal=0.5)


@pytest.fixture(autouse=True)
def _few_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        yield


def odd_rows(seed, dtype):
    """Fresh rows, some of them those of fit, some with ties and masked classes."""
    fresh = generated(30, 6, signal=0.5, seed=seed)[0]
    fresh[:8], fresh[8] = LOGITS[:8], 0.0
    fresh[9] = np.round(fresh[9] / 5)
    fresh[10, [1, 4]] = -np.inf
    return fresh.astype(dtype)


def with_groups(rows, n_groups=2):
    """Rows of two groups, or of as many as are asked for."""
    return ts.Logits(rows, groups=np.arange(len(rows)) % n_groups)


def at_levels(p):
    return np.stack([p > float(alpha) for alpha in LEVELS])


@pytest.mark.parametrize("method", SCORES)
@pytest.mark.parametrize("grouping", RANKED)
@settings(max_examples=8)
@given(
    n_rows=st.integers(1, 260),
    temperature=st.sampled_from([0.01, 0.5, 1.0, 7.0]),
    dtype=st.sampled_from([np.float16, np.float32, np.float64]),
    randomized=st.booleans(),
    allow_empty=st.booleans(),
    seed=st.integers(0, 5),
)
def test_labels_with_large_p_are_the_set_at_every_level(
    method, grouping, n_rows, temperature, dtype, randomized, allow_empty, seed
):
    assume(n_rows >= 5 or not ts.Recipe(method, grouping=grouping).learns)
    rows = LOGITS[:n_rows].astype(dtype)
    rows[0, (LABELS[0] + 1) % 6] = -np.inf
    model = ts.ConformalClassifier(method, "0.1", temperature, randomized, allow_empty, grouping, random_state=seed)
    n_groups = 2 if n_rows > 4 else 1
    model.fit(with_groups(rows, n_groups), LABELS[:n_rows])
    fresh = with_groups(odd_rows(seed, dtype), n_groups)
    p = model.predict_p(fresh)
    np.testing.assert_array_equal(at_levels(p), model.predict_sets(fresh, LEVELS))
    np.testing.assert_array_equal(p > 0.1, model.predict_set(fresh))
    other = model.at("0.37")
    np.testing.assert_array_equal(p > 0.37, other.predict_set(fresh))
    np.testing.assert_array_equal(other.predict_p(fresh), p)


@pytest.mark.parametrize("fallback", ["pooled", "strictest"])
@pytest.mark.parametrize("randomized", [True, False])
def test_rows_of_other_groups_have_their_sets_at_every_level(fallback, randomized):
    known, sites = ts.Logits(LOGITS, LABELS), np.arange(260) % 3
    model = ts.ConformalClassifier("aps", "0.1", 0.7, randomized, grouping="group", fallback=fallback)
    model.fit(known, groups=sites)
    fresh, theirs = odd_rows(4, float), np.arange(30) % 5  # groups 3 and 4 are not known
    u = np.linspace(0, 1, 30) if randomized else None
    p = model.predict_p(fresh, groups=theirs, u=u)
    np.testing.assert_array_equal(at_levels(p), model.predict_sets(fresh, LEVELS, groups=theirs, u=u))
    ids = [f"row {i}" for i in range(30)]
    p = model.predict_p(fresh, groups=theirs, ids=ids)
    np.testing.assert_array_equal(at_levels(p), model.predict_sets(fresh, LEVELS, groups=theirs, ids=ids))
    own = ts.ConformalClassifier("aps", "0.1", 0.7, randomized).fit(known.take(sites == 1))
    np.testing.assert_array_equal(p[theirs == 1], own.predict_p(fresh, ids=ids)[theirs == 1])


@pytest.mark.parametrize("grouping", [None, "class"])
@pytest.mark.parametrize("method", ["raps", "margin"])
def test_cut_rows_have_their_own_sets_at_every_level(grouping, method):
    rows = ts.compact(ts.Logits(generated(300, 20, signal=0.5)[0] / 3, generated(300, 20, signal=0.5)[1]), 8)
    model = ts.ConformalClassifier(method, "0.1", 1.2, grouping=grouping).fit(rows.take(slice(0, 200)))
    fresh = rows.take(slice(200, None))
    np.testing.assert_array_equal(at_levels(model.predict_p(fresh)), model.predict_sets(fresh, LEVELS))


@pytest.mark.parametrize("method", SCORES)
@pytest.mark.parametrize("grouping", [None, "class", "group"])
def test_another_level_is_a_fresh_fit_to_the_last_bit(method, grouping):
    def fitted(alpha):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = ts.ConformalClassifier(method, alpha, 0.8, grouping=grouping, random_state=3)
            model.fit(with_groups(LOGITS), LABELS)
        return model, [str(one.message) for one in caught]

    model, _ = fitted(0.1)
    for alpha in (0.003, 0.02, "0.05", 0.1, 0.5, 0.999):
        fresh, messages = fitted(alpha)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            other = model.at(alpha)
        assert [str(one.message) for one in caught] == messages
        lax = [message for message in messages if "promises that sets hold" in message]
        assert len(lax) == (Fraction(str(alpha)) > Fraction(1, 2))
        assert (len(messages) > len(lax)) == (fewest(fresh) < rows_needed(alpha))
        assert other.get_params() == fresh.get_params()
        assert other.thresholds_.tobytes() == fresh.thresholds_.tobytes()
        np.testing.assert_array_equal(other.threshold_, fresh.threshold_)
        rows = with_groups(odd_rows(1, float))
        np.testing.assert_array_equal(other.predict_set(rows), fresh.predict_set(rows))
    assert model.alpha == 0.1


def fewest(model):
    """Rows behind the threshold that has fewest."""
    return model.calibration_.pool_sizes().min()


def test_clusters_stay_those_of_the_fitted_level():
    model = ts.ConformalClassifier("aps", 0.1, grouping="cluster").fit(LOGITS, LABELS)
    other = model.at(0.3)
    np.testing.assert_array_equal(other.calibration_.group_of_class, model.calibration_.group_of_class)
    assert other.thresholds_.tobytes() == model.calibration_.thresholds(0.3).tobytes()


def ranks_over_splits(model, logits, labels, n_each, splits=600, seed=0, **options):
    """The p-value of the label of one row in each split, times n + 1.

    Given the rows, a split draws n + 1 of them (of its class, where classes have pools) and one of these to be the
    fresh one: its rank is uniform, and splits are independent.
    """
    rng, found = np.random.default_rng(seed), np.empty(splits)
    by_class = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    for i in range(splits):
        if model.grouping is None:
            rows = rng.permutation(len(labels))[: n_each + 1]
        else:
            drawn = [rng.permutation(some) for some in by_class]
            mine = rng.integers(len(drawn))
            rows = np.concatenate([*(some[:n_each] for some in drawn), drawn[mine][n_each : n_each + 1]])
        model.fit(logits[rows[:-1]], labels[rows[:-1]])
        found[i] = model.predict_p(logits[rows[-1:]], **options)[0, labels[rows[-1]]] * (n_each + 1)
    return found


def far_from_uniform(ranks, n):
    """Pearson's statistic of the ranks 1 .. n + 1, beyond what one in a million tests shows."""
    counts = np.bincount(np.rint(ranks).astype(int), minlength=n + 2)[1:]
    expected = len(ranks) / (n + 1)
    return bool(((counts - expected) ** 2 / expected).sum() > chi2.isf(1e-6, n))


@pytest.mark.long
@pytest.mark.parametrize("method", ["lac", "aps", "raps", "margin"])
@pytest.mark.parametrize("grouping", [None, "class"])
@pytest.mark.parametrize("temperature", [1.0, 0.05])
def test_p_values_of_true_labels_are_uniform_on_ranks(method, grouping, temperature):
    model, n = ts.ConformalClassifier(method, 0.2, temperature, grouping=grouping), 14
    ranks = ranks_over_splits(model, *generated(900, 4, signal=0.0, seed=3), n)
    np.testing.assert_allclose(ranks, np.rint(ranks), rtol=0, atol=1e-12)
    assert ranks.min() >= 1
    assert ranks.max() <= n + 1
    assert not far_from_uniform(ranks, n)
    assert far_from_uniform(np.maximum(ranks - 1, 1), n), "one too low would be seen"


@pytest.mark.slow
def test_p_values_of_real_rows_are_uniform_on_ranks():
    logits = ts.datasets.load_glyphs().logits
    model = ts.ConformalClassifier("raps", 0.2)
    assert not far_from_uniform(ranks_over_splits(model, logits.logits, logits.labels, 19), 19)


@pytest.mark.slow
@pytest.mark.parametrize("grouping", [None, "class"])
def test_smoothed_p_values_are_uniform_where_scores_tie(grouping):
    """Deterministic APS gives every label of the last rank the score 1. Without smoothing that shows."""
    rows = generated(2000, 3, signal=-1.5, seed=5)
    model, n = ts.ConformalClassifier("aps", 0.2, randomized=False, grouping=grouping, random_state=8), 14
    smooth = ranks_over_splits(model, *rows, n, smoothed=True) / (n + 1)
    assert kstest(smooth, "uniform").pvalue > 1e-6
    plain = ranks_over_splits(model, *rows, n) / (n + 1)
    assert kstest(plain, "uniform").pvalue < 1e-12
    assert (smooth <= plain).all()


def test_ids_and_u_decide_as_they_do_for_sets():
    model = ts.ConformalClassifier("aps", "0.2").fit(LOGITS, LABELS, ids=range(260))
    fresh = odd_rows(2, float)
    for more in ({"ids": range(30)}, {"u": np.linspace(0, 1, 30)}):
        np.testing.assert_array_equal(model.predict_p(fresh, **more) > 0.2, model.predict_set(fresh, **more))
    p = model.predict_p(fresh, smoothed=True, ids=range(30))
    np.testing.assert_array_equal(model.predict_p(fresh[::-1], smoothed=True, ids=range(29, -1, -1))[::-1], p)
    assert (p != model.predict_p(fresh, smoothed=True, ids=range(1, 31))).any()


def test_a_class_without_rows_is_never_ruled_out():
    model = ts.ConformalClassifier("lac", 0.1, grouping="class").fit(LOGITS[LABELS > 0], LABELS[LABELS > 0])
    assert (model.predict_p(LOGITS)[:, 0] == 1.0).all()


def test_what_has_no_p_values_says_so():
    model = ts.ConformalClassifier("aps", 0.2)
    for call in (lambda: model.predict_p(LOGITS), lambda: model.at(0.3)):
        with pytest.raises(NotFittedError):
            call()
    model.fit(LOGITS, LABELS)
    with pytest.raises(InputError, match="alpha must be a number strictly between 0 and 1"):
        model.at(1.5)
    model.tighten(0.1, ts.Logits(LOGITS, LABELS))
    for call, what in ((lambda: model.predict_p(LOGITS), "p-values"), (lambda: model.at(0.3), "other levels")):
        with pytest.raises(InputError, match=f"this classifier has no {what}: its threshold was tightened"):
            call()
    model.fit(LOGITS, LABELS)
    assert model.predict_p(LOGITS).shape == LOGITS.shape


@pytest.mark.parametrize("bad", [[0.1, 0.2], [[0.1]], [[0.1, 1.1]], [[np.nan, 0.1]], "p", [[0.1], [0.1, 0.2]]])
def test_a_summary_of_something_else_is_refused(bad):
    with pytest.raises(InputError, match="p must be"):
        ts.conformal.p_summary(bad)


def test_a_summary_shows_when_sets_are_empty_or_ambiguous():
    p = np.random.default_rng(0).random((50, 4))
    summary = ts.conformal.p_summary(p)
    np.testing.assert_array_equal(summary.label, p.argmax(axis=1))
    for alpha in (0.1, 0.5, 0.9):
        sizes = (p > alpha).sum(axis=1)
        np.testing.assert_array_equal(sizes == 0, alpha >= summary.credibility)
        np.testing.assert_array_equal(sizes > 1, np.sort(p, axis=1)[:, -2] > alpha)
    np.testing.assert_allclose(summary.confidence, 1 - np.sort(p, axis=1)[:, -2], rtol=0, atol=0)


@pytest.mark.parametrize("name", ["raps", "margin"])
def test_threads_and_blocks_change_no_bit_of_p_values(name, monkeypatch):
    model, found = ts.ConformalClassifier(name, 0.2, 0.7).fit(LOGITS, LABELS), []
    for threads, block_bytes in (("1", 2**19), ("3", 2**19), ("2", 8 * 6 * 5)):
        monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
        monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", block_bytes)
        found.append((model.predict_p(LOGITS).tobytes(), model.predict_p(LOGITS, smoothed=True).tobytes()))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("method", ["aps", "raps"])
def test_tails_order_rows_of_equal_value(method):
    # e**-20 is left out by the top label, more than where masses saturate: 19 tails between two neighbouring floats.
    logits = np.array([[0.0, -1.0 - i * 1e-10] for i in range(19)])
    model = ts.ConformalClassifier(method, temperature=0.05, randomized=False).fit(logits, np.zeros(19, dtype=int))
    assert len(set(model.calibration_.scores.real)) <= 2
    assert model.calibration_.scores.real.max() < 1 - 2**-32
    np.testing.assert_array_equal(model.predict_p(logits)[:, 0], (20 - np.arange(19)) / 20)
