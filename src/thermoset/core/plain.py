"""What a score in plain NumPy is given, and the margin score written that way.

Nothing here is compiled. `core.general` computes such scores: it sorts the rows, makes these records and puts what
comes back into label order.
"""

from typing import NamedTuple

import numpy as np

from thermoset.core.exponentials import MOST_NEGATIVE, Floats, Ints

__all__ = ["Beside", "SortedRows", "apart", "margin", "sorted_rows"]


class SortedRows(NamedTuple):
    """Some rows at one temperature, each sorted from its most to its least likely class; arrays cannot be written to.

    probs : (n, C), falling; gaps : (n, C), log(p / p_(1)) = (z - max z) / T, which still differ where probabilities
    underflow, -inf for masked classes; rank : (C,), 1 to C; u : (n, 1).
    """

    probs: Floats
    gaps: Floats
    rank: Ints
    u: Floats


def sorted_rows(rising: Floats, temperature: float, u: Floats) -> SortedRows:
    """Rows of logits in rising order, as a plain score takes them."""
    falling = rising[:, ::-1]
    with np.errstate(over="ignore"):
        gaps = np.maximum((falling - falling[:, :1]) * (1.0 / temperature), MOST_NEGATIVE)
    gaps[np.isneginf(falling)] = -np.inf
    weight = np.exp(gaps)
    # One after the other: a masked class adds an exact zero, and the others have the bits they have without it.
    total = np.cumsum(weight, axis=1)[:, -1:]
    made = SortedRows(weight / total, gaps, np.arange(1, rising.shape[1] + 1), u[:, None].copy())
    for array in made:
        array.flags.writeable = False
    return made


def margin(rows: SortedRows) -> tuple[Floats, Floats]:
    """The largest other probability minus the label's own, as a pair.

    With r the mass of all classes but the top one, 1 + value of the top label is r + p_(2), and 1 - value of another is
    r + p_y: the logs of these resolve values that round to -1 and to 1.
    """
    top, gaps = rows.probs[:, :1], rows.gaps
    beside = np.cumsum(rows.probs[:, 1:], axis=1)[:, -1:]
    log_beside = np.logaddexp.reduce(gaps[:, 1:], axis=1, keepdims=True) + np.log(top)
    value, refine = apart(Beside(top, beside, log_beside), rows.probs, gaps)
    value[:, :1], refine[:, :1] = -value[:, 1:2], -refine[:, 1:2]
    return value, refine


class Beside(NamedTuple):
    """Probability of the top class and of all others together, and the log of the latter, each (n, 1)."""

    top: Floats
    mass: Floats
    log_mass: Floats


def apart(row: Beside, probs: Floats, gaps: Floats, push: float = 0.0) -> tuple[Floats, Floats]:
    """How far labels are below the top one, p_(1) - p_y, as pairs.

    The mass beside the top and the label's own together never exceed 1. Near 1 the value is made of that mass, so that
    values and logs never put two labels in different orders. `push` moves pairs up or down by more than sums round.
    """
    mass = (row.mass + probs) * (1.0 - push)
    value = np.where(mass < 0.5, 1.0 - mass, -row.top * np.expm1(gaps) * (1.0 + push))
    log_mass = np.logaddexp(row.log_mass, gaps + np.log(row.top))
    return value, np.maximum(-log_mass * (1.0 + push) + push, 0.0)
