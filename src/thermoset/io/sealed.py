"""JSON documents with a format, a schema and a checksum: what a predictor, an answer rule or a monitor saves."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import FilePath, as_path, errors_about, read_at_most, write_whole
from thermoset.quoting import quoted, reason

D = TypeVar("D", bound=msgspec.Struct)
"""A document: a struct with the fields format, schema and checksum, all with defaults."""


class _Head(msgspec.Struct):
    format: str = ""
    schema: int = 0


def checksum_of(document: msgspec.Struct) -> str:
    """SHA-256 of everything in a document but the checksum itself."""
    content = msgspec.json.encode(msgspec.structs.replace(document, checksum=""))
    return hashlib.sha256(msgspec.json.format(content, indent=-1)).hexdigest()


def _seal(document: msgspec.Struct, indent: int) -> bytes:
    """A document as it is written, with its checksum: indented, or with indent=-1 in one line."""
    content = msgspec.json.encode(msgspec.structs.replace(document, checksum=checksum_of(document)))
    return msgspec.json.format(content, indent=indent) + b"\n"


def write_sealed(path: FilePath, document: msgspec.Struct, indent: int = 1) -> None:
    """Write a document with its checksum, whole or not at all."""
    target = as_path(path)
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(_seal(document, indent))


def read_sealed(
    path: FilePath,
    kind: type[D],
    name: str,
    most_bytes: int,
    checks: Callable[[D], Iterable[tuple[bool, str]]],
    remedy: str = "Save it again.",
    exact: bool = False,
) -> D:
    """Read a document of a kind, which users know by a name, or say why it is none.

    `checks` say whether two parts of it disagree, and what must hold; in an order in which what is read is there.
    `exact`: what was written in one line must be so to the byte; a digit more of a number may leave it what it is.
    """
    source = as_path(path)
    content = read_at_most(source, most_bytes)
    with errors_about(source):
        try:
            document = _decode(content, kind, name, remedy, exact)
            for broken, requirement in checks(document):
                if broken:
                    raise FileFormatError(f"is not usable as {name}: {requirement}.")
        except InputError as error:  # whatever is in the file is the file's fault
            raise FileFormatError(str(error)) from None
    return document


def _decode(content: bytes, kind: type[D], name: str, remedy: str, exact: bool) -> D:
    known = {field.name: field.default for field in msgspec.structs.fields(kind)}
    try:
        head = msgspec.json.decode(content, type=_Head)
    except msgspec.ValidationError:
        head = _Head()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"is not a JSON document, or is damaged ({reason(error)}). {remedy}") from None
    if head.format != known["format"]:
        raise FileFormatError(f"is not {name} saved by thermoset.")
    if head.schema != known["schema"]:
        raise FileFormatError(
            f"was saved by a newer thermoset, or is damaged (schema {quoted(head.schema)}; this one reads schema "
            f"{known['schema']}). Upgrade thermoset."
        )
    try:
        document: Any = msgspec.json.decode(msgspec.json.format(content, indent=-1), type=kind)
        unchanged = checksum_of(document) == document.checksum and (not exact or _seal(document, -1) == content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:  # whole numbers: 64 bits
        raise FileFormatError(f"is damaged or was edited: {reason(error)}. {remedy}") from None
    if not unchanged:
        raise FileFormatError(f"is damaged or was edited: its checksum does not match. {remedy}")
    found: D = document
    return found
