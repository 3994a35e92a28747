"""p-values under the scores of conformal rows."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.scoring import Scoring
from thermoset.core.p_summaries import PSummary, p_summary
from thermoset.core.p_values import Pools, p_values
from thermoset.core.uniforms import Randomness, checked_ids
from thermoset.data import Logits

__all__ = ["PSummary", "p_summary", "p_under", "strictest_p"]


def p_under(
    data: Logits, scoring: Scoring, pools: Pools, smoothing_seed: int | None, *, u: Any = None, ids: Any = None
) -> NDArray[np.float64]:
    """p-values (n, C) under conformal scores; smoothed, with a v from a seed and each row or id, if there is a seed."""
    randomness, smoothing = scoring.randomness(u, len(data), ids), None
    if smoothing_seed is not None:
        keys = None if ids is None else checked_ids(ids, len(data))
        smoothing = Randomness(smoothing_seed, keys=keys, second=True)
    return p_values(data, scoring.score, scoring.temperature, randomness, pools, smoothing)


def strictest_p(
    data: Logits, scoring: Scoring, pools: Pools, smoothing_seed: int | None, *, u: Any = None, ids: Any = None
) -> NDArray[np.float64]:
    """The same by group of rows, where rows of other groups have the largest threshold of any group.

    Their sets hold what the sets of any group would, at every level, so their p-values are the largest of all groups.
    """
    n_groups, codes = len(pools.scores.edges) - 1, np.asarray(pools.pool_of_row)
    others = np.flatnonzero(codes == n_groups)
    known = replace(pools, pool_of_row=np.where(codes == n_groups, 0, codes))
    found = p_under(data, scoring, known, smoothing_seed, u=u, ids=ids)
    if others.size:
        rows = data.take(others)
        own: dict[str, Any] = {
            "u": None if u is None else np.asarray(u)[others],
            "ids": None if ids is None else np.array(ids, dtype=object)[others],
        }
        for group in range(1, n_groups):
            of_group = replace(pools, pool_of_row=np.full(len(others), group))
            found[others] = np.maximum(found[others], p_under(rows, scoring, of_group, smoothing_seed, **own))
    return found
