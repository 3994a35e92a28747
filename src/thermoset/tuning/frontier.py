"""The alternatives: settings that no other one beats in both size and coverage of the worst tenth.

All kinds of sets, temperatures and levels are ranked by a quick guess; those on the front get estimates with intervals.
Sets by class and by cluster are tried out: half of the rows set the thresholds of the other half.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.conformal import ConformalClassifier
from thermoset.conformal.groupings import title_of
from thermoset.conformal.recipe import Recipe
from thermoset.errors import CoverageWarning
from thermoset.levels import rows_needed
from thermoset.rows import top_labels
from thermoset.scores import RAPS
from thermoset.tuning.choice import Outlook, Payers
from thermoset.tuning.points import FIFTHS, Points, Sample, laxer
from thermoset.tuning.worst_classes import ClassMisses, Tenths, tenths
from thermoset.uniforms import stream

__all__ = ["by_group", "ends_of", "front", "outlook_of", "paper_choice"]

_MOST = 12  # settings of the front that are kept
_ENDS = (0.05, 0.95)  # of the draws: a 90% interval, so that each end holds with 95%
_BY_CLASS_ROWS = 4_000  # tried out by class
_TRIED = "class", "cluster"  # groupings that are tried out
_LONGEST = 0.25  # of all classes: sets that are larger are no use to anyone


@dataclass(frozen=True)
class _Place:
    """A setting among points: which kind, temperature and level."""

    kind: int
    j: int
    level: int


def front(points: Sequence[Points], n_conformal: int) -> list[Outlook]:
    """Settings from the smallest sets to the best covered hard classes, none beaten in both by another."""
    places = [
        _Place(kind, j, level)
        for kind, one in enumerate(points)
        for j in range(len(one.temperatures))
        for level in range(len(one.levels))
    ]
    size = np.array([points[at.kind].size[at.j, at.level] for at in places])
    worst = np.array([points[at.kind].guessed_worst[at.j, at.level] for at in places])
    most = max(_LONGEST * points[0].sample.data.n_classes, 2.0)
    kept = _thinned(_unbeaten(np.where(size <= most, size, np.inf), worst), worst)
    return [outlook_of("", points[places[i].kind], places[i].j, places[i].level, n_conformal) for i in kept]


def _unbeaten(size: Floats, worst: Floats) -> Ints:
    """Places in order of size, each with a better worst tenth than all smaller ones."""
    order = np.lexsort((-worst, size))
    best = np.maximum.accumulate(worst[order])
    better = np.concatenate([[True], best[1:] > best[:-1] + 1e-9])
    return np.asarray(order[better & np.isfinite(size[order])])


def _thinned(places: Ints, worst: Floats) -> Ints:
    """At most a dozen, spread evenly over what they reach."""
    if len(places) <= _MOST:
        return places
    wanted = np.linspace(worst[places[0]], worst[places[-1]], _MOST)
    return np.asarray(places[np.unique(np.searchsorted(worst[places], wanted - 1e-12).clip(max=len(places) - 1))])


def outlook_of(name: str, points: Points, j: int, level: int, n_conformal: int) -> Outlook:
    """What one setting shows."""
    found = points.tenths(j, level, n_conformal)
    return Outlook(
        name=name,
        setting=points.recipe.change(alpha=points.levels[level]).change(temperature=float(points.temperatures[j])),
        size=float(points.size[j, level]),
        size_error=float(points.size_error(n_conformal)[j, level]),
        empty_share=float(points.empty[j, level].mean()),
        class_gap=float(points.gaps[j, level]),
        class_gap_ends=points.gap_ends(j, level),
        worst_tenth=float(np.median(found.worst)),
        worst_tenth_ends=ends_of(found.worst),
        payers=payers_of(points, j, level, found),
    )


def payers_of(points: Points, j: int, level: int, found: Tenths) -> Payers:
    """Who pays at one setting."""
    return Payers(
        easy=float(np.median(found.best)),
        left_out=float(points.left_out[j, level]),
        empty=tuple(points.empty[j, level].tolist()),
    )


def ends_of(draws: Floats) -> tuple[float, float]:
    """A 90% interval."""
    low, high = np.quantile(draws, _ENDS)
    return float(low), float(high)


def paper_choice(points: Sequence[Points], n_conformal: int) -> Outlook | None:
    """RAPS as published at the temperature with the least loss of classes or groups, up to the peak of its sizes."""
    usual = [one for one in points if one.recipe.score == RAPS() and one.recipe.randomized]
    if not usual or np.isnan(usual[0].loss).any():
        return None
    (one,) = usual[:1]
    peak = int(np.argmax(one.size[:, 0]))
    last = peak if 0 < peak < len(one.temperatures) - 1 else len(one.temperatures) - 1
    name = "the paper's T-hat" if one.sample.even == "class" else "the paper's RAPS, most even"
    return outlook_of(name, one, int(np.argmin(one.loss[: last + 1])), 0, n_conformal)


def by_group(sample: Sample, recipe: Recipe, temperature: float) -> list[Outlook]:
    """Sets with thresholds by class and by cluster, each half of the rows with the thresholds of the other half."""
    data = sample.data
    if len(data) // 2 < rows_needed(recipe.alpha) * data.n_classes or not recipe.score.prefixes:
        return []  # most thresholds would be infinite
    rows = stream(recipe.random_state, "rows tried by class").permutation(len(data))[:_BY_CLASS_ROWS]
    if len(rows) // 2 < rows_needed(recipe.alpha) * data.n_classes:
        rows = np.arange(len(data))
    halves = np.sort(rows[: len(rows) // 2]), np.sort(rows[len(rows) // 2 :])
    return [_tried(sample, recipe.change(grouping=name), temperature, halves) for name in _TRIED]


def _tried(sample: Sample, recipe: Recipe, temperature: float, halves: tuple[Ints, Ints]) -> Outlook:
    """Fit on one half, look at the other, and the other way round."""
    data, labels, top = sample.data, sample.labels, top_labels(sample.data)
    sizes, near, far = np.zeros(len(data)), np.zeros(len(data)), np.zeros(len(data))
    inside = np.zeros(len(data), dtype=bool)
    for fitted, judged in (halves, halves[::-1]):
        model = ConformalClassifier.of(recipe.change(temperature=temperature))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)
            model.fit(data.take(fitted))
            sets = model.predict_sets(data.take(judged), [recipe.alpha, laxer(recipe.alpha)])
        row = np.arange(len(judged))
        near[judged], far[judged] = ~sets[0, row, labels[judged]], ~sets[1, row, labels[judged]]
        sizes[judged] = sets[0].sum(axis=1)
        inside[judged] = sets[0, row, top[judged]]
    seen = np.concatenate(halves)
    looked = np.zeros(len(data))
    looked[seen] = 1.0
    counts, of_level, of_laxer = sample.by_part(np.stack([looked, near, np.maximum(far, near)]))
    misses = ClassMisses(counts, of_level, of_laxer, sample.parts.count)
    found = tenths(misses, recipe.alpha, len(seen), recipe.random_state)
    right = (top[seen] == labels[seen]) & ~inside[seen]
    empty = sizes[seen] == 0
    return Outlook(
        name=title_of(str(recipe.grouping)),
        setting=recipe.change(temperature=temperature),
        size=float(sizes[seen].mean()),
        size_error=float(sizes[seen].std() / np.sqrt(len(seen))),
        empty_share=float(empty.mean()),
        worst_tenth=float(np.median(found.worst)),
        worst_tenth_ends=ends_of(found.worst),
        payers=Payers(
            easy=float(np.median(found.best)),
            left_out=float(right.mean()),
            empty=tuple(float(empty[sample.fifth[seen] == k].mean()) for k in range(FIFTHS)),
        ),
    )
