"""How unevenly classes (or groups) are covered, as a property of the population, and how precisely the rows tell it.

docs/two-temperatures.md, "The class gap", defines it. Near zero its law is not normal, and of fifty temperatures the
luckiest is not the best. So errors are simulated: class means are moved by noise that has the rows' own correlations
between temperatures. Sums are NumPy's own: a linear algebra library's may depend on the number of its threads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from thermoset.arrays import Floats, Ints
from thermoset.uniforms import stream

BATCHES = 16
"""Of the rows of a class: their sums carry the correlation between temperatures."""

NORMAL = 1.96
"""Standard errors of a 95% interval."""

_SIMULATIONS = 400
_CONFIDENCE = 0.95
_CONFIDENCE_OF_FEW, _MANY_CLASSES = 0.97, 20  # the gaps of few classes say little about the population to simulate
_PRIOR_MISSES = 5.0  # what the variance of the field is worth compared with that of a class, in missed rows
_LEAST_REAL = 0.05  # the share of a class's gap that is taken to be real, however few its rows
_MOST_UNSEEN = 0.1  # share of classes with fewer than two rows, beyond which nothing is said
_REPRESENTED = 12  # settings that stand for all those searched: neighbours hardly differ
_BISECTIONS = 14  # of gaps from 0 to 1
_CLASSES_AT_ONCE = 64  # whose noise is simulated together
_KEPT = 8_000_000  # simulated numbers that are kept
_FEWEST_MISSES = 15.0  # rows outside their sets without which variances are guesses
_MISSES_OF_TWO = 50.0  # the same for two classes: the fewer classes, the less is averaged


class ClassSample:
    """The classes that have two rows or more, and how their rows are dealt to batches.

    counts, shares : rows of each such class, and of all rows; weights : in the mean over classes, where the rarest
    third stands for classes with fewer than two rows as well: a class that is missing is rare.
    """

    def __init__(self, classes: Ints, n_classes: int, seed: int) -> None:
        rows, n_rows = np.bincount(classes, minlength=n_classes), len(classes)
        seen = np.flatnonzero(rows > 1)
        self.n_classes, self.n_rows = n_classes, n_rows
        self.counts: Ints = rows[seen]
        self.shares: Floats = self.counts / max(self.counts.sum(), 1)
        self.weights: Floats = np.full(len(seen), 1 / n_classes)
        if len(seen):
            rarest = np.argsort(self.counts, kind="stable")[: -(-len(seen) // 3)]
            self.weights[rarest] += (1 - self.weights.sum()) / len(rarest)
        place = np.full(n_classes, len(seen))
        place[seen] = np.arange(len(seen))
        self._class = place[classes]
        mixed = stream(seed, "sample of classes", n_rows).permutation(n_rows)
        by_class = mixed[np.argsort(self._class[mixed], kind="stable")]
        first = np.concatenate([[0], np.cumsum(np.bincount(self._class, minlength=len(seen) + 1))])
        within = np.empty(n_rows, dtype=np.int64)
        within[by_class] = np.arange(n_rows) - first[self._class[by_class]]
        self._cell = self._class * BATCHES + within % BATCHES
        self._in_batch = self._sums(self._cell, None, BATCHES).reshape(-1, BATCHES)
        self._drawn: dict[int, Floats] = {}

    def _sums(self, places: Ints, values: Floats | None, each: int) -> Floats:
        size = len(self.counts) * each
        return np.bincount(places, values, minlength=size)[:size].astype(np.float64)

    def measure(self, hit: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean of h in each class, the variance of that mean, and residuals of batches as vectors of length 1."""
        sums = self._sums(self._cell, hit, BATCHES).reshape(-1, BATCHES)
        mean = sums.sum(axis=1) / self.counts
        square = self._sums(self._class, hit**2, 1) / self.counts
        variance = np.maximum(square - mean**2, 0) / (self.counts - 1)
        residual = sums - self._in_batch * mean[:, None]
        length = np.sqrt((residual**2).sum(axis=1, keepdims=True))
        alone = np.zeros(BATCHES)
        alone[0] = 1.0  # a class whose rows are all alike: noise of its own, the same at every temperature
        return mean, variance, np.where(length > 1e-9, residual / np.maximum(length, 1e-9), alone)

    def normals(self, some: slice) -> Floats:
        """Standard normal numbers for some classes, (classes, batches, simulations): the same whoever asks."""
        normals = self._drawn.get(some.start)
        if normals is None:
            rng = stream(self.n_rows, "class gaps", some.start)
            normals = rng.standard_normal((some.stop - some.start, BATCHES, _SIMULATIONS))
            if len(self.counts) * BATCHES * _SIMULATIONS <= _KEPT:
                self._drawn[some.start] = normals
        return normals

    def too_few(self, alpha: float) -> bool:
        """Whether the rows are too few for anything to be said of class gaps with confidence."""
        unseen = 1 - len(self.counts) / self.n_classes
        misses = max(_FEWEST_MISSES, _MISSES_OF_TWO / (self.n_classes - 1))
        return unseen > _MOST_UNSEEN or alpha * self.n_rows < misses


