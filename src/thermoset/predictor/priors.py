"""Class shares of rows without labels, from calibrated probabilities (Saerens et al. 2002; Alexandari et al. 2020).

Under label shift the shares of classes change, and what rows of a class look like does not. The shares b that make the
target rows most likely maximise sum_i log sum_y (b_y / a_y) p_y(x_i), with p the probabilities at T* and a the class
shares of the rows that the predictor was made with. That is concave in b, and each step of EM increases it:
b_y becomes the mean over rows of (b_y / a_y) p_y / sum_j (b_j / a_j) p_j. Steps are extrapolated (SQUAREM, Varadhan
and Roland 2008), and an extrapolation that did not bring the next step closer is taken back. Many guesses b are taken
at once, each with its own counts of the rows: those of the bootstrap.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from thermoset import kernels
from thermoset.arrays import Block, Bools, Floats, Ints, Keys, as_float64
from thermoset.bounds import checked_seed, whole_number
from thermoset.conformal.recipe import name_some
from thermoset.data import Logits
from thermoset.errors import CoverageWarning, InputError
from thermoset.predictor.label_shift import share_ends, shares_of
from thermoset.rows import sum_rows
from thermoset.uniforms import stream, trial_keys

__all__ = ["BOOTSTRAP", "FEWEST_ROWS", "PriorEstimate", "Resampling", "estimate_priors"]

BOOTSTRAP = 200
"""Resamples behind the errors of an estimate unless another number is asked for."""

FEWEST_ROWS = 50
"""Target rows below which class shares are not estimated."""

_MOST_RESAMPLES = 10_000
_TOLERANCE = 1e-9  # of a share, between two steps
_LOOSE = 1e-6  # the same in the bootstrap, whose own noise is larger
_MOST_STEPS = 2_000
_RULE_OF_THREE = 3.0  # a class that none of n rows has is rarer than 3/n, with 95%
_LEAST = 0.01  # of a share, that an extrapolation leaves

UNIT = 2.0**-36
"""What sums are counted in: a hundred million rows fit 64 bits, each to eleven digits."""

_ROUNDER = 2.0**52 * UNIT  # a number that is added to it and taken from it again is a multiple of the unit
_ROWS = 4_096  # as many rows add up in float64 without rounding, at up to 31 each
_POISSON = np.array([np.exp(-1.0) / f for f in np.cumprod([1.0, *range(1, 16)])]).cumsum()[:-1]

Progress = Callable[[int, int], None]
_Step = Callable[[Floats, Ints], Floats]


@dataclass(frozen=True, eq=False)
class PriorEstimate:
    """Estimated class shares of unlabelled rows.

    Attributes
    ----------
    source, target : float arrays (C,)
        Class shares of the rows the predictor was made with, and those estimated for the target rows.
    error : float array (C,), or None
        Standard errors of the target shares, over resampled target rows and source labels; None without a bootstrap.
    rows : int
        Target rows.
    resamples : int
        Resamples behind the errors.
    converged : bool
        Whether the iteration converged within the allowed number of steps.
    """

    source: Floats
    target: Floats
    error: Floats | None
    rows: int
    resamples: int
    converged: bool

    @property
    def low(self) -> Floats | None:
        """Lower ends of the 95% intervals, (C,); see `label_shift.share_ends`."""
        return None if self.error is None else share_ends(self.target, self.error, self.rows)[0]

    @property
    def high(self) -> Floats | None:
        """Upper ends of the 95% intervals, (C,)."""
        return None if self.error is None else share_ends(self.target, self.error, self.rows)[1]


class Resampling(NamedTuple):
    """How errors are found: number and seed of the resamples, and who is told how many of them have come to rest."""

    bootstrap: int = BOOTSTRAP
    random_state: int = 0
    progress: Progress | None = None

    def checked(self) -> "Resampling":
        """The same, if the numbers can be used."""
        advice = "Try 200, or 0 for no standard errors."
        n_resamples = whole_number(self.bootstrap, "bootstrap", 0, _MOST_RESAMPLES, advice)
        return Resampling(n_resamples, checked_seed(self.random_state), self.progress)


def estimate_priors(data: Logits, temperature: float, counts: Ints, resampling: Resampling) -> PriorEstimate:
    """Class shares of rows by EM on their probabilities at a temperature.

    Parameters
    ----------
    data : Logits
        Target rows; labels are ignored.
    temperature : float
        T*, at which probabilities are calibrated on the source rows.
    counts : int array (C,)
        Source rows of each class.
    resampling : Resampling
        For the standard errors: target rows and source labels are resampled.

    Examples
    --------
    Rows that leave no doubt are counted:

    >>> rows = np.repeat(np.eye(2) * 1000.0, [30, 70], axis=0)
    >>> found = estimate_priors(Logits(rows), 1.0, np.array([50, 50]), Resampling(bootstrap=0))
    >>> found.target.round(9).tolist()
    [0.3, 0.7]
    """
    asked = resampling.checked()
    if len(data) < FEWEST_ROWS:
        raise InputError(
            f"class shares cannot be estimated from {len(data):,} rows: at least {FEWEST_ROWS} are needed, and several "
            "per class. Pass more target rows, or the shares themselves (priors=)."
        )
    source = shares_of(counts)
    found, calm = _solved(_steps(data, temperature, source[:, None], None), source[:, None], _TOLERANCE, None)
    if not calm[0]:
        warnings.warn(
            f"the class shares were still changing after {2 * _MOST_STEPS:,} EM steps: their last digits may be wrong.",
            CoverageWarning,
            stacklevel=3,
        )
    unseen = np.flatnonzero((counts == 0) & (found[:, 0] > _RULE_OF_THREE / counts.sum()))
    if unseen.size:
        share = found[unseen, 0].sum()
        warnings.warn(
            f"the estimate gives {share:.1%} of the target rows to classes without conformal rows, so nothing supports "
            f"it: {name_some(unseen, data.classes)}. Recalibrate on rows that hold them, or give the shares "
            "(priors=).",
            CoverageWarning,
            stacklevel=3,
        )
    error = _errors(data, temperature, counts, found, asked) if asked.bootstrap else None
    return PriorEstimate(source, found[:, 0], error, len(data), asked.bootstrap, bool(calm[0]))


def _errors(data: Logits, temperature: float, counts: Ints, found: Floats, asked: Resampling) -> Floats:
    """Standard deviations of shares over resampled rows, from what was found on all of them.

    A share that no resample moves from zero has been seen on no row: that says that it is small, as a row more or less
    would be, and not that it is zero. So the variance of one row is added.
    """
    n_resamples, seed, progress = asked
    n_source = int(counts.sum())
    drawn = stream(seed, "class counts").multinomial(n_source, counts / n_source, size=n_resamples)
    sources = np.array([shares_of(one) for one in drawn]).T
    step = _steps(data, temperature, sources, trial_keys(seed, range(n_resamples)))
    start = np.repeat(np.maximum(found, _LEAST / len(data)), n_resamples, axis=1)
    shares, _ = _solved(step, start / start.sum(axis=0), _LOOSE, progress)
    errors: Floats = np.sqrt(shares.var(axis=1, ddof=min(1, n_resamples - 1)) + 1.0 / len(data) ** 2)
    return errors


def _steps(data: Logits, temperature: float, sources: Floats, keys: Keys | None) -> _Step:
    """What makes one step of EM for the guesses of some columns, (C, n)."""

    def step(shares: Floats, columns: Ints) -> Floats:
        own = None if keys is None else keys[columns]
        ratio = np.ascontiguousarray(shares / sources[:, columns])
        zero = partial(_no_rows, ratio.shape)
        (rows,) = sum_rows(data, _add_rows, zero, per_row=[range(len(data))], fixed=[temperature, ratio, own])
        new: Floats = rows / np.maximum(rows.sum(axis=0), 1)
        return new

    return step


def _no_rows(shape: tuple[int, int]) -> tuple[Ints]:
    return (np.zeros(shape, dtype=np.int64),)


def _add_rows(
    block: Block, sums: tuple[Ints], numbers: range, temperature: float, ratio: Floats, keys: Keys | None
) -> None:
    """Add the rows of a block by the class that they come from, (C, guesses), in units; `ratio` (C, guesses) is b / a.

    With `keys`, one for each guess, a row counts as often as a Poisson number of mean 1 says, a hash of the key and the
    row's number: a bootstrap whose rows need not know each other.
    """
    work = np.empty((2, ratio.shape[1]))
    for start in range(0, len(block), _ROWS):
        some = as_float64(block[start : start + _ROWS])
        probs, found, counts = np.empty(some.shape), np.zeros(ratio.shape), np.ones((len(some), ratio.shape[1]))
        kernels.softmax(some, temperature, probs)
        if keys is not None:
            kernels.trial_uniforms(keys, numbers.start + start, counts)
            counts = np.searchsorted(_POISSON, counts.ravel(), side="right").reshape(counts.shape).astype(np.float64)
        kernels.add_responsibilities(probs, ratio, counts, _ROUNDER, work, found)
        np.add(sums[0], np.rint(found / UNIT).astype(np.int64), out=sums[0])


def _solved(step: _Step, start: Floats, tolerance: float, progress: Progress | None) -> tuple[Floats, Bools]:
    """Fixed points of EM, one for each column (C, n), and which columns came to rest."""
    found, calm, active = start.copy(), np.zeros(start.shape[1], dtype=np.bool_), np.arange(start.shape[1])
    at, safe, before = start, start, np.full(start.shape[1], np.inf)
    for _ in range(_MOST_STEPS):
        once = step(at, active)
        moved = once - at
        size = np.abs(moved).max(axis=0)
        found[:, active], rests = once, size <= tolerance
        calm[active[rests]] = True
        left, worse = ~rests, (size > before)[~rests]
        active = active[left]
        if progress is not None:
            progress(int(calm.sum()), len(calm))
        if not active.size:
            break
        at, once, moved, safe, size = at[:, left], once[:, left], moved[:, left], safe[:, left], size[left]
        twice = step(np.where(worse, safe, once), active)
        at = np.where(worse, twice, _extrapolated(at, moved, twice - once - moved, twice))
        safe, before = twice, np.where(worse, np.inf, size)
    return found, calm


def _extrapolated(at: Floats, moved: Floats, turned: Floats, twice: Floats) -> Floats:
    """Where steps are going, from two of them (the third scheme of SQUAREM); shares stay above zero."""
    lengths = np.sqrt((moved**2).sum(axis=0) / np.maximum((turned**2).sum(axis=0), np.finfo(float).tiny))
    reach = np.maximum(lengths, 1.0)
    ahead = np.maximum(at + 2 * reach * moved + reach**2 * turned, _LEAST * twice)
    new: Floats = ahead / ahead.sum(axis=0)
    return new
