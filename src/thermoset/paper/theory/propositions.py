"""The statements of the paper's section 4 and appendix A as checks on rows of logits, and three routes to set sizes.

Each says for every row whether the premise holds and whether the conclusion does. What had to be changed for it to be
true (finite logits, M < C, no equal logits, <= for <) is on the page "Theory". Numbers are compared as logarithms.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats, Ints, Pairs
from thermoset.bounds import checked_seed, checked_temperature
from thermoset.conformal import ConformalClassifier
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.levels import Alpha
from thermoset.paper.theory.bound import bound, checked_temperatures, sharp_bound
from thermoset.paper.theory.gaps import (
    checked_places,
    checked_rank,
    checked_u,
    difference,
    distances,
    each_row,
    finite_logits,
    gap,
    last_index,
    log_entropy_slopes,
    log_gaps,
    log_softmax,
    log_sum,
    margins,
    not_one,
    slope_logs,
)
from thermoset.paper.theory.sizes import as_threshold, paper_sizes, row_u
from thermoset.quoting import Brief
from thermoset.scores import Score

_NEARLY_SATURATED = np.log(2.0**-33)  # of the mass left: values saturate at twice this


@dataclass(frozen=True, eq=False)
class Check:
    """A statement checked on each row: whether its premise holds, and whether its conclusion does."""

    premise: Bools
    conclusion: Bools

    @property
    def explained(self) -> Ints:
        """Rows that satisfy premise and conclusion."""
        return np.flatnonzero(self.premise & self.conclusion)

    @property
    def violations(self) -> Ints:
        """Rows that satisfy the premise but not the conclusion: none, if the statement is true."""
        return np.flatnonzero(self.premise & ~self.conclusion)

    @property
    def silent(self) -> Ints:
        """Rows about which the statement says nothing: the premise fails."""
        return np.flatnonzero(~self.premise)

    def __repr__(self) -> str:
        return (
            f"Check(premise holds for {np.count_nonzero(self.premise)} of {len(self.premise)}, "
            f"conclusion fails for {len(self.violations)} of those)"
        )


def theorem_4_1(logits: Any, cool: float, hot: float, m: ArrayLike) -> Check:
    """Theorem 4.1: the mass of the top M classes is larger at the cooler temperature.

    Strictly, if M < C (and M > 0) and the logits are not all equal, which is the premise.

    >>> theorem_4_1([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0]], 0.5, 2.0, 2)
    Check(premise holds for 1 of 2, conclusion fails for 0 of those)
    """
    data = finite_logits(logits)
    low, high = _check_order(cool, hot)
    places = checked_places(m, len(data), data.n_classes)
    premise = _unequal(data) & (places > 0) & (places < data.n_classes)
    return Check(premise, log_gaps(data, low, high, places) > -np.inf)


def auxiliary_lemma(logits: Any, cool: float, hot: float) -> Check:
    """Auxiliary lemma: e**(z_1 / cool) e**(z_j / hot) > e**(z_1 / hot) e**(z_j / cool) wherever z_1 > z_j.

    In each row for every class j against the largest logit, as logarithms: what of equal logits is left is equality.

    >>> auxiliary_lemma([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0]], 0.5, 2.0)
    Check(premise holds for 1 of 2, conclusion fails for 0 of those)
    """
    data = finite_logits(logits)
    low, high = _check_order(cool, hot)

    def work(ranked: Floats, _: slice) -> Bools:
        top = ranked[:, :1]
        stronger = distances(ranked, top, 1 / low) > distances(ranked, top, 1 / high)
        return np.asarray((stronger == (ranked < top)).all(axis=1))

    return Check(_unequal(data), each_row(data, work, dtype=np.bool_))


def _check_order(cool: float, hot: float) -> tuple[float, float]:
    low, high = checked_temperature(cool), checked_temperature(hot)
    if low >= high:
        raise InputError(f"cool must be below hot; got {cool!r} and {hot!r}. Swap them.")
    return low, high


def corollary_4_2(
    logits: Any,
    labels: Any,
    temperatures: ArrayLike,
    *,
    method: str | Score = "aps",
    alpha: Alpha = 0.1,
    randomized: bool = False,
) -> Check:
    """Corollary 4.2: thresholds of APS and RAPS do not rise with T. One entry for each step of the temperatures.

    It holds for randomised scores too, if u is kept: the score is a mean of two partial sums, weighted by u.

    >>> import numpy as np
    >>> z = np.random.default_rng(0).normal(size=(50, 5))
    >>> corollary_4_2(z, np.arange(50) % 5, [0.5, 1, 2, 4], method="raps")
    Check(premise holds for 3 of 3, conclusion fails for 0 of those)
    """
    data = finite_logits(logits, labels)
    grid = np.atleast_1d(np.asarray(temperatures, dtype=np.float64)).tolist()
    if sorted(set(grid)) != grid:
        raise InputError(f"temperatures must increase; got {temperatures!r}.")
    q = [ConformalClassifier(method, alpha, t, randomized=randomized).fit(data).thresholds_[0, 0] for t in grid]
    falls = np.array([after <= before for before, after in pairwise(q)], dtype=np.bool_)
    return Check(np.ones_like(falls), falls)


def proposition_4_3(
    logits: Any, temperature: float, q: float | Pairs, q_t: float | Pairs, *, u: ArrayLike = 1.0
) -> Check:
    """Proposition 4.3: where a row's own gap reaches that of the thresholds, its APS set does not shrink.

    For T > 1: g(z; T, L - 1) >= q - q_T implies L_T >= L. For T < 1: g(z; T, L_T - 1) <= q - q_T implies L_T <= L.
    `q` and `q_t` are the thresholds at 1 and at T, numbers or `thresholds_` of fitted classifiers. With u < 1 scores
    are those of the randomised APS, of which the same is true. The premise must hold by more than scores are rounded.

    >>> import numpy as np
    >>> z = np.log([[0.64, 0.18, 0.18], [0.5, 0.3, 0.2]])
    >>> proposition_4_3(z, 2.0, 0.9, 0.83)  # g(2) is 0.077 in the first row, 0.063 in the second
    Check(premise holds for 1 of 2, conclusion fails for 0 of those)
    """
    data, t = finite_logits(logits), not_one(temperature)
    uniforms = checked_u(u, len(data))
    before, after = paper_sizes(data, 1.0, q, u=uniforms), paper_sizes(data, t, q_t, u=uniforms)
    wanted = _log_threshold_gap(t, q, q_t, data.n_classes)
    first, second = (before, after) if t > 1 else (after, before)
    needed = np.logaddexp(wanted, _log_roundings(data, t, first - 1, uniforms))
    reached = _log_score_gaps(data, t, first - 1, uniforms) >= needed
    return Check((first > 1) & reached, second >= first)


def theorem_4_4(logits: Any, temperature: float, m: ArrayLike = 1) -> Check:
    """Theorem 4.4: with a margin above b(T), g falls (T < 1: rises) as the largest logit grows, for every M < C.

    The sign at M = 1 decides: it is the last to turn. So the default checks all M at once.

    >>> theorem_4_4([[9.0, 0.0, 0.0], [1.0, 0.0, 0.0]], 1.5)
    Check(premise holds for 1 of 2, conclusion fails for 0 of those)
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    return Check(margins(data) > bound(t, data.n_classes), _derivative_has_sign(data, t, m))


