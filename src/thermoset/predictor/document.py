"""The predictor as a file: one JSON document.

Everything a prediction needs is in it, every float comes back exactly, and nothing in it is ever executed. A checksum
tells an edited or damaged file from a good one. There is no time stamp: the same rows and seed give the same file.
"""

import hashlib
import os
from pathlib import Path

import msgspec

from thermoset.conformal.methods import Method
from thermoset.conformal.recipe import Recipe
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import errors_about, read_at_most, write_whole
from thermoset.predictor.confidence import ConfidenceReference
from thermoset.predictor.kept_scores import GroupRows, KeptScores, group_rows
from thermoset.predictor.kept_weights import KeptWeights
from thermoset.predictor.label_shift import LabelShift, ShareReference
from thermoset.predictor.requirements import broken_requirements
from thermoset.predictor.thresholds import Thresholds
from thermoset.predictor.used_rows import UsedKeys
from thermoset.quoting import quoted, reason
from thermoset.scores import RankLimited, Score
from thermoset.tuning.choice import Choice, Setting

__all__ = [
    "SCHEMA",
    "UNDECIDED",
    "Document",
    "Measure",
    "Method",
    "Provenance",
    "checksum_of",
    "read_document",
    "write_document",
]

SCHEMA = 1
"""The schema that is written, and the only one that is read."""

UNDECIDED = "undecided_share"
"""The measure of predictors whose conformal rows held only their largest logits: how often bounds could not decide."""

_FORMAT = "thermoset predictor"
_MOST_BYTES = 2**28  # a document for 100,000 classes has some 10 MB

# Unknown fields are refused, because ignoring one could change a prediction.


class Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A number that was measured when the predictor was made, and its 95% interval where there is one."""

    name: str
    value: float
    low: float | None
    high: float | None


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a predictor came from: library, rows, and what was requested."""

    version: str
    calibration_rows: int
    calibration_sha256: str
    conformal_rows: int
    conformal_sha256: str
    objective: str
    prefer: str
    random_state: int
    calibration_fraction: str
    recalibrated: bool
    top_rows: bool
    """Whether the conformal rows held only their largest logits: coverage is then at least what is promised."""
    calibration_zero_labels: int
    """Calibration rows whose label has probability zero (a logit of -inf): T* by NLL leaves them out."""
    conformal_zero_labels: int
    """Conformal rows of this kind: they are misses, unless the threshold is infinite."""


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A fitted predictor.

    `alpha` is the promised level and `alpha_sets` the one that the threshold is set for, which may be stricter (see
    `ConformalClassifier.tighten`). `thresholds`, `pool_sizes` (rows behind each) and `group_of_class` are as in
    `CalibrationScores`, with thresholds for `group_names` where rows are grouped, and `fallback_threshold` for all
    other groups where there is a `fallback`; `rank_limits` are the last ranks of the labels of each class, where the
    grouping has such; `seed` is that of u, None for deterministic scores; `sizes[s]` counts the conformal rows with a
    set of size s, and is empty where the level was changed without them; `confidence` is what a monitor compares the
    confidence of later rows with, None where rows hold only their largest logits or have weights. The choice was made
    for a level of its own.
    `scores` are the label scores of the conformal rows, if they are kept. `shift` says for which class shares these
    rows are weighted, if they are: there is then a threshold for each class, all from the same rows. `shares` is what
    class shares of later rows are estimated from, None where they cannot be. `weights` are
    those of the conformal rows, where they were given: the threshold of a row then follows from its own weight, and
    `thresholds` is that of a row of average weight. `used` recognises the rows that made it. `input_kind` is
    what it was tuned on (see `data.input_kinds`), and other rows are refused.
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
    allow_empty: bool
    n_classes: int
    classes: tuple[str, ...] | None
    sizes: tuple[int, ...]
    choice: Choice
    measures: tuple[Measure, ...]
    provenance: Provenance
    used: UsedKeys
    input_kind: str
    group_names: tuple[str, ...] | None = None
    fallback: str | None = None
    fallback_threshold: Thresholds | None = None
    rank_limits: tuple[int, ...] | None = None
    confidence: ConfidenceReference | None = None
    scores: KeptScores | None = None
    shift: LabelShift | None = None
    shares: ShareReference | None = None
    weights: KeptWeights | None = None
    checksum: str = ""

    def __repr__(self) -> str:
        return (
            f"Document({self.method.title}, {self.n_classes:,} classes, alpha {self.alpha_sets}; T* = "
            f"{self.temperature:.3f}, T-hat = {self.temperature_sets:.3f})"
        )

    @property
    def is_plain(self) -> bool:
        """Whether the threshold is that of the promised level, not raised to protect classes."""
        return self.alpha_sets == self.alpha

    @property
    def is_weighted(self) -> bool:
        """Whether conformal rows count by weights, for other class shares or as they were given."""
        return self.shift is not None or self.weights is not None

    @property
    def rows_behind(self) -> GroupRows:
        """The conformal rows of each group, as scores are kept."""
        each = None if self.group_names is None else range(len(self.group_names))
        return group_rows(self.pool_sizes, self.group_of_class if each is None else each)

    @property
    def is_moved(self) -> bool:
        """Whether the level was changed after the choice, whose sizes and gaps are then about another one."""
        return self.choice.alpha != self.alpha

    @property
    def recipe(self) -> Recipe:
        """How its sets are made."""
        return self.recipe_with(self.score)

    @property
    def score(self) -> Score:
        """What its labels are compared by, but for whether sets may be empty."""
        own = self.method.score()
        return own if self.rank_limits is None else RankLimited(own, self.rank_limits)

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
            fallback=self.fallback,
        )


