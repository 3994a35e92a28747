"""Loops of the library on plain arrays."""

from thermoset.conformal import scoring
from thermoset.data import Logits
from thermoset.tuning.estimates import AROUND, Engine, Request, Sample, levels_between


def label_scores(logits, own, score, temperature, randomness):
    return scoring.label_scores(Logits.from_checked(logits), own, score, [temperature], randomness)[0]


def score_matrix(logits, score, temperature, randomness):
    return scoring.score_matrix(Logits.from_checked(logits), score, temperature, randomness)


def predict_sets(logits, score, temperature, randomness, thresholds, groups=None):
    return scoring.predict_sets(Logits.from_checked(logits), score, temperature, randomness, thresholds, groups)


def predict_sizes(logits, score, temperature, randomness, thresholds, groups=None):
    return scoring.predict_sizes(Logits.from_checked(logits), score, temperature, randomness, thresholds, groups)


def estimates_of(data, recipe, temperatures, n_conformal=1000, even="class", factors=AROUND):
    """What the engine of a choice says of one candidate."""
    engine = Engine(Sample(data, even, recipe.random_state), temperatures, n_conformal)
    request = Request(recipe, temperatures, levels_between(recipe.alpha, factors))
    return engine.measure([request], float(temperatures[0]))[0][0]


def top_gaps(data, recipe, temperatures, even="class"):
    return Engine(Sample(data, even, recipe.random_state), temperatures, 1000).top_gaps(recipe, temperatures)
