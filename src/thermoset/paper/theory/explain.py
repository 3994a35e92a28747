"""What the theory says about a file of logits, and what its sets do: sizes, coverage of classes, the quantile sample.

With u integrated out, a label's score is uniform on an interval; the page "Theory" derives what follows. Masses are
kept as what is left to 1: a threshold of 1 - 1e-40 is an ordinary one at low temperatures.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from thermoset.arrays import Bools, Floats, Ints, Pairs
from thermoset.bounds import checked_temperature
from thermoset.calibration import label_logits
from thermoset.conformal.scoring import label_ranks, label_scores
from thermoset.data import Logits
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.paper.theory.bound import critical_temperature, last_where
from thermoset.paper.theory.gaps import (
    checked_rank,
    distances,
    each_row,
    finite_logits,
    last_index,
    log_softmax,
    margins,
)
from thermoset.paper.theory.sizes import Peak, measured_peak, penalties, size_sweep
from thermoset.quoting import Brief
from thermoset.rows import SortedRows
from thermoset.scores import APS, RAPS, Score, resolve
from thermoset.sweeping import Sweep
from thermoset.uniforms import Randomness

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False, repr=False)
class SizeSlopes(Brief):
    """Expected sizes and their derivative in T, one entry for each temperature; u is integrated out.

    The scores of the classes at the threshold fall as T grows at the mean speed `fall_of_scores`; the threshold falls
    at `fall_of_threshold`, the same mean over the rows' own labels alone.
    """

    temperature: Floats
    threshold: Floats  # at which 1 - alpha of the rows' labels are inside
    size: Floats  # mean, there
    density: Floats  # of classes for each unit of score at the threshold: by how much sizes would grow if it rose
    fall_of_scores: Floats
    fall_of_threshold: Floats
    direct: Floats  # derivative of the size at a threshold that stays: never negative, since scores fall
    through_threshold: Floats  # by the movement of the threshold alone: never positive
    slope: Floats  # derivative of the size in T: the sum of both

    @property
    def peaks(self) -> Floats:
        """Temperatures where growth turns to shrinkage: the two speeds cross, located by linear interpolation.

        Sizes of finitely many rows have kinks: a fine grid may show several turns around a flat top.
        """
        t, s = self.temperature, self.slope
        turns = np.flatnonzero((s[:-1] > 0) & (s[1:] <= 0))
        return np.asarray(t[turns] + (t[turns + 1] - t[turns]) * s[turns] / (s[turns] - s[turns + 1]))


class _Ranks(NamedTuple):
    """Places in rows: what is left to 1 above the rank less the penalty, the width there, and the speeds around it.

    A label's score is uniform on an interval that starts at the mass above it and is `width` long. Where q meets it, in
    its part f, the score falls with T at v = [sum over i < r of p_i (z_i - mean z) + f p_r (z_r - mean z)] / T^2 >= 0.
    """

    slack: Floats
    width: Floats
    speed_above: Floats
    own_speed: Floats

    def meet(self, left: float) -> tuple[Floats, Floats, Floats]:
        """Part of the interval below 1 - left, the speed v where it meets it, and the density of labels there."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            part = np.clip((self.slack - left) / self.width, 0.0, 1.0)
            part = np.where(self.width > 0, part, self.slack > left)
            density = np.where((part > 0) & (part < 1), 1 / self.width, 0.0)
        return part, self.speed_above + part * self.own_speed, density


