"""The oracle: each of docs/definitions.md once more, in the plainest way and in exact or very long arithmetic.

Nothing here knows how the library computes. A row is a list of logits; weights are exp(z / T) up to a common factor,
as mpmath numbers with enough digits for the smallest of them, or as fractions when a test starts from probabilities.
Loops are plain, one row at a time.

A score is kept as two summands, ``offset + mass``. The mass is a probability (its distance to 0 and to 1 is what
log-odds measure), the offset is what penalties add. Masses that are running sums (APS, RAPS) count as 1 from
1 - 2^-32 on. Two scores are compared by their sum, and where sums are equal by a second mass:
the running sum itself, or what a formula names: without u, ranks would tie by the hundred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from mpmath import mp

PENALTY, K_REG, WEIGHT = 0.01, 5, 0.2
INFINITY = math.inf
SATURATED = 1.0 - 2.0**-32  # a number that float64 holds exactly


@dataclass(frozen=True)
class Score:
    """``offset + mass``; a masked class has an infinite offset. `tie` is a mass that decides between equal sums.

    `running`: the mass is a running sum, which saturates.
    """

    mass: object
    offset: object = 0
    tie: object = 0
    running: bool = False

    @property
    def saturated(self):
        return self.running and self.mass >= SATURATED

    @property
    def value(self):
        if self.offset == INFINITY:
            return INFINITY
        return self.offset + (1 if self.saturated else self.mass)

    @property
    def order(self):
        return self.value, self.mass if self.running else self.tie


def digits(rows, temperature):
    """Decimal digits for 1 - s as small as exp(-range / T), times a u of 2^-64, with 60 digits to spare."""
    widest = 0.0
    for row in rows:
        finite = [float(z) for z in row if z != -INFINITY]
        widest = max(widest, max(finite) - min(finite))
    return 80 + math.ceil(widest / float(temperature) / math.log(10))


@lru_cache(maxsize=4096)
def _weights(row, temperature, dps):
    with mp.workdps(dps):
        top = mp.mpf(max(row))
        return [mp.mpf(0) if z == -INFINITY else mp.exp((mp.mpf(z) - top) / mp.mpf(temperature)) for z in row]


def weights(row, temperature):
    """exp((z - max z) / T) of one row, to the working precision."""
    return _weights(tuple(float(z) for z in row), float(temperature), mp.dps)


def ranking(row):
    """Labels from the most to the least likely; ties by label index."""
    return sorted(range(len(row)), key=lambda label: (-row[label], label))


def _lac(rank, own, above, others, total, u, **_):
    return Score(others / total)


def _aps(rank, own, above, others, total, u, **_):
    return Score((above + u * own) / total, running=True)


def _raps(rank, own, above, others, total, u, *, penalty, k_reg, **_):
    return Score((above + u * own) / total, penalty * max(rank - k_reg, 0), running=True)


def _saps(rank, own, above, others, total, u, *, top, saps_weight, **_):
    return Score(u * top / total) if rank == 1 else Score(top / total, (rank - 2 + u) * saps_weight)


def _topk(rank, own, above, others, total, u, *, top, **_):
    """Of rows with the same u, the surer one's label counts as worse."""
    return Score(u, rank, top / total)


def _margin(rank, own, above, others, total, u, *, top, second, **_):
    """p_(2) - p_(1) is -1 + (1 - p_(1) + p_(2)), whose bracket is a mass; for the others p_(1) - p_y is one."""
    return Score((others + second) / total, -1) if rank == 1 else Score((top - own) / total)


def _pas(rank, own, above, others, total, u, **_):
    """-log p: without a prior, the log of p over it. What resolves it near 0 is the log-odds of the others' mass."""
    odds = total / own
    log = mp.log(odds) if not isinstance(odds, Fraction) else mp.log(mp.mpf(odds.numerator) / odds.denominator)
    return Score(others / total, log - others / total)


_FORMULAS = {
    "lac": _lac,
    "aps": _aps,
    "raps": _raps,
    "saps": _saps,
    "topk": _topk,
    "margin": _margin,
    "pas": _pas,
}
METHODS = tuple(_FORMULAS)


