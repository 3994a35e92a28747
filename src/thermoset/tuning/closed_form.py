"""What sets would look like at each temperature, estimated from calibration rows alone.

The default estimate works in closed form on all rows at once. With h_i the probability over u that row i's label is
in its set, the threshold q solves mean h = (1 - a)(n + 1)/n, and the class loss is

    J(T) = sum over a of  mean over classes of (class mean of h - (1 - a))^2 / (a (1 - a)),

summed over a few levels around alpha. Squares, several levels and u integrated out each make the estimate quieter;
nothing is subtracted for the noise of class means, because that noise itself is least where classes are covered evenly.
Halving the rows, or folds, did not improve it on any data tried. J ranks temperatures; what is said of them is the
class gap at alpha itself, free of that noise and with its error: see `class_gap`. A choice for groups of rows has them
in place of classes, here and everywhere: see `parts`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Floats
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.levels import Alpha, exact_level
from thermoset.rows import Progress, SortedRows, Spills, part_of, row_array, run_tasks
from thermoset.sweeping.engine import expected_hits, expected_sizes, label_parts, solve_thresholds
from thermoset.tuning.class_gap import ClassHits, ClassSample
from thermoset.tuning.parts import EvenOver, Parts, parts_of
from thermoset.uniforms import stream

__all__ = ["LEVELS", "Curves", "Rows", "in_closed_form", "joined", "levels_around"]

LEVELS = (Fraction(1, 2), Fraction(7, 10), Fraction(1), Fraction(7, 5), Fraction(2))
"""Multiples of alpha whose class gaps are averaged."""

_STEPS = (Fraction(6, 5), Fraction(4, 5))  # multiples of alpha between which the slope of size in coverage is taken
_HALVES = 40  # random halves of the rows that show how far the class loss can be trusted
_GROUPS = 16  # a half is 8 of 16 random groups: sums of groups are made once
_SIZE_GROUPS = 256  # of rows, whose sums carry the correlation of errors of sizes between temperatures
_SIMULATIONS = 1000
_ALLOWED = 0.05  # probability that a bound fails
_ONE_SIDED = 1.645  # standard errors, where nothing is known of how they go together


@dataclass(frozen=True)
class Curves:
    """Estimates at each temperature.

    size, size_error, empty_share : (n_temperatures,), of sets on fresh rows with a threshold of their own.
    loss : (n_temperatures,), what the preference for even class coverage minimises.
    loss_of_halves : (n_temperatures, n_halves), the same on random halves of the rows; no halves where unknown.
    size_noise : (n_temperatures, groups), how errors of sizes go together: vectors of length 1; no groups if unknown.
    classes : how the classes are covered; None where there is no closed form.
    kinds : how many kinds of sets are searched, of which this is one: they share the 5% by which a bound may fail.
    """

    temperatures: Floats
    size: Floats
    size_error: Floats
    empty_share: Floats
    loss: Floats
    loss_of_halves: Floats
    size_noise: Floats
    classes: ClassHits | None = None
    kinds: int = 1

    @property
    def confidence(self) -> float:
        """Of a bound on what is picked from these curves, if one holds for all kinds with 95%."""
        return 1 - _ALLOWED / self.kinds

    def largest_sizes(self, some: NDArray[np.bool_], confidence: float) -> Floats:
        """Sizes that none of these temperatures exceeds, with confidence in all of them at once.

        Errors grow with sizes, so they are taken as factors.
        """
        size, error, noise = self.size[some], self.size_error[some], self.size_noise[some]
        if not noise.size:
            return size + _ONE_SIDED * error
        drawn = stream(0, "errors of sizes").standard_normal((noise.shape[1], _SIMULATIONS))
        reach = float(np.quantile(np.einsum("tg,gs->ts", noise, drawn).max(axis=0), confidence))
        largest: Floats = size * np.exp(reach * error / np.maximum(size, 1e-300))
        return largest


@dataclass(frozen=True)
class Rows:
    """What errors of sizes are made of: expected size and hit of each row, (temperatures, n).

    slope : (temperatures,), how sizes rise with coverage.
    """

    size: Floats
    hit: Floats
    slope: Floats

    def size_error(self, alpha: Alpha, n_conformal: int) -> Floats:
        """Standard error of the mean size on fresh rows: of these rows, and of a threshold from `n_conformal` rows.

        A threshold too high by chance raises coverage by d and sizes by slope d, so a row counts with
        size + slope (1 - alpha - hit), and the conformal rows with slope sqrt(alpha (1 - alpha) / n_conformal).
        """
        level = float(exact_level(alpha))
        terms = zip(self.size, self.slope, self.hit, strict=True)  # one by one: all rows at once would take much room
        own = np.array([(size + slope * (1 - level - hit)).var() for size, slope, hit in terms]) / self.size.shape[1]
        error: Floats = np.sqrt(own + self.slope**2 * level * (1 - level) / n_conformal)
        return error

    def difference_error(self, i: int, j: int, n_conformal: int) -> float:
        """Standard error of the difference of mean sizes of temperatures i and j: same rows, same u, same split."""
        one, other = (self.size[k] - self.slope[k] * self.hit[k] for k in (i, j))
        own = (one - other).var() / self.size.shape[1]
        both = np.minimum(self.hit[i], self.hit[j]).mean()  # with the same u, the likelier hit contains the other
        mean = self.hit.mean(axis=1)
        spread = mean * (1 - mean)
        joint = both - mean[i] * mean[j]
        of_threshold = self.slope[i] ** 2 * spread[i] + self.slope[j] ** 2 * spread[j]
        of_threshold -= 2 * self.slope[i] * self.slope[j] * joint
        return float(np.sqrt(own + max(of_threshold, 0.0) / n_conformal))

    def size_noise(self, alpha: Alpha, n_conformal: int, seed: int) -> Floats:
        """How errors of mean sizes go together between temperatures, as vectors of length 1; see `size_error`.

        Sums over random groups of rows, first of what a row adds to the mean size, then of whether its label is in its
        set, which moves the threshold of conformal rows.
        """
        level, n = float(exact_level(alpha)), self.size.shape[1]
        rng = stream(seed, "groups of rows", n)
        group = rng.permutation(n) % _SIZE_GROUPS
        drawn = rng.random(n)  # the same u at every temperature
        found = np.empty((len(self.size), 2 * _SIZE_GROUPS))
        for j, (size, hit, slope) in enumerate(zip(self.size, self.hit, self.slope, strict=True)):
            own = size + slope * (1 - level - hit)
            threshold = slope * (drawn < hit) * np.sqrt(n / n_conformal)
            for k, values in enumerate((own, threshold)):
                sums = np.bincount(group, values - values.mean(), minlength=_SIZE_GROUPS)
                found[j, k * _SIZE_GROUPS : (k + 1) * _SIZE_GROUPS] = sums
        length = np.sqrt((found**2).sum(axis=1, keepdims=True))
        return np.asarray(found / np.maximum(length, 1e-300))


def joined(first: Curves, second: Curves) -> Curves:
    """Both curves as one, in rising order of temperature."""
    order = np.argsort(np.concatenate([first.temperatures, second.temperatures]), kind="stable")

    def merge(name: str) -> Floats:
        values: Floats = np.concatenate([getattr(first, name), getattr(second, name)])[order]
        return values

    classes = first.classes.joined(second.classes, order) if first.classes and second.classes else None
    arrays = {name: merge(name) for name in Curves.__dataclass_fields__ if name not in ("classes", "kinds")}
    return Curves(**arrays, classes=classes, kinds=first.kinds)


def levels_around(alpha: Fraction, factors: Sequence[Fraction] = LEVELS) -> list[float]:
    """Multiples of a level, none closer to 1 than half of it or half of what is left.

    >>> levels_around(Fraction(1, 10)), levels_around(Fraction(3, 5))
    ([0.05, 0.07, 0.1, 0.14, 0.2], [0.3, 0.42, 0.6, 0.8, 0.8])
    """
    most = max(1 - alpha / 2, (1 + alpha) / 2)
    return [float(min(alpha * factor, most)) for factor in factors]


def in_closed_form(
    rows: SortedRows,
    data: Logits,
    recipe: Recipe,
    temperatures: Floats,
    n_conformal: int,
    tick: Callable[[int], None],
    even: EvenOver = "class",
) -> tuple[Curves, Rows]:
    """Estimate on all rows at once, with u integrated out; `tick` is told how many temperatures are done.

    `rows` are those of `data`, ranked: whoever calls more than once sorts them once.
    """
    parts = parts_of(data, even)
    sample = ClassSample(parts, recipe.random_state)
    halves = _Halves(parts, recipe.random_state)
    progress = _by_rows(tick, len(temperatures))
    samplers = sample, halves
    size, hit, slope, loss, of_halves, *of_classes = _measured(rows, data, recipe, temperatures, samplers, progress)
    found = Rows(size, hit, slope)
    error = found.size_error(recipe.alpha, n_conformal)
    noise = found.size_noise(recipe.alpha, n_conformal, recipe.random_state)
    empty = np.array([np.maximum(1 - of_rows, 0).mean() for of_rows in size])
    classes = ClassHits(sample, float(exact_level(recipe.alpha)), *of_classes)
    return Curves(temperatures, size.mean(axis=1), error, empty, loss, of_halves, noise, classes), found


def _by_rows(tick: Callable[[int], None], steps: int) -> Progress:
    """What tells `tick` of so many steps while it is told of rows."""
    told = 0

    def progress(done: int, total: int) -> None:
        nonlocal told
        now = steps * done // total
        tick(now - told)
        told = now

    return progress


def _measured(
    rows: SortedRows,
    data: Logits,
    recipe: Recipe,
    temperatures: Floats,
    samplers: tuple[ClassSample, "_Halves"],
    progress: Progress,
) -> tuple[Floats, ...]:
    """Sizes and hits of the rows, slopes, class losses overall and of halves, and what classes show."""
    n = len(data)
    alpha = exact_level(recipe.alpha)
    levels = levels_around(alpha, (*LEVELS, *_STEPS))
    targets = np.array([(1 - level) * (n + 1) for level in levels])
    labels = label_parts(rows, data.require_labels("tuning"), temperatures, progress=part_of(progress, 0, 2))
    cuts = np.empty((2, len(temperatures), len(levels)))
    hit = row_array((len(temperatures), n))
    spills = Spills([labels.parts, hit])
    loss, halves = np.empty(len(temperatures)), np.empty((len(temperatures), _HALVES))
    of_classes: list[tuple[Floats, ...]] = [()] * len(temperatures)
    sample, halver = samplers
    score, drawn = recipe.set_score, recipe.draws_u

    def work(j: int) -> None:
        cuts[:, j] = solve_thresholds(labels, score, j, targets, randomized=drawn)
        hits = expected_hits(labels, score, j, cuts[:, j, : len(LEVELS)], randomized=drawn)
        hit[j] = hits[LEVELS.index(Fraction(1))]
        loss[j], halves[j] = halver.losses(hits, levels[: len(LEVELS)])
        of_classes[j] = sample.measured(hit[j])
        spills.release()

    run_tasks([partial(work, j) for j in range(len(temperatures))])
    wanted = [LEVELS.index(Fraction(1)), len(LEVELS), len(LEVELS) + 1]
    sizes = expected_sizes(
        rows, labels, score, cuts[:, :, wanted], randomized=drawn, progress=part_of(progress, 1, 2)
    )  # fmt: skip
    apart = levels[len(LEVELS)] - levels[len(LEVELS) + 1]
    slope = (sizes[:, 2].mean(axis=1) - sizes[:, 1].mean(axis=1)) / apart
    return sizes[:, 0], hit, slope, loss, halves, *map(np.array, zip(*of_classes, strict=True))


class _Halves:
    """Class losses of all rows and of random halves: unions of half of the groups that rows were dealt to."""

    def __init__(self, parts: Parts, seed: int) -> None:
        rng = stream(seed, "halves", len(parts))
        groups = rng.permutation(len(parts)) % _GROUPS
        # A few rows hold few of very many classes: only those are summed. Two at least, as NumPy would sum the groups
        # of a single one in another order.
        self._seen, self._n_classes = np.union1d(parts.codes, [0, 1]), parts.count
        self._cell = groups * len(self._seen) + np.searchsorted(self._seen, parts.codes)
        self._shape = _GROUPS, len(self._seen)
        self._halves = np.array([rng.permutation(_GROUPS)[: _GROUPS // 2] for _ in range(_HALVES)])
        self._counts = self._sums(None)

    def losses(self, hits: Floats, levels: Sequence[float]) -> tuple[float, Floats]:
        """Class loss of all rows, and of each half; hits are (n_levels, n_rows)."""
        total, present = np.zeros(_HALVES + 1), self._counts > 0
        squares = np.zeros((_HALVES + 1, self._n_classes))  # with the classes that are not there: they add 0
        for level, hit in zip(levels, hits, strict=True):
            gaps = self._sums(hit) / np.maximum(self._counts, 1) - (1 - level)
            squares[:, self._seen] = np.where(present, gaps**2, 0.0)
            total += squares.sum(axis=1) / (level * (1 - level))
        loss = total / present.sum(axis=1)
        return float(loss[0]), loss[1:]

    def _sums(self, weights: Floats | None) -> Floats:
        """Sums by class that is there, of all rows and of each half: (1 + n_halves, classes)."""
        of_groups = np.bincount(self._cell, weights, minlength=self._shape[0] * self._shape[1]).reshape(self._shape)
        return np.vstack([of_groups.sum(axis=0), of_groups[self._halves].sum(axis=1)])
