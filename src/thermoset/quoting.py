"""How messages quote text from a file or a user: on one line, without terminal control codes, and not too long."""

import dataclasses
import math
import re
import reprlib
import unicodedata
from collections.abc import Sequence

MOST = 80
"""Characters shown of a name, a cell or a value; longer ones lose their middle."""


class _Short(reprlib.Repr):
    """`repr` that stops early: of a list doubled sixty times over it shows the first few, and visits no more."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 2, MOST, MOST
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxarray = 4

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002
        text = f"{x}" if x.bit_length() < 4096 else f"a number of about {math.ceil(x.bit_length() * 0.30103)} digits"
        return text if len(text) <= MOST else f"{text[:38]}...{text[-38:]}"


_SHORT = _Short()
_OVERRIDES = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def quoted(value: object) -> str:
    """Show a value as Python writes it, without control characters, shortened."""
    return re.sub(r"\s*\n\s*", " ", _SHORT.repr(value))  # an array is written on several lines


def printable(text: str, most: int | None = None) -> str:
    """Text with what cannot be shown, or changes what is next to it, written as escapes; cut if longer than `most`.

    That is control characters, ends of lines, bytes of no character, and overrides of the direction of writing.
    """
    line = text if most is None else text[: most + 1]
    if not line.isprintable():
        line = "".join(char.encode("unicode_escape").decode() if _is_hidden(char) else char for char in line)
    return line if most is None or len(line) <= most else f"{line[: most - 3]}..."


def _is_hidden(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(char) in _OVERRIDES


def listing(names: Sequence[str], most: int = 5) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def reason(error: object) -> str:
    """What another library says (why something failed, what a type is called), in one line."""
    return printable(" ".join(str(error).split()), 160)


class Brief:
    """For dataclasses with `repr=False`: numbers and short words as they are, of all else what it is and how many."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = [f"{field.name}={_brief_value(getattr(self, field.name))}" for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(shown)})"


def _brief_value(value: object) -> str:
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return quoted(value)
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"<array {'x'.join(map(str, shape))}>" if shape else f"{value:.4g}"
    if isinstance(value, tuple | list | dict | frozenset | set) and type(value).__repr__ in _PLAIN_REPRS:
        return f"<{len(value)} item{'' if len(value) == 1 else 's'}>"
    return f"<{type(value).__name__}>"


_PLAIN_REPRS = {kind.__repr__ for kind in (tuple, list, dict, frozenset, set)}
