"""What decides the sets of a fitted predictor, made once from its document: every set comes from here."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.conformal.row_groups import RowThresholds
from thermoset.conformal.row_weights import own_weights
from thermoset.conformal.scoring import Scoring, sets_under, sizes_under, undecided_under
from thermoset.core.pool import for_blocks
from thermoset.core.row_context import FillRows, RowContext
from thermoset.core.row_sets import any_filler
from thermoset.core.scores import Score
from thermoset.core.sources import Block
from thermoset.core.thresholds import ScorePairs
from thermoset.core.top_rows import tops_of
from thermoset.data import Logits
from thermoset.predictor.artifact import Artifact
from thermoset.predictor.kept_weights import weighted_scores
from thermoset.predictor.members import Thresholds

__all__ = ["SetRule"]


class _Voice(NamedTuple):
    """A way of scoring with its thresholds, what makes sets of them, and the classes it may let in; None: all."""

    scoring: Scoring
    thresholds: ScorePairs
    fill: FillRows
    classes: list[int] | None


class SetRule:
    """One temperature with its thresholds, or several of which each may let in some classes (see `tuning.full`)."""

    def __init__(self, artifact: Artifact, score: Score) -> None:
        """Prepare what a document says, for the score that it names: that of a user cannot be found by its name."""
        members = [(one.temperature, one.thresholds, one.classes) for one in artifact.members]
        alone = [(artifact.temperature_sets, artifact.thresholds, None)]

        def voice(temperature: float, thresholds: Thresholds, classes: tuple[int, ...] | None) -> _Voice:
            scoring = Scoring(score, temperature, artifact.seed)
            pairs = thresholds.pairs() if self._by_row is None else self._by_row.table[0]
            pairs = pairs if self._weighted is None else self._weighted.table
            by_row = self._by_row is not None or self._weighted is not None
            fill = any_filler(score, temperature, pairs[None], by_row=by_row)
            return _Voice(scoring, pairs, fill, None if classes is None else list(classes))

        self._made_of, self._by_row = (artifact, score), _row_thresholds(artifact)
        self._weighted, self._alpha = weighted_scores(artifact), artifact.alpha_sets
        self._voices = [voice(*one) for one in members or alone]

    def __reduce__(self) -> tuple[type, tuple[Artifact, Score]]:
        return SetRule, self._made_of

    def context(self, data: Logits, ids: Any = None, weights: Any = None) -> RowContext:
        """What sets depend on beside logits: u, and the row's group or weight; the same for all temperatures."""
        return RowContext(self._voices[0].scoring.randomness(None, len(data), ids), self._codes(data, weights))

    def _codes(self, data: Logits, weights: Any) -> NDArray[np.int64] | None:
        """Which threshold each row has, where that depends on its group or its weight."""
        own = own_weights(self._weighted, weights, len(data))
        if self._weighted is not None and own is not None:
            return self._weighted.places(own, self._alpha)
        return None if self._by_row is None else self._by_row.codes(data, "a predictor with grouping='group'")

    def fill(self, block: Block, context: RowContext, out: NDArray[np.bool_]) -> None:
        """Fill the sets (n, C) of a block of rows: a label is in if a temperature that may speak for it lets it in."""
        voices = self._voices
        if len(voices) == 1:
            voices[0].fill(block, context, out[None])
            return
        out[:] = False
        for voice in voices:
            sets = np.empty((1, *out.shape), dtype=np.bool_)
            voice.fill(block, context, sets)
            columns: Any = slice(None) if voice.classes is None else voice.classes
            out[:, columns] |= sets[0][:, columns]

    def sets(self, data: Logits, ids: Any = None, weights: Any = None) -> NDArray[np.bool_]:
        """Sets of all rows, (n, C)."""
        if tops_of(data) is not None:
            return self._wide_sets(data, ids, weights)
        sets, context = np.empty((len(data), data.n_classes), dtype=np.bool_), self.context(data, ids, weights)
        for_blocks(data, lambda block, place: self.fill(block, context.rows(place), sets[place]))
        return sets

    def _wide_sets(self, data: Logits, ids: Any, weights: Any) -> NDArray[np.bool_]:
        """The same for rows that are not whole: a block of logits does not tell what is known of the others."""
        sets, codes = np.zeros((len(data), data.n_classes), dtype=np.bool_), self._codes(data, weights)
        for voice in self._voices:
            found = sets_under(data, voice.scoring, voice.thresholds[None], ids=ids, codes=codes)[0]
            columns: Any = slice(None) if voice.classes is None else voice.classes
            sets[:, columns] |= found[:, columns]
        return sets

    def undecided(self, data: Logits, ids: Any = None, weights: Any = None) -> NDArray[np.bool_]:
        """Rows (n,) with labels that are in because rows which are not whole do not tell."""
        undecided, codes = np.zeros(len(data), dtype=np.bool_), self._codes(data, weights)
        for voice in self._voices:
            undecided |= undecided_under(data, voice.scoring, voice.thresholds, ids=ids, codes=codes)
        return undecided

    def sizes(self, data: Logits, ids: Any = None, weights: Any = None) -> NDArray[np.int64]:
        """Set sizes (n,); the sets are not formed where a threshold serves all classes."""
        first, *others = self._voices
        if others:
            counts: NDArray[np.int64] = self.sets(data, ids, weights).sum(axis=1)
            return counts
        return sizes_under(data, first.scoring, first.thresholds, ids=ids, codes=self._codes(data, weights))


def _row_thresholds(artifact: Artifact) -> RowThresholds | None:
    """The thresholds by group of rows, where there are such."""
    if artifact.group_names is None:
        return None
    other = artifact.fallback_threshold
    table = artifact.thresholds.pairs()[None]
    return RowThresholds.of(artifact.group_names, table, None if other is None else other.pairs()[None])
