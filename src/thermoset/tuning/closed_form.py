"""What sets would look like at each temperature, estimated from calibration rows alone.

The default estimate works in closed form on all rows at once. With h_i the probability over u that row i's label is
in its set, the threshold q solves mean h = (1 - a)(n + 1)/n, and the class loss is

    J(T) = sum over a of  mean over classes of (class mean of h - (1 - a))^2 / (a (1 - a)),

summed over a few levels around alpha. Squares, several levels and u integrated out each make the estimate quieter;
nothing is subtracted for the noise of class means, because that noise itself is least where classes are covered evenly.
Halving the rows, or folds, did not improve it on any data tried.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.recipes import Recipe
from thermoset.core.integrated import expected_hits, expected_sizes, solve_thresholds
from thermoset.core.label_shares import SharesByTemperature, label_shares
from thermoset.core.levels import Alpha, exact_level
from thermoset.core.pool import run_all
from thermoset.core.sources import RankedRows
from thermoset.core.thresholds import Cuts
from thermoset.data import Logits

__all__ = ["Curves", "Rows", "in_closed_form", "joined"]

LEVELS = (Fraction(1, 2), Fraction(7, 10), Fraction(1), Fraction(7, 5), Fraction(2))
"""Multiples of alpha whose class gaps are averaged."""

_STEPS = (Fraction(6, 5), Fraction(4, 5))  # multiples of alpha between which the slope of size in coverage is taken
_HALVES = 40  # random halves of the rows that show how far the class loss can be trusted
_GROUPS = 16  # a half is 8 of 16 random groups: sums of groups are made once
_SHARE_BYTES = 2**29  # temperatures are taken in turns whose shares need no more than this

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curves:
    """Estimates at each temperature.

    size, size_error, empty_share : (n_temperatures,), of sets on fresh rows with a threshold of their own.
    loss : (n_temperatures,), what the preference for even class coverage minimises.
    loss_of_halves : (n_temperatures, n_halves), the same on random halves of the rows; no halves where unknown.
    """

    temperatures: Floats
    size: Floats
    size_error: Floats
    empty_share: Floats
    loss: Floats
    loss_of_halves: Floats


@dataclass(frozen=True)
class Rows:
    """What errors are made of: expected size and hit of each row, (temperatures, n), and two numbers more.

    slope : (temperatures,), how sizes rise with coverage.
    class_gap : (temperatures, C), squared gap of each class without the noise of its mean, summed over levels as the
    loss is; NaN for classes with fewer than two rows.
    """

    size: Floats
    hit: Floats
    slope: Floats
    class_gap: Floats

    def size_error(self, alpha: Alpha, n_conformal: int) -> Floats:
        """Standard error of the mean size on fresh rows: of these rows, and of a threshold from `n_conformal` rows.

        A threshold too high by chance raises coverage by d and sizes by slope d, so a row counts with
        size + slope (1 - alpha - hit), and the conformal rows with slope sqrt(alpha (1 - alpha) / n_conformal).
        """
        level = float(exact_level(alpha))
        own = (self.size + self.slope[:, None] * (1 - level - self.hit)).var(axis=1) / self.size.shape[1]
        error: Floats = np.sqrt(own + self.slope**2 * level * (1 - level) / n_conformal)
        return error

    def difference_error(self, i: int, j: int, n_conformal: int) -> float:
        """Standard error of the difference of mean sizes of temperatures i and j: same rows, same u, same split."""
        influence = self.size - self.slope[:, None] * self.hit
        own = (influence[i] - influence[j]).var() / self.size.shape[1]
        both = np.minimum(self.hit[i], self.hit[j]).mean()  # with the same u, the likelier hit contains the other
        mean = self.hit.mean(axis=1)
        spread = mean * (1 - mean)
        joint = both - mean[i] * mean[j]
        of_threshold = self.slope[i] ** 2 * spread[i] + self.slope[j] ** 2 * spread[j]
        of_threshold -= 2 * self.slope[i] * self.slope[j] * joint
        return float(np.sqrt(own + max(of_threshold, 0.0) / n_conformal))

    def gap_z(self, i: int, j: int) -> float:
        """How many standard errors apart the class gaps of temperatures i and j are, by a paired test over classes.

        The gaps are unbiased, so classes that are covered alike at both temperatures give z near 0 whatever the noise.
        """
        apart = self.class_gap[i] - self.class_gap[j]
        apart = apart[~np.isnan(apart)]
        spread = apart.std(ddof=1) if len(apart) > 1 else 0.0
        return float(apart.mean() / (spread / np.sqrt(len(apart)))) if spread > 0 else 0.0


def joined(first: Curves, second: Curves) -> Curves:
    """Both curves as one, in rising order of temperature."""
    order = np.argsort(np.concatenate([first.temperatures, second.temperatures]), kind="stable")

    def merge(name: str) -> Floats:
        values: Floats = np.concatenate([getattr(first, name), getattr(second, name)])[order]
        return values

    return Curves(*(merge(name) for name in Curves.__dataclass_fields__))


def in_closed_form(
    rows: RankedRows,
    data: Logits,
    recipe: Recipe,
    temperatures: Floats,
    n_conformal: int,
    tick: Callable[[int], None],
) -> tuple[Curves, Rows]:
    """Estimate on all rows at once, with u integrated out; `tick` is told how many temperatures are done.

    `rows` are those of `data`, ranked: whoever calls more than once sorts them once.
    """
    turn = max(1, _SHARE_BYTES // ((SharesByTemperature.BYTES + 8 * len(LEVELS)) * len(data)))
    parts = []
    for start in range(0, len(temperatures), turn):
        some = temperatures[start : start + turn]
        parts.append(_some_temperatures(rows, data, recipe, some))
        tick(len(some))
    size, hit, slope, class_gap, loss, halves = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    found = Rows(size, hit, slope, class_gap)
    error = found.size_error(recipe.alpha, n_conformal)
    empty = np.zeros(len(size)) if not recipe.allow_empty else np.maximum(1 - size, 0).mean(axis=1)
    return Curves(temperatures, size.mean(axis=1), error, empty, loss, halves), found


def _some_temperatures(rows: RankedRows, data: Logits, recipe: Recipe, temperatures: Floats) -> tuple[Floats, ...]:
    """Sizes and hits of the rows, slopes, class gaps, and class losses overall and of halves."""
    n = len(data)
    alpha = exact_level(recipe.alpha)
    levels = [float(min(alpha * factor, 1 - alpha / 2)) for factor in (*LEVELS, *_STEPS)]
    targets = np.array([(1 - level) * (n + 1) for level in levels])
    shares = label_shares(rows, data.require_labels("tuning"), temperatures)
    cuts = Cuts(*np.empty((2, len(temperatures), len(levels))))
    hit = np.empty((len(temperatures), n))
    loss, halves = np.empty(len(temperatures)), np.empty((len(temperatures), _HALVES))
    class_gap = np.empty((len(temperatures), data.n_classes))
    sampler = _Halves(data, recipe.random_state)

    def work(j: int) -> None:
        labels = shares.at(j)
        solve_thresholds(recipe.law, labels, targets, Cuts(cuts.value[j], cuts.refine[j]))
        hits = np.empty((len(LEVELS), n))
        of_levels = Cuts(cuts.value[j, : len(LEVELS)], cuts.refine[j, : len(LEVELS)])
        expected_hits(recipe.law, labels, of_levels, not recipe.allow_empty, hits)
        hit[j] = hits[LEVELS.index(Fraction(1))]
        loss[j], halves[j] = sampler.losses(hits, levels[: len(LEVELS)])
        class_gap[j] = _class_gaps(data, hits, levels[: len(LEVELS)])

    run_all([partial(work, j) for j in range(len(temperatures))])
    wanted = [LEVELS.index(Fraction(1)), len(LEVELS), len(LEVELS) + 1]
    of_wanted = Cuts(*(np.ascontiguousarray(part[:, wanted]) for part in cuts))
    sizes = np.empty((len(temperatures), len(wanted), n))

    def keep(some: Floats, place: slice) -> None:
        sizes[:, :, place] = some if recipe.allow_empty else np.maximum(some, 1.0)

    expected_sizes(rows, shares, temperatures, recipe.law, of_wanted, keep)
    apart = levels[len(LEVELS)] - levels[len(LEVELS) + 1]
    slope = (sizes[:, 2].mean(axis=1) - sizes[:, 1].mean(axis=1)) / apart
    return sizes[:, 0], hit, slope, class_gap, loss, halves


def _class_gaps(data: Logits, hits: Floats, levels: Sequence[float]) -> Floats:
    """Unbiased squared gaps of the classes, summed over levels: the variance of a class's mean is taken off."""
    labels = data.require_labels("tuning")
    counts = np.bincount(labels, minlength=data.n_classes)
    total = np.zeros(data.n_classes)
    with np.errstate(invalid="ignore", divide="ignore"):
        for level, hit in zip(levels, hits, strict=True):
            mean = np.bincount(labels, weights=hit, minlength=data.n_classes) / counts
            square = np.bincount(labels, weights=hit**2, minlength=data.n_classes) / counts
            of_mean = np.maximum(square - mean**2, 0) / (counts - 1)
            total += ((mean - (1 - level)) ** 2 - of_mean) / (level * (1 - level))
    return np.where(counts > 1, total, np.nan)


class _Halves:
    """Class losses of all rows and of random halves: unions of half of the groups that rows were dealt to."""

    def __init__(self, data: Logits, seed: int) -> None:
        rng = np.random.default_rng((seed, len(data)))
        labels = data.require_labels("tuning")
        groups = rng.permutation(len(data)) % _GROUPS
        # A few rows hold few of very many classes: only those are summed. Two at least, as NumPy would sum the groups
        # of a single one in another order.
        self._seen, self._n_classes = np.union1d(labels, [0, 1]), data.n_classes
        self._cell = groups * len(self._seen) + np.searchsorted(self._seen, labels)
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
