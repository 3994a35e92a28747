"""What a row's set depends on beside its logits: its u, and the group whose threshold is its own."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from thermoset.core.exponentials import Bools, Ints
from thermoset.core.sources import Block, numbered
from thermoset.core.uniforms import Randomness

__all__ = ["FillRows", "RowContext"]


@dataclass(frozen=True, eq=False)
class RowContext:
    """Where the u of rows come from, and which threshold each row has: `codes` (n,), or None if all have the same."""

    randomness: Randomness
    codes: Ints | None = None

    def rows(self, place: slice) -> "RowContext":
        """That of some of the rows."""
        return RowContext(self.randomness.rows(place), None if self.codes is None else self.codes[place])

    def places(self, n_rows: int) -> Ints:
        """Which threshold each row has, as kernels take it; it must be the context of these rows."""
        return np.zeros(n_rows, dtype=np.int64) if self.codes is None else numbered(self.codes)


FillRows = Callable[[Block, RowContext, Bools], None]
"""Fills the sets (n_levels, n_rows, C) of a block of rows; the context must be that of these rows."""
