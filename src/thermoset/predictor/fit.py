"""How a predictor is made: both temperatures, the threshold, what it is measured to do, and all of it in a document."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from thermoset._version import __version__
from thermoset.arrays import Ints
from thermoset.bounds import checked_temperature
from thermoset.calibration import TemperatureScaler, confidence_at, warn_of_zero_labels, zero_labels
from thermoset.conformal.checks import check_weightable, fitted_groups
from thermoset.conformal.classifier import ConformalClassifier
from thermoset.conformal.recipe import Recipe, learn_from
from thermoset.data import Logits, split_indices
from thermoset.data.input_kinds import input_kind_of
from thermoset.data.row_keys import row_keys
from thermoset.data.row_numbers import rows_of_user
from thermoset.data.top_rows import tops_of
from thermoset.data.weights import checked_weights, conformal_weights
from thermoset.errors import InputError
from thermoset.levels import Alpha, exact_level
from thermoset.predictor.document import (
    MOST_STORED,
    UNDECIDED,
    Document,
    Measure,
    Provenance,
    StoredScores,
    Thresholds,
    pool_of_rows,
)
from thermoset.predictor.label_shift import learn_shares
from thermoset.predictor.leakage import KeySample, RowKeys, find_leakage, fingerprint
from thermoset.predictor.measures import OF_CONFIDENCE, confidence_reference, coverage_measures, measure
from thermoset.predictor.sets import Inference
from thermoset.tuning.choosing import choose
from thermoset.tuning.kinds import menu
from thermoset.tuning.parts import checked_even, parts_of
from thermoset.tuning.preferences import read_preference
from thermoset.uniforms import checked_ids

if TYPE_CHECKING:
    from thermoset.predictor.predictor import TwoTemperaturePredictor

Progress = Callable[[int, int], None]


class RowOptions(NamedTuple):
    """What conformal rows have besides their logits: ids and weights."""

    ids: Any = None
    weights: Any = None

    def take(self, rows: Ints, n_rows: int) -> "RowOptions":
        """Those of some of the rows."""
        if self.ids is not None:
            checked_ids(self.ids, n_rows)
        return RowOptions(
            None if self.ids is None else np.array(self.ids, dtype=object)[rows],
            None if self.weights is None else checked_weights(self.weights, n_rows)[rows],
        )


def fit_document(
    asked: "TwoTemperaturePredictor", data: Logits, split_by: Any, options: RowOptions, progress: Progress | None
) -> Document:
    """Split labelled rows, and fit what the parameters of an estimator ask for."""
    part = asked.calibration_fraction
    exact_level(part, "calibration_fraction")
    some, rest = split_indices(len(data), part, random_state=asked.random_state, groups=split_by)
    parts = data.take(some), data.take(rest)
    return fit_split_document(asked, *parts, options.take(rest, len(data)), progress, some)


def fit_split_document(
    asked: "TwoTemperaturePredictor",
    calibration: Logits,
    conformal: Logits,
    options: RowOptions,
    progress: Progress | None,
    numbers: Ints | None = None,
) -> Document:
    """Fit temperatures on calibration rows, and the threshold on conformal rows.

    `numbers` are those that the calibration rows have for the user, for messages.
    """
    candidates, even = candidates_of(asked), checked_even(asked.even)
    by_hand = asked.temperature_sets
    grid = None if by_hand is None else [checked_temperature(by_hand, "temperature_sets")]
    _check_before_work(asked, candidates, calibration, conformal, options)
    candidates = tuple(learn_from(recipe, calibration).announce(calibration)[0] for recipe in candidates)
    with rows_of_user(numbers):
        scaler = TemperatureScaler(asked.objective).learn(calibration)
    choice = choose(
        calibration,
        candidates,
        prefer=asked.prefer,
        calibrated=scaler.temperature_,
        n_conformal=len(conformal),
        even=even,
        conformal=conformal,
        temperatures=grid,
        progress=progress,
    )
    recipe = choice.setting
    sets = ConformalClassifier.of(recipe.change(alpha=choice.alpha)).fit(conformal, **options._asdict())
    if recipe.alpha != choice.alpha:
        sets.tighten(recipe.alpha, calibration)
    fields = _fields_of_sets(sets, recipe.alpha == choice.alpha, conformal, options)
    n_zero = scaler.zero_labels_, zero_labels(conformal)
    document = Document(
        recipe=recipe,
        alpha=choice.alpha,
        temperature=float(scaler.temperature_),
        n_classes=conformal.n_classes,
        classes=conformal.classes,
        input_kind=input_kind_of(calibration),
        stored_choice=msgspec.Raw(msgspec.json.encode(choice)),
        measures=(),
        row_keys=RowKeys(calibration=KeySample.of(row_keys(calibration)), conformal=KeySample.of(row_keys(conformal))),
        provenance=Provenance(
            version=__version__,
            calibration_rows=len(calibration),
            calibration_sha256=fingerprint(calibration),
            conformal_rows=len(conformal),
            conformal_sha256=fingerprint(conformal),
            objective=asked.objective,
            prefer=choice.prefer,
            even=even,
            calibration_fraction=str(asked.calibration_fraction),
            temperature_by_hand=grid is not None,
            top_rows=tops_of(conformal) is not None,
            calibration_zero_labels=n_zero[0],
            conformal_zero_labels=n_zero[1],
        ),
        **fields,
    )
    scaler.warn_at_bound()
    warn_of_zero_labels(sum(n_zero), len(calibration) + len(conformal))
    behind = document.pool_sizes.tolist() if document.is_plain else [len(calibration) + len(conformal)]
    measures = measure(calibration, scaler, choice, behind, recipe)
    if sets.calibration_.weights is None:
        document = document.change(confidence=confidence_reference(calibration, conformal, document.temperature))
    else:  # the rest was measured where rows of small weight come from
        measures = tuple(one for one in measures if one.name in OF_CONFIDENCE)
    document = document.change(measures=(*measures, *_undecided(sets, conformal, options)))
    return _with_shares(document, conformal, sets)


def candidates_of(asked: "TwoTemperaturePredictor") -> tuple[Recipe, ...]:
    """The recipes to choose from: the one that the parameters name, or those of "auto"."""
    read_preference(asked.prefer)
    if asked.method != "auto":
        return (Recipe.of(asked),)
    if asked.grouping is not None:
        raise InputError(
            f"method='auto' chooses among sets with one threshold for all classes; got grouping={asked.grouping!r}. "
            "Name a method, or omit grouping."
        )
    return menu(
        asked.alpha, randomized=asked.randomized, allow_empty=asked.allow_empty, random_state=asked.random_state
    )


def _check_before_work(
    asked: "TwoTemperaturePredictor",
    candidates: tuple[Recipe, ...],
    calibration: Logits,
    conformal: Logits,
    options: RowOptions,
) -> None:
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
    parts_of(calibration, checked_even(asked.even))
    if options.weights is not None:
        check_weightable(candidates[0].grouping)
        conformal_weights(options.weights, len(conformal))
    if candidates[0].by_row:
        fitted_groups(conformal, "grouping='group'")
        calibration.require_groups("grouping='group'")


def _fields_of_sets(sets: ConformalClassifier, plain: bool, conformal: Logits, options: RowOptions) -> dict[str, Any]:
    """The fields of a document that the conformal rows decide; with weights, their sizes say nothing of later rows.

    `plain` says that the threshold is that of the promised level.
    """
    found, grouping = sets.calibration_, sets.calibration_.grouping
    storable = plain and (grouping is None or grouping.has_p_values) and len(found.labels) <= MOST_STORED
    if found.weights is not None and not storable:
        raise InputError(
            f"a predictor stores the scores of weighted conformal rows, at most {MOST_STORED:,}; got "
            f"{len(found.labels):,}. Use fewer conformal rows, and keep those with larger weights."
            if plain
            else "weights need the threshold of the promised level, but this predictor's was raised to protect "
            "classes. Fit with prefer='even' or 'small', or omit weights."
        )
    sizes = None if found.weights is not None else sets.set_sizes(conformal, ids=options.ids)
    of_class, n_groups = found.group_of_class, 1 if found.groups is None else len(found.groups.names)
    pools = np.arange(n_groups) if of_class is None else np.unique(of_class)
    rows = np.bincount(pool_of_rows(found) - pools[0], minlength=pools[-1] - pools[0] + 1)[pools - pools[0]]
    clustered = of_class is not None and grouping is not None and not grouping.each_class
    thresholds = sets.thresholds_.ravel()
    if sets.fallback_threshold_ is not None:
        thresholds = np.append(thresholds, sets.fallback_threshold_)
    return {
        "pool_rows": tuple(rows.tolist()),
        "group_of_class": tuple(of_class.tolist()) if clustered and of_class is not None else None,
        "group_names": sets.group_names_,
        "scores": StoredScores.of(found, conformal.n_classes) if storable else None,
        "thresholds": None if storable else Thresholds.of(thresholds),
        "sizes": () if sizes is None else tuple(np.bincount(sizes).tolist()),
    }


def recalibrate_document(old: Document, conformal: Logits, options: RowOptions) -> Document:
    """The same document with a threshold from new labelled rows; both temperatures stay."""
    conformal.require_labels("recalibrate")
    keys = row_keys(conformal)
    leakage = find_leakage(old, conformal, keys)
    if leakage.calibration.leaked:
        raise InputError(
            f"{leakage.sentence}, and a threshold from rows that also chose a temperature cannot keep its promise. "
            "Recalibrate on other rows."
        )
    sets = ConformalClassifier.of(old.recipe).fit(conformal, **options._asdict())
    provenance = msgspec.structs.replace(
        old.provenance,
        conformal_rows=len(conformal),
        conformal_sha256=fingerprint(conformal),
        recalibrated=True,
        top_rows=tops_of(conformal) is not None,
        conformal_zero_labels=zero_labels(conformal),
    )
    warn_of_zero_labels(provenance.conformal_zero_labels, len(conformal))
    fields, weighted = _fields_of_sets(sets, old.is_plain, conformal, options), sets.calibration_.weights is not None
    seen = None if provenance.top_rows or weighted else old.confidence
    new = old.change(
        **fields,
        shift=None,
        provenance=provenance,
        confidence=None if seen is None else seen.recount(confidence_at(conformal, old.temperature)),
        row_keys=msgspec.structs.replace(old.row_keys, conformal=KeySample.of(keys)),
    )
    law = coverage_measures(new.pool_sizes.tolist(), old.recipe.alpha)
    measures = _still_true(old, law, weighted)
    new = new.change(measures=(*measures, *_undecided(sets, conformal, options)))
    return _with_shares(new, conformal, sets)


def _with_shares(document: Document, conformal: Logits, fitted: ConformalClassifier) -> Document:
    """The document with what class shares are estimated from, where it can be made for other ones."""
    found, shares = fitted.calibration_, None
    if document.is_plain and found.grouping is None and found.weights is None:
        shares = learn_shares(conformal, document.temperature, found.scores, document.recipe.random_state)
    return document.change(shares=shares)


def _still_true(old: Document, law: list[Measure], weighted: bool) -> list[Measure]:
    """Measures that a new threshold leaves true, with the law of its coverage; rows with weights have no such law."""
    if weighted:
        return [one for one in old.measures if one.name in OF_CONFIDENCE]
    still = [law[0] if one.name == "coverage" else one for one in old.measures if one.name != UNDECIDED]
    known = old.recipe.grouping is not None or any(one.name == "coverage" for one in still)
    return still if known else [*still, *law]


def at_level(known: Inference, alpha: Alpha) -> Document:
    """The document of a predictor at another level; measurements of sets at the old one are dropped.

    The choice has a level of its own, and thresholds follow from the scores.
    """
    old = known.document
    sets = ConformalClassifier.of(old.recipe)
    sets.adopt(known.calibration_scores, old.n_classes, old.classes, old.input_kind).at(alpha)  # warns where it must
    if exact_level(alpha) == exact_level(old.alpha):
        return old
    text = old.choice.alpha if exact_level(alpha) == exact_level(old.choice.alpha) else str(alpha)
    law = [] if old.is_weighted else coverage_measures(old.pool_sizes.tolist(), alpha)
    measures = *(one for one in old.measures if one.name in OF_CONFIDENCE), *law
    return old.change(alpha=text, recipe=old.recipe.change(alpha=text), sizes=(), measures=measures)


def _undecided(fitted: ConformalClassifier, conformal: Logits, options: RowOptions) -> tuple[Measure, ...]:
    """Share of conformal rows whose set holds labels only because rows that are not whole do not tell."""
    if tops_of(conformal) is None:
        return ()
    share = float(fitted.undecided(conformal, **options._asdict()).mean())
    return (Measure(name=UNDECIDED, value=share),)
