"""Sets at one temperature as array operations: how the scores of an engine are compared with thresholds.

A score is a pair (value, tie-break), as in `kernels`; its class says how engines compute the two. Engines round
differently, so values are compared with room for the rounding error (`band_of`): below that a label is in, above it
out, and in between the tie-break decides, with room of its own. At low temperatures values saturate and tie-breaks
decide nearly everything; they are logarithms of masses that underflow. But the threshold's own tie-break r is known
beforehand: weights scaled by e**r (in steps, see `Scale`) add up to something near 1 exactly where it matters. What
then overflows or underflows is far from the threshold, and on the right side of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Bools, Floats, Pairs
from thermoset.integrations.program.operations import Array, Operations, Ranking
from thermoset.kernels import FURTHEST, SATURATED
from thermoset.scores import Score

_SCALE_STEP = 500.0  # e**500 is far from where float64 ends, and so is what 10,000,000 such weights add up to
_HEAVIEST = 600.0  # scaled weights stop at e**600: above every floor, and their sums are still finite
_MASKED = float("-inf")

Named = Mapping[str, Array]
"""Constants in the engine, by name."""


@dataclass(frozen=True, eq=False)
class Scale:
    """What masses are compared with when they are scaled by e**exponent: shares of the total.

    floor, ceiling : e**(exponent - r) and e**(exponent + r), with r the threshold's tie-break and its room; here :
    which thresholds have their tie-break at this scale.
    """

    exponent: float
    floor: Floats
    ceiling: Floats
    here: Bools


@dataclass(frozen=True, eq=False)
class Cut:
    """Thresholds as engines compare with them: arrays (1,), or (C,) by class.

    low, high : values below are in, values above are out, and in between the tie-break decides; infinite : whether
    every label is in, masked ones too; scales : mostly one.
    """

    low: Floats
    high: Floats
    infinite: Bools
    scales: tuple[Scale, ...]


def band_of(score: Score, n_classes: int) -> float:
    """A bound of the rounding error of a value, in any engine: of a sum of C shares, and of what is added by rank."""
    unit = score.terms.unit if score.compiled else 0.0
    return 4e-16 * (n_classes + 64) * (1.0 + unit * n_classes)


def cut_of(thresholds: Pairs, score: Score, n_classes: int, room: float = 1.0) -> Cut:
    """The thresholds of a predictor, (1,) or (C,), with `room` times the room that rounding needs."""
    value, band = thresholds.real, room * band_of(score, n_classes)
    tie = score.export_ties(value, thresholds.imag, score.offsets(n_classes))
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
    around = band * np.maximum(1.0, np.abs(np.where(np.isfinite(value), value, 0.0))) if score.logarithmic else band
    return Cut(value - around, value + around, infinite, tuple(scales))


class Weights(NamedTuple):
    """Weights e**(gap + exponent) in an engine: (n, K), and the sum (n, 1) of those that a ranking left out."""

    own: Any
    beyond: Any


class EngineRows(NamedTuple):
    """Rows at one temperature as arrays of an engine, in the order of ranks or of labels.

    gaps : log weights, 0 for the top class; weights : e**gaps; total : their sum with those left out; first : which is
    the top class; u : (n, 1), or the number 1.
    """

    gaps: Any
    weights: Weights
    total: Any
    first: Any
    u: Any

    def rest(self, ops: Any, weights: Weights) -> Any:
        """Mass of all but the top class, at the scale of the weights."""
        others = ops.total(ops.where(self.first, 0.0, weights.own))
        return others if weights.beyond is None else others + weights.beyond

    def mass(self, ops: Any) -> Any:
        """Mass of the ranks above each, and u of its own; 1 where it is saturated."""
        mass = (ops.sums_before(self.weights.own) + self.u * self.weights.own) / self.total
        return ops.where(mass >= SATURATED, 1.0, mass)


def _odds_within(ops: Any, rows: EngineRows, weights: Weights, bounds: Mapping[str, Any]) -> Any:
    """Whether the log-odds of the others' mass are at most the threshold's tie-break."""
    others = rows.total - weights.own  # of the top class this may be rounding noise, and is not looked at
    return ops.where(rows.first, rows.rest(ops, weights) <= bounds["ceiling"], weights.own >= others * bounds["floor"])


def _left_within(ops: Any, rows: EngineRows, weights: Weights, bounds: Mapping[str, Any]) -> Any:
    """Whether minus the log of the mass outside is at most the threshold's tie-break."""
    outside = ops.sums_after(weights.own) + (1.0 - rows.u) * weights.own
    return (outside if weights.beyond is None else outside + weights.beyond) >= rows.total * bounds["floor"]


def _rest_within(ops: Any, rows: EngineRows, weights: Weights, bounds: Mapping[str, Any]) -> Any:
    """The same for the mass of all but the top class, whatever the label."""
    return rows.rest(ops, weights) >= rows.total * bounds["floor"]


_WITHIN: dict[str, Callable[..., Any]] = {"odds": _odds_within, "left": _left_within, "rest": _rest_within}


class Batch(NamedTuple):
    """Rows of float64 logits (n, C) with what sets need: largest logit, top label, ranking, u, group.

    group : (n, 1), which threshold each row has; None where that does not depend on the row.
    """

    logits: Array
    top: Array
    label: Array
    ranking: Ranking | None
    u: Array
    group: Array | None = None


