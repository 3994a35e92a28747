"""The three stages of a sweep: label shares by blocks of rows, thresholds and misses by temperature, sizes by blocks.

Every stage writes to its own place or adds integers, so the number of threads and the size of blocks change nothing.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.data import Logits
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.metrics import avg_gap, coverage_gaps, top_gap
from thermoset.pool import row_blocks, run_all, widened
from thermoset.scores import Score
from thermoset.sweeping.intervals import FIXED_POINT
from thermoset.sweeping.labels import N_SHARES, TOP_SHARE, count_misses, label_shares, select_thresholds
from thermoset.sweeping.sizes import count_sizes
from thermoset.sweeping.trials import Trials

__all__ = ["INTEGRATED_METRICS", "METRICS", "Plan", "Shares", "bytes_needed", "run", "shares_of_labels"]

METRICS = (
    "avg_size",
    "marginal_coverage",
    "marginal_coverage_gap",
    "top_coverage_gap",
    "avg_coverage_gap",
    "threshold",
    "empty_share",
)
INTEGRATED_METRICS = (
    "integrated_top_coverage_gap",
    "integrated_avg_coverage_gap",
    "integrated_squared_coverage_gap",
)


@dataclass(frozen=True)
class Plan:
    """What to sweep: scores, temperatures, levels, and how evaluation rows are counted."""

    scores: tuple[Score, ...]
    temperatures: NDArray[np.float64]
    alphas: tuple[Alpha, ...]
    integrate: bool
    allow_empty: bool
    n_jobs: int | None

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what is measured."""
        return METRICS + (INTEGRATED_METRICS if self.integrate else ())

    @property
    def shape(self) -> tuple[int, int, int]:
        """Scores, temperatures, alphas."""
        return len(self.scores), len(self.temperatures), len(self.alphas)


@dataclass(frozen=True)
class Shares:
    """Of every row, in the order it was asked for: its label's rank, and shares around the label at each temperature.

    rank (n,), around (temperatures, N_SHARES, n).
    """

    rank: NDArray[np.int64]
    around: NDArray[np.float64]


def bytes_needed(data: Logits, plan: Plan, trials: int) -> int:
    """About how much memory a sweep takes beside its input: the drawn rows, the shares, the counts and the result."""
    n_rows, n_classes = len(data), data.n_classes
    drawn = n_rows * trials * 9 + n_classes * trials * 8
    shares = n_rows * len(plan.temperatures) * N_SHARES * 8
    counts = n_classes * trials * 48  # misses, and the hits, shares and gaps made of them
    return drawn + shares + counts + math.prod(plan.shape) * len(plan.metrics) * trials * 8


def run(data: Logits, plan: Plan, trials: Trials, progress: Callable[[int, int], None] | None) -> NDArray[np.float64]:
    """Run the three stages; return values by score, temperature, alpha, metric and trial.

    `progress` is told (done, total) of their tasks: two for each block of rows, one for each temperature.
    """
    blocks = row_blocks(len(data), data.n_classes)
    n_temperatures = len(plan.temperatures)
    total, done = 2 * len(blocks) + n_temperatures, 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    shares = shares_of_labels(data, plan.temperatures, trials.order, plan.n_jobs, tick)
    values = np.full((*plan.shape, len(plan.metrics), trials.count), np.nan)
    refine = np.empty((*plan.shape, trials.count))
    run_all(
        [partial(_one_temperature, data, plan, trials, shares, j, values, refine) for j in range(n_temperatures)],
        n_jobs=plan.n_jobs,
        progress=tick,
    )
    _sizes(data, plan, trials, shares, blocks, values, refine, tick)
    return values


def shares_of_labels(
    data: Logits,
    temperatures: NDArray[np.float64],
    order: NDArray[np.int64],
    n_jobs: int | None,
    tick: Callable[[], None],
) -> Shares:
    """Sort every row once and find the shares around its label; place k of the result is row order[k]."""
    labels = data.require_labels("sweep")[order]
    rank = np.empty(len(data), dtype=np.int64)
    around = np.empty((len(temperatures), N_SHARES, len(data)))

    def work(rows: slice) -> None:
        block = widened(data.logits[order[rows]])
        ranked = np.sort(block, axis=1)
        label_shares(block, ranked, labels[rows], temperatures, rank[rows], around[:, :, rows])

    blocks = row_blocks(len(data), data.n_classes)
    run_all([partial(work, rows) for rows in blocks], n_jobs=n_jobs, progress=tick)
    return Shares(rank, around)


