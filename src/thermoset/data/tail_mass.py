"""How much mass lies outside the K largest logits of a row: proven bounds, at any temperature.

With p = 1/T, z_K the smallest logit that is kept and the sum over the C - K that are not,

    h(p) = log sum_j e**(p (z_j - z_K))

is convex in p (it is a log-sum-exp of linear functions), never rises (no z_j exceeds z_K), and h(0) is at most
log(C - K), the log of how many there are. These three facts and the values that a file states at some temperatures are
all that the bounds use: between two points a convex function lies below the chord through them, beyond two points it
lies above the chord, and to the right of a point it is no larger than there. `docs/many-classes.md` has the proof.

Stated values are rounded numbers. They are taken to be within four units in the last place of their type, and bounds
are widened by that and by what float64 rounds, here and wherever the same mass is summed class by class.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block, Bools, Floats

_FURTHEST = 1e300  # stands for gaps that would overflow: such a class is unlikely, not masked

_UNITS = 4.0  # in the last place: how far a stated log-sum may be from the truth


class Stated(NamedTuple):
    """What a file says besides the K largest logits: log-sums log sum e**(z / T), (n, S), at S temperatures.

    of_all : whether they are sums over all classes, or over those that are not kept. S = 0 says nothing.
    """

    temperatures: Floats
    log_sums: NDArray[np.floating[Any]]
    of_all: bool


class StatedBounds(NamedTuple):
    """Bounds of h at rising p, each (n, S); see the module."""

    inverse: Floats
    low: Floats
    high: Floats


class TailBounds(NamedTuple):
    """Logs of the least and the most that the classes not kept weigh together, where the top class weighs 1; (n,).

    -inf is no weight at all: all of them are masked.
    """

    low: Floats
    high: Floats


def slack_of(n_classes: int) -> float:
    """What bounds the relative rounding error of a sum of `n_classes` positive terms and a few steps after it."""
    return 2.0**-51 * (n_classes + 64)


def stated_bounds(logits: Block, stated: Stated, n_classes: int) -> StatedBounds:
    """What the stated sums say of h, for rows of descending logits (n, K); NaN where a sum cannot be."""
    order = np.argsort(-stated.temperatures, kind="stable")
    inverse, sums = 1.0 / stated.temperatures[order], stated.log_sums[:, order].astype(np.float64)
    error = _UNITS * float(np.finfo(stated.log_sums.dtype).eps) * np.maximum(np.abs(sums), 1.0)
    kept = logits.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if not stated.of_all:
            middle = sums - inverse * kept[:, -1:]
            low, high = middle - error, middle + error
        else:
            # Logits are often rounded after the sum was taken of them: their own last place counts too.
            largest = np.abs(np.where(np.isfinite(kept), kept, 0.0)).max(axis=1, keepdims=True)
            error = error + inverse * float(np.finfo(logits.dtype).eps) * largest
            low, high = _beyond_kept(kept, inverse, sums, error, slack_of(n_classes))
    masked = np.isneginf(kept[:, -1:]) | np.isneginf(sums)
    return StatedBounds(inverse, np.where(masked, -np.inf, low), np.where(masked, -np.inf, high))


def _beyond_kept(kept: Floats, inverse: Floats, sums: Floats, error: Floats, slack: float) -> tuple[Floats, Floats]:
    """Bounds of h where the sums are over all classes: what is left of them when the kept ones are taken away."""
    low, high = np.empty(sums.shape), np.empty(sums.shape)
    gaps = kept - kept[:, :1]
    for s, p in enumerate(inverse):
        weight = np.exp(gaps * p).sum(axis=1)
        whole = sums[:, s] - p * kept[:, 0]
        low[:, s] = np.log(np.maximum(np.exp(whole - error[:, s]) - weight * (1.0 + slack), 0.0)) - p * gaps[:, -1]
        high[:, s] = np.log(np.exp(whole + error[:, s]) - weight * (1.0 - slack)) - p * gaps[:, -1]
    return low, high


def too_heavy(bounds: StatedBounds, n_tail: int) -> Bools:
    """Where a stated sum is more than the classes not kept can weigh, (n, S)."""
    heavy: Bools = bounds.low > np.log(n_tail) + 1e-9
    return heavy


def too_light(bounds: StatedBounds) -> Bools:
    """Where a stated sum over all classes is less than that of the kept ones, (n, S)."""
    return np.isnan(bounds.high)


def tail_bounds(logits: Block, stated: Stated, n_classes: int, temperature: float) -> TailBounds:
    """Bounds of the mass that is not kept, at a temperature, for rows of descending logits (n, K)."""
    n_tail, p = n_classes - logits.shape[1], 1.0 / temperature
    bounds = stated_bounds(logits, stated, n_classes)
    edge = np.full((len(logits), 1), np.log(n_tail))
    # h never rises: what bounds it at one p bounds it from there on, and from there back.
    high = np.minimum.accumulate(np.concatenate([edge, bounds.high], axis=1), axis=1)
    low = np.maximum.accumulate(np.concatenate([-np.inf + edge, bounds.low], axis=1)[:, ::-1], axis=1)[:, ::-1]
    points = np.concatenate([[0.0], bounds.inverse])
    with np.errstate(invalid="ignore", over="ignore"):
        fall = np.minimum(p * (logits[:, 0].astype(np.float64) - logits[:, -1].astype(np.float64)), _FURTHEST)
        most, least = _highest(points, high, p), _lowest(points, low, high, p)
        # The mass itself is -log h and the mean gap at most log n_tail more: what its terms' roundings grow with.
        noise = 2.0**-50 * (np.abs(most) + fall + np.log(n_tail) + n_classes + 64)
        top = np.maximum(most - fall + noise, -_FURTHEST)
        bottom = np.fmin(least - fall - noise, top)
    masked = np.isneginf(logits[:, -1]) | np.isneginf(bounds.high).any(axis=1)
    return TailBounds(np.where(masked, -np.inf, bottom), np.where(masked, -np.inf, top))


def _highest(points: Floats, high: Floats, p: float) -> Floats:
    """The chord between the points around p; beyond the last, the value there."""
    i = int(np.searchsorted(points, p, side="right")) - 1
    if i == len(points) - 1:
        return high[:, i]
    part = (p - points[i]) / (points[i + 1] - points[i])
    chord: Floats = (1.0 - part) * high[:, i] + part * high[:, i + 1]
    return np.minimum(chord, high[:, i])  # where both ends are equal, rounding could put it above them


def _lowest(points: Floats, low: Floats, high: Floats, p: float) -> Floats:
    """The larger of the chords through the two points to the right of p and through the two to its left, prolonged."""
    least = np.full(len(low), -np.inf)
    right, left = int(np.searchsorted(points, p)), int(np.searchsorted(points, p, side="right")) - 1
    if right < len(points):
        least = low[:, right]
        if right + 1 < len(points):
            ahead = (points[right] - p) / (points[right + 1] - points[right])
            least = least + ahead * np.maximum(low[:, right] - high[:, right + 1], 0.0)
    if left >= 1:
        beyond = (p - points[left]) / (points[left] - points[left - 1])
        least = np.fmax(least, low[:, left] + beyond * (low[:, left] - high[:, left - 1]))
    return least


def fill_tail(logits: Block, stated: Stated, n_classes: int) -> Block:
    """One logit for all classes that are not kept, (n,): below those that are, for what only chooses or describes.

    Together they weigh what is stated at the temperature nearest 1. Where nothing is stated, the tail is taken to go on
    as it began: logits fall by as much for each doubling of the rank as over the last doubling that is kept. With a
    fall of s for each unit of log rank, the mean weight beyond rank K is the mean of (rank / K)**-s.
    """
    last, n_kept = logits[:, -1], logits.shape[1]
    kept = logits.astype(np.float64)
    if stated.temperatures.size:
        bounds = stated_bounds(logits, stated, n_classes)
        s = int(np.abs(np.log(bounds.inverse)).argmin())
        # Where the bounds reach down to nothing, the upper one alone says something.
        middle = np.where(np.isneginf(bounds.low[:, s]), bounds.high[:, s], (bounds.low[:, s] + bounds.high[:, s]) / 2)
        fall: Floats = np.maximum(np.log(n_classes - n_kept) - middle, 0.0) / bounds.inverse[s]
    else:
        half, ratio = n_kept // 2, n_classes / n_kept
        with np.errstate(invalid="ignore"):
            slope = np.nan_to_num((kept[:, half - 1] - kept[:, -1]) / np.log(n_kept / half), nan=0.0, posinf=1e6)
        power = 1.0 - np.where(np.abs(slope - 1.0) < 1e-6, 1.0 + 1e-6, slope)
        mean = np.maximum(np.expm1(power * np.log(ratio)) / (power * (ratio - 1.0)), np.finfo(np.float64).tiny)
        fall = np.maximum(-np.log(mean), 0.0)
    with np.errstate(over="ignore"):
        guess = (kept[:, -1] - fall).astype(last.dtype)
    below = np.minimum(guess, np.nextafter(last, last.dtype.type(-np.inf)))
    filled: Block = np.where(np.isneginf(last), last, below)
    return filled
