"""What sets show at many settings at once: several kinds of sets, temperatures and levels, on the same rows.

Shares around labels depend on the temperature alone, so they are made once for all kinds of sets; the walk along a row
gives its sizes at all levels at once. Everything has u integrated out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.calibration import confidence_at
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.levels import Alpha, exact_level
from thermoset.rows import SortedRows, row_array, run_tasks
from thermoset.sweeping.engine import LabelParts, expected_hits, expected_sizes, label_parts, solve_thresholds
from thermoset.tuning.closed_form import levels_around
from thermoset.tuning.parts import EvenOver, parts_of
from thermoset.tuning.worst_classes import ClassMisses, Tenths, tenth_of, tenths

__all__ = ["FIFTHS", "Points", "Sample", "lax_misses", "laxer", "levels_between", "measure"]

FIFTHS = 5
"""Parts of the rows, from the least to the most confident, by which empty sets are counted."""

_LAXER, _LAXEST = 3, Fraction(1, 2)  # the laxer level that relative risks are known from: a multiple of alpha


def laxer(alpha: Alpha) -> float:
    """The level at which relative risks of classes are known best: with more misses than at alpha.

    >>> laxer("0.1"), laxer("0.3")
    (0.3, 0.5)
    """
    return float(max(min(_LAXER * exact_level(alpha), _LAXEST), exact_level(alpha)))


def levels_between(alpha: Alpha, factors: Sequence[float]) -> tuple[str, ...]:
    """Multiples of alpha as short decimals, the first of them alpha as it was typed.

    >>> levels_between("0.1", (1, 0.8, 0.333))
    ('0.1', '0.08', '0.0333')
    """
    level = float(exact_level(alpha))
    return tuple(str(alpha) if factor == 1 else f"{level * factor:.3g}" for factor in factors)


class Sample:
    """Labelled rows, ranked once, with the classes or groups that have rows and the fifths of confidence at T*."""

    def __init__(
        self, data: Logits, calibrated: float, rows: SortedRows | None = None, even: EvenOver = "class"
    ) -> None:
        self.data, self.labels = data, data.require_labels("tuning")
        self.even, self.parts = even, parts_of(data, even)
        self.rows = SortedRows(data) if rows is None else rows
        self.seen, self.place = np.unique(self.parts.codes, return_inverse=True)
        self.counts: Floats = np.bincount(self.place).astype(np.float64)
        confidence = confidence_at(data, calibrated)
        rank = np.empty(len(data), dtype=np.int64)
        rank[np.argsort(confidence, kind="stable")] = np.arange(len(data))
        self.fifth: Ints = rank * FIFTHS // len(data)

    def __len__(self) -> int:
        return len(self.data)

    def by_part(self, values: Floats) -> Floats:
        """Sums over the rows of each class or group that has any: (..., n) to (..., classes)."""
        flat = values.reshape(-1, len(self))
        sums = [np.bincount(self.place, row, minlength=len(self.seen)) for row in flat]
        return np.array(sums, dtype=np.float64).reshape(*values.shape[:-1], -1)


@dataclass(frozen=True, eq=False)
class Points:
    """One kind of sets at temperatures (T) and levels (L).

    size, slope, influence : (T, L); labels in a set, how they rise with coverage, and the variance of what a row adds.
    missed : (T, L, classes), far : (T, classes), rows outside their sets at the levels and at the laxer one.
    noise : (T, L, classes), the variance of the class means of what is missed.
    loss : (T,), the class loss (see `closed_form`).
    left_out : (T, L), share of rows whose top label is right and outside; empty : (T, L, 5), empty sets by confidence.
    rows : sizes and hits of each row, (T, L, n) each, where they were asked for.
    """

    sample: Sample
    recipe: Recipe
    temperatures: Floats
    levels: tuple[str, ...]
    size: Floats
    slope: Floats
    influence: Floats
    missed: Floats
    noise: Floats
    far: Floats
    loss: Floats
    left_out: Floats
    empty: Floats
    rows: tuple[Floats, Floats] | None

    @cached_property
    def alphas(self) -> Floats:
        """The levels as numbers."""
        return np.array([float(exact_level(level)) for level in self.levels])

    def size_error(self, n_conformal: int) -> Floats:
        """Standard errors of sizes on fresh rows, with a threshold from `n_conformal` rows; see `closed_form.Rows`."""
        of_threshold = self.slope**2 * self.alphas * (1 - self.alphas) / n_conformal
        return np.sqrt(self.influence / len(self.sample) + of_threshold)

    def difference_error(self, one: tuple[int, int], other: tuple[int, int], n_conformal: int) -> float | None:
        """Standard error of the difference of mean sizes of two settings (temperature, level): same rows, same split.

        As in `closed_form.Rows`: what a row adds is its size, less what its hit moves the threshold by; None where the
        rows were not kept.
        """
        if self.rows is None:
            return None
        sizes, hits = self.rows
        own = sizes[one] - sizes[other]
        moved = self.slope[one] * hits[one] - self.slope[other] * hits[other]
        return float(np.sqrt((own - moved).var() / len(self.sample) + moved.var() / n_conformal))

    def misses(self, j: int, level: int) -> ClassMisses:
        """What classes show at one temperature and level."""
        return ClassMisses(self.sample.counts, self.missed[j, level], self.far[j], self.sample.parts.count)

    def tenths(self, j: int, level: int, n_conformal: int) -> Tenths:
        """Draws of the coverage of the worst and the best tenth of classes."""
        return tenths(self.misses(j, level), self.levels[level], n_conformal, self.recipe.random_state)

    @cached_property
    def gaps(self) -> Floats:
        """Class gaps, (T, L), free of the noise of few rows: as in `class_gap`."""
        return np.sqrt(np.maximum(self._squares[0], 0.0))

    def gap_ends(self, j: int, level: int) -> tuple[float, float]:
        """About a 95% interval of a class gap, as if its square were normal: `class_gap` simulates better ones."""
        square, error = self._squares[0][j, level], self._squares[1][j, level]
        low, high = np.sqrt(np.maximum(square + np.array([-1.96, 1.96]) * error, 0.0))
        return float(low), float(high)

    @cached_property
    def _squares(self) -> tuple[Floats, Floats]:
        """Unbiased estimates of squared class gaps, and their standard errors: (T, L) each."""
        counts = self.sample.counts
        rate = self.missed / counts
        squares = ((rate - self.alphas[:, None]) ** 2 - self.noise).mean(axis=2)
        typical = ((self.noise * counts**2).sum(axis=2) / counts.sum())[:, :, None] / counts
        error = np.sqrt(2 * ((np.maximum(squares, 0)[:, :, None] + typical) ** 2).mean(axis=2) / len(counts))
        return squares, error

    @cached_property
    def guessed_worst(self) -> Floats:
        """Coverage of the worst tenth as one number, (T, L): quick, and good enough to rank settings by."""
        counts = self.sample.counts
        laxer_risk = _shrunk(self.far, counts, np.ones(len(counts)))
        risk = np.sort(_shrunk(self.missed, counts, laxer_risk[:, None]), axis=2)
        rate = self.missed.sum(axis=2) / counts.sum()
        return np.asarray(1 - rate * risk[:, :, -tenth_of(len(counts)) :].mean(axis=2))


_PULL = 3.0  # misses that what is known of a class beforehand is worth, in a guess


def _shrunk(missed: Floats, counts: Floats, known: Floats) -> Floats:
    """Relative risks pulled towards what is known beforehand, and spread again as far as they differ beyond chance.

    All are (..., classes).
    """
    expected = np.maximum(counts * missed.sum(axis=-1, keepdims=True) / counts.sum(), 1e-9)
    risk = (missed + _PULL * known) / (expected + _PULL)
    raw = missed / expected
    chance = np.mean(1 / expected, axis=-1, keepdims=True)
    true = np.mean((raw - 1) ** 2, axis=-1, keepdims=True) - chance
    true = np.maximum(np.maximum(true, np.var(known, axis=-1, keepdims=True)), 0.02)
    spread = np.maximum(np.mean((risk - 1) ** 2, axis=-1, keepdims=True), 1e-9)
    return np.asarray(np.maximum(1 + (risk - 1) * np.sqrt(true / spread), 0.0))


def measure(
    sample: Sample,
    recipes: Sequence[Recipe],
    temperatures: Floats,
    levels: Sequence[str],
    *,
    loss: bool = False,
    keep_rows: bool = False,
) -> list[Points]:
    """Measure kinds of sets that have a closed form; those of one call share alpha.

    `loss` asks for class losses, `keep_rows` for what each row shows.
    """
    labels, wanted = label_parts(sample.rows, sample.labels, temperatures), (loss, keep_rows)
    return [_one_kind(sample, labels, recipe, tuple(levels), wanted) for recipe in recipes]


def _one_kind(
    sample: Sample, labels: LabelParts, recipe: Recipe, levels: tuple[str, ...], wanted: tuple[bool, bool]
) -> Points:  # fmt: skip
    n, alpha = len(sample), exact_level(recipe.alpha)
    multiples = levels_around(alpha) if wanted[0] else []
    near = [float(exact_level(level)) for level in levels]
    cuts, hits = _hits(labels, recipe, np.array([*near, laxer(recipe.alpha), *multiples]))
    of_levels = cuts[:, :, : len(near)]
    sizes = expected_sizes(sample.rows, labels, recipe.set_score, of_levels, randomized=recipe.draws_u)
    mean = sizes.mean(axis=2)
    slope = _slopes(mean, near)
    right = labels.is_top
    inside = hits[:, : len(near)]
    return Points(
        sample=sample,
        recipe=recipe,
        temperatures=labels.temperatures,
        levels=levels,
        size=mean,
        slope=slope,
        influence=(sizes - slope[:, :, None] * inside).var(axis=2),
        missed=sample.by_part(1 - inside),
        noise=_noise(sample, inside),
        far=sample.by_part(1 - hits[:, len(near)]),
        loss=_losses(sample, hits[:, len(near) + 1 :], multiples),
        left_out=(1 - inside[:, :, right]).sum(axis=2) / n,
        empty=_by_fifth(sample, np.maximum(1 - sizes, 0.0)),
        rows=(sizes, inside) if wanted[1] else None,
    )


def _hits(labels: LabelParts, recipe: Recipe, levels: Floats) -> tuple[Floats, Floats]:
    """Thresholds at levels, (2, T, L), and the probability over u that each row's label is in its set, (T, L, n)."""
    n_temperatures, n, score = len(labels.temperatures), len(labels.ranks), recipe.set_score
    cuts, hits = np.empty((2, n_temperatures, len(levels))), row_array((n_temperatures, len(levels), n))

    def work(j: int) -> None:
        cuts[:, j] = solve_thresholds(labels, score, j, (1 - levels) * (n + 1), randomized=recipe.draws_u)
        hits[j] = expected_hits(labels, score, j, cuts[:, j], randomized=recipe.draws_u)

    run_tasks([partial(work, j) for j in range(n_temperatures)])
    return cuts, hits


