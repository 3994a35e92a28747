"""Split conformal prediction: a threshold from held-out rows, sets that keep the promised coverage."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Bools, Ints, Pairs
from thermoset.conformal.calibration_scores import (
    CalibrationScores,
    check_weightable,
    fitted_groups,
    mostly_missed,
    row_thresholds,
    shortage,
)
from thermoset.conformal.groupings import GroupingLike, text_of
from thermoset.conformal.recipe import Recipe, labels_in, learn_from_some, user_labels
from thermoset.conformal.scoring import Scoring, label_scores, predict_sets, predict_sizes, undecided_rows
from thermoset.data import Logits
from thermoset.data.estimator import Estimator, fit_data, predict_data, remember_classes, require_fitted
from thermoset.data.guards import input_kind_of
from thermoset.data.labels import conformal_weights
from thermoset.errors import CoverageWarning, InputError
from thermoset.levels import Alpha
from thermoset.scores import ScoreLike

_BY_GROUP = "grouping='group'"


class ConformalClassifier(Estimator):
    """Prediction sets with a promised coverage, from logits.

    On exchangeable rows the set contains the true label with probability k/(n + 1), k = ceil((n + 1)(1 - alpha)), at
    every temperature: exactly for LAC and randomised scores without ties, at least that for deterministic ones. With
    `allow_empty=False` it is exact as long as fewer than k of the n rows of `fit` are classified correctly, which is
    almost certain where the accuracy is well below 1 - alpha; otherwise the threshold is -inf, sets are single labels,
    and coverage is the accuracy. On average over the rows of `fit` it is at least k/(n + 1) in any case.

    Parameters
    ----------
    method : str, Score or function
        The nonconformity score: "lac", "aps", "raps", "saps", "topk", "margin", "pas", an object such as
        `RAPS(penalty=0.1)`, or a function (probs, rank, u) of your own; see `OwnScore`.
    alpha : float
        Miscoverage level; sets contain the true label with probability at least 1 - alpha.
    temperature : float
        Logits are divided by this before the softmax.
    randomized : bool
        Draw u from the seed and the row's content (exact coverage); False is u = 1 (coverage at least nominal).
    allow_empty : bool
        False keeps the top label in every set. It then scores below every other label, (-inf, -inf) as a pair, in `fit`
        as well as in prediction, so the threshold accounts for it.
    grouping : None, "class", "cluster", "group", "rc3p", "interpolated" or a Grouping
        One threshold for all; one per class; one per cluster of classes (Ding et al. 2023); one per group of rows
        (`groups`), each of which then has its own exact coverage law; one per class with a rank limit (`RC3P`); or
        thresholds between the first two (`Interpolated(tau=0.5)`).
    random_state : int
        Seed of the randomisation.
    fallback : None, "pooled" or "strictest"
        With grouping="group", the threshold for rows whose group had no conformal row: that of all rows together, or
        the largest of any group. Nothing is promised for such a group. None rejects its rows.

    Attributes
    ----------
    threshold_ : float or ndarray of shape (C,) or (G,)
        The threshold(s) on the scale of the score, for reading. `thresholds_` is the exact form that decides. With
        weights, the threshold of a row of average weight.
    group_names_ : tuple of str, or None
        The groups that have thresholds, with grouping="group".
    thresholds_ : complex ndarray of shape (1, 1), (1, C) or (G, 1)
        The thresholds as pairs: value, and the tie-break that decides between equal values.
    fallback_threshold_ : complex ndarray of shape (1, 1), or None
        The threshold of rows of other groups, if there is a fallback, in the exact form.
    calibration_ : CalibrationScores
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
        grouping: GroupingLike | None = None,
        random_state: int = 0,
        fallback: str | None = None,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.temperature = temperature
        self.randomized = randomized
        self.allow_empty = allow_empty
        self.grouping = grouping
        self.random_state = random_state
        self.fallback = fallback

    @classmethod
    def of(cls, recipe: Recipe) -> "ConformalClassifier":
        """An unfitted classifier that makes sets by a recipe."""
        return cls(**recipe.parameters)

    @property
    def recipe(self) -> Recipe:
        """How sets are made: the parameters as one validated record."""
        return Recipe.of(self)

    def fit(
        self,
        logits: Any,
        labels: Any = None,
        *,
        groups: Any = None,
        u: Any = None,
        ids: Any = None,
        weights: Any = None,
    ) -> "ConformalClassifier":
        """Find the threshold from labelled rows that were used to choose nothing else.

        `groups`: the group of each row, as in `Logits`, which grouping="group" needs.

        `weights` (n,): importance weights, the ratio of each row's density among the rows to be predicted to that among
        these, up to a constant factor. Rows to be predicted then need weights too, and their thresholds depend on them:
        coverage is at least 1 - alpha there, on average, if labels depend on the logits as they do here (covariate
        shift).
        `threshold_` is that of a row of average weight. Equal weights give the same result as none, to the last bit.

        `u` (n,) replaces the seeded randomisation with given numbers in [0, 1]. With `ids`, one whole number or string
        per row, u comes from the seed and the id alone: a row keeps its set even if the last bits of its logits change.
        Rows with the same id have the same u.
        """
        data = fit_data(self, logits, labels, groups)
        _warn_of_level(self.alpha)
        (scores,) = _calibration_scores(self.recipe, data, [self.temperature], u, ids, weights)
        self.adopt(scores, data.n_classes, data.classes, input_kind_of(data))
        self._warn_where_infinite(self.thresholds_, self.alpha)
        return self

    def predict_set(
        self, logits: Any, *, groups: Any = None, u: Any = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.bool_]:
        """Sets as booleans, (n, C): entry [i, y] says whether label y is in the set of row i.

        `groups`, `u`, `ids` and `weights`: as in `fit`.
        """
        data = predict_data(self, logits, groups)
        sets: NDArray[np.bool_] = self._predict(predict_sets, data, u, ids, weights)[0]
        return sets

    def predict_set_labels(
        self, logits: Any, *, groups: Any = None, u: Any = None, ids: Any = None, weights: Any = None
    ) -> list[NDArray[Any]]:
        """The labels in each row's set: class names, or column numbers if `fit` was given no names.

        >>> import numpy as np
        >>> rows = Logits(np.log([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]]), ["keep", "keep", "fraud"], ["keep", "fraud"])
        >>> model = ConformalClassifier("lac", alpha=0.4).fit(rows)
        >>> [labels.tolist() for labels in model.predict_set_labels(np.log([[0.8, 0.2], [0.4, 0.6]]))]
        [['keep'], ['fraud']]
        """
        sets = self.predict_set(logits, groups=groups, u=u, ids=ids, weights=weights)
        return labels_in(sets, user_labels(self.class_names_, self.n_features_in_))

    def predict_sets(
        self, logits: Any, alphas: Any, *, groups: Any = None, u: Any = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.bool_]:
        """Sets for several levels at once, (n_alpha, n, C), nested: a smaller alpha never drops a label."""
        data = predict_data(self, logits, groups)
        levels = list(np.atleast_1d(np.asarray(alphas, dtype=object)))
        if not levels:
            raise InputError("alphas must name at least one level; got none. Try alphas=[0.05, 0.1].")
        sets: Bools = self._predict(predict_sets, data, u, ids, weights, levels)
        for alpha in levels:
            self._warn_where_infinite(self.calibration_.thresholds(alpha), alpha)
        return sets

    def predict_p(
        self,
        logits: Any,
        *,
        smoothed: bool = False,
        groups: Any = None,
        u: Any = None,
        ids: Any = None,
        weights: Any = None,
    ) -> NDArray[np.float64]:
        """p-values, (n, C): the share of conformal rows whose label fits no better than label y fits row i.

        p = (1 + #{s_i >= s_y}) / (n + 1), with the n conformal rows of the label's class or cluster, or of the row's
        group, where each has its own threshold. The labels with p > alpha are exactly `predict_set` at that alpha, for
        every alpha; the p-value of the true label is at most alpha with probability at most alpha. `smoothed=True`
        breaks ties at random, (#{s_i > s_y} + v (1 + #{s_i = s_y})) / (n + 1) with a v in (0, 1) from the seed and the
        row (or its id): uniform on [0, 1] for true labels, even with ties; meant for tests rather than for sets. With
        weights, p = (w + sum of w_i with s_i >= s_y) / (w + sum of all w_i), w being the row's own. `groups`, `u`,
        `ids` and `weights`: as in `fit`. Of `TopLogits`, the p-values are upper bounds, and give the sets of such rows.

        >>> import numpy as np
        >>> model = ConformalClassifier("lac", alpha=0.4).fit(np.log([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6]]), [0, 0, 0])
        >>> fresh = np.log([[0.8, 0.2]])  # 1 - p is 0.1, 0.3, 0.6 of the rows of fit, and here 0.2 and 0.8
        >>> model.predict_p(fresh)
        array([[0.75, 0.25]])
        >>> bool(((model.predict_p(fresh) > 0.4) == model.predict_set(fresh)).all())
        True
        """
        data = predict_data(self, logits, groups)
        self._require_ranks("p-values")
        calibration, seed = self.calibration_, self.recipe.random_state if smoothed else None
        return calibration.p_values(data, seed, u=u, ids=ids, weights=weights)

    def at(self, alpha: Alpha) -> "ConformalClassifier":
        """The classifier at another level, fitted on the same rows without reading them again.

        It equals what `fit` on these rows gives at that level, to the last bit; but clusters, and the rank limits of
        grouping="rc3p", stay those of the fitted level.

        >>> import numpy as np
        >>> model = ConformalClassifier("lac", alpha=0.1).fit(np.log([[0.6, 0.4]] * 19), [0] * 10 + [1] * 9)
        >>> float(round(model.threshold_, 6)), float(round(model.at(0.6).threshold_, 6))
        (0.6, 0.4)
        """
        require_fitted(self)
        _warn_of_level(alpha)
        self._require_ranks("other levels")
        other = self._copy(alpha=alpha)
        other.adopt(self.calibration_, self.n_features_in_, self.class_names_, self.input_kind_)
        other._warn_where_infinite(other.thresholds_, alpha)
        return other

    def adopt(
        self, calibration: CalibrationScores, n_classes: int, classes: tuple[str, ...] | None, input_kind: str
    ) -> "ConformalClassifier":
        """Take the threshold from scores that conformal rows gave earlier, as these parameters say."""
        self.calibration_, self._fitted_alpha, self._tightened = calibration, self.recipe.alpha, False
        self.fallback_threshold_: Pairs | None = calibration.fallback_threshold(self._fitted_alpha)
        self._set_thresholds(calibration.thresholds(self._fitted_alpha))
        remember_classes(self, n_classes, classes, input_kind)
        return self

    def set_sizes(
        self, logits: Any, *, groups: Any = None, u: Any = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.int64]:
        """Number of labels in each row's set, (n,), without forming the sets where all classes share a threshold."""
        data = predict_data(self, logits, groups)
        sizes: Ints = self._predict(predict_sizes, data, u, ids, weights)[0]
        return sizes

    def undecided(
        self, logits: Any, *, groups: Any = None, u: Any = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.bool_]:
        """Which rows, (n,), have labels in their set that whole rows might exclude; see `TopLogits`.

        Where rows hold only their largest logits, bounds decide, and a label that they cannot exclude is included.
        `groups`, `u`, `ids` and `weights`: as in `fit`.
        """
        data = predict_data(self, logits, groups)
        open_rows: Bools = self._predict(undecided_rows, data, u, ids, weights)[0]
        return open_rows

    def tighten(self, alpha: Alpha, more: Logits, *, u: Any = None) -> "ConformalClassifier":
        """Raise the threshold to that of a stricter level, from the rows of `fit` and `more` rows together.

        It never falls below the threshold of `fit`, so coverage is at least what was promised, however the stricter
        level and the other rows were chosen.
        """
        require_fitted(self)
        if self.calibration_.grouping is not None:
            raise InputError("tighten needs one threshold for all classes; this classifier has one per group.")
        if self.calibration_.weights is not None:
            raise InputError(
                "protecting classes by a stricter level is not supported for weighted rows. Use prefer='even' or "
                "'small', or omit weights."
            )
        y, scoring = more.require_labels("tighten"), self.calibration_.scoring
        (own,) = label_scores(more, y, scoring.score, [scoring.temperature], scoring.randomness(u, len(more)))
        pooled = replace(self.calibration_, scores=np.concatenate([self.calibration_.scores, own]))
        self._set_thresholds(np.maximum(self.thresholds_, pooled.pooled_threshold(alpha)))
        self._tightened = True
        return self

    def _require_ranks(self, what: str) -> None:
        """Refuse where sets are not those with a score up to an order statistic of the conformal scores."""
        grouping = self.calibration_.grouping
        if grouping is not None and not grouping.has_p_values:
            raise InputError(
                f"there are no {what} with grouping={grouping.name!r}: ranks alone do not determine its sets."
            )
        if self._tightened:
            raise InputError(
                f"this classifier has no {what}: its threshold was tightened with more rows. Fit it again."
            )

    def _copy(self, **parameters: Any) -> "ConformalClassifier":
        """An unfitted copy with some other parameters."""
        return type(self)(**{name: getattr(self, name) for name in Recipe.__struct_fields__} | parameters)

    def _set_thresholds(self, thresholds: Pairs) -> None:
        """Take thresholds (G, K), in the form that decides and in the one for reading."""
        self.thresholds_: Pairs = thresholds
        one, groups = self.calibration_.grouping is None, self.calibration_.groups
        self.group_names_ = None if groups is None else groups.names
        self.threshold_: Any = float(thresholds.real[0, 0]) if one else thresholds.real.ravel()

    def _predict(
        self, predict: Any, data: Logits, u: Any, ids: Any, weights: Any, alphas: Sequence[Alpha] | None = None
    ) -> Any:
        """Sets, sizes or undecided rows at some levels, or at the one that was fitted, under each row's threshold."""
        scores, scoring = self.calibration_, self.calibration_.scoring
        known = [q for q in (self.thresholds_, self.fallback_threshold_) if q is not None]
        table = np.concatenate(known)[None] if alphas is None else scores.table(alphas)
        levels, falls_back = [self._fitted_alpha] if alphas is None else alphas, scores.fallback is not None
        thresholds = row_thresholds(data, weights, table, scores, levels, self.group_names_, falls_back, _BY_GROUP)
        randomness = scoring.randomness(u, len(data), ids)
        return predict(data, scoring.score, scoring.temperature, randomness, *thresholds)

    def _warn_where_infinite(self, thresholds: Pairs, alpha: Alpha) -> None:
        message = shortage(self.calibration_, thresholds, alpha, self.n_features_in_, self.class_names_)
        if message is not None:
            warnings.warn(message, CoverageWarning, stacklevel=3)


