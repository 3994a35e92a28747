"""What a document must be to make a predictor: what fits the schema may still be none.

A forged checksum gets no further than here.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from thermoset.bounds import COLDEST, HOTTEST, MOST_HELD
from thermoset.conformal.calibration_scores import CalibrationScores
from thermoset.conformal.groupings import GROUPINGS, RC3P, Grouping, resolve_grouping
from thermoset.conformal.recipe import FALLBACKS
from thermoset.conformal.scoring import Scoring
from thermoset.data.input_kinds import INPUT_KINDS
from thermoset.errors import InputError
from thermoset.levels import exact_level
from thermoset.predictor.confidence import broken_confidence
from thermoset.predictor.kept_scores import broken_scores, plain_threshold
from thermoset.predictor.kept_weights import broken_weights
from thermoset.predictor.label_shift import broken_shares, broken_shift, shares_of
from thermoset.predictor.thresholds import Thresholds
from thermoset.predictor.used_rows import broken_keys
from thermoset.tuning.choice import Choice
from thermoset.tuning.preferences import read_preference

if TYPE_CHECKING:
    from thermoset.predictor.document import Document

__all__ = ["broken_requirements"]

Broken = Iterator[tuple[str, bool]]
"""What a document must be, and whether it is not; in an order in which what is looked at is there."""


def broken_requirements(document: "Document") -> Broken:
    """Every requirement of a document, and whether it is broken."""
    return chain(
        _of_sets(document),
        _of_groups(document),
        _of_choice(document),
        _of_provenance(document),
        _of_shift(document),
        _of_weights(document),
        _of_scores(document),
        _of_confidence(document),
        _of_shares(document),
        _of_used(document),
    )


def _of_sets(document: "Document") -> Broken:
    n_classes, n_thresholds = document.n_classes, len(document.thresholds.value)
    grouping = _grouping_of(document)
    by_row = grouping is not None and grouping.of_rows
    by_class = grouping is not None and not by_row
    groups, pools = document.group_of_class, document.pool_sizes
    yield "alpha_sets must be at most alpha", exact_level(document.alpha_sets) > exact_level(document.alpha)
    known = " or ".join(GROUPINGS)
    yield f"grouping must be null, {known}", document.grouping is not None and grouping is None
    yield f"n_classes must be from 2 to {_MOST_CLASSES:,}", not 2 <= n_classes <= _MOST_CLASSES
    temperatures = document.temperature, document.temperature_sets
    yield f"temperatures must be {_TEMPERATURES}", not all(map(_is_temperature, temperatures))
    yield "thresholds must be pairs", len(document.thresholds.refine) != n_thresholds
    yield "thresholds must be numbers", bool(np.isnan(document.thresholds.pairs()).any())
    yield "group_names must be used only with thresholds by group", (document.group_names is not None) != by_row
    expected = n_classes if by_class else len(document.group_names) if document.group_names is not None else 1
    n_pools = 1 if document.shift is not None else n_thresholds
    shifted = document.shift is not None and n_thresholds == n_classes
    yield "thresholds must be one, or one per class or group", n_thresholds != expected and not shifted
    yield "pool_sizes must have one entry per threshold", len(pools) != n_pools
    yield f"pool_sizes must be from 0 to {MOST_HELD:,}", not _are_counts(pools)
    yield "group_of_class must be used only with class-conditional sets", (groups is not None) != by_class
    if groups is not None:
        yield "group_of_class must have one entry per class", len(groups) != n_classes
        own = grouping is not None and grouping.each_class and groups != tuple(range(n_classes))
        yield "group_of_class must name a group for each class", own or not all(-1 <= g < n_classes for g in groups)
        together = dict(zip(groups, pools, strict=True))
        shared = any(together[group] != pool for group, pool in zip(groups, pools, strict=True))
        yield "pool_sizes must be equal for the classes of a group", shared
    yield from _of_classes(document, grouping)
    yield "classes must be one name per class, all different", _bad_names(document.classes, n_classes)
    yield "sizes must count sets of 0 to n_classes labels", len(document.sizes) > n_classes + 1
    yield f"sizes must be from 0 to {MOST_HELD:,}", not _are_counts(document.sizes)
    rows = document.provenance.conformal_rows
    counted = not document.sizes or sum(document.sizes) == rows
    yield "sizes must count the conformal rows, at least one", not rows or not counted
    yield "seed must fit 64 bits", document.seed is not None and not 0 <= document.seed < 2**64


def _of_groups(document: "Document") -> Broken:
    names, fallback, other = document.group_names, document.fallback, document.fallback_threshold
    yield f"fallback must be null, {' or '.join(FALLBACKS)}", fallback is not None and fallback not in FALLBACKS
    yield "fallback must be used only with thresholds by group", fallback is not None and names is None
    yield "fallback_threshold must be used only with a fallback", (other is not None) != (fallback is not None)
    if names is not None:
        yield "group_names must be at least one, all different", not names or len(set(names)) != len(names)
        rows = document.provenance.conformal_rows
        yield "pool_sizes must count the conformal rows", sum(document.pool_sizes) != rows
    if other is not None:
        yield "fallback_threshold must be one pair", not len(other.value) == len(other.refine) == 1
        yield "fallback_threshold must be a number", bool(np.isnan(other.pairs()).any())
        largest = np.sort(document.thresholds.pairs())[-1:]
        wrong = fallback == "strictest" and Thresholds.of(largest) != other
        yield "fallback_threshold must be the largest threshold", wrong


def _of_classes(document: "Document", grouping: Grouping | None) -> Broken:
    """What scores and groupings hold for each class."""
    n_classes, limits, score = document.n_classes, document.rank_limits, document.method.score()
    yield "prior must be known", score.learns
    yield "prior must have one number per class", _is_not(lambda: len(score.offsets(n_classes)) == n_classes)
    limited = grouping is not None and grouping.limits_ranks
    yield f"rank_limits must be used only with {RC3P.name}", (limits is not None) != limited
    if limits is not None:
        outside = len(limits) != n_classes or not all(1 <= limit <= n_classes for limit in limits)
        yield "rank_limits must be from 1 to n_classes, one per class", outside


def _grouping_of(document: "Document") -> Grouping | None:
    try:
        return resolve_grouping(document.grouping)
    except InputError:
        return None


def _of_choice(document: "Document") -> Broken:
    choice, curve = document.choice, document.choice.curve
    names = ["T = 1", "T*", "T-hat"]
    yield "choice must describe T = 1, T* and T-hat", [at.name for at in choice.outlooks] != names
    yield "choice must have a level", _is_not(lambda: bool(exact_level(choice.alpha)))
    yield "choice must be that of the sets", not _is_of_sets(choice, document)
    yield "choice must have a preference", _is_not(lambda: read_preference(choice.prefer) == choice.preference)
    yield "choice must be for what it prefers, classes or groups", choice.preference.over not in (None, choice.even)
    yield "choice must compare T-hat with T = 1 and T*", [at.name for at in choice.comparisons] != names[:2]
    looked = [at.temperature for at in (*choice.outlooks, *choice.frontier)]
    looked += [at.temperature for at in choice.comparisons]
    peak = [] if choice.peak is None else [choice.peak]
    others = (*looked, *(choice.spread or ()), *peak, *curve.temperatures)
    yield f"temperatures of choice must be {_TEMPERATURES}", not all(map(_is_temperature, others))
    lengths = {len(curve.temperatures), len(curve.size), len(curve.size_error), len(curve.loss)}
    yield "curve of choice must have one entry per temperature", len(lengths) != 1 or lengths == {0}
    yield "temperatures of choice must increase", any(a >= b for a, b in pairwise(curve.temperatures))
    yield "n_rows of choice must count rows", not _are_counts([choice.n_rows])


def _is_of_sets(choice: Choice, document: "Document") -> bool:
    """Whether the choice is that of the sets; of plain ones, perhaps made for another level."""
    if not document.is_moved:
        return choice.setting == document.setting
    at_level = msgspec.structs.replace(document.setting, alpha=choice.alpha)
    return document.is_plain and choice.setting == at_level


def _of_shift(document: "Document") -> Broken:
    if document.shift is not None:
        unfit = not document.is_plain or document.grouping is not None
        yield "shift must be that of one threshold for all classes", unfit
        n_thresholds = len(document.thresholds.value)
        yield "thresholds must be one per class under a label shift", n_thresholds != document.n_classes
        yield from broken_shift(document.shift, document.n_classes, document.provenance.conformal_rows)


def _of_weights(document: "Document") -> Broken:
    if document.weights is not None:
        unfit = not document.is_plain or document.grouping is not None or document.shift is not None
        yield "weights must be those of one threshold for all classes", unfit
        kept, n_rows = document.scores, sum(document.pool_sizes)
        yield "weights must have scores", kept is None
        yield from broken_weights(document.weights, n_rows)
        if kept is not None:
            scoring = Scoring(document.score, document.temperature_sets, document.seed)
            labels, weights = np.zeros(n_rows, dtype=np.int64), document.weights.weights(n_rows)
            found = CalibrationScores(kept.pairs(n_rows), labels, scoring, weights=weights).thresholds(document.alpha)
            yield "thresholds must be those of the scores", Thresholds.of(found) != document.thresholds


def _of_scores(document: "Document") -> Broken:
    kept = document.scores
    if kept is not None:
        yield "scores must be those that set the threshold", not document.is_plain
        rows, thresholds, n_rows = document.rows_behind, document.thresholds.pairs(), sum(document.pool_sizes)
        if document.shift is not None or document.weights is not None:  # those of weighted scores are looked at below
            thresholds = plain_threshold(kept.pairs(n_rows), document.alpha)
        yield from broken_scores(kept, rows, thresholds[rows.place], document.alpha)
        if kept.labels is not None:
            yield "labels of scores must be used only with one threshold", document.grouping is not None
            kept.own_labels(n_rows, document.n_classes)
        if document.shift is not None:
            yield from _of_weighted_scores(document)
        if document.fallback == "pooled" and document.fallback_threshold is not None:
            whole = plain_threshold(kept.pairs(n_rows), document.alpha)
            yield "fallback_threshold must be that of all scores", Thresholds.of(whole) != document.fallback_threshold


def _of_confidence(document: "Document") -> Broken:
    if document.confidence is not None:
        yield from broken_confidence(document.confidence, document.provenance.conformal_rows)


def _of_shares(document: "Document") -> Broken:
    if document.shares is not None:
        yield from broken_shares(document.shares, document.n_classes)


def _of_weighted_scores(document: "Document") -> Broken:
    """Thresholds under a label shift must follow from scores, labels and shares."""
    kept, shift, n_rows = document.scores, document.shift, sum(document.pool_sizes)
    labels = None if kept is None else kept.own_labels(n_rows, document.n_classes)
    yield "scores must have labels under a label shift", labels is None
    if kept is not None and shift is not None and labels is not None:
        counts = np.bincount(labels, minlength=document.n_classes)
        yield "source must be the class shares of the scores", tuple(shares_of(counts).tolist()) != shift.source
        weighs = bool(np.any(np.array(shift.target)[labels] > 0))
        yield "target must weigh some of the scores", not weighs
        found = shift.thresholds(kept.pairs(n_rows), labels, document.alpha)
        yield "thresholds must be those of the scores", Thresholds.of(found) != document.thresholds


def _of_used(document: "Document") -> Broken:
    came, known = document.provenance, document.used
    yield from broken_keys(known.calibration, came.calibration_rows)
    yield from broken_keys(known.conformal, came.conformal_rows)


def _of_provenance(document: "Document") -> Broken:
    came, names = document.provenance, [measure.name for measure in document.measures]
    yield "measures must have different names", len(set(names)) != len(names)
    yield "sets by class or group must not measure coverage", "coverage" in names and document.grouping is not None
    yield "objective must be nll or ece", came.objective not in ("nll", "ece")
    yield "choice must match what was requested", came.prefer != document.choice.prefer
    yield "random_state must fit 64 bits", not 0 <= came.random_state < 2**64
    rows = came.calibration_rows, came.conformal_rows
    yield f"rows must be from 0 to {MOST_HELD:,}", not _are_counts(rows)
    zeros = came.calibration_zero_labels, came.conformal_zero_labels
    counted = all(0 <= one <= most for one, most in zip(zeros, rows, strict=True))
    yield "zero_labels must be at most the rows", not counted
    yield f"input_kind must be {' or '.join(INPUT_KINDS)}", document.input_kind not in INPUT_KINDS
    fraction = came.calibration_fraction
    yield "calibration_fraction must be between 0 and 1", _is_not(lambda: bool(exact_level(fraction)))


_MOST_CLASSES = 10_000_000
_TEMPERATURES = f"finite and > 0, from {COLDEST:g} to {HOTTEST:g}"


def _is_temperature(value: float) -> bool:
    return COLDEST <= value <= HOTTEST


def _are_counts(values: Sequence[int]) -> bool:
    return all(0 <= value <= MOST_HELD for value in values)


def _is_not(holds: Callable[[], bool]) -> bool:
    """Whether something does not hold, or cannot be read."""
    try:
        return not holds()
    except InputError:
        return True


def _bad_names(classes: tuple[str, ...] | None, n_classes: int) -> bool:
    return classes is not None and (len(classes) != n_classes or len(set(classes)) != n_classes)
