"""What the schema of a parquet file says: which columns hold numbers, labels and ids."""

import re
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from thermoset.data.arrays import first_repeated
from thermoset.data.class_columns import not_a_class
from thermoset.errors import FileFormatError
from thermoset.io.delimited import class_columns, label_in
from thermoset.io.files import Request, list_name, no_column
from thermoset.io.names import group_name
from thermoset.io.rows import ORDER, WHOLE_ROWS
from thermoset.io.safe import names_from_json
from thermoset.quoting import quoted, reason

__all__ = [
    "METADATA_KEY",
    "VALUE_BYTES",
    "Layout",
    "are_texts",
    "check_values",
    "is_list",
    "is_number",
    "read_layout",
    "whole_ids",
]

VALUE_BYTES = 8
METADATA_KEY = b"thermoset.classes"
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class Layout(NamedTuple):
    """Where a file keeps what."""

    key: str | None  # the list column, or
    names: list[str]  # the columns that are classes
    label: str | None
    classes: Sequence[str] | None
    kinds: list[Any]  # types of the columns that hold numbers
    order: str | None = None  # the list column with the class of each number, where rows came sorted
    groups: str | None = None

    @property
    def scores(self) -> list[str]:
        """The columns that hold numbers."""
        return self.names if self.key is None else [self.key]

    @property
    def read(self) -> list[str]:
        """The columns that are read for the scores."""
        return self.scores if self.order is None else [*self.scores, self.order]

    @property
    def row_bytes(self) -> int:
        """How many bytes the schema declares for a row; lists of any length declare none."""
        return VALUE_BYTES * sum(getattr(kind, "list_size", 1) for kind in self.kinds)

    @property
    def free_lists(self) -> bool:
        """Whether rows are lists whose length only the data tell."""
        return self.key is not None and not hasattr(self.kinds[0], "list_size")


def read_layout(arrow: ModuleType, schema: Any, request: Request) -> Layout:
    """Find the columns; some are not classes."""
    groups, label = group_name(schema.names, request), label_in(schema.names, request)
    if request.id_column is not None:
        _check_ids(arrow, schema, request.id_column)
    if groups is not None:
        check_values(arrow, schema, groups)
    by_column = request.classes is not None and set(request.classes) <= set(schema.names)
    asked = request if by_column else request._replace(classes=None)  # which names what lists hold, then
    fields = [field for field in schema if field.name == label or not asked.is_beside(field.name)]
    kinds = {field.name: field.type for field in fields}
    lists = [field.name for field in fields if is_list(arrow, field.type)]
    key = None if by_column else list_name(lists, request.probabilities)
    order = ORDER if key is not None and ORDER in lists else None
    if order is not None and label in lists:
        label = None  # names of the classes that the other column numbers
    if (twice := first_repeated(field.name for field in fields)) is not None and (key is None or twice in {key, label}):
        raise FileFormatError(f"two columns have the same name, {quoted(twice)}.")
    if label is not None:
        _check_label(arrow, label, kinds[label])
    if key is None:
        names, classes = _class_columns(arrow, kinds, label, request)
        return Layout(None, names, label, classes, [kinds[name] for name in names], groups=groups)
    for name in (key,) if order is None else (key, order):
        if not is_number(arrow, kinds[name].value_type):
            raise FileFormatError(
                f"column {quoted(name)} holds lists of {reason(kinds[name].value_type)}; expected lists of numbers."
            )
    stored = (schema.metadata or {}).get(METADATA_KEY)
    return Layout(key, [], label, None if stored is None else names_from_json(stored), [kinds[key]], order, groups)


def is_number(arrow: ModuleType, kind: Any) -> bool:
    """Whether a type is one of numbers."""
    return bool(arrow.types.is_floating(kind) or arrow.types.is_integer(kind))


