"""What decides the sets of a fitted predictor, made once from its document: every set comes from here."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thermoset.arrays import Block, Bools, Ints, Pairs
from thermoset.conformal.calibration_scores import CalibrationScores, group_codes, own_weights
from thermoset.conformal.scoring import Scoring, block_sets, predict_sets, predict_sizes, undecided_rows
from thermoset.data import Logits
from thermoset.predictor.any_level import calibration_scores
from thermoset.predictor.document import Document
from thermoset.scores import Score
from thermoset.uniforms import Randomness

__all__ = ["RowSets", "SetRule"]


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


@dataclass(frozen=True, eq=False)
class SetRule:
    """A temperature and its thresholds (1, G, K): one, or one for each class or group of rows.

    `weighted` are the calibration scores, where a row's threshold depends on its own weight. Rows of groups without a
    threshold have the last one, if there is a fallback.
    """

    scoring: Scoring
    alpha: str
    thresholds: Pairs
    group_names: tuple[str, ...] | None
    falls_back: bool
    weighted: CalibrationScores | None

    @classmethod
    def of(cls, made: Document, score: Score) -> "SetRule":
        """What a document says, for the score that it names: that of a user cannot be found by its name."""
        scoring, thresholds = Scoring(score, made.temperature_sets, made.seed), made.thresholds.pairs()
        if (other := made.fallback_threshold) is not None:
            thresholds = np.concatenate([thresholds, other.pairs()])
        table = thresholds[None, None, :] if made.group_names is None else thresholds[None, :, None]
        weighted = None if made.weights is None else calibration_scores(made, score)
        return cls(scoring, made.alpha_sets, table, made.group_names, other is not None, weighted)

    def rows(self, data: Logits, ids: Any = None, weights: Any = None) -> RowSets:
        """How the sets of these rows are made, by their ids, groups and weights."""
        table, groups, scores = self.thresholds, None, self.weighted
        own = own_weights(None if scores is None else scores.weights, weights, len(data))
        if scores is not None and own is not None:
            table, groups = scores.weighted_thresholds(own, [self.alpha])
        if self.group_names is not None:
            groups = group_codes(data, self.group_names, self.falls_back, "a predictor with grouping='group'")
        return RowSets(self.scoring, self.scoring.randomness(None, len(data), ids), table, groups)

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
        return predict(data, at.scoring.score, at.scoring.temperature, at.randomness, at.thresholds, at.groups)[0]
