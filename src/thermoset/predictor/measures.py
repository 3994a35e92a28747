"""What a predictor is measured to do when it is fitted, with intervals: the numbers a document carries."""

from collections.abc import Sequence

import numpy as np

from thermoset.calibration.calibrator import CalibratedSoftmax, Calibration
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.data.top_k import tops_of
from thermoset.levels import Alpha, conformal_rank
from thermoset.metrics.laws import conformal_coverage_distribution
from thermoset.metrics.probabilities import reliability_from_confidence
from thermoset.predictor.sets import Inference
from thermoset.predictor.stored import MOST_CUTS, ConfidenceReference, Measure, ReliabilityCounts
from thermoset.rows import top_labels
from thermoset.tuning.choice import Choice

OF_CONFIDENCE = tuple(f"{loss}_{kind}" for loss in ("nll", "ece") for kind in ("before", "temperature", "after"))
"""Measures that no level has a part in."""

_NORMAL = 1.96


def calibration_stages(
    plain_temperature: float, softmax: CalibratedSoftmax, rows: Logits, corrected: Logits
) -> list[tuple[str, CalibratedSoftmax, Logits]]:
    """Name, softmax and rows: before calibration, after T* alone where there are more steps, and after all of them."""
    before = ("T = 1", CalibratedSoftmax(1.0), rows)
    if corrected is rows and softmax.confidence_map is None:
        return [before, ("T*", softmax, rows)]
    return [before, ("T* alone", CalibratedSoftmax(plain_temperature), rows), ("all steps", softmax, corrected)]


def judge_confidence(
    conformal: Logits, learned: Calibration
) -> tuple[tuple[Measure, ...], tuple[ReliabilityCounts, ...]]:
    """Log-loss and ECE before calibration and after it, and after T* alone where there are more steps.

    They are measured on the conformal rows, which no step of the calibration has seen.
    """
    softmax = CalibratedSoftmax(learned.scaler.temperature_, learned.confidence_map)
    stages = calibration_stages(learned.plain_temperature, softmax, conformal, learned.correct(conformal))
    labels, losses, errors, counts = conformal.require_labels("measuring"), [], [], []
    kinds = ("before", "after") if len(stages) == 2 else ("before", "temperature", "after")
    for kind, (name, softmax, rows) in zip(kinds, stages, strict=True):
        confidence, loss = softmax.confidence_and_loss(rows)
        finite = loss[np.isfinite(loss)]  # the rows that T* is fitted on: those whose label has a probability
        if finite.size > 1:
            mean, reach = float(finite.mean()), _NORMAL * float(finite.std(ddof=1) / np.sqrt(len(finite)))
            losses.append(Measure(name=f"nll_{kind}", value=mean, low=mean - reach, high=mean + reach))
        right = top_labels(rows) == labels
        estimate = reliability_from_confidence(confidence, right, learned.scaler.n_bins).ece_estimate()
        errors.append(Measure(name=f"ece_{kind}", **estimate._asdict()))
        counts.append(ReliabilityCounts.of(name, confidence, right))
    return (*losses, *errors), tuple(counts)


def set_measures(choice: Choice, pool_sizes: Sequence[int], recipe: Recipe) -> tuple[Measure, ...]:
    """Size, class gap and coverage of the sets."""
    at = choice.outlook
    measures = coverage_measures(pool_sizes, recipe.alpha) if recipe.grouping is None else []
    measures.append(Measure(name="avg_size", value=at.size, low=at.size_ends[0], high=at.size_ends[1]))
    measures.append(Measure(name="empty_share", value=at.empty_share))
    if at.class_gap is not None and at.class_gap_ends is not None:
        low, high = at.class_gap_ends
        measures.append(Measure(name=f"{choice.words.one}_gap", value=at.class_gap, low=low, high=high))
    if at.top_gap is not None:
        measures.append(Measure(name=choice.words.top_gap, value=at.top_gap))
    return tuple(measures)


def coverage_measures(pool_sizes: Sequence[int], alpha: Alpha) -> list[Measure]:
    """Mean and central 95% of the coverage of one fitted predictor, by the exact law; none for thresholds by class."""
    if len(pool_sizes) > 1:
        return []
    n = pool_sizes[0]
    k = conformal_rank(n, alpha)
    if k > n:
        return [Measure(name="coverage", value=1.0, low=1.0, high=1.0)]
    low, high = conformal_coverage_distribution(n, alpha).ppf([0.025, 0.975])
    return [Measure(name="coverage", value=k / (n + 1), low=float(low), high=float(high))]


def confidence_reference(known: Inference, calibration: Logits, conformal: Logits) -> ConfidenceReference | None:
    """Cut points from calibration rows and counts of conformal rows; None where rows hold only their largest logits.

    The confidence of such rows is known within bounds that depend on how many logits they hold, and whole rows would
    differ from them for that reason alone.
    """
    if tops_of(calibration) is not None or tops_of(conformal) is not None:
        return None
    shares = np.arange(1, MOST_CUTS + 1) / (MOST_CUTS + 1)
    cuts = np.unique(np.quantile(known.confidences(calibration)[1], shares, method="inverted_cdf"))
    return ConfidenceReference(cuts=tuple(cuts.tolist()), counts=()).recount(known.confidences(conformal)[1])
