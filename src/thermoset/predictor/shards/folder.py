"""A folder of predictions that can be resumed after a run was killed.

While the work goes on, the folder has a journal: a line that says what was begun, and one for each finished shard, on
disk before the next is begun. A line counts if it is complete. At the end the same records become the manifest, and the
journal goes. Predictions appear under their names whole (`io.files.write_whole`), so that at any moment a file is
finished or not there; a finished file without its line is predicted again, to the same bytes.

Whoever works on a folder holds a lock on its journal. Names begin with an underscore, which programs that read a folder
of tables (pyarrow, Spark, dask) take as a sign that a file is none.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import FilePath, as_path, errors_about, read_at_most, write_whole
from thermoset.io.locks import lock
from thermoset.predictor.shards.jobs import ShardDone, ShardJob, sha256_of, source_of
from thermoset.quoting import quoted, reason

__all__ = ["JOURNAL", "MANIFEST", "Folder", "Manifest", "Run", "check_target", "locked", "read_manifest", "standing"]

MANIFEST = "_manifest.json"
"""What was predicted, by what and from what; written when everything is finished."""

JOURNAL = "_unfinished.journal"
"""What is finished so far, while the run is incomplete."""

_FORMAT = "thermoset predictions"
_SCHEMA = 1
_MOST_BYTES = 2**32
_DAMAGE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SPOKEN = {
    "schema": "schema of the manifest",
    "version": "version of thermoset",
    "predictor": "predictor",
    "kind": "format",
    "probabilities": "setting for probabilities",
    "labels": "column of labels",
    "classes": "choice of classes",
    "id_column": "column of ids",
    "u": "source of u",
    "groups": "column of groups",
    "ignore": "choice of columns to ignore",
    "p_values": "setting for p-values",
    "weights": "column of weights",
}
_T = TypeVar("_T")


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that determines the output: it must be the same when a run is resumed."""

    format: str = _FORMAT
    schema: int = _SCHEMA
    version: str
    predictor: str  # its checksum
    kind: str
    probabilities: bool
    labels: str | None
    classes: tuple[str, ...] | None
    id_column: str | None
    u: str
    groups: str | None  # their column, where one was named
    ignore: tuple[str, ...]
    p_values: bool
    weights: str | None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a folder of predictions: one record per shard, in the order of the shards."""

    run: Run
    shards: tuple[ShardDone, ...]


class _Begun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a journal."""

    run: Run
    inputs: tuple[str, ...]


class _State(NamedTuple):
    """What a folder says: what was begun, what is finished, and how many bytes of the journal are complete lines."""

    begun: _Begun
    done: dict[str, ShardDone]  # by output
    journal_bytes: int


def read_manifest(folder: FilePath) -> Manifest:
    """Read the manifest of a folder of predictions; it exists once all shards are finished."""
    path = as_path(folder) / MANIFEST
    content = read_at_most(path, _MOST_BYTES)
    try:
        return msgspec.json.decode(content, type=Manifest)
    except _DAMAGE as error:
        raise FileFormatError(f"{path}: is damaged or was edited ({reason(error)}). Predict again.") from None


def standing(folder: Path) -> tuple[int, int] | None:
    """How many shards of an unfinished folder are finished, and how many there are; None if it has no journal.

    >>> standing(Path("nowhere")) is None
    True
    """
    state = _of_journal(folder)
    return None if state is None else (len(state.done), len(state.begun.inputs))


def check_target(folder: Path, resume: bool) -> None:
    """Refuse a folder that holds anything, unless it holds a run and that is to be resumed."""
    if _state_of(folder) is None:
        with errors_about(folder):
            others = sorted(one.name for one in folder.iterdir() if one.name[0] != "." and one.name != JOURNAL)
        if others:
            raise InputError(f"{folder}: is not empty (it contains {quoted(others[0])}). Name a new folder.")
    elif not resume:
        raise InputError(f"{folder}: contains predictions of an earlier run. Resume it, or name another folder.")


def _state_of(folder: Path) -> _State | None:
    """What is known of an earlier run. Where a journal has begun it counts, because a manifest is then out of date."""
    state = _of_journal(folder)
    if state is None and (folder / MANIFEST).exists():
        found = read_manifest(folder)
        begun = _Begun(found.run, tuple(one.input for one in found.shards))
        return _State(begun, {one.output: one for one in found.shards}, 0)
    return state


def _of_journal(folder: Path) -> _State | None:
    """Read the complete lines of a journal; the last one may have been torn, and what follows it was never there."""
    path = folder / JOURNAL
    if not path.exists():
        return None
    head, *lines = read_at_most(path, _MOST_BYTES).splitlines(keepends=True) or [b""]
    begun = _line(head, _Begun)
    if begun is None:
        return None
    done, size = {}, len(head)
    for line in lines:
        one = _line(line, ShardDone)
        if one is None:
            break
        done[one.output], size = one, size + len(line)
    return _State(begun, done, size)


def _line(line: bytes, kind: type[_T]) -> _T | None:
    """A line of a journal; None if it is not complete."""
    if not line.endswith(b"\n"):
        return None
    try:
        return msgspec.json.decode(line, type=kind)
    except _DAMAGE:
        return None


