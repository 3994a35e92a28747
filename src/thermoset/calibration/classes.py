"""Class correction: a shift, or a shift and a scale, of every class, where the rows show that classes are biased.

With U = log softmax(z / T0), the corrected logits are V = scale * U + shift. (Raw logits would not do: a factor that
differs by class is not the same when a constant is added to a row.) Probabilities are softmax(factor * V), and what is
minimised over factor, shift and scale is

    sum of -log p(label) + sum shift^2 / (2 sigma^2) + sum (scale - 1)^2 / (2 (sigma / 4)^2)

so classes with few rows stay where one temperature puts them. sigma grows along a path until cross-validation worsens.
The correction is taken only where the cross-validated loss falls by more than chance and by more than a hundredth. What
comes after it, T* and the confidence map, is fitted to rows that were corrected by the other folds: on its own rows a
correction looks better than it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec
import numpy as np

from thermoset import kernels
from thermoset.arrays import Block, Floats, Ints, as_float64
from thermoset.data import Logits
from thermoset.rows import Progress, block_rows, budget_share, map_rows, run_tasks
from thermoset.uniforms import stream

FOLDS = 5
_SMALL, _SMALL_FOLDS = 4_000, 20  # rows up to which a taken correction is cross-validated again, nearly with all rows
_SIGMAS = (0.15, 0.3, 0.6, 1.2, 2.4)
_SCALE_PRIOR = 4.0  # the spread of scales is that of shifts, divided by this
_LEAST_T, _LEAST_GAIN = 3.0, 0.01  # the naive error of a cross-validated gain is too small by a third: hence 3
_SCALES = (0.1, 10.0)  # a class that is never missed would go on without end
_FACTORS = (0.01, 100.0)
_MOST_NUMBERS = 2**25  # log probabilities that are held at once; of more rows some are drawn
_FAR = -1e30  # in place of -inf: its weight is 0 just the same
_COARSE, _FINE = 1e-5, 1e-9  # the loss of a row that one more step must gain, in cross-validation and at the end
_MEMORY = 8  # steps that the curvature is estimated from
_MOST_STEPS = 60


class ClassCorrection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is done to the logits of each class before both temperatures: V = scale * log softmax(z / T0) + shift.

    >>> import numpy as np
    >>> correction = ClassCorrection(temperature=1.0, shift=(0.0, 1.0))
    >>> correction.of_block(np.log([[0.5, 0.5]])).round(6)
    array([[-0.693147,  0.306853]])
    """

    temperature: float
    shift: tuple[float, ...]
    scale: tuple[float, ...] | None = None

    def of_block(self, block: Block) -> Floats:
        """The corrected logits of a block of rows, (n, C)."""
        out = np.empty(block.shape)
        scale = np.ones(block.shape[1]) if self.scale is None else np.array(self.scale)
        kernels.correct_classes(as_float64(block), self.temperature, scale, np.array(self.shift), out)
        return out

    def largest(self, count: int = 3) -> list[tuple[int, float]]:
        """The classes that are corrected most: their columns, and by what their odds are multiplied at p = 1/2."""
        scale = np.ones(len(self.shift)) if self.scale is None else np.array(self.scale)
        effect = (scale - 1.0) * np.log(0.5) + np.array(self.shift)
        effect -= np.median(effect)  # adding a constant to all classes changes nothing
        most = np.argsort(-np.abs(effect), kind="stable")[:count]
        return [(int(column), float(np.exp(effect[column]))) for column in most]

    def faults(self, n_classes: int) -> list[str]:
        """What must hold of a correction for so many classes, and does not."""
        wrong = []
        if len(self.shift) != n_classes or (self.scale is not None and len(self.scale) != n_classes):
            wrong.append("the class correction must have one shift, and one scale if any, for each class")
        if not np.isfinite([self.temperature, *self.shift]).all() or self.temperature <= 0:
            wrong.append("the class correction must consist of numbers")
        if self.scale is not None and not all(_SCALES[0] <= one <= _SCALES[1] for one in self.scale):
            wrong.append(f"the scales of the class correction must be from {_SCALES[0]} to {_SCALES[1]}")
        return wrong


class Parameters(NamedTuple):
    """Where a minimum is looked for: probabilities are softmax(factor * (scale * U + shift))."""

    factor: float
    shift: Floats
    scale: Floats

    @classmethod
    def of(cls, x: Floats) -> "Parameters":
        """From one array of all of them."""
        n_classes = len(x) // 2
        return cls(float(x[0]), x[1 : 1 + n_classes].copy(), x[1 + n_classes :].copy())


class CrossValidated(NamedTuple):
    """The loss of every row under parameters that the other folds gave, and these parameters."""

    losses: Floats
    folds: tuple[Parameters, ...]
    sigma: float = 0.0


