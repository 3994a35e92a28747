"""What each row says about a predictor: a few numbers per row, enough for every finding of a check."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thermoset.arrays import Bools, Floats, Ints
from thermoset.errors import InputError
from thermoset.metrics.counts import check_labels, check_sets
from thermoset.metrics.probabilities import brier_terms, check_probs

__all__ = ["RowFacts", "facts_of", "row_facts"]


class RowFacts(NamedTuple):
    """Arrays (n,).

    size : labels in the set; hit : whether the row's label is one of them; correct : whether it is the likeliest;
    confidence : probability of the likeliest; own : probability of the label; distance : squared distance of the
    probabilities from the label.
    """

    size: Ints
    hit: Bools
    correct: Bools
    confidence: Floats
    own: Floats
    distance: Floats

    @classmethod
    def empty(cls, n_rows: int) -> "RowFacts":
        """Room for the facts of so many rows."""
        hit, correct = np.empty((2, n_rows), dtype=np.bool_)
        return cls(np.empty(n_rows, dtype=np.int64), hit, correct, *np.empty((3, n_rows)))


def row_facts(sets: Bools, probs: NDArray[np.floating], labels: Ints) -> RowFacts:
    """The facts of some rows from their sets and probabilities, (n, C) each."""
    row = np.arange(len(labels))
    return RowFacts(
        size=np.count_nonzero(sets, axis=1),
        hit=sets[row, labels],
        correct=probs.argmax(axis=1) == labels,
        confidence=np.minimum(probs.max(axis=1), 1).astype(np.float64),
        own=probs[row, labels].astype(np.float64),
        distance=brier_terms(probs, labels),
    )


def facts_of(sets: ArrayLike, probs: ArrayLike, labels: ArrayLike) -> tuple[RowFacts, Ints]:
    """The facts of rows from a user's sets, probabilities and labels, and the labels; all are validated.

    >>> facts, _ = facts_of([[True, False]], [[0.75, 0.25]], labels=[1])
    >>> facts.size.tolist(), facts.hit.tolist(), facts.own.tolist(), facts.distance.tolist()  # 2 (3/4)^2
    ([1], [False], [0.25], [1.125])
    """
    inside, table = check_sets(sets), check_probs(probs)
    truth = check_labels(labels, inside.shape[1], len(inside))
    if table.shape != inside.shape:
        raise InputError(
            f"sets and probs must have the same shape (rows, classes); got {inside.shape} and {table.shape}. "
            "Pass both for the same rows."
        )
    return row_facts(inside, table, truth), truth
