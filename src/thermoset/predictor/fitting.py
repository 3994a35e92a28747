"""How a predictor is made: both temperatures, the threshold, what it is measured to do, and all of it in a document."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from thermoset._version import __version__
from thermoset.calibration import TemperatureScaler
from thermoset.conformal.classifier import ConformalClassifier
from thermoset.conformal.groupings import text_of
from thermoset.conformal.learning import learned_from
from thermoset.conformal.methods import Method
from thermoset.conformal.recipes import Recipe
from thermoset.conformal.row_groups import fitted_groups
from thermoset.core.levels import Alpha, exact_level
from thermoset.core.rank_limits import RankLimited
from thermoset.core.scores import Score
from thermoset.core.top_rows import tops_of
from thermoset.core.uniforms import checked_ids
from thermoset.data import Logits, split_indices
from thermoset.errors import InputError
from thermoset.predictor.any_level import with_scores
from thermoset.predictor.artifact import UNDECIDED, Artifact, Measure, Provenance, Thresholds, fingerprint
from thermoset.predictor.confidence import confidence_reference
from thermoset.predictor.full import with_members
from thermoset.predictor.measures import OF_CONFIDENCE, coverage_measures, measure
from thermoset.tuning.choice import Choice, Setting
from thermoset.tuning.choosing import choose
from thermoset.tuning.full import choose_full
from thermoset.tuning.kinds import menu
from thermoset.tuning.parts import checked_even, parts_of
from thermoset.tuning.preferences import read_preference

if TYPE_CHECKING:
    from thermoset.predictor.estimator import TwoTemperaturePredictor

__all__ = ["Made", "Progress", "kinds_of_sets", "made", "made_of_split", "moved", "renewed"]

Progress = Callable[[int, int], None]


class Made(NamedTuple):
    """A fitted predictor: its document, and its score, which the document may not be able to name."""

    artifact: Artifact
    score: Score


def made(asked: "TwoTemperaturePredictor", data: Logits, split_by: Any, ids: Any, progress: Progress | None) -> Made:
    """Fit what the parameters of an estimator ask for on labelled rows."""
    if asked.selection == "full":
        return _made_of_all(asked, data, split_by, ids, progress)
    part = asked.calibration_fraction
    exact_level(part, "calibration_fraction")
    some, rest = split_indices(len(data), part, random_state=asked.random_state, groups=split_by)
    if ids is not None:
        checked_ids(ids, len(data))
        ids = np.array(ids, dtype=object)[rest]
    return made_of_split(asked, data.take(some), data.take(rest), ids, progress)


def made_of_split(
    asked: "TwoTemperaturePredictor", calibration: Logits, conformal: Logits, ids: Any, progress: Progress | None
) -> Made:
    """Fit temperatures on calibration rows, and the threshold on conformal rows."""
    if asked.selection == "full":
        raise InputError("selection='full' takes all rows for everything: call fit on them together.")
    _check_split(calibration, conformal)
    _, recipes, even = read_preference(asked.prefer), kinds_of_sets(asked), checked_even(asked.even)
    parts_of(calibration, even)  # what can be refused is refused before the work
    if recipes[0].by_row:
        fitted_groups(conformal, "grouping='group'")
        calibration.require_groups("grouping='group'")
    recipes = tuple(learned_from(recipe, calibration).told(calibration)[0] for recipe in recipes)
    scaler = TemperatureScaler(asked.objective).fit(calibration)
    choice = choose(
        calibration,
        recipes,
        prefer=asked.prefer,
        calibrated=scaler.temperature_,
        n_conformal=len(conformal),
        even=even,
        selection=asked.selection,
        conformal=conformal,
        progress=progress,
    )
    recipe = _chosen(recipes, choice.setting)
    return Made(_document(asked, recipe, (calibration, conformal), ids, scaler, choice), recipe.score)


def _made_of_all(
    asked: "TwoTemperaturePredictor", data: Logits, split_by: Any, ids: Any, progress: Progress | None
) -> Made:
    """Fit both temperatures and the threshold on all rows."""
    if split_by is not None:
        raise InputError("split_by= keeps rows together in a split, and selection='full' splits nothing. Leave it out.")
    if asked.method == "auto":
        raise InputError("selection='full' chooses a temperature for one method. Name a method.")
    if checked_even(asked.even) == "group":
        raise InputError("selection='full' evens out classes, not groups. Use even='class' or selection='calibration'.")
    recipe, preference = Recipe.of(asked), read_preference(asked.prefer)
    scaler = TemperatureScaler(asked.objective).fit(data)
    choice, found = choose_full(data, recipe, preference, calibrated=scaler.temperature_, progress=progress)
    artifact = _document(asked, recipe, (data, data), ids, scaler, choice)
    return Made(with_members(artifact, found, recipe, data, ids), recipe.score)


def kinds_of_sets(asked: "TwoTemperaturePredictor") -> tuple[Recipe, ...]:
    """The kinds of sets to choose from, checked: the one that the parameters name, or those of "auto"."""
    if asked.method != "auto":
        return (Recipe.of(asked),)
    if asked.grouping is not None:
        raise InputError(
            f"method='auto' chooses among sets with one threshold for all classes; got grouping={asked.grouping!r}. "
            "Name a method, or leave grouping out."
        )
    return menu(
        asked.alpha,
        randomized=asked.randomized,
        allow_empty=asked.allow_empty,
        random_state=asked.random_state,
    )


def _chosen(recipes: tuple[Recipe, ...], setting: Setting) -> Recipe:
    """The recipe of a setting, at the promised level: a score of one's own is not found by its name."""
    of_score = [kind for kind in recipes if Method.of(kind.score) == setting.method]
    randomized = [kind for kind in of_score if Setting.of(kind, 1.0).randomized == setting.randomized]
    return replace(randomized[0], grouping=setting.grouping)


