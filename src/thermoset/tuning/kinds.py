"""Every kind of sets at once: which ones `method="auto"` considers, and which of them get a full search.

A menu, not a grid: penalties and weights from almost none to much, each with and without randomisation. The margin
score is left out: it orders labels much as LAC does, and has no closed form. All kinds are measured on some of the rows
at a dozen temperatures; the best two for the preference are then searched on all rows.
"""

from collections.abc import Sequence

import numpy as np

from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.levels import Alpha
from thermoset.scores import APS, LAC, RAPS, SAPS, Score, TopK
from thermoset.tuning.points import Points
from thermoset.tuning.preference import Preference
from thermoset.tuning.search import Found
from thermoset.uniforms import stream

__all__ = ["FINALISTS", "best_of", "finalists", "menu", "some_of"]

_SCORES: tuple[Score, ...] = (
    LAC(),
    APS(),
    RAPS(penalty=0.01, k_reg=5),
    RAPS(penalty=0.001, k_reg=5),
    RAPS(penalty=0.03, k_reg=1),
    RAPS(penalty=0.1, k_reg=2),
    SAPS(weight=0.02),
    SAPS(weight=0.2),
    TopK(),
)

FINALISTS = 2
"""Kinds that are searched on all rows."""

_SOME_ROWS, _FEWEST_ROWS, _SOME_ENTRIES = 6_000, 1_500, 4_000_000  # that all kinds are measured on
_NEARLY = 1.02**2  # class losses as good as the least: gaps that are 2% larger


def menu(
    alpha: Alpha, *, randomized: bool = True, allow_empty: bool = True, random_state: int = 0
) -> tuple[Recipe, ...]:
    """The kinds of sets that `method="auto"` chooses from; `randomized=False` keeps only the deterministic ones.

    >>> kinds = menu(0.1)
    >>> len(kinds), len(menu(0.1, randomized=False))
    (17, 9)
    """
    return tuple(
        Recipe(score, alpha, drawn, allow_empty, None, random_state)
        for score in _SCORES
        for drawn in ((True, False) if randomized and score.uses_u else (randomized,))
    )


def some_of(data: Logits, seed: int) -> Logits:
    """The rows that all kinds are measured on: all, or some thousand at random."""
    count = max(min(_SOME_ROWS, _SOME_ENTRIES // data.n_classes), _FEWEST_ROWS)
    if len(data) <= count:
        return data
    return data.take(np.sort(stream(seed, "rows of the menu").permutation(len(data))[:count]))


def finalists(points: Sequence[Points], preference: Preference) -> list[Recipe]:
    """The kinds whose best temperature does most for the preference; the first level of the points is the promised."""
    order = np.argsort([_merit(one, preference) for one in points], kind="stable")
    return [points[i].recipe for i in order[:FINALISTS]]


def _merit(one: Points, preference: Preference) -> float:
    """The least loss or size of one kind, up to the peak of its sizes and within a budget."""
    size, loss = one.size[:, 0], one.loss
    peak = int(np.argmax(size))
    searched = np.arange(len(size)) <= (peak if 0 < peak < len(size) - 1 else len(size))
    amount = getattr(preference, "amount", np.inf)
    kept = searched & ((size if preference.evens_out else one.gaps[:, 0]) <= amount)
    wanted = loss if preference.evens_out else size
    if kept.any():
        return float(wanted[kept].min())
    return 1e6 + float((size if preference.evens_out else one.gaps[:, 0])[searched].min())


def best_of(founds: Sequence[Found], preference: Preference) -> Found:
    """The best of several searches. Of losses that are nearly the least, the one with the smallest sets."""
    kept = [one for one in founds if one.met] or list(founds)
    if not preference.evens_out:
        return min(kept, key=lambda one: one.curves.size[one.at])
    least = min(one.curves.loss[one.at] for one in kept)
    nearly = [one for one in kept if one.curves.loss[one.at] <= _NEARLY * least]
    return min(nearly, key=lambda one: one.curves.size[one.at])
