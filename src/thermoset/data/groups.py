"""Groups of rows: the site, device or language that each row belongs to, one name for each row.

Groups are what people answer for: coverage is reported, evened out or promised for each. Rows that must stay together
in a split (of one patient, font or camera) are another matter; see `split_indices`.

>>> read_groups([10, 9, 10], 3)
Groups(3 rows in 2 groups: 9, 10)
"""

import numbers
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.arrays import Ints, read_only
from thermoset.data.reading import is_missing, is_storable, one_column
from thermoset.errors import InputError
from thermoset.quoting import listing, printable, quoted


@dataclass(frozen=True, eq=False, repr=False)
class Groups:
    """The group of each row.

    Attributes
    ----------
    names : tuple of str
        The groups, by number if all names are whole numbers, else in alphabetical order. One may have no rows, after
        rows were selected.
    codes : int64 array (n,), read-only
        Where each row's group stands in `names`.

    >>> sites = read_groups(["north", "south", "north"], 3)
    >>> sites.names, sites.codes, sites.counts
    (('north', 'south'), array([0, 1, 0]), array([2, 1]))
    >>> np.asarray(sites).tolist()
    ['north', 'south', 'north']
    """

    names: tuple[str, ...]
    codes: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", read_only(self.codes))

    @cached_property
    def counts(self) -> Ints:
        """Rows of each group."""
        return np.bincount(self.codes, minlength=len(self.names))

    def take(self, index: Any) -> "Groups":
        """The groups of some rows; every name is kept."""
        return Groups(self.names, self.codes[index])

    def codes_among(self, names: tuple[str, ...]) -> Ints:
        """Where each row's group stands in other names; -1 where it is not among them.

        >>> read_groups(["a", "c", "b"], 3).codes_among(("b", "a"))
        array([ 1, -1,  0])
        """
        place = {name: number for number, name in enumerate(names)}
        return np.array([place.get(name, -1) for name in self.names], dtype=np.int64)[self.codes]

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[str]:
        return (self.names[code] for code in self.codes.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.names, dtype=dtype)[self.codes]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Groups):
            return NotImplemented
        return len(self) == len(other) and np.array_equal(self.codes, other.codes_among(self.names))

    __hash__ = None  # type: ignore[assignment]  # arrays compare by value

    def __repr__(self) -> str:
        many = "group" if len(self.names) == 1 else "groups"
        return f"Groups({len(self):,} rows in {len(self.names):,} {many}: {listed_groups(self.names)})"


def joined_groups(parts: Sequence[Groups]) -> Groups:
    """The groups of all parts, one after the other, by name."""
    names = _sort_names({name for part in parts for name in part.names})
    return Groups(names, np.concatenate([part.codes_among(names) for part in parts]))


def listed_groups(names: tuple[str, ...] | list[str]) -> str:
    """A few names, and how many more there are."""
    return listing([printable(name, 40) for name in names])


def read_groups(groups: object, n_rows: int) -> Groups:
    """Read one name or whole number for each row; 3, 3.0 and "3" are the same group."""
    values = groups if isinstance(groups, Groups) else one_column(groups, "groups")
    if (shape := values.codes.shape if isinstance(values, Groups) else values.shape) != (n_rows,):
        raise InputError(f"groups must have shape ({n_rows},), one name or number for each row; got {shape}.")
    if isinstance(values, Groups):
        return values
    if values.dtype.kind in "OT":
        # True == 1 and 1.0 == 1 as keys; the type tells them apart until both are text
        seen: dict[Any, int] = {}
        keys = [(type(item), item if isinstance(item, Hashable) else row) for row, item in enumerate(values.tolist())]
        codes = np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)
        items = values[np.unique(codes, return_index=True)[1]].tolist()
    else:
        distinct, codes = np.unique(values, return_inverse=True)
        items = distinct.tolist()
    texts = [_group_name(item, codes, place) for place, item in enumerate(items)]
    names = _sort_names(set(texts))
    place_of = {name: number for number, name in enumerate(names)}
    return Groups(names, np.array([place_of[text] for text in texts], dtype=np.int64)[codes])


def _group_name(item: Any, codes: Ints, place: int) -> str:
    if isinstance(item, str) and item.strip() and is_storable(item):
        return item
    if isinstance(item, (bool, np.bool_, int)):
        return str(item)
    if isinstance(item, numbers.Real) and float(item).is_integer():
        return str(int(float(item)))
    said = f"is {quoted(item)}; a group must be a name or a whole number."
    if is_missing(item) or (isinstance(item, str) and not item.strip()):
        said = f"is missing ({quoted(item)}). Give every row a group, or drop the row."
    elif isinstance(item, str):
        said = f"is {quoted(item)}; a name must be text that files can hold."
    elif isinstance(item, numbers.Real):
        said += " Cut measurements into ranges, and name these."
    raise InputError(said, row=int(np.argmax(codes == place)), name="groups")


def _sort_names(names: set[str]) -> tuple[str, ...]:
    """Names in the order of tables: whole numbers by size, others by alphabet."""
    if all(name.removeprefix("-").isdecimal() and name.isascii() and len(name) < 20 for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))