class _Head(msgspec.Struct):
    """What tells our files from others, and those of other schemas; read before the rest."""

    format: str = ""
    schema: int = 0


def write_document(path: str | os.PathLike[str], document: Document) -> None:
    """Write the document, whole or not at all."""
    if document.method.is_own:
        raise InputError(
            f"a predictor with a custom score ({quoted(document.method.title)}) cannot be saved: the file can only "
            "name built-in scores. Save the rows, and fit again."
        )
    target = Path(path)
    sealed = msgspec.structs.replace(document, checksum=checksum_of(document))
    content = msgspec.json.format(msgspec.json.encode(sealed), indent=1) + b"\n"
    with errors_about(target, "written"), write_whole(target) as stream:
        stream.write(content)


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read a document and check everything in it."""
    content = read_at_most(path, _MOST_BYTES)
    try:
        document = _decoded(content)
        _check(document)
    except InputError as error:  # a score's own complaint too: whatever is in the file is the file's fault
        raise FileFormatError(f"{path}: {error}") from None
    return document


def checksum_of(document: Document) -> str:
    """SHA-256 of everything in the document but the checksum itself."""
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(document, checksum=""))).hexdigest()


def _decoded(content: bytes) -> Document:
    try:
        head = msgspec.json.decode(content, type=_Head)
    except msgspec.ValidationError:
        head = _Head()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileFormatError(f"is not a JSON document, or is damaged ({reason(error)}).") from None
    if head.format != _FORMAT:
        raise FileFormatError("is not a predictor saved by thermoset.")
    if head.schema != SCHEMA:
        raise FileFormatError(
            f"was saved by a newer thermoset, or is damaged (schema {quoted(head.schema)}; this one reads schema "
            f"{SCHEMA}). Upgrade thermoset."
        )
    try:
        document = msgspec.json.decode(content, type=Document)
        fits = checksum_of(document) == document.checksum
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:  # whole numbers: 64 bits
        raise FileFormatError(f"is damaged or was edited: {reason(error)}.") from None
    if not fits:
        raise FileFormatError("is damaged or was edited: its checksum does not match. Save the predictor again.")
    return document


def _check(document: Document) -> None:
    """Refuse what fits the schema but makes no predictor."""
    document.method.score()
    for requirement, broken in broken_requirements(document):
        if broken:
            raise FileFormatError(f"is not a usable predictor: {requirement}.")