def _document(
    asked: "TwoTemperaturePredictor",
    recipe: Recipe,
    rows: tuple[Logits, Logits],
    ids: Any,
    scaler: TemperatureScaler,
    choice: Choice,
) -> Artifact:
    """The document: sets at T-hat with their threshold, what they are measured to do, and where it came from."""
    calibration, conformal = rows
    sets = ConformalClassifier.of(recipe, choice.temperature).fit(conformal, ids=ids)
    if choice.setting.alpha != choice.alpha:
        sets.tighten(choice.setting.alpha, calibration)
    artifact = Artifact(
        method=Method.of(recipe.score),
        alpha=str(recipe.alpha),
        alpha_sets=choice.setting.alpha,
        temperature=float(scaler.temperature_),
        temperature_sets=choice.temperature,
        grouping=text_of(recipe.grouping),
        allow_empty=recipe.allow_empty,
        n_classes=conformal.n_classes,
        classes=conformal.classes,
        choice=choice,
        measures=(),
        provenance=_provenance(asked, recipe, rows, choice),
        confidence=confidence_reference(calibration, conformal, float(scaler.temperature_)),
        **_of_sets(sets, conformal, ids),
    )
    behind = artifact.pool_sizes if artifact.alpha_sets == artifact.alpha else (len(calibration) + len(conformal),)
    measures = measure(calibration, scaler, choice, behind, replace(recipe, alpha=artifact.alpha_sets))
    artifact = msgspec.structs.replace(artifact, measures=(*measures, *_undecided(sets, conformal, ids)))
    return with_scores(artifact, sets)


def _provenance(
    asked: "TwoTemperaturePredictor", recipe: Recipe, rows: tuple[Logits, Logits], choice: Choice
) -> Provenance:
    calibration, conformal = rows
    return Provenance(
        version=__version__,
        calibration_rows=len(calibration),
        calibration_sha256=fingerprint(calibration),
        conformal_rows=len(conformal),
        conformal_sha256=fingerprint(conformal),
        objective=asked.objective,
        prefer=choice.prefer,
        selection=asked.selection,
        random_state=recipe.random_state,
        calibration_fraction=str(asked.calibration_fraction),
        recalibrated=False,
        top_rows=tops_of(conformal) is not None,
    )


