"""Class shares of rows without labels, by EM on their probabilities p at T* (Saerens et al. 2002).

Each step makes b_y the mean over rows of (b_y / a_y) p_y / sum_j (b_j / a_j) p_j. The source a is the *mean
probability* of each class over the conformal rows, not its share of their labels (Alexandari et al. 2020); the target
share of a class is its share of the conformal labels times b / a. docs/shift.md says why.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from thermoset import kernels
from thermoset.arrays import Block, Bools, Floats, Ints, Keys, Pairs, as_float64
from thermoset.bounds import checked_seed, whole_number
from thermoset.calibration import block_probabilities, probabilities
from thermoset.conformal.calibration_scores import Weights
from thermoset.conformal.groupings import group_thresholds
from thermoset.conformal.recipe import name_some
from thermoset.data import Logits
from thermoset.errors import CoverageWarning, InputError
from thermoset.predictor.label_shift import (
    LEAST_SHARE,
    LabelShift,
    read_priors,
    share_ends,
    shares_of,
    shiftable_scores,
)
from thermoset.rows import Progress, sum_rows
from thermoset.uniforms import stream, trial_keys

if TYPE_CHECKING:
    from thermoset.predictor.document import Document

_Step = Callable[[Floats, Ints], Floats]

# ---- whether shares can be estimated ---------------------------------------------------------------------------------

_MOST_LOSS = 0.03  # of coverage or accuracy, on the predictor's own rows
_LEVEL = 0.1  # at which coverage is looked at, whatever the predictor promises
_DRAWN = 4  # random shares that are tried
_PSEUDO_ROWS = 10.0  # by which the miss rate of a class is drawn to that of all
_MOST_NUMBERS = 2_000_000  # probabilities of the rows that are tried
_FEW_STEPS = 50

UNIT = 2.0**-36
"""What sums are counted in: a hundred million rows fit 64 bits, each to eleven digits."""


class ShareReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What class shares of later rows are estimated from, and how well that works on the conformal rows themselves.

    `mean` and `spread`: float32 means, by class, of p and p (1 - p) over the conformal rows. For the rest, conformal
    rows were weighted for other class shares, which were estimated without the labels: how far sets stayed below a
    promised 90%, how much less often the likeliest label was right, each the worse of random shares and of shares that
    favour missed classes; and the relative error of the shares beyond what it is for calibrated probabilities.
    """

    mean: bytes
    spread: bytes
    coverage_loss: float
    accuracy_loss: float
    bias: float

    def means(self) -> Floats:
        """Mean probability of each class, (C,), above zero."""
        return np.maximum(np.frombuffer(self.mean, "<f4").astype(np.float64), LEAST_SHARE)

    def spreads(self) -> Floats:
        """Mean of p (1 - p) of each class, (C,)."""
        return np.frombuffer(self.spread, "<f4").astype(np.float64)

    def refuse_harm(self, n_rows: int) -> None:
        """Refuse an estimate that would do harm; few rows for each class say less, and more is allowed to them."""
        most = _MOST_LOSS * (1 + len(self.means()) / n_rows)
        if self.coverage_loss > most or self.accuracy_loss > most:
            raise InputError(
                "class shares cannot be estimated with this predictor, because its probabilities are wrong in some "
                "classes: tried on its own conformal rows, weighted for other class shares, estimated shares change "
                f"coverage from {1 - _LEVEL:g} to {1 - _LEVEL - self.coverage_loss:.3f} and accuracy by "
                f"{-self.accuracy_loss:+.3f}. Give the shares (priors=), or recalibrate on labelled rows of the target."
            )

    def cross_checks(self, n_classes: int) -> Iterator[tuple[bool, str]]:
        """What is wrong in a reference that was read from a file."""
        yield {len(self.mean), len(self.spread)} != {4 * n_classes}, "shares must have one mean and spread per class"
        numbers = np.frombuffer(self.mean + self.spread, "<f4")
        yield not np.all((numbers >= 0) & (numbers <= 1)), "mean and spread of shares must be from 0 to 1"
        losses = self.coverage_loss, self.accuracy_loss, self.bias
        yield not all(map(math.isfinite, losses)) or self.bias < 0, "losses of shares must be numbers"


