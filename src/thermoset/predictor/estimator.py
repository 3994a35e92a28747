"""Two temperatures, one predictor: calibrated probabilities from T*, prediction sets from T-hat (paper, section 5)."""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from thermoset._version import __version__
from thermoset.calibration import TemperatureScaler, confidence_at, probabilities
from thermoset.conformal import ConformalClassifier, Scoring, sets_under, sizes_under
from thermoset.conformal.methods import Method
from thermoset.conformal.recipes import Recipe
from thermoset.core.levels import Alpha, exact_level
from thermoset.core.scores import Score, ScoreLike
from thermoset.core.uniforms import checked_ids
from thermoset.data import Logits, as_logits, split_indices
from thermoset.data.fitted import fit_data, predict_data, remember_classes
from thermoset.errors import InputError
from thermoset.monitor.checking import CheckReport, Promise, check
from thermoset.predictor.artifact import (
    Artifact,
    Provenance,
    Thresholds,
    fingerprint,
    read_artifact,
    write_artifact,
)
from thermoset.predictor.full import union_sets, with_members
from thermoset.predictor.measures import coverage_measures, measure
from thermoset.predictor.shown import predictor_html
from thermoset.tuning import Choice, Setting, choose, menu, read_preference
from thermoset.tuning.full import choose_full

__all__ = ["Answers", "Prediction", "TwoTemperaturePredictor"]

Progress = Callable[[int, int], None]


class Prediction(NamedTuple):
    """One row's answer: the likeliest label, its calibrated confidence, and the set; by name where classes have one."""

    label: str | int
    confidence: float
    set: tuple[str | int, ...]


class Answers(NamedTuple):
    """The answers for some rows as arrays: labels (n,) as column numbers, their confidence (n,), and sets (n, C)."""

    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]
    sets: NDArray[np.bool_]


