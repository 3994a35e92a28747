"""How well the hard classes are covered, and with what certainty.

The worst tenth of the classes is what a user means by "the hard ones", but the tenth that *looks* worst on few rows is
mostly bad luck. So the miss rates of the classes are estimated together. At a level a, class c is missed at the rate
a r_c. Its relative risk r_c is known best from a laxer level, three times alpha, where misses are many; at the level
itself it is r_c = (risk at the laxer level)^phi, brought to mean 1, times a factor of its own. Both have gamma laws:

    misses beyond the level and up to the laxer one ~ Poisson(n_c b f_c),  f_c ~ Gamma(mean 1, variance rho^2)
    misses at the level                             ~ Poisson(n_c a r_c),  r_c = f_c^phi e_c,  e_c ~ Gamma(1, sigma^2)

with phi, rho^2 and sigma^2 from the rows of all classes: a class with few rows borrows from the others. Draws from this
posterior, times the exact law of the coverage that a threshold from n conformal rows will have, are draws of the
coverage of the worst tenth: the share of them above a target is the probability that the target is kept. On published
logits relative risks hardly change from one level to the next, and gamma laws have the right tails.

With few classes the law of classes says little about the single hardest one: its pull is weakened.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from thermoset.arrays import Floats, Ints
from thermoset.levels import Alpha, conformal_rank
from thermoset.uniforms import stream

__all__ = ["ClassMisses", "Tenths", "assured", "tenth_of", "tenths", "with_more_rows"]

DRAWS = 400
_FEW_DRAWS = 48  # of the risks at the laxer level, over which the likelihood of the rest is averaged
_RHO = np.log(np.geomspace(0.01, 6.0, 24))  # log rho^2
_SIGMA = np.array([0.005, 0.02, 0.05, 0.1, 0.17, 0.27, 0.4, 0.6, 0.9, 1.4, 2.2, 3.5])  # sigma^2
_MEAN_SIGMA = 0.7  # of an exponential prior: what matters where rows are few
_PHI = np.array([0.0, 0.5, 1.0])
_FEW_CLASSES = 200.0  # the pull of the law of classes is 1 / (1 + this / C^2)
_SHY = 4.0  # rows of a class that count half in the mean over classes
_MANY = 2_000  # classes with rows, and as many without, that stand for all of them where there are more


@dataclass(frozen=True, eq=False)
class ClassMisses:
    """Rows of each class, and how many of them are outside their sets on average over u: at a level, and a laxer one.

    counts, near, far : (C,), of classes with rows; n_classes counts the others too. far includes near.
    """

    counts: Floats
    near: Floats
    far: Floats
    n_classes: int

    @property
    def whole(self) -> "_Classes":
        """All classes, those without rows last. Of very many, some stand for all."""
        seen, unseen = len(self.counts), self.n_classes - len(self.counts)
        kept = np.arange(seen) if seen <= _MANY else np.linspace(0, seen - 1, _MANY).astype(np.int64)
        none = min(unseen, _MANY)
        between = np.maximum(self.far - self.near, 0.0)
        counts, near, beyond = (np.pad(values[kept], (0, none)) for values in (self.counts, self.near, between))
        times = np.repeat([seen / len(kept) if len(kept) else 1.0, unseen / none if none else 1.0], [len(kept), none])
        return _Classes(counts, near, beyond, times)


class _Classes(NamedTuple):
    """Rows, misses at the level, and misses between the levels; and how many classes each stands for: (classes,)."""

    counts: Floats
    near: Floats
    between: Floats
    times: Floats

    def mean(self, values: Floats) -> Floats:
        """Mean over all classes, (..., classes) to (..., 1)."""
        if np.all(self.times == 1.0):
            return np.asarray(values.mean(axis=-1, keepdims=True))
        return np.asarray((values * self.times).sum(axis=-1, keepdims=True) / self.times.sum())


@dataclass(frozen=True, eq=False)
class Tenths:
    """Draws of the coverage of the tenth of classes covered least, and of the tenth covered best: (draws,)."""

    worst: Floats
    best: Floats


def tenth_of(n_classes: int) -> int:
    """How many classes a tenth is: at least one.

    >>> tenth_of(209), tenth_of(4)
    (21, 1)
    """
    return max(1, int(n_classes / 10 + 0.5))


def tenths(misses: ClassMisses, alpha: Alpha, n_conformal: int, seed: int, draws: int = DRAWS) -> Tenths:
    """Draw the coverage of the worst and the best tenth under a threshold for level alpha from `n_conformal` rows.

    >>> alike = ClassMisses(np.full(50, 2000.0), np.full(50, 100.0), np.full(50, 600.0), 50)  # 5% of every class
    >>> found = tenths(alike, 0.05, 10**6, seed=0)
    >>> bool(0.92 < found.worst.mean() < 0.95 < found.best.mean() < 0.97)
    True
    """
    rng = stream(seed, "worst classes", draws)
    classes = misses.whole
    missed = _rates(misses, classes, rng, draws).near
    k = conformal_rank(n_conformal, alpha)
    level = rng.beta(n_conformal + 1 - k, k, draws) if k <= n_conformal else np.zeros(draws)
    drift = level / max(float(misses.near.sum() / misses.counts.sum()), 1e-9)  # coverage varies with the conformal rows
    worst, best = _ends(missed, classes.times)
    return Tenths(np.maximum(1 - drift * worst, 0.0), 1 - drift * best)


def assured(misses: ClassMisses, alpha: Alpha, target: float, n_conformal: int, seed: int) -> float:
    """The probability that the worst tenth will be covered at least so much."""
    return float((tenths(misses, alpha, n_conformal, seed).worst >= target).mean())


def with_more_rows(misses: ClassMisses, factor: float, seed: int) -> ClassMisses:
    """What so many times as many rows would show if the truth were the middle of what these make likely."""
    classes = misses.whole
    drawn = _rates(misses, classes, stream(seed, "rates of classes", DRAWS), DRAWS)
    worst, _ = _ends(drawn.near, classes.times)
    middle = int(np.argsort(worst, kind="stable")[DRAWS // 2])
    counts = factor * classes.counts
    near = counts * drawn.near[middle]
    return ClassMisses(counts, near, near + counts * drawn.between[middle], len(counts))


@dataclass(frozen=True, eq=False)
class _Rates:
    """Draws of the miss rates of all classes at the level, and between it and the laxer one: (draws, C)."""

    near: Floats
    between: Floats


def _rates(misses: ClassMisses, classes: _Classes, rng: np.random.Generator, draws: int) -> _Rates:
    """Draw from the posterior."""
    counts, near, between, _ = classes
    pull = 1.0 / (1.0 + _FEW_CLASSES / misses.n_classes**2)
    weight = counts / (counts + _SHY)
    rate = max(_mean_rate(near, counts, weight), 0.3 * float(near.sum() / counts.sum()), 1e-9)
    beyond = _mean_rate(between, counts, weight)
    risk = _laxer_risks(between, counts * beyond, pull, rng, draws)
    phi, sigma = _hyper(classes, rate, risk[:_FEW_DRAWS], rng, draws)
    own, shape = _lifted(risk, phi[:, None], classes), pull / sigma[:, None]
    return _Rates(rate * own * rng.gamma(shape + near, 1.0 / (shape + counts * rate * own)), beyond * risk)


def _ends(missed: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Mean miss rate of the tenth of classes missed most, and of the one missed least: (draws,) each."""
    if np.any(times != 1.0):
        rising = np.argsort(missed, axis=1)
        return _mean_of_first(missed, times, rising[:, ::-1]), _mean_of_first(missed, times, rising)
    n_classes = missed.shape[1]
    tenth = tenth_of(n_classes)
    order = np.partition(missed, (tenth - 1, n_classes - tenth), axis=1)
    return order[:, n_classes - tenth :].mean(axis=1), order[:, :tenth].mean(axis=1)


