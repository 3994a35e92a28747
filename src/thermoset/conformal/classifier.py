"""Split conformal prediction: a threshold from held-out rows, sets that keep the promised coverage."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.groupings import Grouping, resolve_grouping
from thermoset.conformal.recipes import Recipe
from thermoset.conformal.scoring import Scoring, sets_under, sizes_under
from thermoset.core.general import label_scores
from thermoset.core.groups import group_thresholds, rank_table
from thermoset.core.levels import Alpha, conformal_rank, exact_level, rows_needed
from thermoset.core.scores import ScoreLike
from thermoset.core.sources import ArrayRows
from thermoset.core.thresholds import NULL_GROUP, ScorePairs
from thermoset.core.uniforms import Randomness
from thermoset.data import Logits
from thermoset.data.estimator import Estimator
from thermoset.data.fitted import fit_data, predict_data, remember_classes
from thermoset.errors import CoverageWarning, InputError

__all__ = ["ConformalClassifier", "PooledScores", "fitted_at"]

_NAMED = 5  # classes a warning names before it says "and n more"


@dataclass(frozen=True)
class PooledScores:
    """Label scores of the conformal rows, pooled by group of classes; a threshold for any alpha is one look-up.

    `grouping` and `group_of_class` are None for one global threshold. The null group -1 pools the rows of all classes.
    """

    scores: ScorePairs
    labels: NDArray[np.int64]
    grouping: Grouping | None
    group_of_class: NDArray[np.int64] | None
    scoring: Scoring

    def thresholds(self, alpha: Alpha) -> ScorePairs:
        """Order statistic k = ceil((n + 1)(1 - alpha)) of each group: shape (1,), or (C,) by class."""
        if self.group_of_class is None:
            value, refine = self.scores.smallest(conformal_rank(len(self.labels), alpha))
            return ScorePairs(np.array([value]), np.array([refine]))
        ranks = rank_table(len(self.labels), [alpha])
        q = group_thresholds(self.scores, self.labels, self.group_of_class, ranks)
        return ScorePairs(q.value[0], q.refine[0])

    def pool_sizes(self) -> NDArray[np.int64]:
        """Number of rows behind each threshold: shape (1,), or (C,) by class."""
        if self.group_of_class is None:
            return np.array([len(self.labels)])
        sizes = np.bincount(self.group_of_class[self.labels] - NULL_GROUP, minlength=len(self.group_of_class) + 1)
        sizes[0] = len(self.labels)  # the null group pools all
        return sizes[self.group_of_class - NULL_GROUP]


class ConformalClassifier(Estimator):
    """Prediction sets with a promised coverage, from logits.

    On exchangeable rows the set holds the true label with probability k/(n + 1), k = ceil((n + 1)(1 - alpha)),
    at every temperature: exactly for LAC and randomised scores without ties, at least for deterministic ones. With
    `allow_empty=False` it is exact as long as fewer than k of the n rows of `fit` are right, which is sure enough where
    the accuracy is well below 1 - alpha; if k or more are, the threshold is -inf, sets are single labels, and coverage
    is the accuracy. On average over the rows of `fit` it is at least k/(n + 1) in any case.

    Parameters
    ----------
    method : str, Score or function
        The nonconformity score: "lac", "aps", "raps", "saps", "topk", "margin", an object such as `RAPS(penalty=0.1)`,
        or a function (probs, rank, u) of your own; see `OwnScore`.
    alpha : float
        Miscoverage level; sets hold the truth with probability at least 1 - alpha.
    temperature : float
        Logits are divided by this before the softmax.
    randomized : bool
        Draw u from the seed and the row's content (exact coverage); False is u = 1 (coverage at least nominal).
    allow_empty : bool
        False keeps the top label in every set. It then scores below every other label, (-inf, -inf) as a pair, in
        `fit` as well as in prediction, so that the threshold takes account of it.
    grouping : None, "class" or "cluster"
        One threshold for all, one for each class, or one for each cluster of classes (Ding et al. 2023).
    random_state : int
        Seed of the randomisation.

    Attributes
    ----------
    threshold_ : float or ndarray of shape (C,)
        The threshold(s) as the score's value, for reading. `thresholds_` is the exact form that decides.
    calibration_ : PooledScores
        The scores it came from.
    n_features_in_, class_names_
        Number and names of the classes.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 4, size=500)
    >>> logits = rng.normal(size=(500, 4)) + 2 * np.eye(4)[labels]
    >>> model = ts.ConformalClassifier("aps", alpha=0.1).fit(logits[:300], labels[:300])
    >>> sets = model.predict_set(logits[300:])
    >>> sets.shape, bool(ts.metrics.marginal_coverage(sets, labels[300:]) > 0.85)
    ((200, 4), True)
    """

    def __init__(
        self,
        method: ScoreLike = "raps",
        alpha: Alpha = 0.1,
        temperature: float = 1.0,
        randomized: bool = True,
        allow_empty: bool = True,
        grouping: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.temperature = temperature
        self.randomized = randomized
        self.allow_empty = allow_empty
        self.grouping = grouping
        self.random_state = random_state

    @classmethod
    def of(cls, recipe: Recipe, temperature: float = 1.0) -> "ConformalClassifier":
        """A classifier, not fitted yet, that makes sets by a recipe.

        >>> from thermoset.conformal.recipes import Recipe
        >>> ConformalClassifier.of(Recipe("lac", alpha=0.2), temperature=1.5)
        ConformalClassifier(alpha=0.2, method=LAC(), temperature=1.5)
        """
        return cls(**recipe.parameters, temperature=temperature)

    @property
    def recipe(self) -> Recipe:
        """How sets are made, but for their temperature: the parameters as one record, checked."""
        return Recipe.of(self)

    def fit(self, logits: Any, labels: Any = None, *, u: Any = None, ids: Any = None) -> "ConformalClassifier":
        """Find the threshold from labelled rows that nothing else was chosen on.

        `u` (n,) replaces the seeded randomisation by given numbers in [0, 1]. With `ids`, one whole number or text for
        each row, u comes from the seed and the id alone: a row keeps its set whatever the last bits of its logits.
        Rows with the same id have the same u.
        """
        recipe = self.recipe
        data = fit_data(self, logits, labels)
        y = data.require_labels("ConformalClassifier.fit")
        scoring = Scoring.of(recipe, self.temperature)
        randomness = scoring.randomness(u, len(data), ids)
        (pairs,) = label_scores(ArrayRows(data.logits), y, scoring.score, [scoring.temperature], randomness)
        self._learn(data, pairs, recipe, scoring)
        self._warn_where_infinite(self.thresholds_, self.alpha)
        return self

    def predict_set(self, logits: Any, *, u: Any = None, ids: Any = None) -> NDArray[np.bool_]:
        """Sets as booleans, (n, C): entry [i, y] says whether label y is in the set of row i.

        `u` and `ids`: as in `fit`.
        """
        data = predict_data(self, logits)
        sets: NDArray[np.bool_] = self._sets(data, self.thresholds_[None], u, ids)[0]
        return sets

    def predict_sets(self, logits: Any, alphas: Any, *, u: Any = None, ids: Any = None) -> NDArray[np.bool_]:
        """Sets for several levels at once, (n_alpha, n, C), nested: a smaller alpha never drops a label."""
        data = predict_data(self, logits)
        levels = list(np.atleast_1d(np.asarray(alphas, dtype=object)))
        if not levels:
            raise InputError("alphas must name at least one level; got none. Try alphas=[0.05, 0.1].")
        q = [self.calibration_.thresholds(alpha) for alpha in levels]
        for alpha, thresholds in zip(levels, q, strict=True):
            self._warn_where_infinite(thresholds, alpha)
        return self._sets(data, ScorePairs(np.stack([p.value for p in q]), np.stack([p.refine for p in q])), u, ids)

    def set_sizes(self, logits: Any, *, u: Any = None, ids: Any = None) -> NDArray[np.int64]:
        """Number of labels in each row's set, (n,), without forming the sets where the threshold is global."""
        data, scoring = predict_data(self, logits), self.calibration_.scoring
        return sizes_under(data, scoring, self.thresholds_, u=u, ids=ids)

    def tighten(self, alpha: Alpha, more: Logits) -> "ConformalClassifier":
        """Raise the threshold to that of a stricter level, from the rows of `fit` and `more` rows together.

        It never becomes lower than `fit` made it, so that coverage stays at least what was promised, whatever the
        stricter level and the other rows were chosen by.
        """
        if self.calibration_.grouping is not None:
            raise InputError("tighten needs one threshold for all classes; this classifier has one for each group.")
        y, scoring = more.require_labels("tighten"), self.calibration_.scoring
        (found,) = label_scores(
            ArrayRows(more.logits), y, scoring.score, [scoring.temperature], scoring.randomness(None, len(more))
        )
        own, level = self.calibration_.scores, exact_level(alpha)
        pooled = ScorePairs(np.concatenate([own.value, found.value]), np.concatenate([own.refine, found.refine]))
        stricter = pooled.smallest(conformal_rank(len(pooled.value), level))
        loose = float(self.thresholds_.value[0]), float(self.thresholds_.refine[0])
        value, refine = max(stricter, loose)
        self._set_thresholds(ScorePairs(np.array([value]), np.array([refine])))
        return self

    def _learn(self, data: Logits, pairs: ScorePairs, recipe: Recipe, scoring: Scoring) -> None:
        """Find the threshold from the label scores of the rows."""
        y = data.require_labels("ConformalClassifier.fit")
        self.calibration_ = _calibration(pairs, y, data.n_classes, recipe, scoring)
        self._set_thresholds(self.calibration_.thresholds(recipe.alpha))
        remember_classes(self, data.n_classes, data.classes)

    def _set_thresholds(self, thresholds: ScorePairs) -> None:
        """Take thresholds, in the form that decides and in the one for reading."""
        self.thresholds_: ScorePairs = thresholds
        one = self.calibration_.grouping is None
        self.threshold_: Any = float(thresholds.value[0]) if one else thresholds.value

    def _sets(self, data: Logits, thresholds: ScorePairs, u: Any, ids: Any) -> NDArray[np.bool_]:
        return sets_under(data, self.calibration_.scoring, thresholds, u=u, ids=ids)

    def _warn_where_infinite(self, thresholds: ScorePairs, alpha: Alpha) -> None:
        infinite = np.isposinf(thresholds.value)
        if infinite.any():
            pools, needed = self.calibration_.pool_sizes(), rows_needed(alpha)
            few = np.flatnonzero(infinite & (pools < needed))
            message = self._too_few(few, pools, alpha, needed) if few.size else self._masked()
            warnings.warn(message, CoverageWarning, stacklevel=3)

    def _too_few(self, few: NDArray[np.int64], pools: NDArray[np.int64], alpha: Alpha, needed: int) -> str:
        grouping = self.calibration_.grouping
        if grouping is None:
            return (
                f"alpha={alpha} needs at least {needed} rows for a finite threshold; got {pools[0]}. "
                f"Every set will hold all {self.n_features_in_} classes: add rows or raise alpha."
            )
        names = self.class_names_ or range(self.n_features_in_)
        named = ", ".join(f"{names[c]!r} ({pools[c]})" for c in few[:_NAMED])
        more = f" and {len(few) - _NAMED} more" if len(few) > _NAMED else ""
        return (
            f"alpha={alpha} needs at least {needed} rows of each {grouping.unit} for a finite threshold; too few for "
            f"{len(few)} of {self.n_features_in_} classes: {named}{more}. Those labels enter every set: "
            "add rows, raise alpha, or pool more classes (grouping='cluster' or None)."
        )

    def _masked(self) -> str:
        masked = np.count_nonzero(np.isposinf(self.calibration_.scores.value))
        return (
            f"a threshold is infinite because no finite one reaches a masked class (logit -inf), and {masked} of "
            f"{len(self.calibration_.labels)} rows have their label on one. Its labels enter every set: unmask the "
            "classes or drop the rows."
        )


