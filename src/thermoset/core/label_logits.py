"""What rows say before any temperature: their top label, and where their own label stands."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.sources import Block, Source
from thermoset.core.stages import fill_rows

__all__ = ["LabelLogits", "label_logits", "label_ranks", "top_labels"]


class LabelLogits(NamedTuple):
    """Of each row: the logit of its label, the largest one, and whether a finite logit is below that. Arrays (n,)."""

    own: Floats
    top: Floats
    uneven: Bools


@dataclass(frozen=True, eq=False)
class _LookUp:
    """The stage of `label_logits`."""

    labels: Ints

    def rows(self, place: slice) -> "_LookUp":
        return replace(self, labels=self.labels[place])

    def __call__(self, block: Block) -> LabelLogits:
        top = block.max(axis=1)
        own = block[np.arange(len(block)), self.labels]
        uneven = (np.isfinite(block) & (block < top[:, None])).any(axis=1)
        return LabelLogits(own.astype(np.float64), top.astype(np.float64), uneven)


def label_logits(source: Source, labels: Ints) -> LabelLogits:
    """Where the label of each row stands."""
    found = LabelLogits(np.empty(source.n_rows), np.empty(source.n_rows), np.empty(source.n_rows, dtype=np.bool_))
    fill_rows(source, _LookUp(labels), found)
    return found


@dataclass(frozen=True, eq=False)
class _Ranks:
    """The stage of `label_ranks`."""

    labels: Ints

    def rows(self, place: slice) -> "_Ranks":
        return replace(self, labels=self.labels[place])

    def __call__(self, block: Block) -> tuple[Ints]:
        own = block[np.arange(len(block)), self.labels][:, None]
        before = np.arange(block.shape[1]) < self.labels[:, None]
        return (1 + np.count_nonzero((block > own) | ((block == own) & before), axis=1),)


def label_ranks(source: Source, labels: Ints) -> Ints:
    """The rank of each row's label, from 1; of equal logits the lower label index ranks higher.

    >>> from thermoset.core.sources import ArrayRows
    >>> label_ranks(ArrayRows(np.array([[0.0, 2.0, 2.0], [0.0, 2.0, 2.0]])), np.array([2, 1]))
    array([2, 1])
    """
    found = np.empty(source.n_rows, dtype=np.int64)
    fill_rows(source, _Ranks(labels), [found])
    return found


@dataclass(frozen=True, eq=False)
class _TopLabels:
    """The stage of `top_labels`."""

    def rows(self, _: slice) -> "_TopLabels":
        return self

    def __call__(self, block: Block) -> tuple[Ints]:
        return (block.argmax(axis=1),)


def top_labels(source: Source) -> Ints:
    """The label with the largest logit of each row; of equal ones the first.

    >>> from thermoset.core.sources import ArrayRows
    >>> top_labels(ArrayRows(np.array([[0.0, 2.0, 2.0]])))
    array([1])
    """
    found = np.empty(source.n_rows, dtype=np.int64)
    fill_rows(source, _TopLabels(), [found])
    return found
