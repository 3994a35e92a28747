"""Which column of a file is what: scores, labels, groups, ids, class names. One place for every format.

| role | names |
|---|---|
| scores | `logits` (in tables also `logit`), or `probs`, `probabilities` (`prob`); else one column for each class |
| labels | `labels`, `label` |
| class names | `classes`, `class_names`, also in the metadata of a file |
| groups | `groups` |

Files of largest logits alone have other columns (`ROLES`).
"""

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thermoset.data.guards import check_class_columns, most_rows, not_a_class
from thermoset.data.reading import GROUPS, LABELS, NAMES, checked_options, column_classes, first_repeated
from thermoset.data.top_k import TopLogits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import FilePath, as_path, byte_limit, check_size, existing_file
from thermoset.io.table import TEXT, Column, Table, read_all, row_bytes
from thermoset.quoting import printable, quoted

PROBABILITIES = ("probs", "probabilities", "logits")
VALUE_SUFFIXES = (".npy", ".txt")
"""The endings of names of files that hold one value for each row: labels, groups, names."""
WHOLE_ROWS = "Write whole rows: timm's inference.py has --topk 0 for it"
_ORDER = "index"  # the column with the class of each value, where rows came sorted
_FILES = "filename"  # a column that is no class
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+(\.0*)?\s*")


class Request(NamedTuple):
    """What a user asked for and said of the columns; `request` makes it."""

    probabilities: bool = False
    max_bytes: int = 0
    labels: str | None = None  # the column of labels; `label` or `labels` where there is one, if not named
    groups: str | None = None
    label_file: Path | None = None
    group_file: Path | None = None
    id_column: str | None = None
    classes: tuple[str, ...] | None = None  # the columns that are classes, or names for those of an array
    ignored: tuple[str, ...] = ()  # columns that are no classes
    known: tuple[str, ...] = ()  # columns that are classes for certain: those of a predictor
    n_options: int | None = None  # how many columns multiple choice has, where more than the file's rows have
    find_labels: bool = True  # not where they are in a file of their own, or none are wanted
    find_groups: bool = True
    doubt: bool = True  # refuse columns that do not look like classes: not where rows become no `Logits`

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that the user has named, and that are no classes."""
        return tuple(name for name in (self.labels, self.groups, self.id_column, *self.ignored) if name is not None)


def request(
    probabilities: bool = False,
    max_bytes: int | None = None,
    *,
    labels: FilePath | Literal[False] | None = None,
    groups: FilePath | Literal[False] | None = None,
    classes: object = None,
    id_column: object = None,
    ignore: object = (),
    known: object = None,
    n_options: object = None,
    doubt: bool = True,
) -> Request:
    """Check what a user said of columns; none can be a class and something else. No labels or groups where False."""
    label_column, label_file = column_or_file(labels)
    group_column, group_file = column_or_file(groups)
    if id_column is not None and not isinstance(id_column, str):
        raise InputError(f"id_column must be the name of a column; got {quoted(id_column)}.")
    names = None if classes is None else checked_columns(classes, "classes")
    if names is not None and (twice := first_repeated(names)) is not None:
        raise InputError(f"classes name {quoted(twice)} more than once. Name each column once.")
    ignored = checked_columns(ignore, "ignore")
    others = {"labels": [label_column], "id_column": [id_column], "groups": [group_column], "ignore": ignored}
    for what, columns in others.items():
        if both := [name for name in columns if name is not None and name in (names or ())]:
            raise InputError(f"column {quoted(both[0])} is named in classes and in {what}. Name it in one of them.")
    return Request(
        probabilities=probabilities,
        max_bytes=byte_limit(max_bytes),
        labels=label_column,
        groups=group_column,
        label_file=label_file,
        group_file=group_file,
        id_column=id_column,
        classes=names,
        ignored=ignored,
        known=() if known is None else checked_columns(known, "known"),
        n_options=checked_options(n_options),
        find_labels=labels is not False and label_file is None,
        find_groups=groups is not False and group_file is None,
        doubt=doubt,
    )


def checked_columns(names: object, what: str = "ignore") -> tuple[str, ...]:
    """Names of columns that a user listed."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what} must be a list of names of columns; got {quoted(names)}.")
    return tuple(names)


