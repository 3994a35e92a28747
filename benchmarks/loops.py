"""A sweep without thermoset: what one writes by hand, in three ways.

Each function returns the seconds that one temperature takes with LAC, APS and RAPS and `TRIALS` random splits: average
size, coverage and coverage of each class. Where a trial always does the same work, few trials are timed and scaled up.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from benchmarks.measure import Clock

__all__ = ["TRIALS", "plain", "published", "sorted_once"]

TRIALS = 100
_TIMED = 3  # trials; the best counts
_ALPHA, _TEMPERATURE = 0.1, 1.5
_PENALTY, _K_REG = 0.01, 5
_CONFORMAL, _EVALUATION = 0.1, 0.8  # of the rows; the other tenth would fit T*

Array = NDArray[Any]


class _Scores(NamedTuple):
    """Of every label in the order of its row, of the true labels, and the masses that u multiplies."""

    of_all: Array
    own: Array
    masses: tuple[Array, Array] | None


def plain(logits: Array, labels: Array, clock: Clock = time.perf_counter) -> float:
    """NumPy, everything anew in each trial."""

    def trial(rng: np.random.Generator) -> None:
        for scores in _scores(logits, labels):
            _measure(rng, scores, labels)

    return TRIALS * _best(trial, clock)


def sorted_once(logits: Array, labels: Array, clock: Clock = time.perf_counter) -> float:
    """NumPy, with the softmax, the sort and the sums shared by all trials: the careful version of the same loop."""
    start = clock()
    shared = _scores(logits, labels)
    seconds = clock() - start

    def trial(rng: np.random.Generator) -> None:
        for scores in shared:
            _measure(rng, scores, labels)

    return seconds + TRIALS * _best(trial, clock)


def published(logits: Array, labels: Array, clock: Clock = time.perf_counter) -> float:
    """PyTorch, in the order of the paper's code: softmax, split, sort, threshold and sets for each score and trial."""
    import torch

    rows, truth = torch.from_numpy(logits.copy()), torch.from_numpy(labels.copy())
    n = int(_CONFORMAL * len(labels))

    def trial(_rng: np.random.Generator) -> None:
        for penalty in (None, 0.0, _PENALTY):
            probs = torch.softmax(rows / _TEMPERATURE, dim=1)
            inside = _torch_sets(torch, probs, truth, n, penalty)
            _by_class(inside, truth)

    return TRIALS * _best(trial, clock)


def _torch_sets(torch: Any, probs: Any, truth: Any, n: int, penalty: float | None) -> tuple[Any, Any]:
    """Sets of the rows that set no threshold, and their labels; LAC without a penalty."""
    order = torch.randperm(len(probs))
    some, rest = order[:n], order[n:]
    if penalty is None:
        scores = 1 - probs
    else:
        ranked, ranks = torch.sort(probs, dim=1, descending=True)
        ranked[:, _K_REG:] += penalty
        ranked = ranked.cumsum(dim=1) - torch.rand(len(probs), 1) * ranked
        scores = torch.gather(ranked, 1, ranks.argsort(dim=1))
    level = torch.tensor(np.ceil((n + 1) * (1 - _ALPHA)) / n, dtype=scores.dtype)
    threshold = torch.quantile(scores[some, truth[some]], level, interpolation="higher")
    return scores[rest] <= threshold, truth[rest]


def _by_class(result: tuple[Any, Any], truth: Any) -> None:
    inside, labels = (np.asarray(one) for one in result)
    _count(inside.sum(axis=1), inside[np.arange(len(labels)), labels], labels, int(truth.max()) + 1)


def _scores(logits: Array, labels: Array) -> tuple[_Scores, _Scores, _Scores]:
    """LAC, APS and RAPS from one softmax and one sort."""
    row = np.arange(len(labels))
    probs = softmax(logits / _TEMPERATURE, axis=1)
    order = np.argsort(-probs, axis=1)
    ranked = np.take_along_axis(probs, order, axis=1)
    rank = (order == labels[:, None]).argmax(axis=1)
    sums = np.cumsum(ranked, axis=1)
    penalties = _PENALTY * np.maximum(np.arange(1, logits.shape[1] + 1) - _K_REG, 0).astype(probs.dtype)
    masses = ranked, ranked[row, rank]
    return (
        _Scores(1 - ranked, 1 - masses[1], None),
        _Scores(sums, sums[row, rank], masses),
        _Scores(sums + penalties, sums[row, rank] + penalties[rank], masses),
    )


def _measure(rng: np.random.Generator, scores: _Scores, labels: Array) -> None:
    n, (of_all, own, masses) = len(labels), scores
    if masses is not None:
        u = rng.random(n, dtype=np.float32)
        of_all, own = of_all - u[:, None] * masses[0], own - u * masses[1]
    rows = rng.permutation(n)
    some, rest = rows[: int(_CONFORMAL * n)], rows[-int(_EVALUATION * n) :]
    k = int(np.ceil((len(some) + 1) * (1 - _ALPHA)))
    threshold = np.partition(own[some], k - 1)[k - 1]
    sizes = (of_all[rest] <= threshold).sum(axis=1)
    _count(sizes, own[rest] <= threshold, labels[rest], of_all.shape[1])


def _count(sizes: Array, hits: Array, labels: Array, classes: int) -> tuple[float, float, Array]:
    """The metrics of a sweep, without which nobody would run one."""
    each = np.bincount(labels, minlength=classes)
    by_class = np.bincount(labels, weights=hits, minlength=classes) / np.maximum(each, 1)
    return float(sizes.mean()), float(hits.mean()), by_class


def _best(trial: Callable[[np.random.Generator], None], clock: Clock) -> float:
    seconds = []
    for seed in range(_TIMED):
        rng = np.random.default_rng(seed)
        start = clock()
        trial(rng)
        seconds.append(clock() - start)
    return min(seconds)
