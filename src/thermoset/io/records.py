"""JSON: an object for each row, with a list of logits; or lm-eval's samples of multiple-choice tasks.

A file has an object in each line, and is read line by line; or it is an array of objects, and is read whole.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thermoset.errors import FileFormatError
from thermoset.io.files import check_size
from thermoset.io.roles import WHOLE_ROWS, Request, list_name
from thermoset.io.table import TEXT, Column, Columns, Forward, Table
from thermoset.quoting import quoted, reason

_BLOCK_ROWS = 512

Fields = dict[str, Any]


def read_json(path: Path, asked: Request) -> Table:
    """Look at the first record, and count the others."""
    is_array = _is_array(path)
    check_size(path.stat().st_size if is_array else 0, asked.max_bytes, "the file")
    first = next(_records(path), None)
    if first is None:
        raise FileFormatError("the file has no rows.")
    if "filtered_resps" in first:
        return _samples(path, first, asked)
    if is_array:
        n_rows = sum(1 for _ in _records(path))
    else:
        with path.open("rb") as stream:
            n_rows = sum(1 for line in stream if line.strip(b"\xef\xbb\xbf \t\r\n"))
    single = list_name(first, asked.probabilities)
    if single is not None and not isinstance(first[single], list):
        _numbers(first[single], single, 0)

    def look(name: str) -> Column:
        value = first[name]
        if not isinstance(value, list):
            return _Records(path, (n_rows,), TEXT, partial(_field, name))
        if name != single and not _is_numbers(value):
            return _Records(path, (n_rows, 0), TEXT, partial(_field, name))
        width = len(_numbers(value, name, 0))
        return _Records(path, (n_rows, width), np.dtype(np.float64), partial(_list, name, width))

    return Table(Columns(first, look), cells=True)


def _is_array(path: Path) -> bool:
    with path.open("rb") as stream:
        begin = stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    return begin.startswith(b"[")


def _records(path: Path) -> Iterator[Fields]:
    """The objects of a file: of its lines, or of the array that it is."""
    with path.open(encoding="utf-8-sig", newline="\n") as stream:
        if _is_array(path):
            values = _value(stream.read(), 0)
            yield from (_as_object(value, row) for row, value in enumerate(values))
            return
        row = 0
        for line in stream:
            if line.strip():
                if row == 0 and not line.lstrip().startswith("{"):
                    begin = quoted(line.strip()[:1])
                    raise FileFormatError(f"not a JSON file: it begins with {begin}; expected an object or array.")
                yield _as_object(_value(line, row), row)
                row += 1


def _value(text: str, row: int) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise FileFormatError("JSON that is nested too deeply. Write one object for each row.") from None
    except ValueError as error:  # also of whole numbers of thousands of digits
        raise FileFormatError(
            f"record {row}: not readable JSON, or truncated ({reason(error)}). "
            "Write an object in each line, or an array of them."
        ) from None


def _as_object(value: Any, row: int) -> Fields:
    if not isinstance(value, dict):
        raise FileFormatError(
            f"record {row} is {quoted(value)}; expected an object, such as {{'logits': [1.5, 0.25]}}."
        )
    return value


@dataclass(frozen=True)
class _Records(Forward):
    """One value of each record: a list of numbers, or anything else."""

    value: Callable[[Fields, int], Any]  # of a record and its number

    def blocks(self, _: int) -> Iterator[NDArray[Any]]:
        """Rows from the first record on."""
        records = enumerate(_records(self.path))
        while some := list(islice(records, _BLOCK_ROWS)):
            values = [self.value(fields, row) for row, fields in some]
            if self.dtype == TEXT:
                block = np.empty(len(values), dtype=object)
                block[:] = values
            else:
                block = np.array(values, dtype=self.dtype)
            yield block


def _field(name: str, fields: Fields, _: int) -> Any:
    return fields.get(name)


def _list(name: str, width: int, fields: Fields, row: int) -> list[float]:
    if name not in fields:
        held = ", ".join(map(quoted, list(fields)[:5])) or "nothing"
        raise FileFormatError(f"record {row}: no list of numbers called {quoted(name)}; it has {held}.")
    values = _numbers(fields[name], name, row)
    if len(values) != width:
        raise FileFormatError(f"row {row} has {len(values)} values, but row 0 has {width}.")
    return values


def _is_numbers(value: list[Any]) -> bool:
    return set(map(type, value)) <= {float, int}


def _numbers(value: Any, name: str, row: int) -> list[float]:
    """Check that a value is a list of numbers."""
    what = f"record {row}: {quoted(name)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise FileFormatError(f"{what} is one number, {quoted(value)}; expected one for each class. {WHOLE_ROWS}.")
    if not isinstance(value, list) or not _is_numbers(value):
        bad = next((x for x in value if type(x) not in (float, int)), None) if isinstance(value, list) else value
        inside = " holds" if isinstance(value, list) else " is"
        raise FileFormatError(f"{what}{inside} {quoted(bad)}; expected a list of numbers, one for each class.")
    try:
        return list(map(float, value))
    except OverflowError:
        raise FileFormatError(f"{what} holds a number that is too large.") from None


def _samples(path: Path, first: Fields, asked: Request) -> Table:
    """Log-likelihoods of options as `logits`, right options as `labels`, and what else the records have."""
    # It stands above, and knows what a sample says.
    from thermoset.integrations.language_models import gold_option, option_names, option_scores  # noqa: PLC0415

    n_rows, longest, filters = 0, 0, set[str]()
    for n_rows, fields in enumerate(_records(path), start=1):
        longest = max(longest, len(option_scores(fields, n_rows - 1)))
        filters.add(str(fields.get("filter")))
    if len(filters) > 1:
        both = " and ".join(map(quoted, sorted(filters)))
        raise FileFormatError(f"samples of two filters, {both}; keep the records of one.")
    width = asked.n_options or longest
    columns: dict[str, Column] = {name: _Records(path, (n_rows,), TEXT, partial(_field, name)) for name in first}
    columns["logits"] = _Records(path, (n_rows, width), np.dtype(np.float64), partial(option_scores, width=width))
    columns["labels"] = _Records(path, (n_rows,), np.dtype(np.int64), gold_option)
    names = option_names(width)
    return Table(columns, {} if names is None else {"classes": list(names)}, cells=True)
