"""The predictor as a file: one JSON document that holds what was learned, and no more: the rest follows from it.

Every float comes back exactly, and nothing in the document is ever executed. A checksum tells an edited or damaged file
from a good one. There is no time stamp: the same rows and seed give the same file. Unknown fields are refused, because
ignoring one could change a prediction.
"""

import hashlib
import math
import os
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from thermoset.arrays import Bools, Floats, Ints, Keys, Pairs
from thermoset.arrays import pairs as as_pairs
from thermoset.bounds import COLDEST, HOTTEST, MOST_HELD
from thermoset.calibration.calibrator import CalibrationStep
from thermoset.calibration.classes import ClassCorrection
from thermoset.calibration.confidence import ConfidenceMap
from thermoset.conformal.calibration_scores import CalibrationScores, Weights
from thermoset.conformal.groupings import NULL_GROUP, Grouping, resolve_grouping
from thermoset.conformal.recipe import Recipe
from thermoset.conformal.scoring import Scoring
from thermoset.data.groups import Groups
from thermoset.data.input_kinds import INPUT_KINDS
from thermoset.decisions import WRONG, AnswerClaim, Proposal, word
from thermoset.decisions import Number as AnswerLevel
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import errors_about, read_at_most, write_whole
from thermoset.levels import exact_level
from thermoset.predictor.label_shift import LabelShift, ShareReference, broken_shares, broken_shift
from thermoset.predictor.leakage import RowKeys
from thermoset.predictor.packing import packed, unpacked
from thermoset.quoting import quoted, reason
from thermoset.tuning.choice import Choice

SCHEMA = 1
"""The schema that is written, and the only one that is read."""

STORED_BY_DEFAULT = 1_000_000
"""Conformal rows up to which `save` writes their scores unless it is told."""

MOST_STORED = 10_000_000
"""Conformal rows up to which scores can be stored at all: some 170 MB of JSON."""

UNDECIDED = "undecided_share"
"""The measure of predictors whose conformal rows held only their largest logits: how often bounds could not decide."""

N_BANDS = 20
"""Bins of confidence in which conformal rows are counted, each 5% wide."""

MOST_CUTS = 63
"""Cut points of confidence, at most: 64 bins show any change that matters, and take a kilobyte."""

_SHOWN_BAND = 0.75, 0.85  # of confidence, in which people ask whether it can be trusted
_LEAST_SHOWN = 20  # answers in it, below which a share says nothing
_FORMAT = "thermoset predictor"
_MOST_BYTES = 2**28  # a document for 100,000 classes has some 10 MB
_SIGN = np.uint64(1 << 63)

