"""What a document says of rows: labels, confidence, probabilities and sets. Every answer of a predictor is from here.

Where classes are corrected, everything comes from the corrected rows, but for u, which comes from the raw logits. Under
label shift the probability of y is p(y) r(y) / sum_j p(j) r(j), r = target share / source share.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block, Bools, Floats, Ints, Pairs
from thermoset.calibration.calibrator import CalibratedSoftmax
from thermoset.calibration.confidence import block_odds, top_odds
from thermoset.conformal.bounds import middle_confidences
from thermoset.conformal.calibration_scores import CalibrationScores, row_thresholds
from thermoset.conformal.scoring import Scoring, block_sets, predict_sets, predict_sizes, undecided_rows
from thermoset.data import Logits
from thermoset.data.top_k import tops_of
from thermoset.decisions import references, set_thresholds
from thermoset.errors import InputError
from thermoset.predictor.document import Document, checksum_of
from thermoset.predictor.stored import StoredAnswers, Thresholds
from thermoset.rows import block_rows, map_rows, top_labels
from thermoset.uniforms import Randomness, draw_uniforms

ACTIONS = ("answer", "choose", "review")
"""What is done with a row where there is an answer rule, by number."""

ANSWER, CHOOSE, REVIEW = range(3)


class Prediction(NamedTuple):
    """One row: the likeliest label, its calibrated confidence and the set, by class name where known.

    `action` is one of `ACTIONS` where the predictor has an answer rule, else None.
    """

    label: str | int
    confidence: float
    set: tuple[str | int, ...]
    action: str | None = None

    def __repr__(self) -> str:
        last = "" if self.action is None else f", action={self.action!r}"
        return f"Prediction(label={self.label!r}, confidence={self.confidence!r}, set={self.set!r}{last})"


class PredictionArrays(NamedTuple):
    """The same of some rows as arrays: labels (n,) as column numbers, their confidence (n,), and sets (n, C).

    `actions` (n,) are places in `ACTIONS` where the predictor has an answer rule, else None.
    """

    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]
    sets: NDArray[np.bool_]
    actions: NDArray[np.int64] | None = None

    def records(self, names: Sequence[str | int]) -> list[Prediction]:
        """One record per row, with class names.

        >>> arrays = PredictionArrays(np.array([1]), np.array([0.75]), np.array([[False, True, True]]))
        >>> arrays.records(["ant", "bee", "cow"])
        [Prediction(label='bee', confidence=0.75, set=('bee', 'cow'))]
        """
        # An object for each label of a set, none for those left out; in two dimensions NumPy takes three times as long.
        rows, columns = np.divmod(np.flatnonzero(self.sets), self.sets.shape[1])
        members = [names[column] for column in columns.tolist()]
        ends = np.searchsorted(rows, np.arange(len(self.sets) + 1)).tolist()
        actions = [None] * len(self.labels) if self.actions is None else [ACTIONS[one] for one in self.actions.tolist()]
        per_row = zip(self.labels.tolist(), self.confidence.tolist(), pairwise(ends), actions, strict=True)
        return [
            Prediction(names[label], confidence, tuple(members[start:end]), action)
            for label, confidence, (start, end), action in per_row
        ]


class AnswerCut(NamedTuple):
    """Where rows are cut by the log-odds g of their top label at T*: answered from `threshold` on.

    The top label of rows from `below` on has the threshold `top` (1, 1, 1), if it is larger than that of sets.
    """

    temperature: float
    threshold: float
    below: float
    top: Pairs | None
    review_above: int | None


@dataclass(frozen=True, eq=False)
class RowSets:
    """How the sets of some rows are made: thresholds (1, G, K), and which of them each row has; the first if None."""

    scoring: Scoring
    randomness: Randomness
    thresholds: Pairs
    groups: Ints | None
    answers: AnswerCut | None = None

    def __getitem__(self, place: slice) -> "RowSets":
        """That of some of the rows."""
        groups = None if self.groups is None else self.groups[place]
        return replace(self, randomness=self.randomness[place], groups=groups)

    def decide(self, block: Block) -> tuple[Bools, Ints]:
        """Sets of a block of rows, which must be these, and what is done with each: a choice without an answer rule."""
        groups = np.zeros(len(block), dtype=np.int64) if self.groups is None else self.groups
        how = self.randomness, groups, self.scoring.score, self.scoring.temperature
        sets: Bools = block_sets(block, *how, self.thresholds)[0]
        if (cut := self.answers) is None:
            return sets, np.full(len(block), CHOOSE)
        g, row, label = block_odds(block, cut.temperature)[0], np.arange(len(block)), block.argmax(axis=1)
        answered = (g >= cut.threshold) & (cut.threshold < np.inf)
        if cut.top is not None:
            tops = block_sets(block, *how, cut.top)[0]
            sets[row, label] |= (g >= cut.below) & tops[row, label]
        sets[answered] = False
        sets[row[answered], label[answered]] = True
        sizes = np.count_nonzero(sets, axis=1)
        most = sets.shape[1] if cut.review_above is None else cut.review_above
        unsure = np.where((sizes == 0) | (sizes > most), REVIEW, CHOOSE)
        return sets, np.where(answered, ANSWER, unsure)


class Inference:
    """A document at work on rows that were checked before."""

    def __init__(self, document: Document) -> None:
        self.document, self.recipe = document, document.recipe
        ratio = None if document.shift is None else document.shift.ratio
        plain = ratio is None or bool(np.all(ratio == 1.0))
        self.softmax = CalibratedSoftmax(document.temperature, document.confidence_map, None if plain else ratio)
        self.correction = document.correction
        self.scoring = Scoring.of(self.recipe)
        self.answers: AnswerCut | None = None
        self.thresholds: Pairs = self._thresholds()

    def __reduce__(self) -> tuple[type["Inference"], tuple[Document]]:
        """Send the document alone: the rest follows from it."""
        return type(self), (self.document,)

    def _thresholds(self) -> Pairs:
        """Thresholds (1, G, K); with a fallback, rows of groups without a threshold of their own have the last."""
        document, by_row = self.document, self.document.group_names is not None
        if document.answers is not None:
            return self._unanswered_thresholds(document.answers)
        if document.thresholds is not None:
            stored = document.thresholds.pairs()
            return stored[None, :, None] if by_row else stored[None, None, :]
        scores = self.calibration_scores
        if document.shift is not None:
            return document.shift.thresholds(scores.scores, scores.labels, document.alpha)[None, None, :]
        return scores.table([self.recipe.alpha])

    def _unanswered_thresholds(self, rule: StoredAnswers) -> Pairs:
        """The threshold (1, 1, 1) of rows that are not answered; `answers` says where rows are cut."""
        document, claim = self.document, rule.claim
        if document.thresholds is not None:
            thresholds = document.thresholds.pairs()[:, None, None]
        else:
            scores = self.calibration_scores.scores
            thresholds = np.array(set_thresholds(scores, rule.kind_of_rows, claim, self.recipe.alpha))[:, None, None]
        top = thresholds[1:] if thresholds[1, 0, 0] > thresholds[0, 0, 0] else None
        self.answers = AnswerCut(document.temperature, claim.threshold, float(claim.below), top, rule.review_above)
        return thresholds[:1]

    @property
    def stored_thresholds(self) -> Thresholds:
        """What is stored where scores are not."""
        if (cut := self.answers) is None:
            return Thresholds.of(self.thresholds)
        return Thresholds.of(np.concatenate([self.thresholds, self.thresholds if cut.top is None else cut.top]))

    @cached_property
    def calibration_scores(self) -> CalibrationScores:
        """The scores that set the threshold."""
        return self.document.calibration_scores()

    @property
    def identity(self) -> str:
        """A checksum of the document that does not depend on whether scores or thresholds are stored."""
        document, rule = self.document, self.document.answers
        rule = None if rule is None else msgspec.structs.replace(rule, kinds=b"")
        return checksum_of(document.change(scores=None, thresholds=self.stored_thresholds, answers=rule))

    def require_p_values(self) -> None:
        """Refuse where there are no p-values."""
        if self.document.shift is not None:
            raise InputError(
                "this predictor has no p-values: its conformal rows are weighted for a label shift. Use the predictor "
                "it was made from."
            )
        _ = self.calibration_scores

    def p_values(self, data: Logits, smoothed: bool, ids: Any = None, weights: Any = None) -> Floats:
        """p-values of all labels, (n, C)."""
        self.require_p_values()
        seed, v = self.recipe.random_state if smoothed else None, None
        if seed is not None and self.correction is not None and ids is None:
            v = draw_uniforms(data, seed, second=True)
        u, known, rows = self.drawn_before(data, ids), self.calibration_scores, self.correct(data)
        p_values = known.p_values(rows, seed, u=u, v=v, ids=ids, weights=weights)
        if self.document.answers is None:
            return p_values
        claim = self.document.answers.claim
        others, top = references(self.document.answers.kind_of_rows, claim)
        if not others.all():  # of several references the one that says most, as sets have the largest threshold
            p_values = np.maximum(p_values, known.take(others).p_values(rows, seed, u=u, v=v, ids=ids))
        if not top.all():
            tops, row = known.take(top).p_values(rows, seed, u=u, v=v, ids=ids), np.arange(len(rows))
            label, g = top_labels(rows), top_odds(rows, self.document.temperature)[0]
            own = np.maximum(p_values[row, label], tops[row, label])
            p_values[row, label] = np.where(g >= float(claim.below), own, p_values[row, label])
        return p_values

    def correct(self, data: Logits) -> Logits:
        """The rows that both temperatures divide: corrected by class where that was learned."""
        if self.correction is None:
            return data
        if tops_of(data) is not None:
            raise InputError(
                "this predictor corrects classes, which needs whole rows; these hold only their largest logits. Pass "
                "whole rows, or fit with calibration='temperature'."
            )
        return data.apply(self.correction.of_block)

    def drawn_before(self, data: Logits, ids: Any) -> Floats | None:
        """The u of rows to be corrected, which comes from their raw logits; None where it comes from elsewhere."""
        if self.correction is None or self.scoring.seed is None or ids is not None:
            return None
        return draw_uniforms(data, self.scoring.seed)

    def rows(self, data: Logits, ids: Any = None, weights: Any = None) -> RowSets:
        """How the sets of these rows are made, by their ids, groups and weights."""
        weighted, levels = self.calibration_scores if self.document.is_weighted else None, [self.recipe.alpha]
        names, falls_back = self.document.group_names, self.recipe.fallback is not None
        purpose = "a predictor with grouping='group'"
        thresholds = row_thresholds(data, weights, self.thresholds, weighted, levels, names, falls_back, purpose)
        randomness = self.scoring.randomness(self.drawn_before(data, ids), len(data), ids)
        if self.answers is not None and tops_of(data) is not None:
            raise InputError(
                "this predictor answers some rows alone, by the probability of all other classes; these rows hold only "
                "their largest logits. Pass whole rows."
            )
        return RowSets(self.scoring, randomness, *thresholds, self.answers)

    def sets(self, data: Logits, ids: Any = None, weights: Any = None) -> Bools:
        """Sets of all rows, (n, C)."""
        if self.answers is not None:
            return self.arrays(data, ids, weights).sets
        return np.asarray(self._predict(predict_sets, data, ids, weights))

    def undecided(self, data: Logits, ids: Any = None, weights: Any = None) -> Bools:
        """Rows (n,) with labels that are in because rows which are not whole do not tell."""
        return np.asarray(self._predict(undecided_rows, data, ids, weights))

    def sizes(self, data: Logits, ids: Any = None, weights: Any = None) -> Ints:
        """Set sizes (n,); the sets are not formed where a threshold serves all classes."""
        if self.answers is not None:
            return np.asarray(np.count_nonzero(self.sets(data, ids, weights), axis=1), dtype=np.int64)
        return np.asarray(self._predict(predict_sizes, data, ids, weights))

    def actions(self, data: Logits, ids: Any = None, weights: Any = None) -> Ints:
        """What is done with each row, (n,), as places in `ACTIONS`; refused without an answer rule."""
        if self.answers is None:
            raise InputError("this predictor has no answer rule. Fit it with answer=, such as answer='error<=0.02'.")
        return np.asarray(self.arrays(data, ids, weights).actions)

    def _predict(self, predict: Any, data: Logits, ids: Any, weights: Any) -> Any:
        at, rows = self.rows(data, ids, weights), self.correct(data)
        return predict(rows, at.scoring.score, at.scoring.temperature, at.randomness, at.thresholds, at.groups)[0]

    def probabilities(self, data: Logits) -> Floats:
        """Probabilities of rows, (n, C); of those that are not whole, as completed rows have them."""
        probs = np.empty((len(data), data.n_classes))
        map_rows(self.correct(data), _probabilities_of_block, [probs], fixed=[self.softmax], axis=-2)
        return probs

    def labels(self, data: Logits) -> Ints:
        """The likeliest label of each row, as its column number."""
        if self.softmax.ratio is not None:
            return self.confidences(data)[0]
        data = self.correct(data)
        tops = tops_of(data)
        return top_labels(data) if tops is None else tops.indices[:, 0].astype(np.int64)

    def confidences(self, data: Logits) -> tuple[Ints, Floats]:
        """The likeliest label of each row, and its probability."""
        data, tops = self.correct(data), tops_of(data)
        if tops is not None and self.softmax.ratio is None:
            return tops.indices[:, 0].astype(np.int64), middle_confidences(tops, self.softmax.temperature)
        labels, confidence = np.empty(len(data), dtype=np.int64), np.empty(len(data))
        map_rows(data, self.softmax.top_of_block, [labels, confidence])
        return labels, confidence

    def arrays(self, data: Logits, ids: Any = None, weights: Any = None) -> PredictionArrays:
        """Label, confidence and set of each row, in one pass."""
        if tops_of(data) is not None and self.correction is None and self.answers is None:
            return PredictionArrays(*self.confidences(data), self.sets(data, ids, weights))
        rows, data = self.rows(data, ids, weights), self.correct(data)
        if type(data) is Logits and len(data) <= block_rows(data.n_classes):  # a single row waits for no machinery
            (labels, confidence), (sets, actions) = self.softmax.top_of_block(data.logits), rows.decide(data.logits)
        else:
            labels, confidence = np.empty((len(data), 1), dtype=np.int64), np.empty((len(data), 1))
            sets, actions = np.empty((len(data), data.n_classes), dtype=np.bool_), np.empty_like(labels)
            out = [labels, confidence, sets, actions]
            map_rows(data, _arrays_of_block, out, per_row=[rows], fixed=[self.softmax], axis=-2)
            labels, confidence, actions = labels[:, 0], confidence[:, 0], actions[:, 0]
        return PredictionArrays(labels, confidence, sets, None if self.answers is None else actions)


def _probabilities_of_block(block: Block, softmax: CalibratedSoftmax) -> tuple[Floats]:
    return (softmax.of_block(block),)


def _arrays_of_block(block: Block, rows: RowSets, softmax: CalibratedSoftmax) -> tuple[Ints, Floats, Bools, Ints]:
    (labels, confidence), (sets, actions) = softmax.top_of_block(block), rows.decide(block)
    return labels[:, None], confidence[:, None], sets, actions[:, None]
