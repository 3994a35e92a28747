"""What sets would look like: candidates x temperatures x levels, from calibration rows alone and in two passes.

The first pass finds the shares around every label at all temperatures: thresholds, hits and all that classes show
follow from them. The second adds up the sizes of sets. u is integrated out. docs/two-temperatures.md, "How T-hat is
estimated", has the class loss J and the errors; in a choice for groups of rows, read "groups" for "classes".
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset import kernels
from thermoset.arrays import Block, Floats, Ints, as_float64
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.data.groups import Groups, listed_groups
from thermoset.errors import CoverageWarning, InputError
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.metrics import coverage_gaps, top_gap
from thermoset.quoting import quoted
from thermoset.rows import Progress, SortedRows, Sorter, Spills, part_of, run_tasks, sum_rows
from thermoset.sweeping.engine import label_parts
from thermoset.sweeping.expectations import expected_hits, solve_thresholds
from thermoset.tuning.class_gap import NORMAL, ClassGaps, ClassSample
from thermoset.tuning.preferences import WORDS, EvenOver
from thermoset.tuning.worst_classes import ClassMisses, CrossCheck
from thermoset.uniforms import stream

FIFTHS = 5
"""Parts of the rows, from the least to the most confident, by which empty sets are counted."""

STRICTER = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05, 0.025)
"""Multiples of alpha at which stricter sets are measured."""

AROUND = (1.2, 1.0, 0.8)
"""Multiples of alpha that show how sizes rise with coverage."""

_LOSS_LEVELS = (Fraction(1, 2), Fraction(7, 10), Fraction(1), Fraction(7, 5), Fraction(2))  # of alpha
_LAXER, _LAXEST = 3, Fraction(1, 2)  # the laxer level that relative risks are known from: a multiple of alpha
_DEALT, _HALVES = 16, 60  # a half is 8 of 16 random groups of rows
_ERROR_GROUPS = 256  # of rows, whose sums carry the errors of sizes
_SIMULATIONS = 1000
_CONFIDENCE = 0.95
_MAJORITY = 2 / 3  # of the halves, that must find a temperature more even than T = 1
_UNIT = 2.0**20  # parts of a label that sizes are added in
_RESAMPLED = 16  # times that class scores are drawn as often as there will be conformal rows
_HALVINGS = 20  # for TopCovGap


# ---- rows ------------------------------------------------------------------------------------------------------------


def parts_of(data: Logits, even: EvenOver) -> Groups:
    """The classes, as groups, or the groups of labelled rows; some may have no rows."""
    labels = data.require_labels("choosing a temperature")
    if even == "class":
        return Groups(data.classes or tuple(map(str, range(data.n_classes))), labels)
    if data.groups is None:
        raise InputError(
            "even='group' evens out coverage over groups of rows, but these rows have no groups. Pass groups=, one "
            "name per row."
        )
    if len(names := data.groups.names) < 2:
        raise InputError(
            f"even='group' needs at least two groups; every row is in {quoted(names[0])}. Use even='class'."
        )
    return data.groups


def warn_of_missing_parts(rows: Logits, even: EvenOver) -> None:
    """Warn of classes or groups without calibration rows."""
    words, parts = WORDS[even], parts_of(rows, even)
    missing = [parts.names[place] for place in np.flatnonzero(parts.counts == 0)]
    if missing:
        warnings.warn(
            f"no calibration row belongs to {words.one if len(missing) == 1 else words.many} {listed_groups(missing)}: "
            f"the choice is based on the other {words.many}. Add rows for {'it' if len(missing) == 1 else 'them'}.",
            CoverageWarning,
            stacklevel=4,
        )


def _sums(values: Floats, cell: Ints, n_cells: int) -> Floats:
    """Sums over the rows of each cell, (..., n) to (..., cells)."""
    sums = [np.bincount(cell, row, minlength=n_cells) for row in values.reshape(-1, values.shape[-1])]
    return np.array(sums, dtype=np.float64).reshape(*values.shape[:-1], n_cells)


class Sample:
    """Labelled rows, sorted once, and how they are dealt to classes, halves and groups."""

    def __init__(self, data: Logits, even: EvenOver = "class", seed: int = 0) -> None:
        self.data, self.labels, self.seed = data, data.require_labels("tuning"), seed
        self.parts, self.rows = parts_of(data, even), SortedRows(data)
        self.seen, self.place = np.unique(self.parts.codes, return_inverse=True)
        self.counts: Floats = np.bincount(self.place).astype(np.float64)
        self.classes = ClassSample(self.parts.codes, len(self.parts.names), seed)
        n, rng = len(data), stream(seed, "groups of rows", len(data))
        self.n_groups = min(_ERROR_GROUPS, n)
        self.group: Ints = rng.permutation(n) % self.n_groups
        self.u: Floats = rng.random(n)  # the same at every temperature
        self._cell = rng.permutation(n) % _DEALT * len(self.seen) + self.place
        self._halves = np.array([rng.permutation(_DEALT)[: _DEALT // 2] for _ in range(_HALVES)])
        self._half_counts = self._of_halves(np.ones(n))

    def __len__(self) -> int:
        return len(self.data)

    def by_part(self, values: Floats) -> Floats:
        """Sums over the rows of each class or group that has any: (..., n) to (..., classes)."""
        return _sums(values, self.place, len(self.seen))

    def by_group(self, values: Floats) -> Floats:
        """Sums over the groups of rows that carry errors, less their mean: (..., n) to (..., groups)."""
        return _sums(values - values.mean(axis=-1, keepdims=True), self.group, self.n_groups)

    def misses(self, hits: Floats) -> ClassMisses:
        """Misses by class from hits (2, n), at a level and at the laxer one."""
        near, far = self.by_part(1 - hits)
        return ClassMisses(self.counts, near, np.maximum(far, near), len(self.parts.names))

    @cached_property
    def cross_check(self) -> CrossCheck:
        """What the worst tenth of classes shows without a model."""
        return CrossCheck(self.place, len(self.seen), self.seed)

    def _of_halves(self, values: Floats) -> Floats:
        """Sums by class over all rows and over each half, (1 + halves, classes)."""
        dealt = _sums(values, self._cell, _DEALT * len(self.seen)).reshape(_DEALT, -1)
        return np.vstack([dealt.sum(axis=0), dealt[self._halves].sum(axis=1)])

    def losses(self, hits: Floats, levels: Sequence[float], *, halves: bool = True) -> Floats:
        """Class losses of all rows, and of each half, (1 + halves,), from hits (levels, n).

        All rows were to have the level as their misses; halves have thresholds of their own, which hold theirs.
        """
        counts = self._half_counts if halves else self.counts[None]
        total, present, rows = np.zeros(len(counts)), counts > 0, np.maximum(counts.sum(axis=1, keepdims=True), 1)
        for level, hit in zip(levels, hits, strict=True):
            sums = self._of_halves(hit) if halves else self.by_part(hit)[None]
            whole = sums.sum(axis=1, keepdims=True) / rows
            whole[0] = 1 - level
            gaps = np.where(present, sums / np.maximum(counts, 1) - whole, 0.0)
            total += (gaps**2).sum(axis=1) / (level * (1 - level))
        return np.asarray(total / np.maximum(present.sum(axis=1), 1))


# ---- levels ----------------------------------------------------------------------------------------------------------


def laxer(alpha: Alpha) -> float:
    """The level at which relative risks of classes are known best: with more misses than at alpha."""
    return float(max(min(_LAXER * exact_level(alpha), _LAXEST), exact_level(alpha)))


def levels_between(alpha: Alpha, factors: Sequence[float]) -> tuple[str, ...]:
    """Multiples of alpha as short decimals below 1; alpha itself as it was typed."""
    level = float(exact_level(alpha))
    most = max(1 - level / 2, (1 + level) / 2)
    return tuple(
        str(alpha) if factor == 1 else f"{level * factor:.3g}" if level * factor < most else f"{most!r}"
        for factor in factors
    )


def _loss_levels(alpha: Alpha) -> list[float]:
    """The levels of the class loss, none closer to 1 than half of alpha or half of what is left."""
    level = exact_level(alpha)
    most = max(1 - level / 2, (1 + level) / 2)
    return [float(min(level * factor, most)) for factor in _LOSS_LEVELS]


# ---- estimates -------------------------------------------------------------------------------------------------------


class Pick(NamedTuple):
    """A temperature of a candidate, by its place, and the reasons for it.

    met : whether a budget is kept; beats : the share of random halves in which its class loss is below that of T = 1;
    tried : the temperature that T = 1 was preferred to; halves : between which temperatures halves would choose.
    """

    place: int
    met: bool = True
    beats: float | None = None
    tried: float | None = None
    halves: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Estimates:
    """One candidate at temperatures (T) and levels (L) from lax to strict.

    size : (T, L), labels in a set; empty_fifths : (T, L, 5), shares of empty sets from the least to the most confident
    rows; errors : (T, L, vector), see the head of this file.
    missed : (T, L, classes) and far : (T, classes), rows outside their sets at the levels and at the laxer one.
    losses : (T, 1 + halves), class losses of all rows and of halves, if any; gaps : class gaps at alpha, None without
    classes of two rows.
    kinds : candidates that are searched, of which this is one: they share the 5% by which a bound may fail; allowed :
    (T,), the temperatures that may be chosen, all if None.
    """

    recipe: Recipe
    temperatures: Floats
    levels: tuple[str, ...]
    size: Floats
    errors: Floats
    empty_fifths: Floats
    losses: Floats
    missed: Floats = field(default_factory=lambda: np.empty((0, 0, 0)))
    far: Floats = field(default_factory=lambda: np.empty((0, 0)))
    gaps: ClassGaps | None = None
    kinds: int = 1
    allowed: NDArray[np.bool_] | None = None

    @property
    def searchable(self) -> NDArray[np.bool_]:
        """Which temperatures are of the grid; others were measured for comparison."""
        return np.ones(len(self.temperatures), dtype=bool) if self.allowed is None else self.allowed

    @property
    def level(self) -> int:
        """The place of the promised level."""
        return self.levels.index(self.recipe.alpha)

    @property
    def peak(self) -> int | None:
        """The place of T_c, where sets are largest, if that is inside the grid."""
        among = np.flatnonzero(self.searchable)
        j = int(among[np.argmax(self.size[among, self.level])])
        return j if among[0] < j < among[-1] else None

    @property
    def searched(self) -> NDArray[np.bool_]:
        """Which temperatures may be picked: up to the peak."""
        last = len(self.size) if self.peak is None else self.peak
        return np.asarray(self.searchable & (np.arange(len(self.size)) <= last))

    def place(self, temperature: float) -> int:
        """Of a temperature."""
        return int(np.flatnonzero(self.temperatures == temperature)[0])

    @property
    def one(self) -> int | None:
        """The place of T = 1, if it may be chosen."""
        return self.place(1.0) if 1.0 in self.temperatures[self.searchable] else None

    @property
    def loss(self) -> Floats:
        """The class loss that ranks temperatures: the mean over halves, or that of all rows, (T,)."""
        if not self.losses.size:
            return np.full(len(self.size), np.nan)
        return np.asarray(self.losses[:, 1:].mean(axis=1) if self.losses.shape[1] > 1 else self.losses[:, 0])

    def at(self, j: int, alpha: Alpha) -> tuple[float, float, Floats]:
        """Size, its error, and empty sets by fifth at a level: between two by interpolation, of sizes in logarithms."""
        levels = -np.log([float(exact_level(level)) for level in self.levels])
        at = float(np.clip(-np.log(float(exact_level(alpha))), levels[0], levels[-1]))
        right = int(np.clip(np.searchsorted(levels, at), 1, max(len(levels) - 1, 1)))
        part = float((at - levels[right - 1]) / (levels[right] - levels[right - 1]))

        def between(values: Floats) -> Floats:
            return np.asarray((1 - part) * values[right - 1] + part * values[right])

        size = float(np.exp(between(np.log(np.maximum(self.size[j], 1e-300)))))
        return size, float(np.sqrt((between(self.errors[j]) ** 2).sum())), between(self.empty_fifths[j])

    def size_error(self, j: int, level: int | None = None) -> float:
        """Standard error of the mean size on fresh rows, with a threshold of their own."""
        return float(np.sqrt((self.errors[j, self.level if level is None else level] ** 2).sum()))

    def reach(self) -> float:
        """Standard errors that hold for the sizes of all temperatures searched at once, with 95% confidence."""
        return largest_error(self.errors[self.searched, self.level], two_sided=True)

    def smallest(self) -> Pick:
        """The temperature with the smallest sets; T = 1 unless that is larger beyond its simultaneous error."""
        size, one = self.size[:, self.level], self.one
        best = _least(size, self.searched)
        if one is not None and best != one:
            apart = self.errors[:, self.level] - self.errors[one, self.level]
            error = float(np.sqrt((apart[best] ** 2).sum()))
            if size[one] - size[best] <= largest_error(apart[self.searched]) * error:
                return Pick(one)
        return Pick(best)

    def most_even(self) -> Pick:
        """The least class loss; T = 1 unless most of the halves find that less even."""
        best, one = _least(self.loss, self.searched), self.one
        of_halves = [self.temperatures[_least(loss, self.searched)] for loss in self.losses[:, 1:].T]
        halves = tuple(float(end) for end in np.quantile(of_halves, (0.05, 0.95), method="inverted_cdf"))
        if one is None or best == one:
            return Pick(best, halves=halves)
        beats = float((self.losses[best, 1:] < self.losses[one, 1:]).mean())
        if beats < _MAJORITY:
            return Pick(one, beats=beats, tried=float(self.temperatures[best]))
        return Pick(best, beats=beats, halves=halves)

    def most_even_within(self, budget: float) -> Pick:
        """The least class loss among temperatures whose sets hold at most so many labels, with confidence in all.

        Errors grow with sizes, so they are taken as factors.
        """
        size, error = self.size[:, self.level], np.sqrt((self.errors[:, self.level] ** 2).sum(axis=1))
        reach = largest_error(self.errors[self.searched, self.level], confidence=1 - (1 - _CONFIDENCE) / self.kinds)
        upper = size * np.exp(reach * error / np.maximum(size, 1e-300))
        kept = self.searched & (upper <= budget)
        return Pick(_least(self.loss, kept)) if kept.any() else Pick(_least(upper, self.searched), met=False)

    def smallest_within(self, budget: float) -> Pick:
        """The smallest sets among temperatures whose class gap is at most so large, with confidence in all.

        Where none is, T = 1 is kept: the gaps that look smallest are mostly the noisiest.
        """
        searched = self.searched
        none = Pick(int(np.argmin(np.abs(np.log(self.temperatures)))), met=False)
        if self.gaps is None or self.gaps.too_few:
            return none
        kept = searched.copy()
        kept[searched] = self.gaps.at(searched).excess(budget, self.kinds) <= 0
        return Pick(_least(self.size[:, self.level], kept)) if kept.any() else none


def largest_error(errors: Floats, *, two_sided: bool = False, confidence: float = _CONFIDENCE) -> float:
    """How many standard errors the largest of several errors (k, vector) reaches, with confidence."""
    length = np.sqrt((errors**2).sum(axis=1))
    known = errors[length > 0] / length[length > 0, None]
    if not len(known):
        return NORMAL if two_sided else 1.645
    drawn = stream(0, "errors of sizes").standard_normal((known.shape[1], _SIMULATIONS))
    simulated = np.einsum("tg,gs->ts", known, drawn)
    return float(np.quantile((np.abs(simulated) if two_sided else simulated).max(axis=0), confidence))


def _least(values: Floats, among: NDArray[np.bool_]) -> int:
    return int(np.argmin(np.where(among, values, np.inf)))


# ---- the engine ------------------------------------------------------------------------------------------------------


class Request(NamedTuple):
    """A candidate to measure at temperatures and levels.

    evenness : whether class losses and class coverage are measured too; halves : class losses of random halves as well.
    """

    recipe: Recipe
    temperatures: Floats
    levels: tuple[str, ...]
    evenness: bool = True
    halves: bool = True


class Engine:
    """The shares around every label, from one pass over the rows, and what follows from them."""

    def __init__(
        self, sample: Sample, temperatures: Floats, n_conformal: int, progress: Progress | None = None
    ) -> None:
        self.sample, self.n_conformal, self._progress = sample, n_conformal, progress
        at = np.unique(temperatures)
        self.labels = label_parts(sample.rows, sample.labels, at, progress=part_of(progress, 0, 2))

    def _places(self, temperatures: Floats) -> list[int]:
        return [int(np.flatnonzero(self.labels.temperatures == t)[0]) for t in temperatures]

    def _rest(self, j: int) -> Floats:
        """The mass of all classes but the top one, relative to it."""
        with np.errstate(under="ignore"):
            return np.asarray(self.labels.others[j] * np.exp(self.labels.second / self.labels.temperatures[j]))

    def solve(self, recipe: Recipe, temperature: float, levels: Sequence[float]) -> tuple[Floats, Floats]:
        """Thresholds at levels (2, L), and the probability over u that each row's label is in its set, (L, n)."""
        (j,), score, drawn = self._places(np.array([temperature])), recipe.set_score, recipe.uses_u
        targets = (1 - np.array(levels)) * (len(self.sample) + 1)
        thresholds = solve_thresholds(self.labels, score, j, targets, randomized=drawn)
        return thresholds, expected_hits(self.labels, score, j, thresholds, randomized=drawn)

    def near_and_far(self, recipe: Recipe, level: Alpha) -> Floats:
        """Such hits at a level, and at the laxer one that belongs to the recipe's own: (2, n)."""
        return self.solve(recipe, recipe.temperature, [float(exact_level(level)), laxer(recipe.alpha)])[1]

    def measure(
        self, requests: Sequence[Request], calibrated: float, by_class: Request | None = None
    ) -> tuple[list[Estimates], Estimates | None]:
        """Measure candidates, and sets by class at the promised level if requested, in one pass."""
        sample, n = self.sample, len(self.sample)
        (star,) = self._places(np.array([calibrated]))
        fifth = np.empty(n, dtype=np.int64)  # of the rows, by the probability of the top class
        fifth[np.argsort(1.0 / (1.0 + self._rest(star)), kind="stable")] = np.arange(n) * FIFTHS // n
        solved = [self._solve_request(request) for request in requests]
        own = None if by_class is None else self._class_thresholds(by_class)
        jobs = tuple(
            (one.recipe.set_score.terms, one.recipe.uses_u, one.temperatures, self._places(one.temperatures), of.cuts)
            for one, of in zip(requests, solved, strict=True)
        )
        shapes = [(*of.cuts.shape[1:], width) for of in solved for width in (sample.n_groups, FIFTHS)]
        shapes += [] if own is None else [(*own.shape[:2], sample.n_groups)]
        sums = sum_rows(
            sample.rows.source,
            _size_block,
            partial(_zeros, shapes),
            per_row=[range(n), self.labels.others.T, sample.group, fifth, sample.labels],
            fixed=[
                sample.rows.sorter, jobs, sample.n_groups,
                None if own is None or by_class is None else (by_class.temperatures, own),
            ],
            progress=part_of(self._progress, 1, 2),
        )  # fmt: skip
        estimates = [
            self._estimates(one, of, sums[2 * k] / _UNIT, sums[2 * k + 1] / _UNIT / np.bincount(fifth))
            for k, (one, of) in enumerate(zip(requests, solved, strict=True))
        ]
        return estimates, None if by_class is None else self._of_classes(by_class, sums[-1] / _UNIT)

    def _solve_request(self, request: Request) -> "_Solved":
        """Thresholds of one request, and what hits show, temperature by temperature."""
        sample, many = self.sample, len(request.levels)
        near = [float(exact_level(level)) for level in request.levels]
        of_loss = _loss_levels(request.recipe.alpha) if request.evenness else []
        at, spills = request.levels.index(request.recipe.alpha), Spills([self.labels.parts])
        of_temperature: list[tuple[Floats, ...]] = [()] * len(request.temperatures)

        def work(j: int) -> None:
            temperature = float(request.temperatures[j])
            cuts, hits = self.solve(request.recipe, temperature, [*near, laxer(request.recipe.alpha), *of_loss])
            inside = hits[:many]
            of_temperature[j] = (
                cuts[:, :many],
                sample.by_part(1 - inside),
                sample.by_part(1 - hits[many]),
                sample.by_group(inside),
                sample.by_group((sample.u < inside).astype(np.float64)),
                sample.losses(hits[many + 1 :], of_loss, halves=request.halves) if of_loss else np.empty(0),
                *(sample.classes.measure(inside[at]) if of_loss else ()),
            )
            spills.release()

        run_tasks([partial(work, j) for j in range(len(request.temperatures))])
        cuts, missed, far, hit, drawn, losses, *coverage = map(list, zip(*of_temperature, strict=True))
        gaps = None
        if coverage and len(sample.classes.counts):
            gaps = ClassGaps(sample.classes, float(exact_level(request.recipe.alpha)), *map(np.stack, coverage))
        return _Solved(gaps, np.stack(cuts, axis=1), *map(np.stack, (missed, far, hit, drawn, losses)))

    def _estimates(self, request: Request, of: "_Solved", sums: Floats, empty: Floats) -> Estimates:
        n = len(self.sample)
        alphas = np.array([float(exact_level(level)) for level in request.levels])
        size = sums.sum(axis=2) / n
        slope = np.gradient(size, 1 - alphas, axis=1) if len(alphas) > 1 else np.zeros(size.shape)
        own = self._about_mean(sums, size) - slope[:, :, None] * of.inside
        moved = slope[:, :, None] * of.drawn * np.sqrt(n / self.n_conformal)
        errors = self._factor * np.concatenate([own, moved], axis=2)
        named = {name: getattr(of, name) for name in ("losses", "missed", "far", "gaps")}
        return Estimates(request.recipe, request.temperatures, request.levels, size, errors, empty, **named)

    def _about_mean(self, sums: Floats, size: Floats) -> Floats:
        """Sums over the groups that carry errors, less what they would be if all rows were alike."""
        return sums - np.bincount(self.sample.group, minlength=self.sample.n_groups) * size[..., None]

    @property
    def _factor(self) -> float:
        """From such sums to the error of a mean."""
        groups = self.sample.n_groups
        return float(np.sqrt(groups / max(groups - 1, 1)) / len(self.sample))

    def _class_thresholds(self, request: Request) -> Floats:
        """Thresholds by class on the probability itself, (T, draws, C).

        The scores of each class are drawn again, as many as it will have conformal rows: a threshold from the
        calibration rows alone would be another, and sizes depend on it.
        """
        sample, n_classes = self.sample, self.sample.data.n_classes
        counts = np.bincount(sample.labels, minlength=n_classes)
        in_use, ranks = own_ranks(counts, self.n_conformal, request.recipe.alpha)
        order, first = np.argsort(sample.labels, kind="stable"), np.cumsum(counts) - counts
        rng, cuts = stream(request.recipe.random_state, "class scores"), []
        for j in self._places(request.temperatures):
            with np.errstate(under="ignore"):
                likely = np.exp(self.labels.gap / self.labels.temperatures[j]) / (1.0 + self._rest(j))
            draws = np.zeros((_RESAMPLED, n_classes))
            for c in np.flatnonzero(ranks <= in_use):
                # Of so many scores drawn from those of a class, the order statistic of one rank: a Beta places it.
                place = rng.beta(in_use[c] + 1 - ranks[c], ranks[c], _RESAMPLED)
                mine = np.sort(likely[order[first[c] : first[c] + counts[c]]])
                draws[:, c] = mine[np.minimum((counts[c] * place).astype(np.int64), counts[c] - 1)]
            cuts.append(draws)
        return np.array(cuts)

    def _of_classes(self, request: Request, sums: Floats) -> Estimates:
        """From the labels besides the row's own (T, draws, groups), whose coverage the law of its class gives.

        Draws of thresholds carry the error of those from the conformal rows, and of those seen on the calibration rows.
        """
        n, counts = len(self.sample), np.bincount(self.sample.labels, minlength=self.sample.data.n_classes)
        in_use, ranks = own_ranks(counts, self.n_conformal, request.recipe.alpha)
        covered = float((ranks / (in_use + 1) * counts).sum() / n)
        each = sums.sum(axis=2) / n
        size = each.mean(axis=1)
        rows = self._factor * self._about_mean(sums.mean(axis=1), size)
        thresholds = (each - size[:, None]) * np.sqrt((1 + self.n_conformal / n) / (_RESAMPLED - 1))
        return Estimates(
            request.recipe, request.temperatures, request.levels, (size + covered)[:, None],
            np.concatenate([rows, thresholds], axis=1)[:, None],
            empty_fifths=np.zeros((len(size), 1, FIFTHS)), losses=np.empty((len(size), 0)),
        )  # fmt: skip

    def top_gaps(self, recipe: Recipe, temperatures: Floats) -> Floats:
        """TopCovGap of all rows, each half with the threshold of the other and drawn u; mean over random halvings."""
        sample, n, half = self.sample, len(self.sample), len(self.sample) // 2
        k, n_parts = conformal_rank(half, recipe.alpha), len(sample.parts.names)
        counts, total = sample.counts.astype(np.int64), np.zeros(len(temperatures))
        # As many places as TopCovGap adds up, so that the sum is rounded as if every class had one.
        places = (0, max(n_parts // 20 - len(counts), 0))
        for t in range(_HALVINGS):
            rng = stream(recipe.random_state, "halvings", t)
            mixed, u = rng.permutation(n), rng.random(n) if recipe.uses_u else np.ones(n)
            for at, j in enumerate(self._places(temperatures)):
                scores = self.labels.scores(recipe.set_score, j, np.arange(n), u)
                inside = np.zeros(n, dtype=bool)
                for fitted, judged in ((mixed[:half], mixed[half:]), (mixed[half : 2 * half], mixed[:half])):
                    q = np.partition(scores[fitted], k - 1)[k - 1] if k <= half else complex(np.inf, np.inf)
                    inside[judged] = scores[judged] <= q
                gaps = coverage_gaps(np.bincount(sample.place[inside], minlength=len(counts)), counts, recipe.alpha)
                total[at] += top_gap(np.pad(gaps, places, constant_values=np.nan)[None], n_parts)[0]
        return total / _HALVINGS


def own_ranks(counts: Ints, n_conformal: int, alpha: Alpha) -> tuple[Ints, Ints]:
    """Conformal rows that classes will have, as calibration rows make likely, and the ranks of their thresholds."""
    in_use = np.floor(counts * n_conformal / max(counts.sum(), 1)).astype(np.int64)
    return in_use, np.array([conformal_rank(int(n), alpha) for n in in_use])


class _Solved(NamedTuple):
    """Thresholds (2, T, L), and what hits show; see `Estimates`. inside, drawn : (T, L, groups), of hits."""

    gaps: ClassGaps | None
    cuts: Floats
    missed: Floats
    far: Floats
    inside: Floats
    drawn: Floats
    losses: Floats


def _zeros(shapes: Sequence[tuple[int, ...]]) -> tuple[Ints, ...]:
    return tuple(np.zeros(shape, dtype=np.int64) for shape in shapes)


def _size_block(
    block: Block, sums: tuple[Ints, ...], numbers: range, others: Floats, group: Ints, fifth: Ints, labels: Ints,
    sorter: Sorter, jobs: tuple[Any, ...], n_groups: int, own: tuple[Floats, Floats] | None,
) -> None:  # fmt: skip
    """Add the sizes of a block of rows by group, and its empty sets by fifth, for every request."""
    gaps, n = sorter.gaps(numbers.start, block), len(block)
    for k, (terms, drawn, temperatures, places, cuts) in enumerate(jobs):
        sizes = np.empty((*cuts.shape[1:], n))
        mine = np.ascontiguousarray(others.T[places])
        kernels.expected_sizes(terms, drawn, temperatures, gaps, mine, cuts, sizes)
        of_groups, of_fifths = sums[2 * k : 2 * k + 2]
        of_groups += _whole_sums(sizes, group, n_groups)
        of_fifths += _whole_sums(np.maximum(1.0 - sizes, 0.0), fifth, FIFTHS)
    if own is not None:
        probs, rows, each = np.empty(block.shape), as_float64(block), np.arange(n)
        for of_draws, temperature, cuts in zip(sums[-1], *own, strict=True):
            kernels.softmax(rows, float(temperature), probs)
            for k, cut in enumerate(cuts):
                inside = probs >= cut
                inside[each, labels] = False
                of_draws[k] += _whole_sums(inside.sum(axis=1).astype(np.float64), group, n_groups)


def _whole_sums(values: Floats, cell: Ints, n_cells: int) -> Ints:
    """Sums over the rows of each cell, as whole numbers: their order cannot matter."""
    return _sums(np.rint(values * _UNIT), cell, n_cells).astype(np.int64)
