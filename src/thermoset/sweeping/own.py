"""Trials at temperatures of their own: T*, or T-hat, of the rows each trial draws.

The temperatures of a sweep are shared by all trials. Here a trial has one, so that the work is that of as many
softmaxes as there are different temperatures; rows are sorted once, by the loops of the sweep.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.levels import Alpha, conformal_rank
from thermoset.metrics import avg_gap, coverage_gaps, top_gap
from thermoset.pool import row_blocks, run_all, widened
from thermoset.scores import Score, resolve
from thermoset.sweeping.labels import TOP_SHARE, count_misses, select_thresholds
from thermoset.sweeping.passes import METRICS, Shares, shares_of_labels
from thermoset.sweeping.sizes import count_sizes
from thermoset.sweeping.trials import Protocol, Trials, draw_trials

__all__ = ["OwnTemperatures", "measure_trials"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OwnTemperatures:
    """What trials show, each at its own temperature.

    Attributes
    ----------
    temperatures : (trials,)
        Of each trial.
    values : (methods, alphas, metrics, trials)
        The metrics of a sweep, in the order of `sweeping.METRICS`, with empty sets allowed.
    hits : (methods, alphas, trials, C)
        Evaluation rows of each class whose set holds their label.
    counts : (trials, C)
        Evaluation rows of each class.
    """

    temperatures: Floats
    values: Floats
    hits: NDArray[np.int64]
    counts: NDArray[np.int64]


def measure_trials(
    data: Logits,
    temperatures: ArrayLike,
    methods: Sequence[str | Score],
    alphas: Sequence[Alpha],
    protocol: Protocol,
    *,
    tick: Callable[[], None] = lambda: None,
) -> OwnTemperatures:
    """Measure trial t of a protocol at temperatures[t]; `tick` is called when a tenth or so of the work is done.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=1000)
    >>> data = Logits(rng.normal(size=(1000, 5)) + 2 * np.eye(5)[labels], labels)
    >>> found = measure_trials(data, [1.0, 1.5, 2.0], ["aps"], [0.1], Protocol())
    >>> found.values.shape, found.hits.shape
    ((1, 1, 7, 3), (1, 1, 3, 5))
    """
    labels = data.require_labels("measure_trials")
    own = np.asarray(temperatures, dtype=np.float64)
    if own.ndim != 1 or not own.size or not np.all((own > 0) & np.isfinite(own)):
        raise InputError(f"temperatures must be finite numbers above 0, one for each trial; got {temperatures!r}.")
    scores = tuple(resolve(method) for method in methods)
    trials = draw_trials(labels, data.n_classes, len(own), protocol)
    distinct, place = np.unique(own, return_inverse=True)
    groups = [np.flatnonzero(place == j) for j in range(len(distinct))]
    shares = shares_of_labels(data, distinct, trials.order, None, lambda: None)
    tick()
    work = _Work(data, scores, tuple(alphas), distinct, groups, [_some(trials, rows) for rows in groups], trials)
    work.thresholds_and_hits(shares)
    tick()
    work.sizes(shares)
    tick()
    return OwnTemperatures(own, work.values, work.hits, trials.counts)


def _some(trials: Trials, which: NDArray[np.int64]) -> Trials:
    """Some of the trials, in arrays of their own: the kernels are compiled for contiguous ones."""
    return replace(
        trials,
        conformal=trials.conformal[which],
        u_conformal=trials.u_conformal[which],
        evaluation=np.ascontiguousarray(trials.evaluation[:, which]),
        u=np.ascontiguousarray(trials.u[:, which]),
        counts=trials.counts[which],
    )


class _Work:
    """The stages of a sweep, for groups of trials that share a temperature."""

    def __init__(
        self,
        data: Logits,
        scores: tuple[Score, ...],
        alphas: tuple[Alpha, ...],
        temperatures: Floats,
        groups: list[NDArray[np.int64]],
        parts: list[Trials],
        trials: Trials,
    ) -> None:
        self.data, self.scores, self.alphas, self.temperatures = data, scores, alphas, temperatures
        self.groups, self.parts, self.trials = groups, parts, trials
        shape = len(scores), len(alphas)
        self.values = np.full((*shape, len(METRICS), trials.count), np.nan)
        self.hits = np.empty((*shape, trials.count, data.n_classes), dtype=np.int64)
        self.refine = np.empty((*shape, trials.count))

    def thresholds_and_hits(self, shares: Shares) -> None:
        """Stage two: order statistics of the conformal rows, hits of the others."""
        run_all([partial(self._hits_of_group, shares, j) for j in range(len(self.groups))])

    def _hits_of_group(self, shares: Shares, j: int) -> None:
        part, which = self.parts[j], self.groups[j]
        ks = np.array([conformal_rank(part.conformal.shape[1], alpha) for alpha in self.alphas])
        none = np.zeros((self.data.n_classes, 0), dtype=np.int64)
        for m, score in enumerate(self.scores):
            formula = score.code, score.parameters, shares.rank, shares.around[j]
            q = np.empty((2, len(ks), part.count))
            select_thresholds(*formula, part.conformal, part.u_conformal, ks, *q)
            self.refine[m][:, which] = q[1]
            for a, alpha in enumerate(self.alphas):
                misses = np.zeros((self.data.n_classes, part.count), dtype=np.int32)
                count_misses(*formula, part.u, part.evaluation, part.edges, q[0, a], q[1, a], False, misses, none)
                hits = part.counts - misses.T
                self.hits[m, a, which] = hits
                gaps, total = coverage_gaps(hits, part.counts, alpha), part.counts.sum(axis=1)
                found = {
                    "threshold": q[0, a],
                    "marginal_coverage": hits.sum(axis=1) / total,
                    "marginal_coverage_gap": coverage_gaps(hits.sum(axis=1), total, alpha),
                    "top_coverage_gap": top_gap(gaps, self.data.n_classes),
                    "avg_coverage_gap": avg_gap(gaps),
                }
                for name, value in found.items():
                    self.values[m, a, METRICS.index(name), which] = value

    def sizes(self, shares: Shares) -> None:
        """Stage three: sizes, by blocks of rows that are sorted once."""
        codes = np.array([score.code for score in self.scores])
        parameters = np.array([score.parameters for score in self.scores])
        counted = np.zeros((2, len(self.scores), len(self.alphas), self.trials.count), dtype=np.int64)
        lock = threading.Lock()

        def work(rows: slice) -> None:
            ranked = np.sort(widened(self.data.logits[self.trials.order[rows]]), axis=1)
            falling = np.ascontiguousarray(ranked[:, ::-1])
            for j, (part, which) in enumerate(zip(self.parts, self.groups, strict=True)):
                q, refine = self._thresholds(which)
                sizes = np.zeros((2, *q.shape), dtype=np.int32)
                none = np.zeros((2, *q.shape[:3], 0), dtype=np.int64)
                tops = np.ascontiguousarray(shares.around[j : j + 1, TOP_SHARE, rows])
                count_sizes(
                    ranked, falling, self.temperatures[j : j + 1], tops, codes, parameters, part.u[rows],
                    part.evaluation[rows], q, refine, np.argsort(q, axis=-1, kind="stable"), *sizes, *none,
                )  # fmt: skip
                with lock:  # integers: the order of blocks does not matter
                    counted[..., which] += sizes[:, :, 0]

        run_all([partial(work, rows) for rows in row_blocks(len(self.data), self.data.n_classes)])
        size, empty = counted / self.trials.evaluation.sum(axis=0)
        self.values[:, :, METRICS.index("avg_size")] = size
        self.values[:, :, METRICS.index("empty_share")] = empty

    def _thresholds(self, which: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Thresholds of some trials as the kernel wants them: (scores, 1, alphas, trials)."""
        q = self.values[:, :, METRICS.index("threshold")][:, None][..., which]
        return np.ascontiguousarray(q), np.ascontiguousarray(self.refine[:, None][..., which])
