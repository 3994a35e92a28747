"""Every compiled loop: one row, sets under thresholds, counts over trials, u integrated out, and small loops.

Rows come as *gaps*: z - max z, sorted from the top down, so rank 0 is the top class and its gap is 0. At temperature T
the classes below the top weigh exp((gap - second gap) / T), and their sum S ("others") is taken in fixed point: it is
the same bits in any order of the classes, with or without masked ones, and with or without those too light to count.
Then

    rest = exp(second gap / T) * S,    scale = 1 / (1 + rest) = p of the top class,    own = p of a class

`low` is the running sum of `own` from the top, one after the other. The value of the label at a rank is

    value(u) = squash(low + u * own) + unit * (steps + u * part),    squash(s) = 1 if s >= SATURATED, else s

for scores that are masses (APS, RAPS); other scores are never squashed. `line` knows the scores; whatever compares
values with thresholds does not. A rank at u = 1 and the next one at u = 0 have the same bits and values never fall
along a row, so there is one place where a row crosses its threshold. Where values are equal, tie-breaks decide: minus
the log of the mass left out for scores that are masses, which float64 holds more finely than the mass itself, and the
log-odds of the others for LAC.

Entry points (`entry`) take arguments of one type each, so that there is one compiled version; no kernel sorts.
"""

import math
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from thermoset.arrays import Block, Bools, Counts, Floats, Ints, Keys
from thermoset.errors import CacheWarning, MissingExtraError

_F = TypeVar("_F", bound=Callable[..., Any])
_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


class Inner(NamedTuple):
    """A function that only other compiled functions call, until `start` puts what Numba makes of it in its place."""

    py_func: Callable[..., Any]
    options: dict[str, bool] | None


def inner(function: _F) -> _F:
    """Compile a function that only other compiled functions call."""
    return Inner(function, {"no_cpython_wrapper": True})  # type: ignore[return-value]


def inline(function: _F) -> _F:
    """The same as a part of its callers: a call that hands over arrays costs more than a short loop does."""
    return Inner(function, {"no_cpython_wrapper": True, "forceinline": True})  # type: ignore[return-value]


def intrinsic(function: Callable[..., Any]) -> Any:
    """Make a function of one instruction."""
    return Inner(function, None)


_lock, _started = threading.Lock(), threading.Event()


def start() -> None:
    """Import Numba, and hand it all functions: at the first call, since whoever calls none should not wait for it."""
    if _started.is_set():
        return
    with _lock:
        if _started.is_set():
            return
        try:
            import numba  # noqa: PLC0415
            from numba.extending import intrinsic as instruction  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError(
                f"this needs Numba, which cannot be imported ({error}). Install it: pip install numba. Where there is "
                "none, a saved predictor still answers: TwoTemperaturePredictor.load(path, engine='numpy')."
            ) from None
        if numba.config.DISABLE_JIT:
            raise ImportError("thermoset needs Numba's compiler, which NUMBA_DISABLE_JIT switches off. Unset it.")
        for name, held in list(globals().items()):
            if isinstance(held, Inner):
                compiler = instruction if held.options is None else numba.njit(**held.options, **_OPTIONS)
                globals()[name] = compiler(held.py_func)
        for entry in ENTRIES.values():
            try:
                entry.dispatcher = numba.njit(cache=True, **_OPTIONS)(entry.py_func)
            except RuntimeError:  # no folder for it is writable
                entry.dispatcher = numba.njit(**_OPTIONS)(entry.py_func)
                _warn("no folder for it is writable")
        _started.set()


class Entry:
    """A compiled function that Python calls, cached on disk.

    No kernel raises errors of its own, so a first call that fails has met a cache that cannot be used: a damaged
    entry, or a full disk. Then the entry is removed, and the function is compiled again or runs as it was compiled.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__name__, self.__doc__, self.py_func = function.__name__, function.__doc__, function
        self.dispatcher: Any = None
        self._works = False

    @property
    def compiled(self) -> Any:
        """What Numba makes of it."""
        start()
        return self.dispatcher

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        if self._works:
            return self.dispatcher(*arguments)
        start()
        try:
            found = self.dispatcher(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever reading a damaged entry, or writing one, raises
            _warn(str(error) or type(error).__name__)
            for path in Path(self.dispatcher.stats.cache_path or "").glob(f"kernels.{self.__name__}-*"):
                path.unlink(missing_ok=True)
            found = self.dispatcher(*arguments)
        self._works = True
        return found


ENTRIES: dict[str, Entry] = {}
"""Every entry point by its name."""

_warned: set[str] = set()


def _warn(reason: str) -> None:
    """Warn once in a process: all entry points have the same trouble."""
    if not _warned:
        _warned.add(reason)
        warnings.warn(
            f"compiled code cannot be cached ({reason}): it is compiled again in every process. Set NUMBA_CACHE_DIR to "
            "a writable folder.",
            CacheWarning,
            stacklevel=4,
        )


def entry(function: _F) -> _F:
    """Compile a function that Python calls; see `Entry`."""
    ENTRIES[function.__name__] = Entry(function)
    return ENTRIES[function.__name__]  # type: ignore[return-value]


# ---- a row -----------------------------------------------------------------------------------------------------------

LAC, APS, RAPS, SAPS, TOPK, PAS = range(6)
"""Branches of `terms`."""

SATURATED = 1.0 - 2.0**-32
"""Masses from here on count as 1: float64 cannot tell sums apart that are nearer to 1 in the way tie-breaks can."""

FURTHEST = -1e300
"""Stands for log weights that would overflow to -inf: such a class is unlikely, not masked."""

_NEGLIGIBLE = -44.0  # e**-44 is less than half of 2**-62: nothing of it is left in fixed point
_CHUNK = 16  # ranks whose exponentials are computed together
_FEW = 24  # undecided ranks that are quicker done for all trials at once than by a scan along them


@intrinsic
def _fma(_context: Any, _a: Any, _b: Any, _c: Any) -> Any:
    """Give a * b + c, rounded once: the same bits on every machine, which leaving it to the compiler would not be."""
    from numba import types  # noqa: PLC0415

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), codegen


_LOG2_E = 1.0 / math.log(2.0)
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # n * _LN2_HIGH is exact for |n| < 2**20
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_ROUNDER = 1.5 * 2.0**52  # adding it rounds to the nearest integer and leaves that integer in the low bits
# Interpolates (e**r - 1 - r) / r**2 at the Chebyshev nodes of [-ln 2 / 2, ln 2 / 2]: e**r to 1.6e-17.
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9 = map(float.fromhex, (
    "0x1.0000000000001p-1", "0x1.5555555555556p-3", "0x1.5555555553d68p-5", "0x1.11111111109b5p-7",
    "0x1.6c16c17889ef9p-10", "0x1.a01a01a7c2f03p-13", "0x1.a019b914985a9p-16", "0x1.71de0db2f585ep-19",
    "0x1.28917c8be7ad6p-22", "0x1.af389ed28db09p-26",
))  # fmt: skip


@inline
def bits_of(x: float) -> Any:
    """The bits of a number."""
    return np.float64(x).view(np.int64)


@inline
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
    return np.int64(bits_of(p) + (bits_of(shifted) << 52)).view(np.float64) if x >= -708.0 else 0.0


@inner
def log_add(a: float, b: float) -> float:
    """log(e**a + e**b) without overflow; -inf is an empty term."""
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + math.log1p(math.exp(low - high))


# A weight in [0, 1] added to _HIGH leaves its multiple of 2**-30 in the low bits, what is left of it added to _LOW its
# multiple of 2**-62: sums of these are sums of integers, which any order gives alike.
_HIGH, _LOW = 1.5 * 2.0**22, 1.5 * 2.0**-10
_HIGH_BITS, _LOW_BITS = (int(np.float64(x).view(np.int64)) for x in (_HIGH, _LOW))


@inline
def coarse_part(weight: float) -> int:
    """The multiple of 2**-30 nearest to a weight from 0 to 1."""
    return bits_of(weight + _HIGH) - _HIGH_BITS  # type: ignore[no-any-return]


@inline
def fine_part(weight: float) -> int:
    """What is left of the weight, as a multiple of 2**-62."""
    return bits_of((weight - ((weight + _HIGH) - _HIGH)) + _LOW) - _LOW_BITS  # type: ignore[no-any-return]


@inner
def fixed_sum(weights: Floats) -> float:
    """Sum of weights from 0 to 1, to a multiple of 2**-62 each: the same bits in any order."""
    coarse, fine = np.int64(0), np.int64(0)
    for k in range(weights.shape[0]):
        coarse += coarse_part(weights[k])
        fine += fine_part(weights[k])
    return coarse * 2.0**-30 + fine * 2.0**-62


@inner
def fill_weights(gaps: Floats, largest: float, inverse: float, weights: Floats) -> None:
    """Fill exp((gap - largest) / T). LLVM vectorises the loop if what it reads is not what it writes."""
    for k in range(weights.shape[0]):
        weights[k] = exp((gaps[k] - largest) * inverse)


@inner
def first_below(gaps: Floats, limit: float) -> int:
    """The first place whose gap is below `limit`: gaps fall, so bisection finds it."""
    low, high = 0, int(gaps.shape[0])
    if gaps[high - 1] >= limit:
        return high
    while low < high:
        middle = (low + high) // 2
        if gaps[middle] >= limit:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def relative_mass(gaps: Floats, inverse: float, weights: Floats) -> float:
    """Sum of exp((gap - first gap) / T) over classes from the top down; 0 if there are none."""
    if gaps.shape[0] == 0 or gaps[0] == -np.inf:
        return 0.0
    stop = first_below(gaps, gaps[0] + _NEGLIGIBLE / inverse)
    fill_weights(gaps[:stop], gaps[0], inverse, weights[:stop])
    return fixed_sum(weights[:stop])


class Terms(NamedTuple):
    """A compiled score: its branch, and the numbers of `line`.

    drawn : what part of a label's own step in RAPS is multiplied by u: none, or all of it in the published code.
    """

    code: int
    unit: float = 0.0
    k_reg: float = 0.0
    drawn: float = 0.0
    keep_top: bool = False


class Row(NamedTuple):
    """A sorted row at one temperature.

    gaps : see the module; own, low : of the ranks that `extend` has filled; work : space for weights; n : classes that
    are not masked; inverse : 1 / T; scale, share : of the top class and of the second; others, rest : the mass below
    the top, relative to the second class and to the top class.
    """

    gaps: Floats
    own: Floats
    low: Floats
    work: Floats
    n: int
    inverse: float
    scale: float
    share: float
    others: float
    rest: float


class Line(NamedTuple):
    """The value of a label as a function of u: squash(low + u own) + unit (steps + u part)."""

    low: float
    own: float
    steps: float
    part: float


@inline
def second_of(gaps: Floats) -> float:
    """The gap of the second class, or -inf if there is none."""
    return gaps[1] if gaps.shape[0] > 1 else -np.inf


@inline
def scale_gap(gap: float, inverse: float) -> float:
    """A log weight: gap / T, kept from overflowing unless the class is masked."""
    return gap if gap == -np.inf else max(gap * inverse, FURTHEST)


@inner
def log_rest(second: float, inverse: float, others: float) -> float:
    """Log of the weight of all but the top class, relative to the top class; -inf if there are none."""
    return scale_gap(second, inverse) + math.log(others) if others > 0.0 else -np.inf


@inner
def log_beyond(gaps: Floats, inverse: float, rank: int, work: Floats) -> float:
    """Log of the weight of all classes from `rank` on, relative to the top class; -inf if there are none."""
    some = gaps[rank:]
    mass = relative_mass(some, inverse, work)
    return scale_gap(some[0], inverse) + math.log(mass) if mass > 0.0 else -np.inf


@inline
def label_scale(second: float, inverse: float, others: float) -> tuple[float, float, float]:
    """Share of the top class, the weight of the others relative to it, and the share of the second class."""
    heaviest = exp(second * inverse)
    rest = heaviest * others
    scale = 1.0 / (1.0 + rest)
    return scale, rest, scale * heaviest


@inline
def new_work(n_classes: int) -> Floats:
    """Room for the shares, sums and weights of a row."""
    work = np.empty((3, n_classes + 1))
    work[1, 0] = 0.0
    return work


@inline
def open_row(gaps: Floats, inverse: float, others: float, work: Floats) -> Row:
    """A row of which no rank is filled yet; work : of `new_work`."""
    n, n_classes = int(gaps.shape[0]), gaps.shape[0]
    while gaps[n - 1] == -np.inf:
        n -= 1
    scale, rest, share = label_scale(second_of(gaps), inverse, others)
    return Row(gaps, work[0, :n_classes], work[1], work[2, :n_classes], n, inverse, scale, share, others, rest)


@inline
def weigh_and_open(gaps: Floats, inverse: float, work: Floats) -> Row:
    """The same where the mass of the others is not known."""
    return open_row(gaps, inverse, relative_mass(gaps[1:], inverse, work[2]), work)


@inline
def extend(row: Row, filled: int) -> int:
    """Shares of the next chunk of ranks, and the sums above them; returns how many ranks are known."""
    stop = int(min(filled + _CHUNK, row.gaps.shape[0]))
    second, inverse, share = second_of(row.gaps), row.inverse, row.share
    some, fresh = row.gaps[filled:stop], row.own[filled:stop]
    for k in range(some.shape[0]):
        fresh[k] = share * exp(min((some[k] - second) * inverse, 0.0))
    if filled == 0:
        row.own[0] = row.scale
    above, sums = row.low[filled], row.low[filled + 1 : stop + 1]
    for k in range(fresh.shape[0]):
        above += fresh[k]
        sums[k] = above
    return stop


@inline
def line(score: Terms, rank: int, low: float, own: float, scale: float, rest: float) -> Line:
    """The line of the label at `rank` (from 0), with the share `own` and `low` above it."""
    if score.keep_top and rank == 0:
        return Line(-np.inf, 0.0, 0.0, 0.0)
    if score.code == LAC:
        return Line(scale * rest if rank == 0 and own > 0.5 else 1.0 - own, 0.0, 0.0, 0.0)
    if score.code == SAPS:
        return Line(0.0, own, 0.0, 0.0) if rank == 0 else Line(scale, 0.0, rank - 1.0, 1.0)
    if score.code == TOPK:
        return Line(0.0, 0.0, rank + 1.0, 1.0)
    excess = rank + 1.0 - score.k_reg
    if score.code == RAPS and excess > 0.0:
        return Line(low, own, excess - score.drawn, score.drawn)
    return Line(low, own, 0.0, 0.0)


@inline
def line_at(score: Terms, row: Row, rank: int) -> Line:
    """The line of the label at a rank that is filled."""
    return line(score, rank, row.low[rank], row.own[rank], row.scale, row.rest)


@inline
def bound_of(code: int) -> float:
    """Where values saturate."""
    return SATURATED if code == APS or code == RAPS else np.inf


@inline
def value_at(score: Terms, at: Line, u: float) -> float:
    """The value of a label."""
    s = at.low + u * at.own
    return (1.0 if s >= bound_of(score.code) else s) + score.unit * (at.steps + u * at.part)


@inline
def rank_logs(
    score: Terms, gaps: Floats, inverse: float, others: float, rest: float, rank: int, work: Floats
) -> tuple[float, float]:
    """Logs of a label's own share and of what its tie-break looks at: ranks below for masses, else all but the top."""
    log_total = math.log1p(rest)
    if rank > 0 and (score.code == APS or score.code == RAPS):
        left = log_beyond(gaps, inverse, rank + 1, work)
    else:
        left = log_rest(second_of(gaps), inverse, others)
    return scale_gap(gaps[rank], inverse) - log_total, left - log_total


