"""How a predictor is made: both temperatures, the threshold, what it is measured to do, and all of it in a document."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from thermoset._version import __version__
from thermoset.arrays import Ints, Keys
from thermoset.calibration import TemperatureScaler, confidence_at, warn_of_zero_labels, zero_labels
from thermoset.conformal.checks import check_weightable, fitted_groups
from thermoset.conformal.classifier import ConformalClassifier
from thermoset.conformal.groupings import text_of
from thermoset.conformal.methods import Method
from thermoset.conformal.recipe import Recipe, learn_from
from thermoset.data import Logits, split_indices
from thermoset.data.input_kinds import input_kind_of
from thermoset.data.row_keys import row_keys
from thermoset.data.row_numbers import rows_of_user
from thermoset.data.top_rows import tops_of
from thermoset.data.weights import checked_weights, conformal_weights
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.predictor.any_level import with_scores
from thermoset.predictor.document import UNDECIDED, Document, Measure, Provenance
from thermoset.predictor.fingerprints import fingerprint
from thermoset.predictor.measures import OF_CONFIDENCE, confidence_reference, coverage_measures, measure
from thermoset.predictor.thresholds import Thresholds
from thermoset.predictor.used_rows import PartKeys, UsedKeys, used_rows
from thermoset.scores import RankLimited, Score
from thermoset.tuning.choice import Choice, Setting
from thermoset.tuning.choosing import choose
from thermoset.tuning.kinds import menu
from thermoset.tuning.parts import checked_even, parts_of
from thermoset.tuning.preferences import read_preference
from thermoset.uniforms import checked_ids

if TYPE_CHECKING:
    from thermoset.predictor.estimator import TwoTemperaturePredictor

__all__ = ["Beside", "Made", "Progress", "kinds_of_sets", "made", "made_of_split", "moved", "renewed"]

Progress = Callable[[int, int], None]


class Made(NamedTuple):
    """A fitted predictor: its document, and its score, which the document may not be able to name."""

    document: Document
    score: Score


class Beside(NamedTuple):
    """What conformal rows bring beside their logits: ids and weights."""

    ids: Any = None
    weights: Any = None

    def take(self, rows: Ints, n_rows: int) -> "Beside":
        """Those of some of the rows."""
        if self.ids is not None:
            checked_ids(self.ids, n_rows)
        return Beside(
            None if self.ids is None else np.array(self.ids, dtype=object)[rows],
            None if self.weights is None else checked_weights(self.weights, n_rows)[rows],
        )

    def check(self, grouping: str | None, n_rows: int) -> None:
        """Refuse weights that cannot be used, before the work."""
        if self.weights is not None:
            check_weightable(grouping)
            conformal_weights(self.weights, n_rows)


def made(
    asked: "TwoTemperaturePredictor", data: Logits, split_by: Any, beside: Beside, progress: Progress | None
) -> Made:
    """Fit what the parameters of an estimator ask for on labelled rows."""
    part = asked.calibration_fraction
    exact_level(part, "calibration_fraction")
    some, rest = split_indices(len(data), part, random_state=asked.random_state, groups=split_by)
    parts = data.take(some), data.take(rest)
    return made_of_split(asked, *parts, beside.take(rest, len(data)), progress, some)


def made_of_split(
    asked: "TwoTemperaturePredictor",
    calibration: Logits,
    conformal: Logits,
    beside: Beside,
    progress: Progress | None,
    numbers: Ints | None = None,
) -> Made:
    """Fit temperatures on calibration rows, and the threshold on conformal rows.

    `numbers` are those that the calibration rows have for the user, for messages.
    """
    _check_split(calibration, conformal)
    _, recipes, even = read_preference(asked.prefer), kinds_of_sets(asked), checked_even(asked.even)
    parts_of(calibration, even)  # what can be refused is refused before the work
    beside.check(text_of(recipes[0].grouping), len(conformal))
    if recipes[0].by_row:
        fitted_groups(conformal, "grouping='group'")
        calibration.require_groups("grouping='group'")
    recipes = tuple(learn_from(recipe, calibration).announce(calibration)[0] for recipe in recipes)
    with rows_of_user(numbers):
        scaler = TemperatureScaler(asked.objective).learn(calibration)
    choice = choose(
        calibration,
        recipes,
        prefer=asked.prefer,
        calibrated=scaler.temperature_,
        n_conformal=len(conformal),
        even=even,
        conformal=conformal,
        progress=progress,
    )
    recipe = _chosen(recipes, choice.setting)
    return Made(_document(asked, recipe, (calibration, conformal), beside, scaler, choice), recipe.score)


def kinds_of_sets(asked: "TwoTemperaturePredictor") -> tuple[Recipe, ...]:
    """The kinds of sets to choose from, checked: the one that the parameters name, or those of "auto"."""
    if asked.method != "auto":
        return (Recipe.of(asked),)
    if asked.grouping is not None:
        raise InputError(
            f"method='auto' chooses among sets with one threshold for all classes; got grouping={asked.grouping!r}. "
            "Name a method, or omit grouping."
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
    beside: Beside,
    scaler: TemperatureScaler,
    choice: Choice,
) -> Document:
    """The document: sets at T-hat with their threshold, what they are measured to do, and where it came from."""
    calibration, conformal = rows
    sets = ConformalClassifier.of(recipe, choice.temperature).fit(conformal, **beside._asdict())
    if choice.setting.alpha != choice.alpha:
        sets.tighten(choice.setting.alpha, calibration)
    document = Document(
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
        provenance=_provenance(asked, recipe, rows, choice, scaler.zero_labels_),
        input_kind=input_kind_of(calibration),
        used=_used(calibration, conformal),
        **_of_sets(sets, conformal, beside),
    )
    behind = document.pool_sizes if document.is_plain else (len(calibration) + len(conformal),)
    _warn(scaler, document.provenance)
    measures = measure(calibration, scaler, choice, behind, replace(recipe, alpha=document.alpha_sets))
    if sets.calibration_.weights is None:
        seen = confidence_reference(calibration, conformal, document.temperature)
        document = msgspec.structs.replace(document, confidence=seen)
    else:  # the rest was measured where rows of small weight come from
        measures = tuple(one for one in measures if one.name in OF_CONFIDENCE)
    document = msgspec.structs.replace(document, measures=(*measures, *_undecided(sets, conformal, beside)))
    return with_scores(document, sets)


def _provenance(
    asked: "TwoTemperaturePredictor", recipe: Recipe, rows: tuple[Logits, Logits], choice: Choice, n_zero: int
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
        random_state=recipe.random_state,
        calibration_fraction=str(asked.calibration_fraction),
        recalibrated=False,
        top_rows=tops_of(conformal) is not None,
        calibration_zero_labels=n_zero,
        conformal_zero_labels=zero_labels(conformal),
    )


def _warn(scaler: TemperatureScaler, came: Provenance) -> None:
    """Say what the temperature and the labels of all rows have against them."""
    scaler.warn_at_bound()
    n_zero = scaler.zero_labels_ + came.conformal_zero_labels
    warn_of_zero_labels(n_zero, came.calibration_rows + came.conformal_rows)


def _used(calibration: Logits, conformal: Logits) -> UsedKeys:
    """What both kinds of rows will be recognised by."""
    return UsedKeys(calibration=PartKeys.of(row_keys(calibration)), conformal=PartKeys.of(row_keys(conformal)))


def _of_sets(fitted: ConformalClassifier, conformal: Logits, beside: Beside) -> dict[str, Any]:
    """The fields of a document that the conformal rows decide; with weights, their sizes say nothing of later rows."""
    calibration = fitted.calibration_
    sizes = None if calibration.weights is not None else fitted.set_sizes(conformal, ids=beside.ids)
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
        "sizes": () if sizes is None else tuple(np.bincount(sizes).tolist()),
    }


def renewed(old: Document, recipe: Recipe, conformal: Logits, beside: Beside) -> Document:
    """The same document with a threshold from new labelled rows; both temperatures stay."""
    conformal.require_labels("recalibrate")
    keys = row_keys(conformal)
    _refuse_choosers(old, conformal, keys)
    sets = ConformalClassifier.of(recipe, old.temperature_sets).fit(conformal, **beside._asdict())
    provenance = msgspec.structs.replace(
        old.provenance,
        conformal_rows=len(conformal),
        conformal_sha256=fingerprint(conformal),
        recalibrated=True,
        top_rows=tops_of(conformal) is not None,
        conformal_zero_labels=zero_labels(conformal),
    )
    warn_of_zero_labels(provenance.conformal_zero_labels, len(conformal))
    fields, weighted = _of_sets(sets, conformal, beside), sets.calibration_.weights is not None
    kept = _still_true(old, coverage_measures(fields["pool_sizes"], old.alpha_sets), weighted)
    measures = (*kept, *_undecided(sets, conformal, beside))
    seen = None if provenance.top_rows or weighted else old.confidence
    if seen is not None:
        seen = seen.counted(confidence_at(conformal, old.temperature))
    known = UsedKeys(calibration=old.used.calibration, conformal=PartKeys.of(keys))
    fields |= {"provenance": provenance, "measures": measures, "confidence": seen, "used": known}
    new = msgspec.structs.replace(old, shift=None, **fields)
    return with_scores(new, sets)


def _still_true(old: Document, law: list[Measure], weighted: bool) -> list[Measure]:
    """Measures that a new threshold leaves true, with the law of its coverage; rows with weights have no such law."""
    if weighted:
        return [one for one in old.measures if one.name in OF_CONFIDENCE]
    still = [law[0] if one.name == "coverage" else one for one in old.measures if one.name != UNDECIDED]
    told = old.grouping is not None or any(one.name == "coverage" for one in still)
    return still if told else [*still, *law]


def _refuse_choosers(old: Document, conformal: Logits, keys: Keys) -> None:
    """Refuse rows that chose the temperatures: a threshold from them would promise too much."""
    used = used_rows(old, conformal, keys)
    if used.chose:
        raise InputError(
            f"{used.sentence}, and a threshold from rows that also chose a temperature cannot keep its promise. "
            "Recalibrate on other rows."
        )


def moved(made: Document, at: ConformalClassifier, alpha: Alpha) -> Document:
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
        measures=(*measures, *(coverage_measures(made.pool_sizes, alpha) if made.weights is None else ())),
    )


def _undecided(fitted: ConformalClassifier, conformal: Logits, beside: Beside) -> tuple[Measure, ...]:
    """Share of conformal rows whose set holds labels only because rows that are not whole do not tell."""
    if tops_of(conformal) is None:
        return ()
    share = float(fitted.undecided(conformal, **beside._asdict()).mean())
    return (Measure(name=UNDECIDED, value=share, low=None, high=None),)


def _check_split(calibration: Logits, conformal: Logits) -> None:
    if calibration.n_classes != conformal.n_classes or calibration.classes != conformal.classes:
        raise InputError(
            f"calibration and conformal rows must have the same classes in the same order; got {calibration.n_classes} "
            f"and {conformal.n_classes} columns, or different names."
        )
    kinds = input_kind_of(calibration), input_kind_of(conformal)
    if kinds[0] != kinds[1]:
        raise InputError(
            f"calibration and conformal rows must be of one kind; got {kinds[0]} and {kinds[1]}. Make both in the same "
            "way, by Logits or by Logits.from_probabilities."
        )