Count = Annotated[int, Meta(ge=0, le=MOST_HELD)]
Temperature = Annotated[float, Meta(ge=COLDEST, le=HOTTEST)]
Number = float | Literal["inf", "-inf"]  # JSON has no infinity: those two are words


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A part of the document."""


class Thresholds(Stored, frozen=True, kw_only=True):
    """Thresholds where no scores are stored that they follow from: values and tie-breaks."""

    value: tuple[Number, ...]
    tie: tuple[Number, ...]

    @classmethod
    def of(cls, thresholds: Pairs) -> "Thresholds":
        """Write down thresholds of any shape, one after the other.

        >>> Thresholds.of(as_pairs([[0.5, math.inf]], 0.0)).pairs().real.tolist()
        [0.5, inf]
        """
        return cls(value=_words(thresholds.real), tie=_words(thresholds.imag))

    def pairs(self) -> Pairs:
        """The thresholds, one after the other."""
        return as_pairs([float(one) for one in self.value], [float(one) for one in self.tie])


def _words(numbers: Floats) -> tuple[Number, ...]:
    return tuple(("inf" if one > 0 else "-inf") if math.isinf(one) else one for one in numbers.ravel().tolist())


class StoredScores(Stored, frozen=True, kw_only=True):
    """The label scores of the conformal rows, sorted within their pools: for thresholds and p-values at every level.

    Neighbours are close, so a float64 is read as a whole number in the same order, and those are packed (`packing`): 12
    to 14 bytes a row instead of 16, a third more as the base64 of JSON. Where one threshold serves all classes, the
    label of each score is stored too, in as few bytes as the number of classes needs: thresholds for other class shares
    weigh scores by their labels. Weights are the whole numbers that they count as (see
    `conformal.calibration_scores`), of which `largest`, the largest weight, is the highest.
    """

    value: bytes
    tie: bytes
    labels: bytes | None = None
    weights: bytes | None = None
    largest: Annotated[float, Meta(gt=0)] | None = None

    @classmethod
    def of(cls, found: CalibrationScores, n_classes: int) -> "StoredScores":
        """The scores of a fitted classifier."""
        scores, steps, order = found.scores, None if found.weights is None else found.weights.steps, stored_order(found)
        value, tie = (packed(_ordered(part[order])) for part in (scores.real, scores.imag))
        if found.weights is not None and steps is not None:
            weights = packed(steps[order].astype(np.uint64))
            return cls(value=value, tie=tie, weights=weights, largest=found.weights.largest)
        if found.grouping is not None:
            return cls(value=value, tie=tie)
        return cls(value=value, tie=tie, labels=found.labels[order].astype(_label_type(n_classes)).tobytes())

    def pairs(self, n_rows: int) -> Pairs:
        """The scores of so many rows, (n,)."""
        found = as_pairs(*(_floats(unpacked(part, n_rows, MOST_STORED, "scores")) for part in (self.value, self.tie)))
        if np.isnan(found).any():
            raise FileFormatError("is not a usable predictor: scores must be numbers.")
        return found

    def own_labels(self, n_rows: int, n_classes: int) -> Ints:
        """The label of each score, (n,)."""
        kind = _label_type(n_classes)
        found = np.frombuffer(self.labels or b"", kind).astype(np.int64)
        if len(found) != n_rows or found.max(initial=0) >= n_classes:
            raise FileFormatError(f"is not a usable predictor: labels of scores must be those of {n_rows:,} rows.")
        return found

    def own_weights(self, n_rows: int) -> Weights | None:
        """The weights of so many rows, where they were given."""
        if self.weights is None or self.largest is None:
            return None
        return Weights(unpacked(self.weights, n_rows, MOST_STORED, "weights").astype(np.int64), self.largest)


def stored_order(found: CalibrationScores) -> Ints:
    """The order in which scores are stored."""
    last = found.labels if found.weights is None else found.weights.steps
    return np.lexsort((last, found.scores.imag, found.scores.real, pool_of_rows(found)))


def _label_type(n_classes: int) -> np.dtype[Any]:
    """The narrowest type that holds every label."""
    return np.min_scalar_type(n_classes - 1).newbyteorder("<")


def _ordered(values: Floats) -> Keys:
    """Floats as whole numbers in the same order."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)


def _floats(numbers: Keys) -> Floats:
    return np.where(numbers >= _SIGN, numbers ^ _SIGN, ~numbers).view(np.float64)


def pool_of_rows(found: CalibrationScores) -> Ints:
    """The group of each conformal row, or of its class; 0 where all share a threshold."""
    if found.groups is not None:
        return found.groups.codes
    groups = found.group_of_class
    return np.zeros(len(found.labels), dtype=np.int64) if groups is None else groups[found.labels]


class StoredAnswers(Stored, frozen=True, kw_only=True):
    """Which rows are answered alone, and which go to review; see `thermoset.decisions`.

    Attributes
    ----------
    claim : AnswerClaim
        The threshold on the log-odds of the top label at T*, and what is promised of the rows from there on.
    kinds : bytes
        For each stored score whether its row is below the block between the thresholds of the rule, or right or wrong
        in it. Empty where no scores are stored.
    review_above : int or None
        Rows with a larger set than this go to review, as those with an empty one do.
    thresholds, start, share, risk
        The proposal of the calibration rows, for new rows to prove.
    """

    claim: AnswerClaim
    kinds: bytes = b""
    review_above: Count | None = None
    thresholds: tuple[AnswerLevel, ...]
    start: Count
    share: tuple[float, ...]
    risk: tuple[float, ...]

    @classmethod
    def of(cls, claim: AnswerClaim, proposal: Proposal, review_above: int | None, kinds: Ints) -> "StoredAnswers":
        """What was proposed and proved."""
        return cls(
            claim=claim,
            kinds=kinds.astype(np.uint8).tobytes(),
            review_above=review_above,
            thresholds=tuple(word(one) for one in proposal.thresholds.tolist()),
            start=proposal.start,
            share=tuple(proposal.share.tolist()),
            risk=tuple(proposal.risk.tolist()),
        )

    @property
    def proposal(self) -> Proposal:
        """What the calibration rows proposed."""
        at = np.array([float(one) for one in self.thresholds])
        return Proposal(at, self.start, np.array(self.share), np.array(self.risk))

    @property
    def kind_of_rows(self) -> Ints:
        """The kind of each stored score's row, (n,)."""
        return np.frombuffer(self.kinds, np.uint8).astype(np.int64)

    def faults(self, n_rows: int, n_stored: int | None) -> list[str]:
        """What must hold of it, and does not."""
        at, kinds = self.proposal.thresholds, self.kind_of_rows
        if self.claim.rows != n_rows or (n_stored is not None and len(kinds) != n_stored) or np.any(kinds > WRONG):
            return ["answers must count the conformal rows"]
        if not 0 <= self.start < len(at) or np.any(np.diff(at) >= 0) or {len(self.share), len(self.risk)} != {len(at)}:
            return ["answers must have descending thresholds, each with a share and a risk"]
        if not {self.claim.threshold, float(self.claim.below)} <= {*at.tolist(), np.inf, -np.inf}:
            return ["the thresholds of the claim must be among those of answers"]
        return self.claim.faults()


