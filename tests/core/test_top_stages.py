"""Rows that keep their largest logits: ends of scores hold the scores, sets hold the sets of whole rows."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import mp
from thermoset.core.prefixes import prefix_sizes
from thermoset.core.scores import SCORES, NeverEmpty, OwnScore
from thermoset.core.sources import ArrayRows
from thermoset.core.thresholds import ScorePairs
from thermoset.core.top_ends import LOWER, UPPER, score_ends
from thermoset.core.top_rows import LEAST_KEPT
from thermoset.core.top_stages import (
    draws_of,
    kept_at,
    upper_label_scores,
    wide_confidences,
    wide_sets,
    wide_sizes,
    wide_undecided,
)
from thermoset.core.uniforms import N_KEYS, Randomness

import oracle
from thermoset.core import general as stage
from thermoset.errors import InputError
from tops import KINDS, cut_down, rows

BOUNDED = {name: score for name, score in SCORES.items() if score.by_rank}
EVERY = [*BOUNDED.values(), *map(NeverEmpty, BOUNDED.values())]
ALL = pytest.mark.parametrize("score", EVERY, ids=repr)
TEMPERATURES = (0.01, 0.05, 0.3, 1.0, 1.2, 4.0, 20.0)


def by_label(tops, pairs):
    """Ends (n, K + 1) by rank as ends (n, C) by label."""
    whole = []
    for part in (pairs.value, pairs.refine):
        spread = np.repeat(part[:, -1:], tops.n_classes, axis=1)
        np.put_along_axis(spread, tops.indices, part[:, :-1], axis=1)
        whole.append(spread)
    return ScorePairs(*whole)


def at_most(one, other):
    return (one.value < other.value) | ((one.value == other.value) & (one.refine <= other.refine))


def ends_of(tops, score, temperature, u, side):
    return by_label(tops, score_ends(score, kept_at(tops, temperature, u), temperature, side))


def some_rows(dtype=np.float64, n=60, n_classes=30, seed=0):
    """Rows with masked classes and with ties, those of float16 by the hundred."""
    rng = np.random.default_rng(seed)
    logits = (4 * rng.normal(size=(n, n_classes))).astype(dtype)
    logits[::7, 5] = logits[::11, 20] = -np.inf
    logits[::5, 11] = logits[::5, 3]
    return logits


@pytest.mark.parametrize("kind", KINDS)
@given(rows(), st.floats(0.0, 1.0))
@example((np.array([[0.0, *[-np.inf] * 4]]), 4, 1.0), 0.0)  # the second is masked, and the top label compared with it
def test_ends_hold_the_score_of_every_label(kind, drawn, u):
    logits, top, temperature = drawn
    tops, given_u = cut_down(logits, top, kind), np.array([u])
    for score in EVERY:
        whole = stage.score_matrix(ArrayRows(logits), score, temperature, Randomness(given=given_u))
        assert at_most(ends_of(tops, score, temperature, given_u, LOWER), whole).all(), score
        assert at_most(whole, ends_of(tops, score, temperature, given_u, UPPER)).all(), score


@given(rows(), st.floats(0.0, 1.0))
def test_ends_hold_the_definition_to_the_last_bit_of_a_float(drawn, u):
    logits, top, temperature = drawn
    tops, given_u = cut_down(logits, top), np.array([u])
    row = [float(z) for z in logits[0]]
    with mp.workdps(oracle.digits([row], temperature)):
        weight = oracle.weights(row, temperature)
        for name, score in BOUNDED.items():
            exact = [one.value for one in oracle.row_scores(name, row, weight, u)]
            low, high = (ends_of(tops, score, temperature, given_u, side).value[0] for side in (LOWER, UPPER))
            for label, value in enumerate(exact):
                ulp = mp.mpf(2) ** -52 * max(1, abs(value)) if value != oracle.INFINITY else 0
                assert low[label] - ulp <= value <= high[label] + ulp, (name, label)


@ALL
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sets_hold_those_of_whole_rows(score, dtype):
    logits = some_rows(dtype)
    labels = np.random.default_rng(1).integers(0, 30, len(logits))
    source = ArrayRows(logits)
    for kind in KINDS:
        tops = cut_down(logits, 6, kind)
        for randomness in (Randomness(3), Randomness(None)):
            for temperature in TEMPERATURES:
                (exact,) = stage.label_scores(source, labels, score, [temperature], randomness)
                (upper,) = upper_label_scores(tops, labels, score, [temperature], randomness)
                assert at_most(exact, upper).all()
                q = ScorePairs(*np.array([exact.smallest(k) for k in (5, 20, 40, 58)]).T)
                whole = stage.sets_of(source, score, temperature, randomness, q[:, None])
                sets = wide_sets(tops, score, temperature, randomness, q[:, None])
                assert not (whole & ~sets).any()
                assert (wide_sizes(tops, score, temperature, randomness, q[:, None]) == sets.sum(axis=2)).all()


@ALL
def test_sets_hold_those_of_whole_rows_with_thresholds_by_class(score):
    logits = some_rows()
    tops, rng, randomness = cut_down(logits, 6), np.random.default_rng(2), Randomness(3)
    scores = stage.score_matrix(ArrayRows(logits), score, 1.3, randomness)
    picked = rng.integers(0, len(logits), 30)
    q = ScorePairs(scores.value[picked, np.arange(30)][None], scores.refine[picked, np.arange(30)][None])
    q.value[0, 4] = q.refine[0, 4] = np.inf
    whole = stage.sets_of(ArrayRows(logits), score, 1.3, randomness, q)
    sets = wide_sets(tops, score, 1.3, randomness, q)
    assert not (whole & ~sets).any()
    assert sets[0, :, 4].all()
    assert (wide_sizes(tops, score, 1.3, randomness, q) == sets.sum(axis=2)).all()


@pytest.mark.parametrize("name", ["lac", "raps", "saps", "topk"])
def test_rows_are_decided_where_the_set_is_within_what_is_kept(name):
    # At a stated temperature the mass is known: all that is left open is rounding.
    logits, randomness = some_rows(seed=5), Randomness(3)
    tops, source, score = cut_down(logits, 12), ArrayRows(logits), SCORES[name]
    labels = logits.argmax(axis=1)
    (exact,) = stage.label_scores(source, labels, score, [1.0], randomness)
    q = ScorePairs(*(np.array([part]) for part in exact.smallest(50)))
    q = ScorePairs(q.value + 1e-9, q.refine)  # no score is that near
    undecided = wide_undecided(tops, score, 1.0, randomness, q[None])[0]
    whole = prefix_sizes(source, score, 1.0, randomness, q)[0]
    sizes = wide_sizes(tops, score, 1.0, randomness, q[None])[0]
    assert (sizes[~undecided] == whole[~undecided]).all()
    assert (~undecided).mean() > 0.9
    assert (undecided == (sizes != wide_by_upper_ends(tops, score, randomness, q))).all()


def wide_by_upper_ends(tops, score, randomness, q):
    u = draws_of(tops, randomness, slice(0, tops.n_rows))
    upper = ends_of(tops, score, 1.0, u, UPPER)
    return at_most(upper, ScorePairs(np.full((1, 1), q.value[0]), np.full((1, 1), q.refine[0]))).sum(axis=1)


def test_u_is_that_of_whole_rows():
    logits = some_rows(np.float16)
    tops = cut_down(logits, 4)
    for randomness in (Randomness(7), Randomness(None), Randomness(given=np.linspace(0, 1, 60))):
        whole = randomness.block(np.sort(logits.astype(np.float64), axis=1))
        assert (draws_of(tops, randomness, slice(0, 60)) == whole).all()


def test_as_many_logits_are_kept_as_u_needs():
    assert LEAST_KEPT == N_KEYS + 1  # the largest, and the gaps to those below it


def test_a_score_of_ones_own_is_refused():
    own = OwnScore(lambda probs, rank, u: -probs, "mine")
    with pytest.raises(InputError, match="'mine' has no proven bounds"):
        upper_label_scores(cut_down(some_rows(), 5), np.zeros(60, dtype=np.int64), own, [1.0], Randomness(0))


@pytest.mark.parametrize("kind", ["all", "rest", "one"])
def test_confidence_is_known_where_the_mass_is(kind):
    logits = some_rows()
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert wide_confidences(cut_down(logits, 6, kind), 1.0) == pytest.approx(1 / weight.sum(axis=1), rel=1e-10)


def test_blocks_and_threads_do_not_change_a_bit(monkeypatch):
    logits = np.tile(some_rows(), (40, 1))
    tops, q = cut_down(logits, 6), ScorePairs(np.array([[0.9]]), np.array([[0.0]]))
    once = wide_sets(tops, SCORES["raps"], 1.3, Randomness(0), q)
    monkeypatch.setattr("thermoset.core.top_stages.block_rows", lambda _: 7)
    assert (wide_sets(tops, SCORES["raps"], 1.3, Randomness(0), q) == once).all()
