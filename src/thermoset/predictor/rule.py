"""What decides the sets of a fitted predictor, made once from its document: every set comes from here."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.scoring import Scoring, sizes_under
from thermoset.core.general import filler
from thermoset.core.pool import for_blocks
from thermoset.core.scores import Score
from thermoset.core.sources import ArrayRows, Block
from thermoset.core.thresholds import ScorePairs
from thermoset.core.uniforms import FillSets, Randomness
from thermoset.data import Logits
from thermoset.predictor.artifact import Artifact
from thermoset.predictor.members import Thresholds

__all__ = ["SetRule"]


class _Voice(NamedTuple):
    """A way of scoring with its thresholds, what makes sets of them, and the classes it may let in; None: all."""

    scoring: Scoring
    thresholds: ScorePairs
    fill: FillSets
    classes: list[int] | None


class SetRule:
    """One temperature with its thresholds, or several of which each may let in some classes (see `tuning.full`)."""

    def __init__(self, artifact: Artifact, score: Score) -> None:
        """Prepare what a document says, for the score that it names: that of a user cannot be found by its name."""
        members = [(one.temperature, one.thresholds, one.classes) for one in artifact.members]
        alone = [(artifact.temperature_sets, artifact.thresholds, None)]

        def voice(temperature: float, thresholds: Thresholds, classes: tuple[int, ...] | None) -> _Voice:
            scoring, pairs = Scoring(score, temperature, artifact.seed, artifact.scheme), thresholds.pairs()
            fill = filler(score, temperature, pairs[None])
            return _Voice(scoring, pairs, fill, None if classes is None else list(classes))

        self._made_of = artifact, score
        self._voices = [voice(*one) for one in members or alone]

    def __reduce__(self) -> tuple[type, tuple[Artifact, Score]]:
        return SetRule, self._made_of

    def randomness(self, n_rows: int, ids: Any = None) -> Randomness:
        """Where the rows' u come from: the same for all temperatures."""
        return self._voices[0].scoring.randomness(None, n_rows, ids)

    def fill(self, block: Block, place: slice, randomness: Randomness, out: NDArray[np.bool_]) -> None:
        """Fill the sets (n, C) of a block of rows: a label is in if a temperature that may speak for it lets it in."""
        voices = self._voices
        if len(voices) == 1:
            voices[0].fill(block, place, randomness, out[None])
            return
        out[:] = False
        for voice in voices:
            sets = np.empty((1, *out.shape), dtype=np.bool_)
            voice.fill(block, place, randomness, sets)
            columns: Any = slice(None) if voice.classes is None else voice.classes
            out[:, columns] |= sets[0][:, columns]

    def sets(self, data: Logits, ids: Any = None) -> NDArray[np.bool_]:
        """Sets of all rows, (n, C)."""
        sets, randomness = np.empty(data.logits.shape, dtype=np.bool_), self.randomness(len(data), ids)
        for_blocks(ArrayRows(data.logits), lambda block, place: self.fill(block, place, randomness, sets[place]))
        return sets

    def sizes(self, data: Logits, ids: Any = None) -> NDArray[np.int64]:
        """Set sizes (n,); the sets are not formed where one threshold serves all classes."""
        first, *others = self._voices
        if others:
            counts: NDArray[np.int64] = self.sets(data, ids).sum(axis=1)
            return counts
        return sizes_under(data, first.scoring, first.thresholds, ids=ids)