def learn_shares(data: Logits, temperature: float, scores: Pairs, random_state: int) -> ShareReference:
    """The reference of labelled conformal rows with these label scores; tried on at most two million probabilities."""
    labels, n_classes = data.require_labels("class shares"), data.n_classes
    zero = partial(_no_numbers, (2, n_classes))
    (sums,) = sum_rows(data, _add_moments, zero, fixed=[temperature])
    mean, square = sums * (UNIT / len(data))
    rng = stream(random_state, "planted shares")
    rows = np.arange(len(data))
    if len(rows) * n_classes > _MOST_NUMBERS:
        rows = np.sort(rng.permutation(rows)[: max(_MOST_NUMBERS // n_classes, FEWEST_ROWS)])
    probs = probabilities(data.take(rows), temperature)
    losses = _try_shares(probs, labels[rows], scores[rows], rng)
    return ShareReference(
        mean=mean.astype("<f4").tobytes(),
        spread=np.clip(mean - square, 0.0, 1.0).astype("<f4").tobytes(),
        **{name: round(float(loss), 4) for name, loss in losses.items()},  # what BLAS rounds differently is not kept
    )


def _add_moments(block: Block, sums: tuple[Ints], temperature: float) -> None:
    """Add p and p**2 of a block, in units."""
    probs = block_probabilities(block, temperature)
    for place, numbers in enumerate((probs, probs**2)):
        sums[0][place] += np.rint(numbers / UNIT).astype(np.int64).sum(axis=0)


def _try_shares(probs: Floats, labels: Ints, scores: Pairs, rng: np.random.Generator) -> dict[str, float]:
    """Losses and bias on labelled rows, weighted for random class shares and for those that favour missed classes."""
    n_rows, n_classes = probs.shape
    threshold = group_thresholds(scores, np.zeros(n_rows, dtype=np.int64), 1, [_LEVEL])[0, 0]
    missed, counts = scores > threshold, np.bincount(labels, minlength=n_classes)
    rates = np.bincount(labels, missed, n_classes) + _PSEUDO_ROWS * max(missed.mean(), 1 / n_rows)
    hard = shares_of(counts) * rates / (counts + _PSEUDO_ROWS)
    trial_shares = np.column_stack([rng.dirichlet(np.ones(n_classes), size=_DRAWN).T, hard])
    drawn = np.minimum((probs.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1), n_classes - 1)
    planted, weights, sources = [], [], []
    for own in (labels, drawn):  # those of the rows, and labels for which the probabilities are right
        known = np.bincount(own, minlength=n_classes)
        shares = trial_shares * (known > 0)[:, None]
        planted.append(shares / shares.sum(axis=0))
        sources.append(shares_of(known)[:, None])
        weights.append((planted[-1] / sources[-1])[own])
    mean, all_weights = np.maximum(probs.mean(axis=0), LEAST_SHARE)[:, None], np.column_stack(weights)
    all_weights /= all_weights.sum(axis=0)

    def step(shares: Floats, columns: Ints) -> Floats:
        ratio = shares / mean
        new: Floats = ratio * (probs.T @ (all_weights[:, columns] / np.maximum(probs @ ratio, np.finfo(float).tiny)))
        return new

    points, _ = _solve(step, np.repeat(mean / mean.sum(), all_weights.shape[1], axis=1), 1e-5, None, _FEW_STEPS)
    errors, targets = [], np.split(points / mean, 2, axis=1)
    for place, (source, truth) in enumerate(zip(sources, planted, strict=True)):
        targets[place] = _scale(targets[place] * source)
        errors.append(float((((targets[place] - truth) ** 2).sum(axis=0) / (truth**2).sum(axis=0)).mean()))
    coverage, accuracy, plain = [], [], probs.argmax(axis=1) == labels
    for target, weight in zip(targets[0].T, all_weights.T, strict=False):
        before, after = (tuple(some.tolist()) for some in (sources[0][:, 0], target))
        shift = LabelShift(source=before, target=after, effective_rows=1.0, smoothing=2 / n_rows)
        held = scores <= shift.thresholds(scores, labels, _LEVEL)[labels]
        coverage.append(1 - _LEVEL - float(weight @ held))
        accuracy.append(float(weight @ (plain.astype(float) - ((probs * shift.ratio).argmax(axis=1) == labels))))
    return {
        "coverage_loss": max(float(np.mean(coverage[:-1])), coverage[-1]),
        "accuracy_loss": max(float(np.mean(accuracy[:-1])), accuracy[-1]),
        "bias": math.sqrt(max(errors[0] - errors[1], 0.0)),
    }


# ---- estimated shares ------------------------------------------------------------------------------------------------

BOOTSTRAP = 200
"""Resamples behind the errors of an estimate unless another number is requested."""

FEWEST_ROWS = 50
"""Target rows below which class shares are not estimated."""

_MOST_RESAMPLES = 10_000
_TOLERANCE = 1e-9  # of a share, between two steps
_LOOSE = 1e-6  # the same in the bootstrap, whose own noise is larger
_MOST_STEPS = 2_000
_RULE_OF_THREE = 3.0  # a class that none of n rows has is rarer than 3/n, with 95%
_LEAST = 0.01  # of a share, that an extrapolation leaves
_ROUNDER = 2.0**52 * UNIT  # a number that is added to it and taken from it again is a multiple of the unit
_ROWS = 4_096  # as many rows add up in float64 without rounding, at up to 31 each
_POISSON = np.array([np.exp(-1.0) / f for f in np.cumprod([1.0, *range(1, 16)])]).cumsum()[:-1]


@dataclass(frozen=True, eq=False)
class PriorEstimate:
    """Estimated class shares of unlabelled rows.

    Attributes
    ----------
    source, target : float arrays (C,)
        Class shares of the rows the predictor was fitted on, and those estimated for the target rows.
    error : float array (C,), or None
        Standard errors of the target shares: of drawing target rows and source labels, and of what probabilities were
        seen to be wrong on the conformal rows. None without a bootstrap.
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
        """Lower ends of the 95% intervals, (C,); see `share_ends`."""
        return None if self.error is None else share_ends(self.target, self.error, self.rows)[0]

    @property
    def high(self) -> Floats | None:
        """Upper ends of the 95% intervals, (C,)."""
        return None if self.error is None else share_ends(self.target, self.error, self.rows)[1]


def estimate_priors(
    data: Logits,
    temperature: float,
    counts: Ints,
    reference: ShareReference | None,
    *,
    bootstrap: int = BOOTSTRAP,
    random_state: int = 0,
    progress: Progress | None = None,
) -> PriorEstimate:
    """Class shares of target rows, whose labels are ignored; `counts` (C,) are the source rows of each class.

    `bootstrap` resamples give the standard errors, and `progress` hears how many of them have come to rest.
    """
    n_resamples = whole_number(bootstrap, "bootstrap", 0, _MOST_RESAMPLES, "Try 200, or 0 for no standard errors.")
    seed, n_source = checked_seed(random_state), int(counts.sum())
    if reference is None:
        raise InputError(
            "this predictor was saved without what class shares are estimated from. Fit or recalibrate it, or give the "
            "shares (priors=)."
        )
    reference.refuse_harm(n_source)
    if len(data) < FEWEST_ROWS:
        raise InputError(
            f"class shares cannot be estimated from {len(data):,} rows: at least {FEWEST_ROWS} are needed, and several "
            "per class. Pass more target rows, or the shares themselves (priors=)."
        )
    source, mean = shares_of(counts), reference.means()[:, None]
    point, calm = _solve(_em_step(data, temperature, mean, None), mean / mean.sum(), _TOLERANCE, None)
    if not calm[0]:
        warnings.warn(
            f"the class shares were still changing after {2 * _MOST_STEPS:,} EM steps: their last digits may be wrong.",
            CoverageWarning,
            stacklevel=3,
        )
    target = _scale(point / mean * source[:, None])[:, 0]
    unseen = np.flatnonzero((counts == 0) & (point[:, 0] > _RULE_OF_THREE / n_source))
    if unseen.size:
        warnings.warn(
            f"the estimate gives {point[unseen, 0].sum():.1%} of the target rows to classes without conformal rows, so "
            f"nothing supports it: {name_some(unseen, data.classes)}. Recalibrate on rows that hold them, or give the "
            "shares (priors=).",
            CoverageWarning,
            stacklevel=3,
        )
    error = None
    if n_resamples:  # of the target rows, and of the source rows, whose labels move with their mean probabilities
        rng, spread = stream(seed, "source rows"), reference.spreads()[:, None]
        with_rows, noise = (
            rng.gamma(1 / var, var, size=(len(mean), n_resamples))  # relative variances of means over rows
            for var in (np.maximum(var / (n_source * mean**2), 1e-12) for var in (mean - spread - mean**2, spread))
        )
        start = _scale(np.repeat(np.maximum(point, _LEAST / len(data)), n_resamples, axis=1))
        step = _em_step(data, temperature, mean * with_rows, trial_keys(seed, range(n_resamples)))
        shares = _solve(step, start, _LOOSE, progress)[0]
        resampled = _scale(shares / mean * source[:, None] * noise)  # `with_rows` is in the labels and in the means
        # a share that no resample moves from zero was seen on no row: it is small, as one row would be, and not zero
        known = reference.bias**2 * target * np.maximum(target, 1 / len(target)) + 1.0 / len(data) ** 2
        error = np.sqrt(np.minimum(resampled.var(axis=1, ddof=min(1, n_resamples - 1)) + known, 1.0))
    return PriorEstimate(source, target, error, len(data), n_resamples, bool(calm[0]))


def _scale(shares: Floats) -> Floats:
    """Columns that add up to 1."""
    scaled: Floats = shares / shares.sum(axis=0)
    return scaled


def _em_step(data: Logits, temperature: float, mean: Floats, keys: Keys | None) -> _Step:
    """What makes one step of EM for the guesses of some columns, (C, n)."""

    def step(shares: Floats, columns: Ints) -> Floats:
        own = None if keys is None else keys[columns]
        ratio = np.ascontiguousarray(shares / (mean if keys is None else mean[:, columns]))
        zero = partial(_no_numbers, ratio.shape)
        (rows,) = sum_rows(data, _add_rows, zero, per_row=[range(len(data))], fixed=[temperature, ratio, own])
        new: Floats = rows / np.maximum(rows.sum(axis=0), 1)
        return new

    return step


def _no_numbers(shape: tuple[int, int]) -> tuple[Ints]:
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
        probs, totals, counts = np.empty(some.shape), np.zeros(ratio.shape), np.ones((len(some), ratio.shape[1]))
        kernels.softmax(some, temperature, probs)
        if keys is not None:
            kernels.trial_uniforms(keys, numbers.start + start, counts)
            counts = np.searchsorted(_POISSON, counts.ravel(), side="right").reshape(counts.shape).astype(np.float64)
        kernels.add_responsibilities(probs, ratio, counts, _ROUNDER, work, totals)
        np.add(sums[0], np.rint(totals / UNIT).astype(np.int64), out=sums[0])


def _solve(
    step: _Step, start: Floats, tolerance: float, progress: Progress | None, most_steps: int | None = None
) -> tuple[Floats, Bools]:
    """Fixed points of EM, one for each column (C, n), and which columns came to rest.

    Steps are extrapolated from two of them (SQUAREM's third scheme, Varadhan and Roland 2008; shares stay above zero),
    and an extrapolation that did not bring the next step closer is taken back.
    """
    points, calm, active = start.copy(), np.zeros(start.shape[1], dtype=np.bool_), np.arange(start.shape[1])
    at, safe, before = start, start, np.full(start.shape[1], np.inf)
    for _ in range(_MOST_STEPS if most_steps is None else most_steps):
        once = step(at, active)
        change = once - at
        size = np.abs(change).max(axis=0)
        points[:, active], rests = once, size <= tolerance
        calm[active[rests]] = True
        left, worse = ~rests, (size > before)[~rests]
        active = active[left]
        if progress is not None:
            progress(int(calm.sum()), len(calm))
        if not active.size:
            break
        at, once, change, safe, size = at[:, left], once[:, left], change[:, left], safe[:, left], size[left]
        twice = step(np.where(worse, safe, once), active)
        turn = twice - once - change
        reach = np.sqrt((change**2).sum(axis=0) / np.maximum((turn**2).sum(axis=0), np.finfo(float).tiny))
        reach = np.maximum(reach, 1.0)
        ahead = _scale(np.maximum(at + 2 * reach * change + reach**2 * turn, _LEAST * twice))
        at, safe, before = np.where(worse, twice, ahead), twice, np.where(worse, np.inf, size)
    return points, calm


# ---- the shift of a predictor


def make_shift(document: "Document", priors: Any) -> LabelShift:
    """The shift of a predictor to given shares (see `read_priors`) or estimated ones (a `PriorEstimate`)."""
    labels = shiftable_scores(document).labels
    source = shares_of(np.bincount(labels, minlength=document.n_classes))
    estimate = priors if isinstance(priors, PriorEstimate) else None
    if estimate is not None and not np.array_equal(estimate.source, source):
        raise InputError("these shares were estimated with a different predictor. Estimate them with this one.")
    target = read_priors(priors, document.classes, document.n_classes) if estimate is None else estimate.target
    shift = LabelShift(
        source=tuple(source.tolist()),
        target=tuple(target.tolist()),
        effective_rows=1.0,
        target_rows=None if estimate is None else estimate.rows,
        error=None if estimate is None or estimate.error is None else tuple(estimate.error.tolist()),
        smoothing=0.0 if estimate is None else 1 / len(labels) + 1 / estimate.rows,
    )
    weights = shift.ratio[labels]
    if not np.any(weights > 0):
        raise InputError(
            "the class shares give all the weight to classes without conformal rows, so nothing is known about their "
            "scores. Recalibrate on rows of these classes."
        )
    return msgspec.structs.replace(shift, effective_rows=Weights.of(weights).effective_rows)