class ConfidenceReference(Stored, frozen=True, kw_only=True):
    """What the confidence of later rows is compared with: cut points, and the conformal rows between them.

    Counts are those below the first cut, between two, and from the last on. The cut
    points are quantiles of calibration rows and the counts those of conformal rows, so that conformal rows and later
    ones are alike: neither chose where the cuts are.

    >>> reference = ConfidenceReference(cuts=(0.5, 0.9), counts=(10, 30, 60))
    >>> reference.bins(np.array([0.4, 0.5, 0.95])).tolist()
    [0, 1, 2]
    """

    cuts: Annotated[tuple[Annotated[float, Meta(gt=0, le=1)], ...], Meta(min_length=1, max_length=MOST_CUTS)]
    counts: tuple[Count, ...]

    def bins(self, confidence: Floats) -> Ints:
        """The bin of each confidence."""
        return np.searchsorted(np.array(self.cuts), confidence, side="right").astype(np.int64)

    def recount(self, confidence: Floats) -> "ConfidenceReference":
        """The same cut points with the counts of conformal rows that have this confidence."""
        counts = np.bincount(self.bins(confidence), minlength=len(self.cuts) + 1)
        return ConfidenceReference(cuts=self.cuts, counts=tuple(counts.tolist()))


class ReliabilityCounts(Stored, frozen=True, kw_only=True):
    """Conformal rows by confidence, in bins of equal width: how many, how many were right, and their mean confidence.

    >>> found = ReliabilityCounts.of("T*", np.array([0.76, 0.81, 0.3]), np.array([True, False, True]))
    >>> found.between(0.75, 0.85)
    (2, 1)
    """

    name: str
    count: tuple[Count, ...]
    right: tuple[Count, ...]
    confidence: tuple[float, ...]

    @classmethod
    def of(cls, name: str, confidence: Floats, right: Bools) -> "ReliabilityCounts":
        """Count rows."""
        place = np.minimum((confidence * N_BANDS).astype(np.int64), N_BANDS - 1)
        count, hits = (np.bincount(place, weights, N_BANDS) for weights in (None, right))
        sums = np.bincount(place, confidence, N_BANDS)
        mean = np.divide(sums, count, out=np.zeros(N_BANDS), where=count > 0)
        whole = (tuple(int(one) for one in numbers) for numbers in (count, hits))
        return cls(name=name, count=next(whole), right=next(whole), confidence=tuple(mean.round(6).tolist()))

    def between(self, low: float, high: float) -> tuple[int, int]:
        """Rows with a confidence between two ends of bins, and how many of them were right."""
        some = slice(round(low * N_BANDS), round(high * N_BANDS))
        return sum(self.count[some]), sum(self.right[some])