def size_slopes(
    logits: Any,
    labels: Any = None,
    temperatures: Iterable[float] = (1.0,),
    *,
    method: str | Score = "aps",
    alpha: Alpha = 0.1,
) -> SizeSlopes:
    """Derivative in T of the expected size of APS or RAPS sets that keep their coverage, in closed form.

    The rows are the population: the threshold is the one at which 1 - alpha of their labels are inside, on average over
    u. `direct` and `through_threshold` are what a falling score and a falling threshold do to sizes; where they cross,
    sizes peak.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 20, size=2000)
    >>> z = 3 * (rng.normal(size=(2000, 20)) + 3 * np.eye(20)[y])
    >>> slopes = size_slopes(z, y, [1, 2, 3, 4])
    >>> slopes.direct.round(2), slopes.through_threshold.round(2)
    (array([1.61, 1.87, 1.21, 0.75]), array([-0.99, -1.65, -1.36, -0.91]))
    >>> slopes.peaks.round(1)
    array([2.6])
    """
    rows = _population(logits, labels, method, alpha)
    records = []
    for t in map(checked_temperature, temperatures):
        left, _, speed, density = _own_labels(rows, t)
        threshold_falls = _mean_speed(speed, density)
        size, speed, density = _boundary(rows, t, left)
        records.append((t, 1 - left, size.mean(), density.mean(), _mean_speed(speed, density), threshold_falls))
    columns = np.array(records, dtype=np.float64).reshape(-1, 6).T
    _, _, _, density, scores, threshold = columns
    terms = density * scores, -density * threshold, density * (scores - threshold)
    return SizeSlopes(*[*columns, *terms])


def _mean_speed(speed: Floats, density: Floats) -> float:
    """Mean of v where the threshold meets intervals, weighted by their density."""
    total = density.sum()
    return float((speed * density).sum() / total) if total else 0.0


class _Population(NamedTuple):
    """Ranked rows, labels and their ranks, what the score adds at a rank at u = 0 and u = 1, the level."""

    ranked: SortedRows
    labels: Ints
    ranks: Ints
    penalty: Floats
    alpha: float


def _population(logits: Any, labels: Any, method: str | Score, alpha: Alpha) -> _Population:
    data, score = finite_logits(logits, labels), resolve(method)
    own = data.require_labels("the derivative in T")
    if not isinstance(score, APS | RAPS):
        raise InputError(f"derivatives in T are available only for APS and RAPS; got {score!r}.")
    added = penalties(score, data.n_classes)
    return _Population(SortedRows(data), own, label_ranks(data, own), added, float(exact_level(alpha)))


def _own_labels(rows: _Population, t: float) -> tuple[float, Floats, Floats, Floats]:
    """1 - q at which 1 - alpha of the labels are inside; their probability to be, and v and density at q."""

    def work(ranked: Floats, place: slice) -> Floats:
        at = rows.ranks[place, None] - 1
        return np.hstack([np.take_along_axis(one, at, axis=1) for one in _ranks(ranked, t, rows.penalty)])

    labels = _Ranks(*each_row(rows.ranked, work, (4,)).T)
    left = _solve(labels, (1 - rows.alpha) * len(rows.labels), float(rows.penalty.max()))
    return left, *labels.meet(left)


def _ranks(ranked: Floats, t: float, penalty: Floats) -> _Ranks:
    """The same for all ranks of rows in descending order, each (n, C)."""
    fall = distances(ranked, ranked[:, :1], 1.0)
    weight = np.exp(-distances(ranked, ranked[:, :1], 1 / t))
    p = weight / weight.sum(axis=1, keepdims=True)
    own = p * ((p * fall).sum(axis=1, keepdims=True) - fall) / t**2
    # Sums from the last rank on: what is left, and minus what has been lost, of the ranks from this one on.
    slack, lost = (np.cumsum(part[:, ::-1], axis=1)[:, ::-1] for part in (p, own))
    return _Ranks(slack - penalty[0], p + (penalty[1] - penalty[0]), np.maximum(-lost, 0.0), own)


def _boundary(rows: _Population, t: float, left: float) -> tuple[Floats, Floats, Floats]:
    """Expected size of each row's set, and speed and density of its class at the threshold."""

    def work(ranked: Floats, _: slice) -> Floats:
        every = _ranks(ranked, t, rows.penalty)
        # Intervals of a row do not overlap: ranks before the one that the threshold meets are inside, others outside.
        inside = np.count_nonzero(every.slack - every.width >= left, axis=1)[:, None]
        at = np.minimum(inside, ranked.shape[1] - 1)
        part, speed, density = _Ranks(*(np.take_along_axis(one, at, axis=1) for one in every)).meet(left)
        return np.hstack([at + part, speed, density])

    size, speed, density = each_row(rows.ranked, work, (3,)).T
    return size, speed, density


