"""Functions of rows, on plain arrays."""

import numpy as np

from thermoset.conformal import scoring
from thermoset.rows import ArrayRows, SortedRows


def label_scores(logits, own, score, temperature, randomness):
    return scoring.label_scores(ArrayRows(logits), own, score, [temperature], randomness)[0]


def score_matrix(logits, score, temperature, randomness):
    return scoring.score_matrix(ArrayRows(logits), score, temperature, randomness)


def prefix_sizes(logits, score, temperature, randomness, thresholds):
    """Sizes (levels, n) under thresholds (levels,)."""
    return scoring.predict_sizes(ArrayRows(logits), score, temperature, randomness, thresholds[:, None, None], None)


def prefix_sets(logits, score, temperature, randomness, thresholds):
    """Sets (levels, n, C) under thresholds (levels,)."""
    return scoring.predict_sets(ArrayRows(logits), score, temperature, randomness, thresholds[:, None, None], None)


def class_sets(logits, score, temperature, randomness, thresholds):
    """Sets (levels, n, C) under thresholds by class (levels, C)."""
    return scoring.predict_sets(ArrayRows(logits), score, temperature, randomness, thresholds[:, None], None)


def same_bits(one, other):
    return np.array_equal(one, other, equal_nan=False) and one.tobytes() == other.tobytes()


def in_closed_form(data, *rest):
    from thermoset.tuning import closed_form

    return closed_form.in_closed_form(SortedRows(ArrayRows(data.logits)), data, *rest)


def top_gaps(data, *rest):
    from thermoset.tuning import held_out

    return held_out.top_gaps(SortedRows(ArrayRows(data.logits)), data, *rest)