def is_value_file(name: object) -> bool:
    """Whether a name is that of a file that holds one value for each row."""
    return isinstance(name, (str, os.PathLike)) and Path(name).suffix.lower() in VALUE_SUFFIXES


def column_or_file(name: FilePath | Literal[False] | None) -> tuple[str | None, Path | None]:
    """What is meant where a column, array or key may be named, or a file of values, which must be there."""
    if not name:
        return None, None
    is_there = isinstance(name, str) and Path(name).suffix != "" and Path(name).is_file()
    if is_there or is_value_file(name) or not isinstance(name, str):
        return None, existing_file(name, VALUE_SUFFIXES)[0]
    return str(as_path(name)), None


class Layout(NamedTuple):
    """Where a file keeps what."""

    scores: Any  # a Column, or `TopColumns`
    classes: Any  # names as the file gives them, or None
    labels: Column | None
    groups: Column | None
    ids: Column | None = None
    columns: tuple[str, ...] = ()  # of the classes, where each has a column
    array: str = ""  # which column the scores are, where it is one


def find_roles(table: Table, request: Request) -> Layout:
    """Find the columns of a file of whole rows; the scores are one column of rows, or a column for each class."""
    held = table.columns
    ids = None if request.id_column is None else named_column(table, request.id_column)
    groups, labels = group_name(held, request), label_name(held, request)
    lists = [name for name in held if len(held[name].shape) == 2] if table.cells else []
    by_column = request.classes is not None and set(request.classes) <= set(held)
    array, names = list_name(lists, request.probabilities), tuple[str, ...]()
    if table.stack is not None and (array is None or by_column):
        array, names = None, _class_columns(table, labels, groups, request)
        scores, classes = table.stack(names), request.classes if request.classes is not None else column_classes(names)
    else:
        array = array or list_name(held, request.probabilities)
        if array is None:
            what = " or ".join(map(repr, PROBABILITIES if request.probabilities else ("logits",)))
            hint = " Pass probabilities=True to read probabilities." if list_name(held, probabilities=True) else ""
            holds = ", ".join(printable(name, 40) for name in sorted(held)[:20]) or "nothing"
            raise FileFormatError(f"no array called {what}; the file contains: {holds}.{hint}")
        scores, classes = held[array], class_names_in(table, request.max_bytes)
        if table.cells and scores.dtype == TEXT:
            raise FileFormatError(f"column {quoted(array)} contains lists of something else; expected numbers.")
        if _ORDER in lists:
            scores = _InOrder(scores, held[_ORDER])
            labels = None if labels in lists else labels
    if labels in lists:
        raise FileFormatError(f"column {quoted(labels)} contains lists: names of the largest classes. {WHOLE_ROWS}.")
    for name in (groups, request.id_column):
        if name is not None and held[name].shape != scores.shape[:1]:
            raise FileFormatError(
                f"{quoted(name)} must hold one value for each of {scores.shape[0]} rows; got shape {held[name].shape}."
            )
    return Layout(
        scores,
        named_classes(request, classes),
        held[labels] if labels is not None and request.find_labels else None,
        held[groups] if groups is not None else None,
        ids,
        names,
        array or "",
    )


def no_column(name: str, held: Iterable[str]) -> FileFormatError:
    """The complaint that there is no such column or array."""
    names = ", ".join(map(quoted, islice(held, 5)))
    return FileFormatError(f"there is no {quoted(name)} in the file; it begins with {names}.")


def named_column(table: Table, name: str) -> Column:
    """A column that must be there."""
    if name not in table.columns:
        raise no_column(name, table.columns)
    return table.columns[name]


def first_of(names: Collection[str], held: Collection[str]) -> str | None:
    """Return the first of `names` that is held."""
    return next((name for name in names if name in held), None)


def label_name(held: Collection[str], request: Request) -> str | None:
    """The column of labels: the one that was named, or the one called so in any spelling; None if there is none."""
    if request.labels is not None:
        if request.labels not in held and request.find_labels:
            raise no_column(request.labels, held)
        return request.labels if request.labels in held else None
    names = _columns_called(LABELS, held, request, request.groups)
    if len(names) > 1:
        raise FileFormatError(
            f"columns {quoted(names[0])} and {quoted(names[1])} both look like labels. Name the one that contains them "
            "(--labels, in Python labels=), and ignore the other (--ignore, ignore=)."
        )
    return names[0] if names else None


