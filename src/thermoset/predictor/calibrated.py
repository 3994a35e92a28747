"""The confidence branch of a predictor: probabilities at T*, for the class shares of the rows to be predicted.

Under label shift the probability of y is p(y) r(y) / sum_j p(j) r(j), with p the softmax at T* and r = target share /
source share; the likeliest label may then be another than that of the largest logit.
"""

from dataclasses import dataclass

import numpy as np

from thermoset.arrays import Block, Floats, Ints, as_float64
from thermoset.conformal.bounds import middle_confidences
from thermoset.data import Logits
from thermoset.data.top_rows import tops_of
from thermoset.kernels import confidences, softmax
from thermoset.predictor.document import Document
from thermoset.rows import map_rows, top_labels

__all__ = ["Calibrated"]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """T*, and target share / source share of each class (C,); None where shares have not changed."""

    temperature: float
    ratio: Floats | None = None

    @classmethod
    def of(cls, made: Document) -> "Calibrated":
        """That of a document."""
        ratio = None if made.shift is None else made.shift.ratio
        return cls(made.temperature, None if ratio is None or np.all(ratio == 1.0) else ratio)

    def of_block(self, block: Block) -> Floats:
        """Probabilities of a block of rows, (n, C)."""
        probs = np.empty(block.shape)
        softmax(as_float64(block), self.temperature, probs)
        if self.ratio is not None:
            weighted = probs * self.ratio
            total = weighted.sum(axis=1, keepdims=True)
            np.divide(weighted, total, out=probs, where=total > 0)  # a row that no class explains stays as it is
        return probs

    def tops(self, block: Block) -> tuple[Ints, Floats]:
        """The likeliest label of each row of a block, and its probability."""
        if self.ratio is None:
            found = np.empty((1, len(block)))
            confidences(as_float64(block), np.array([self.temperature]), np.empty(block.shape[1]), found)
            return block.argmax(axis=1), found[0]
        probs = self.of_block(block)
        labels = probs.argmax(axis=1)
        return labels, probs[np.arange(len(probs)), labels]

    def probabilities(self, data: Logits) -> Floats:
        """Probabilities of rows, (n, C); of those that are not whole, as completed rows have them."""
        probs = np.empty((len(data), data.n_classes))
        map_rows(data, _probabilities_of_block, [probs], fixed=[self], axis=-2)
        return probs

    def labels(self, data: Logits) -> Ints:
        """The likeliest label of each row, as its column number."""
        if self.ratio is not None:
            return self.answers(data)[0]
        tops = tops_of(data)
        return top_labels(data) if tops is None else tops.indices[:, 0].astype(np.int64)

    def answers(self, data: Logits) -> tuple[Ints, Floats]:
        """The likeliest label of each row, and its probability."""
        tops = tops_of(data)
        if tops is not None and self.ratio is None:
            return self.labels(data), middle_confidences(tops, self.temperature)
        labels, confidence = np.empty(len(data), dtype=np.int64), np.empty(len(data))
        map_rows(data, _tops_of_block, [labels, confidence], fixed=[self])
        return labels, confidence


def _probabilities_of_block(block: Block, calibrated: Calibrated) -> tuple[Floats]:
    return (calibrated.of_block(block),)


def _tops_of_block(block: Block, calibrated: Calibrated) -> tuple[Ints, Floats]:
    return calibrated.tops(block)