@dataclass(frozen=True, eq=False)
class ClassGaps:
    """What a sample shows of its classes in some settings, (settings, classes); see `ClassSample.measure`."""

    sample: ClassSample
    level: float
    mean: Floats
    variance: Floats
    residual: Floats

    @classmethod
    def join(cls, parts: Sequence["ClassGaps"]) -> "ClassGaps":
        """The settings of several candidates on the same rows, one after the other."""
        columns = ([getattr(one, name) for one in parts] for name in ("mean", "variance", "residual"))
        return cls(parts[0].sample, parts[0].level, *map(np.concatenate, columns))

    def at(self, some: NDArray[np.bool_] | Sequence[int]) -> "ClassGaps":
        """Some of the settings."""
        return replace(self, mean=self.mean[some], variance=self.variance[some], residual=self.residual[some])

    @property
    def too_few(self) -> bool:
        """Whether the rows are too few for anything to be said with confidence."""
        return self.sample.too_few(self.level)

    @cached_property
    def gap(self) -> Floats:
        """How much more of each class is covered than of all rows."""
        return self.mean - (1 - self.level)

    @cached_property
    def squares(self) -> Floats:
        """Unbiased estimates of the squared class gap."""
        return self._mean(self.gap**2 - self._conditional_variance(self.variance))

    @cached_property
    def values(self) -> Floats:
        """Estimates of the class gap; 0 where the classes differ by less than noise makes them."""
        return np.sqrt(np.maximum(self.squares, 0))

    def _mean(self, values: Floats) -> Floats:
        return np.asarray((values * self.sample.weights).sum(axis=1))

    def _conditional_variance(self, variance: Floats) -> Floats:
        """Variances of class means when the threshold holds the mean of all rows in place."""
        shares = self.sample.shares
        return np.asarray(variance * (1 - 2 * shares) + (variance * shares**2).sum(axis=1, keepdims=True))

    def _population(self, gap: float | Floats) -> tuple[Floats, Floats]:
        """Gaps of classes whose class gap is `gap`, in the direction of those that were seen, and variances of means.

        A class that happened to show few misses shows a small variance too. So its variance is mixed with that of the
        field: the shape m (1 - m) of a coverage m, on the scale that classes with many misses show, whose hits vary
        most. Which sign a small gap has is not known: m is taken half-way to the side where variances are larger.
        """
        sample = self.sample
        real = self.gap * np.maximum(1 - self.variance / np.maximum(self.gap**2, 1e-300), _LEAST_REAL)
        real -= (real * sample.shares).sum(axis=1, keepdims=True)  # the threshold holds the mean of all rows in place
        length = np.sqrt(np.maximum(self._mean(real**2), 1e-300))
        gaps = np.clip(np.reshape(gap, (-1, 1)) * real / length[:, None], self.level - 1, self.level * 0.95)
        misses = sample.counts * (1 - self.mean)
        binary = self.mean * (1 - self.mean) / (sample.counts - 1)
        hard = misses * (1 - self.mean)
        scale = (self.variance * hard).sum(axis=1) / np.maximum((binary * hard).sum(axis=1), 1e-300)
        covered = 1 - self.level + (gaps - np.abs(gaps)) / 2
        field = np.minimum(scale, 1.0)[:, None] * covered * (1 - covered) / sample.counts
        return gaps, (self.variance * misses + field * _PRIOR_MISSES) / (misses + _PRIOR_MISSES)

    def _noises(self) -> Iterator[tuple[slice, Floats]]:
        """Simulated noise of class means, of variance 1, (classes, temperatures, simulations), in groups of classes."""
        n_classes = self.mean.shape[1]
        for start in range(0, n_classes, _CLASSES_AT_ONCE):
            some = slice(start, min(start + _CLASSES_AT_ONCE, n_classes))
            yield some, np.einsum("tck,cks->cts", self.residual[:, some], self.sample.normals(some))

    @cached_property
    def _few_noises(self) -> list[tuple[slice, Floats]] | None:
        """The same, kept, where it is not much: an interval asks for it again and again."""
        return list(self._noises()) if self.mean.size * _SIMULATIONS <= _KEPT else None

    def errors(self, gap: float | Floats) -> Floats:
        """Simulated errors of `squares`, (temperatures, simulations), in a population with such a class gap."""
        gaps, variance = self._population(gap)
        weights, deviation = self.sample.weights, np.sqrt(variance)
        linear = np.stack([weights * gaps, np.broadcast_to(self.sample.shares, gaps.shape), weights + 0 * gaps])
        linear *= deviation
        sums, squared = np.zeros((3, len(gaps), _SIMULATIONS)), np.zeros((len(gaps), _SIMULATIONS))
        for some, noise in self._few_noises or self._noises():
            sums += np.einsum("ktc,cts->kts", linear[..., some], noise)
            squared += np.einsum("tc,cts->ts", (weights * variance)[:, some], noise**2)
        along, shift, mean = sums  # the threshold takes the mean of all rows back from every class
        errors: Floats = 2 * (along - shift * self._mean(gaps)[:, None]) + squared - 2 * shift * mean + shift**2
        return errors - self._mean(self._conditional_variance(variance))[:, None]

    def intervals(self, reach: float = NORMAL) -> Floats:
        """Intervals of the class gaps, (settings, 2): gaps that make what was seen no exception.

        reach : standard errors that an interval is to have, as if errors were normal; see `simultaneous_reach`.
        """
        level, ends = float(ndtr(reach)), []
        for share in (level, 1 - level):
            low, high = np.zeros(len(self.mean)), np.ones(len(self.mean))
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                seen = (self.squares - middle**2)[:, None]
                beyond = (self.errors(middle) < seen).mean(axis=1) > share  # how often such a population shows less
                low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
            ends.append(low)
        return np.stack(ends, axis=1)

    def against(self, j: int, reach: float = NORMAL) -> "Differences":
        """Every gap minus the one at j. The squares are compared; over the sum of the gaps that is their difference."""
        middle, squares, level = self.intervals(reach).mean(axis=1), self.squares, float(ndtr(reach))
        errors = self.errors(np.maximum(self.values, middle))
        ends = squares - squares[j] - np.quantile(errors - errors[j], (level, 1 - level), axis=1)
        tells = ends[0] * ends[1] > 0
        return Differences(self.values - self.values[j], (ends / np.maximum(middle + middle[j], 1e-9)).T, tells)

    def excess(self, budget: float, kinds: int = 1) -> Floats:
        """How far the squared gaps are from keeping a budget with confidence: a setting with 0 or less keeps it.

        The confidence is in all settings at once, whichever of those that keep the budget is chosen, and in this and
        the other kinds of sets together.
        """
        confidence = _CONFIDENCE if len(self.sample.counts) >= _MANY_CLASSES else _CONFIDENCE_OF_FEW
        lower = -self.errors(budget)
        error = np.maximum(lower.std(axis=1), 1e-12)
        reach = np.quantile((lower / error[:, None]).max(axis=0), 1 - (1 - confidence) / kinds)
        return np.asarray(self.squares + reach * error - budget**2)

    def simultaneous_reach(self) -> float:
        """Standard errors that hold for the gaps of all these settings at once, with 95% confidence."""
        some = self.at(np.unique(np.linspace(0, len(self.mean) - 1, _REPRESENTED).astype(np.int64)).tolist())
        errors = some.errors(np.sqrt(np.maximum(some.squares, 1e-12)))
        spread = np.maximum(errors.std(axis=1, keepdims=True), 1e-12)
        return max(float(np.quantile(np.abs(errors / spread).max(axis=0), _CONFIDENCE)), NORMAL)


class Differences(NamedTuple):
    """Differences of class gaps, their intervals (settings, 2), and whether the rows tell the two apart."""

    gap: Floats
    ends: Floats
    tells_apart: NDArray[np.bool_]
