"""The weights of conformal rows in a predictor's file: with the scores, they give each row its threshold.

They are kept as the whole numbers that they count as (see `conformal.calibration_scores`), in the order of the scores
and packed as these are: some 6 bytes a row.
"""

import math
from collections.abc import Iterator

import msgspec
import numpy as np

from thermoset.conformal.calibration_scores import Weights
from thermoset.predictor.kept_scores import MOST_KEPT
from thermoset.predictor.packing import packed, unpacked

__all__ = ["KeptWeights", "broken_weights"]


class KeptWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Weights as whole numbers, of which `largest`, the largest weight, is the highest; base64 in JSON.

    `effective_rows` is how many rows of equal weight say as much.
    """

    largest: float
    effective_rows: float
    steps: bytes

    @classmethod
    def of(cls, weights: Weights) -> "KeptWeights":
        """Weights in the order of the scores.

        >>> kept = KeptWeights.of(Weights.of(np.array([4.0, 1.0])))
        >>> (kept.weights(2).steps / 2**40).tolist(), kept.largest
        ([1.0, 0.25], 4.0)
        """
        steps = packed(weights.steps.astype(np.uint64))
        return cls(largest=weights.largest, effective_rows=weights.effective_rows, steps=steps)

    def weights(self, n_rows: int) -> Weights:
        """Those of so many rows."""
        return Weights(unpacked(self.steps, n_rows, MOST_KEPT, "weights").astype(np.int64), self.largest)


def broken_weights(kept: KeptWeights, n_rows: int) -> Iterator[tuple[str, bool]]:
    """What weights must be, and whether they are not."""
    yield "largest of weights must be finite and > 0", not 0 < kept.largest < math.inf
    steps = unpacked(kept.steps, n_rows, MOST_KEPT, "weights")
    found = kept.weights(n_rows)
    yield "steps of weights must reach the largest", not steps.size or int(steps.max()) != 2**found.bits
    yield "effective_rows must be those of the weights", found.effective_rows != kept.effective_rows
