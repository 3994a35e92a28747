"""Whether fresh labelled rows keep what a fitted predictor promised."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from thermoset.arrays import Block, Floats, Ints
from thermoset.conformal.recipe import Recipe
from thermoset.data import Logits
from thermoset.data.top_rows import tops_of
from thermoset.data.weights import checked_weights
from thermoset.metrics.probabilities import N_BINS, BinCounts, add_bins, calibration_of_bins, no_bins
from thermoset.monitor.checking import CheckReport, Promise, RowFacts, check_facts, row_facts
from thermoset.predictor.any_level import calibration_scores
from thermoset.predictor.document import Document
from thermoset.predictor.sets import CalibratedSoftmax, Inference, RowSets
from thermoset.rows import block_rows, map_rows, sum_rows

__all__ = ["judged", "promise_of"]


def promise_of(made: Document, recipe: Recipe) -> Promise:
    """What coverage was promised, and by how many rows.

    Weighted rows have no exact law. Coverage then scatters about as much as with so many rows of equal weight as say
    the same, and these are given.
    """
    return Promise(
        alpha=made.alpha,
        pool_sizes=np.array(made.pool_sizes),
        grouping=made.grouping,
        exact=recipe.exact and made.is_plain and not made.is_weighted and not made.provenance.top_rows,
        group_of_class=None if made.group_of_class is None else np.array(made.group_of_class),
        group_names=made.group_names,
        effective_rows=_effective_rows(made, recipe),
    )


def _effective_rows(made: Document, recipe: Recipe) -> float | None:
    """How many rows of equal weight coverage scatters as with; None where all have the same."""
    if made.weights is not None:
        return calibration_scores(made, recipe.set_score).scatter_rows(made.alpha)
    return None if made.shift is None else made.shift.effective_rows


def _facts_of_block(block: Block, labels: Ints, sets: RowSets, softmax: CalibratedSoftmax) -> RowFacts:
    return row_facts(sets.of_block(block), softmax.of_block(block), labels)


def _add_bins(block: Block, bins: BinCounts, labels: Ints, softmax: CalibratedSoftmax) -> None:
    add_bins(softmax.of_block(block), labels, bins)


def judged(
    data: Logits,
    labels: Ints,
    made: Document,
    recipe: Recipe,
    fail_on: str | Iterable[str],
    weights: Any = None,
) -> CheckReport:
    """The sets and the confidence that a predictor gives these rows, against their labels."""
    rule, facts, whole = Inference(made, recipe.score), RowFacts.empty(len(data)), tops_of(data) is None
    if whole:
        per_row = [labels, rule.rows(data, None, weights)]
        map_rows(data, _facts_of_block, facts, per_row=per_row, fixed=[rule.softmax])
        zero = partial(no_bins, data.n_classes, N_BINS)
        bins = BinCounts(*sum_rows(data, _add_bins, zero, per_row=[labels], fixed=[rule.softmax]))
    else:
        bins = no_bins(data.n_classes, N_BINS)
        own = None if weights is None else checked_weights(weights, len(data))
        _fill_facts(data, labels, (rule, own), facts, bins)
    promise = promise_of(made, recipe)
    held = promise if whole else replace(promise, exact=False)
    found = check_facts(
        facts,
        labels,
        data.n_classes,
        held,
        fail_on=fail_on,
        class_names=made.classes,
        groups=data.groups,
        classwise=calibration_of_bins(bins),
    )
    return found if whole else replace(found, undecided=int(rule.undecided(data, None, weights).sum()))


def _fill_facts(
    data: Logits,
    labels: Ints,
    how: tuple[Inference, Floats | None],
    facts: RowFacts,
    bins: BinCounts,
) -> None:
    """The facts of rows that are not whole: sets by their bounds, probabilities as completed rows have them."""
    (rule, weights), step = how, block_rows(data.n_classes)
    for start in range(0, len(data), step):
        place = slice(start, min(start + step, len(data)))
        some = data.take(place)
        probs = rule.probabilities(some)
        add_bins(probs, labels[place], bins)
        own = None if weights is None else weights[place]
        found = row_facts(rule.sets(some, None, own), probs, labels[place])
        for whole, part in zip(facts, found, strict=True):
            whole[place] = part
