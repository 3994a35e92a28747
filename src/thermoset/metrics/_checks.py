"""Input checks of every metric. Nothing here changes its input."""

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats, Ints
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.metrics._arrays import AnyArray, RealArray
from thermoset.quoting import quoted

ROW_SUM_TOLERANCE = 1e-3
"""How far from one a row of probabilities may sum; float16 gets more, see `check_probs`."""

MOST_SUMMED = 10**7
"""Rows of a law whose mass function is summed term by term, and classes that are counted: ten million."""


def as_array(values: ArrayLike, name: str) -> AnyArray:
    """Read values as an array, refusing ragged lists."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} must be a rectangular array; got {type(values).__name__}: {error}.") from error


def _check_table(array: AnyArray, name: str) -> None:
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"{name} must have shape (rows, classes) with at least one row and one class; got {array.shape}. "
            "Pass one row per example and one column per class."
        )


def check_sets(sets: ArrayLike) -> Bools:
    """Prediction sets: boolean (n, C), True where the class is in the set."""
    array = as_array(sets, "sets")
    if array.dtype != np.bool_:
        raise InputError(f"sets must be a boolean array; got dtype {array.dtype}. Pass what predict_set returns.")
    _check_table(array, "sets")
    return array.astype(np.bool_, copy=False)


def check_label_values(labels: ArrayLike, n_classes: int) -> Ints:
    """Labels as column indices 0 .. C-1, one dimension, at least one."""
    array = as_array(labels, "labels")
    if array.ndim != 1 or not len(array):
        raise InputError(
            f"labels must have shape (rows,) with at least one row; got {array.shape}. Pass one label per row."
        )
    if array.dtype.kind not in "iu":
        raise InputError(
            f"labels must be integer class indices; got dtype {array.dtype}. Use the .labels of thermoset.Logits, "
            "which turns class names into indices."
        )
    indices = array.astype(np.int64, copy=False)
    bad = np.flatnonzero((indices < 0) | (indices >= n_classes))
    if len(bad):
        raise InputError(
            f"labels[{bad[0]}] is {array[bad[0]]}; {len(bad)} such values. "
            f"Labels must lie in 0..{n_classes - 1}, the columns of {n_classes} classes."
        )
    return indices


def check_labels(labels: ArrayLike, table: AnyArray, name: str) -> Ints:
    """Labels that belong to the rows of a table (n, C) called `name`."""
    array = as_array(labels, "labels")
    n, n_classes = table.shape
    if array.shape != (n,):
        raise InputError(
            f"labels must have shape ({n},) to match {name} {table.shape}; got {array.shape}. Pass one label per row."
        )
    return check_label_values(array, n_classes)


def check_scores(scores: ArrayLike, name: str) -> RealArray:
    """Real numbers (n, C), higher for the likelier class; infinities are ordered, NaN is not."""
    array = as_array(scores, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be an array of real numbers; got dtype {array.dtype}. Pass floats.")
    _check_table(array, name)
    precision = array.dtype if np.issubdtype(array.dtype, np.floating) else np.dtype(np.float64)
    table: RealArray = array.astype(precision, copy=False)
    if np.isnan(table.min()):
        rows, columns = np.nonzero(np.isnan(table))
        raise InputError(
            f"{name}[{rows[0]}, {columns[0]}] is nan; {len(rows)} such values. Drop those rows or fix the model."
        )
    return table


def check_probs(probs: ArrayLike) -> RealArray:
    """Probabilities (n, C): in [0, 1], rows summing to one as closely as their precision allows."""
    table = check_scores(probs, "probs")
    remedy = "If these are logits, apply thermoset.TemperatureScaler or a softmax first."
    # sqrt(eps) is 0.03 for float16: a softmax of 1,000 classes in half precision is that far off.
    tolerance = max(ROW_SUM_TOLERANCE, float(np.sqrt(np.finfo(table.dtype).eps)))
    if table.min() < 0 or table.max() > 1 + tolerance:
        rows, columns = np.nonzero((table < 0) | (table > 1 + tolerance))
        raise InputError(
            f"probs must lie in [0, 1]; probs[{rows[0]}, {columns[0]}] is {table[rows[0], columns[0]]}, "
            f"{len(rows)} such values. {remedy}"
        )
    totals = table.sum(axis=1, dtype=np.float64)
    bad = np.flatnonzero(np.abs(totals - 1) > tolerance)
    if len(bad):
        raise InputError(
            f"rows of probs must sum to one; row {bad[0]} sums to {totals[bad[0]]:.6g}, {len(bad)} such rows. {remedy}"
        )
    return table


def check_confidence_and_correct(confidence: ArrayLike, correct: ArrayLike) -> tuple[Floats, Bools]:
    """Confidence of the predicted label in [0, 1] and whether that label was correct, one of each per row."""
    level, right = as_array(confidence, "confidence"), as_array(correct, "correct")
    if level.ndim != 1 or not len(level) or right.shape != level.shape:
        raise InputError(
            f"confidence and correct must have the same shape (rows,), with at least one row; "
            f"got {level.shape} and {right.shape}."
        )
    if level.dtype.kind not in "fiu" or right.dtype != np.bool_:
        raise InputError(
            f"confidence must be floats and correct booleans; got dtypes {level.dtype} and {right.dtype}. "
            "Pass probs.max(axis=1) and probs.argmax(axis=1) == labels."
        )
    numbers = level.astype(np.float64, copy=False)
    if not (numbers.min() >= 0 and numbers.max() <= 1 + ROW_SUM_TOLERANCE):  # written so that NaN fails too
        raise InputError(
            f"confidence must lie in [0, 1]; got values from {numbers.min():.6g} to {numbers.max():.6g}. "
            "Pass probs.max(axis=1)."
        )
    return numbers, right.astype(np.bool_, copy=False)


def check_counts(hits: ArrayLike, counts: ArrayLike, names: tuple[str, str] = ("hits", "counts")) -> tuple[Ints, Ints]:
    """Successes and trials of the same shape, or shapes that broadcast: 0 <= hits <= counts."""
    pair = as_array(hits, names[0]), as_array(counts, names[1])
    for array, name in zip(pair, names, strict=True):
        if array.dtype.kind not in "iu":
            raise InputError(f"{name} must be integers; got dtype {array.dtype}. Pass counts of rows, not shares.")
    successes, trials = (array.astype(np.int64, copy=False) for array in pair)
    try:
        legal = (successes >= 0) & (successes <= trials)
    except ValueError as error:
        raise InputError(
            f"{names[0]} and {names[1]} must have shapes that match; got {successes.shape} and {trials.shape}."
        ) from error
    if not legal.all():
        where = tuple(int(i) for i in np.argwhere(~legal)[0])
        s, t = (int(np.broadcast_to(array, legal.shape)[where]) for array in (successes, trials))
        raise InputError(f"{names[0]} must lie between 0 and {names[1]}; got {s} of {t} at index {where}.")
    return successes, trials


def promised(alpha: Alpha) -> float:
    """Coverage 1 - alpha, rounded once from the decimal the user typed."""
    return float(1 - exact_level(alpha))


def seeded(random_state: int | np.random.Generator) -> np.random.Generator:
    """The generator that a seed stands for, or the generator itself."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InputError(
            f"random_state must be a whole number >= 0 or a numpy Generator; got {quoted(random_state)}. Try 0."
        ) from None
