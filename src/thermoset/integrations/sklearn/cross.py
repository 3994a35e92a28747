"""Cross-conformal sets: every row sets the threshold, judged by a model that has not seen it.

The rule of CV+ for classification (Romano, Sesia and Candès 2020; Vovk 2015): with s_i the score of row i under the
model fitted without its fold, label y enters the set of x if

    #{ i : s_i < s(x, y) under the model fitted without the fold of i }  <  (1 - alpha)(n + 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Pairs
from thermoset.calibration import TemperatureScaler, probabilities
from thermoset.conformal import Scoring
from thermoset.conformal.recipe import Recipe
from thermoset.conformal.scoring import label_scores, score_matrix
from thermoset.data import Logits
from thermoset.integrations.sklearn.folds import Fold
from thermoset.levels import conformal_rank
from thermoset.tuning import Choice, choose

__all__ = ["CrossSets", "Wanted", "cross_sets"]


@dataclass(frozen=True)
class CrossSets:
    """What makes cross-conformal sets, but for the models: the label scores of each fold, in rising order.

    `rank` is k = ceil((n + 1)(1 - alpha)): a label enters while fewer than k of the n scores lie below its own.
    """

    scores: tuple[Pairs, ...]
    scoring: Scoring
    rank: int
    temperature_: float
    choice_: Choice

    @property
    def temperature_sets_(self) -> float:
        """T-hat; this and the others have the names that a predictor gives them."""
        return self.scoring.temperature

    @property
    def n_rows(self) -> int:
        """How many rows decide."""
        return sum(map(len, self.scores))

    def predict(self, data: Logits) -> NDArray[np.int64]:
        """The most likely label of each row, as its column number."""
        return np.asarray(data.logits.argmax(axis=1))

    def predict_proba(self, data: Logits) -> NDArray[np.float64]:
        """The softmax at T*, (n, C)."""
        return probabilities(data, self.temperature_)

    def sets(self, by_model: Sequence[Logits], ids: Any = None) -> NDArray[np.bool_]:
        """Sets (n, C) from the logits that each fold's model gives the rows."""
        below = np.zeros(by_model[0].logits.shape, dtype=np.int64)
        for scores, data in zip(self.scores, by_model, strict=True):
            own = self.scoring
            found = score_matrix(data, own.score, own.temperature, own.randomness(None, len(data), ids))
            below += np.searchsorted(scores, found, side="left")
        return below < self.rank


class Wanted(NamedTuple):
    """What temperatures are chosen for; see `TwoTemperaturePredictor`."""

    recipe: Recipe
    prefer: str
    objective: Literal["nll", "ece"]


def cross_sets(data: Logits, folds: Sequence[Fold], wanted: Wanted, ids: Any = None) -> CrossSets:
    """Both temperatures and the scores of all rows, from their out-of-fold logits."""
    recipe = wanted.recipe
    best = float(TemperatureScaler(wanted.objective).fit(data).temperature_)
    choice = choose(data, recipe, prefer=wanted.prefer, calibrated=best, n_conformal=len(data))
    scoring = Scoring.of(recipe.change(temperature=choice.temperature))
    (scores,) = label_scores(
        data,
        data.require_labels("cross-conformal sets"),
        scoring.score,
        [scoring.temperature],
        scoring.randomness(None, len(data), ids),
    )
    rank = conformal_rank(len(data), choice.setting.alpha)
    return CrossSets(tuple(np.sort(scores[fold.test]) for fold in folds), scoring, rank, best, choice)
