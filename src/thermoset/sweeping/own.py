"""Trials at temperatures of their own: T*, or T-hat, of the rows each trial draws.

The temperatures of a sweep are shared by all trials. Here a trial has one, so that the work is that of as many
softmaxes as there are different temperatures; rows are sorted once, by the loops of the sweep.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from thermoset.core.counting import Levels, Part, count_sets
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.label_shares import SharesByTemperature, label_shares
from thermoset.core.levels import Alpha
from thermoset.core.scores import Score, resolve
from thermoset.core.sources import ArrayRows, RankedRows
from thermoset.core.trials import Trials, trial_thresholds
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.metrics import swept_metrics
from thermoset.sweeping.passes import fill_counted, set_counts
from thermoset.sweeping.protocol import Protocol, draw_trials

__all__ = ["OwnTemperatures", "measure_trials"]


@dataclass(frozen=True, eq=False)
class OwnTemperatures:
    """What trials show, each at its own temperature.

    Attributes
    ----------
    temperatures : (trials,)
        Of each trial.
    metrics : tuple of str
        Those of a sweep, with empty sets allowed.
    values : (methods, alphas, metrics, trials)
        Every measured value.
    hits : (methods, alphas, trials, C)
        Evaluation rows of each class whose set holds their label.
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
    methods: Sequence[str | Score],
    alphas: Sequence[Alpha],
    protocol: Protocol,
    *,
    tick: Callable[[], None] = lambda: None,
) -> OwnTemperatures:
    """Measure trial t of a protocol at temperatures[t]; `tick` is called when a tenth or so of the work is done.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=1000)
    >>> data = Logits(rng.normal(size=(1000, 5)) + 2 * np.eye(5)[labels], labels)
    >>> found = measure_trials(data, [1.0, 1.5, 2.0], ["aps"], [0.1], Protocol())
    >>> found.of("avg_size").shape, found.hits.shape
    ((1, 1, 3), (1, 1, 3, 5))
    """
    labels = data.require_labels("measure_trials")
    own = np.asarray(temperatures, dtype=np.float64)
    if own.ndim != 1 or not own.size or not np.all((own > 0) & np.isfinite(own)):
        raise InputError(f"temperatures must be finite numbers above 0, one for each trial; got {temperatures!r}.")
    scores = tuple(resolve(method) for method in methods)
    trials = draw_trials(labels, data.n_classes, range(len(own)), protocol)
    rows = RankedRows(ArrayRows(data.logits))
    distinct, place = np.unique(own, return_inverse=True)
    shares = label_shares(rows, labels, distinct)
    tick()
    groups = [np.flatnonzero(place == j) for j in range(len(distinct))]
    parts = [_part(shares.only(j), scores, alphas, trials.some(which), distinct[j]) for j, which in enumerate(groups)]
    tick()
    counted = count_sets(rows, labels, parts)
    tick()
    shape, metrics = (len(scores), len(alphas)), swept_metrics()
    values = np.full((*shape, len(metrics), len(own)), np.nan)
    hits = np.empty((*shape, len(own), data.n_classes), dtype=np.int64)
    for part, found, which in zip(parts, counted, groups, strict=True):
        for m, a in np.ndindex(shape):
            cut = part.levels.cuts.value[m, 0, a]
            counts = set_counts(found.at(m, 0, a), part.trials.counts, alphas[a], cut)
            some = np.empty((len(metrics), len(which)))
            fill_counted(some, metrics, counts)
            values[m, a][:, which] = some
            hits[m, a, which] = counts.hits
    return OwnTemperatures(own, tuple(metric.name for metric in metrics), values, hits, trials.counts)


def _part(
    shares: SharesByTemperature, scores: tuple[Score, ...], alphas: Sequence[Alpha], trials: Trials, temperature: float
) -> Part:
    """Trials that share a temperature, with their thresholds."""
    cuts = trial_thresholds(shares, scores, alphas, trials)
    return Part(shares, Levels(scores, np.array([temperature]), cuts), trials)
