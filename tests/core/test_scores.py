"""Every score by hand, against fractions, and against mpmath wherever a float could lose it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

import oracle
from on_arrays import label_scores, score_matrix
from thermoset.conformal import ConformalClassifier, scores
from thermoset.errors import InputError
from thermoset.scores import APS, LAC, RAPS, SAPS, SCORES, resolve
from thermoset.uniforms import Randomness
from tiers import examples

TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 0.3, 1.0, 2.7, 5.0, 100.0)


def by_hand(method, probs, expected, **options):
    with np.errstate(divide="ignore"):
        found = scores(method, np.log([probs]), **options)
    assert found[0] == pytest.approx(expected, abs=1e-15)


def test_lac_by_hand():
    # 1 - .5, 1 - .3, 1 - .2; u plays no part
    by_hand("lac", [0.5, 0.3, 0.2], [0.5, 0.7, 0.8])
    by_hand("lac", [0.2, 0.5, 0.3], [0.8, 0.5, 0.7], u=0.4)
    # no class has half: 1 - .4, 1 - .35, 1 - .25
    by_hand("lac", [0.4, 0.35, 0.25], [0.6, 0.65, 0.75])


def test_aps_by_hand():
    # u = .4: .4 * .5 = .2; .5 + .4 * .3 = .62; .5 + .3 + .4 * .2 = .88
    by_hand("aps", [0.5, 0.3, 0.2], [0.2, 0.62, 0.88], u=0.4)
    # the same classes in another order
    by_hand("aps", [0.3, 0.2, 0.5], [0.62, 0.88, 0.2], u=0.4)
    # deterministic, u = 1: .5; .5 + .3 = .8; 1
    by_hand("aps", [0.5, 0.3, 0.2], [0.5, 0.8, 1.0])
    # u = 0: what ranks above, alone: 0; .5; .8
    by_hand("aps", [0.5, 0.3, 0.2], [0.0, 0.5, 0.8], u=0.0)


def test_ties_go_to_the_lower_label():
    # all of .25: ranks 1, 2, 3, 4 in label order; u = .5: .125, .375, .625, .875
    by_hand("aps", [0.25] * 4, [0.125, 0.375, 0.625, 0.875], u=0.5)
    # .2, .4, .4: label 1 first, label 2 second, label 0 last; u = 1: .4, .8, 1
    by_hand("aps", [0.2, 0.4, 0.4], [1.0, 0.4, 0.8])


def test_raps_by_hand():
    # penalty .1 beyond rank 2, u = .5. Ranks 1 and 2 as APS: .2; .4 + .15 = .55
    # rank 3: .7 + .5 * .2 + .1 = .9; rank 4: .9 + .5 * .1 + 2 * .1 = 1.15
    by_hand(RAPS(penalty=0.1, k_reg=2), [0.4, 0.3, 0.2, 0.1], [0.2, 0.55, 0.9, 1.15], u=0.5)
    # u = 1: .4; .7; .9 + .1 = 1; 1 + .2 = 1.2
    by_hand(RAPS(penalty=0.1, k_reg=2), [0.4, 0.3, 0.2, 0.1], [0.4, 0.7, 1.0, 1.2])
    # every rank is penalised when k_reg = 0: .4 + .1; .7 + .2; .9 + .3; 1 + .4
    by_hand(RAPS(penalty=0.1, k_reg=0), [0.4, 0.3, 0.2, 0.1], [0.5, 0.9, 1.2, 1.4])
    # defaults .01 beyond 5, eight classes of 1/8, u = 1: L / 8, and .01, .02, .03 on ranks 6, 7, 8
    by_hand("raps", [0.125] * 8, [0.125, 0.25, 0.375, 0.5, 0.625, 0.76, 0.895, 1.03])


def test_saps_by_hand():
    # u = .5, weight .2. L = 1: .5 * .4 = .2; L = 2: .4 + .5 * .2 = .5; L = 3: .4 + 1.5 * .2 = .7;
    # L = 4: .4 + 2.5 * .2 = .9
    by_hand("saps", [0.4, 0.3, 0.2, 0.1], [0.2, 0.5, 0.7, 0.9], u=0.5)
    # deterministic: .4; .4 + .2 = .6; .4 + .4 = .8; .4 + .6 = 1
    by_hand("saps", [0.4, 0.3, 0.2, 0.1], [0.4, 0.6, 0.8, 1.0])
    # weight .5, u = .25, other order: L = 2 at label 0: .6 + .25 * .5 = .725; L = 1: .15; L = 3: .6 + 1.25 * .5 = 1.225
    by_hand(SAPS(weight=0.5), [0.3, 0.6, 0.1], [0.725, 0.15, 1.225], u=0.25)


def test_topk_by_hand():
    # rank + u: ranks 1, 3, 2 and u = .25
    by_hand("topk", [0.5, 0.2, 0.3], [1.25, 3.25, 2.25], u=0.25)


def test_margin_by_hand():
    # the top label: .3 - .5; the others: .5 - .3, .5 - .2; u plays no part
    by_hand("margin", [0.5, 0.3, 0.2], [-0.2, 0.2, 0.3])
    by_hand("margin", [0.2, 0.5, 0.3], [0.3, -0.2, 0.2], u=0.4)
    # two at the top: nothing between them
    by_hand("margin", [0.4, 0.4, 0.2], [0.0, 0.0, 0.2])
    # a masked class is no other class: .25 - .75, .75 - .25
    by_hand("margin", [0.25, 0.0, 0.75], [0.5, math.inf, -0.5])


def test_temperature_by_hand():
    # weights 16, 4, 1 are 4, 2, 1 at T = 2: p = 4/7, 2/7, 1/7
    logits = np.log([[16.0, 4.0, 1.0]])
    assert scores("lac", logits, temperature=2.0)[0] == pytest.approx([3 / 7, 5 / 7, 6 / 7], abs=1e-15)
    assert scores("aps", logits, temperature=2.0)[0] == pytest.approx([4 / 7, 6 / 7, 1.0], abs=1e-15)
    # 256, 16, 1 at T = 1/2: 273 in all
    assert scores("lac", logits, temperature=0.5)[0] == pytest.approx([17 / 273, 257 / 273, 272 / 273], abs=1e-15)


def test_masked_class_by_hand():
    # the mask takes no mass: p = .75, .25 and u = .5: .375; .75 + .125 = .875
    by_hand("aps", [0.25, 0.0, 0.75], [0.875, math.inf, 0.375], u=0.5)
    by_hand("lac", [0.25, 0.0, 0.75], [0.75, math.inf, 0.25])
    by_hand(RAPS(penalty=0.1, k_reg=1), [0.25, 0.0, 0.75], [0.975, math.inf, 0.375], u=0.5)
    by_hand("saps", [0.25, 0.0, 0.75], [0.85, math.inf, 0.375], u=0.5)  # .75 + .5 * .2
    # one class left: its probability is 1
    for method in SCORES:
        by_hand(method, [0.0, 1.0], [math.inf, {"lac": 0.0, "topk": 2.0, "margin": -1.0, "pas": 0.0}.get(method, 1.0)])


def test_one_u_for_each_row():
    logits = np.log([[0.5, 0.3, 0.2]] * 3)
    # 0, .5, .8; then .25, .65, .9; then .5, .8, 1
    expected = [[0.0, 0.5, 0.8], [0.25, 0.65, 0.9], [0.5, 0.8, 1.0]]
    np.testing.assert_allclose(scores("aps", logits, u=[0.0, 0.5, 1.0]), expected, rtol=0, atol=1e-15)


@settings(max_examples=examples(150))
@given(
    parts=st.lists(st.integers(1, 1000), min_size=2, max_size=9),
    u=st.fractions(0, 1, max_denominator=64),
    method=st.sampled_from([name for name in oracle.METHODS if name != "pas"]),  # a logarithm is no fraction
)
def test_probabilities_given_as_fractions(parts, u, method):
    """In fractions there is no rounding at all: p = parts / sum(parts)."""
    u = Fraction(float(u))  # the library's u is a float; take the number it is
    exact = oracle.row_scores(method, parts, [Fraction(part) for part in parts], u)
    found = scores(method, np.log([parts]), u=float(u))[0]
    widest = math.log(max(parts) / min(parts))
    for one, score in zip(found, exact, strict=True):
        # np.log rounds each logit: one more rounding of |w| than the oracle's bound counts, which has room for it
        assert abs(Fraction(float(one)) - score.value) <= oracle.rounding_bound(len(parts), widest)


def _rows():
    def of(n_classes):
        number = st.one_of(st.floats(-30, 30), st.integers(-30, 30).map(float), st.floats(-0.01, 0.01))
        return st.lists(st.one_of(number, number, number, st.just(-math.inf)), min_size=n_classes, max_size=n_classes)

    return st.integers(2, 8).flatmap(of).filter(lambda row: max(row) > -math.inf)


def _tie_break(method, score):
    """-log of the mass that is left; log-odds for LAC and PAS, whose values saturate near 0 as well."""
    if method in ("lac", "pas"):
        return oracle.log_odds(score.mass)
    mass = score.tie if method == "topk" else score.mass
    return math.inf if mass == 1 else -mp.log(1 - mass)


@settings(max_examples=examples(600))
@given(
    row=_rows(),
    temperature=st.sampled_from(TEMPERATURES),
    u=st.one_of(st.just(1.0), st.just(0.0), st.floats(2.0**-53, 1 - 2.0**-53)),
    method=st.sampled_from(oracle.METHODS),
)
def test_both_numbers_of_a_pair_against_mpmath(row, temperature, u, method):
    """The value is the paper's number and the tie-break what resolves its mass near one, to the rounding bound."""
    logits = np.array([row])
    pairs = score_matrix(logits, SCORES[method], temperature, Randomness(given=np.array([u])))
    bound = oracle.rounding_bound(len(row), oracle.widest_exponent([row], temperature))
    top = oracle.ranking(row)[0]
    with mp.workdps(oracle.digits([row], temperature)):
        weights = oracle.weights(row, temperature)
        exact = oracle.row_scores(method, row, weights, u)
        for label, score in enumerate(exact):
            value, tie = float(pairs[0, label].real), float(pairs[0, label].imag)
            if score.offset == math.inf:
                assert value == math.inf
                continue
            if score.running and abs(score.mass - oracle.SATURATED) <= bound:
                continue  # it may count as 1 or as what it is
            assert abs(value - score.value) <= bound * max(1, score.value)
            if method == "saps":
                expected = -mp.log(1 - weights[top] / sum(weights)) if sum(weights) > weights[top] else math.inf
            elif method == "margin" and label == top:
                expected = mp.log(score.mass)
            else:
                expected = _tie_break(method, score)
            assert tie == expected or abs(tie - expected) <= bound