@contextmanager
def locked(folder: Path) -> Iterator[FileIO]:
    """Make a folder and open its journal, for this process alone; if that stays empty, both go again at the end."""
    path = folder / JOURNAL
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    with errors_about(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        stream = lock(path, "another process is writing predictions to this folder. Wait until it has finished.")
    with stream:
        try:
            yield stream
        finally:
            if os.fstat(stream.fileno()).st_size == 0:
                path.unlink(missing_ok=True)
                with suppress(OSError):  # it is not empty: there is something to keep
                    for place in made:
                        place.rmdir()


class Folder:
    """A folder whose journal is locked: what is finished in it, and what is not."""

    def __init__(self, folder: Path, journal: FileIO, run: Run, jobs: Sequence[ShardJob]) -> None:
        """Take over what an earlier run has finished and is still whole; refuse to mix it with anything else."""
        self._path, self._journal = folder, journal
        self._begun = _Begun(run, tuple(job.input for job in jobs))
        self._jobs = {job.output: job for job in jobs}
        state = _state_of(folder)
        self._journal_bytes = 0 if state is None else state.journal_bytes
        self.done: dict[str, ShardDone] = {}
        if state is not None:
            _check_same(folder, state.begun, self._begun)
            known = ((self._jobs[name], one) for name, one in state.done.items() if name in self._jobs)
            self.done = {job.output: one for job, one in known if _is_whole(job, one)}

    @property
    def pending(self) -> list[ShardJob]:
        """What is not finished, in order."""
        return [job for name, job in self._jobs.items() if name not in self.done]

    @property
    def is_open(self) -> bool:
        """Whether a run before has begun something and not written its manifest."""
        return self._journal_bytes > 0

    def begin(self) -> None:
        """Make the journal fit to be continued, make folders, and remove unfinished files that a killed run left."""
        self._journal.truncate(self._journal_bytes)
        if self._journal_bytes == 0:
            self._append(self._begun, *self.done.values())
            _sync_names(self._path)  # so that after a power cut there are no predictions without a journal
        (self._path / MANIFEST).unlink(missing_ok=True)
        for place in self._places:
            place.mkdir(parents=True, exist_ok=True)
        self._remove_unfinished()

    def finished(self, one: ShardDone) -> None:
        """Take note that a shard is finished; it is on disk when this returns."""
        self.done[one.output] = one
        self._append(one)

    def close(self) -> None:
        """Write the manifest, and remove the journal and what workers that died on the way have left."""
        self._remove_unfinished()
        # A line for each shard, for people and for diff.
        lines = b",\n".join(map(msgspec.json.encode, self.manifest.shards))
        content = b'{"run":%b,"shards":[\n%b\n]}\n' % (msgspec.json.encode(self._begun.run), lines)
        with errors_about(self._path, "written"), write_whole(self._path / MANIFEST) as stream:
            stream.write(content)
        (self._path / JOURNAL).unlink()

    @property
    def _places(self) -> set[Path]:
        return {self._path, *(job.target.parent for job in self._jobs.values())}

    def _remove_unfinished(self) -> None:
        for place in self._places:
            for left in place.glob(".*.tmp"):  # of `write_whole`
                left.unlink(missing_ok=True)

    @property
    def manifest(self) -> Manifest:
        """The records of all shards, in order."""
        return Manifest(self._begun.run, tuple(self.done[name] for name in self._jobs))

    def _append(self, *records: _Begun | ShardDone) -> None:
        left = memoryview(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
        with errors_about(self._path, "written"):
            while left:
                left = left[self._journal.write(left) :]
            os.fsync(self._journal.fileno())


def _sync_names(folder: Path) -> None:
    """Put the names in a folder on disk, where the system can be asked to."""
    with suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _check_same(folder: Path, was: _Begun, now: _Begun) -> None:
    """Refuse to resume with anything that would change what is written."""
    for field, spoken in _SPOKEN.items():
        before, after = getattr(was.run, field), getattr(now.run, field)
        if before != after:
            shown = "" if field == "predictor" else f": {quoted(before)} then, {quoted(after)} now"
            raise InputError(
                f"{folder}: was begun with a different {spoken}{shown}, so it cannot be resumed. Use the same one, or "
                "name another folder."
            )
    for one, other, said in ((was, now, "is missing"), (now, was, "is new")):
        differing = sorted(set(one.inputs) - set(other.inputs))
        if differing:
            raise InputError(
                f"{folder}: was begun with different shards, so it cannot be resumed: {quoted(differing[0])} {said}. "
                "Use the same shards, or name another folder."
            )


def _is_whole(job: ShardJob, one: ShardDone) -> bool:
    """Whether the predictions of a shard are there as they were written; if so, its logits must be the same too."""
    if not job.target.is_file() or job.target.stat().st_size != one.bytes or sha256_of(job.target)[1] != one.sha256:
        return False
    if source_of(job.source) != one.source:
        raise InputError(
            f"{job.source}: has changed since it was predicted. Delete {job.target} to predict it again, "
            "or name another folder."
        )
    return True