def _solve(labels: _Ranks, target: float, most: float) -> float:
    """The 1 - q at which `target` labels are inside; below 0 where the penalty lifts the threshold above 1."""

    def enough(left: ArrayLike) -> Bools:
        return np.array(labels.meet(float(np.asarray(left)))[0].sum() >= target)

    if enough(_TINY):
        return float(last_where(enough, np.asarray(_TINY), np.asarray(1.0)))
    if most == 0:
        raise InputError("probabilities at the threshold are below 1e-300, so there is no derivative. Use a higher T.")
    return -float(last_where(lambda over: ~enough(-over), np.asarray(_TINY), np.asarray(2.0 * most + 1)))


@dataclass(frozen=True, eq=False, repr=False)
class ClassCoverage(Brief):
    """Coverage of each class and its derivative in T, at a threshold that covers 1 - alpha of all rows."""

    temperature: Floats
    coverage: Floats  # (n_temperatures, C), NaN for classes without rows
    slope: Floats  # its derivative in T
    counts: Ints  # rows of each class
    alpha: float

    @property
    def gap(self) -> Floats:
        """Root mean square over classes of coverage - (1 - alpha), at each temperature."""
        return root_mean_square(self.coverage, self.alpha)

    @property
    def gap_slope(self) -> Floats:
        """Derivative of the gap in T: the mean over classes of (coverage - (1 - alpha)) slope, over the gap.

        Zero where the gap is least: classes that are covered too little gain as much as those covered too much.
        """
        above = self.coverage - (1 - self.alpha)
        with np.errstate(invalid="ignore"):  # a gap of 0 has no derivative: NaN
            return np.asarray(np.nanmean(above * self.slope, axis=1) / self.gap)


def class_coverage(
    logits: Any,
    labels: Any = None,
    temperatures: Iterable[float] = (1.0,),
    *,
    method: str | Score = "aps",
    alpha: Alpha = 0.1,
) -> ClassCoverage:
    """Coverage of each class under APS or RAPS, and its derivative in T at fixed marginal coverage, in closed form.

    The rows are the population: their threshold covers 1 - alpha of them, on average over u.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, size=3000)
    >>> z = 2 * (rng.normal(size=(3000, 3)) + np.array([1, 2, 3])[y, None] * np.eye(3)[y])  # class 0 is hard
    >>> result = class_coverage(z, y, [0.5, 1, 2])
    >>> result.coverage.round(2)
    array([[0.79, 0.94, 0.97],
           [0.82, 0.93, 0.94],
           [0.84, 0.93, 0.93]])
    >>> result.slope[1].round(2)  # at T = 1 it gains, and the others lose
    array([ 0.05, -0.01, -0.04])
    """
    rows = _population(logits, labels, method, alpha)
    counts = np.bincount(rows.labels, minlength=rows.ranked.source.n_classes)
    grid = [checked_temperature(t) for t in temperatures]
    values = np.empty((2, len(grid), len(counts)))
    for j, t in enumerate(grid):
        _, inside, speed, density = _own_labels(rows, t)
        slopes = density * (speed - _mean_speed(speed, density))  # of each label's probability; they sum to 0
        values[:, j] = [_class_means(one, rows.labels, counts) for one in (inside, slopes)]
    return ClassCoverage(np.array(grid, dtype=np.float64), values[0], values[1], counts, rows.alpha)


@dataclass(frozen=True, eq=False, repr=False)
class RankLimit(Brief):
    """Sets of APS and RAPS as T grows without bound: the first `size` ranks, of a part of a rank the share of u."""

    size: float  # mean size v of the sets: floor(v) or one more
    coverage: Floats  # of each class; NaN for classes without rows
    alpha: float

    @property
    def gap(self) -> float:
        """Root mean square over classes of coverage - (1 - alpha)."""
        return float(root_mean_square(self.coverage[None], self.alpha)[0])


