"""The paper's protocol (section 3.1) on one file: everything that its tables and curves need.

The temperatures of a sweep are shared by all trials; in `measure_ways` each trial has a way of its own. Rows are sorted
once, by the loops of the sweep.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats, Ints
from thermoset.bounds import checked_seed, whole_number
from thermoset.calibration import confidences_at, fit_ece, fit_nll
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.kernels import Terms
from thermoset.levels import Alpha, exact_level
from thermoset.metrics import (
    METRICS,
    ReliabilityTable,
    SetCounts,
    reliability_from_confidence,
    swept_metrics,
    top_k_accuracy,
)
from thermoset.quoting import Brief, quoted
from thermoset.rows import SortedRows
from thermoset.scores import RAPS, NeverEmpty, Score, ScoreLike, resolve
from thermoset.sweeping import DEFAULT_GRID, MOST_TRIALS, Protocol, Sweep, draw_trial, sweep, temperature_grid
from thermoset.sweeping.engine import Counted, Misses, Part, count_sets, label_parts, trial_thresholds
from thermoset.sweeping.expectations import expected_misses
from thermoset.sweeping.job import set_counts
from thermoset.sweeping.protocol import draw_trials


class Way(NamedTuple):
    """How sets of one trial are built: the temperature, scores, and the levels that set their thresholds."""

    temperature: float
    scores: tuple[Score, ...]
    levels: tuple[Alpha, ...]


@dataclass(frozen=True, eq=False)
class OwnTemperatures:
    """What trials show, each at its own temperature.

    The metrics are those of a sweep, then those that need the ranks of labels, or u integrated out.
    """

    temperatures: Floats  # (trials,)
    metrics: tuple[str, ...]
    values: Floats  # (methods, alphas, metrics, trials)
    hits: Ints  # (methods, alphas, trials, C): evaluation rows of each class whose set contains their label
    counts: Ints  # (trials, C): evaluation rows of each class

    def of(self, metric: str) -> Floats:
        """One metric: (methods, alphas, trials)."""
        values: Floats = self.values[:, :, self.metrics.index(metric)]
        return values


def measure_trials(
    data: Logits,
    temperatures: ArrayLike,
    methods: Sequence[ScoreLike],
    alphas: Sequence[Alpha],
    protocol: Protocol,
    *,
    patched: bool = False,
) -> OwnTemperatures:
    """Measure trial t of a protocol at temperatures[t]; `patched` as in `measure_ways`."""
    scores, levels = tuple(resolve(method) for method in methods), tuple(alphas)
    ways = [Way(float(t), scores, levels) for t in np.asarray(temperatures)]
    return measure_ways(data, ways, levels, protocol, patched=patched)


def measure_ways(
    data: Logits, ways: Sequence[Way], alphas: Sequence[Alpha], protocol: Protocol, *, patched: bool = False
) -> OwnTemperatures:
    """Measure trial t of a protocol with sets built by ways[t], all with as many scores and levels.

    `alphas` are the levels promised, which gaps are measured against; a way may set thresholds at stricter ones.
    `patched` fills empty sets as the published code does: the top label is added afterwards, under the same threshold.
    """
    labels = data.require_labels("the study")
    trials = draw_trials(labels, data.n_classes, range(len(ways)), protocol)
    rows = SortedRows(data)
    distinct, place = np.unique([way.temperature for way in ways], return_inverse=True)
    known = label_parts(rows, labels, distinct)
    groups: dict[Way, list[int]] = {}
    for t, way in enumerate(ways):
        groups.setdefault(way, []).append(t)
    parts = []
    for way, group in groups.items():
        of_way, own = trials.take(np.array(group)), known.at(place[group[0]])
        thresholds = trial_thresholds(own, way.scores, way.levels, of_way)  # which know of no patch
        scores = tuple(map(NeverEmpty, way.scores)) if patched else way.scores
        parts.append(Part(own, scores, thresholds, of_way))
    counted = count_sets(rows, misses_by_top(labels, known.is_top, data.n_classes), parts)
    added = [metric for needs in ("ranks", "expectation") for metric in METRICS.values() if metric.needs == needs]
    metrics = (*swept_metrics(), *added)
    shape = len(ways[0].scores), len(alphas)
    values = np.full((*shape, len(metrics), len(ways)), np.nan)
    hits = np.empty((*shape, len(ways), data.n_classes), dtype=np.int64)
    for part, sets, w in zip(parts, counted, groups.values(), strict=True):
        for m, a in np.ndindex(shape):
            q = part.thresholds[:, m, 0, a]
            counts = averaged = counts_by_top(sets.at(m, 0, a), part.trials.counts, alphas[a], q[0])
            if part.scores[m].uses_u and trials.randomized:
                missed = expected_misses(part.labels, part.scores[m], 0, labels, part.trials, q)
                averaged = replace(counts, hits=counts.rows - missed.T)
            for k, metric in enumerate(metrics):
                values[m, a, k, w] = metric.of(averaged if metric.needs == "expectation" else counts)
            hits[m, a, w] = counts.hits
    temperatures = np.array([way.temperature for way in ways])
    return OwnTemperatures(temperatures, tuple(metric.name for metric in metrics), values, hits, trials.counts)


def misses_by_top(labels: Ints, is_top: Bools, n_classes: int) -> Misses:
    """Misses of twice as many groups: of each class the rows that rank it first, then those of each class that do not.

    `counts_by_top` makes counts of classes from them.
    """
    return Misses.by_group(np.where(is_top, labels, labels + n_classes), 2 * n_classes)


def counts_by_top(counted: Counted, rows: Ints, alpha: Alpha, threshold: Floats) -> SetCounts:
    """What metrics of classes read, and how many rows miss their label though they rank it first."""
    top, others = np.split(counted.missed, 2)
    counts = set_counts(counted._replace(missed=top + others), rows, alpha, threshold)
    return replace(counts, top_missed=top.sum(axis=0))


Tell = Callable[[], None]


@dataclass(frozen=True)
class PublishedRAPS(RAPS):
    """RAPS as the published code computes it: u multiplies the label's own step of the penalty too."""

    name: ClassVar[str] = "raps_published"

    @property
    def terms(self) -> Terms:
        """Those of RAPS, with the whole of a label's own step multiplied by u."""
        return super().terms._replace(drawn=1.0)


