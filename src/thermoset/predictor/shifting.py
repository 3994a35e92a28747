"""How a predictor is made for rows with other class shares, and what of its document that changes."""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from thermoset.arrays import Floats, Ints, Pairs
from thermoset.conformal.calibration_scores import Weights
from thermoset.errors import CoverageWarning, InputError
from thermoset.predictor.document import Document
from thermoset.predictor.label_shift import LabelShift, ratios_of, shares_of, shifted_thresholds
from thermoset.predictor.priors import PriorEstimate
from thermoset.quoting import quoted

__all__ = ["read_priors", "require_shiftable", "shift_of", "shifted", "source_counts"]

_NAMED = 5  # classes that a message names
_OFF = 1e-3  # of 1: what given shares may add up to; they are then scaled
_EXACT = 1e-9  # given shares that are closer to 1 are left as they are, to the last bit


def shifted(made: Document, shift: LabelShift) -> Document:
    """The document with thresholds for these shares; what was measured under the old ones is left out."""
    scores, labels = _scores_and_labels(made)
    found = shifted_thresholds(scores, labels, shift, made.alpha)
    endless = np.flatnonzero(np.isposinf(found.real))
    if len(endless):
        _warn_of_endless(made, endless, np.bincount(labels, minlength=made.n_classes))
    return made.change(shift=shift, sizes=(), measures=(), confidence=None)


def shift_of(made: Document, given: Any) -> LabelShift:
    """The shift to given or estimated class shares."""
    _, labels = _scores_and_labels(made)
    source, estimate = shares_of(source_counts(made)), given if isinstance(given, PriorEstimate) else None
    if estimate is not None and not np.array_equal(estimate.source, source):
        raise InputError("these shares were estimated with a different predictor. Estimate them with this one.")
    target = read_priors(given, made.classes, made.n_classes) if estimate is None else estimate.target
    shift = LabelShift(
        source=tuple(source.tolist()),
        target=tuple(target.tolist()),
        effective_rows=1.0,
        target_rows=None if estimate is None else estimate.rows,
        error=None if estimate is None or estimate.error is None else tuple(estimate.error.tolist()),
    )
    weights = ratios_of(shift)[labels]
    if not np.any(weights > 0):
        raise InputError(
            "the class shares give all the weight to classes without conformal rows, so nothing is known about their "
            "scores. Recalibrate on rows of these classes."
        )
    return msgspec.structs.replace(shift, effective_rows=Weights.of(weights).effective_rows)


def source_counts(made: Document) -> Ints:
    """Conformal rows of each class, (C,)."""
    require_shiftable(made)
    return np.bincount(_scores_and_labels(made)[1], minlength=made.n_classes)


def require_shiftable(made: Document) -> None:
    """Refuse, in one line, a predictor that cannot be made for other class shares."""
    grouping = made.grouping
    if grouping is not None and grouping.each_class and grouping.has_p_values:
        raise InputError(
            "thresholds by class remain valid under label shift: each class keeps its own coverage, whatever its "
            "share. Use the predictor as it is."
        )
    if grouping is not None:
        raise InputError(
            f"a predictor with grouping={made.recipe.grouping!r} cannot be shifted: it has no single threshold for all "
            "rows. Fit with grouping=None, or with grouping='class', whose thresholds remain valid under label shift."
        )
    if made.is_weighted:
        raise InputError(
            "this predictor cannot be shifted: its conformal rows already have weights. Recalibrate it without "
            "weights, or multiply the weights by target share / source share of the rows' classes."
        )
    if not made.is_plain:
        raise InputError(
            f"this predictor cannot be shifted: its threshold was raised to that of alpha = {made.recipe.alpha} to "
            "protect classes. Fit with prefer='even' or 'small'."
        )
    made.calibration_scores()  # which says why there are none


def _scores_and_labels(made: Document) -> tuple[Pairs, Ints]:
    require_shiftable(made)
    found = made.calibration_scores()
    return found.scores, found.labels


def read_priors(given: Any, classes: tuple[str, ...] | None, n_classes: int) -> Floats:
    """Class shares that a user gave, by name, by column number or in the order of columns, checked.

    >>> read_priors({"bee": 0.25, "ant": 0.75}, ("ant", "bee"), 2)
    array([0.75, 0.25])
    >>> read_priors([0.5, 0.6], None, 2)
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: priors must add up to 1; got 1.1. Divide by the sum.
    """
    listed = _in_order(given, classes, n_classes) if isinstance(given, Mapping) else given
    try:
        shares = np.array(listed, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"priors must be numbers, one per class; got {quoted(given)}.") from None
    if shares.shape != (n_classes,):
        raise InputError(f"priors must be {n_classes} shares, one per class; got shape {shares.shape}.")
    bad = np.flatnonzero(~((shares >= 0) & (shares <= 1)))
    if len(bad):
        name = _name_of(classes, int(bad[0]))
        raise InputError(f"priors must be shares from 0 to 1; that of class {name} is {shares[bad[0]]:g}.")
    whole = math.fsum(shares)
    if abs(whole - 1) > _OFF:
        raise InputError(f"priors must add up to 1; got {whole:.6g}. Divide by the sum.")
    return shares if abs(whole - 1) <= _EXACT else shares / whole


def _in_order(given: Mapping[Any, Any], classes: tuple[str, ...] | None, n_classes: int) -> list[Any]:
    """Shares by name as a list in the order of columns; every class must be there, and no other."""
    numbers = {str(column): column for column in range(n_classes)}
    places = numbers if classes is None else {name: column for column, name in enumerate(classes)}
    if classes is not None and not any(str(name) in places for name in given):
        places = numbers
    unknown = [name for name in given if str(name) not in places]
    if unknown:
        more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
        known = "0 to " + str(n_classes - 1) if places is numbers else ", ".join(map(quoted, list(places)[:_NAMED]))
        raise InputError(f"priors name an unknown class: {quoted(unknown[0])}{more}. Classes are: {known} ...")
    found: dict[int, Any] = {}
    for name, share in given.items():
        column = places[str(name)]
        if column in found:
            raise InputError(f"priors name class {_name_of(classes, column)} twice.")
        found[column] = share
    missing = [column for column in range(n_classes) if column not in found]
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise InputError(
            f"priors must have a share for each of the {n_classes:,} classes; {_name_of(classes, missing[0])}{more} "
            "is missing. Write 0 for classes that do not occur."
        )
    return [found[column] for column in range(n_classes)]


def _warn_of_endless(made: Document, endless: Ints, counts: Ints) -> None:
    told = [f"{_name_of(made.classes, int(c))} ({counts[c]:,} rows)" for c in endless[:_NAMED]]
    more = f" and {len(endless) - _NAMED:,} more" if len(endless) > _NAMED else ""
    warnings.warn(
        f"{len(endless):,} of {made.n_classes:,} classes have too few conformal rows for a finite threshold under "
        f"these class shares, so they are in every set: {', '.join(told)}{more}. Recalibrate on more rows of these "
        "classes.",
        CoverageWarning,
        stacklevel=4,
    )


def _name_of(classes: tuple[str, ...] | None, column: int) -> str:
    return str(column) if classes is None else quoted(classes[column])
