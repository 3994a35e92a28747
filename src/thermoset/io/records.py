"""JSON: an object for each row, with a list of logits; or lm-eval's samples of multiple-choice tasks.

A file has an object in each line, and is read line by line; or it is an array of objects, and is read whole.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from thermoset.data import Logits
from thermoset.data.outputs import GROUPS
from thermoset.errors import FileFormatError
from thermoset.io.files import Ids, Request, RowSource, check_size, first_of, list_name, no_column
from thermoset.io.names import group_name, label_name
from thermoset.io.rows import ORDER, Row, RowList, class_number, naming, numbers, restored
from thermoset.io.samples import RESPONSES, gold_option, option_scores
from thermoset.quoting import quoted, reason

__all__ = ["json_column", "json_keys", "open_json", "read_json"]

Fields = dict[str, Any]


def read_json(path: Path, request: Request) -> Logits:
    """Read every record of a file."""
    return _row_list(path, request).gathered()


def open_json(path: Path, request: Request, _: ExitStack) -> RowSource:
    """Look at the first record, or at all of them if rows differ in length; rows are read in blocks."""
    rows = _row_list(path, request)
    width = rows.width()
    ids = None if request.id_column is None else _ids_of(path, request, request.id_column)
    name = group_name(next(_records(path, request)), request)
    groups = None if name is None else partial(json_column, path, name, request)
    return RowSource((None, width), rows.names(width), partial(rows.blocks, width), ids, groups)


def json_column(path: Path, name: str, request: Request) -> Iterator[object]:
    """The values under a key, from the first record on; None where a record has none."""
    for row, fields in enumerate(_records(path, request)):
        if row == 0 and name not in fields:
            raise no_column(name, fields)
        yield fields.get(name)


def json_keys(path: Path, request: Request) -> tuple[str, ...]:
    """The keys of the first record."""
    return tuple(next(_records(path, request), ()))


def _row_list(path: Path, request: Request) -> RowList:
    first = next(_records(path, request), None)
    if first is None:
        raise FileFormatError("the file has no rows.")
    samples = RESPONSES in first
    read = _sample if samples else _row
    groups = group_name(first, request)
    return RowList(partial(_rows, path, request, read, groups), samples, request)


def _records(path: Path, request: Request) -> Iterator[Fields]:
    """The objects of a file: of its lines, or of the array that it is."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            while (line := stream.readline()) and not line.strip():
                pass
            if line.lstrip().startswith("["):
                check_size(path.stat().st_size, request.max_bytes, "the file")
                values = _value(line + stream.read(), 0)
                yield from (_as_object(value, row) for row, value in enumerate(values))
                return
            if not line.lstrip().startswith("{"):
                begin = quoted(line.strip()[:1])
                raise FileFormatError(f"not a JSON file: it begins with {begin}; expected an object or an array.")
            row = 0
            while line:
                if line.strip():
                    yield _as_object(_value(line, row), row)
                    row += 1
                line = stream.readline()
    except UnicodeDecodeError as error:
        raise FileFormatError(f"not UTF-8 text ({error.reason} at byte {error.start}).") from None


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


def _rows(path: Path, request: Request, read: Callable[[Fields, Request], Row], groups: str | None) -> Iterator[Row]:
    applied: set[str] = set()
    for row, fields in enumerate(_records(path, request)):
        with naming(f"record {row}"):
            yield read(fields, request)._replace(group=_group(fields, request, groups))
            applied.add(str(fields.get("filter")))
            if len(applied) > 1 and read is _sample:
                raise FileFormatError(
                    f"samples of two filters, {' and '.join(map(quoted, sorted(applied)))}; keep the records of one."
                )


def _group(fields: Fields, request: Request, name: str | None) -> object:
    """The group of a record; one that has none where others have one is refused."""
    if name is None:
        if request.find_groups and first_of(GROUPS, fields) is not None:
            raise FileFormatError("has a group, unlike the first record. Give every record a group, or none.")
        return None
    if fields.get(name) is None:
        raise FileFormatError(f"has no {quoted(name)}. Give every record a group, or drop it.")
    return fields[name]


def _sample(fields: Fields, request: Request) -> Row:
    if RESPONSES not in fields:
        raise FileFormatError(f"there is no {RESPONSES!r}, which the first record has.")
    scores = option_scores(fields)
    return Row(scores, gold_option(fields, scores) if request.find_labels else None)


def _row(fields: Fields, request: Request) -> Row:
    name = list_name(fields, request.probabilities)
    if name is None:
        raise FileFormatError(_missing(fields, request))
    scores = numbers(fields[name], quoted(name))
    index = fields.get(ORDER)
    label = label_name(fields, request)
    if label is not None and isinstance(fields[label], list) and index is not None:
        label = None  # names of the classes that 'index' has too
    if label is not None and isinstance(fields[label], list):
        class_number(fields[label], quoted(label))  # says that rows are not whole
    if isinstance(index, list):
        scores = restored(scores, index)
    if label is None or not request.find_labels:
        return Row(scores, None)
    return Row(scores, class_number(fields[label], quoted(label), request.classes))


def _missing(fields: Fields, request: Request) -> str:
    wanted = "'probs' or 'prob'" if request.probabilities else "'logits' or 'logit'"
    hint = ""
    if not request.probabilities and list_name(fields, probabilities=True) is not None:
        hint = " Pass probabilities=True to read probabilities."
    held = ", ".join(map(quoted, list(fields)[:5])) or "nothing"
    return f"no list of numbers called {wanted}; the record has {held}.{hint}"


def _ids_of(path: Path, request: Request, name: str) -> Ids:
    first = next(_records(path, request))
    if name not in first:
        raise no_column(name, first)
    return Ids(partial(_ids, path, request, name), text=not isinstance(first[name], int))


def _ids(path: Path, request: Request, name: str) -> Iterator[object]:
    kind: type | None = None
    for row, fields in enumerate(_records(path, request)):
        value = fields.get(name)
        kind = type(value) if kind is None else kind
        if type(value) is not kind or kind not in (int, str) or not _usable(value):
            raise FileFormatError(
                f"record {row}: {quoted(name)} is {quoted(value)}; ids are whole numbers below 2**63, or text."
            )
        yield value


def _usable(value: Any) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    try:
        return bool(str(value).encode().strip())
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can say and no file can hold
        return False
