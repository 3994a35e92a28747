"""Loops of the library on plain arrays."""

from dataclasses import dataclass

import numpy as np

from thermoset.conformal import scoring
from thermoset.tuning.estimates import AROUND, Engine, Request, Sample, levels_between


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """An array as a source of rows: see `thermoset.rows.Source`."""

    logits: np.ndarray
    labels: np.ndarray | None = None
    engine: None = None

    @property
    def n_rows(self):
        return len(self.logits)

    @property
    def n_classes(self):
        return self.logits.shape[1]

    @property
    def dtype(self):
        return self.logits.dtype

    def blocks(self, step):
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            yield rows, self.logits[rows]


def label_scores(logits, own, score, temperature, randomness):
    return scoring.label_scores(ArrayRows(logits), own, score, [temperature], randomness)[0]


def score_matrix(logits, score, temperature, randomness):
    return scoring.score_matrix(ArrayRows(logits), score, temperature, randomness)


def predict_sets(logits, score, temperature, randomness, thresholds, groups=None):
    return scoring.predict_sets(ArrayRows(logits), score, temperature, randomness, thresholds, groups)


def predict_sizes(logits, score, temperature, randomness, thresholds, groups=None):
    return scoring.predict_sizes(ArrayRows(logits), score, temperature, randomness, thresholds, groups)


def estimates_of(data, recipe, temperatures, n_conformal=1000, even="class", factors=AROUND):
    """What the engine of a choice says of one candidate."""
    engine = Engine(Sample(data, even, recipe.random_state), temperatures, n_conformal)
    request = Request(recipe, temperatures, levels_between(recipe.alpha, factors))
    return engine.measure([request], float(temperatures[0]))[0][0]


def top_gaps(data, recipe, temperatures, even="class"):
    return Engine(Sample(data, even, recipe.random_state), temperatures, 1000).top_gaps(recipe, temperatures)