def _derivative_has_sign(data: Logits, temperature: float, m: ArrayLike) -> Bools:
    """Whether g falls (T < 1: rises) as the largest logit grows, in each row: what theorem 4.4 concludes."""
    places = checked_places(m, len(data), data.n_classes)
    if places.min() < 1 or places.max() >= data.n_classes:
        raise InputError(f"m must be from 1 to {data.n_classes - 1}: the gap of all classes is always 0; got {m!r}.")
    first, second = slope_logs(data, temperature, places)
    return np.asarray(first < second if temperature > 1 else first > second)


def entropy_proposition(logits: Any, temperature: float) -> Check:
    """Entropy grows strictly with T unless all logits are equal: its slope, Var(z) / T^3, is positive.

    >>> entropy_proposition([[2.0, 1.0], [1.0, 1.0]], 0.7)
    Check(premise holds for 1 of 2, conclusion fails for 0 of those)
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    return Check(_unequal(data), log_entropy_slopes(data, t) > -np.inf)


def lemma_1(logits: Any, temperature: float) -> Check:
    """First lemma: the sign of d changes once, after rank s_T. There is no s_T for equal logits.

    For T > 1, d > 0 up to s_T, d <= 0 right after it, and d stays negative once it is; for T < 1 the other way round.

    >>> lemma_1([[5.0, 1.0, 0.0], [2.0, 2.0, 2.0]], 1.5)
    Check(premise holds for 1 of 2, conclusion fails for 0 of those)
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    d = difference(data, t) * (1 if t > 1 else -1)
    last = last_index(data, t)
    head = np.arange(data.n_classes) < last[:, None]
    signs = np.where(head, d >= 0, d <= 0)  # >= for masses that underflow
    turned = np.all((d[:, 1:] <= 0) | (d[:, :-1] >= 0), axis=1)
    return Check(last > 0, signs.all(axis=1) & turned)


