"""How well the hard classes are covered, and with what certainty: a model of all classes, and a check without one.

docs/choosing-sets.md, "What the worst tenth is", has the model: classes borrow from each other, and what is known best
from a laxer level, where misses are many, may grow at stricter ones. Limits of weighted sums of Poisson counts are
those of Fay and Feuer (1997), in the cross-check as modified by Tiwari, Clegg and Zou (2006).
"""

from typing import Literal, NamedTuple, cast, get_args

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
_MANY = 5_000  # classes that stand for all of them where there are more
_PULL = 3.0  # misses that what is known of a class beforehand is worth, in a guess
SURE = 0.98
"""The share of draws that must reach the target of a claim."""

_CONFIDENCE = 0.95  # of the limits
_HALVINGS = 4  # of the cross-check
_ROWS_ON_AVERAGE, _ROWS_OF_MOST, _ONE_IN = 10, 5, 10  # rows a class that a claim takes: but for one class in ten
_MANY_NAMED = 200  # classes from which on the worst are named by the laxer level
_NAMING = 3.0  # rows with the average rate that a class is given when the worst are named


class ClassMisses(NamedTuple):
    """Rows of each class, and how many of them are outside their sets on average over u: at a level, and a laxer one.

    counts, near, far : (C,), of classes with rows; n_classes counts the others too. far includes near.
    """

    counts: Floats
    near: Floats
    far: Floats
    n_classes: int

    @property
    def of_all_classes(self) -> tuple[Floats, Floats, Floats]:
        """Rows, misses at the level, and between the levels, of all classes; of very many, some stand for all."""
        none, kept = (0, self.n_classes - len(self.counts)), min(self.n_classes, _MANY)
        some = np.linspace(0, self.n_classes - 1, kept).astype(np.int64)
        between = np.maximum(self.far - self.near, 0.0)
        counts, near, between = (np.pad(values, none)[some] for values in (self.counts, self.near, between))
        return counts, near, between


class Tenths(NamedTuple):
    """Draws of the coverage of the tenth of classes covered least, and of the tenth covered best: (draws,)."""

    worst: Floats
    best: Floats


def tenth_of(n_classes: int) -> int:
    """How many classes a tenth is: at least one."""
    return max(1, int(n_classes / 10 + 0.5))


def tenths(misses: ClassMisses, alpha: Alpha, n_conformal: int, seed: int, draws: int = DRAWS) -> Tenths:
    """Draw the coverage of the worst and the best tenth under a threshold for level alpha from `n_conformal` rows.

    Misses at the level are Poisson with rates rate * r_c, and those between the levels with rates beyond * f_c, where
    r_c = f_c^phi e_c brought to mean 1. f_c has a gamma law of mean 1 and variance rho^2, e_c one of variance sigma^2.
    """
    rng = stream(seed, "worst classes", draws)
    counts, near, between = misses.of_all_classes
    pull = 1.0 / (1.0 + _FEW_CLASSES / misses.n_classes**2)  # with few classes their law says little of the hardest
    weight = counts / (counts + _SHY)
    overall = float(misses.near.sum() / misses.counts.sum())
    rate = max(_mean_rate(near, counts, weight), 0.3 * overall, 1e-9)
    risk = _laxer_risks(between, counts * _mean_rate(between, counts, weight), pull, rng, draws)
    phi, sigma = _hyper(counts, near, rate, risk[:_FEW_DRAWS], rng, draws)
    own, shape = _power(risk, phi[:, None]), pull / sigma[:, None]
    missed = rate * own * rng.gamma(shape + near, 1.0 / (shape + counts * rate * own))
    k = conformal_rank(n_conformal, alpha)
    level = rng.beta(n_conformal + 1 - k, k, draws) if k <= n_conformal else np.zeros(draws)
    drift = level / max(overall, 1e-9)  # coverage varies with the conformal rows
    n = len(counts)
    order = np.partition(missed, (tenth_of(n) - 1, n - tenth_of(n)), axis=1)
    worst, best = order[:, n - tenth_of(n) :].mean(axis=1), order[:, : tenth_of(n)].mean(axis=1)
    return Tenths(np.maximum(1 - drift * worst, 0.0), 1 - drift * best)


def _mean_rate(misses: Floats, counts: Floats, weight: Floats) -> float:
    """Mean over classes of their miss rates; classes with few rows count less."""
    rates = misses / np.maximum(counts, 1e-9)
    return max(float((rates * weight).sum() / weight.sum()), 1e-9)


def _laxer_risks(misses: Floats, expected: Floats, pull: float, rng: np.random.Generator, draws: int) -> Floats:
    """Draw relative risks between the levels, (draws, C), with rho^2 from its own posterior."""
    shape = np.exp(-_RHO)[:, None]
    fit = _negative_binomial(misses, expected, shape).sum(axis=1) + _RHO / 2  # a flat prior on rho
    shapes = pull * shape[_draw(fit, rng, draws)]
    return rng.gamma(shapes + misses, 1.0 / (shapes + expected))


