"""What writers of predictions are given: rows with their ids, groups and p-values, and what the file is to hold."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data.groups import Groups
from thermoset.io.prediction_columns import Names, PredictionBlock
from thermoset.p_summary import PSummary, p_summary

__all__ = ["P_COLUMNS", "Block", "IdKind", "Layout", "PValues", "Write"]

IdKind = Literal["number", "text"]

P_COLUMNS = ("credibility", "conformal_confidence", "p")
"""What files hold besides, where p-values are written."""


class PValues(NamedTuple):
    """p-values of some rows, (n, C), and what they come to."""

    table: NDArray[np.float64]
    told: PSummary

    @classmethod
    def of(cls, table: NDArray[np.float64]) -> "PValues":
        """As a table of them says."""
        return cls(table, p_summary(table))

    @property
    def columns(self) -> tuple[NDArray[np.float64], ...]:
        """As `P_COLUMNS` names them."""
        return self.told.credibility, self.told.confidence, self.table


class Block(NamedTuple):
    """Checked predictions, and the ids, groups and p-values of their rows: none if rows have none."""

    found: PredictionBlock
    ids: list[Any]
    groups: Groups | None
    p: PValues | None

    @property
    def beside(self) -> list[list[Any]]:
        """The columns that come before the predictions."""
        return [*([self.ids] if self.ids else []), *([] if self.groups is None else [list(self.groups)])]


class Layout(NamedTuple):
    """What a file holds.

    Class names, of which kind ids are, whether rows have groups, of how many classes p-values, the name of the ids.
    """

    names: Names
    ids: IdKind | None
    groups: bool
    n_p: int | None
    id_column: str = "id"

    @property
    def beside(self) -> list[str]:
        """Names of the columns that come before the predictions."""
        return [*([] if self.ids is None else [self.id_column]), *(["group"] if self.groups else [])]

    @property
    def p_names(self) -> list[str]:
        """A name for each class that has a p-value."""
        return list(map(str, range(self.n_p or 0))) if self.names is None else list(self.names)


Write = Callable[[Block], None]