class TwoTemperaturePredictor(BaseEstimator):  # type: ignore[misc]
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
        if self.method != "auto":
            return (Recipe.of(self),)
        if self.grouping is not None:
            raise InputError(
                f"method='auto' chooses among sets with one threshold for all classes; got grouping={self.grouping!r}. "
                "Name a method, or leave grouping out."
            )
        return menu(
            self.alpha,
            randomized=self.randomized,
            allow_empty=self.allow_empty,
            random_state=self.random_state,
        )

    @property
    def recipe(self) -> Recipe:
        """How sets are made, but for their temperature: as the parameters say, or as "auto" and "protect" chose."""
        chosen = hasattr(self, "artifact_") and (self.method == "auto" or self.artifact_.alpha_sets != str(self.alpha))
        return self._recipe if chosen else Recipe.of(self)

    @property
    def _single(self) -> Recipe:
        """The one kind of sets that selection="full" needs."""
        if self.method == "auto":
            raise InputError("selection='full' chooses a temperature for one method. Name a method.")
        return Recipe.of(self)

    def fit(
        self, logits: Any, labels: Any = None, *, groups: Any = None, ids: Any = None, progress: Progress | None = None
    ) -> "TwoTemperaturePredictor":
        """Split labelled rows at random into calibration and conformal rows, and fit on them.

        `groups` (one name or number a row) keeps the rows of a group on one side: rows of one patient, font or camera
        are not independent. `ids`: as in `ConformalClassifier.fit`; those of the conformal rows are used. With
        selection="full" nothing is split.
        """
        data = fit_data(self, logits, labels)
        if self.selection == "full":
            return self._fit_full(data, groups, ids, progress)
        part = self.calibration_fraction
        exact_level(part, "calibration_fraction")
        some, rest = split_indices(len(data), part, random_state=self.random_state, groups=groups)
        if ids is not None:
            checked_ids(ids, len(data))
            ids = np.array(ids, dtype=object)[rest]
        return self.fit_split(data.take(some), data.take(rest), ids=ids, progress=progress)

    def fit_split(
        self, calibration: Logits, conformal: Logits, *, ids: Any = None, progress: Progress | None = None
    ) -> "TwoTemperaturePredictor":
        """Fit on the user's own split: temperatures from `calibration`, the threshold from `conformal`.

        The two must not share rows. `ids` are those of the conformal rows.
        """
        if self.selection == "full":
            raise InputError("selection='full' takes all rows for everything: call fit on them together.")
        self._check_split(calibration, conformal)
        _, recipes = read_preference(self.prefer), self.recipes  # before the work
        scaler = TemperatureScaler(self.objective).fit(calibration)
        choice = choose(
            calibration,
            recipes,
            prefer=self.prefer,
            calibrated=scaler.temperature_,
            n_conformal=len(conformal),
            selection=self.selection,
            conformal=conformal,
            progress=progress,
        )
        recipe = _chosen(recipes, choice.setting)
        self._adopt(self._made(recipe, calibration, conformal, ids, scaler, choice), recipe.score)
        return self

    def _fit_full(self, data: Logits, groups: Any, ids: Any, progress: Progress | None) -> "TwoTemperaturePredictor":
        """Both temperatures and the threshold from all rows."""
        data.require_labels("TwoTemperaturePredictor.fit")
        if groups is not None:
            raise InputError(
                "groups= keeps groups whole in a split, and selection='full' splits nothing. Leave it out."
            )
        recipe, preference = self._single, read_preference(self.prefer)
        scaler = TemperatureScaler(self.objective).fit(data)
        choice, found = choose_full(data, recipe, preference, calibrated=scaler.temperature_, progress=progress)
        artifact = self._made(recipe, data, data, ids, scaler, choice)
        self._adopt(with_members(artifact, found, recipe, data, ids), recipe.score)
        return self

    def _made(
        self,
        recipe: Recipe,
        calibration: Logits,
        conformal: Logits,
        ids: Any,
        scaler: TemperatureScaler,
        choice: Choice,
    ) -> Artifact:
        """The document: sets at T-hat with their threshold, what they are measured to do, and where it came from."""
        provenance = Provenance(
            version=__version__,
            calibration_rows=len(calibration),
            calibration_sha256=fingerprint(calibration),
            conformal_rows=len(conformal),
            conformal_sha256=fingerprint(conformal),
            objective=self.objective,
            prefer=choice.prefer,
            selection=self.selection,
            random_state=recipe.random_state,
            calibration_fraction=str(self.calibration_fraction),
            recalibrated=False,
        )
        sets = ConformalClassifier.of(recipe, choice.temperature).fit(conformal, ids=ids)
        if choice.setting.alpha != choice.alpha:
            sets.tighten(choice.setting.alpha, calibration)
        artifact = Artifact(
            method=Method.of(recipe.score),
            alpha=str(recipe.alpha),
            alpha_sets=choice.setting.alpha,
            temperature=float(scaler.temperature_),
            temperature_sets=choice.temperature,
            grouping=recipe.grouping,
            allow_empty=recipe.allow_empty,
            n_classes=conformal.n_classes,
            classes=conformal.classes,
            choice=choice,
            measures=(),
            provenance=provenance,
            **_of_sets(sets, conformal, ids),
        )
        behind = artifact.pool_sizes if artifact.alpha_sets == artifact.alpha else (len(calibration) + len(conformal),)
        made = measure(calibration, scaler, choice, behind, replace(recipe, alpha=artifact.alpha_sets))
        return msgspec.structs.replace(artifact, measures=made)

    def recalibrate(self, conformal: Logits, *, ids: Any = None) -> "TwoTemperaturePredictor":
        """Renew the threshold from new labelled rows, which may have ids; both temperatures stay.

        After selection="full" the sets are those at T-hat alone from then on, with exact coverage: the new rows did not
        choose it.
        """
        data = predict_data(self, conformal)
        data.require_labels("recalibrate")
        old = self.artifact_
        sets = ConformalClassifier.of(self._recipe, old.temperature_sets).fit(data, ids=ids)
        provenance = msgspec.structs.replace(
            old.provenance, conformal_rows=len(data), conformal_sha256=fingerprint(data), recalibrated=True
        )
        renewed = _of_sets(sets, data, ids)
        law = coverage_measures(renewed["pool_sizes"], old.alpha_sets)
        kept = tuple(law[0] if measured.name == "coverage" else measured for measured in old.measures)
        new = msgspec.structs.replace(old, provenance=provenance, measures=kept, members=(), **renewed)
        self._adopt(new, self._recipe.score)
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
        return self._sets(predict_data(self, logits), ids)

    def set_sizes(self, logits: Any, *, ids: Any = None) -> NDArray[np.int64]:
        """Number of labels in each row's set, (n,)."""
        data = predict_data(self, logits)
        if self.artifact_.members:
            counts: NDArray[np.int64] = self._sets(data, ids).sum(axis=1)
            return counts
        return sizes_under(data, self._scoring, self._thresholds, ids=ids)

    def answers(self, logits: Any, *, ids: Any = None) -> Answers:
        """Label, confidence and set of each row, as arrays."""
        data = predict_data(self, logits)
        sure = confidence_at(data, self.artifact_.temperature)
        return Answers(data.logits.argmax(axis=1), sure, self._sets(data, ids))

    def predict_records(self, logits: Any, *, ids: Any = None) -> list[Prediction]:
        """Label, confidence and set of each row, for people and JSON."""
        found = self.answers(logits, ids=ids)
        names: Any = self.artifact_.classes or range(self.artifact_.n_classes)
        rows, columns = np.nonzero(found.sets)  # an object for each label of a set, none for those left out
        members = [names[column] for column in columns.tolist()]
        ends = np.searchsorted(rows, np.arange(len(found.sets) + 1)).tolist()
        return [
            Prediction(names[label], sure, tuple(members[start:end]))
            for label, sure, (start, end) in zip(
                found.labels.tolist(), found.confidence.tolist(), pairwise(ends), strict=True
            )
        ]

    def check(self, logits: Any, labels: Any = None, *, fail_on: str | Iterable[str] = ()) -> CheckReport:
        """Whether fresh labelled rows bear out what was promised; see `checking.check`."""
        fresh = as_logits(logits, labels)
        y = fresh.require_labels("check")
        data = predict_data(self, fresh)
        probs = probabilities(data, self.artifact_.temperature)
        return check(self._sets(data), probs, y, self.promise, fail_on=fail_on, class_names=self.artifact_.classes)

    @property
    def promise(self) -> Promise:
        """What coverage was promised, and by how many rows."""
        made = self.artifact_
        return Promise(
            alpha=made.alpha,
            pool_sizes=np.array(made.pool_sizes),
            grouping=made.grouping,
            exact=self._recipe.exact and self._plain,
            group_of_class=None if made.group_of_class is None else np.array(made.group_of_class),
        )

    @property
    def _plain(self) -> bool:
        """Whether the threshold is that of the promised level, from rows that nothing was chosen on."""
        made = self.artifact_
        return made.alpha_sets == made.alpha and (made.provenance.selection != "full" or made.provenance.recalibrated)

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
        return predictor_html(self.artifact_)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Notebooks prefer this to `_repr_html_`; scikit-learn's shows parameters, which is right before `fit`."""
        shown = self._repr_html_()
        if shown is None:
            bundle: dict[str, str] = super()._repr_mimebundle_(**options)
            return bundle
        return {"text/plain": repr(self), "text/html": shown}

    def _adopt(self, artifact: Artifact, score: Score) -> None:
        """Take over what an artifact says; every prediction comes from it, and from a score that it may not name."""
        self.artifact_ = artifact
        self.temperature_ = artifact.temperature
        self.temperature_sets_ = artifact.temperature_sets
        self.choice_ = artifact.choice
        self._thresholds = artifact.thresholds.pairs()
        self._recipe = artifact.recipe_with(score)
        self._scoring = Scoring(self._recipe.set_score, artifact.temperature_sets, artifact.seed, artifact.scheme)
        value = self._thresholds.value
        self.threshold_ = float(value[0]) if artifact.grouping is None else value
        remember_classes(self, artifact.n_classes, artifact.classes)

    def _sets(self, data: Logits, ids: Any = None) -> NDArray[np.bool_]:
        if self.artifact_.members:
            return union_sets(data, self.artifact_, self._scoring.score, ids)
        sets: NDArray[np.bool_]
        (sets,) = sets_under(data, self._scoring, self._thresholds[None], ids=ids)
        return sets

    def _check_split(self, calibration: Any, conformal: Any) -> None:
        for name, part in (("calibration", calibration), ("conformal", conformal)):
            if not isinstance(part, Logits):
                raise InputError(f"{name} must be Logits; got {type(part).__name__}. Use ts.Logits(logits, labels).")
            part.require_labels(f"fit_split ({name} rows)")
        if calibration.n_classes != conformal.n_classes or calibration.classes != conformal.classes:
            raise InputError(
                f"calibration and conformal rows must have the same classes in the same order; got "
                f"{calibration.n_classes} and {conformal.n_classes} columns, or other names."
            )


def _chosen(recipes: tuple[Recipe, ...], setting: Setting) -> Recipe:
    """The recipe of a setting, at the promised level: a score of one's own is not found by its name."""
    of_score = [kind for kind in recipes if Method.of(kind.score) == setting.method]
    randomized = [kind for kind in of_score if Setting.of(kind, 1.0).randomized == setting.randomized]
    return replace(randomized[0], grouping=setting.grouping)


def _of_sets(fitted: ConformalClassifier, conformal: Logits, ids: Any) -> dict[str, Any]:
    """The fields of an artifact that the conformal rows decide."""
    calibration = fitted.calibration_
    groups = calibration.group_of_class
    return {
        "thresholds": Thresholds.of(fitted.thresholds_),
        "pool_sizes": tuple(calibration.pool_sizes().tolist()),
        "group_of_class": None if groups is None else tuple(groups.tolist()),
        "seed": calibration.scoring.seed,
        "scheme": calibration.scoring.scheme,
        "sizes": tuple(np.bincount(fitted.set_sizes(conformal, ids=ids)).tolist()),
    }
