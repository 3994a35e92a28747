"""u, the number that randomises a row's set: a hash, so that the same row has the same u wherever it is met.

It comes from the seed and a coarse key of the row, which does not see the last bits of the logits: the same network
gives them differently on another machine or in another batch. With ids it comes from the seed and the id alone, and in
a sweep from the seed, the trial and the number of the row. Any fixed function of the row keeps the law of coverage.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thermoset.arrays import Block, Floats, Keys
from thermoset.errors import InputError
from thermoset.kernels import N_KEYS, fill_trial_keys, id_uniforms, row_uniforms
from thermoset.quoting import quoted
from thermoset.rows import Source, gaps_of, map_rows, row_array, sort_ascending

OF_ROWS, OF_IDS, OF_TRIALS, OF_KEYS = map(np.uint64, range(4))
"""Where chains of hashes start: no two kinds share one."""

SECOND = np.uint64(1 << 32)
"""Added to the start of a chain, for a second number of the same row."""


def stream(seed: int, name: str, *numbers: int) -> np.random.Generator:
    """A stream of random numbers for one purpose: no two names share one, whatever the seed and the numbers."""
    return np.random.default_rng((seed, int.from_bytes(name.encode(), "little"), *numbers))


def trial_keys(random_state: int, trials: Iterable[int]) -> Keys:
    """The key of each trial, by its number: u of row i in trial t is a hash of (random_state, t, i)."""
    numbers = np.fromiter(trials, dtype=np.int64)
    keys = np.empty(len(numbers), dtype=np.uint64)
    fill_trial_keys(numbers, OF_TRIALS, np.uint64(random_state), keys)
    return keys


def id_keys(ids: Iterable[object]) -> Keys:
    """A 64-bit key for each id: whole numbers and text alike, by a hash of their text."""
    texts = (str(one).encode(errors="surrogatepass") for one in ids)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def checked_ids(ids: Any, n_rows: int) -> Keys:
    """The keys of ids that a user gave: one whole number or text for each row, repeats allowed."""
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

    def __getitem__(self, place: slice) -> "Randomness":
        """That of some of the rows."""
        if self.given is None and self.keys is None:
            return self
        given = None if self.given is None else self.given[place]
        return replace(self, given=given, keys=None if self.keys is None else self.keys[place])

    def block(self, gaps: Floats) -> Floats:
        """The u of each of some sorted rows; it must be that of these rows."""
        if self.given is not None:
            return self.given
        if self.seed is None:
            return np.ones(len(gaps))
        seed, u, other = np.uint64(self.seed), np.empty(len(gaps)), SECOND if self.second else np.uint64(0)
        if self.keys is not None:
            id_uniforms(self.keys, OF_IDS + other, seed, u)
        else:
            row_uniforms(gaps, OF_ROWS + other, seed, u)
        return u


def draw_uniforms(source: Source, seed: int, *, second: bool = False) -> Floats:
    """The u of every row from the seed and the row, (n,): for rows whose logits are changed afterwards."""
    out: Floats = row_array((source.n_rows,))
    map_rows(source, block_uniforms, out, fixed=[Randomness(seed, second=second)])
    return out


def block_uniforms(block: Block, randomness: Randomness) -> Floats:
    """The u of the rows of a block, from their largest logits alone."""
    few = min(N_KEYS + 1, block.shape[1])
    return randomness.block(gaps_of(sort_ascending(np.partition(block, -few, axis=1)[:, -few:])))
