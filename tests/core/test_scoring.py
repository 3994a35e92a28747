"""Scores of rows and sets under thresholds: blocks, threads, ranks, prefixes, and what is promised about bits."""

import numpy as np
import pytest
from mpmath import mp

import oracle
from on_arrays import ArrayRows, label_scores, predict_sets, predict_sizes, score_matrix
from thermoset.arrays import pairs
from thermoset.conformal import scoring
from thermoset.scores import RAPS, SCORES, NeverEmpty
from thermoset.uniforms import Randomness

EVERY = [*SCORES.values(), *map(NeverEmpty, SCORES.values())]
ALL = pytest.mark.parametrize("score", EVERY, ids=repr)
COMPILED = pytest.mark.parametrize("score", [score for score in EVERY if score.prefixes], ids=repr)
REGISTERED = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)
TEMPERATURES = (0.01, 0.3, 1.0, 100.0)


def rows(kind, n=120, n_classes=9, seed=0):
    """Logits on a 2^-10 grid: without ties in a row, whole numbers with many ties, or with masked classes."""
    rng = np.random.default_rng(seed)
    if kind == "tied":
        return rng.integers(-2, 3, size=(n, n_classes)).astype(np.float64)
    logits = np.array([rng.choice(40_000, size=n_classes, replace=False) for _ in range(n)]) * 2.0**-10
    if kind == "masked":
        logits[rng.random(logits.shape) < 0.3] = -np.inf
        logits[np.isneginf(logits).all(axis=1), 0] = 1.0
    return logits


def prefix_sizes(logits, score, temperature, randomness, thresholds):
    """Sizes (levels, n) under thresholds (levels,)."""
    return predict_sizes(logits, score, temperature, randomness, thresholds[:, None, None])


def prefix_sets(logits, score, temperature, randomness, thresholds):
    """Sets (levels, n, C) under thresholds (levels,)."""
    return predict_sets(logits, score, temperature, randomness, thresholds[:, None, None])


def class_sets(logits, score, temperature, randomness, thresholds):
    """Sets (levels, n, C) under thresholds by class (levels, C)."""
    return predict_sets(logits, score, temperature, randomness, thresholds[:, None])


KINDS = pytest.mark.parametrize("kind", ["distinct", "tied", "masked"])


def quantiles(scores, levels=(0.05, 0.3, 0.5, 0.8, 0.95)):
    return np.sort(scores)[[max(1, round(level * scores.size)) - 1 for level in levels]]


@ALL
@KINDS
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_a_label_score_is_the_entry_of_the_matrix(score, kind, temperature):
    logits = rows(kind)
    labels = np.random.default_rng(1).integers(0, 9, size=len(logits))
    for randomness in (Randomness(), Randomness(seed=3), Randomness(given=np.linspace(0, 1, len(logits)))):
        matrix = score_matrix(logits, score, temperature, randomness)
        own = label_scores(logits, labels, score, temperature, randomness)
        pick = np.arange(len(logits)), labels
        assert matrix[pick].tobytes() == own.tobytes()


@COMPILED
@KINDS
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_sets_are_prefixes_and_are_what_the_scores_say(score, kind, temperature):
    logits = rows(kind, seed=2)
    randomness = Randomness(seed=1)
    labels = logits.argmax(axis=1) if kind == "masked" else np.arange(len(logits)) % 9
    q = quantiles(label_scores(logits, labels, score, temperature, randomness))
    sets = prefix_sets(logits, score, temperature, randomness, q)
    sizes = prefix_sizes(logits, score, temperature, randomness, q)
    np.testing.assert_array_equal(sets.sum(axis=2), sizes)
    matrix = score_matrix(logits, score, temperature, randomness)
    for t, one in enumerate(q):
        np.testing.assert_array_equal(sets[t], matrix <= one)
        for i, row in enumerate(logits.tolist()):
            members = set(np.flatnonzero(sets[t, i]).tolist())
            assert members == set(oracle.ranking(row)[: len(members)])
    # one threshold for each class, all of them equal, is the same set
    wide = np.repeat(q[:, None], 9, axis=1)
    np.testing.assert_array_equal(class_sets(logits, score, temperature, randomness, wide), sets)


@ALL
@KINDS
@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_thresholds_by_class_let_in_what_the_scores_say(score, kind, temperature):
    logits = rows(kind, seed=6)
    randomness = Randomness(seed=2)
    matrix = score_matrix(logits, score, temperature, randomness)
    # Each class has the score of one of its own rows for a threshold, so that equal values and tie-breaks occur.
    picked = np.random.default_rng(6).integers(0, len(logits), size=(3, 9))
    q = matrix[picked, np.arange(9)]
    q[2, 4] = complex(np.inf, np.inf)
    sets = class_sets(logits, score, temperature, randomness, q)
    for t in range(3):
        np.testing.assert_array_equal(sets[t], matrix <= q[t])
        assert np.all(sets[t][picked[t], np.arange(9)])


@ALL
@KINDS
def test_scores_at_several_temperatures_are_those_at_each(score, kind):
    logits = rows(kind, seed=7)
    labels = np.arange(len(logits)) % 9
    randomness = Randomness(seed=4)
    together = scoring.label_scores(ArrayRows(logits), labels, score, TEMPERATURES, randomness)
    for temperature, found in zip(TEMPERATURES, together, strict=True):
        assert label_scores(logits, labels, score, temperature, randomness).tobytes() == found.tobytes()