def test_scores_that_float64_cannot_tell_apart_stay_in_order():
    # 1 - s of the deterministic APS score of the top label is about exp(-gap / T): 60 / .01 = 6000
    gaps = np.linspace(1, 60, 60)
    logits = np.zeros((60, 3))
    logits[:, 1] = -gaps
    logits[:, 2] = -gaps - 1
    for name in ("aps", "raps"):
        pairs = label_scores(logits, np.zeros(60, dtype=np.int64), SCORES[name], 0.01, Randomness())
        assert set(pairs.real) == {1.0}
        assert np.all(np.diff(pairs.imag) > 0)
    # LAC of the second label: p is about exp(-gap / T)
    pairs = label_scores(logits, np.ones(60, dtype=np.int64), LAC(), 0.01, Randomness())
    assert np.all(np.diff(pairs.imag) > 0)


def test_penalised_scores_stay_in_order():
    gaps = np.linspace(1, 60, 60)
    logits = np.zeros((60, 4))
    logits[:, 1:] -= gaps[:, None] + [0, 1, 2]
    score = RAPS(penalty=0.01, k_reg=1)
    pairs = label_scores(logits, np.full(60, 2, dtype=np.int64), score, 0.01, Randomness(given=np.full(60, 0.5)))
    assert set(pairs.real) == {1.0 + 0.01 * 2}  # rank 3, two beyond k_reg: nothing left in the value
    assert np.all(np.diff(pairs.imag) > 0)