def row_scores(method, row, weight, u, *, penalty=PENALTY, k_reg=K_REG, saps_weight=WEIGHT):
    """Score of every label of one row. `row` gives ranks and masks, `weight` the probabilities up to a factor."""
    number = type(weight[0])
    labels = ranking(row)
    total = number(0)
    for label in labels:  # in rank order, so that the last partial sum over the total is exactly one
        total = total + weight[label]
    top, second = (weight[label] for label in labels[:2])
    options = {"penalty": number(penalty), "k_reg": k_reg, "saps_weight": number(saps_weight)}
    options |= {"top": top, "second": second}
    result = [None] * len(row)
    above = number(0)
    for rank, label in enumerate(labels, start=1):
        others = number(0)
        for other in labels:
            if other != label:
                others = others + weight[other]
        if row[label] == -INFINITY:
            result[label] = Score(number(0), INFINITY)
        else:
            result[label] = _FORMULAS[method](rank, weight[label], above, others, total, number(u), **options)
        above = above + weight[label]
    return result


def order_statistic_index(n, alpha):
    """K = ceil((n + 1)(1 - alpha)) with alpha a fraction."""
    return math.ceil((n + 1) * (1 - alpha))


def threshold(scores, alpha):
    """The k-th smallest score, or infinity when k > n."""
    k = order_statistic_index(len(scores), alpha)
    if k > len(scores):
        return Score(0, INFINITY)
    return sorted(scores, key=lambda score: score.order)[k - 1]


def members(scores, q):
    """{y : s <= q}."""
    return [score.order <= q.order for score in scores]


def log_odds(mass):
    """log(m / (1 - m)) in the working precision; infinite at 0 and 1."""
    if mass <= 0:
        return -INFINITY
    if mass >= 1:
        return INFINITY
    return mp.log(mass) - mp.log(1 - mass)


def widest_exponent(rows, temperature):
    """max |z - max z| / T over rows and unmasked classes."""
    return max((max(row) - min(z for z in row if z != -INFINITY)) / temperature for row in rows)


def rounding_bound(n_classes, widest):
    """How far a float64 log-odds may lie from the true one.

    With e_i = exp(w_i), w_i = (z_i - max z) / T: the subtraction and the division each round once, so w_i is wrong by
    at most |w_i| 2^-52 and e_i by that relative amount and one or two units of exp. The numerator and the denominator
    of the odds are sums of at most C positive terms: C more roundings each, relative. The two logarithms and their
    difference round by |log-odds| 2^-52 at most, and |log-odds| <= |w| + log C + 45 (u is at least 2^-64). All of it is
    below (C + |w|max + 45) 2^-50.
    """
    return (n_classes + widest + 45.0) * 2.0**-50


def within_rounding(score, q, bound):
    """Whether float64 may put `score` on either side of `q`: both are wrong by at most `bound`.

    An order statistic moves no further than the furthest of the scores, so q is as wrong as one score. Scores with the
    same offset are compared by the log-odds of their mass; d mass <= d log-odds / 4, and an offset is wrong by
    2^-52 of itself, so with different offsets the values are compared, to bound * max(1, |value|). Equal sums are
    compared by what decides between them.

    Running sums are compared as values: adding C shares rounds by at most (C + 64) 2^-52, which `bound` is no less
    than. Next to where they saturate a mass may count as 1 or as what it is.
    """
    if INFINITY in (score.offset, q.offset):
        return False
    if score.running:
        if score.saturated and q.saturated and score.offset == q.offset:
            a, b = log_odds(score.mass), log_odds(q.mass)
            return a == b or abs(a - b) <= 2 * bound
        edge = any(abs(one.mass - SATURATED) <= bound for one in (score, q))
        return abs(score.value - q.value) <= 2 * bound * max(1, abs(q.value)) + edge * (1 - SATURATED)
    if score.value == q.value and (score.tie or q.tie):
        a, b = log_odds(score.tie), log_odds(q.tie)
        return a == b or abs(a - b) <= 2 * bound
    if score.offset == q.offset:
        a, b = log_odds(score.mass), log_odds(q.mass)
        return a == b or abs(a - b) <= 2 * bound
    return abs(score.value - q.value) <= 2 * bound * max(1, abs(q.value))


def classify(method, rows, labels, new_rows, alpha, temperature, u=None, new_u=None):
    """Sets of `new_rows` by split conformal prediction on `rows`, the threshold and the scores (u = None: all ones)."""
    u = [1.0] * len(rows) if u is None else u
    new_u = [1.0] * len(new_rows) if new_u is None else new_u
    label_scores = [
        row_scores(method, row, weights(row, temperature), one)[label]
        for row, label, one in zip(rows, labels, u, strict=True)
    ]
    q = threshold(label_scores, alpha)
    scores = [row_scores(method, row, weights(row, temperature), one) for row, one in zip(new_rows, new_u, strict=True)]
    return [members(s, q) for s in scores], q, scores


def fraction(alpha):
    """Alpha as typed: the decimal a user reads."""
    return Fraction(str(alpha))
