"""Class gaps and sizes as a classifier shows them: thresholds from some rows, drawn u, evaluated on others.

Noisier than the closed form, but these are the field's own metrics, and the only ones for class-conditional sets.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal import ConformalClassifier
from thermoset.data import Logits
from thermoset.errors import CoverageWarning
from thermoset.levels import conformal_rank, rows_needed
from thermoset.metrics import avg_size, coverage_gaps, empty_share, top_coverage_gap, top_gap
from thermoset.pool import run_all
from thermoset.sweeping import Trial, sweep
from thermoset.sweeping.labels import count_misses, select_thresholds
from thermoset.sweeping.passes import Shares, shares_of_labels
from thermoset.sweeping.trials import packed_trials
from thermoset.tuning.curves import Curves, Floats, Setting

__all__ = ["Gaps", "by_halves", "by_paper", "class_gaps", "some_rows"]

_HALVINGS = 20
_PAIRS, _HALVINGS_OF_PAIR = 4, 5
_SLOW_TRIALS = 5  # class-conditional sets cost a fit and a prediction each
_SLOW_ROWS = 5_000


@dataclass(frozen=True)
class Gaps:
    """TopCovGap at each temperature, cross-fitted, and the same on pairs of disjoint halves of the rows.

    The two numbers of a pair, `of_pairs` (pairs, 2, n_temperatures), are independent and each has twice the variance
    that all rows have, so their squared difference is on average four times it. (The scatter over halvings is no guide
    to the error: it is mostly binomial noise, which their mean averages out.)
    """

    top: Floats
    of_pairs: Floats

    def errors(self) -> Floats:
        """Standard error at each temperature; NaN where rows were too few for pairs."""
        return _error_of_pairs(self.of_pairs)

    def difference_error(self, i: int, j: int) -> float:
        """Standard error of the difference between temperatures i and j."""
        return float(_error_of_pairs(self.of_pairs[:, :, i] - self.of_pairs[:, :, j]))


def _error_of_pairs(of_pairs: Floats) -> Floats:
    if not len(of_pairs):
        return np.full(of_pairs.shape[2:], np.nan)
    errors: Floats = np.sqrt(((of_pairs[:, 0] - of_pairs[:, 1]) ** 2).mean(axis=0) / 4)
    return errors


def class_gaps(data: Logits, setting: Setting, temperatures: Floats) -> Gaps:
    """TopCovGap of all rows, each half with the threshold of the other and drawn u; mean over random halvings.

    For sets with one threshold; those of class-conditional sets come with `by_halves`.
    """
    # Classes without rows are left out from the start: a few rows hold few of very many classes.
    _, labels = np.unique(data.require_labels("tuning"), return_inverse=True)
    order = np.argsort(labels, kind="stable")
    shares = shares_of_labels(data, temperatures, order, None, lambda: None)
    whole = _Halvings(labels, data.n_classes, setting, np.arange(len(data)), (0,), _HALVINGS)
    if len(data) // 4 < rows_needed(setting.alpha):
        return Gaps(whole.top_gaps(shares), np.empty((0, 2, len(temperatures))))
    of_pairs = []
    for pair in range(_PAIRS):
        rows = np.random.default_rng((setting.random_state, pair)).permutation(len(data))
        ends = 0, len(rows) // 2, 2 * (len(rows) // 2)  # of an odd number of rows one is left out
        halves = [rows[ends[k] : ends[k + 1]] for k in (0, 1)]
        parts = [
            _Halvings(labels, data.n_classes, setting, half, (pair, k), _HALVINGS_OF_PAIR)
            for k, half in enumerate(halves)
        ]
        of_pairs.append([part.top_gaps(shares) for part in parts])
    return Gaps(whole.top_gaps(shares), np.array(of_pairs))


class _Halvings:
    """Random halvings of some rows: trial 2t has thresholds from one half and evaluates the other, 2t + 1 reversed.

    `labels` number the classes that have rows; `n_classes` counts the others as well.
    """

    def __init__(
        self,
        labels: NDArray[np.int64],
        n_classes: int,
        setting: Setting,
        rows: NDArray[np.int64],
        stream: tuple[int, ...],
        count: int,
    ) -> None:
        self._setting, self._n_classes = setting, n_classes
        seen = int(labels.max()) + 1
        self._counts = np.bincount(labels[rows], minlength=seen)
        half = len(rows) // 2

        def draw(t: int) -> Trial:
            # Both trials of a halving have the same rows and u. Of an odd number of rows, one is only evaluated.
            rng = np.random.default_rng((setting.random_state, *stream, t // 2))
            mixed = rng.permutation(rows)
            u = rng.random(len(labels)) if setting.randomized else np.ones(len(labels))
            if t % 2:
                return Trial(mixed[:0], mixed[:half], mixed[half:], u)
            return Trial(mixed[:0], mixed[half : 2 * half], mixed[:half], u)

        self._trials = packed_trials(labels, seen, 2 * count, draw)

    def top_gaps(self, shares: Shares) -> Floats:
        """Mean TopCovGap over the halvings, at each temperature."""
        trials, setting = self._trials, self._setting
        k = np.array([conformal_rank(trials.conformal.shape[1], setting.alpha)])
        means = np.empty(len(shares.around))

        def work(j: int) -> None:
            formula = setting.score.code, setting.score.parameters, shares.rank, shares.around[j]
            q = np.empty((2, 1, trials.count))
            select_thresholds(*formula, trials.conformal, trials.u_conformal, k, *q)
            misses = np.zeros((len(self._counts), trials.count), dtype=np.int32)
            none = np.zeros((len(self._counts), 0), dtype=np.int64)
            rows = trials.u, trials.evaluation, trials.edges
            count_misses(*formula, *rows, q[0, 0], q[1, 0], not setting.allow_empty, misses, none)
            of_halvings = self._counts - (misses[:, 0::2] + misses[:, 1::2]).T
            gaps = coverage_gaps(of_halvings, np.broadcast_to(self._counts, of_halvings.shape), setting.alpha)
            # As many places as TopCovGap adds up, so that the sum is rounded as if every class had one.
            places = ((0, 0), (0, max(self._n_classes // 20 - gaps.shape[1], 0)))
            means[j] = top_gap(np.pad(gaps, places, constant_values=np.nan), self._n_classes).mean()

        run_all([partial(work, j) for j in range(len(means))])
        return means


def by_halves(data: Logits, setting: Setting, temperatures: Floats, tick: Callable[[int], None]) -> tuple[Curves, Gaps]:
    """Curves and gaps from random halvings: for class-conditional sets, which have no closed form."""
    values = _slow_sweep(data, setting, temperatures, tick)
    gaps = Gaps(values["top_coverage_gap"].mean(axis=1), np.empty((0, 2, len(temperatures))))
    curves = Curves(
        temperatures=temperatures,
        size=values["avg_size"].mean(axis=1),
        size_error=values["avg_size"].std(axis=1, ddof=1),
        empty_share=values["empty_share"].mean(axis=1),
        loss=values["avg_coverage_gap"].mean(axis=1),
        loss_of_halves=values["avg_coverage_gap"],
    )
    return curves, gaps


def some_rows(data: Logits, setting: Setting) -> Logits:
    """The rows that class-conditional sets are tried on: all, or some thousand of them."""
    if len(data) <= _SLOW_ROWS:
        return data
    rows = np.random.default_rng(setting.random_state).permutation(len(data))[:_SLOW_ROWS]
    return data.take(np.sort(rows))


def _slow_sweep(data: Logits, setting: Setting, temperatures: Floats, tick: Callable[[int], None]) -> dict[str, Floats]:
    """Metrics of class-conditional sets over random halvings of at most some thousand rows: (temperatures, trials)."""
    told = 0

    def progress(done: int, total: int) -> None:
        nonlocal told
        now = len(temperatures) * done // total
        tick(now - told)
        told = now

    with warnings.catch_warnings():
        # Halves of a small calibration set lack some classes; the noise floor is that of the same counts.
        warnings.simplefilter("ignore", CoverageWarning)
        result = sweep(
            some_rows(data, setting),
            temperatures=temperatures,
            methods=[setting.score],
            alphas=[setting.alpha],
            trials=_SLOW_TRIALS,
            calibration_fraction=0,
            cp_fraction=0.5,
            random_state=setting.random_state,
            randomized=setting.randomized,
            allow_empty=setting.allow_empty,
            class_conditional=setting.class_conditional,
            progress=progress,
        )
    return {metric: result.of_trials(metric, result.methods[0]) for metric in result.metrics}


def by_paper(
    conformal: Logits, evaluation: Logits, setting: Setting, temperatures: Floats, tick: Callable[[int], None]
) -> Curves:
    """The paper's appendix C: thresholds from the conformal rows, metrics on the calibration rows, one drawn u."""
    labels = evaluation.require_labels("tuning")
    values = np.empty((3, len(temperatures)))
    for j, temperature in enumerate(temperatures):
        model = ConformalClassifier(
            setting.score,
            setting.alpha,
            float(temperature),
            setting.randomized,
            setting.allow_empty,
            setting.class_conditional,
            setting.random_state,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)  # the predictor's own fit says so, once
            sets = model.fit(conformal).predict_set(evaluation)
        values[:, j] = avg_size(sets), empty_share(sets), top_coverage_gap(sets, labels, setting.alpha)
        tick(1)
    unknown = np.full(len(temperatures), np.nan)
    return Curves(temperatures, values[0], unknown, values[1], values[2], np.empty((len(temperatures), 0)))
