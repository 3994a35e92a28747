"""Label shift: the thresholds for other class shares than those of the conformal rows.

With r = target share / source share, a conformal row of class y weighs r(y), and so does label y of a row to be
predicted (Podkopaev and Ramdas 2021): q_y is the smallest score with
sum_{s_i <= q_y} r(y_i) >= (1 - alpha)(sum_i r(y_i) + r(y)).
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from thermoset.arrays import Floats, Ints, Pairs
from thermoset.bounds import MOST_HELD
from thermoset.conformal.calibration_scores import CalibrationScores, Pools, Weights
from thermoset.conformal.recipe import name_some
from thermoset.errors import CoverageWarning, InputError
from thermoset.levels import Alpha
from thermoset.quoting import quoted

if TYPE_CHECKING:
    from thermoset.predictor.document import Document

_ABSENT = 0.5  # rows that a class without rows counts as
LEAST_SHARE = 1e-10  # half a row of as many as there can be
_NORMAL = 1.959963984540054  # of a 95% interval
_NEAR = 1e-6  # of 1: what shares may add up to
_NAMED = 5  # classes that a message names


class LabelShift(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """For which class shares a predictor's conformal rows are weighted.

    `source` are the class shares of the conformal rows, `target` those of the rows to be predicted: given, or estimated
    from `target_rows` rows with these standard errors (`error`). `smoothing` is added to both before they are compared.
    `effective_rows` is how many conformal rows of equal weight say as much as the weighted ones.
    """

    source: tuple[float, ...]
    target: tuple[float, ...]
    effective_rows: float
    target_rows: int | None = None
    error: tuple[float, ...] | None = None
    smoothing: float = 0.0

    @property
    def estimated(self) -> bool:
        """Whether the target shares were estimated."""
        return self.target_rows is not None

    @property
    def ratio(self) -> Floats:
        """Target share / source share of each class, (C,); ones where all are equal, to the last bit."""
        ratio: Floats = (np.array(self.target) + self.smoothing) / (np.array(self.source) + self.smoothing)
        return np.ones_like(ratio) if np.all(ratio == ratio[0]) else ratio

    @property
    def ends(self) -> tuple[Floats, Floats] | None:
        """Lower and upper ends of the 95% intervals of the target shares, (C,), where their errors are known."""
        if self.error is None or self.target_rows is None:
            return None
        return share_ends(np.array(self.target), np.array(self.error), self.target_rows)

    def is_of(self, labels: Ints) -> bool:
        """Whether source and effective rows are those of conformal rows with these labels."""
        weights = self.ratio[labels]
        source = shares_of(np.bincount(labels, minlength=len(self.source)))
        known = tuple(source.tolist()) == self.source and bool(np.any(weights > 0))
        return known and Weights.of(weights).effective_rows == self.effective_rows

    def cross_checks(self, n_classes: int, n_rows: int) -> Iterator[tuple[bool, str]]:
        """What is wrong in a shift that was read from a file."""
        for name, shares, least in (("source", self.source, LEAST_SHARE), ("target", self.target, 0.0)):
            within = len(shares) == n_classes and all(least <= share <= 1 for share in shares)
            yield not within or abs(math.fsum(shares) - 1) > _NEAR, f"{name} must be shares, one per class"
        rows, error = self.target_rows, self.error
        yield not 0 < self.effective_rows <= n_rows * (1 + 1e-9), "effective_rows must be from 0 to the conformal rows"
        yield rows is not None and not 1 <= rows <= MOST_HELD, f"target_rows must be from 1 to {MOST_HELD:,}"
        yield error is not None and not self.estimated, "error must be that of estimated shares"
        yield not 0 <= self.smoothing <= 1, "smoothing must be from 0 to 1"
        outside = error is not None and not (len(error) == n_classes and all(0 < one <= 1 for one in error))
        yield outside, "error must be above 0 and at most 1, one per class"

    def thresholds(self, scores: Pairs, labels: Ints, alpha: Alpha) -> Pairs:
        """The threshold of each class, (C,), from scores of rows with these labels.

        A class without conformal rows has the threshold +inf, unless the shares are those of the conformal rows: nobody
        knows by how much its share has changed.
        """
        ratio = self.ratio
        weights = Weights.of(ratio[labels])
        thresholds = Pools.of(scores, np.zeros_like(labels), 1, weights.steps).thresholds(
            0, weights.round_weights(ratio), alpha
        )
        if np.any(ratio != 1.0):
            thresholds[np.bincount(labels, minlength=len(ratio)) == 0] = complex(np.inf, np.inf)
        return thresholds


def share_ends(shares: Floats, error: Floats, n_rows: int) -> tuple[Floats, Floats]:
    """95% intervals of estimated shares: Wilson's for as many rows as have these standard errors.

    A plain share +- 1.96 errors would miss shares of few rows too often: their errors are too small where they are.
    """
    spread = shares * (1 - shares) + 1 / n_rows
    shrinkage = _NORMAL**2 / np.minimum(spread / error**2, n_rows)
    middle = (shares + shrinkage / 2) / (1 + shrinkage)
    reach = np.sqrt(shares * (1 - shares) * shrinkage + (shrinkage / 2) ** 2) / (1 + shrinkage)
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def shares_of(counts: Ints) -> Floats:
    """Class shares from counts of rows; a class without rows counts as half a row."""
    rows = np.where(counts > 0, counts, _ABSENT)
    shares: Floats = rows / rows.sum()
    return shares


# ---- in the document -------------------------------------------------------------------------------------------------


def shift_document(document: "Document", shift: LabelShift) -> "Document":
    """The document for these shares, without what was measured under others."""
    calibration = shiftable_scores(document)
    endless = np.flatnonzero(np.isposinf(shift.thresholds(calibration.scores, calibration.labels, document.alpha).real))
    if len(endless):
        named = name_some(endless, document.classes, np.bincount(calibration.labels, minlength=document.n_classes))
        warnings.warn(
            f"{len(endless):,} of {document.n_classes:,} classes have too few conformal rows for a finite threshold "
            f"under these class shares, so they are in every set: {named}. Recalibrate on more rows of these classes.",
            CoverageWarning,
            stacklevel=4,
        )
    return document.change(shift=shift, sizes=(), measures=(), confidence=None)


def source_counts(document: "Document") -> Ints:
    """Conformal rows of each class, (C,)."""
    return np.bincount(shiftable_scores(document).labels, minlength=document.n_classes)


def shiftable_scores(document: "Document") -> CalibrationScores:
    """The scores of the conformal rows; refused, in one line, where they cannot be weighted for other class shares."""
    grouping = document.grouping
    if document.answers is not None:
        raise InputError(
            "a predictor that answers rows alone cannot be shifted: its certified error is that of the class shares it "
            "was proved on. Recalibrate it on labelled rows like the new ones, or fit without answer=."
        )
    if grouping is not None and grouping.each_class and grouping.has_p_values:
        raise InputError(
            "thresholds by class remain valid under label shift: each class keeps its own coverage, whatever its "
            "share. Use the predictor as it is."
        )
    if grouping is not None:
        raise InputError(
            f"a predictor with grouping={document.recipe.grouping!r} cannot be shifted: it has no single threshold for "
            "all rows. Fit with grouping=None, or with grouping='class', whose thresholds remain valid under label "
            "shift."
        )
    if document.is_weighted:
        raise InputError(
            "this predictor cannot be shifted: its conformal rows already have weights. Recalibrate it without "
            "weights, or multiply the weights by target share / source share of the rows' classes."
        )
    if not document.is_plain:
        raise InputError(
            f"this predictor cannot be shifted: its threshold was raised to that of alpha = {document.recipe.alpha} to "
            "protect classes. Fit with prefer='even' or 'small'."
        )
    return document.calibration_scores()  # which says why there are none


# ---- shares that a user gives ----------------------------------------------------------------------------------------


def read_priors(priors: Any, classes: tuple[str, ...] | None, n_classes: int) -> Floats:
    """Class shares that a user gave, by name, by column number or in the order of columns, checked."""
    listed = _in_order(priors, classes, n_classes) if isinstance(priors, Mapping) else priors
    try:
        shares = np.array(listed, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"priors must be numbers, one per class; got {quoted(priors)}.") from None
    if shares.shape != (n_classes,):
        raise InputError(f"priors must be {n_classes} shares, one per class; got shape {shares.shape}.")
    bad = np.flatnonzero(~((shares >= 0) & (shares <= 1)))
    if len(bad):
        name = name_some(bad[:1], classes)
        raise InputError(f"priors must be shares from 0 to 1; that of class {name} is {shares[bad[0]]:g}.")
    whole = math.fsum(shares)
    if abs(whole - 1) > 1e-3:
        raise InputError(f"priors must add up to 1; got {whole:.6g}. Divide by the sum.")
    return shares if abs(whole - 1) <= 1e-9 else shares / whole  # exact ones are left as they are, to the last bit


def _in_order(priors: Mapping[Any, Any], classes: tuple[str, ...] | None, n_classes: int) -> list[Any]:
    """Shares by name as a list in the order of columns; every class must be there, and no other."""
    places = {name: column for column, name in enumerate(classes or ())}
    if not any(str(name) in places for name in priors):
        places = {str(column): column for column in range(n_classes)}
    unknown = [name for name in priors if str(name) not in places]
    if unknown:
        more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
        known = ", ".join(map(quoted, list(places)[:_NAMED]))
        raise InputError(f"priors name an unknown class: {quoted(unknown[0])}{more}. Classes are: {known} ...")
    shares: dict[int, Any] = {}
    for name, share in priors.items():
        column = places[str(name)]
        if column in shares:
            raise InputError(f"priors name class {name_some(np.array([column]), classes)} twice.")
        shares[column] = share
    missing = np.array([column for column in range(n_classes) if column not in shares], dtype=np.int64)
    if len(missing):
        raise InputError(
            f"priors must have a share for each of the {n_classes:,} classes; {name_some(missing, classes)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Write 0 for classes that do not occur."
        )
    return [shares[column] for column in range(n_classes)]