# Limits of the temperature (docs/definitions.md, section 7). Logits are whole numbers, so that limiting keys differ by
# at least one and 1 / T of 1000 leaves no doubt about order; rows of equal keys may come in any order.


def _whole_rows(n, n_classes, seed):
    rng = np.random.default_rng(seed)
    logits = np.array([rng.choice(120, size=n_classes, replace=False) for _ in range(n)], dtype=np.float64)
    return logits, rng.integers(0, n_classes, size=n), rng.uniform(0.01, 0.99, size=n)


def _assert_ordered_by(keys, pairs):
    """Rows with a smaller key have a smaller score."""
    order = sorted(range(len(keys)), key=lambda i: keys[i])
    score = [(float(pairs[i].real), float(pairs[i].imag)) for i in order]
    key = [keys[i] for i in order]
    start, low = 0, None
    while start < len(order):
        stop = start
        while stop < len(order) and key[stop] == key[start]:
            stop += 1
        assert low is None or low < min(score[start:stop])
        low = max(score[start:stop])
        start = stop
    assert len(set(key)) > 10


def _limit_keys(logits, labels):
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        ranked = sorted(row, reverse=True)
        yield row, row[label], ranked, ranked.index(row[label]) + 1


def test_limit_of_lac_towards_zero():
    logits, labels, _ = _whole_rows(400, 10, 1)
    keys = [max(z for z in row if z != own) - own for row, own, _, _ in _limit_keys(logits, labels)]
    _assert_ordered_by(keys, label_scores(logits, labels, LAC(), 1e-3, Randomness()))


def test_limit_of_randomised_aps_towards_zero():
    logits, labels, u = _whole_rows(400, 10, 2)
    keys = [
        (0, one) if rank == 1 else (1, ranked[0] - own)
        for one, (_, own, ranked, rank) in zip(u, _limit_keys(logits, labels), strict=True)
    ]
    _assert_ordered_by(keys, label_scores(logits, labels, APS(), 1e-3, Randomness(given=u)))