@REGISTERED
def test_tied_rows_rank_by_label_index(score):
    logits = rows("tied", n=60, seed=4)
    u = np.random.default_rng(4).random(60)
    matrix = score_matrix(logits, score, 0.7, Randomness(given=u))
    name = next(name for name, one in SCORES.items() if one == score)
    bound = oracle.rounding_bound(9, 4 / 0.7)
    with mp.workdps(60):
        for i, row in enumerate(logits.tolist()):
            exact = oracle.row_scores(name, row, oracle.weights(row, 0.7), float(u[i]))
            for label in range(9):
                assert abs(matrix[i, label].real - exact[label].value) <= bound


@COMPILED
@KINDS
def test_threads_and_blocks_do_not_change_a_bit(score, kind, monkeypatch):
    logits = rows(kind, n=97, seed=5)
    labels = np.arange(97) % 9

    def everything():
        randomness = Randomness(seed=7)
        own = label_scores(logits, labels, score, 0.05, randomness)
        q = quantiles(own[np.isfinite(own.real)])
        matrix = score_matrix(logits, score, 0.05, randomness)
        arrays = (
            own,
            matrix,
            prefix_sizes(logits, score, 0.05, randomness, q),
            prefix_sets(logits, score, 0.05, randomness, q),
        )
        return [array.tobytes() for array in arrays]

    monkeypatch.setenv("THERMOSET_NUM_THREADS", "1")
    expected = everything()
    for threads in ("1", "2", "7"):
        for block in (8, 72 * 10, 72 * 33, 2**30):  # one row, ten rows, thirty-three, all
            monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
            monkeypatch.setattr("thermoset.rows._BLOCK_BYTES", block)
            assert everything() == expected


@COMPILED
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_floats_score_as_the_numbers_they_are(score, dtype):
    narrow = np.random.default_rng(6).normal(scale=5, size=(80, 7)).astype(dtype)
    labels = np.arange(80) % 7
    for temperature in TEMPERATURES:
        for randomness in (Randomness(), Randomness(seed=2)):
            one = label_scores(narrow, labels, score, temperature, randomness)
            two = label_scores(narrow.astype(np.float64), labels, score, temperature, randomness)
            assert one.tobytes() == two.tobytes()
            q = quantiles(one)
            np.testing.assert_array_equal(
                prefix_sets(narrow, score, temperature, randomness, q),
                prefix_sets(narrow.astype(np.float64), score, temperature, randomness, q),
            )


def test_nothing_is_written_into_the_input():
    logits = rows("masked")
    logits.flags.writeable = False
    before = logits.tobytes()
    labels = logits.argmax(axis=1)
    own = label_scores(logits, labels, RAPS(), 1.0, Randomness(seed=0))
    prefix_sets(logits, RAPS(), 1.0, Randomness(seed=0), quantiles(own))
    score_matrix(logits, RAPS(), 1.0, Randomness(seed=0))
    assert logits.tobytes() == before


@REGISTERED
def test_never_empty_keeps_the_top_label_at_every_threshold(score):
    logits = rows("tied", seed=8)
    low = pairs([-np.inf, -1.0], -np.inf)
    wide = np.tile(low[:, None], 9)
    assert not class_sets(logits, score, 1.0, Randomness(), wide).any()
    made = [class_sets(logits, NeverEmpty(score), 1.0, Randomness(), wide)]
    if score.compiled:
        assert not prefix_sets(logits, score, 1.0, Randomness(), low).any()
        made.append(prefix_sets(logits, NeverEmpty(score), 1.0, Randomness(), low))
    for sets in made:
        for one in sets:
            for row, found in zip(logits.tolist(), one, strict=True):
                assert np.flatnonzero(found).tolist() == [oracle.ranking(row)[0]]


@REGISTERED
@KINDS
def test_never_empty_differs_in_the_top_label_alone(score, kind):
    logits = rows(kind, seed=10)
    top = np.array([oracle.ranking(row)[0] for row in logits.tolist()])
    plain, kept = (score_matrix(logits, one, 0.7, Randomness(seed=2)) for one in (score, NeverEmpty(score)))
    is_top = np.arange(logits.shape[1]) == top[:, None]
    for whole, other in ((plain.real, kept.real), (plain.imag, kept.imag)):
        np.testing.assert_array_equal(other, np.where(is_top, -np.inf, whole))
    own = label_scores(logits, top, NeverEmpty(score), 0.7, Randomness(seed=2))
    assert np.isneginf(own.real).all()
    assert np.isneginf(own.imag).all()


@COMPILED
def test_only_an_infinite_threshold_includes_masked_classes(score):
    logits = rows("masked", seed=9)
    q = pairs([1e300, np.inf], np.inf)
    sets = prefix_sets(logits, score, 0.5, Randomness(seed=0), q)
    np.testing.assert_array_equal(sets[0], ~np.isneginf(logits))
    assert sets[1].all()
    np.testing.assert_array_equal(prefix_sizes(logits, score, 0.5, Randomness(seed=0), q), sets.sum(axis=2))
