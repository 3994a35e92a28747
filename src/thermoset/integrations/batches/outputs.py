"""The columns that predictions add to a batch: as columns of Arrow, and as NumPy arrays."""

from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import InputError
from thermoset.io.files import need
from thermoset.io.predictions import ArrowPredictions, Names, PredictionBlock
from thermoset.predictor.sets import ACTIONS

__all__ = ["DEFAULT_OUTPUTS", "OUTPUTS", "Found", "Outputs", "pyarrow"]

DEFAULT_OUTPUTS = ("label", "confidence", "set", "size")
"""What `thermoset predict` writes."""

OUTPUTS = (*DEFAULT_OUTPUTS, "probabilities", "action")
"""All that can be asked for; "action" of a predictor with an answer rule."""

MOST_LISTED = 2**31 - 1  # values of a list column of Arrow


class Found(NamedTuple):
    """What was predicted for a batch: labels, confidences and sets, and (n, C) probabilities if they were asked for.

    actions : (n,), places in `ACTIONS`, where there is an answer rule.
    """

    block: PredictionBlock
    probabilities: NDArray[np.float64] | None
    actions: NDArray[np.int64] | None = None


class Outputs(NamedTuple):
    """Which columns are made, in which order, and how labels are called."""

    made: tuple[str, ...]
    prefix: str
    classes: Names

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(f"{self.prefix}{name}" for name in self.made)

    def arrow_types(self) -> dict[str, Any]:
        """The columns and their types in Arrow."""
        arrow = pyarrow()
        types = _predictions(self.classes).types | {"probabilities": arrow.list_(arrow.float64())}
        types["action"] = arrow.string()
        return self._named(types)

    def arrow(self, found: Found) -> dict[str, Any]:
        """The columns as arrays of Arrow."""
        arrow, probabilities = pyarrow(), found.probabilities
        if found.block.offsets[-1] > MOST_LISTED or (probabilities is not None and probabilities.size > MOST_LISTED):
            raise InputError("the sets or probabilities of one batch exceed 2**31 values. Use smaller batches.")
        columns = _predictions(self.classes).columns(found.block)
        if probabilities is not None:
            n_rows, width = probabilities.shape
            ends = arrow.array(np.arange(n_rows + 1) * width, arrow.int32())
            columns["probabilities"] = arrow.ListArray.from_arrays(ends, arrow.array(probabilities.reshape(-1)))
        if found.actions is not None:
            columns["action"] = arrow.array(np.array(ACTIONS)[found.actions], arrow.string())
        return self._named(columns)

    def arrays(self, found: Found) -> dict[str, NDArray[Any]]:
        """The columns as NumPy arrays; a set is a list, and probabilities are (n, C)."""
        label, confidence, size, members, offsets = found.block
        sets = np.empty(len(label), dtype=object)
        inside = members.tolist() if self.classes is None else [self.classes[member] for member in members.tolist()]
        for row, (begin, end) in enumerate(pairwise(offsets.tolist())):
            sets[row] = inside[begin:end]
        labels = label if self.classes is None else np.array(self.classes)[label]
        columns = {"label": labels, "confidence": confidence, "set": sets, "size": size}
        if found.probabilities is not None:
            columns["probabilities"] = found.probabilities
        if found.actions is not None:
            columns["action"] = np.array(ACTIONS)[found.actions]
        return self._named(columns)

    def _named(self, columns: dict[str, Any]) -> dict[str, Any]:
        return {f"{self.prefix}{name}": columns[name] for name in self.made}


def pyarrow() -> Any:
    """Arrow's library, or the extra that brings it."""
    return need("pyarrow", "io", "batches of Arrow and polars")


@lru_cache(maxsize=8)
def _predictions(classes: Names) -> ArrowPredictions:
    """Class names as an array of Arrow are made once, and not for every batch."""
    return ArrowPredictions(pyarrow(), classes)
