"""Confidence map: the log-odds of the top label at T*, mapped to what they are worth.

One temperature scales all log-odds alike. Where that is not enough, an increasing, piecewise linear map of the top
label's log-odds g is: c = sigmoid(m(g)). The other classes share 1 - c as they shared 1 - p, and c is at least the
share at which the second class would overtake the first, so order and top label stay.
"""

from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from thermoset import kernels
from thermoset.arrays import Block, Bools, Floats, Ints, as_float64
from thermoset.data import Logits
from thermoset.rows import map_rows, row_array
from thermoset.uniforms import stream

LOWEST, HIGHEST = -12.0, 25.0
"""Log-odds beyond these are mapped as these are."""

_SLOPES = (0.05, 3.0)
_THREE_PIECES = 1_000  # rows from which on the map bends; with fewer, where that is clearly better than a line
_BENT_T = 1.0
_STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # of the pull towards the identity, in rows
_FOLDS = 5
_LEAST_T = 0.5
_MOST_ROWS = 200_000
ABOVE = 2.0**-44  # beyond rounding: the top class must not tie with the second


class ConfidenceMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """m(g) = intercept + slopes between knots; the identity has the intercept 0 and slopes 1.

    >>> ConfidenceMap(knots=(1.0,), intercept=0.5, slopes=(1.0, 0.5)).of_odds(np.array([0.0, 1.0, 3.0]))
    array([0.5, 1.5, 2.5])
    """

    knots: tuple[float, ...]
    intercept: float
    slopes: tuple[float, ...]

    def of_odds(self, g: Floats) -> Floats:
        """The mapped log-odds."""
        mapped = np.full(np.shape(g), self.intercept)
        for piece, slope in zip(pieces(g, self.knots), self.slopes, strict=True):
            mapped += slope * piece
        return mapped

    def confidence(self, odds: Floats) -> Floats:
        """The confidence of rows, of which `kernels.top_odds` gave log-odds and the weight of the others, (2, n)."""
        with np.errstate(over="ignore"):
            values = 1.0 / (1.0 + np.exp(-self.of_odds(odds[0])))
        level = (1.0 + ABOVE) / (1.0 + odds[1])  # where the second class would overtake, and a little more
        return np.where(odds[1] > 0, np.maximum(values, level), 1.0)

    def faults(self) -> list[str]:
        """What must hold of a map, and does not."""
        numbers = np.array([*self.knots, self.intercept, *self.slopes])
        if len(self.slopes) != len(self.knots) + 1 or not np.isfinite(numbers).all():
            return ["the confidence map must have numbers, one slope more than knots"]
        if np.any(np.diff(self.knots) <= 0) or not all(_SLOPES[0] <= one <= _SLOPES[1] for one in self.slopes):
            return ["the confidence map must increase, with ascending knots"]
        return []


def pieces(g: Floats, knots: tuple[float, ...]) -> list[Floats]:
    """How far log-odds go on each piece between knots: together, the log-odds within bounds."""
    inside = np.clip(g, LOWEST, HIGHEST)
    if not knots:
        return [inside]
    between = [np.clip(inside - low, 0.0, high - low) for low, high in pairwise(knots)]
    return [np.minimum(inside, knots[0]), *between, np.maximum(inside - knots[-1], 0.0)]


def top_odds(data: Logits, temperature: float) -> Floats:
    """Log-odds of each row's top class at a temperature, and the weight of the others relative to the second, (2, n).

    The log-odds come from the mass of the others, so they do not saturate.
    """
    out: Floats = row_array((2, len(data)))
    map_rows(data, block_odds, out, fixed=[temperature])
    return out


def block_odds(block: Block, temperature: float) -> Floats:
    """The same of a block of rows."""
    out = np.empty((2, len(block)))
    kernels.top_odds(as_float64(block), temperature, np.empty(block.shape[1]), out)
    return out


class MapTrial(NamedTuple):
    """Cross-validated log-loss of "the top label is right" without and with a map, and the map if it was taken."""

    before: float
    after: float
    map: ConfidenceMap | None


