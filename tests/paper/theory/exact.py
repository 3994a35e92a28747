"""Section 4 and appendix A once more, in mpmath, with as many digits as a sign takes.

A quantity comes as (value, scale): it is a sum or difference of terms no larger than `scale`, so its rounding error is
at most `roundings` times 10^-digits of that. A sign counts as known only where the value is above its error; else
digits are added, up to 400. So no tolerance can hide a violation: two numbers that agree in 400 digits are reported as
equal, and a strict inequality between them fails.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st
from mpmath import mp

DIGITS = (40, 130, 400)
CLASSES = (2, 2, 3, 3, 4, 4, 5, 6, 7, 10, 10, 15, 20, 20, 30, 50, 100, 100, 200, 1000)


def ranked(row):
    """Logits in falling order, as floats: what the paper calls z."""
    return sorted((float(x) for x in row), reverse=True)


def widest(row, *temperatures):
    """Largest (z_1 - z_i) / T."""
    return (max(row) - min(row)) / min(temperatures)


@lru_cache(maxsize=64)
def _weights(z, temperature, _digits):
    top, t = mp.mpf(z[0]), mp.mpf(temperature)
    return [mp.exp((mp.mpf(x) - top) / t) for x in z]


def weights(z, temperature):
    """exp((z_i - z_1) / T) of a sorted row, to the working precision."""
    return _weights(tuple(z), temperature, mp.dps)


def tails(weight):
    """Share of the mass behind the first M classes, for M = 0 .. C; added up from the smallest."""
    sums = [mp.mpf(0)]
    for w in reversed(weight):
        sums.append(sums[-1] + w)
    total = sums[-1]
    return [x / total for x in reversed(sums)]


def roundings(z, *temperatures):
    """Units of the last digit a quantity may be wrong by: one a term, and exponents rounded before exp."""
    return 10 * (len(z) + widest(z, *temperatures) + 20)


def known(make, wrong_by, digits_of_value=0):
    """The values of `make()`, a list of (value, scale), at the first number of digits at which all signs are known.

    `digits_of_value` asks for so many digits of each as well. What stays unknown at the last number of digits is 0.
    """
    for digits in DIGITS:
        with mp.workdps(digits):
            error = mp.mpf(wrong_by) * mp.mpf(10) ** (digits_of_value - digits)
            found = make()
            values = [value if abs(value) > scale * error else mp.mpf(0) for value, scale in found]
        if all(values):
            break
    return values


def signs(make, wrong_by):
    """Signs of `make()`, certain."""
    return [int(mp.sign(value)) for value in known(make, wrong_by)]


def top_share(z, one, other):
    """Number k of classes equal to the top one, and p - q of each, (value, scale).

    With R the weight of the others, p = 1 / (k + R): p and q may agree in thousands of digits, R and R' do not.
    """
    k = z.count(z[0])
    r, s = mp.fsum(one[k:]), mp.fsum(other[k:])
    total = (k + r) * (k + s)
    return k, ((s - r) / total, (s + r) / total)


def gaps(z, cool, hot, places):
    """head_cool(M) - head_hot(M) as (value, scale), for each M of `places`."""
    w = weights(z, cool), weights(z, hot)
    one, other = tails(w[0]), tails(w[1])
    k, (value, scale) = top_share(z, *w)
    return [(m * value, m * scale) if m <= k else (other[m] - one[m], other[m] + one[m]) for m in places]


def differences(z, temperature):
    """d(z; T, i) as (value, scale)."""
    w = weights(z, 1.0), weights(z, temperature)
    totals = [mp.fsum(x) for x in w]
    k, top = top_share(z, *w)
    rest = [(a / totals[0], b / totals[1]) for a, b in zip(w[0][k:], w[1][k:], strict=True)]
    return [top] * k + [(p - q, p + q) for p, q in rest]


def last_index(z, temperature):
    """The last rank whose d has the sign of d_1; exact."""
    first = 1 if temperature > 1 else -1
    return signs(lambda: differences(z, temperature), roundings(z, 1, temperature)).count(first)


def masses_left(z, temperature, u=1.0):
    """1 - s for the APS score s of ranks 0 .. C; rank 0 is no label, with a score of 0."""
    behind, u = tails(weights(z, temperature)), mp.mpf(u)
    return [mp.mpf(1)] + [(1 - u) * (before - after) + after for before, after in pairwise(behind)]


def slopes(z, temperature, places):
    """Derivative of g(z; T, M) in z_1 as (value, scale): p_1 tail_1(M) - p_T,1 tail_T(M) / T."""
    terms = []
    for t in (1.0, temperature):
        w = weights(z, t)
        behind, total = tails(w), mp.fsum(w)
        terms.append([w[0] / total * behind[m] / mp.mpf(t) for m in places])
    return [(a - b, a + b) for a, b in zip(*terms, strict=True)]


def bound(temperature, n_classes):
    """b(T), eq. 6 as it is printed."""
    t, c = mp.mpf(temperature), mp.mpf(n_classes)
    if t < 1:
        return max(t / (t - 1) * mp.log(t / 4), t / (t + 1) * mp.log(4 * (c - 1) ** 2 / t))
    return max(t / (t - 1) * mp.log(4 * t), t / (t + 1) * mp.log(4 * t * (c - 1) ** 2))


def sharp_excess(margin, temperature, n_classes):
    """The equation of the sharp bound for a flat tail, left side minus right side."""
    d, t, c = mp.mpf(margin), mp.mpf(temperature), n_classes
    return d * (1 - 1 / t) + 2 * mp.log(1 + (c - 1) * mp.exp(-d)) - 2 * mp.log(1 + (c - 1) * mp.exp(-d / t)) - mp.log(t)


def entropy(z, temperature):
    """Entropy of softmax(z / T) above log k, its limit for T -> 0: k classes equal the top one."""
    w, k = weights(z, temperature), z.count(z[0])
    rest = mp.fsum(w[k:])
    top, t = mp.mpf(z[0]), mp.mpf(temperature)
    inner = mp.fsum(a * (top - mp.mpf(x)) for a, x in zip(w[k:], z[k:], strict=True))
    return mp.log1p(rest / k) + inner / t / (k + rest)


def _dominant(rng, c):
    row = rng.normal(size=c)
    row[rng.integers(c)] += 30
    return row


def _top_pair(rng, c):
    row = rng.normal(size=c)
    row[rng.permutation(c)[:2]] = row.max() + rng.choice([0.0, 1.0, 5.0])
    return row


def _flat_tail(rng, c):
    row = np.zeros(c)
    row[rng.integers(c)] = rng.exponential(8)
    return row


KINDS = {
    "normal": lambda rng, c: rng.normal(size=c) * rng.choice([0.1, 1, 3, 10]),
    "whole numbers": lambda rng, c: rng.integers(-3, 4, size=c).astype(float),
    "equal": lambda rng, c: np.full(c, rng.normal()),
    "two values": lambda rng, c: 2.0 * rng.integers(0, 2, size=c),
    "dominant": _dominant,
    "far apart": lambda rng, c: rng.uniform(-1e4, 1e4, size=c),
    "near ties": lambda rng, c: 1 + 1e-13 * rng.permutation(c),
    "tiny": lambda rng, c: 1e-120 * rng.integers(-2, 3, size=c),
    "large offset": lambda rng, c: 1e6 + rng.normal(size=c),
    "pair on top": _top_pair,
    "pair on top, others far": lambda rng, c: 2000 * _top_pair(rng, c),
    "flat tail": _flat_tail,
}
"""Rows that theorems and floating point find hard."""


@st.composite
def rows(draw, classes=CLASSES, kinds=tuple(KINDS)):
    """One row of logits, of one of the kinds."""
    kind, n_classes = draw(st.sampled_from(kinds)), draw(st.sampled_from(classes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return KINDS[kind](rng, n_classes)


temperatures = st.one_of(
    st.sampled_from([0.05, 0.5, 0.9, 1 - 1e-9, 1 + 1e-9, 1.1, 1.37, 2.0, 5.0, 20.0]),
    st.floats(0.05, 20.0),
)
not_one = temperatures.filter(lambda t: t != 1)
two_temperatures = st.tuples(temperatures, temperatures).filter(lambda pair: pair[0] != pair[1]).map(sorted)
