"""Names of columns and arrays: which one holds the groups, and which ones a user has named."""

from collections.abc import Collection

from thermoset.errors import InputError
from thermoset.io.files import GROUPS, Request, no_column
from thermoset.quoting import quoted

__all__ = ["checked_columns", "group_name"]


def checked_columns(names: object) -> tuple[str, ...]:
    """Names of columns that a user listed.

    >>> checked_columns(["patient", "age"])
    ('patient', 'age')
    """
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InputError(f"ignore must be a list of names of columns; got {quoted(names)}.")
    return tuple(names)


def group_name(held: Collection[str], request: Request) -> str | None:
    """Find the column or array of groups among the names a file holds; None if there is none to be read.

    >>> group_name(["logits", "groups"], Request(False, 0, True))
    'groups'
    """
    if not request.find_groups:
        return None
    if request.groups is None:
        return next((name for name in held if name.strip().lower() in GROUPS), None)
    if request.groups not in held:
        raise no_column(request.groups, held)
    return request.groups
