"""Set sizes: as the paper counts them, in the limits of the temperature, and where their mean peaks.

The paper's size is L = min{l : the score of rank l >= q}. A limit is a pair (value, tie-break), as every score is:
scores that agree in the limit differ by how they get there. The page "Theory" derives them.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Floats, Ints, Pairs, pairs
from thermoset.bounds import checked_seed, checked_temperature, real_number
from thermoset.conformal.scoring import label_ranks, predict_sizes
from thermoset.data import Logits
from thermoset.errors import CoverageWarning, InputError
from thermoset.kernels import SATURATED
from thermoset.levels import Alpha, conformal_rank
from thermoset.paper.theory.gaps import checked_u, each_row, finite_logits
from thermoset.scores import APS, RAPS, Score, resolve
from thermoset.sweeping import Sweep, sweep
from thermoset.uniforms import Randomness, draw_uniforms

Limit = Literal["cold", "hot"]


@dataclass(frozen=True)
class Threshold:
    """A threshold q of APS: the largest pair that is below it, and the logarithm of 1 - q."""

    value: float
    below: Pairs
    log_left: float


def as_threshold(q: Any, name: str = "q") -> Threshold:
    """Read a threshold: a number in (0, 1], or the pair a fitted classifier keeps in `thresholds_`."""
    if isinstance(q, np.ndarray) and q.shape == (1, 1) and np.iscomplexobj(q):
        value, tie = float(q[0, 0].real), float(q[0, 0].imag)
        if value == np.inf:
            raise InputError(f"{name} is infinite: too few rows for alpha. Add rows or raise alpha.")
    else:
        value = real_number(q, name, 5e-324, 1, "a threshold of APS, in (0, 1]", "Pass thresholds_ of a classifier.")
        with np.errstate(divide="ignore"):
            tie = -float(np.log1p(-value))
        if value < SATURATED:  # a number says nothing of tie-breaks: every score with this value reaches it
            return Threshold(value, pairs(value, -np.inf).reshape(1, 1, 1), -tie)
    below = pairs(1.0 if value >= SATURATED else value, np.nextafter(tie, -np.inf))
    return Threshold(value, below.reshape(1, 1, 1), -tie)


def paper_sizes(logits: Any, temperature: float, q: float | Pairs, *, u: ArrayLike = 1.0) -> Ints:
    """Size L of each row's APS set in the paper's sense: the first rank whose score reaches the threshold q.

    Without ties it is one more than the number of labels in the set {score <= q}. With u < 1 the last score is below
    1, and L is C + 1 where even that is below q. `q` is a number or `thresholds_` of a fitted classifier, which is
    exact where the number has been rounded.

    >>> import numpy as np
    >>> z = np.log([[0.5, 0.25, 0.125, 0.125]])  # scores 0.5, 0.75, 0.875, 1
    >>> [int(paper_sizes(z, 1.0, q)[0]) for q in (0.25, 0.5, 0.51, 0.8, 1.0)]
    [1, 1, 2, 3, 4]
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    threshold, uniforms = as_threshold(q), checked_u(u, len(data))
    sizes: Ints = 1 + predict_sizes(data, APS(), t, Randomness(given=uniforms), threshold.below, None)[0]
    return sizes


def row_u(logits: Any, random_state: int = 0) -> Floats:
    """Each row's u as `ConformalClassifier` draws it: a hash of the seed and the row's content.

    >>> u = row_u([[3.0, 1.0], [1.0, 3.0], [2.0, 0.5]])
    >>> bool(u[0] == u[1]), bool(u[0] == u[2])
    (True, False)
    """
    return draw_uniforms(finite_logits(logits), checked_seed(random_state))


def limit_scores(logits: Any, limit: Limit, *, method: str | Score = "aps", u: ArrayLike = 1.0) -> Pairs:
    """Score of every rank as T -> 0 ("cold") or T -> infinity ("hot"): pairs (n, C), best class first.

    >>> cold = limit_scores([[5.0, 3.0, 0.0]], "cold", u=0.25)
    >>> cold.real, cold.imag  # the top class by u, the others by their distance to it
    (array([[0.25, 1.  , 1.  ]]), array([[0., 2., 5.]]))
    >>> limit_scores([[5.0, 3.0, 0.0, 0.0]], "hot", u=0.5).real  # (L - 1 + u) / C
    array([[0.125, 0.375, 0.625, 0.875]])
    """
    data, score = finite_logits(logits), resolve(method)
    uniforms = checked_u(u, len(data))
    if limit not in ("cold", "hot"):
        raise InputError(f"limit must be 'cold' (T -> 0) or 'hot' (T -> infinity); got {limit!r}.")
    if not isinstance(score, APS | RAPS):
        raise InputError(f"limits are available only for APS and RAPS; got {score!r}.")
    one = _cold_limit if limit == "cold" else _hot_limit
    values = each_row(data, lambda ranked, rows: one(ranked, uniforms[rows, None]), (2, data.n_classes))
    at = penalties(score, data.n_classes)
    return pairs(values[:, 0] + at[0] + uniforms[:, None] * (at[1] - at[0]), values[:, 1])


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


def _cold_limit(ranked: Floats, u: Floats) -> Floats:
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


def _hot_limit(ranked: Floats, u: Floats) -> Floats:
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


@dataclass(frozen=True)
class Peak:
    """Where a curve of mean set sizes is largest. At an edge of the grid there may be none, or one beyond it."""

    temperature: float
    size: float
    at_edge: bool


def measured_peak(curves: Sweep, method: str = "aps", alpha: float | None = None) -> Peak:
    """Temperature of a sweep's grid at which the mean set size is largest.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 20, size=2000)
    >>> logits = 3 * (rng.normal(size=(2000, 20)) + 3 * np.eye(20)[labels])
    >>> peak = measured_peak(sweep(logits, labels, [0.5, 1, 2.5, 5, 8], ["aps"], trials=20))
    >>> peak.temperature, peak.at_edge
    (2.5, False)
    """
    size = curves.curve("avg_size", method, alpha)
    place = int(size.argmax())
    return Peak(float(curves.temperatures[place]), float(size[place]), place in (0, len(size) - 1))


def size_sweep(data: Logits, **options: Any) -> Sweep:
    """A sweep for its sizes: which classes have evaluation rows is of no concern to them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)
        return sweep(data, **options)
