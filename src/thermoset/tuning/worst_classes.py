"""How well the hard classes are covered, and with what certainty.

The worst tenth of the classes is what a user means by "the hard ones", but the tenth that *looks* worst on few rows is
mostly bad luck. So the miss rates of the classes are estimated together. At a level a, class c is missed at the rate
a r_c. Its relative risk r_c is known best from a laxer level, three times alpha, where misses are many; at the level
itself it is r_c = (risk at the laxer level)^phi, brought to mean 1, times a factor of its own. Both have gamma laws:

    misses beyond the level and up to the laxer one ~ Poisson(n_c b f_c),  f_c ~ Gamma(mean 1, variance rho^2)
    misses at the level                             ~ Poisson(n_c a r_c),  r_c = f_c^phi e_c,  e_c ~ Gamma(1, sigma^2)

with phi, rho^2 and sigma^2 from the rows of all classes: a class with few rows borrows from the others. Draws from this
posterior, times the exact law of the coverage that a threshold from n conformal rows will have, are draws of the
coverage of the worst tenth. With few classes the law of classes says little about the single hardest one: its pull is
weakened. Priors are wide, because a few classes may hold most of the misses, and more so at stricter levels.

A claim about the worst tenth ("covered at least X of the time, with 95% confidence") is made where both agree:

- 98% of the draws reach X;
- a cross-check without the model does: the worst tenth is named on one half of the rows and its misses are counted on
  the other half, both ways, for four halvings; the mean of their 95% limits is at most 1 - X.

It takes 10 rows a class on average, and 5 in nine classes of ten. `claims="distribution-free"` trusts no model: the 95%
limit of the tenth that looks worst. The true worst tenth is one fixed set of classes, and the tenth that looks worst
has a limit that is no smaller, so that nothing need be corrected for having looked.

Limits are those of Fay and Feuer (1997) for a weighted sum of Poisson counts, in the cross-check as modified by Tiwari,
Clegg and Zou (2006).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import gammaln, gdtrix

from thermoset.arrays import Floats, Ints
from thermoset.errors import InputError
from thermoset.levels import Alpha, conformal_rank
from thermoset.quoting import quoted
from thermoset.uniforms import stream

Claims = Literal["model", "distribution-free"]
"""What a claim about hard classes rests on."""

DRAWS = 400
_FEW_DRAWS = 48  # of the risks at the laxer level, over which the likelihood of the rest is averaged
_RHO = np.log(np.geomspace(0.01, 6.0, 24))  # log rho^2
_SIGMA = np.array([0.03, 0.15, 0.5, 1.2, 3.0])  # sigma^2
_MEAN_SIGMA = 2.0  # of an exponential prior: what matters where rows are few
_PHI = np.array([0.0, 0.5, 1.0, 2.0, 3.0])  # relative risks may grow at stricter levels
_FEW_CLASSES = 200.0  # the pull of the law of classes is 1 / (1 + this / C^2)
_SHY = 4.0  # rows of a class that count half in the mean over classes
_MANY = 2_000  # classes with rows, and as many without, that stand for all of them where there are more
_PULL = 3.0  # misses that what is known of a class beforehand is worth, in a guess
_SURE = 0.98  # of the draws
_CONFIDENCE = 0.95  # of the limits
_HALVINGS = 4  # of the cross-check
_ROWS_ON_AVERAGE, _ROWS_OF_MOST, _ONE_IN = 10, 5, 10  # rows a class that a claim takes: but for one class in ten
_NAMING = 3.0  # rows with the average rate that a class is given when the worst are named


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
    return np.asarray(lifted / np.maximum(classes.mean(lifted), np.finfo(float).tiny))


def _negative_binomial(misses: Floats, mean: Floats, shape: float | Floats) -> Floats:
    """Log-likelihood of Poisson counts whose rates have gamma laws, but for what depends on the counts alone."""
    mean = np.maximum(mean, 1e-12)
    both = np.log(shape + mean)
    found: Floats = gammaln(misses + shape) - gammaln(shape) + shape * (np.log(shape) - both)
    return np.asarray(found + misses * (np.log(mean) - both))


def _drawn(fit: Floats, rng: np.random.Generator, draws: int) -> Ints:
    weight = np.exp(fit - fit.max())
    return np.asarray(rng.choice(len(weight), size=draws, p=weight / weight.sum()))


def guess_worst(missed: Floats, far: Floats, counts: Floats) -> Floats:
    """Coverage of the worst tenth as one number, (..., L): quick, and good enough to rank settings by.

    missed : (..., L, classes), far : (..., classes), as in `ClassMisses`.
    """
    risk = _shrunk(missed, counts, _shrunk(far, counts, np.ones(len(counts)))[..., None, :])
    worst = np.sort(risk, axis=-1)[..., -tenth_of(len(counts)) :].mean(axis=-1)
    return np.asarray(1 - missed.sum(axis=-1) / counts.sum() * worst)


def _shrunk(missed: Floats, counts: Floats, known: Floats) -> Floats:
    """Relative risks pulled towards what is known beforehand, and spread again as far as they differ beyond chance."""
    expected = np.maximum(counts * missed.sum(axis=-1, keepdims=True) / counts.sum(), 1e-9)
    risk = (missed + _PULL * known) / (expected + _PULL)
    chance = np.mean(1 / expected, axis=-1, keepdims=True)
    true = np.mean((missed / expected - 1) ** 2, axis=-1, keepdims=True) - chance
    true = np.maximum(np.maximum(true, np.var(known, axis=-1, keepdims=True)), 0.02)
    spread = np.maximum(np.mean((risk - 1) ** 2, axis=-1, keepdims=True), 1e-9)
    return np.asarray(np.maximum(1 + (risk - 1) * np.sqrt(true / spread), 0.0))


# ---- claims ----------------------------------------------------------------------------------------------------------


def checked_claims(claims: object) -> Claims:
    """One of the two words.

    >>> checked_claims("model")
    'model'
    """
    for known in get_args(Claims):
        if isinstance(claims, str) and claims == known:
            return known  # type: ignore[no-any-return]
    raise InputError(f"claims must be 'model' or 'distribution-free'; got {quoted(claims)}.")


def rows_missing(rows: Ints) -> str:
    """What these rows of each class lack for a claim about the worst tenth; nothing if they are enough.

    >>> rows_missing(np.full(100, 10)), rows_missing(np.array([50, 50, 2]))
    ('', 'at least 5 rows are needed in nine of ten, and 1 of 3 has fewer')
    """
    few = int(np.count_nonzero(rows < _ROWS_OF_MOST))
    if rows.mean() < _ROWS_ON_AVERAGE:
        wanted = _ROWS_ON_AVERAGE * len(rows)
        return f"about {_ROWS_ON_AVERAGE} for each are needed, {wanted:,} in all, and there are {int(rows.sum()):,}"
    if few * _ONE_IN > len(rows):
        has = "has" if few == 1 else "have"
        return f"at least {_ROWS_OF_MOST} rows are needed in nine of ten, and {few:,} of {len(rows):,} {has} fewer"
    return ""


class ClaimTest:
    """Whether rows support the claim that the worst tenth of their classes is covered at least `target` of the time.

    place : the class of each row, as a number of those that have rows; counts : rows of these; n_classes counts the
    others too; n_threshold : rows behind the threshold.
    """

    def __init__(
        self, place: Ints, counts: Floats, n_classes: int, target: float, n_threshold: int, seed: int, claims: Claims
    ) -> None:
        self.target, self.n_threshold, self.seed, self.claims = target, n_threshold, seed, claims
        self._place, self._counts, self._n_classes = place, counts, n_classes
        self._cross = CrossCheck(place, len(counts), seed)

    def passes(self, near: Floats, far: Floats, alpha: Alpha) -> bool:
        """Whether a level supports the claim: from the probability that each row is outside its set there, and lax."""
        missed = self._by_class(near)
        if self.claims == "distribution-free":
            return looks_worst_limit(missed, self._counts, self._n_classes) <= 1 - self.target
        if self._cross.look(near).limit > 1 - self.target:
            return False
        misses = ClassMisses(self._counts, missed, np.maximum(self._by_class(far), missed), self._n_classes)
        return float((tenths(misses, alpha, self.n_threshold, self.seed).worst >= self.target).mean()) >= _SURE

    def _by_class(self, values: Floats) -> Floats:
        return np.bincount(self._place, values, minlength=len(self._counts)).astype(np.float64)


class Crossed(NamedTuple):
    """The mean miss rate of a tenth that was named on other rows, and its upper 95% limit."""

    rate: float
    limit: float


class CrossCheck:
    """What the worst tenth of classes shows without a model: named on one half of the rows, counted on the other.

    place : the class of each row, from 0 to n_seen - 1.
    """

    def __init__(self, place: Ints, n_seen: int, seed: int) -> None:
        self._place, self._n = place, n_seen
        rng = stream(seed, "halves of claims", len(place))
        self._halves = [rng.permutation(len(place)) % 2 for _ in range(_HALVINGS)]

    def look(self, near: Floats) -> Crossed:
        """The mean over both ways of all halvings, from the probability that each row is outside its set."""
        n, tenth, found = self._n, tenth_of(self._n), []
        for half in self._halves:
            cell = half * n + self._place
            counts = np.bincount(cell, minlength=2 * n).reshape(2, n)
            missed = np.bincount(cell, near, minlength=2 * n).reshape(2, n)
            for named, counted in ((0, 1), (1, 0)):
                known = counts[counted] > 0
                average = missed[named].sum() / max(counts[named].sum(), 1)
                rate = (missed[named] + _NAMING * average) / (counts[named] + _NAMING)
                worst = np.argsort(np.where(known, -rate, np.inf), kind="stable")[: min(tenth, int(known.sum()))]
                mine, rows = missed[counted][worst], counts[counted][worst]
                found.append((float((mine / rows).mean()), rate_limit(mine, rows)))
        return Crossed(*np.mean(found, axis=0).tolist())


def rate_limit(missed: Floats, counts: Floats | Ints) -> float:
    """The upper 95% limit of the mean miss rate of some classes, with these misses of so many rows each.

    Of one class it is the exact Poisson limit: with no miss in n rows -log(0.05) / n.

    >>> round(100 * rate_limit(np.zeros(1), np.array([100])), 3)
    2.996
    """
    weight = 1.0 / (len(counts) * np.asarray(counts, dtype=np.float64))
    event = float(weight.mean()), float((weight**2).mean())
    return _weighted_limit(float((weight * missed).sum()), float((weight**2 * missed).sum()), *event)


def looks_worst_limit(missed: Floats, counts: Floats, n_classes: int) -> float:
    """An upper limit of `rate_limit` over all tenths of the classes; 1 where some class has no rows."""
    if len(counts) < n_classes:
        return 1.0
    tenth = tenth_of(n_classes)
    mean = np.sort(missed / counts)[-tenth:].sum() / tenth
    variance = np.sort(missed / counts**2)[-tenth:].sum() / tenth**2
    most = 1.0 / (tenth * float(counts.min()))
    return min(_weighted_limit(float(mean), float(variance), most, most**2), 1.0)


def _weighted_limit(mean: float, variance: float, event: float, square: float) -> float:
    """The quantile of a gamma law with the mean and variance of these events and one more, of a weight and its square.

    Fay and Feuer (1997) give the one more the largest weight, which is never too low; Tiwari et al. (2006) the mean
    weight, which is about right.
    """
    shape = (mean + event) ** 2 / (variance + square)
    return float(gdtrix((mean + event) / (variance + square), shape, _CONFIDENCE))


def tenths_by_law(counts: Ints, ranks: Ints, seed: int) -> Tenths:
    """Draws of the coverage of the worst and the best tenth of classes with thresholds of their own: Beta laws.

    >>> found = tenths_by_law(np.full(20, 199), np.full(20, 180), seed=0)  # each Beta(180, 20)
    >>> bool(0.85 < found.worst.mean() < 0.88), bool(0.92 < found.best.mean() < 0.95)
    (True, True)
    """
    drawn = stream(seed, "coverage by class").beta(ranks, counts + 1 - ranks, size=(DRAWS, len(counts)))
    tenth, rising = tenth_of(len(counts)), np.sort(drawn, axis=1)
    return Tenths(rising[:, :tenth].mean(axis=1), rising[:, -tenth:].mean(axis=1))