def group_name(held: Collection[str], request: Request) -> str | None:
    """The column of groups; None if there is none to be read."""
    if not request.find_groups:
        return None
    if request.groups is None:
        return next(iter(_columns_called(GROUPS, held, request, request.labels)), None)
    if request.groups not in held:
        raise no_column(request.groups, held)
    return request.groups


def _columns_called(names: Collection[str], held: Collection[str], request: Request, other: str | None) -> list[str]:
    """The columns that are called so in any spelling, and were not named as something else."""
    taken = {other, request.id_column, *request.ignored, *(request.classes or ())}
    return [name for name in held if name.strip().lower() in names and name not in taken]


def list_name(held: Collection[str], probabilities: bool) -> str | None:
    """Find the column whose cells are whole rows; timm's inference script calls it `logit` or `prob`."""
    return first_of((*PROBABILITIES, "prob") if probabilities else ("logits", "logit"), held)


def _class_columns(table: Table, label: str | None, groups: str | None, request: Request) -> tuple[str, ...]:
    """The columns of the classes: those that were named, or all that are nothing else."""
    held = list(table.columns)
    if request.classes is not None:
        if missing := [name for name in request.classes if name not in held]:
            raise no_column(missing[0], held)
        names = list(request.classes)
    else:
        # The first column may have no name: an index of pandas.
        if (blank := next((place for place, name in enumerate(held[1:], 2) if not name.strip()), 0)) > 0:
            raise FileFormatError(
                f"column {blank} has no name. Name it, or list the classes (--classes, in Python classes=)."
            )
        others = {label, groups, *request.named}
        names = [name for name in held if name not in others and name.strip() and name.strip().lower() not in GROUPS]
        names = [name for name in names if not _PANDAS_INDEX.fullmatch(name)]
        if _FILES in names and column_classes(name for name in names if name != _FILES) is None:
            names.remove(_FILES)  # next to columns that are only numbered it can be no class
    _check_numbers(table, names, label, request)
    return tuple(names)


def _check_numbers(table: Table, names: Sequence[str], label: str | None, request: Request) -> None:
    """Refuse classes whose columns hold no numbers, or whole numbers where others hold floats."""
    columns = {name: table.columns[name] for name in names}
    lists = [name for name, column in columns.items() if len(column.shape) == 2]
    numeric = {name: getattr(one, "looks_numeric", one.dtype.kind in "fiu") for name, one in columns.items()}
    text = [name for name in names if not numeric[name]]
    one = list_name(names, request.probabilities)
    if one is not None and one not in (*lists, *text) and (text or lists or len(names) == 1):
        raise FileFormatError(f"column {quoted(one)} contains one number for each row, not a list. {WHOLE_ROWS}.")
    if lists:
        raise FileFormatError(not_a_class(lists[0], "contains lists; expected numbers"))
    if text:
        dtype = columns[text[0]].dtype
        first = str(columns[text[0]].read(0, 1)[0]) if dtype == TEXT and columns[text[0]].shape[0] else ""
        if "," in first and is_number(first.replace(",", ".", 1)):
            raise FileFormatError(f"column {quoted(text[0])} is {quoted(first)}; expected a decimal point.")
        is_text = "contains text" if dtype == TEXT else f"is of type {dtype}"
        option = "labels" if label is None and dtype == TEXT else None
        raise FileFormatError(not_a_class(text[0], f"{is_text}; expected numbers", option))
    if len(names) == 1:
        raise FileFormatError(
            f"has one column of scores, {quoted(names[0])}; expected one for each class. If these are scores of the "
            "second of two classes, add a column of zeros before it, named after the first."
        )
    integers = [name for name, column in columns.items() if column.dtype.kind in "iu"]
    doubted = [name for name in integers if name not in request.known] if len(integers) < len(names) else []
    if doubted and request.doubt and request.classes is None:  # an id or a row number is no class
        raise FileFormatError(not_a_class(doubted[0], "contains whole numbers, and others contain floats", "id_column"))


def check_columns(layout: Layout, request: Request) -> None:
    """Refuse columns that do not look like classes, unless the user has said that they are; the first rows tell."""
    if request.doubt and request.classes is None and layout.columns:
        rows = layout.scores.read(0, min(layout.scores.shape[0], most_rows(len(layout.columns))))
        check_class_columns(layout.columns, rows, request.known)


