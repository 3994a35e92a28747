"""What a score is to the core; the scores themselves are in `core.scores`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thermoset.core.exponentials import Floats, Ints
from thermoset.core.formulas import CODES, Formula
from thermoset.core.plain import SortedRows
from thermoset.errors import InputError

__all__ = ["Score"]


@dataclass(frozen=True)
class Score:
    """What a score is to the core: a branch of its formulas, their parameters, and whether u matters.

    `compiled` says which path it takes: kernels, which need its formula, or the general one, which needs its pairs.
    `keep_top` puts the top label below everything; see `NeverEmpty`. `by_rank` says that classes matter by their ranks
    alone; where it is False, `offsets` treat them differently. `logarithmic` says that the value is minus the logarithm
    of what the published score is linear in.
    """

    name: ClassVar[str]
    code: ClassVar[int]
    uses_u: ClassVar[bool] = True
    compiled: ClassVar[bool] = True
    keep_top: ClassVar[bool] = False
    by_rank: ClassVar[bool] = True
    logarithmic: ClassVar[bool] = False

    @property
    def prefixes(self) -> bool:
        """Whether sets under one threshold are prefixes of the ranking that kernels find: sweeps rest on it."""
        return self.compiled and self.by_rank

    @property
    def learns(self) -> bool:
        """Whether `fit` has something to estimate before the score is complete; see `learned`."""
        return False

    def learned(self, labels: Ints, n_classes: int) -> "Score":  # noqa: ARG002
        """The score with what it takes from the labels of rows that set no threshold."""
        return self

    def largest(self, n_classes: int) -> float:  # noqa: ARG002
        """The largest value that a label can have; infinite where there is none, or none is known."""
        return 1.0

    def offsets(self, n_classes: int) -> Floats:
        """What the score adds to the value of each class, (C,), whatever the row: nothing, for most."""
        return np.zeros(n_classes)

    @property
    def parameters(self) -> tuple[float, float, float]:
        """The numbers the formula takes."""
        return (0.0, 0.0, 0.0)

    @property
    def step(self) -> float:
        """The most that one rank adds to the value by itself, beside the shares of the ranks above it."""
        return 0.0

    @property
    def formula(self) -> Formula:
        """The record that kernels take."""
        if not self.compiled:
            raise InputError(f"this needs a compiled score, such as 'raps', but score {self.name!r} is not compiled.")
        code = getattr(self, "code", -1)
        if code not in CODES:
            raise InputError(
                f"{type(self).__name__} has the code {code!r}, which no formula has. Use a score of SCORES."
            )
        return Formula(code, self.parameters, self.step, self.keep_top)

    def pairs(self, rows: SortedRows) -> object:
        """Value, or (value, refine), of every rank of sorted rows, each (n, C): what the general path takes."""
        raise NotImplementedError(f"{type(self).__name__} has no pairs(rows): a plain score must define it.")
