"""Class gaps and sizes as a classifier shows them: thresholds from some rows, drawn u, evaluated on others.

Noisier than the closed form, but these are the field's own metrics, and the only ones for class-conditional sets.
"""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Floats
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.errors import CoverageWarning
from thermoset.metrics import coverage_gaps, top_gap
from thermoset.rows import SortedRows
from thermoset.sweeping import sweep
from thermoset.sweeping.engine import LabelParts, Misses, Part, count_sets, label_parts, trial_thresholds
from thermoset.sweeping.protocol import Split, pack_trials
from thermoset.tuning.closed_form import Curves
from thermoset.tuning.parts import EvenOver, parts_of
from thermoset.uniforms import stream, trial_keys

__all__ = ["by_halves", "some_rows", "top_gaps"]

_HALVINGS = 20
_SLOW_TRIALS = 5  # class-conditional sets cost a fit and a prediction each
_SLOW_ROWS = 5_000


def top_gaps(rows: SortedRows, data: Logits, recipe: Recipe, temperatures: Floats, even: EvenOver = "class") -> Floats:
    """TopCovGap of all rows, each half with the threshold of the other and drawn u; mean over random halvings.

    For sets with one threshold; those of class-conditional sets come with `by_halves`.
    """
    parts = parts_of(data, even)
    # Classes without rows are left out from the start: a few rows hold few of very many classes.
    _, groups = np.unique(parts.codes, return_inverse=True)
    labels = label_parts(rows, data.require_labels("tuning"), temperatures)
    return _Halvings(groups, parts.count, recipe).top_gaps(rows, labels)


class _Halvings:
    """Random halvings of the rows: trial 2t has thresholds from one half and evaluates the other, 2t + 1 reversed.

    `groups` number the classes, or the groups of rows, that have rows; `n_classes` counts the others as well.
    """

    def __init__(self, groups: NDArray[np.int64], n_classes: int, recipe: Recipe) -> None:
        self._recipe, self._n_classes, self._groups = recipe, n_classes, groups
        seen = int(groups.max()) + 1
        self._counts = np.bincount(groups, minlength=seen)
        half = len(groups) // 2

        def split(t: int) -> Split:
            # Both trials of a halving have the same rows and u. Of an odd number of rows, one is only evaluated.
            mixed = stream(recipe.random_state, "halvings", t // 2).permutation(len(groups))
            if t % 2:
                return Split(mixed[:0], mixed[:half], mixed[half:])
            return Split(mixed[:0], mixed[half : 2 * half], mixed[:half])

        keys = trial_keys(recipe.random_state, np.repeat(np.arange(_HALVINGS), 2))
        splits = [partial(split, t) for t in range(2 * _HALVINGS)]
        self._trials = pack_trials(groups, seen, splits, keys, recipe.randomized)

    def top_gaps(self, rows: SortedRows, labels: LabelParts) -> Floats:
        """Mean TopCovGap over the halvings, at each temperature."""
        trials, recipe = self._trials, self._recipe
        scores = (recipe.set_score,)
        thresholds = trial_thresholds(labels, scores, [recipe.alpha], trials)
        misses = Misses.by_group(self._groups, len(self._counts))
        (counted,) = count_sets(rows, misses, [Part(labels, scores, thresholds, trials)])
        means = np.empty(len(labels.temperatures))
        for j in range(len(means)):
            missed = counted.at(0, j, 0).missed
            of_halvings = self._counts - (missed[:, 0::2] + missed[:, 1::2]).T
            gaps = coverage_gaps(of_halvings, np.broadcast_to(self._counts, of_halvings.shape), recipe.alpha)
            # As many places as TopCovGap adds up, so that the sum is rounded as if every class had one.
            places = ((0, 0), (0, max(self._n_classes // 20 - gaps.shape[1], 0)))
            means[j] = top_gap(np.pad(gaps, places, constant_values=np.nan), self._n_classes).mean()
        return means


def by_halves(data: Logits, recipe: Recipe, temperatures: Floats, tick: Callable[[int], None]) -> tuple[Curves, Floats]:
    """Curves and TopCovGap from random halvings, for sets without a closed form; see `Recipe.closed_form`."""
    values = _slow_sweep(data, recipe, temperatures, tick)
    curves = Curves(
        temperatures=temperatures,
        size=values["avg_size"].mean(axis=1),
        size_error=values["avg_size"].std(axis=1, ddof=1),
        empty_share=values["empty_share"].mean(axis=1),
        loss=values["avg_coverage_gap"].mean(axis=1),
        loss_of_halves=values["avg_coverage_gap"],
        size_noise=np.empty((len(temperatures), 0)),
    )
    return curves, values["top_coverage_gap"].mean(axis=1)


def some_rows(data: Logits, recipe: Recipe) -> Logits:
    """The rows that sets without a closed form are tried on: all, or some thousand of them."""
    if len(data) <= _SLOW_ROWS:
        return data
    rows = stream(recipe.random_state, "rows tried slowly").permutation(len(data))[:_SLOW_ROWS]
    return data.take(np.sort(rows))


def _slow_sweep(data: Logits, recipe: Recipe, temperatures: Floats, tick: Callable[[int], None]) -> dict[str, Floats]:
    """Metrics of sets over random halvings of at most some thousand rows: (temperatures, trials)."""
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
            some_rows(data, recipe),
            temperatures=temperatures,
            methods=[recipe.score],
            alphas=[recipe.alpha],
            trials=_SLOW_TRIALS,
            calibration_fraction=0,
            cp_fraction=0.5,
            random_state=recipe.random_state,
            randomized=recipe.randomized,
            allow_empty=recipe.allow_empty,
            grouping=recipe.grouping,
            progress=progress,
        )
    return {metric: result.of_trials(metric, result.methods[0]) for metric in result.metrics}
