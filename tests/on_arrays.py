"""Loops of the library on plain arrays."""

from thermoset.conformal import scoring
from thermoset.rows import ArrayRows, SortedRows
from thermoset.tuning import closed_form, held_out


def label_scores(logits, own, score, temperature, randomness):
    return scoring.label_scores(ArrayRows(logits), own, score, [temperature], randomness)[0]


def score_matrix(logits, score, temperature, randomness):
    return scoring.score_matrix(ArrayRows(logits), score, temperature, randomness)


def predict_sets(logits, score, temperature, randomness, thresholds, groups=None):
    return scoring.predict_sets(ArrayRows(logits), score, temperature, randomness, thresholds, groups)


def predict_sizes(logits, score, temperature, randomness, thresholds, groups=None):
    return scoring.predict_sizes(ArrayRows(logits), score, temperature, randomness, thresholds, groups)


def in_closed_form(data, *rest):
    return closed_form.in_closed_form(SortedRows(ArrayRows(data.logits)), data, *rest)


def top_gaps(data, *rest):
    return held_out.top_gaps(SortedRows(ArrayRows(data.logits)), data, *rest)
