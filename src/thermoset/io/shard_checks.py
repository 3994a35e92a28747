"""Shards that are to be one set of rows: each must fit the first, and none may come twice."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from thermoset.errors import InputError
from thermoset.io.files import errors_about
from thermoset.io.shards import FileShard
from thermoset.quoting import quoted

__all__ = ["checked_shards"]


def checked_shards(shards: Sequence[FileShard], allow_duplicates: bool = False) -> tuple[FileShard, ...]:
    """Refuse shards that differ from the first one, or that come twice."""
    first = shards[0]
    for shard in shards[1:]:
        with errors_about(shard.path):
            _check_like(shard, first)
    if not allow_duplicates:
        _check_once(shards)
    return tuple(replace(shard, classes=first.classes) for shard in shards)  # names are in memory once


def _check_like(shard: FileShard, first: FileShard) -> None:
    if shard.n_classes != first.n_classes:
        raise InputError(
            f"has {shard.n_classes} classes where {first.path} has {first.n_classes}. Were they made by one model?"
        )
    if shard.classes != first.classes:
        raise InputError(_other_names(shard, first))
    if shard.dtype != first.dtype:
        raise InputError(f"gives {shard.dtype} where {first.path} gives {first.dtype}. Save all shards in one type.")
    if shard.has_labels != first.has_labels:
        has = "has labels" if shard.has_labels else "has no labels"
        raise InputError(f"{has}, unlike {first.path}. Give all shards labels, or none.")
    if shard.has_groups != first.has_groups:
        has = "has groups" if shard.has_groups else "has no groups"
        raise InputError(f"{has}, unlike {first.path}. Give all shards groups, or none.")


def _other_names(shard: FileShard, first: FileShard) -> str:
    if shard.classes is None or first.classes is None:
        has = "has no class names" if shard.classes is None else "has class names"
        return f"{has}, unlike {first.path}. Give all shards the same names, or none."
    pairs = enumerate(zip(shard.classes, first.classes, strict=True))
    place, (own, other) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
    same = set(shard.classes) == set(first.classes)
    what = "the same classes in another order" if same else "other classes"
    return f"has {what} than {first.path}: column {place} is {quoted(own)}, there it is {quoted(other)}."


def _check_once(shards: Sequence[FileShard]) -> None:
    """Refuse one file under two names."""
    seen: dict[tuple[int, int], Path] = {}
    for shard in shards:
        with errors_about(shard.path):
            found = shard.path.stat()
            other = seen.setdefault((found.st_dev, found.st_ino), shard.path)
            if other is not shard.path:
                same = "appears twice" if other == shard.path else f"is the same file as {other}"
                raise InputError(f"{same}. Name each shard once, or pass allow_duplicates=True.")
