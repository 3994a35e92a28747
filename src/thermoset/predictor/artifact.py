"""The predictor as a file: one JSON document with a versioned schema.

Everything a prediction needs is in it, every float comes back exactly, and nothing in it is ever executed. A checksum
tells an edited or damaged file from a good one. There is no time stamp: the same rows and seed give the same file.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from thermoset.bounds import COLDEST, HOTTEST, MOST_HELD
from thermoset.conformal.groupings import GROUPINGS
from thermoset.conformal.methods import Method
from thermoset.conformal.recipes import Recipe
from thermoset.core.levels import exact_level
from thermoset.core.scores import Score
from thermoset.core.uniforms import SCHEMES
from thermoset.data import Logits
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import errors_about, read_at_most, write_whole
from thermoset.predictor.members import Member, Thresholds, broken_members
from thermoset.predictor.old_schemas import OLD_SCHEMAS, translate
from thermoset.quoting import quoted, reason
from thermoset.tuning.choice import Choice, Setting
from thermoset.tuning.preferences import read_preference

__all__ = [
    "SCHEMA",
    "SELECTIONS",
    "Artifact",
    "Measure",
    "Member",
    "Method",
    "Provenance",
    "Thresholds",
    "checksum_of",
    "fingerprint",
    "read_artifact",
    "write_artifact",
]

SCHEMA = 4
"""The version this library writes, and the newest it reads."""

SELECTIONS = ("calibration", "paper", "full")
"""Which rows T-hat may be chosen from."""

_FORMAT = "thermoset predictor"
_NO_MATCH = "is damaged, or was edited: its checksum does not match. Save the predictor again."
_MOST_BYTES = 2**28  # a document for 100,000 classes has some 10 MB

# Unknown fields are refused, because ignoring one could change a prediction.


class Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A number that was measured when the predictor was made, and its 95% interval where there is one."""

    name: str
    value: float
    low: float | None
    high: float | None


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a predictor came from: library, rows, and what was asked for."""

    version: str
    calibration_rows: int
    calibration_sha256: str
    conformal_rows: int
    conformal_sha256: str
    objective: str
    prefer: str
    selection: str
    random_state: int
    calibration_fraction: str
    recalibrated: bool


class Artifact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fitted predictor.

    `alpha` is the promised level and `alpha_sets` the one that the threshold is set for, which may be stricter (see
    `ConformalClassifier.tighten`). `thresholds`, `pool_sizes` (rows behind each) and `group_of_class` are as in
    `conformal.PooledScores`; `seed` is that of u, None for deterministic scores, and `scheme` how u follows from it
    (see `core.uniforms`); `sizes[s]` counts the conformal rows with a set of size s. Sets are unions over `members`,
    T-hat among them, where all rows did both; without members they are those at T-hat.
    """

    format: str = _FORMAT
    schema: int = SCHEMA
    method: Method
    alpha: str
    alpha_sets: str
    temperature: float
    temperature_sets: float
    thresholds: Thresholds
    pool_sizes: tuple[int, ...]
    grouping: str | None
    group_of_class: tuple[int, ...] | None
    seed: int | None
    scheme: int
    allow_empty: bool
    n_classes: int
    classes: tuple[str, ...] | None
    sizes: tuple[int, ...]
    choice: Choice
    measures: tuple[Measure, ...]
    provenance: Provenance
    members: tuple[Member, ...] = ()
    checksum: str = ""

    @property
    def recipe(self) -> Recipe:
        """How its sets are made."""
        return self.recipe_with(self.method.score())

    @property
    def setting(self) -> Setting:
        """What its sets are made with."""
        return Setting(
            method=self.method,
            randomized=self.seed is not None or not self.method.score().uses_u,
            grouping=self.grouping,
            alpha=self.alpha_sets,
            temperature=self.temperature_sets,
        )

    def recipe_with(self, score: Score) -> Recipe:
        """The same for a score in hand: that of a user cannot be found by its name.

        A score without u has no seed, randomised or not: its sets are the same.
        """
        return Recipe(
            score,
            self.alpha_sets,
            randomized=self.seed is not None or not score.uses_u,
            allow_empty=self.allow_empty,
            grouping=self.grouping,
            random_state=self.provenance.random_state,
        )


class _Head(msgspec.Struct):
    """What tells our files from others, and new ones from old; read before the rest."""

    format: str = ""
    schema: int = 0


def write_artifact(path: str | os.PathLike[str], artifact: Artifact) -> None:
    """Write the document, whole or not at all."""
    if artifact.method.is_own:
        raise InputError(
            f"a predictor with a score of your own ({quoted(artifact.method.title)}) cannot be saved: "
            "the file would have to name a score that other programs know. Save the rows, and fit again."
        )
    target = Path(path)
    sealed = msgspec.structs.replace(artifact, checksum=checksum_of(artifact))
    content = msgspec.json.format(msgspec.json.encode(sealed), indent=1) + b"\n"
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(content)


