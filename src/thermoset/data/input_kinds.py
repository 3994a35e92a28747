"""What rows hold, logits or probabilities, and which rows look like probabilities although they were given as logits.

Logarithms of probabilities are logits: the softmax gives the probabilities back. Probabilities themselves are not: all
of them lie within 1 of each other, so that their softmax is nearly flat and sets are too large.
"""

import warnings
from contextlib import suppress
from typing import Final, Protocol

import numpy as np

from thermoset.data.arrays import Floats, ReadTable
from thermoset.errors import InputError, ProbabilitiesAsLogitsWarning

__all__ = [
    "AS_LOGITS",
    "INPUT_KINDS",
    "LOGITS",
    "PROBABILITIES",
    "are_log_probabilities",
    "check_probabilities",
    "input_kind_of",
    "look_like_probabilities",
    "may_be",
    "warn_of_probabilities",
]

LOGITS: Final = "logits"
PROBABILITIES: Final = "probabilities"
AS_LOGITS: Final = "probabilities as logits"
"""Rows given as logits that look like probabilities: somebody went on after the warning."""

INPUT_KINDS = (LOGITS, PROBABILITIES, AS_LOGITS)
"""What a predictor may have been fitted on."""

SUM_TOLERANCE = {"float64": 1e-3, "float32": 1e-3, "float16": 1e-2, "bfloat16": 2e-2}
"""How far a row of probabilities may be from 1: some units of the last place, and room for digits that a text lacks.

It is there to find mistakes: the softmax of the logarithms sums to 1 in any case."""

_LOOKED_AT = 2**20  # numbers at the beginning of the data that are looked at
_FEWEST_ROWS = 8
_OFF = 0.02  # how far a row of rounded probabilities may be from 1
_CHANCE = 1e-6  # that rows of logits look so, at most
_PRECISE, _WHOLE = 1e-6, 0.5  # the least that one row counts for: with fractions, with zeros and ones alone


class Rows(Protocol):
    """Rows with the kind that was declared for them."""

    @property
    def input_kind(self) -> str:
        """What they were made from: logits or probabilities."""

    @property
    def n_classes(self) -> int:
        """Number of columns."""

    def head(self, n_rows: int) -> Floats:
        """The first rows, at most so many."""


def look_like_probabilities(rows: Floats) -> bool:
    """Whether rows of numbers are so plainly probabilities that they are no logits by chance.

    All numbers must be in [0, 1], and all rows must sum to 1. A row of logits that is within d of 1 is so by chance
    with a probability of about d at most, and n rows with d**n, which must be 1e-6 or less: one row that sums to 1 in
    six digits is enough, and so are three rows of float16. Rows of zeros and ones alone are common among small
    examples; of these it takes twenty.

    >>> look_like_probabilities(np.array([[0.7, 0.2, 0.1]])), look_like_probabilities(np.array([[1.0, 0.0]]))
    (True, False)
    >>> look_like_probabilities(np.log([[0.7, 0.2, 0.1]])), look_like_probabilities(np.eye(20))
    (False, True)
    """
    if not len(rows) or not 0 <= rows[0, 0] <= 1:  # all that is done for nearly every block of logits
        return False
    off = _off_one(rows)
    if off > _OFF:
        return False
    fractions = np.any((rows > 0) & (rows < 1))
    return bool(max(off, _PRECISE if fractions else _WHOLE) ** len(rows) <= _CHANCE)


def _sum_to_one(rows: Floats) -> bool:
    """Whether rows could be probabilities, as rounded as they may be."""
    return _off_one(rows) <= _OFF


def are_log_probabilities(rows: Floats) -> bool:
    """Whether rows are logarithms of probabilities, as `Logits.from_probabilities` makes them.

    >>> are_log_probabilities(np.log([[0.75, 0.25]])), are_log_probabilities(np.array([[3.0, 1.0]]))
    (True, False)
    """
    with np.errstate(over="ignore"):
        return _sum_to_one(np.exp(rows, dtype=np.float64))


def _off_one(rows: Floats) -> float:
    """The furthest that a row's sum is from 1; infinite where a number is outside [0, 1]."""
    if not len(rows):
        return 0.0
    if rows.min() < 0 or rows.max() > 1 + _PRECISE:
        return np.inf
    return float(np.abs(rows.sum(axis=1, dtype=np.float64) - 1).max())


def _first(data: Rows) -> Floats:
    return data.head(max(_FEWEST_ROWS, _LOOKED_AT // data.n_classes))


def input_kind_of(data: Rows) -> str:
    """What rows hold: what was declared, but for rows that look like something else. Only the first are looked at."""
    if data.input_kind == PROBABILITIES:
        return PROBABILITIES
    return AS_LOGITS if look_like_probabilities(_first(data)) else LOGITS


def may_be(data: Rows, kind: str) -> bool:
    """Whether rows given as logits can be what a predictor was fitted on, though too few to be sure."""
    return are_log_probabilities(_first(data)) if kind == PROBABILITIES else _sum_to_one(_first(data))


def warn_of_probabilities(data: Rows) -> None:
    """Say so where rows given as logits look like probabilities."""
    kind = LOGITS
    with suppress(InputError):  # rows of a file that cannot be read are refused when they are wanted
        kind = input_kind_of(data)
    if kind == AS_LOGITS:
        warnings.warn(
            "these logits look like probabilities: they are in [0, 1], and every row sums to 1. Sets from them are too "
            "large. Use Logits.from_probabilities (probabilities=True, or --probabilities for commands), or pass the "
            "logits of the model.",
            ProbabilitiesAsLogitsWarning,
            stacklevel=3,
        )


def check_probabilities(table: ReadTable) -> None:
    """Refuse rows that are no probabilities, as closely as their type allows."""
    probs, tolerance = table.values, SUM_TOLERANCE.get(table.source, SUM_TOLERANCE["float64"])
    with np.errstate(invalid="ignore"):
        low, total = probs.min(axis=1), probs.sum(axis=1, dtype=np.float64)
    if np.isnan(total).any() or (low < 0).any():
        row = int(np.flatnonzero(np.isnan(total) | (low < 0))[0])
        column = int(np.flatnonzero(np.isnan(probs[row]) | (probs[row] < 0))[0])
        shown = "NaN" if np.isnan(probs[row, column]) else probs[row, column]
        raise InputError(
            f"is {shown}; probabilities must be >= 0. Are these logits?", row=row, name="probs", column=column
        )
    wrong = np.flatnonzero(~(np.abs(total - 1) <= tolerance))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"sums to {total[row]:.6g}; {len(wrong)} row(s) do not sum to 1 within {tolerance:g}. "
            "Divide each row by its sum, or pass logits to Logits.",
            row=row,
            name="probs",
        )
