"""The exact law of coverage, hits ~ Beta-Binomial(m; k, n + 1 - k) (docs/definitions.md, 2), for sums over splits."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.stats import betabinom

from thermoset.core.scores import resolve

Sets = NDArray[np.bool_]
Predict = Callable[[NDArray[np.floating], NDArray[np.int64], NDArray[np.floating]], Sets]


def law(n_conformal: int, n_evaluation: int, alpha: str) -> tuple[float, float]:
    """Mean and variance of the hits among `n_evaluation` rows."""
    k = math.ceil((n_conformal + 1) * (1 - Fraction(alpha)))
    if k > n_conformal:
        return float(n_evaluation), 0.0
    law = betabinom(n_evaluation, k, n_conformal + 1 - k)
    return float(law.mean()), float(law.var())


def z_over_splits(
    predict: Predict,
    logits: NDArray[np.floating],
    labels: NDArray[np.int64],
    *,
    alpha: str,
    n_conformal: int,
    n_evaluation: int,
    splits: int = 200,
    seed: int = 0,
) -> float:
    """How many standard deviations the hits of all splits together lie from the law's convolution."""
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(splits):
        rows = rng.permutation(len(logits))[: n_conformal + n_evaluation]
        conformal, evaluation = rows[:n_conformal], rows[n_conformal:]
        sets = predict(logits[conformal], labels[conformal], logits[evaluation])
        hits += int(sets[np.arange(n_evaluation), labels[evaluation]].sum())
    mean, variance = law(n_conformal, n_evaluation, alpha)
    return (hits - splits * mean) / math.sqrt(splits * variance)


def generated(
    n_rows: int, n_classes: int, *, signal: float = 2.0, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Logits of an overconfident classifier, tie-free, with a range of tens."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_rows)
    evidence = rng.normal(size=(n_rows, n_classes))
    evidence[np.arange(n_rows), labels] += signal + math.sqrt(2 * math.log(n_classes))
    return 5.0 * evidence, labels


def with_prior(method, n_classes):
    """The score of a name; one that learns a prior is given one, so that all rows set the threshold."""
    score = resolve(method)
    return replace(score, prior=tuple(range(1, n_classes + 1))) if score.learns else score
