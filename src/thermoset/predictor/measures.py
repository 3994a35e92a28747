"""What a predictor is measured to do when it is made, with intervals: the numbers a document carries."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thermoset.calibration import TemperatureScaler, confidence_and_loss, confidence_at
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.data.top_rows import tops_of
from thermoset.levels import Alpha, conformal_rank
from thermoset.metrics.laws import conformal_coverage_distribution
from thermoset.metrics.probabilities import reliability_from_confidence
from thermoset.predictor.document import MOST_CUTS, ConfidenceReference, Measure
from thermoset.rows import top_labels
from thermoset.tuning.choice import Choice, Outlook
from thermoset.tuning.parts import Words
from thermoset.uniforms import stream

__all__ = ["OF_CONFIDENCE", "confidence_reference", "coverage_measures", "measure"]

OF_CONFIDENCE = ("nll_before", "nll_after", "ece_before", "ece_after")
"""Measures that no level has a part in."""

_NORMAL = 1.96


def measure(
    calibration: Logits,
    scaler: TemperatureScaler,
    choice: Choice,
    pool_sizes: Sequence[int],
    recipe: Recipe,
) -> tuple[Measure, ...]:
    """Calibration before and after T*, cross-fitted; size, class gap and coverage of the sets."""
    before, after = confidence_and_loss(calibration, 1.0), _cross_fitted(calibration, scaler, recipe.random_state)
    correct = top_labels(calibration) == calibration.require_labels("measuring")
    at = choice.outlook
    return (
        *_nlls({"nll_before": before[1], "nll_after": after[1]}),
        *(
            Measure(
                name=name, **reliability_from_confidence(confidence, correct, scaler.n_bins).ece_estimate()._asdict()
            )
            for name, (confidence, _) in (("ece_before", before), ("ece_after", after))
        ),
        *(coverage_measures(pool_sizes, recipe.alpha) if recipe.grouping is None else []),
        _within("avg_size", at.size, at.size_error),
        Measure(name="empty_share", value=at.empty_share, low=None, high=None),
        *_gaps(at, choice.words),
    )


def _gaps(at: Outlook, words: Words) -> list[Measure]:
    """The class or group gap with its interval, and TopCovGap where each of these has rows enough to carry it."""
    made = []
    if at.class_gap is not None and at.class_gap_ends is not None:
        low, high = at.class_gap_ends
        made.append(Measure(name=f"{words.one}_gap", value=at.class_gap, low=low, high=high))
    if at.top_gap is not None:
        made.append(Measure(name=words.top_gap, value=at.top_gap, low=None, high=None))
    return made


Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


def _cross_fitted(data: Logits, scaler: TemperatureScaler, random_state: int) -> Pair:
    """Confidence and loss of each row with a temperature from the other half of the rows: no row judges itself."""
    rows = stream(random_state, "halves of the rows").permutation(len(data))
    halves = np.sort(rows[: len(rows) // 2]), np.sort(rows[len(rows) // 2 :])
    confidence, loss = np.empty(len(data)), np.empty(len(data))
    for fitted_on, judged in (halves, halves[::-1]):
        other = TemperatureScaler(scaler.objective, scaler.n_bins).learn(data.take(fitted_on))
        confidence[judged], loss[judged] = confidence_and_loss(data.take(judged), other.temperature_)
    return confidence, loss


def _nlls(losses: dict[str, NDArray[np.float64]]) -> list[Measure]:
    """Means over the rows that T* is fitted on: those whose label has a probability. None if no label has one."""
    made = []
    for name, loss in losses.items():
        finite = loss[np.isfinite(loss)]
        if finite.size > 1:
            made.append(_within(name, float(finite.mean()), float(finite.std(ddof=1) / np.sqrt(len(finite)))))
    return made


def coverage_measures(pool_sizes: Sequence[int], alpha: Alpha) -> list[Measure]:
    """Mean and central 95% of the coverage of one fitted predictor, by the exact law; none for thresholds by class.

    >>> [made] = coverage_measures([999], 0.1)  # k = 900 of n + 1 = 1000
    >>> made.value, round(made.low, 3), round(made.high, 3)
    (0.9, 0.881, 0.918)
    """
    if len(pool_sizes) > 1:
        return []
    n = pool_sizes[0]
    k = conformal_rank(n, alpha)
    if k > n:
        return [Measure(name="coverage", value=1.0, low=1.0, high=1.0)]
    low, high = conformal_coverage_distribution(n, alpha).ppf([0.025, 0.975])
    return [Measure(name="coverage", value=k / (n + 1), low=float(low), high=float(high))]


def _within(name: str, value: float, error: float) -> Measure:
    return Measure(name=name, value=value, low=value - _NORMAL * error, high=value + _NORMAL * error)


def confidence_reference(calibration: Logits, conformal: Logits, temperature: float) -> ConfidenceReference | None:
    """Cut points from calibration rows and counts of conformal rows; None where rows hold only their largest logits.

    The confidence of such rows is known within bounds that depend on how many logits they hold, and whole rows would
    differ from them for that reason alone.
    """
    if tops_of(calibration) is not None or tops_of(conformal) is not None:
        return None
    shares = np.arange(1, MOST_CUTS + 1) / (MOST_CUTS + 1)
    cuts = np.unique(np.quantile(confidence_at(calibration, temperature), shares, method="inverted_cdf"))
    return ConfidenceReference(cuts=tuple(cuts.tolist()), counts=()).recount(confidence_at(conformal, temperature))
