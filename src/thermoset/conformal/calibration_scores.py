"""Calibration scores (label scores of the conformal rows): thresholds and p-values at any level, and warnings.

With weights w_i of the scores s_i of a pool, and w of the point to be predicted, the threshold is the smallest q with
sum_{s_i <= q} w_i >= (1 - alpha)(sum w_i + w), and +inf where there is none (Tibshirani et al. 2019). Weights are
rounded once, to whole numbers, and from then on everything is exact: equal weights give the plain order statistic.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from thermoset.arrays import Block, Bools, Floats, Ints, Pairs
from thermoset.conformal.bounds import LOWER, for_parts, score_bounds, uniforms_of
from thermoset.conformal.groupings import NULL_GROUP, Grouping, group_thresholds, resolve_grouping
from thermoset.conformal.recipe import Recipe, name_some
from thermoset.conformal.scoring import Scoring, block_scores
from thermoset.data import Groups, Logits
from thermoset.data.groups import listed_groups
from thermoset.data.labels import checked_weights, conformal_weights
from thermoset.data.top_k import TopRows, tops_of
from thermoset.errors import CoverageWarning, InputError
from thermoset.levels import Alpha, exact_level, rows_needed
from thermoset.levels import PSummary as PSummary  # noqa: PLC0414 - for users of this package
from thermoset.levels import p_summary as p_summary  # noqa: PLC0414
from thermoset.quoting import listing, quoted
from thermoset.rows import gaps_of, map_rows, sort_ascending
from thermoset.uniforms import Randomness

_INFINITE = complex(np.inf, np.inf)
_FINEST = 40  # bits of the largest weight, at most
_SUM_BITS = 53  # sums are whole numbers that float64 holds too, as p-values need them
_MOST = 2**62  # larger weights of a point to be predicted count as this
_MISSED_NAMED = 3  # classes that are hardly covered
_FEWEST_TO_JUDGE = 20  # conformal rows of a class from which on its coverage is judged


class Weights(NamedTuple):
    """Weights of rows as whole numbers (n,), of which the largest weight is 2**bits."""

    steps: Ints
    largest: float

    @classmethod
    def of(cls, weights: Floats) -> "Weights":
        """From weights that are finite, not negative and not all zero."""
        empty = cls(np.zeros(len(weights), dtype=np.int64), float(weights.max()))
        return empty._replace(steps=empty.round_weights(weights))

    @property
    def bits(self) -> int:
        """Bits of the largest weight: as many as leave room for the sum of all rows."""
        return min(_FINEST, _SUM_BITS - len(self.steps).bit_length())

    def round_weights(self, weights: Floats) -> Ints:
        """Weights, of these rows or of points to be predicted, as whole numbers."""
        with np.errstate(over="ignore", under="ignore"):
            steps = np.rint(np.ldexp(weights / self.largest, self.bits))
        return np.minimum(steps, float(_MOST)).astype(np.int64)

    @property
    def effective_rows(self) -> float:
        """The effective sample size, (sum w)**2 / sum w**2."""
        exact = self.steps.astype(object)
        return float(exact.sum() ** 2 / (exact**2).sum())

    def heaviest(self, alpha: Alpha) -> float:
        """The largest weight of a point that has a finite threshold: alpha / (1 - alpha) of the sum of all."""
        level = exact_level(alpha)
        return float(int(self.steps.sum()) * level / (1 - level) / 2**self.bits) * self.largest


class Pools(NamedTuple):
    """Scores in ascending order within pools: pool p has places edges[p] .. edges[p + 1].

    sums : (n + 1,), the weight of all scores before each place.
    """

    scores: Pairs
    edges: Ints
    sums: Ints

    @classmethod
    def of(cls, scores: Pairs, pool: Ints, n_pools: int, steps: Ints | None = None) -> "Pools":
        """Scores of rows in these pools, with their weights, 1 if left out."""
        order = np.lexsort((scores.imag, scores.real, pool))
        edges = np.searchsorted(pool[order], np.arange(n_pools + 1))
        weights = np.ones(len(order), dtype=np.int64) if steps is None else steps[order]
        return cls(scores[order], edges, np.concatenate([[0], np.cumsum(weights)]))

    def thresholds(self, pool: int, own: Ints, alpha: Alpha) -> Pairs:
        """The threshold of a point with each of these weights, from one pool."""
        kept = 1 - exact_level(alpha)
        first, last = int(self.edges[pool]), int(self.edges[pool + 1])
        sums = self.sums[first + 1 : last + 1] - self.sums[first]
        total = int(sums[-1]) if len(sums) else 0
        # sum_{s_i <= q} w_i >= (1 - alpha)(total + w) where w <= sum_{s_i <= q} w_i / (1 - alpha) - total
        reach = sums.astype(object) * kept.denominator // kept.numerator - total
        places = np.searchsorted(np.asarray(np.minimum(reach, _MOST - 1), dtype=np.int64), own, side="left")
        return np.append(self.scores[first:last], _INFINITE)[places]

    def p_values(self, pool: int, scores: Pairs, own: Any, v: Any) -> Floats:
        """The p-values of scores of points with these weights, smoothed by v; all three broadcast."""
        first, last = int(self.edges[pool]), int(self.edges[pool + 1])
        some, sums = self.scores[first:last], self.sums[first : last + 1]
        below, up_to = (np.searchsorted(some, scores, side=side) for side in ("left", "right"))
        larger, tied = sums[-1] - sums[up_to], sums[up_to] - sums[below]
        return np.asarray((larger + v * (own + tied)) / (sums[-1] - sums[0] + own))


@dataclass(frozen=True, eq=False)
class CalibrationScores:
    """Label scores of the conformal rows, and how they are pooled.

    scores, labels : (n,). `grouping` and `group_of_class` are None for one threshold; the null group -1 pools the rows
    of all classes. `groups` are those of the rows, where these are grouped instead of classes, and `fallback` what
    others get. `weights` are those of the rows: thresholds then depend on the row's own weight.
    """

    scores: Pairs
    labels: Ints
    scoring: Scoring
    grouping: Grouping | None = None
    group_of_class: Ints | None = None
    groups: Groups | None = None
    fallback: str | None = None
    weights: Weights | None = None

    @classmethod
    def of(
        cls, scores: Pairs, data: Logits, recipe: Recipe, scoring: Scoring, rows: Ints | None = None,
        weights: Floats | None = None,
    ) -> "CalibrationScores":  # fmt: skip
        """Pool the label scores of the rows, or of some of them, as the recipe groups the classes or the rows."""
        labels, groups = data.require_labels("ConformalClassifier.fit"), data.groups
        if rows is not None:
            scores, labels, groups = scores[rows], labels[rows], None if groups is None else groups.take(rows)
            weights = None if weights is None else conformal_weights(weights[rows], len(rows))
        grouping = resolve_grouping(recipe.grouping)
        if grouping is None:
            return cls(scores, labels, scoring, weights=None if weights is None else Weights.of(weights))
        if grouping.of_rows:
            return cls(scores, labels, scoring, grouping, groups=groups, fallback=recipe.fallback)
        division = grouping.divide(scores, labels, data.n_classes, recipe.alpha, recipe.random_state)
        if division.rows is not None:
            scores, labels = scores[division.rows], labels[division.rows]
        return cls(scores, labels, scoring, grouping, division.group_of_class)

    def take(self, rows: Bools) -> "CalibrationScores":
        """Those of some rows, where one threshold serves all."""
        return CalibrationScores(self.scores[rows], self.labels[rows], self.scoring)

    # ---- thresholds

    def thresholds(self, alpha: Alpha) -> Pairs:
        """The threshold(s) at a level, (G, K): (1, 1), by class (1, C), or by group of rows (G, 1).

        With weights: that of a row of average weight.
        """
        if self.weights is not None:
            steps = self.weights.steps
            mean = (2 * int(steps.sum()) + len(steps)) // (2 * len(steps))
            return self.pools.thresholds(0, np.array([[mean]]), alpha)
        if self.groups is not None:
            return group_thresholds(self.scores, self.groups.codes, len(self.groups.names), [alpha]).T
        if self.grouping is None or self.group_of_class is None:
            return self.pooled_threshold(alpha)
        return self.grouping.thresholds(self.scores, self.labels, self.group_of_class, [alpha], self.scoring.score)

    def pooled_threshold(self, alpha: Alpha) -> Pairs:
        """The order statistic of all rows together, (1, 1)."""
        return group_thresholds(self.scores, np.zeros(len(self.scores), dtype=np.int64), 1, [alpha])

    def fallback_threshold(self, alpha: Alpha) -> Pairs | None:
        """The threshold (1, 1) of rows whose group has none of its own, if there is a fallback."""
        if self.fallback is None:
            return None
        return (
            self.pooled_threshold(alpha) if self.fallback == "pooled" else np.sort(self.thresholds(alpha), axis=0)[-1:]
        )

    def table(self, alphas: Sequence[Alpha]) -> Pairs:
        """The thresholds at some levels, (levels, G, K); with a fallback, the last is that of other groups."""
        each = [(self.thresholds(alpha), self.fallback_threshold(alpha)) for alpha in alphas]
        return np.stack([own if other is None else np.concatenate([own, other]) for own, other in each])

    def weighted_thresholds(self, own: Floats, alphas: Sequence[Alpha]) -> tuple[Pairs, Ints]:
        """The thresholds of each weight that occurs, (levels, weights, 1), and which of them each row has."""
        if self.weights is None:
            raise InputError("these rows have no weights.")
        different, groups = np.unique(own, return_inverse=True)
        steps = self.weights.round_weights(different)
        return np.stack([self.pools.thresholds(0, steps[:, None], alpha) for alpha in alphas]), groups

    def pool_sizes(self) -> Ints:
        """Number of rows behind each threshold: (1,), (C,) by class, or (G,) by group of rows."""
        if self.groups is not None:
            return self.groups.counts
        if self.group_of_class is None:
            return np.array([len(self.labels)])
        sizes = np.bincount(self.group_of_class[self.labels] - NULL_GROUP, minlength=len(self.group_of_class) + 1)
        sizes[0] = len(self.labels)  # the null group pools all
        return sizes[self.group_of_class - NULL_GROUP]

    def scatter_rows(self, alpha: Alpha) -> float:
        """How many rows of equal weight have coverage scatter as these do, from one set of rows to another.

        The weighted share of scores up to q has variance sum w**2 (hit - (1 - alpha))**2 / (sum w)**2, about; with n
        equal weights that is alpha (1 - alpha) / n. Where misses weigh less than hits, `effective_rows` is on the safe
        side.
        """
        if self.weights is None:
            return float(len(self.scores))
        level, hit = float(exact_level(alpha)), self.scores <= self.thresholds(alpha)[0, 0]
        share = self.weights.steps / int(self.weights.steps.sum())
        variance = float(np.sum((share * (hit - (1 - level))) ** 2))
        return min(level * (1 - level) / variance, self.weights.effective_rows)

    # ---- p-values

    @cached_property
    def pools(self) -> Pools:
        """The scores, sorted: one pool, one for each group of classes, or each group of rows and all of them."""
        n = len(self.scores)
        zero = np.zeros(n, dtype=np.int64)
        if self.groups is not None:
            twice = np.tile(np.arange(n), 2)
            codes = np.concatenate([self.groups.codes, zero + len(self.groups.names)])
            return Pools.of(self.scores[twice], codes, len(self.groups.names) + 1)
        if self.group_of_class is None:
            return Pools.of(self.scores, zero, 1, None if self.weights is None else self.weights.steps)
        groups, pool_of_class = np.unique(self.group_of_class, return_inverse=True)
        pool, rows = pool_of_class[self.labels], np.arange(n)
        if groups[0] == NULL_GROUP:  # its pool has the rows of all classes
            others = np.flatnonzero(pool)
            rows, pool = np.concatenate([rows, others]), np.concatenate([zero, pool[others]])
        return Pools.of(self.scores[rows], pool, len(groups))

    @cached_property
    def sorted_scores(self) -> Pairs:
        """All scores in ascending order."""
        return np.sort(self.scores)

    def p_values(
        self,
        data: Logits,
        smoothing_seed: int | None,
        *,
        u: Any = None,
        v: Floats | None = None,
        ids: Any = None,
        weights: Any = None,
    ) -> Floats:
        """p-values (n, C); smoothed if there is a seed, with a given v or one from the seed and each row or id.

        (sum_{s_i > s} w_i + v (w + sum_{s_i = s} w_i)) / (sum w_i + w), with v = 1 where they are not smoothed. Of rows
        that are not whole, the lower bound of a score is looked up among upper ones: upper bounds of p-values.
        """
        randomness, smoothing = self.scoring.randomness(u, len(data), ids), Randomness()
        if smoothing_seed is not None:
            smoothing = Randomness(smoothing_seed, v, keys=randomness.keys, second=True)
        own = np.ones(len(data), dtype=np.int64)
        row_weights = own_weights(self.weights, weights, len(data))
        if row_weights is not None and self.weights is not None:
            own = self.weights.round_weights(row_weights)
        groups = np.zeros(len(data), dtype=np.int64)
        if self.groups is not None:
            groups = group_codes(data, self.groups.names, self.fallback is not None, "predict_p")
        out = np.empty((len(data), data.n_classes))
        if (tops := tops_of(data)) is None:
            per_row = [randomness, smoothing, groups, own]
            map_rows(data, _p_values_of_block, out, per_row=per_row, fixed=[self], axis=-2)
            return out

        def work(some: TopRows, place: slice) -> None:
            u_of = uniforms_of(some, randomness[place])
            v = uniforms_of(some, smoothing[place])
            bounds = score_bounds(self.scoring.score, some, self.scoring.temperature, u_of, LOWER)
            scores = np.repeat(bounds[:, -1:], some.n_classes, axis=1)
            np.put_along_axis(scores, some.indices.astype(np.int64), bounds[:, :-1], axis=1)
            out[place] = self.look_up(scores, v, groups[place], own[place])

        for_parts(tops, work, data.n_classes)
        return out

    def look_up(self, scores: Pairs, v: Floats, groups: Ints, own: Ints) -> Floats:
        """p-values of the scores of all labels of some rows, (n, C)."""
        out, pools = np.empty(scores.shape), self.pools
        if self.group_of_class is not None:
            pool_of_class = np.unique(self.group_of_class, return_inverse=True)[1]
            for pool in range(len(pools.edges) - 1):
                columns = np.flatnonzero(pool_of_class == pool)
                out[:, columns] = pools.p_values(pool, scores[:, columns], own[:, None], v[:, None])
            return out
        for pool in np.unique(groups):
            rows = np.flatnonzero(groups == pool)
            some = scores[rows], own[rows, None], v[rows, None]
            if self.groups is not None and pool == len(self.groups.names) and self.fallback == "strictest":
                # Sets hold what the sets of any group would, at every level: the largest of their p-values.
                out[rows] = np.max([pools.p_values(g, *some) for g in range(len(self.groups.names))], axis=0)
            else:
                out[rows] = pools.p_values(int(pool), *some)
        return out


def _p_values_of_block(
    block: Block, randomness: Randomness, smoothing: Randomness, groups: Ints, own: Ints, known: CalibrationScores
) -> Floats:
    scores = block_scores(block, randomness, known.scoring.score, known.scoring.temperature, known.sorted_scores)
    return known.look_up(scores, smoothing.block(gaps_of(sort_ascending(block))), groups, own)


def own_weights(known: Weights | None, weights: Any, n_rows: int) -> Floats | None:
    """The weights of rows to be predicted: there must be some where conformal rows have them, and only there."""
    if known is None and weights is not None:
        raise InputError(
            "weights were given, but the threshold comes from rows without weights. Fit or recalibrate with weights "
            "for the conformal rows, or omit weights."
        )
    if known is not None and weights is None:
        raise InputError(
            "the conformal rows have weights, so each row's threshold depends on its own weight. Pass weights, one "
            "number per row, on the same scale as those of the conformal rows."
        )
    return None if weights is None else checked_weights(weights, n_rows)


def row_thresholds(
    data: Logits, weights: Any, table: Pairs, weighted: CalibrationScores | None, alphas: Sequence[Alpha],
    names: tuple[str, ...] | None, falls_back: bool, purpose: str,
) -> tuple[Pairs, Ints | None]:  # fmt: skip
    """Thresholds (levels, G, K) of rows, a table unless they have weights, and which each has; None is the first."""
    own = own_weights(None if weighted is None else weighted.weights, weights, len(data))
    if own is not None and weighted is not None:
        return weighted.weighted_thresholds(own, alphas)
    return table, None if names is None else group_codes(data, names, falls_back, purpose)


def group_codes(data: Logits, names: tuple[str, ...], falls_back: bool, purpose: str) -> Ints:
    """Where each row's group stands in the names; an unknown one beyond them if there is a fallback, else refused."""
    groups = data.require_groups(purpose)
    codes = groups.codes_among(names)
    unknown = codes < 0
    if falls_back:
        codes[unknown] = len(names)
    elif unknown.any():
        missing = [groups.names[g] for g in np.unique(groups.codes[unknown])]
        what = f"group {quoted(missing[0])} has" if len(missing) == 1 else f"groups {listed_groups(missing)} have"
        them = "it" if len(missing) == 1 else "them"
        raise InputError(
            f"{what} no threshold: the conformal rows had none of {them} (known: {listed_groups(names)}). Fit again "
            f"with rows of {them}, or choose fallback='pooled' or 'strictest' when you fit."
        )
    return codes


