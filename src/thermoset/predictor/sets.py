"""What a document says of rows: labels, confidence, probabilities and sets. Every answer of a predictor is from here.

Where classes are corrected, everything is made from the corrected rows, but for u, which comes from the raw logits.
Probabilities are the softmax at T*, with the confidence map where there is one. Under label shift the probability of y
is p(y) r(y) / sum_j p(j) r(j), with p as before and r = target share / source share; the likeliest label may then be
another than that of the largest logit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block, Bools, Floats, Ints, Pairs
from thermoset.calibration.calibrator import CalibratedSoftmax
from thermoset.conformal.bounds import middle_confidences
from thermoset.conformal.calibration_scores import CalibrationScores, group_codes, own_weights
from thermoset.conformal.scoring import Scoring, block_sets, predict_sets, predict_sizes, undecided_rows
from thermoset.data import Logits
from thermoset.data.top_rows import tops_of
from thermoset.errors import InputError
from thermoset.predictor.document import Document, Thresholds, checksum_of
from thermoset.rows import block_rows, map_rows, top_labels
from thermoset.uniforms import Randomness, draw_uniforms


class Prediction(NamedTuple):
    """One row: the likeliest label, its calibrated confidence and the set, by class name where known."""

    label: str | int
    confidence: float
    set: tuple[str | int, ...]


class PredictionArrays(NamedTuple):
    """The same of some rows as arrays: labels (n,) as column numbers, their confidence (n,), and sets (n, C)."""

    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]
    sets: NDArray[np.bool_]

    def records(self, names: Sequence[str | int]) -> list[Prediction]:
        """One record per row, with class names.

        >>> found = PredictionArrays(np.array([1]), np.array([0.75]), np.array([[False, True, True]]))
        >>> found.records(["ant", "bee", "cow"])
        [Prediction(label='bee', confidence=0.75, set=('bee', 'cow'))]
        """
        # An object for each label of a set, none for those left out; in two dimensions NumPy takes three times as long.
        rows, columns = np.divmod(np.flatnonzero(self.sets), self.sets.shape[1])
        members = [names[column] for column in columns.tolist()]
        ends = np.searchsorted(rows, np.arange(len(self.sets) + 1)).tolist()
        labels, confidence = self.labels.tolist(), self.confidence.tolist()
        return [
            Prediction(names[label], sure, tuple(members[start:end]))
            for label, sure, (start, end) in zip(labels, confidence, pairwise(ends), strict=True)
        ]


@dataclass(frozen=True, eq=False)
class RowSets:
    """How the sets of some rows are made: thresholds (1, G, K), and which of them each row has; the first if None."""

    scoring: Scoring
    randomness: Randomness
    thresholds: Pairs
    groups: Ints | None

    def __getitem__(self, place: slice) -> "RowSets":
        """That of some of the rows."""
        groups = None if self.groups is None else self.groups[place]
        return replace(self, randomness=self.randomness[place], groups=groups)

    def of_block(self, block: Block) -> Bools:
        """Sets of a block of rows, which must be these, (n, C)."""
        groups = np.zeros(len(block), dtype=np.int64) if self.groups is None else self.groups
        how = self.scoring.score, self.scoring.temperature, self.randomness, self.thresholds
        sets: Bools = block_sets(block, *how, groups)[0]
        return sets


class Inference:
    """A document at work on rows that were checked before."""

    def __init__(self, document: Document) -> None:
        self.document, self.recipe = document, document.recipe
        ratio = None if document.shift is None else document.shift.ratio
        plain = ratio is None or bool(np.all(ratio == 1.0))
        self.softmax = CalibratedSoftmax(document.temperature, document.confidence_map, None if plain else ratio)
        self.correction = document.correction
        self.scoring = Scoring.of(self.recipe)
        self.thresholds: Pairs = self._thresholds()

    def __reduce__(self) -> tuple[type["Inference"], tuple[Document]]:
        """Send the document alone: the rest follows from it."""
        return type(self), (self.document,)

    def _thresholds(self) -> Pairs:
        """Thresholds (1, G, K); with a fallback, rows of groups without a threshold of their own have the last."""
        made, by_row = self.document, self.document.group_names is not None
        if made.thresholds is not None:
            stored = made.thresholds.pairs()
            return stored[None, :, None] if by_row else stored[None, None, :]
        scores = self.calibration_scores
        if made.shift is not None:
            return made.shift.thresholds(scores.scores, scores.labels, made.alpha)[None, None, :]
        found, other = scores.thresholds(self.recipe.alpha), scores.fallback_threshold(self.recipe.alpha)
        return (found if other is None else np.concatenate([found, other]))[None]

    @cached_property
    def calibration_scores(self) -> CalibrationScores:
        """The scores that set the threshold."""
        return self.document.calibration_scores()

    @property
    def identity(self) -> str:
        """A checksum of the document that does not depend on whether scores or thresholds are stored."""
        return checksum_of(self.document.change(scores=None, thresholds=Thresholds.of(self.thresholds)))

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
        u = self.drawn_before(data, ids)
        return self.calibration_scores.p_values(self.correct(data), seed, u=u, v=v, ids=ids, weights=weights)

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
        table, groups, names = self.thresholds, None, self.document.group_names
        known = self.calibration_scores.weights if self.document.is_weighted else None
        if (own := own_weights(known, weights, len(data))) is not None:
            table, groups = self.calibration_scores.weighted_thresholds(own, [self.recipe.alpha])
        if names is not None:
            falls_back = self.recipe.fallback is not None
            groups = group_codes(data, names, falls_back, "a predictor with grouping='group'")
        randomness = self.scoring.randomness(self.drawn_before(data, ids), len(data), ids)
        return RowSets(self.scoring, randomness, table, groups)

    def sets(self, data: Logits, ids: Any = None, weights: Any = None) -> Bools:
        """Sets of all rows, (n, C)."""
        sets: Bools = self._predict(predict_sets, data, ids, weights)
        return sets

    def undecided(self, data: Logits, ids: Any = None, weights: Any = None) -> Bools:
        """Rows (n,) with labels that are in because rows which are not whole do not tell."""
        undecided: Bools = self._predict(undecided_rows, data, ids, weights)
        return undecided

    def sizes(self, data: Logits, ids: Any = None, weights: Any = None) -> Ints:
        """Set sizes (n,); the sets are not formed where a threshold serves all classes."""
        sizes: Ints = self._predict(predict_sizes, data, ids, weights)
        return sizes

    def _predict(self, predict: Any, data: Logits, ids: Any, weights: Any) -> Any:
        at = self.rows(data, ids, weights)
        rows = self.correct(data)
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
        map_rows(data, _tops_of_block, [labels, confidence], fixed=[self.softmax])
        return labels, confidence

    def arrays(self, data: Logits, ids: Any = None, weights: Any = None) -> PredictionArrays:
        """Label, confidence and set of each row, in one pass."""
        if tops_of(data) is not None and self.correction is None:
            return PredictionArrays(*self.confidences(data), self.sets(data, ids, weights))
        rows, data = self.rows(data, ids, weights), self.correct(data)
        if type(data) is Logits and len(data) <= block_rows(data.n_classes):  # a single row waits for no machinery
            return PredictionArrays(*self.softmax.top_of_block(data.logits), rows.of_block(data.logits))
        labels, confidence = np.empty((len(data), 1), dtype=np.int64), np.empty((len(data), 1))
        sets = np.empty((len(data), data.n_classes), dtype=np.bool_)
        map_rows(data, _arrays_of_block, [labels, confidence, sets], per_row=[rows], fixed=[self.softmax], axis=-2)
        return PredictionArrays(labels[:, 0], confidence[:, 0], sets)


def _probabilities_of_block(block: Block, softmax: CalibratedSoftmax) -> tuple[Floats]:
    return (softmax.of_block(block),)


def _tops_of_block(block: Block, softmax: CalibratedSoftmax) -> tuple[Ints, Floats]:
    return softmax.top_of_block(block)


def _arrays_of_block(block: Block, sets: RowSets, softmax: CalibratedSoftmax) -> tuple[Ints, Floats, Bools]:
    labels, confidence = softmax.top_of_block(block)
    return labels[:, None], confidence[:, None], sets.of_block(block)
