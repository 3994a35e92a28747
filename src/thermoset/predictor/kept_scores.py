"""The label scores of the conformal rows in a predictor's file: for p-values, and for other levels without the rows.

Scores are sorted within their pools, so neighbours are close. A float64 is read as a whole number in the same order,
and those are packed (`packing`): 12 to 14 bytes a row instead of 16, a third more as the base64 of JSON. Where one
threshold serves all classes, the label of each score is kept too, in as few bytes as the number of classes needs:
thresholds for other class shares weigh scores by their labels.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np

from thermoset.arrays import Floats, Ints, Keys, Pairs
from thermoset.arrays import pairs as as_pairs
from thermoset.conformal.groupings import NULL_GROUP
from thermoset.errors import FileFormatError
from thermoset.levels import Alpha, conformal_rank
from thermoset.predictor.packing import packed, unpacked

__all__ = [
    "KEPT_BY_DEFAULT",
    "MOST_KEPT",
    "GroupRows",
    "KeptScores",
    "broken_scores",
    "group_rows",
    "plain_threshold",
]

KEPT_BY_DEFAULT = 1_000_000
"""Conformal rows up to which `save` writes scores unless it is told."""

MOST_KEPT = 10_000_000
"""Conformal rows up to which scores can be kept at all: some 170 MB of JSON."""

_SIGN = np.uint64(1 << 63)


class KeptScores(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Scores as pairs, sorted within groups of classes that follow each other; base64 in JSON."""

    value: bytes
    refine: bytes
    labels: bytes | None = None

    @classmethod
    def of(cls, scores: Pairs, group: Ints, labels: Ints | None = None, n_classes: int | None = None) -> "KeptScores":
        """Scores of rows of these groups, in any order, with or without their labels among so many classes.

        >>> kept = KeptScores.of(as_pairs([0.5, 0.25], [-1.0, np.inf]), np.array([0, 0]))
        >>> kept.pairs(2).real, kept.pairs(2).imag
        (array([0.25, 0.5 ]), array([inf, -1.]))
        """
        own = np.zeros(len(group), dtype=np.int64) if labels is None else labels
        order = np.lexsort((own, scores.imag, scores.real, group))
        kept = None if labels is None or n_classes is None else labels[order].astype(_label_type(n_classes)).tobytes()
        value, refine = (packed(_ordered(part[order])) for part in (scores.real, scores.imag))
        return cls(value=value, refine=refine, labels=kept)

    def pairs(self, n_rows: int) -> Pairs:
        """The scores of so many rows, (n,)."""
        return as_pairs(*(_floats(unpacked(part, n_rows, MOST_KEPT, "scores")) for part in (self.value, self.refine)))

    def own_labels(self, n_rows: int, n_classes: int) -> Ints | None:
        """The label of each score, (n,); None where they are not kept.

        >>> scores = as_pairs([0.5, 0.25], 0.0)
        >>> KeptScores.of(scores, np.zeros(2, np.int64), np.array([7, 3]), 10).own_labels(2, 10)
        array([3, 7])
        """
        if self.labels is None:
            return None
        kind = _label_type(n_classes)
        if len(self.labels) != n_rows * kind.itemsize:
            raise FileFormatError(f"is not a usable predictor: labels of scores must be those of {n_rows:,} rows.")
        found = np.frombuffer(self.labels, kind).astype(np.int64)
        if found.max(initial=0) >= n_classes:
            raise FileFormatError("is not a usable predictor: labels of scores must be columns.")
        return found


def _label_type(n_classes: int) -> np.dtype[Any]:
    """The narrowest type that holds every label."""
    return np.min_scalar_type(n_classes - 1).newbyteorder("<")


def _ordered(values: Floats) -> Keys:
    """Floats as whole numbers in the same order."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)


def _floats(numbers: Keys) -> Floats:
    return np.where(numbers >= _SIGN, numbers ^ _SIGN, ~numbers).view(np.float64)


class GroupRows(NamedTuple):
    """How many conformal rows each group has, of classes or of rows, and where its threshold is; as scores are kept."""

    group: Ints
    rows: Ints
    place: Ints


def group_rows(pool_sizes: Sequence[int], group_of_class: Sequence[int] | None) -> GroupRows:
    """As the fields of a document say it; the pool of the null group has the rows of all groups.

    >>> group_rows((7, 3, 7, 2, 3), (-1, 0, -1, 1, 0)).rows  # classes 0 and 2 have 7 - 3 - 2 rows
    array([2, 3, 2])
    """
    groups = np.zeros(len(pool_sizes), dtype=np.int64) if group_of_class is None else np.array(group_of_class)
    group, place = np.unique(groups, return_index=True)
    count = np.array(pool_sizes, dtype=np.int64)[place]
    if group[0] == NULL_GROUP:
        count[0] -= count[1:].sum()
    return GroupRows(group, count, place)


def plain_threshold(scores: Pairs, alpha: Alpha) -> Pairs:
    """The threshold of scores that count alike, (1,).

    >>> plain_threshold(as_pairs([0.3, 0.1, 0.2], 0.0), 0.5).real.tolist(), plain_threshold(as_pairs([0.3], 0.0), 0.1)
    ([0.2], array([inf+infj]))
    """
    k = conformal_rank(len(scores), alpha)
    return np.partition(scores, k - 1)[k - 1 : k] if k <= len(scores) else as_pairs([np.inf], [np.inf])


def broken_scores(kept: KeptScores, rows: GroupRows, thresholds: Pairs, alpha: Alpha) -> Iterator[tuple[str, bool]]:
    """What scores must be, and whether they are not; thresholds are those of the groups' classes."""
    yield "pool_sizes must add up", bool((rows.rows < 0).any())
    n_rows = int(rows.rows.sum())
    scores = kept.pairs(n_rows)
    yield "scores must be numbers", bool(np.isnan(scores).any())
    edges = np.concatenate([[0], np.cumsum(rows.rows)])
    later = np.ones(max(n_rows - 1, 0), dtype=np.bool_)
    later[edges[(edges > 0) & (edges < n_rows)] - 1] = False  # a group may begin anywhere
    yield "scores must be sorted", bool(((scores[1:] < scores[:-1]) & later).any())
    # The null group pools the scores of all.
    pools = [
        scores if group == NULL_GROUP else scores[first:last]
        for group, (first, last) in zip(rows.group, pairwise(edges), strict=True)
    ]
    found = np.concatenate([plain_threshold(pool, alpha) for pool in pools])
    yield "thresholds must be those of the scores", not np.array_equal(found, thresholds)
