"""Thresholds between two others, as pairs: what interpolation between one threshold and one for each class needs."""

import numpy as np

from thermoset.core.exponentials import Floats
from thermoset.core.score import Score
from thermoset.core.thresholds import ScorePairs

__all__ = ["mixed_thresholds"]


def mixed_thresholds(own: ScorePairs, whole: ScorePairs, tau: float, score: Score, n_classes: int) -> ScorePairs:
    """Mixtures tau * own + (1 - tau) * whole, entry by entry; tau of 0 and 1 give the ends themselves.

    Where `own` is infinite, the largest value of the score stands for it. A mixture is never outside its two ends, in
    the order of pairs, whatever is rounded: a label that both let in is in, and one that both keep out is out.

    >>> from thermoset.core.scores import LAC
    >>> own, whole = (ScorePairs(np.array([q]), np.zeros(1)) for q in (np.inf, 0.5))
    >>> mixed_thresholds(own, whole, 0.25, LAC(), 10).value.tolist()  # 0.25 * 1 + 0.75 * 0.5
    [0.625]
    """
    if tau in (0, 1):
        return own if tau == 1 else ScorePairs(*np.broadcast_arrays(whole.value, whole.refine, own.value)[:2])
    whole_value, whole_refine = (np.broadcast_to(part, own.value.shape) for part in (whole.value, whole.refine))
    own_value = np.where(np.isposinf(own.value), score.largest(n_classes), own.value)
    mix = _mixed_logs if score.logarithmic else _mixed
    value = _between(mix(own_value, whole_value, tau), own_value, whole_value)
    # Equal values are such that saturate: their refinements hold minus the log of what is left.
    refine = _between(_mixed_logs(own.refine, whole_refine, tau), own.refine, whole_refine)
    refine = np.where(value == own_value, np.where(value == whole_value, refine, own.refine), np.inf)
    return ScorePairs(value, np.where((value == whole_value) & (value != own_value), whole_refine, refine))


def _mixed(a: Floats, b: Floats, tau: float) -> Floats:
    with np.errstate(invalid="ignore"):
        return tau * a + (1.0 - tau) * b


def _mixed_logs(a: Floats, b: Floats, tau: float) -> Floats:
    """The mixture of e**-a and e**-b as minus a logarithm."""
    with np.errstate(invalid="ignore"):
        return np.asarray(-np.logaddexp(np.log(tau) - a, np.log1p(-tau) - b))


def _between(mixture: Floats, a: Floats, b: Floats) -> Floats:
    """The mixture, kept between its ends; of two opposite infinities, which have none, the upper one."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.asarray(np.where(a == b, a, np.clip(np.where(np.isnan(mixture), high, mixture), low, high)))