@inline
def tie_logs(score: Terms, row: Row, rank: int) -> tuple[float, float]:
    """The same of a rank of an open row."""
    return rank_logs(score, row.gaps, row.inverse, row.others, row.rest, rank, row.work)


@inner
def tie_break(score: Terms, rank: int, own: float, log_own: float, log_left: float, u: float) -> float:
    """What decides between labels of equal value; see `tie_logs`."""
    if score.keep_top and rank == 0:
        return -np.inf
    if score.code == LAC or score.code == PAS:
        return (log_left if rank == 0 and own > 0.5 else math.log1p(-own)) - log_own
    if score.code == SAPS or score.code == TOPK:  # the same in all of a row: it tells rows apart that have the same u
        return -log_left
    return -log_left if u >= 1.0 else -log_add(log_left, log_own + math.log1p(-u))


@inner
def tie_of(score: Terms, row: Row, rank: int, u: float) -> float:
    """The tie-break of the label at a rank that is filled."""
    log_own, log_left = tie_logs(score, row, rank)
    return tie_break(score, rank, row.own[rank], log_own, log_left, u)


@inline
def crossing(score: Terms, row: Row, first: int, n: int, u: float, q: float, tie: float, ties: bool) -> int:
    """How many of the first n ranks, at least `first`, have a pair of at most (q, tie), or are below everything.

    Without `ties`, those with a value below q. Gallop, then bisect.
    """
    inside, outside, step = first, n, 2
    while inside < outside:
        r = min(inside + step, outside) - 1 if step > 0 else (inside + outside) // 2
        v = value_at(score, line_at(score, row, r), u)
        if v < q or v == -np.inf or (ties and v == q and tie_of(score, row, r, u) <= tie):
            inside, step = r + 1, 2 * step
        else:
            outside, step = r, 0
    return inside


@inline
def extend_to(score: Terms, row: Row, filled: int, u: float, most: float) -> int:
    """Fill shares of ranks until a value at u is above `most`; returns how many are known."""
    while filled < row.n:
        if filled > 0 and value_at(score, line_at(score, row, filled - 1), u) > most:
            break
        filled = extend(row, filled)
    return filled


# ---- probabilities ---------------------------------------------------------------------------------------------------


@inner
def largest_of(row: Floats) -> float:
    """The largest, in eight lanes: one would wait for each comparison before it begins the next."""
    a, b, c, d, e, f, g, h = row[0], row[0], row[0], row[0], row[0], row[0], row[0], row[0]
    whole = row.shape[0] // 8 * 8
    for p in range(0, whole, 8):
        a = row[p] if row[p] > a else a
        b = row[p + 1] if row[p + 1] > b else b
        c = row[p + 2] if row[p + 2] > c else c
        d = row[p + 3] if row[p + 3] > d else d
        e = row[p + 4] if row[p + 4] > e else e
        f = row[p + 5] if row[p + 5] > f else f
        g = row[p + 6] if row[p + 6] > g else g
        h = row[p + 7] if row[p + 7] > h else h
    for p in range(whole, row.shape[0]):
        a = row[p] if row[p] > a else a
    return float(max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h))))


@inner
def top_two(row: Floats) -> tuple[int, float]:
    """The column of the largest logit, the first of equal ones, and the second largest logit, or -inf."""
    largest, top, second = largest_of(row), 0, -np.inf
    while row[top] != largest:
        top += 1
    if top > 0:
        second = largest_of(row[:top])
    if top + 1 < row.shape[0]:
        second = max(second, largest_of(row[top + 1 :]))
    return top, second


@inner
def weigh_row(row: Floats, top: int, second: float, inverse: float, weights: Floats) -> float:
    """Fill the weights of an unsorted row, relative to its second class, with 0 for the top class; return their sum.

    Gaps are taken from the top first, as in sorted rows: the same bits.
    """
    largest = row[top]
    if second == -np.inf:
        weights[:] = 0.0
        return 0.0
    gap = second - largest
    for j in range(row.shape[0]):
        weights[j] = exp(min(((row[j] - largest) - gap) * inverse, 0.0))
    weights[top] = 0.0
    return fixed_sum(weights)


@entry
def softmax(rows: Floats, temperature: float, out: Floats) -> None:
    """Probabilities of unsorted rows at a temperature."""
    inverse = 1.0 / temperature
    for i in range(rows.shape[0]):
        top, second = top_two(rows[i])
        probs = out[i]
        others = weigh_row(rows[i], top, second, inverse, probs)
        scale, _, share = label_scale(second - rows[i, top], inverse, others)
        for j in range(probs.shape[0]):
            probs[j] *= share
        probs[top] = scale


