"""Sets at one temperature as array operations."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Pairs
from thermoset.integrations.program.by_class import Compared, compared_by
from thermoset.integrations.program.formulas import Cut, Named, Rows, Weights, cut_of, form_of
from thermoset.integrations.program.operations import Array, Operations, Ranking
from thermoset.kernels import FURTHEST
from thermoset.scores import Score

__all__ = ["Batch", "SetProgram"]

_HEAVIEST = 600.0  # scaled weights stop at e**600: above every floor, and their sums are still finite
_MASKED = float("-inf")


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

    What the program branches on is plain numbers and booleans, which can be traced; arrays are in the constants.
    """

    def __init__(self, temperature: float, thresholds: Pairs, score: Score, n_classes: int) -> None:
        found = compared_by(thresholds, score, n_classes)
        cut = cut_of(found.thresholds, score, n_classes)
        self._form, self._n_classes = form_of(score), n_classes
        self._keep_top, self._by_class = score.keep_top, len(found.thresholds) > 1
        self._offsets = found.offset is not None
        self._some_infinite = bool(cut.infinite.any())
        self._exponents = tuple(scale.exponent for scale in cut.scales)
        self.constants = {f"sets_{name}": array for name, array in self._arrays(temperature, cut, found).items()}

    def _arrays(self, temperature: float, cut: Cut, compared: Compared) -> dict[str, NDArray[Any]]:
        """What the program looks up."""
        found: dict[str, NDArray[Any]] = {"inverse_temperature": np.array([1.0 / temperature])}
        if self._form.value is not None:
            found |= {"low": cut.low, "high": cut.high}
        if self._some_infinite:
            found["infinite"] = cut.infinite
        if compared.offset is not None:
            found["offset"] = compared.offset
        for k, scale in enumerate(cut.scales):
            found |= {f"floor{k}": scale.floor, f"ceiling{k}": scale.ceiling}
            if len(cut.scales) > 1:
                found[f"here{k}"] = scale.here
        return found

    def run(self, ops: Operations, constants: Named, batch: Batch) -> Array:
        """Sets (n, C) in the order of labels."""
        logits = batch.logits if batch.ranking is None else batch.ranking.logits
        rows = self._rows(ops, constants, batch)
        inside = self._within(ops, constants, rows, batch)
        if self._form.value is not None:
            value = self._form.value(ops, rows, self._by_rank(ops, constants, batch))
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

    def _rows(self, ops: Operations, constants: Named, batch: Batch) -> Rows:
        """The rows at the temperature of the sets, in the order that the score wants."""
        if batch.ranking is None:
            logits, first = batch.logits, ops.is_label(batch.label, self._n_classes)
        else:
            logits, first = batch.ranking.logits, ops.by_rank(constants["first"], batch.ranking)
        gaps = self._gaps(ops, constants, logits, batch)
        weights = self._weights(ops, constants, gaps, 0.0, batch)
        total = ops.total(weights.own) if weights.beyond is None else ops.total(weights.own) + weights.beyond
        return Rows(gaps, weights, total, first, batch.u)

    def _by_rank(self, ops: Operations, constants: Named, batch: Batch) -> Named:
        """What the score's formula looks up by rank."""
        if batch.ranking is None:
            return {}
        return {name: ops.by_rank(constants[name], batch.ranking) for name in self._form.needs}

    def _gaps(self, ops: Operations, constants: Named, logits: Array, batch: Batch) -> Array:
        """Log weights: (z - max z) / T. Far below the top a class is unlikely, but only a masked one impossible."""
        scaled = (logits - batch.top) * constants["sets_inverse_temperature"]
        return ops.at_least(scaled, FURTHEST)

    def _weights(self, ops: Operations, constants: Named, gaps: Array, exponent: float, batch: Batch) -> Weights:
        own = _weighed(ops, gaps, exponent)
        if batch.ranking is None or batch.ranking.whole:
            return Weights(own, None)
        everyone = _weighed(ops, self._gaps(ops, constants, batch.logits, batch), exponent)
        return Weights(own, ops.total_beyond(everyone, batch.ranking))

    def _within(self, ops: Operations, constants: Named, rows: Rows, batch: Batch) -> Array:
        """Whether each label's tie-break is at most the threshold's, each at the scale that resolves it."""
        found: Array = None
        for k, exponent in enumerate(self._exponents):
            weights = rows.weights if exponent == 0.0 else self._weights(ops, constants, rows.gaps, exponent, batch)
            bounds = {bound: self._of_label(ops, constants, f"{bound}{k}", batch) for bound in ("floor", "ceiling")}
            within = self._form.within(ops, rows, weights, bounds)
            if len(self._exponents) > 1:
                within = within & self._of_label(ops, constants, f"here{k}", batch)
            found = within if found is None else found | within
        return found

    def _of_label(self, ops: Operations, constants: Named, name: str, batch: Batch) -> Array:
        """A constant of the thresholds for each label: as it is, that of the row's group, or in the order of ranks."""
        array = constants[f"sets_{name}"]
        if batch.group is not None:
            return ops.pick(array, batch.group)
        in_order = batch.ranking is not None and self._by_class
        return ops.pick(array, batch.ranking.labels) if in_order else array  # type: ignore[union-attr]


def _weighed(ops: Operations, gaps: Array, exponent: float) -> Array:
    return ops.exp(gaps) if exponent == 0.0 else ops.exp(ops.at_most(gaps + exponent, _HEAVIEST))