def rank_limit(logits: Any, labels: Any = None, *, alpha: Alpha = 0.1) -> RankLimit:
    """Limits of size and class coverage for T -> infinity, from the ranks of the labels alone.

    With F the share of labels of rank at most k, a line between whole k, the size v solves F(v) = 1 - alpha; the
    coverage of a class is its own F at v. RAPS has the same limits as APS.

    >>> z, y = np.tile([3.0, 2.0, 1.0], (20, 1)), [0] * 12 + [1] * 8  # 12 labels of rank 1, 8 of rank 2
    >>> limit = rank_limit(z, y)  # 18 of 20: all of rank 1, and three quarters of rank 2
    >>> limit.size, limit.coverage
    (1.75, array([1.  , 0.75,  nan]))
    """
    data, level = finite_logits(logits, labels), float(exact_level(alpha))
    own = data.require_labels("rank_limit")
    ranks = label_ranks(data, own)
    reached = np.concatenate([[0], np.cumsum(np.bincount(ranks, minlength=data.n_classes + 1)[1:])])
    target = (1 - level) * len(ranks)
    whole = int(np.searchsorted(reached, target, side="right")) - 1  # the last k with F(k) <= 1 - alpha
    size = whole + (target - reached[whole]) / (reached[whole + 1] - reached[whole])
    counts = np.bincount(own, minlength=data.n_classes)
    return RankLimit(float(size), _class_means(np.clip(size - (ranks - 1), 0.0, 1.0), own, counts), level)


def root_mean_square(coverage: Floats, alpha: float) -> Floats:
    """Over classes that have rows, of coverage - (1 - alpha)."""
    return np.asarray(np.sqrt(np.nanmean((coverage - (1 - alpha)) ** 2, axis=1)))


def _class_means(values: Floats, labels: Ints, counts: Ints) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(labels, values, minlength=len(counts)) / counts)


_TOP = 5  # probabilities the paper prints


@dataclass(frozen=True, eq=False, repr=False)
class QuantileSamples(Brief):
    """The quantile sample at each temperature; arrays of one entry a temperature.

    `tied` counts the rows with the same score, the sample among them: more than 1 where the threshold is the score of a
    last rank. `top_probs` (n_temperatures, 5) are its largest probabilities, at T = 1 whatever the temperature that
    picked it; NaN beyond C.
    """

    temperature: Floats
    threshold: Floats  # of deterministic APS
    row: Ints  # its number
    rank: Ints  # L^q of its label
    margin: Floats  # dz
    last_index: Ints  # s_T; 0 at T = 1
    tied: Ints
    top_probs: Floats


def quantile_samples(
    logits: Any, labels: Any = None, temperatures: ArrayLike = (1.0,), alpha: Alpha = 0.1
) -> QuantileSamples:
    """The row whose deterministic APS score is the threshold, at each temperature.

    Of rows with the same score it is the first.

    >>> import numpy as np
    >>> z = [[k, 0.0, 0.0] for k in range(1, 20)]  # the label is on top: the larger the margin, the larger the score
    >>> samples = quantile_samples(z, [0] * 19, [0.5, 1.0, 2.0], alpha=0.1)
    >>> samples.row, samples.margin  # k = ceil(20 x 0.9) = 18
    (array([17, 17, 17]), array([18., 18., 18.]))
    """
    data = finite_logits(logits, labels)
    y = data.require_labels("quantile_samples")
    grid = [checked_temperature(t) for t in np.atleast_1d(np.asarray(temperatures)).tolist()]
    k = checked_rank(len(data), alpha)
    rows, tied, thresholds = [], [], []
    for t in grid:
        scores = _aps_scores(data, t)
        threshold = np.partition(scores, k - 1)[k - 1]
        same = np.flatnonzero(scores == threshold)
        rows.append(int(same[0]))
        tied.append(len(same))
        thresholds.append(threshold.real)
    picked = data.take(rows)
    ranked = -np.sort(-picked.logits.astype(np.float64), axis=1)
    top = np.full((len(rows), _TOP), np.nan)
    top[:, : data.n_classes] = np.exp(log_softmax(ranked, 1.0)[:, :_TOP])
    return QuantileSamples(
        temperature=np.array(grid),
        threshold=np.array(thresholds),
        row=np.array(rows),
        rank=label_ranks(picked, y[rows]),
        margin=margins(picked),
        last_index=np.concatenate([last_index(picked.take([i]), t) for i, t in enumerate(grid)]),
        tied=np.array(tied),
        top_probs=top,
    )


