"""What the compiled loops share: comparing scores with thresholds, drawn or over all u."""

import numpy as np
from numpy.typing import NDArray

from thermoset.compiled import kernel

__all__ = ["FIXED_POINT", "Bools", "Ints", "Parameters", "is_inside", "share_inside"]

FIXED_POINT = 2.0**28  # expected counts are summed in 64-bit integers of this unit: their order cannot matter

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Parameters = tuple[float, float, float]


@kernel
def is_inside(value: float, refine: float, q_value: float, q_refine: float) -> bool:
    """Whether a score, as a pair, is at most the threshold."""
    return value < q_value or (value == q_value and refine <= q_refine)


@kernel
def share_inside(start: float, slope: float, q: float) -> float:
    """Share of u in [0, 1] with start + u slope <= q."""
    if slope <= 0.0:
        return 1.0 if start <= q else 0.0
    return min(max((q - start) / slope, 0.0), 1.0)
