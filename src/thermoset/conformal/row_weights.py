"""Thresholds by row where rows have weights: coverage under a shift of the rows that is known (covariate shift).

With w(x) proportional to how much likelier x is among the rows to be predicted than among the conformal rows, and
labels that depend on x as before, sets hold the label with probability at least 1 - alpha on average over both
(Tibshirani et al. 2019). A row that weighs more has a threshold that is at least as high: like the +1 of n + 1, its own
weight stands for the case that its score is the largest.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from thermoset.conformal.row_groups import Applied, stacked
from thermoset.core.exponentials import Floats
from thermoset.core.levels import Alpha, rows_needed
from thermoset.core.weighted import WeightedScores
from thermoset.data.weights import checked_weights
from thermoset.errors import InputError

__all__ = ["by_weight", "check_weightable", "own_weights", "too_few_effective"]


def check_weightable(grouping: str | None) -> None:
    """Refuse weights where a threshold depends on more than the row's weight.

    >>> check_weightable("class")
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: weights need one threshold for all classes and groups; got grouping='class', which \
would need one threshold per class and row. Omit grouping or weights.
    """
    if grouping is not None:
        unit = "group" if grouping == "group" else "class"
        raise InputError(
            f"weights need one threshold for all classes and groups; got grouping={grouping!r}, which would need one "
            f"threshold per {unit} and row. Omit grouping or weights."
        )


def own_weights(scores: WeightedScores | None, weights: Any, n_rows: int) -> Floats | None:
    """The weights of rows to be predicted: there must be some where conformal rows have them, and only there."""
    if scores is None and weights is not None:
        raise InputError(
            "weights were given, but the threshold comes from rows without weights. Fit or recalibrate with weights "
            "for the conformal rows, or omit weights."
        )
    if scores is not None and weights is None:
        raise InputError(
            "the conformal rows have weights, so each row's threshold depends on its own weight. Pass weights, one "
            "number per row, on the same scale as those of the conformal rows."
        )
    return None if weights is None else checked_weights(weights, n_rows)


def by_weight(scores: WeightedScores, weights: Floats, alphas: Sequence[Alpha]) -> Applied:
    """The thresholds of some levels for each weight that occurs, and which of them each row has."""
    different, codes = np.unique(weights, return_inverse=True)
    return Applied(stacked([scores.thresholds(different, alpha) for alpha in alphas]), codes)


def too_few_effective(scores: WeightedScores, alpha: Alpha) -> str | None:
    """What to say where rows of different weight come to fewer rows than alpha needs; None where they suffice."""
    needed, effective = rows_needed(alpha), scores.effective_rows
    if effective >= needed:
        return None
    return (
        f"alpha={alpha} needs at least {needed:,} rows of equal weight for a finite threshold; {len(scores.weights):,} "
        f"rows with these weights are worth {effective:.1f}. Rows with a weight above {scores.heaviest(alpha):.3g} get "
        "sets with all classes: add rows where the weights are large, or raise alpha."
    )
