"""Bounds of the mass outside the largest logits: they hold whatever the others are, and are what the proof says."""

import numpy as np
import pytest
from hypothesis import example, given
from mpmath import mp

from thermoset.data.tail_mass import Stated, stated_bounds, tail_bounds, too_heavy, too_light
from tops import KINDS, TEMPERATURES, cut_down, rows

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def exact_rest(logits, tops, temperature):
    """The mass of the classes that are not kept, with 60 digits."""
    others = np.delete(logits[0].astype(np.float64), tops.indices[0])
    with mp.workdps(60):
        top = mp.mpf(float(logits.max()))
        return sum((mp.exp((mp.mpf(z) - top) / mp.mpf(temperature)) for z in others if z > -np.inf), mp.mpf(0))


@EVERY_KIND
@given(rows())
def test_bounds_hold_the_mass_that_is_not_kept(kind, drawn):
    logits, top, temperature = drawn
    tops = cut_down(logits, top, kind)
    bounds = tail_bounds(tops.logits, tops.stated, tops.n_classes, temperature)
    mass = exact_rest(logits, tops, temperature)
    with mp.workdps(60):
        assert mp.exp(bounds.low[0]) <= mass <= mp.exp(bounds.high[0])


FLAT = np.array([[7.0, *[0.0] * 11, *[-np.inf] * 4]], dtype=np.float16)


@EVERY_KIND
@given(rows())
@example((FLAT, 4, 3.0))  # a chord between equal ends came out above them
def test_what_is_stated_never_widens_the_bounds(kind, drawn):
    logits, top, temperature = drawn
    nothing, some = (
        tail_bounds(tops.logits, tops.stated, tops.n_classes, temperature)
        for tops in (cut_down(logits, top, "nothing"), cut_down(logits, top, kind))
    )
    assert some.low[0] >= nothing.low[0]
    assert some.high[0] <= nothing.high[0]


def test_nothing_stated_leaves_what_equal_logits_would_weigh():
    tops = cut_down(np.array([[2.0, 1.5, 1.0, 0.5, -3.0, -4.0, -5.0]]), 4, "nothing")
    bounds = tail_bounds(tops.logits, tops.stated, 7, 0.5)
    assert bounds.low[0] == -np.inf
    assert bounds.high[0] == pytest.approx(np.log(3) + (0.5 - 2.0) / 0.5, rel=1e-12)  # three classes at z_K


def test_one_stated_temperature_gives_the_power_means():
    # With w the weights at T = 1 in units of that of z_K, and S their sum, the mass at T is sum w**(1/T) in its units.
    # For 1/T = 2 at least n (S/n)**2 (all equal) and at most S (each is 0 or 1), for 1/T = 1/2 the other way round.
    logits = np.array([[2.0, 1.5, 1.0, 0.5, -3.0, -4.0, -5.0]])
    tops = cut_down(logits, 4, "one")
    total = np.exp(np.array([-3.0, -4.0, -5.0]) - 0.5).sum()
    for temperature, ends in ((0.5, (3 * (total / 3) ** 2, total)), (2.0, (total, 3 * (total / 3) ** 0.5))):
        bounds = tail_bounds(tops.logits, tops.stated, 7, temperature)
        lowest, highest = (np.log(end) - 1.5 / temperature for end in ends)
        assert bounds.low[0] == pytest.approx(lowest, abs=1e-11)
        assert bounds.high[0] == pytest.approx(highest, abs=1e-11)


def test_at_a_stated_temperature_the_mass_is_known():
    logits = np.random.default_rng(0).normal(size=(50, 40)) * 3
    tops = cut_down(logits, 8)
    for temperature in TEMPERATURES:
        bounds = tail_bounds(tops.logits, tops.stated, 40, temperature)
        assert (bounds.high - bounds.low).max() < 1e-11


def test_masked_classes_weigh_nothing():
    logits = np.array([[1.0, 0.5, 0.2, 0.1, -np.inf, -np.inf], [1.0, 0.5, 0.2, -np.inf, -np.inf, -np.inf]])
    stated, silent = cut_down(logits, 4), cut_down(logits, 4, "nothing")
    for temperature in (0.1, 1.0, 3.0):
        assert tail_bounds(stated.logits, stated.stated, 6, temperature).high.tolist() == [-np.inf, -np.inf]
        # Without a word, two classes may be as large as the last that is kept, unless that is masked itself.
        found = tail_bounds(silent.logits, silent.stated, 6, temperature).high
        assert found[0] == pytest.approx(np.log(2) - 0.9 / temperature, rel=1e-12)
        assert found[1] == -np.inf


def test_sums_that_cannot_be_are_seen():
    logits = np.array([[2.0, 1.0, 0.5, 0.0]])
    sums = lambda value, of_all: Stated(np.ones(1), np.array([[value]]), of_all)  # noqa: E731
    assert too_heavy(stated_bounds(logits, sums(np.log(3.1), of_all=False), 7), 3).all()  # three classes weigh 3
    assert not too_heavy(stated_bounds(logits, sums(np.log(3.0), of_all=False), 7), 3).any()
    kept = np.log(np.exp(logits).sum())
    assert too_light(stated_bounds(logits, sums(kept - 1e-6, of_all=True), 7)).all()
    assert not too_light(stated_bounds(logits, sums(kept, of_all=True), 7)).any()
