"""Label, confidence, size and set of some rows: as arrays, and as columns of Arrow."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ArrowPredictions", "Names", "PredictionBlock", "joined_blocks", "prediction_block"]

Names = tuple[str, ...] | None
"""Class names, in the order of the columns."""


class PredictionBlock(NamedTuple):
    """Predictions for some rows; the set of row i is `members[offsets[i]:offsets[i + 1]]`."""

    label: NDArray[np.int32]
    confidence: NDArray[np.float64]
    size: NDArray[np.int32]
    members: NDArray[np.int32]
    offsets: NDArray[np.int64]


def prediction_block(label: NDArray[Any], confidence: NDArray[Any], sets: NDArray[Any]) -> PredictionBlock:
    """Gather the labels that are in each set.

    >>> prediction_block(np.array([1]), np.array([0.75]), np.array([[False, True, True]])).members
    array([1, 2], dtype=int32)
    """
    # Flat, because NumPy takes several times as long to find what is true in two dimensions.
    width = sets.shape[1]
    found = np.flatnonzero(sets)
    offsets = np.searchsorted(found, width * np.arange(len(sets) + 1))
    members, size = (found % max(width, 1)).astype(np.int32), np.diff(offsets).astype(np.int32)
    return PredictionBlock(label.astype(np.int32), confidence.astype(np.float64), size, members, offsets)


def joined_blocks(blocks: Sequence[PredictionBlock]) -> PredictionBlock:
    """The rows of all blocks, one after another; there may be none.

    >>> one = prediction_block(np.array([1]), np.array([0.75]), np.array([[False, True, True]]))
    >>> joined_blocks([one, one]).offsets
    array([0, 2, 4])
    """
    label, confidence, size, members = (
        np.concatenate([np.empty(0, dtype), *(block[place] for block in blocks)])
        for place, dtype in enumerate((np.int32, np.float64, np.int32, np.int32))
    )
    offsets = np.concatenate([[0], np.cumsum(size, dtype=np.int64)])
    return PredictionBlock(label, confidence, size, members, offsets)


class ArrowPredictions:
    """Predictions as columns of Arrow; labels are names where classes have names, else column numbers.

    >>> import pyarrow
    >>> block = prediction_block(np.array([1]), np.array([0.75]), np.array([[False, True]]))
    >>> ArrowPredictions(pyarrow, ("cat", "dog")).columns(block)["set"].to_pylist()
    [['dog']]
    """

    def __init__(self, arrow: ModuleType, names: Names) -> None:
        self._arrow = arrow
        self._texts = None if names is None else arrow.array(names, arrow.string())
        kind = arrow.int32() if names is None else arrow.string()
        self.types = {"label": kind, "confidence": arrow.float64(), "set": arrow.list_(kind), "size": arrow.int32()}

    @property
    def label_bytes(self) -> int:
        """About what a label of a set takes."""
        return 4 if self._texts is None else 4 + self._texts.nbytes // len(self._texts)

    def columns(self, block: PredictionBlock) -> dict[str, Any]:
        """The columns of a block, by name, in the order and with the types of `types`."""
        arrow = self._arrow
        sets = arrow.ListArray.from_arrays(arrow.array(block.offsets, arrow.int32()), self._labels(block.members))
        confidence, size = arrow.array(block.confidence), arrow.array(block.size)
        return {"label": self._labels(block.label), "confidence": confidence, "set": sets, "size": size}

    def _labels(self, numbers: NDArray[np.int32]) -> Any:
        places = self._arrow.array(numbers)
        return places if self._texts is None else self._texts.take(places)