@entry
def confidences(rows: Floats, temperatures: Floats, weights: Floats, out: Floats) -> None:
    """Top probability of each unsorted row at each temperature: out (T, n); weights (C,) is workspace."""
    for i in range(rows.shape[0]):
        top, second = top_two(rows[i])
        for t in range(temperatures.shape[0]):
            inverse = 1.0 / temperatures[t]
            others = weigh_row(rows[i], top, second, inverse, weights)
            out[t, i] = label_scale(second - rows[i, top], inverse, others)[0]


@entry
def top_odds(rows: Floats, temperature: float, weights: Floats, out: Floats) -> None:
    """Log-odds of each unsorted row's top class, and the weight of the others relative to the second: out (2, n)."""
    inverse = 1.0 / temperature
    for i in range(rows.shape[0]):
        top, second = top_two(rows[i])
        others = weigh_row(rows[i], top, second, inverse, weights)
        out[0, i] = -log_rest(second - rows[i, top], inverse, others)
        out[1, i] = others


@entry
def share_out(rows: Floats, temperature: float, confidence: Floats, out: Floats) -> None:
    """Probabilities of unsorted rows whose top class has the probability `confidence`: the others share the rest."""
    inverse = 1.0 / temperature
    for i in range(rows.shape[0]):
        top, second = top_two(rows[i])
        probs = out[i]
        others = weigh_row(rows[i], top, second, inverse, probs)
        share = (1.0 - confidence[i]) / others if others > 0.0 else 0.0
        for j in range(probs.shape[0]):
            probs[j] *= share
        probs[top] = confidence[i]


@entry
def correct_classes(rows: Floats, temperature: float, scale: Floats, shift: Floats, out: Floats) -> None:
    """Corrected logits of unsorted rows, scale * log softmax(row / T) + shift; masked classes stay masked."""
    inverse = 1.0 / temperature
    for i in range(rows.shape[0]):
        top, second = top_two(rows[i])
        new, largest = out[i], rows[i, top]
        others = weigh_row(rows[i], top, second, inverse, new)
        log_total = math.log1p(exp((second - largest) * inverse) * others)
        for j in range(new.shape[0]):
            new[j] = scale[j] * ((rows[i, j] - largest) * inverse - log_total) + shift[j]


