"""A sweep as a loop over the stages of the core: label shares, thresholds, then sizes and hits.

Temperatures and trials are taken in turns whose arrays fit a budget of bytes, so that memory does not grow with them.
Every stage writes to its own place or adds integers, so the number of threads and the size of blocks change nothing.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.core.counting import Levels
from thermoset.core.formulas import Law
from thermoset.core.stages import Told
from thermoset.core.thresholds import Cuts
from thermoset.data import Logits
from thermoset.levels import Alpha, exact_level
from thermoset.metrics import Metric, SetCounts, swept_metrics
from thermoset.rows import SortedRows, room, thread_count
from thermoset.scores import NeverEmpty, Score
from thermoset.sweeping.engine import (
    Counted,
    LabelParts,
    Part,
    Trials,
    count_sets,
    expected_misses,
    expected_totals,
    label_parts,
    trial_thresholds,
)
from thermoset.sweeping.protocol import Protocol, draw_trials
from thermoset.sweeping.questions import Questions, strata_of

__all__ = [
    "Measured",
    "SweepJob",
    "SweptValues",
    "Ticks",
    "bytes_needed",
    "fill_counted",
    "run",
]

_PASSES = 2  # over the rows: shares of labels, then what sets hold


@dataclass(frozen=True)
class SweepJob:
    """What to sweep: scores, temperatures, levels, how evaluation rows are counted, and metrics beyond the usual."""

    scores: tuple[Score, ...]
    temperatures: Floats
    alphas: tuple[Alpha, ...]
    integrate: bool
    allow_empty: bool
    n_jobs: int | None
    added: tuple[Metric, ...] = ()

    @property
    def set_scores(self) -> tuple[Score, ...]:
        """What labels are compared by; see `Recipe.set_score`."""
        return self.scores if self.allow_empty else tuple(map(NeverEmpty, self.scores))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What is measured."""
        return (*swept_metrics("integrated" if self.integrate else "drawn"), *self.added)

    def needs(self, what: str) -> bool:
        """Whether a metric reads this, such as "confidence"."""
        return any(metric.needs == what for metric in self.metrics)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Scores, temperatures, alphas."""
        return len(self.scores), len(self.temperatures), len(self.alphas)

    def temperature_turns(self, n_cells: int, trials: int) -> Iterator[slice]:
        """Temperatures whose counts fit a quarter of the budget.

        The shares of labels may be in a file: to write and read them costs less than another pass over the rows.
        """
        threads = thread_count() if self.n_jobs is None else self.n_jobs
        counts = 4 * threads * len(self.scores) * len(self.alphas) * n_cells * trials
        step = max(1, room(4) // counts)
        yield from (slice(start, start + step) for start in range(0, len(self.temperatures), step))


def bytes_needed(data: Logits, plan: SweepJob, trials: int) -> int:
    """About how much memory a sweep takes beside its input and the budgets of its stages: the result and the counts."""
    return data.n_classes * trials * 48 + math.prod(plan.shape) * len(plan.metrics) * trials * 8


@dataclass(frozen=True, eq=False)
class SweptValues:
    """values : by score, temperature, alpha, metric and trial; counts : evaluation rows by trial and class.

    temperature : of the confidence whose strata were measured, if they were.
    """

    values: Floats
    counts: Ints
    temperature: float | None = None


class Ticks:
    """Progress in rows, passes over them added up, or in tasks."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def __call__(self, more: int) -> None:
        """So many more are done."""
        self._done = min(self._done + more, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)


def run(
    data: Logits, plan: SweepJob, trials: int, protocol: Protocol, progress: Callable[[int, int], None] | None
) -> SweptValues:
    """Measure every score, temperature, level and trial; `progress` is told (done, total)."""
    measured = Measured.of(data, plan, trials, protocol)
    turns = list(plan.temperature_turns(measured.questions.asked.n_cells, trials))
    passes = _PASSES + (len(plan.scores) if plan.integrate else 0)
    tick = Ticks(passes * len(data) * len(turns), progress)
    values = np.full((*plan.shape, len(plan.metrics), trials), np.nan)
    rows = SortedRows(data)
    for some in turns:
        _some_temperatures(_Turn(rows, plan, measured, plan.temperatures[some]), values[:, some], tick)
    return SweptValues(values, measured.trials.counts, measured.temperature)


@dataclass(frozen=True, eq=False)
class Measured:
    """The trials of a sweep, and what is measured in each: questions to sets.

    temperature : of the confidence, where strata of it are asked for.
    """

    labels: Ints
    trials: Trials
    questions: Questions
    temperature: float | None

    @classmethod
    def of(cls, data: Logits, plan: SweepJob, trials: int, protocol: Protocol) -> "Measured":
        """Draw the trials, and prepare what the metrics of the plan need."""
        labels = data.require_labels("sweep")
        drawn = draw_trials(labels, data.n_classes, range(trials), protocol)
        strata = strata_of(data) if plan.needs("confidence") else None
        questions = Questions.of(data, drawn, plan.metrics, strata)
        return cls(labels, drawn, questions, None if strata is None else strata.temperature)

    def fill(self, values: Floats, counted: Counted, plan: SweepJob, threshold: Floats) -> None:
        """The metrics of what was counted, (scores, T, alphas, metrics, trials); thresholds have no axis of metrics."""
        for m, j, a in np.ndindex(values.shape[:3]):
            counts = self.questions.counts(counted.at(m, j, a), plan.alphas[a], threshold[m, j, a])
            fill_counted(values[m, j, a], plan.metrics, counts)


@dataclass(frozen=True, eq=False)
class _Turn:
    """What is measured at once."""

    rows: SortedRows
    plan: SweepJob
    measured: Measured
    temperatures: Floats

    @property
    def labels(self) -> Ints:
        return self.measured.labels

    @property
    def trials(self) -> Trials:
        return self.measured.trials


def _some_temperatures(turn: _Turn, values: Floats, tick: Callable[[int], None]) -> None:
    plan, trials, told = turn.plan, turn.trials, Told(turn.plan.n_jobs, tick)
    shares = label_parts(turn.rows, turn.labels, turn.temperatures, told)
    cuts = trial_thresholds(shares, plan.set_scores, plan.alphas, trials, n_jobs=plan.n_jobs)
    levels = Levels(plan.set_scores, turn.temperatures, cuts)
    parts = [Part(shares, levels, trials)]
    (counted,) = count_sets(turn.rows, turn.measured.questions.asked, parts, told)
    turn.measured.fill(values, counted, plan, cuts.value)
    if plan.integrate:
        _fill_integrated(turn, shares, cuts, values, tick)


def fill_counted(values: Floats, metrics: Sequence[Metric], counts: SetCounts) -> None:
    """The metrics (metric, trial) that counted sets give."""
    for k, metric in enumerate(metrics):
        if metric.needs != "expectation":
            values[k] = metric.of(counts)


def _fill_integrated(turn: _Turn, shares: LabelParts, cuts: Cuts, values: Floats, tick: Callable[[int], None]) -> None:
    """Sizes, coverage and class gaps with u integrated out of the evaluation rows."""
    plan, trials = turn.plan, turn.trials
    told = Told(plan.n_jobs, tick)
    for m, score in enumerate(plan.set_scores):
        law = Law(score.formula, drawn=True)
        size, empty = expected_totals(
            turn.rows, shares, turn.temperatures, law, Cuts(cuts.value[m], cuts.refine[m]), trials, told
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
