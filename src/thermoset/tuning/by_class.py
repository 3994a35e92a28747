"""Whether per-class thresholds do better: where each class has many rows, they do.

What such sets do for classes needs no estimate: the coverage of class c follows Beta(k, n_c + 1 - k) for its own n_c
conformal rows. Their sizes are measured on halves of the calibration rows, which set larger thresholds than all
conformal rows will. Like every choice of a kind of sets, this one looks at calibration rows alone.
"""

from dataclasses import replace

import numpy as np

from thermoset.arrays import Floats
from thermoset.levels import conformal_rank, exact_level
from thermoset.scores import LAC
from thermoset.tuning.aims import Even
from thermoset.tuning.class_gap import ClassGaps
from thermoset.tuning.held_out import by_halves
from thermoset.tuning.preference import Preference
from thermoset.tuning.search import Found, Search
from thermoset.tuning.worst_classes import DRAWS, Tenths, tenth_of
from thermoset.uniforms import stream

__all__ = ["by_class_instead", "class_tenths"]

_CONFIDENCE = 0.95


def by_class_instead(search: Search, preference: Preference, found: Found, calibrated: float) -> Found:
    """Thresholds by class, if they are clearly better at what is asked for; else what was found."""
    recipe = found.recipe.change(method=LAC(), alpha=search.recipe.alpha, grouping="class")
    counts = _conformal_counts(search)
    ranks = np.array([conformal_rank(int(n), recipe.alpha) for n in counts])
    if (ranks > counts).any():
        return found
    target, tenths = preference.target(recipe.alpha), class_tenths(counts, ranks, recipe.random_state)
    if target is not None:
        sure = float((tenths.worst >= target).mean())
        if sure < _CONFIDENCE:
            return found
    elif not isinstance(preference, Even) or not _is_more_even(search, found, counts, ranks):
        return found
    else:
        sure = None
    curves, _ = by_halves(search.calibration, recipe, np.unique([1.0, calibrated]), search.steps.take)
    best = int(np.argmin(curves.size))
    if target is not None and curves.size[best] >= found.size:
        return found
    return Found(recipe, float(curves.temperatures[best]), curves, sure=sure, tenths=tenths)


def class_tenths(counts: Floats, ranks: Floats, seed: int) -> Tenths:
    """Draws of the coverage of the worst and the best tenth of classes with thresholds of their own.

    >>> found = class_tenths(np.full(20, 199.0), np.full(20, 180.0), seed=0)  # each Beta(180, 20)
    >>> bool(0.85 < found.worst.mean() < 0.88), bool(0.92 < found.best.mean() < 0.95)
    (True, True)
    """
    rng = stream(seed, "coverage by class")
    drawn = np.sort(rng.beta(ranks, counts + 1 - ranks, size=(DRAWS, len(counts))), axis=1)
    tenth = tenth_of(len(counts))
    return Tenths(drawn[:, :tenth].mean(axis=1), drawn[:, -tenth:].mean(axis=1))


def _conformal_counts(search: Search) -> Floats:
    """Rows of each class that will set its threshold: as many as the calibration rows make likely."""
    rows = search.calibration
    counts = np.bincount(rows.require_labels("tuning"), minlength=rows.n_classes)
    return np.floor(counts * search.n_conformal / len(rows))


def _is_more_even(search: Search, found: Found, counts: Floats, ranks: Floats) -> bool:
    """Whether the class gap by the law is below all that the found setting's could be."""
    level = 1 - float(exact_level(search.recipe.alpha))
    mean = ranks / (counts + 1)
    square = float(np.mean(mean * (1 - mean) / (counts + 2) + (mean - level) ** 2))
    at = replace(search, recipe=found.recipe).closed_form(np.array([found.temperature]))[0]
    if at.classes is None or not len(at.classes.sample.counts):
        return False
    return bool(np.sqrt(square) < ClassGaps(at.classes).intervals[0, 0])
