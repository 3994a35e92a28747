"""Rows that are with the workers: blocks of a dask array, delayed blocks, or an array of this process sent to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.data import checked_logits
from thermoset.data.input_kinds import LOGITS
from thermoset.data.stored import StoredLogits
from thermoset.errors import InputError

__all__ = ["ArrayShard", "RemoteShard", "remote_rows"]


@dataclass(frozen=True, eq=False)
class ArrayShard:
    """Rows in memory, which have been checked."""

    rows: NDArray[np.floating[Any]]

    name = "an array"
    classes = None
    input_kind = LOGITS

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @property
    def n_classes(self) -> int:
        """How many logits a row has."""
        return int(self.rows.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the rows."""
        return self.rows.dtype

    def read(self, start: int, stop: int) -> NDArray[np.floating[Any]]:
        """Some rows."""
        return self.rows[start:stop]


@dataclass(frozen=True, eq=False)
class RemoteShard:
    """Rows that a worker holds, or can make again: a future of an array."""

    name: str
    future: Any
    client: Any
    n_rows: int
    n_classes: int
    dtype: np.dtype[Any]
    classes: tuple[str, ...] | None = None
    input_kind: str = LOGITS

    def read(self, start: int, stop: int) -> NDArray[np.floating[Any]]:
        """Some rows, brought here."""
        found: NDArray[np.floating[Any]] = self.client.submit(_part, self.future, start, stop, pure=False).result()
        return found


def remote_rows(
    futures: Sequence[Any], classes: Sequence[str] | None, client: Any, input_kind: str = LOGITS
) -> StoredLogits:
    """The rows of futures of two-dimensional arrays, one after the other; each is checked where it is."""
    checked = [client.submit(_checked, future, f"block {i}", pure=False) for i, future in enumerate(futures)]
    names = None if classes is None else tuple(classes)
    facts = client.gather([client.submit(_facts, rows, pure=False) for rows in checked])
    for i, (shape, dtype) in enumerate(facts):
        if shape[1] != facts[0][0][1] or dtype != facts[0][1]:
            raise InputError(
                f"block {i} has {shape[1]} columns of {dtype}, but block 0 has {facts[0][0][1]} of {facts[0][1]}. All "
                "blocks must have the same classes and the same type."
            )
    shards = [
        RemoteShard(f"block {i}", future, client, shape[0], shape[1], dtype, names, input_kind)
        for i, (future, (shape, dtype)) in enumerate(zip(checked, facts, strict=True))
    ]
    return StoredLogits.of(shards)


def _checked(rows: Any, name: str) -> NDArray[np.floating[Any]]:
    """A task: rows as `Logits` would take them."""
    try:
        return checked_logits(rows).logits
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _facts(rows: NDArray[Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return rows.shape, rows.dtype


def _part(rows: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    return rows[start:stop]
