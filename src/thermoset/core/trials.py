"""Trials: who sets the threshold, who is evaluated, and with which u; and the thresholds of all trials at once."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.core.compiling import kernel, leaf_kernel, part
from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.formulas import Formula, label_refine, label_value
from thermoset.core.label_shares import LabelShares, SharesByTemperature, label_at
from thermoset.core.levels import Alpha, conformal_rank
from thermoset.core.memory import Spills
from thermoset.core.pool import run_all
from thermoset.core.scores import Score
from thermoset.core.thresholds import Cuts, ScorePairs, select, select_near
from thermoset.core.uniforms import Keys, trial_uniform, trial_uniforms

__all__ = [
    "Draws",
    "Trials",
    "draw",
    "drawn_block",
    "drawn_rows",
    "select_thresholds",
    "trial_scores",
    "trial_thresholds",
]


class Draws(NamedTuple):
    """Where the u of trials come from: a key for each, unless nothing is drawn and u is 1."""

    keys: Keys
    drawn: bool


@dataclass(frozen=True, eq=False)
class Trials:
    """Random splits of the rows.

    conformal : row numbers, (trials, n_conformal), or an array for each trial where they have different numbers;
    evaluation : (n, trials) which rows are evaluated; counts : (trials, C) evaluation rows of each class.
    """

    conformal: NDArray[np.int32] | tuple[NDArray[np.int32], ...]
    evaluation: Bools
    draws: Draws
    counts: Ints

    @property
    def count(self) -> int:
        """Number of trials."""
        return len(self.conformal)

    @property
    def most_conformal(self) -> int:
        """The largest number of conformal rows that a trial has."""
        return max(map(len, self.conformal))

    def alike(self) -> Iterator[tuple[slice | Ints, NDArray[np.int32]]]:
        """Trials that have as many conformal rows, by their places, and these rows: (some trials, n_conformal)."""
        if not isinstance(self.conformal, tuple):
            yield slice(None), self.conformal
            return
        sizes = np.array([len(rows) for rows in self.conformal])
        for size in np.unique(sizes):
            which = np.flatnonzero(sizes == size)
            yield which, np.stack([self.conformal[t] for t in which])

    def some(self, which: Ints) -> "Trials":
        """Some of the trials, in arrays of their own: kernels are compiled for contiguous ones."""
        ragged = isinstance(self.conformal, tuple)
        return replace(
            self,
            conformal=tuple(self.conformal[t] for t in which) if ragged else np.asarray(self.conformal)[which],
            evaluation=np.ascontiguousarray(self.evaluation[:, which]),
            draws=Draws(self.draws.keys[which], self.draws.drawn),
            counts=self.counts[which],
        )


@part
def draw(draws: Draws, t: int, row: int) -> float:
    """U of a row in trial t."""
    return trial_uniform(draws.keys[t], row) if draws.drawn else 1.0


def drawn_block(draws: Draws, rows: slice) -> Floats:
    """U of consecutive rows in every trial, (n, trials)."""
    u = np.ones((rows.stop - rows.start, len(draws.keys)))
    if draws.drawn:
        trial_uniforms(draws.keys, rows.start, u)
    return u


@kernel
def select_thresholds(
    formula: Formula, labels: LabelShares, conformal: NDArray[np.int32], draws: Draws, ks: Ints, out: Cuts
) -> None:
    """The order statistic of each k in every trial, at one temperature: out (n_alphas, trials)."""
    n = conformal.shape[1]
    values, scratch, u = np.empty(n), np.empty(n + 1), np.empty(n)
    low, high = np.empty(ks.shape[0]), np.empty(ks.shape[0])
    for t in range(conformal.shape[0]):
        for j in range(n):
            i = int(np.int64(conformal[t, j]))
            u[j] = draw(draws, t, i)
            values[j] = label_value(formula, labels.rank[i], label_at(labels, i), u[j])
        for a in range(ks.shape[0]):
            k = ks[a]
            if k > n:
                out.value[a, t], out.refine[a, t] = np.inf, np.inf
                continue
            if t == 0:  # trials scatter by about sqrt(n) ranks: a window of a few times that catches the others
                reach = 4 * int(math.sqrt(n))
                low[a] = select_near(values, max(k - reach, 1), np.inf, -np.inf, scratch)
                high[a] = select_near(values, min(k + reach, n), np.inf, -np.inf, scratch)
            q = select_near(values, k, low[a], high[a], scratch)
            below, ties = 0, int(np.int64(0))
            for j in range(n):
                below += values[j] < q
                if values[j] == q:
                    i = int(np.int64(conformal[t, j]))
                    scratch[ties] = label_refine(formula, labels.rank[i], label_at(labels, i), u[j])
                    ties += 1
            out.value[a, t] = q
            out.refine[a, t] = select(scratch, ties, k - below)


def trial_thresholds(
    shares: SharesByTemperature,
    scores: Sequence[Score],
    alphas: Sequence[Alpha],
    trials: Trials,
    *,
    n_jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Cuts:
    """Thresholds of every score, temperature, level and trial: (scores, T, alphas, trials)."""
    alike = [(which, rows, _ranks(rows.shape[1], alphas)) for which, rows in trials.alike()]
    n_temperatures = len(shares.all.top)
    shape = len(scores), n_temperatures, len(alphas), trials.count
    out = Cuts(np.empty(shape), np.empty(shape))
    spills = Spills(shares.all)

    def work(j: int) -> None:
        labels = shares.at(j)
        for m, score in enumerate(scores):
            for which, rows, ks in alike:
                some = Cuts(np.empty((len(alphas), len(rows))), np.empty((len(alphas), len(rows))))
                draws = Draws(trials.draws.keys[which], trials.draws.drawn)
                select_thresholds(score.formula, labels, rows, draws, ks, some)
                out.value[m, j][:, which], out.refine[m, j][:, which] = some
        spills.release()

    run_all([partial(work, j) for j in range(n_temperatures)], n_jobs=n_jobs, progress=progress)
    return out


def _ranks(n_rows: int, alphas: Sequence[Alpha]) -> Ints:
    return np.array([conformal_rank(n_rows, alpha) for alpha in alphas])


@leaf_kernel
def _fill_trial(formula: Formula, labels: LabelShares, rows: Ints, u: Floats, out: Cuts) -> None:
    for j in range(rows.shape[0]):
        i = rows[j]
        shares = label_at(labels, i)
        out.value[j] = label_value(formula, labels.rank[i], shares, u[j])
        out.refine[j] = label_refine(formula, labels.rank[i], shares, u[j])


def trial_scores(formula: Formula, labels: LabelShares, trials: Trials, t: int) -> ScorePairs:
    """Label scores of the conformal rows of one trial, at one temperature."""
    rows = trials.conformal[t].astype(np.int64)
    found = ScorePairs(np.empty(len(rows)), np.empty(len(rows)))
    _fill_trial(formula, labels, rows, drawn_rows(trials.draws, t, rows), found.cuts)
    return found


@leaf_kernel
def _fill_drawn(draws: Draws, t: int, rows: Ints, out: Floats) -> None:
    for j in range(rows.shape[0]):
        out[j] = draw(draws, t, rows[j])


def drawn_rows(draws: Draws, t: int, rows: Ints) -> Floats:
    """U of some rows in one trial."""
    u = np.empty(len(rows))
    _fill_drawn(draws, t, rows, u)
    return u
