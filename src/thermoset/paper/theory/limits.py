"""Sets of APS and RAPS at the ends of the temperature axis, T -> 0 and T -> infinity, without any softmax.

A limit is again a pair (value, tie-break): scores that agree in the limit differ by how they get there. The page
"Theory" derives both. Cold: value is the limit of the score; where that is 1 (plus the penalty), the mass that is left
is e**(-tie / T) to leading order. Hot: the score is value + tie / T, and smaller terms.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Pairs, pairs
from thermoset.bounds import checked_seed
from thermoset.conformal.scoring import label_ranks
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.levels import Alpha, conformal_rank
from thermoset.paper.theory.sizes import checked_u, row_u
from thermoset.paper.theory.sorted_rows import Floats, Ints, each_row, finite_logits
from thermoset.scores import APS, RAPS, Score, resolve

__all__ = ["Limit", "limit_scores", "limit_sizes", "penalties"]

Limit = Literal["cold", "hot"]


def limit_scores(logits: Any, limit: Limit, *, method: str | Score = "aps", u: ArrayLike = 1.0) -> Pairs:
    """Score of every rank as T -> 0 ("cold") or T -> infinity ("hot"): pairs (n, C), best class first.

    >>> cold = limit_scores([[5.0, 3.0, 0.0]], "cold", u=0.25)
    >>> cold.real, cold.imag  # the top class by u, the others by their distance to it
    (array([[0.25, 1.  , 1.  ]]), array([[0., 2., 5.]]))
    >>> limit_scores([[5.0, 3.0, 0.0, 0.0]], "hot", u=0.5).real  # (L - 1 + u) / C
    array([[0.125, 0.375, 0.625, 0.875]])
    """
    data, score = finite_logits(logits), resolve(method)
    given = checked_u(u, len(data))
    if limit not in ("cold", "hot"):
        raise InputError(f"limit must be 'cold' (T -> 0) or 'hot' (T -> infinity); got {limit!r}.")
    if not isinstance(score, APS | RAPS):
        raise InputError(f"limits are available only for APS and RAPS; got {score!r}.")
    one = _cold if limit == "cold" else _hot
    found = np.empty((len(data), 2, data.n_classes))
    each_row(data, found, lambda ranked, rows: one(ranked, given[rows, None]))
    at = penalties(score, data.n_classes)
    return pairs(found[:, 0] + at[0] + given[:, None] * (at[1] - at[0]), found[:, 1])


def limit_sizes(
    conformal: Logits,
    fresh: Any,
    limit: Limit,
    *,
    method: str | Score = "aps",
    alpha: Alpha = 0.1,
    randomized: bool = True,
    random_state: int = 0,
) -> Ints:
    """Set sizes of `ConformalClassifier` in a limit of the temperature: labelled `conformal` rows give the threshold.

    Fresh rows that meet the threshold exactly in both numbers of the pair count as inside.

    >>> rows = Logits([[5.0, 3.0, 0.0]] * 9, labels=[1] * 9)  # every label 2 below the top
    >>> limit_sizes(rows, [[9.0, 7.5, 6.5], [9.0, 1.0, 0.0]], "cold")
    array([2, 1])
    """
    rows = finite_logits(conformal)
    labels = rows.require_labels("limit_sizes")
    new, seed = finite_logits(fresh), checked_seed(random_state)
    u, u_new = ((row_u(part, seed) if randomized else np.ones(len(part))) for part in (rows, new))
    own = limit_scores(rows, limit, method=method, u=u)[np.arange(len(rows)), label_ranks(rows, labels) - 1]
    k = conformal_rank(len(rows), alpha)
    q = np.sort(own)[k - 1] if k <= len(own) else np.inf
    sizes: Ints = (limit_scores(new, limit, method=method, u=u_new) <= q).sum(axis=1)
    return sizes


def _cold(ranked: Floats, u: Floats) -> Floats:
    """T -> 0: the classes at the top share the mass; what a lower rank leaves vanishes like its largest term."""
    n_classes, top = ranked.shape[1], ranked[:, :1]
    rank = np.arange(1, n_classes + 1)
    tied = np.count_nonzero(ranked == top, axis=1)[:, None]
    share = (rank - 1 + u) / tied
    shares_top = share < 1
    # The largest class not wholly counted: the label's own, or the next one if u = 1; none after the last.
    beyond = np.pad(ranked[:, 1:], ((0, 0), (0, 1)), constant_values=-np.inf)
    fall = top - np.where(u < 1, ranked, beyond)
    return np.stack([np.where(shares_top, share, 1.0), np.where(shares_top, 0.0, fall)], axis=1)


def _hot(ranked: Floats, u: Floats) -> Floats:
    """T -> infinity: every class has 1/C, and (z - mean z) / (C T) more."""
    n_classes = ranked.shape[1]
    tilt = (ranked - ranked.mean(axis=1, keepdims=True)) / n_classes
    above = np.cumsum(tilt, axis=1) - tilt
    share = (np.arange(n_classes) + u) / n_classes
    return np.stack([share, above + u * tilt], axis=1)


def penalties(score: Score, n_classes: int) -> Floats:
    """What RAPS adds at each rank whatever the temperature, at u = 0 and at u = 1, (2, C); affine in u between."""
    _, unit, k_reg, drawn, _ = score.terms
    excess = np.maximum(np.arange(1.0, n_classes + 1) - k_reg, 0.0)
    return unit * np.stack([excess - drawn * (excess > 0), excess])
