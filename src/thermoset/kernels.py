"""Row arithmetic, compiled: exponentials, masses above and below a rank, the hash behind the randomisation.

Plain loops over contiguous arrays; nothing here knows about scores, files or threads. Every kernel releases
the GIL, and a row's result depends on that row alone, so blocks and threads cannot change a bit of it.

Rows come *ranked*: sorted ascending by `numpy.sort`, so position p holds rank C - p and the top class is last.
Ascending order is what makes tails exact: masses below a rank add up from the smallest term.
"""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from thermoset.compiled import kernel

__all__ = [
    "all_masses",
    "confidences",
    "exp",
    "gap_weights",
    "log_add",
    "log_mass_below",
    "mass_above",
    "mass_below",
    "masses_around",
    "masses_below",
    "rank_gaps",
    "rank_weights",
    "row_moments",
    "shares",
    "softmax",
    "uniforms",
]

Floats = NDArray[np.float64]
Row = NDArray[np.floating[Any]]  # one row of logits, or a block of rows

MOST_NEGATIVE = -1e300  # stands for log weights that would overflow to -inf: such a class is unlikely, not masked
LINEAR_FLOOR = -600.0  # log weights above this add up in linear scale without underflow; below, in log scale


@intrinsic  # type: ignore[untyped-decorator]
def _as_float(_context: Any, _bits: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _as_bits(_context: Any, _value: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _fma(_context: Any, _a: Any, _b: Any, _c: Any) -> Any:
    """Give a * b + c, rounded once: the same bits on every machine, which leaving it to the compiler would not be."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), codegen


_LOG2_E = 1.0 / math.log(2.0)
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # n * _LN2_HIGH is exact for |n| < 2**20
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_ROUNDER = 1.5 * 2.0**52  # adding it rounds to the nearest integer and leaves that integer in the low bits
# Interpolates (e**r - 1 - r) / r**2 at the Chebyshev nodes of [-ln 2 / 2, ln 2 / 2]: e**r to 1.6e-17.
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = map(
    float.fromhex,
    (
        "0x1.0000000000001p-1",
        "0x1.5555555555556p-3",
        "0x1.5555555553d68p-5",
        "0x1.11111111109b5p-7",
        "0x1.6c16c17889ef9p-10",
        "0x1.a01a01a7c2f03p-13",
        "0x1.a019b914985a9p-16",
        "0x1.71de0db2f585ep-19",
        "0x1.28917c8be7ad6p-22",
        "0x1.af389ed28db09p-26",
    ),
)


@kernel
def exp(x: float) -> float:
    """e**x for x <= 0 to within one unit in the last place; 0 below e**-708.

    Written out because LLVM vectorises it inside a loop, which it cannot do with libm's: five times faster.
    x = n ln 2 + r with |r| <= ln(2)/2; a polynomial gives e**r, and n goes into the exponent bits.
    """
    y = max(x, -708.0)
    shifted = _fma(y, _LOG2_E, _ROUNDER)
    n = shifted - _ROUNDER
    r = _fma(n, -_LN2_LOW, _fma(n, -_LN2_HIGH, y))
    p = _fma(_C9, r, _C8)
    p = _fma(p, r, _C7)
    p = _fma(p, r, _C6)
    p = _fma(p, r, _C5)
    p = _fma(p, r, _C4)
    p = _fma(p, r, _C3)
    p = _fma(p, r, _C2)
    p = _fma(p, r, _C1)
    p = _fma(p, r, _C0)
    p = 1.0 + _fma(r * r, p, r)  # the small terms first: only the last addition rounds at the size of the result
    return _as_float(_as_bits(p) + (_as_bits(shifted) << 52)) if x >= -708.0 else 0.0


@kernel
def log_add(a: float, b: float) -> float:
    """log(e**a + e**b) without overflow; -inf is an empty term."""
    high, low = max(a, b), min(a, b)
    if low == -np.inf:
        return high
    return high + math.log1p(math.exp(low - high))


@kernel
def rank_gaps(ranked: Row, gaps: Floats) -> int:
    """Fill z - max z for a ranked row; return how many classes are masked."""
    n_classes = ranked.shape[0]
    top = np.float64(ranked[n_classes - 1])
    masked = 0
    while ranked[masked] == -np.inf:
        masked += 1
    for p in range(n_classes):
        gaps[p] = np.float64(ranked[p]) - top
    return masked


@kernel
def _log_weight(gap: float, inverse: float) -> float:
    return max(gap * inverse, MOST_NEGATIVE)


@kernel
def gap_weights(gaps: Floats, masked: int, temperature: float, log_weight: Floats, weight: Floats) -> None:
    """Fill log weights gap / T and their exponentials; no two of the arrays may share memory.

    LLVM vectorises the loop if what it reads is not what it writes: in place, it takes five times as long.
    """
    inverse = 1.0 / temperature
    for p in range(gaps.shape[0]):
        log_weight[p] = _log_weight(gaps[p], inverse)
        weight[p] = exp(log_weight[p])
    for p in range(masked):
        log_weight[p] = -np.inf


@kernel
def rank_weights(ranked: Row, temperature: float, log_weight: Floats, weight: Floats) -> int:
    """Fill log weights (z - max z) / T and their exponentials for a ranked row; return how many classes are masked."""
    inverse, top = 1.0 / temperature, np.float64(ranked[ranked.shape[0] - 1])
    for p in range(ranked.shape[0]):
        log_weight[p] = _log_weight(np.float64(ranked[p]) - top, inverse)
        weight[p] = exp(log_weight[p])
    masked = 0
    while ranked[masked] == -np.inf:
        log_weight[masked] = -np.inf
        masked += 1
    return masked


@kernel
def masses_below(weight: Floats, first: int, second: int) -> tuple[float, float]:
    """Sums of the weights before `first` and before `second` >= `first`, in one walk.

    Eight interleaved lanes: a fixed order that eight adders can follow at once.
    """
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    start, sums = 0, (0.0, 0.0)
    for stop in (first, second):
        whole = stop // 8 * 8
        for p in range(start, whole, 8):
            a += weight[p]
            b += weight[p + 1]
            c += weight[p + 2]
            d += weight[p + 3]
            e += weight[p + 4]
            f += weight[p + 5]
            g += weight[p + 6]
            h += weight[p + 7]
        start = whole
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
        for p in range(whole, stop):
            total += weight[p]
        sums = (sums[1], total)
    return sums


@kernel
def mass_below(weight: Floats, position: int) -> float:
    """Sum of the weights before `position`, in the lanes of `masses_below`."""
    return masses_below(weight, position, position)[0]


@kernel
def mass_above(weight: Floats, position: int) -> float:
    """Sum of weights after `position`, from the last one down, in the lanes of `masses_below`."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    last = weight.shape[0] - 1
    whole = (last - position) // 8 * 8
    for k in range(0, whole, 8):
        a += weight[last - k]
        b += weight[last - k - 1]
        c += weight[last - k - 2]
        d += weight[last - k - 3]
        e += weight[last - k - 4]
        f += weight[last - k - 5]
        g += weight[last - k - 6]
        h += weight[last - k - 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for k in range(whole, last - position):
        total += weight[last - k]
    return total


@kernel
def masses_around(weight: Floats, position: int) -> tuple[float, float, float]:
    """`mass_above` and `mass_below` of a position, and `mass_below` of the last one."""
    below, rest = masses_below(weight, position, weight.shape[0] - 1)
    return mass_above(weight, position), below, rest


@kernel
def all_masses(weight: Floats, above: Floats, below: Floats) -> None:
    """`mass_above` and `mass_below` of every position, to the same bit, in one walk each way."""
    n_classes = weight.shape[0]
    up, down = np.zeros(8), np.zeros(8)  # the lanes
    total_up, total_down = 0.0, 0.0
    for k in range(n_classes):
        below[k] = total_up
        above[n_classes - 1 - k] = total_down
        up[k % 8] += weight[k]
        down[k % 8] += weight[n_classes - 1 - k]
        if k % 8 == 7:
            total_up = ((up[0] + up[1]) + (up[2] + up[3])) + ((up[4] + up[5]) + (up[6] + up[7]))
            total_down = ((down[0] + down[1]) + (down[2] + down[3])) + ((down[4] + down[5]) + (down[6] + down[7]))
        else:
            total_up += weight[k]
            total_down += weight[n_classes - 1 - k]


@kernel
def log_mass_below(log_weight: Floats, masked: int, position: int, below: float) -> float:
    """Log of the total weight ranked below `position`; `below` is the same total in linear scale.

    Linear sums lose everything under e**-708. Where the largest term is near that, the sum is taken relative
    to it, so that a tail of e**-5000 is as exact as one of 0.1.
    """
    if position <= masked:
        return -np.inf
    largest = log_weight[position - 1]
    if largest >= LINEAR_FLOOR:
        return math.log(below)
    total = 0.0
    for p in range(masked, position):
        total += exp(log_weight[p] - largest)
    return float(largest) + math.log(total)


@kernel
def shares(
    log_weight: Floats, weight: Floats, masked: int, position: int, above: float, below: float, rest: float
) -> tuple[float, float, float, float, float, float, float]:
    """What a score needs to know of the label at `position`: shares of the row's mass, and logs of the small ones.

    low, own, tail, top: shares ranked above the label, its own, ranked below it, and of the top class;
    log_own, log_tail, log_rest: logs of own, of tail, and of everything but the top class, exact where the share
    underflows. `above`, `below` and `rest` are the masses around the label and below the top class.
    """
    total, log_total = 1.0 + rest, math.log1p(rest)  # the top class weighs 1
    return (
        above / total,
        weight[position] / total,
        below / total,
        1.0 / total,
        log_weight[position] - log_total,
        log_mass_below(log_weight, masked, position, below) - log_total,
        log_mass_below(log_weight, masked, weight.shape[0] - 1, rest) - log_total,
    )


@kernel
def _mix(x: np.uint64) -> np.uint64:
    """Finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection in which every bit moves every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def uniforms(ranked: Row, seed: np.uint64, out: Floats) -> None:
    """One u in (0, 1) for each ranked row, a hash of the seed and the row's logits relative to their maximum.

    The sum over classes makes it independent of their order; adding 0.0 turns -0.0 into 0.0.
    """
    golden = np.uint64(0x9E3779B97F4A7C15)
    for i in range(ranked.shape[0]):
        row = ranked[i]
        top = np.float64(row[row.shape[0] - 1])
        total = np.uint64(0)
        for p in range(row.shape[0]):
            # the odd constant moves the bits of 0.0, which the finaliser would map to 0
            total += _mix(np.uint64(_as_bits((np.float64(row[p]) - top) + 0.0)) + golden)
        mixed = _mix(_mix(seed + golden) ^ _mix(total + golden))
        out[i] = (np.float64(mixed >> np.uint64(12)) + 0.5) * 2.0**-52


@kernel
def _top(row: Row) -> float:
    top = row[0]
    for j in range(1, row.shape[0]):
        top = max(top, row[j])
    return np.float64(top)


@kernel
def _weights(row: Row, inverse: float, weight: Floats) -> float:
    """Fill exp((z - max z) / T) for one unsorted row; return the sum."""
    top = _top(row)
    for j in range(row.shape[0]):
        weight[j] = exp(max((np.float64(row[j]) - top) * inverse, MOST_NEGATIVE))
    return mass_below(weight, weight.shape[0])


@kernel
def softmax(rows: Row, temperature: float, out: Floats) -> None:
    """Probabilities of unsorted rows at a temperature."""
    for i in range(rows.shape[0]):
        probs = out[i]
        total = _weights(rows[i], 1.0 / temperature, probs)
        for j in range(rows.shape[1]):
            probs[j] /= total


@kernel
def confidences(rows: Row, temperatures: Floats, out: Floats) -> None:
    """Top probability of each unsorted row at each temperature: out (n_temperatures, n_rows)."""
    weight = np.empty(rows.shape[1])
    for i in range(rows.shape[0]):
        for t in range(temperatures.shape[0]):
            out[t, i] = 1.0 / _weights(rows[i], 1.0 / temperatures[t], weight)


@kernel
def row_moments(
    rows: Row, labels: NDArray[np.int64], inverse: float, loss: Floats, slope: Floats, curvature: Floats
) -> None:
    """NLL of each unsorted row at 1/T = `inverse`, with its first and second derivative in 1/T.

    With d = z - max z and p the softmax of d / T: NLL = log sum e**(d/T) - d_y/T, slope = E_p[d] - d_y,
    curvature = Var_p[d].
    """
    n_classes = rows.shape[1]
    weight, first, second = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    for i in range(rows.shape[0]):
        row = rows[i]
        top = _top(row)
        for j in range(n_classes):
            d = max(np.float64(row[j]) - top, MOST_NEGATIVE)
            w = exp(max(d * inverse, MOST_NEGATIVE))
            weight[j] = w
            first[j] = w * d
            second[j] = w * d * d
        total = mass_below(weight, n_classes)
        own = np.float64(row[labels[i]]) - top
        mean = mass_below(first, n_classes) / total
        loss[i] = math.log(total) - own * inverse
        slope[i] = mean - own
        curvature[i] = mass_below(second, n_classes) / total - mean * mean
