"""Sets at one temperature as array operations: how the scores of an engine are compared with thresholds.

A score is a pair (value, tie-break), as in `kernels`; its class says how engines compute the two. Engines round
differently, so values are compared with a margin for the rounding error (`band_of`): below that a label is in, above it
out, and in between the tie-break decides, with a margin of its own. At low temperatures values saturate and tie-breaks
decide nearly everything; they are logarithms of masses that underflow. But the threshold's own tie-break r is known
beforehand: weights scaled by e**r (in steps of `_SCALE_STEP`) add up to something near 1 exactly where it matters. What
then overflows or underflows is far from the threshold, and on the right side of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Pairs
from thermoset.integrations.program.operations import Array, Operations, Ranking
from thermoset.kernels import FURTHEST, SATURATED
from thermoset.scores import Score

_SCALE_STEP = 500.0  # e**500 is far from where float64 ends, and so is what 10,000,000 such weights add up to
_HEAVIEST = 600.0  # scaled weights stop at e**600: above every floor, and their sums are still finite
_MASKED = float("-inf")

Named = Mapping[str, Array]
"""Constants in the engine, by name."""


def band_of(score: Score, n_classes: int) -> float:
    """A bound of the rounding error of a value, in any engine: of a sum of C shares, and of what is added by rank."""
    unit = score.terms.unit if score.compiled else 0.0
    return 4e-16 * (n_classes + 64) * (1.0 + unit * n_classes)


def threshold_constants(
    thresholds: Pairs, score: Score, n_classes: int, slack: float = 1.0
) -> tuple[tuple[float, ...], dict[str, NDArray[Any]]]:
    """Thresholds (1,) or (C,) as engines compare with them, with `slack` times the margin that rounding needs.

    Values below `low` are in, above `high` out, and in between the tie-break decides; where `infinite`, every label is
    in, masked ones too. Tie-breaks are compared as shares of the total of masses that are scaled by e**exponent: with
    `floor` = e**(exponent - r) and `ceiling` = e**(exponent + r), r the threshold's tie-break and its margin. `here`
    says which thresholds have theirs at an exponent. Mostly there is one exponent.
    """
    value, band = thresholds.real, slack * band_of(score, n_classes)
    tie = score.export_ties(value, thresholds.imag, score.offsets(n_classes))
    infinite, size = np.isposinf(value), np.abs(np.where(np.isfinite(tie), tie, 0.0))
    limit = tie + band * np.maximum(1.0, size)
    # Logarithms may be large, and are rounded as such.
    around = band * np.maximum(1.0, np.abs(np.where(np.isfinite(value), value, 0.0))) if score.logarithmic else band
    constants: dict[str, NDArray[Any]] = {"low": value - around, "high": value + around, "infinite": infinite}
    steps = np.where(infinite, 0.0, size // _SCALE_STEP)
    exponents = tuple((np.unique(steps) * _SCALE_STEP).tolist())
    for k, exponent in enumerate(exponents):
        with np.errstate(over="ignore"):
            constants |= {f"floor{k}": np.exp(exponent - limit), f"ceiling{k}": np.exp(exponent + limit)}
        constants[f"here{k}"] = steps * _SCALE_STEP == exponent
    return exponents, constants


class EngineRows(NamedTuple):
    """Rows at one temperature as arrays of an engine, in the order of ranks or of labels.

    gaps : log weights, 0 for the top class; weights : e**gaps; total : their sum; first : which is the top class;
    u : (n, 1), or the number 1.
    """

    gaps: Any
    weights: Any
    total: Any
    first: Any
    u: Any

    def rest(self, ops: Any, weights: Any) -> Any:
        """Mass of all but the top class, at the scale of the weights."""
        return ops.total(ops.where(self.first, 0.0, weights))

    def mass(self, ops: Any) -> Any:
        """Mass of the ranks above each, and u of its own; 1 where it is saturated."""
        mass = (ops.sums_before(self.weights) + self.u * self.weights) / self.total
        return ops.where(mass >= SATURATED, 1.0, mass)


def _odds_within(ops: Any, rows: EngineRows, weights: Any, bounds: Mapping[str, Any]) -> Any:
    """Whether the log-odds of the others' mass are at most the threshold's tie-break."""
    others = rows.total - weights  # of the top class this may be rounding noise, and is not looked at
    return ops.where(rows.first, rows.rest(ops, weights) <= bounds["ceiling"], weights >= others * bounds["floor"])


def _left_within(ops: Any, rows: EngineRows, weights: Any, bounds: Mapping[str, Any]) -> Any:
    """Whether minus the log of the mass outside is at most the threshold's tie-break."""
    outside = ops.sums_after(weights) + (1.0 - rows.u) * weights
    return outside >= rows.total * bounds["floor"]


