"""p-values in the core: against counting, by pool, for whole rows and cut ones, on any number of threads."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thermoset.core.p_summaries import p_summary
from thermoset.core.p_values import Pools, SortedPools, class_pools, group_pools, one_pool, p_values, weighted_pool
from thermoset.core.scores import SCORES, NeverEmpty
from thermoset.core.sources import ArrayRows
from thermoset.core.thresholds import NULL_GROUP, ScorePairs
from thermoset.core.uniforms import Randomness
from thermoset.core.weighted import WeightedScores

import thermoset as ts
from law import generated
from on_arrays import score_matrix
from thermoset.core import sources
from thermoset.errors import InputError
from tiers import examples
from tops import cut_down

LOGITS, _ = generated(120, 7, signal=0.5)
LOGITS[3, 2] = -np.inf
LOGITS[5] = 1.0
RANDOM = Randomness(seed=4)


class CutRows:
    """Rows that are not whole, as a source."""

    def __init__(self, tops):
        self.tops, self.n_rows, self.n_classes = tops, tops.n_rows, tops.n_classes


def counted(score, pool, v):
    """By definition: scores are pairs, compared as Python compares pairs."""
    above, tied = sum(one > score for one in pool), sum(one == score for one in pool)
    return (above + v * (1 + tied)) / (len(pool) + 1)


def by_counting(matrix, pool_of, v):
    n_rows, n_classes = matrix.value.shape
    scores = [[(matrix.value[i, c], matrix.refine[i, c]) for c in range(n_classes)] for i in range(n_rows)]
    return np.array([[counted(scores[i][c], pool_of(i, c), v[i]) for c in range(n_classes)] for i in range(n_rows)])


def listed(pairs):
    return list(zip(pairs.value.tolist(), pairs.refine.tolist(), strict=True))


def conformal(score, temperature, n_rows=60, seed=9):
    """Scores of some labels, a few of them tied with each other and with rows to be predicted."""
    logits = np.vstack([generated(n_rows - 20, 7, signal=0.5, seed=seed)[0], LOGITS[:10], LOGITS[:10]])
    matrix = score_matrix(logits, score, temperature, RANDOM)
    labels = np.random.default_rng(seed).integers(0, 7, n_rows)
    return ScorePairs(matrix.value[np.arange(n_rows), labels], matrix.refine[np.arange(n_rows), labels]), labels


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("temperature", [0.01, 1.0])
def test_p_values_are_what_counting_gives(name, kept, temperature):
    score = NeverEmpty(SCORES[name]) if kept else SCORES[name]
    pairs, labels = conformal(score, temperature)
    matrix, every = score_matrix(LOGITS, score, temperature, RANDOM), listed(pairs)
    smoothing = Randomness(4, second=True)
    v = smoothing.block(np.sort(LOGITS, axis=1))
    source, ones = ArrayRows(LOGITS), np.ones(len(LOGITS))
    for drawn, given_v in ((None, ones), (smoothing, v)):
        found = p_values(source, score, temperature, RANDOM, one_pool(pairs), drawn)
        np.testing.assert_array_equal(found, by_counting(matrix, lambda _i, _c: every, given_v))
    groups = np.array([0, 1, NULL_GROUP, 1, NULL_GROUP, 2, 2])
    pools = {g: [one for one, y in zip(every, labels, strict=True) if groups[y] == g] for g in (0, 1, 2)}
    pools[NULL_GROUP] = every
    found = p_values(source, score, temperature, RANDOM, class_pools(pairs, labels, groups), smoothing)
    np.testing.assert_array_equal(found, by_counting(matrix, lambda _, c: pools[groups[c]], v))
    own, theirs = np.arange(60) % 3, np.arange(len(LOGITS)) % 4  # nobody set a threshold for the fourth group
    of_rows = replace(group_pools(pairs, own, 4, others=False), pool_of_row=theirs)
    found = p_values(source, score, temperature, RANDOM, of_rows)
    by_row = [[one for one, g in zip(every, own, strict=True) if g == mine] for mine in range(4)]
    np.testing.assert_array_equal(found, by_counting(matrix, lambda i, _: by_row[theirs[i]], ones))
    assert (found[theirs == 3] == 1.0).all()


@pytest.mark.parametrize("name", ["lac", "aps", "margin"])
def test_weights_are_summed_where_rows_are_counted(name):
    """A conformal row of weight 3 is three rows; a point of weight 2 counts as two."""
    score = SCORES[name]
    pairs, _ = conformal(score, 1.0)
    weights, own = np.arange(60) % 4, 1 + np.arange(len(LOGITS)) % 2
    weighted = WeightedScores.of(pairs, weights.astype(float))  # the largest is 3 and thirds are on no grid
    pools = replace(weighted_pool(weighted), weight_of_row=weighted.grid.rounded(own.astype(float)))
    repeated = listed(pairs[np.repeat(np.arange(60), weights)])
    matrix = listed_matrix(score_matrix(LOGITS, score, 1.0, RANDOM))
    for smoothing, v in ((None, np.ones(len(LOGITS))), (RANDOM, RANDOM.block(np.sort(LOGITS, axis=1)))):
        found = p_values(ArrayRows(LOGITS), score, 1.0, RANDOM, pools, smoothing)
        by_hand = [
            [
                (sum(one > s for one in repeated) + v[i] * (own[i] + repeated.count(s))) / (len(repeated) + own[i])
                for s in row
            ]
            for i, row in enumerate(matrix)
        ]
        np.testing.assert_allclose(found, by_hand, rtol=1e-11)


def listed_matrix(matrix):
    return [listed(ScorePairs(*row)) for row in zip(matrix.value, matrix.refine, strict=True)]


def test_by_hand():
    """APS at u = 1 of p = (.5, .3, .2) is .5, .8, 1. Two conformal scores are .5 too, one with its refinement."""
    row, aps, half = np.log([[0.5, 0.3, 0.2]]), SCORES["aps"], Randomness(given=np.array([0.5]))
    own = score_matrix(row, aps, 1.0, Randomness())
    tie, refine = own.value[0, 0], own.refine[0, 0]
    np.testing.assert_allclose([tie, refine], [0.5, np.log(2)], rtol=1e-15)
    pool = one_pool(ScorePairs(np.array([0.9, 0.4, tie, tie, 0.9]), np.array([0.0, 0.0, refine, refine - 1, 1.0])))
    assert p_values(ArrayRows(row), aps, 1.0, Randomness(), pool).tolist() == [[4 / 6, 3 / 6, 1 / 6]]
    smoothed = p_values(ArrayRows(row), aps, 1.0, Randomness(), pool, half)
    assert smoothed.tolist() == [[(2 + 0.5 * 2) / 6, (2 + 0.5) / 6, 0.5 / 6]]


pair = st.tuples(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf]), st.sampled_from([-np.inf, 0.0, 1.0, np.inf]))


@settings(max_examples=examples(200))
@given(pool=st.lists(pair, max_size=12), wanted=pair)
def test_ties_of_any_kind(pool, wanted):
    """The kernel alone, on scores that tie in one number or in both."""
    from thermoset.core.p_values import PoolOf, _fill_p_values
    from thermoset.core.thresholds import Cuts

    value, refine = (np.array([one[i] for one in pool], dtype=np.float64) for i in (0, 1))
    scores = one_pool(ScorePairs(value, refine)).scores
    asked, out = Cuts(*(np.array([[number]]) for number in wanted)), np.empty((1, 1))
    zero, one = (np.full(1, number, dtype=np.int64) for number in (0, 1))
    for v in (1.0, 0.25):
        _fill_p_values(asked, scores, PoolOf(zero, zero, one, one), np.array([v]), out)
        assert out[0, 0] == counted(wanted, pool, v)


@pytest.mark.parametrize("name", ["raps", "margin"])
def test_threads_and_blocks_do_not_matter(name, monkeypatch):
    score = SCORES[name]
    pools, smoothing = one_pool(conformal(score, 0.7)[0]), Randomness(4, second=True)
    found = []
    for threads, block_bytes in (("1", 2**19), ("3", 2**19), ("2", 8 * 7 * 5)):
        monkeypatch.setenv("THERMOSET_NUM_THREADS", threads)
        monkeypatch.setattr(sources, "_BLOCK_BYTES", block_bytes)
        found.append(p_values(ArrayRows(LOGITS), score, 0.7, RANDOM, pools, smoothing))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


@pytest.mark.parametrize("name", [name for name, score in SCORES.items() if score.by_rank])
@pytest.mark.parametrize("kind", ["rest", "nothing"])
def test_cut_rows_have_upper_bounds(name, kind):
    """A label's lower end is looked up: no p-value is below that of the whole row, smoothed or not."""
    logits = generated(80, 12, signal=0.5)[0] / 4
    matrix = score_matrix(logits, SCORES[name], 1.2, RANDOM)
    pools = one_pool(ScorePairs(matrix.value[:, 3], matrix.refine[:, 3]))
    tops = CutRows(cut_down(logits, 6, kind))
    for smoothing in (None, Randomness(4, second=True)):
        whole, cut = (
            p_values(source, SCORES[name], 1.2, RANDOM, pools, smoothing) for source in (ArrayRows(logits), tops)
        )
        assert (cut >= whole).all()
        assert (cut > whole).any() or kind == "rest"