def _hyper(
    counts: Floats, near: Floats, rate: float, risk: Floats, rng: np.random.Generator, draws: int
) -> tuple[Floats, Floats]:
    """Draw phi and sigma^2, (draws,) each, from their posterior on a grid."""
    fit = np.empty((len(_PHI), len(_SIGMA)))
    for i, phi in enumerate(_PHI):
        mean = counts * rate * _power(risk, float(phi))
        for j, sigma in enumerate(_SIGMA):
            each = _negative_binomial(near, mean, 1.0 / sigma)
            most = each.max(axis=0)
            fit[i, j] = (most + np.log(np.exp(each - most).mean(axis=0))).sum()
    fit += np.log(_SIGMA) / 2 - _SIGMA / _MEAN_SIGMA
    drawn = _draw(fit.ravel(), rng, draws)
    return _PHI[drawn // len(_SIGMA)], _SIGMA[drawn % len(_SIGMA)]


def _power(risk: Floats, phi: float | Floats) -> Floats:
    """Risks to a power, with mean 1 over classes."""
    lifted = risk**phi
    return np.asarray(lifted / np.maximum(lifted.mean(axis=-1, keepdims=True), np.finfo(float).tiny))


def _negative_binomial(misses: Floats, mean: Floats, shape: float | Floats) -> Floats:
    """Log-likelihood of Poisson counts whose rates have gamma laws, but for what depends on the counts alone."""
    mean = np.maximum(mean, 1e-12)
    both = np.log(shape + mean)
    fit: Floats = gammaln(misses + shape) - gammaln(shape) + shape * (np.log(shape) - both)
    return np.asarray(fit + misses * (np.log(mean) - both))


def _draw(fit: Floats, rng: np.random.Generator, draws: int) -> Ints:
    weight = np.exp(fit - fit.max())
    return np.asarray(rng.choice(len(weight), size=draws, p=weight / weight.sum()))


def guess_worst(missed: Floats, far: Floats, counts: Floats) -> Floats:
    """Coverage of the worst tenth as one number, (..., L): quick, and good enough to rank settings by.

    missed : (..., L, classes), far : (..., classes), as in `ClassMisses`.
    """
    risk = _shrink(missed, counts, _shrink(far, counts, np.ones(len(counts)))[..., None, :])
    worst = np.sort(risk, axis=-1)[..., -tenth_of(len(counts)) :].mean(axis=-1)
    return np.asarray(1 - missed.sum(axis=-1) / counts.sum() * worst)


def _shrink(missed: Floats, counts: Floats, known: Floats) -> Floats:
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
    """One of the two words."""
    if isinstance(claims, str) and claims in get_args(Claims):
        return cast("Claims", claims)
    raise InputError(f"claims must be 'model' or 'distribution-free'; got {quoted(claims)}.")


def rows_missing(rows: Ints) -> str:
    """What these rows of each class lack for a claim about the worst tenth; nothing if they are enough."""
    few = int(np.count_nonzero(rows < _ROWS_OF_MOST))
    if rows.mean() < _ROWS_ON_AVERAGE:
        wanted = _ROWS_ON_AVERAGE * len(rows)
        return f"about {_ROWS_ON_AVERAGE} for each are needed, {wanted:,} in all, and there are {int(rows.sum()):,}"
    if few * _ONE_IN > len(rows):
        has = "has" if few == 1 else "have"
        return f"at least {_ROWS_OF_MOST} rows are needed in nine of ten, and {few:,} of {len(rows):,} {has} fewer"
    return ""


class CrossCheck:
    """What the worst tenth of classes shows without a model: named on one half of the rows, counted on the other.

    Where classes are many, limits are narrow and cover no errors of naming: then the worst are named by the
    laxer level, where misses are many too.

    place : the class of each row, from 0 to n_seen - 1.
    """

    def __init__(self, place: Ints, n_seen: int, seed: int) -> None:
        self._place, self._n = place, n_seen
        rng = stream(seed, "halves of claims", len(place))
        self._halves = [rng.permutation(len(place)) % 2 for _ in range(_HALVINGS)]

    def estimate(self, near: Floats, far: Floats) -> tuple[float, float]:
        """Its miss rate and the upper 95% limit of that: means over both ways of all halvings.

        near, far : the probability that each row is outside its set, at the level and at the laxer one.
        """
        n, tenth, rates = self._n, tenth_of(self._n), []
        naming = far if n >= _MANY_NAMED else near
        for half in self._halves:
            cell = half * n + self._place
            counts = np.bincount(cell, minlength=2 * n).reshape(2, n)
            missed, seen = (np.bincount(cell, outside, minlength=2 * n).reshape(2, n) for outside in (near, naming))
            for named, counted in ((0, 1), (1, 0)):
                known = counts[counted] > 0
                average = seen[named].sum() / max(counts[named].sum(), 1)
                rate = (seen[named] + _NAMING * average) / (counts[named] + _NAMING)
                worst = np.argsort(np.where(known, -rate, np.inf), kind="stable")[: min(tenth, int(known.sum()))]
                mine, rows = missed[counted][worst], counts[counted][worst]
                rates.append((float((mine / rows).mean()), rate_limit(mine, rows)))
        rate_seen, limit = np.mean(rates, axis=0).tolist()
        return rate_seen, limit


def rate_limit(missed: Floats, counts: Floats | Ints) -> float:
    """The upper 95% limit of the mean miss rate of some classes, with these misses of so many rows each.

    Of one class it is the exact Poisson limit: with no miss in n rows -log(0.05) / n.
    """
    weight = 1.0 / (len(counts) * np.asarray(counts, dtype=np.float64))
    event = float(weight.mean()), float((weight**2).mean())
    return _weighted_limit(float((weight * missed).sum()), float((weight**2 * missed).sum()), *event)


def worst_looking_limit(missed: Floats, counts: Floats, n_classes: int) -> float:
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
    """Draws of the coverage of the worst and the best tenth of classes with thresholds of their own: Beta laws."""
    drawn = stream(seed, "coverage by class").beta(ranks, counts + 1 - ranks, size=(DRAWS, len(counts)))
    tenth, rising = tenth_of(len(counts)), np.sort(drawn, axis=1)
    return Tenths(rising[:, :tenth].mean(axis=1), rising[:, -tenth:].mean(axis=1))
