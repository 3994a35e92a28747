"""The confidence branch of a predictor: probabilities at T*, for the class shares of the rows to be predicted.

Under label shift the probability of y is p(y) r(y) / sum_j p(j) r(j), with p the softmax at T* and r = target share /
source share; the likeliest label may then be another than that of the largest logit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block, Floats, Ints, as_float64
from thermoset.conformal.bounds import middle_confidences
from thermoset.core.pool import for_blocks
from thermoset.data import Logits
from thermoset.data.top_rows import tops_of
from thermoset.kernels import confidences, softmax
from thermoset.predictor.artifact import Artifact
from thermoset.predictor.label_shift import ratios_of
from thermoset.rows import top_labels

__all__ = ["Calibrated"]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """T*, and target share / source share of each class (C,); None where shares have not changed."""

    temperature: float
    ratio: Floats | None = None

    @classmethod
    def of(cls, made: Artifact) -> "Calibrated":
        """That of a document."""
        ratio = None if made.shift is None else ratios_of(made.shift)
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
            return block.argmax(axis=1), confidences(as_float64(block), np.array([self.temperature]))[0]
        probs = self.of_block(block)
        labels = probs.argmax(axis=1)
        return labels, probs[np.arange(len(probs)), labels]

    def probabilities(self, data: Logits) -> NDArray[np.float64]:
        """Probabilities of rows, (n, C); of those that are not whole, as completed rows have them."""
        probs = np.empty((len(data), data.n_classes))

        def work(block: Block, place: slice) -> None:
            probs[place] = self.of_block(block)

        for_blocks(data, work)
        return probs

    def labels(self, data: Logits) -> NDArray[np.int64]:
        """The likeliest label of each row, as its column number."""
        if self.ratio is not None:
            return self.answers(data)[0]
        tops = tops_of(data)
        return top_labels(data) if tops is None else tops.indices[:, 0].astype(np.int64)

    def answers(self, data: Logits) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The likeliest label of each row, and its probability."""
        tops = tops_of(data)
        if tops is not None and self.ratio is None:
            return self.labels(data), middle_confidences(tops, self.temperature)
        labels, confidence = np.empty(len(data), dtype=np.int64), np.empty(len(data))

        def work(block: Block, place: slice) -> None:
            labels[place], confidence[place] = self.tops(block)

        for_blocks(data, work)
        return labels, confidence