def _is_text(arrow: ModuleType, kind: Any) -> bool:
    types = arrow.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_list(arrow: ModuleType, kind: Any) -> bool:
    """Whether a type is one of lists."""
    types = arrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _check_label(arrow: ModuleType, label: str, kind: Any) -> None:
    if is_list(arrow, kind):
        raise FileFormatError(f"column {quoted(label)} holds lists: names of the largest classes. {WHOLE_ROWS}.")
    plain = kind.value_type if arrow.types.is_dictionary(kind) else kind
    if not (is_number(arrow, plain) or _is_text(arrow, plain) or arrow.types.is_null(plain)):
        raise FileFormatError(
            f"column {quoted(label)} is of type {reason(kind)}; expected column numbers or class names."
        )


def _fits_int64(arrow: ModuleType, kind: Any) -> bool:
    """Whether a type is one of whole numbers that an int64 holds."""
    return bool(arrow.types.is_integer(kind)) and kind != arrow.uint64()


def are_texts(arrow: ModuleType, kind: Any) -> bool:
    """Whether ids of a type are given out as text: what is no number, or might not fit an int64."""
    return not (_fits_int64(arrow, kind) or arrow.types.is_floating(kind))


def whole_ids(values: Iterable[object], name: str, first_row: int = 0) -> Iterator[object]:
    """Ids as they are; floats, which whole numbers become beside missing ones, as whole numbers.

    >>> list(whole_ids([1.0, 2.0], "id")), list(whole_ids(["a"], "id"))
    ([1, 2], ['a'])
    """
    for row, value in enumerate(values, first_row):
        if isinstance(value, float) and not (value.is_integer() and abs(value) < 2**53):
            raise FileFormatError(f"row {row} of column {quoted(name)} is {value}; ids are whole numbers or text.")
        yield int(value) if isinstance(value, float) else value


def _check_ids(arrow: ModuleType, schema: Any, ids: str) -> None:
    kind = _only(schema, ids)
    if not (is_number(arrow, kind) or _is_text(arrow, kind)):
        raise FileFormatError(f"column {quoted(ids)} is of type {reason(kind)}; ids are whole numbers or text.")


def check_values(arrow: ModuleType, schema: Any, name: str) -> None:
    """Refuse a column that has not one number or text for each row."""
    kind = _only(schema, name)
    plain = kind.value_type if arrow.types.is_dictionary(kind) else kind
    if not (is_number(arrow, plain) or _is_text(arrow, plain) or arrow.types.is_boolean(plain)):
        raise FileFormatError(
            f"column {quoted(name)} is of type {reason(kind)}; expected a name or a number for each row."
        )


def _only(schema: Any, name: str) -> Any:
    """The type of the one column of that name."""
    kinds = [field.type for field in schema if field.name == name]
    if not kinds:
        raise no_column(name, schema.names)
    if len(kinds) > 1:
        raise FileFormatError(f"two columns have the same name, {quoted(name)}.")
    return kinds[0]


def _class_columns(
    arrow: ModuleType, kinds: dict[str, Any], label: str | None, request: Request
) -> tuple[list[str], tuple[str, ...] | None]:
    """The columns of the classes, which hold numbers, and what classes are called."""
    columns = [name for name in kinds if not PANDAS_INDEX.fullmatch(name)]
    names, classes = class_columns(columns, label, request)
    numbers = all(is_number(arrow, kinds[name]) for name in names)
    if (one := list_name(names, request.probabilities)) is not None and not numbers:
        raise FileFormatError(f"column {quoted(one)} holds one number for each row, not a list. {WHOLE_ROWS}.")
    for name in names:
        if not is_number(arrow, kinds[name]):
            raise FileFormatError(not_a_class(name, f"is of type {reason(kinds[name])}; expected numbers"))
    whole = [name for name in names if arrow.types.is_integer(kinds[name])]
    doubted = [name for name in whole if name not in request.known] if len(whole) < len(names) else []
    if doubted and request.doubt and request.classes is None:  # an id or a row number is no class
        raise FileFormatError(not_a_class(doubted[0], "holds whole numbers, and others hold floats", "id_column"))
    return names, classes
