"""The weights of conformal rows in a predictor's file: with the scores, they give each row its threshold.

They are kept as the whole numbers that they count as (see `core.weighted`), in the order of the scores and packed as
these are: some 6 bytes a row.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from thermoset.core.thresholds import ScorePairs
from thermoset.core.weighted import WeightedScores, WeightGrid
from thermoset.levels import Alpha
from thermoset.predictor.kept_scores import MOST_KEPT, KeptScores
from thermoset.predictor.packing import packed, unpacked
from thermoset.predictor.thresholds import Thresholds

if TYPE_CHECKING:
    from thermoset.predictor.artifact import Artifact

__all__ = ["KeptWeights", "broken_weights", "weighted_scores"]


class KeptWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Weights as whole numbers, of which `largest`, the largest weight, is the highest; base64 in JSON.

    `effective_rows` is how many rows of equal weight say as much.
    """

    largest: float
    effective_rows: float
    steps: bytes

    @classmethod
    def of(cls, scores: WeightedScores) -> "KeptWeights":
        """The weights of scores.

        >>> found = WeightedScores.of(ScorePairs(np.array([0.5, 0.25]), np.zeros(2)), np.array([1.0, 4.0]))
        >>> kept = KeptWeights.of(found)
        >>> (kept.weighted(found.scores).weights / 2**40).tolist(), kept.largest
        ([1.0, 0.25], 4.0)
        """
        steps = packed(scores.weights.astype(np.uint64))
        return cls(largest=scores.grid.largest, effective_rows=scores.effective_rows, steps=steps)

    def weighted(self, scores: ScorePairs) -> WeightedScores:
        """The scores that the weights are for, with these."""
        steps = unpacked(self.steps, len(scores.value), MOST_KEPT, "weights").astype(np.int64)
        return WeightedScores(scores, steps, WeightGrid(self.largest, len(steps)))


def weighted_scores(made: "Artifact") -> WeightedScores | None:
    """The conformal scores of a document with their weights; None where rows have none."""
    if made.weights is None or made.scores is None:
        return None
    return made.weights.weighted(made.scores.pairs(sum(made.pool_sizes)))


def broken_weights(
    kept: KeptWeights, scores: KeptScores | None, n_rows: int, thresholds: Thresholds, alpha: Alpha
) -> Iterator[tuple[str, bool]]:
    """What weights must be, and whether they are not."""
    yield "weights must have scores", scores is None
    yield "largest of weights must be finite and > 0", not 0 < kept.largest < math.inf
    grid = WeightGrid(kept.largest, n_rows)
    steps = unpacked(kept.steps, n_rows, MOST_KEPT, "weights")
    yield "steps of weights must reach the largest", not steps.size or int(steps.max()) != 2**grid.bits
    if scores is not None:
        found = kept.weighted(scores.pairs(n_rows))
        yield "effective_rows must be those of the weights", found.effective_rows != kept.effective_rows
        yield "thresholds must be those of the scores", Thresholds.of(found.average(alpha)) != thresholds