class Measure(Stored, frozen=True, kw_only=True):
    """A number that was measured when the predictor was made, and its 95% interval where there is one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


class Provenance(Stored, frozen=True, kw_only=True):
    """Where a predictor came from: library, rows, and what was requested.

    `top_rows` says that the conformal rows held only their largest logits: coverage is then at least what is promised.
    Labels with a logit of -inf have probability zero: T* by NLL leaves such calibration rows out, and such conformal
    rows are misses unless the threshold is infinite.
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
        What was measured when it was made, and what it was made from.
    row_keys : RowKeys
        Finds data leakage: the rows that made it.
    choice : Choice
        Why; made for a level of its own. It is decoded when somebody asks for it.
    """

    format: str = _FORMAT
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
        found, above = {one.name: one.value for one in self.measures}, self.answers.review_above
        lines = [self.answers.claim.sentence]
        if "choose_share" in found:
            rule = "an empty set" if above is None else f"an empty set, or more than {above} labels"
            lines.append(
                f"The others: {found['choose_share']:.1%} of all rows for a choice, {found['review_share']:.1%} for "
                f"review ({rule})."
            )
        if "unanswered_size" in found:
            promised = float(1 - exact_level(self.alpha))
            lines.append(
                f"Their sets have {found['unanswered_size']:.2f} labels on average, and hold the true label with "
                f"probability {promised:.4g} or more, over choices and reviews together."
            )
            lines.append(
                f"Sets under one threshold for all rows would hold it in {found['plain_coverage']:.1%} of them."
            )
        return tuple(lines)

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


class _Head(msgspec.Struct):
    """What tells our files from others, and those of other schemas; read before the rest."""

    format: str = ""
    schema: int = 0


def write_document(path: str | os.PathLike[str], document: Document) -> None:
    """Write the document, whole or not at all."""
    if document.recipe.method.is_own:
        raise InputError(
            f"a predictor with a custom score ({quoted(document.recipe.method.title)}) cannot be saved: the file can "
            "only name built-in scores. Save the rows, and fit again."
        )
    target = Path(path)
    sealed = document.change(checksum=checksum_of(document))
    content = msgspec.json.format(msgspec.json.encode(sealed), indent=1) + b"\n"
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(content)


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read a document and check what is in it."""
    content = read_at_most(path, _MOST_BYTES)
    try:
        document = _decoded(content)
        for requirement, broken in _broken_requirements(document):
            if broken:
                raise FileFormatError(f"is not a usable predictor: {requirement}.")
    except InputError as error:  # a score's own complaint too: whatever is in the file is the file's fault
        raise FileFormatError(f"{path}: {error}") from None
    return document


def checksum_of(document: Document) -> str:
    """SHA-256 of everything in the document but the checksum itself."""
    if document.correction is not None and not isinstance(document.correction, ClassCorrection):
        raise InputError(
            "a predictor with a calibrator of your own cannot be saved, monitored or sent to other processes: a "
            "document holds no code. Fit with calibration='auto', or correct the logits before they come here."
        )
    content = msgspec.json.encode(document.change(checksum=""))
    return hashlib.sha256(msgspec.json.format(content, indent=-1)).hexdigest()


def _decoded(content: bytes) -> Document:
    try:
        head = msgspec.json.decode(content, type=_Head)
    except msgspec.ValidationError:
        head = _Head()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"is not a JSON document, or is damaged ({reason(error)}).") from None
    if head.format != _FORMAT:
        raise FileFormatError("is not a predictor saved by thermoset.")
    if head.schema != SCHEMA:
        raise FileFormatError(
            f"was saved by a newer thermoset, or is damaged (schema {quoted(head.schema)}; this one reads schema "
            f"{SCHEMA}). Upgrade thermoset."
        )
    try:
        document = msgspec.json.decode(msgspec.json.format(content, indent=-1), type=Document)
        fits = checksum_of(document) == document.checksum
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:  # whole numbers: 64 bits
        raise FileFormatError(f"is damaged or was edited: {reason(error)}.") from None
    if not fits:
        raise FileFormatError("is damaged or was edited: its checksum does not match. Save the predictor again.")
    return document


def _broken_calibration(made: Document) -> Iterator[tuple[str, bool]]:
    faults = [] if made.correction is None else made.correction.faults(made.n_classes)
    faults += [] if made.confidence_map is None else made.confidence_map.faults()
    yield from ((fault, True) for fault in faults)
    bins = {len(part) for one in made.reliability for part in (one.count, one.right, one.confidence)}
    yield f"reliability must have {N_BANDS} bins", not bins <= {N_BANDS}