def test_the_second_number_of_a_row_is_another_one():
    """v must not depend on u: their ranks do not correlate, and each row keeps its v in any order and batch."""
    rows = np.sort(generated(4000, 5)[0], axis=1)
    u, v = Randomness(3).block(rows), Randomness(3, second=True).block(rows)
    assert abs(np.corrcoef(u, v)[0, 1]) < 5 / np.sqrt(4000)
    np.testing.assert_array_equal(Randomness(3, second=True).block(rows[::-1].copy())[::-1], v)
    keys = np.arange(4000, dtype=np.uint64)
    by_id = [Randomness(3, keys=keys, second=second).block(rows) for second in (False, True)]
    assert abs(np.corrcoef(*by_id)[0, 1]) < 5 / np.sqrt(4000)


def test_pools_are_records():
    scores = one_pool(ScorePairs(np.array([2.0, 1.0]), np.zeros(2))).scores
    assert isinstance(scores, SortedPools)
    assert scores.value.tolist() == [1.0, 2.0]
    assert scores.edges.tolist() == [0, 2]
    assert Pools(scores).pool_of_class is None


@pytest.mark.parametrize("bad", [[0.1, 0.2], [[0.1]], [[0.1, 1.1]], [[np.nan, 0.1]], "p", [[0.1], [0.1, 0.2]]])
def test_a_summary_of_something_else_is_refused(bad):
    with pytest.raises(InputError, match=r"p must be p-values in \[0, 1\] of shape"):
        p_summary(bad)


def test_a_summary_says_when_sets_are_empty_and_when_they_hold_more_than_one():
    p = np.random.default_rng(0).random((50, 4))
    told = ts.conformal.p_summary(p)
    np.testing.assert_array_equal(told.label, p.argmax(axis=1))
    for alpha in (0.1, 0.5, 0.9):
        sizes = (p > alpha).sum(axis=1)
        np.testing.assert_array_equal(sizes == 0, alpha >= told.credibility)
        np.testing.assert_array_equal(sizes > 1, np.sort(p, axis=1)[:, -2] > alpha)
    np.testing.assert_allclose(told.confidence, 1 - np.sort(p, axis=1)[:, -2], rtol=0, atol=0)
