"""Errors and warnings about thresholds: too few rows, small weights, masked or missed labels."""

import warnings
from fractions import Fraction

import numpy as np

from thermoset.arrays import Pairs
from thermoset.conformal.calibration_scores import CalibrationScores
from thermoset.conformal.recipe import name_some
from thermoset.data import Groups, Logits
from thermoset.errors import CoverageWarning, InputError
from thermoset.levels import Alpha, exact_level, rows_needed
from thermoset.quoting import listing, quoted

_MISSED_NAMED = 3  # classes that are hardly covered
_FEWEST_TO_JUDGE = 20  # conformal rows of a class from which on its coverage is judged


def fitted_groups(data: Logits, purpose: str) -> Groups:
    """The groups of conformal rows; refused where nearly every row has one of its own."""
    groups = data.require_groups(purpose)
    n_groups = int(np.count_nonzero(groups.counts))
    if n_groups > max(len(groups) // 2, 1):
        raise InputError(
            f"groups has {n_groups:,} different values in {len(groups):,} rows: a threshold needs many rows of each "
            "group, and this looks like one id per row. Pass a column whose values many rows share, such as site or "
            "device."
        )
    return groups


def check_weightable(grouping: str | None) -> None:
    """Refuse weights where a threshold depends on more than the row's weight."""
    if grouping is not None:
        unit = "group" if grouping == "group" else "class"
        raise InputError(
            f"weights need one threshold for all classes and groups; got grouping={grouping!r}, which would need one "
            f"threshold per {unit} and row. Omit grouping or weights."
        )


def mostly_missed(alpha: Alpha) -> str | None:
    """A warning at a level at which sets miss more labels than they hold: most often, coverage was meant."""
    level = exact_level(alpha)
    if level <= Fraction(1, 2):
        return None
    held, missed = (f"{float(100 * part):g}%" for part in (1 - level, level))
    return (
        f"alpha={alpha} promises that sets hold the true label {held} of the time. For {missed} use "
        f"alpha={float(1 - level):g}."
    )


def shortage(
    scores: CalibrationScores, thresholds: Pairs, alpha: Alpha, n_classes: int, classes: tuple[str, ...] | None
) -> str | None:
    """Why thresholds are infinite, and what to do; None where there is nothing to warn of."""
    infinite, pools = np.isposinf(thresholds.real).ravel(), scores.pool_sizes()
    needed, weights = rows_needed(alpha), scores.weights
    if weights is not None and (effective := weights.effective_rows) < needed:
        return (
            f"alpha={alpha} needs at least {needed:,} rows of equal weight for a finite threshold; "
            f"{len(weights.steps):,} rows with these weights are worth {effective:.1f}. Rows with a weight above "
            f"{weights.heaviest(alpha):.3g} get sets with all classes: add rows where the weights are large, or raise "
            "alpha."
        )
    mixed = scores.grouping is not None and not scores.grouping.exact
    few = np.flatnonzero((infinite if infinite.any() else mixed) & (pools < needed))
    fewest = few[np.argsort(pools[few], kind="stable")]
    if not few.size and not infinite.any():
        return None
    if not few.size:
        masked = np.count_nonzero(np.isposinf(scores.scores.real))
        return (
            "a threshold is infinite. Some classes have no finite score, because they are masked (logit -inf) or not "
            f"among the logits a row keeps, and the label of {masked} of {len(scores.labels)} rows is such a class. "
            "Labels with this threshold enter every set: use a model that gives every class a probability, keep more "
            "logits of each row, or raise alpha."
        )
    if scores.groups is not None:
        groups = scores.groups.names
        each = [f"{quoted(groups[g])} ({pools[g]:,}{'' if pools[g] else ', it had no conformal row'})" for g in few]
        return (
            f"alpha={alpha} needs at least {needed:,} rows of each group for a finite threshold; too few for "
            f"{len(few):,} of {len(groups):,} groups: {listing(each)}. Sets of their rows hold all classes: add rows, "
            "raise alpha, or merge small groups."
        )
    if scores.grouping is None:
        return (
            f"alpha={alpha} needs at least {needed} rows for a finite threshold; got {pools[0]}. "
            f"Every set will contain all {n_classes} classes: add rows or raise alpha."
        )
    named = f"{len(few)} of {n_classes} classes: {name_some(fewest, classes, pools)}"
    if not infinite.any():
        return (
            f"alpha={alpha} needs at least {needed} rows of a class for its own threshold; too few for {named}. The "
            "largest possible score replaces it in the mixture."
        )
    return (
        f"alpha={alpha} needs at least {needed} rows of each {scores.grouping.unit} for a finite threshold; too few "
        f"for {named}. Those labels enter every set: add rows, raise alpha, or pool more classes (grouping='cluster', "
        "'interpolated' or None)."
    )


def warn_of_missed_classes(
    scores: CalibrationScores, thresholds: Pairs, alpha: Alpha, classes: tuple[str, ...] | None
) -> None:
    """Name the classes that one threshold for all hardly covers: a promise about all rows does not show them.

    Such a class has at least 20 conformal rows, and its coverage is below half of 1 - alpha even at the upper end of
    its 95% interval (Clopper and Pearson, one-sided). Where thresholds differ by class, group or weight none is named.
    """
    from thermoset.metrics.laws import clopper_pearson  # noqa: PLC0415 - SciPy, which predicting does not need

    if thresholds.size > 1 or scores.grouping is not None or scores.weights is not None:
        return
    promised = 1 - exact_level(alpha)
    counts = np.bincount(scores.labels)
    hits = np.bincount(scores.labels[scores.scores <= thresholds.flat[0]], minlength=len(counts))
    judged = np.flatnonzero(counts >= _FEWEST_TO_JUDGE)
    upper = clopper_pearson(hits[judged], counts[judged], confidence=0.9).high  # 5% beyond either end
    missed = judged[upper < float(promised) / 2]
    if not missed.size:
        return
    least = missed[np.argsort(hits[missed] / counts[missed], kind="stable")].tolist()
    named = [
        f"{c if classes is None else quoted(classes[c])} (of {hits[c]:,} of its {counts[c]:,} conformal rows)"
        for c in least
    ]
    warnings.warn(
        f"sets hold the true label of {float(100 * promised):g}% of all rows, as promised, but less than half as "
        f"often where it is {listing(named, _MISSED_NAMED)}. To promise coverage for every class, name a method and "
        "use grouping='class'; with one threshold, prefer='protect' covers hard classes better.",
        CoverageWarning,
        stacklevel=4,
    )
