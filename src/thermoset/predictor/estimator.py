"""Two temperatures, one predictor: calibrated probabilities from T*, prediction sets from T-hat (paper, section 5)."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import thermoset.predictor as rooms  # those of fitting, judging and showing load when they are first used
from thermoset.calibration import probabilities
from thermoset.conformal.recipes import Recipe
from thermoset.core.levels import Alpha
from thermoset.core.pool import for_blocks
from thermoset.core.scores import Score, ScoreLike
from thermoset.core.softmax import confidences
from thermoset.core.sources import ArrayRows, Block, widened
from thermoset.data import Logits, as_logits
from thermoset.data.estimator import Estimator
from thermoset.data.fitted import fit_data, predict_data, remember_classes
from thermoset.errors import InputError
from thermoset.predictor.answers import Answers, Prediction, as_records
from thermoset.predictor.artifact import Artifact, read_artifact, write_artifact
from thermoset.predictor.rule import SetRule

if TYPE_CHECKING:
    from thermoset.monitor.checking import CheckReport, Promise
    from thermoset.predictor.fitting import Progress

__all__ = ["TwoTemperaturePredictor"]


class TwoTemperaturePredictor(Estimator):
    """Calibrated probabilities and prediction sets from logits, each with its own temperature.

    T* makes the confidence honest. T-hat gives the sets the user prefers. T* and T-hat come from calibration rows, the
    threshold of the sets from conformal rows that nothing was chosen on, so that coverage is exact (see
    `ConformalClassifier`).

    Parameters
    ----------
    method, alpha, randomized, allow_empty, grouping, random_state
        The sets, as in `ConformalClassifier`. The seed also draws the split of `fit`. `method="auto"` chooses the score
        and its parameters, randomised or not, together with the temperature: see `tuning.menu`.
    prefer : "even", "small", "protect", a number in [0, 1], or a bound: "classes>=0.85", "size<=3", "gap<=0.03"
        What the sets are chosen for; see `tuning.choose`.
    objective : "nll" or "ece"
        What T* minimises; see `TemperatureScaler`.
    selection : "calibration", "paper" or "full"
        "paper" chooses T-hat by thresholds from the conformal rows (appendix C); coverage is then no longer exact.
        "full" takes all rows for both temperatures and for the threshold: coverage is at least 1 - alpha, and it
        scatters less; see `tuning.full`. For prefer "small" and "even", and one threshold for all classes.
    calibration_fraction : float
        Part of the rows that `fit` sets aside for the temperatures; the others set the threshold.

    Attributes
    ----------
    temperature_ : float
        T*, of `predict_proba`.
    temperature_sets_ : float
        T-hat, of `predict_set`.
    threshold_ : float or ndarray of shape (C,)
        The threshold(s) as the score's value, for reading.
    choice_ : Choice
        What was chosen and why, what it costs, who pays, how sure the rows are.
    artifact_ : Artifact
        Everything learnt: what `save` writes.

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

    def __init__(
        self,
        method: ScoreLike = "raps",
        alpha: Alpha = 0.1,
        prefer: str | float = "even",
        objective: Literal["nll", "ece"] = "nll",
        randomized: bool = True,
        allow_empty: bool = True,
        grouping: str | None = None,
        random_state: int = 0,
        *,
        selection: Literal["calibration", "paper", "full"] = "calibration",
        calibration_fraction: Alpha = 0.5,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.prefer = prefer
        self.objective = objective
        self.randomized = randomized
        self.allow_empty = allow_empty
        self.grouping = grouping
        self.random_state = random_state
        self.selection = selection
        self.calibration_fraction = calibration_fraction

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The kinds of sets to choose from, checked: the one that the parameters name, or those of "auto"."""
        return rooms.fitting.kinds_of_sets(self)

    @property
    def recipe(self) -> Recipe:
        """How sets are made, but for their temperature: as the parameters say, or as "auto" and "protect" chose."""
        chosen = hasattr(self, "artifact_") and (self.method == "auto" or self.artifact_.alpha_sets != str(self.alpha))
        return self._recipe if chosen else Recipe.of(self)

    def fit(
        self,
        logits: Any,
        labels: Any = None,
        *,
        groups: Any = None,
        ids: Any = None,
        progress: "Progress | None" = None,
    ) -> "TwoTemperaturePredictor":
        """Split labelled rows at random into calibration and conformal rows, and fit on them.

        `groups` (one name or number a row) keeps the rows of a group on one side: rows of one patient, font or camera
        are not independent. `ids`: as in `ConformalClassifier.fit`; those of the conformal rows are used. With
        selection="full" nothing is split.
        """
        data = fit_data(self, logits, labels)
        self._adopt(*rooms.fitting.made(self, data, groups, ids, progress))
        return self

    def fit_split(
        self, calibration: Logits, conformal: Logits, *, ids: Any = None, progress: "Progress | None" = None
    ) -> "TwoTemperaturePredictor":
        """Fit on the user's own split: temperatures from `calibration`, the threshold from `conformal`.

        The two must not share rows. `ids` are those of the conformal rows.
        """
        self._adopt(*rooms.fitting.made_of_split(self, calibration, conformal, ids, progress))
        return self

    def recalibrate(self, conformal: Logits, *, ids: Any = None) -> "TwoTemperaturePredictor":
        """Renew the threshold from new labelled rows, which may have ids; both temperatures stay.

        After selection="full" the sets are those at T-hat alone from then on, with exact coverage: the new rows did not
        choose it.
        """
        data = predict_data(self, conformal)
        self._adopt(rooms.fitting.renewed(self.artifact_, self._recipe, data, ids), self._recipe.score)
        return self

    def predict(self, logits: Any) -> NDArray[np.int64]:
        """The most likely label of each row, as its column number."""
        labels: NDArray[np.int64] = predict_data(self, logits).logits.argmax(axis=1)
        return labels

    def predict_proba(self, logits: Any) -> NDArray[np.float64]:
        """Calibrated probabilities: softmax at T*, (n, C)."""
        return probabilities(predict_data(self, logits), self.artifact_.temperature)

    def predict_set(self, logits: Any, *, ids: Any = None) -> NDArray[np.bool_]:
        """Sets at T-hat as booleans, (n, C); `ids` as in `ConformalClassifier.fit`."""
        return self._rule.sets(predict_data(self, logits), ids)

    def set_sizes(self, logits: Any, *, ids: Any = None) -> NDArray[np.int64]:
        """Number of labels in each row's set, (n,)."""
        return self._rule.sizes(predict_data(self, logits), ids)

    def answers(self, logits: Any, *, ids: Any = None) -> Answers:
        """Label, confidence and set of each row, as arrays."""
        data = predict_data(self, logits)
        randomness = self._rule.randomness(len(data), ids)
        confidence, sets = np.empty((1, len(data))), np.empty(data.logits.shape, dtype=np.bool_)

        def work(block: Block, place: slice) -> None:
            confidence[:, place] = confidences(widened(block), self._temperatures)
            self._rule.fill(block, place, randomness, sets[place])

        for_blocks(ArrayRows(data.logits), work)
        return Answers(data.logits.argmax(axis=1), confidence[0], sets)

    def predict_records(self, logits: Any, *, ids: Any = None) -> list[Prediction]:
        """Label, confidence and set of each row, for people and JSON."""
        return as_records(self.answers(logits, ids=ids), self.artifact_.classes or range(self.artifact_.n_classes))

    def check(self, logits: Any, labels: Any = None, *, fail_on: str | Iterable[str] = ()) -> "CheckReport":
        """Whether fresh labelled rows bear out what was promised; see `checking.check`."""
        fresh = as_logits(logits, labels)
        y = fresh.require_labels("check")
        data = predict_data(self, fresh)
        return rooms.judging.judged(data, y, self.artifact_, self._recipe, fail_on)

    @property
    def promise(self) -> "Promise":
        """What coverage was promised, and by how many rows."""
        return rooms.judging.promise_of(self.artifact_, self._recipe)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON document that `load` reads, whole or not at all."""
        if not hasattr(self, "artifact_"):
            raise InputError("there is nothing to save: fit the predictor first.")
        write_artifact(path, self.artifact_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TwoTemperaturePredictor":
        """Read what `save` wrote; its predictions are the same to the last bit."""
        artifact = read_artifact(path)
        made = artifact.provenance
        predictor = cls(
            **artifact.recipe.parameters | {"alpha": artifact.alpha},
            prefer=made.prefer,
            objective=made.objective,  # type: ignore[arg-type]
            selection=made.selection,  # type: ignore[arg-type]
            calibration_fraction=made.calibration_fraction,
        )
        predictor._adopt(artifact, artifact.method.score())
        return predictor

    def _repr_html_(self) -> str | None:
        """What a notebook shows of a fitted predictor: the recommendation, what sets will look like, and the curves."""
        if not hasattr(self, "artifact_"):
            return None
        return rooms.shown.predictor_html(self.artifact_)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Notebooks prefer this to `_repr_html_`; scikit-learn's shows parameters, which is right before `fit`."""
        shown = self._repr_html_()
        if shown is None:
            return super()._repr_mimebundle_(**options)
        return {"text/plain": repr(self), "text/html": shown}

    def _adopt(self, artifact: Artifact, score: Score) -> None:
        """Take over what an artifact says; every prediction comes from it, and from a score that it may not name."""
        self.artifact_ = artifact
        self.temperature_ = artifact.temperature
        self.temperature_sets_ = artifact.temperature_sets
        self.choice_ = artifact.choice
        self._temperatures = np.array([artifact.temperature])
        self._recipe = artifact.recipe_with(score)
        self._rule = SetRule(artifact, self._recipe.set_score)
        value = artifact.thresholds.pairs().value
        self.threshold_ = float(value[0]) if artifact.grouping is None else value
        remember_classes(self, artifact.n_classes, artifact.classes)