def score_order(logits: Any, labels: Any = None, temperature: float = 1.0) -> Ints:
    """Row numbers by ascending deterministic APS score at a temperature; rows of equal score in their order.

    >>> score_order([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0]], [0, 0, 0])
    array([0, 2, 1])
    """
    scores = _aps_scores(finite_logits(logits, labels), checked_temperature(temperature))
    return np.argsort(scores, kind="stable")


def _aps_scores(data: Logits, temperature: float) -> Pairs:
    labels = data.require_labels("the score of a row")
    (scores,) = label_scores(data, labels, APS(), [temperature], Randomness())
    return np.asarray(scores)


_SLOPES = 25  # temperatures at which derivatives are taken
_DEEPEST = 650.0  # (z_1 - z_y) / T whose exponential is still an ordinary number


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Brief):
    """The theory and the data side by side.

    `slopes` and `classes` say what moves the mean size of APS sets and the coverage of classes, at up to 25
    temperatures of the grid with all rows as the population, and not where probabilities of labels underflow.
    """

    n_classes: int
    critical: float  # temperature of the theory, from C alone: the minimum of the proof's bound b(T)
    peaks: Mapping[str, Peak]  # of mean set sizes: "aps" and "raps" (u drawn), "aps, u = 1"
    slopes: SizeSlopes
    classes: ClassCoverage
    limit: RankLimit  # where size and class coverage end as T grows
    curves: Sweep  # mean set sizes with u drawn, over random splits


def explain(
    logits: Any,
    labels: Any = None,
    *,
    alpha: Alpha = 0.1,
    temperatures: Iterable[float] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **protocol: Any,
) -> Explanation:
    """Compare the theory with labelled rows: what it says of sizes and classes, and what sets of random splits show.

    `temperatures` are those of the measured curves; `protocol` goes to `sweep` (trials, calibration_fraction,
    cp_fraction, random_state).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 20, size=2000)
    >>> logits = 3 * (rng.normal(size=(2000, 20)) + 3 * np.eye(20)[labels])
    >>> result = explain(logits, labels, temperatures=[0.5, 1, 2.5, 5, 8], trials=20)
    >>> round(result.critical, 2), result.peaks["aps"].temperature
    (1.64, 2.5)
    >>> result.slopes.peaks.round(1)  # where scores fall as fast as the threshold
    array([2.4])
    """
    data = finite_logits(logits, labels)
    own = label_logits(data, data.require_labels("explain"))
    tell = progress or (lambda _done, _total: None)
    options = {"temperatures": None if temperatures is None else list(temperatures), "alphas": [alpha], **protocol}
    curves = size_sweep(data, methods=["aps", "raps"], progress=lambda i, n: tell(i, 2 * n), **options)
    plain = size_sweep(data, methods=["aps"], randomized=False, progress=lambda i, n: tell(n + i, 2 * n), **options)
    peaks = {method: measured_peak(curves, method) for method in curves.methods}
    able = curves.temperatures[curves.temperatures * _DEEPEST >= distances(own.own, own.top, 1.0).max()]
    grid = able[np.linspace(0, len(able) - 1, min(len(able), _SLOPES)).round().astype(int)].tolist()
    return Explanation(
        n_classes=data.n_classes,
        critical=critical_temperature(data.n_classes),
        peaks={**peaks, "aps, u = 1": measured_peak(plain)},
        slopes=size_slopes(data, temperatures=grid, alpha=alpha),
        classes=class_coverage(data, temperatures=grid, alpha=alpha),
        limit=rank_limit(data, alpha=alpha),
        curves=curves,
    )
