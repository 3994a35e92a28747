"""Which columns of a batch hold logits and ids, and which are passed on; it takes only their names to tell."""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import NamedTuple

from thermoset.data.arrays import DEFAULT_COLUMNS, first_repeated
from thermoset.errors import InputError
from thermoset.io.roles import list_name
from thermoset.quoting import quoted

__all__ = ["Asked", "Layout", "checked_names", "layout_of"]


class Asked(NamedTuple):
    """What the user asked for."""

    logits: str | tuple[str, ...] | None  # a list column, a column for each class, or to be found
    id_column: str | None
    keep: tuple[str, ...] | None  # None: all but the logits
    probabilities: bool  # whether probabilities stand in place of logits
    made: tuple[str, ...]  # names of the columns that are added
    groups: str | None = None  # the column of groups
    u: str = "row"  # where the randomness of sets comes from: the row, or "ids"


class Layout(NamedTuple):
    """Where a batch keeps what."""

    listed: str | None  # the list column, or
    by_class: tuple[str, ...]  # the column of each class
    kept: list[int]  # places of the columns that are passed on


def layout_of(held: Sequence[Hashable], asked: Asked, classes: Sequence[str] | int) -> Layout:
    """Find the columns of a batch; `classes` are their names, or how many there are.

    >>> layout_of(["id", "logits"], Asked(None, None, None, False, ("label",)), classes=3)
    Layout(listed='logits', by_class=(), kept=[0])
    """
    listed, by_class = _scores(held, asked, classes)
    read = [*by_class] if listed is None else [listed]
    beside = [name for name in (asked.id_column, asked.groups) if name is not None]
    wanted = [*read, *beside, *(asked.keep or ())]
    times = Counter(held)
    for name in wanted:
        if times[name] != 1:
            found = f"{times[name]} columns" if times[name] else "no column"
            raise InputError(f"the batch has {found} {quoted(name)}; it has {_some(held)}.")
    ids = [] if asked.id_column is None else [asked.id_column]
    passed = set(held).difference(read) if asked.keep is None else {*asked.keep, *ids}
    if taken := [name for name in asked.made if name in passed]:
        raise InputError(
            f"the batch already has a column {quoted(taken[0])}, which predictions add too. Rename theirs with "
            "prefix='predicted_', or list the columns to pass on in keep=[...]."
        )
    return Layout(listed, by_class, [place for place, name in enumerate(held) if name in passed])


def _scores(held: Sequence[Hashable], asked: Asked, classes: Sequence[str] | int) -> tuple[str | None, tuple[str, ...]]:
    """The list column, or the column of each class."""
    if isinstance(asked.logits, str):
        return asked.logits, ()
    if asked.logits is not None:
        return None, asked.logits
    names = [name for name in held if isinstance(name, str)]
    if (found := list_name(names, asked.probabilities)) is not None:
        return found, ()
    stem = DEFAULT_COLUMNS[1 if asked.probabilities else 0]
    by_class = tuple(f"{stem}{i}" for i in range(classes)) if isinstance(classes, int) else tuple(classes)
    if not set(by_class).intersection(names):
        what = "probs" if asked.probabilities else "logits"
        raise InputError(
            f"the batch has neither a list column {what!r} nor one column per class ({_some(by_class)}); it has "
            f"{_some(held)}. Name the column: Predictor(..., logits='NAME')."
        )
    return None, by_class


def _some(names: Sequence[Hashable]) -> str:
    shown = ", ".join(map(quoted, islice(names, 5)))
    return f"{shown}, ..." if len(names) > 5 else shown or "none"


def checked_names(value: object, what: str) -> tuple[str, ...]:
    """Names of columns that a user gave: different texts.

    >>> checked_names(["a", "b"], "keep")
    ('a', 'b')
    """
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what} must be a list of column names; got {quoted(value)}.")
    if (twice := first_repeated(names)) is not None:
        raise InputError(f"{what} names {quoted(twice)} more than once.")
    return names