def read_artifact(path: str | os.PathLike[str]) -> Artifact:
    """Read a document and check everything in it."""
    content = read_at_most(path, _MOST_BYTES)
    try:
        artifact = _decoded(content)
        _check(artifact)
    except InputError as error:  # a score's own complaint too: whatever is in the file is the file's fault
        raise FileFormatError(f"{path}: {error}") from None
    return artifact


def fingerprint(data: Logits) -> str:
    """SHA-256 of rows, labels and class names.

    >>> fingerprint(Logits([[1.0, 2.0]], [1])) == fingerprint(Logits([[1.0, 2.0]], [1]))
    True
    """
    parts = hashlib.sha256()
    parts.update(json.dumps([data.logits.dtype.str, *data.logits.shape, data.classes]).encode())
    parts.update(np.ascontiguousarray(data.logits).data)
    parts.update(data.require_labels("a fingerprint").astype("<i8").data)
    return parts.hexdigest()


def checksum_of(artifact: Artifact) -> str:
    """SHA-256 of everything in the document but the checksum itself."""
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(artifact, checksum=""))).hexdigest()


def _decoded(content: bytes) -> Artifact:
    try:
        head = msgspec.json.decode(content, type=_Head)
    except msgspec.ValidationError:
        head = _Head()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"is not a JSON document, or damaged ({reason(error)}).") from None
    if head.format != _FORMAT:
        raise FileFormatError("is not a predictor that thermoset saved.")
    if head.schema > SCHEMA:
        raise FileFormatError(
            f"was saved by a newer thermoset (schema {quoted(head.schema)}; this one reads up to {SCHEMA}). "
            "Upgrade thermoset."
        )
    try:
        if head.schema in OLD_SCHEMAS:
            return _translated(content, head.schema)
        artifact = msgspec.json.decode(content, type=Artifact)
        fits = checksum_of(artifact) == artifact.checksum
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:  # whole numbers: 64 bits
        raise FileFormatError(f"is damaged, or was edited: {reason(error)}.") from None
    if not fits:
        raise FileFormatError(_NO_MATCH)
    return artifact


def _translated(content: bytes, schema: int) -> Artifact:
    """Read a document of an older schema, whose own fields its checksum covers."""
    document = msgspec.json.decode(content)
    sealed = document.get("checksum")
    if hashlib.sha256(msgspec.json.encode(document | {"checksum": ""})).hexdigest() != sealed:
        raise FileFormatError(_NO_MATCH)
    translate(document, schema)
    return msgspec.convert(document | {"schema": SCHEMA}, Artifact)


def _check(artifact: Artifact) -> None:
    """Refuse what fits the schema but makes no predictor, so that a forged checksum gets no further either."""
    artifact.method.score()
    for requirement, broken in chain(
        _of_sets(artifact), _of_members(artifact), _of_choice(artifact), _of_provenance(artifact)
    ):
        if broken:
            raise FileFormatError(f"is no usable predictor: {requirement}.")


Broken = Iterator[tuple[str, bool]]
"""What a document must be, and whether it is not; in an order in which what is looked at is there."""


def _of_sets(artifact: Artifact) -> Broken:
    thresholds = artifact.thresholds.pairs()
    n_classes, n_thresholds = artifact.n_classes, len(thresholds.value)
    grouping = None if artifact.grouping is None else GROUPINGS.get(artifact.grouping)
    by_class = grouping is not None
    groups, pools = artifact.group_of_class, artifact.pool_sizes
    yield "schema must be at least 1", artifact.schema < 1
    yield "alpha_sets must be at most alpha", exact_level(artifact.alpha_sets) > exact_level(artifact.alpha)
    known = " or ".join(GROUPINGS)
    yield f"grouping must be null, {known}", artifact.grouping is not None and grouping is None
    yield f"n_classes must be from 2 to {_MOST_CLASSES:,}", not 2 <= n_classes <= _MOST_CLASSES
    temperatures = artifact.temperature, artifact.temperature_sets
    yield f"temperatures must be {_TEMPERATURES}", not all(map(_is_temperature, temperatures))
    yield "thresholds must be pairs", len(thresholds.refine) != n_thresholds
    yield "thresholds must be numbers", _any_nan(thresholds.value) or _any_nan(thresholds.refine)
    yield "thresholds must be one, or one for each class", n_thresholds != (n_classes if by_class else 1)
    yield "pool_sizes must have one entry for each threshold", len(pools) != n_thresholds
    yield f"pool_sizes must be from 0 to {MOST_HELD:,}", not _are_counts(pools)
    yield "group_of_class must be there for class-conditional sets alone", (groups is not None) != by_class
    if groups is not None:
        yield "group_of_class must have one entry for each class", len(groups) != n_classes
        own = grouping is not None and grouping.each_class and groups != tuple(range(n_classes))
        yield "group_of_class must name a group for each class", own or not all(-1 <= g < n_classes for g in groups)
        together = dict(zip(groups, pools, strict=True))
        shared = any(together[group] != pool for group, pool in zip(groups, pools, strict=True))
        yield "pool_sizes must be equal for the classes of a group", shared
    yield "classes must be one name for each class, all different", _bad_names(artifact.classes, n_classes)
    yield "sizes must count sets of 0 to n_classes labels", not 0 < len(artifact.sizes) <= n_classes + 1
    yield f"sizes must be from 0 to {MOST_HELD:,}", not _are_counts(artifact.sizes)
    rows = artifact.provenance.conformal_rows
    yield "sizes must count the conformal rows, at least one", sum(artifact.sizes) != rows or not rows
    yield "seed must fit 64 bits", artifact.seed is not None and not 0 <= artifact.seed < 2**64
    yield "scheme must be one that is known", artifact.scheme not in SCHEMES


