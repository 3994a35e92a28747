"""The scores of a predictor's conformal rows, into its document and back: what p-values and other levels need."""

import msgspec
import numpy as np

from thermoset.arrays import Ints
from thermoset.conformal.calibration_scores import CalibrationScores
from thermoset.conformal.classifier import ConformalClassifier
from thermoset.conformal.groupings import Grouping, resolve_grouping
from thermoset.conformal.recipe import Recipe
from thermoset.conformal.scoring import Scoring
from thermoset.data.groups import Groups
from thermoset.errors import InputError
from thermoset.predictor.document import Document
from thermoset.predictor.kept_scores import KEPT_BY_DEFAULT, MOST_KEPT, KeptScores
from thermoset.predictor.kept_weights import KeptWeights
from thermoset.scores import Score

__all__ = ["as_saved", "calibration_scores", "classifier_of", "with_scores"]


def with_scores(document: Document, fitted: ConformalClassifier) -> Document:
    """The document with the scores that set its threshold, where they alone did and are not too many."""
    found = fitted.calibration_
    if not document.is_plain or not _has_ranks(found.grouping) or len(found.labels) > MOST_KEPT:
        if found.weights is not None:
            raise InputError(_not_weighable(document, len(found.labels)))
        return msgspec.structs.replace(document, scores=None, weights=None)
    if (weights := found.weights) is not None:
        order = np.lexsort((weights.steps, found.scores.imag, found.scores.real))
        kept = KeptScores.of(found.scores[order], _pool_of(found))
        in_order = KeptWeights.of(weights._replace(steps=weights.steps[order]))
        return msgspec.structs.replace(document, scores=kept, weights=in_order)
    labels = found.labels if found.grouping is None else None
    kept = KeptScores.of(found.scores, _pool_of(found), labels, document.n_classes)
    return msgspec.structs.replace(document, scores=kept, weights=None)


def _not_weighable(document: Document, n_rows: int) -> str:
    if n_rows > MOST_KEPT:
        return (
            f"a predictor stores the scores of weighted conformal rows, at most {MOST_KEPT:,}; got {n_rows:,}. Use "
            "fewer conformal rows, and keep those with larger weights."
        )
    return (
        "weights need the threshold of the promised level, but this predictor's was raised to that of alpha = "
        f"{document.alpha_sets} to protect classes. Fit with prefer='even' or 'small', or omit weights."
    )


def _pool_of(found: CalibrationScores) -> Ints:
    """The group of each conformal row, or of its class."""
    if found.groups is not None:
        return found.groups.codes
    groups = found.group_of_class
    return np.zeros(len(found.labels), dtype=np.int64) if groups is None else groups[found.labels]


def _has_ranks(grouping: Grouping | None) -> bool:
    """Whether an order statistic of scores decides the sets at every level."""
    return grouping is None or grouping.has_p_values


def as_saved(made: Document, scores: bool | None) -> Document:
    """The document as it is written: with its scores, without, or with those of up to a million rows if None."""
    if made.weights is not None:
        if scores is False:
            raise InputError(
                "the scores of weighted conformal rows cannot be omitted: each row's threshold is computed from them. "
                "Pass scores=True or None."
            )
        return made
    if scores:
        _required_scores(made)
    few = made.provenance.conformal_rows <= KEPT_BY_DEFAULT
    keep = few if scores is None else scores
    return made if keep else msgspec.structs.replace(made, scores=None)


def calibration_scores(made: Document, score: Score) -> CalibrationScores:
    """The scores that set the threshold of a predictor, from its document; `score` may be one that it cannot name."""
    if made.shift is not None:
        raise InputError(
            "this predictor has no p-values: its conformal rows are weighted for a label shift. Use the predictor it "
            "was made from."
        )
    kept = _required_scores(made)
    of_class = None if made.group_of_class is None else np.array(made.group_of_class)
    rows, names = made.rows_behind, made.group_names
    place = np.repeat(rows.place, rows.rows)  # of the group, or of one of its classes: which one does not matter
    groups, labels = (None, place) if names is None else (Groups(names, place), np.zeros_like(place))
    scoring = Scoring(score, made.temperature_sets, made.seed)
    grouping = resolve_grouping(made.grouping)
    weights = None if made.weights is None else made.weights.weights(len(labels))
    scores = kept.pairs(len(labels))
    return CalibrationScores(scores, labels, scoring, grouping, of_class, groups, made.fallback, weights)


def classifier_of(made: Document, recipe: Recipe, scores: CalibrationScores) -> ConformalClassifier:
    """The classifier that set the threshold of a predictor."""
    model = ConformalClassifier.of(recipe, made.temperature_sets)
    return model.adopt(scores, made.n_classes, made.classes, made.input_kind)


def _required_scores(made: Document) -> KeptScores:
    """The scores of a document; refuses those without, and those whose sets they do not decide alone."""
    if not made.is_plain:
        raise InputError(
            "this predictor cannot give p-values or other levels: its threshold was raised to that of alpha = "
            f"{made.alpha_sets} to protect classes, so ranks among the conformal rows do not determine its sets. Fit "
            "with prefer='even' or 'small'."
        )
    if not _has_ranks(resolve_grouping(made.grouping)):
        raise InputError(
            f"this predictor cannot give p-values or other levels: with grouping={made.grouping!r}, ranks alone do not "
            "determine its sets. Fit with grouping=None or 'class'."
        )
    if made.scores is None:
        raise InputError(
            "this predictor was saved without the label scores of its conformal rows, which p-values and other levels "
            "need. Save it with scores=True (thermoset tune --scores) where it was fitted, or recalibrate it."
        )
    return made.scores