def _one_temperature(
    data: Logits,
    plan: Plan,
    trials: Trials,
    shares: Shares,
    j: int,
    values: NDArray[np.float64],
    refine: NDArray[np.float64],
) -> None:
    """Thresholds, coverage and class gaps at one temperature."""
    around = shares.around[j]
    ks = np.array([conformal_rank(trials.conformal.shape[1], alpha) for alpha in plan.alphas])
    threshold = values[:, :, :, METRICS.index("threshold")]
    integrated = trials.count if plan.integrate else 0
    for m, score in enumerate(plan.scores):
        formula = score.code, score.parameters, shares.rank, around
        select_thresholds(*formula, trials.conformal, trials.u_conformal, ks, threshold[m, j], refine[m, j])
        for a, alpha in enumerate(plan.alphas):
            misses = np.zeros((data.n_classes, trials.count), dtype=np.int32)
            expected = np.zeros((data.n_classes, integrated), dtype=np.int64)
            q = threshold[m, j, a], refine[m, j, a]
            count_misses(
                *formula, trials.u, trials.evaluation, trials.edges, *q, not plan.allow_empty, misses, expected
            )
            _fill_coverage(values[m, j, a], trials.counts, misses.T, alpha, data.n_classes)
            if plan.integrate:
                _fill_integrated(values[m, j, a], trials.counts, expected.T / FIXED_POINT, alpha, data.n_classes)


def _fill_coverage(
    values: NDArray[np.float64], counts: NDArray[np.int64], misses: NDArray[np.int32], alpha: Alpha, n_classes: int
) -> None:
    hits = counts - misses
    gaps = coverage_gaps(hits, counts, alpha)
    coverage = hits.sum(axis=1) / counts.sum(axis=1)
    values[METRICS.index("marginal_coverage")] = coverage
    values[METRICS.index("marginal_coverage_gap")] = coverage_gaps(hits.sum(axis=1), counts.sum(axis=1), alpha)
    values[METRICS.index("top_coverage_gap")] = top_gap(gaps, n_classes)
    values[METRICS.index("avg_coverage_gap")] = avg_gap(gaps)


def _fill_integrated(
    values: NDArray[np.float64], counts: NDArray[np.int64], misses: NDArray[np.float64], alpha: Alpha, n_classes: int
) -> None:
    hits, promised = counts - misses, float(1 - exact_level(alpha))
    shares = np.divide(hits, counts, out=np.full(hits.shape, np.nan), where=counts > 0)  # absent classes: NaN
    gaps = np.abs(shares - promised)
    coverage = hits.sum(axis=1) / counts.sum(axis=1)
    values[METRICS.index("marginal_coverage")] = coverage
    values[METRICS.index("marginal_coverage_gap")] = np.abs(coverage - promised)
    values[len(METRICS)] = top_gap(gaps, n_classes)
    values[len(METRICS) + 1] = avg_gap(gaps)
    values[len(METRICS) + 2] = avg_gap(gaps**2)


def _sizes(
    data: Logits,
    plan: Plan,
    trials: Trials,
    shares: Shares,
    blocks: list[slice],
    values: NDArray[np.float64],
    refine: NDArray[np.float64],
    tick: Callable[[], None],
) -> None:
    """Average sizes and shares of empty sets."""
    q = np.ascontiguousarray(values[:, :, :, METRICS.index("threshold")])
    rising = np.argsort(q, axis=-1, kind="stable")
    codes = np.array([score.code for score in plan.scores])
    parameters = np.array([score.parameters for score in plan.scores])
    integrated = trials.count if plan.integrate else 0
    drawn = np.zeros((2, *plan.shape, trials.count), dtype=np.int64)
    mean = np.zeros((2, *plan.shape, integrated), dtype=np.int64)
    lock = threading.Lock()

    def work(rows: slice) -> None:
        ranked = np.sort(widened(data.logits[trials.order[rows]]), axis=1)
        sizes, means = np.zeros(drawn.shape, dtype=np.int32), np.zeros_like(mean)  # a block has few labels: 32 bits do
        tops = np.ascontiguousarray(shares.around[:, TOP_SHARE, rows])
        falling = np.ascontiguousarray(ranked[:, ::-1])
        count_sizes(
            ranked, falling, plan.temperatures, tops, codes, parameters, trials.u[rows], trials.evaluation[rows],
            q, refine, rising, *sizes, *means,
        )  # fmt: skip
        with lock:  # integers: the order of blocks does not matter
            np.add(drawn, sizes, out=drawn)
            np.add(mean, means, out=mean)

    run_all([partial(work, rows) for rows in blocks], n_jobs=plan.n_jobs, progress=tick)
    rows_seen = trials.evaluation.sum(axis=0)
    labels, none = mean if plan.integrate else drawn
    if not plan.allow_empty:  # the top label joins; counts are added before the division, which rounds
        labels, none = labels + none, np.zeros_like(none)
    unit = FIXED_POINT if plan.integrate else 1.0
    sizes, empty = labels / unit / rows_seen, none / unit / rows_seen
    values[:, :, :, METRICS.index("avg_size")] = sizes
    values[:, :, :, METRICS.index("empty_share")] = empty
