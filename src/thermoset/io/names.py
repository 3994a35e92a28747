"""Names of columns and arrays: which one holds labels or groups, and which ones a user has named."""

from collections.abc import Collection, Sequence
from typing import Any, TypedDict

from numpy.typing import NDArray

from thermoset.data.arrays import first_repeated
from thermoset.data.class_columns import check_class_columns
from thermoset.errors import InputError
from thermoset.io.files import GROUPS, LABELS, Request, first_of, no_column
from thermoset.quoting import quoted

__all__ = ["Roles", "check_columns", "checked_columns", "checked_roles", "group_name", "label_name"]


class Roles(TypedDict):
    """What the columns of a file are, as far as a user has said so: parts of a `Request`."""

    labels: str | None
    id_column: str | None
    groups: str | None
    classes: tuple[str, ...] | None
    ignored: tuple[str, ...]
    known: tuple[str, ...]


def checked_roles(
    *,
    labels: str | None = None,
    id_column: object = None,
    groups: str | None = None,
    classes: object = None,
    ignore: object = (),
    known: object = None,
) -> Roles:
    """What a user said of columns; none can be a class and something else.

    >>> checked_roles(id_column="row", classes=["cat", "dog"])["classes"]
    ('cat', 'dog')
    """
    if id_column is not None and not isinstance(id_column, str):
        raise InputError(f"id_column must be the name of a column; got {quoted(id_column)}.")
    names = None if classes is None else checked_columns(classes, "classes")
    if names is not None and (twice := first_repeated(names)) is not None:
        raise InputError(f"classes name {quoted(twice)} more than once. Name each column once.")
    ignored = checked_columns(ignore, "ignore")
    others = {"labels": [labels], "id_column": [id_column], "groups": [groups], "ignore": ignored}
    for what, columns in others.items():
        both = [name for name in columns if name is not None and name in (names or ())]
        if both:
            raise InputError(f"column {quoted(both[0])} is named in classes and in {what}. Name it in one of them.")
    sure = () if known is None else checked_columns(known, "known")
    return Roles(labels=labels, id_column=id_column, groups=groups, classes=names, ignored=ignored, known=sure)


def checked_columns(names: object, what: str = "ignore") -> tuple[str, ...]:
    """Names of columns that a user listed.

    >>> checked_columns(["patient", "age"])
    ('patient', 'age')
    """
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{what} must be a list of names of columns; got {quoted(names)}.")
    return tuple(names)


def check_columns(names: Sequence[str], rows: NDArray[Any], request: Request) -> None:
    """Refuse columns that do not look like classes, unless the user has said that they are."""
    if request.doubt and request.classes is None and names:
        check_class_columns(names, rows, request.known)


def label_name(held: Collection[str], request: Request) -> str | None:
    """Find the column or array of labels among the names a file holds; None if there is none.

    >>> label_name(["logits", "label"], Request(False, 0, True))
    'label'
    """
    if request.labels is None:
        return first_of(LABELS, held)
    if request.labels not in held and request.find_labels:
        raise no_column(request.labels, held)
    return first_of((request.labels,), held)


def group_name(held: Collection[str], request: Request) -> str | None:
    """Find the column or array of groups among the names a file holds; None if there is none to be read.

    >>> group_name(["logits", "groups"], Request(False, 0, True))
    'groups'
    """
    if not request.find_groups:
        return None
    if request.groups is None:
        classes = request.classes or ()
        return next((name for name in held if name.strip().lower() in GROUPS and name not in classes), None)
    if request.groups not in held:
        raise no_column(request.groups, held)
    return request.groups
