"""What decides the sets of a fitted predictor, made once from its document: every set comes from here."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Block
from thermoset.conformal.calibration_scores import own_weights
from thermoset.conformal.row_groups import RowThresholds
from thermoset.conformal.scoring import Scoring, sets_under, sizes_under, undecided_under
from thermoset.core.pool import for_blocks
from thermoset.core.row_context import RowContext
from thermoset.core.row_sets import any_filler
from thermoset.data import Logits
from thermoset.data.top_rows import tops_of
from thermoset.predictor.artifact import Artifact
from thermoset.predictor.kept_weights import weighted_scores
from thermoset.scores import Score

__all__ = ["SetRule"]


class SetRule:
    """A temperature and its thresholds: one, or one for each class, group of rows or weight."""

    def __init__(self, artifact: Artifact, score: Score) -> None:
        """Prepare what a document says, for the score that it names: that of a user cannot be found by its name."""
        self._made_of, self._alpha = (artifact, score), artifact.alpha_sets
        self._by_row, self._weighted = _row_thresholds(artifact), weighted_scores(artifact)
        self._scoring = Scoring(score, artifact.temperature_sets, artifact.seed)
        if self._weighted is not None:
            self._thresholds = self._weighted.table
        else:
            self._thresholds = artifact.thresholds.pairs() if self._by_row is None else self._by_row.table[0]
        by_row = self._by_row is not None or self._weighted is not None
        self._fill = any_filler(score, artifact.temperature_sets, self._thresholds[None], by_row=by_row)

    def __reduce__(self) -> tuple[type, tuple[Artifact, Score]]:
        return SetRule, self._made_of

    def context(self, data: Logits, ids: Any = None, weights: Any = None) -> RowContext:
        """What sets depend on beside logits: u, and the row's group or weight."""
        return RowContext(self._scoring.randomness(None, len(data), ids), self._codes(data, weights))

    def _codes(self, data: Logits, weights: Any) -> NDArray[np.int64] | None:
        """Which threshold each row has, where that depends on its group or its weight."""
        own = own_weights(self._weighted, weights, len(data))
        if self._weighted is not None and own is not None:
            return self._weighted.places(own, self._alpha)
        return None if self._by_row is None else self._by_row.codes(data, "a predictor with grouping='group'")

    def fill(self, block: Block, context: RowContext, out: NDArray[np.bool_]) -> None:
        """Fill the sets (n, C) of a block of rows."""
        self._fill(block, context, out[None])

    def sets(self, data: Logits, ids: Any = None, weights: Any = None) -> NDArray[np.bool_]:
        """Sets of all rows, (n, C)."""
        if tops_of(data) is not None:  # a block of logits does not tell what is known of the others
            codes = self._codes(data, weights)
            wide: NDArray[np.bool_] = sets_under(data, self._scoring, self._thresholds[None], ids=ids, codes=codes)[0]
            return wide
        sets, context = np.empty((len(data), data.n_classes), dtype=np.bool_), self.context(data, ids, weights)
        for_blocks(data, lambda block, place: self.fill(block, context.rows(place), sets[place]))
        return sets

    def undecided(self, data: Logits, ids: Any = None, weights: Any = None) -> NDArray[np.bool_]:
        """Rows (n,) with labels that are in because rows which are not whole do not tell."""
        codes = self._codes(data, weights)
        return undecided_under(data, self._scoring, self._thresholds, ids=ids, codes=codes)

    def sizes(self, data: Logits, ids: Any = None, weights: Any = None) -> NDArray[np.int64]:
        """Set sizes (n,); the sets are not formed where a threshold serves all classes."""
        return sizes_under(data, self._scoring, self._thresholds, ids=ids, codes=self._codes(data, weights))


def _row_thresholds(artifact: Artifact) -> RowThresholds | None:
    """The thresholds by group of rows, where there are such."""
    if artifact.group_names is None:
        return None
    other = artifact.fallback_threshold
    table = artifact.thresholds.pairs()[None]
    return RowThresholds.of(artifact.group_names, table, None if other is None else other.pairs()[None])
