"""u, the number that randomises a row's set: a hash, so that the same row has the same u wherever it is met.

A row's own u comes from the seed and a coarse key of the row: how far the second, third and fourth largest logits lie
below the largest, in steps of 1/157. The key does not see the last bits of the logits, which the same
network gives differently on another machine or in another batch. Any fixed function of the row keeps the law of
coverage: exchangeability is all it needs.

Where rows have ids, u comes from the seed and the id alone, whatever the logits.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.core.compiling import leaf_kernel, part
from thermoset.core.exponentials import Bools, Floats, Ints
from thermoset.core.sources import Block
from thermoset.errors import InputError
from thermoset.quoting import quoted

__all__ = [
    "FillSets",
    "Keys",
    "Randomness",
    "chained",
    "checked_ids",
    "id_keys",
    "trial_keys",
    "trial_uniforms",
]

Keys = NDArray[np.uint64]

# What the hash is made of; `integrations.program.draws` writes the same steps for other engines.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST_SHIFT, FIRST_FACTOR = np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)
SECOND_SHIFT, SECOND_FACTOR = np.uint64(27), np.uint64(0x94D049BB133111EB)
LAST_SHIFT = np.uint64(31)
UNIT_SHIFT, UNIT = np.uint64(12), 2.0**-52  # u is made of the top 52 bits
OF_ROWS, OF_IDS, OF_TRIALS = np.uint64(0), np.uint64(1), np.uint64(2)  # where chains start: no two kinds share one
SECOND = np.uint64(1 << 32)  # added to the start of a chain, for a second number of the same row
STEPS = 157.0  # of the key in one unit of logits
OFFSET = 0.309  # puts gaps of 0, and other round numbers, inside a step and not on its edge
WIDEST = 2.0**30  # larger gaps count as this one: the key stays a whole number that float64 holds exactly
N_KEYS = 3


@part
def _mix(x: np.uint64) -> np.uint64:
    """Finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection in which every bit moves every bit."""
    x = (x ^ (x >> FIRST_SHIFT)) * FIRST_FACTOR
    x = (x ^ (x >> SECOND_SHIFT)) * SECOND_FACTOR
    return x ^ (x >> LAST_SHIFT)


@part
def chained(state: np.uint64, key: np.uint64) -> np.uint64:
    """The next state of a chain that takes in one key after the other."""
    return _mix((state ^ key) + GOLDEN)


@part
def _unit(state: np.uint64) -> float:
    """A number in (0, 1) from the top 52 bits, never 0 or 1."""
    return (np.float64(state >> UNIT_SHIFT) + 0.5) * UNIT


@part
def _gap_key(ranked: Floats, place: int) -> np.uint64:
    """One more than floor(157 gap + 0.309) of the class `place` ranks below the top; 0 if it is masked or missing."""
    top = ranked.shape[0] - 1
    if place > top or ranked[top - place] == -np.inf:
        return np.uint64(0)
    gap = min(ranked[top] - ranked[top - place], WIDEST)
    return np.uint64(np.int64(np.floor(STEPS * gap + OFFSET)) + 1)


@leaf_kernel
def _row_uniforms(ranked: Floats, start: np.uint64, seed: np.uint64, out: Floats) -> None:
    """U of each ranked row from the seed and the row's three largest gaps."""
    for i in range(ranked.shape[0]):
        state = chained(start, seed)
        for place in range(1, N_KEYS + 1):
            state = chained(state, _gap_key(ranked[i], place))
        out[i] = _unit(state)


@leaf_kernel
def _id_uniforms(keys: Keys, start: np.uint64, seed: np.uint64, out: Floats) -> None:
    for i in range(keys.shape[0]):
        out[i] = _unit(chained(chained(start, seed), keys[i]))


@leaf_kernel
def _trial_keys(numbers: Ints, seed: np.uint64, out: Keys) -> None:
    for t in range(numbers.shape[0]):
        out[t] = chained(chained(OF_TRIALS, seed), np.uint64(numbers[t]))


@part
def trial_uniform(key: np.uint64, row: int) -> float:
    """U of a row in the trial that has this key."""
    return _unit(chained(key, np.uint64(row)))


@leaf_kernel
def trial_uniforms(keys: Keys, first_row: int, out: Floats) -> None:
    """U of consecutive rows in every trial: out (n_rows, n_trials)."""
    for i in range(out.shape[0]):
        for t in range(keys.shape[0]):
            out[i, t] = trial_uniform(keys[t], first_row + i)


def trial_keys(random_state: int, trials: Iterable[int]) -> Keys:
    """The key of each trial, by its number: u of row i in trial t is a hash of (random_state, t, i).

    >>> a, b = trial_keys(0, [0, 1]), trial_keys(0, [1])
    >>> bool(a[1] == b[0])
    True
    """
    numbers = np.fromiter(trials, dtype=np.int64)
    keys = np.empty(len(numbers), dtype=np.uint64)
    _trial_keys(numbers, np.uint64(random_state), keys)
    return keys


def id_keys(ids: Iterable[object]) -> Keys:
    """A 64-bit key for each id: whole numbers and text alike, by a hash of their text.

    >>> bool(id_keys(["7"])[0] == id_keys([7])[0])
    True
    """
    texts = (str(one).encode(errors="surrogatepass") for one in ids)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def checked_ids(ids: Any, n_rows: int) -> Keys:
    """The keys of ids that a user gave: one whole number or text for each row, repeats allowed.

    >>> checked_ids([3.5], 1)
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: ids must be whole numbers or text; ids[0] is 3.5. Convert it.
    """
    given = np.asarray(ids).tolist() if hasattr(ids, "__array__") else ids
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InputError(f"ids must be {n_rows} whole numbers or strings, one per row; got {quoted(ids)}.")
    if len(given) != n_rows:
        raise InputError(f"there must be {n_rows} ids, one per row; got {len(given)}.")
    for row, one in enumerate(given):
        if isinstance(one, bool) or not isinstance(one, int | str | np.integer):
            raise InputError(f"ids must be whole numbers or text; ids[{row}] is {quoted(one)}. Convert it.")
    return id_keys(given)


@dataclass(frozen=True)
class Randomness:
    """Where a row's u comes from: given numbers, a seed and the row (or its id), or neither (deterministic, u = 1).

    `second` asks for a number that is independent of the row's u: what p-values of tied scores are smoothed with.
    """

    seed: int | None = None
    given: Floats | None = None
    keys: Keys | None = None
    second: bool = False

    def rows(self, place: slice) -> "Randomness":
        """That of some of the rows."""
        if self.given is None and self.keys is None:
            return self
        given = None if self.given is None else self.given[place]
        return replace(self, given=given, keys=None if self.keys is None else self.keys[place])

    def block(self, ranked: Floats) -> Floats:
        """The u of each of some ranked rows; it must be that of these rows."""
        if self.given is not None:
            return self.given
        if self.seed is None:
            return np.ones(len(ranked))
        seed, u, other = np.uint64(self.seed), np.empty(len(ranked)), SECOND if self.second else np.uint64(0)
        if self.keys is not None:
            _id_uniforms(self.keys, OF_IDS + other, seed, u)
        else:
            _row_uniforms(ranked, OF_ROWS + other, seed, u)
        return u


FillSets = Callable[[Block, Randomness, Bools], None]
"""Fills the sets (n_thresholds, n_rows, C) of a block of rows; the randomness must be that of these rows."""