def _of_members(artifact: Artifact) -> Broken:
    members, came = artifact.members, artifact.provenance
    if members:
        unfit = came.selection != "full" or came.recalibrated or artifact.grouping is not None
        yield "members must come from selection full alone", unfit
        temperatures = [member.temperature for member in members]
        yield f"temperatures must be {_TEMPERATURES}", not all(map(_is_temperature, temperatures))
        hat = [member.thresholds for member in members if member.temperature == artifact.temperature_sets]
        yield "members must hold T-hat and its threshold", hat != [artifact.thresholds]
        yield from broken_members(members, artifact.n_classes)


def _of_choice(artifact: Artifact) -> Broken:
    choice, curve = artifact.choice, artifact.choice.curve
    names = ["T = 1", "T*", "T-hat"]
    yield "choice must look at T = 1, T* and T-hat", [at.name for at in choice.outlooks] != names
    yield "choice must be that of the sets", choice.setting != artifact.setting or choice.alpha != artifact.alpha
    yield "choice must have a preference", _is_not(lambda: read_preference(choice.prefer) == choice.preference)
    yield "choice must have a selection", choice.selection not in SELECTIONS
    yield "choice must compare T-hat with T = 1 and T*", [at.name for at in choice.comparisons] != names[:2]
    looked = [at.temperature for at in (*choice.outlooks, *choice.frontier)]
    looked += [at.temperature for at in choice.comparisons]
    peak = [] if choice.peak is None else [choice.peak]
    others = (*looked, *(choice.spread or ()), *peak, *curve.temperatures)
    yield f"temperatures of choice must be {_TEMPERATURES}", not all(map(_is_temperature, others))
    lengths = {len(curve.temperatures), len(curve.size), len(curve.size_error), len(curve.loss)}
    yield "curve of choice must have one entry for each temperature", len(lengths) != 1 or lengths == {0}
    yield "temperatures of choice must rise", any(a >= b for a, b in pairwise(curve.temperatures))
    yield "n_rows of choice must count rows", not _are_counts([choice.n_rows])


def _of_provenance(artifact: Artifact) -> Broken:
    came, names = artifact.provenance, [measure.name for measure in artifact.measures]
    yield "measures must differ", len(set(names)) != len(names)
    yield "the coverage of sets by class is no measure", "coverage" in names and artifact.grouping is not None
    yield "objective must be nll or ece", came.objective not in ("nll", "ece")
    asked = (came.prefer, came.selection) != (artifact.choice.prefer, artifact.choice.selection)
    yield "choice must be what was asked for", asked
    yield "random_state must fit 64 bits", not 0 <= came.random_state < 2**64
    rows = came.calibration_rows, came.conformal_rows
    yield f"rows must be from 0 to {MOST_HELD:,}", not _are_counts(rows)
    fraction = came.calibration_fraction
    yield "calibration_fraction must be between 0 and 1", _is_not(lambda: bool(exact_level(fraction)))


_MOST_CLASSES = 10_000_000
_TEMPERATURES = f"finite and > 0, from {COLDEST:g} to {HOTTEST:g}"


def _is_temperature(value: float) -> bool:
    return COLDEST <= value <= HOTTEST


def _are_counts(values: Sequence[int]) -> bool:
    return all(0 <= value <= MOST_HELD for value in values)


def _is_not(holds: Callable[[], bool]) -> bool:
    """Whether something does not hold, or cannot be read."""
    try:
        return not holds()
    except InputError:
        return True


def _any_nan(values: NDArray[Any]) -> bool:
    return bool(np.isnan(values).any())


def _bad_names(classes: tuple[str, ...] | None, n_classes: int) -> bool:
    return classes is not None and (len(classes) != n_classes or len(set(classes)) != n_classes)
