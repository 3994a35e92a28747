"""Plain scores: NumPy on sorted rows, checked, since a user's function may return anything."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thermoset.arrays import Floats, Ints, Pairs, pairs
from thermoset.errors import InputError
from thermoset.kernels import FURTHEST


class SortedRows(NamedTuple):
    """Some rows at one temperature, each sorted from its most to its least likely class; arrays cannot be written to.

    probs : (n, C), descending; gaps : (n, C), log(p / p_(1)) = (z - max z) / T, which still differ where probabilities
    underflow, -inf for masked classes; rank : (C,), 1 to C; u : (n, 1).
    """

    probs: Floats
    gaps: Floats
    rank: Ints
    u: Floats


def sorted_rows(from_top: Floats, temperature: float, u: Floats) -> SortedRows:
    """Gaps of sorted rows, as a plain score takes them."""
    with np.errstate(over="ignore"):
        gaps = np.maximum(from_top * (1.0 / temperature), FURTHEST)
    gaps[np.isneginf(from_top)] = -np.inf
    weight = np.exp(gaps)
    # One after the other: a masked class adds an exact zero, and the others have the bits they have without it.
    total = np.cumsum(weight, axis=1)[:, -1:]
    rows = SortedRows(weight / total, gaps, np.arange(1, from_top.shape[1] + 1), u[:, None].copy())
    for array in rows:
        array.flags.writeable = False
    return rows


def plain_pairs(score: Any, rows: SortedRows) -> Pairs:
    """Scores of sorted rows, (n, C) in the order of ranks, checked; masked classes are beyond every threshold."""
    with np.errstate(all="ignore"):  # probabilities underflow to 0 where temperatures are low; what matters is checked
        result = score.pairs(rows)
    value, tie = result if isinstance(result, tuple) and len(result) == 2 else (result, np.zeros(rows.probs.shape))
    scores, masked = pairs(_numbers(score, value, rows), _numbers(score, tie, rows)), np.isneginf(rows.gaps)
    bad = np.argwhere((np.isnan(scores) | np.isinf(scores.real)) & ~masked)
    if len(bad):
        i, r = bad[0]
        number = scores[i, r].real
        raise InputError(
            f"score {score.name!r} at rank {r + 1} (probability {rows.probs[i, r]:g}, u = {rows.u[i, 0]:g}) is "
            + (f"{number}; it must be finite. Clip it." if np.isinf(number) else "NaN; it must be a number.")
        )
    scores[masked] = complex(np.inf, np.inf)
    if score.keep_top:
        scores[:, 0] = complex(-np.inf, -np.inf)
    return scores


def _numbers(score: Any, values: object, rows: SortedRows) -> Floats:
    """One of the two numbers of a pair, for every row and rank."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"score {score.name!r} must return an array, or a pair (value, tie-break) of arrays; got "
            f"{type(values).__name__}."
        ) from None
    if numbers.shape != rows.probs.shape:
        raise InputError(
            f"score {score.name!r} must return one number for each row and rank, the shape {rows.probs.shape} of "
            f"probs; got {numbers.shape}."
        )
    return numbers


def distances_below_top(
    row: tuple[Floats, Floats, Floats], probs: Floats, gaps: Floats, push: float = 0.0
) -> tuple[Floats, Floats]:
    """How far labels are below the top one, p_(1) - p_y, as pairs.

    `row` is the probability of the top class, that of all others together, and the log of the latter, each (n, 1).

    The mass besides the top and the label's own together never exceed 1. Near 1 the value is made of that mass, so that
    values and logs never put two labels in different orders. `push` moves pairs up or down by more than sums round.
    """
    top, others, log_others = row
    mass = (others + probs) * (1.0 - push)
    value = np.where(mass < 0.5, 1.0 - mass, -top * np.expm1(gaps) * (1.0 + push))
    log_mass = np.logaddexp(log_others, gaps + np.log(top))
    return value, np.maximum(-log_mass * (1.0 + push) + push, 0.0)


def require_three_arguments(function: Callable[..., Any]) -> None:
    """Refuse a function that cannot be called with (probs, rank, u), where its signature is known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # that of some built-in functions is not
        return
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        raise InputError(
            f"a custom score is called with three arguments, (probs, rank, u); got a function {signature}: {error}. "
            "Give it these three, also where it ignores one."
        ) from None
