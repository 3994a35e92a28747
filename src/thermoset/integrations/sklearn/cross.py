"""Cross-conformal sets: every row sets the threshold, judged by a model that has not seen it.

The rule of CV+ for classification (Romano, Sesia and Candès 2020; Vovk 2015): with s_i the score of row i under the
model fitted without its fold, label y enters the set of x if

    #{ i : s_i < s(x, y) under the model fitted without the fold of i }  <  (1 - alpha)(n + 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Ints, Pairs
from thermoset.calibration import TemperatureScaler, probabilities
from thermoset.conformal import Scoring
from thermoset.conformal.recipe import Recipe
from thermoset.conformal.scoring import label_scores, score_matrix
from thermoset.data import Logits
from thermoset.levels import Alpha, conformal_rank, exact_level
from thermoset.tuning import Choice, choose


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


def cross_sets(
    data: Logits, parts: Sequence[Ints], recipe: Recipe, prefer: str, objective: Literal["nll", "ece"], ids: Any = None
) -> CrossSets:
    """Temperatures and scores of all rows, from their out-of-fold logits; `parts` are the rows of each fold."""
    best = float(TemperatureScaler(objective).fit(data).temperature_)
    choice = choose(data, recipe, prefer=prefer, calibrated=best, n_conformal=len(data))
    scoring = Scoring.of(recipe.change(temperature=choice.temperature))
    (scores,) = label_scores(
        data,
        data.require_labels("cross-conformal sets"),
        scoring.score,
        [scoring.temperature],
        scoring.randomness(None, len(data), ids),
    )
    rank = conformal_rank(len(data), choice.setting.alpha)
    return CrossSets(tuple(np.sort(scores[rows]) for rows in parts), scoring, rank, best, choice)


def cross_bound(n_rows: int, n_folds: int, alpha: Alpha) -> float:
    """The coverage that CV+ promises for n rows in K equal folds.

    1 - 2 alpha - min{ 2 (1 - 1/K) / (n/K + 1), (1 - K/n) / (K + 1) } (Barber et al. 2021, theorem 4; Romano, Sesia and
    Candès 2020 for classification), and never below 0.
    """
    n, folds = Fraction(n_rows), Fraction(n_folds)
    slack = min(2 * (1 - 1 / folds) / (n / folds + 1), (1 - folds / n) / (folds + 1))
    return max(0.0, float(1 - 2 * exact_level(alpha) - slack))


def cross_promise(n_rows: int, n_folds: int, alpha: Alpha) -> str:
    """The promise of cross-conformal sets."""
    bound, level = cross_bound(n_rows, n_folds, alpha), float(1 - exact_level(alpha))
    return (
        f"For new rows like those of fit, a set contains the true label with probability at least {bound:.4g}, and in "
        f"practice about {level:.6g}: cross-conformal sets (CV+) from {n_rows} rows in {n_folds} random folds of equal "
        "size. The theorem takes the two temperatures as given; here they were chosen from the same rows, which it "
        "does not cover."
    )
