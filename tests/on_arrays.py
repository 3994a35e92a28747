"""The stages of the core, on plain arrays."""

from thermoset.core.thresholds import ScorePairs

from thermoset.core import general, prefixes
from thermoset.rows import ArrayRows, SortedRows
from thermoset.tuning import closed_form, held_out


def label_scores(logits, own, score, temperature, randomness):
    return general.label_scores(ArrayRows(logits), own, score, [temperature], randomness)[0]


def score_matrix(logits, score, temperature, randomness):
    return general.score_matrix(ArrayRows(logits), score, temperature, randomness)


def class_sets(logits, score, temperature, randomness, thresholds):
    return general.sets_of(ArrayRows(logits), score, temperature, randomness, thresholds)


def prefix_sizes(logits, score, temperature, randomness, thresholds):
    return prefixes.prefix_sizes(ArrayRows(logits), score, temperature, randomness, thresholds)


def prefix_sets(logits, score, temperature, randomness, thresholds):
    one = ScorePairs(thresholds.value[:, None], thresholds.refine[:, None])
    return general.sets_of(ArrayRows(logits), score, temperature, randomness, one)


def in_closed_form(data, *rest):
    return closed_form.in_closed_form(SortedRows(ArrayRows(data.logits)), data, *rest)


def top_gaps(data, *rest):
    return held_out.top_gaps(SortedRows(ArrayRows(data.logits)), data, *rest)
