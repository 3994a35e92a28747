"""A sweep as a loop over the stages of the core: label shares, thresholds, then sizes and hits.

Temperatures and trials are taken in turns whose arrays fit a budget of bytes, so that memory does not grow with them.
Every stage writes to its own place or adds integers, so the number of threads and the size of blocks change nothing.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from thermoset.core.counting import Counted, Levels, Part, count_sets
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.formulas import Law
from thermoset.core.integrated import expected_misses, expected_totals
from thermoset.core.label_shares import SharesByTemperature, label_shares
from thermoset.core.levels import Alpha, exact_level
from thermoset.core.pool import thread_count
from thermoset.core.scores import NeverEmpty, Score
from thermoset.core.sources import ArrayRows, RankedRows, block_rows
from thermoset.core.thresholds import Cuts
from thermoset.core.trials import Trials, trial_thresholds
from thermoset.data import Logits
from thermoset.metrics import Metric, SetCounts, swept_metrics
from thermoset.sweeping.protocol import Protocol, draw_trials

__all__ = [
    "BUDGET_BYTES",
    "AllowEmpty",
    "SweepJob",
    "SweptValues",
    "Ticks",
    "bytes_needed",
    "fill_counted",
    "run",
    "set_counts",
]

AllowEmpty = bool | Literal["patched"]
"""Whether sets may be empty. "patched" adds the top label afterwards: the thresholds do not know of it."""

BUDGET_BYTES = 2**28  # of the arrays that grow with temperatures, and of those that grow with trials


@dataclass(frozen=True)
class SweepJob:
    """What to sweep: scores, temperatures, levels, and how evaluation rows are counted."""

    scores: tuple[Score, ...]
    temperatures: Floats
    alphas: tuple[Alpha, ...]
    integrate: bool
    allow_empty: AllowEmpty
    n_jobs: int | None

    @property
    def set_scores(self) -> tuple[Score, ...]:
        """What labels are compared by; see `Recipe.set_score`."""
        return self.scores if self.allow_empty is True else tuple(map(NeverEmpty, self.scores))

    @property
    def threshold_scores(self) -> tuple[Score, ...]:
        """What thresholds are order statistics of: the same, but for the published code's patch."""
        return self.scores if self.allow_empty == "patched" else self.set_scores

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What is measured."""
        return swept_metrics("integrated" if self.integrate else "drawn")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Scores, temperatures, alphas."""
        return len(self.scores), len(self.temperatures), len(self.alphas)

    def temperature_turns(self, n_rows: int, n_classes: int, trials: int) -> Iterator[slice]:
        """Temperatures whose shares and counts fit the budget."""
        threads = thread_count() if self.n_jobs is None else self.n_jobs
        counts = 4 * threads * len(self.scores) * len(self.alphas) * n_classes * trials
        step = max(1, BUDGET_BYTES // (n_rows * SharesByTemperature.BYTES + counts))
        yield from (slice(start, start + step) for start in range(0, len(self.temperatures), step))


def bytes_needed(data: Logits, plan: SweepJob, trials: int) -> int:
    """About how much memory a sweep takes beside its input and the budgets of its stages: the result and the counts."""
    return data.n_classes * trials * 48 + math.prod(plan.shape) * len(plan.metrics) * trials * 8


@dataclass(frozen=True, eq=False)
class SweptValues:
    """values : by score, temperature, alpha, metric and trial; counts : evaluation rows by trial and class."""

    values: Floats
    counts: Ints


class Ticks:
    """Progress in tasks."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def __call__(self) -> None:
        """One more is done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def run(
    data: Logits, plan: SweepJob, trials: int, protocol: Protocol, progress: Callable[[int, int], None] | None
) -> SweptValues:
    """Measure every score, temperature, level and trial; `progress` is told (done, total)."""
    labels = data.require_labels("sweep")
    step = max(1, BUDGET_BYTES // len(data))
    turns = [range(start, min(start + step, trials)) for start in range(0, trials, step)]
    temperature_turns = list(plan.temperature_turns(len(data), data.n_classes, len(turns[0])))
    blocks = -(-len(data) // block_rows(data.n_classes))
    tick = Ticks(len(turns) * (2 * blocks * len(temperature_turns) + len(plan.temperatures)), progress)
    rows = RankedRows(ArrayRows(data.logits))
    parts = []
    for numbers in turns:
        drawn = draw_trials(labels, data.n_classes, numbers, protocol)
        values = np.full((*plan.shape, len(plan.metrics), drawn.count), np.nan)
        for some in temperature_turns:
            _some_temperatures(_Turn(rows, labels, plan, drawn, plan.temperatures[some]), values[:, some], tick)
        parts.append(SweptValues(values, drawn.counts))
    return SweptValues(
        np.concatenate([part.values for part in parts], axis=-1), np.concatenate([part.counts for part in parts])
    )


@dataclass(frozen=True, eq=False)
class _Turn:
    """What is measured at once."""

    rows: RankedRows
    labels: Ints
    plan: SweepJob
    trials: Trials
    temperatures: Floats


def _some_temperatures(turn: _Turn, values: Floats, tick: Callable[[], None]) -> None:
    plan, trials = turn.plan, turn.trials
    shares = label_shares(turn.rows, turn.labels, turn.temperatures, n_jobs=plan.n_jobs, progress=tick)
    cuts = trial_thresholds(shares, plan.threshold_scores, plan.alphas, trials, n_jobs=plan.n_jobs, progress=tick)
    levels = Levels(plan.set_scores, turn.temperatures, cuts)
    parts = [Part(shares, levels, trials)]
    (counted,) = count_sets(turn.rows, turn.labels, parts, n_jobs=plan.n_jobs, progress=tick)
    for a, alpha in enumerate(plan.alphas):
        for m in range(len(plan.scores)):
            for j in range(len(turn.temperatures)):
                counts = set_counts(counted.at(m, j, a), trials.counts, alpha, cuts.value[m, j, a])
                fill_counted(values[m, j, a], plan.metrics, counts)
    if plan.integrate:
        _fill_integrated(turn, shares, cuts, values)


def set_counts(counted: Counted, rows: Ints, alpha: Alpha, threshold: Floats) -> SetCounts:
    """What metrics read: `counted` holds one score, temperature and level, `rows` is (trials, C)."""
    level = float(1 - exact_level(alpha))
    return SetCounts(rows, rows - counted.missed.T, counted.size, counted.empty, level, threshold)


def fill_counted(values: Floats, metrics: Sequence[Metric], counts: SetCounts) -> None:
    """The metrics (metric, trial) that counted sets give."""
    for k, metric in enumerate(metrics):
        if metric.is_swept:
            values[k] = metric.of(counts)


def _fill_integrated(turn: _Turn, shares: SharesByTemperature, cuts: Cuts, values: Floats) -> None:
    """Sizes, coverage and class gaps with u integrated out of the evaluation rows."""
    plan, trials = turn.plan, turn.trials
    for m, score in enumerate(plan.set_scores):
        law = Law(score.formula, drawn=True)
        size, empty = expected_totals(
            turn.rows, shares, turn.temperatures, law, Cuts(cuts.value[m], cuts.refine[m]), trials, n_jobs=plan.n_jobs
        )
        for j in range(len(turn.temperatures)):
            for a, alpha in enumerate(plan.alphas):
                cut = Cuts(cuts.value[m, j, a], cuts.refine[m, j, a])
                missed = expected_misses(law, shares.at(j), turn.labels, trials, cut)
                level, rows = float(1 - exact_level(alpha)), trials.counts
                counts = SetCounts(rows, rows - missed.T, size[j, a], empty[j, a], level, cut.value)
                for k, metric in enumerate(plan.metrics):
                    if metric.averages:
                        values[m, j, a, k] = metric.of(counts)