def _mean_of_first(values: Floats, times: Floats, order: Ints) -> Floats:
    """Mean over the first tenth of classes in an order, where values (draws, classes) stand for so many each."""
    weight = times[order]
    before = np.cumsum(weight, axis=1) - weight
    tenth = float(tenth_of(round(float(times.sum()))))
    counted = np.clip(tenth - before, 0.0, weight)
    mean: Floats = (np.take_along_axis(values, order, axis=1) * counted).sum(axis=1) / tenth
    return mean


def _mean_rate(misses: Floats, counts: Floats, weight: Floats) -> float:
    """Mean over classes of their miss rates; classes with few rows count less."""
    rates = misses / np.maximum(counts, 1e-9)
    return max(float((rates * weight).sum() / weight.sum()), 1e-9)


def _laxer_risks(misses: Floats, expected: Floats, pull: float, rng: np.random.Generator, draws: int) -> Floats:
    """Draw relative risks between the levels, (draws, C), with rho^2 from its own posterior."""
    shape = np.exp(-_RHO)[:, None]
    fit = _negative_binomial(misses, expected, shape).sum(axis=1) + _RHO / 2  # a flat prior on rho
    shapes = pull * shape[_drawn(fit, rng, draws)]
    return rng.gamma(shapes + misses, 1.0 / (shapes + expected))


def _hyper(classes: _Classes, rate: float, risk: Floats, rng: np.random.Generator, draws: int) -> tuple[Floats, Floats]:
    """Draw phi and sigma^2, (draws,) each, from their posterior on a grid."""
    fit = np.empty((len(_PHI), len(_SIGMA)))
    for i, phi in enumerate(_PHI):
        mean = classes.counts * rate * _lifted(risk, float(phi), classes)
        for j, sigma in enumerate(_SIGMA):
            each = _negative_binomial(classes.near, mean, 1.0 / sigma)
            most = each.max(axis=0)
            fit[i, j] = (most + np.log(np.exp(each - most).mean(axis=0))).sum()
    fit += np.log(_SIGMA) / 2 - _SIGMA / _MEAN_SIGMA
    drawn = _drawn(fit.ravel(), rng, draws)
    return _PHI[drawn // len(_SIGMA)], _SIGMA[drawn % len(_SIGMA)]


def _lifted(risk: Floats, phi: float | Floats, classes: _Classes) -> Floats:
    """Risks to a power, with mean 1 over classes."""
    lifted = risk**phi
    return np.asarray(lifted / classes.mean(lifted))


def _negative_binomial(misses: Floats, mean: Floats, shape: float | Floats) -> Floats:
    """Log-likelihood of Poisson counts whose rates have gamma laws, but for what depends on the counts alone."""
    mean = np.maximum(mean, 1e-12)
    both = np.log(shape + mean)
    found: Floats = gammaln(misses + shape) - gammaln(shape) + shape * (np.log(shape) - both)
    return np.asarray(found + misses * (np.log(mean) - both))


def _drawn(fit: Floats, rng: np.random.Generator, draws: int) -> Ints:
    weight = np.exp(fit - fit.max())
    return np.asarray(rng.choice(len(weight), size=draws, p=weight / weight.sum()))
