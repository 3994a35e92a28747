"""What the theory cannot be asked is refused, with what to do instead."""

import numpy as np
import pytest

from law import generated
from thermoset import InputError, Logits, theory

Z = np.random.default_rng(0).normal(size=(30, 5))
Y = np.arange(30) % 5
ROWS = Logits(Z, Y)


@pytest.mark.parametrize(
    ("function", "arguments", "says"),
    [
        (theory.bound, (0.0, 10), "finite and > 0"),
        (theory.bound, (-1.0, 10), "finite and > 0"),
        (theory.bound, ("a", 10), "numbers > 0"),
        (theory.bound, (2.0, 1), "whole number >= 2"),
        (theory.critical_temperature, (2.5,), "whole number >= 2"),
        (theory.temperature_intervals, (-1.0, 10), "at least 0"),
        (theory.temperature_intervals, (np.nan, 10), "at least 0"),
        (theory.sharp_bound, (0.0, 10), "finite and > 0"),
        (theory.sharp_bound, (2.0, 1), "whole number >= 2"),
        (theory.sharp_theorem, (Z, 1.0), "got T = 1"),
        (theory.sharp_theorem, (Z, 2.0, 5), "the gap of all classes is always 0"),
        (theory.sign_share, (Z, [2.0, 1.0]), "got T = 1"),
        (theory.gap, (Z, 1.5, 6), "from 0 to 5"),
        (theory.gap, (Z, 1.5, 1.5), "whole number"),
        (theory.gap, (Z, 1.5, [1, 2]), "one for each of 30 rows"),
        (theory.gap, (Z, 0.0, 1), "finite number > 0"),
        (theory.theorem_4_1, (Z, 2.0, 1.0, 1), "cool must be below hot"),
        (theory.theorem_4_4, (Z, 2.0, 5), "from 1 to 4"),
        (theory.margins, (np.where(Z.max() == Z, -np.inf, Z),), "finite logits"),
        (theory.paper_sizes, (Z, 1.0, 1.5), r"in \(0, 1\]"),
        (theory.proposition_4_3, (Z, 2.0, 0.5, 0.6), "thresholds fall as T grows"),
        (theory.routes, (ROWS, ROWS, 1.0), "got T = 1"),
        (theory.corollary_4_2, (Z, Y, [2.0, 1.0]), "temperatures must increase"),
        (theory.limit_scores, (Z, "warm"), "limit must be 'cold'"),
        (theory.limit_sizes, (Logits(Z), Z, "cold"), "needs labels"),
        (theory.size_slopes, (Z, None, [1.0]), "needs labels"),
        (theory.size_slopes, (Z, Y, [0.0]), "temperature must be"),
        (theory.quantile_samples, (Z[:2], Y[:2]), "needs at least 9 conformal rows; got 2"),
        (theory.quantile_samples, (Logits(Z),), "needs labels"),
        (theory.score_order, (Z,), "needs labels"),
    ],
)
def test_what_cannot_be_asked_is_refused(function, arguments, says):
    with pytest.raises(InputError, match=says):
        function(*arguments)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: theory.routes(ROWS, ROWS, 2.0, alpha=0.01), "needs at least 99 conformal rows; got 30"),
        (lambda: theory.paper_sizes(Z, 1.0, 0.5, u=[0.5]), "one for each of 30 rows"),
        (lambda: theory.limit_scores(Z, "cold", method="lac"), "limits are available only for APS and RAPS"),
        (lambda: theory.size_slopes(Z, Y, [1.0], method="lac"), "only for APS and RAPS"),
        (lambda: theory.size_slopes(100 * generated(50, 5, signal=-1)[0], Y.repeat(2)[:50], [0.011]), "Use a higher T"),
    ],
)
def test_options_that_cannot_be_are_refused(call, says):
    with pytest.raises(InputError, match=says):
        call()