def lax_misses(sample: Sample, recipe: Recipe) -> Floats:
    """Probability over u that each row's label is outside its set at T = 1 and the laxer level, (n,)."""
    labels = label_parts(sample.rows, sample.labels, np.ones(1))
    _, hits = _hits(labels, recipe, np.array([laxer(recipe.alpha)]))
    missed: Floats = 1 - hits[0, 0]
    return missed


def _slopes(size: Floats, levels: Sequence[float]) -> Floats:
    """How sizes rise with coverage, (T, L), from neighbouring levels; 0 where there is one level alone."""
    if len(levels) < 2:
        return np.zeros(size.shape)
    return np.asarray(np.gradient(size, 1 - np.array(levels), axis=1))


def _noise(sample: Sample, values: Floats) -> Floats:
    """Variance of the mean of a value over the rows of each class, (..., n) to (..., classes); 0 of a single row."""
    counts = sample.counts
    variance = sample.by_part(values**2) / counts - (sample.by_part(values) / counts) ** 2
    return np.asarray(np.maximum(variance, 0.0) / np.maximum(counts - 1, 1))


def _losses(sample: Sample, hits: Floats, levels: Sequence[float]) -> Floats:
    """Class losses (see `closed_form`), (T,); NaN where they were not asked for."""
    if not levels:
        return np.full(len(hits), np.nan)
    at = np.array(levels)
    gaps = sample.by_part(hits) / sample.counts - (1 - at)[:, None]
    found: Floats = ((gaps**2).mean(axis=2) / (at * (1 - at))).sum(axis=1)
    return found


def _by_fifth(sample: Sample, empty: Floats) -> Floats:
    """Means over the fifths of the rows: (T, L, n) to (T, L, 5)."""
    parts = [empty[:, :, sample.fifth == k].mean(axis=2) for k in range(FIFTHS)]
    return np.stack(parts, axis=2)
