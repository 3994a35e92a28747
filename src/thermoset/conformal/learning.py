"""What sets take from labelled rows before there is a threshold: shares of the classes, and their last ranks.

The rows it comes from set no threshold, so that the others keep the exact law.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from thermoset.conformal.groupings import set_aside
from thermoset.conformal.recipes import Recipe
from thermoset.core.exponentials import Ints
from thermoset.core.groups import group_thresholds, rank_table
from thermoset.core.label_logits import label_ranks
from thermoset.core.levels import Alpha
from thermoset.core.rank_limits import RankLimited
from thermoset.core.score import Score
from thermoset.core.thresholds import ScorePairs
from thermoset.core.top_rows import tops_of
from thermoset.data import Logits
from thermoset.errors import CoverageWarning, InputError

__all__ = ["Learned", "learned_from", "learned_from_some", "rank_limits", "some_named"]

_LEARNING = 1 / 5  # of the rows, where no others are at hand
_NAMED = 5  # classes a warning names before it says "and n more"


@dataclass(frozen=True, eq=False)
class Learned:
    """A recipe whose score is complete, and the rows that are left to set thresholds: all if None.

    `absent` are the classes without any of the `seen` rows that a prior was estimated from.
    """

    recipe: Recipe
    rows: Ints | None = None
    absent: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seen: int = 0

    def told(self, data: Logits) -> tuple[Recipe, Ints | None]:
        """The recipe and the rows, with a warning that names the absent classes."""
        if self.absent.size:
            warnings.warn(
                f"{len(self.absent)} of {data.n_classes} classes have none of the {self.seen} rows that estimate the "
                f"prior, and each counts as half a row: {some_named(self.absent, data.classes)}. Pass PAS a prior, "
                "such as the class counts of the training rows.",
                CoverageWarning,
                stacklevel=3,
            )
        return self.recipe, self.rows


def learned_from_some(recipe: Recipe, data: Logits) -> Learned:
    """Learn from a seeded fifth of the rows; the others are left."""
    if not recipe.learns:
        return Learned(recipe)
    some, rest = set_aside(len(data), _LEARNING, recipe.random_state)
    if not len(some):
        raise InputError(
            f"{recipe.score.name!r} with grouping={recipe.grouping!r} sets a fifth of the rows aside to learn from, "
            f"which {len(data)} row(s) do not have. Add rows."
        )
    return replace(learned_from(recipe, data.take(np.sort(some))), rows=rest)


def learned_from(recipe: Recipe, data: Logits) -> Learned:
    """Learn from rows that set no threshold.

    >>> learned_from(Recipe("pas"), Logits(np.zeros((3, 2)), [0, 0, 1])).recipe.score
    PAS(prior=(2.5, 1.5))
    """
    labels, score = data.require_labels("fit"), recipe.score
    made = Learned(recipe)
    if score.learns:
        absent = np.flatnonzero(np.bincount(labels, minlength=data.n_classes) == 0)
        score, made = score.learned(labels, data.n_classes), replace(made, absent=absent, seen=len(labels))
    if recipe.needs_limits:
        score = _limited(score, recipe, data, labels)
    return replace(made, recipe=replace(recipe, method=score))


def _limited(score: Score, recipe: Recipe, data: Logits, labels: Ints) -> RankLimited:
    if tops_of(data) is not None:
        raise InputError(
            f"grouping={recipe.grouping!r} needs the ranks of all labels, but these rows hold only their largest "
            "logits. Use whole rows."
        )
    limits = rank_limits(label_ranks(data, labels), labels, data.n_classes, recipe.alpha)
    return RankLimited(score, tuple(limits.tolist()))


def rank_limits(ranks: Ints, labels: Ints, n_classes: int, alpha: Alpha) -> Ints:
    """The last rank of each class, (C,), from the ranks of its labels: the smallest k with m + 1 <= alpha (n + 1).

    Of the n rows of the class m are beyond k; the one row more is a margin, so that the top-k error is at most alpha on
    average. A class with too few rows for that has no limit.

    >>> rank_limits(np.arange(1, 20), np.zeros(19, dtype=int), 2, 0.1).tolist()  # of 19 rows one may be beyond
    [2, 2]
    >>> rank_limits(np.array([1] * 18 + [5]), np.zeros(19, dtype=int), 6, 0.1).tolist()
    [1, 6, 6, 6, 6, 6]
    """
    table = rank_table(len(labels), [alpha])
    pairs = ScorePairs(ranks.astype(np.float64), np.zeros(len(ranks)))
    found = group_thresholds(pairs, labels, np.arange(n_classes), table)
    return np.asarray(np.minimum(found.value[0], n_classes).astype(np.int64))


def some_named(classes: Ints, names: Sequence[str] | None, counts: Ints | None = None) -> str:
    """The first few classes by name or number, with the rows they have, if those are given.

    >>> some_named(np.array([0, 2]), ("cat", "dog", "owl"), np.array([0, 5, 3]))
    "'cat' (0 rows), 'owl' (3 rows)"
    """
    told = [repr(names[c]) if names else str(c) for c in classes[:_NAMED].tolist()]
    if counts is not None:
        some = counts[classes[:_NAMED]].tolist()
        told = [f"{name} ({n} row{'' if n == 1 else 's'})" for name, n in zip(told, some, strict=True)]
    more = f" and {len(classes) - _NAMED} more" if len(classes) > _NAMED else ""
    return ", ".join(told) + more
