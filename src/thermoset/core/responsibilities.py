"""Which class each row is likely to come from once class shares have changed: what estimates of the shares add up.

With p the probabilities of a row where class y had the share a_y, and b_y a share in question, the row comes from y
with probability (b_y / a_y) p_y / sum_j (b_j / a_j) p_j. The mean of that over rows is the next guess of b
(Saerens et al. 2002). Many guesses b are taken at once, each with its own counts of the rows: those of the bootstrap.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from thermoset.core.compiling import leaf_kernel
from thermoset.core.exponentials import Floats, Ints
from thermoset.core.softmax import softmax
from thermoset.core.sources import Block, widened
from thermoset.core.uniforms import Keys, trial_uniforms

__all__ = ["UNIT", "Responsibilities", "Sums"]

UNIT = 2.0**-36
"""What sums are counted in: a hundred million rows fit 64 bits, each to eleven digits."""

_ROUNDS = 2.0**52 * UNIT  # a number that is added to it and taken from it again is a multiple of the unit
_ROWS = 4_096  # as many rows add up in float64 without rounding, at up to 31 each
_POISSON = np.array([np.exp(-1.0) / f for f in np.cumprod([1.0, *range(1, 16)])]).cumsum()[:-1]


class Sums(NamedTuple):
    """Rows that come from each class, (C, guesses), in units."""

    rows: Ints


class _Work(NamedTuple):
    """Room to work in, (guesses,)."""

    total: Floats
    factor: Floats


@leaf_kernel
def _add(probs: Floats, ratio: Floats, count: Floats, work: _Work, out: Floats) -> None:
    """Add rows (n, C), of which a guess has so many each (n, guesses); rows that no class explains add nothing."""
    n_guesses = ratio.shape[1]
    for i in range(probs.shape[0]):
        for g in range(n_guesses):
            work.total[g] = 0.0
        for y in range(probs.shape[1]):
            for g in range(n_guesses):
                work.total[g] += probs[i, y] * ratio[y, g]
        for g in range(n_guesses):
            work.factor[g] = count[i, g] / work.total[g] if work.total[g] > 0.0 else 0.0
        for y in range(probs.shape[1]):
            for g in range(n_guesses):
                share = probs[i, y] * ratio[y, g] * work.factor[g]
                out[y, g] += (share + _ROUNDS) - _ROUNDS  # multiples of the unit: sums of them are exact


@dataclass(frozen=True, eq=False)
class Responsibilities:
    """The stage: probabilities at a temperature, summed by the class that rows come from.

    `ratio` (C, guesses) is b / a. With `keys`, one for each guess, a row counts as often as a Poisson number of mean 1
    says, a hash of the key and the row: a bootstrap whose rows need not know each other. `first` is the number of the
    first row.
    """

    temperature: float
    ratio: Floats
    keys: Keys | None = None
    first: int = 0

    def rows(self, place: slice) -> "Responsibilities":
        """The stage for some of its rows."""
        return replace(self, first=self.first + place.start)

    def zero(self) -> Sums:
        """A sum over no rows."""
        return Sums(np.zeros(self.ratio.shape, dtype=np.int64))

    def add(self, block: Block, sums: Sums) -> None:
        """Add the rows of a block."""
        n_guesses = self.ratio.shape[1]
        work = _Work(np.empty(n_guesses), np.empty(n_guesses))
        for start in range(0, len(block), _ROWS):
            some = widened(block[start : start + _ROWS])
            probs, found = np.empty(some.shape), np.zeros(self.ratio.shape)
            softmax(some, self.temperature, probs)
            _add(probs, self.ratio, self._counts(self.first + start, len(some)), work, found)
            np.add(sums.rows, np.rint(found / UNIT).astype(np.int64), out=sums.rows)

    def _counts(self, first: int, n_rows: int) -> Floats:
        """How often each guess counts each row, (n, guesses)."""
        counts = np.ones((n_rows, self.ratio.shape[1]))
        if self.keys is not None:
            trial_uniforms(self.keys, first, counts)
            counts[:] = np.searchsorted(_POISSON, counts.ravel(), side="right").reshape(counts.shape)
        return counts
