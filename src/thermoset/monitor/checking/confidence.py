"""Whether the confidence of the predicted label is calibrated, compared with what a calibrated model shows by chance.

A perfectly calibrated model has an ECE above zero on a finite number of rows. How much is simulated: each row is right
with a probability equal to its confidence. The p-value is the share of models with an ECE at least as large as the
observed one, which counts as one of them: so it is valid for any number of rows and of simulations. A z-test such as
Spiegelhalter's is not: of 1,000 rows with confidence 0.9999, two or more are wrong with probability 0.005, and it says
2e-9.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thermoset.metrics import reliability_from_confidence
from thermoset.monitor.checking.facts import RowFacts
from thermoset.uniforms import stream

__all__ = ["CalibrationCheck", "calibration_check"]

_SIMULATIONS = 4999  # with the observed one 5,000: the smallest p-value is 0.0002
_STRATA = 512  # above so many rows, those of neighbouring confidence are drawn together

_Floats = NDArray[np.float64]
_Counts = NDArray[np.int64]


@dataclass(frozen=True)
class CalibrationCheck:
    """Quality of the probabilities, and whether confidence is calibrated.

    Attributes
    ----------
    ece, nll, brier, accuracy, confidence : float
        Expected calibration error in `n_bins` bins, negative log-likelihood, Brier score, share of correct labels, mean
        confidence.
    ece_mean, ece_95 : float
        Mean and 95% quantile of the ECE that a calibrated model would show with these confidences.
    p_value : float
        Probability that a calibrated model shows an ECE at least as large; simulated, so never below 0.0002.
    """

    ece: float
    ece_mean: float
    ece_95: float
    p_value: float
    nll: float
    brier: float
    accuracy: float
    confidence: float
    n_bins: int


def calibration_check(facts: RowFacts, n_bins: int = 15) -> CalibrationCheck:
    """Measure the probabilities and test their calibration.

    >>> from thermoset.monitor.checking.facts import facts_of
    >>> sets, probs = np.ones((100, 2), dtype=bool), np.tile([0.8, 0.2], (100, 1))
    >>> right = calibration_check(facts_of(sets, probs, [0] * 80 + [1] * 20)[0])
    >>> round(right.ece, 12), right.p_value
    (0.0, 1.0)
    >>> wrong = calibration_check(facts_of(sets, probs, [0] * 50 + [1] * 50)[0])
    >>> round(wrong.ece, 12), wrong.p_value
    (0.3, 0.0002)
    """
    confidence, correct = facts.confidence, facts.correct
    with np.errstate(divide="ignore"):  # infinite where a label has probability 0
        nll = float(np.mean(-np.log(np.minimum(facts.own, 1.0))))
    bins = reliability_from_confidence(confidence, correct, n_bins)
    filled = bins.count > 0
    right = np.rint(bins.accuracy[filled] * bins.count[filled])
    observed, chance = _simulated(np.sort(confidence), bins.count[filled], right)
    return CalibrationCheck(
        ece=bins.ece,
        ece_mean=float(chance.mean()),
        ece_95=float(np.quantile(chance, 0.95, method="inverted_cdf")),
        p_value=(1 + int(np.count_nonzero(chance >= observed))) / (1 + len(chance)),
        nll=nll,
        brier=float(facts.distance.mean()),
        accuracy=float(correct.mean()),
        confidence=float(confidence.mean()),
        n_bins=n_bins,
    )


def _simulated(confidence: _Floats, count: _Counts, right: _Floats) -> tuple[float, _Floats]:
    """ECE of `right` labels by bin, and of simulated ones, in the same arithmetic so that equal counts are equal.

    `confidence` is sorted, and `count` says how many of its rows each bin holds. Rows are drawn one by one, or, if
    there are many, in strata of neighbours with their mean: a binomial in place of a sum of nearly equal Bernoullis.
    """
    ends = np.cumsum(count)
    n = int(ends[-1])
    edges = np.unique(np.concatenate([np.arange(0, n, -(-n // _STRATA)), ends]))
    starts, sizes = edges[:-1], np.diff(edges)
    means = np.minimum(np.add.reduceat(confidence, starts) / sizes, 1.0)
    first = np.searchsorted(starts, ends - count)  # stratum at which a bin begins
    expected = np.add.reduceat(sizes * means, first)
    drawn = stream(0, "confidence").binomial(sizes[:, None], means[:, None], (len(sizes), _SIMULATIONS))
    chance: _Floats = np.abs(np.add.reduceat(drawn, first) - expected[:, None]).sum(axis=0) / n
    return float(np.abs(right - expected).sum() / n), chance
