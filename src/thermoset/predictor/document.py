"""The predictor as a file: one JSON document that holds what was learned, and no more: the rest follows from it.

Every float comes back exactly, and nothing in the document is ever executed. A checksum tells an edited or damaged file
from a good one. There is no time stamp: the same rows and seed give the same file. Unknown fields are refused, because
ignoring one could change a prediction.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from thermoset.arrays import Ints
from thermoset.bounds import MOST_HELD
from thermoset.calibration.calibrator import CalibrationStep
from thermoset.calibration.classes import ClassCorrection
from thermoset.calibration.confidence import ConfidenceMap
from thermoset.conformal.calibration_scores import CalibrationScores
from thermoset.conformal.groupings import NULL_GROUP, Grouping, resolve_grouping
from thermoset.conformal.recipe import Recipe
from thermoset.conformal.scoring import Scoring
from thermoset.data.groups import Groups
from thermoset.data.guards import INPUT_KINDS
from thermoset.decisions import Count
from thermoset.errors import FileFormatError, InputError
from thermoset.io import files
from thermoset.io.files import FilePath
from thermoset.levels import exact_level
from thermoset.predictor.class_shares import ShareReference
from thermoset.predictor.label_shift import LabelShift
from thermoset.predictor.leakage import RowKeys
from thermoset.predictor.stored import (
    N_BANDS,
    ConfidenceReference,
    Measure,
    ReliabilityCounts,
    Stored,
    StoredAnswers,
    StoredScores,
    Temperature,
    Thresholds,
)
from thermoset.quoting import printable, quoted, reason
from thermoset.tuning.choice import Choice

SCHEMA = 1
"""The schema that is written, and the only one that is read."""

STORED_BY_DEFAULT = 1_000_000
"""Conformal rows up to which `save` writes their scores unless told otherwise."""

UNDECIDED = "undecided_share"
"""The measure of predictors whose conformal rows held only their largest logits: how often bounds could not decide."""

_SHOWN_BAND = 0.75, 0.85  # of confidence, in which people ask whether it can be trusted
_LEAST_SHOWN = 20  # answers in it, below which a share says nothing
_MOST_BYTES = 2**28  # a document for 100,000 classes has some 10 MB


class Provenance(Stored, frozen=True, kw_only=True):
    """Where a predictor came from: library, rows, and what was requested.

    `top_rows` says that the conformal rows held only their largest logits: coverage is then at least what is promised.
    Labels with a logit of -inf have probability zero: T* by NLL leaves such calibration rows out, and such conformal
    rows are misses unless the threshold is infinite. `training_signs` says why the model may have been trained on the
    rows that set the threshold; nothing is promised then.
    """

    version: str
    calibration_rows: Count
    calibration_sha256: str
    conformal_rows: Annotated[int, Meta(ge=1, le=MOST_HELD)]
    conformal_sha256: str
    objective: Literal["nll", "ece"]
    calibration: Literal["auto", "temperature", "own"]
    prefer: str
    even: Literal["class", "group"]
    calibration_fraction: str
    claims: Literal["model", "distribution-free"] = "model"
    temperature_by_hand: bool = False
    recalibrated: bool = False
    top_rows: bool = False
    calibration_zero_labels: Count = 0
    conformal_zero_labels: Count = 0
    training_signs: Annotated[str, Meta(max_length=300)] = ""


class Document(Stored, frozen=True, kw_only=True, dict=True, omit_defaults=False):
    """A fitted predictor.

    Attributes
    ----------
    recipe : Recipe
        How sets are made: score, T-hat, the level that the threshold is set for, grouping, seed of u.
    alpha : str
        The promised level; that of the recipe may be stricter (see `ConformalClassifier.tighten`).
    temperature : float
        T*.
    correction, confidence_map, calibration_steps
        What comes before and after T*, where it was taken, and what was tried. With a correction, both temperatures
        divide corrected logits; `plain_temperature` is the T* of the logits as they come.
    reliability : tuple of ReliabilityCounts
        Confidence and accuracy of the conformal rows: at T = 1, at T* alone, and after all steps.
    pool_rows : tuple of int
        Conformal rows behind the thresholds: all of them, or those of each group of classes or rows, in order.
    group_of_class, group_names
        The cluster of each class, where classes are clustered; the groups of rows that have thresholds.
    scores, thresholds
        The label scores of the conformal rows; or the thresholds alone, where these are too many or do not decide, that
        of the `fallback` last.
    shift : LabelShift or None
        For which class shares the conformal rows are weighted.
    shares : ShareReference or None
        What class shares of later rows are estimated from; None where they cannot be.
    sizes : tuple of int
        `sizes[s]` counts the conformal rows with a set of size s; empty where the level was changed without them.
    answers : StoredAnswers or None
        Which rows are answered alone. Scores and thresholds are then those of the other rows: of thresholds, that of
        the top label of rows in the block is the last.
    confidence : ConfidenceReference or None
        None where rows hold only their largest logits or have weights.
    measures, provenance
        What was measured when it was fitted, and the rows it was fitted on.
    row_keys : RowKeys
        Finds data leakage: the rows it was fitted on.
    choice : Choice
        Why; made for a level of its own. It is decoded on first access.
    """

    format: str = "thermoset predictor"
    schema: int = SCHEMA
    recipe: Recipe
    alpha: str
    temperature: Temperature
    n_classes: Annotated[int, Meta(ge=2, le=10_000_000)]
    input_kind: str
    pool_rows: tuple[Count, ...]
    sizes: tuple[Count, ...]
    measures: tuple[Measure, ...]
    provenance: Provenance
    row_keys: RowKeys
    stored_choice: msgspec.Raw = msgspec.field(name="choice")
    plain_temperature: Temperature
    correction: ClassCorrection | None = None
    confidence_map: ConfidenceMap | None = None
    calibration_steps: tuple[CalibrationStep, ...] = ()
    reliability: tuple[ReliabilityCounts, ...] = ()
    classes: tuple[str, ...] | None = None
    group_of_class: tuple[Annotated[int, Meta(ge=NULL_GROUP)], ...] | None = None
    group_names: tuple[str, ...] | None = None
    scores: StoredScores | None = None
    thresholds: Thresholds | None = None
    shift: LabelShift | None = None
    shares: ShareReference | None = None
    confidence: ConfidenceReference | None = None
    answers: StoredAnswers | None = None
    checksum: str = ""

    def __repr__(self) -> str:
        return (
            f"Document({self.recipe.method.title}, {self.n_classes:,} classes, alpha {self.recipe.alpha}; T* = "
            f"{self.temperature:.3f}, T-hat = {self.recipe.temperature:.3f})"
        )

    def change(self, **fields: Any) -> "Document":
        """The document with other fields."""
        return msgspec.structs.replace(self, **fields)

    @cached_property
    def choice(self) -> Choice:
        """What was chosen and why."""
        try:
            return msgspec.json.decode(self.stored_choice, type=Choice)
        except msgspec.DecodeError as error:
            raise FileFormatError(f"the choice in this predictor's document is damaged: {reason(error)}.") from None

    @property
    def confidence_lines(self) -> tuple[str, ...]:
        """What was done to the confidence, and what it is worth on the conformal rows, which had no part in it."""
        lines = [step.sentence for step in self.calibration_steps]
        if self.correction is not None:
            names = self.classes or tuple(map(str, range(self.n_classes)))
            most = (f"{quoted(names[column])} (odds x {odds:.2g})" for column, odds in self.correction.largest())
            lines.insert(1, f"Corrected most: {', '.join(most)}.")
        if self.reliability:
            rows, right = self.reliability[-1].between(*_SHOWN_BAND)
            if rows >= _LEAST_SHOWN:
                low, high = (f"{end:.0%}" for end in _SHOWN_BAND)
                lines.append(
                    f"Of {rows:,} answers given with {low} to {high} confidence, {right / rows:.0%} were right."
                )
        return tuple(lines)

    @property
    def answer_lines(self) -> tuple[str, ...]:
        """Which rows are answered alone, and what people see of the others; nothing without an answer rule."""
        if self.answers is None:
            return ()
        if self.training_signs:
            return (self.training_signs,)
        values, above = {one.name: one.value for one in self.measures}, self.answers.review_above
        lines = [self.answers.claim.sentence]
        if "choose_share" in values:
            rule = "an empty set" if above is None else f"an empty set, or more than {above} labels"
            lines.append(
                f"The others: {values['choose_share']:.1%} of all rows for a choice, {values['review_share']:.1%} for "
                f"review ({rule})."
            )
        if "unanswered_size" in values:
            promised = float(1 - exact_level(self.alpha))
            lines.append(
                f"Their sets have {values['unanswered_size']:.2f} labels on average, and hold the true label with "
                f"probability {promised:.4g} or more, over choices and reviews together."
            )
            lines.append(
                f"Sets under one threshold for all rows would hold it in {values['plain_coverage']:.1%} of them."
            )
        return tuple(lines)

    @property
    def training_signs(self) -> str:
        """Why coverage is not promised, and what restores the promise; empty where nothing is in doubt."""
        if not (signs := self.provenance.training_signs):
            return ""
        return (
            f"No coverage is promised: {printable(signs)}, as if the model had been trained on these rows. Check the "
            "predictor on fresh rows, or recalibrate it with them."
        )

    @property
    def grouping(self) -> Grouping | None:
        """What shares a threshold."""
        return resolve_grouping(self.recipe.grouping)

    @property
    def temperature_sets(self) -> float:
        """T-hat."""
        return self.recipe.temperature

    @property
    def is_plain(self) -> bool:
        """Whether the threshold is that of the promised level, not raised to protect classes."""
        return self.recipe.alpha == self.alpha

    @property
    def is_weighted(self) -> bool:
        """Whether conformal rows have weights of their own."""
        return self.scores is not None and self.scores.weights is not None

    @property
    def effective_rows(self) -> float:
        """How many conformal rows of equal weight say as much as these."""
        if self.shift is not None:
            return self.shift.effective_rows
        weights = None if self.scores is None else self.scores.own_weights(sum(self.pool_rows))
        return float(sum(self.pool_rows)) if weights is None else weights.effective_rows

    @property
    def is_moved(self) -> bool:
        """Whether the level was changed after the choice, whose sizes and gaps are then about another one."""
        return self.choice.alpha != self.alpha

    @property
    def by_class(self) -> Ints | None:
        """The group of each class, (C,), where classes have thresholds."""
        if self.grouping is None or self.grouping.of_rows:
            return None
        return np.arange(self.n_classes) if self.group_of_class is None else np.array(self.group_of_class)

    @property
    def pool_sizes(self) -> Ints:
        """Conformal rows behind each threshold: (1,), (C,) or (G,); the null group of classes has those of all."""
        if (groups := self.by_class) is None:
            return np.array(self.pool_rows)
        group, place = np.unique(groups, return_inverse=True)
        rows = np.array(self.pool_rows)
        if group[0] == NULL_GROUP:
            rows[0] = rows.sum()
        return np.asarray(rows[place])

    def calibration_scores(self) -> CalibrationScores:
        """The label scores of the conformal rows; refused where none are stored or they do not decide alone."""
        if not self.is_plain:
            raise InputError(
                "this predictor cannot give p-values or other levels: its threshold was raised to that of alpha = "
                f"{self.recipe.alpha} to protect classes, so ranks among the conformal rows do not determine its sets. "
                "Fit with prefer='even' or 'small'."
            )
        if self.grouping is not None and not self.grouping.has_p_values:
            raise InputError(
                f"this predictor cannot give p-values or other levels: with grouping={self.recipe.grouping!r}, ranks "
                "alone do not determine its sets. Fit with grouping=None or 'class'."
            )
        if self.scores is None:
            raise InputError(
                "this predictor was saved without the label scores of its conformal rows, which p-values, other levels "
                "and other class shares need. Save it with scores=True (thermoset tune --scores) where it was fitted, "
                "or recalibrate it."
            )
        n_rows, of_class, groups = sum(self.pool_rows), self.by_class, None
        weights = self.scores.own_weights(n_rows)
        if self.group_names is not None:
            groups = Groups(self.group_names, np.repeat(np.arange(len(self.pool_rows)), self.pool_rows))
            labels = np.zeros(n_rows, dtype=np.int64)
        elif of_class is not None:  # a class of each pool stands for the others: which one does not matter
            labels = np.repeat(np.unique(of_class, return_index=True)[1], self.pool_rows)
        elif weights is not None:
            labels = np.zeros(n_rows, dtype=np.int64)
        else:
            labels = self.scores.own_labels(n_rows, self.n_classes)
        scoring, pairs = Scoring.of(self.recipe), self.scores.pairs(n_rows)
        return CalibrationScores(pairs, labels, scoring, self.grouping, of_class, groups, self.recipe.fallback, weights)


def write_document(path: FilePath, document: Document) -> None:
    """Write the document, whole or not at all."""
    if document.recipe.method.is_own:
        raise InputError(
            f"a predictor with a custom score ({quoted(document.recipe.method.title)}) cannot be saved: the file can "
            "only name built-in scores. Save the rows, and fit again."
        )
    _refuse_own_calibrator(document)
    files.write_sealed(path, document)


def read_document(path: FilePath) -> Document:
    """Read a document and check what is in it."""
    return files.read_sealed(path, Document, "a predictor", _MOST_BYTES, _cross_checks)


def checksum_of(document: Document) -> str:
    """SHA-256 of everything in the document but the checksum itself."""
    _refuse_own_calibrator(document)
    return files.checksum_of(document)


def _refuse_own_calibrator(document: Document) -> None:
    if document.correction is not None and not isinstance(document.correction, ClassCorrection):
        raise InputError(
            "a predictor with a calibrator of your own cannot be saved, monitored or sent to other processes: a "
            "document holds no code. Fit with calibration='auto', or correct the logits before they come here."
        )


def _cross_checks(document: Document) -> Iterator[tuple[bool, str]]:
    n_classes, recipe, came, names = document.n_classes, document.recipe, document.provenance, document.classes
    grouping, groups, of_class, limits = (
        document.grouping,
        document.group_of_class,
        document.by_class,
        recipe.method.limits,
    )
    by_row, n_rows, score = grouping is not None and grouping.of_rows, sum(document.pool_rows), recipe.score
    yield document.input_kind not in INPUT_KINDS, f"input_kind must be {' or '.join(INPUT_KINDS)}"
    yield exact_level(recipe.alpha) > exact_level(document.alpha), "alpha of the sets must be at most alpha"
    yield (
        names is not None and not len(names) == len(set(names)) == n_classes,
        "classes must be different, one per column",
    )
    yield score.learns or len(score.offsets(n_classes)) != n_classes, "the prior must have one number per class"
    calibrated = [document.correction.faults(n_classes)] if document.correction is not None else []
    calibrated += [document.confidence_map.faults()] if document.confidence_map is not None else []
    yield from ((True, fault) for faults in calibrated for fault in faults)
    bins = {len(part) for one in document.reliability for part in (one.count, one.right, one.confidence)}
    yield not bins <= {N_BANDS}, f"reliability must have {N_BANDS} bins"
    beyond = limits is not None and (len(limits) != n_classes or not all(1 <= one <= n_classes for one in limits))
    yield recipe.needs_limits or beyond, "limits must be from 1 to n_classes, one per class"
    yield (document.group_names is not None) != by_row, "group_names must be those of thresholds by group"
    yield len(set(document.group_names or ())) != len(document.group_names or ()), "group_names must be different"
    clustered = grouping is not None and not by_row and not grouping.each_class
    yield (groups is not None) != clustered, "group_of_class must be that of clustered classes"
    yield groups is not None and len(groups) != n_classes, "group_of_class must have one entry per class"
    n_pools = len(np.unique(of_class)) if of_class is not None else len(document.group_names or [""])
    yield len(document.pool_rows) != n_pools, "pool_rows must have one entry per pool"
    yield not 0 < n_rows <= came.conformal_rows, "pool_rows must be at most the conformal rows"
    yield bool(document.sizes) and sum(document.sizes) != came.conformal_rows, "sizes must count the conformal rows"
    yield len(document.sizes) > n_classes + 1, "sizes must be those of 0 to n_classes labels"
    if (seen := document.confidence) is not None:
        ascending = all(a < b for a, b in pairwise(seen.cuts)) and len(seen.counts) == len(seen.cuts) + 1
        counted = ascending and sum(seen.counts) == came.conformal_rows
        yield not counted, "confidence must count the conformal rows between ascending cuts"
    yield (document.scores is None) == (document.thresholds is None), "there must be scores or thresholds, and not both"
    if (stored := document.thresholds) is not None:
        expected = n_pools + (recipe.fallback is not None) + (document.answers is not None)
        expected = n_classes if of_class is not None or document.shift is not None else expected
        yield {len(stored.value), len(stored.tie)} != {expected}, "thresholds must be pairs, one for each pool or class"
        yield bool(np.isnan(stored.pairs()).any()), "thresholds must be numbers"
    if document.shift is not None:
        yield not document.is_plain or grouping is not None, "shift must be that of one threshold for all classes"
        yield from document.shift.cross_checks(n_classes, came.conformal_rows)
    if document.scores is not None:
        yield not document.is_plain, "scores must be those that set the threshold"
        document.calibration_scores()
        weights, alone = document.scores.own_weights(n_rows), grouping is None and document.shift is None
        whole = weights is None or int(weights.steps.max(initial=0)) == 2**weights.bits
        yield weights is not None and not (alone and whole), "weights must be those of one threshold"
        if document.shift is not None:
            own = document.scores.own_labels(n_rows, n_classes)
            yield not document.shift.is_of(own), "shift must be that of the scores"
    if document.answers is not None:
        alone = grouping is None and document.shift is None and document.shares is None and not document.is_weighted
        yield not (alone and document.is_plain), "answers must be those of one threshold without weights"
        n_stored = None if document.scores is None else n_rows
        yield from document.answers.cross_checks(came.conformal_rows, n_stored)
    if document.shares is not None:
        yield from document.shares.cross_checks(n_classes)
    yield from document.row_keys.calibration.cross_checks(came.calibration_rows)
    yield from document.row_keys.conformal.cross_checks(came.conformal_rows)
    exact_level(came.calibration_fraction)
