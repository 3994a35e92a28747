"""Two temperatures, one predictor: calibrated probabilities from T*, prediction sets from T-hat (paper, section 5)."""

import os
from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import thermoset.predictor as rooms  # those of fitting, judging and showing load when they are first used
from thermoset.arrays import Block, Bools, Floats, Ints
from thermoset.conformal.groupings import GroupingLike
from thermoset.conformal.named import labels_in, user_labels
from thermoset.conformal.recipe import Recipe
from thermoset.data.estimator import Estimator
from thermoset.data.fitted import fit_data, predict_data, remember_classes, require_fitted, split_data
from thermoset.data.top_rows import tops_of
from thermoset.errors import InputError
from thermoset.levels import Alpha
from thermoset.predictor.answers import Answers, Prediction, as_records
from thermoset.predictor.calibrated import Calibrated
from thermoset.predictor.document import Document, read_document, write_document
from thermoset.predictor.rule import RowSets, SetRule
from thermoset.rows import map_rows, memory_budget
from thermoset.scores import Score, ScoreLike

if TYPE_CHECKING:
    from thermoset.conformal.calibration_scores import CalibrationScores
    from thermoset.monitor.checking import CheckReport, Promise
    from thermoset.predictor.fitting import Progress
    from thermoset.predictor.label_shift import LabelShift, PriorEstimate

__all__ = ["TwoTemperaturePredictor"]


