"""The confidence of conformal rows in the document: what the confidence of later rows is compared with.

Confidence, the probability of the likeliest label at T*, is cut into bins. The cut points are quantiles of calibration
rows, and the counts are those of conformal rows, so that conformal rows and later ones are alike: neither chose where
the cuts are.
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec
import numpy as np

from thermoset.arrays import Floats, Ints
from thermoset.bounds import MOST_HELD

__all__ = ["MOST_CUTS", "ConfidenceReference", "broken_confidence"]

MOST_CUTS = 63
"""Cut points, at most: 64 bins show any change of confidence that matters, and take a kilobyte in the document."""


class ConfidenceReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rising cut points of confidence, and how many conformal rows are below the first, between two, and from the last.

    >>> reference = ConfidenceReference((0.5, 0.9), (10, 30, 60))
    >>> reference.bins(np.array([0.4, 0.5, 0.95])).tolist()
    [0, 1, 2]
    """

    cuts: tuple[float, ...]
    counts: tuple[int, ...]

    def bins(self, confidence: Floats) -> Ints:
        """The bin of each confidence."""
        return np.searchsorted(np.array(self.cuts), confidence, side="right").astype(np.int64)

    def counted(self, confidence: Floats) -> "ConfidenceReference":
        """The same cut points with the counts of conformal rows that have this confidence."""
        bins = self.bins(confidence)
        return ConfidenceReference(self.cuts, tuple(np.bincount(bins, minlength=len(self.cuts) + 1).tolist()))


def broken_confidence(reference: ConfidenceReference, n_rows: int) -> Iterator[tuple[str, bool]]:
    """What the reference must be, and whether it is not."""
    cuts, counts = reference.cuts, reference.counts
    yield f"confidence must have from 1 to {MOST_CUTS} cuts", not 1 <= len(cuts) <= MOST_CUTS
    yield (
        "cuts of confidence must be increasing probabilities",
        (not all(0 < cut <= 1 for cut in cuts) or any(a >= b for a, b in pairwise(cuts))),
    )
    yield "confidence must have one more count than cuts", len(counts) != len(cuts) + 1
    yield (
        "counts of confidence must count the conformal rows",
        (not all(0 <= count <= MOST_HELD for count in counts) or sum(counts) != n_rows),
    )
