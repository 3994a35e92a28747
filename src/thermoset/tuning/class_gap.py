"""How unevenly classes are covered, as a property of the population, and how precisely the rows determine it.

The class gap at a temperature is

    G(T) = sqrt(mean over classes of (coverage of the class - (1 - alpha))^2)

for sets that cover exactly 1 - alpha of all rows. It belongs to the population, not to a number of rows. With h the
probability over u that a row's label is in its set, m_c the mean of h over the n_c rows of class c and v_c the variance
of that mean, the mean of (m_c - (1 - alpha))^2 - v_c is an unbiased estimate of G(T)^2.

Near zero its law is not normal, and among fifty temperatures the luckiest is not the best. So errors are simulated:
class means are moved by noise that has the rows' own correlations between temperatures. A budget G is kept at T where
the estimate lies lower than 95 of 100 simulations would put it at any temperature if the class gap were G at all. The
simulated population has the measured gaps, scaled to G, and variances that are no smaller for having seen few misses.
Sums are NumPy's own: those of a linear algebra library may depend on the number of its threads.

Intervals of a setting that was chosen among many hold for all of them at once (`reach`): the luckiest is among them.
For a choice that evens out groups of rows, read "groups" for "classes".
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from thermoset.arrays import Floats, Ints
from thermoset.uniforms import stream

_BATCHES = 16  # of the rows of a class: their sums carry the correlation between temperatures
_SIMULATIONS = 400
_CONFIDENCE = 0.95
_CONFIDENCE_OF_FEW, _MANY_CLASSES = 0.97, 20  # the gaps of few classes say little about the population to simulate
_PRIOR_MISSES = 5.0  # what the variance of the field is worth compared with that of a class, in missed rows
_LEAST_REAL = 0.05  # the share of a class's gap that is taken to be real, however few its rows
_MOST_UNSEEN = 0.1  # share of classes with fewer than two rows, beyond which nothing is said
_NORMAL = 1.96  # standard errors of a 95% interval
_REPRESENTED = 12  # settings that stand for all those searched: neighbours hardly differ
_BISECTIONS = 14  # of gaps from 0 to 1
_CLASSES_AT_ONCE = 64  # whose noise is simulated together
_KEPT = 8_000_000  # simulated numbers that are kept
_FEWEST_MISSES = 15.0  # rows outside their sets without which variances are guesses
_MISSES_OF_TWO = 50.0  # the same for two classes: the fewer classes, the less is averaged


class ClassSample:
    """The classes that have two rows or more, and how their rows are dealt to batches.

    counts : rows of each such class.
    shares : of all rows.
    weights : of the classes in the mean over classes. Classes with fewer than two rows are represented by the rarest
        third of the others: a class that is missing is rare.
    """

    batches: ClassVar[int] = _BATCHES

    def __init__(self, classes: Ints, n_classes: int, seed: int) -> None:
        rows, n_rows = np.bincount(classes, minlength=n_classes), len(classes)
        seen = np.flatnonzero(rows > 1)
        self.n_classes, self.n_rows = n_classes, n_rows
        self.counts: Ints = rows[seen]
        self.shares: Floats = self.counts / max(self.counts.sum(), 1)
        self.weights = _weights(self.counts, n_classes)
        place = np.full(n_classes, len(seen))
        place[seen] = np.arange(len(seen))
        self._class = place[classes]
        mixed = stream(seed, "sample of classes", n_rows).permutation(n_rows)
        by_class = mixed[np.argsort(self._class[mixed], kind="stable")]
        first = np.concatenate([[0], np.cumsum(np.bincount(self._class, minlength=len(seen) + 1))])
        within = np.empty(n_rows, dtype=np.int64)
        within[by_class] = np.arange(n_rows) - first[self._class[by_class]]
        self._cell = self._class * _BATCHES + within % _BATCHES
        self._in_batch = self._sums(self._cell, None, _BATCHES).reshape(-1, _BATCHES)
        self._drawn: dict[int, Floats] = {}

    def _sums(self, places: Ints, values: Floats | None, each: int) -> Floats:
        size = len(self.counts) * each
        return np.bincount(places, values, minlength=size)[:size].astype(np.float64)

    def measured(self, hit: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean of h in each class, the variance of that mean, and residuals of batches as vectors of length 1."""
        sums = self._sums(self._cell, hit, _BATCHES).reshape(-1, _BATCHES)
        mean = sums.sum(axis=1) / self.counts
        square = self._sums(self._class, hit**2, 1) / self.counts
        variance = np.maximum(square - mean**2, 0) / (self.counts - 1)
        residual = sums - self._in_batch * mean[:, None]
        length = np.sqrt((residual**2).sum(axis=1, keepdims=True))
        alone = np.zeros(_BATCHES)
        alone[0] = 1.0  # a class whose rows are all alike: noise of its own, the same at every temperature
        return mean, variance, np.where(length > 1e-9, residual / np.maximum(length, 1e-9), alone)

    def drawn(self, some: slice) -> Floats:
        """Standard normal numbers for some classes, (classes, batches, simulations): the same whoever asks."""
        found = self._drawn.get(some.start)
        if found is None:
            rng = stream(self.n_rows, "class gaps", some.start)
            found = rng.standard_normal((some.stop - some.start, _BATCHES, _SIMULATIONS))
            if len(self.counts) * _BATCHES * _SIMULATIONS <= _KEPT:
                self._drawn[some.start] = found
        return found

    def too_few(self, alpha: float) -> bool:
        """Whether the rows are too few for anything to be said of class gaps with confidence."""
        unseen = 1 - len(self.counts) / self.n_classes
        misses = max(_FEWEST_MISSES, _MISSES_OF_TWO / (self.n_classes - 1))
        return unseen > _MOST_UNSEEN or alpha * self.n_rows < misses


