"""Which fonts and pictures are used: no family and no class outweighs the others."""

import numpy as np
from numpy.typing import NDArray


def few_fonts(families: NDArray[np.str_], wanted: set[str], most: int, seed: int) -> NDArray[np.int64]:
    """Numbers of at most `most` fonts of each wanted family, drawn at random."""
    order = np.random.default_rng(seed).permutation(len(families))
    drawn = [order[families[order] == family][:most] for family in sorted(wanted)]
    return np.sort(np.concatenate(drawn))


def balanced_rows(labels: NDArray[np.int64], most: int, seed: int) -> NDArray[np.int64]:
    """Rows in random order: `most` of each class, or all where there are fewer."""
    order = np.random.default_rng(seed).permutation(len(labels))
    return order[place_in_class(labels[order]) < most]


def place_in_class(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows of the same class come before each row."""
    order = np.argsort(labels, kind="stable")
    ranked = labels[order]
    place = np.empty(len(labels), dtype=np.int64)
    place[order] = np.arange(len(labels)) - np.searchsorted(ranked, ranked)
    return place