class SetProgram:
    """The sets at a temperature, under thresholds (1,), (C,) or by group of rows.

    What the program branches on is plain numbers and booleans, which can be traced; arrays are in the constants, whose
    names begin with `name`.
    """

    def __init__(
        self,
        temperature: float,
        thresholds: Pairs,
        score: Score,
        n_classes: int,
        *,
        keep_top: bool = False,
        room: float = 1.0,
        name: str = "sets",
    ) -> None:
        cut, offsets = cut_of(thresholds, score, n_classes, room), score.offsets(n_classes)
        self._score, self._n_classes, self._keep_top, self._name = score, n_classes, keep_top, name
        self._by_class, self._offsets = len(thresholds) > 1, bool(offsets.any())
        self._some_infinite = bool(cut.infinite.any())
        self._exponents = tuple(scale.exponent for scale in cut.scales)
        found: dict[str, NDArray[Any]] = {"inverse_temperature": np.array([1.0 / temperature])}
        if score.export_values:
            found |= {"low": cut.low, "high": cut.high}
        if self._some_infinite:
            found["infinite"] = cut.infinite
        if self._offsets:
            found["offset"] = offsets
        for k, scale in enumerate(cut.scales):
            found |= {f"floor{k}": scale.floor, f"ceiling{k}": scale.ceiling}
            if len(cut.scales) > 1:
                found[f"here{k}"] = scale.here
        by_rank = score.export_arrays(n_classes)
        self._by_rank = tuple(by_rank)
        self.constants = {f"{name}_{part}": array for part, array in found.items()} | by_rank

    def run(self, ops: Operations, constants: Named, batch: Batch) -> Array:
        """Sets (n, C) in the order of labels."""
        logits = batch.logits if batch.ranking is None else batch.ranking.logits
        rows = self._rows(ops, constants, batch)
        inside = self._within(ops, constants, rows, batch)
        if self._score.export_values:
            arrays = {name: ops.by_rank(constants[name], batch.ranking) for name in self._by_rank}  # type: ignore[arg-type]
            value = self._score.export_value(ops, rows, arrays)
            if self._offsets:
                value = value + self._of_label(ops, constants, "offset", batch)
            low, high = (self._of_label(ops, constants, name, batch) for name in ("low", "high"))
            inside = (value < low) | ((value <= high) & inside)
        inside = inside & ~(logits == _MASKED)
        if self._keep_top:
            inside = inside | rows.first
        if self._some_infinite:
            inside = inside | self._of_label(ops, constants, "infinite", batch)
        return inside if batch.ranking is None else ops.in_label_order(inside, batch.ranking, batch.logits)

    def _rows(self, ops: Operations, constants: Named, batch: Batch) -> EngineRows:
        """The rows at the temperature of the sets, in the order that the score wants."""
        if batch.ranking is None:
            logits, first = batch.logits, ops.is_label(batch.label, self._n_classes)
        else:
            logits, first = batch.ranking.logits, ops.by_rank(constants["first"], batch.ranking)
        gaps = self._gaps(ops, constants, logits, batch)
        weights = self._weights(ops, constants, gaps, 0.0, batch)
        total = ops.total(weights.own) if weights.beyond is None else ops.total(weights.own) + weights.beyond
        return EngineRows(gaps, weights, total, first, batch.u)

    def _gaps(self, ops: Operations, constants: Named, logits: Array, batch: Batch) -> Array:
        """Log weights: (z - max z) / T. Far below the top a class is unlikely, but only a masked one impossible."""
        scaled = (logits - batch.top) * constants[f"{self._name}_inverse_temperature"]
        return ops.at_least(scaled, FURTHEST)

    def _weights(self, ops: Operations, constants: Named, gaps: Array, exponent: float, batch: Batch) -> Weights:
        own = _weights_at(ops, gaps, exponent)
        if batch.ranking is None or batch.ranking.whole:
            return Weights(own, None)
        everyone = _weights_at(ops, self._gaps(ops, constants, batch.logits, batch), exponent)
        return Weights(own, ops.total_beyond(everyone, batch.ranking))

    def _within(self, ops: Operations, constants: Named, rows: EngineRows, batch: Batch) -> Array:
        """Whether each label's tie-break is at most the threshold's, each at the scale that resolves it."""
        found: Array = None
        for k, exponent in enumerate(self._exponents):
            weights = rows.weights if exponent == 0.0 else self._weights(ops, constants, rows.gaps, exponent, batch)
            bounds = {bound: self._of_label(ops, constants, f"{bound}{k}", batch) for bound in ("floor", "ceiling")}
            tie = self._score.export_tie
            compare = self._score.export_within if tie == "own" else _WITHIN[tie]
            within = compare(ops, rows, weights, bounds)
            if len(self._exponents) > 1:
                within = within & self._of_label(ops, constants, f"here{k}", batch)
            found = within if found is None else found | within
        return found

    def _of_label(self, ops: Operations, constants: Named, name: str, batch: Batch) -> Array:
        """A constant of the thresholds for each label: as it is, that of the row's group, or in the order of ranks."""
        array = constants[f"{self._name}_{name}"]
        if batch.group is not None:
            return ops.pick(array, batch.group)
        in_order = batch.ranking is not None and self._by_class
        return ops.pick(array, batch.ranking.labels) if in_order else array  # type: ignore[union-attr]


def _weights_at(ops: Operations, gaps: Array, exponent: float) -> Array:
    return ops.exp(gaps) if exponent == 0.0 else ops.exp(ops.at_most(gaps + exponent, _HEAVIEST))