class TwoTemperaturePredictor(Estimator):
    """Calibrated probabilities and prediction sets from logits, each with its own temperature.

    T* makes the confidence match the accuracy. T-hat gives the sets that the user prefers. Both come from the
    calibration rows; the threshold of the sets comes from conformal rows that chose nothing, so coverage is exact (see
    `ConformalClassifier`).

    Parameters
    ----------
    method, alpha, randomized, allow_empty, grouping, random_state, fallback
        The sets, as in `ConformalClassifier`. The seed also draws the split of `fit`. `method="auto"` chooses the score
        and its parameters, randomised or not, together with the temperature: see `tuning.menu`.
    prefer : "even", "small", "protect", or a bound: "classes>=0.85", "groups>=0.85", "size<=3", "gap<=0.03"
        What the sets are chosen for; see `tuning.choose`.
    objective : "nll" or "ece"
        What T* minimises; see `TemperatureScaler`.
    even : "class" or "group"
        What `prefer` evens out or protects: the classes, or the groups of rows passed to `fit`. The sets do not use
        groups either way, so rows to be predicted need none.
    calibration_fraction : float
        Fraction of the rows that `fit` sets aside for the temperatures; the others set the threshold.

    Attributes
    ----------
    temperature_ : float
        T*, of `predict_proba`.
    temperature_sets_ : float
        T-hat, of `predict_set`.
    threshold_ : float or ndarray of shape (C,) or (G,)
        The threshold(s) on the scale of the score, for reading.
    group_names_ : tuple of str, or None
        The groups that have thresholds, with grouping="group".
    choice_ : Choice
        What was chosen and why, what it costs, who pays, and how certain it is.
    document_ : Document
        Everything that was learned: what `save` writes.

    Examples
    --------
    >>> import numpy as np, thermoset as ts
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 5, size=4000)
    >>> logits = 3 * (rng.normal(size=(4000, 5)) + 2 * np.eye(5)[labels])
    >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(logits[:3000], labels[:3000])
    >>> sets = predictor.predict_set(logits[3000:])
    >>> bool(ts.metrics.marginal_coverage(sets, labels[3000:]) > 0.87)
    True
    >>> predictor.predict_records(logits[3000:3001])  # doctest: +ELLIPSIS
    [Prediction(label=1, confidence=0.97..., set=(1,))]
    """

    _recipe: Recipe
    _scores: "CalibrationScores | None"

    def __init__(
        self,
        method: ScoreLike = "raps",
        alpha: Alpha = 0.1,
        prefer: str = "even",
        objective: Literal["nll", "ece"] = "nll",
        randomized: bool = True,
        allow_empty: bool = True,
        grouping: GroupingLike | None = None,
        random_state: int = 0,
        *,
        even: Literal["class", "group"] = "class",
        calibration_fraction: Alpha = 0.5,
        fallback: str | None = None,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.prefer = prefer
        self.objective = objective
        self.randomized = randomized
        self.allow_empty = allow_empty
        self.grouping = grouping
        self.random_state = random_state
        self.even = even
        self.calibration_fraction = calibration_fraction
        self.fallback = fallback

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The kinds of sets to choose from, checked: the one that the parameters name, or those of "auto"."""
        return rooms.fitting.kinds_of_sets(self)

    @property
    def recipe(self) -> Recipe:
        """How sets are made, but for their temperature: as the parameters say, or as was chosen and learned."""
        if not hasattr(self, "document_"):
            return Recipe.of(self)
        chosen = self.method == "auto" or self.document_.alpha_sets != str(self.alpha)
        return self._recipe if chosen or (asked := Recipe.of(self)).learns else asked

    def fit(
        self,
        logits: Any,
        labels: Any = None,
        *,
        groups: Any = None,
        split_by: Any = None,
        ids: Any = None,
        weights: Any = None,
        memory: str | int | None = None,
        progress: "Progress | None" = None,
    ) -> "TwoTemperaturePredictor":
        """Split labelled rows at random into calibration and conformal rows, and fit on them.

        `groups`: the group of each row, as in `Logits`. `split_by` (one value per row) keeps rows together that are not
        independent, such as those of one patient, font or camera: all rows with the same value go to the same side.
        `ids` and `weights`: as in `ConformalClassifier.fit`; they apply to the conformal rows only, and both
        temperatures ignore them. `memory`: as in `thermoset.sweep`.
        """
        data, beside = fit_data(self, logits, labels, groups), rooms.fitting.Beside(ids, weights)
        with memory_budget(memory):
            self._adopt(*rooms.fitting.made(self, data, split_by, beside, progress))
        return self

    def fit_split(
        self,
        calibration: Any,
        conformal: Any,
        *,
        ids: Any = None,
        weights: Any = None,
        memory: str | int | None = None,
        progress: "Progress | None" = None,
    ) -> "TwoTemperaturePredictor":
        """Fit on the user's own split: temperatures from `calibration`, the threshold from `conformal`.

        Each part is labelled `Logits` or a pair of arrays (logits, labels). The two must not share rows. `ids` and
        `weights` (see `ConformalClassifier.fit`) are those of the conformal rows.
        """
        parts = split_data(calibration, "calibration"), split_data(conformal, "conformal")
        with memory_budget(memory):
            self._adopt(*rooms.fitting.made_of_split(self, *parts, rooms.fitting.Beside(ids, weights), progress))
        return self

    def recalibrate(
        self, logits: Any, labels: Any = None, *, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> "TwoTemperaturePredictor":
        """Set the threshold anew from new labelled rows, which may have ids; both temperatures stay.

        With grouping="group", the groups of the new rows replace the old ones. Rows that chose the temperatures are
        refused; rows behind the old threshold may be reused. With `weights`, thresholds depend on a row's weight from
        then on, and rows to be predicted need weights too; see `ConformalClassifier.fit`. A `shifted` predictor becomes
        an ordinary one again, for rows like the new ones.

        >>> import numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 5, size=3000)
        >>> logits = rng.normal(size=(3000, 5)) + 2 * np.eye(5)[labels]
        >>> predictor = ts.TwoTemperaturePredictor().fit(logits[:2000], labels[:2000])
        >>> before = predictor.threshold_
        >>> harder = rng.normal(size=(500, 5)) + np.eye(5)[labels[:500]]
        >>> predictor.recalibrate(harder, labels[:500]).threshold_ > before
        True
        """
        data = predict_data(self, logits, groups, labels)
        beside = rooms.fitting.Beside(ids, weights)
        self._adopt(rooms.fitting.renewed(self.document_, self._recipe, data, beside), self._recipe.score)
        return self

    def predict(self, logits: Any) -> NDArray[np.int64]:
        """The most likely label of each row, as its column number; `predict_labels` gives names."""
        data = predict_data(self, logits)
        return self._calibrated.labels(data)

    def predict_labels(self, logits: Any) -> NDArray[Any]:
        """The same by name: an array of class names, or of column numbers if `fit` was given no names.

        >>> import numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 3, size=600)
        >>> logits = rng.normal(size=(600, 3)) + 2 * np.eye(3)[labels]
        >>> predictor = ts.TwoTemperaturePredictor().fit(ts.Logits(logits, labels, ["ant", "bee", "cow"]))
        >>> predictor.predict([[0.0, 9.0, 0.0]]), predictor.predict_labels([[0.0, 9.0, 0.0]])
        (array([1]), array(['bee'], dtype='<U3'))
        """
        found = self.predict(logits)
        labels: NDArray[Any] = self._user_labels()[found]
        return labels

    def predict_proba(self, logits: Any) -> NDArray[np.float64]:
        """Calibrated probabilities: softmax at T*, (n, C), times target share / source share under a label shift."""
        data = predict_data(self, logits)
        return self._calibrated.probabilities(data)

    def predict_set(
        self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.bool_]:
        """Sets at T-hat as booleans, (n, C); `groups`, `ids` and `weights` as in `ConformalClassifier.fit`."""
        data = predict_data(self, logits, groups)
        return self._rule.sets(data, ids, weights)

    def predict_set_labels(
        self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> list[NDArray[Any]]:
        """The labels in each row's set, by name as in `predict_labels`."""
        return labels_in(self.predict_set(logits, groups=groups, ids=ids, weights=weights), self._user_labels())

    def set_sizes(self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None) -> NDArray[np.int64]:
        """Number of labels in each row's set, (n,)."""
        data = predict_data(self, logits, groups)
        return self._rule.sizes(data, ids, weights)

    def predict_p(
        self, logits: Any, *, smoothed: bool = False, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.float64]:
        """p-values at T-hat, (n, C); the labels with p > alpha are exactly `predict_set`, also `at` any other alpha.

        See `ConformalClassifier.predict_p`. They need the label scores of the conformal rows (see `save`), and sets
        that these scores alone determine: they are not available where a stricter level protects classes.
        """
        data = predict_data(self, logits, groups)
        seed = self._recipe.random_state if smoothed else None
        return self._calibration_scores().p_values(data, seed, ids=ids, weights=weights)

    def require_p(self) -> None:
        """Raise the error that `predict_p` and `at` would raise, if any."""
        require_fitted(self)
        self._calibration_scores()

    def at(self, alpha: Alpha) -> "TwoTemperaturePredictor":
        """The predictor with a different promise, 1 - alpha, from the scores of the same conformal rows.

        T* and T-hat stay: choosing again needs the calibration rows, so `choice_` still describes the choice for the
        fitted level. The threshold is that of a `ConformalClassifier` fitted at T-hat and this alpha on the conformal
        rows, to the last bit (with grouping="cluster": on the same clusters). Measurements of sets at the old level are
        dropped from the document. The requirements are those of `predict_p`.

        >>> import numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 5, size=4000)
        >>> logits = rng.normal(size=(4000, 5)) + 2 * np.eye(5)[labels]
        >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(logits[:3000], labels[:3000])
        >>> stricter = predictor.at(0.01)
        >>> bool((stricter.predict_set(logits[3000:]) >= predictor.predict_set(logits[3000:])).all())
        True
        """
        require_fitted(self)
        if (shift := self.document_.shift) is not None:
            plain = copy(self)
            plain._adopt(rooms.label_shift.shift_document(self.document_, None), self._recipe.score)
            return plain.at(alpha)._under(shift)
        sets = rooms.any_level.classifier_of(self.document_, self._recipe, self._calibration_scores()).at(alpha)
        other = copy(self)
        other.alpha = alpha
        other._adopt(rooms.fitting.moved(self.document_, sets, alpha), self._recipe.score)
        return other

    def estimate_priors(
        self, target: Any, *, bootstrap: int = 200, random_state: int = 0, progress: "Progress | None" = None
    ) -> "PriorEstimate":
        """Class shares of unlabelled target rows, by EM on their probabilities at T*; see `label_shift`.

        Refused where a trial on the predictor's own conformal rows has shown that estimated shares would do harm.
        """
        data, made = predict_data(self, target), self.document_
        return rooms.label_shift.estimate_priors(
            data,
            made.temperature,
            rooms.label_shift.source_counts(made),
            made.shares,
            bootstrap=bootstrap,
            random_state=random_state,
            progress=progress,
        )

    def shifted(self, target: Any = None, *, priors: Any = None) -> "TwoTemperaturePredictor":
        """The predictor for rows with other class shares (label shift): sets, probabilities and labels for the target.

        Conformal rows are weighted by target share / source share of their class, and so are probabilities at T*.
        Coverage of target rows is at least 1 - alpha on average, if the shares are right and the rows of each class
        look as before. It needs one threshold for all classes, and has the requirements of `predict_p`. New shares
        replace earlier ones.

        Parameters
        ----------
        target : array-like or Logits
            Unlabelled rows, whose class shares are estimated.
        priors : mapping, array-like or PriorEstimate
            The shares instead: by class name or column number, in column order, or from `estimate_priors`.

        Examples
        --------
        >>> import numpy as np, thermoset as ts
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(0, 3, size=3000)
        >>> logits = rng.normal(size=(3000, 3)) + 2 * np.eye(3)[labels]
        >>> predictor = ts.TwoTemperaturePredictor(alpha=0.1).fit(logits, labels)
        >>> fewer = predictor.shifted(priors={0: 0.8, 1: 0.1, 2: 0.1})
        >>> bool((fewer.predict_proba(logits)[:, 0] >= predictor.predict_proba(logits)[:, 0]).all())
        True
        """
        require_fitted(self)
        if (target is None) == (priors is None):
            raise InputError("pass either target rows or their class shares (priors=), not both.")
        rooms.label_shift.require_shiftable(self.document_)  # before the work
        given = self.estimate_priors(target) if priors is None else priors
        return self._under(rooms.label_shift.make_shift(self.document_, given))

    def _under(self, shift: "LabelShift") -> "TwoTemperaturePredictor":
        other = copy(self)
        other._adopt(rooms.label_shift.shift_document(self.document_, shift), self._recipe.score)
        return other

    def undecided(self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None) -> NDArray[np.bool_]:
        """Which rows, (n,), have labels in their set that whole rows might exclude; see `TopLogits`.

        Where rows hold only their largest logits, bounds decide, and a label that they cannot exclude is included.
        """
        data = predict_data(self, logits, groups)
        return self._rule.undecided(data, ids, weights)

    def answers(self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None) -> Answers:
        """Label, confidence and set of each row, as arrays."""
        data = predict_data(self, logits, groups)
        if tops_of(data) is not None:
            return Answers(*self._calibrated.answers(data), self._rule.sets(data, ids, weights))
        labels, confidence = np.empty((len(data), 1), dtype=np.int64), np.empty((len(data), 1))
        sets, rule = np.empty((len(data), data.n_classes), dtype=np.bool_), self._rule.rows(data, ids, weights)
        out = [labels, confidence, sets]
        map_rows(data, _answers_of_block, out, per_row=[rule], fixed=[self._calibrated], axis=-2)
        return Answers(labels[:, 0], confidence[:, 0], sets)

    def predict_records(
        self, logits: Any, *, groups: Any = None, ids: Any = None, weights: Any = None
    ) -> list[Prediction]:
        """Label, confidence and set of each row as records, for reading and for JSON."""
        found = self.answers(logits, groups=groups, ids=ids, weights=weights)
        return as_records(found, self.document_.classes or range(self.document_.n_classes))

    def check(
        self,
        logits: Any,
        labels: Any = None,
        *,
        groups: Any = None,
        weights: Any = None,
        fail_on: str | Iterable[str] = (),
    ) -> "CheckReport":
        """Check the promise on fresh labelled rows; see `checking.check`.

        Rows with groups also show the coverage of each group, whatever the grouping of the thresholds. Rows that chose
        the temperatures or set the threshold are refused: see `predictor.used_rows`. Where conformal rows have weights,
        these rows need them too, and must come from the population that the weights are for; the law is then
        approximate.
        """
        data = predict_data(self, logits, groups, labels)
        y = data.require_labels("check")
        rooms.used_rows.refuse_used(self.document_, data)
        return rooms.judging.judged(data, y, self.document_, self._recipe, fail_on, weights)

    @property
    def promise(self) -> "Promise":
        """The promised coverage, and the number of rows behind it."""
        return rooms.judging.promise_of(self.document_, self._recipe)

    def save(self, path: str | os.PathLike[str], *, scores: bool | None = None) -> None:
        """Write one JSON document for `load`, completely or not at all.

        `scores` says whether to write the label scores of the conformal rows too, about 17 bytes per row; `predict_p`
        and `at` need them. None writes them for up to a million rows.
        """
        require_fitted(self)
        write_document(path, rooms.any_level.as_saved(self.document_, scores))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TwoTemperaturePredictor":
        """Read what `save` wrote; its predictions are the same to the last bit."""
        document = read_document(path)
        made = document.provenance
        predictor = cls(
            **document.recipe.parameters | {"alpha": document.alpha},
            prefer=made.prefer,
            objective=made.objective,  # type: ignore[arg-type]
            even=document.choice.even,
            calibration_fraction=made.calibration_fraction,
        )
        predictor._adopt(document, document.score)
        return predictor

    def _repr_html_(self) -> str | None:
        """What a notebook shows of a fitted predictor: the recommendation, what sets will look like, and the curves."""
        if not hasattr(self, "document_"):
            return None
        return rooms.shown.predictor_html(self.document_)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Notebooks prefer this to `_repr_html_`; scikit-learn's shows parameters, which is right before `fit`."""
        shown = self._repr_html_()
        if shown is None:
            return super()._repr_mimebundle_(**options)
        return {"text/plain": repr(self), "text/html": shown}

    def _user_labels(self) -> NDArray[Any]:
        return user_labels(self.document_.classes, self.document_.n_classes)

    def _calibration_scores(self) -> "CalibrationScores":
        """The scores that set the threshold, read from the document when they are first needed."""
        if self._scores is None:
            self._scores = rooms.any_level.calibration_scores(self.document_, self._recipe.set_score)
        return self._scores

    def _adopt(self, document: Document, score: Score) -> None:
        """Take over what a document says; every prediction comes from it, and from a score that it may not name."""
        self.document_ = document
        self._scores = None
        self.temperature_ = document.temperature
        self.temperature_sets_ = document.temperature_sets
        self.choice_ = document.choice
        self._calibrated = Calibrated.of(document)
        self._recipe = document.recipe_with(score)
        self._rule = SetRule.of(document, self._recipe.set_score)
        value = document.thresholds.pairs().real
        self.threshold_ = float(value[0]) if document.grouping is None and document.shift is None else value
        self.group_names_ = document.group_names
        remember_classes(self, document.n_classes, document.classes, document.input_kind)


def _answers_of_block(block: Block, sets: RowSets, calibrated: Calibrated) -> tuple[Ints, Floats, Bools]:
    labels, confidence = calibrated.tops(block)
    return labels[:, None], confidence[:, None], sets.of_block(block)
