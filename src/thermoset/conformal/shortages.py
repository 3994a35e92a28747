"""What to say where thresholds are infinite, or stand in for one: too few rows, too small weights, masked labels."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.groupings import Grouping
from thermoset.conformal.learning import some_named
from thermoset.conformal.pooling import PooledScores
from thermoset.conformal.row_groups import too_few_rows
from thermoset.conformal.row_weights import too_few_effective
from thermoset.core.levels import Alpha, exact_level, rows_needed
from thermoset.core.thresholds import ScorePairs

__all__ = ["mostly_missed", "shortage"]

Ints = NDArray[np.int64]


def mostly_missed(alpha: Alpha) -> str | None:
    """What to say of a level at which sets miss more labels than they hold: most often, coverage was meant.

    >>> mostly_missed("0.9")
    'alpha=0.9 promises that sets hold the true label 10% of the time. For 90% use alpha=0.1.'
    >>> mostly_missed("0.5") is None
    True
    """
    level = exact_level(alpha)
    if level <= Fraction(1, 2):
        return None
    held, missed = (f"{float(100 * part):g}%" for part in (1 - level, level))
    return (
        f"alpha={alpha} promises that sets hold the true label {held} of the time. For {missed} use "
        f"alpha={float(1 - level):g}."
    )


def shortage(
    scores: PooledScores, thresholds: ScorePairs, alpha: Alpha, n_classes: int, classes: tuple[str, ...] | None
) -> str | None:
    """Why thresholds are infinite, and what to do; None where there is nothing to say."""
    infinite, pools = np.isposinf(thresholds.value), scores.pool_sizes()
    if scores.weighted is not None and (told := too_few_effective(scores.weighted, alpha)) is not None:
        return told
    stood_in = scores.grouping is not None and not scores.grouping.exact
    few = np.flatnonzero((infinite if infinite.any() else stood_in) & (pools < rows_needed(alpha)))
    if not infinite.any():
        return _stood_in(_fewest(few, pools, n_classes, classes), alpha) if few.size else None
    if not few.size:
        return _masked(scores)
    if scores.groups is not None:
        return too_few_rows(scores.groups.names, pools, alpha)
    if scores.grouping is None:
        return (
            f"alpha={alpha} needs at least {rows_needed(alpha)} rows for a finite threshold; got {pools[0]}. "
            f"Every set will contain all {n_classes} classes: add rows or raise alpha."
        )
    return _too_few(scores.grouping, _fewest(few, pools, n_classes, classes), alpha)


def _too_few(grouping: Grouping, fewest: str, alpha: Alpha) -> str:
    return (
        f"alpha={alpha} needs at least {rows_needed(alpha)} rows of each {grouping.unit} for a finite threshold; too "
        f"few for {fewest}. Those labels enter every set: "
        "add rows, raise alpha, or pool more classes (grouping='cluster', 'interpolated' or None)."
    )


def _stood_in(fewest: str, alpha: Alpha) -> str:
    return (
        f"alpha={alpha} needs at least {rows_needed(alpha)} rows of a class for its own threshold; too few for "
        f"{fewest}. The largest possible score replaces it in the mixture."
    )


def _fewest(few: Ints, pools: Ints, n_classes: int, classes: tuple[str, ...] | None) -> str:
    """How many classes have too few rows, and the names of those with the fewest."""
    rising = few[np.argsort(pools[few], kind="stable")]
    return f"{len(few)} of {n_classes} classes: {some_named(rising, classes, pools)}"


def _masked(scores: PooledScores) -> str:
    masked = np.count_nonzero(np.isposinf(scores.scores.value))
    return (
        "a threshold is infinite. Some classes have no finite score, because they are masked (logit -inf) or not "
        f"among the logits a row keeps, and the label of {masked} of {len(scores.labels)} rows is such a class. Labels "
        "with this threshold enter every set: use a model that gives every class a probability, keep more logits of "
        "each row, or raise alpha."
    )
