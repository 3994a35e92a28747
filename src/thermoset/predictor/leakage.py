"""Data leakage: rows that a predictor was fitted on, among rows that should be fresh.

The document holds keys of its rows (`data.row_keys`), which match whatever file, order or type of floats the rows come
back in. Of long parts the smallest keys are kept: a random sample, which estimates the matched rows without bias.

Keys that several rows of a part share are not kept, and fresh rows match some of the others by chance: where p pairs of
n rows share a key, m fresh rows match about 2 p m / n keys (Good and Turing). Refused as leakage: at least 5 rows and
1% match, by more keys than chance explains (p < 0.0001); 90% match, by at least 20 keys; or rows and labels are, as a
whole, those of a part or of both. A warning: at least 3 rows match, and chance does not explain it (p < 0.01).
"""

import hashlib
import json
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import numpy as np

from thermoset.arrays import Block, Ints, Keys
from thermoset.data import Logits
from thermoset.data.splits import split_indices
from thermoset.errors import DataLeakageWarning, InputError
from thermoset.predictor.stored import pack, unpack
from thermoset.rows import map_rows, row_array

if TYPE_CHECKING:
    from thermoset.predictor.document import Document

MOST_KEYS = 32_768
"""Keys that are kept of the calibration rows, and as many of the conformal rows: 240 KB each."""
N_KEYS = 1 << 48
"""How many keys there are; see `data.row_keys`."""

_PIECE = 1 << 20  # keys that are compared at once: `isin` takes several times their memory
_Count = Annotated[int, msgspec.Meta(ge=0)]


class Match(NamedTuple):
    """How many rows match one part of a predictor's rows.

    `keys` counts the different keys they match by; `unexplained` says that chance does not explain so many, and
    `leaked` that the rows are the same.
    """

    rows: int = 0
    keys: int = 0
    leaked: bool = False
    unexplained: bool = False
    estimated: bool = False