def _broken_answers(made: Document) -> Iterator[tuple[str, bool]]:
    if made.answers is None:
        return
    alone = made.grouping is None and made.shift is None and made.shares is None and not made.is_weighted
    yield "answers must be those of one threshold without weights", not (alone and made.is_plain)
    stored = None if made.scores is None else sum(made.pool_rows)
    yield from ((fault, True) for fault in made.answers.faults(made.provenance.conformal_rows, stored))


def _broken_requirements(made: Document) -> Iterator[tuple[str, bool]]:
    """Where two parts of a document could disagree, and whether they do; in an order in which what is read is there."""
    n_classes, recipe, came, score = made.n_classes, made.recipe, made.provenance, made.recipe.score
    yield f"input_kind must be {' or '.join(INPUT_KINDS)}", made.input_kind not in INPUT_KINDS
    yield "alpha of the sets must be at most alpha", exact_level(recipe.alpha) > exact_level(made.alpha)
    names = made.classes
    yield (
        "classes must be different, one for each column",
        names is not None and (len(names) != n_classes or len(set(names)) != n_classes),
    )
    yield "the prior must have one number per class", score.learns or len(score.offsets(n_classes)) != n_classes
    yield from _broken_calibration(made)
    limits, grouping = recipe.method.limits, made.grouping
    yield (
        "limits must be from 1 to n_classes, one per class",
        recipe.needs_limits
        or (limits is not None and (len(limits) != n_classes or not all(1 <= one <= n_classes for one in limits))),
    )
    by_row, groups = grouping is not None and grouping.of_rows, made.group_of_class
    yield "group_names must be those of thresholds by group", (made.group_names is not None) != by_row
    yield "group_names must be different", len(set(made.group_names or ())) != len(made.group_names or ())
    clustered = grouping is not None and not by_row and not grouping.each_class
    yield "group_of_class must be that of clustered classes", (groups is not None) != clustered
    yield "group_of_class must have one entry per class", groups is not None and len(groups) != n_classes
    of_class = made.by_class
    n_pools = len(made.group_names) if made.group_names is not None else 1
    n_pools = n_pools if of_class is None else len(np.unique(of_class))
    yield "pool_rows must have one entry per pool", len(made.pool_rows) != n_pools
    yield "pool_rows must be at most the conformal rows", not 0 < sum(made.pool_rows) <= came.conformal_rows
    yield "sizes must count the conformal rows", bool(made.sizes) and sum(made.sizes) != came.conformal_rows
    yield "sizes must be those of 0 to n_classes labels", len(made.sizes) > n_classes + 1
    if (seen := made.confidence) is not None:
        rising = all(a < b for a, b in pairwise(seen.cuts)) and len(seen.counts) == len(seen.cuts) + 1
        counted = sum(seen.counts) == came.conformal_rows
        yield "confidence must count the conformal rows between rising cuts", not (rising and counted)
    yield "there must be scores or thresholds, and not both", (made.scores is None) == (made.thresholds is None)
    if (stored := made.thresholds) is not None:
        by_class = of_class is not None or made.shift is not None
        expected = n_classes if by_class else n_pools + (recipe.fallback is not None) + (made.answers is not None)
        yield "thresholds must be pairs, one for each pool or class", {len(stored.value), len(stored.tie)} != {expected}
        yield "thresholds must be numbers", bool(np.isnan(stored.pairs()).any())
    if made.shift is not None:
        yield "shift must be that of one threshold for all classes", not made.is_plain or grouping is not None
        yield from broken_shift(made.shift, n_classes, came.conformal_rows)
    if made.scores is not None:
        yield "scores must be those that set the threshold", not made.is_plain
        made.calibration_scores()
        weights, n_rows = made.scores.own_weights(sum(made.pool_rows)), sum(made.pool_rows)
        yield (
            "weights must be those of one threshold",
            weights is not None
            and (
                grouping is not None or made.shift is not None or int(weights.steps.max(initial=0)) != 2**weights.bits
            ),
        )
        if made.shift is not None:
            labels = made.scores.own_labels(n_rows, n_classes)
            yield "shift must be that of the scores", not made.shift.is_of(labels)
    yield from _broken_answers(made)
    if made.shares is not None:
        yield from broken_shares(made.shares, n_classes)
    yield from made.row_keys.calibration.faults(came.calibration_rows)
    yield from made.row_keys.conformal.faults(came.conformal_rows)
    exact_level(came.calibration_fraction)
