"""Entropy of the softmax against temperature (the proposition of the paper's appendix A)."""

from typing import Any

import numpy as np

from thermoset.bounds import checked_temperature
from thermoset.paper.theory.sorted_rows import Floats, distances, each_row, finite_logits, log_softmax, log_sum

__all__ = ["entropy", "entropy_slope", "log_entropy_slopes"]


def entropy(logits: Any, temperature: float) -> Floats:
    """Shannon entropy of softmax(z / T) in nats, one number a row.

    It is log(Z) + sum_i p_i (z_1 - z_i) / T with Z relative to the top class: terms that are never negative.

    >>> import numpy as np
    >>> entropy([[0.0, 0.0, 0.0, 0.0]], 3.0) == np.log(4)
    array([ True])
    >>> bool(entropy([[5.0, 1.0, 0.0]], 1.0) < entropy([[5.0, 1.0, 0.0]], 1.1))
    True
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    out = np.empty(len(data))

    def work(ranked: Floats, _: slice) -> Floats:
        falls = distances(ranked, ranked[:, :1], 1 / t)
        weights = np.exp(-falls)
        rest = weights[:, 1:].sum(axis=1)
        return np.asarray(np.log1p(rest) + (weights * falls).sum(axis=1) / (1 + rest))

    each_row(data, out, work)
    return out


def entropy_slope(logits: Any, temperature: float) -> Floats:
    """Derivative of the entropy in T: the variance of the logits under softmax(z / T), over T cubed.

    >>> import numpy as np
    >>> z = np.log([[0.5, 0.5, 0.25]])  # p = (0.4, 0.4, 0.2): variance 0.8 * 0.2 * ln(2)**2
    >>> entropy_slope(z, 1.0).round(12) == np.round(0.16 * np.log(2) ** 2, 12)
    array([ True])
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    return np.exp(log_entropy_slopes(data, t))


def log_entropy_slopes(data: Any, temperature: float) -> Floats:
    """Logarithm of the slope; -inf for equal logits alone."""
    out = np.empty(len(data))

    def work(ranked: Floats, _: slice) -> Floats:
        log_p = log_softmax(ranked, temperature)
        falls = distances(ranked, ranked[:, :1], 1.0)
        mean = (np.exp(log_p) * falls).sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            away = np.log(np.abs(falls - mean))
        return np.asarray(log_sum(log_p + 2 * away) - 3 * np.log(temperature))

    each_row(data, out, work)
    return out