class KeySample(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys below a bound (`N_KEYS`: all keys) that one row of a part has: `once` of them, ascending and packed.

    `pairs` of rows share a key below the bound.
    """

    below: Annotated[int, msgspec.Meta(gt=0, le=N_KEYS)]
    once: _Count
    pairs: _Count
    keys: bytes

    @classmethod
    def of(cls, keys: Keys, most: int = MOST_KEYS) -> "KeySample":
        """What is kept of the keys of rows."""
        bound = min(N_KEYS, N_KEYS * 4 * most // max(len(keys), 1) + 1)  # more than are kept: some are shared
        each, times = np.unique(keys[keys < bound], return_counts=True)
        alone = each[times == 1]
        # The first key that is not kept, itself no part of the sample: so the estimate has no bias.
        below = bound if len(alone) <= most else int(alone[most])
        pairs = int((each[times == 2] < below).sum())
        return cls(below=below, once=min(len(alone), most), pairs=pairs, keys=pack(alone[:most]))

    def numbers(self) -> Keys:
        """The keys."""
        return unpack(self.keys, self.once, MOST_KEYS, "row keys")

    def match(self, keys: Keys, n_rows: int) -> Match:
        """How many rows with these keys are among the `n_rows` rows that the sample is of."""
        from scipy.special import betainc  # noqa: PLC0415 - loading and predicting do without

        kept = self.numbers()
        pieces = (keys[start : start + _PIECE] for start in range(0, len(keys), _PIECE))
        same = np.concatenate([np.empty(0, np.uint64), *(some[np.isin(some, kept)] for some in pieces)])
        seen, n_keys = len(same), int(np.isin(kept, same).sum())
        # Matched keys and pairs are about Poisson, with means in the ratio 2 m / n to 1: given their sum, binomial.
        ratio = 2 * len(keys) / max(n_rows - 1, 1)
        p_value = float(betainc(n_keys, self.pairs + 1, ratio / (1 + ratio))) if n_keys else 1.0
        rows = min(round(seen * N_KEYS / self.below), len(keys))
        return Match(
            rows,
            n_keys,
            leaked=seen >= 5 and rows >= 0.01 * len(keys) and p_value < 1e-4,
            unexplained=n_keys > 0 and (self.pairs == 0 or p_value < 0.01),
            estimated=self.below < N_KEYS,
        )

    def cross_checks(self, n_rows: int) -> Iterator[tuple[bool, str]]:
        """What is wrong in a sample that was read from a file."""
        yield self.once + 2 * self.pairs > n_rows, "row keys must not outnumber the rows"
        keys = self.numbers()
        ascend = bool((keys[1:] > keys[:-1]).all()) and (not len(keys) or int(keys[-1]) < self.below)
        yield not ascend, "row keys must increase and stay below their bound"


class RowKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of the rows that chose the temperatures, and of those that set the threshold."""

    calibration: KeySample
    conformal: KeySample


class Leakage(NamedTuple):
    """How many of some rows a predictor was fitted on: those that chose its temperatures, or set its threshold."""

    rows: int
    calibration: Match
    conformal: Match

    @property
    def total(self) -> int:
        """How many rows match."""
        return min(self.calibration.rows + self.conformal.rows, self.rows)

    @property
    def leaked(self) -> bool:
        """Whether the predictor was fitted on rows among them."""
        return self.calibration.leaked or self.conformal.leaked

    @property
    def about(self) -> str:
        """The word before a number that is an estimate, because the document holds a sample of the keys."""
        return "about " if self.calibration.estimated or self.conformal.estimated else ""

    @property
    def sentence(self) -> str:
        """How many rows match, and what they did."""
        parts = f"{self.calibration.rows:,} chose the temperatures, {self.conformal.rows:,} set the threshold"
        return f"{self.about}{self.total:,} of {self.rows:,} rows were used to fit this predictor ({parts})"


def find_leakage(document: "Document", data: Logits, keys: Keys | None = None) -> Leakage:
    """How many of these rows, which need no labels, a predictor was fitted on; `keys` are theirs, where known."""
    came, n_rows = document.provenance, len(data)
    if data.labels is not None:  # the same as a whole, also where no row has a key of its own
        split = find_split(data, document)
        if split is not None:
            return Leakage(n_rows, *(Match(len(part), leaked=True) for part in split))
        parts = (came.calibration_rows, came.calibration_sha256), (came.conformal_rows, came.conformal_sha256)
        same = [n_rows == size and fingerprint(data) == sha256 for size, sha256 in parts]
        if any(same):
            return Leakage(n_rows, *(Match(n_rows if one else 0, leaked=one) for one in same))
    if keys is None:
        from thermoset.data.row_keys import row_keys  # noqa: PLC0415 - loading does without compiled code

        keys = row_keys(data)
    known = document.row_keys
    matches = known.calibration.match(keys, came.calibration_rows), known.conformal.match(keys, came.conformal_rows)
    leakage = Leakage(n_rows, *matches)
    # So many are never chance, however often rows repeat: at most 1 / e of fresh rows match keys that were seen once.
    if leakage.total >= 0.9 * n_rows and sum(match.keys for match in matches) >= 20:
        leakage = Leakage(n_rows, *(match._replace(leaked=match.rows > 0) for match in matches))
    return leakage


def refuse_leakage(document: "Document", data: Logits) -> None:
    """Refuse rows that a predictor was fitted on, where fresh ones are needed; warn of a few that may be the same."""
    leakage = find_leakage(document, data)
    if leakage.leaked:
        raise InputError(
            f"{leakage.sentence}, so coverage on them says nothing about fresh rows. Check rows that were not used."
        )
    if leakage.total >= 3 and (leakage.calibration.unexplained or leakage.conformal.unexplained):
        message = (
            f"{leakage.total:,} of {leakage.rows:,} rows have the same logits as rows that were used to fit this "
            "predictor. If they are the same rows, remove them."
        )
        warnings.warn(message, DataLeakageWarning, stacklevel=3)


def find_split(data: Logits, document: "Document", split_by: Any = None) -> tuple[Ints, Ints] | None:
    """Row numbers of the calibration and conformal rows, if these are all rows of `fit`, in their order."""
    came, seed = document.provenance, document.recipe.random_state
    if len(data) != came.calibration_rows + came.conformal_rows:
        return None
    calibration, conformal = split_indices(len(data), came.calibration_fraction, random_state=seed, split_by=split_by)
    same = fingerprint(data.take(calibration)) == came.calibration_sha256
    return (calibration, conformal) if same else None


def fingerprint(data: Logits) -> str:
    """SHA-256 of the rows, by way of the SHA-256 of each, and of their labels and class names."""
    digests = row_array((4, len(data)), np.uint64)
    map_rows(data, _row_digests, [digests])
    whole = hashlib.sha256(json.dumps([data.dtype.str, data.n_rows, data.n_classes, data.classes]).encode())
    for part in digests:
        whole.update(part.astype("<u8").data)
    whole.update(data.require_labels("a fingerprint").astype("<i8").data)
    return whole.hexdigest()


def _row_digests(block: Block) -> tuple[Keys]:
    """SHA-256 of each row, as four numbers, (4, n)."""
    rows = np.ascontiguousarray(block).astype(block.dtype.newbyteorder("<"), copy=False)
    digests = b"".join(hashlib.sha256(row.data).digest() for row in rows)
    return (np.frombuffer(digests, dtype="<u8").reshape(-1, 4).T.astype(np.uint64),)