def _warn_of_level(alpha: Alpha) -> None:
    if (lax := mostly_missed(alpha)) is not None:
        warnings.warn(lax, CoverageWarning, stacklevel=3)


def fitted_at(
    model: ConformalClassifier, temperatures: Sequence[float], logits: Any, labels: Any = None, *, u: Any = None
) -> list[ConformalClassifier]:
    """Copies of a classifier at several temperatures, fitted on the same rows, which are sorted only once.

    >>> import numpy as np
    >>> rows, labels = np.log([[0.6, 0.4]] * 19), [0] * 10 + [1] * 9
    >>> [float(round(one.threshold_, 6)) for one in fitted_at(ConformalClassifier("lac"), [1.0, 0.5], rows, labels)]
    [0.6, 0.692308]
    """
    data = fit_data(model, logits, labels)
    copies = []
    for scores in _calibration_scores(model.recipe, data, temperatures, u):
        copy = model._copy(temperature=scores.scoring.temperature)
        copies.append(copy.adopt(scores, data.n_classes, data.classes, input_kind_of(data)))
        copy._warn_where_infinite(copy.thresholds_, copy.alpha)
    return copies


def _calibration_scores(
    recipe: Recipe, data: Logits, temperatures: Sequence[float], u: Any, ids: Any = None, weights: Any = None
) -> list[CalibrationScores]:
    """What the conformal rows score at each of several temperatures; they are sorted once."""
    recipe, rows = learn_from_some(recipe, data).announce(data, stacklevel=4)
    if recipe.by_row:
        fitted_groups(data, _BY_GROUP)
    if weights is not None:
        check_weightable(text_of(recipe.grouping))
        weights = conformal_weights(weights, len(data))
    at = [Scoring.of(recipe.change(temperature=t)) for t in temperatures]
    labels, randomness = data.require_labels("ConformalClassifier.fit"), at[0].randomness(u, len(data), ids)
    scores = label_scores(data, labels, at[0].score, [one.temperature for one in at], randomness)
    return [CalibrationScores.of(own, data, recipe, one, rows, weights) for own, one in zip(scores, at, strict=True)]