def class_names_in(table: Table, max_bytes: int) -> Any:
    """Class names: a column of text, or a list in the metadata."""
    if (name := first_of(NAMES, table.columns)) is None:
        return next((table.metadata[key] for key in NAMES if key in table.metadata), None)
    names = all_values(table.columns[name], max_bytes)
    if names.ndim != 1 or names.dtype.kind not in "UO":
        as_text = " Save classes.astype(str), and labels.astype(str) if labels are these names."
        raise FileFormatError(
            f"class names must be a 1-D array of text; got {names.dtype}, shape {names.shape}."
            f"{as_text if names.dtype.kind in 'iu' else ''}"
        )
    return [str(one) for one in names.tolist()]


def named_classes(request: Request, names: Any) -> Any:
    """The names of classes: what the file says, or what the user says where it has none."""
    if request.classes is not None and names is not None and tuple(names) != request.classes:
        raise InputError(
            f"the file names its classes {quoted(list(names))}, and classes were given as "
            f"{quoted(list(request.classes))}. Leave classes out, or give the same in the same order."
        )
    return request.classes if names is None else names


# -- values of rows ----------------------------------------------------------------------------------------------------


def texts(values: NDArray[Any]) -> NDArray[Any]:
    """Values of rows with bytes as text."""
    if values.dtype.kind == "U" and values.size and values.view(f"{values.dtype.str[0]}u4").max() > sys.maxunicode:
        raise FileFormatError("contains bytes that are not text: damaged. Save it again.")
    return np.char.decode(values, "utf-8", "replace") if values.dtype.kind == "S" else values


def all_values(column: Column, max_bytes: int) -> NDArray[Any]:
    """All values of a column of rows, text as text, within the limit."""
    check_size(row_bytes(column) * max(column.shape[:1], default=1), max_bytes, "a column")
    return texts(read_all(column))


def read_as_numbers(values: Any, classes: Sequence[str] | None, columns: Sequence[str] = ()) -> Any:
    """Labels as they are meant: texts that are whole numbers are column numbers, if no class is called like one.

    Where each class has a column, and columns are called 1, 2, 3, the number 1 is a name.
    """
    items = np.asarray(values).tolist()
    known = [one for one in items if one is not None]
    if known and all(isinstance(one, str) for one in known):
        plain = [None if one is None else one.strip() for one in items]
        if not any(map(is_whole, classes or ())) and all(not one or is_whole(one) for one in plain):
            return np.array([float(one) if one else np.nan for one in plain])
        return [None if not one or not one.strip() else one for one in items]
    if known and any(map(is_whole, columns)) and not any(isinstance(one, str) for one in known):
        return [None if one is None else f"{one:.0f}" if float(one).is_integer() else str(one) for one in items]
    return values if len(known) == len(items) else items


