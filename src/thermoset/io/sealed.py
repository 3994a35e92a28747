"""JSON documents with a format, a schema and a checksum: what `save` of a predictor or of an answer rule writes."""

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


def write_sealed(path: FilePath, document: msgspec.Struct) -> None:
    """Write a document with its checksum, whole or not at all."""
    target = as_path(path)
    content = msgspec.json.encode(msgspec.structs.replace(document, checksum=checksum_of(document)))
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(msgspec.json.format(content, indent=1) + b"\n")


def read_sealed(
    path: FilePath, kind: type[D], name: str, most_bytes: int, checks: Callable[[D], Iterable[tuple[bool, str]]]
) -> D:
    """Read a document of a kind, which users know by a name, or say why it is none.

    `checks` say whether two parts of it disagree, and what must hold; in an order in which what is read is there.
    """
    content = read_at_most(path, most_bytes)
    try:
        document = _decode(content, kind, name)
        for broken, requirement in checks(document):
            if broken:
                raise FileFormatError(f"is not usable as {name}: {requirement}.")
    except InputError as error:  # whatever is in the file is the file's fault
        raise FileFormatError(f"{path}: {error}") from None
    return document


def _decode(content: bytes, kind: type[D], name: str) -> D:
    known = {field.name: field.default for field in msgspec.structs.fields(kind)}
    try:
        head = msgspec.json.decode(content, type=_Head)
    except msgspec.ValidationError:
        head = _Head()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"is not a JSON document, or is damaged ({reason(error)}).") from None
    if head.format != known["format"]:
        raise FileFormatError(f"is not {name} saved by thermoset.")
    if head.schema != known["schema"]:
        raise FileFormatError(
            f"was saved by a newer thermoset, or is damaged (schema {quoted(head.schema)}; this one reads schema "
            f"{known['schema']}). Upgrade thermoset."
        )
    try:
        document: Any = msgspec.json.decode(msgspec.json.format(content, indent=-1), type=kind)
        unchanged = checksum_of(document) == document.checksum
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:  # whole numbers: 64 bits
        raise FileFormatError(f"is damaged or was edited: {reason(error)}.") from None
    if not unchanged:
        raise FileFormatError("is damaged or was edited: its checksum does not match. Save it again.")
    found: D = document
    return found
