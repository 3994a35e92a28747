"""Every score of the registry as array operations, and how such a score is compared with a threshold.

A score is a pair (value, tie-break), as in `kernels`. Engines round differently, so values are compared with room for
the rounding error (`band_of`): below that a label is in, above it out, and in between the tie-break decides, with room
of its own. At low temperatures values saturate and tie-breaks decide nearly everything; they are logarithms of masses
that underflow. But the threshold's own tie-break r is known beforehand: weights scaled by e**r (in steps, see `Scale`)
add up to something near 1 exactly where it matters. What then overflows or underflows is far from the threshold, and on
the right side of it.

To export a score: write its `Form` and a line in `FORMS`. The parity tests collect it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Pairs
from thermoset.errors import InputError
from thermoset.integrations.program.by_class import plain_score
from thermoset.integrations.program.operations import Array, Operations
from thermoset.kernels import SATURATED
from thermoset.quoting import quoted
from thermoset.scores import RAPS, SAPS, SCORES, Score

__all__ = ["FORMS", "Cut", "Form", "Named", "Rows", "Scale", "Weights", "band_of", "cut_of", "form_of"]

_SCALE_STEP = 500.0  # e**500 is far from where float64 ends, and so is what 10,000,000 such weights add up to


@dataclass(frozen=True, eq=False)
class Scale:
    """What masses are compared with when they are scaled by e**exponent: shares of the total.

    floor, ceiling : e**(exponent - r) and e**(exponent + r), with r the threshold's tie-break and its room; here :
    which thresholds have their tie-break at this scale.
    """

    exponent: float
    floor: NDArray[np.float64]
    ceiling: NDArray[np.float64]
    here: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Cut:
    """Thresholds as engines compare with them: arrays (1,), or (C,) by class.

    low, high : values below are in, values above are out, and in between the tie-break decides; infinite : whether
    every label is in, masked ones too; scales : mostly one.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    infinite: NDArray[np.bool_]
    scales: tuple[Scale, ...]


def band_of(score: Score, n_classes: int) -> float:
    """A bound of the rounding error of a value, in any engine: of a sum of C shares, and of what is added by rank.

    >>> from thermoset.scores import APS
    >>> band_of(APS(), 1000) < 1e-12
    True
    """
    unit = score.terms.unit if score.compiled else 0.0
    return 4e-16 * (n_classes + 64) * (1.0 + unit * n_classes)


