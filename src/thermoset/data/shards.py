"""What the rest of thermoset knows of rows that lie in a file."""

from typing import Any, Protocol

import numpy as np

from thermoset.data.arrays import Floats

__all__ = ["Shard"]


class Shard(Protocol):
    """Rows of logits in one file: picklable (paths and facts, no open handles), opened when they are read."""

    @property
    def name(self) -> str:
        """For messages: the path, and the array in a file that holds several."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_classes(self) -> int:
        """Number of columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows that `read` gives: float16, float32 or float64."""

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Class names, if the file has any."""

    @property
    def input_kind(self) -> str:
        """What the file holds: logits or probabilities; `read` gives logits either way."""

    def read(self, start: int, stop: int) -> Floats:
        """Rows start to stop - 1, C-contiguous and checked, the same bits that loading the file gives."""