@dataclass(frozen=True)
class ClassFit:
    """A correction that was taken, and the same for each row from rows of other folds alone."""

    correction: ClassCorrection
    factor: float
    rows: Ints
    fold_of: Ints
    folds: tuple[Parameters, ...]

    def out_of_fold(self, logs: Floats) -> Floats:
        """Corrected logits of the rows, each by the other folds, on the scale of the correction of all rows."""
        scale = np.stack([one.scale * one.factor for one in self.folds])[self.fold_of]
        shift = np.stack([one.shift * one.factor for one in self.folds])[self.fold_of]
        return np.where(logs > _FAR, (scale * logs + shift) / self.factor, -np.inf)


class ClassTrial(NamedTuple):
    """What was tried: cross-validated log-loss without and with a correction, and the correction if it was taken."""

    before: float
    after: float
    fit: ClassFit | None
    logs: Floats


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Log probabilities U (n, C) with labels: the loss under any parameters, and its derivatives."""

    logs: Floats
    labels: Ints
    threads: int | None = None

    def evaluate(self, rows: Ints, at: Parameters) -> tuple[Floats, Floats]:
        """The loss of each of the rows, and the sums (5, C) of `kernels.class_slopes`, added block after block."""
        n_classes = self.logs.shape[1]
        step = 4 * block_rows(n_classes)
        starts = range(0, len(rows), step)
        losses, sums = np.empty(len(rows)), np.zeros((len(starts), 5, max(n_classes, 2)))

        def work(place: int, start: int) -> None:
            some = rows[start : start + step]
            kernels.class_slopes(
                self.logs, self.labels, some, at.factor, at.scale, at.shift, np.empty((3, n_classes)),
                losses[start : start + step], sums[place],
            )  # fmt: skip

        run_tasks((partial(work, *one) for one in enumerate(starts)), n_jobs=self.threads)
        return losses, sums.sum(axis=0)

    def minimise(self, rows: Ints, start: Parameters, sigma: float, scales: bool, tolerance: float) -> Parameters:
        """The minimum of the penalised loss, by L-BFGS with the diagonal of the Hessian; sigma 0: the factor alone."""
        n_classes = self.logs.shape[1]
        free = slice(0, 1 if sigma == 0 else 1 + n_classes * (2 if scales else 1))
        strength = np.concatenate([[0.0], np.full(n_classes, 1.0), np.full(n_classes, _SCALE_PRIOR**2)])
        strength = np.zeros_like(strength) if sigma == 0 else strength / sigma**2
        centre = np.concatenate([np.zeros(1 + n_classes), np.ones(n_classes)])

        def objective(x: Floats) -> tuple[float, Floats, Floats]:
            at = Parameters.of(x)
            losses, sums = self.evaluate(rows, at)
            penalty = strength * (x - centre)
            factor = at.factor
            slope = np.concatenate([sums[4, :1], factor * sums[0, :n_classes], factor * sums[1, :n_classes]])
            bend = np.concatenate([sums[4, 1:2], factor**2 * sums[2, :n_classes], factor**2 * sums[3, :n_classes]])
            value = float(losses.sum()) + 0.5 * float((penalty * (x - centre)).sum())
            return value, (slope + penalty)[free], np.maximum((bend + strength)[free], 1e-9)

        x = np.concatenate([[start.factor], start.shift, start.scale])
        return Parameters.of(_descend(objective, x, free, tolerance * len(rows)))


def _descend(
    objective: Callable[[Floats], tuple[float, Floats, Floats]], x: Floats, free: slice, least: float
) -> Floats:
    """L-BFGS from x over its free entries, until a step gains less than `least`; scales and factor stay in bounds."""
    n_classes = (len(x) - 1) // 2
    low = np.concatenate([[_FACTORS[0]], np.full(n_classes, -np.inf), np.full(n_classes, _SCALES[0])])
    high = np.concatenate([[_FACTORS[1]], np.full(n_classes, np.inf), np.full(n_classes, _SCALES[1])])
    value, slope, bend = objective(x)
    pairs: list[tuple[Floats, Floats, float]] = []
    for _ in range(_MOST_STEPS):
        direction, kept = slope.copy(), []
        for step, change, curve in reversed(pairs):
            part = float((step * direction).sum()) / curve
            direction -= part * change
            kept.append(part)
        direction /= bend
        for (step, change, curve), part in zip(pairs, reversed(kept), strict=True):
            direction += (part - float((change * direction).sum()) / curve) * step
        expected = float((slope * direction).sum())
        if expected <= 2 * least:
            break
        length = 1.0
        while True:
            new = x.copy()
            new[free] = np.clip(x[free] - length * direction, low[free], high[free])
            trial = objective(new)
            if trial[0] <= value - 1e-4 * length * expected or length < 1e-6:
                break
            length /= 4
        if not trial[0] < value:
            break
        step, change = new[free] - x[free], trial[1] - slope
        if (curve := float((step * change).sum())) > 0:
            pairs = [*pairs[1 - _MEMORY :], (step, change, curve)]
        gain = value - trial[0]
        x, (value, slope, bend) = new, trial
        if gain < least:
            break
    return x


def log_probabilities(data: Logits, temperature: float) -> Floats:
    """Logarithms of softmax(z / T) of rows, (n, C), with a large negative number in place of -inf."""
    out = np.empty((len(data), data.n_classes))
    ones = ClassCorrection(temperature=temperature, shift=(0.0,) * data.n_classes)
    map_rows(data, ones.of_block, out, axis=-2)
    return np.maximum(out, _FAR, out=out)


def try_correction(
    data: Logits, labels: Ints, temperature: float, random_state: int, progress: Progress | None = None
) -> ClassTrial:
    """Cross-validate class corrections of labelled rows, and fit the best one if it passes."""
    rows, most = np.arange(len(data)), max(min(_MOST_NUMBERS, budget_share(4) // 8) // data.n_classes, 1)
    if len(rows) > most:
        rows = np.sort(stream(random_state, "rows of the class correction").permutation(rows)[:most])
    logs = log_probabilities(data if len(rows) == len(data) else data.take(rows), temperature)
    own = labels[rows]
    seen = logs[np.arange(len(rows)), own] > _FAR
    if not seen.all():
        rows, logs, own = rows[seen], logs[seen], own[seen]
    model, n = Likelihood(logs, own), len(rows)
    fold_of = stream(random_state, "folds of the class correction").permutation(n) % FOLDS
    search = _Search(model, fold_of, progress)
    plain = search.at(0.0, False, (Parameters(1.0, np.zeros(data.n_classes), np.ones(data.n_classes)),) * FOLDS)
    shifts = search.along_sigmas(plain, False)
    best, scales = shifts, False
    if shifts is not plain:
        both = search.along_sigmas(plain, True)
        if both.losses.sum() < shifts.losses.sum():
            best, scales = both, True
    search.report(search.total)  # the path may have ended early
    gain = plain.losses - best.losses
    error = float(gain.std()) / np.sqrt(n)
    taken = gain.mean() > _LEAST_T * error and gain.mean() > _LEAST_GAIN * plain.losses.mean()
    fit = None
    if taken:
        everyone = np.arange(n)
        parameters = model.minimise(everyone, best.folds[0], best.sigma, scales, _FINE)
        if n <= _SMALL:
            fold_of = stream(random_state, "smaller folds of the class correction").permutation(n) % _SMALL_FOLDS
            best = _Search(model, fold_of, None).at(best.sigma, scales, (parameters,) * _SMALL_FOLDS)
        correction = ClassCorrection(
            temperature=temperature,
            shift=tuple(parameters.shift.tolist()),
            scale=tuple(parameters.scale.tolist()) if scales else None,
        )
        fit = ClassFit(correction, parameters.factor, rows, fold_of, best.folds)
    return ClassTrial(float(plain.losses.mean()), float(best.losses.mean()), fit, logs)


class _Search:
    """Cross-validated losses along the path of sigmas."""

    def __init__(self, model: Likelihood, fold_of: Ints, progress: Progress | None) -> None:
        self._model, self._progress, self._done = model, progress, 0
        folds = range(fold_of.max() + 1)
        self._parts = [(np.flatnonzero(fold_of != k), np.flatnonzero(fold_of == k)) for k in folds]
        self.total = FOLDS * (1 + 2 * len(_SIGMAS))

    def at(self, sigma: float, scales: bool, start: tuple[Parameters, ...]) -> CrossValidated:
        """At one sigma, from the parameters of another."""
        losses, folds = np.empty(len(self._model.labels)), []
        for (learn, judge), first in zip(self._parts, start, strict=True):
            parameters = self._model.minimise(learn, first, sigma, scales, _COARSE)
            losses[judge] = self._model.evaluate(judge, parameters)[0]
            folds.append(parameters)
            self.report(self._done + 1)
        return CrossValidated(losses, tuple(folds), sigma)

    def along_sigmas(self, plain: CrossValidated, scales: bool) -> CrossValidated:
        """The best of the path, which ends where cross-validation worsens; the plain one if nothing is better."""
        best = plain
        for sigma in _SIGMAS:
            candidate = self.at(sigma, scales, best.folds)
            if not candidate.losses.sum() < best.losses.sum():
                break
            best = candidate
        return best

    def report(self, done: int) -> None:
        """How much is done, of `total`."""
        self._done = done
        if self._progress is not None:
            self._progress(min(done, self.total), self.total)
