"""The sharp bound b*(T, C): the margin above which the sign of theorem 4.4 holds whatever the other logits are.

Let all logits but the largest be equal, D below it: a flat tail. With a = ln(C - 1), the top probability at inverse
temperature x moves with z_1 at the rate x p (1 - p) = x / (4 cosh^2((x D - a) / 2)). So for a flat tail the sign turns
where cosh((D - a) / 2) = sqrt(T) cosh((D / T - a) / 2), which is the equation

    D (1 - 1/T) + 2 ln(1 + (C - 1) e^-D) - 2 ln(1 + (C - 1) e^(-D/T)) = ln T.

It has one root D >= 0 for T > 1, and b*(T) = T b*(1/T) below 1. In the limit T -> 1 it is D tanh((D - a) / 2) = 1. The
page "Theory" proves this, and that no other tail needs a larger margin.
"""

from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from thermoset.bounds import checked_temperature
from thermoset.errors import InputError
from thermoset.paper.theory.bound import checked_classes, checked_temperatures, last_where, plain, share_above
from thermoset.paper.theory.gaps import margins
from thermoset.paper.theory.propositions import Check, derivative_has_sign
from thermoset.paper.theory.sorted_rows import Bools, Floats, finite_logits

__all__ = ["sharp_bound", "sharp_share", "sharp_theorem", "sign_share"]

_SMALL = 1.0  # of half the exponents' difference: below it, the quotient of the cosh is written as 1 + something


@overload
def sharp_bound(temperature: float, n_classes: int) -> float: ...
@overload
def sharp_bound(temperature: ArrayLike, n_classes: ArrayLike) -> Floats: ...
def sharp_bound(temperature: ArrayLike, n_classes: ArrayLike) -> Floats | float:
    """Sharp bound b*(T) for C classes: the smallest number that can stand for b(T) in theorem 4.4.

    Numbers or arrays. It rises with T, through T = 1 too, where it is the limit from both sides.

    >>> sharp_bound([0.5, 1.0, 1.5, 5.0], 100).round(3)
    array([3.401, 5.001, 6.044, 9.081])
    >>> from thermoset.paper.theory import bound
    >>> round(bound(1.1, 100), 1), round(sharp_bound(1.1, 100), 1)
    (16.3, 5.2)
    """
    t, c = np.broadcast_arrays(checked_temperatures(temperature), checked_classes(n_classes))
    a = np.log(c - 1.0)
    at_one = last_where(lambda d: d * np.tanh((d - a) / 2) < 1, np.maximum(a, 0.5), a + 3.0)
    with np.errstate(over="ignore", divide="ignore"):
        cooler = np.where(t > 1, 1 / t, t)  # of the two inverse temperatures, 1 and 1/T, over the larger one
        away = np.where(t > 1, (t - 1) / t, 1 - t)
        # h(D) >= D and h(D / T) <= D / T + 2 ln C bound the root where D <= T b*(1) is not finite
        above = np.minimum(at_one / cooler, (np.abs(np.log(t)) + 2 * np.log(c)) / away)
    inside = np.where(away == 0, at_one, np.minimum(at_one, above))
    wanted = np.abs(np.log(t))
    root = last_where(lambda d: _log_cosh_ratio(d, a, away) < wanted, inside, np.where(away == 0, at_one, above))
    return plain(np.where(t < 1, cooler * root, root))


def _log_cosh_ratio(d: Floats, a: Floats, away: Floats) -> Floats:
    """2 ln(cosh x / cosh y) for x = (d - a) / 2 and y = x - d away / 2, without cancellation where x is close to y."""
    x, step = (d - a) / 2, d * away / 2
    y = x - step
    near = np.minimum(step, _SMALL)
    # cosh x / cosh y = cosh(step) + tanh(y) sinh(step)
    close = np.log1p(2 * np.sinh(near / 2) ** 2 + np.tanh(y) * np.sinh(near))
    far = np.abs(x) - np.abs(y) + np.log1p(np.exp(-2 * np.abs(x))) - np.log1p(np.exp(-2 * np.abs(y)))
    return np.asarray(2 * np.where(step < _SMALL, close, far))


def sharp_theorem(logits: Any, temperature: float, m: ArrayLike = 1) -> Check:
    """Theorem 4.4 with b*(T) in place of b(T): the weakest premise on the margin alone that implies the sign.

    The sign at M = 1 is the last to turn, so the default checks all M at once. At T = 1 there is no sign.

    >>> z = [[9.0, 0.0, 0.0], [3.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    >>> sharp_theorem(z, 1.5)  # b*(1.5) is 2.4, b(1.5) 5.4
    Check(premise holds for 2 of 3, conclusion fails for 0 of those)
    """
    data, t = finite_logits(logits), _not_one(temperature)
    return Check(margins(data) > sharp_bound(t, data.n_classes), derivative_has_sign(data, t, m))


def sharp_share(logits: Any, temperatures: ArrayLike) -> Floats:
    """Share of rows whose margin is above b*(T), at each temperature; it cannot rise with T.

    >>> sharp_share([[9.0, 0.0, 0.0], [3.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [0.5, 1.5, 20.0]).round(2)
    array([0.67, 0.67, 0.33])
    """
    data = finite_logits(logits)
    return share_above(margins(data), sharp_bound(checked_temperatures(temperatures), data.n_classes))


def sign_share(logits: Any, temperatures: ArrayLike) -> Floats:
    """Share of rows whose derivative has the sign of theorem 4.4 for every M < C, whatever their margin.

    At least `sharp_share`: there the sign is certain from the margin alone. Not at T = 1, where it is 0 of itself.

    >>> sign_share([[9.0, 0.0, 0.0], [2.0, 0.0, -9.0], [1.0, 0.0, 0.0]], [1.5, 20.0]).round(2)
    array([0.67, 0.33])
    """
    data = finite_logits(logits)
    found: list[Bools] = [
        derivative_has_sign(data, _not_one(t), 1) for t in np.ravel(checked_temperatures(temperatures)).tolist()
    ]
    return np.array([rows.mean() for rows in found]).reshape(np.shape(temperatures))


def _not_one(temperature: float) -> float:
    t = checked_temperature(temperature)
    if t == 1:
        raise InputError("the gap at T = 1 is 0 and has no sign. Pass another temperature.")
    return t