def _of_sets(fitted: ConformalClassifier, conformal: Logits, ids: Any) -> dict[str, Any]:
    """The fields of an artifact that the conformal rows decide."""
    calibration = fitted.calibration_
    groups, other, score = calibration.group_of_class, fitted.fallback_threshold_, fitted.recipe.score
    return {
        "thresholds": Thresholds.of(fitted.thresholds_),
        "pool_sizes": tuple(calibration.pool_sizes().tolist()),
        "group_of_class": None if groups is None else tuple(groups.tolist()),
        "group_names": fitted.group_names_,
        "fallback": calibration.fallback,
        "fallback_threshold": None if other is None else Thresholds.of(other),
        "rank_limits": score.limits if isinstance(score, RankLimited) else None,
        "seed": calibration.scoring.seed,
        "scheme": calibration.scoring.scheme,
        "sizes": tuple(np.bincount(fitted.set_sizes(conformal, ids=ids)).tolist()),
    }


def renewed(old: Artifact, recipe: Recipe, conformal: Logits, ids: Any) -> Artifact:
    """The same document with a threshold from new labelled rows; both temperatures stay."""
    conformal.require_labels("recalibrate")
    sets = ConformalClassifier.of(recipe, old.temperature_sets).fit(conformal, ids=ids)
    provenance = msgspec.structs.replace(
        old.provenance,
        conformal_rows=len(conformal),
        conformal_sha256=fingerprint(conformal),
        recalibrated=True,
        top_rows=tops_of(conformal) is not None,
    )
    fields = _of_sets(sets, conformal, ids)
    law = coverage_measures(fields["pool_sizes"], old.alpha_sets)
    still = (measured for measured in old.measures if measured.name != UNDECIDED)
    kept = tuple(law[0] if measured.name == "coverage" else measured for measured in still)
    measures = (*kept, *_undecided(sets, conformal, ids))
    seen = None if old.confidence is None or provenance.top_rows else old.confidence.counted(conformal, old.temperature)
    new = msgspec.structs.replace(old, provenance=provenance, measures=measures, members=(), confidence=seen, **fields)
    return with_scores(new, sets)


def moved(made: Artifact, at: ConformalClassifier, alpha: Alpha) -> Artifact:
    """The document of a predictor at another level, of which the classifier there is known.

    What was measured of sets at the old level is not said of the new one; the choice has a level of its own.
    """
    if exact_level(alpha) == exact_level(made.alpha):
        return made
    text = made.choice.alpha if exact_level(alpha) == exact_level(made.choice.alpha) else str(alpha)
    measures = [one for one in made.measures if one.name in OF_CONFIDENCE]
    return msgspec.structs.replace(
        made,
        alpha=text,
        alpha_sets=text,
        thresholds=Thresholds.of(at.thresholds_),
        fallback_threshold=None if at.fallback_threshold_ is None else Thresholds.of(at.fallback_threshold_),
        sizes=(),
        measures=(*measures, *coverage_measures(made.pool_sizes, alpha)),
    )


def _undecided(fitted: ConformalClassifier, conformal: Logits, ids: Any) -> tuple[Measure, ...]:
    """Share of conformal rows whose set holds labels only because rows that are not whole do not tell."""
    if tops_of(conformal) is None:
        return ()
    share = float(fitted.undecided(conformal, ids=ids).mean())
    return (Measure(name=UNDECIDED, value=share, low=None, high=None),)


def _check_split(calibration: Any, conformal: Any) -> None:
    for name, part in (("calibration", calibration), ("conformal", conformal)):
        if not isinstance(part, Logits):
            raise InputError(f"{name} must be Logits; got {type(part).__name__}. Use ts.Logits(logits, labels).")
        part.require_labels(f"fit_split ({name} rows)")
    if calibration.n_classes != conformal.n_classes or calibration.classes != conformal.classes:
        raise InputError(
            f"calibration and conformal rows must have the same classes in the same order; got "
            f"{calibration.n_classes} and {conformal.n_classes} columns, or other names."
        )