def _weights(counts: Ints, n_classes: int) -> Floats:
    weights = np.full(len(counts), 1 / n_classes)
    if len(counts):
        rarest = np.argsort(counts, kind="stable")[: -(-len(counts) // 3)]
        weights[rarest] += (1 - weights.sum()) / len(rarest)
    return weights


@dataclass(frozen=True, eq=False)
class ClassHits:
    """What a sample shows of its classes at some temperatures, (temperatures, classes); see `ClassSample.measured`."""

    sample: ClassSample
    level: float
    mean: Floats
    variance: Floats
    residual: Floats

    @classmethod
    def joined(cls, hits: Sequence["ClassHits"]) -> "ClassHits":
        """The temperatures of several candidates on the same rows, one after the other."""
        return replace(
            hits[0],
            mean=np.concatenate([one.mean for one in hits]),
            variance=np.concatenate([one.variance for one in hits]),
            residual=np.concatenate([one.residual for one in hits]),
        )

    def at(self, some: NDArray[np.bool_] | Sequence[int]) -> "ClassHits":
        """Some of the temperatures."""
        return replace(self, mean=self.mean[some], variance=self.variance[some], residual=self.residual[some])

    @cached_property
    def gap(self) -> Floats:
        """How much more of each class is covered than of all rows."""
        return self.mean - (1 - self.level)

    @cached_property
    def squares(self) -> Floats:
        """Unbiased estimates of the squared class gap."""
        return self._mean(self.gap**2 - self._shifted(self.variance))

    def _mean(self, values: Floats) -> Floats:
        """Mean over classes."""
        mean: Floats = (values * self.sample.weights).sum(axis=1)
        return mean

    def _shifted(self, variance: Floats) -> Floats:
        """Variances of class means when the threshold holds the mean of all rows in place."""
        shares = self.sample.shares
        held: Floats = variance * (1 - 2 * shares) + (variance * shares**2).sum(axis=1, keepdims=True)
        return held

    def _population(self, gap: float | Floats) -> tuple[Floats, Floats]:
        """Gaps of classes whose class gap is `gap`, in the direction of those that were seen, and variances of means.

        A class that happened to show few misses shows a small variance too. So its variance is mixed with that of the
        field: the shape m (1 - m) of a coverage m, on the scale that all classes together show. Which sign a small gap
        has is not known: m is taken half-way to the side where variances are larger.
        """
        sample = self.sample
        real = self.gap * np.maximum(1 - self.variance / np.maximum(self.gap**2, 1e-300), _LEAST_REAL)
        length = np.sqrt(np.maximum(self._mean(real**2), 1e-300))
        gaps = np.clip(np.reshape(gap, (-1, 1)) * real / length[:, None], self.level - 1, self.level * 0.95)
        misses = sample.counts * (1 - self.mean)
        binary = self.mean * (1 - self.mean) / (sample.counts - 1)
        scale = (self.variance * misses).sum(axis=1) / np.maximum((binary * misses).sum(axis=1), 1e-300)
        covered = 1 - self.level + (gaps - np.abs(gaps)) / 2
        field = np.minimum(scale, 1.0)[:, None] * covered * (1 - covered) / sample.counts
        return gaps, (self.variance * misses + field * _PRIOR_MISSES) / (misses + _PRIOR_MISSES)

    def _noises(self) -> Iterator[tuple[slice, Floats]]:
        """Simulated noise of class means, of variance 1, (classes, temperatures, simulations), in groups of classes."""
        n_classes = self.mean.shape[1]
        for start in range(0, n_classes, _CLASSES_AT_ONCE):
            some = slice(start, min(start + _CLASSES_AT_ONCE, n_classes))
            yield some, np.einsum("tck,cks->cts", self.residual[:, some], self.sample.drawn(some))

    @cached_property
    def _few_noises(self) -> list[tuple[slice, Floats]] | None:
        """The same, kept, where it is not much: an interval asks for it again and again."""
        return list(self._noises()) if self.mean.size * _SIMULATIONS <= _KEPT else None

    def errors(self, gap: float | Floats) -> Floats:
        """Simulated errors of `squares`, (temperatures, simulations), in a population with such a class gap."""
        gaps, variance = self._population(gap)
        weights, shares, deviation = self.sample.weights, self.sample.shares, np.sqrt(variance)
        moved = np.zeros((4, len(gaps), _SIMULATIONS))
        for some, of_length_1 in self._few_noises or self._noises():
            noise = of_length_1 * deviation.T[some, :, None]
            moved[0] += np.einsum("cts,c,tc->ts", noise, weights[some], gaps[:, some])
            moved[1] += np.einsum("cts,cts,c->ts", noise, noise, weights[some])
            moved[2] += np.einsum("cts,c->ts", noise, shares[some])
            moved[3] += np.einsum("cts,c->ts", noise, weights[some])
        along, squared, shift, mean = moved  # the threshold takes the mean of all rows back from every class
        found: Floats = 2 * (along - shift * self._mean(gaps)[:, None]) + squared - 2 * shift * mean + shift**2
        return found - self._mean(self._shifted(variance))[:, None]


@dataclass(frozen=True, eq=False)
class ClassGaps:
    """Class gaps of some settings, and what can be said of them with confidence.

    reach : standard errors that an interval is to have, as if errors were normal; see `simultaneous_reach`.
    """

    hits: ClassHits
    reach: float = _NORMAL

    @cached_property
    def values(self) -> Floats:
        """Estimates; 0 where the classes differ by less than noise makes them."""
        return np.sqrt(np.maximum(self.hits.squares, 0))

    @cached_property
    def intervals(self) -> Floats:
        """Intervals of the class gaps, (settings, 2): gaps that make what was seen no exception."""
        squares, level = self.hits.squares, float(ndtr(self.reach))

        def below(gap: Floats) -> Floats:
            """How often a population with such gaps shows less than was seen."""
            seen = (squares - gap**2)[:, None]
            share: Floats = (self.hits.errors(gap) < seen).mean(axis=1)
            return share

        return np.stack([_crossing(below, share, len(squares)) for share in (level, 1 - level)], axis=1)

    @cached_property
    def _errors(self) -> Floats:
        """Simulated errors of the squares in a population with gaps about as large as those seen."""
        return self.hits.errors(np.maximum(self.values, self.intervals.mean(axis=1)))

    def difference(self, i: int, j: int) -> tuple[float, tuple[float, float], bool]:
        """Gap at i minus gap at j, its interval, and whether the rows tell the two apart.

        The squares are compared; divided by the sum of the gaps their difference is that of the gaps.
        """
        middle, squares, level = self.intervals.mean(axis=1), self.hits.squares, float(ndtr(self.reach))
        low, high = squares[i] - squares[j] - np.quantile(self._errors[i] - self._errors[j], (level, 1 - level))
        both = max(middle[i] + middle[j], 1e-9)
        return float(self.values[i] - self.values[j]), (float(low / both), float(high / both)), bool(low * high > 0)

    def excess(self, budget: float, kinds: int = 1) -> Floats:
        """How far the squared gaps are from keeping a budget with confidence: a temperature with 0 or less keeps it.

        The confidence is in all temperatures at once, whichever of those that keep the budget is chosen, and in this
        and the other kinds of sets together.
        """
        confidence = _CONFIDENCE if len(self.hits.sample.counts) >= _MANY_CLASSES else _CONFIDENCE_OF_FEW
        lower = -self.hits.errors(budget)
        error = np.maximum(lower.std(axis=1), 1e-12)
        reach = np.quantile((lower / error[:, None]).max(axis=0), 1 - (1 - confidence) / kinds)
        found: Floats = self.hits.squares + reach * error - budget**2
        return found


def simultaneous_reach(hits: ClassHits) -> float:
    """Standard errors that hold for the class gaps of all of these settings at once, with 95% confidence."""
    some = hits.at(np.unique(np.linspace(0, len(hits.mean) - 1, _REPRESENTED).astype(np.int64)).tolist())
    errors = some.errors(np.sqrt(np.maximum(some.squares, 1e-12)))
    spread = np.maximum(errors.std(axis=1, keepdims=True), 1e-12)
    return max(float(np.quantile(np.abs(errors / spread).max(axis=0), _CONFIDENCE)), _NORMAL)


def _crossing(below: Callable[[Floats], Floats], level: float, n: int) -> Floats:
    """Where a share that falls as the gap grows reaches a level; 0 where it starts lower."""
    low, high = np.zeros(n), np.ones(n)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        beyond = below(middle) > level
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return low
