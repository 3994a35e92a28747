"""The objects of a JSON file, one after the other: memory is bounded by one object, not by the file.

A file may hold an object a line, an array of objects, objects under keys (`{"a.jpg": {...}, ...}`, pandas' orient
"index"), or columns and data (pandas' orient "split").
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from thermoset.errors import FileFormatError
from thermoset.io.files import check_size
from thermoset.quoting import quoted, reason

__all__ = ["Item", "read_items"]

PIECE = 1 << 16  # characters
PARSED = 24  # bytes in memory for a character of JSON, at most: "{}," takes 72
UNFINISHED = 64  # characters before the end in which a value that was cut off is found to be wrong
STARTS = ("{", "[", '"')
SPACE = " \t\n\r"


class Item(NamedTuple):
    """One object of a file, and the key it stands under, where objects have one."""

    key: str | None
    fields: dict[str, Any]


def read_items(path: Path, max_bytes: int, is_row: Callable[[dict[str, Any]], bool]) -> Iterator[Item]:
    """Yield the objects of a file from the first on.

    `is_row` says of an object whether it is one of the rows; objects under keys are recognised by it.
    """
    with _json_errors(), path.open(encoding="utf-8-sig") as stream:
        text = _Text(stream, max_bytes)
        first = text.peek()
        if first == "[":
            yield from (Item(None, _as_object(value, row)) for row, value in enumerate(text.array()))
            text.expect_end()
        elif first == "{":
            yield from _objects(text, is_row)
        else:
            raise FileFormatError(f"not a JSON file: it begins with {quoted(first)}; expected an object or an array.")


def _objects(text: "_Text", is_row: Callable[[dict[str, Any]], bool]) -> Iterator[Item]:
    """Objects under keys, columns and data, or one object after the other: the first key and its value tell."""
    start = text.place
    text.take("{")
    if text.peek() != "}":
        key, value = text.member()
        if key == "columns" and isinstance(value, list):
            yield from _split(text, value)
            return
        if isinstance(value, dict) and is_row(value):
            yield Item(key, value)
            yield from (Item(key, _as_object(more, row)) for row, (key, more) in enumerate(text.members(), 1))
            text.expect_end()
            return
    text.place = start
    row = 0
    while text.peek():
        yield Item(None, _as_object(text.value(), row))
        text.forget()
        row += 1


def _split(text: "_Text", columns: list[Any]) -> Iterator[Item]:
    """Rows that are lists, after the names of their columns."""
    names = [str(name) for name in columns]
    while text.peek() == ",":
        text.take(",")
        key = text.key()
        if key != "data":
            text.value()
            continue
        for row, value in enumerate(text.array()):
            if not isinstance(value, list) or len(value) != len(names):
                raise FileFormatError(f"row {row} of data must be a list of {len(names)} values, as 'columns' has.")
            yield Item(None, dict(zip(names, value, strict=True)))
    text.take("}")
    text.expect_end()


def _as_object(value: Any, row: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileFormatError(
            f"record {row} is {quoted(value)}; expected an object, such as {{'logits': [1.5, 0.25]}}."
        )
    return value


@contextmanager
def _json_errors() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise FileFormatError(f"not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except RecursionError:
        raise FileFormatError("JSON that is nested too deeply: hostile. Write one object for each row.") from None


class _Text:
    """Text that is read in pieces, and what has been understood of it."""

    def __init__(self, stream: TextIO, max_bytes: int) -> None:
        self._stream, self._max_bytes = stream, max_bytes
        self._held, self._all_read = "", False
        self._kept = self._records = 0  # where the text begins that may be read again, and how many records are done
        self._decode = json.JSONDecoder().raw_decode
        self.place = 0

    def peek(self) -> str:
        """The next character that is not space; empty at the end."""
        while True:
            while self.place < len(self._held):
                if self._held[self.place] not in SPACE:
                    return self._held[self.place]
                self.place += 1
            if not self._more():
                return ""

    def take(self, wanted: str) -> None:
        """Pass one character, which must be this one."""
        found = self.peek()
        if found != wanted:
            raise self._unreadable(f"expected {wanted!r}, got {quoted(found) if found else 'the end of the file'}")
        self.place += 1

    def value(self) -> Any:
        """Read one object, array or text; numbers would not say where they end."""
        found = self.peek()
        if found not in STARTS:
            shown = quoted(found) if found else "the end of the file"
            raise self._unreadable(f"expected an object or a list, got {shown}")
        while True:
            try:
                value, self.place = self._decode(self._held, self.place)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos > len(self._held) - UNFINISHED
                if cut and self._more():
                    continue
                raise self._unreadable(reason(error.msg)) from None
            except ValueError as error:  # Python refuses whole numbers of thousands of digits
                raise self._unreadable(reason(error)) from None
            return value

    def key(self) -> str:
        """Read a key and the colon after it."""
        if self.peek() != '"':
            self.take('"')
        key: str = self.value()
        self.take(":")
        return key

    def member(self) -> tuple[str, Any]:
        """Read a key and its value; None for a number or a constant, which is left where it is."""
        key = self.key()
        return key, self.value() if self.peek() in STARTS else None

    def members(self) -> Iterator[tuple[str, Any]]:
        """Read what is left of an object, behind its first member."""
        while self.peek() == ",":
            self.take(",")
            self.forget()
            yield self.key(), self.value()
        self.take("}")

    def array(self) -> Iterator[Any]:
        """Read the values of an array."""
        self.take("[")
        while self.peek() != "]":
            yield self.value()
            self.forget()
            if self.peek() != "]":
                self.take(",")
        self.take("]")

    def expect_end(self) -> None:
        """Refuse what comes after the last value."""
        if self.peek():
            raise FileFormatError(f"not readable JSON: {quoted(self.peek())} after the end of the data.")

    def forget(self) -> None:
        """Let go of a record that has been read."""
        self._kept = self.place
        self._records += 1

    def _more(self) -> bool:
        """Read as much again as is held; whether there was any."""
        if self._all_read:
            return False
        self._held, self.place, self._kept = self._held[self._kept :], self.place - self._kept, 0
        piece = self._stream.read(max(PIECE, len(self._held)))
        n_bytes = (len(self._held) + len(piece)) * PARSED
        check_size(n_bytes, max(self._max_bytes, 2 * PIECE * PARSED), f"record {self._records}")
        self._all_read = not piece
        self._held += piece
        return bool(piece)

    def _unreadable(self, why: str) -> FileFormatError:
        return FileFormatError(f"record {self._records}: not readable JSON, or truncated ({why}).")
