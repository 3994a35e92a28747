"""The state of a monitor: one JSON document with everything that the next batch needs, and no row of the past.

A checksum tells a damaged or edited file from a good one, and that of the predictor says whose state it is. A batch
takes some 300 bytes, whatever its number of rows, and one bit for each row where only some have labels so far.
"""

import hashlib

import msgspec

from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import FilePath, as_path, errors_about, read_at_most, write_whole
from thermoset.monitor.evidence import CoverageTest, RankTest
from thermoset.monitor.watching.parts import PartCounts
from thermoset.monitor.watching.standing import BatchRecord
from thermoset.quoting import quoted, reason

__all__ = ["SCHEMA", "MonitorState", "StoredBatch", "read_state", "write_state"]

SCHEMA = 1
"""The schema that is written, and the only one that is read."""

_FORMAT = "thermoset monitor"
_MOST_BYTES = 2**30
_ELSE = "Restore a backup of the file, or name another file to start a new state."
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError)


class StoredBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One batch: what `BatchRecord` says of it, and what its rows are recognised by.

    `labels_of` has a bit for each row that has a label; it is empty where all rows have one, or none.
    """

    record: BatchRecord
    digest: str
    sketch: tuple[int, ...]
    labels_of: bytes


class MonitorState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the tests stand after the last batch.

    `coverage` is the test of one law for all rows, `joint` the largest evidence where parts have laws of their own;
    one of them may be there, or neither. `crossed` has the batch at which a test first alarmed, by its name, and
    `changes` the batches in which its detector did. `new_changes` says whether one did in the last call.
    """

    format: str = _FORMAT
    schema: int = SCHEMA
    version: str
    predictor: str
    delta: float
    run_length: int | None
    coverage: CoverageTest | None
    joint: float | None
    size: RankTest | None
    confidence: RankTest | None
    parts: PartCounts | None = None
    crossed: dict[str, int] = {}
    changes: dict[str, tuple[int, ...]] = {}
    new_changes: bool = False
    batches: tuple[StoredBatch, ...] = ()
    checksum: str = ""

    @property
    def records(self) -> tuple[BatchRecord, ...]:
        """All batches in order."""
        return tuple(batch.record for batch in self.batches)


class _Head(msgspec.Struct):
    """What tells our files from others, and those of other schemas; read before the rest."""

    format: str = ""
    schema: int = 0


def write_state(path: FilePath, state: MonitorState) -> None:
    """Write the document, whole or not at all."""
    target = as_path(path)
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(_sealed(state))


def read_state(path: FilePath, predictor: str) -> MonitorState:
    """Read the state of a monitor of the predictor with this checksum, or say why it is none."""
    source = as_path(path)
    content = read_at_most(source, _MOST_BYTES)
    with errors_about(source):
        state = _decoded(content)
        if state.predictor != predictor:
            raise InputError(
                "holds the state of a monitor for another predictor, or for this one before it was recalibrated. A "
                "state belongs to one predictor: name another file to start a new state."
            )
    return state


def _decoded(content: bytes) -> MonitorState:
    try:
        head = msgspec.json.decode(content, type=_Head)
    except msgspec.ValidationError:
        head = _Head()
    except _DAMAGE as error:
        raise FileFormatError(f"is not a JSON document, or is damaged ({reason(error)}). {_ELSE}") from None
    if head.format != _FORMAT:
        raise FileFormatError("is not a state written by thermoset monitor. Name another file.")
    if head.schema != SCHEMA:
        raise FileFormatError(
            f"was written by a newer thermoset, or is damaged (schema {quoted(head.schema)}; this one reads schema "
            f"{SCHEMA}). Upgrade thermoset."
        )
    try:
        state = msgspec.json.decode(content, type=MonitorState)
        fits = _sealed(state) == content  # to the byte: a digit more of a number may leave it what it is
    except _DAMAGE as error:
        raise FileFormatError(f"is damaged or was edited: {reason(error)}. {_ELSE}") from None
    if not fits:
        raise FileFormatError(f"is damaged or was edited: its checksum does not match. {_ELSE}")
    return state


def _sealed(state: MonitorState) -> bytes:
    """The document, with the SHA-256 of everything in it but the checksum itself."""
    bare = msgspec.json.encode(msgspec.structs.replace(state, checksum=""))
    return msgspec.json.encode(msgspec.structs.replace(state, checksum=hashlib.sha256(bare).hexdigest())) + b"\n"
