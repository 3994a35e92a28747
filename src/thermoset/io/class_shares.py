"""Class shares in a file: csv with a class and its share in each line, or a JSON object of shares by class."""

import csv
import io
from pathlib import Path
from typing import Any

import msgspec

from thermoset.errors import FileFormatError
from thermoset.io.delimited import text_errors
from thermoset.io.files import FilePath, existing, read_at_most
from thermoset.io.roles import is_number
from thermoset.quoting import quoted, reason

__all__ = ["SHARE_SUFFIXES", "read_shares"]

SHARE_SUFFIXES = (".csv", ".json")
"""The endings of names of files that hold class shares."""

_MOST_BYTES = 2**28
_COLUMNS = 2


def read_shares(path: FilePath) -> dict[str, float]:
    """The share of each class, by name or column number as it stands in the file; whether they fit is not looked at."""
    source, suffix = existing(path, SHARE_SUFFIXES)
    content = read_at_most(source, _MOST_BYTES)
    try:
        return _from_json(content) if suffix == ".json" else _from_csv(content)
    except FileFormatError as error:
        raise FileFormatError(f"{Path(source).name}: {error}") from None


def _from_json(content: bytes) -> dict[str, float]:
    try:
        found: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"is not a JSON document ({reason(error)}).") from None
    if isinstance(found, list):
        found = {str(column): share for column, share in enumerate(found)}
    try:
        return msgspec.convert(found, dict[str, float])
    except (msgspec.ValidationError, OverflowError) as error:
        said = f'must be an object of shares by class, such as {{"cat": 0.7, "dog": 0.3}} ({reason(error)})'
        raise FileFormatError(f"{said}.") from None


def _from_csv(content: bytes) -> dict[str, float]:
    shares: dict[str, float] = {}
    with text_errors():
        lines = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    for number, cells in enumerate(lines, start=1):
        if not cells:
            continue
        if len(cells) != _COLUMNS:
            raise FileFormatError(f"line {number} must be a class and its share; got {len(cells)} cells.")
        name, share = cells
        if number == 1 and not is_number(share):
            continue  # names of columns
        if not is_number(share):
            raise FileFormatError(f"line {number}: the share must be a number; got {quoted(share)}.")
        if name in shares:
            raise FileFormatError(f"line {number}: class {quoted(name)} appears twice.")
        shares[name] = float(share)
    return shares