def is_whole(text: str) -> bool:
    """Whether a text is a whole number."""
    return _WHOLE.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class _InOrder:
    """Rows that came sorted, each value put where its class is, which another column tells."""

    scores: Column
    index: Column

    shape = property(lambda self: self.scores.shape)
    dtype = property(lambda self: self.scores.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        values, index = self.scores.read(start, stop), self.index.read(start, stop)
        n_classes = values.shape[1]
        if index.shape != values.shape or index.dtype == TEXT or (np.sort(index, axis=1) != np.arange(n_classes)).any():
            raise FileFormatError(
                f"rows contain their {n_classes} largest values and 'index' names other classes than "
                f"0..{n_classes - 1}: classes are missing. {WHOLE_ROWS}."
            )
        ordered = np.empty_like(values)
        np.put_along_axis(ordered, index.astype(np.int64), values, axis=1)
        return ordered


# -- largest logits alone ---------------------------------------------------------------------------------------------

ROLES: Mapping[str, tuple[str, ...]] = {
    "indices": ("top_indices", "top_k_indices", "topk_indices", "indices"),
    "logits": ("top_logits", "top_k_logits", "topk_logits", "top_k_values", "topk_values", "values"),
    "logprobs": ("top_logprobs", "top_k_logprobs", "topk_logprobs", "logprobs"),
    "log_rest": ("log_rest",),
    "log_sum_exp": ("log_sum_exp", "logsumexp"),
}
"""What a column of largest logits is, by the names it goes by; the first is the one that is written.

`log_rest` (n, S) at the `rest_temperatures` (S,) are log-sums of the other classes, `log_sum_exp` (n,) that of all at
T = 1; `n_classes` and `rest_temperatures` may stand in the metadata. Log-probabilities need no sum: it is 0."""

_SCORES = ("logits", "logit", "probs", "probabilities", "prob")  # a file with one of these has whole rows


class TopColumns(NamedTuple):
    """The columns of largest logits by role, and what the file says of all rows: the scores of such a file."""

    parts: Mapping[str, Column]
    n_classes: int
    temperatures: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and classes."""
        return self.parts["indices"].shape[0], self.n_classes

    def rows(self, start: int, stop: int, classes: Any, groups: Any) -> TopLogits:
        """Rows start to stop - 1, without labels."""
        blocks: dict[str, Any] = {role: column.read(start, stop) for role, column in self.parts.items()}
        is_normalised = "logits" not in blocks
        sums = np.zeros(stop - start) if is_normalised else blocks.get("log_sum_exp")
        return TopLogits(
            blocks["logprobs" if is_normalised else "logits"],
            blocks["indices"],
            self.n_classes,
            log_rest=blocks.get("log_rest"),
            rest_temperatures=self.temperatures,
            log_sum_exp=None if "log_rest" in blocks else sums,
            classes=classes,
            groups=groups,
        )


def find_top(table: Table, request: Request) -> Layout | None:
    """The columns of a file of largest logits; None if it is of another kind."""
    held = table.columns
    roles = {role: name for role, names in ROLES.items() if (name := first_of(names, held)) is not None}
    if first_of(_SCORES, held) is not None or "indices" not in roles or not roles.keys() & {"logits", "logprobs"}:
        return None
    parts = {role: held[name] for role, name in roles.items()}
    if len(parts["indices"].shape) != 2:
        return None
    if single := [roles[role] for role, part in parts.items() if not part.shape]:
        raise FileFormatError(f"{quoted(single[0])} holds a single value; expected one for each row.")
    if request.probabilities:
        raise FileFormatError("contains the largest logits of each row, not probabilities. Leave out probabilities.")
    if request.id_column is not None:
        raise InputError("ids cannot be read from files of largest logits. Omit id_column.")
    labels = label_name(held, request) if request.find_labels else None
    groups = group_name(held, request)
    classes = named_classes(request, class_names_in(table, request.max_bytes))
    temperatures = _fact(table, "rest_temperatures") if "log_rest" in parts else None
    scores = TopColumns(parts, _n_classes(table, classes, request), temperatures)
    return Layout(scores, classes, None if labels is None else held[labels], None if groups is None else held[groups])


def _fact(table: Table, name: str) -> Any:
    if name in table.columns:
        column = table.columns[name]
        return read_all(column) if column.shape else column.array  # type: ignore[attr-defined]  # a single number is held
    return table.metadata.get(name)


def _n_classes(table: Table, classes: Any, request: Request) -> int:
    """How many classes there are: what the file says, its class names, or what was asked for."""
    declared = _fact(table, "n_classes")
    if declared is not None:
        number = np.asarray(declared)
        if number.size != 1 or number.dtype.kind not in "iu":
            raise FileFormatError(f"n_classes must be one whole number; got {quoted(declared)}.")
        return int(number.reshape(-1)[0])
    n_classes = request.n_options if classes is None else len(classes)
    if n_classes is None:
        raise FileFormatError(
            "contains the largest logits of each row and does not say how many classes there are. Add n_classes to "
            "the file, or pass n_options."
        )
    return n_classes


def top_arrays(rows: TopLogits) -> tuple[dict[str, Any], dict[str, Any]]:
    """Columns and metadata that are written of rows; labels in the smallest type that numbers the classes."""
    parts: dict[str, Any] = {"top_indices": rows.top_indices, "top_logits": rows.top_logits}
    metadata: dict[str, Any] = {"n_classes": rows.n_classes}
    if rows.log_rest is not None:
        parts["log_rest"], metadata["rest_temperatures"] = rows.log_rest, list(rows.rest_temperatures)
    if rows.log_sum_exp is not None:
        parts["log_sum_exp"] = rows.log_sum_exp
    if rows.labels is not None:
        parts["labels"] = rows.labels.astype(np.min_scalar_type(rows.n_classes - 1))
    return parts, metadata