def _rest_within(ops: Any, rows: EngineRows, weights: Any, bounds: Mapping[str, Any]) -> Any:
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
        slack: float = 1.0,
        name: str = "sets",
    ) -> None:
        self._exponents, constants = threshold_constants(thresholds, score, n_classes, slack)
        constants |= {"inverse_temperature": np.array([1.0 / temperature]), "offset": score.offsets(n_classes)}
        self._score, self._n_classes, self._keep_top, self._name = score, n_classes, keep_top, name
        self._by_class, self._offsets = len(thresholds) > 1, bool(constants["offset"].any())
        self._some_infinite = bool(constants["infinite"].any())
        unused = [] if score.export_values else ["low", "high"]
        unused += [] if self._some_infinite else ["infinite"]
        unused += [] if self._offsets else ["offset"]
        unused += [] if len(self._exponents) > 1 else ["here0"]
        by_rank = score.export_arrays(n_classes)
        self._by_rank = tuple(by_rank)
        self.constants = {f"{name}_{part}": array for part, array in constants.items() if part not in unused} | by_rank

    def run(self, ops: Operations, constants: Named, batch: Batch) -> Array:
        """Sets (n, C) in the order of labels."""
        logits = batch.logits if batch.ranking is None else batch.ranking.logits
        rows = self._rows(ops, constants, batch)
        inside = self._within(ops, constants, rows, batch)
        if self._score.export_values:
            value = self._score.export_value(ops, rows, {name: constants[name] for name in self._by_rank})
            if self._offsets:
                value = value + self._of_label(ops, constants, "offset", batch)
            low, high = (self._of_label(ops, constants, name, batch) for name in ("low", "high"))
            inside = (value < low) | ((value <= high) & inside)
        inside = inside & ~(logits == _MASKED)
        if self._keep_top:
            inside = inside | rows.first
        if self._some_infinite:
            inside = inside | self._of_label(ops, constants, "infinite", batch)
        return inside if batch.ranking is None else ops.in_label_order(inside, batch.ranking)

    def _rows(self, ops: Operations, constants: Named, batch: Batch) -> EngineRows:
        """The rows at the temperature of the sets, in the order that the score wants."""
        if batch.ranking is None:
            logits, first = batch.logits, ops.is_label(batch.label, self._n_classes)
        else:
            logits, first = batch.ranking.logits, constants["first"]
        # Log weights, (z - max z) / T: far below the top a class is unlikely, but only a masked one impossible.
        gaps = ops.at_least((logits - batch.top) * constants[f"{self._name}_inverse_temperature"], FURTHEST)
        weights = ops.exp(gaps)
        return EngineRows(gaps, weights, ops.total(weights), first, batch.u)

    def _within(self, ops: Operations, constants: Named, rows: EngineRows, batch: Batch) -> Array:
        """Whether each label's tie-break is at most the threshold's, each at the scale that resolves it."""
        result: Array = None
        for k, exponent in enumerate(self._exponents):
            weights = rows.weights if exponent == 0.0 else ops.exp(ops.at_most(rows.gaps + exponent, _HEAVIEST))
            bounds = {bound: self._of_label(ops, constants, f"{bound}{k}", batch) for bound in ("floor", "ceiling")}
            tie = self._score.export_tie
            compare = self._score.export_within if tie == "own" else _WITHIN[tie]
            within = compare(ops, rows, weights, bounds)
            if len(self._exponents) > 1:
                within = within & self._of_label(ops, constants, f"here{k}", batch)
            result = within if result is None else result | within
        return result

    def _of_label(self, ops: Operations, constants: Named, name: str, batch: Batch) -> Array:
        """A constant of the thresholds for each label: as it is, that of the row's group, or in the order of ranks."""
        array = constants[f"{self._name}_{name}"]
        if batch.group is not None:
            return ops.pick(array, batch.group)
        in_order = batch.ranking is not None and self._by_class
        return ops.pick(array, batch.ranking.labels) if in_order else array  # type: ignore[union-attr]
