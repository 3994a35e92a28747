"""Trials with sets of their own: at T*, or T-hat, of the rows each trial draws, or with a score and a level of its own.

The temperatures of a sweep are shared by all trials. Here a trial has one, so that the work is that of as many
softmaxes as there are different temperatures; rows are sorted once, by the loops of the sweep.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats, Ints
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.levels import Alpha
from thermoset.metrics import METRICS, Metric, SetCounts, swept_metrics
from thermoset.rows import SortedRows
from thermoset.scores import NeverEmpty, Score, ScoreLike, resolve
from thermoset.sweeping.engine import (
    LabelParts,
    Misses,
    Part,
    Trials,
    count_sets,
    expected_misses,
    label_parts,
    trial_thresholds,
)
from thermoset.sweeping.job import set_counts
from thermoset.sweeping.protocol import Protocol, draw_trials

__all__ = [
    "OwnTemperatures",
    "Way",
    "joined_by_top",
    "measure_trials",
    "measure_ways",
    "split_by_top",
]


class Way(NamedTuple):
    """How sets of one trial are made: the temperature, scores, and the levels that set their thresholds."""

    temperature: float
    scores: tuple[Score, ...]
    levels: tuple[Alpha, ...]


@dataclass(frozen=True, eq=False)
class OwnTemperatures:
    """What trials show, each at its own temperature.

    Attributes
    ----------
    temperatures : (trials,)
        Of each trial.
    metrics : tuple of str
        Those of a sweep, with empty sets allowed, then those that need the ranks of labels, or u integrated out.
    values : (methods, alphas, metrics, trials)
        Every measured value.
    hits : (methods, alphas, trials, C)
        Evaluation rows of each class whose set contains their label.
    counts : (trials, C)
        Evaluation rows of each class.
    """

    temperatures: Floats
    metrics: tuple[str, ...]
    values: Floats
    hits: Ints
    counts: Ints

    def of(self, metric: str) -> Floats:
        """One metric: (methods, alphas, trials)."""
        found: Floats = self.values[:, :, self.metrics.index(metric)]
        return found


def measure_trials(
    data: Logits,
    temperatures: ArrayLike,
    methods: Sequence[ScoreLike],
    alphas: Sequence[Alpha],
    protocol: Protocol,
    *,
    patched: bool = False,
) -> OwnTemperatures:
    """Measure trial t of a protocol at temperatures[t].

    `patched` fills empty sets as the published code does: the top label is added afterwards, without adjusting the
    threshold, so sets cover more than the level requires.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=1000)
    >>> data = Logits(rng.normal(size=(1000, 5)) + 2 * np.eye(5)[labels], labels)
    >>> found = measure_trials(data, [1.0, 1.5, 2.0], ["aps"], [0.1], Protocol())
    >>> found.of("avg_size").shape, found.hits.shape
    ((1, 1, 3), (1, 1, 3, 5))
    """
    own = np.asarray(temperatures, dtype=np.float64)
    if own.ndim != 1 or not own.size or not np.all((own > 0) & np.isfinite(own)):
        raise InputError(f"temperatures must be finite numbers above 0, one per trial; got {temperatures!r}.")
    scores, levels = tuple(resolve(method) for method in methods), tuple(alphas)
    return measure_ways(data, [Way(float(t), scores, levels) for t in own], levels, protocol, patched=patched)


def measure_ways(
    data: Logits,
    ways: Sequence[Way],
    alphas: Sequence[Alpha],
    protocol: Protocol,
    *,
    patched: bool = False,
) -> OwnTemperatures:
    """Measure trial t of a protocol with sets made by ways[t], all with as many scores and levels.

    `alphas` are the levels promised, which gaps are measured against; a way may set thresholds at stricter ones.
    `patched` as in `measure_trials`.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=1000)
    >>> data = Logits(rng.normal(size=(1000, 5)) + 2 * np.eye(5)[labels], labels)
    >>> strict = Way(1.0, (resolve("lac"),), (0.05,))
    >>> float(measure_ways(data, [strict] * 20, [0.1], Protocol()).of("marginal_coverage").mean()) > 0.93
    True
    """
    labels = data.require_labels("the study")
    trials = draw_trials(labels, data.n_classes, range(len(ways)), protocol)
    rows = SortedRows(data)
    distinct, place = np.unique([way.temperature for way in ways], return_inverse=True)
    known = label_parts(rows, labels, distinct)
    groups: dict[Way, list[int]] = {}
    for t, way in enumerate(ways):
        groups.setdefault(way, []).append(t)
    split, top = split_by_top(trials, labels, known.is_top)
    which = [np.array(group) for group in groups.values()]
    parts = [_part(known.at(place[w[0]]), way, split.some(w), patched) for way, w in zip(groups, which, strict=True)]
    counted = count_sets(rows, Misses.by_group(top, 2 * data.n_classes), parts)
    metrics = _trial_metrics()
    shape = len(ways[0].scores), len(alphas)
    values = np.full((*shape, len(metrics), len(ways)), np.nan)
    hits = np.empty((*shape, len(ways), data.n_classes), dtype=np.int64)
    for part, found, w in zip(parts, counted, which, strict=True):
        for m, a in np.ndindex(shape):
            cut = part.thresholds[0, m, 0, a]
            counts = joined_by_top(set_counts(found.at(m, 0, a), part.trials.counts, alphas[a], cut))
            averaged = _averaged(part, m, a, labels, counts)
            for k, metric in enumerate(metrics):
                values[m, a, k, w] = metric.of(averaged if metric.needs == "expectation" else counts)
            hits[m, a, w] = counts.hits
    own = np.array([way.temperature for way in ways])
    return OwnTemperatures(own, tuple(metric.name for metric in metrics), values, hits, trials.counts)


def _trial_metrics() -> tuple[Metric, ...]:
    """What trials show: the metrics of a sweep, those that need the ranks of labels, and those of expected hits."""
    added = [metric for needs in ("ranks", "expectation") for metric in METRICS.values() if metric.needs == needs]
    return (*swept_metrics(), *added)


def _averaged(part: Part, m: int, a: int, labels: Ints, counts: SetCounts) -> SetCounts:
    """The counts with hits averaged over u, for a score and a level."""
    score, trials = part.scores[m], part.trials
    if not (score.uses_u and trials.randomized):
        return counts
    missed = expected_misses(part.labels, score, 0, labels, trials, part.thresholds[:, m, 0, a])
    n_classes = counts.rows.shape[1]  # the trials have columns for twice as many groups: see `split_by_top`
    return replace(counts, hits=counts.rows - missed.T[:, :n_classes])


def split_by_top(trials: Trials, labels: Ints, is_top: Bools) -> tuple[Trials, Ints]:
    """Trials whose rows are counted in twice as many groups, and the group of each row.

    Group c holds the rows of class c that rank it first, group C + c its other rows.
    """
    n_classes = trials.counts.shape[1]
    groups = np.where(is_top, labels, labels + n_classes)
    counts = [np.bincount(groups[seen], minlength=2 * n_classes) for seen in trials.evaluation.T]
    return replace(trials, counts=np.array(counts)), groups


def joined_by_top(counts: SetCounts) -> SetCounts:
    """Counts of classes from those of the groups of `split_by_top`."""
    n_classes = counts.rows.shape[-1] // 2
    missed = (counts.rows - counts.hits)[..., :n_classes].sum(axis=-1)
    rows = counts.rows[..., :n_classes] + counts.rows[..., n_classes:]
    hits = counts.hits[..., :n_classes] + counts.hits[..., n_classes:]
    return replace(counts, rows=rows, hits=hits, top_missed=missed)


def _part(labels: LabelParts, way: Way, trials: Trials, patched: bool) -> Part:
    """Trials that make their sets in the same way, with their thresholds, which know of no patch."""
    thresholds = trial_thresholds(labels, way.scores, way.levels, trials)
    scores = tuple(map(NeverEmpty, way.scores)) if patched else way.scores
    return Part(labels, scores, thresholds, trials)