def try_map(g: Floats, right: Bools, random_state: int) -> MapTrial:
    """Cross-validate maps of log-odds that are not those of the rows themselves, and fit the best one if it passes."""
    rng = stream(random_state, "folds of the confidence map")
    order = rng.permutation(len(g))[:_MOST_ROWS]
    g, y = np.clip(g, LOWEST, HIGHEST)[order], right[order].astype(np.float64)
    fold_of = np.arange(len(g)) % _FOLDS
    plain = _losses(g, y)
    bent = _cross_validate(g, y, _knots(g), fold_of)
    best = bent
    if len(g) < _THREE_PIECES:
        line = _cross_validate(g, y, (), fold_of)
        best = bent if _t_value(line.losses - bent.losses) > _BENT_T else line
    before, after = float(plain.mean()), float(best.losses.mean())
    if not _t_value(plain - best.losses) > _LEAST_T:
        return MapTrial(before, after, None)
    intercept, *slopes = _fit(_features(g, best.knots), y, best.strength).tolist()
    return MapTrial(before, after, ConfidenceMap(knots=best.knots, intercept=intercept, slopes=tuple(slopes)))


class _Candidate(NamedTuple):
    """A map with these knots: the log-loss of each row under the other folds, at the best strength of the pull."""

    losses: Floats
    knots: tuple[float, ...]
    strength: float


def _cross_validate(g: Floats, y: Floats, knots: tuple[float, ...], fold_of: Ints) -> _Candidate:
    features, candidates = _features(g, knots), []
    for strength in reversed(_STRENGTHS):  # of equal ones, the stronger pull
        losses = np.empty(len(g))
        for k in range(_FOLDS):
            learn, judge = fold_of != k, fold_of == k
            losses[judge] = _losses(features[judge] @ _fit(features[learn], y[learn], strength), y[judge])
        candidates.append(_Candidate(losses, knots, strength))
    return min(candidates, key=lambda one: float(one.losses.sum()))


def _features(g: Floats, knots: tuple[float, ...]) -> Floats:
    return np.column_stack([np.ones(len(g)), *pieces(g, knots)])


def _t_value(gain: Floats) -> float:
    """A mean gain in standard errors; no gain at all is none."""
    error = float(gain.std()) / np.sqrt(len(gain))
    return float(gain.mean()) / error if error > 0 else 0.0


def _knots(g: Floats) -> tuple[float, ...]:
    """Where the thirds of p (1 - p) end: more knots where answers are uncertain."""
    ascending = np.sort(g)
    p = 1.0 / (1.0 + np.exp(-ascending))
    below = np.cumsum(p * (1 - p))
    places = np.searchsorted(below, below[-1] * np.array([1, 2]) / 3)
    knots = ascending[np.minimum(places, len(g) - 1)]
    return tuple(np.unique(knots).tolist())


def _losses(g: Floats, y: Floats) -> Floats:
    """Log-loss of each row: log(1 + e**g) - y g."""
    return np.asarray(np.logaddexp(0.0, g) - y * g)


def _fit(features: Floats, y: Floats, strength: float) -> Floats:
    """Intercept and slopes with the least log-loss, pulled towards the identity and towards equal slopes."""
    from scipy.optimize import minimize  # noqa: PLC0415 - fitting alone needs it

    n_slopes = features.shape[1] - 1
    identity = np.array([0.0, *[1.0] * n_slopes])
    apart = np.diff(np.eye(1 + n_slopes)[1:], axis=0)  # neighbouring slopes
    pull = np.eye(1 + n_slopes) + apart.T @ apart

    def objective(x: Floats) -> tuple[float, Floats]:
        g, away = (features * x).sum(axis=1), x - identity
        slope = (features * (1.0 / (1.0 + np.exp(-g)) - y)[:, None]).sum(axis=0)
        return float(_losses(g, y).sum()) + 0.5 * strength * float(away @ pull @ away), slope + strength * (pull @ away)

    bounds = [(-20.0, 20.0), *[_SLOPES] * n_slopes]
    return np.asarray(minimize(objective, identity, jac=True, method="L-BFGS-B", bounds=bounds).x)
