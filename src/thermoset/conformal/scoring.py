"""Sets under given thresholds: how rows are scored, and which labels are inside.

All that a fitted estimator needs to predict. Finding the thresholds is the business of `classifier`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import checked_temperature
from thermoset.conformal.recipes import Recipe
from thermoset.core.exponentials import Ints
from thermoset.core.general import score_matrix, sets_of
from thermoset.core.prefixes import prefix_sizes
from thermoset.core.row_context import RowContext
from thermoset.core.row_sets import sets_by_row
from thermoset.core.scores import Score, ScoreLike, resolve
from thermoset.core.thresholds import ScorePairs
from thermoset.core.top_rows import tops_of
from thermoset.core.top_stages import wide_sizes, wide_undecided
from thermoset.core.uniforms import Randomness, checked_ids
from thermoset.data import Logits, as_logits
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = ["Scoring", "scores", "sets_under", "sizes_under", "undecided_under"]


@dataclass(frozen=True)
class Scoring:
    """How rows were scored when the threshold was found, and so must be scored when it is applied."""

    score: Score
    temperature: float
    seed: int | None

    @classmethod
    def of(cls, recipe: Recipe, temperature: Any) -> "Scoring":
        """As a recipe says, at a temperature."""
        return cls(recipe.set_score, checked_temperature(temperature), recipe.seed)

    def randomness(self, u: Any, n_rows: int, ids: Any = None) -> Randomness:
        """Given numbers, or seeded ones by row or by id; the score is deterministic without a seed."""
        if u is not None and ids is not None:
            raise InputError(
                "u and ids cannot both be given: with ids, u comes from the seed and the id. Pass only one."
            )
        keys = None if ids is None else checked_ids(ids, n_rows)
        if u is None:
            return Randomness(self.seed, keys=keys)
        return Randomness(given=_checked_u(u, n_rows))


def sets_under(
    data: Logits,
    scoring: Scoring,
    thresholds: ScorePairs,
    *,
    u: Any = None,
    ids: Any = None,
    codes: Ints | None = None,
) -> NDArray[np.bool_]:
    """Sets (n_levels, n, C) under thresholds (n_levels, 1), one for all classes, or (n_levels, C), one for each.

    With `codes` (n,): under thresholds (n_levels, G), of which each row's code names one.
    """
    randomness = scoring.randomness(u, len(data), ids)
    if codes is not None:
        return sets_by_row(data, scoring.score, scoring.temperature, RowContext(randomness, codes), thresholds)
    return sets_of(data, scoring.score, scoring.temperature, randomness, thresholds)


def sizes_under(
    data: Logits,
    scoring: Scoring,
    thresholds: ScorePairs,
    *,
    u: Any = None,
    ids: Any = None,
    codes: Ints | None = None,
) -> NDArray[np.int64]:
    """Set sizes (n,) under thresholds (1,) or (C,), or (G,) with codes; sets by class are formed, others are not."""
    score, temperature, randomness = scoring.score, scoring.temperature, scoring.randomness(u, len(data), ids)
    if (tops := tops_of(data)) is not None:
        counted: NDArray[np.int64] = wide_sizes(tops, score, temperature, randomness, thresholds[None], codes)[0]
        return counted
    by_class = thresholds.value.shape[0] > 1 and codes is None
    if by_class or not score.prefixes:
        sets = sets_under(data, scoring, thresholds[None], u=u, ids=ids, codes=codes)[0]
        counts: NDArray[np.int64] = sets.sum(axis=1)
        return counts
    sizes: NDArray[np.int64] = prefix_sizes(data, score, temperature, randomness, thresholds[None], codes)[0]
    return sizes


def undecided_under(
    data: Logits,
    scoring: Scoring,
    thresholds: ScorePairs,
    *,
    u: Any = None,
    ids: Any = None,
    codes: Ints | None = None,
) -> NDArray[np.bool_]:
    """Rows (n,) whose set holds labels only because rows that are not whole do not tell; none of whole rows."""
    tops = tops_of(data)
    if tops is None:
        return np.zeros(len(data), dtype=np.bool_)
    randomness = scoring.randomness(u, len(data), ids)
    open_rows: NDArray[np.bool_] = wide_undecided(
        tops, scoring.score, scoring.temperature, randomness, thresholds[None], codes
    )[0]
    return open_rows


def scores(method: ScoreLike, logits: Any, *, temperature: float = 1.0, u: Any = 1.0) -> NDArray[np.float64]:
    """Score of every label of every row, (n, C), as the paper's number; `u` is one number or one for each row.

    >>> import numpy as np
    >>> p = np.array([[0.5, 0.3, 0.2]])  # second label, u = 0.4: 0.5 + 0.4 * 0.3 = 0.62
    >>> scores("aps", np.log(p), u=0.4).round(12)
    array([[0.2 , 0.62, 0.88]])
    """
    data = as_logits(logits)
    given = _checked_u(np.full(len(data), u) if np.ndim(u) == 0 else u, len(data))
    return score_matrix(data, resolve(method), checked_temperature(temperature), Randomness(given=given)).value


def _checked_u(u: Any, n_rows: int) -> NDArray[np.float64]:
    try:
        given = np.array(u, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"u must be numbers in [0, 1], one per row; got {quoted(u)}.") from None
    if given.shape != (n_rows,):
        raise InputError(f"u must have shape ({n_rows},), one number per row; got {given.shape}.")
    if not np.all((given >= 0) & (given <= 1)):
        raise InputError(f"u must lie in [0, 1]; got {given.min()} to {given.max()}. Try rng.random({n_rows}).")
    return given
