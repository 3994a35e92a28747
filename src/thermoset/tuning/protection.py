"""Sets that protect the hard classes: the smallest ones that cover the worst tenth of classes as requested.

Evenness at a fixed coverage is bought by leaving out right answers of easy rows. A stricter level instead gives hard
classes more and takes nothing from easy ones: the promise of 1 - alpha still holds. For every kind of sets and
temperature the level is found at which the claim is probable enough; the smallest sets win.

Kind and temperature come from calibration rows alone. The level may come from all rows: whatever it is, the threshold
is at least the one that the conformal rows alone give at alpha, and so is coverage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np

from thermoset.arrays import Floats
from thermoset.conformal.recipe import Recipe
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.scores import LAC
from thermoset.tuning.class_gap import ClassSample
from thermoset.tuning.closed_form import Curves
from thermoset.tuning.points import Points, Sample, levels_between, measure
from thermoset.tuning.search import Found
from thermoset.tuning.worst_classes import assured, with_more_rows

__all__ = ["STRICTER", "Protection", "protect"]

STRICTER = (1.0, 0.8, 0.6, 0.45, 0.3, 0.2, 0.1)
"""Multiples of alpha at which all kinds of sets are measured."""

_CONFIDENCE = 0.95
_STEP, _STRICTEST = 0.94, 0.004  # of the levels tried for a finalist, as multiples of alpha
_STRIDE = 8  # rungs of the ladder that are looked at first
_FINALISTS = 4  # kinds whose level is looked for
_NEIGHBOURS = 3  # temperatures on either side whose levels are taken together
_MARGIN = 6.0  # over the root of the number of rows: by how much another score must beat LAC
_ABOVE = 1.3  # times T*: where temperatures have no handicap
_MORE = (1.5, 2.0, 3.0, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128)  # times as many rows, that might show what these do not
_STRICTER_STILL = (1.0, 0.5, 0.25, 0.12, 0.06)  # times the strictest level that these rows allow


@dataclass(frozen=True, eq=False)
class Protection:
    """What the search needs: calibration rows, all rows, the target, the promise, rows behind the threshold, and T*."""

    calibration: Sample
    everything: Sample
    target: float
    alpha: Alpha
    n_threshold: int
    calibrated: float
    seed: int

    @property
    def ladder(self) -> tuple[str, ...]:
        """Levels that fall from alpha, as far as the rows give finite thresholds."""
        factors = [_STEP**i for i in range(int(np.log(_STRICTEST) / np.log(_STEP)))]
        levels = levels_between(self.alpha, factors)
        return tuple(level for level in levels if conformal_rank(self.n_threshold, level) <= self.n_threshold)

    def handicap(self, recipe: Recipe) -> float:
        """What sizes are multiplied by before they are compared.

        LAC makes the smallest sets of all scores at a given coverage. What few rows show for another is mostly luck: it
        must be better by a margin.
        """
        return 1.0 if isinstance(recipe.score, LAC) else 1 + self._margin

    def detour(self, temperatures: Floats) -> Floats:
        """The same for temperatures: somewhat above T* sets are about as small as anywhere, on all data tried."""
        return 1 + self._margin * np.abs(np.log(temperatures / (_ABOVE * self.calibrated)))

    @property
    def _margin(self) -> float:
        return _MARGIN / float(np.sqrt(len(self.calibration)))


def protect(job: Protection, points: Sequence[Points]) -> Found:
    """Choose kind, temperature and level; `points` are the kinds measured at the levels `STRICTER`."""
    tried = [_level_of(job, job.calibration, one) for one in _finalists(job, points)]
    best = min(tried, key=lambda one: (False, one.rated) if one.met else (True, -one.sure))
    kind = Candidate(best.points.recipe, float(best.points.temperatures[0]))
    final = _level_of(job, job.everything, kind)
    few = ClassSample(job.everything.parts, job.seed).rows_wanted(float(exact_level(job.alpha)))
    met = final.met and few is None
    return Found(
        recipe=kind.recipe.change(alpha=final.points.levels[final.place]),
        temperature=kind.temperature,
        curves=_curves(job, next(one for one in points if one.recipe == kind.recipe)),
        met=met,
        sure=final.sure,
        tenths=final.points.tenths(0, final.place, job.n_threshold),
        size=float(best.points.size[0, best.place]) if best.met else np.inf,
        rows_needed=None if met else few or _rows_needed(job, final),
    )


@dataclass(frozen=True)
class Candidate:
    """A kind of sets at a temperature."""

    recipe: Recipe
    temperature: float


@dataclass(frozen=True, eq=False)
class Strict:
    """The laxest level of a candidate that is strict enough, or the strictest: its place, and how sure it makes.

    `rated` is the size of its sets with the candidate's handicap.
    """

    points: Points
    place: int
    rated: float
    sure: float
    met: bool


def _finalists(job: Protection, points: Sequence[Points]) -> list[Candidate]:
    """Each kind at its best temperature, those with the smallest sets by a quick guess, and LAC."""
    guesses = []
    for one in points:
        sizes = _guessed_sizes(one, job.target) * job.detour(one.temperatures)
        best = int(np.argmin(sizes))
        guesses.append((sizes[best] * job.handicap(one.recipe), Candidate(one.recipe, float(one.temperatures[best]))))
    guesses.sort(key=lambda guess: guess[0])
    plain = [one for one in guesses if isinstance(one[1].recipe.score, LAC)]
    return list(dict.fromkeys(candidate for _, candidate in [*plain, *guesses[:_FINALISTS]]))


def _guessed_sizes(one: Points, target: float) -> Floats:
    """Sizes at the level where the guessed worst tenth reaches the target, (T,).

    Which level a temperature needs is guessed with much chance in it, how sizes differ at one level with little: a
    level is the median of those of neighbouring temperatures.
    """
    levels = np.log(one.alphas)
    needed = [np.interp(target, np.maximum.accumulate(worst), levels) for worst in one.guessed_worst]
    around = np.pad(needed, _NEIGHBOURS, mode="edge")
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(around, 2 * _NEIGHBOURS + 1), axis=1)
    sizes = np.log(np.maximum(one.size, 1e-9))
    return np.array([np.exp(np.interp(-at, -levels, of)) for at, of in zip(smooth, sizes, strict=True)])


def _level_of(job: Protection, sample: Sample, candidate: Candidate) -> Strict:
    """The laxest level that is strict enough: first on every few rungs of the ladder, then between two of them."""
    ladder = job.ladder
    rungs = sorted({*range(0, len(ladder), _STRIDE), len(ladder) - 1})
    found = _among(job, sample, candidate, [ladder[i] for i in rungs])
    if not found.met or not found.place:
        return found
    start, stop = rungs[found.place - 1] + 1, rungs[found.place]
    return _among(job, sample, candidate, ladder[start : stop + 1])


def _among(job: Protection, sample: Sample, candidate: Candidate, levels: Sequence[str]) -> Strict:
    """Bisect: the stricter the level, the surer. A level more is measured, for how sizes change with it."""
    further = levels_between(levels[-1], (0.9,))
    (points,) = measure(sample, [candidate.recipe], np.array([candidate.temperature]), [*levels, *further])

    @cache
    def sure(place: int) -> float:
        return assured(points.misses(0, place), points.levels[place], job.target, job.n_threshold, job.seed)

    low, high = 0, len(levels) - 1
    met = sure(high) >= _CONFIDENCE
    while met and low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if sure(middle) >= _CONFIDENCE else (middle + 1, high)
    rated = float(points.size[0, high]) * job.handicap(candidate.recipe)
    return Strict(points, high, rated, sure(high), met)


def _rows_needed(job: Protection, final: Strict) -> int | None:
    """About how many rows would carry the claim, at the strictest level of these or one that only more rows allow."""
    rows, level = len(job.everything), float(exact_level(final.points.levels[final.place]))
    seen = final.points.misses(0, final.place)
    for factor, stricter in product(_MORE, _STRICTER_STILL):
        count, alpha = int(np.ceil(rows * factor)), f"{level * stricter:.3g}"
        more = with_more_rows(replace(seen, near=seen.near * stricter), factor, job.seed)
        possible = conformal_rank(count, alpha) <= count
        if possible and assured(more, alpha, job.target, count, job.seed) >= _CONFIDENCE:
            return count
    return None


def _curves(job: Protection, one: Points) -> Curves:
    """Sizes at the promised level over the temperatures, for the record."""
    none = np.empty((len(one.temperatures), 0))
    empty = one.empty[:, 0].mean(axis=1)
    return Curves(one.temperatures, one.size[:, 0], one.size_error(job.n_threshold)[:, 0], empty, one.loss, none, none)
