"""Rows that keep their largest logits: ends of scores hold the scores, sets hold the sets of whole rows."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mpmath import mp

import oracle
import thermoset as ts
from on_arrays import ArrayRows
from thermoset.conformal import bounds, scoring
from thermoset.conformal.bounds import LOWER, UPPER, score_bounds, uniforms_of, upper_label_scores
from thermoset.data.top_k import LEAST_KEPT, compact
from thermoset.errors import InputError
from thermoset.kernels import N_KEYS
from thermoset.rows import gaps_of
from thermoset.scores import SCORES, NeverEmpty, OwnScore
from thermoset.uniforms import Randomness
from tops import KINDS, cut_down, rows

BOUNDED = {name: score for name, score in SCORES.items() if score.by_rank}
EVERY = [*BOUNDED.values(), *map(NeverEmpty, BOUNDED.values())]
ALL = pytest.mark.parametrize("score", EVERY, ids=repr)
TEMPERATURES = (0.01, 0.05, 0.3, 1.0, 1.2, 4.0, 20.0)


def ends_of(tops, score, temperature, u, side):
    """Bounds (n, K + 1) by rank as bounds (n, C) by label."""
    found = score_bounds(score, tops, temperature, u, side)
    spread = np.repeat(found[:, -1:], tops.n_classes, axis=1)
    np.put_along_axis(spread, tops.indices, found[:, :-1], axis=1)
    return spread


class Cut:
    """Rows that are not whole, as a source."""

    def __init__(self, tops):
        self.tops, self.n_rows, self.n_classes = tops, tops.n_rows, tops.n_classes


def wide(f, tops, *how):
    """Sets, sizes or undecided rows of rows that are not whole."""
    return f(Cut(tops), *how, None)


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
@example((np.array([[0, 0, 0, 36, -np.inf]], dtype=np.float16), 4, 0.05078125), 0.0)  # weights underflow
def test_ends_hold_the_score_of_every_label(kind, drawn, u):
    logits, top, temperature = drawn
    tops, given_u = cut_down(logits, top, kind), np.array([u])
    for score in EVERY:
        whole = scoring.score_matrix(ArrayRows(logits), score, temperature, Randomness(given=given_u))
        assert (ends_of(tops, score, temperature, given_u, LOWER) <= whole).all(), score
        assert (whole <= ends_of(tops, score, temperature, given_u, UPPER)).all(), score


@given(rows(), st.floats(0.0, 1.0))
def test_ends_hold_the_definition_to_the_last_bit_of_a_float(drawn, u):
    logits, top, temperature = drawn
    tops, given_u = cut_down(logits, top), np.array([u])
    row = [float(z) for z in logits[0]]
    with mp.workdps(oracle.digits([row], temperature)):
        weight = oracle.weights(row, temperature)
        for name, score in BOUNDED.items():
            exact = [one.value for one in oracle.row_scores(name, row, weight, u)]
            low, high = (ends_of(tops, score, temperature, given_u, side).real[0] for side in (LOWER, UPPER))
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
                (exact,) = scoring.label_scores(source, labels, score, [temperature], randomness)
                (upper,) = upper_label_scores(tops, labels, score, np.array([temperature]), randomness)
                assert (exact <= upper).all()
                how = score, temperature, randomness, np.sort(exact)[[4, 19, 39, 57]][:, None, None]
                sets = wide(scoring.predict_sets, tops, *how)
                assert not (scoring.predict_sets(source, *how, None) & ~sets).any()
                assert (wide(scoring.predict_sizes, tops, *how) == sets.sum(axis=2)).all()


@ALL
def test_sets_hold_those_of_whole_rows_with_thresholds_by_class(score):
    logits = some_rows()
    tops, rng, randomness = cut_down(logits, 6), np.random.default_rng(2), Randomness(3)
    scores = scoring.score_matrix(ArrayRows(logits), score, 1.3, randomness)
    picked = rng.integers(0, len(logits), 30)
    q = scores[picked, np.arange(30)][None, None]
    q[0, 0, 4] = complex(np.inf, np.inf)
    how = score, 1.3, randomness, q
    sets = wide(scoring.predict_sets, tops, *how)
    assert not (scoring.predict_sets(ArrayRows(logits), *how, None) & ~sets).any()
    assert sets[0, :, 4].all()
    assert (wide(scoring.predict_sizes, tops, *how) == sets.sum(axis=2)).all()


@pytest.mark.parametrize("name", ["lac", "raps", "saps", "topk"])
def test_rows_are_decided_where_the_set_is_within_what_is_kept(name):
    # At a stated temperature the mass is known: all that is left open is rounding.
    logits, randomness = some_rows(seed=5), Randomness(3)
    tops, source, score = cut_down(logits, 12), ArrayRows(logits), SCORES[name]
    labels = logits.argmax(axis=1)
    (exact,) = scoring.label_scores(source, labels, score, [1.0], randomness)
    q = np.sort(exact)[49:50, None, None]
    q.real += 1e-9  # no score is that near
    how = score, 1.0, randomness, q
    undecided = wide(scoring.undecided_rows, tops, *how)[0]
    whole, sizes = scoring.predict_sizes(source, *how, None)[0], wide(scoring.predict_sizes, tops, *how)[0]
    assert (sizes[~undecided] == whole[~undecided]).all()
    assert (~undecided).mean() > 0.9
    by_upper = (ends_of(tops, score, 1.0, uniforms_of(tops, randomness), UPPER) <= q[0]).sum(axis=1)
    assert (undecided == (sizes != by_upper)).all()


def test_u_is_that_of_whole_rows():
    logits = some_rows(np.float16)
    tops = cut_down(logits, 4)
    for randomness in (Randomness(7), Randomness(None), Randomness(given=np.linspace(0, 1, 60))):
        whole = randomness.block(gaps_of(np.sort(logits, axis=1)))
        assert (uniforms_of(tops, randomness) == whole).all()


def test_as_many_logits_are_kept_as_u_needs():
    assert LEAST_KEPT == N_KEYS + 1  # the largest, and the gaps to those below it


def test_a_score_of_ones_own_is_refused():
    own = OwnScore(lambda probs, rank, u: -probs, "mine")
    with pytest.raises(InputError, match="'mine' has no proven bounds"):
        upper_label_scores(cut_down(some_rows(), 5), np.zeros(60, dtype=np.int64), own, np.ones(1), Randomness(0))


@pytest.mark.parametrize("kind", ["all", "rest", "one"])
def test_confidence_is_known_where_the_mass_is(kind):
    logits = some_rows()
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert bounds.middle_confidences(cut_down(logits, 6, kind), 1.0) == pytest.approx(1 / weight.sum(axis=1), rel=1e-10)


def test_blocks_and_threads_do_not_change_a_bit(monkeypatch):
    logits = np.tile(some_rows(), (40, 1))
    tops, how = cut_down(logits, 6), (SCORES["raps"], 1.3, Randomness(0), np.full((1, 1, 1), 0.9 + 0j))
    once = wide(scoring.predict_sets, tops, *how)
    monkeypatch.setattr("thermoset.conformal.bounds.block_rows", lambda _: 7)
    assert (wide(scoring.predict_sets, tops, *how) == once).all()


@pytest.mark.parametrize("method", ["lac", "aps", "raps", "saps", "topk", "margin"])
def test_p_values_bound_those_of_whole_rows_and_give_the_sets(method):
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 60, 400)
    logits = 3 * rng.normal(size=(400, 60)) + 8 * np.eye(60)[labels]
    cut = compact(ts.Logits(logits, labels), top=12, temperatures=[0.5, 1.0, 2.0])
    model = ts.ConformalClassifier(method, alpha=0.2, temperature=1.3).fit(cut.take(slice(0, 200)))
    upper, whole = model.predict_p(cut.take(slice(200, 400))), model.predict_p(logits[200:])
    assert np.all(upper >= whole)
    for alpha in (0.05, 0.2, 0.5):
        assert np.array_equal(upper > alpha, model.predict_sets(cut.take(slice(200, 400)), [alpha])[0])