def _next(ranked, rank):
    return math.inf if rank == len(ranked) else ranked[0] - ranked[rank]


def test_limit_of_deterministic_aps_towards_zero():
    logits, labels, _ = _whole_rows(400, 10, 3)
    keys = [_next(ranked, rank) for _, _, ranked, rank in _limit_keys(logits, labels)]
    _assert_ordered_by(keys, label_scores(logits, labels, APS(), 1e-3, Randomness()))


def test_limit_of_raps_towards_zero():
    logits, labels, u = _whole_rows(600, 10, 4)
    beyond = [max(rank - 5, 0) for _, _, _, rank in _limit_keys(logits, labels)]
    aps = [_next(ranked, rank) for _, _, ranked, rank in _limit_keys(logits, labels)]
    keys = list(zip(beyond, aps, strict=True))
    _assert_ordered_by(keys, label_scores(logits, labels, RAPS(), 1e-3, Randomness()))
    keys = [
        (0, 0, one) if rank == 1 else (extra, 1, ranked[0] - own)
        for one, extra, (_, own, ranked, rank) in zip(u, beyond, _limit_keys(logits, labels), strict=True)
    ]
    _assert_ordered_by(keys, label_scores(logits, labels, RAPS(), 1e-3, Randomness(given=u)))


def test_limit_of_lac_towards_infinity():
    # log-odds of 1 - p are log(C - 1) + (mean - z) C / ((C - 1) T) + O((range / T)^2): keys in steps of 1 / C
    logits, labels, _ = _whole_rows(400, 10, 5)
    keys = [round(sum(row) - 10 * own) for row, own, _, _ in _limit_keys(logits, labels)]
    _assert_ordered_by(keys, label_scores(logits, labels, LAC(), 1e8, Randomness()))


@pytest.mark.parametrize("score", [APS(), RAPS(penalty=0.1, k_reg=3)], ids=["aps", "raps"])
def test_limit_of_aps_and_raps_towards_infinity(score):
    logits, labels, u = _whole_rows(300, 10, 6)
    temperature = 1e9
    found = label_scores(logits, labels, score, temperature, Randomness(given=u)).real
    for one, value, (_, _, _, rank) in zip(u, found, _limit_keys(logits, labels), strict=True):
        extra = 0.1 * max(rank - 3, 0) if isinstance(score, RAPS) else 0.0
        # every p lies between exp(-range / T) / C and exp(range / T) / C
        assert abs(value - ((rank - 1 + one) / 10 + extra)) <= math.expm1(120 / temperature) + 1e-15


def test_resolve_takes_names_and_objects():
    assert resolve("raps") == RAPS()
    assert resolve(SAPS(weight=0.3)) == SAPS(weight=0.3)


@pytest.mark.parametrize("method", ["apps", "", None, 3, APS])
def test_an_unknown_method_is_answered_with_the_names(method):
    with pytest.raises(InputError, match="method must be ") as raised:
        resolve(method)
    for name in SCORES:
        assert repr(name) in str(raised.value)
    assert repr(method) in str(raised.value)


@pytest.mark.parametrize("u", [-0.1, 1.1, math.nan, [0.5], [[0.5, 0.5]], [0.5, 2.0]])
def test_scores_refuse_a_bad_u(u):
    with pytest.raises(InputError, match="u must"):
        scores("aps", [[1.0, 2.0], [3.0, 4.0]], u=u)


@pytest.mark.parametrize("temperature", [0, 0.0, -1, math.nan, math.inf, "1", None, True])
def test_scores_refuse_a_bad_temperature(temperature):
    with pytest.raises(InputError, match="temperature must be a finite number > 0"):
        scores("aps", [[1.0, 2.0]], temperature=temperature)


@pytest.mark.parametrize("value", [10**400, 2e9, float("nan"), float("inf"), True, "1", None, -1])
@pytest.mark.parametrize("made", [lambda x: RAPS(penalty=x), lambda x: RAPS(k_reg=x), lambda x: SAPS(weight=x)])
def test_parameters_have_bounds(made, value):
    with pytest.raises(InputError, match=r"must be a finite number >= 0, up to 1e\+09; got "):
        made(value)


@pytest.mark.parametrize("score", [RAPS(penalty=1e9, k_reg=0), SAPS(weight=1e9), RAPS(k_reg=1e9)], ids=str)
def test_the_largest_parameters_make_sets(score):
    logits, labels = np.random.default_rng(0).normal(size=(200, 5)), np.arange(200) % 5
    model = ConformalClassifier(score).fit(logits, labels)
    assert np.isfinite(model.threshold_)
    assert model.predict_set(logits)[np.arange(200), labels].mean() >= 0.9 - 1 / 200
