"""Groups that are part of a path: folders called `site=north`, as Hive and Spark write them."""

import re
from pathlib import Path

from thermoset.data.groups import Groups, read_groups
from thermoset.io.files import GROUPS, Request

__all__ = ["HIVE", "group_folder", "hive_value", "same_group"]

HIVE = re.compile(r"([^=/]+)=(.*)")
"""What the name of such a folder looks like: a key and a value."""


def hive_value(path: Path, key: str) -> str | None:
    """The value in the nearest folder called `key=value` above a file.

    >>> hive_value(Path("all/site=north/part-0.parquet"), "site")
    'north'
    """
    pairs = (HIVE.fullmatch(part) for part in reversed(path.parts[:-1]))
    return next((pair[2] for pair in pairs if pair and pair[1] == key), None)


def group_folder(path: Path, request: Request) -> tuple[Request, str | None]:
    """The group that a file's folder gives to all its rows, and a request that does not look for groups in it then.

    >>> group_folder(Path("groups=a/part-0.npz"), Request(False, 0, True))[1]
    'a'
    """
    found = hive_value(path, request.groups or GROUPS[0]) if request.find_groups else None
    return (request, None) if found is None else (request._replace(groups=None, find_groups=False), found)


def same_group(name: str, n_rows: int) -> Groups:
    """The groups of rows that are all of one group.

    >>> same_group("north", 3)
    Groups(3 rows in 1 group: north)
    """
    return read_groups([name], 1).take([0] * n_rows)