def cut_of(thresholds: Pairs, score: Score, n_classes: int) -> Cut:
    """The thresholds of a predictor, (1,) or (C,), with the room that rounding needs.

    >>> from thermoset.scores import TopK
    >>> cut = cut_of(np.array([1.9 + 2.0j]), TopK(), 10)
    >>> bool(cut.low[0] < 1.9 < cut.high[0]), [round(float(scale.floor[0]), 6) for scale in cut.scales]  # e**-2
    (True, [0.135335])
    """
    value, tie, band = thresholds.real, thresholds.imag, band_of(score, n_classes)
    infinite, finite = np.isposinf(value), np.isfinite(tie)
    size = np.abs(np.where(finite, tie, 0.0))
    limit = tie + band * np.maximum(1.0, size)
    steps = np.where(infinite, 0.0, size // _SCALE_STEP)
    scales = []
    for step in np.unique(steps):
        exponent = float(step * _SCALE_STEP)
        with np.errstate(over="ignore"):
            scales.append(Scale(exponent, np.exp(exponent - limit), np.exp(exponent + limit), steps == step))
    # Logarithms may be large, and are rounded as such.
    room = band * np.maximum(1.0, np.abs(np.where(np.isfinite(value), value, 0.0))) if score.logarithmic else band
    return Cut(value - room, value + room, infinite, tuple(scales))


class Weights(NamedTuple):
    """Weights e**(gap + exponent): (n, K), and the sum (n, 1) of those that a ranking left out."""

    own: Array
    beyond: Array | None


class Rows(NamedTuple):
    """Rows at one temperature, in the order of ranks or of labels.

    gaps : log weights, 0 for the top class; weights : e**gaps; total : their sum with those left out; first : which is
    the top class; u : (n, 1), or the number 1.
    """

    gaps: Array
    weights: Weights
    total: Array
    first: Array
    u: Array


_EXPORTED = {type(score) for score in SCORES.values()}  # not those that users derive from them

Named = Mapping[str, Array]
"""Constants in the engine, by name."""


class Form(NamedTuple):
    """A score as array operations.

    ranked : whether rows must come in the order of ranks; without that no sort is needed.
    needs : names of the arrays (1, C), by rank, that the value takes; constants : makes them for (score, C).
    value : the score's value, for (ops, rows, constants); None if the tie-break decides alone.
    within : whether the tie-break is at most the threshold's, for (ops, rows, weights at a scale, bounds).
    """

    ranked: bool
    needs: tuple[str, ...]
    constants: Callable[[Any, int], dict[str, NDArray[Any]]]
    value: Callable[[Operations, Rows, Named], Array] | None
    within: Callable[[Operations, Rows, Weights, Named], Array]


def form_of(score: Score) -> Form:
    """The form of a score, or an error that says what can be done without one."""
    of = plain_score(score)
    found = FORMS.get(of.name) if type(of) in _EXPORTED else None
    if found is None:
        raise InputError(
            f"score {quoted(score.name)} cannot be exported. Fit the predictor with one of {', '.join(FORMS)}."
        )
    return found


def _none(_score: Score, _n_classes: int) -> dict[str, NDArray[Any]]:
    return {}


def _ranks(n_classes: int) -> NDArray[np.float64]:
    return np.arange(1.0, n_classes + 1)[None]


def _rest(ops: Operations, rows: Rows, weights: Weights) -> Array:
    """Scaled mass of all but the top class."""
    others = ops.total(ops.where(rows.first, 0.0, weights.own))
    return others if weights.beyond is None else others + weights.beyond


def _second(ops: Operations, rows: Rows, weights: Weights) -> Array:
    """Weight of the class that is next to the top."""
    return ops.maximum(ops.where(rows.first, 0.0, weights.own))


def _lac_within(ops: Operations, rows: Rows, weights: Weights, bounds: Named) -> Array:
    """The tie-break is the log-odds of the others' mass, which orders labels as values do: it decides alone."""
    others = rows.total - rows.weights.own  # of the top class this may be rounding noise, and is not looked at
    top_within = _rest(ops, rows, weights) <= bounds["ceiling"]
    return ops.where(rows.first, top_within, weights.own >= others * bounds["floor"])


def _aps_value(ops: Operations, rows: Rows, _constants: Named) -> Array:
    mass = (ops.sums_before(rows.weights.own) + rows.u * rows.weights.own) / rows.total
    return ops.where(mass >= SATURATED, 1.0, mass)


def _aps_within(ops: Operations, rows: Rows, weights: Weights, bounds: Named) -> Array:
    """The tie-break is minus the log of the mass outside."""
    outside = ops.sums_after(weights.own) + (1.0 - rows.u) * weights.own
    if weights.beyond is not None:
        outside = outside + weights.beyond
    return outside >= rows.total * bounds["floor"]


def _raps_constants(score: RAPS, n_classes: int) -> dict[str, NDArray[Any]]:
    excess = np.maximum(_ranks(n_classes) - score.k_reg, 0.0)
    return {"penalty": score.penalty * excess}


def _raps_value(ops: Operations, rows: Rows, constants: Named) -> Array:
    return _aps_value(ops, rows, constants) + constants["penalty"]


def _saps_constants(score: SAPS, n_classes: int) -> dict[str, NDArray[Any]]:
    offset = (_ranks(n_classes) - 2.0) * score.weight
    weight = np.full((1, n_classes), float(score.weight))
    offset[0, 0] = weight[0, 0] = 0.0
    return {"offset": offset, "weight": weight}


def _saps_value(ops: Operations, rows: Rows, constants: Named) -> Array:
    top = 1.0 / rows.total
    return ops.where(rows.first, rows.u * top, top + constants["offset"] + rows.u * constants["weight"])


def _topk_constants(_score: Score, n_classes: int) -> dict[str, NDArray[Any]]:
    return {"rank": _ranks(n_classes)}


def _topk_value(_ops: Operations, rows: Rows, constants: Named) -> Array:
    return constants["rank"] + rows.u


def _rest_within(ops: Operations, rows: Rows, weights: Weights, bounds: Named) -> Array:
    """The tie-break is minus the log of the mass of all but the top class, for every label of a row."""
    return _rest(ops, rows, weights) >= rows.total * bounds["floor"]


def _margin_value(ops: Operations, rows: Rows, _constants: Named) -> Array:
    return ops.where(rows.first, _second(ops, rows, rows.weights) - 1.0, 1.0 - rows.weights.own) / rows.total


def _margin_within(ops: Operations, rows: Rows, weights: Weights, bounds: Named) -> Array:
    """With r the mass of all but the top class: log(r + p_(2)) of the top label, and -log(r + p_y) of another."""
    rest = _rest(ops, rows, weights)
    first_within = rest + _second(ops, rows, weights) <= rows.total * bounds["ceiling"]
    return ops.where(rows.first, first_within, rest + weights.own >= rows.total * bounds["floor"])


def _pas_value(ops: Operations, rows: Rows, _constants: Named) -> Array:
    """-log p; offsets are added by class."""
    return ops.log(rows.total) - rows.gaps


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "lac": Form(False, (), _none, None, _lac_within),
        "aps": Form(True, (), _none, _aps_value, _aps_within),
        "raps": Form(True, ("penalty",), _raps_constants, _raps_value, _aps_within),
        "saps": Form(True, ("offset", "weight"), _saps_constants, _saps_value, _rest_within),
        "topk": Form(True, ("rank",), _topk_constants, _topk_value, _rest_within),
        "margin": Form(False, (), _none, _margin_value, _margin_within),
        "pas": Form(False, (), _none, _pas_value, _lac_within),
    }
)
"""Every score that can be exported, by its name."""