METHODS = ("lac", "aps", "raps")
_SCORES = (*METHODS, PublishedRAPS())
HOTTEST = 2.95
"""The code published with the paper searches T-hat below this."""
_ALPHA, _CP = 0.1, 10  # of the paper's main tables
_MOST_SHOWN = 100  # trials whose rows a reliability diagram holds
_FEWEST, _MOST = 3, 500  # temperatures of a curve that can rise and fall, and whose every two are compared
_SPAN, _RATIO = 2.0, 1.005  # of the temperatures scanned for T*: around that of all rows, and from one to the next


@dataclass(frozen=True)
class Settings:
    """What the study asks for; the paper's protocol where nothing else is said.

    Attributes
    ----------
    trials, random_state : int
        Random splits, and the seed of splits and of u.
    alphas : tuple of float
        Levels of tables and curves.
    cp_percents, calibration_percent : tuple of int, int
        Conformal rows (sizes of the CP set) and calibration rows, in percent of all rows.
    temperatures : str
        Grid of the curves, as `temperature_grid` reads it.
    ece_bins : int
        Bins of the ECE that T* minimises.

    >>> Settings(alphas=(0.2, 0.05), cp_percents=(15,)).main
    (0.2, 15)
    """

    trials: int = 100
    random_state: int = 0
    alphas: tuple[float, ...] = (0.1, 0.05)
    cp_percents: tuple[int, ...] = (5, 10, 20)
    calibration_percent: int = 10
    temperatures: str = DEFAULT_GRID
    ece_bins: int = 10

    def __post_init__(self) -> None:
        whole_number(self.trials, "trials", 2, MOST_TRIALS, "Try 100.")
        checked_seed(self.random_state)
        whole_number(self.ece_bins, "ece_bins", 1, 1000, "Try 10.")
        for percent in (self.calibration_percent, *self.cp_percents):
            whole_number(percent, "percents of the rows", 1, 98, "Try 10.")
        for name, values in (("alphas", self.alphas), ("cp_percents", self.cp_percents)):
            if not values or len(set(values)) < len(values):
                raise InputError(f"{name} must be one number or more, no two alike; got {quoted(values)}.")
        for alpha in self.alphas:
            exact_level(alpha)
        if self.calibration_percent + max(self.cp_percents) >= 100:
            raise InputError(
                f"{self.calibration_percent}% of the rows calibrate and up to {max(self.cp_percents)}% set thresholds: "
                "none are left to evaluate. Take fewer."
            )
        grid = self.grid()
        if not _FEWEST <= len(grid) <= _MOST or grid[0] >= HOTTEST:
            raise InputError(
                f"temperatures must be {_FEWEST} to {_MOST} numbers that begin below {HOTTEST}; "
                f"got {quoted(self.temperatures)}. Try {DEFAULT_GRID}."
            )

    @property
    def main(self) -> tuple[float, int]:
        """Level and size of the conformal set of what is looked at in one setting: 0.1 and 10% where listed."""
        alpha = _ALPHA if _ALPHA in self.alphas else self.alphas[0]
        return alpha, _CP if _CP in self.cp_percents else self.cp_percents[0]

    def protocol(self, cp_percent: int) -> Protocol:
        """How rows are split for a size of the conformal set; calibration rows are the same for all of them."""
        return Protocol(Fraction(self.calibration_percent, 100), Fraction(cp_percent, 100), self.random_state)

    def grid(self) -> Floats:
        """Temperatures of the curves."""
        return temperature_grid(self.temperatures)

    def sweep(self, data: Logits, cp_percent: int, **options: Any) -> Sweep:
        """A sweep by this protocol."""
        splits = self.protocol(cp_percent)
        return sweep(
            data,
            methods=METHODS,
            calibration_fraction=splits.calibration_fraction,
            cp_fraction=splits.cp_fraction,
            random_state=self.random_state,
            **options,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Measured(Brief):
    """What one file shows.

    `nll`, `ece`: T* of all rows; `trial_nll`, `trial_ece`: of each trial's calibration rows. `curves`, `before` (at
    T = 1), `after` (at each trial's T* by ECE) and `printed` (at the paper's T*, or for other files that of all rows)
    have an entry for each size of the conformal set. `reliability`: at T = 1 and at each trial's T*.
    """

    top1: float
    top5: float
    nll: float
    ece: float
    trial_nll: Floats
    trial_ece: Floats
    curves: dict[int, Sweep]
    before: dict[int, OwnTemperatures]
    after: dict[int, OwnTemperatures]
    printed: dict[int, OwnTemperatures]
    reliability: tuple[ReliabilityTable, ReliabilityTable]


def measure(data: Logits, settings: Settings, printed_temperature: float | None, tell: Tell) -> Measured:
    """Run the protocol; `tell` is called as each step ends."""
    labels = data.require_labels("the study")
    nll, ece = fit_nll(data).temperature, fit_ece(data, settings.ece_bins).temperature
    tell()
    trial_nll, trial_ece = calibrated_temperatures(data, settings, ece)
    tell()
    fixed = ece if printed_temperature is None else printed_temperature
    curves, parts = {}, {}
    for cp in settings.cp_percents:
        curves[cp] = settings.sweep(
            data, cp, temperatures=settings.grid(), alphas=settings.alphas, trials=settings.trials
        )
        tell()
        parts[cp] = [
            measure_trials(data, temperatures, _SCORES, settings.alphas, settings.protocol(cp))
            for temperatures in (np.ones(settings.trials), trial_ece, np.full(settings.trials, fixed))
        ]
        tell()
    before, after, printed = ({cp: results[i] for cp, results in parts.items()} for i in range(3))
    return Measured(
        top1=top_k_accuracy(data.logits, labels, 1),
        top5=top_k_accuracy(data.logits, labels, min(5, data.n_classes)),
        nll=nll,
        ece=ece,
        trial_nll=trial_nll,
        trial_ece=trial_ece,
        curves=curves,
        before=before,
        after=after,
        printed=printed,
        reliability=unseen_reliability(data, trial_ece, settings),
    )


def unseen_reliability(
    data: Logits, temperatures: Floats, settings: Settings
) -> tuple[ReliabilityTable, ReliabilityTable]:
    """Reliability at T = 1 and at each trial's temperature, on rows that do not calibrate in that trial.

    The bins hold the rows of all trials, or of the first hundred.
    """
    temperatures = temperatures[:_MOST_SHOWN]
    confidence = confidences_at(data, np.concatenate([[1.0], temperatures]))
    unseen = np.ones((len(temperatures), len(data)), dtype=bool)
    for shown, rows in zip(unseen, calibration_rows(data, settings), strict=False):
        shown[rows] = False
    correct = data.logits.argmax(axis=1) == data.require_labels("the study")
    right, at_one = (np.broadcast_to(of_rows, unseen.shape)[unseen] for of_rows in (correct, confidence[0]))
    return (
        reliability_from_confidence(at_one, right, settings.ece_bins),
        reliability_from_confidence(confidence[1:][unseen], right, settings.ece_bins),
    )


def calibration_rows(data: Logits, settings: Settings) -> Iterator[Ints]:
    """Calibration rows of each trial; they are the same for every size of the conformal set."""
    for t in range(settings.trials):
        yield draw_trial(len(data), t, settings.protocol(settings.cp_percents[0])).calibration


def calibrated_temperatures(data: Logits, settings: Settings, centre: float) -> tuple[Floats, Floats]:
    """T* by NLL and by ECE of each trial's calibration rows.

    The ECE of all trials is read from one scan of all rows, at temperatures half a percent apart around `centre`: fits
    would be ten times the work of the rest of the study. A trial whose best is at an end of the scan is fitted.
    """
    labels = data.require_labels("the study")
    steps = int(np.log(_SPAN) / np.log(_RATIO))
    grid: Floats = centre * _RATIO ** np.arange(-steps, steps + 1, dtype=np.float64)
    confidence = confidences_at(data, grid)
    correct = data.logits.argmax(axis=1) == labels
    nll, ece = np.empty(settings.trials), np.empty(settings.trials)
    bins = settings.ece_bins
    for t, rows in enumerate(calibration_rows(data, settings)):
        best = int(np.argmin([reliability_from_confidence(at[rows], correct[rows], bins).ece for at in confidence]))
        part = data.take(rows)
        ece[t] = grid[best] if 0 < best < len(grid) - 1 else fit_ece(part, bins).temperature
        nll[t] = fit_nll(part).temperature
    return nll, ece