@entry
def class_slopes(
    logs: Floats, labels: Ints, rows: Ints, factor: float, scale: Floats, shift: Floats, work: Floats, losses: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Loss of some rows under softmax(factor * (scale * log p + shift)), with what its derivatives are made of.

    logs (n, C) : log p of all rows, finite; rows : those that are meant; work (3, C); losses : (len(rows),). Added to:
    out (5, C), by class the slopes in factor * shift and factor * scale, their curvatures, and in the first entries of
    the last row the slope and the curvature in the factor.
    """
    weights, steps, values = work[0], work[1], work[2]
    for k in range(rows.shape[0]):
        row, label = logs[rows[k]], labels[rows[k]]
        for j in range(row.shape[0]):
            values[j] = scale[j] * row[j] + shift[j]
        largest = largest_of(values)
        for j in range(row.shape[0]):
            weights[j] = exp((values[j] - largest) * factor)
        total = lane_sum(weights)
        for j in range(row.shape[0]):
            steps[j] = weights[j] * (values[j] - largest)
        mean = lane_sum(steps) / total
        for j in range(row.shape[0]):
            steps[j] *= values[j] - largest
        square = lane_sum(steps) / total
        own = values[label] - largest
        losses[k] = math.log(total) - factor * own
        out[4, 0] += mean - own
        out[4, 1] += square - mean * mean
        part = 1.0 / total
        for j in range(row.shape[0]):
            p = weights[j] * part
            step, bend = p * row[j], p * (1.0 - p)
            out[0, j] += p
            out[1, j] += step
            out[2, j] += bend
            out[3, j] += bend * row[j] * row[j]
        out[0, label] -= 1.0
        out[1, label] -= row[label]


@entry
def likelihoods(rows: Floats, labels: Ints, inverse: float, out: Floats) -> None:
    """NLL of each unsorted row at 1/T = `inverse`, with its first and second derivative in 1/T: out (3, n).

    With d = z - max z and p the softmax of d / T: NLL = log sum e**(d/T) - d_y/T, slope = E_p[d] - d_y,
    curvature = Var_p[d]. Weights w = e**-x, w x and w x**2 with x = -d / T are from 0 to 1, and are summed in fixed
    point.
    """
    for i in range(rows.shape[0]):
        row = rows[i]
        largest = largest_of(row)
        a, b, c, d, e, f = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for j in range(row.shape[0]):
            x = min((largest - row[j]) * inverse, 1000.0)  # where the weight is 0 already
            w = exp(-x)
            a += coarse_part(w)
            b += fine_part(w)
            c += coarse_part(w * x)
            d += fine_part(w * x)
            e += coarse_part(w * x * x)
            f += fine_part(w * x * x)
        total = a * 2.0**-30 + b * 2.0**-62
        mean, square = (c * 2.0**-30 + d * 2.0**-62) / total, (e * 2.0**-30 + f * 2.0**-62) / total
        own = row[labels[i]] - largest
        out[0, i] = math.log(total) - own * inverse
        out[1, i] = -mean / inverse - own
        out[2, i] = (square - mean * mean) / (inverse * inverse)


@inner
def lane_sum(values: Block) -> float:
    """Sum in eight lanes, in the precision of the values: a fixed order that eight adders can follow at once."""
    zero = values.dtype.type(0)
    a, b, c, d, e, f, g, h = zero, zero, zero, zero, zero, zero, zero, zero
    whole = values.shape[0] // 8 * 8
    for p in range(0, whole, 8):
        a += values[p]
        b += values[p + 1]
        c += values[p + 2]
        d += values[p + 3]
        e += values[p + 4]
        f += values[p + 5]
        g += values[p + 6]
        h += values[p + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for p in range(whole, values.shape[0]):
        total += values[p]
    return float(total)


# ---- labels: the score of each row's own label -----------------------------------------------------------------------


@entry
def rank_labels(rows: Floats, labels: Ints, out: Ints) -> None:
    """Rank of each label in its unsorted row, from 0; of equal logits the lower label index ranks higher."""
    for i in range(rows.shape[0]):
        own, rank = rows[i, labels[i]], 0
        for j in range(rows.shape[1]):
            rank += rows[i, j] > own or (rows[i, j] == own and j < labels[i])
        out[i] = rank


@entry
def label_parts(all_gaps: Floats, ranks: Ints, temperatures: Floats, weights: Floats, out: Floats) -> None:
    """What the score of each label needs at every temperature: out (4, T, n) is low, own, others and log_tail.

    log_tail is the log of the share of all ranks below.
    """
    for i in range(all_gaps.shape[0]):
        gaps, rank = all_gaps[i], ranks[i]
        second = second_of(gaps)
        for t in range(temperatures.shape[0]):
            inverse = 1.0 / temperatures[t]
            others = relative_mass(gaps[1:], inverse, weights)
            scale, rest, share = label_scale(second, inverse, others)
            low, own = 0.0, scale
            if rank > 0:
                low = scale
                fill_weights(gaps[1 : rank + 1], second, inverse, weights[:rank])
                for k in range(rank - 1):
                    low += share * weights[k]
                own = share * weights[rank - 1]
            out[0, t, i], out[1, t, i], out[2, t, i] = low, own, others
            left = log_rest(second, inverse, others) if rank == 0 else log_beyond(gaps, inverse, rank + 1, weights)
            out[3, t, i] = left - math.log1p(rest)


@entry
def label_terms(
    score: Terms, inverse: float, ranks: Ints, gap: Floats, second: Floats, parts: Floats, out: Floats
) -> None:
    """The line of every label at one temperature, from its parts (4, n): out (4, n)."""
    for i in range(ranks.shape[0]):
        scale, rest, _ = label_scale(second[i], inverse, parts[2, i])
        at = line(score, ranks[i], parts[0, i], parts[1, i], scale, rest)
        out[0, i], out[1, i], out[2, i], out[3, i] = at.low, at.own, at.steps, at.part
        if score.code == PAS and not (score.keep_top and ranks[i] == 0):
            out[0, i], out[1, i] = math.log1p(rest) - scale_gap(gap[i], inverse), 0.0
        if gap[i] == -np.inf:
            out[0, i] = np.inf


@inline
def label_logs(
    score: Terms, inverse: float, gap: float, second: float, others: float, log_tail: float
) -> tuple[float, float]:
    """What `tie_logs` gives, from the parts of a label."""
    _, rest, _ = label_scale(second, inverse, others)
    log_total, left = math.log1p(rest), log_tail
    if score.code != APS and score.code != RAPS:
        left = log_rest(second, inverse, others) - log_total
    return scale_gap(gap, inverse) - log_total, left


@entry
def label_ties(
    score: Terms, inverse: float, ranks: Ints, gap: Floats, second: Floats, parts: Floats, rows: Ints, u: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Tie-breaks of the labels of some rows, each with its u; the other arguments as in `label_terms`."""
    for k in range(rows.shape[0]):
        i = rows[k]
        log_own, log_left = label_logs(score, inverse, gap[i], second[i], parts[2, i], parts[3, i])
        tie = tie_break(score, ranks[i], parts[1, i], log_own, log_left, u[k])
        out[k] = np.inf if gap[i] == -np.inf else tie


@entry
def trial_values(score: Terms, lines: Floats, rows: Counts, u: Floats, out: Floats) -> None:
    """Values of the labels of rows[t, j] with u[t, j], from their lines (4, n)."""
    low, own, steps, part = lines[0], lines[1], lines[2], lines[3]
    bound = bound_of(score.code)
    for t in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            i = rows[t, j]
            s = low[i] + u[t, j] * own[i]  # infinite for a masked class
            out[t, j] = (1.0 if bound <= s < np.inf else s) + score.unit * (steps[i] + u[t, j] * part[i])


@entry
def group_by_class(order: Ints, classes: Ints, first: Ints, out: Ints) -> None:
    """Rows in the order of their scores, (trials, n), as they come class by class, in that order: a counting sort.

    classes (trials, n) : of the rows; first (trials, C) : where those of each class begin; used up.
    """
    for t in range(order.shape[0]):
        for k in range(order.shape[1]):
            c = classes[t, order[t, k]]
            out[t, first[t, c]] = order[t, k]
            first[t, c] += 1


# ---- sets under thresholds -------------------------------------------------------------------------------------------


@entry
def prefix_sizes(
    score: Terms, temperature: float, all_gaps: Floats, all_u: Floats, groups: Ints, thresholds: Floats, out: Ints
) -> None:
    """Set sizes under thresholds (2, levels, G), of which a row's group names one: out (levels, n)."""
    work, inverse = new_work(all_gaps.shape[1]), 1.0 / temperature
    for i in range(all_gaps.shape[0]):
        row, u, g, filled = weigh_and_open(all_gaps[i], inverse, work), all_u[i], groups[i], 0
        for level in range(thresholds.shape[1]):
            q, tie = thresholds[0, level, g], thresholds[1, level, g]
            if q == np.inf:
                out[level, i] = all_gaps.shape[1]
                continue
            filled = extend_to(score, row, filled, u, q)
            out[level, i] = crossing(score, row, 0, min(filled, row.n), u, q, tie, True)


@entry
def class_sets(
    score: Terms, temperature: float, all_gaps: Floats, order: Ints, all_u: Floats, thresholds: Floats, most: Floats,
    sets: Bools,
) -> None:  # fmt: skip
    """Sets under thresholds by class (2, levels, C) of scores that go by rank: sets (levels, n, C).

    order : the label at each rank; most : (levels,) the largest finite threshold.
    """
    n_classes, inverse = all_gaps.shape[1], 1.0 / temperature
    work = new_work(n_classes)
    for i in range(all_gaps.shape[0]):
        row, u, filled = weigh_and_open(all_gaps[i], inverse, work), all_u[i], 0
        for level in range(thresholds.shape[1]):
            inside = sets[level, i]
            for label in range(n_classes):
                inside[label] = thresholds[0, level, label] == np.inf
            filled = extend_to(score, row, filled, u, most[level])
            for r in range(min(filled, row.n)):
                label = order[i, r]
                q, v = thresholds[0, level, label], value_at(score, line_at(score, row, r), u)
                if v > most[level]:
                    break
                if v == q and q < np.inf:
                    inside[label] = tie_of(score, row, r, u) <= thresholds[1, level, label]
                elif v < q:
                    inside[label] = True


_L2_E, _ROUND, _LN2_A, _LN2_B = map(np.float32, (_LOG2_E, 1.5 * 2.0**23, 0.693359375, -2.12194440e-4))
_ONE, _HALF, _D3, _D4, _D5, _D6 = map(np.float32, (1.0, 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720))
_LOWEST, _NOTHING = map(np.float32, (-87.0, 0.0))


@inline
def near_exp(x: Any) -> Any:
    """e**x for x <= 0 in float32, to 3e-7 of it; 0 below e**-87. As `exp`, with half the width and no need of bits."""
    y = max(x, _LOWEST)
    shifted = y * _L2_E + _ROUND
    n = shifted - _ROUND
    r = (y - n * _LN2_A) - n * _LN2_B
    p = ((((_D6 * r + _D5) * r + _D4) * r + _D3) * r + _HALF) * r * r + r + _ONE
    bits = np.float32(p).view(np.int32) + (np.float32(shifted).view(np.int32) << np.int32(23))
    return np.int32(bits).view(np.float32) if x >= _LOWEST else _NOTHING


@inner
def near_weights(row: Block, largest: Any, inverse: Any, weights: Block) -> None:
    """Fill exp((z - largest) / T) in float32."""
    for j in range(row.shape[0]):
        weights[j] = near_exp((row[j] - largest) * inverse)


@inner
def near_set(weights: Block, low: Any, high: Any, inside: Bools) -> bool:
    """Mark the labels that are certainly inside; whether some may be inside or outside."""
    unsure = False
    for j in range(weights.shape[0]):
        inside[j] = weights[j] > high
        unsure |= (weights[j] > low) & (weights[j] <= high)
    return unsure


@entry
def near_sets(
    rows: Block, inverse: Any, groups: Ints, least: Floats, margin: float, sets: Bools, undecided: Bools
) -> None:
    """LAC sets of float32 rows, and the rows that need `share_sets`: a label is within the error of its threshold.

    least : (levels, G), the probability that a label must have; margin : the relative error of the probabilities.
    """
    weights = np.empty(rows.shape[1], dtype=np.float32)
    for i in range(rows.shape[0]):
        near_weights(rows[i], np.float32(largest_of(rows[i])), inverse, weights)
        total = lane_sum(weights)
        for level in range(least.shape[0]):
            at = least[level, groups[i]] * total
            low, high = np.float32(at * (1.0 - margin)), np.float32(at * (1.0 + margin))
            undecided[i] |= near_set(weights, low, high, sets[level, i])


@entry
def share_sets(
    score: Terms, temperature: float, rows: Floats, groups: Ints, thresholds: Floats, offsets: Floats, sets: Bools
) -> None:
    """Sets of scores that go by a label's own share (LAC, PAS), of unsorted rows: sets (levels, n, C).

    thresholds : (2, levels, G, 1 or C), of which each row's group names one; offsets (C,) : what PAS adds to a class.
    """
    n_classes, inverse = rows.shape[1], 1.0 / temperature
    weights, q, tie = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    step = 1 if thresholds.shape[3] > 1 else 0
    last_level, last_group = -1, -1
    for i in range(rows.shape[0]):
        row, g = rows[i], groups[i]
        top, second = top_two(row)
        others = weigh_row(row, top, second, inverse, weights)
        gap = second - row[top]
        scale, rest, share = label_scale(gap, inverse, others)
        log_total, zeros = math.log1p(rest), 0
        for j in range(n_classes):
            zeros += weights[j] == 0.0
        for level in range(thresholds.shape[1]):
            if level != last_level or g != last_group:
                for j in range(n_classes):
                    q[j], tie[j] = thresholds[0, level, g, j * step], thresholds[1, level, g, j * step]
                last_level, last_group = level, g
            inside, tied = sets[level, i], False
            if score.code == LAC:
                for j in range(n_classes):
                    v = 1.0 - share * weights[j]
                    inside[j] = v < q[j]
                    tied |= v == q[j]
                v = scale * rest if scale > 0.5 else 1.0 - scale
                inside[top] = v < q[top]
                tied |= v == q[top]
            else:
                for j in range(n_classes):
                    v = (log_total - scale_gap(row[j] - row[top], inverse)) + offsets[j]
                    inside[j] = v < q[j]
                    tied |= v == q[j]
            # The weight of the top class is 0 in this case; that of a second class may be because it is masked.
            if tied or score.keep_top or zeros > 1:
                settle_row(score, inverse, row, top, gap, others, weights, offsets, q, tie, inside)


@inner
def settle_row(
    score: Terms, inverse: float, row: Floats, top: int, gap: float, others: float, weights: Floats, offsets: Floats,
    q: Floats, tie: Floats, inside: Bools,
) -> None:  # fmt: skip
    """The labels of one row that are masked, kept, or tie with their threshold."""
    scale, rest, share = label_scale(gap, inverse, others)
    log_total = math.log1p(rest)
    left = log_rest(gap, inverse, others) - log_total
    for j in range(row.shape[0]):
        own = scale if j == top else share * weights[j]
        if row[j] == -np.inf:
            inside[j] = q[j] == np.inf
            continue
        if score.keep_top and j == top:
            inside[j] = True
            continue
        log_weight = scale_gap(row[j] - row[top], inverse)
        if score.code == LAC:
            v = scale * rest if j == top and scale > 0.5 else 1.0 - own
        else:
            v = (log_total - log_weight) + offsets[j]
        if v == q[j]:
            inside[j] = tie_break(score, 0 if j == top else 1, own, log_weight - log_total, left, 1.0) <= tie[j]


@entry
def value_matrix(score: Terms, temperature: float, all_gaps: Floats, all_u: Floats, out: Floats) -> None:
    """Values of every rank of sorted rows, (n, C); +inf for masked classes."""
    n_classes, inverse = all_gaps.shape[1], 1.0 / temperature
    work = new_work(n_classes)
    for i in range(all_gaps.shape[0]):
        row, filled = weigh_and_open(all_gaps[i], inverse, work), 0
        log_total = math.log1p(row.rest)
        while filled < row.n:
            filled = extend(row, filled)
        for r in range(n_classes):
            at = line_at(score, row, r)
            if score.code == PAS and not (score.keep_top and r == 0):
                at = Line(log_total - scale_gap(row.gaps[r], inverse), 0.0, at.steps, at.part)
            out[i, r] = value_at(score, at, all_u[i]) if r < row.n else np.inf


@entry
def rank_ties(
    score: Terms, temperature: float, all_gaps: Floats, all_u: Floats, rows: Ints, ranks: Ints, out: Floats
) -> None:
    """Tie-breaks of some ranks of sorted rows, rows[k] and ranks[k], given row by row."""
    work, inverse = new_work(all_gaps.shape[1]), 1.0 / temperature
    last, filled = -1, 0
    for k in range(rows.shape[0]):
        i, r = rows[k], ranks[k]
        gaps = all_gaps[i]
        if i != last:
            row = weigh_and_open(gaps, inverse, work)
            others, rest = row.others, row.rest  # what is taken out of a record in a loop is counted, each time
            last, filled = i, 0
        while filled <= r:
            filled = extend(row, filled)
        log_own, log_left = rank_logs(score, gaps, inverse, others, rest, r, work[2])
        tie = tie_break(score, r, work[0, r], log_own, log_left, all_u[i])
        out[k] = np.inf if gaps[r] == -np.inf else tie


@entry
def tail_logs(all_gaps: Floats, temperature: float, work: Floats, own: Floats, tail: Floats) -> None:
    """Logs of the share of each rank, and of all ranks below it, (n, C): one after the other, right but for rounding.

    Quicker than the sums that tie-breaks are made of, where many of them are wanted; work (C,).
    """
    inverse = 1.0 / temperature
    for i in range(all_gaps.shape[0]):
        gaps = all_gaps[i]
        _, rest, _ = label_scale(second_of(gaps), inverse, relative_mass(gaps[1:], inverse, work))
        log_total, mass = math.log1p(rest), 0.0
        for r in range(gaps.shape[0] - 1, -1, -1):
            tail[i, r] = -np.inf if mass == 0.0 else scale_gap(gaps[r + 1], inverse) + math.log(mass) - log_total
            own[i, r] = scale_gap(gaps[r], inverse) - log_total
            if gaps[r] > -np.inf:
                mass = 1.0 if mass == 0.0 else 1.0 + exp((gaps[r + 1] - gaps[r]) * inverse) * mass


# ---- counts over trials ----------------------------------------------------------------------------------------------


@inline
def is_linear(score: Terms, at: Line) -> bool:
    """Whether the value of a label is low + u own and a constant, whatever u is."""
    return at.part == 0.0 and (at.own == 0.0 or at.low + at.own < bound_of(score.code))


@inline
def add_label(score: Terms, at: Line, u: Floats, q: Floats, out: Floats) -> bool:
    """Add 1 to `out` in each trial in which a label is below its threshold; whether it ties with one.

    Where u is NaN the row is not evaluated, and the label does neither: the row may have set the threshold.
    """
    tied = False
    for t in range(out.shape[0]):
        v = value_at(score, at, u[t])
        out[t] += 1.0 if v < q[t] else 0.0
        tied |= v == q[t]
    return tied


@inline
def add_two(score: Terms, a: Line, q: Floats, b: Line, q_b: Floats, u: Floats, out: Floats) -> bool:
    """The same for two labels with linear values at once: what is read is read once."""
    tied, low, own, added = False, a.low, a.own, score.unit * a.steps
    low_b, own_b, added_b = b.low, b.own, score.unit * b.steps
    for t in range(out.shape[0]):
        v, w = low + u[t] * own + added, low_b + u[t] * own_b + added_b
        out[t] += (1.0 if v < q[t] else 0.0) + (1.0 if w < q_b[t] else 0.0)
        tied |= (v == q[t]) | (w == q_b[t])
    return tied


@inline
def few_sizes(score: Terms, row: Row, first: int, stop: int, u: Floats, q: Floats, size: Floats) -> bool:
    """Sizes in all trials at once where ranks first .. stop are undecided; whether a value ties."""
    tied, r = False, first
    size[:] = first
    while r < stop:
        a = line_at(score, row, r)
        if r + 1 < stop and is_linear(score, a) and is_linear(score, line_at(score, row, r + 1)):
            tied |= add_two(score, a, q, line_at(score, row, r + 1), q, u, size)
            r += 2
        else:
            tied |= add_label(score, a, u, q, size)
            r += 1
    return tied


@inner
def many_sizes(
    score: Terms, row: Row, first: int, n: int, n_classes: int, u: Floats, q: Floats, tie: Floats, ascending: Ints,
    size: Floats,
) -> None:  # fmt: skip
    """Sizes in all trials: thresholds are taken in ascending order, so the ranks inside at u = 1 only grow.

    At most one label depends on u: the first that is outside at u = 1.
    """
    r = crossing(score, row, first, n, 1.0, q[ascending[0]], tie[ascending[0]], True)
    at, end, log_own, log_left, last, fresh = Line(0.0, 0.0, 0.0, 0.0), 0.0, 0.0, np.nan, 0.0, True
    for k in range(u.shape[0]):
        t = ascending[k]
        while r < n:
            if fresh:
                at = line_at(score, row, r)
                end, fresh, log_left = value_at(score, at, 1.0), False, np.nan
            if end == q[t] and np.isnan(log_left):
                log_own, log_left = tie_logs(score, row, r)
                last = tie_break(score, r, row.own[r], log_own, log_left, 1.0)
            if end > q[t] or (end == q[t] and last > tie[t]):
                break
            r, fresh = r + 1, True
        size[t] = r if q[t] < np.inf else n_classes
        if r < n:
            v = value_at(score, at, u[t])
            if v == q[t] and np.isnan(log_left):
                log_own, log_left = tie_logs(score, row, r)
                last = tie_break(score, r, row.own[r], log_own, log_left, 1.0)
            inside = v < q[t] or (v == q[t] and tie_break(score, r, row.own[r], log_own, log_left, u[t]) <= tie[t])
            size[t] += 1.0 if inside else 0.0


@inline
def add_sizes(
    size: Floats, least: int, seen: Floats, wanted: Ints, cells: Ints, k: int, sizes: Floats, empty: Floats,
    misses: Counts,
) -> None:  # fmt: skip
    """Count a row by the size of its set in each trial, of which `least` is the smallest."""
    for t in range(size.shape[0]):
        sizes[k, t] += seen[t] * size[t]
    if least == 0:
        for t in range(size.shape[0]):
            empty[k, t] += seen[t] if size[t] == 0.0 else 0.0
    for p in range(wanted.shape[0]):
        if wanted[p] > least:
            cell, needed = cells[p], float(wanted[p])
            for t in range(size.shape[0]):
                misses[k, cell, t] += np.int32(seen[t] if size[t] < needed else 0.0)


@inline
def add_same_size(
    size: int, seen: Floats, wanted: Ints, cells: Ints, k: int, sizes: Floats, empty: Floats, misses: Counts
) -> None:
    """Count a row whose set has the same size in all trials."""
    if size > 0:
        for t in range(seen.shape[0]):
            sizes[k, t] += size * seen[t]
    else:
        for t in range(seen.shape[0]):
            empty[k, t] += seen[t]
    for p in range(wanted.shape[0]):
        if wanted[p] > size:
            cell = cells[p]
            for t in range(seen.shape[0]):
                misses[k, cell, t] += np.int32(seen[t])


@inline
def score_of(codes: Ints, parameters: Floats, keep: Bools, m: int) -> Terms:
    """One of several scores: codes, keep (M,), parameters (M, 3)."""
    return Terms(codes[m], parameters[m, 0], parameters[m, 1], parameters[m, 2], keep[m])


@entry
def count_sets(
    codes: Ints, parameters: Floats, keep: Bools, temperatures: Floats, all_gaps: Floats, all_others: Floats,
    all_u: Floats, all_seen: Floats, wanted: Ints, cells: Ints, thresholds: Floats, ascending: Ints,
    sizes: Floats, empty: Floats, misses: Counts,
) -> None:  # fmt: skip
    """Add what the sets of these rows hold, for every score, temperature, level and trial.

    codes, parameters, keep : see `score_of`; all_others (T, n) : see `label_parts`; all_u, all_seen (n, trials) : u
    and 1 where the row is evaluated, else NaN and 0; wanted, cells (n, Q) : a set with fewer labels than wanted is
    counted in the cell; thresholds (2, M T alphas, trials), and ascending their order. Added to: sizes, empty
    (M T alphas, trials), misses (M T alphas, cells, trials).
    """
    n_rows, n_classes = all_gaps.shape
    trials = all_u.shape[1]
    work, size = new_work(n_classes), np.empty(trials)
    n_levels = thresholds.shape[1] // (codes.shape[0] * temperatures.shape[0])
    for j in range(temperatures.shape[0]):
        inverse = 1.0 / temperatures[j]
        for i in range(n_rows):
            row, filled = open_row(all_gaps[i], inverse, all_others[j, i], work), 0
            u, seen, mine, places = all_u[i], all_seen[i], wanted[i], cells[i]
            for m in range(codes.shape[0]):
                score = score_of(codes, parameters, keep, m)
                for level in range(n_levels):
                    k = (m * temperatures.shape[0] + j) * n_levels + level
                    least, most = thresholds[0, k, ascending[k, 0]], thresholds[0, k, ascending[k, trials - 1]]
                    filled = extend_to(score, row, filled, 0.0, most)
                    known = min(filled, row.n)
                    first = crossing(score, row, 0, known, 1.0, least, 0.0, False)
                    stop = first
                    while stop < known and stop - first <= _FEW:
                        at = line_at(score, row, stop)
                        if value_at(score, at, 0.0) > most:
                            break
                        # saturated values tie, which a scan settles
                        stop += 1 if at.low < bound_of(score.code) else _FEW + 1
                    if stop == first and most < np.inf:
                        add_same_size(first, seen, mine, places, k, sizes, empty, misses)
                        continue
                    few = stop - first <= _FEW and most < np.inf
                    if not few or few_sizes(score, row, first, stop, u, thresholds[0, k], size):
                        q, tie = thresholds[0, k], thresholds[1, k]
                        many_sizes(score, row, first, known, n_classes, u, q, tie, ascending[k], size)
                    add_sizes(size, first, seen, mine, places, k, sizes, empty, misses)


@inner
def add_tied(score: Terms, row: Row, at: Line, r: int, u: Floats, q: Floats, tie: Floats, out: Floats) -> None:
    """Add 1 where the label at rank r ties with its threshold, and its tie-break lets it in."""
    log_own, log_left = tie_logs(score, row, r)
    for t in range(u.shape[0]):
        if value_at(score, at, u[t]) == q[t]:
            out[t] += 1.0 if tie_break(score, r, row.own[r], log_own, log_left, u[t]) <= tie[t] else 0.0


@inline
def count_label(score: Terms, row: Row, at: Line, r: int, u: Floats, q: Floats, tie: Floats, out: Floats) -> None:
    """Add 1 to `out` in each trial in which the label at rank r is in the set."""
    if add_label(score, at, u, q, out):
        add_tied(score, row, at, r, u, q, tie, out)


@entry
def class_ranges(q: Floats, infinite: Floats, lowest: Floats, highest: Floats, reach: Floats, mean: Floats) -> None:
    """What `count_class_sets` looks up of thresholds by class, (K, C, trials), in which NaN takes the place of +inf.

    infinite (K, trials) : classes with +inf; lowest, highest (K, C) : range of a class's thresholds over trials, lowest
    being -inf where one is +inf; reach (K,) : the largest of all but +inf; mean (K, trials) : of finite ones, or the
    largest if there are none.
    """
    finite = np.empty(q.shape[2])
    for k in range(q.shape[0]):
        reach[k] = -np.inf
        infinite[k], mean[k], finite[:] = 0.0, 0.0, 0.0
        for c in range(q.shape[1]):
            least, most, some = np.inf, -np.inf, False
            for t in range(q.shape[2]):
                x = q[k, c, t]
                without = x == np.inf
                infinite[k, t] += 1.0 if without else 0.0
                mean[k, t] += x if abs(x) < np.inf else 0.0
                finite[t] += 1.0 if abs(x) < np.inf else 0.0
                least, most = min(least, x), max(most, -np.inf if without else x)
                some |= without
                q[k, c, t] = np.nan if without else x
            lowest[k, c], highest[k, c] = -np.inf if some else least, most
            reach[k] = max(reach[k], most)
        for t in range(q.shape[2]):
            none = np.inf if infinite[k, t] > 0.0 else -np.inf
            mean[k, t] = mean[k, t] / finite[t] if finite[t] > 0.0 else none


@entry
def count_class_sets(
    codes: Ints, parameters: Floats, keep: Bools, temperatures: Floats, all_gaps: Floats, all_others: Floats,
    all_order: Ints, labels: Ints, all_u: Floats, all_seen: Floats, least: Ints, of_label: Bools, cells: Ints,
    thresholds: Floats, infinite: Floats, lowest: Floats, highest: Floats, reach: Floats,
    sizes: Floats, empty: Floats, misses: Counts,
) -> None:  # fmt: skip
    """The same with thresholds by class, (2, M, T, alphas, C, trials), and their `class_ranges`.

    all_order (n, C) : the label at each rank; least, of_label (Q,) : how many labels a set must have, and whether the
    row's own must be among them.
    """
    n_rows, n_classes = all_gaps.shape
    trials = all_u.shape[1]
    work, size, hit = new_work(n_classes), np.empty(trials), np.empty(trials)
    for j in range(temperatures.shape[0]):
        inverse = 1.0 / temperatures[j]
        for i in range(n_rows):
            row, order = open_row(all_gaps[i], inverse, all_others[j, i], work), all_order[i]
            u, seen = all_u[i], all_seen[i]
            filled, place, label = 0, 0, labels[i]
            while order[place] != label:
                place += 1
            for m in range(codes.shape[0]):
                score = score_of(codes, parameters, keep, m)
                for level in range(reach.shape[2]):
                    q, tie = thresholds[0, m, j, level], thresholds[1, m, j, level]
                    most, everywhere, held, first = reach[m, j, level], 0.0, -1, Line(0.0, 0.0, 0.0, 0.0)
                    for t in range(trials):
                        size[t], hit[t] = infinite[m, j, level, t], 0.0
                    filled = extend_to(score, row, filled, 0.0, most)
                    for r in range(min(filled, row.n)):
                        at = line_at(score, row, r)
                        start = value_at(score, at, 0.0)
                        if start > most:
                            break  # and so do all that rank lower
                        if r == place or start > highest[m, j, level, order[r]]:
                            continue
                        if value_at(score, at, 1.0) < lowest[m, j, level, order[r]]:
                            everywhere += 1.0
                            continue
                        if at.low >= bound_of(score.code):
                            at = Line(1.0, 0.0, at.steps, at.part)  # saturated, whatever u is
                        if not is_linear(score, at):
                            count_label(score, row, at, r, u, q[order[r]], tie[order[r]], size)
                        elif held < 0:
                            held, first = r, at
                        else:
                            if add_two(score, first, q[order[held]], at, q[order[r]], u, size):
                                add_tied(score, row, first, held, u, q[order[held]], tie[order[held]], size)
                                add_tied(score, row, at, r, u, q[order[r]], tie[order[r]], size)
                            held = -1
                    if held >= 0:
                        count_label(score, row, first, held, u, q[order[held]], tie[order[held]], size)
                    if place < row.n:
                        while filled <= place:
                            filled = extend(row, filled)
                        count_label(score, row, line_at(score, row, place), place, u, q[label], tie[label], hit)
                    for t in range(trials):
                        size[t] += hit[t] + everywhere
                        hit[t] += 1.0 if np.isnan(q[label, t]) else 0.0
                        sizes[m, j, level, t] += seen[t] * size[t]
                        empty[m, j, level, t] += seen[t] if size[t] == 0.0 else 0.0
                    for k in range(cells.shape[1]):
                        needed, others_do, cell = float(least[k]), 0.0 if of_label[k] else 1.0, cells[i, k]
                        for t in range(trials):
                            inside = (size[t] >= needed) & (hit[t] + others_do > 0.0)
                            misses[m, j, level, cell, t] += np.int32(0.0 if inside else seen[t])


# ---- u integrated out ------------------------------------------------------------------------------------------------


@inline
def share_below(at: float, start: float, slope: float, most: float) -> float:
    """Share of u in [0, most] at which start + u slope is at most `at`."""
    return min(max((at - start) / slope, 0.0), most)


@inner
def share_inside(
    score: Terms, randomized: bool, rank: int, at: Line, own: float, log_own: float, log_left: float, q: float,
    tie: float,
) -> float:  # fmt: skip
    """Share of u in [0, 1] with which a label has a pair of at most (q, tie); see `tie_logs`."""
    bound, start, slope = bound_of(score.code), at.low + score.unit * at.steps, at.own + score.unit * at.part
    if q == np.inf or at.low == -np.inf:
        return 1.0
    end = value_at(score, at, 1.0)
    if end < q:
        return 1.0
    if not randomized or slope <= 0.0:
        return 1.0 if end == q and tie_break(score, rank, own, log_own, log_left, 1.0) <= tie else 0.0
    if bound == np.inf or at.low + at.own < bound:
        return share_below(q, start, slope, 1.0)
    below = min(max((bound - at.low) / at.own, 0.0), 1.0)  # the share of u whose value is not saturated
    if at.part > 0.0:  # the value still rises where its mass is saturated
        share = min(max((q - 1.0 - score.unit * at.steps) / (score.unit * at.part), 0.0), 1.0)
        return share if share > below else share_below(q, start, slope, below)
    if q < 1.0 + score.unit * at.steps:
        return share_below(q, start, slope, below)
    outside = math.exp(min(-tie - log_own, 709.0)) - math.exp(min(log_left - log_own, 709.0))
    return min(max(1.0 - outside, below), 1.0)


@entry
def expected_hits(
    score: Terms, randomized: bool, inverse: float, ranks: Ints, gap: Floats, second: Floats, parts: Floats,
    lines: Floats, thresholds: Floats, out: Floats,
) -> None:  # fmt: skip
    """Probability over u that each label is in its set, under thresholds (2, K): out (K, n); see `label_terms`."""
    for i in range(ranks.shape[0]):
        at = Line(lines[0, i], lines[1, i], lines[2, i], lines[3, i])
        log_own, log_left = label_logs(score, inverse, gap[i], second[i], parts[2, i], parts[3, i])
        for k in range(thresholds.shape[1]):
            q, tie = thresholds[0, k], thresholds[1, k]
            if at.low == np.inf:
                out[k, i] = 1.0 if q == np.inf else 0.0
            else:
                out[k, i] = share_inside(score, randomized, ranks[i], at, parts[1, i], log_own, log_left, q, tie)


@entry
def expected_sizes(
    score: Terms, randomized: bool, temperatures: Floats, all_gaps: Floats, all_others: Floats, thresholds: Floats,
    out: Floats,
) -> None:  # fmt: skip
    """Set sizes averaged over u under thresholds (2, T, K): out (T, K, n); all_others (T, n)."""
    n_rows, n_classes = all_gaps.shape
    work = new_work(n_classes)
    for j in range(temperatures.shape[0]):
        inverse = 1.0 / temperatures[j]
        for i in range(n_rows):
            row, filled = open_row(all_gaps[i], inverse, all_others[j, i], work), 0
            for k in range(thresholds.shape[2]):
                q, tie = thresholds[0, j, k], thresholds[1, j, k]
                if q == np.inf:
                    out[j, k, i] = n_classes
                    continue
                filled = extend_to(score, row, filled, 0.0, q)
                known = min(filled, row.n)
                r = crossing(score, row, 0, known, 1.0, q, tie, True)
                out[j, k, i] = r
                if randomized and score.code != LAC and r < known:
                    at, log_own, log_left = line_at(score, row, r), 0.0, np.nan
                    if bound_of(score.code) < np.inf and at.low + at.own >= SATURATED:
                        log_own, log_left = tie_logs(score, row, r)
                    out[j, k, i] += share_inside(score, randomized, r, at, row.own[r], log_own, log_left, q, tie)


@entry
def add_expected_misses(hits: Floats, labels: Ints, seen: Bools, out: Ints) -> None:
    """Add 1 - hit of evaluated rows by class, in units of 2**-28: hits (trials, n), out (C, trials)."""
    for i in range(labels.shape[0]):
        for t in range(hits.shape[0]):
            if seen[i, t]:
                out[labels[i], t] += np.int64((1.0 - hits[t, i]) * 2.0**28 + 0.5)


# ---- u, and keys of rows ---------------------------------------------------------------------------------------------

# What the hash is made of; the export program writes the same steps for other engines.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST_SHIFT, FIRST_FACTOR = np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)
SECOND_SHIFT, SECOND_FACTOR = np.uint64(27), np.uint64(0x94D049BB133111EB)
LAST_SHIFT = np.uint64(31)
UNIT_SHIFT, UNIT = np.uint64(12), 2.0**-52  # u is made of the top 52 bits
STEPS = 157.0  # of the key in one unit of logits
OFFSET = 0.309  # puts gaps of 0, and other round numbers, inside a step and not on its edge
WIDEST = 2.0**30  # larger gaps count as this one: the key stays a whole number that float64 holds exactly
N_KEYS = 3


@inner
def chain(state: np.uint64, key: np.uint64) -> np.uint64:
    """The next state of a chain of hashes: SplitMix64's finaliser (Steele, Lea and Flood 2014)."""
    x = (state ^ key) + GOLDEN
    x = (x ^ (x >> FIRST_SHIFT)) * FIRST_FACTOR
    x = (x ^ (x >> SECOND_SHIFT)) * SECOND_FACTOR
    return x ^ (x >> LAST_SHIFT)


@inner
def unit_number(state: np.uint64) -> float:
    """A number in (0, 1) from the top 52 bits, never 0 or 1."""
    return (np.float64(state >> UNIT_SHIFT) + 0.5) * UNIT


@entry
def row_uniforms(gaps: Floats, start: np.uint64, seed: np.uint64, out: Floats) -> None:
    """The u of each sorted row, from the seed and how far the next three classes are below the top one."""
    for i in range(gaps.shape[0]):
        state = chain(start, seed)
        for place in range(1, N_KEYS + 1):
            key = np.uint64(0)
            if place < gaps.shape[1] and gaps[i, place] > -np.inf:
                gap = min(-gaps[i, place], WIDEST)
                key = np.uint64(np.int64(np.floor(STEPS * gap + OFFSET)) + 1)
            state = chain(state, key)
        out[i] = unit_number(state)


@entry
def id_uniforms(keys: Keys, start: np.uint64, seed: np.uint64, out: Floats) -> None:
    """The u of each id, from the seed."""
    for i in range(keys.shape[0]):
        out[i] = unit_number(chain(chain(start, seed), keys[i]))


@entry
def fill_trial_keys(numbers: Ints, start: np.uint64, seed: np.uint64, out: Keys) -> None:
    """The key of each trial."""
    for t in range(numbers.shape[0]):
        out[t] = chain(chain(start, seed), np.uint64(numbers[t]))


@entry
def trial_uniforms(keys: Keys, first_row: int, out: Floats) -> None:
    """The u of consecutive rows in every trial: out (n, trials)."""
    for i in range(out.shape[0]):
        for t in range(keys.shape[0]):
            out[i, t] = unit_number(chain(keys[t], np.uint64(first_row + i)))


@entry
def some_trial_uniforms(keys: Keys, rows: Counts, out: Floats) -> None:
    """The u of rows[t, j] in trial t."""
    for t in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[t, j] = unit_number(chain(keys[t], np.uint64(rows[t, j])))


@entry
def fill_largest(rows: Floats, values: Floats, places: Ints) -> None:
    """The largest entries of each row, descending, and their places: (n, K) each; of equal ones the first.

    One pass: an entry is compared with the last that is kept, and seldom with more.
    """
    top = values.shape[1]
    for i in range(rows.shape[0]):
        kept, place, n = values[i], places[i], 0
        for c in range(rows.shape[1]):
            z = rows[i, c]
            if n == top and z <= kept[top - 1]:
                continue
            n = min(n + 1, top)
            p = n - 1
            while p > 0 and kept[p - 1] < z:
                kept[p] = kept[p - 1]
                place[p] = place[p - 1]
                p -= 1
            kept[p] = z
            place[p] = c


@entry
def fill_row_keys(values: Floats, classes: Ints, start: np.uint64, shift: np.uint64, out: Keys) -> None:
    """A key for each row from its largest entries and their classes, (n, K) each."""
    for i in range(values.shape[0]):
        state = start
        for j in range(values.shape[1]):
            state = chain(chain(state, np.uint64(bits_of(values[i, j]))), np.uint64(classes[i, j]))
        out[i] = state >> shift


# ---- small loops -----------------------------------------------------------------------------------------------------


@entry
def log_left_out(rows: Floats, last: Floats, n_tied: Ints, temperatures: Floats, work: Floats, out: Floats) -> None:
    """Log sum e**(z / T) of the logits below the last that is kept, and of those like it that are not: out (n, S).

    work (2, C).
    """
    for i in range(rows.shape[0]):
        end, n, highest = last[i], 0, -np.inf
        for z in rows[i]:
            if -np.inf < z < end:
                work[0, n] = z
                highest = max(highest, z)
                n += 1
        tied = 0 if end == -np.inf else n_tied[i]
        highest = end if tied > 0 else highest
        weights = work[1, :n]
        for s in range(temperatures.shape[0]):
            fill_weights(work[0, :n], highest, 1.0 / temperatures[s], weights)
            total = lane_sum(weights) + tied
            out[i, s] = math.log(total) + highest / temperatures[s] if total > 0.0 else -np.inf


@entry
def add_bins(probs: Floats, labels: Ints, edges: Floats, unit: float, in_bin: Ints, mass: Ints, hits: Ints) -> None:
    """Add rows (n, C) to the counts by class and bin, (C, B) each; mass counts probabilities in units.

    Bin b is open below and closed above: edges[b] < p <= edges[b + 1]; a probability of 0 goes to the first.
    """
    last = edges.shape[0] - 2
    for i in range(probs.shape[0]):
        for c in range(probs.shape[1]):
            p = min(probs[i, c], 1.0)
            b = 0
            if p > edges[1]:
                b = min(int(p * (last + 1)), last)  # right but for rounding
                while p <= edges[b]:
                    b -= 1
                while p > edges[b + 1]:
                    b += 1
            in_bin[c, b] += 1
            mass[c, b] += np.int64(p / unit + 0.5)
            hits[c, b] += labels[i] == c


@inner
def select(values: Floats, n: int, k: int) -> None:
    """Put the k smallest of the first n values first (Hoare 1961)."""
    low, high, place = 0, n - 1, k - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            break


_BUCKETS = 256  # into which values from 0 to 1 are counted; one more on either side
N_COUNTS = _BUCKETS + 3


@inner
def bucket_of(value: float) -> int:
    """Where a value from 0 to 1 is counted; others beyond all of them."""
    return min(max(int(np.floor(value * _BUCKETS)) + 1, 0), _BUCKETS + 2)


@inner
def extreme_sum(values: Floats, kept: int, smallest: bool, work: Floats, counts: Ints) -> float:
    """Sum of the `kept` smallest, or largest, of values from 0 to 1: any order of the values gives the same bits.

    Counting by buckets finds the one that the last of them is in: coverages of classes tie by the hundred, which a
    partition takes longest for. work (C,), counts (N_COUNTS,).
    """
    counts[:] = 0
    for c in range(values.shape[0]):
        counts[bucket_of(values[c])] += 1
    step = 1 if smallest else -1
    last, left = (0 if smallest else _BUCKETS + 2), kept
    while counts[last] < left:
        left -= counts[last]
        last += step
    n = 0
    for c in range(values.shape[0]):
        b = bucket_of(values[c])
        work[n] = values[c]
        n += b == last
        values[c] = values[c] if (b - last) * step < 0 else 0.0
    if left < n:
        select(work, n, left if smallest else n - left)
    return fixed_sum(values) + fixed_sum(work[:left] if smallest else work[n - left : n])


@entry
def extreme_means(values: Floats, count: int, smallest: bool, work: Floats, counts: Ints, out: Floats) -> None:
    """Mean of the `count` smallest, or largest, values of each row, NaN left out; work (2, C), counts (N_COUNTS,).

    With fewer values it is the mean of all, and NaN with none.
    """
    some = work[0]
    for i in range(values.shape[0]):
        n = 0
        for c in range(values.shape[1]):
            n += not np.isnan(values[i, c])
        far = 0.0 if count >= n else 2.0 if smallest else -1.0
        for c in range(values.shape[1]):
            some[c] = far if np.isnan(values[i, c]) else values[i, c]
        if count >= n:
            out[i] = fixed_sum(some) / n if n > 0 else np.nan
        else:
            out[i] = extreme_sum(some, count, smallest, work[1], counts) / count


@entry
def class_summaries(
    hits: Floats, rows: Ints, promised: float, n_top: int, n_worst: int, work: Floats, counts: Ints, out: Floats
) -> None:
    """What coverage by class (n, C) shows, of classes with rows: out (6, n); work (3, C), counts (N_COUNTS,).

    Mean of the n_top largest gaps, of all gaps, and of squared gaps; mean of the n_worst smallest coverages, and of
    all; share of classes below what was promised. NaN where no class has rows.
    """
    coverage, gap, square, n_classes = work[0], work[1], work[2], hits.shape[1]
    for i in range(hits.shape[0]):
        n, below, hit, count = 0, 0, hits[i], rows[i]
        for c in range(n_classes):
            present, share = count[c] > 0, hit[c] / float(max(count[c], 1))
            coverage[c] = share if present else 0.0
            gap[c] = abs(share - promised) if present else 0.0
            square[c] = gap[c] * gap[c]
            n += present
            below += present and share < promised
        if n == 0:
            out[:, i] = np.nan
            continue
        out[1, i], out[2, i], out[4, i] = fixed_sum(gap) / n, fixed_sum(square) / n, fixed_sum(coverage) / n
        out[5, i] = below / n
        for c in range(n_classes):  # absent classes beyond all others, on the far side
            gap[c] = gap[c] if count[c] > 0 else -1.0
            coverage[c] = coverage[c] if count[c] > 0 else 2.0
        top, worst = min(n_top, n), min(n_worst, n)
        out[0, i] = extreme_sum(gap, top, False, square, counts) / top if top < n else out[1, i]
        out[3, i] = extreme_sum(coverage, worst, True, square, counts) / worst if worst < n else out[4, i]


@entry
def add_responsibilities(
    probs: Floats, ratio: Floats, count: Floats, rounder: float, work: Floats, out: Floats
) -> None:
    """Add rows (n, C), of which a guess has so many each (n, guesses), by the class they come from: out (C, guesses).

    Rows that no class explains add nothing. What is added is rounded by `rounder`, so that sums are exact; work
    (2, guesses).
    """
    n_guesses, total, factor = ratio.shape[1], work[0], work[1]
    for i in range(probs.shape[0]):
        for g in range(n_guesses):
            total[g] = 0.0
        for y in range(probs.shape[1]):
            for g in range(n_guesses):
                total[g] += probs[i, y] * ratio[y, g]
        for g in range(n_guesses):
            factor[g] = count[i, g] / total[g] if total[g] > 0.0 else 0.0
        for y in range(probs.shape[1]):
            for g in range(n_guesses):
                share = probs[i, y] * ratio[y, g] * factor[g]
                out[y, g] += (share + rounder) - rounder


@entry
def fill_projections(rows: Floats, columns: Floats, sums: Floats, out: Floats) -> None:
    """Project rows on the columns of an array (d, D): out (D, n). Each sum is taken in the order of the features."""
    for i in range(rows.shape[0]):
        sums[:] = 0.0
        for j in range(rows.shape[1]):
            for d in range(sums.shape[0]):
                sums[d] += rows[i, j] * columns[j, d]
        for d in range(sums.shape[0]):
            out[d, i] = sums[d]


@inner
def is_steeper(misses: int, rows: int, than_misses: int, than_rows: int) -> bool:
    """Whether misses / rows is larger than the other; a window of no rows is less steep than any."""
    return misses * than_rows > than_misses * rows if than_rows > 0 else True


@inner
def count_points(value: Floats, order: Counts, missed: Bools, rows: Ints, misses: Ints, ends: Floats) -> int:
    """Count along a direction; rows of equal value share a point. Returns the number of points after the first."""
    last, so_far = 0, 0
    rows[0], misses[0] = 0, 0
    for k in range(order.shape[0]):
        if last == 0 or value[k] != ends[last]:
            last += 1
            ends[last] = value[k]
        so_far += missed[order[k]]
        rows[last], misses[last] = k + 1, so_far
    return last


@inner
def steepest_window(rows: Ints, misses: Ints, hull: Ints, last: int, least: int) -> tuple[int, int, int, int]:
    """Start, stop, rows and misses of the window of at least `least` rows with the largest share of misses.

    Of equal ones the first. Possible beginnings are kept as a lower convex hull (Chung and Lu 2005).
    """
    front, back, beginning = 0, 0, 0
    best_start, best_stop, best_rows, best_misses = 0, 0, 0, 0
    for stop in range(1, last + 1):
        while rows[beginning] <= rows[stop] - least:  # one more place to begin at
            while back - front >= 2:
                a, b = hull[back - 2], hull[back - 1]
                if (misses[b] - misses[a]) * (rows[beginning] - rows[b]) < (misses[beginning] - misses[b]) * (
                    rows[b] - rows[a]
                ):
                    break
                back -= 1  # above the line from a to the new one: never the better beginning
            hull[back] = beginning
            back += 1
            beginning += 1
        if back == front:
            continue
        while back - front >= 2:  # what is less steep now can be steepest later only for a slope found before
            a, b = hull[front], hull[front + 1]
            if is_steeper(
                misses[stop] - misses[a], rows[stop] - rows[a], misses[stop] - misses[b], rows[stop] - rows[b]
            ):
                break
            front += 1
        a = hull[front]
        if is_steeper(misses[stop] - misses[a], rows[stop] - rows[a], best_misses, best_rows):
            best_start, best_stop = a, stop
            best_rows, best_misses = rows[stop] - rows[a], misses[stop] - misses[a]
    return best_start, best_stop, best_rows, best_misses


@entry
def worst_window(value: Floats, order: Counts, missed: Bools, least: int) -> tuple[int, float, float, int, int]:
    """The slab that holds at least `least` rows with the largest share of misses: direction, ends, rows, misses.

    value, order (D, n) : rows as they stand along each direction; missed (n,). Of equal ones the first: by direction,
    then by where it ends. All numbers are whole, so shares are compared exactly; no rows if there is none.
    """
    n = order.shape[1]
    rows, misses, hull = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    ends = np.empty(n + 1)
    direction, low, high, best_rows, best_misses = 0, 0.0, 0.0, 0, 0
    for d in range(order.shape[0]):
        last = count_points(value[d], order[d], missed, rows, misses, ends)
        start, stop, some, wrong = steepest_window(rows, misses, hull, last, least)
        if some > 0 and is_steeper(wrong, some, best_misses, best_rows):
            direction, low, high, best_rows, best_misses = d, ends[start + 1], ends[stop], some, wrong
    return direction, low, high, best_rows, best_misses


# ---- bets against a promise ------------------------------------------------------------------------------------------
#
# A bet multiplies its wealth by a factor that has expectation one while the promise holds. Wealth is kept as a
# logarithm, so that nothing overflows and a bet that has lost all but 1e-1000 of its stake can still win it back.
#
# Bets that start once, at the first row, win most where the promise never held. Bets that start at every row find a
# change after a long good time, in two ways. As an e-process, a mixture over the starts, the stakes of all rows sum to
# one: row t gets the weight w_t, and M_t = (M_(t - 1) + w_t) L_t. As a detector, every row gets the stake one: R_t =
# (R_(t - 1) + 1) L_t, and R starts again from zero when it reaches the run length. The e-process is the wealth of all
# bets of the first two kinds and the stakes that later rows will get.

START_ROWS = 1000.0
"""Rows after which the stakes left for later starts have fallen to 1/sqrt(2)."""

NO_WEALTH = -1e300
"""Stands for the logarithm of 0, which JSON cannot hold."""


class Wealth(NamedTuple):
    """Log-wealth of bets; kernels write into it.

    once : bets that started at the first row; mixture : bets that start at every row, as an e-process; detector : the
    same as a detector; stake : what all bets of the mixture get together, over all rows.
    """

    once: Floats
    mixture: Floats
    detector: Floats
    stake: float


class CoverageBets(NamedTuple):
    """Bets on hits, against Beta(above, below): those that start once expect Beta(once_above, once_below).

    odds : what a bet that starts at every row expects: odds of a hit that are so many times those promised for the row.
    """

    above: float
    below: float
    once_above: Floats
    once_below: Floats
    odds: Floats


class RankBets(NamedTuple):
    """Bets on p-values p: factors 1 + line (2p - 1) + bend (6p^2 - 6p + 1)."""

    line: Floats
    bend: Floats


class Track(NamedTuple):
    """What happens at each row: the logarithm of the e-process after it, and whether the detector gave an alarm."""

    log_e: Floats
    alarm: Bools


@inner
def left_to_start(rows: int) -> float:
    """Share of the stakes that rows after the first so many get."""
    return 1.0 / math.sqrt(1.0 + rows / START_ROWS)


@inner
def _log_sum(log_wealth: Floats, more: float) -> float:
    """Logarithm of the wealth of all bets and exp(more) together."""
    most = more
    for i in range(log_wealth.shape[0]):
        most = max(most, log_wealth[i])
    total = math.exp(more - most)
    for i in range(log_wealth.shape[0]):
        total += math.exp(log_wealth[i] - most)
    return float(most + math.log(total))


@inner
def _start_and_bet(log_wealth: Floats, i: int, log_stake: float, log_factor: float) -> None:
    """Add the stake of this row to a bet, and then multiply by its factor."""
    held = log_wealth[i]
    log_wealth[i] = max(held, log_stake) + math.log1p(math.exp(-abs(held - log_stake))) + log_factor


@inner
def _take_stock(wealth: Wealth, left: float, log_run_length: float, track: Track, at: int) -> None:
    """The wealth of all bets after a row; the detector starts again after an alarm."""
    track.log_e[at] = _log_sum(wealth.mixture, _log_sum(wealth.once, math.log(wealth.stake * left)))
    track.alarm[at] = _log_sum(wealth.detector, NO_WEALTH) >= log_run_length
    if track.alarm[at]:
        wealth.detector[:] = NO_WEALTH


@entry
def bet_on_hits(
    hit: Bools, seen: Ints, bets: CoverageBets, wealth: Wealth, log_run_length: float, track: Track
) -> None:
    """Bet on each row in turn; seen: rows and hits before the first of them, and after the last on return."""
    n_starts = wealth.mixture.shape[0]
    left, log_share = left_to_start(seen[0]), -math.log(n_starts)
    for t in range(hit.shape[0]):
        rows, hits, yes = seen[0], seen[1], hit[t]
        p = (bets.above + hits) / (bets.above + bets.below + rows)
        promised = p if yes else (bets.below + (rows - hits)) / (bets.above + bets.below + rows)
        for i in range(wealth.once.shape[0]):
            above, below = bets.once_above[i] + hits, bets.once_below[i] + (rows - hits)
            wealth.once[i] += math.log((above if yes else below) / ((above + below) * promised))
        start, left = left, left_to_start(rows + 1)
        log_stake = math.log(wealth.stake * (start - left)) + log_share
        for i in range(n_starts):
            # With odds r p / (1 - p) a hit is r / (1 - p + r p) times as likely, and a miss 1 / (1 - p + r p) times.
            log_factor = math.log((bets.odds[i] if yes else 1.0) / (1.0 - p + bets.odds[i] * p))
            _start_and_bet(wealth.mixture, i, log_stake, log_factor)
            _start_and_bet(wealth.detector, i, log_share, log_factor)
        seen[0], seen[1] = rows + 1, hits + yes
        _take_stock(wealth, left, log_run_length, track, t)


@inner
def smoothed_rank(counts: Ints, total: int, place: int, v: float) -> float:
    """Share of rows in higher bins than this one, and v of those in the same, the row itself among them."""
    above = 0
    for b in range(place + 1, counts.shape[1]):
        above += counts[0, b] + counts[1, b]
    return float((above + v * (1 + counts[0, place] + counts[1, place])) / (total + 1))


@entry
def bet_on_ranks(
    bins: Ints, v: Floats, counts: Ints, bets: RankBets, wealth: Wealth, log_run_length: float, track: Track
) -> None:
    """Bet on the smoothed rank of each row among all rows before it; counts (2, bins): of the reference, and seen."""
    rows, total = 0, 0
    for b in range(counts.shape[1]):
        rows += counts[1, b]
        total += counts[0, b] + counts[1, b]
    left, log_share = left_to_start(rows), -math.log(wealth.mixture.shape[0])
    for t in range(bins.shape[0]):
        p = smoothed_rank(counts, total, bins[t], v[t])
        start, left = left, left_to_start(rows + 1)
        log_stake = math.log(wealth.stake * (start - left)) + log_share
        for i in range(wealth.mixture.shape[0]):
            factor = 1.0 + bets.line[i] * (2.0 * p - 1.0) + bets.bend[i] * (6.0 * p * (p - 1.0) + 1.0)
            _start_and_bet(wealth.mixture, i, log_stake, math.log(factor))
            _start_and_bet(wealth.detector, i, log_share, math.log(factor))
        counts[1, bins[t]] += 1
        rows, total = rows + 1, total + 1
        _take_stock(wealth, left, log_run_length, track, t)
