"""The sharp bound: its values, its proof step by step, and adversarial tails on both sides of it, in mpmath."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp

from conftest import REAL
from paper.theory import exact
from thermoset import Logits, theory
from tiers import examples

EXACT = settings(max_examples=examples(200))
CLASSES = [2, 3, 4, 10, 100, 1000, 10**6]

# computed by others, with another program
VALUES = {
    10: {0.5: 1.988, 0.9: 2.761, 1.1: 3.053, 1.5: 3.524, 2.5: 4.329, 5.0: 5.410},
    100: {0.5: 3.401, 0.9: 4.740, 0.99: 4.975, 1.01: 5.025, 1.1: 5.241, 1.37: 5.807, 1.5: 6.044, 2.5: 7.387, 5: 9.081},
    1000: {0.5: 4.881, 0.9: 6.812, 1.1: 7.532, 1.5: 8.683, 2.5: 10.581, 5.0: 12.870},
}
anywhere = st.one_of(exact.not_one, st.floats(0.01, 1000).filter(lambda t: t != 1))


def right_sign(t):
    return -1 if t > 1 else 1


def all_signs(z, t):
    """Certain signs of the derivative for M = 1 .. C - 1."""
    return exact.signs(lambda: exact.slopes(z, t, range(1, len(z))), exact.roundings(z, 1, t))


@pytest.mark.parametrize(("c", "t", "want"), [(c, t, want) for c, row in VALUES.items() for t, want in row.items()])
def test_values_that_others_computed(c, t, want):
    assert round(theory.sharp_bound(t, c), 3) == want


@given(anywhere, st.sampled_from(CLASSES))
@example(0.01, 2)
@example(1000.0, 10**6)
@example(1 + 2.0**-52, 100)
@example(1 - 2.0**-53, 100)
@EXACT
def test_it_is_the_root_of_the_equation(t, c):
    found = theory.sharp_bound(t, c)
    with mp.workdps(60):
        # the equation changes its sign within 8 roundings of what is returned
        sides = [exact.sharp_excess(mp.mpf(found) * (1 + k * 2.0**-50), t, c) for k in (-1, 1)]
    assert [mp.sign(side) for side in sides] == ([-1, 1] if t > 1 else [1, -1])


@given(anywhere, st.sampled_from(CLASSES))
@EXACT
def test_there_is_one_root_and_it_is_above_ln_c_minus_1_when_t_is(t, c):
    root = theory.sharp_bound(t, c)
    with mp.workdps(60):
        signs = [mp.sign(exact.sharp_excess(root * k, t, c)) for k in np.linspace(0, 3, 61) if abs(k - 1) > 1e-9]
    below, above = (-1, 1) if t > 1 else (1, -1)
    assert signs == [below] * 20 + [above] * 40
    assert root > np.log(c - 1) * min(t, 1)


def test_the_root_at_one_is_the_limit_and_both_sides_reach_it():
    for c in CLASSES:
        at_one = theory.sharp_bound(1.0, c)
        with mp.workdps(40):
            a = mp.log(c - 1)
            want = mp.findroot(lambda d, a=a: d * mp.tanh((d - a) / 2) - 1, a + 1)
        assert at_one == pytest.approx(float(want), rel=4e-16)
        # b* has a slope of b*(1)/2 at 1, since b*(T) = T b*(1/T): sides differ by no more than that
        for step in (1e-3, 1e-8, 1e-15):
            down, up = theory.sharp_bound([1 - step, 1 + step], c)
            assert 0 <= at_one - down <= at_one * step
            assert 0 <= up - at_one <= at_one * step


@given(st.floats(0.01, 1000), st.sampled_from(CLASSES))
@EXACT
def test_mirrored_temperatures_have_mirrored_roots(t, c):
    assert theory.sharp_bound(t, c) == pytest.approx(t * theory.sharp_bound(1 / t, c), rel=1e-14)
    # both are where w p (1 - p) of a flat tail has one and the same value
    with mp.workdps(40):
        d, v = mp.mpf(theory.sharp_bound(t, c)), mp.mpf(theory.sharp_bound(t, c)) / mp.mpf(t)
        heights = [w / mp.cosh((w - mp.log(c - 1)) / 2) ** 2 for w in (d, v)]
        assert abs(heights[0] / heights[1] - 1) < 1e-12


@pytest.mark.parametrize("c", CLASSES)
def test_it_rises_with_t_and_is_never_above_the_papers_bound(c):
    grid = np.unique(np.concatenate([np.geomspace(0.01, 1000, 2001), 1 + np.linspace(-0.01, 0.01, 201)]))
    found = theory.sharp_bound(grid, c)
    assert np.all(np.diff(found) > 0)
    assert np.all(found <= theory.bound(grid, c))
    assert theory.sharp_bound(grid[:3, None], np.array([c, c + 1])).shape == (3, 2)


@st.composite
def tails(draw, classes=(2, 3, 4, 5, 10, 20, 50, 200)):
    """Temperature, classes, and how far below the second class the third and later ones are: shapes made to be hard."""
    t, c = draw(exact.not_one), draw(st.sampled_from(classes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["flat", "two levels", "nearly flat", "falling", "one far", "all far", "clusters"]))
    n = c - 2
    level = 10.0 ** draw(st.integers(-6, 3))
    fall = {
        "flat": np.zeros(n),
        "two levels": level * (np.arange(n) >= rng.integers(0, n + 1)),
        "nearly flat": level * 1e-6 * rng.random(n),
        "falling": rng.exponential(level, size=n),
        "one far": level * (np.arange(n) == n - 1),
        "all far": np.full(n, level),
        "clusters": rng.choice([0.0, level / 10, level, 3 * level], size=n),
    }[kind]
    return t, c, np.sort(fall)


@EXACT
@given(tails(), st.sampled_from([0.0, 1e-13, 1e-9, 1e-3, 0.1, 1.0]))
def test_above_it_no_tail_and_no_m_has_the_other_sign(case, more):
    t, c, fall = case
    margin = theory.sharp_bound(t, c) * (1 + 1e-14 + more)
    z = [margin, 0.0, *(-fall).tolist()]
    assert set(all_signs(z, t)) == {right_sign(t)}
    check = theory.sharp_theorem([z], t)
    assert check.premise.tolist() == [True]
    assert not len(check.violations) or more < 1e-9, "rounding may hide a derivative that is all but zero"


@EXACT
@given(anywhere, st.sampled_from([2, 3, 10, 100]), st.sampled_from([1e-14, 1e-10, 1e-4, 0.1, 0.9]))
def test_just_below_it_the_flat_tail_has_the_other_sign_at_every_m(t, c, less):
    z = [theory.sharp_bound(t, c) * (1 - less), *[0.0] * (c - 1)]
    assert set(all_signs(z, t)) == {-right_sign(t)}
    assert theory.sharp_theorem([z], t).premise.tolist() == [False]
    if less > 1e-9:
        assert theory.sharp_theorem([z], t).conclusion.tolist() == [False]


@EXACT
@given(tails(), st.sampled_from([0.0, 1e-6, 0.1, 2.0]))
def test_the_steps_of_the_proof(case, more):
    t, c, fall = case
    hot = max(t, 1 / t)  # below 1, the row z / T at the temperature 1/T: the mirror of the proof
    with mp.workdps(60):
        d = mp.mpf(theory.sharp_bound(hot, c)) * (1 + mp.mpf(more) + mp.mpf(10) ** -14)
        warm, k = mp.mpf(hot), 1 - 1 / mp.mpf(hot)
        below = [d, *(d + mp.mpf(x) for x in fall)]
        cool_sum = mp.fsum(mp.exp(-x) for x in below)
        warm_sum = mp.fsum(mp.exp(-x / warm) for x in below)
        flat_ratio = (1 + (c - 1) * mp.exp(-d / warm)) / (1 + (c - 1) * mp.exp(-d))
        tiny = mp.mpf(10) ** -50
        assert mp.exp(k * d) > warm * flat_ratio**2  # the premise
        assert warm_sum / cool_sum >= mp.exp(k * d) * (1 - tiny)  # the first factor is least on the flat tail
        assert (1 + warm_sum) / (1 + cool_sum) <= flat_ratio * (1 + tiny)  # and so is the second
        phi = [mp.exp(-x / warm) - flat_ratio * mp.exp(-x) for x in below]
        assert all(one <= phi[0] * (1 + tiny) for one in phi)  # because this falls from the margin on


def test_a_search_for_the_worst_tail_ends_at_the_flat_one():
    # random tails, the worst kept and varied: what is searched for is the least ratio of the two terms of the slope
    rng = np.random.default_rng(0)
    for t, c in ((1.05, 10), (1.5, 5), (3.0, 20), (0.4, 10)):
        margin = theory.sharp_bound(t, c) * (1 + 1e-6)

        def room(falls, t=t, margin=margin):
            z = np.column_stack([np.full(len(falls), margin), np.zeros(len(falls)), -falls])
            first, second = theory.gaps.slope_logs(Logits(z), t, np.ones(len(z), dtype=int))
            return (second - first) * (1 if t > 1 else -1)

        falls = rng.exponential(rng.choice([0.01, 1, 10], size=(2000, 1)), size=(2000, c - 2))
        least = room(np.zeros((1, c - 2)))[0]
        assert least > 0
        for width in np.geomspace(1, 1e-3, 30):
            best = falls[np.argsort(room(falls))[:50]]
            falls = np.abs(np.repeat(best, 40, axis=0) + width * rng.normal(size=(2000, c - 2)))
            assert room(falls).min() >= least * (1 - 1e-9)
        assert falls[np.argmin(room(falls))].max() < 0.1, "the search went to the flat tail"


def test_shares_and_signs():
    rng = np.random.default_rng(0)
    z = 4 * rng.normal(size=(300, 10))
    grid = np.array([0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 10.0])
    share = theory.sharp_share(z, grid)
    assert share.tolist() == pytest.approx([np.mean(theory.margins(z) > theory.sharp_bound(t, 10)) for t in grid])
    assert np.all(np.diff(share) <= 0)
    assert np.all(share >= theory.bound_share(z, grid))
    signs = theory.sign_share(z, grid[grid != 1])
    assert np.all(signs >= share[grid != 1])
    assert signs[5] == theory.sharp_theorem(z, 10.0).conclusion.mean()


@pytest.mark.slow
def test_a_row_can_lose_the_sign_and_have_it_again():
    # so only the share above b* must fall with T; that of the signs falls on data, and need not
    z = [1.6, 0.0, *[-15.9] * 10_000]
    grid = [1.05, 1.3, 1.6, 2.0]
    signs = [exact.signs(lambda t=t: exact.slopes(z, t, [1]), exact.roundings(z, 1, t))[0] for t in grid]
    assert signs == [-1, 1, -1, 1]
    assert theory.sign_share([z], grid).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("name", REAL)
def test_on_published_logits_it_is_never_refuted_and_the_sign_is_lost_as_t_grows(real, name):
    z = real(name)[0][:2000]
    grid = np.array([1.01, 1.1, 1.37, 1.7, 2.4, 4.0])
    for t in (0.3, 0.95, *grid):
        assert not len(theory.sharp_theorem(z, float(t)).violations)
    signs, share = theory.sign_share(z, grid), theory.sharp_share(z, grid)
    assert np.all(np.diff(signs) <= 0)
    assert np.all(signs >= share)
    assert np.all(share >= theory.bound_share(z, grid))