def _calibration(
    pairs: ScorePairs, labels: NDArray[np.int64], n_classes: int, recipe: Recipe, scoring: Scoring
) -> PooledScores:
    """Pool the label scores of the rows as the recipe groups the classes."""
    grouping = resolve_grouping(recipe.grouping)
    if grouping is None:
        return PooledScores(pairs, labels, None, None, scoring)
    made = grouping.divide(pairs, labels, n_classes, recipe.alpha, recipe.random_state)
    if made.rows is not None:
        pairs, labels = pairs[made.rows], labels[made.rows]
    return PooledScores(pairs, labels, grouping, made.group_of_class, scoring)


def fitted_at(
    model: ConformalClassifier, temperatures: Sequence[float], logits: Any, labels: Any = None
) -> list[ConformalClassifier]:
    """Copies of a classifier at other temperatures, fitted on the same rows, which are sorted once for all of them.

    >>> import numpy as np
    >>> rows, labels = np.log([[0.6, 0.4]] * 19), [0] * 10 + [1] * 9
    >>> [float(round(one.threshold_, 6)) for one in fitted_at(ConformalClassifier("lac"), [1.0, 0.5], rows, labels)]
    [0.6, 0.692308]
    """
    data = fit_data(model, logits, labels)
    y, recipe = data.require_labels("fitted_at"), model.recipe
    at = [Scoring.of(recipe, t) for t in temperatures]
    given = {field.name: getattr(model, field.name) for field in fields(recipe)}
    copies = [type(model)(**given, temperature=one.temperature) for one in at]
    randomness = Randomness(recipe.seed)
    found = label_scores(ArrayRows(data.logits), y, recipe.set_score, [one.temperature for one in at], randomness)
    for copy, pairs, scoring in zip(copies, found, at, strict=True):
        copy._learn(data, pairs, recipe, scoring)
        copy._warn_where_infinite(copy.thresholds_, copy.alpha)
    return copies