def lemma_2(logits: Any, temperature: float, m: ArrayLike, other: ArrayLike) -> Check:
    """Second lemma: |g(z; T, M) - g(z; T, L)| <= |g(z; T, s_T)| for M, L from 1 to C. With equality at L = s_T, M = C.

    >>> lemma_2([[5.0, 1.0, 0.0]], 1.5, 1, 3)
    Check(premise holds for 1 of 1, conclusion fails for 0 of those)
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    last = last_index(data, t)
    apart = np.abs(gap(data, t, m) - gap(data, t, other))
    return Check(last > 0, apart <= np.abs(gap(data, t, last)))


def gap_proposition(logits: Any, temperature: float, m: ArrayLike, other: ArrayLike) -> Check:
    """Appendix: if s_T = 1, |g(z; T, M) - g(z; T, L)| < w / (w + 1), w = (C - 1) exp(-dz / max(T, 1)).

    >>> gap_proposition([[5.0, 1.0, 0.0], [3.0, 2.8, 0.0]], 1.5, 1, 2)
    Check(premise holds for 1 of 2, conclusion fails for 0 of those)
    """
    data, t = finite_logits(logits), checked_temperature(temperature)
    # The bound exceeds |g(1)| by a number that may be far below its last digit; so add up by how much.
    inside = np.abs(gap(data, t, 1)) - np.abs(gap(data, t, m) - gap(data, t, other))
    with np.errstate(divide="ignore"):
        enough = (inside > 0) | (np.log(np.abs(inside)) < _log_slack(data, min(t, 1.0), max(t, 1.0)))
    return Check(last_index(data, t) == 1, enough)


def _unequal(data: Logits) -> Bools:
    return each_row(data, lambda ranked, _: ranked[:, 0] > ranked[:, -1], dtype=np.bool_)


def _log_slack(data: Logits, cool: float, hot: float) -> Floats:
    """Logarithm of w / (w + 1) - |g(1)|, which is the mass behind the top class when cool, and what a flat tail adds.

    With v the weight of the classes behind the top one when hot, |g(1)| is v / (v + 1) less the mass when cool. w is at
    least v: it has z_2 in place of every z_j.
    """

    def work(ranked: Floats, _: slice) -> Floats:
        log_v = -distances(ranked[:, 1:], ranked[:, :1], 1 / hot)
        log_w = np.log(ranked.shape[1] - 1) + log_v[:, 0]
        added = log_sum(_log_subtract(log_v[:, :1], log_v))
        added -= np.logaddexp(log_w, 0.0) + np.logaddexp(log_sum(log_v), 0.0)
        return np.asarray(np.logaddexp(added, log_sum(log_softmax(ranked, cool)[:, 1:])))

    return each_row(data, work)


def _log_subtract(larger: Floats, smaller: Floats) -> Floats:
    """Logarithm of exp(larger) - exp(smaller); -inf where they are equal."""
    same = larger == smaller
    with np.errstate(divide="ignore"):
        rest = np.log(-np.expm1(np.where(same, 0.0, smaller - np.where(same, 0.0, larger))))
    return np.where(same, -np.inf, larger + rest)


def _log_threshold_gap(t: float, q: float | Pairs, q_t: float | Pairs, n_classes: int) -> Floats:
    """Logarithm of |q - q_T|, from what is left to 1: thresholds close to 1 differ there.

    Equal thresholds may come in the wrong order by what values are rounded by.
    """
    one, other = as_threshold(q, "q"), as_threshold(q_t, "q_t")
    cool, hot = (one, other) if t > 1 else (other, one)
    reversed_by = np.exp(cool.log_left) - np.exp(hot.log_left)
    if reversed_by > _rounding(n_classes) or (hot.value == cool.value == 1.0 and hot.log_left < cool.log_left):
        raise InputError(
            f"thresholds fall as T grows (corollary 4.2); got q = {one.value} and q_t = {other.value} for T = {t}. "
            "Compute both from the same rows."
        )
    return _log_subtract(np.asarray(max(hot.log_left, cool.log_left)), np.asarray(cool.log_left))


def _rounding(n_classes: int) -> float:
    """What rounding may move a value by, with a safety factor: below saturation, values are sums of C shares."""
    return (n_classes + 64) * 2.0**-48


def _log_roundings(data: Logits, t: float, places: Ints, u: Floats) -> Floats:
    """Logarithm of what rounding may move the score at a rank by.

    That of a sum; where that is 1, and what is left decides, (C + W + 45) 2^-48 of the mass it leaves.
    """
    cool, hot = min(t, 1.0), max(t, 1.0)

    def work(ranked: Floats, rows: slice) -> Floats:
        rank = np.arange(1, ranked.shape[1] + 1)
        m = places[rows, None]
        with np.errstate(divide="ignore"):
            part = np.where(rank > m, 0.0, np.where(rank == m, np.log1p(-u[rows, None]), -np.inf))
        widest = distances(ranked[:, -1], ranked[:, 0], 1 / cool)
        log_left = log_sum(log_softmax(ranked, hot) + part)
        relative = np.log((ranked.shape[1] + widest + 45) * 2.0**-48) + log_left
        return np.asarray(np.where(log_left > _NEARLY_SATURATED, np.log(_rounding(ranked.shape[1])), relative))

    return each_row(data, work)


def _log_score_gaps(data: Logits, t: float, places: Ints, u: Floats) -> Floats:
    """Logarithm of what temperature moves the score at a rank: (1 - u) |g(rank - 1)| + u |g(rank)|."""
    cool, hot = min(t, 1.0), max(t, 1.0)
    own = log_gaps(data, cool, hot, places)
    if np.all(u == 1):  # the other term weighs nothing
        return own
    above = log_gaps(data, cool, hot, np.maximum(places - 1, 0))
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log1p(-u) + above, np.log(u) + own))


def sharp_theorem(logits: Any, temperature: float, m: ArrayLike = 1) -> Check:
    """Theorem 4.4 with b*(T) in place of b(T): the weakest premise on the margin alone that implies the sign.

    The sign at M = 1 is the last to turn, so the default checks all M at once. At T = 1 there is no sign.

    >>> z = [[9.0, 0.0, 0.0], [3.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    >>> sharp_theorem(z, 1.5)  # b*(1.5) is 2.4, b(1.5) 5.4
    Check(premise holds for 2 of 3, conclusion fails for 0 of those)
    """
    data, t = finite_logits(logits), not_one(temperature)
    return Check(margins(data) > sharp_bound(t, data.n_classes), _derivative_has_sign(data, t, m))


def sign_share(logits: Any, temperatures: ArrayLike) -> Floats:
    """Share of rows whose derivative has the sign of theorem 4.4 for every M < C, whatever their margin.

    At least `sharp_share`: there the sign is certain from the margin alone. Not at T = 1, where it is 0 of itself.

    >>> sign_share([[9.0, 0.0, 0.0], [2.0, 0.0, -9.0], [1.0, 0.0, 0.0]], [1.5, 20.0]).round(2)
    array([0.67, 0.33])
    """
    data = finite_logits(logits)
    grid = checked_temperatures(temperatures)
    shares = [_derivative_has_sign(data, not_one(t), 1).mean() for t in np.ravel(grid).tolist()]
    return np.array(shares).reshape(grid.shape)


@dataclass(frozen=True, eq=False, repr=False)
class Routes(Brief):
    """What each route says about rows when APS sets go from T = 1 to T.

    The claim is L_T >= L for T > 1, and L_T <= L for T < 1. The bound needs a row's margin alone, and two assumptions:
    that one row sets both thresholds, and that rows differ by their largest logit. The proposition assumes nothing.
    """

    temperature: float
    randomized: bool  # whether u is drawn, else u = 1
    thresholds: Floats  # at 1 and at T
    margin: Floats  # the rows' dz
    bound: float  # b(T), which the margin must exceed by the paper
    before: Ints  # L at 1, in the paper's sense
    after: Ints  # and at T
    sizes_before: Ints  # of the library's sets {score <= threshold}
    sizes_after: Ints
    proposition: Check  # 4.3, with these thresholds
    by_bound: Bools  # rows whose margin is above b(T)
    by_proposition: Bools  # rows that satisfy the premise of proposition 4.3
    claimed: Bools  # rows for which the claim is true
    trivial: Bools  # rows for which it could not fail: L = 1 (for T < 1, L_T = 1)
    only_label: Bools  # rows against it whose set is of one label at one temperature and empty at the other


def routes(
    conformal: Logits,
    fresh: Any,
    temperature: float,
    *,
    alpha: Alpha = 0.1,
    randomized: bool = False,
    random_state: int = 0,
) -> Routes:
    """Apply the three routes to fresh rows; labelled `conformal` rows give the two thresholds.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 10, size=400)
    >>> data = Logits(4 * (rng.normal(size=(400, 10)) + 2 * np.eye(10)[labels]), labels)
    >>> rows, fresh = data.split(0.5)
    >>> result = routes(rows, fresh, 1.5)
    >>> len(result.proposition.violations)
    0
    >>> bool(result.claimed[result.by_proposition | result.trivial].all())
    True
    """
    t, seed = not_one(temperature), checked_seed(random_state)
    rows, new = finite_logits(conformal), finite_logits(fresh)
    checked_rank(len(rows), alpha)
    u = row_u(new, seed) if randomized else np.ones(len(new))
    models = [
        ConformalClassifier("aps", alpha, at, randomized=randomized, random_state=seed).fit(rows) for at in (1.0, t)
    ]
    q = [model.thresholds_ for model in models]
    before, after = (paper_sizes(new, at, threshold, u=u) for at, threshold in zip((1.0, t), q, strict=True))
    no_larger, moved = (before, after - before) if t > 1 else (after, before - after)
    margin, paper = margins(new), bound(t, new.n_classes)
    proposition = proposition_4_3(new, t, *q, u=u)
    return Routes(
        temperature=t,
        randomized=randomized,
        thresholds=np.array([float(one[0, 0].real) for one in q]),
        margin=margin,
        bound=paper,
        before=before,
        after=after,
        sizes_before=models[0].set_sizes(new),
        sizes_after=models[1].set_sizes(new),
        proposition=proposition,
        by_bound=margin > paper,
        by_proposition=proposition.premise,
        claimed=moved >= 0,
        trivial=np.equal(no_larger, 1),
        only_label=(moved < 0) & np.equal(no_larger, 2),
    )
