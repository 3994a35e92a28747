"""Rows of which only the K largest logits are kept, as a record. Reading and writing them needs no compiler."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data.tail_mass import Stated

LEAST_KEPT = 4
"""Logits a row must keep: u is made of the largest ones (`uniforms`)."""


@dataclass(frozen=True, eq=False)
class TopRows:
    """The K largest logits of each row, falling, the classes they belong to, and what is stated of the others.

    logits (n, K), indices (n, K); of equal logits the lower index comes first, also of those that are not kept.
    """

    logits: NDArray[np.floating[Any]]
    indices: NDArray[np.integer[Any]]
    n_classes: int
    stated: Stated

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.logits)

    @property
    def n_rest(self) -> int:
        """How many classes of a row are not kept."""
        return self.n_classes - int(self.logits.shape[1])

    def part(self, rows: slice) -> "TopRows":
        """Some of the rows."""
        stated = self.stated._replace(log_sums=self.stated.log_sums[rows])
        return replace(self, logits=self.logits[rows], indices=self.indices[rows], stated=stated)

    @staticmethod
    def stacked(parts: "Sequence[TopRows]") -> "TopRows":
        """Rows of several, one after the other; all keep as many logits and state the same."""
        first = parts[0]
        sums = np.concatenate([part.stated.log_sums for part in parts])
        logits, indices = np.concatenate([part.logits for part in parts]), np.concatenate([p.indices for p in parts])
        return TopRows(logits, indices, first.n_classes, first.stated._replace(log_sums=sums))


def tops_of(source: object) -> TopRows | None:
    """The record of a source whose rows are not whole; None for whole rows."""
    found: TopRows | None = getattr(source, "tops", None)
    return found