# ---- errors and warnings ---------------------------------------------------------------------------------------------


def fitted_groups(data: Logits, purpose: str) -> Groups:
    """The groups of conformal rows; refused where nearly every row has one of its own."""
    groups = data.require_groups(purpose)
    n_groups = int(np.count_nonzero(groups.counts))
    if n_groups > max(len(groups) // 2, 1):
        raise InputError(
            f"groups has {n_groups:,} different values in {len(groups):,} rows: a threshold needs many rows of each "
            "group, and this looks like one id per row. Pass a column whose values many rows share, such as site or "
            "device."
        )
    return groups


def check_weightable(grouping: str | None) -> None:
    """Refuse weights where a threshold depends on more than the row's weight."""
    if grouping is not None:
        unit = "group" if grouping == "group" else "class"
        raise InputError(
            f"weights need one threshold for all classes and groups; got grouping={grouping!r}, which would need one "
            f"threshold per {unit} and row. Omit grouping or weights."
        )


def mostly_missed(alpha: Alpha) -> str | None:
    """A warning at a level at which sets miss more labels than they hold: most often, coverage was meant."""
    level = exact_level(alpha)
    if level <= Fraction(1, 2):
        return None
    held, missed = (f"{float(100 * part):g}%" for part in (1 - level, level))
    return (
        f"alpha={alpha} promises that sets hold the true label {held} of the time. For {missed} use "
        f"alpha={float(1 - level):g}."
    )


def shortage(
    scores: CalibrationScores, thresholds: Pairs, alpha: Alpha, n_classes: int, classes: tuple[str, ...] | None
) -> str | None:
    """Why thresholds are infinite, and what to do; None where there is nothing to warn of."""
    infinite, pools = np.isposinf(thresholds.real).ravel(), scores.pool_sizes()
    needed, weights = rows_needed(alpha), scores.weights
    if weights is not None and (effective := weights.effective_rows) < needed:
        return (
            f"alpha={alpha} needs at least {needed:,} rows of equal weight for a finite threshold; "
            f"{len(weights.steps):,} rows with these weights are worth {effective:.1f}. Rows with a weight above "
            f"{weights.heaviest(alpha):.3g} get sets with all classes: add rows where the weights are large, or raise "
            "alpha."
        )
    mixed = scores.grouping is not None and not scores.grouping.exact
    few = np.flatnonzero((infinite if infinite.any() else mixed) & (pools < needed))
    fewest = few[np.argsort(pools[few], kind="stable")]
    if not few.size and not infinite.any():
        return None
    if not few.size:
        masked = np.count_nonzero(np.isposinf(scores.scores.real))
        return (
            "a threshold is infinite. Some classes have no finite score, because they are masked (logit -inf) or not "
            f"among the logits a row keeps, and the label of {masked} of {len(scores.labels)} rows is such a class. "
            "Labels with this threshold enter every set: use a model that gives every class a probability, keep more "
            "logits of each row, or raise alpha."
        )
    if scores.groups is not None:
        groups = scores.groups.names
        each = [f"{quoted(groups[g])} ({pools[g]:,}{'' if pools[g] else ', it had no conformal row'})" for g in few]
        return (
            f"alpha={alpha} needs at least {needed:,} rows of each group for a finite threshold; too few for "
            f"{len(few):,} of {len(groups):,} groups: {listing(each)}. Sets of their rows hold all classes: add rows, "
            "raise alpha, or merge small groups."
        )
    if scores.grouping is None:
        return (
            f"alpha={alpha} needs at least {needed} rows for a finite threshold; got {pools[0]}. "
            f"Every set will contain all {n_classes} classes: add rows or raise alpha."
        )
    named = f"{len(few)} of {n_classes} classes: {name_some(fewest, classes, pools)}"
    if not infinite.any():
        return (
            f"alpha={alpha} needs at least {needed} rows of a class for its own threshold; too few for {named}. The "
            "largest possible score replaces it in the mixture."
        )
    return (
        f"alpha={alpha} needs at least {needed} rows of each {scores.grouping.unit} for a finite threshold; too few "
        f"for {named}. Those labels enter every set: add rows, raise alpha, or pool more classes (grouping='cluster', "
        "'interpolated' or None)."
    )


def warn_of_missed_classes(
    scores: CalibrationScores, thresholds: Pairs, alpha: Alpha, classes: tuple[str, ...] | None
) -> None:
    """Name the classes that one threshold for all hardly covers: a promise about all rows does not show them.

    Such a class has at least 20 conformal rows, and its coverage is below half of 1 - alpha even at the upper end of
    its 95% interval (Clopper and Pearson, one-sided). Where thresholds differ by class, group or weight none is named.
    """
    from thermoset.metrics.laws import clopper_pearson  # noqa: PLC0415 - SciPy, which predicting does not need

    if thresholds.size > 1 or scores.grouping is not None or scores.weights is not None:
        return
    promised = 1 - exact_level(alpha)
    counts = np.bincount(scores.labels)
    hits = np.bincount(scores.labels[scores.scores <= thresholds.flat[0]], minlength=len(counts))
    judged = np.flatnonzero(counts >= _FEWEST_TO_JUDGE)
    upper = clopper_pearson(hits[judged], counts[judged], confidence=0.9).high  # 5% beyond either end
    missed = judged[upper < float(promised) / 2]
    if not missed.size:
        return
    least = missed[np.argsort(hits[missed] / counts[missed], kind="stable")].tolist()
    named = [
        f"{c if classes is None else quoted(classes[c])} (of {hits[c]:,} of its {counts[c]:,} conformal rows)"
        for c in least
    ]
    warnings.warn(
        f"sets hold the true label of {float(100 * promised):g}% of all rows, as promised, but less than half as "
        f"often where it is {listing(named, _MISSED_NAMED)}. To promise coverage for every class, name a method and "
        "use grouping='class'; with one threshold, prefer='protect' covers hard classes better.",
        CoverageWarning,
        stacklevel=4,
    )
